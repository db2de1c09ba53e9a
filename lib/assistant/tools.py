"""Tool retrieval: which of a toolbox's APIs does a query need, with or without context in words?

Frames in, frames out. In a ranking of tools `item` is an API's name, and a query's candidates are all tools. What takes
minutes to find (embeddings of 40,000 texts, rankers) are lists of a few tools: `data/answers/tool_lists.npz` keeps them
under a hash of the world, the encoder and how rankers learn.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from lib.assistant.chains import augment, other_rows
from lib.assistant.queries import qrels_of
from lib.assistant.ranking import RankingTask
from lib.assistant.schemas import APP_NAMES, WorldKnobs
from lib.assistant.tool_ranker import HOW_LEARNED, NO_FOLD, PlanLessons, RankerTask
from lib.assistant.toolbox import DEFAULT_API
from lib.assistant.world import SIDES, embed_worlds, simulate
from lib.assistant.world import frames as world_frames
from lib.evaluation.comparison import per_query_scores
from lib.retrieval.lambdamart import hash_of, how_trained
from lib.retrieval.stores import bm25t_scores, candidate_pairs, cosine_of_pairs, rank_pairs, seeded_order
from lib.workbook.artifacts import ROOT, Workbook, sha256_of
from lib.workbook.parts import add_arrays

# What is ranked with: the query alone, or with context beside it.
ALONE, CONTEXT, BY_SEARCH = "query_only", "query_plus_context", "query_plus_semantic_context"
OTHERS, ORACLE = "query_plus_other_context", "oracle_context"
# How a world's first context item is put into words: what found most tools for training queries.
WORDED = {"main": "app", "explicit": "title", "mixed": "app: title", "hard": "app"}
DEPTH, LISTED = 10, 20  # items of retrieved context, and tools of a ranking, that a list has
CONTEXT_FOLDS = 5  # of personas, in which a LambdaMART of context is cross-fitted, as in notebook 05
DRAWS = 1000  # random orders behind what chance finds of the best of several plans
LISTS = Path("data") / "answers" / "tool_lists.npz"
NOTHING = np.iinfo(np.uint16).max  # where a list ends before its depth
ALIKE = 0.98  # of today's contexts are those that kept lists were found with, or the lists are not taken
AUDITED = 10  # queries of each kept list by semantic search that are searched for again


# A world with its training side: frames as notebook 01 writes them; unit-length embeddings of queries and items, in
# frame order; and contexts of both sides (columns query, item, rank) by setting (`CONTEXT`, `BY_SEARCH`), of training
# queries retrieved by what has not seen them, so that rankers may learn from them.
Whole = tuple[Mapping[str, pd.DataFrame], Mapping[str, np.ndarray], Mapping[str, pd.DataFrame]]


class ToolWorld:
    """What tool retrieval is asked in a world, and the lists that it finds there.

    Attributes:
        queries: the evaluated ones: query, text, need, kind.
        tools: item (name of the API), app, text.
        gold, also: query and item of the gold plan; query, plan and item of each plan that does as well.
        gold_apps: query and item, a row for each of a query's apps.
        taken: the lists that were asked for, by name: row numbers of items or tools, (queries, depth).
    """

    def __init__(
        self,
        frames: Mapping[str, pd.DataFrame],
        encode: Callable[[list[str]], np.ndarray],
        whole: Callable[[], Whole],
        kept: Mapping[str, np.ndarray] | None = None,
        seed: int = 0,
        threads: int = 1,
        contexts: Mapping[str, pd.DataFrame] | None = None,
        wording: str = WORDED["main"],
    ):
        """
        Args:
            frames: queries, gold, items, other_plans of evaluation at least, and toolbox.
            encode: texts to unit-length embeddings, (texts, dimensions).
            whole: gives the world with its training side; called once, where something is not kept.
            kept: lists that were found in this world, by name.
            contexts: today's, where they are at hand. Kept lists that were found with others are not taken.
            wording: how context is put into words, see `with_context`.
        """
        self.queries = with_labels(frames, "evaluation")
        gold, others = (
            frames[name][frames[name]["query"].isin(self.queries["query"])] for name in ("gold", "other_plans")
        )
        toolbox = frames["toolbox"].rename(columns={"api": "item"})
        self.tools = toolbox.assign(text=tool_texts(toolbox))[["item", "app", "text"]]
        self.gold = tools_of_plans(gold, ["query"])
        self.also = tools_of_plans(others.assign(plan=others.groupby("query").cumcount()), ["query", "plan"])
        self.gold_apps = gold[["query", "apps"]].explode("apps").rename(columns={"apps": "item"})
        items = frames["items"]
        self.items = items[items["persona"].isin(self.queries["persona"])].reset_index(drop=True)
        relevant = qrels_of(gold).sort_values(["query", "item"], ignore_index=True)
        self.oracle = relevant.assign(rank=relevant.groupby("query").cumcount() + 1)
        self.encode, self.seed, self.threads, self.wording = encode, seed, threads, wording
        self.tool_vectors = encode(self.tools["text"].tolist())
        self.whole = functools.cache(whole)
        self.kept, self.taken = dict(kept or {}), dict[str, np.ndarray]()
        self.audited = self.agreed = 0
        for setting, run in (contexts or {}).items():
            before = self.kept.get(f"items of {setting}")
            if before is not None:
                same = (listed_rows(run, self.queries, self.items, DEPTH) == before).all(axis=1)
                self.audited, self.agreed = self.audited + len(same), self.agreed + int(same.sum())
                self.kept = self.kept if same.mean() >= ALIKE else {}

    def listed(
        self, name: str, find: Callable[[], pd.DataFrame], depth: int = LISTED, queries: pd.DataFrame | None = None
    ) -> pd.DataFrame:
        """The first tools, or items (of `DEPTH`), of some queries (None: the evaluated ones): columns query, item,
        rank; kept ones, else those of the ranking that `find` gives."""
        queries, among = self.queries if queries is None else queries, self.items if depth == DEPTH else self.tools
        if name not in self.taken:
            self.taken[name] = self.kept[name] if name in self.kept else listed_rows(find(), queries, among, depth)
        return run_of(self.taken[name], queries, among)

    @functools.cached_property
    def contexts(self) -> dict[str, pd.DataFrame]:
        """The first items of each evaluated query by setting, columns query, item, rank: retrieved (see `Whole`), those
        retrieved for another one, each query's taken once, and all relevant ones in the order of their ids: that of the
        labels starts with the plan's item."""
        found = {
            name: self.listed(f"items of {name}", lambda name=name: self.whole()[2][name], DEPTH)  # type: ignore[misc]
            for name in (CONTEXT, BY_SEARCH)
        }
        asked = self.queries["query"].to_numpy()
        owner = pd.Series(asked, index=asked[other_rows(len(asked), self.seed)])
        others = found[CONTEXT].assign(query=found[CONTEXT]["query"].map(owner))
        return found | {OTHERS: others, ORACLE: self.oracle}

    def texts(self, setting: str, queries: pd.DataFrame, contexts: Mapping[str, pd.DataFrame]) -> list[str]:
        """What is searched with: each query's text, and its context in words; of the oracle's all items are worded."""
        if setting == ALONE:
            return queries["text"].tolist()
        items = self.items if contexts is self.contexts else self.whole()[0]["items"]
        shown = contexts[setting].merge(items[["item", "app", "title", "text"]], on="item")
        return with_context(queries, shown, self.wording, len(shown) if setting == ORACLE else 1)

    @functools.cached_property
    def asked_vectors(self) -> dict[str, np.ndarray]:
        """Embeddings of what the evaluated queries are searched with, by setting. All texts are encoded at once: with
        which others one is encoded decides its last bits, and these may decide between two tools."""
        texts = {name: self.texts(name, self.queries, self.contexts) for name in (ALONE, *self.contexts)}
        stacked = self.encode([text for part in texts.values() for text in part])
        return dict(zip(texts, np.split(stacked, len(texts)), strict=True))

    def by_cosine(self, queries: pd.DataFrame, vectors: np.ndarray) -> pd.DataFrame:
        """All tools ranked for each query by the cosine with its row of `vectors`."""
        pairs = candidate_pairs(queries, self.tools)
        return rank_pairs(pairs, cosine_of_pairs(pairs, vectors, self.tool_vectors))

    @functools.cached_property
    def lessons(self) -> tuple[dict[str, PlanLessons], dict[str, pd.DataFrame | None]]:
        """What rankers learn from, on both sides of the world: plans, for known and for new topics; and what they see
        of the context, by setting; of the query alone nothing."""
        frames, vectors, contexts = self.whole()
        queries = with_labels(frames)
        asked = vectors["queries"][pd.Index(frames["queries"]["query"]).get_indexer(queries["query"])]
        gold = tools_of_plans(frames["gold"], ["query"])
        task = RankerTask(queries, self.tools, gold, asked, self.tool_vectors, self.seed, self.threads)
        seen: dict[str, pd.DataFrame | None] = {ALONE: None}
        for name, run in contexts.items():
            seen[name] = task.context_features(run, frames["items"], vectors["items"])
        return {topics: PlanLessons.of(task, topics) for topics in ("known", "new")}, seen

    def rank_training(self, setting: str) -> pd.DataFrame:
        """The first tools of each training query by semantic search, which a planner is shown while it learns."""
        frames, _, contexts = self.whole()
        training = with_labels(frames, "training")
        return self.listed(
            f"training, {run_name(setting, wording=self.wording)}",
            lambda: self.by_cosine(training, self.encode(self.texts(setting, training, contexts))),
            queries=training,
        )

    def audit(self) -> None:
        """Search for some queries of each kept list by semantic search again: `audited` counts them, `agreed` those
        whose first ten tools are the same."""
        names = {run_name(setting, wording=self.wording): setting for setting in (ALONE, *self.contexts)}
        some = np.sort(np.random.default_rng(self.seed).permutation(len(self.queries))[:AUDITED])
        asked = self.queries.iloc[some].reset_index(drop=True)
        for name in names.keys() & self.taken.keys() & self.kept.keys():
            texts = self.texts(names[name], self.queries, self.contexts)
            run = self.by_cosine(asked, self.encode([texts[row] for row in some]))
            same = (listed_rows(run, asked, self.tools, LISTED) == self.kept[name][some])[:, :10].all(axis=1)
            self.audited, self.agreed = self.audited + len(same), self.agreed + int(same.sum())


