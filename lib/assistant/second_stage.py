"""Our own ranker of context, `lambdamart_2`: LambdaMART, and a second one that sees the candidates side by side.

Items of one matter may know each other: a meeting, the mail about it and its note can have words in common and be
opened at the same times. So the second stage asks of each item how near it is, by text and by usage log, to the item
that the first stage ranks first, and what its neighbours' own signals say. The first stage's scores that it learns from
are out of fold by persona (stacking; Wolpert, 1992, "Stacked Generalization").

Beside the pretrained cosine it sees a fine-tuned one. What has met a topic finds its items better than what has not; a
ranker that learns from cosines that met every training topic learns to trust them further than a new topic deserves. So
the cosines of training queries come from maps or encoders that met neither the query's persona nor its topic
(`cross_fitted`). All this, and `TOP`, were chosen by cross-validation on the training personas of the default world.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
import pandas as pd

from lib.assistant.ranking import RankingTask
from lib.assistant.signals import log_similarities, rank_within
from lib.retrieval.lambdamart import LambdaMART
from lib.retrieval.stores import folds_of, tie_breakers
from lib.retrieval.training import fit_map, mapped_cosines

# Signals that the second stage also sees relative to the query's other candidates, beside the text scores.
RELATIVE = ("opens", "moment_count", "moment_share", "hour_correlation", "weekday_correlation", "place_correlation")
COMPARED = ("text", "log")  # in which items are compared
ADAPTED = "adapted"  # the fine-tuned cosine
PASSED_ON = ("bm25t", "semantic", ADAPTED, "moment_count")  # what an item's neighbours may know of the query
SHARPNESS = 6.0  # of a neighbour's weight, exp(SHARPNESS · similarity)
TOP = 1  # of the first stage's best items an item is compared with
FEW_FOLDS = 2  # of the second stage, and of the first stage's scores where new topics take many rankers
ENOUGH = 4  # personas to learn a map from, or both stages for new topics

# Features are columns by name, (pairs,) each: for one query's few rows, making frames takes longer than what they hold.
_Columns = Mapping[str, np.ndarray]


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
        """Each of `COMPARED` with a matrix of similarities and the queries, as bools, for which it holds."""
        by_text = ("text", self.text, np.ones(len(self.rows), dtype=bool))
        return [by_text, *(("log", matrix, self.state == state) for state, matrix in enumerate(self.log))]


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


# ---------------------------------------------------------------- features


def second_features(
    features: pd.DataFrame, cosine: np.ndarray, first: np.ndarray, query_row: np.ndarray, alike: Sequence[Alike]
) -> dict[str, np.ndarray]:
    """What the second stage sees of each pair: the first stage's features, the fine-tuned cosine, some of these
    relative to the query, the first stage's scores, the neighbours, these also relative to the query, and what
    neighbours pass on.

    Args:
        features: the first stage's.
        cosine, first: the fine-tuned cosine and the first stage's score of each pair.
        query_row: the query of each pair, numbers from 0.
    """
    seen = dict(zip(features.columns.tolist(), features.to_numpy(dtype=float).T, strict=True))
    seen |= {ADAPTED: cosine.astype(float), f"{ADAPTED}_rank": rank_within(query_row, cosine)}
    text = [name.removesuffix("_rank") for name in seen if name.endswith("_rank")]
    relative = relative_to_query({name: seen[name] for name in (*RELATIVE, *text) if name in seen}, query_row)
    near = neighbour_features(first, alike)
    own = own_scores(first, query_row)
    passed_on = signals_of_neighbours(relative, alike)
    return {**seen, **relative, **own, **near, **relative_to_query(near, query_row), **passed_on}


def relative_to_query(columns: _Columns, query_row: np.ndarray) -> dict[str, np.ndarray]:
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
    """The first stage's score of each pair relative to the query's others, its rank, how far it lies behind the best,
    its share (softmax) within the query, and how far the query's best is ahead of the next lower.

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
    return {
        **relative_to_query({"first": first}, query_row),
        "first_rank": rank,
        "first_behind": first - best[query_row],
        "first_share": weight / np.bincount(query_row, weights=weight, minlength=size)[query_row],
        "first_margin": margin[query_row],
    }


def neighbour_features(first: np.ndarray, alike: Sequence[Alike], top: int = TOP) -> dict[str, np.ndarray]:
    """How near each item is to the others that the first stage ranks high, by each of `COMPARED`.

    `<group>_nearest` is the similarity to the nearest of the `top` best other items, `<group>_top` the mean over them,
    and `<group>_all` the mean over all others, weighted by their shares (softmax of the scores). An item is never
    compared with itself. A query with one candidate has zeros.

    Args:
        first: the first stage's score of each pair.
    """
    values = {f"{group}_{name}": np.zeros(len(first)) for group in COMPARED for name in ("nearest", "top", "all")}
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


