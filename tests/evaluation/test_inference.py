"""Bootstrap, randomisation test, McNemar, Wilson and Holm: by hand, by simulation, against SciPy."""

import itertools
import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from lib.evaluation.inference import (
    Resampling,
    bootstrap_interval,
    bootstrap_means,
    bootstrap_weights,
    holm_adjust,
    mcnemar_at_best,
    mcnemar_counts,
    mcnemar_test,
    percent,
    randomisation_test,
    settled,
    wilson_interval,
)

quick = settings(deadline=None, derandomize=True, database=None, max_examples=100)


def coverage(values: np.ndarray, clusters, truth: float = 0.0) -> float:
    """Share of columns (simulated experiments) whose interval holds the truth."""
    low, high = bootstrap_interval(values, clusters, samples=1000, seed=1)
    return float(((low <= truth) & (truth <= high)).mean())


# ---------------------------------------------------------------- bootstrap


def test_the_cluster_bootstrap_covers_where_the_naive_one_does_not():
    """60 clusters of 8 with half of the variance between clusters, 1500 experiments: standard error of a share 0.6%."""
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(60), 8)
    values = rng.normal(size=(60, 1500))[labels] + rng.normal(size=(480, 1500))
    assert coverage(values, [labels]) == pytest.approx(0.95, abs=0.025)
    assert coverage(values, [np.arange(480)]) < 0.75


def test_the_crossed_bootstrap_covers_two_way_data():
    """Personas × needs, both with effects: crossed resampling covers, either clustering alone is too narrow."""
    rng = np.random.default_rng(1)
    persona, need = (grid.ravel() for grid in np.meshgrid(np.arange(30), np.arange(30), indexing="ij"))
    values = rng.normal(size=(30, 800))[persona] + rng.normal(size=(30, 800))[need] + rng.normal(size=(900, 800))
    assert 0.92 < coverage(values, [persona, need]) <= 1
    assert coverage(values, [persona]) < 0.88
    assert coverage(values, [need]) < 0.88


def test_agreement_with_a_plain_loop_over_the_same_draws():
    rng = np.random.default_rng(2)
    values = rng.normal(size=(40, 3))
    values[rng.random(values.shape) < 0.2] = np.nan
    clusters = [rng.integers(0, 6, size=40), rng.choice(["x", "y", "z"], size=40)]
    counts, codes = bootstrap_weights(clusters, 30, np.random.default_rng(9))
    expected = np.full((30, 3), np.nan)
    for sample in range(30):
        for column in range(3):
            drawn = []
            for row in range(40):
                times = counts[0][sample, codes[0][row]] * counts[1][sample, codes[1][row]]
                if not math.isnan(values[row, column]):
                    drawn += [values[row, column]] * int(times)
            if drawn:
                expected[sample, column] = sum(drawn) / len(drawn)
    assert bootstrap_means(values, clusters, samples=30, seed=9) == pytest.approx(expected, abs=1e-12, nan_ok=True)


def test_agreement_with_drawing_clusters_one_by_one():
    """An independent implementation: the distributions agree within Monte Carlo error."""
    rng = np.random.default_rng(3)
    labels = np.repeat(np.arange(12), rng.integers(1, 9, size=12))
    values = rng.normal(size=12)[labels] + rng.normal(size=len(labels))
    plain = []
    for _ in range(4000):
        chosen = rng.choice(12, size=12)
        plain.append(np.concatenate([values[labels == label] for label in chosen]).mean())
    fast = bootstrap_means(values, [labels], samples=4000, seed=0)
    assert fast.mean() == pytest.approx(np.mean(plain), abs=0.03)
    assert fast.std() == pytest.approx(np.std(plain), rel=0.06)
    assert np.percentile(fast, [2.5, 97.5]) == pytest.approx(np.percentile(plain, [2.5, 97.5]), abs=0.08)


def test_weights_draw_each_clustering_as_often_as_it_has_labels():
    counts, codes = bootstrap_weights([["b", "a", "b"], [1, 2, 3]], 50, np.random.default_rng(0))
    assert [count.shape for count in counts] == [(50, 2), (50, 3)]
    assert (counts[0].sum(axis=1) == 2).all()
    assert (counts[1].sum(axis=1) == 3).all()
    assert codes[0].tolist() == [1, 0, 1]


def test_seeds_reproduce():
    values, labels = np.arange(20.0), np.arange(20) // 2
    first = bootstrap_means(values, [labels], samples=100, seed=4)
    assert np.array_equal(first, bootstrap_means(values, [labels], samples=100, seed=4))
    assert not np.array_equal(first, bootstrap_means(values, [labels], samples=100, seed=5))