def listed_rows(run: pd.DataFrame, queries: pd.DataFrame, among: pd.DataFrame, depth: int) -> np.ndarray:
    """Row numbers, in `among`, of the first items of each query of a run, (queries, depth)."""
    rows = np.full((len(queries), depth), NOTHING, dtype=np.uint16)
    first = run[(run["rank"] <= depth) & run["query"].isin(queries["query"])]
    place = pd.Index(queries["query"]).get_indexer(first["query"]), first["rank"] - 1
    rows[place] = pd.Index(among["item"]).get_indexer(first["item"])
    return rows


def run_of(rows: np.ndarray, queries: pd.DataFrame, among: pd.DataFrame) -> pd.DataFrame:
    """The run that such rows are of: columns query, item, rank."""
    query, place = np.nonzero(rows != NOTHING)
    ids, items = queries["query"].to_numpy()[query], among["item"].to_numpy()[rows[query, place]]
    return pd.DataFrame({"query": ids, "item": items, "rank": place + 1})


def with_labels(frames: Mapping[str, pd.DataFrame], split: str = "") -> pd.DataFrame:
    """The queries that have labels, of one side or of both: query, text, split, persona, need, kind, phrasing."""
    labels = frames["gold"][["query", "need", "kind", "phrasing"]].astype({"kind": str})
    queries = frames["queries"][["query", "text", "split", "persona"]].merge(labels, on="query")
    return queries[queries["split"] == split].reset_index(drop=True) if split else queries