def signals_of_neighbours(relative: _Columns, alike: Sequence[Alike]) -> dict[str, np.ndarray]:
    """What the items that resemble each item score by themselves: means of `PASSED_ON` (relative to the query) over all
    other items, weighted by exp(`SHARPNESS` · similarity), as `<group>_passes_<signal>`.

    An item that shares no word with the query is found through one that does and is opened at the same moments, and
    the other way round.
    """
    known = {name: np.nan_to_num(relative[f"{name}_z"]) for name in PASSED_ON if f"{name}_z" in relative}
    values = {f"{group}_passes_{name}": np.zeros(len(known[name])) for group in COMPARED for name in known}
    for part in alike:
        if part.rows.shape[1] < 2:
            continue
        for group, matrix, here in part.compared():
            rows, weight = part.rows[here], np.exp(SHARPNESS * matrix)
            np.fill_diagonal(weight, 0)
            weight /= weight.sum(axis=0)
            for name, signal in known.items():
                values[f"{group}_passes_{name}"][rows] = signal[rows] @ weight
    return values


# ---------------------------------------------------------------- learning


def fit_second(
    task: RankingTask, alike: Sequence[Alike], first: np.ndarray, cosine: np.ndarray
) -> tuple[LambdaMART, np.ndarray]:
    """A second stage, learned from all training queries, and its score of every pair; of training queries out of fold.

    Args:
        first: the first stage's score of each pair, of training pairs out of fold.
        cosine: the fine-tuned cosine of each pair.
    """
    features = _features_of_pairs(task, alike, first, cosine)
    ranker = task.learn(features=features)
    return ranker, task.cross_fit(task.training, features, FEW_FOLDS) + task.predict(ranker, task.evaluation, features)


def first_on_new_topics(task: RankingTask) -> dict[int, np.ndarray]:
    """By fold of topics, the scores of a first stage that no training query told of them: of the pairs that it learned
    from (out of fold by persona) and of those asked about; of all others, and where fewer than `ENOUGH` personas teach,
    0."""
    found = {}
    for fold, (learned, asked) in task.new_topics.items():
        found[fold] = np.zeros(len(task.pairs))
        if len(set(task.persona[learned])) >= ENOUGH:
            found[fold] += task.cross_fit(learned, folds=FEW_FOLDS) + task.predict(task.learn(learned), asked)
    return found


def second_on_new_topics(
    task: RankingTask, alike: Sequence[Alike], first: Mapping[int, np.ndarray], cosines: Mapping[int, np.ndarray]
) -> np.ndarray:
    """A score of every evaluation pair by a second stage that no training query told of its topic; 0 where too few
    personas teach.

    Args:
        first: from `first_on_new_topics`.
        cosines: by fold, the fine-tuned cosine of each pair by what learned nothing of the fold's topics.
    """
    scores = np.zeros(len(task.pairs))
    for fold, (learned, asked) in task.new_topics.items():
        if len(set(task.persona[learned])) >= ENOUGH:
            features = _features_of_pairs(task, alike, first[fold], cosines[fold])
            scores += task.predict(task.learn(learned, features=features), asked, features)
    return scores


def score_one(
    ranker: LambdaMART, alike: Alike, cosine: np.ndarray, features: pd.DataFrame, first: np.ndarray
) -> np.ndarray:
    """A second stage's scores of the candidates of one query.

    Args:
        alike: of these candidates.
        cosine, features, first: the fine-tuned cosine, the first stage's features and its score of each.
    """
    found = second_features(features, cosine, first, np.zeros(len(first), dtype=int), [alike])
    return ranker.predict_values(np.column_stack([found[name] for name in ranker.columns]))


def _features_of_pairs(
    task: RankingTask, alike: Sequence[Alike], first: np.ndarray, cosine: np.ndarray
) -> pd.DataFrame:
    """`second_features` of all pairs."""
    query_row = task.pairs["query_row"].to_numpy()
    return pd.DataFrame(second_features(task.features, cosine, first, query_row, alike), copy=True)


# ---------------------------------------------------------------- a cosine that is learned


class Cosines(NamedTuple):
    """A fine-tuned cosine of each pair.

    Attributes:
        known: of evaluation queries by what learned from all training queries.
        new: by fold of topics, the same where nothing learned from the fold's topics; 0 of evaluation pairs about
            others, and of training pairs about the fold's.
    """

    known: np.ndarray
    new: dict[int, np.ndarray]


