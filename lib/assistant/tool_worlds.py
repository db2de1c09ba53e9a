"""Tool retrieval in each of the three named worlds (`lib.assistant.named_worlds`): is context needed where queries say
what they want?

Every world is asked in the same way: all its evaluation queries, and as many training queries for what is learned or
chosen. Context comes from semantic search by the pretrained encoder, which has learned from no label, and by the
paper's method, a LambdaMART learned in that world from its training queries.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from lib.assistant.cot import equal_shares
from lib.assistant.named_worlds import WORLDS
from lib.assistant.ranking_task import Learning, RankingTask
from lib.assistant.rrf_readings import WHOLE
from lib.assistant.schemas import WorldKnobs
from lib.assistant.sensitivity import embed_worlds, simulate_worlds
from lib.assistant.tool_ranker import (
    RankerTask,
    Source,
    context_features,
    lessons_of_training,
    run_by,
    tool_ranker_for,
    unseen_runs,
)
from lib.assistant.tool_retrieval import (
    ALL_ITEMS,
    ToolTask,
    context_words,
    task_of_world,
    tool_texts,
    with_words,
)
from lib.assistant.tool_search import (
    Option,
    ToolSearch,
    runs_of_plans,
    scores_beside_chance,
    semantic_runs,
    try_wordings,
)
from lib.retrieval.lambdamart import Taken
from lib.retrieval.stores import candidate_pairs, cosine_of_pairs, rank_pairs, seeded_order

ALONE, ORACLE = "query_only", "oracle_context"
CONTEXT, TUNED, OTHER = "query_plus_semantic_context", "query_plus_context", "query_plus_other_context"
RANKER_ALONE, RANKER_CONTEXT, RANKER_TUNED = (f"{setting}/lambdamart" for setting in (ALONE, CONTEXT, TUNED))
UNSEEN_ALONE, UNSEEN_TUNED = (f"{run}_unseen" for run in (RANKER_ALONE, RANKER_TUNED))
RANDOM, FREQUENCY, CLASSIFIER = (f"{ALONE}/{name}" for name in ("random", "frequency", "classifier"))
DEPTH = 10  # items of retrieved context
CONTEXT_CUTOFFS, CONTEXT_FOLDS = (3, 5, 10), 5  # of the LambdaMART of context, as in notebook 05
PLANNED = (ALONE, CONTEXT, TUNED, RANKER_ALONE, RANKER_CONTEXT, RANKER_TUNED)  # whose tools a planner is shown
RETRIEVED = {CONTEXT: "retrieved_context", TUNED: "retrieved_context_tuned"}  # among `for_planner`'s settings: items


def knobs_of_worlds(queries: pd.DataFrame, profile: str, seed: int) -> dict[str, WorldKnobs]:
    """Of each named world, at the size of a world that is there; all other knobs are the defaults.

    Args:
        queries: of the world that is there: columns persona, split.
    """
    n_personas, sides = max(8, queries["persona"].nunique()), queries["split"].value_counts()
    size = {
        "n_personas": n_personas,
        "n_training_queries": max(n_personas, int(sides.get("training", 0))),
        "n_evaluation_queries": max(1, int(sides.get("evaluation", 0))),
    }
    return {name: WorldKnobs(seed=seed, world=name, **size) for name in WORLDS}


def simulated(data: str | Path, queries: pd.DataFrame, profile: str, seed: int) -> dict[str, dict[str, pd.DataFrame]]:
    """The frames of each world of `knobs_of_worlds`, from what people wrote in the folder `data`; the same queries
    wherever these and the seed are the same."""
    knobs = knobs_of_worlds(queries, profile, seed)
    return dict(zip(knobs, simulate_worlds(data, list(knobs.values())), strict=True))


def asked_part(world: Mapping[str, pd.DataFrame], n_training: int, seed: int) -> dict[str, pd.DataFrame]:
    """A world with all evaluation queries, but only so many training personas, drawn with the seed, as have
    `n_training` queries; and the items of these personas with their log.

    Args:
        world: frames items, opens, queries, gold, other_plans, toolbox (see `lib.assistant.world.frames`).
    """
    queries = world["queries"]
    owners = queries.loc[queries["split"] == "training", "persona"]
    drawn = seeded_order(owners, seed)
    before = owners.value_counts().reindex(drawn).cumsum().shift(fill_value=0)
    taken = queries["persona"].isin(before.index[before < n_training]) | (queries["split"] == "evaluation")
    part = {"queries": queries[taken], "toolbox": world["toolbox"]}
    part["items"] = world["items"][world["items"]["persona"].isin(part["queries"]["persona"])]
    part["opens"] = world["opens"][world["opens"]["item"].isin(part["items"]["item"])]
    for name in ("gold", "other_plans"):
        part[name] = world[name][world[name]["query"].isin(part["queries"]["query"])]
    return {name: frame.reset_index(drop=True) for name, frame in part.items()}


def encode_unless_known(
    known: Sequence[str], vectors: np.ndarray, encode: Callable[[list[str]], np.ndarray]
) -> Callable[[list[str]], np.ndarray]:
    """An encoder that looks up the texts that are `known` by their rows of `vectors` and encodes the others."""
    row = {text: number for number, text in enumerate(known)}

    def looked_up(texts: list[str]) -> np.ndarray:
        rows = np.array([row.get(text, -1) for text in texts], dtype=int)
        found = vectors[np.maximum(rows, 0)]
        if (rows < 0).any():
            found[rows < 0] = encode([text for text, at in zip(texts, rows, strict=True) if at < 0])
        return found

    return looked_up


def embedded(
    worlds: Mapping[str, Mapping[str, pd.DataFrame]],
    known: Sequence[str],
    vectors: Sequence[np.ndarray],
    encode: Callable[[list[str]], np.ndarray],
) -> dict[str, dict[str, np.ndarray]]:
    """Embeddings of each world's items and queries, in frame order; texts that are `known` are looked up.

    Args:
        vectors: of the known texts, in parts that follow each other.
    """
    looked_up = encode_unless_known(known, np.concatenate(vectors), encode)
    return dict(zip(worlds, embed_worlds(list(worlds.values()), looked_up), strict=True))


@dataclass(frozen=True)
class Asking:
    """How tools are looked for in a world.

    Attributes:
        tool_wording: of the tools' texts (see `lib.assistant.tool_retrieval.tool_texts`).
        wording_queries: training queries on which the wording of context is chosen.
        cutoffs: values of K.
        seed: of the samples, the folds and the rankers.
        threads: of the rankers' training.
        encoder: name of the one that gives the embeddings.
        shipped: rankers that come with the project (`lib.workbook.parts.read_rankers`).
    """

    tool_wording: str
    wording_queries: int
    cutoffs: Sequence[int]
    seed: int
    threads: int = 1
    encoder: str = ""
    shipped: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


class ToolsFound(NamedTuple):
    """What was asked in a world, the wording of context chosen there, recall by evaluated query
    (`lib.assistant.tool_retrieval.tool_scores`), the rankings of the tools, and the rankers behind `RANKER_ALONE`,
    `RANKER_CONTEXT` and `RANKER_TUNED`."""

    task: ToolTask
    wording: Option
    scores: pd.DataFrame
    runs: dict[str, pd.DataFrame]
    rankers: dict[str, Taken]


def for_planner(found: Mapping[str, ToolsFound], depth: int = 20) -> pd.DataFrame:
    """What a planner in each world is shown for the evaluation queries: the first tools of the runs in `PLANNED`, and
    under the settings of `RETRIEVED` the items of the retrieved context.

    Args:
        depth: tools of each query.

    Returns:
        columns world, setting, query, item (an API, or an item), rank.
    """
    frames = []
    for world, part in found.items():
        runs, evaluated = {name: part.runs[name] for name in PLANNED}, part.task.evaluated["query"]
        for setting, name in RETRIEVED.items():
            context = part.task.contexts[setting]
            runs[name] = context[context["query"].isin(evaluated)]
        frames += [run[run["rank"] <= depth].assign(world=world, setting=name) for name, run in runs.items()]
    return pd.concat(frames, ignore_index=True)[["world", "setting", "query", "item", "rank"]]


def find_tools(
    world: Mapping[str, pd.DataFrame], vectors: Mapping[str, np.ndarray], encoder: Any, asking: Asking
) -> ToolsFound:
    """The paper's tool retrieval and a ranker learned from plans, each by the query alone, with context by search and
    by LambdaMART, search also with another query's and with the oracle's context; and floors that read no tool's text.

    Args:
        world: from `asked_part`.
        vectors: unit-length embeddings of items and queries, in frame order.
        encoder: that of `vectors`.
    """
    # The first is the one that `OTHER` exchanges between queries.
    contexts = {TUNED: _context_by_ranker(world, vectors, asking), CONTEXT: _context_by_search(world, vectors)}
    toolbox = world["toolbox"].assign(text=tool_texts(world["toolbox"], asking.tool_wording))
    queries, gold, items, others = (world[name] for name in ("queries", "gold", "items", "other_plans"))
    task = task_of_world(queries, gold, items, toolbox, contexts, asking.seed, others)
    search = ToolSearch.over(task.tools, encoder)
    training = task.training
    sample = equal_shares(training, training["kind"], asking.wording_queries, asking.seed).reset_index(drop=True)
    wording = try_wordings(search, task, sample, CONTEXT).best()
    runs, _ = semantic_runs(search, task, _search_texts(task, wording))
    asked, learned_from = (_vectors_of(part, world, vectors) for part in (task.evaluated, training))
    runs |= runs_of_plans(task, asked, learned_from, asking.seed)
    learned, rankers = _ranker_runs(world, vectors, task, search.vectors, asking)
    scores = scores_beside_chance(runs | learned, task, asking.cutoffs, asking.seed)
    return ToolsFound(task, wording, scores, runs | learned, rankers)


def _vectors_of(
    asked: pd.DataFrame, world: Mapping[str, pd.DataFrame], vectors: Mapping[str, np.ndarray]
) -> np.ndarray:
    return vectors["queries"][pd.Index(world["queries"]["query"]).get_indexer(asked["query"])]


def _context_by_search(world: Mapping[str, pd.DataFrame], vectors: Mapping[str, np.ndarray]) -> pd.DataFrame:
    pairs = candidate_pairs(world["queries"], world["items"], on="persona")
    ranked = rank_pairs(pairs, cosine_of_pairs(pairs, vectors["queries"], vectors["items"]))
    return ranked[ranked["rank"] <= DEPTH]


def _context_by_ranker(
    world: Mapping[str, pd.DataFrame], vectors: Mapping[str, np.ndarray], asking: Asking
) -> pd.DataFrame:
    """By a LambdaMART learned in the world; of its training queries each by one that saw none of its persona's."""
    learning = Learning(CONTEXT_CUTOFFS, asking.seed, CONTEXT_FOLDS, asking.threads)
    fitted = RankingTask.of_world(world, vectors, learning).fit()
    ranked = pd.concat([fitted.training[WHOLE], fitted.evaluation[WHOLE]], ignore_index=True)
    return ranked[ranked["rank"] <= DEPTH]


