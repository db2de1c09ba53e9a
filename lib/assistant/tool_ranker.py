"""LambdaMART over tools: which tool a query needs, learned from training plans, with or without retrieved context.

A query's candidates are all tools; labels are the gold APIs of training queries. What a classifier of queries and the
plans' frequencies say of a training query is learned without its fold, so that the ranker sees how far to trust them
where they have not seen the answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
import pandas as pd

from lib.assistant.controls import HALFWAY, gap_of_draws, permute_labels, reverse, within_margin
from lib.assistant.tool_retrieval import ToolTask, fold_of_units, tool_pairs, tool_scores, trained_scores
from lib.evaluation.inference import Resampling, mean_interval
from lib.retrieval.lambdamart import LambdaMART, Taken, hash_of, how_trained, train
from lib.retrieval.stores import bm25t_scores, cosine_of_pairs, rank_pairs, relevant_pairs_mask

ITEM_NUMBERS = (1, 3, 5)  # how many of the first context items are compared with a tool's text
APP_DEPTHS = (5, 10)  # how many of them have a say on a tool's app
CATEGORICAL = ["app"]
# What is learned without a fold knows least of the very tools that the fold calls: a ranker that took a low value for a
# good sign would read the labels off the folds.
RISING = ["classifier", "frequency"]
FOLDS = 5
NO_FOLD = -1  # of queries that are never learned from
UNITS = ("need", "phrasing", "persona")
OTHER, DEALT = "another query's context", "labels permuted"


@dataclass(frozen=True)
class RankerTask:
    """What rankers of tools learn from and are asked.

    Attributes:
        task: the queries of both sides, their plans, and the tools, each of an app.
        phrasing: of each query, by its id; only folds are made of it.
        vectors: unit-length embeddings of `task.queries`, (queries, dimensions).
        pairs: every query with every tool; all that follows has one row a pair.
        fixed: features that no plan has taught: cosine, bm25t and app.
        relevant: whether the query's plan calls the tool.
        cutoff: the largest K of interest.
        seed: of folds and rankers.
        threads: of the training.
    """

    task: ToolTask
    phrasing: pd.Series
    vectors: np.ndarray
    pairs: pd.DataFrame
    fixed: pd.DataFrame
    relevant: np.ndarray
    cutoff: int
    seed: int
    threads: int = 1

    @classmethod
    def of(
        cls,
        task: ToolTask,
        phrasing: pd.Series,
        vectors: np.ndarray,
        tool_vectors: np.ndarray,
        cutoff: int,
        seed: int,
        threads: int = 1,
    ) -> RankerTask:
        """The task with its features; `tool_vectors` are unit-length embeddings of `task.tools`."""
        pairs = tool_pairs(task.queries, task.tools)
        app = task.tools["app"].map({name: code for code, name in enumerate(apps_of(task))})
        fixed = {
            "cosine": cosine_of_pairs(pairs, vectors, tool_vectors),
            "bm25t": bm25t_scores(pairs, task.queries, task.tools.assign(toolbox=0), within=["toolbox"]),
            "app": app.to_numpy()[pairs["item_row"]],
        }
        relevant = relevant_pairs_mask(pairs, task.gold)
        return cls(task, phrasing, vectors, pairs, pd.DataFrame(fixed), relevant, cutoff, seed, threads)

    def of_pairs(self, values: pd.Series | np.ndarray) -> np.ndarray:
        """What each pair's query has of one value a query."""
        return np.asarray(values)[self.pairs["query_row"].to_numpy()]

    @property
    def training(self) -> np.ndarray:
        """Whether each query is one to learn from."""
        return (self.task.queries["split"] == "training").to_numpy()

    def units(self, name: str) -> pd.Series:
        """The need, the phrasing or the persona of each query."""
        queries = self.task.queries
        return queries["query"].map(self.phrasing) if name == "phrasing" else queries[name]

    @property
    def kept_apart(self) -> str:
        """The coarsest of `UNITS` that evaluation never shares with training; personas are always kept apart."""
        for name in UNITS[:-1]:
            units = self.units(name)
            if not set(units[self.training]) & set(units[~self.training]):
                return name
        return UNITS[-1]


def apps_of(task: ToolTask) -> list[str]:
    """The apps that have tools, in alphabetical order."""
    return sorted(task.tools["app"].unique())


