"""One interval and one test, over units: what is resampled and what counts once.

A unit is a topic in the assistant's worlds (the data's `need`), a flow in the workflows, a query of a foreign data set.
A value is the mean over units of the mean within each unit, as at TREC: many topics, each once.

- Interval: 95%, percentiles of the bootstrap over units (Efron and Tibshirani, 1993, chapter 13). One matrix of
  weights, (samples, units), multiplies all columns of unit means, so that all columns share their resamples.
- Where each observation is 0, or each is the highest score, resampling shows no spread: Wilson's interval (1927) of 0,
  or n, of n observations takes its place. A paired difference that is 0 in each pair has it on either side.
- Test: paired sign flips over units, two-sided (Smucker, Allan and Carterette, 2007).
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

LEVEL = 0.05  # of every test
TAIL = (2.5, 97.5)
FLIPS = 9999


@dataclass(frozen=True)
class Resampling:
    """What is resampled."""

    units: Sequence | np.ndarray  # label of each observation's unit
    samples: int = 2000  # of the bootstrap
    seed: int = 0  # of the bootstrap and of the tests

    def among(self, chosen: np.ndarray) -> Resampling:
        """The same for the observations that a bool array chooses."""
        return replace(self, units=np.asarray(self.units)[chosen])


class Interval(NamedTuple):
    """A value over units and its 95% interval: floats, or arrays (columns,). NaN where there is none."""

    value: Any
    low: Any
    high: Any


def unit_means(values: np.ndarray, units: Sequence | np.ndarray) -> np.ndarray:
    """The mean of each column of (observations, columns) within each unit: (units, columns), in the order of their
    labels; NaN where it has no value. Raises ValueError where there are no observations, or not as many labels."""
    if len(values) == 0 or len(units) != len(values):
        raise ValueError("values and units need the same, positive length")
    labels, code = np.unique(np.asarray(units), return_inverse=True)
    present = ~np.isnan(values)
    sums, counts = np.zeros((2, len(labels), values.shape[1]))
    np.add.at(sums, code, np.where(present, values, 0.0))
    np.add.at(counts, code, present)
    return _ratio(sums, counts)


def mean_interval(values: np.ndarray, over: Resampling, top: float = 100.0) -> Interval:
    """Each column's mean over units, with its interval; values are (observations,) or (observations, columns) of 0 to
    `top`, and NaN entries are left out of their column."""
    return _interval(_columns(values), np.ndim(values), over, (0.0, top))


def difference_interval(a: np.ndarray, b: np.ndarray, over: Resampling, top: float = 100.0) -> Interval:
    """Each column's paired difference a − b of the observations with a value on both sides, with its interval; both are
    (observations,) or (observations, columns) of 0 to `top`, or NaN."""
    return _interval(_columns(a) - _columns(b), np.ndim(a), over, (-top, top))


def _interval(table: np.ndarray, dimensions: int, over: Resampling, scale: tuple[float, float]) -> Interval:
    """Of columns within a scale; of fewer than two units NaN, of observations at one end Wilson's."""
    means, top = unit_means(table, over.units), scale[1]
    low, high = _ends(means, weighted_means(means, over))
    for column, values in enumerate(table.T):
        known = values[~np.isnan(values)]
        if len(known) and known.min() == known.max() and known[0] in (0.0, top, -top):
            missed = top * float(wilson_interval(0, len(known))[1])
            low[column], high[column] = np.clip([known[0] - missed, known[0] + missed], *scale)
    return _shaped(dimensions, _nanmean(means), low, high)


def ratio_interval(a: np.ndarray, b: np.ndarray, over: Resampling) -> Interval:
    """How many times b's mean is a's, both over units and of the observations with a value on both sides; the interval
    is the ratio's, by the same weights. NaN where b's mean is 0."""
    both = np.where(np.isnan(_columns(a) - _columns(b)), np.nan, 1.0)
    sides = [unit_means(_columns(side) * both, over.units) for side in (a, b)]
    draws = _ratio(*(weighted_means(means, over) for means in sides))
    value = _ratio(*map(_nanmean, sides))
    low, high = np.where(np.isnan(value), np.nan, _ends(sides[0], draws))
    return _shaped(np.ndim(a), value, low, high)


def sign_flip_test(a: np.ndarray, b: np.ndarray | float, over: Resampling) -> Any:
    """Two-sided p-value of each column's paired difference a − b, from flips of the signs of whole units; `b` may be a
    constant. NaN where no observation has a value on both sides. p = (c + 1)/(n + 1): the observed signs are one of the
    possible assignments, so p is never 0 and the test keeps its level."""
    means = unit_means(_columns(a) - (_columns(b) if isinstance(b, np.ndarray) else b), over.units)
    differences = np.nan_to_num(means)
    observed = np.abs(differences.sum(axis=0))
    rng = np.random.default_rng(over.seed)
    count = np.zeros(len(observed))
    for start in range(0, FLIPS, 1000):
        signs = 2.0 * rng.integers(0, 2, size=(min(1000, FLIPS - start), len(means))) - 1
        # Sums that equal the observed one up to rounding belong to the tail.
        count += (np.abs(signs @ differences) >= observed * (1 - 1e-12) - 1e-12).sum(axis=0)
    p_values = np.where(np.isnan(means).all(axis=0), np.nan, (count + 1) / (FLIPS + 1))
    return p_values if np.ndim(a) > 1 else float(p_values[0])


