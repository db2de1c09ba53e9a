"""Intervals of means, paired differences and ratios of observations in clusters.

With one clustering (flows; the queries of a file) they are percentiles of the cluster bootstrap. With two that cross
(personas and needs) they come from the two-way cluster-robust variance of Cameron, Gelbach and Miller (2011,
doi:10.1198/jbes.2010.07136, section 2.2): V = V_personas + V_needs − V_both. Clusters of unequal size (a few needs are
asked about far more often than others) make its usual form too small, and Student's t with min(G) − 1 degrees of
freedom too short. So each term is the cluster jackknife's, and V is at least V_personas and V_needs, as MacKinnon,
Nielsen and Webb propose for two clusterings (2024, arXiv:2406.08880); the degrees of freedom are estimated from how
unequally the clusters contribute (Pan and Wall, 2002, doi:10.1002/sim.1142). The crossed bootstrap, which counts what
differs between single observations three times (Owen, 2007), is wider than it says.

What is ours:

- V is at least V_both, too. With components of variance that are not negative no term exceeds V; the difference of
  estimates may.
- Pan and Wall's degrees of freedom are worked out for either clustering, and the fewer are taken, as min(G) − 1 does.
  They are at most G − 1, and at least G* − 1, G* the effective number of clusters of Carter, Schnepel and Steigerwald
  (2017, doi:10.1162/REST_a_00639) for observations that are all alike within a cluster: where a rare outcome makes the
  contributions unequal and not the clusters' sizes, the logit and the log allow for it already.
- A mean of scores (0–100) has its interval on the logit scale, a ratio on the log scale: near an end the estimate is
  skewed, and no interval leaves the scale. Differences are symmetrical and cut at ±100.
- No interval over two clusterings is a point, and none of right or wrong answers. Where nothing varies (no standard
  error), n observations may all have missed something of `unseen_rate(n)`, which moves the mean by 100 points at most;
  a mean of 0 or 100 has Wilson's interval. A difference
  of which one side is 0 or 100 allows for what that side may have missed (`lib.evaluation.rates.square_and_add`). All
  of these take the observations as independent: about clusters, what does not vary says nothing. With one clustering
  the bootstrap of right or wrong answers (0 or 100) has the same room, with clusters as observations; graded scores
  (similarities, shares) keep its ends, which meet where all observations differ by the same.
- The two-sided p-value of two clusterings is the interval's: its end towards the hypothesis is as many standard errors
  away as t says, on the interval's scale. So p is at most .05 just where the 95% interval leaves the hypothesis out,
  and Holm's adjustment is one of the tests that are meant. A randomisation test of whole personas takes the needs as
  given, and finds differences between needs where none between methods is meant.
- A clustering with one cluster adds nothing to V and does not count for t: the interval is then about this cluster.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special, stats

from lib.evaluation.inference import Resampling, bootstrap_interval, bootstrap_means, wilson_interval
from lib.evaluation.rates import square_and_add

Clusters = Sequence[Sequence | np.ndarray]
NOTHING = 1e-9  # points; a standard error below is rounding


@dataclass(frozen=True)
class Estimates:
    """Estimates with their intervals; float arrays (columns,), NaN where a column has no value.

    Attributes:
        se: the standard error on the estimate's own scale; where the interval had to be made wider than it says, the
            one that the width stands for.
        freedom: degrees of freedom of t.
        scale: on which the interval is symmetrical.
        confidence: of the interval.
    """

    value: np.ndarray
    low: np.ndarray
    high: np.ndarray
    se: np.ndarray
    freedom: np.ndarray
    scale: Callable[[np.ndarray], np.ndarray] = np.asarray
    confidence: float = 0.95

    def p_values(self, hypothesis: float = 0.0) -> np.ndarray:
        """Two-sided p-value of each column's estimate against a hypothesis; NaN where a column has no value."""
        end = np.where(hypothesis > self.value, self.high, self.low)
        with np.errstate(divide="ignore", invalid="ignore"):
            numbers = (np.asarray(number, dtype=float) for number in (self.value, hypothesis, end))
            value, other, reached = map(self.scale, numbers)
            on_scale = np.isfinite(value) & np.isfinite(other) & np.isfinite(reached)
            distance = np.where(on_scale, np.abs(value - other), np.abs(self.value - hypothesis))
            errors = distance / np.where(on_scale, np.abs(value - reached), np.abs(self.value - end))
        errors = np.where(distance == 0, 0.0, errors) * _reach(self.freedom, self.confidence)
        return np.where(np.isnan(self.value), np.nan, 2 * stats.t.sf(errors, self.freedom))


