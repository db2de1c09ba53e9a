"""How much of a trained method's result is the seed of its training? The trained methods of context retrieval, each
with the workbook's seed and with further ones, on the same evaluation queries.

The models of text search with further seeds are notebook 04's (`lib.assistant.retrained`); rankers are trained here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import NormalDist

import numpy as np
import pandas as pd

from lib.assistant.ranking_task import RankingTask
from lib.assistant.retrained import SEEDS
from lib.assistant.second_stage import Setting, TwoStages
from lib.evaluation.inference import Resampling
from lib.evaluation.intervals import difference_interval, mean_interval
from lib.retrieval.stores import rank_pairs

LAMBDAMART, OURS = "lambdamart", "lambdamart_2"
METHODS = ("finetuned", "cross_encoder", "late_interaction", LAMBDAMART, OURS)
PAIRS = (  # whose difference is shown: a minus b
    (OURS, LAMBDAMART),
    ("finetuned", OURS),
    ("finetuned", LAMBDAMART),
    ("finetuned", "late_interaction"),
    ("late_interaction", "cross_encoder"),
)
COLUMNS = ["of", "value", "ci_low", "ci_high", "spread", "lowest", "highest", "seeds", "n"]


def rankers(task: RankingTask, two: TwoStages, setting: Setting) -> dict[str, pd.DataFrame]:
    """{`<method>/<seed>`: ranking of the evaluation queries} of both rankers with further seeds, counted from 1.

    Args:
        setting: of the second stage, as it was chosen with the workbook's seed.
    """
    found = {}
    for number in range(1, SEEDS + 1):
        seeded = replace(task, learning=replace(task.learning, seed=task.learning.seed + number))
        found[f"{LAMBDAMART}/{number}"] = seeded.rank(seeded.learn())
        scores = replace(two, task=seeded).evaluation_scores(setting)
        found[f"{OURS}/{number}"] = rank_pairs(task.pairs[task.evaluation], scores)
    return found


def over_seeds(
    own: pd.DataFrame, further: pd.DataFrame, resampling: Resampling, k: int
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Recall at k of each method over its seeds, and the differences of `PAIRS`.

    A value is the mean over seeds. Its interval allows for other queries and for other seeds: the variance of the mean
    over queries (two-way cluster-robust, of the mean over seeds of each query) plus that of the mean over seeds.

    Args:
        own: per-query scores with the workbook's seed, columns (method, metric, k).
        further: the same of the rankings with further seeds, by their names.
        resampling: of these queries.

    Returns:
        two frames of `COLUMNS`: of (method, or a pair's both as a tuple), value, ci_low, ci_high, spread (standard
        deviation over seeds), lowest and highest of the seeds, seeds, n (queries).
    """
    columns = {
        method: [own[method, "recall", k], *(further[name, "recall", k] for name in _of(method, further))]
        for method in METHODS
        if (method, "recall", k) in own.columns and _of(method, further)
    }
    scores = {method: np.column_stack(seeds) for method, seeds in columns.items()}
    values = [_over(name, each, mean_interval(each.mean(axis=1), resampling)) for name, each in scores.items()]
    changes = []
    for a, b in (pair for pair in PAIRS if scores.keys() >= set(pair)):
        ends = difference_interval(scores[a].mean(axis=1), scores[b].mean(axis=1), resampling)
        changes.append(_over((a, b), scores[a] - scores[b], ends))
    return pd.DataFrame(values, columns=COLUMNS), pd.DataFrame(changes, columns=COLUMNS)


def _of(method: str, further: pd.DataFrame) -> list[str]:
    names = further.columns.get_level_values("method").unique()
    return sorted(name for name in names if name.rpartition("/")[0] == method)


def _over(of: object, scores: np.ndarray, ends: tuple) -> tuple:
    """A row of `COLUMNS`.

    Args:
        scores: (queries, seeds), percent or differences of percentages.
        ends: of the interval over queries alone.
    """
    each, mean, (low, high) = scores.mean(axis=0), scores.mean(), ends
    spread = float(np.std(each, ddof=1))
    of_seeds = NormalDist().inv_cdf(0.975) * spread / np.sqrt(len(each))
    below, above = np.hypot(mean - low, of_seeds), np.hypot(high - mean, of_seeds)
    return of, mean, mean - below, mean + above, spread, each.min(), each.max(), len(each), len(scores)


def in_rows(values: pd.DataFrame, changes: pd.DataFrame) -> pd.DataFrame:
    """Both as `tables/training_seeds.csv` has them: what (a method, or `a - b`) and the rest of `COLUMNS`."""
    named = changes.assign(of=[" - ".join(pair) for pair in changes["of"]])
    return pd.concat([values, named], ignore_index=True)


def further_scores(
    task: RankingTask, text: Mapping[str, pd.DataFrame], learned: Mapping[str, pd.DataFrame], queries: Sequence[str]
) -> pd.DataFrame:
    """Per-query scores of all rankings with further seeds.

    Args:
        text: of text search (`lib.assistant.retrained.of_other_seeds`).
        learned: of `rankers`.
        queries: in the order that is wanted.
    """
    return task.score({**text, **learned}).loc[list(queries)]