def test_blocks_change_nothing():
    values, labels = np.random.default_rng(0).normal(size=(30, 2)), np.arange(30) % 7
    whole = bootstrap_means(values, [labels], samples=101, block=1000)
    assert bootstrap_means(values, [labels], samples=101, block=8) == pytest.approx(whole, abs=1e-12)


def test_columns_do_not_influence_each_other():
    values, labels = np.random.default_rng(0).normal(size=(30, 3)), np.arange(30) % 5
    together = bootstrap_means(values, [labels], samples=50, seed=2)
    assert together.shape == (50, 3)
    for column in range(3):
        alone = bootstrap_means(values[:, column], [labels], samples=50, seed=2)
        assert alone.shape == (50,)
        assert together[:, column] == pytest.approx(alone, abs=1e-12)


def test_missing_values_are_left_out_of_their_column():
    values = np.array([[1.0, 1.0], [np.nan, 1.0], [1.0, np.nan]])
    means = bootstrap_means(values, [np.arange(3)], samples=200)
    assert np.isnan(means).any()  # a resample of missing values only
    assert (means[~np.isnan(means)] == 1.0).all()


def test_a_resample_of_missing_values_does_not_spoil_the_interval():
    low, high = bootstrap_interval(np.array([1.0, np.nan, np.nan]), [np.arange(3)], samples=200)
    assert (low, high) == (1.0, 1.0)


def test_more_confidence_is_wider():
    values, labels = np.random.default_rng(0).normal(size=50), np.arange(50)
    narrow = bootstrap_interval(values, [labels], confidence=0.5)
    wide = bootstrap_interval(values, [labels], confidence=0.99)
    assert wide[0] < narrow[0] < values.mean() < narrow[1] < wide[1]


def test_one_cluster_leaves_no_variation():
    assert bootstrap_interval(np.array([1.0, 2.0, 6.0]), [["only"] * 3], samples=20) == pytest.approx((3.0, 3.0))


@pytest.mark.parametrize(
    ("values", "clusters"),
    [([], [[]]), ([1.0, 2.0], []), ([1.0, 2.0], [[1]]), ([1.0, 2.0], [[1, 2], [1, 2, 3]])],
    ids=["no observations", "no clustering", "short labels", "long labels"],
)
def test_bootstrap_refuses(values, clusters):
    with pytest.raises(ValueError):
        bootstrap_means(np.array(values), clusters, samples=5)


# ---------------------------------------------------------------- randomisation test


def exact_p(difference) -> float:
    """Share of all sign assignments with a sum at least as far from 0."""
    observed = abs(sum(difference))
    sums = [abs(np.dot(signs, difference)) for signs in itertools.product([-1, 1], repeat=len(difference))]
    return float(np.mean([total >= observed - 1e-9 for total in sums]))


@pytest.mark.parametrize("difference", [[1.0], [1.0, 1.0, 1.0], [1.0, 2.0, 3.0, -0.5], [0.1, 0.2, 0.7, -0.4, 0.3, 1.1]])
def test_randomisation_agrees_with_exact_enumeration(difference):
    p = randomisation_test(difference, np.zeros(len(difference)), samples=40_000)
    assert p == pytest.approx(exact_p(difference), abs=0.01)


def test_sums_equal_up_to_rounding_belong_to_the_tail():
    """All sums of ±.5 ± .3 ± .5 are at least .3, but half of those that are .3 fall short of the observed one."""
    difference = [-0.5, -0.3, 0.5]
    assert abs(sum(difference)) > abs(-0.5 + 0.3 + 0.5)
    assert randomisation_test(difference, np.zeros(3), samples=500) == 1.0


def test_the_p_value_counts_the_observed_assignment():
    """Never 0: at least 1/(n + 1), reached where no random assignment is as extreme."""
    assert randomisation_test(np.ones(60), np.zeros(60), samples=99) == 1 / 100
    assert randomisation_test(np.ones(60), np.zeros(60)) == 1 / 10_000


def test_equal_outcomes_have_p_1():
    assert randomisation_test([1.0, 2.0], [1.0, 2.0], samples=100) == 1.0


def test_randomisation_is_uniform_under_the_null():
    """1500 null experiments: the standard error of the share below .05 is .0056."""
    rng = np.random.default_rng(0)
    p = np.array([randomisation_test(*rng.normal(size=(2, 15)), samples=199, seed=i) for i in range(1500)])
    assert (p <= 0.05).mean() == pytest.approx(0.05, abs=0.018)
    assert stats.kstest(p, "uniform").statistic < 0.05