# ---------------------------------------------------------------- features of retrieved context


def ranked_rows(context: pd.DataFrame, queries: pd.Series, items: pd.Series, depth: int) -> np.ndarray:
    """Which item stands at each rank of each query's context.

    Args:
        context: columns query, item, rank (from 1).
        queries, items: ids.

    Returns:
        positions in `items`, (queries, depth); −1 where the context is shorter.
    """
    rows = np.full((len(queries), depth), -1)
    first = context[(context["rank"] <= depth) & context["query"].isin(queries)]
    rows[pd.Index(queries).get_indexer(first["query"]), first["rank"] - 1] = pd.Index(items).get_indexer(first["item"])
    return rows


def context_features(
    ranking: RankerTask, context: pd.DataFrame, items: pd.DataFrame, item_vectors: np.ndarray, tool_vectors: np.ndarray
) -> pd.DataFrame:
    """What retrieved context says of each tool; missing where a query has no context.

    Args:
        context: columns query, item, rank: of both sides; that of training queries ranked by what had not seen them.
        items: columns item, app; `item_vectors` are unit-length embeddings of them.
        tool_vectors: the same of the task's tools.

    Returns:
        one row a pair: the highest and the mean cosine of the first items and the tool (`item_cosine_max_3`, …), and
        the share of the first items, discounted by log2(rank + 1), that lie in the tool's app (`app_mass_5`, …).
    """
    task, pairs = ranking.task, ranking.pairs
    query, tool = pairs["query_row"].to_numpy(), pairs["item_row"].to_numpy()
    rows = ranked_rows(context, task.queries["query"], items["item"], max(APP_DEPTHS))
    there = rows >= 0
    features = {}
    cosines = item_vectors[rows[:, : max(ITEM_NUMBERS)]] @ tool_vectors.T
    for n in ITEM_NUMBERS:
        part, known = cosines[:, :n], there[:, :n, None]
        count = np.where(known.any(axis=1), known.sum(axis=1), np.nan)
        features[f"item_cosine_max_{n}"] = np.where(known, part, -1).max(axis=1) + 0 * count
        if n > 1:
            features[f"item_cosine_mean_{n}"] = np.where(known, part, 0).sum(axis=1) / count
    apps = apps_of(task)
    weight = there / np.log2(np.arange(2, there.shape[1] + 2))
    in_app = (items["app"].to_numpy()[rows][:, :, None] == np.array(apps, dtype=object)) * weight[:, :, None]
    app = pd.Index(apps).get_indexer(task.tools["app"])
    for n in APP_DEPTHS:
        total = weight[:, :n].sum(axis=1, keepdims=True)
        features[f"app_mass_{n}"] = (in_app[:, :n].sum(axis=1) / np.where(total > 0, total, np.nan))[:, app]
    return pd.DataFrame({name: values[query, tool] for name, values in features.items()})


# ---------------------------------------------------------------- what plans teach, cross-fitted


@dataclass(frozen=True)
class PlanLessons:
    """What a classifier of queries and the frequencies of plans say of each pair, learned without some folds.

    Attributes:
        ranking: the queries and tools.
        fold: of each query; `NO_FOLD` for one that belongs to none.
    """

    ranking: RankerTask
    fold: np.ndarray
    _kept: dict[frozenset[int], np.ndarray] = field(default_factory=dict)

    def without(self, folds: frozenset[int]) -> np.ndarray:
        """The classifier's probability and the share of plans for each pair, (pairs, 2), learned from the training
        queries of other folds."""
        if folds not in self._kept:
            ranking = self.ranking
            learned = ranking.training & ~np.isin(self.fold, list(folds))
            known = pd.Index(ranking.task.queries["query"][learned])
            scores = trained_scores(ranking.pairs, ranking.vectors, ranking.task.gold, known, ranking.vectors[learned])
            self._kept[folds] = np.column_stack([scores["classifier"], scores["frequency"] / max(1, len(known))])
        return self._kept[folds]

    def features(self, outer: int) -> pd.DataFrame:
        """Columns classifier, frequency: each query's learned from training queries neither of its own fold nor of
        the fold `outer`, whose queries are asked."""
        of_pair = self.ranking.of_pairs(self.fold)
        values = np.empty((len(of_pair), 2))
        for own in np.unique(self.fold).tolist():
            rows = of_pair == own
            values[rows] = self.without(frozenset({own, outer}))[rows]
        return pd.DataFrame(values, columns=RISING)


