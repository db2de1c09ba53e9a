"""How often intervals cover the truth, where the truth is known: simulated answers to queries of personas and needs.

An answer is right (100) or wrong (0): right where a normal latent value, the sum of a persona's effect, a need's and
the query's own, lies above a threshold. The variances of the three add up to 1, so that the true rate over all personas
and needs is exactly the one that the threshold was set for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np
import pandas as pd
from scipy import optimize, stats

from lib.evaluation.inference import LEVEL, Resampling
from lib.evaluation.intervals import (
    Estimates,
    difference_interval,
    mean_interval,
    ratio_interval,
    two_way_differences,
    two_way_means,
    two_way_ratios,
)

STRICT = LEVEL / 20  # what Holm's adjustment asks of the first of twenty tests


@dataclass(frozen=True)
class Setting:
    """What is estimated, and how alike the answers within a persona and within a need are.

    Attributes:
        rates: true rates in percent: of one method, or of two whose difference or ratio is estimated.
        persona, need: shares of the latent variance.
        likeness: correlation of two methods' latent values, persona by persona, need by need and query by query.
        ratio: whether the ratio of the two is estimated.
    """

    rates: tuple[float, ...]
    persona: float
    need: float
    likeness: float = 0.5
    ratio: bool = False

    @property
    def truth(self) -> float:
        """The rate, or the first minus, or over, the second."""
        return self.rates[0] / self.rates[1] if self.ratio else self.rates[0] - sum(self.rates[1:])


# Needs that matter little, as for the ranker trained on usage.
MILD = (
    Setting((10.0,), persona=0.0, need=0.1),
    Setting((40.0,), persona=0.05, need=0.1),
    Setting((40.0,), persona=0.1, need=0.3),
    Setting((40.0, 15.0), persona=0.0, need=0.1),
    Setting((40.0, 35.0), persona=0.1, need=0.2),
)
# Rates, shares and likeness as `latent_shares` and the correlation of scores give them for rows of the `quick` profile:
# recall of context by semantic search, of it and BM25T, of the ranker over semantic search; right plans with the
# context and the tools that are right, with the tools alone, and with the tools retrieved.
STRONG = (
    Setting((50.0,), persona=0.02, need=0.88),
    Setting((84.0,), persona=0.05, need=0.95),
    Setting((50.0, 32.0), persona=0.02, need=0.9, likeness=0.85),
    Setting((84.0, 49.0), persona=0.03, need=0.97, likeness=0.75),
    Setting((70.0, 50.0), persona=0.03, need=0.5, likeness=0.72, ratio=True),
    Setting((49.0, 36.0), persona=0.0, need=0.87, likeness=0.97, ratio=True),
)
SETTINGS = MILD + STRONG


def latent_shares(scores: np.ndarray, clusters: Sequence[np.ndarray]) -> tuple[float, float]:
    """Shares of the latent variance that personas and needs hold, by moments; 0 where an estimate is negative.

    Half the mean squared difference of two scores estimates the variance, of two by the same persona (about different
    needs) what personas do not hold of it, likewise for needs. The share of the scores' variance becomes a share of the
    latent one as a tetrachoric correlation does (Pearson, 1900): scores between 0 and 100 count as if they were either.

    Args:
        scores: float array (observations,), 0–100, not all the same.
        clusters: a persona's and a need's label for each observation; some personas have two needs, and some needs
            two personas.
    """
    first, second = (np.unique(labels, return_inverse=True)[1] for labels in clusters)
    same = [_differences(scores, code) for code in (first, second, first * (second.max() + 1) + second)]
    whole = _differences(scores, np.zeros_like(first))
    total = np.divide(*(whole - same[0] - same[1] + same[2]))
    threshold = stats.norm.ppf(scores.mean() / 100)
    shares = [1 - np.divide(*(of_one - same[2])) / total for of_one in same[:2]]
    return _latent(shares[0], threshold), _latent(shares[1], threshold)


def _differences(scores: np.ndarray, code: np.ndarray) -> np.ndarray:
    """The sum of squared differences of any two scores of a cluster, and the number of such pairs."""
    n, total, squares = (np.bincount(code, weight) for weight in (np.ones(len(scores)), scores, scores**2))
    return np.array([(n * squares - total**2).sum(), (n * (n - 1) / 2).sum()])


def _latent(share: float, threshold: float) -> float:
    """The correlation of two normal values that lie below a threshold with the correlation `share`."""
    rate = stats.norm.cdf(threshold)

    def excess(correlation: float) -> float:
        both = stats.multivariate_normal.cdf([threshold] * 2, cov=[[1, correlation], [correlation, 1]])
        return float(both - rate**2 - share * rate * (1 - rate))

    if excess(0) >= 0:
        return 0.0
    return float(optimize.brentq(excess, 0, 0.9999)) if excess(0.9999) > 0 else 1.0


def crossed_labels(personas: int, needs: int, queries: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """A persona and a need for each of the queries, drawn independently; some have up to three times as many as others.
    Everyone asks once at least."""
    labels = []
    for count in (personas, needs):
        weight = rng.uniform(1, 3, count)
        more = rng.choice(count, size=queries - count, p=weight / weight.sum())
        labels.append(rng.permutation(np.concatenate([np.arange(count), more])))
    return labels[0], labels[1]


def draw_answers(
    setting: Setting, clusters: Sequence[np.ndarray], replicates: int, rng: np.random.Generator
) -> list[np.ndarray]:
    """Answers of each method, 0 or 100.

    Args:
        clusters: a persona's and a need's label for each query.

    Returns:
        an array (queries, replicates) for each of the setting's rates.
    """
    codes = [np.unique(labels, return_inverse=True)[1] for labels in clusters]
    parts = [(codes[0], setting.persona), (codes[1], setting.need)]
    parts.append((np.arange(len(codes[0])), 1 - setting.persona - setting.need))
    latent = [np.zeros((len(codes[0]), replicates)) for _ in setting.rates]
    for code, share in parts:
        size = (int(code.max()) + 1, replicates)
        common = rng.normal(size=size) * np.sqrt(setting.likeness)
        for values in latent:
            own = rng.normal(size=size) * np.sqrt(1 - setting.likeness)
            values += np.sqrt(share) * (common + own)[code]
    return [100.0 * (values > stats.norm.isf(rate / 100)) for values, rate in zip(latent, setting.rates, strict=True)]


def coverage(
    setting: Setting,
    clusters: Sequence[np.ndarray],
    replicates: int,
    samples: int,
    seed: int,
) -> dict[str, float]:
    """How often 95% intervals cover the truth, and how wide they are: two-way cluster-robust, crossed bootstrap, and
    over personas alone, which takes the needs as given. A test at 5% that goes with an interval is wrong where it does
    not cover.

    Args:
        clusters: a persona's and a need's label for each query; the same in every replicate.
        replicates: worlds, each with new effects of personas, needs and queries.
        samples: of the bootstrap.

    Returns:
        truth; two_way, crossed, personas (percent of the replicates whose interval has the truth); two_way_width,
        crossed_width, personas_width (mean, in points, or of a ratio); strict (percent of the replicates whose two-way
        p-value against the truth is at most `STRICT`).
    """
    answers = draw_answers(setting, clusters, replicates, np.random.default_rng(seed))
    found: dict[str, float] = {"truth": setting.truth}
    estimates = {
        "two_way": _estimates(setting, answers, clusters),
        "personas": _estimates(setting, answers, [clusters[0], np.zeros(len(clusters[0]))]),
    }
    ends = {name: (one.low, one.high) for name, one in estimates.items()}
    ends["crossed"] = _interval(setting, answers, Resampling(clusters, samples, seed, True))
    for name, (low, high) in ends.items():
        found[name] = 100 * float(((low <= setting.truth) & (setting.truth <= high)).mean())
        found[f"{name}_width"] = float((high - low).mean())
    return found | {"strict": 100 * float((estimates["two_way"].p_values(setting.truth) <= STRICT).mean())}


def _estimates(setting: Setting, answers: Sequence[np.ndarray], clusters: Sequence[np.ndarray]) -> Estimates:
    if len(answers) == 1:
        return two_way_means(answers[0], clusters)
    return (two_way_ratios if setting.ratio else two_way_differences)(answers[0], answers[1], clusters)


def _interval(setting: Setting, answers: Sequence[np.ndarray], over: Resampling) -> tuple[np.ndarray, np.ndarray]:
    if len(answers) == 1:
        return mean_interval(answers[0], over)
    return (ratio_interval if setting.ratio else difference_interval)(answers[0], answers[1], over)


def coverage_table(
    samples_of: Mapping[str, Sequence[np.ndarray]], replicates: int, samples: int, seed: int
) -> pd.DataFrame:
    """`coverage` in each of `SETTINGS`, for each sample of queries.

    Args:
        samples_of: the clusters of each sample.
        replicates, samples: see `coverage`.

    Returns:
        columns sample, n (its queries), rates, ratio, persona, need, likeness (of the setting), those of `coverage`,
        and replicates.
    """
    rows = [
        {"sample": name, "n": len(clusters[0])}
        | asdict(setting)
        | coverage(setting, clusters, replicates, samples, seed + number)
        | {"replicates": replicates}
        for name, clusters in samples_of.items()
        for number, setting in enumerate(SETTINGS)
    ]
    return pd.DataFrame(rows)
