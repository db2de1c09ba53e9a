"""Intervals and tests on paired, clustered outcomes; all vectorised, all seeded."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

LEVEL = 0.05  # of every test


@dataclass(frozen=True)
class Resampling:
    """How observations cluster, and how tests and bootstraps resample them.

    Attributes:
        clusters: one label sequence per clustering (crossed if several), each as long as the observations.
        samples: number of the bootstrap's resamples.
        seed: of the bootstraps and tests.
        bootstrap: whether intervals over two clusterings are the crossed bootstrap's, too: where one of them is a
            handful of training runs, too few for a variance between clusters.
    """

    clusters: Sequence[Sequence | np.ndarray]
    samples: int = 2000
    seed: int = 0
    bootstrap: bool = False

    @property
    def two_way(self) -> bool:
        """Whether intervals come from the two-way cluster-robust variance (`lib.evaluation.intervals`)."""
        return len(self.clusters) == 2 and not self.bootstrap

    def among(self, chosen: np.ndarray) -> Resampling:
        """The same for the observations that a bool array chooses."""
        return replace(self, clusters=[np.asarray(labels)[chosen] for labels in self.clusters])


def settled(tests: pd.DataFrame, low: str = "ci_low", high: str = "ci_high") -> pd.Series:
    """Whether each difference is settled: p after Holm's adjustment at most .05 and a 95% interval on one side of 0.

    Args:
        tests: columns `p_holm`, and the ends of the interval in the columns that `low` and `high` name.
    """
    return (tests["p_holm"] <= LEVEL) & ((tests[low] > 0) | (tests[high] < 0))


def bootstrap_weights(
    clusters: Sequence[Sequence | np.ndarray], samples: int, rng: np.random.Generator
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Multinomial counts (samples, labels) of each clustering, and each observation's label index."""
    counts, codes = [], []
    for labels in clusters:
        _, code = np.unique(np.asarray(labels), return_inverse=True)
        n = code.max() + 1
        counts.append(rng.multinomial(n, np.full(n, 1 / n), size=samples))
        codes.append(code)
    return counts, codes


def bootstrap_means(
    values: np.ndarray, clusters: Sequence[Sequence | np.ndarray], samples: int = 2000, seed: int = 0, block: int = 250
) -> np.ndarray:
    """Bootstrap distribution of column means, resampling whole clusters.

    With one clustering (personas) this is the cluster bootstrap; with two (personas and needs) both are resampled
    independently and an observation counts as often as the product of its labels' draws: the crossed or "pigeonhole"
    bootstrap (Owen, 2007), which is too wide where observations differ within clusters (`lib.evaluation.intervals`).

    Args:
        values: float array (observations,) or (observations, columns); NaN entries are left out of their column.
        clusters: one label sequence per clustering, each of length observations.
        samples: number of resamples.
        seed: of the generator.
        block: resamples held in memory at once.

    Returns:
        float array (samples, columns), or (samples,) for one-dimensional values. A resample in which every observation
        of a column is missing gives NaN.

    Raises:
        ValueError: no observations, no clustering, or lengths that differ.
    """
    table = np.asarray(values, dtype=float)
    flat = table.ndim == 1
    table = table.reshape(len(table), -1)
    if len(table) == 0 or not clusters or any(len(labels) != len(table) for labels in clusters):
        raise ValueError("values and every clustering need the same, positive length")
    present = ~np.isnan(table)
    filled = np.where(present, table, 0.0)
    counts, codes = bootstrap_weights(clusters, samples, np.random.default_rng(seed))
    means = np.empty((samples, table.shape[1]))
    for start in range(0, samples, block):
        weights = np.ones((min(block, samples - start), len(table)))
        for count, code in zip(counts, codes, strict=True):
            weights *= count[start : start + block][:, code]
        total = weights @ present
        means[start : start + block] = np.divide(
            weights @ filled, total, out=np.full(total.shape, np.nan), where=total > 0
        )
    return means[:, 0] if flat else means


def bootstrap_interval(
    values: np.ndarray,
    clusters: Sequence[Sequence | np.ndarray],
    samples: int = 2000,
    seed: int = 0,
    confidence: float = 0.95,
) -> tuple[np.ndarray, np.ndarray]:
    """Percentile interval of each column's mean: (low, high), scalars for one-dimensional values.

    See `bootstrap_means` for the arguments.
    """
    tail = 100 * (1 - confidence) / 2
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "All-NaN slice")  # a column without any value has no interval
        low, high = np.nanpercentile(bootstrap_means(values, clusters, samples, seed), [tail, 100 - tail], axis=0)
    return low, high