def tools_of_plans(plans: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Columns `by` and item: the distinct APIs of plans (columns `by` and apis), of which `default` is none."""
    pairs = plans[[*by, "apis"]].explode("apis").rename(columns={"apis": "item"}).drop_duplicates()
    return pairs[pairs["item"] != DEFAULT_API].dropna().reset_index(drop=True)


# ---------------------------------------------------------------- texts


def tool_texts(toolbox: pd.DataFrame) -> list[str]:
    """What search sees of each tool of a toolbox as notebook 01 writes it (app, text, function): the form of appendix
    A.3, which names the app, then its arguments. A description in this form stays, and so does the text of a tool
    without an app."""
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


def with_context(queries: pd.DataFrame, context: pd.DataFrame, wording: str, n_items: int = 1) -> list[str]:
    """Each query's text followed by its first context items (query, rank, app, title) in words, best first, each
    wording (`app`, `title` or `app: title`) once."""
    first = context[context["rank"] <= n_items].sort_values(["query", "rank"])
    app, title = first["app"].map(APP_NAMES), first["title"]
    first = first.assign(words={"app": app, "title": title, "app: title": app + ": " + title}[wording])
    words = first.drop_duplicates(["query", "words"]).groupby("query")["words"].agg(", ".join)
    return augment(queries["text"], words.reindex(queries["query"]).fillna(""))


# ---------------------------------------------------------------- the named worlds


def named_world(
    data: str | Path, name: str, queries: pd.DataFrame, seed: int, sides: Sequence[str] = SIDES
) -> dict[str, pd.DataFrame]:
    """The frames of a named world, at the size of a world that is there (`queries`: columns persona, split); all other
    knobs are the defaults. The same queries wherever what people wrote, in the folder `data`, and the seed are the
    same; of `sides` that are not simulated nothing depends."""
    n_personas, sizes = max(8, queries["persona"].nunique()), queries["split"].value_counts()
    size = {
        "n_personas": n_personas,
        "n_training_queries": max(n_personas, int(sizes.get("training", 0))),
        "n_evaluation_queries": max(1, int(sizes.get("evaluation", 0))),
    }
    return world_frames(simulate(data, WorldKnobs(seed=seed, world=name, **size), sides=sides))


def learned_world(
    frames: Mapping[str, pd.DataFrame], n_training: int, encode: Callable, known: Mapping, seed: int, threads: int
) -> Whole:
    """A named world with all evaluation queries, but only so many training personas, drawn with the seed, as have
    `n_training` queries; and the items of these personas with their log. Its contexts are by a LambdaMART that learns
    in it, of training queries each by one that saw none of its persona's; and by semantic search, which learns from no
    label.

    Args:
        frames: items, opens, queries, gold, other_plans, toolbox (see `lib.assistant.world.frames`).
        known: embeddings of texts that need not be encoded.
    """
    queries = frames["queries"]
    owners = queries.loc[queries["split"] == "training", "persona"]
    before = owners.value_counts().reindex(seeded_order(owners, seed)).cumsum().shift(fill_value=0)
    taken = queries["persona"].isin(before.index[before < n_training]) | (queries["split"] == "evaluation")
    part = {"queries": queries[taken], "toolbox": frames["toolbox"]}
    part["items"] = frames["items"][frames["items"]["persona"].isin(part["queries"]["persona"])]
    part["opens"] = frames["opens"][frames["opens"]["item"].isin(part["items"]["item"])]
    for name in ("gold", "other_plans"):
        part[name] = frames[name][frames[name]["query"].isin(part["queries"]["query"])]
    part = {name: frame.reset_index(drop=True) for name, frame in part.items()}
    vectors = embed_worlds({0: part}, encode, known)[0]
    task = RankingTask.of_world(part, vectors, DEPTH, seed, CONTEXT_FOLDS, threads)
    _, scores = task.fit()
    learned = pd.concat([task.rank(scores, task.training), task.rank(scores)], ignore_index=True)
    pairs = candidate_pairs(part["queries"], part["items"], on="persona")
    searched = rank_pairs(pairs, cosine_of_pairs(pairs, vectors["queries"], vectors["items"]))
    runs = {CONTEXT: learned, BY_SEARCH: searched}
    return part, vectors, {setting: run[run["rank"] <= DEPTH] for setting, run in runs.items()}


# ---------------------------------------------------------------- lists that come with the project


def world_key(frames: Mapping[str, pd.DataFrame], encoder: str, seed: int, data: Path, named: Sequence = ()) -> str:
    """SHA-256 of what the lists of a world depend on, the last bits of embeddings and features aside.

    Args:
        frames: queries, gold, items, opens, toolbox and other_plans: the whole world or, of a named one, which follows
            from its name and what people wrote, the evaluation side.
        encoder: hash of its weights.
        data: folder of what people wrote.
        named: name and numbers of training queries of a named world.
    """
    files = [data / name for name in ("people.yaml", "toolbox.yaml")]
    files += [*data.glob("needs/**/*.yaml"), *data.glob("background/*.yaml")]
    written = [sha256_of(path) for path in sorted(files)] if named else []
    settings = [encoder, seed, how_trained(), HOW_LEARNED, CONTEXT_FOLDS, list(named), *written]
    names = ("queries", "gold", "items", "opens", "toolbox", "other_plans")
    return hash_of(settings, [frames[name] for name in names])


def ship_tool_lists(book: Workbook, root: Path = ROOT, **_) -> str:
    """Put the lists of notebook 06's run beside those that come with the project; see
    `lib.workbook.parts.Recipe.make`."""
    return "those of notebook 06" if add_arrays(root / LISTS, book.read_arrays("tool_lists")) else ""


# ---------------------------------------------------------------- rankings


def rank_tools(setting: str, world: ToolWorld, retriever: str = "semantic", topics: str = "known") -> pd.DataFrame:
    """The first tools of each evaluated query, by BM25T all of them: columns query, item, rank.

    Args:
        setting: what is ranked with: `ALONE`, or one of `world.contexts`.
        retriever: semantic or bm25t, as the paper searches; frequency or classifier, which know training plans and no
            tool's text; lambdamart, our ranker.
        topics: `known`, or `new`: what has learned from plans has learned from other topics than it is asked about.
    """
    if retriever == "bm25t":
        queries = world.queries.assign(text=world.texts(setting, world.queries, world.contexts))
        pairs = candidate_pairs(queries, world.tools)
        return rank_pairs(pairs, bm25t_scores(pairs, queries, world.tools))

    def find() -> pd.DataFrame:
        if retriever == "semantic":
            return world.by_cosine(world.queries, world.asked_vectors[setting])
        lessons, seen = world.lessons[0][topics], world.lessons[1]
        if retriever == "lambdamart":
            return lessons.rank(seen[setting])
        asked = ~lessons.task.training[lessons.task.query_row]
        return rank_pairs(lessons.task.pairs[asked], lessons.features(NO_FOLD)[retriever].to_numpy()[asked])

    return world.listed(run_name(setting, retriever, topics, world.wording), find)


def run_name(setting: str, retriever: str = "semantic", topics: str = "known", wording: str = "") -> str:
    """What a ranking is called in scores: the setting alone where it is by semantic search, and its topics at the end
    where these are new. The name of its list also has the wording, where context is put into words."""
    name = setting if retriever == "semantic" else f"{setting}/{retriever}"
    name = name if topics == "known" else f"{name}/{topics}"
    return f"{name}, {wording} of 1" if wording and retriever == "semantic" and setting != ALONE else name


# ---------------------------------------------------------------- scores


def recall_of_tools(runs: Mapping[Any, pd.DataFrame], world: ToolWorld, cutoffs: Sequence[int]) -> pd.DataFrame:
    """Recall in percent, one row an evaluated query, columns (method, metric, k): `recall` of the gold APIs, and
    `app_recall`, the share of a query's apps among the apps of its first k tools.

    Where other plans do as well, `recall` is that of the plan of which most is found. A query that no tool fits has
    nothing to find and counts with a recall of 0. What a random order finds in expectation is `query_only/random`: the
    first k of N tools hold a plan's share k / N; of the best of several plans, it is the mean over `DRAWS` orders.
    """
    asked, n_tools = world.queries["query"].tolist(), len(world.tools)
    of_tools = per_query_scores(runs, world.gold, asked, cutoffs)
    for _, plan in world.also.groupby("plan"):
        served = plan["query"].unique().tolist()
        of_tools.loc[served] = np.maximum(of_tools.loc[served], per_query_scores(runs, plan, served, cutoffs))
    apps = {}
    for name, run in runs.items():  # an app stands at the rank of its first tool, so that a cutoff still counts tools
        app_of = run.assign(item=run["item"].map(world.tools.set_index("item")["app"]))
        apps[name] = app_of.sort_values(["query", "rank"]).drop_duplicates(["query", "item"])
    both = of_tools, per_query_scores(apps, world.gold_apps, asked, cutoffs)
    recall, app_recall = (part.xs("recall", axis=1, level="metric", drop_level=False) for part in both)
    scores = pd.concat([recall, app_recall.rename(columns={"recall": "app_recall"}, level="metric")], axis=1)

    plans = pd.concat([world.gold.assign(plan=-1), world.also]).groupby(["query", "plan"])["item"]
    numbers = plans.agg(lambda items: pd.Index(world.tools["item"]).get_indexer(items).tolist())
    rng, chance = np.random.default_rng(world.seed), np.zeros((len(asked), len(cutoffs)))
    for row, several in enumerate(numbers.groupby("query").agg(list).reindex(asked)):
        if isinstance(several, list) and len(several) == 1:
            chance[row] = 100 * np.asarray(cutoffs) / n_tools
        elif isinstance(several, list):
            rank = rng.permuted(np.tile(np.arange(n_tools), (DRAWS, 1)), axis=1)
            best = [np.max([(rank[:, plan] < k).mean(axis=1) for plan in several], axis=0) for k in cutoffs]
            chance[row] = 100 * np.mean(best, axis=1)
    for place, k in enumerate(cutoffs):
        scores[f"{ALONE}/random", "recall", k] = chance[:, place]
    return scores