def test_flipping_whole_clusters_keeps_the_level():
    """Differences that are the same within a cluster: single flips reject far too often, cluster flips do not."""
    rng = np.random.default_rng(1)
    labels = np.repeat(np.arange(12), 10)
    naive, clustered = [], []
    for seed in range(500):
        difference = rng.normal(size=12)[labels] + 0.1 * rng.normal(size=120)
        naive.append(randomisation_test(difference, np.zeros(120), samples=199, seed=seed))
        clustered.append(randomisation_test(difference, np.zeros(120), labels, samples=199, seed=seed))
    assert np.mean(np.array(clustered) <= 0.05) == pytest.approx(0.05, abs=0.03)
    assert np.mean(np.array(naive) <= 0.05) > 0.3


def test_clusters_equal_a_test_on_their_sums():
    labels = ["b", "a", "b", "c", "a"]
    p = randomisation_test([1.0, 2.0, 0.5, -1.0, 1.0], np.zeros(5), labels, samples=40_000)
    assert p == pytest.approx(exact_p([3.0, 1.5, -1.0]), abs=0.01)


def test_randomisation_is_symmetric_and_seeded():
    a, b = np.random.default_rng(0).normal(size=(2, 30))
    p = randomisation_test(a, b, samples=500, seed=3)
    assert randomisation_test(b, a, samples=500, seed=3) == p
    assert len({randomisation_test(a, b, samples=500, seed=seed) for seed in range(6)}) > 1


def test_an_effect_is_found():
    rng = np.random.default_rng(0)
    assert randomisation_test(rng.normal(1, 1, size=40), np.zeros(40)) < 0.01


@pytest.mark.parametrize(("a", "b"), [([], []), ([1.0, 2.0], [1.0, 2.0, 3.0])])
def test_randomisation_refuses(a, b):
    with pytest.raises(ValueError):
        randomisation_test(a, b)


def test_randomisation_refuses_clusters_of_another_length():
    with pytest.raises(ValueError):
        randomisation_test([1.0, 2.0], [0.0, 0.0], [1, 2, 3])


def test_randomisation_refuses_a_single_value_against_many():
    with pytest.raises(ValueError):
        randomisation_test([1.0, 2.0, 3.0], [0.0])


def test_a_missing_outcome_is_no_evidence():
    assert randomisation_test([np.nan, 1.0, 2.0, 3.0], [0.0, 2.0, 1.0, 3.0]) > 0.05


# ---------------------------------------------------------------- McNemar, Wilson, Holm


@pytest.mark.parametrize(("only_a", "only_b"), [(1, 0), (0, 6), (8, 2), (5, 5), (30, 12)])
def test_mcnemar_is_a_binomial_test_of_the_discordant_pairs(only_a, only_b):
    a = [True] * only_a + [False] * only_b + [True] * 7 + [False] * 3
    b = [False] * only_a + [True] * only_b + [True] * 7 + [False] * 3
    assert mcnemar_test(a, b) == pytest.approx(stats.binomtest(only_a, only_a + only_b, 0.5).pvalue)
    assert mcnemar_test(b, a) == pytest.approx(mcnemar_test(a, b))


def test_mcnemar_by_hand():
    """Six pairs differ, all one way: 2 · (1/2)⁶."""
    assert mcnemar_test([1] * 6 + [0], [0] * 7) == pytest.approx(2 / 64)