def mean_interval(values: np.ndarray, over: Resampling, confidence: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
    """Interval of each column's mean of scores: (low, high), scalars for one-dimensional values.

    Args:
        values: float array (observations,) or (observations, columns) of 0–100; NaN entries are left out of their
            column.
        over: how the observations cluster.
    """
    if over.two_way:
        found = two_way_means(values, over.clusters, confidence)
        low, high = found.low, found.high
    else:
        columns = _columns(values)
        ends = bootstrap_interval(columns, over.clusters, over.samples, over.seed, confidence)
        low, high = _room_at_the_ends(columns, *ends, over.clusters, confidence)
    return (low, high) if np.ndim(values) > 1 else (low[0], high[0])


def paired_differences(a: np.ndarray, b: np.ndarray, clusters: Clusters, confidence: float = 0.95) -> Estimates:
    """`two_way_differences` of the observations with a value on both sides."""
    missing = np.isnan(a) | np.isnan(b)
    a, b = (np.where(missing, np.nan, side) for side in (a, b))
    return two_way_differences(a, b, clusters, confidence)


def difference_interval(
    a: np.ndarray, b: np.ndarray, over: Resampling, confidence: float = 0.95
) -> tuple[np.ndarray, np.ndarray]:
    """Interval of each column's mean paired difference a − b, of the observations with a value on both sides.

    Args:
        a, b: float arrays (observations,) or (observations, columns) of scores, 0–100, or NaN.
        over: how the observations cluster.

    Returns:
        (low, high), scalars for one-dimensional scores.
    """
    if over.two_way:
        found = paired_differences(a, b, over.clusters, confidence)
        low, high = found.low, found.high
    else:
        low, high = _one_way_differences(_columns(a), _columns(b), over, confidence)
    return (low, high) if np.ndim(a) > 1 else (low[0], high[0])


def _one_way_differences(
    a: np.ndarray, b: np.ndarray, over: Resampling, confidence: float
) -> tuple[np.ndarray, np.ndarray]:
    """The bootstrap's ends, with room for right or wrong answers of which it shows too little spread; `a` and `b` are
    (observations, columns)."""
    paired = ~np.isnan(a) & ~np.isnan(b)
    a, b = (np.where(paired, side, np.nan) for side in (a, b))
    low, high = bootstrap_interval(a - b, over.clusters, over.samples, over.seed, confidence)
    outcomes = ((np.isin(a, (0, 100)) & np.isin(b, (0, 100))) | ~paired).all(axis=0)
    difference, n = _influences(a - b)[0], _clusters_with_values(paired, over.clusters)
    half = np.where(outcomes & (high - low < NOTHING), _missed(n, confidence), 0.0)
    low, high = np.fmin(low, difference - half), np.fmax(high, difference + half)
    low[outcomes], high[outcomes] = _beside_an_end(
        a[:, outcomes], b[:, outcomes], low[outcomes], high[outcomes],
        lambda side: mean_interval(side, over, confidence),
    )  # fmt: skip
    return _on_scale(low, high)


def ratio_interval(a: np.ndarray, b: np.ndarray, over: Resampling) -> tuple[np.ndarray, np.ndarray]:
    """95% interval of each column's ratio of means a/b; NaN where b's mean is 0.

    A bootstrap resample without anything on the side of b is left out.

    Args:
        a, b: float arrays (observations, columns) of scores, 0–100.
        over: how the observations cluster.
    """
    if over.two_way:
        found = two_way_ratios(a, b, over.clusters)
        return found.low, found.high
    means = bootstrap_means(np.hstack([a, b]), over.clusters, over.samples, over.seed)
    above, below = np.split(means, 2, axis=1)
    folds = np.divide(above, below, out=np.full(above.shape, np.nan), where=below > 0)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "All-NaN slice")  # b never finds anything: there is no ratio
        low, high = np.nanpercentile(folds, [2.5, 97.5], axis=0)
    (mean_a, _), (mean_b, _) = _influences(a), _influences(b)
    missed = _missed(_clusters_with_values(~np.isnan(a) & ~np.isnan(b), over.clusters), 0.95)
    constant = high - low < NOTHING / 100
    return _ratio_room(
        mean_a, mean_b, low, high, constant, missed, lambda: (mean_interval(a, over)[1], mean_interval(b, over)[0])
    )


