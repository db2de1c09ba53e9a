"""LambdaMART over tools: which tool a query needs, learned from training plans, with or without retrieved context.

A query's candidates are all tools; labels are the gold APIs of training queries. What a classifier of queries and the
plans' frequencies say of a training query is learned without its fold, so that the ranker sees how far to trust them
where they have not seen the answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pandas as pd

from lib.retrieval.lambdamart import LambdaMART, Taken, hash_of, how_trained, train
from lib.retrieval.stores import bm25t_scores, candidate_pairs, cosine_of_pairs, rank_pairs, relevant_pairs_mask

ITEM_NUMBERS = (1, 3, 5)  # how many of the first context items are compared with a tool's text
APP_DEPTHS = (5, 10)  # how many of them have a say on a tool's app
CODES = ["app"]
# What is learned without a fold knows least of the very tools that the fold calls: a ranker that took a low value for a
# good sign would read the labels off the folds.
RISING = ["classifier", "frequency"]
FOLDS = 5
NO_FOLD = -1  # of queries that are never learned from
UNITS = ("need", "phrasing", "persona")


# ---------------------------------------------------------------- what training plans teach


def tool_pairs(queries: pd.DataFrame, tools: pd.DataFrame) -> pd.DataFrame:
    """Every query with every tool (see `lib.retrieval.stores.candidate_pairs`)."""
    return candidate_pairs(queries[["query"]].assign(toolbox=0), tools[["item"]].assign(toolbox=0), on="toolbox")


def taught_scores(
    pairs: pd.DataFrame, vectors: np.ndarray, gold: pd.DataFrame, known: pd.Index, known_vectors: np.ndarray
) -> dict[str, np.ndarray]:
    """Scores of `pairs` by what knows training plans instead of the tools' texts.

    Args:
        vectors: embeddings of the queries that `pairs` was made from.
        gold: columns query, item; plans of queries that are not `known` are ignored.
        known: ids of the training queries, in the order of `known_vectors`.

    Returns:
        `frequency`, how many plans call each pair's tool, whatever the query; and `classifier`, the probability that a
        classifier of queries gives it, 0 for a tool it has not learned. With fewer than two APIs to learn there is
        nothing to tell apart, and the classifier's are the frequencies.
    """
    gold = gold[gold["query"].isin(known)]
    frequency = pairs["item"].map(gold["item"].value_counts()).fillna(0).to_numpy(dtype=float)
    answers = pd.Series(known).map(gold.drop_duplicates("query").set_index("query")["item"])
    if answers.nunique() < 2:
        return {"frequency": frequency, "classifier": frequency}
    model = api_classifier(known_vectors[answers.notna().to_numpy()], answers.dropna())
    column = pairs["item"].map({name: place for place, name in enumerate(model.classes_)})
    chances = model.predict_proba(vectors)[pairs["query_row"], column.fillna(0).astype(int)]
    return {"frequency": frequency, "classifier": np.where(column.isna(), 0.0, chances)}


def api_classifier(vectors: np.ndarray, apis: pd.Series):
    """A logistic regression from a query's embedding to the first API of its plan, fitted.

    Newton's method, in float64 and until it has converged: L-BFGS stops where rounding has it, while the probabilities
    are off by up to 0.03, and takes far longer where labels were dealt anew.

    Args:
        vectors: embeddings of the queries to learn from, (queries, dimensions).
        apis: the first API of each query's gold plan, in the same order.
    """
    from sklearn.dummy import DummyClassifier
    from sklearn.linear_model import LogisticRegression

    if len(set(apis)) == 1:  # there is nothing to tell apart
        return DummyClassifier().fit(vectors, np.asarray(apis))
    model = LogisticRegression(C=10.0, solver="newton-cg", tol=1e-6, max_iter=1000)
    return model.fit(np.asarray(vectors, dtype=float), np.asarray(apis))


def fold_of_units(units: pd.Series, seed: int) -> dict[str, int]:
    """A fold, from 0, of each distinct unit (a need, say), drawn with the seed."""
    names = np.random.default_rng(seed).permutation(sorted(set(units)))
    return {unit: place % FOLDS for place, unit in enumerate(names)}


# ---------------------------------------------------------------- what a ranker sees


@dataclass(frozen=True)
class RankerTask:
    """What rankers of tools learn from and are asked. All pairs of a query and a tool lie query by query.

    Attributes:
        queries: columns query, text, split, persona, need, phrasing; of both sides.
        tools: columns item, app, text.
        gold: columns query, item, one row for each API of a plan.
        vectors, tool_vectors: unit-length embeddings of queries and tools.
        cutoff: the largest K of interest.
        seed: of folds and rankers.
        threads: of the training.
    """

    queries: pd.DataFrame
    tools: pd.DataFrame
    gold: pd.DataFrame
    vectors: np.ndarray
    tool_vectors: np.ndarray
    cutoff: int
    seed: int
    threads: int = 1

    @cached_property
    def pairs(self) -> pd.DataFrame:
        """Every query with every tool; features, labels and scores have one row a pair."""
        return tool_pairs(self.queries, self.tools)

    @cached_property
    def relevant(self) -> np.ndarray:
        """Whether the query's plan calls the tool."""
        return relevant_pairs_mask(self.pairs, self.gold)

    @cached_property
    def fixed(self) -> pd.DataFrame:
        """Features that no plan has taught: cosine, bm25t and app."""
        app = self.tools["app"].map({name: code for code, name in enumerate(self.apps)})
        return pd.DataFrame(
            {
                "cosine": cosine_of_pairs(self.pairs, self.vectors, self.tool_vectors),
                "bm25t": bm25t_scores(self.pairs, self.queries, self.tools.assign(toolbox=0), within=["toolbox"]),
                "app": app.to_numpy()[self.pairs["item_row"]],
            }
        )

    @property
    def apps(self) -> list[str]:
        """The apps that have tools, in alphabetical order."""
        return sorted(self.tools["app"].unique())

    @cached_property
    def training(self) -> np.ndarray:
        """Whether each query is one to learn from."""
        return (self.queries["split"] == "training").to_numpy()

    @property
    def kept_apart(self) -> str:
        """The coarsest of `UNITS` that evaluation never shares with training; personas are always kept apart."""
        for name in UNITS[:-1]:
            units = self.queries[name]
            if not set(units[self.training]) & set(units[~self.training]):
                return name
        return UNITS[-1]

    def of_pairs(self, values: pd.Series | np.ndarray) -> np.ndarray:
        """What each pair's query has of one value a query."""
        return np.asarray(values)[self.pairs["query_row"].to_numpy()]

    def context_features(self, context: pd.DataFrame, items: pd.DataFrame, item_vectors: np.ndarray) -> pd.DataFrame:
        """What retrieved context says of each tool; missing where a query has no context.

        Args:
            context: columns query, item, rank: of both sides; that of training queries ranked by what had not seen
                them.
            items: columns item, app; `item_vectors` are unit-length embeddings of them.

        Returns:
            one row a pair: the highest and the mean cosine of the first items and the tool (`item_cosine_max_3`, …),
            and the share of the first items, discounted by log2(rank + 1), that lie in its app (`app_mass_5`, …).
        """
        rows = ranked_rows(context, self.queries["query"], items["item"], max(APP_DEPTHS))
        there, features = rows >= 0, {}
        cosines = item_vectors[rows[:, : max(ITEM_NUMBERS)]] @ self.tool_vectors.T
        for n in ITEM_NUMBERS:
            part, known = cosines[:, :n], there[:, :n, None]
            count = np.where(known.any(axis=1), known.sum(axis=1), np.nan)
            features[f"item_cosine_max_{n}"] = np.where(known, part, -1).max(axis=1) + 0 * count
            if n > 1:
                features[f"item_cosine_mean_{n}"] = np.where(known, part, 0).sum(axis=1) / count
        weight = there / np.log2(np.arange(2, there.shape[1] + 2))
        in_app = items["app"].to_numpy()[rows][:, :, None] == np.array(self.apps, dtype=object)
        in_app, app = in_app * weight[:, :, None], pd.Index(self.apps).get_indexer(self.tools["app"])
        for n in APP_DEPTHS:
            total = weight[:, :n].sum(axis=1, keepdims=True)
            features[f"app_mass_{n}"] = (in_app[:, :n].sum(axis=1) / np.where(total > 0, total, np.nan))[:, app]
        query, tool = self.pairs["query_row"].to_numpy(), self.pairs["item_row"].to_numpy()
        return pd.DataFrame({name: values[query, tool] for name, values in features.items()})

    def others_features(self, context: pd.DataFrame) -> pd.DataFrame:
        """`context_features` in which each query has another's of its own side: a control."""
        rng, owner = np.random.default_rng(self.seed), np.arange(len(self.queries))
        for side in (self.training, ~self.training):
            order = rng.permutation(np.flatnonzero(side))
            owner[order] = np.roll(order, 1)
        rows = self.of_pairs(owner) * len(self.tools) + np.arange(len(context)) % len(self.tools)
        return context.iloc[rows].reset_index(drop=True)


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


