"""Our own ranker of context, `lambdamart_2`: LambdaMART, and a second one that sees the candidates side by side.

Items of one matter may know each other: a meeting, the mail about it and its note can have words in common and be
opened at the same times. So the second stage asks of each item how near it is, by text and by usage log, to the item
that the first stage ranks first, and what its neighbours' own signals say. Beside the pretrained cosine it sees a
fine-tuned one, cross-fitted so that it learns how far to trust it (`lib.assistant.adapted_cosine`). The first stage's
scores that it learns from are out of fold by persona (stacking; Wolpert, 1992, "Stacked Generalization"). All this, and
`TOP`, were chosen by cross-validation on the training personas of the default world.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from lib.assistant.ranker_ablation import new_needs
from lib.assistant.signals import CATEGORICAL, log_similarities, rank_within
from lib.retrieval.lambdamart import LambdaMART, out_of_fold, train
from lib.retrieval.stores import tie_breakers

if TYPE_CHECKING:
    from lib.assistant.persona_index import PersonaIndex
    from lib.assistant.ranking_task import RankingTask

# Signals that the second stage also sees relative to the query's other candidates, beside the text scores.
RELATIVE = ("opens", "moment_count", "moment_share", "hour_correlation", "weekday_correlation", "place_correlation")
GROUPS = ("text", "log")  # in which items are compared
ADAPTED = "adapted"  # the fine-tuned cosine
OF_COSINE = (ADAPTED, f"{ADAPTED}_rank")
PASSED_ON = ("bm25t", "semantic", ADAPTED, "moment_count")  # what an item's neighbours may know of the query
SHARPNESS = 6.0  # of a neighbour's weight, exp(SHARPNESS · similarity)
OWN_SCORES = ("first_z", "first_rank", "first_behind", "first_share", "first_margin")
TOP = 1  # of the first stage's best items an item is compared with
FOLDS = 2  # of the second stage, and of the first stage's scores where other needs take many rankers


class Alike(NamedTuple):
    """How alike the items of one persona are.

    Attributes:
        rows: (queries, items), the position of each pair; a persona's queries have the same items in the same order.
        ties: (items,), what breaks ties between them.
        text: (items, items), cosines of their embeddings.
        log: (states, items, items), and `state` of each query (see `lib.assistant.signals.log_similarities`).
    """

    rows: np.ndarray
    ties: np.ndarray
    text: np.ndarray
    log: np.ndarray
    state: np.ndarray

    def compared(self) -> list[tuple[str, np.ndarray, np.ndarray]]:
        """Each of `GROUPS` with a matrix of similarities and the queries, as bools, for which it holds."""
        by_text = ("text", self.text, np.ones(len(self.rows), dtype=bool))
        return [by_text, *(("log", matrix, self.state == state) for state, matrix in enumerate(self.log))]


class FittedSecond(NamedTuple):
    """A second stage, and the score of every pair: those of training queries are out of fold."""

    stage: SecondStage
    scores: np.ndarray


# ---------------------------------------------------------------- features

# Features are columns by name, (pairs,) each: for one query's few rows, making frames takes longer than what they hold.
Columns = Mapping[str, np.ndarray]


def arrays_of(frame: pd.DataFrame, names: Sequence[str]) -> dict[str, np.ndarray]:
    """Columns of a frame, floats.

    Raises:
        KeyError: a column is missing.
    """
    values = dict(zip(frame.columns.tolist(), frame.to_numpy(dtype=float).T, strict=True))
    return {name: values[name] for name in names}


def alike_by_persona(task: RankingTask, item_vectors: np.ndarray) -> list[Alike]:
    """How alike each persona's items are; `item_vectors` are unit-length embeddings of `task.items`."""
    item_row, query_row = task.pairs["item_row"].to_numpy(), task.pairs["query_row"].to_numpy()
    opens_of = task.opens.groupby(task.opens["item"].map(task.items.set_index("item")["persona"])).indices
    none: np.ndarray = np.array([], dtype=int)
    parts = []
    for persona, positions in task.pairs.groupby("persona", sort=False).indices.items():
        rows = positions.reshape(len(set(query_row[positions])), -1)
        items, times = task.items.iloc[item_row[rows[0]]], task.queries["time"].iloc[query_row[rows[:, 0]]]
        vectors = item_vectors[item_row[rows[0]]]
        log = log_similarities(items, task.opens.iloc[opens_of.get(persona, none)], times)
        parts.append(Alike(rows, tie_breakers(items["item"]), vectors @ vectors.T, *log))
    return parts


