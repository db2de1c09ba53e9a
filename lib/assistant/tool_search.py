"""Searches over a toolbox, and which wording of context serves them best: frames in, rankings and scores out.

Runs are named after what is searched with (see `lib.assistant.tool_retrieval.setting_texts`); where it is not semantic
search that ranks, the retriever follows after a slash, as in `query_only/bm25t`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from lib.assistant.tool_retrieval import (
    WORDINGS,
    ToolTask,
    chance_of_any_plan,
    context_words,
    random_app_recall,
    scores_on_unseen_needs,
    tool_pairs,
    tool_scores,
    trained_scores,
    with_words,
)
from lib.evaluation.comparison import random_order_scores
from lib.retrieval.dense import encode
from lib.retrieval.fusion import fuse_runs
from lib.retrieval.stores import bm25t_scores, cosine_of_pairs, rank_pairs

ITEM_NUMBERS = (1, 3, 5)  # how many context items are put into words
TRIED_CUTOFFS = (3, 5, 10)
TEXT_SEARCHED = (
    "query_only",
    "query_plus_context",
    "oracle_context",
)  # settings that other retrievers search with, too


@dataclass(frozen=True)
class ToolSearch:
    """Semantic search over a toolbox.

    Attributes:
        encoder: see `lib.retrieval.dense.load_encoder`.
        tools: columns item (name of the API), text.
        vectors: unit-length embeddings of the tools' texts, (tools, dimensions).
        progress: whether encoding shows a bar.
    """

    encoder: Any
    tools: pd.DataFrame
    vectors: np.ndarray
    progress: bool = False

    @classmethod
    def over(cls, tools: pd.DataFrame, encoder: Any, progress: bool = False) -> ToolSearch:
        return cls(encoder, tools, encode(encoder, tools["text"].tolist()), progress)

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        return encode(self.encoder, texts, progress=self.progress)

    def rank(self, queries: pd.DataFrame, vectors: np.ndarray) -> pd.DataFrame:
        """All tools ranked for each query (column query) by cosine with its row of `vectors`."""
        pairs = tool_pairs(queries, self.tools)
        return rank_pairs(pairs, cosine_of_pairs(pairs, vectors, self.vectors))

    def __call__(self, queries: pd.DataFrame, texts: Sequence[str]) -> pd.DataFrame:
        """All tools ranked for each query, searched with its text among `texts`."""
        return self.rank(queries, self.encode(texts))


# ---------------------------------------------------------------- the wording of context


Option = tuple[str, int]  # a wording (one of WORDINGS) and the number of items put into words


def option_name(option: Option) -> str:
    return f"{option[0]}|{option[1]}"


@dataclass(frozen=True)
class WordingTrial:
    """How well tools are found on training queries with each wording of context.

    Attributes:
        queries: the training queries.
        context: their context (see `ToolTask.contexts`).
        words: for each option the words by query; missing where there is no context.
        runs: rankings of tools by name of the option, and of `query_only`.
        recall: percent; a row a run, a column for each of `TRIED_CUTOFFS`, and their `mean`.
    """

    queries: pd.DataFrame
    context: pd.DataFrame
    words: dict[Option, pd.Series]
    runs: dict[str, pd.DataFrame]
    recall: pd.DataFrame

    def best(self) -> Option:
        """The option of highest mean recall."""
        return max(self.words, key=lambda option: self.recall.loc[option_name(option), "mean"])


def try_wordings(search: ToolSearch, task: ToolTask, queries: pd.DataFrame, setting: str) -> WordingTrial:
    """Every wording of a setting's context with every number of items, and the query alone. What is found counts by the
    labelled plans alone, as in all that is learned from training queries; other plans count where methods are judged.
    """
    context = task.contexts[setting]
    options = [(wording, n) for wording in WORDINGS for n in ITEM_NUMBERS]
    words = {option: context_words(context, *option).reindex(queries["query"]) for option in options}
    runs = {option_name(option): search(queries, with_words(queries, part)) for option, part in words.items()}
    runs["query_only"] = search(queries, queries["text"].tolist())
    labelled = replace(task, also=task.also.iloc[:0])
    scores = tool_scores(runs, labelled, queries["query"].tolist(), TRIED_CUTOFFS)
    recall = scores.mean().unstack("metric")["recall"].unstack("k")
    return WordingTrial(queries, context, words, runs, recall.assign(mean=recall.mean(axis=1)))


# ---------------------------------------------------------------- runs over the evaluated queries


def semantic_runs(
    search: ToolSearch, task: ToolTask, texts: Mapping[str, Sequence[str]]
) -> tuple[dict[str, pd.DataFrame], dict[str, np.ndarray]]:
    """Semantic search with each setting's texts, and their embeddings.

    Args:
        texts: for each setting one text for each evaluated query.
    """
    # A text that several settings share is encoded once.
    stacked = search.encode([text for part in texts.values() for text in part])
    vectors = dict(zip(texts, np.split(stacked, len(texts)), strict=True))
    return {setting: search.rank(task.evaluated, part) for setting, part in vectors.items()}, vectors


def lexical_runs(
    task: ToolTask, texts: Mapping[str, Sequence[str]], semantic: Mapping[str, pd.DataFrame]
) -> dict[str, pd.DataFrame]:
    """BM25T with each of the texts of `TEXT_SEARCHED`, and its fusion with semantic search (`…/bm25t`, `…/rrf`)."""
    asked, documents = task.evaluated, task.tools.assign(toolbox=0)
    pairs, runs = tool_pairs(asked, task.tools), {}
    for setting in (name for name in TEXT_SEARCHED if name in texts):
        scores = bm25t_scores(pairs, asked.assign(text=texts[setting]), documents, within=["toolbox"])
        runs[f"{setting}/bm25t"] = rank_pairs(pairs, scores)
        runs[f"{setting}/rrf"] = fuse_runs([semantic[setting], runs[f"{setting}/bm25t"]])
    return runs


def runs_of_plans(
    task: ToolTask, vectors: np.ndarray, training_vectors: np.ndarray, seed: int
) -> dict[str, pd.DataFrame]:
    """Rankings by what has learned from training plans instead of the tools' texts: `query_only/frequency`,
    `query_only/classifier`, and both where no evaluated query's need was learned from (`…_unseen`).

    Args:
        vectors, training_vectors: embeddings of the evaluated and of the training queries.
        seed: of the classifier and the folds of needs.
    """
    known = pd.Index(task.training["query"])
    pairs = tool_pairs(task.evaluated, task.tools)
    scores = trained_scores(pairs, vectors, task.gold, known, training_vectors)
    needs = task.queries.set_index("query")["need"]
    unseen = scores_on_unseen_needs(pairs, vectors, task.gold, known, training_vectors, needs, seed)
    scores |= {f"{name}_unseen": part for name, part in unseen.items()}
    return {f"query_only/{name}": rank_pairs(pairs, part) for name, part in scores.items()}


def scores_beside_chance(
    runs: Mapping[str, pd.DataFrame], task: ToolTask, cutoffs: Sequence[int], seed: int
) -> pd.DataFrame:
    """`tool_scores` of the evaluated queries, with what a random order finds in expectation as `query_only/random`.

    Args:
        seed: of the random orders.
    """
    wanted = task.evaluated["query"].tolist()
    scores = tool_scores(runs, task, wanted, cutoffs)
    n_gold = task.gold["query"].value_counts().reindex(wanted, fill_value=0)
    chance = random_order_scores([len(task.tools)] * len(wanted), n_gold, cutoffs, seed=seed)
    chance = chance.xs("recall", axis=1, level="metric", drop_level=False).set_index(scores.index)
    rng, number = np.random.default_rng(seed), {name: place for place, name in enumerate(task.tools["item"])}
    for query in task.also.loc[task.also["query"].isin(wanted), "query"].unique():
        plans = [[number[item] for item in plan] for plan in task.plans_of(query)]
        chance.loc[query] = chance_of_any_plan(plans, len(task.tools), cutoffs, rng)
    if len(task.gold_apps):
        chance = chance.join(random_app_recall(task, wanted, cutoffs))
    return scores.join(chance.rename(columns={"random": "query_only/random"}, level="method"))
