"""Our own ranker of context, `lambdamart_2`: LambdaMART, and a second one that sees the candidates side by side.

A meeting, the mail about it and its note can have words in common and be opened at the same times. So the second stage
asks of each item how near it is, by text and by usage log, to the item that the first stage ranks first, and what its
neighbours' own signals say. The first stage's scores that it learns from are out of fold by persona (stacking; Wolpert,
1992, "Stacked Generalization").

Beside the pretrained cosine it sees a fine-tuned one. A ranker that learns from cosines that met every training topic
trusts them further than a new topic deserves. So those of training queries come from maps or encoders that met neither
the query's persona nor its topic (`cross_fitted`). All this was chosen by cross-validation on training personas.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np
import pandas as pd

from lib.assistant.ranking import STORES, WHOLE, Kept, RankingTask, learn_by_store
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
FEW_FOLDS = 2  # of the second stage, and of the first stage's scores where new topics take many rankers
ENOUGH = 4  # personas to learn a map from, or both stages for new topics

# Features are columns by name, (pairs,) each: for one query's few rows, making frames takes longer than what they hold.
_Columns = Mapping[str, np.ndarray]


class Alike(NamedTuple):
    """How alike the items of one persona are, all of whose queries have the same items in the same order."""

    rows: np.ndarray  # (queries, items), the position of each pair
    ties: np.ndarray  # (items,), what breaks ties between them
    text: np.ndarray  # (items, items), cosines of their embeddings
    log: np.ndarray  # (states, items, items), see `lib.assistant.signals.log_similarities`
    state: np.ndarray  # of the log, of each query


def alike_by_persona(task: RankingTask, item_vectors: np.ndarray) -> list[Alike]:
    """How alike each persona's items are; `item_vectors` are unit-length embeddings of `task.items`."""
    item_row, query_row = task.pairs["item_row"].to_numpy(), task.pairs["query_row"].to_numpy()
    opens_of = task.opens.groupby(task.opens["item"].map(task.items.set_index("item")["persona"])).indices
    none: np.ndarray = np.array([], dtype=int)
    parts = []
    for persona, positions in task.pairs.groupby("persona", sort=False).indices.items():
        rows = positions.reshape(len(set(query_row[positions])), -1)
        items, queries = task.items.iloc[item_row[rows[0]]], task.queries.iloc[query_row[rows[:, 0]]]
        vectors = item_vectors[item_row[rows[0]]]
        log = log_similarities(items, task.opens.iloc[opens_of.get(persona, none)], queries)
        parts.append(Alike(rows, tie_breakers(items["item"]), vectors @ vectors.T, *log))
    return parts


def second_features(
    features: pd.DataFrame, cosine: np.ndarray, first: np.ndarray, query_row: np.ndarray, alike: Sequence[Alike]
) -> dict[str, np.ndarray]:
    """What the second stage sees of each pair: the first stage's features, the fine-tuned cosine, the first stage's
    scores, the neighbours, and what they pass on; `query_row` numbers the query of each pair from 0.

    Of the first stage's scores: each relative to the query's others, its rank, how far it lies behind the best, its
    share (softmax) within the query, and how far the query's best is ahead of the next lower. Not the score itself: its
    level is another one in each model.
    """
    seen = dict(zip(features.columns.tolist(), features.to_numpy(dtype=float).T, strict=True))
    seen |= {ADAPTED: cosine.astype(float), f"{ADAPTED}_rank": rank_within(query_row, cosine)}
    text = [name.removesuffix("_rank") for name in seen if name.endswith("_rank")]
    relative = relative_to_query({name: seen[name] for name in (*RELATIVE, *text) if name in seen}, query_row)
    near, passed_on = neighbour_features(first, relative, alike)
    size, rank = query_row.max(initial=-1) + 1, rank_within(query_row, first)
    best, below = np.full(size, -np.inf), np.full(size, -np.inf)
    np.maximum.at(best, query_row, first)
    np.maximum.at(below, query_row, np.where(rank > 1, first, -np.inf))
    weight = np.exp(first - best[query_row])
    scored = relative_to_query({"first": first}, query_row) | {
        "first_rank": rank,
        "first_behind": first - best[query_row],
        "first_share": weight / np.bincount(query_row, weights=weight, minlength=size)[query_row],
        "first_margin": np.where(np.isfinite(below), best - below, 0)[query_row],
    }
    return seen | relative | scored | near | relative_to_query(near, query_row) | passed_on


def relative_to_query(columns: _Columns, query_row: np.ndarray) -> dict[str, np.ndarray]:
    """Each column less its mean over the query's candidates, in standard deviations (0 where all are alike), as
    `<name>_z`; missing stays missing."""
    size, values = query_row.max(initial=-1) + 1, {}
    for name, column in columns.items():
        there = np.isfinite(column)
        number = np.maximum(np.bincount(query_row[there], minlength=size), 1)
        mean = np.bincount(query_row[there], weights=column[there], minlength=size) / number
        centred = column - mean[query_row]
        spread = np.sqrt(np.bincount(query_row[there], weights=centred[there] ** 2, minlength=size) / number)[query_row]
        values[f"{name}_z"] = np.divide(centred, spread, out=0 * centred, where=spread > 1e-9)
    return values


