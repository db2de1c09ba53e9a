"""Tool retrieval: which of a toolbox's APIs does a query need, with or without context in words?

Frames in, frames out. In a ranking of tools `item` is an API's name, and a query's candidates are all tools.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from lib.assistant.chains import augment, equal_shares, other_rows
from lib.assistant.queries import qrels_of
from lib.assistant.ranking import RankingTask
from lib.assistant.schemas import APP_NAMES, WorldKnobs
from lib.assistant.tool_ranker import NO_FOLD, PlanLessons, RankerTask, Source, tool_pairs, tool_ranker_for
from lib.assistant.toolbox import DEFAULT_API, Toolbox
from lib.assistant.world import frames as world_frames
from lib.assistant.world import simulate
from lib.evaluation.comparison import per_query_scores, summarise
from lib.evaluation.inference import Resampling
from lib.retrieval.fusion import fuse_runs
from lib.retrieval.lambdamart import Taken
from lib.retrieval.stores import bm25t_scores, candidate_pairs, cosine_of_pairs, rank_pairs, seeded_order
from lib.workbook.inputs import InputError, did_you_mean

# What is ranked with: the query alone, or with context beside it.
ALONE, CONTEXT, BY_SEARCH = "query_only", "query_plus_context", "query_plus_semantic_context"
OTHERS, RANDOM, ORACLE = "query_plus_other_context", "query_plus_random_context", "oracle_context"
# What a planner in a named world is shown: the tools of these runs, and as items the context of these settings.
PLANNED = [f"{setting}{ranker}" for ranker in ("", "/lambdamart") for setting in (ALONE, BY_SEARCH, CONTEXT)]
RETRIEVED = {BY_SEARCH: "retrieved_context", CONTEXT: "retrieved_context_tuned"}
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
AS_GOOD = 0.5  # points of recall within which the simpler of two rankings of context is taken
SIMPLEST_FIRST = ("semantic", "lambdamart", "lambdamart_rrf")
CONTEXT_FOLDS = 5  # of personas, in which a LambdaMART of context is cross-fitted, as in notebook 05


def cutoffs_of(n_tools: int) -> list[int]:
    """Values of K at which recall is measured: 1 to 10, or to the number of tools where there are fewer."""
    return list(range(1, min(10, n_tools) + 1))


@dataclass(frozen=True)
class ToolWorld:
    """What tool retrieval is asked, wherever it comes from, and how.

    Attributes:
        queries: columns query, text, split, persona, need, kind, phrasing. Queries of a file have neither of the last
            three, and themselves as persona.
        tools: columns item (name of the API), app, text; queries of a file have tools without apps.
        gold: columns query, item, one row for each API of a plan. A query that no tool fits has none.
        encode: texts to unit-length embeddings, (texts, dimensions).
        vectors: embeddings of the queries, in frame order.
        also: columns query, plan, item, one row for each API of a plan that serves a query as well as the gold one;
            `plan` numbers those of a query.
        gold_apps: columns query, item, one row for each of a query's apps; empty without apps.
        items: columns item, app, title, text, of the context; with `item_vectors`.
        contexts: for each setting columns query, item, rank.
        wording: how context is put into words, one of `WORDINGS`, and the number of items that are.
        seed: of folds, rankers and random orders.
        threads: of the rankers' training.
        shipped: rankers of tools that come with the project (`lib.workbook.parts.read_rankers`).
        sources: by setting, what its context comes from.
    """

    queries: pd.DataFrame
    tools: pd.DataFrame
    gold: pd.DataFrame
    encode: Callable[[list[str]], np.ndarray]
    vectors: np.ndarray
    also: pd.DataFrame = field(default_factory=lambda: pd.DataFrame(columns=["query", "plan", "item"]))
    gold_apps: pd.DataFrame = field(default_factory=lambda: pd.DataFrame(columns=["query", "item"], dtype=str))
    items: pd.DataFrame = field(default_factory=pd.DataFrame)
    item_vectors: np.ndarray = field(default_factory=lambda: np.empty((0, 0)))
    contexts: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    wording: tuple[str, int] = ("app: text", 3)
    seed: int = 0
    threads: int = 1
    shipped: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    sources: Mapping[str, Source] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        frames: Mapping[str, pd.DataFrame],
        vectors: Mapping[str, np.ndarray],
        contexts: Mapping[str, pd.DataFrame],
        encode: Callable[[list[str]], np.ndarray],
        tool_wording: str,
        methods: Mapping[str, str],
        encoder: str,
        **how,
    ) -> ToolWorld:
        """The simulated world, or one's own in the same files.

        Args:
            frames: queries, gold, items, opens, toolbox and other_plans, as notebook 01 writes them.
            vectors: unit-length embeddings of queries and items, in frame order.
            tool_wording: see `tool_texts`.
            methods: by setting, what retrieved its context for both sides, that of training queries without having
                seen them: rankers may learn from it.
            encoder: name of the one behind `encode`.
            how: seed, threads, shipped.
        """
        gold, others, toolbox = frames["gold"], frames["other_plans"], frames["toolbox"]
        labels = gold[["query", "need", "kind", "phrasing"]].astype({"kind": str})
        tools = toolbox.assign(text=tool_texts(toolbox, tool_wording)).rename(columns={"api": "item"})
        numbered = others.assign(plan=others.groupby("query").cumcount())
        asked = frames["queries"][["query", "text", "split", "persona"]].merge(labels, on="query")
        rows = pd.Index(frames["queries"]["query"]).get_indexer(asked["query"])
        unlogged = {name: frame for name, frame in frames.items() if name != "opens"}  # semantic search reads no log
        sources = {
            setting: Source.of_world(method, encoder, unlogged if method == "semantic" else frames)
            for setting, method in methods.items()
        }
        return cls(
            asked,
            tools[["item", "app", "text"]],
            tools_of_plans(gold, ["query"]),
            encode,
            vectors["queries"][rows],
            tools_of_plans(numbered, ["query", "plan"]),
            gold[["query", "apps"]].explode("apps").rename(columns={"apps": "item"}).reset_index(drop=True),
            frames["items"],
            vectors["items"],
            contexts,
            sources=sources,
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
        asked = queries[["query", "text"]].assign(split="evaluation", persona=queries["query"])
        tools = pd.DataFrame([(api.api, api.app, api.text) for api in toolbox], columns=["item", "app", "text"])
        vectors = encode(asked["text"].tolist())
        return cls(asked, tools, tools_of_plans(queries, ["query"]), encode, vectors, seed=seed)

    def side(self, split: str) -> pd.DataFrame:
        """The training or the evaluation queries, numbered anew."""
        return self.queries[self.queries["split"] == split].reset_index(drop=True)

    @property
    def evaluated(self) -> pd.DataFrame:
        return self.side("evaluation")

    @property
    def units(self) -> np.ndarray:
        """What is resampled, a label for each of `evaluated`: topics, or the queries of a file."""
        return self.evaluated["need" if "need" in self.queries else "query"].to_numpy()

    def texts(self, setting: str, queries: pd.DataFrame) -> list[str]:
        """What is searched with: each query's text, and its context in words; of the oracle's all items are worded."""
        if setting == ALONE:
            return queries["text"].tolist()
        how, n = self.wording
        return with_words(queries, self.words(setting, how, ALL_ITEMS if setting == ORACLE else n))

    def words(self, setting: str, wording: str, n_items: int) -> pd.Series:
        """A setting's context in words, by query (see `context_words`)."""
        shown = self.items[["item", "app", "title", "text"]]
        return context_words(self.contexts[setting].merge(shown, on="item"), wording, n_items)

    @cached_property
    def tool_vectors(self) -> np.ndarray:
        return self.encode(self.tools["text"].tolist())

    @cached_property
    def asked_vectors(self) -> dict[str, np.ndarray]:
        """Embeddings of what the evaluated queries are searched with, by setting. All texts are encoded at once: with
        which others one is encoded decides its last bits, and these may decide between two tools."""
        texts = {setting: self.texts(setting, self.evaluated) for setting in (ALONE, *self.contexts)}
        stacked = self.encode([text for part in texts.values() for text in part])
        return dict(zip(texts, np.split(stacked, len(texts)), strict=True))

    # ---- what plans teach

    @cached_property
    def task(self) -> RankerTask:
        """What rankers of tools learn from."""
        cutoff = max(cutoffs_of(len(self.tools)))
        parts = self.queries, self.tools, self.gold, self.vectors, self.tool_vectors
        return RankerTask(*parts, cutoff, self.seed, self.threads)

    @cached_property
    def lessons(self) -> dict[str, PlanLessons]:
        """For known and for new topics."""
        return {topics: PlanLessons.of(self.task, topics) for topics in ("known", "new")}

    @cached_property
    def features(self) -> dict[str, pd.DataFrame | None]:
        """What a ranker sees of the context, by setting; of the query alone nothing. Only where that of training
        queries is known, too."""
        told = {
            setting: self.task.context_features(self.contexts[setting], self.items, self.item_vectors)
            for setting in self.sources
        }
        return {ALONE: None, **told}

    @cached_property
    def rankers(self) -> dict[str, Taken]:
        """A ranker of known topics by setting: shipped, or learned here."""
        nowhere = Source("", next(iter(self.sources.values())).encoder)
        return {
            setting: tool_ranker_for(self.shipped, self.lessons["known"], seen, self.sources.get(setting, nowhere))
            for setting, seen in self.features.items()
        }


