"""Quality against cost: which of several conditions no other beats."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pandas as pd


def on_front(costs: pd.Series | np.ndarray, quality: pd.Series | np.ndarray) -> np.ndarray:
    """Which points lie on the Pareto front: no other costs at most as much and is at least as good, and better in one
    of both.

    Args:
        costs: (n,) of each point.
        quality: (n,) of each point; or (n, n), where [i, j] is that of i on what i and j were both asked, if not all
            were asked the same. A point that lacks cost or quality is on no front and keeps no other off.

    Returns:
        bool (n,). Of points equal in both, all or none.

    >>> on_front([1, 2, 3], [10, 30, 20]).tolist()
    [True, True, False]
    """
    cost, good = np.asarray(costs, float), np.asarray(quality, float)
    mine = good if good.ndim > 1 else np.broadcast_to(good[:, None], (len(good), len(good)))
    as_good = (cost[:, None] <= cost) & (mine >= mine.T)
    better = (cost[:, None] < cost) | (mine > mine.T)
    return ~(as_good & better).any(axis=0) & ~np.isnan(cost) & ~np.isnan(np.diagonal(mine))


def with_fronts(points: pd.DataFrame, costs: Iterable[str], quality: str | np.ndarray = "value") -> pd.DataFrame:
    """Points with a column `front_<cost>` (bool) for each cost; the columns named hold numbers.

    Args:
        quality: a column, or what `on_front` takes.
    """
    good = points[quality] if isinstance(quality, str) else quality
    return points.assign(**{f"front_{cost}": on_front(points[cost], good) for cost in costs})


def shared_quality(scores: pd.DataFrame) -> pd.DataFrame:
    """The mean of each column over the rows that another one has, too: [i, j] of column i on those that i and j share;
    NaN where they share none.

    Args:
        scores: a column a method, a row a request, NaN where it was not asked.
    """
    there = scores.notna().to_numpy(float)
    total, count = np.nan_to_num(scores.to_numpy(float)).T @ there, there.T @ there
    means = np.divide(total, count, out=np.full(total.shape, np.nan), where=count > 0)
    return pd.DataFrame(means, scores.columns, scores.columns)
