"""Quality against cost: which of several conditions no other beats."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pandas as pd


def on_front(costs: pd.Series | np.ndarray, quality: pd.Series | np.ndarray) -> np.ndarray:
    """Which points lie on the Pareto front: no other costs at most as much and is at least as good, and better in one
    of both.

    Args:
        costs, quality: (n,) of each point; one that lacks either is on no front and keeps no other off.

    Returns:
        bool (n,). Of points equal in both, all or none.

    >>> on_front([1, 2, 3], [10, 30, 20]).tolist()
    [True, True, False]
    """
    cost, good = np.asarray(costs, float), np.asarray(quality, float)
    as_good = (cost[:, None] <= cost) & (good[:, None] >= good)
    better = (cost[:, None] < cost) | (good[:, None] > good)
    return ~(as_good & better).any(axis=0) & ~np.isnan(cost) & ~np.isnan(good)


def with_fronts(points: pd.DataFrame, costs: Iterable[str], quality: str = "value") -> pd.DataFrame:
    """Points with a column `front_<cost>` (bool) for each cost; the columns named hold numbers."""
    return points.assign(**{f"front_{cost}": on_front(points[cost], points[quality]) for cost in costs})
