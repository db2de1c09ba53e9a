"""The readings of LambdaMART-RRF that the paper's words allow: whose rankings are fused, and the choice among them.

The paper ranks with LambdaMART and re-ranks by RRF; it does not say which rankings are fused. Here one LambdaMART of
all stores, one a store (each learns from its own store's items) and one a group of signals give rankings that differ,
fused with each other, with text rankings or without, weighted or not. A store holds one context type here
(`lib.assistant.schemas.APP_NAMES`), so that one LambdaMART a context type is one a store.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pandas as pd

from lib.retrieval.finetune import folds_of
from lib.retrieval.fusion import GAIN, Fusion, rank_per_store
from lib.retrieval.stores import cosine_of_pairs, rank_pairs

if TYPE_CHECKING:
    from lib.assistant.ranking_task import Fitted, RankingTask
    from lib.retrieval.lambdamart import LambdaMART

WHOLE = "whole"  # the ranking by one LambdaMART of all stores
ALONE = Fusion((WHOLE,), 0)  # this one, not fused
STORES = "store by store"  # ranks start anew in each store
SIGNALS = {f"{group} signals": group for group in ("numerical", "categorical", "habitual", "text")}
READINGS = {
    "one LambdaMART": (WHOLE,),
    "one a store": (STORES,),
    "one a signal group": tuple(SIGNALS),
    "one of all stores, one a store": (WHOLE, STORES),
    "one of all stores, one a signal group": (WHOLE, *SIGNALS),
}
TWO_QUERIES = "query and CoT as two queries"
CHAIN = "cot"  # the ranking by a chain of thought alone
WEIGHTS = (1, 2, 4)  # of LambdaMART's rankings, or of the one of all stores beside others; the rest weigh 1
FOLDS = 3  # at most: there are many rankers

Rankers = dict[str, dict[str, "LambdaMART"]]


class Part(NamedTuple):
    """What one of several rankers sees: some features of some pairs (bools)."""

    columns: list[str]
    rows: np.ndarray


def parts_of(task: RankingTask, name: str) -> dict[str, Part]:
    """The rankers behind a ranking: one a store for `STORES`, one for each of `SIGNALS`."""
    every_pair, every_column = np.ones(len(task.pairs), dtype=bool), list(task.features.columns)
    if name == STORES:
        store = task.pairs["item"].map(task.store).to_numpy()
        return {app: Part(every_column, store == app) for app in sorted(set(store))}
    return {name: Part(task.groups[SIGNALS[name]], every_pair)}


def needed(rankings: Iterable[str]) -> list[str]:
    """Those of the rankings that need rankers of their own."""
    return [name for name in rankings if name == STORES or name in SIGNALS]


def learn(task: RankingTask, names: Iterable[str], learned: np.ndarray) -> Rankers:
    """The rankers behind some rankings; a part that fewer than two personas teach has none, and its items tie.

    Args:
        learned: the pairs learned from, bools.
    """
    return {
        name: {
            # The pairs of one store are few: on them two threads take four times as long as one.
            part: task.learn(columns, rows=learned & rows, threads=1 if name == STORES else None)
            for part, (columns, rows) in parts_of(task, name).items()
            if len(set(task.persona[learned & rows])) > 1
        }
        for name in names
    }


def score(task: RankingTask, rankers: Rankers, asked: np.ndarray) -> dict[str, np.ndarray]:
    """Scores of the asked pairs by each ranking's rankers."""
    scores = {}
    for name, parts in rankers.items():
        values = np.zeros(len(task.pairs))
        for part, (_, rows) in parts_of(task, name).items():
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


def fit(task: RankingTask, fitted: Fitted, names: Sequence[str] = (STORES, *SIGNALS)) -> FittedReadings:
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
    """Every reading whose rankings are there, with every choice of text rankings, on the training queries.

    Args:
        rankings: of training queries, out of fold.
        ks: constants of RRF.

    Returns:
        as `lib.retrieval.fusion.try_fusions`, best first, with the gain over `ALONE`, and columns reading (of
        `READINGS`), weight (of LambdaMART's rankings, or of the one of all stores beside others) and queries (how
        many).
    """
    reading_of: dict[Fusion, str] = {}
    for reading, names in READINGS.items():
        for size in range(len(task.text) + 1) if set(names) <= set(rankings) else ():
            for text in combinations(task.text, size):
                reading_of |= dict.fromkeys(fusions(names, text, ks), reading)
    trials = task.try_fusions(rankings, reading_of, against=ALONE)
    return _described(trials, trials["fusion"].map(reading_of), len(task.queries_of("training")))