def lessons_of_training(ranking: RankerTask) -> PlanLessons:
    """For evaluation queries, learned from all training queries; for each of these, from other folds of what
    evaluation does not share with training (`RankerTask.kept_apart`)."""
    units = ranking.units(ranking.kept_apart)
    fold = units.map(fold_of_units(units[ranking.training], ranking.seed, FOLDS))
    return PlanLessons(ranking, fold.where(ranking.training, NO_FOLD).to_numpy(dtype=int))


def lessons_of_other_needs(ranking: RankerTask) -> PlanLessons:
    """For every query learned from queries of other needs: folds of needs, those of `scores_on_unseen_needs`."""
    needs = ranking.units("need")
    return PlanLessons(ranking, needs.map(fold_of_units(needs, ranking.seed, FOLDS)).to_numpy(dtype=int))


# ---------------------------------------------------------------- rankings of the evaluated queries


def seen_features(lessons: PlanLessons, outer: int, context: pd.DataFrame | None) -> pd.DataFrame:
    """What a ranker sees of each pair that asks the fold `outer` (see `PlanLessons.features`).

    Args:
        context: from `context_features`; None: the ranker sees the query alone.
    """
    return pd.concat([lessons.ranking.fixed, lessons.features(outer), *([] if context is None else [context])], axis=1)


def learned_ranker(
    lessons: PlanLessons, outer: int, features: pd.DataFrame, collections: pd.Series
) -> LambdaMART | None:
    """A ranker that has learned from the training queries of other folds than `outer`; None where there are none.

    Args:
        features: from `seen_features`.
        collections: of each query, for early stopping: held out are queries of other collections than learned from
            (of other personas where all learned from are of one collection).
    """
    ranking = lessons.ranking
    learned = ranking.of_pairs(ranking.training & (lessons.fold != outer))
    if not learned.any():
        return None
    held_together = ranking.of_pairs(collections)[learned]
    if len(set(held_together)) < 2:
        held_together = ranking.of_pairs(ranking.units("persona"))[learned]
    return train(
        ranking.pairs[learned],
        features[learned],
        ranking.relevant[learned],
        held_together,
        CATEGORICAL,
        ranking.cutoff,
        ranking.seed,
        ranking.threads,
        RISING,
    )


def scores_by(ranker: LambdaMART | None, features: pd.DataFrame) -> np.ndarray:
    """A score a row; all tie where there was nothing to learn from."""
    return np.zeros(len(features)) if ranker is None else ranker.predict(features)


def folds_run(lessons: PlanLessons, context: pd.DataFrame | None, unit: str, training: bool = False) -> pd.DataFrame:
    """The ranking of the evaluation queries, or of the training queries, each fold by a ranker that has learned from
    the training queries of the others.

    Args:
        context: see `seen_features`.
        unit: of `UNITS`, of which early stopping holds some out.
        training: whether training queries are asked.
    """
    ranking = lessons.ranking
    scores, collections, side = np.zeros(len(ranking.pairs)), ranking.units(unit), ranking.training == training
    for fold in np.unique(lessons.fold[side]).tolist():
        features = seen_features(lessons, fold, context)
        asked = ranking.of_pairs(side & (lessons.fold == fold))
        scores[asked] = scores_by(learned_ranker(lessons, fold, features, collections), features[asked])
    asked = ranking.of_pairs(side)
    return rank_pairs(ranking.pairs[asked], scores[asked])


def known_needs_ranker(lessons: PlanLessons, context: pd.DataFrame | None) -> LambdaMART | None:
    """The ranker that has learned from all training queries; None where there are none.

    Args:
        lessons: from `lessons_of_training`.
        context: see `seen_features`.
    """
    return learned_ranker(lessons, NO_FOLD, seen_features(lessons, NO_FOLD, context), lessons.ranking.units("persona"))