def neighbour_features(
    first: np.ndarray, relative: _Columns, alike: Sequence[Alike]
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """How near each item is to the others that the first stage ranks high, and what those that resemble it pass on, by
    each of `COMPARED`. An item is never compared with itself; a query with one candidate has zeros.

    `<group>_nearest` is the similarity to the best other item, and `<group>_all` the mean over all others, weighted by
    their shares (softmax of the scores). `<group>_top` is the first once more: trees see half of the columns each, and
    so this one more often. `<group>_passes_<signal>` are means of `PASSED_ON` over all others, weighted by
    exp(`SHARPNESS` · similarity): an item that shares no word with the query is found through one that does.
    """
    known = {name: np.nan_to_num(relative[f"{name}_z"]) for name in PASSED_ON if f"{name}_z" in relative}
    near = {f"{group}_{name}": np.zeros(len(first)) for group in COMPARED for name in ("nearest", "top", "all")}
    passed_on = {f"{group}_passes_{name}": np.zeros(len(first)) for group in COMPARED for name in known}
    for part in alike:
        scores = first[part.rows]
        items = np.arange(scores.shape[1])
        if len(items) < 2:
            continue
        order = np.lexsort((np.broadcast_to(part.ties, scores.shape), -np.round(scores, 9)), axis=-1)
        best = np.where(order[:, :1] == items, order[:, 1:2], order[:, :1])  # (queries, items)
        share, but_itself = np.exp(scores - scores.max(axis=1, keepdims=True)), 1 - np.eye(len(items))
        by_text = "text", part.text, np.ones(len(part.rows), dtype=bool)
        for group, matrix, here in [by_text, *(("log", log, part.state == at) for at, log in enumerate(part.log))]:
            rows, weight = part.rows[here], np.exp(SHARPNESS * matrix)
            near[f"{group}_nearest"][rows] = near[f"{group}_top"][rows] = matrix[best[here], items]
            near[f"{group}_all"][rows] = share[here] @ (matrix * but_itself) / (share[here] @ but_itself)
            np.fill_diagonal(weight, 0)
            weight /= weight.sum(axis=0)
            for name, signal in known.items():
                passed_on[f"{group}_passes_{name}"][rows] = signal[rows] @ weight
    return near, passed_on


def learned_scores(
    task: RankingTask, vectors: Mapping[str, np.ndarray], retrained: Mapping[str, np.ndarray], kept: Kept
) -> tuple[dict[str, np.ndarray], dict[str, LambdaMART]]:
    """What every method that learns from usage makes of all pairs, unless it is kept: scores that rank them, `known
    <method>` and `new <method>`, of evaluation queries on known and on new topics, of training queries out of fold; and
    the rankers of all training queries: `WHOLE`, one a store, and `lambdamart_2`. `vectors` are unit-length embeddings
    of items and queries, in frame order, `retrained` what `cross_fitted` takes of fine-tuned encoders; none: no
    `lambdamart_2_finetuned`."""
    whole = kept.rankers("whole", lambda: {WHOLE: task.learn()})[WHOLE]
    made: dict[str, LambdaMART] = {}

    def learn() -> dict[str, np.ndarray]:
        alike, query_row, unmet = alike_by_persona(task, vectors["items"]), task.pairs["query_row"].to_numpy(), {}
        rankers, asked = learn_by_store(task, task.training, task.evaluation)
        made.update(rankers)
        found = {f"known {STORES}": task.cross_fit(task.training, by_store=True) + asked}
        found[f"known {WHOLE}"] = first = task.fit(whole)[1]
        for name, arrays in (("lambdamart_2", adapt_cosines(task, vectors)), ("lambdamart_2_finetuned", retrained)):
            if both := cross_fitted(task, arrays):
                met, unmet[name] = both
                seen = pd.DataFrame(second_features(task.features, met, first, query_row, alike), copy=True)
                second, found[f"known {name}"] = task.fit(features=seen, folds=FEW_FOLDS)
                made.setdefault("lambdamart_2", second)
        found |= {f"new {name}": scores for name, scores in scores_on_new_topics(task, alike, unmet).items()}
        kept.rankers("one query", lambda: made)
        return found

    scores = kept.scores("learned", learn)
    return scores, {WHOLE: whole} | kept.rankers("one query", dict)


def scores_on_new_topics(
    task: RankingTask, alike: Sequence[Alike], cosines: Mapping[str, Mapping[int, np.ndarray]]
) -> dict[str, np.ndarray]:
    """Scores of all pairs, 0 but for evaluation queries, by rankers that no training query told of the query's topic:
    by a first stage (`WHOLE`), by one ranker a store (`STORES`), and by a second stage upon each of some cosines (by
    fold of topics, of what learned nothing of the fold). Two stages take `ENOUGH` personas."""
    query_row = task.pairs["query_row"].to_numpy()
    found = {name: np.zeros(len(query_row)) for name in (WHOLE, STORES, *cosines)}
    for fold in np.unique(task.topic_fold[task.evaluation]).tolist():
        learned, asked = task.training & (task.topic_fold != fold), task.evaluation & (task.topic_fold == fold)
        found[STORES] += learn_by_store(task, learned, asked)[1]
        if len(set(task.persona[learned])) < ENOUGH:
            continue
        first = task.cross_fit(learned, folds=FEW_FOLDS) + task.predict(task.learn(learned), asked)
        found[WHOLE] += np.where(asked, first, 0)
        for name, cosine in cosines.items():
            seen = second_features(task.features, cosine[fold], first, query_row, alike)
            features = pd.DataFrame(seen, copy=True)
            found[name] += task.predict(task.learn(learned, features), asked, features)
    return found


def cross_fitted(
    task: RankingTask, arrays: Mapping[str, np.ndarray]
) -> tuple[np.ndarray, dict[int, np.ndarray]] | None:
    """A fine-tuned cosine of each pair for known topics, and for new ones by fold, by what learned nothing of it; those
    of training queries by what met neither the query's persona nor its topic. 0 where none is asked for; None where an
    array is missing. Raises ValueError where a pair has no cosine that it must have.

    `arrays` are cosines of the pairs of evaluation queries, `evaluation` by what learned from all training queries and
    `without_<fold>_evaluation` by what learned nothing of a fold of topics; and of the pairs of training queries,
    `without_<fold>_<fold>_training` by two models that learned nothing of two folds, each from half of the personas and
    asked about the other half. NaN where the query is about another fold.
    """
    asked, learned, fold = task.evaluation, task.training, task.topic_fold
    folds = [int(number) for number in np.unique(fold)]
    halves = {f"without_{one}_{other}_training": (one, other) for one, other in combinations(folds, 2)}
    needed = {"evaluation", *halves, *(f"without_{number}_evaluation" for number in folds)}
    if not needed <= set(arrays):
        return None

    known, new = np.zeros(len(fold)), {number: np.zeros(len(fold)) for number in folds}
    # Of each array the pairs that are asked for, and where they go.
    parts = [("evaluation", asked, [known])]
    parts += [(f"without_{number}_evaluation", asked & (fold == number), [new[number]]) for number in folds]
    for name, both in halves.items():
        for left_out, about in (both, both[::-1]):
            # Where all topics are known, one more fold is left out.
            last = left_out == max(number for number in folds if number != about)
            parts.append((name, learned & (fold == about), [new[left_out], known] if last else [new[left_out]]))
    for name, wanted, into in parts:
        values = np.full(len(fold), np.nan)
        values[learned if name.endswith("training") else asked] = arrays[name]
        if missing := int(np.isnan(values[wanted]).sum()):  # a 0 in its place would pass for a cosine
            raise ValueError(f"{name}: {missing} of {int(wanted.sum())} pairs have no cosine")
        for each in into:
            each[wanted] = values[wanted]
    return known, new


def adapt_cosines(task: RankingTask, vectors: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """What `cross_fitted` takes, by linear maps of the pretrained embeddings (`lib.retrieval.training.fit_map`); 0
    where fewer than `ENOUGH` personas teach."""
    embedded, fold = (vectors["queries"], vectors["items"]), task.topic_fold
    asked, learned, half = task.evaluation, task.training, folds_of(pd.Series(task.persona), 2, task.seed)
    # Of each array, from which pairs a map learns and which it is asked about.
    maps = {"evaluation": [(learned, asked)]}
    for number in np.unique(fold):
        maps[f"without_{number}_evaluation"] = [(learned & (fold != number), asked & (fold == number))]
    for one, other in combinations(np.unique(fold), 2):
        about = (fold == one) | (fold == other)
        sides = [(learned & (half != side) & ~about, learned & (half == side) & about) for side in (0, 1)]
        maps[f"without_{one}_{other}_training"] = sides
    arrays = {}
    for name, each in maps.items():
        found = np.zeros(len(fold))
        for taught, rows in each if len(set(task.persona[learned])) >= ENOUGH else ():
            lessons = task.pairs[taught], task.relevant[taught], task.persona[taught]
            mapping = fit_map(*lessons, *embedded, seed=task.seed)
            found[rows] = mapped_cosines(task.pairs[rows], *embedded, mapping)
        arrays[name] = found[learned if name.endswith("training") else asked]
    return arrays
