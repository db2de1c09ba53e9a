"""The readings of LambdaMART-RRF that the paper's words allow: whose rankings are fused, and the choice among them.

The paper ranks with LambdaMART and re-ranks by RRF; it does not say which rankings are fused. Here one LambdaMART of
all stores and one a store (each learns from its own store's items) give rankings that differ, fused with each other,
with text rankings or without, weighted or not. A store holds one context type here (`lib.assistant.schemas.APP_NAMES`),
so that one LambdaMART a context type is one a store.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from lib.retrieval.finetune import folds_of
from lib.retrieval.fusion import Fusion, rank_per_store, try_fusions
from lib.retrieval.stores import rank_pairs

if TYPE_CHECKING:
    from lib.assistant.ranking_task import Fitted, RankingTask
    from lib.retrieval.lambdamart import LambdaMART

WHOLE = "whole"  # the ranking by one LambdaMART of all stores
STORES = "store by store"  # ranks start anew in each store
READINGS = ((WHOLE,), (STORES,), (WHOLE, STORES))
WEIGHTS = (1, 2, 4)  # of LambdaMART's rankings, or of the one of all stores beside others; the rest weigh 1
FOLDS = 3  # at most: there are many rankers

Rankers = dict[str, dict[str, "LambdaMART"]]


def parts_of(task: RankingTask, name: str) -> dict[str, np.ndarray]:
    """The pairs (bools) of each ranker behind a ranking: one a store for `STORES`, else one of all."""
    if name == STORES:
        store = task.pairs["item"].map(task.store).to_numpy()
        return {app: store == app for app in sorted(set(store))}
    return {name: np.ones(len(task.pairs), dtype=bool)}


def needed(rankings: Iterable[str]) -> list[str]:
    """Those of the rankings that need rankers of their own."""
    return [name for name in rankings if name == STORES]


def learn(task: RankingTask, names: Iterable[str], learned: np.ndarray) -> Rankers:
    """The rankers behind some rankings; a part that fewer than two personas teach has none, and its items tie.

    Args:
        learned: the pairs learned from, bools.
    """
    return {
        name: {
            # The pairs of one store are few: on them two threads take four times as long as one.
            part: task.learn(rows=learned & rows, threads=1 if name == STORES else None)
            for part, rows in parts_of(task, name).items()
            if len(set(task.persona[learned & rows])) > 1
        }
        for name in names
    }


def score(task: RankingTask, rankers: Rankers, asked: np.ndarray) -> dict[str, np.ndarray]:
    """Scores of the asked pairs by each ranking's rankers."""
    scores = {}
    for name, parts in rankers.items():
        values = np.zeros(len(task.pairs))
        for part, rows in parts_of(task, name).items():
            here = asked & rows
            if part in parts and here.any():
                values[here] = parts[part].predict(task.features[here])
        scores[name] = values[asked]
    return scores


def ranked(task: RankingTask, scores: Mapping[str, np.ndarray], asked: np.ndarray) -> dict[str, pd.DataFrame]:
    """The rankings of the asked pairs by their scores."""
    runs = {name: rank_pairs(task.pairs[asked], values) for name, values in scores.items()}
    if STORES in runs:
        runs[STORES] = rank_per_store(runs[STORES], runs[STORES]["item"].map(task.store))
    return runs


def rank_without(
    task: RankingTask, names: Iterable[str], learned: np.ndarray, asked: np.ndarray
) -> dict[str, pd.DataFrame]:
    """Rankings of the asked pairs by rankers that learned from others."""
    return ranked(task, score(task, learn(task, names, learned), asked), asked)


def cross_fit(task: RankingTask, names: Sequence[str], rows: np.ndarray) -> dict[str, pd.DataFrame]:
    """Rankings of some pairs, each by rankers that saw none of its persona's, over the folds of `task.learning` or
    `FOLDS`, whichever are fewer."""
    folds = min(task.learning.folds, FOLDS)
    scores, fold = {name: np.zeros(len(task.pairs)) for name in names}, np.full(len(rows), folds)
    fold[rows] = folds_of(pd.Series(task.persona[rows]), folds, task.learning.seed + 1)
    for number in range(folds):
        inside = fold == number
        for name, values in score(task, learn(task, names, rows & ~inside), inside).items():
            scores[name][inside] = values
    return ranked(task, {name: values[rows] for name, values in scores.items()}, rows)


