"""Means over training seeds, with intervals that allow for other queries and for other seeds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from statistics import NormalDist

import numpy as np
import pandas as pd

from lib.evaluation.inference import Resampling
from lib.evaluation.intervals import difference_interval, mean_interval

COLUMNS = ["of", "value", "ci_low", "ci_high", "spread", "lowest", "highest", "seeds", "n"]


def over_seeds(
    scores: Mapping[str, np.ndarray], pairs: Iterable[tuple[str, str]], resampling: Resampling
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Each method over its seeds, and differences of two, paired by query and seed.

    A value is the mean over seeds. Its interval allows for other queries and for other seeds: the variance of the mean
    over queries (two-way cluster-robust, of the mean over seeds of each query) plus that of the mean over seeds.

    Args:
        scores: {method: (queries, seeds), percent}, the seeds of all in the same order.
        pairs: whose difference is wanted: a minus b; a pair of which one has no scores is left out.
        resampling: of these queries.

    Returns:
        two frames of `COLUMNS`: of (method, or a pair's both as a tuple), value, ci_low, ci_high, spread (standard
        deviation over seeds), lowest and highest of the seeds, seeds, n (queries).
    """
    values = [_over(name, each, mean_interval(each.mean(axis=1), resampling)) for name, each in scores.items()]
    changes = []
    for a, b in (pair for pair in pairs if scores.keys() >= set(pair)):
        ends = difference_interval(scores[a].mean(axis=1), scores[b].mean(axis=1), resampling)
        changes.append(_over((a, b), scores[a] - scores[b], ends))
    return pd.DataFrame(values, columns=COLUMNS), pd.DataFrame(changes, columns=COLUMNS)


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
    """Both as a table of a report has them: what (a method, or `a - b`) and the rest of `COLUMNS`."""
    named = changes.assign(of=[" - ".join(pair) for pair in changes["of"]])
    return pd.concat([values, named], ignore_index=True)