def relative_to_query(columns: Columns, query_row: np.ndarray) -> dict[str, np.ndarray]:
    """Each column less its mean over the query's candidates, in standard deviations (0 where all are alike), as
    `<name>_z`; missing stays missing."""
    size = query_row.max(initial=-1) + 1
    values = {}
    for name, column in columns.items():
        there = np.isfinite(column)
        number = np.maximum(np.bincount(query_row[there], minlength=size), 1)
        mean = np.bincount(query_row[there], weights=column[there], minlength=size) / number
        centred = column - mean[query_row]
        spread = np.sqrt(np.bincount(query_row[there], weights=centred[there] ** 2, minlength=size) / number)[query_row]
        values[f"{name}_z"] = np.divide(centred, spread, out=0 * centred, where=spread > 1e-9)
    return values


def own_scores(first: np.ndarray, query_row: np.ndarray) -> dict[str, np.ndarray]:
    """`OWN_SCORES` of each pair: the first stage's score relative to the query's others, its rank, how far it lies
    behind the best, its share (softmax) within the query, and how far the query's best is ahead of the next lower.

    The score itself is left out: its level is another one in each model, and only the final one scores evaluation
    queries.
    """
    size = query_row.max(initial=-1) + 1
    best = np.full(size, -np.inf)
    np.maximum.at(best, query_row, first)
    rank = rank_within(query_row, first)
    below = np.full(size, -np.inf)
    np.maximum.at(below, query_row, np.where(rank > 1, first, -np.inf))
    margin = np.where(np.isfinite(below), best - below, 0)
    weight = np.exp(first - best[query_row])
    share = weight / np.bincount(query_row, weights=weight, minlength=size)[query_row]
    relative = relative_to_query({"first": first}, query_row)["first_z"]
    columns = (relative, rank, first - best[query_row], share, margin[query_row])
    return dict(zip(OWN_SCORES, columns, strict=True))


def neighbour_features(first: np.ndarray, alike: Sequence[Alike], top: int = TOP) -> dict[str, np.ndarray]:
    """How near each item is to the others that the first stage ranks high, by each of `GROUPS`.

    `<group>_nearest` is the similarity to the nearest of the `top` best other items, `<group>_top` the mean over them,
    and `<group>_all` the mean over all others, weighted by their shares (softmax of the scores). An item is never
    compared with itself. A query with one candidate has zeros.

    Args:
        first: the first stage's score of each pair.
    """
    values = {f"{group}_{name}": np.zeros(len(first)) for group in GROUPS for name in ("nearest", "top", "all")}
    for part in alike:
        scores = first[part.rows]
        n = scores.shape[1]
        if n < 2:
            continue
        order = np.lexsort((np.broadcast_to(part.ties, scores.shape), -np.round(scores, 9)), axis=-1)[:, : top + 1]
        others = order[:, None, :] != np.arange(n)[:, None]  # (queries, items, best first)
        others &= np.cumsum(others, axis=2) <= top
        weight, but_itself = np.exp(scores - scores.max(axis=1, keepdims=True)), 1 - np.eye(n)
        for group, matrix, here in part.compared():
            rows, kept = part.rows[here], others[here]
            near = matrix[order[here]].swapaxes(1, 2)  # symmetric: what the best resemble is what resembles them
            values[f"{group}_nearest"][rows] = np.where(kept, near, -np.inf).max(axis=2)
            values[f"{group}_top"][rows] = np.where(kept, near, 0).sum(axis=2) / kept.sum(axis=2)
            values[f"{group}_all"][rows] = weight[here] @ (matrix * but_itself) / (weight[here] @ but_itself)
    return values


