"""Tool retrieval: which of a toolbox's APIs does a query need, with or without context in words?

Frames in, frames out. In a ranking of tools `item` is an API's name, and a query's candidates are all tools.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from lib.assistant.chains import augment, equal_shares, other_rows
from lib.assistant.queries import qrels_of
from lib.assistant.ranking import RankingTask
from lib.assistant.schemas import APP_NAMES, WorldKnobs
from lib.assistant.tool_ranker import NO_FOLD, PlanLessons, RankerTask, context_source, tool_pairs, tool_ranker_source
from lib.assistant.toolbox import DEFAULT_API, Toolbox
from lib.assistant.world import frames as world_frames
from lib.assistant.world import simulate
from lib.evaluation.comparison import per_query_scores, summarise
from lib.evaluation.inference import Resampling
from lib.retrieval.lambdamart import Taken
from lib.retrieval.stores import bm25t_scores, candidate_pairs, cosine_of_pairs, rank_pairs, seeded_order
from lib.workbook.inputs import InputError, did_you_mean

# What is ranked with: the query alone, or with context beside it.
ALONE, CONTEXT, BY_SEARCH = "query_only", "query_plus_context", "query_plus_semantic_context"
OTHERS, ORACLE = "query_plus_other_context", "oracle_context"
# What is said of a context item (columns app, title, text), and of how many.
WORDINGS: dict[str, Callable[[pd.DataFrame], pd.Series]] = {
    "app": lambda items: items["app"].map(APP_NAMES),
    "title": lambda items: items["title"],
    "text": lambda items: items["text"],
    "app: title": lambda items: items["app"].map(APP_NAMES) + ": " + items["title"],
    "app: text": lambda items: items["app"].map(APP_NAMES) + ": " + items["text"],
}
TRIED_NUMBERS = (1, 3, 5)
ALL_ITEMS = 10**6
TRIED_CUTOFFS = (3, 5, 10)
DEPTH = 10  # items of retrieved context
CONTEXT_FOLDS = 5  # of personas, in which a LambdaMART of context is cross-fitted, as in notebook 05
DRAWS = 1000  # random orders behind what chance finds of the best of several plans


@dataclass(frozen=True, kw_only=True)
class ToolWorld(RankerTask):
    """What tool retrieval is asked, wherever it comes from, and how.

    Attributes:
        queries: of a file they have neither need, kind nor phrasing, and themselves as persona; tools have no apps.
        encode: texts to unit-length embeddings, (texts, dimensions).
        also: columns query, plan, item, one row for each API of a plan that serves a query as well as the gold one;
            `plan` numbers those of a query.
        gold_apps: columns query, item, one row for each of a query's apps; empty without apps.
        items: columns item, app, title, text, of the context; with `item_vectors`.
        contexts: for each setting columns query, item, rank.
        learned: by setting, what retrieved its context for both sides, and from what (see `tool_ranker_source`); that
            of training queries without having seen them, so that rankers may learn from it.
        wording: how context is put into words, one of `WORDINGS`, and the number of items that are.
        shipped: rankers of tools that come with the project (`lib.workbook.parts.read_rankers`).
    """

    encode: Callable[[list[str]], np.ndarray]
    also: pd.DataFrame = field(default_factory=lambda: pd.DataFrame(columns=["query", "plan", "item"]))
    gold_apps: pd.DataFrame = field(default_factory=lambda: pd.DataFrame(columns=["query", "item"], dtype=str))
    items: pd.DataFrame = field(default_factory=pd.DataFrame)
    item_vectors: np.ndarray = field(default_factory=lambda: np.empty((0, 0)))
    contexts: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    learned: Mapping[str, tuple[str, Sequence[pd.DataFrame]]] = field(default_factory=dict)
    wording: tuple[str, int] = ("app: text", 3)
    shipped: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        frames: Mapping[str, pd.DataFrame],
        vectors: Mapping[str, np.ndarray],
        contexts: Mapping[str, pd.DataFrame],
        encode: Callable[[list[str]], np.ndarray],
        **how,
    ) -> ToolWorld:
        """The simulated world, or one's own in the same files.

        Args:
            frames: queries, gold, items, opens, toolbox and other_plans, as notebook 01 writes them.
            vectors: unit-length embeddings of queries and items, in frame order.
            contexts: that of `CONTEXT` by LambdaMART, of `BY_SEARCH` by semantic search, which reads no log; others are
                not learned from.
            how: encoder (its name), seed, threads, shipped.
        """
        gold, toolbox, queries = frames["gold"], frames["toolbox"], frames["queries"]
        labels = gold[["query", "need", "kind", "phrasing"]].astype({"kind": str})
        asked = queries[["query", "text", "split", "persona"]].merge(labels, on="query")
        tools = toolbox.assign(text=tool_texts(toolbox)).rename(columns={"api": "item"})[["item", "app", "text"]]
        others = frames["other_plans"]
        sources = {
            CONTEXT: ("lambdamart", context_source(frames)),
            BY_SEARCH: ("semantic", context_source(frames, False)),
        }
        return cls(
            queries=asked,
            tools=tools,
            gold=tools_of_plans(gold, ["query"]),
            vectors=vectors["queries"][pd.Index(queries["query"]).get_indexer(asked["query"])],
            tool_vectors=encode(tools["text"].tolist()),
            encode=encode,
            also=tools_of_plans(others.assign(plan=others.groupby("query").cumcount()), ["query", "plan"]),
            gold_apps=gold[["query", "apps"]].explode("apps").rename(columns={"apps": "item"}).reset_index(drop=True),
            items=frames["items"],
            item_vectors=vectors["items"],
            contexts=contexts,
            learned={setting: source for setting, source in sources.items() if setting in contexts},
            **how,
        )

    @classmethod
    def of_functions(
        cls, queries: pd.DataFrame, toolbox: Toolbox, encode: Callable[[list[str]], np.ndarray], seed: int = 0
    ) -> ToolWorld:
        """A file of queries over function definitions: all are evaluated, and there is no context.

        Args:
            queries: columns query, text, apis, place (see `lib.assistant.functions.read_function_queries`).

        Raises:
            InputError: a query's gold API is not in the toolbox; names both, and the query's place.
        """
        for query, apis, place in zip(queries["query"], queries["apis"], queries["place"], strict=True):
            if unknown := [api for api in apis if api not in toolbox and api != DEFAULT_API]:
                close = did_you_mean(unknown[0], toolbox.apis)
                raise InputError(
                    f"{place}, query {query}: its answer calls {unknown[0]}, which is not in the toolbox{close}"
                )
        return cls(
            queries=queries[["query", "text"]].assign(split="evaluation", persona=queries["query"]),
            tools=pd.DataFrame([(api.api, api.app, api.text) for api in toolbox], columns=["item", "app", "text"]),
            gold=tools_of_plans(queries, ["query"]),
            vectors=encode(queries["text"].tolist()),
            tool_vectors=encode([api.text for api in toolbox]),
            encode=encode,
            seed=seed,
        )

    def side(self, split: str = "evaluation") -> pd.DataFrame:
        """The training or the evaluation queries, numbered anew."""
        return self.queries[self.queries["split"] == split].reset_index(drop=True)

    @property
    def units(self) -> np.ndarray:
        """What is resampled, a label for each evaluated query: topics, or the queries of a file."""
        return self.side()["need" if "need" in self.queries else "query"].to_numpy()

    def texts(self, setting: str, queries: pd.DataFrame) -> list[str]:
        """What is searched with: each query's text, and its context in words; of the oracle's all items are worded."""
        if setting == ALONE:
            return queries["text"].tolist()
        how, n = self.wording
        shown = self.contexts[setting].merge(self.items[["item", "app", "title", "text"]], on="item")
        return with_words(queries, context_words(shown, how, ALL_ITEMS if setting == ORACLE else n))

    @cached_property
    def asked_vectors(self) -> dict[str, np.ndarray]:
        """Embeddings of what the evaluated queries are searched with, by setting. All texts are encoded at once: with
        which others one is encoded decides its last bits, and these may decide between two tools."""
        texts = {setting: self.texts(setting, self.side()) for setting in (ALONE, *self.contexts)}
        stacked = self.encode([text for part in texts.values() for text in part])
        return dict(zip(texts, np.split(stacked, len(texts)), strict=True))

    @cached_property
    def lessons(self) -> dict[str, PlanLessons]:
        """What plans teach, for known and for new topics."""
        return {topics: PlanLessons.of(self, topics) for topics in ("known", "new")}

    @cached_property
    def features(self) -> dict[str, pd.DataFrame | None]:
        """What a ranker sees of the context, by setting; of the query alone nothing."""
        seen = (self.items, self.item_vectors)
        return {ALONE: None} | {name: self.context_features(self.contexts[name], *seen) for name in self.learned}

    @cached_property
    def rankers(self) -> dict[str, Taken]:
        """A ranker of known topics by setting: the shipped one that learned from this very task, else one that is
        trained here."""
        taken = {}
        for name, seen in self.features.items():
            key = tool_ranker_source(self, seen, *self.learned.get(name, ()))
            taken[name] = Taken.of(self.shipped, key, partial(self.lessons["known"].ranker, seen), self.threads)
        return taken


def tools_of_plans(plans: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Columns `by` and item: the distinct APIs of plans (columns `by` and apis), of which `default` is none."""
    pairs = plans[[*by, "apis"]].explode("apis").rename(columns={"apis": "item"}).drop_duplicates()
    return pairs[pairs["item"] != DEFAULT_API].dropna().reset_index(drop=True)