def randomisation_test(
    a: Sequence[float],
    b: Sequence[float],
    clusters: Sequence | np.ndarray | None = None,
    samples: int = 9999,
    seed: int = 0,
) -> float:
    """Two-sided p-value of the paired randomisation test on the mean difference (Smucker, Allan and Carterette, 2007).

    Pairs with a NaN are left out. Signs of the differences are flipped at random, cluster by cluster where `clusters`
    is given. p = (c + 1)/(n + 1): the observed assignment is itself one of the possible ones, so p can never be 0 and
    the test keeps its level.

    Raises:
        ValueError: lengths differ, or every pair has a NaN.
    """
    first, second = np.asarray(a, dtype=float), np.asarray(b, dtype=float)
    if first.ndim != 1 or first.shape != second.shape or np.isnan(first - second).all():
        raise ValueError("a and b need the same length and at least one pair without NaN")
    difference = first - second
    known = ~np.isnan(difference)
    difference = difference[known]
    if clusters is not None:
        if len(clusters) != len(known):
            raise ValueError("clusters need the length of a and b")
        _, code = np.unique(np.asarray(clusters)[known], return_inverse=True)
        difference = np.bincount(code, weights=difference)
    observed = abs(difference.sum())
    rng = np.random.default_rng(seed)
    count = 0
    for start in range(0, samples, 1000):
        signs = rng.integers(0, 2, size=(min(1000, samples - start), len(difference)), dtype=np.int8) * 2 - 1
        # Sums that equal the observed one up to rounding belong to the tail.
        count += int((np.abs(signs @ difference) >= observed * (1 - 1e-12) - 1e-12).sum())
    return (count + 1) / (samples + 1)


def mcnemar_test(a: Sequence[bool], b: Sequence[bool]) -> float:
    """Exact two-sided p-value of McNemar's test on paired right/wrong outcomes; 1 where no pair differs.

    Raises:
        ValueError: lengths differ.
    """
    first, second = np.asarray(a, dtype=bool), np.asarray(b, dtype=bool)
    if first.shape != second.shape:
        raise ValueError("a and b need the same length")
    return mcnemar_counts(int((first & ~second).sum()), int((~first & second).sum()))


def mcnemar_counts(only_first: int, only_second: int) -> float:
    """Exact two-sided p-value of McNemar's test from the pairs that differ; 1 where none does."""
    pairs = only_first + only_second
    return float(stats.binomtest(only_first, pairs, 0.5).pvalue) if pairs else 1.0


def mcnemar_at_best(difference: float, n: int) -> float:
    """The smallest p-value that McNemar's test can give two rates that differ by `difference` points over `n` pairs.

    The evidence is largest where all pairs that differ are on one side, |difference|·n/100 of them.

    >>> mcnemar_at_best(0.5, 1000), mcnemar_at_best(-0.6, 1000)
    (0.0625, 0.03125)
    """
    return mcnemar_counts(round(abs(difference) * n / 100), 0)


def wilson_interval(successes, n, confidence: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
    """Wilson's score interval (Wilson, 1927) of rates `successes / n`, element by element; (0, 1) where n is 0.

    Raises:
        ValueError: successes below 0 or above n.
    """
    successes, n = np.broadcast_arrays(np.asarray(successes, dtype=float), np.asarray(n, dtype=float))
    if np.any(successes < 0) or np.any(successes > n):
        raise ValueError("successes must lie between 0 and n")
    z = stats.norm.ppf(0.5 + confidence / 2)
    size = np.maximum(n, 1)
    rate = successes / size
    centre = (rate + z**2 / (2 * size)) / (1 + z**2 / size)
    half = z / (1 + z**2 / size) * np.sqrt(rate * (1 - rate) / size + z**2 / (4 * size**2))
    # At an end the interval reaches it exactly; computed, it is off by a rounding.
    low = np.where(successes == 0, 0.0, np.clip(centre - half, 0, 1))
    return low, np.where(successes == n, 1.0, np.clip(centre + half, 0, 1))


def percent(successes, n) -> tuple[Any, Any, Any]:
    """The rates `successes / n` with Wilson's interval, all in percent; NaN between 0 and 100 where n is 0."""
    with np.errstate(invalid="ignore"):
        rate = 100 * np.asarray(successes, dtype=float) / np.asarray(n, dtype=float)
    low, high = wilson_interval(successes, n)
    return rate, 100 * low, 100 * high


def holm_adjust(p_values: Sequence[float]) -> np.ndarray:
    """Holm's (1979) adjusted p-values, in the order given: reject where the adjusted value is at most the level.

    Raises:
        ValueError: a value outside 0…1.
    """
    p = np.asarray(p_values, dtype=float)
    if np.any((p < 0) | (p > 1) | np.isnan(p)):
        raise ValueError("p-values must lie between 0 and 1")
    order = np.argsort(p, kind="stable")
    stepped = np.maximum.accumulate(p[order] * (len(p) - np.arange(len(p))))
    adjusted = np.empty(len(p))
    adjusted[order] = np.minimum(stepped, 1.0)
    return adjusted