def two_way_means(values: np.ndarray, clusters: Clusters, confidence: float = 0.95) -> Estimates:
    """Means of scores, their intervals on the logit scale. See `mean_interval`; `clusters` are two."""
    values = _columns(values)
    mean, influence = _influences(values)
    se, freedom = two_way_errors([(influence, ~np.isnan(values))], clusters)
    reach = _reach(freedom, confidence)
    n = (~np.isnan(values)).sum(axis=0)
    share = np.clip(mean / 100, 1e-12, 1 - 1e-12)
    half = reach * se / 100 / (share * (1 - share))
    log_odds = np.log(share / (1 - share))
    low, high = (100 * special.expit(log_odds + sign * half) for sign in (-1, 1))
    constant = ~(se > NOTHING)
    missed = _missed(n, confidence)
    low = np.where(constant, np.maximum(mean - missed, 0), low)
    high = np.where(constant, np.minimum(mean + missed, 100), high)
    at_an_end = constant & (np.minimum(mean, 100 - mean) < NOTHING)
    wilson = wilson_interval(np.round(np.where(at_an_end, mean, 0) * n / 100), n, confidence)
    low, high = (np.where(at_an_end, 100 * end, own) for end, own in zip(wilson, (low, high), strict=True))
    se = np.where(constant, (high - low) / (2 * _normal(confidence)), se)
    return _estimates(mean, low, high, se, freedom, lambda scores: special.logit(scores / 100), confidence)


def two_way_differences(a: np.ndarray, b: np.ndarray, clusters: Clusters, confidence: float = 0.95) -> Estimates:
    """Differences of means a − b, each mean over the observations that have a value on its own side.

    Args:
        a, b: float arrays (observations, columns) of scores, 0–100, or NaN.
        clusters: two label sequences, each as long as the observations.
    """
    a, b = _columns(a), _columns(b)
    (mean_a, of_a), (mean_b, of_b) = _influences(a), _influences(b)
    difference = mean_a - mean_b
    se, freedom = two_way_errors([(of_a, ~np.isnan(a)), (-of_b, ~np.isnan(b))], clusters)
    reach = _reach(freedom, confidence)
    counts = np.array([(~np.isnan(side)).sum(axis=0) for side in (a, b)])
    half = np.where(se > NOTHING, reach * se, _missed(counts.min(axis=0), confidence))
    low, high = difference - half, difference + half
    low, high = _beside_an_end(a, b, low, high, lambda side: _ends(two_way_means(side, clusters, confidence)))
    se = np.where(high - low > 2 * reach * se + NOTHING, (high - low) / (2 * _normal(confidence)), se)
    return _estimates(difference, *_on_scale(low, high), se, freedom, np.asarray, confidence)


def two_way_ratios(a: np.ndarray, b: np.ndarray, clusters: Clusters, confidence: float = 0.95) -> Estimates:
    """Ratios of means a/b by the delta method, their intervals on the log scale; NaN where b's mean is 0.

    Linearised, an observation adds (a − ratio·b)/mean(b). Where a's mean is 0 the interval ends at what its Wilson
    interval leaves for it, over the lower end of b.

    Args:
        a, b: float arrays (observations, columns) of scores, 0–100, or NaN.
        clusters: two label sequences, each as long as the observations.
    """
    a, b = _columns(a), _columns(b)
    (mean_a, of_a), (mean_b, of_b) = _influences(a), _influences(b)
    under = np.where(mean_b > 0, mean_b, np.nan)
    ratio = mean_a / under
    sides = [(of_a / under, ~np.isnan(a)), (-ratio * of_b / under, ~np.isnan(b))]
    se, freedom = two_way_errors(sides, clusters)
    reach = _reach(freedom, confidence)
    n = np.minimum((~np.isnan(a)).sum(axis=0), (~np.isnan(b)).sum(axis=0))
    constant = ~(se > NOTHING / 100)
    spread = np.exp(reach * se / np.where(ratio > 0, ratio, np.nan))
    low, high = _ratio_room(
        mean_a, mean_b, ratio / spread, ratio * spread, constant, _missed(n, confidence),
        lambda: (two_way_means(a, clusters, confidence).high, two_way_means(b, clusters, confidence).low),
    )  # fmt: skip
    nothing = ratio == 0
    se = np.where(constant | nothing, (high - low) / (2 * _normal(confidence)), se)
    return _estimates(ratio, low, high, se, freedom, np.log, confidence)