# ---------------------------------------------------------------- learning, cross-fitted


@dataclass(frozen=True)
class PlanLessons:
    """What a classifier of queries and the frequencies of plans say of each pair, learned without some folds.

    Attributes:
        task: the queries and tools.
        fold: of each query; `NO_FOLD` for one that belongs to none.
    """

    task: RankerTask
    fold: np.ndarray
    _kept: dict[frozenset[int], np.ndarray] = field(default_factory=dict)

    @classmethod
    def of(cls, task: RankerTask, topics: str = "known") -> PlanLessons:
        """For `known` topics evaluation queries are asked of what learned from all training queries, and each of these
        of other folds of what evaluation does not share with training (`RankerTask.kept_apart`). For `new` ones every
        query is asked of what learned from other topics, by five folds."""
        if topics == "new":
            needs = task.queries["need"]
            return cls(task, needs.map(fold_of_units(needs, task.seed)).to_numpy(dtype=int))
        units = task.queries[task.kept_apart]
        fold = units.map(fold_of_units(units[task.training], task.seed))
        return cls(task, fold.where(task.training, NO_FOLD).to_numpy(dtype=int))

    def without(self, folds: frozenset[int]) -> np.ndarray:
        """The classifier's probability and the share of plans for each pair, (pairs, 2), learned from the training
        queries of other folds."""
        if folds not in self._kept:
            task = self.task
            learned = task.training & ~np.isin(self.fold, list(folds))
            known = pd.Index(task.queries["query"][learned])
            scores = taught_scores(task.pairs, task.vectors, task.gold, known, task.vectors[learned])
            self._kept[folds] = np.column_stack([scores["classifier"], scores["frequency"] / max(1, len(known))])
        return self._kept[folds]

    def features(self, outer: int, context: pd.DataFrame | None = None) -> pd.DataFrame:
        """What a ranker sees of each pair that is asked about the fold `outer`: what no plan has taught; classifier and
        frequency, of each query learned from training queries neither of its own fold nor of `outer`; and context.

        Args:
            context: from `RankerTask.context_features`; None: the ranker sees the query alone.
        """
        of_pair = self.task.of_pairs(self.fold)
        values = np.empty((len(of_pair), 2))
        for own in np.unique(self.fold).tolist():
            rows = of_pair == own
            values[rows] = self.without(frozenset({own, outer}))[rows]
        taught = pd.DataFrame(values, columns=RISING)
        return pd.concat([self.task.fixed, taught, *([] if context is None else [context])], axis=1)

    def learn(self, outer: int, features: pd.DataFrame, unit: str) -> LambdaMART | None:
        """A ranker that has learned from the training queries of other folds than `outer`; None where there are none.

        Args:
            features: of all pairs.
            unit: of `UNITS`, of which early stopping holds some out (personas where all learned from are of one).
        """
        task = self.task
        learned = task.of_pairs(task.training & (self.fold != outer))
        if not learned.any():
            return None
        held_together = task.of_pairs(task.queries[unit])[learned]
        if len(set(held_together)) < 2:
            held_together = task.of_pairs(task.queries["persona"])[learned]
        how = CODES, task.cutoff, task.seed, task.threads, RISING
        return train(task.pairs[learned], features[learned], task.relevant[learned], held_together, *how)

    def ranker(self, context: pd.DataFrame | None) -> LambdaMART | None:
        """The ranker that has learned from all training queries of known topics."""
        return self.learn(NO_FOLD, self.features(NO_FOLD, context), "persona")

    def run_by(self, ranker: LambdaMART | None, context: pd.DataFrame | None) -> pd.DataFrame:
        """The ranking of the evaluation queries by a ranker of known topics; all tools tie where it is None."""
        asked = self.task.of_pairs(~self.task.training)
        features = self.features(NO_FOLD, context)[asked]
        scores = np.zeros(len(features)) if ranker is None else ranker.predict(features)
        return rank_pairs(self.task.pairs[asked], scores)

    def run_by_folds(self, context: pd.DataFrame | None) -> pd.DataFrame:
        """The ranking of the evaluation queries, each fold by what has learned from the training queries of the others;
        whatever ranked the context may have learned from all of them."""
        task = self.task
        scores, asked = np.zeros(len(task.pairs)), task.of_pairs(~task.training)
        for fold in np.unique(self.fold[~task.training]).tolist():
            features, here = self.features(fold, context), task.of_pairs(~task.training & (self.fold == fold))
            ranker = self.learn(fold, features, "need")
            if ranker is not None:
                scores[here] = ranker.predict(features[here])
        return rank_pairs(task.pairs[asked], scores[asked])


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
        lessons: of known topics.
        context: from `RankerTask.context_features`; None for the query alone.
        source: of the context.
    """
    key = tool_ranker_source(lessons.task, context, source)
    return Taken.of(records, key, lambda: lessons.ranker(context), lessons.task.threads)


def tool_ranker_source(task: RankerTask, context: pd.DataFrame | None, source: Source) -> str:
    """SHA-256 of what a ranker learns from: training queries, their plans, the tools, what context is retrieved from,
    the names of the features, and how it learns. Not of the features: their last bits are the processor's."""
    folds = [FOLDS, task.kept_apart, CODES, RISING]
    seen = [] if context is None else [source.method, list(context.columns)]
    settings = [source.encoder, task.seed, task.cutoff, how_trained(), folds, list(task.fixed.columns), seen]
    asked = task.queries.loc[task.training, ["query", "text", "persona", "need", "phrasing"]]
    plans = task.gold.loc[task.gold["query"].isin(asked["query"]), ["query", "item"]]
    frames = [asked, plans, task.tools[["item", "app", "text"]]]
    return hash_of(settings, [*frames, *(source.frames if context is not None else ())])
