"""How often intervals cover the truth, where the truth is known: simulated answers to queries of personas and needs.

An answer is right (100) or wrong (0): right where a normal latent value, the sum of a persona's effect, a need's and
the query's own, lies above a threshold. The variances of the three add up to 1, so that the true rate over all personas
and needs is exactly the one that the threshold was set for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import stats

from lib.evaluation.inference import Resampling, bootstrap_interval
from lib.evaluation.intervals import difference_interval, mean_interval


@dataclass(frozen=True)
class Setting:
    """What is estimated, and how alike the answers within a persona and within a need are.

    Attributes:
        rates: true rates in percent: of one method, or of two whose difference is estimated.
        persona, need: shares of the latent variance.
        likeness: correlation of two methods' latent values, persona by persona, need by need and query by query.
    """

    rates: tuple[float, ...]
    persona: float
    need: float
    likeness: float = 0.5

    @property
    def truth(self) -> float:
        """The rate, or the first minus the second."""
        return self.rates[0] - sum(self.rates[1:])


# Rates about as high as here, and needs that matter about as much (a tenth of the variance), personas less.
SETTINGS = (
    Setting((10.0,), persona=0.0, need=0.1),
    Setting((40.0,), persona=0.05, need=0.1),
    Setting((40.0,), persona=0.1, need=0.3),
    Setting((40.0, 15.0), persona=0.0, need=0.1),
    Setting((40.0, 35.0), persona=0.1, need=0.2),
)


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
    """How often 95% intervals cover the truth, and how wide they are: two-way cluster-robust and crossed bootstrap.

    Args:
        clusters: a persona's and a need's label for each query; the same in every replicate.
        replicates: worlds, each with new effects of personas, needs and queries.
        samples: of the bootstrap.

    Returns:
        truth; two_way, crossed (percent of the replicates whose interval has the truth); two_way_width,
        crossed_width (mean, in points).
    """
    answers = draw_answers(setting, clusters, replicates, np.random.default_rng(seed))
    over = Resampling(clusters)
    two_way = (
        mean_interval(answers[0], over) if len(answers) == 1 else difference_interval(answers[0], answers[1], over)
    )
    values = answers[0] - sum(answers[1:])
    found: dict[str, float] = {"truth": setting.truth}
    ends = {"two_way": two_way, "crossed": bootstrap_interval(values, clusters, samples, seed)}
    for name, (low, high) in ends.items():
        found[name] = 100 * float(((low <= setting.truth) & (setting.truth <= high)).mean())
        found[f"{name}_width"] = float((high - low).mean())
    return found


def coverage_table(clusters: Sequence[np.ndarray], replicates: int, samples: int, seed: int) -> pd.DataFrame:
    """`coverage` in each of `SETTINGS`.

    Args:
        clusters, replicates, samples: see `coverage`.

    Returns:
        columns rates, persona, need (of the setting), those of `coverage`, and replicates.
    """
    rows = [
        {"rates": setting.rates, "persona": setting.persona, "need": setting.need}
        | coverage(setting, clusters, replicates, samples, seed + number)
        | {"replicates": replicates}
        for number, setting in enumerate(SETTINGS)
    ]
    return pd.DataFrame(rows)