def surest_first(right: np.ndarray, sureness: np.ndarray, over: Resampling) -> dict[str, Interval]:
    """What answering the surest observations alone is worth (risk and coverage; El-Yaniv and Wiener, 2010).

    Args:
        right: (n,) how right an answer is, 0 to 100.
        sureness: (n,) how sure its writer is, on any scale; of equally sure ones the first counts as surer.
        over: units. Each weighs the same, and so do the observations of one.

    Returns:
        `auroc`, 0 to 1: how often a right answer is surer than a wrong one; `surest_10` to `surest_100`: how right the
        surest tenth to all of them are; `any_share`: the mean over all shares, the area under that curve.
    """
    order = np.argsort(-np.asarray(sureness, dtype=float), kind="stable")
    labels, code, sizes = np.unique(np.asarray(over.units)[order], return_inverse=True, return_counts=True)
    drawn = np.vstack([np.ones(len(labels)), _drawn(len(labels), over.samples, over.seed)])
    weights = (drawn / sizes)[:, code]  # a row of those as they are, then one a resample
    good = weights * np.asarray(right, dtype=float)[order] / 100
    answered, correct, wrong = weights.cumsum(axis=1), good.cumsum(axis=1), weights - good
    shares, accuracy = answered / answered[:, -1:], 100 * _ratio(correct, answered)
    found = {
        "auroc": _ratio((wrong * correct).sum(axis=1), wrong.sum(axis=1) * correct[:, -1]),
        "any_share": (np.nan_to_num(accuracy) * weights).sum(axis=1) / answered[:, -1],
    }
    for percent in range(10, 101, 10):
        last = np.argmax(shares >= percent / 100 - 1e-9, axis=1)
        found[f"surest_{percent}"] = np.take_along_axis(accuracy, last[:, None], axis=1)[:, 0]
    values = np.column_stack([*found.values()])
    low, high = _ends(np.zeros((len(labels), len(found))), values[1:])
    return {name: Interval(*map(float, row)) for name, *row in zip(found, values[0], low, high, strict=True)}


@np.vectorize(otypes=[float, float])
def wilson_interval(successes: float, n: float) -> tuple[float, float]:
    """Wilson's 95% interval of rates `successes / n`, element by element; (0, 1) where n is 0. Raises ValueError where
    successes are below 0 or above n."""
    if not 0 <= successes <= n:
        raise ValueError("successes must lie between 0 and n")
    if not n:
        return 0.0, 1.0
    found = stats.binomtest(round(successes), round(n)).proportion_ci(method="wilson")
    return max(0.0, found.low), min(1.0, found.high)


def percent(successes, n) -> tuple[Any, Any, Any]:
    """The rates `successes / n` with Wilson's interval, all in percent; NaN between 0 and 100 where n is 0."""
    low, high = wilson_interval(successes, n)
    return _ratio(100 * np.asarray(successes, dtype=float), np.asarray(n)), 100 * low, 100 * high


def holm_adjust(p_values: Sequence[float]) -> np.ndarray:
    """Holm's (1979) adjusted p-values, in the order given: reject where the adjusted value is at most the level."""
    p = np.asarray(p_values, dtype=float)
    order = np.argsort(p, kind="stable")
    stepped = np.maximum.accumulate(p[order] * (len(p) - np.arange(len(p))))
    adjusted = np.empty(len(p))
    adjusted[order] = np.minimum(stepped, 1.0)
    return adjusted


def weighted_means(values: np.ndarray, over: Resampling, weights: np.ndarray | None = None) -> np.ndarray:
    """Bootstrap distribution of columns' means over units, (samples, columns), each unit weighing what `weights` says.

    Args:
        values: (units, columns) with NaN where a unit has no value; `over.units` is not looked at.
        weights: (units, columns) such as numbers of queries; None weighs all alike.
    """
    drawn = _drawn(len(values), over.samples, over.seed)
    present = ~np.isnan(values) * (1.0 if weights is None else weights)
    return _ratio(drawn @ (present * np.nan_to_num(values)), drawn @ present)


@functools.lru_cache(maxsize=2)
def _drawn(units: int, samples: int, seed: int) -> np.ndarray:
    """How often each unit is drawn, (samples, units): the same for all tables of as many units."""
    return np.random.default_rng(seed).multinomial(units, np.full(units, 1 / units), size=samples).astype(float)


def _columns(values: np.ndarray) -> np.ndarray:
    table = np.asarray(values, dtype=float)
    return table.reshape(len(table), -1)


def _shaped(dimensions: int, *parts: np.ndarray) -> Interval:
    """Columns as they came: floats for one-dimensional values."""
    return Interval(*(part if dimensions > 1 else float(part[0]) for part in parts))


def _ratio(over: np.ndarray, under: np.ndarray) -> np.ndarray:
    return np.divide(over, under, out=np.full(np.shape(under), np.nan), where=np.asarray(under) > 0)


def _nanmean(means: np.ndarray) -> np.ndarray:
    return _ratio(np.nansum(means, axis=0), (~np.isnan(means)).sum(axis=0))


def _ends(means: np.ndarray, draws: np.ndarray) -> np.ndarray:
    """The ends (2, columns) of the intervals of columns over units, from their draws; NaN of fewer than two units."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "All-NaN slice")  # a column without any value has no interval
        return np.where((~np.isnan(means)).sum(axis=0) < 2, np.nan, np.nanpercentile(draws, TAIL, axis=0))
