"""Rates whose denominator is itself an outcome, such as "with a made-up name, of the flows that parse": values with
intervals, and paired differences between conditions.

Everything here takes *outcomes*: one row for each condition, unit (what is resampled: a test flow) and metric, with a
numerator (0–1) and a denominator: 1 where the unit counts, otherwise 0. A condition's value is Σ numerator /
Σ denominator; in a mean every unit counts.

The effect and interval of a difference are those of the two rates. Its p-value looks only at the units that count on
both sides: exchanged as a whole, the others would move the denominators, and a condition that parses more often would
seem to make up less.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Sequence

import numpy as np
import pandas as pd

from lib.evaluation.inference import bootstrap_means, holm_adjust, randomisation_test, wilson_interval

TAIL = [2.5, 97.5]
FEWEST_UNITS = 6  # the exchanges of five give no p-value below 2/2**5 = .06


def rates_with_intervals(outcomes: pd.DataFrame, percent: Collection[str], samples: int, seed: int) -> pd.DataFrame:
    """Each condition's value of each metric, with a 95% bootstrap interval over its units.

    A plain rate (each unit that counts does so as 0 or 1) has Wilson's interval over these units, and so has a rate of
    0 or 100%, where resampling would show no spread. Resampling few units would hold 100% where one of them is wrong.

    Args:
        outcomes: columns condition, unit, metric, numerator, denominator; run where several training runs answered a
            condition's units: then both are resampled.
        percent: metrics that are shown times 100.
        samples, seed: of the bootstrap.

    Returns:
        columns condition, metric, value, ci_low, ci_high, n (units), counted (their denominators' sum); NaN where
        nothing is counted. Conditions and metrics in their order of appearance.
    """
    rows = []
    for (condition, metric), part in outcomes.groupby(["condition", "metric"], sort=False):
        over, under = part["numerator"].to_numpy(float), part["denominator"].to_numpy(float)
        value = _ratio(over.sum(), under.sum())
        counted = over[under > 0]
        several = "run" in part and part["run"].min() < part["run"].max()
        clusters = [part["unit"], part["run"]] if several else None
        plain = np.isin([over, under], (0.0, 1.0)).all() and not clusters
        units = part["unit"].nunique() if clusters else len(part)
        if len(counted) and (plain or (counted.min() == counted.max() and counted[0] in (0.0, 1.0))):
            n = part.loc[under > 0, "unit"].nunique() if clusters else len(counted)  # runs of a unit are no more units
            low, high = map(float, wilson_interval(counted.mean() * n, n))
        else:
            low, high = _percentiles(_draws([over, under], samples, seed, clusters)[0])
        scale = 100 if metric in percent else 1
        rows.append((condition, metric, scale * value, scale * low, scale * high, units, under.sum()))
    return pd.DataFrame(rows, columns=["condition", "metric", "value", "ci_low", "ci_high", "n", "counted"])


def paired_deltas(
    outcomes: pd.DataFrame, pairs: Sequence[tuple[str, str]], percent: Collection[str], samples: int, seed: int
) -> pd.DataFrame:
    """Differences a − b of conditions on the units that both have, resampled together.

    The p-value is that of a randomisation test that exchanges the two conditions' outcomes unit by unit, among the
    units that count on both sides; fewer than `FEWEST_UNITS` of these have p = 1. It and Holm's adjustment over all
    rows are two-sided. Where the conditions differ in no unit, or both rates are 0 or both 100%, the interval is what
    so many units can exclude (Wilson's upper bound of 0 of n, either way; n is the smaller count). Where one rate alone
    is 0 or 100%, see `beside_a_constant`.

    Args:
        outcomes, percent, samples, seed: as in `rates_with_intervals`.
        pairs: (a, b), names of conditions.

    Returns:
        columns a, b, metric, delta, ci_low, ci_high, p_value, p_holm, n (shared units), counted_both (those of them
        that count on both sides).
    """
    by_condition = {name: part.set_index(["metric", "unit"]) for name, part in outcomes.groupby("condition")}
    rows = []
    for a, b in pairs:
        for metric in outcomes["metric"].unique():
            sides = [by_condition[name].loc[metric].add_suffix(f"_{side}") for name, side in ((a, "a"), (b, "b"))]
            both = sides[0].join(sides[1], how="inner").sort_index()
            parts = [both[f"{what}_{side}"].to_numpy(float) for side in "ab" for what in ("numerator", "denominator")]
            scale = 100 if metric in percent else 1
            rows.append((a, b, metric, *(scale * number for number in _delta(parts, samples, seed)),
                         _p_value(parts, seed), len(both), _on_both(parts).sum()))  # fmt: skip
    table = pd.DataFrame(
        rows, columns=["a", "b", "metric", "delta", "ci_low", "ci_high", "p_value", "n", "counted_both"]
    )
    table.insert(7, "p_holm", holm_adjust(table["p_value"]))
    return table


def _delta(parts: list[np.ndarray], samples: int, seed: int) -> tuple[float, float, float]:
    over_a, under_a, over_b, under_b = parts
    delta = _ratio(over_a.sum(), under_a.sum()) - _ratio(over_b.sum(), under_b.sum())
    same = np.array_equal(over_a, over_b) and np.array_equal(under_a, under_b)
    never = not over_a.any() and not over_b.any()
    always = np.array_equal(over_a, under_a) and np.array_equal(over_b, under_b)
    if same or never or always:
        counted = len(over_a) if same else int(min(under_a.sum(), under_b.sum()))
        high = float(wilson_interval(0, counted)[1]) if counted else np.nan
        return delta, -high, high
    of_a, of_b = _draws(parts, samples, seed)
    ends = _percentiles(of_a - of_b)
    if np.isin([over_a, over_b], (0.0, 1.0)).all() and under_a.any() and under_b.any():
        counts = np.array([under_a.sum(), under_b.sum()])
        ends = beside_a_constant(ends, np.array([over_a.sum(), over_b.sum()]) / counts, counts, [of_a, of_b])
    return delta, *ends


def beside_a_constant(
    ends: tuple[float, float],
    rates: Sequence[float] | np.ndarray,
    counts: Sequence[float] | np.ndarray,
    draws: Sequence[np.ndarray] | np.ndarray,
) -> tuple[float, float]:
    """The 95% interval of a difference a − b of two rates of 0/1 outcomes of which one or each is 0 or 1.

    `square_and_add` of Wilson's interval of the constant side and the other side's of the bootstrap.

    Args:
        ends: the bootstrap's interval of the difference; returned as it is where neither rate is 0 or 1.
        rates: of a and b, 0–1.
        counts: outcomes on either side.
        draws: either rate's bootstrap distribution.
    """
    if not np.isin(rates, (0.0, 1.0)).any():
        return ends
    sides = [
        wilson_interval(rate * count, count) if rate in (0.0, 1.0) else _percentiles(drawn)
        for rate, count, drawn in zip(rates, counts, draws, strict=True)
    ]
    return square_and_add(ends, rates, sides)


def square_and_add(
    ends: tuple[float, float], rates: Sequence[float] | np.ndarray, sides: Sequence
) -> tuple[float, float]:
    """An interval of a difference a − b that allows for a side of 0 or 1.

    Such a side has no spread, so that a standard error or a bootstrap of the difference is too small. The
    square-and-add method (Newcombe, 1998; Zou and Donner, 2008) joins its Wilson interval to the other side's own: a
    constant is not correlated with anything. The wider of this and `ends`, at either end.

    Args:
        ends: the interval of the difference without such an allowance.
        rates: of a and b, 0–1.
        sides: the interval (low, high) of either rate.
    """
    (low_a, high_a), (low_b, high_b) = sides
    a, b = rates
    low = a - b - np.hypot(a - low_a, high_b - b)
    high = a - b + np.hypot(high_a - a, b - low_b)
    return float(min(ends[0], low)), float(max(ends[1], high))


def _p_value(parts: list[np.ndarray], seed: int) -> float:
    both = _on_both(parts)
    return randomisation_test(parts[0][both], parts[2][both], seed=seed) if both.sum() >= FEWEST_UNITS else 1.0


def _on_both(parts: list[np.ndarray]) -> np.ndarray:
    """Which units count on both sides."""
    return (parts[1] > 0) & (parts[3] > 0)


def _draws(parts: Sequence[np.ndarray], samples: int, seed: int, clusters=None) -> list[np.ndarray]:
    """Bootstrap distributions (samples,) of ratios; `parts` alternates numerators and denominators of equal length."""
    means = bootstrap_means(np.column_stack(parts), clusters or [np.arange(len(parts[0]))], samples, seed)
    return [_ratio(means[:, i], means[:, i + 1]) for i in range(0, len(parts), 2)]


def _ratio(over, under):
    return np.divide(over, under, out=np.full(np.shape(under), np.nan), where=np.asarray(under) > 0)[()]


def _percentiles(draws: np.ndarray) -> tuple[float, float]:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "All-NaN slice")  # nothing was ever counted: there is no interval
        low, high = np.nanpercentile(draws, TAIL)
    return float(low), float(high)