# ---------------------------------------------------------------- texts


def tool_texts(toolbox: pd.DataFrame) -> list[str]:
    """What search sees of each tool: the form of appendix A.3, which names the app, then its arguments. A description
    in this form stays, and so does the text of a tool without an app.

    Args:
        toolbox: as notebook 01 writes it: columns app, text, function (a definition as JSON).
    """
    texts = []
    for app, text, definition in zip(toolbox["app"], toolbox["text"], toolbox["function"], strict=True):
        if app in APP_NAMES:
            function = json.loads(definition)
            text = function["description"].strip()
            if "API is used to" not in text:
                text = f"{APP_NAMES[app]} App's {function['name']} API is used to {text[:1].lower()}{text[1:]}"
            properties = function.get("parameters", {}).get("properties", {})
            text += " " + "; ".join(f"{name}: {schema['description']}" for name, schema in properties.items())
        texts.append(text.strip())
    return texts


def context_words(context: pd.DataFrame, wording: str, n_items: int) -> pd.Series:
    """The first `n_items` context items of each query in words, best first, each wording once; indexed by query.

    Args:
        context: columns query, rank, and those that the wording needs of app, title and text.
        wording: one of `WORDINGS`.
    """
    first = context[context["rank"] <= n_items].sort_values(["query", "rank"])
    first = first.assign(words=WORDINGS[wording](first)).drop_duplicates(["query", "words"])
    return first.groupby("query")["words"].agg(", ".join)