def signals_of_neighbours(relative: Columns, alike: Sequence[Alike]) -> dict[str, np.ndarray]:
    """What the items that resemble each item score by themselves: means of `PASSED_ON` (relative to the query) over all
    other items, weighted by exp(`SHARPNESS` · similarity), as `<group>_passes_<signal>`.

    An item that shares no word with the query is found through one that does and is opened at the same moments, and
    the other way round.
    """
    signals = [name for name in PASSED_ON if f"{name}_z" in relative]
    known = {name: np.nan_to_num(relative[f"{name}_z"]) for name in signals}
    values = {f"{group}_passes_{name}": np.zeros(len(known[name])) for group in GROUPS for name in signals}
    for part in alike:
        if part.rows.shape[1] < 2:
            continue
        for group, matrix, here in part.compared():
            rows, weight = part.rows[here], np.exp(SHARPNESS * matrix)
            np.fill_diagonal(weight, 0)
            weight /= weight.sum(axis=0)
            for name in signals:
                values[f"{group}_passes_{name}"][rows] = known[name][rows] @ weight
    return values


def second_features(
    features: Columns, relative: Columns, passed_on: Columns, first: np.ndarray, query_row: np.ndarray,
    alike: Sequence[Alike],
) -> dict[str, np.ndarray]:  # fmt: skip
    """What the second stage sees of each pair: the first stage's features, `relative_to_query` of some of them, the
    first stage's scores, the neighbours, these also relative to the query, and what neighbours pass on
    (`signals_of_neighbours`)."""
    near = neighbour_features(first, alike)
    own = own_scores(first, query_row)
    return {**features, **relative, **own, **near, **relative_to_query(near, query_row), **passed_on}


# ---------------------------------------------------------------- learning


@dataclass(frozen=True)
class SecondStage:
    """A trained second stage; `columns` are the first stage's features."""

    ranker: LambdaMART
    columns: list[str]

    def of_one(
        self, index: PersonaIndex, query: pd.DataFrame, vector: np.ndarray, features: pd.DataFrame, first: np.ndarray
    ) -> np.ndarray:
        """Scores of a persona's items for one query, given what the first stage saw and said of them.

        Args:
            index: with the map behind the fine-tuned cosine.
            query: one row: time, weekday, place.
            vector: the query's unit-length embedding.
            features, first: the first stage's features and scores of the items.
        """
        here = np.arange(len(index.items))
        alone = np.zeros(len(here), dtype=int)
        seen = arrays_of(features, self.columns) | of_cosine(index.adapted(vector), alone)
        part = Alike(here[None], index.ties, index.text_similarity, *index.log_similarity(query["time"]))
        relative = relative_signals(seen, alone)
        passed_on = signals_of_neighbours(relative, [part])
        found = second_features(seen, relative, passed_on, first, alone, [part])
        return self.ranker.predict_values(np.column_stack([found[name] for name in self.ranker.columns]))


def of_cosine(cosine: np.ndarray, query_row: np.ndarray) -> dict[str, np.ndarray]:
    """`OF_COSINE`: the fine-tuned cosine of each pair and its rank within the query."""
    return dict(zip(OF_COSINE, (cosine.astype(float), rank_within(query_row, cosine)), strict=True))


def relative_signals(features: Columns, query_row: np.ndarray) -> dict[str, np.ndarray]:
    """`relative_to_query` of those of `RELATIVE` that are there, and of the text scores."""
    text = [name.removesuffix("_rank") for name in features if name.endswith("_rank")]
    return relative_to_query({name: features[name] for name in (*RELATIVE, *text) if name in features}, query_row)