def cross_fitted(
    task: RankingTask,
    evaluation: Callable[[int | None], np.ndarray],
    training: Callable[[int, int], np.ndarray],
) -> Cosines:
    """Cosines of which those of training queries come from models that met neither the query's persona nor its topic.

    Args:
        evaluation: from a fold of topics, or None, to the cosines of all pairs by a model that learned from the
            training queries about other folds.
        training: from two folds to the cosines of all pairs by two models that each learned from half of the training
            personas, asked about the other half's queries, and from no query about these folds.
    """
    fold = task.topic_fold
    numbers = [int(number) for number in np.unique(fold)]
    known = np.where(task.evaluation, evaluation(None), 0.0)
    new = {number: np.where(task.evaluation & (fold == number), evaluation(number), 0.0) for number in numbers}
    for number in numbers:
        here, others = task.training & (fold == number), [other for other in numbers if other != number]
        known[here] = training(number, others[-1] if others else number)[here]
        for other in others:
            new[other][here] = training(number, other)[here]
    return Cosines(known, new)


def adapt_cosines(task: RankingTask, vectors: Mapping[str, np.ndarray]) -> tuple[Cosines, np.ndarray]:
    """Cosines after linear maps of the pretrained embeddings (`lib.retrieval.training.fit_map`), and the map that
    learned from all training queries; where fewer than `ENOUGH` personas teach, 0 and the identity.

    Args:
        vectors: unit-length embeddings of items and queries, in frame order.
    """
    embedded = vectors["queries"], vectors["items"]
    enough = len(set(task.persona[task.training])) >= ENOUGH
    half = folds_of(pd.Series(task.persona), 2, task.seed)

    def learn(rows: np.ndarray) -> np.ndarray:
        rows = rows & enough
        return fit_map(task.pairs[rows], task.relevant[rows], task.persona[rows], *embedded, seed=task.seed)

    def cosines(adapter: np.ndarray, rows: np.ndarray) -> np.ndarray:
        found = np.zeros(len(rows))
        if enough:
            found[rows] = mapped_cosines(task.pairs[rows], *embedded, adapter)
        return found

    whole = learn(task.training)

    def evaluation(fold: int | None) -> np.ndarray:
        adapter = whole if fold is None else learn(task.training & (task.topic_fold != fold))
        return cosines(adapter, task.evaluation & ((fold is None) | (task.topic_fold == fold)))

    @cache
    def of_halves(folds: frozenset[int]) -> np.ndarray:
        about, found = np.isin(task.topic_fold, list(folds)), np.zeros(len(half))
        for side in (0, 1):
            adapter = learn(task.training & (half != side) & ~about)
            found += cosines(adapter, task.training & (half == side) & about)
        return found

    return cross_fitted(task, evaluation, lambda one, other: of_halves(frozenset((one, other)))), whole


def encoder_cosines(task: RankingTask, met: np.ndarray, arrays: Mapping[str, np.ndarray]) -> Cosines | None:
    """Cosines by fine-tuned encoders; None where they are not kept for every fold that the task has.

    Args:
        met: the cosine of each pair by encoders that learned from all topics.
        arrays: from `lib.assistant.search_training.fold_cosines`, of the same queries and items.

    Raises:
        ValueError: a pair has no cosine that it must have.
    """
    folds = sorted(int(number) for number in np.unique(task.topic_fold))
    names = {f"without_{one}_{other}_training" for one in folds for other in folds if one < other}
    if not names or not names | {f"without_{fold}_evaluation" for fold in folds} <= set(arrays):
        return None

    def placed(name: str, rows: np.ndarray, needed: np.ndarray) -> np.ndarray:
        values = np.zeros(len(rows))
        values[rows] = arrays[name].astype(float)
        if missing := int((np.isnan(values) & needed).sum()):  # a 0 in its place would pass for a cosine
            raise ValueError(f"{name}: {missing} of {int(needed.sum())} pairs have no cosine")
        return np.nan_to_num(values)

    def evaluation(fold: int | None) -> np.ndarray:
        if fold is None:
            return met
        return placed(f"without_{fold}_evaluation", task.evaluation, task.evaluation & (task.topic_fold == fold))

    def training(one: int, other: int) -> np.ndarray:
        name = f"without_{min(one, other)}_{max(one, other)}_training"
        return placed(name, task.training, task.training & np.isin(task.topic_fold, (one, other)))

    return cross_fitted(task, evaluation, training)
