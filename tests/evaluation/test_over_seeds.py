"""Intervals that allow for other queries and for other seeds: how often they cover."""

import numpy as np
import pytest
from scipy import stats

from lib.evaluation.inference import Resampling
from lib.evaluation.intervals import mean_interval
from lib.evaluation.over_seeds import fewest_clusters, over_seeds, widened


@pytest.mark.parametrize("ratio", [0.1, 0.5, 1.0])
def test_intervals_cover(ratio):
    """Errors over queries have variance 1 and 60 degrees of freedom, those over three seeds `ratio` squared."""
    rng = np.random.default_rng(3)
    inside, n = 0, 3_000
    for _ in range(n):
        of_queries, estimated = rng.standard_normal(), np.sqrt(rng.chisquare(60) / 60)
        seeds = ratio * np.sqrt(3) * rng.standard_normal(3)
        half = stats.t.ppf(0.975, 60) * estimated
        half *= widened(half, 60, seeds.std(ddof=1) / np.sqrt(3), 2)
        inside += abs(of_queries + seeds.mean()) < half
    assert 0.93 < inside / n < 0.965


def test_a_second_source_alone_has_its_own_degrees_of_freedom():
    """Where queries say nothing, t of the seeds is left."""
    assert 1e-6 * widened(1e-6, 60, 1.0, 2) == pytest.approx(stats.t.ppf(0.975, 2), rel=1e-6)


def test_degrees_of_freedom_are_those_of_the_fewest_clusters():
    labels = np.repeat(np.arange(4), 3), np.tile(np.arange(3), 4), np.zeros(12)
    assert fewest_clusters(Resampling(list(labels[:2]), 10, 0)) == 3
    assert fewest_clusters(Resampling([labels[0], labels[2]], 10, 0)) == 4
    assert fewest_clusters(Resampling([labels[2], labels[2]], 10, 0)) == 2


def test_intervals_are_as_wide_as_other_seeds_make_them():
    """Seeds that all find as much add nothing to the interval over queries; seeds that differ widen it, by as much as
    `widened` says, to either side in proportion."""
    rng = np.random.default_rng(1)
    over = Resampling([np.repeat(np.arange(6), 4), np.tile(np.arange(4), 6)], 10, 0)
    base = rng.uniform(45, 55, (2, 24, 1))
    apart = np.array([-8.0, 0.0, 8.0])  # of seeds; their mean is that of the middle one
    same = {name: np.repeat(each, 3, axis=1) for name, each in zip("ab", base, strict=True)}
    spread = {"a": same["a"] + apart, "b": same["b"]}
    for table, more in zip(over_seeds(same, [("a", "b")], over), over_seeds(spread, [("a", "b")], over), strict=True):
        alone, wide = table.iloc[0], more.iloc[0]
        assert wide["value"] == pytest.approx(alone["value"])
        assert wide["ci_low"] < alone["ci_low"] - 5
        assert wide["ci_high"] > alone["ci_high"] + 5
        times = widened((alone["ci_high"] - alone["ci_low"]) / 2, 3, 8 / np.sqrt(3), 2)
        for end in ("ci_low", "ci_high"):
            assert wide[end] - wide["value"] == pytest.approx(times * (alone[end] - alone["value"]))
    low, high = mean_interval(base[0, :, 0], over)
    ends = over_seeds(same, [], over)[0].iloc[0][["ci_low", "ci_high"]]
    assert ends.tolist() == pytest.approx([low, high])


def test_a_pair_without_scores_is_left_out():
    rng = np.random.default_rng(0)
    scores = {name: rng.uniform(0, 100, (12, 3)) for name in "ab"}
    over = Resampling([np.repeat(np.arange(4), 3), np.tile(np.arange(3), 4)], 10, 0)
    values, changes = over_seeds(scores, [("a", "b"), ("a", "c")], over)
    assert values["of"].tolist() == ["a", "b"]
    assert changes["of"].tolist() == [("a", "b")]
    assert changes["value"].iloc[0] == pytest.approx(scores["a"].mean() - scores["b"].mean())