def with_words(queries: pd.DataFrame, words: pd.Series) -> list[str]:
    """Each query's text followed by its words, if it has any."""
    return augment(queries["text"], words.reindex(queries["query"]).fillna(""))


def best_wording(world: ToolWorld, setting: str, n_queries: int) -> tuple[str, int]:
    """The wording of a setting's context and the number of items with the highest mean recall of tools at K = 3, 5 and
    10 over a sample of training queries, by the labelled plans alone; other plans count where methods are judged."""
    training = world.side("training")
    sample = equal_shares(training, training["kind"], n_queries, world.seed).reset_index(drop=True)
    options = [(wording, n) for wording in WORDINGS for n in TRIED_NUMBERS]
    texts = [replace(world, wording=option).texts(setting, sample) for option in options]
    runs = {number: rank_by_cosine(world, sample, world.encode(part)) for number, part in enumerate(texts)}
    labelled = replace(world, also=world.also.iloc[:0], gold_apps=world.gold_apps.iloc[:0])
    mean = recall_of_tools(runs, labelled, sample["query"].tolist(), TRIED_CUTOFFS).mean().groupby("method").mean()
    return options[mean.idxmax()]


# ---------------------------------------------------------------- contexts: columns query, item, rank


def retrieved_contexts(
    frames: Mapping[str, pd.DataFrame], vectors: Mapping[str, np.ndarray], seed: int, threads: int
) -> dict[str, pd.DataFrame]:
    """The first items of each query of a world by setting: by a LambdaMART that learns in it, of training queries each
    by one that saw none of its persona's; and by semantic search, which learns from no label."""
    task = RankingTask.of_world(frames, vectors, max(TRIED_CUTOFFS), seed, CONTEXT_FOLDS, threads)
    _, scores = task.fit()
    learned = pd.concat([task.rank(scores, task.training), task.rank(scores)], ignore_index=True)
    pairs = candidate_pairs(frames["queries"], frames["items"], on="persona")
    searched = rank_pairs(pairs, cosine_of_pairs(pairs, vectors["queries"], vectors["items"]))
    return {setting: run[run["rank"] <= DEPTH] for setting, run in ((CONTEXT, learned), (BY_SEARCH, searched))}