def tools_of_plans(plans: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Columns `by` and item: the distinct APIs of each plan. `default` says that no tool fits, so it is none.

    Args:
        plans: columns `by` and apis.
    """
    pairs = plans[[*by, "apis"]].explode("apis").rename(columns={"apis": "item"}).drop_duplicates()
    return pairs[pairs["item"] != DEFAULT_API].dropna().reset_index(drop=True)


# ---------------------------------------------------------------- texts


def tool_texts(toolbox: pd.DataFrame, wording: str) -> list[str]:
    """What search sees of each tool.

    Args:
        toolbox: as notebook 01 writes it: columns app, text, function (a definition as JSON).
        wording: `terse` takes `text`; `paper` the form of appendix A.3, which names the app. A tool without an app
            keeps its text.
    """
    if wording == "terse":
        return toolbox["text"].tolist()
    return [
        appendix_text(APP_NAMES[app], json.loads(function)) if app in APP_NAMES else text
        for app, text, function in zip(toolbox["app"], toolbox["text"], toolbox["function"], strict=True)
    ]


def appendix_text(app: str, function: dict) -> str:
    """A tool in the words of appendix A.3, then its arguments; a description that has this form already stays.

    >>> appendix_text("Mail", {"name": "read_mail", "description": "Open a message."})
    "Mail App's read_mail API is used to open a message."
    """
    description = function["description"].strip()
    if "API is used to" not in description:
        verb = description[:1].lower() + description[1:]
        description = f"{app} App's {function['name']} API is used to {verb}"
    properties = function.get("parameters", {}).get("properties", {})
    arguments = "; ".join(f"{name}: {schema['description']}" for name, schema in properties.items())
    return f"{description} {arguments}".strip()


def context_words(context: pd.DataFrame, wording: str, n_items: int = ALL_ITEMS) -> pd.Series:
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
    """The wording of a setting's context and the number of items with which most tools are found: highest mean recall
    at K = 3, 5 and 10 over a sample of training queries, by the labelled plans alone. Other plans count where methods
    are judged."""
    training = world.side("training")
    sample = equal_shares(training, training["kind"], n_queries, world.seed).reset_index(drop=True)
    options = [(wording, n) for wording in WORDINGS for n in TRIED_NUMBERS]
    runs = {}
    for number, option in enumerate(options):
        texts = with_words(sample, world.words(setting, *option))
        runs[str(number)] = rank_by_cosine(world, sample, world.encode(texts))
    labelled = replace(world, also=world.also.iloc[:0])
    recall = recall_of_tools(runs, labelled, sample["query"].tolist(), TRIED_CUTOFFS).mean().unstack("metric")["recall"]
    mean = recall.unstack("k").mean(axis=1)
    return max(enumerate(options), key=lambda option: mean[str(option[0])])[1]


# ---------------------------------------------------------------- contexts: columns query, item, rank


def recall_of_context(rankings: pd.DataFrame, gold: pd.DataFrame, cutoffs: Sequence[int]) -> pd.DataFrame:
    """Mean recall of relevant context in percent, one row a method, one column a cutoff.

    Args:
        rankings: columns method, query, item, rank.
        gold: columns query, relevant: the queries averaged over.
    """
    runs = dict(list(rankings.groupby("method")))
    scores = per_query_scores(runs, qrels_of(gold), gold["query"].tolist(), cutoffs)
    return scores.mean().unstack("metric")["recall"].unstack("k")


def best_context(found: pd.DataFrame) -> str:
    """The ranking of context that tools are searched with: that of the highest mean recall over the cutoffs, or a
    simpler one within `AS_GOOD` points of it, so that the choice does not turn with the last bits of a score.

    Args:
        found: of `recall_of_context`.
    """
    recall = found.mean(axis=1)
    near = recall.index[recall >= recall.max() - AS_GOOD]
    simplest_first = [name for name in SIMPLEST_FIRST if name in near]
    return simplest_first[0] if simplest_first else str(recall.idxmax())


def context_by_search(frames: Mapping[str, pd.DataFrame], vectors: Mapping[str, np.ndarray]) -> pd.DataFrame:
    """The first items of each query of a world by semantic search, which has learned from no label."""
    pairs = candidate_pairs(frames["queries"], frames["items"], on="persona")
    ranked = rank_pairs(pairs, cosine_of_pairs(pairs, vectors["queries"], vectors["items"]))
    return ranked[ranked["rank"] <= DEPTH]


def context_by_lambdamart(
    frames: Mapping[str, pd.DataFrame], vectors: Mapping[str, np.ndarray], seed: int, threads: int
) -> pd.DataFrame:
    """The same by a LambdaMART that learns in the world; of training queries each by one that saw none of its
    persona's."""
    task = RankingTask.of_world(frames, vectors, max(TRIED_CUTOFFS), seed, CONTEXT_FOLDS, threads)
    _, scores = task.fit()
    ranked = pd.concat([task.rank(scores, task.training), task.rank(scores)], ignore_index=True)
    return ranked[ranked["rank"] <= DEPTH]


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


def random_context(frames: Mapping[str, pd.DataFrame], seed: int) -> pd.DataFrame:
    """All items of each evaluation query's persona in random order."""
    queries = frames["queries"]
    pairs = candidate_pairs(queries[queries["split"] == "evaluation"], frames["items"], on="persona")
    return rank_pairs(pairs, np.random.default_rng(seed).random(len(pairs)))


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
        retriever: semantic, bm25t or rrf (of both), as the paper searches; frequency or classifier, which know training
            plans and no tool's text; lambdamart, our ranker, or lambdamart_others, the same learned and asked with
            another query's context.
        topics: `known`, or `new`: what has learned from plans has learned from other topics than it is asked about.

    Returns:
        columns query, item, rank, score.
    """
    queries = world.evaluated
    if retriever == "semantic":
        return rank_by_cosine(world, queries, world.asked_vectors[setting])
    if retriever == "bm25t":
        pairs, texts = tool_pairs(queries, world.tools), world.texts(setting, queries)
        tools = world.tools.assign(toolbox=0)
        return rank_pairs(pairs, bm25t_scores(pairs, queries.assign(text=texts), tools, within=["toolbox"]))
    if retriever == "rrf":
        return fuse_runs([rank_tools(setting, world), rank_tools(setting, world, "bm25t")])
    lessons = world.lessons[topics]
    if retriever in ("frequency", "classifier"):
        asked = world.task.of_pairs(~world.task.training)
        return rank_pairs(world.task.pairs[asked], lessons.features(NO_FOLD)[retriever].to_numpy()[asked])
    seen = world.features[setting]
    if retriever == "lambdamart_others":
        assert seen is not None
        seen = world.task.others_features(seen)
        return lessons.run_by(lessons.ranker(seen), seen)
    return lessons.run_by_folds(seen) if topics == "new" else lessons.run_by(world.rankers[setting].ranker, seen)


def run_name(setting: str, retriever: str, topics: str = "known") -> str:
    """What a ranking is called in scores: the setting alone where it is by semantic search, and its topics at the end
    where these are new."""
    name = setting if retriever == "semantic" else f"{setting}/{retriever}"
    return name if topics == "known" else f"{name}/{topics}"


def rank_training(setting: str, world: ToolWorld) -> pd.DataFrame:
    """All tools ranked for each training query by semantic search, for planners to learn from."""
    training = world.side("training")
    return rank_by_cosine(world, training, world.encode(world.texts(setting, training)))


def for_planner(found: Mapping[str, tuple[ToolWorld, Mapping[str, pd.DataFrame]]], depth: int = 20) -> pd.DataFrame:
    """What a planner in each named world is shown for the evaluation queries: the first tools of the runs in `PLANNED`,
    and under the settings of `RETRIEVED` the items of the retrieved context.

    Args:
        found: each world with its rankings.
        depth: tools of each query.

    Returns:
        columns world, setting, query, item (an API, or an item), rank.
    """
    frames = []
    for world, (there, runs) in found.items():
        evaluated = there.evaluated["query"]
        shown = {name: runs[name] for name in PLANNED}
        for setting, name in RETRIEVED.items():
            context = there.contexts[setting]
            shown[name] = context[context["query"].isin(evaluated)]
        frames += [run[run["rank"] <= depth].assign(world=world, setting=name) for name, run in shown.items()]
    return pd.concat(frames, ignore_index=True)[["world", "setting", "query", "item", "rank"]]


def rank_by_cosine(world: ToolWorld, queries: pd.DataFrame, vectors: np.ndarray) -> pd.DataFrame:
    """All tools ranked for each query by the cosine with its row of `vectors`."""
    pairs = tool_pairs(queries, world.tools)
    return rank_pairs(pairs, cosine_of_pairs(pairs, vectors, world.tool_vectors))


# ---------------------------------------------------------------- scores


def recall_of_tools(
    runs: Mapping[str, pd.DataFrame], world: ToolWorld, queries: Sequence[str], cutoffs: Sequence[int]
) -> pd.DataFrame:
    """Recall in percent, one row a query, columns (method, metric, k): `recall` of the gold APIs and, where tools have
    apps, `app_recall`, the share of a query's apps among the apps of its first k tools.

    Where other plans do as well, `recall` is that of the plan of which most is found. A query that no tool fits has
    nothing to find and counts with a recall of 0.
    """
    recall = _recall(runs, world.gold, queries, cutoffs)
    for _, plan in world.also[world.also["query"].isin(queries)].groupby("plan"):
        served = plan["query"].unique().tolist()
        recall.loc[served] = np.maximum(recall.loc[served], _recall(runs, plan, served, cutoffs))
    if not len(world.gold_apps):
        return recall
    apps = {name: app_run(run, world.tools) for name, run in runs.items()}
    of_apps = _recall(apps, world.gold_apps, queries, cutoffs)
    return pd.concat([recall, of_apps.rename(columns={"recall": "app_recall"}, level="metric")], axis=1)


def _recall(
    runs: Mapping[str, pd.DataFrame], relevant: pd.DataFrame, queries: Sequence[str], cutoffs: Sequence[int]
) -> pd.DataFrame:
    scores = per_query_scores(runs, relevant, queries, cutoffs)
    return scores.xs("recall", axis=1, level="metric", drop_level=False)


def app_run(run: pd.DataFrame, tools: pd.DataFrame) -> pd.DataFrame:
    """The apps of a run's tools, each at the rank of its first tool, so that a cutoff still counts tools."""
    apps = run.assign(item=run["item"].map(tools.set_index("item")["app"]))
    return apps.sort_values(["query", "rank"]).drop_duplicates(["query", "item"])


def scores_beside_chance(runs: Mapping[str, pd.DataFrame], world: ToolWorld, cutoffs: Sequence[int]) -> pd.DataFrame:
    """`recall_of_tools` of the evaluated queries, with what a random order finds in expectation as `query_only/random`:
    the first k of N tools hold a plan's share k / N; of the best of several plans, it is drawn."""
    wanted, n_tools = world.evaluated["query"].tolist(), len(world.tools)
    number = {name: place for place, name in enumerate(world.tools["item"])}
    plans = pd.concat([world.gold.assign(plan=-1), world.also]).groupby(["query", "plan"])["item"]
    by_number = plans.agg(lambda items: [number[item] for item in items]).groupby("query").agg(list)
    rng, chance = np.random.default_rng(world.seed), np.zeros((len(wanted), len(cutoffs)))
    for row, query in enumerate(wanted):
        if query in by_number.index:
            several = by_number[query]
            chance[row] = (
                100 * np.asarray(cutoffs) / n_tools
                if len(several) == 1
                else chance_of_any_plan(several, n_tools, cutoffs, rng)
            )
    scores = recall_of_tools(runs, world, wanted, cutoffs)
    for place, k in enumerate(cutoffs):
        scores[f"{ALONE}/random", "recall", k] = chance[:, place]
    return scores


def chance_of_any_plan(
    plans: Sequence[Sequence[int]], n_tools: int, cutoffs: Sequence[int], rng: np.random.Generator, draws: int = 1000
) -> list[float]:
    """What a random order of the tools finds of the best of several plans, in percent at each cutoff: the mean over
    `draws` orders.

    Args:
        plans: the tools of each plan by their numbers, from 0.
    """
    rank = rng.permuted(np.tile(np.arange(n_tools), (draws, 1)), axis=1)
    return [100 * float(np.max([(rank[:, plan] < k).mean(axis=1) for plan in plans], axis=0).mean()) for k in cutoffs]


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


def score_rows(scores: pd.DataFrame, world: ToolWorld) -> pd.DataFrame:
    """Scores as `lib.evaluation.claims.evaluate` takes them: query, need, kind, method, metric, k, value."""
    long = scores.melt(ignore_index=False).reset_index()
    about = ["query", "need", "kind"]
    return world.evaluated[about].merge(long, on="query")[[*about, "method", "metric", "k", "value"]]