def _described(trials: pd.DataFrame, reading: pd.Series | str, queries: int) -> pd.DataFrame:
    weight = [max(fusion.weights, default=1.0) for fusion in trials["fusion"]]
    return trials.assign(reading=reading, weight=weight, queries=queries)


def chain_scores(
    task: RankingTask, queries: Sequence[str], chain_vectors: np.ndarray, item_vectors: np.ndarray
) -> np.ndarray:
    """The cosine of each pair's item with the chain of thought of its query alone; NaN where there is none.

    Args:
        queries: ids of those that have one, each once.
        chain_vectors, item_vectors: unit-length, of these chains and of `task.items`.
    """
    place = pd.Index(queries).get_indexer(task.pairs["query"])
    rows, scores = place >= 0, np.full(len(task.pairs), np.nan)
    pairs = task.pairs[rows].assign(query_row=place[rows])
    if rows.any():
        scores[rows] = cosine_of_pairs(pairs, chain_vectors, item_vectors)
    return scores


def try_two_queries(
    task: RankingTask,
    rankings: Mapping[str, pd.DataFrame],
    by_chain: np.ndarray,
    chosen: Fusion,
    ks: Sequence[float],
) -> pd.DataFrame:
    """The query and its chain of thought as two queries: the rankings by both fused, alone and with LambdaMART's.

    Few training queries have a chain of thought: so this reading is tried on these alone, beside the chosen one, and
    cannot be chosen.

    Args:
        rankings: of training queries, out of fold.
        by_chain: from `chain_scores`.
        chosen: the fusion that `try_readings` put first.
        ks: constants of RRF.

    Returns:
        as `try_readings`, best first, the chosen fusion's row (with a reading of `READINGS`) among them; no row where
        no training query has a chain of thought.
    """
    rows = task.training & np.isfinite(by_chain)
    queries = task.pairs["query"][rows].unique().tolist()
    if not queries:
        return pd.DataFrame()
    runs = {**rankings, CHAIN: rank_pairs(task.pairs[rows], by_chain[rows])}
    tried = [Fusion(("semantic", CHAIN), k) for k in ks]
    for names in READINGS.values():
        if set(names) <= set(rankings):
            tried += fusions(names, ("semantic", CHAIN), ks)
    trials = task.try_fusions(runs, [*tried, chosen], queries, ALONE)
    (name,) = [reading for reading, names in READINGS.items() if set(names) == set(chosen.rankings) - set(task.text)]
    return _described(trials, np.where(trials["fusion"].map(chosen.__eq__), name, TWO_QUERIES), len(queries))


def readings_table(
    trials: pd.DataFrame, two_queries: pd.DataFrame, chosen: Fusion, evaluation: Mapping[str, float]
) -> pd.DataFrame:
    """What was tried, as it is written to a file.

    Args:
        trials, two_queries: from `try_readings` and `try_two_queries`.
        evaluation: the chosen fusion's values on the evaluation queries, in percent, by name.

    Returns:
        columns reading, rankings, k, weight, queries, recall@K, ndcg@K, mean, gain (of that mean over `ALONE`, paired
        by query, in points), gain_low, gain_high, chosen, and `evaluation_<name>` (NaN but in the chosen row).
    """
    measured = [name for name in trials if name.startswith(("recall@", "ndcg@"))]
    table = pd.concat([trials.assign(group=0), two_queries.assign(group=1)], ignore_index=True)
    table["chosen"] = (table["group"] == 0) & table["fusion"].map(chosen.__eq__)
    for name, value in evaluation.items():
        table[f"evaluation_{name}"] = np.where(table["chosen"], value, np.nan)
    about = ["reading", "rankings", "k", "weight", "queries"]
    return table[[*about, *measured, "mean", *GAIN, "chosen", *(f"evaluation_{name}" for name in evaluation)]]


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