def context_controls(frames: Mapping[str, pd.DataFrame], run: pd.DataFrame, seed: int) -> dict[str, pd.DataFrame]:
    """For the evaluation queries of a world: what `run` retrieved for another one of them, each query's context taken
    once, and all relevant items, in the order of their ids; that of the labels starts with the plan's item."""
    gold = frames["gold"]
    asked = frames["queries"].merge(gold[["query"]], on="query")
    asked = asked.loc[asked["split"] == "evaluation", "query"].to_numpy()
    owner = pd.Series(asked, index=asked[other_rows(len(asked), seed)])
    others = run[run["query"].isin(owner.index)]
    pairs = qrels_of(gold[gold["split"] == "evaluation"]).sort_values(["query", "item"], ignore_index=True)
    return {
        OTHERS: others.assign(query=others["query"].map(owner)),
        ORACLE: pairs.assign(rank=pairs.groupby("query").cumcount() + 1),
    }


def named_world(data: str | Path, name: str, queries: pd.DataFrame, seed: int) -> dict[str, pd.DataFrame]:
    """The frames of a named world, at the size of a world that is there; all other knobs are the defaults. The same
    queries wherever what people wrote and the seed are the same.

    Args:
        data: folder of what people wrote.
        queries: of the world that is there: columns persona, split.
    """
    n_personas, sides = max(8, queries["persona"].nunique()), queries["split"].value_counts()
    size = {
        "n_personas": n_personas,
        "n_training_queries": max(n_personas, int(sides.get("training", 0))),
        "n_evaluation_queries": max(1, int(sides.get("evaluation", 0))),
    }
    return world_frames(simulate(data, WorldKnobs(seed=seed, world=name, **size)))


def asked_part(frames: Mapping[str, pd.DataFrame], n_training: int, seed: int) -> dict[str, pd.DataFrame]:
    """A world with all evaluation queries, but only so many training personas, drawn with the seed, as have
    `n_training` queries; and the items of these personas with their log.

    Args:
        frames: items, opens, queries, gold, other_plans, toolbox (see `lib.assistant.world.frames`).
    """
    queries = frames["queries"]
    owners = queries.loc[queries["split"] == "training", "persona"]
    drawn = seeded_order(owners, seed)
    before = owners.value_counts().reindex(drawn).cumsum().shift(fill_value=0)
    taken = queries["persona"].isin(before.index[before < n_training]) | (queries["split"] == "evaluation")
    part = {"queries": queries[taken], "toolbox": frames["toolbox"]}
    part["items"] = frames["items"][frames["items"]["persona"].isin(part["queries"]["persona"])]
    part["opens"] = frames["opens"][frames["opens"]["item"].isin(part["items"]["item"])]
    for name in ("gold", "other_plans"):
        part[name] = frames[name][frames[name]["query"].isin(part["queries"]["query"])]
    return {name: frame.reset_index(drop=True) for name, frame in part.items()}


# ---------------------------------------------------------------- rankings


def rank_tools(setting: str, world: ToolWorld, retriever: str = "semantic", topics: str = "known") -> pd.DataFrame:
    """All tools ranked for each evaluated query.

    Args:
        setting: what is ranked with: `ALONE`, or one of `world.contexts`.
        retriever: semantic or bm25t, as the paper searches; frequency or classifier, which know training plans and no
            tool's text; lambdamart, our ranker.
        topics: `known`, or `new`: what has learned from plans has learned from other topics than it is asked about.

    Returns:
        columns query, item, rank, score.
    """
    queries = world.side()
    if retriever == "semantic":
        return rank_by_cosine(world, queries, world.asked_vectors[setting])
    if retriever == "bm25t":
        pairs, texts = tool_pairs(queries, world.tools), world.texts(setting, queries)
        tools = world.tools.assign(toolbox=0)
        return rank_pairs(pairs, bm25t_scores(pairs, queries.assign(text=texts), tools, within=["toolbox"]))
    lessons = world.lessons[topics]
    if retriever == "lambdamart":
        return lessons.rank(world.features[setting], world.rankers[setting].ranker if topics == "known" else None)
    asked = world.of_pairs(~world.training)
    return rank_pairs(world.pairs[asked], lessons.features(NO_FOLD)[retriever].to_numpy()[asked])


def run_name(setting: str, retriever: str, topics: str = "known") -> str:
    """What a ranking is called in scores: the setting alone where it is by semantic search, and its topics at the end
    where these are new."""
    name = setting if retriever == "semantic" else f"{setting}/{retriever}"
    return name if topics == "known" else f"{name}/{topics}"