@pytest.mark.parametrize("difference", [0.0, 0.04, 0.5, -0.52, 0.6, -3.4, 100.0])
def test_mcnemar_at_best_is_that_of_one_sided_pairs(difference):
    """No arrangement of pairs with these two rates has a smaller p-value."""
    n, pairs = 200, round(abs(difference) * 2)
    best = mcnemar_at_best(difference, n)
    assert best == pytest.approx(stats.binomtest(pairs, pairs).pvalue if pairs else 1.0)
    assert best == mcnemar_at_best(-difference, n)
    both_ways = [mcnemar_counts(pairs + back, back) for back in range((n - pairs) // 2 + 1)]
    assert min(both_ways) == both_ways[0] == best


def test_mcnemar_without_a_difference():
    assert mcnemar_test([True, False], [True, False]) == 1.0


def test_mcnemar_refuses_other_lengths():
    with pytest.raises(ValueError):
        mcnemar_test([True], [True, False])


@pytest.mark.parametrize("confidence", [0.9, 0.95, 0.99])
def test_wilson_agrees_with_scipy(confidence):
    pairs = [(s, n) for n in (1, 2, 7, 50, 936) for s in {0, 1, n // 2, n - 1, n}]
    low, high = wilson_interval([s for s, _ in pairs], [n for _, n in pairs], confidence)
    for (s, n), got in zip(pairs, zip(low, high, strict=True), strict=True):
        expected = stats.binomtest(s, n).proportion_ci(confidence, method="wilson")
        assert got == pytest.approx((expected.low, expected.high), abs=1e-12)


def test_wilson_of_nothing_is_everything():
    low, high = wilson_interval([0, 3], [0, 4])
    assert (low[0], high[0]) == (0, 1)
    assert 0 < low[1] < 0.75 < high[1] < 1


def test_wilson_reaches_the_ends_exactly():
    low, high = wilson_interval([0, 48, 24], [24, 48, 24])
    assert (low[0], high[1], high[2]) == (0, 1, 1)


def test_wilson_broadcasts():
    low, _ = wilson_interval([[1], [2]], [10, 20, 30])
    assert low.shape == (2, 3)


@pytest.mark.parametrize(("successes", "n"), [(-1, 5), (6, 5), ([1, 3], 2)])
def test_wilson_refuses(successes, n):
    with pytest.raises(ValueError):
        wilson_interval(successes, n)


def test_holm_by_hand():
    """Sorted .005, .01, .03, .04 times 4, 3, 2, 1: .02, .03, .06, .04, the last lifted to .06."""
    assert holm_adjust([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])


def test_holm_stops_at_1():
    assert holm_adjust([0.6, 0.7]).tolist() == [1.0, 1.0]


p_value_lists = st.lists(st.floats(0, 1), min_size=1, max_size=12)


@quick
@given(p_value_lists)
def test_holm_lies_between_the_raw_values_and_bonferroni(p):
    adjusted = holm_adjust(p)
    assert (adjusted >= np.array(p)).all()
    assert (adjusted <= np.minimum(np.array(p) * len(p), 1) + 1e-12).all()
    assert adjusted.min() == pytest.approx(min(min(p) * len(p), 1))


@quick
@given(p_value_lists, st.randoms(use_true_random=False))
def test_holm_keeps_the_order_and_follows_permutations(p, random):
    adjusted = holm_adjust(p)
    assert (np.diff(adjusted[np.argsort(p, kind="stable")]) >= 0).all()
    places = random.sample(range(len(p)), len(p))
    assert holm_adjust([p[i] for i in places]) == pytest.approx(adjusted[places])


@quick
@given(p_value_lists)
def test_holm_rejects_what_the_step_down_procedure_rejects(p):
    level, rejected = 0.05, set()
    for step, i in enumerate(sorted(range(len(p)), key=p.__getitem__)):
        if p[i] * (len(p) - step) > level:
            break
        rejected.add(i)
    assert set(np.flatnonzero(holm_adjust(p) <= level)) == rejected


@pytest.mark.parametrize("bad", [-0.1, 1.1, float("nan")])
def test_holm_refuses(bad):
    with pytest.raises(ValueError):
        holm_adjust([0.5, bad])


def test_percent_is_a_rate_with_wilsons_ends():
    rate, *ends = percent([5, 0], [10, 0])
    assert rate[0] == 50
    assert np.isnan(rate[1])
    np.testing.assert_allclose(ends, 100 * np.array(wilson_interval([5, 0], [10, 0])))
    assert percent(1, 4)[0] == 25


def test_settled_needs_p_and_interval():
    tests = pd.DataFrame(
        {"p_holm": [0.05, 0.05, 0.051, 0.01], "ci_low": [1, -1, 1, -3], "ci_high": [2, 1, 2, -1]}, dtype=float
    )
    assert settled(tests).tolist() == [True, False, False, True]
    named = tests.rename(columns={"ci_low": "delta_ci_low", "ci_high": "delta_ci_high"})
    assert settled(named, "delta_ci_low", "delta_ci_high").tolist() == [True, False, False, True]


def test_resampling_among_some_observations():
    whole = Resampling([["a", "a", "b"], [1, 2, 3]], samples=20, seed=4)
    part = whole.among(np.array([True, False, True]))
    assert [list(labels) for labels in part.clusters] == [["a", "b"], [1, 3]]
    assert (part.samples, part.seed) == (20, 4)