def run_by(ranker: LambdaMART | None, lessons: PlanLessons, context: pd.DataFrame | None) -> pd.DataFrame:
    """The ranking of the evaluation queries by a ranker of `known_needs_ranker`; other arguments as there."""
    ranking = lessons.ranking
    asked = ranking.of_pairs(~ranking.training)
    return rank_pairs(ranking.pairs[asked], scores_by(ranker, seen_features(lessons, NO_FOLD, context)[asked]))


def known_needs_run(lessons: PlanLessons, context: pd.DataFrame | None) -> pd.DataFrame:
    """The ranking of the evaluation queries by a ranker that has learned from all training queries; arguments as of
    `known_needs_ranker`."""
    return run_by(known_needs_ranker(lessons, context), lessons, context)


def training_run(lessons: PlanLessons, context: pd.DataFrame | None) -> pd.DataFrame:
    """The ranking of the training queries, each by classifier, frequencies and ranker that have learned from the other
    folds of what evaluation never shares with training. A planner that learns from such rankings meets as good ones
    when it is asked. The folds keep no personas apart: no feature of a tool says who asks.

    Args:
        lessons: from `lessons_of_training`.
        context: see `seen_features`.
    """
    return folds_run(lessons, context, "persona", training=True)


def unseen_needs_run(lessons: PlanLessons, context: pd.DataFrame | None) -> pd.DataFrame:
    """The ranking of all evaluation queries, each by classifier, frequencies and ranker that have learned from queries
    of other needs only.

    Args:
        lessons: from `lessons_of_other_needs`.
        context: see `seen_features`; whatever ranked it may have learned from the needs.
    """
    return folds_run(lessons, context, "need")


def unseen_runs(ranking: RankerTask, contexts: Mapping[str, pd.DataFrame | None]) -> dict[str, pd.DataFrame]:
    """`unseen_needs_run` by setting, `…/lambdamart_unseen`.

    Args:
        contexts: from `context_features` by setting; None for the query alone.
    """
    lessons = lessons_of_other_needs(ranking)
    return {f"{setting}/lambdamart_unseen": unseen_needs_run(lessons, context) for setting, context in contexts.items()}


def others_features(ranking: RankerTask, context: pd.DataFrame) -> pd.DataFrame:
    """`context_features` in which each query has another's of its own side."""
    rng = np.random.default_rng(ranking.seed)
    owner = np.arange(len(ranking.training))
    for side in (ranking.training, ~ranking.training):
        order = rng.permutation(np.flatnonzero(side))
        owner[order] = np.roll(order, 1)
    n_tools = len(ranking.task.tools)
    rows = ranking.of_pairs(owner) * n_tools + np.arange(len(context)) % n_tools  # pairs lie query by query
    return context.iloc[rows].reset_index(drop=True)


def labels_dealt_anew(ranking: RankerTask, draw: int) -> RankerTask:
    """The task in which each training query's plan calls as many tools, but any of them; what classifier and
    frequencies learn from is dealt anew, too."""
    dealt = permute_labels(ranking.pairs, ranking.relevant, np.random.default_rng([ranking.seed, draw]))
    relevant = np.where(ranking.of_pairs(ranking.training), dealt, ranking.relevant)
    gold = ranking.pairs.loc[relevant, ["query", "item"]].reset_index(drop=True)
    return replace(ranking, task=replace(ranking.task, gold=gold), relevant=relevant)


def control_runs(lessons: PlanLessons, context: pd.DataFrame, draws: int) -> tuple[pd.DataFrame, list[pd.DataFrame]]:
    """What a ranker with one link cut, in training and evaluation, makes of the evaluation queries.

    Args:
        lessons: from `lessons_of_training`.
        context: from `context_features`.
        draws: how often labels are dealt anew within queries.

    Returns:
        the ranking with another query's context, and one for each draw of the labels.
    """
    ranking = lessons.ranking
    other = known_needs_run(lessons, others_features(ranking, context))
    dealt = [lessons_of_training(labels_dealt_anew(ranking, draw)) for draw in range(draws)]
    return other, [known_needs_run(part, context) for part in dealt]