# ---------------------------------------------------------------- the choice


@dataclass(frozen=True)
class FittedReadings:
    """What may be fused, by name: the rankings of training queries (out of fold by persona) and of evaluation queries;
    and the rankers behind them, `WHOLE` among them."""

    training: dict[str, pd.DataFrame]
    evaluation: dict[str, pd.DataFrame]
    rankers: Rankers


def fit(task: RankingTask, fitted: Fitted, names: Sequence[str] = (STORES,)) -> FittedReadings:
    """The rankings of a fitted LambdaMART and those of more rankers.

    Args:
        names: of the rankings by more rankers.
    """
    rankers = learn(task, names, task.training)
    evaluation = ranked(task, score(task, rankers, task.evaluation), task.evaluation)
    return FittedReadings(
        fitted.training | cross_fit(task, names, task.training),
        fitted.evaluation | evaluation,
        {WHOLE: {WHOLE: fitted.ranker}} | rankers,
    )


def fusions(lambdamarts: Sequence[str], text: Sequence[str], ks: Sequence[float]) -> list[Fusion]:
    """The ways to fuse LambdaMART's rankings with rankings by text: every constant and, where there is something to
    weigh, each of `WEIGHTS`; none for a single ranking."""
    names = (*lambdamarts, *text)
    heavy = {WHOLE} if WHOLE in lambdamarts else set(lambdamarts)
    if names == (WHOLE,):  # one ranking a store is many, and can be fused by itself
        return []
    weights = [()] + [tuple(float(weight if name in heavy else 1) for name in names) for weight in WEIGHTS[1:]]
    return [Fusion(names, k, each) for each in (weights if heavy < set(names) else [()]) for k in ks]


def try_readings(task: RankingTask, rankings: Mapping[str, pd.DataFrame], ks: Sequence[float]) -> pd.DataFrame:
    """`lib.retrieval.fusion.try_fusions` of every reading with every choice of text rankings, on the training queries.

    Args:
        rankings: of training queries, out of fold.
        ks: constants of RRF.
    """
    tried = [
        fusion
        for names in READINGS
        for size in range(len(task.text) + 1)
        for text in combinations(task.text, size)
        for fusion in fusions(names, text, ks)
    ]
    return try_fusions(rankings, tried, task.qrels, task.queries_of("training"), task.learning.cutoffs)


# ---------------------------------------------------------------- one query at a time


@dataclass(frozen=True)
class FusedRankers:
    """LambdaMART-RRF, ready to rank one query's candidates: what is fused, and the rankers behind it."""

    fusion: Fusion
    rankers: Rankers

    @classmethod
    def of(cls, fusion: Fusion, readings: FittedReadings) -> FusedRankers:
        """With the rankers that the fusion needs."""
        return cls(fusion, {name: parts for name, parts in readings.rankers.items() if name in fusion.rankings})

    def on_one_thread(self) -> FusedRankers:
        """The same, for a few dozen rows: more threads would wait for each other."""
        alone = {
            name: {part: replace(ranker, threads=1) for part, ranker in parts.items()}
            for name, parts in self.rankers.items()
        }
        return replace(self, rankers=alone)

    def scores(self, features: pd.DataFrame, store: np.ndarray) -> dict[str, np.ndarray]:
        """Scores of a query's candidates by each ranking's rankers.

        Args:
            features: of the candidates, with their text scores.
            store: of each.
        """
        scores, seen = {}, {}
        for name, parts in self.rankers.items():
            scores[name] = np.zeros(len(features))
            for part, ranker in parts.items():
                here = store == part if name == STORES else np.ones(len(store), dtype=bool)
                columns = tuple(ranker.columns)
                if columns not in seen:  # most rankers see the same
                    seen[columns] = ranker.values(features)
                if here.any():
                    scores[name][here] = ranker.predict_values(seen[columns][here])
        return scores