@dataclass(frozen=True)
class TwoStages:
    """Both stages over the candidates of all queries.

    Attributes:
        task: the candidates.
        alike: from `alike_by_persona`.
        cosine: the fine-tuned cosine of each pair, which the second stage sees.
        folds: by persona, of the first stage's scores where both stages are learned anew (`first_without`); `fit` has
            the task's.
    """

    task: RankingTask
    alike: Sequence[Alike]
    cosine: np.ndarray
    folds: int = FOLDS

    @classmethod
    def of(cls, task: RankingTask, item_vectors: np.ndarray, cosine: np.ndarray) -> TwoStages:
        """`item_vectors` are unit-length, one an item."""
        return cls(task, alike_by_persona(task, item_vectors), cosine)

    def seeing(self, cosine: np.ndarray) -> TwoStages:
        """With another fine-tuned cosine of each pair; the first stage does not see it."""
        return replace(self, cosine=cosine)

    @cached_property
    def query_row(self) -> np.ndarray:
        return self.task.pairs["query_row"].to_numpy()

    @cached_property
    def seen(self) -> dict[str, np.ndarray]:
        """What the first stage sees, and the fine-tuned cosine."""
        features = self.task.features
        return arrays_of(features, list(features.columns)) | of_cosine(self.cosine, self.query_row)

    @cached_property
    def relative(self) -> dict[str, np.ndarray]:
        """`relative_to_query` of some of it."""
        return relative_signals(self.seen, self.query_row)

    @cached_property
    def passed_on(self) -> dict[str, np.ndarray]:
        """`signals_of_neighbours` of it."""
        return signals_of_neighbours(self.relative, self.alike)

    def features(self, first: np.ndarray) -> pd.DataFrame:
        """`second_features` of all pairs, given the first stage's score of each."""
        found = second_features(self.seen, self.relative, self.passed_on, first, self.query_row, self.alike)
        return pd.DataFrame(found, copy=True)

    def fit(self, first: np.ndarray) -> FittedSecond:
        """A second stage, learned from all training queries.

        Args:
            first: the first stage's score of each pair, of training pairs out of fold.
        """
        features, training = self.features(first), self.task.training
        lessons = self._lessons(features, training)
        ranker = train(**lessons)
        scores = ranker.predict(features)
        scores[training] = out_of_fold(**lessons, folds=FOLDS)
        return FittedSecond(SecondStage(ranker, list(self.task.features.columns)), scores)

    def first_without(self, learned: np.ndarray, asked: np.ndarray) -> np.ndarray:
        """A first stage learned anew from some pairs: a score of each pair learned from (out of fold by persona) or
        asked, else 0; zeros, so that all tie, where fewer than two personas a fold are learned from.

        Args:
            learned, asked: bools, one a pair; no persona is in both.
        """
        first = np.zeros(len(self.task.pairs))
        if len(set(self.task.persona[learned])) >= 2 * self.folds:
            lessons = self._lessons(self.task.features, learned)
            first[learned] = out_of_fold(**lessons, folds=self.folds)
            first[asked] = train(**lessons).predict(self.task.features[asked])
        return first

    @cached_property
    def first_on_new_needs(self) -> dict[int, np.ndarray]:
        """`first_without` the needs of each fold (`lib.assistant.ranker_ablation.new_needs`), by fold."""
        return {fold: self.first_without(*pairs) for fold, pairs in new_needs(self.task).items()}

    def second_without(self, first: np.ndarray, learned: np.ndarray, asked: np.ndarray) -> np.ndarray:
        """A second stage learned anew upon the scores of `first_without`: a score of each asked pair."""
        if len(set(self.task.persona[learned])) < 2 * self.folds:
            return np.zeros(asked.sum())
        features = self.features(first)
        return train(**self._lessons(features, learned)).predict(features[asked])

    def _lessons(self, features: pd.DataFrame, rows: np.ndarray) -> dict[str, Any]:
        """The arguments of `lib.retrieval.lambdamart.train`."""
        task, how = self.task, self.task.learning
        return {
            "pairs": task.pairs[rows],
            "features": features[rows],
            "relevant": task.relevant[rows],
            "collections": task.persona[rows],
            "categorical": CATEGORICAL,
            "cutoff": max(how.cutoffs),
            "seed": how.seed,
            "threads": how.threads,
        }