def _search_texts(task: ToolTask, wording: Option) -> dict[str, list[str]]:
    texts = {ALONE: task.evaluated["text"].tolist()}
    for setting in (CONTEXT, TUNED, OTHER, ORACLE):
        how, n = wording if setting != ORACLE else (wording[0], ALL_ITEMS)
        texts[setting] = with_words(task.evaluated, context_words(task.contexts[setting], how, n))
    return texts


def _ranker_runs(
    world: Mapping[str, pd.DataFrame],
    vectors: Mapping[str, np.ndarray],
    task: ToolTask,
    tool_vectors: np.ndarray,
    asking: Asking,
) -> tuple[dict[str, pd.DataFrame], dict[str, Taken]]:
    asked = _vectors_of(task.queries, world, vectors)
    phrasing = world["gold"].set_index("query")["phrasing"]
    ranking = RankerTask.of(task, phrasing, asked, tool_vectors, max(asking.cutoffs), asking.seed, asking.threads)
    told = {
        setting: context_features(ranking, task.contexts[setting], world["items"], vectors["items"], tool_vectors)
        for setting in (CONTEXT, TUNED)
    }
    lessons = lessons_of_training(ranking)
    unlogged = {name: frame for name, frame in world.items() if name != "opens"}  # semantic search reads no log
    sources = {
        CONTEXT: Source.of_world("semantic", asking.encoder, unlogged),
        TUNED: Source.of_world("lambdamart", asking.encoder, world),
    }
    seen = {ALONE: None, **told}
    rankers = {}
    for setting, features in seen.items():
        source = sources.get(setting, sources[CONTEXT])
        rankers[f"{setting}/lambdamart"] = tool_ranker_for(asking.shipped, lessons, features, source)
    runs = {f"{name}/lambdamart": run_by(rankers[f"{name}/lambdamart"].ranker, lessons, seen[name]) for name in seen}
    runs |= unseen_runs(ranking, {ALONE: None, TUNED: told[TUNED]})
    return runs, rankers