def weigh_controls(
    task: ToolTask,
    other: pd.DataFrame,
    dealt: Sequence[pd.DataFrame],
    alone: tuple[str, np.ndarray],
    k: int,
    resampling: Resampling,
) -> pd.DataFrame:
    """Whether a ranker with one link cut finds no more than it may: with another query's context, no more than without
    any; from labels dealt anew, no more than halfway to its reverse. Both are one-sided and weighed as
    `lib.assistant.controls.weigh_controls` does, which says why.

    Args:
        other, dealt: from `control_runs`.
        alone: name and recall at k, by evaluated query, of the ranker by the query alone.
        k: the cutoff.
        resampling: of the evaluated queries.

    Returns:
        columns control, recall, reference, reference_recall, difference, ci_low, ci_high, holds, draws.
    """
    names = task.evaluated["query"].tolist()

    def recall(runs: Sequence[pd.DataFrame]) -> np.ndarray:
        return np.array([tool_scores({"run": run}, task, names, [k])["run", "recall", k].to_numpy() for run in runs])

    noise = recall(dealt)
    cut = {
        OTHER: (recall([other]), alone[0], alone[1][None]),
        DEALT: (noise, HALFWAY, (noise + recall([reverse(run) for run in dealt])) / 2),
    }
    rows = []
    for name, (found, reference, limit) in cut.items():
        gap, low, high = gap_of_draws(found, limit, resampling)
        rows.append(
            {
                "control": name,
                "recall": mean_interval(found.mean(axis=0), resampling).value,
                "reference": reference,
                "reference_recall": mean_interval(limit.mean(axis=0), resampling).value,
                "difference": gap,
                "ci_low": low,
                "ci_high": high,
                "holds": within_margin(low, high, one_sided=True),
                "draws": len(found),
            }
        )
    return pd.DataFrame(rows)


# ---------------------------------------------------------------- rankers that come with the project


class Source(NamedTuple):
    """Where the context that a ranker of tools sees is from.

    Attributes:
        method: that retrieved it.
        encoder: of all texts.
        frames: what the method learned or retrieved from, of the training personas alone.
    """

    method: str
    encoder: str
    frames: Sequence[pd.DataFrame] = ()

    @classmethod
    def of_world(cls, method: str, encoder: str, world: Mapping[str, pd.DataFrame]) -> Source:
        """With the training queries, their labels, and these personas' items and log.

        Args:
            world: frames queries, gold, items and, where the method reads the log, opens.
        """
        queries, items = world["queries"], world["items"]
        asked = queries.loc[queries["split"] == "training", ["query", "persona", "time", "place"]]
        asked = asked.assign(relevant=asked["query"].map(world["gold"].set_index("query")["relevant"]).map(list))
        items = items[items["persona"].isin(asked["persona"])]
        opens = [world["opens"][world["opens"]["item"].isin(items["item"])]] if "opens" in world else []
        return cls(method, encoder, [asked, items, *opens])


def tool_ranker_for(
    records: Mapping[str, Mapping], lessons: PlanLessons, context: pd.DataFrame | None, source: Source
) -> Taken:
    """The shipped ranker of tools that learned from this very task; else one that is trained here.

    Args:
        records: of `lib.workbook.parts.read_rankers`.
        lessons: from `lessons_of_training`.
        context: from `context_features`; None for the query alone.
        source: of the context.
    """
    key = tool_ranker_source(lessons, context, source)
    return Taken.of(records, key, lambda: known_needs_ranker(lessons, context), lessons.ranking.threads)


def tool_ranker_source(lessons: PlanLessons, context: pd.DataFrame | None, source: Source) -> str:
    """SHA-256 of what a ranker learns from: training queries, their plans, the tools, what context is retrieved from,
    the names of the features, and how it learns. Not of the features: their last bits are the processor's."""
    ranking = lessons.ranking
    task, training = ranking.task, ranking.training
    folds = [FOLDS, ranking.kept_apart, CATEGORICAL, RISING]
    seen = [] if context is None else [source.method, list(context.columns)]
    settings = [source.encoder, ranking.seed, ranking.cutoff, how_trained(), folds, list(ranking.fixed.columns), seen]
    asked = task.queries.loc[training, ["query", "text", "persona", "need"]]
    asked = asked.assign(phrasing=ranking.units("phrasing")[training])
    plans = task.gold.loc[task.gold["query"].isin(asked["query"]), ["query", "item"]]
    frames = [asked, plans, task.tools[["item", "app", "text"]]]
    return hash_of(settings, [*frames, *(source.frames if context is not None else ())])
