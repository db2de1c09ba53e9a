"""Means over training seeds, with intervals that allow for other queries and for other seeds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import pandas as pd
from scipy import stats

from lib.evaluation.inference import Resampling
from lib.evaluation.intervals import difference_interval, fewest, mean_interval

SEEDS = 2  # further ones, beside the workbook's own
COLUMNS = ["of", "value", "ci_low", "ci_high", "spread", "lowest", "highest", "seeds", "n"]


def over_seeds(
    scores: Mapping[str, np.ndarray], pairs: Iterable[tuple[str, str]], resampling: Resampling
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Each method over its seeds, and differences of two, paired by query and seed.

    A value is the mean over seeds. Its interval allows for other queries and for other seeds: to the variance of the
    mean over queries (two-way cluster-robust, of the mean over seeds of each query) that of the mean over seeds is
    added, and Student's t has the degrees of freedom of Satterthwaite (1946, doi:10.2307/3002019). Of three seeds, such
    intervals cover 94 to 95% as long as seeds move the mean no more than queries do; 95% normal ones cover 93%.
    The interval over queries counts as one of min(G) − 1 degrees of freedom; where it had fewer, and was wider for it,
    its variance counts as larger.

    Args:
        scores: {method: (queries, seeds), percent}, the seeds of all in the same order.
        pairs: whose difference is wanted: a minus b; a pair of which one has no scores is left out.
        resampling: of these queries.

    Returns:
        two frames of `COLUMNS`: of (method, or a pair's both as a tuple), value, ci_low, ci_high, spread (standard
        deviation over seeds), lowest and highest of the seeds, seeds, n (queries).
    """
    values = [
        _over(name, each, mean_interval(each.mean(axis=1), resampling), resampling) for name, each in scores.items()
    ]
    changes = []
    for a, b in (pair for pair in pairs if scores.keys() >= set(pair)):
        ends = difference_interval(scores[a].mean(axis=1), scores[b].mean(axis=1), resampling)
        changes.append(_over((a, b), scores[a] - scores[b], ends, resampling))
    return pd.DataFrame(values, columns=COLUMNS), pd.DataFrame(changes, columns=COLUMNS)


def _over(of: object, scores: np.ndarray, ends: tuple, resampling: Resampling) -> tuple:
    """A row of `COLUMNS`.

    Args:
        scores: (queries, seeds), percent or differences of percentages.
        ends: of the interval over queries alone.
    """
    each, mean, (low, high) = scores.mean(axis=0), scores.mean(), ends
    spread = float(np.std(each, ddof=1))
    wider = widened((high - low) / 2, fewest_clusters(resampling) - 1, spread / np.sqrt(len(each)), len(each) - 1)
    below, above = mean - wider * (mean - low), mean + wider * (high - mean)
    return of, mean, below, above, spread, each.min(), each.max(), len(each), len(scores)


def fewest_clusters(resampling: Resampling) -> int:
    """`lib.evaluation.intervals.fewest` of its clusterings."""
    return int(fewest(np.array([len(np.unique(np.asarray(labels))) for labels in resampling.clusters])))


def widened(half: float, freedom: int, error: float, more_freedom: int) -> float:
    """How many times as wide a t interval is when a second source of error adds to the first (Satterthwaite).

    Args:
        half: width of the interval to either side, of the first source alone.
        freedom: its degrees of freedom.
        error, more_freedom: standard error of the second source, and its degrees of freedom.

    >>> widened(2.0, 60, 0.0, 2)
    1.0
    """
    reach = stats.t.ppf(0.975, freedom)
    first, second = (half / reach) ** 2, error**2
    both = (first + second) ** 2 / (first**2 / freedom + second**2 / more_freedom)
    return float(stats.t.ppf(0.975, both) * np.sqrt(first + second) / half)


def in_rows(values: pd.DataFrame, changes: pd.DataFrame) -> pd.DataFrame:
    """Both as a table of a report has them: what (a method, or `a - b`) and the rest of `COLUMNS`."""
    named = changes.assign(of=[" - ".join(pair) for pair in changes["of"]])
    return pd.concat([values, named], ignore_index=True)