def two_way_errors(sides: Sequence[tuple[np.ndarray, np.ndarray]], clusters: Clusters) -> tuple[np.ndarray, np.ndarray]:
    """Two-way cluster-robust standard errors, and the degrees of freedom of their t.

    Args:
        sides: (influence, present) of each mean in the estimate, arrays (observations, columns): what each observation
            adds to the estimate's error, for a mean (value − mean)/n and 0 where there is no value; and whether there
            is one. Clusters without a value on any side do not count.
        clusters: two label sequences, each as long as the observations.

    Returns:
        arrays (columns,): standard errors, degrees of freedom.

    Raises:
        ValueError: no observations, or not two clusterings of their length.
    """
    n = len(sides[0][0])
    if not n or len(clusters) != 2 or any(len(labels) != n for labels in clusters):
        raise ValueError("two clusterings are needed, each of the same, positive length as the observations")
    first, second = (np.unique(np.asarray(labels), return_inverse=True)[1] for labels in clusters)
    of_first, n_first = _one_way(sides, first)
    of_second, n_second = _one_way(sides, second)
    of_both, _ = _one_way(sides, first * (second.max() + 1) + second)
    variance = np.maximum.reduce([of_first + of_second - of_both, of_first, of_second, of_both])
    counts = np.array([n_first, n_second])
    return np.sqrt(variance), fewest(counts) - 1


def fewest(counts: np.ndarray) -> np.ndarray:
    """The fewest clusters of the clusterings that have more than one; 2 where none has.

    Args:
        counts: (clusterings, …).
    """
    least = np.where(counts > 1, counts, np.inf).min(axis=0)
    return np.where(np.isfinite(least), least, 2)


def unseen_rate(n, confidence: float = 0.95):
    """The largest rate of an event that n independent observations without it do not exclude at 97.5%: about 3.7/n.

    >>> round(unseen_rate(100), 3)
    0.036
    """
    return 1 - ((1 - confidence) / 2) ** (1 / n)