def rank_by_cosine(world: ToolWorld, queries: pd.DataFrame, vectors: np.ndarray) -> pd.DataFrame:
    """All tools ranked for each query by the cosine with its row of `vectors`."""
    pairs = tool_pairs(queries, world.tools)
    return rank_pairs(pairs, cosine_of_pairs(pairs, vectors, world.tool_vectors))


# ---------------------------------------------------------------- scores


def recall_of_tools(
    runs: Mapping[Any, pd.DataFrame], world: ToolWorld, queries: Sequence[str], cutoffs: Sequence[int]
) -> pd.DataFrame:
    """Recall in percent, one row a query, columns (method, metric, k): `recall` of the gold APIs and, where tools have
    apps, `app_recall`, the share of a query's apps among the apps of its first k tools.

    Where other plans do as well, `recall` is that of the plan of which most is found. A query that no tool fits has
    nothing to find and counts with a recall of 0.
    """

    def recall_of(runs: Mapping[Any, pd.DataFrame], relevant: pd.DataFrame, queries: Sequence[str]) -> pd.DataFrame:
        scores = per_query_scores(runs, relevant, queries, cutoffs)
        return scores.xs("recall", axis=1, level="metric", drop_level=False)

    recall = recall_of(runs, world.gold, queries)
    for _, plan in world.also[world.also["query"].isin(queries)].groupby("plan"):
        served = plan["query"].unique().tolist()
        recall.loc[served] = np.maximum(recall.loc[served], recall_of(runs, plan, served))
    if not len(world.gold_apps):
        return recall
    apps = {}
    for name, run in runs.items():  # an app stands at the rank of its first tool, so that a cutoff still counts tools
        of_tools = run.assign(item=run["item"].map(world.tools.set_index("item")["app"]))
        apps[name] = of_tools.sort_values(["query", "rank"]).drop_duplicates(["query", "item"])
    of_apps = recall_of(apps, world.gold_apps, queries)
    return pd.concat([recall, of_apps.rename(columns={"recall": "app_recall"}, level="metric")], axis=1)


def scores_beside_chance(runs: Mapping[str, pd.DataFrame], world: ToolWorld, cutoffs: Sequence[int]) -> pd.DataFrame:
    """`recall_of_tools` of the evaluated queries, with what a random order finds in expectation as `query_only/random`:
    the first k of N tools hold a plan's share k / N; of the best of several plans, it is the mean over `DRAWS` orders.
    """
    wanted, n_tools = world.side()["query"].tolist(), len(world.tools)
    number = {name: place for place, name in enumerate(world.tools["item"])}
    plans = pd.concat([world.gold.assign(plan=-1), world.also]).groupby(["query", "plan"])["item"]
    by_number = plans.agg(lambda items: [number[item] for item in items]).groupby("query").agg(list)
    rng, chance = np.random.default_rng(world.seed), np.zeros((len(wanted), len(cutoffs)))
    for row, several in enumerate(by_number.reindex(wanted)):
        if not isinstance(several, list):
            continue
        if len(several) == 1:
            chance[row] = 100 * np.asarray(cutoffs) / n_tools
        else:
            rank = rng.permuted(np.tile(np.arange(n_tools), (DRAWS, 1)), axis=1)
            best = [np.max([(rank[:, plan] < k).mean(axis=1) for plan in several], axis=0) for k in cutoffs]
            chance[row] = 100 * np.mean(best, axis=1)
    scores = recall_of_tools(runs, world, wanted, cutoffs)
    for place, k in enumerate(cutoffs):
        scores[f"{ALONE}/random", "recall", k] = chance[:, place]
    return scores


def recall_rows(scores: pd.DataFrame, over: Resampling) -> pd.DataFrame:
    """Recall of every run with its interval, as `tables/tool_retrieval.csv` has it.

    Args:
        scores: of `scores_beside_chance`.
        over: resampling of its queries.

    Returns:
        columns method (`run_name`), setting, retriever, topics, target (api, app), k, recall, ci_low, ci_high,
        n_topics, n.
    """
    table = summarise(scores, {("all", "all"): np.ones(len(scores), dtype=bool)}, over)
    name = table["method"].str.split("/", expand=True).reindex(columns=range(3))
    return table.assign(
        setting=name[0],
        retriever=name[1].fillna("semantic"),
        topics=name[2].fillna("known"),
        target=table["metric"].map({"recall": "api", "app_recall": "app"}),
    ).rename(columns={"value": "recall"})