def _one_way(sides: Sequence[tuple[np.ndarray, np.ndarray]], code: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The jackknife's variance of each column, 0 where there are not two clusters, and its degrees of freedom plus 1.

    Without a cluster's m of n values, a mean moves by the sum of their influences times n/(n − m). Where a cluster has
    all of a side's values this sum is 0: that side stays as it is. The variance is (G − 1)/G times the sum of the
    squares of what leaving out each cluster moves.
    """
    order = np.argsort(code, kind="stable")
    starts = np.flatnonzero(np.diff(code[order], prepend=-1))
    shape = (len(starts), sides[0][0].shape[1])
    moved, sizes = np.zeros(shape), np.zeros(shape, dtype=int)
    for influence, present in sides:
        m = np.add.reduceat(present[order].astype(np.int32), starts, axis=0)
        n = m.sum(axis=0)
        moved += np.add.reduceat(influence[order], starts, axis=0) * (n / np.maximum(n - m, 1))
        sizes = np.maximum(sizes, m)
    count = np.maximum((sizes > 0).sum(axis=0), 1)
    return (moved**2).sum(axis=0) * (count - 1) / count, _effective(moved**2, sizes, count)


def _effective(squares: np.ndarray, sizes: np.ndarray, count: np.ndarray) -> np.ndarray:
    """The degrees of freedom of a sum of squares, plus 1; of Pan and Wall (2002), between G* and G.

    Twice the squared sum over its variance, G times that of the squares; a cluster without values has none.

    Args:
        squares: float array (clusters, columns).
        sizes: int array of that shape, values of each cluster.
        count: (columns,), clusters with values.
    """
    total = squares.sum(axis=0)
    spread = (squares**2).sum(axis=0) - total**2 / count
    varying = spread > 1e-12 * total**2
    freedom = np.divide(2 * total**2 * (count - 1) / count, spread, out=np.full(total.shape, np.inf), where=varying)
    alike = sizes.astype(float) ** 2
    least = alike.sum(axis=0) ** 2 / np.maximum((alike**2).sum(axis=0), 1)
    return np.minimum(np.maximum(freedom + 1, least), count)


def _room_at_the_ends(
    values: np.ndarray, low: np.ndarray, high: np.ndarray, clusters: Clusters, confidence: float
) -> tuple[np.ndarray, np.ndarray]:
    """Ends of intervals, with Wilson's in the place of a point where all scores of a column are 0 or all are 100."""
    low, high = np.array(low, dtype=float), np.array(high, dtype=float)
    for column, scores in enumerate(values.T):
        there = ~np.isnan(scores)
        if there.any() and (np.all(scores[there] == 0) or np.all(scores[there] == 100)):
            n = _clusters_with_values(there[:, None], clusters)[0]
            ends = wilson_interval(n * scores[there][0] / 100, n, confidence)
            low[column], high[column] = (100 * float(end) for end in ends)
    return low, high


def _beside_an_end(
    a: np.ndarray, b: np.ndarray, low: np.ndarray, high: np.ndarray, interval: Callable
) -> tuple[np.ndarray, np.ndarray]:
    """Ends of intervals of differences a − b, wider where one side's mean is 0 or 100.

    Args:
        a, b: (observations, columns).
        low, high: without this allowance (columns,).
        interval: of one side's means, of values (observations, 1).
    """
    low, high = low.copy(), high.copy()
    means = np.array([_influences(side)[0] for side in (a, b)])
    for column in np.flatnonzero(np.isin(means, (0, 100)).any(axis=0) & (np.abs(means[0] - means[1]) > NOTHING)):
        sides = [[float(end[0]) / 100 for end in interval(side[:, [column]])] for side in (a, b)]
        ends = square_and_add((low[column] / 100, high[column] / 100), means[:, column] / 100, sides)
        low[column], high[column] = 100 * ends[0], 100 * ends[1]
    return low, high


def _ratio_room(
    mean_a: np.ndarray,
    mean_b: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    constant: np.ndarray,
    missed: np.ndarray,
    most_and_least: Callable,
) -> tuple[np.ndarray, np.ndarray]:
    """Ends of intervals of ratios of means a/b that allow for what was not seen; arrays (columns,).

    Args:
        constant: where nothing varies: `missed` points more or fewer of a are possible.
        most_and_least: the most that a's mean may be and the least that b's, for where a's is 0.
    """
    under = np.where(mean_b > 0, mean_b, np.nan)
    ratio = mean_a / under
    low = np.where(constant, np.maximum(ratio - missed / under, 0), low)
    high = np.where(constant, ratio + missed / under, high)
    nothing = ratio == 0
    if nothing.any():
        most, least = most_and_least()
        low, high = np.where(nothing, 0, low), np.where(nothing, most / least, high)
    return low, high


def _clusters_with_values(present: np.ndarray, clusters: Clusters) -> np.ndarray:
    """How many units have a value, by column of `present`: clusters of the clustering with the most. The other one is a
    handful of training runs, and runs of a unit are no further units."""
    counts = [[len(set(np.asarray(labels)[there].tolist())) for there in present.T] for labels in clusters]
    return np.max(counts, axis=0)


def _on_scale(low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Ends of a difference of scores."""
    return np.maximum(low, -100), np.minimum(high, 100)


def _ends(found: Estimates) -> tuple[np.ndarray, np.ndarray]:
    return found.low, found.high


def _influences(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Each column's mean, and what each observation adds to its error; NaN where a column has no value."""
    present = ~np.isnan(values)
    n = present.sum(axis=0)
    mean = np.divide(np.where(present, values, 0.0).sum(axis=0), n, out=np.full(values.shape[1], np.nan), where=n > 0)
    return mean, np.where(present, values - mean, 0.0) / np.maximum(n, 1)


def _columns(values: np.ndarray) -> np.ndarray:
    """Values as (observations, columns)."""
    table = np.asarray(values, dtype=float)
    return table.reshape(len(table), -1)


def _missed(n: np.ndarray, confidence: float) -> np.ndarray:
    """How far, in points, a mean of n scores may move by what none of them showed; NaN without any."""
    return np.where(n > 0, 100 * unseen_rate(np.maximum(n, 1), confidence), np.nan)


def _reach(freedom: np.ndarray, confidence: float) -> np.ndarray:
    """How many standard errors an interval reaches to either side."""
    return stats.t.ppf(0.5 + confidence / 2, freedom)


def _normal(confidence: float) -> float:
    return float(stats.norm.ppf(0.5 + confidence / 2))


def _estimates(value, low, high, se, freedom, scale, confidence) -> Estimates:
    """NaN throughout where there is no value."""
    gone = np.isnan(value)
    low, high, se = (np.where(gone, np.nan, array) for array in (low, high, se))
    return Estimates(value, low, high, se, freedom, scale, confidence)
