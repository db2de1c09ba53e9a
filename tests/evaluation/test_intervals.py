"""Two-way cluster-robust intervals against the formula in plain loops, at the edges, and what keeps the bootstrap."""

import math

import numpy as np
import pytest
from scipy import stats

from lib.evaluation.inference import (
    Resampling,
    bootstrap_interval,
    bootstrap_means,
    randomisation_test,
    wilson_interval,
)
from lib.evaluation.intervals import (
    difference_interval,
    mean_interval,
    ratio_interval,
    two_way_differences,
    two_way_errors,
    two_way_means,
    two_way_ratios,
    unseen_rate,
)

PERSONAS = np.array(list("aaabbbccccdd"))
NEEDS = np.array([1, 2, 3, 1, 1, 2, 3, 4, 4, 1, 2, 4])
CLUSTERS = [PERSONAS, NEEDS]
A = np.array([100.0, 50, 0, 100, 100, 100, 50, 0, 0, 100, 100, 25])
B = np.array([50.0, 50, 0, 0, 100, 50, 50, 0, 25, 0, 100, 25])
LACKING = np.where(np.arange(12) % 5 == 0, np.nan, A)


def brute_force(estimate, *sides):
    """Standard error and t, leaving out cluster by cluster.

    Args:
        estimate: of the means of the sides.
        sides: values of each; NaN where there is none.
    """
    known = [i for i in range(12) if not all(math.isnan(side[i]) for side in sides)]

    def at(kept):
        return estimate(*(float(np.nanmean([side[i] for i in kept])) for side in sides))

    def term(key):
        groups = sorted({key(i) for i in known})
        n = len(groups)
        squares = [(at([i for i in known if key(i) != group]) - at(known)) ** 2 for group in groups]
        total, mean = sum(squares), sum(squares) / n
        freedom = 2 * total**2 / (n / (n - 1) * sum((square - mean) ** 2 for square in squares))
        sizes = [sum(key(i) == group for i in known) for group in groups]
        least = sum(size**2 for size in sizes) ** 2 / sum(size**4 for size in sizes) - 1
        return (n - 1) / n * total, min(max(freedom, least), n - 1)

    of_persona, freedom = term(lambda i: PERSONAS[i])
    of_need, other = term(lambda i: NEEDS[i])
    of_both, _ = term(lambda i: (PERSONAS[i], NEEDS[i]))
    variance = max(of_persona + of_need - of_both, of_persona, of_need, of_both)
    return math.sqrt(variance), stats.t.ppf(0.975, min(freedom, other))


@pytest.mark.parametrize("values", [A, LACKING], ids=["all", "some missing"])
def test_a_mean_is_the_formula_on_the_logit_scale(values):
    mean = float(np.nanmean(values))
    se, reach = brute_force(lambda mean: mean, values)
    centre, half = math.log(mean / (100 - mean)), reach * 100 * se / (mean * (100 - mean))
    ends = [100 / (1 + math.exp(-(centre + sign * half))) for sign in (-1, 1)]
    found = two_way_means(values, CLUSTERS)
    assert found.se[0] == pytest.approx(se)
    assert mean_interval(values, Resampling(CLUSTERS)) == pytest.approx(ends)
    # A column's interval does not depend on the columns beside it.
    both = mean_interval(np.column_stack([B, values]), Resampling(CLUSTERS))
    assert [end[1] for end in both] == pytest.approx(ends)


@pytest.mark.parametrize("values", [A, LACKING], ids=["all", "some missing"])
def test_a_paired_difference_is_the_formula(values):
    mean = float(np.nanmean(values - B))
    se, reach = brute_force(lambda mean: mean, values - B)
    expected = [max(mean - reach * se, -100), min(mean + reach * se, 100)]
    assert difference_interval(values, B, Resampling(CLUSTERS)) == pytest.approx(expected)
    narrow = difference_interval(values, B, Resampling(CLUSTERS), confidence=0.5)
    assert expected[0] < narrow[0] < mean < narrow[1] < expected[1]


def test_sides_may_have_values_of_their_own():
    difference = np.nanmean(LACKING) - B.mean()
    se, reach = brute_force(lambda a, b: a - b, LACKING, B)
    found = two_way_differences(LACKING, B, CLUSTERS)
    assert (found.value[0], found.se[0]) == pytest.approx((difference, se))
    assert found.high[0] == pytest.approx(min(difference + reach * se, 100))


def test_a_ratio_is_the_delta_method_on_the_log_scale():
    ratio = A.mean() / B.mean()
    se, reach = brute_force(lambda a, b: (a - ratio * b) / B.mean(), A, B)
    found = two_way_ratios(A, B, CLUSTERS)
    assert (found.value[0], found.se[0]) == pytest.approx((ratio, se))
    expected = [ratio * math.exp(sign * reach * se / ratio) for sign in (-1, 1)]
    low, high = ratio_interval(A[:, None], B[:, None], Resampling(CLUSTERS))
    assert [low[0], high[0]] == pytest.approx(expected)


def test_the_variance_is_never_below_one_of_its_terms():
    """Personas that balance out exactly: their term is 0, and the difference of the terms would be negative."""
    personas, needs = np.repeat(np.arange(6), 2), np.tile([0, 1, 2, 3], 3)
    values = np.tile([0.0, 100.0], 6) * np.repeat([1, 0.5], 6) + np.repeat([0, 25.0], 6)
    centred = values - 50
    terms = [np.bincount(code, centred) for code in (personas, needs, personas * 4 + needs)]
    of_persona, of_need, of_both = (len(sums) / (len(sums) - 1) * (sums**2).sum() / 144 for sums in terms)
    assert of_persona == 0
    assert of_persona + of_need - of_both > 0
    assert two_way_means(values, [personas, needs]).se[0] ** 2 == pytest.approx(max(of_need, of_both))
    # The other way round: nested in one clustering and balanced in the other, the sum alone would be negative.
    wave = np.tile([0.0, 100.0, 100.0, 0.0], 3)
    assert two_way_means(wave, [np.repeat(np.arange(6), 2), np.tile([0, 0, 1, 1], 3)]).se[0] > 5


@pytest.mark.parametrize("value", [0.0, 100.0])
def test_a_mean_at_an_end_has_wilsons_interval(value):
    low, high = mean_interval(np.full(12, value), Resampling(CLUSTERS))
    expected = wilson_interval(12 * value / 100, 12)
    assert (low, high) == pytest.approx((100 * expected[0], 100 * expected[1]))
    assert high - low > 20


@pytest.mark.parametrize(
    ("values", "clusters"),
    [(np.full(12, 50.0), CLUSTERS), (np.array([50.0]), [["a"], [1]]), (np.array([20.0, 80.0]), [["a", "a"], [1, 1]])],
    ids=["constant", "one observation", "one cluster"],
)
def test_no_interval_is_a_point(values, clusters):
    low, high = mean_interval(values, Resampling(clusters))
    missed = 100 * unseen_rate(len(values))
    assert (low, high) == pytest.approx((max(50 - missed, 0), min(50 + missed, 100)))
    low, high = difference_interval(values, values, Resampling(clusters))
    assert (low, high) == pytest.approx((-missed, missed))
    low, high = ratio_interval(values[:, None], values[:, None], Resampling(clusters))
    assert low[0] < 1 < high[0]


def test_no_interval_leaves_its_scale():
    rare = np.zeros((60, 2))
    rare[7, 0], rare[:, 1] = 100, 100
    rare[9, 1] = 0
    over = Resampling([np.arange(60) % 20, np.arange(60) % 7])
    low, high = mean_interval(rare, over)
    assert (low > 0).all()
    assert (high < 100).all()
    # One of sixty: far from symmetrical, and no narrower than an interval for independent queries.
    assert low[0] <= 100 * wilson_interval(1, 60)[0]
    assert 100 * wilson_interval(1, 60)[1] <= high[0] < 20
    low, high = difference_interval(rare[:, [1]], rare[:, [0]], over)
    assert high[0] <= 100
    fold = ratio_interval(rare[:, [0]], rare[:, [1]], over)
    assert 0 < fold[0][0] < 1 / 59 < fold[1][0]


def test_a_side_at_an_end_widens_the_difference():
    """None of 8 (values of its own) against 15 of 60: no narrower than what b alone says, wider for what 8 may miss."""
    clusters = [np.arange(60) % 20, np.arange(60) % 7]
    a, b = np.where(np.arange(60) < 8, 0.0, np.nan), 100.0 * (np.arange(60) < 15)
    found = two_way_differences(a, b, clusters)
    of_b = mean_interval(b, Resampling(clusters))
    missed = 100 * float(wilson_interval(0, 8)[1])
    assert found.low[0] == pytest.approx(-of_b[1])
    assert found.high[0] == pytest.approx(-25 + math.hypot(missed, 25 - of_b[0]))
    assert found.se[0] == pytest.approx((found.high[0] - found.low[0]) / (2 * stats.norm.ppf(0.975)))


def test_a_clustering_with_one_cluster_is_left_out():
    one_need = two_way_differences(A, B, [PERSONAS, np.ones(12)])
    left_out = np.array([(A - B)[name != PERSONAS].mean() for name in "abcd"])
    squares = (left_out - (A - B).mean()) ** 2
    se = math.sqrt(3 / 4 * squares.sum())
    assert one_need.se[0] == pytest.approx(se)
    freedom = min(2 * squares.sum() ** 2 / (16 / 3 * squares.var()), 3)
    assert one_need.high[0] - one_need.low[0] == pytest.approx(2 * stats.t.ppf(0.975, freedom) * se)


def reach_of(values, clusters):
    """Standard error and t of a mean."""
    shown = ~np.isnan(values)[:, None]
    influence = np.where(shown, (values - np.nanmean(values))[:, None], 0) / shown.sum()
    se, freedom = two_way_errors([(influence, shown)], clusters)
    return se[0], stats.t.ppf(0.975, freedom[0])


def test_clusters_of_one_size_have_the_usual_variance_and_nearly_g_degrees_of_freedom():
    rng = np.random.default_rng(0)
    labels = [np.repeat(np.arange(60), 60), np.tile(np.arange(60), 60)]
    values = 50 + rng.normal(size=60)[labels[0]] + rng.normal(size=60)[labels[1]] + rng.normal(size=3600)
    sums = [np.bincount(code, values - values.mean()) / 3600 for code in labels]
    expected = sum(60 / 59 * (each**2).sum() for each in sums) - ((values - values.mean()) ** 2).sum() / 3600 / 3599
    se, reach = reach_of(values, labels)
    assert se == pytest.approx(math.sqrt(expected))
    assert stats.t.ppf(0.975, 59) <= reach < stats.t.ppf(0.975, 30)


def test_one_heavy_cluster_leaves_few_degrees_of_freedom():
    """A need with a third of the queries that differs from all others."""
    needs = np.concatenate([np.zeros(50), np.arange(1, 101)])
    values = np.where(needs == 0, 90.0, 10.0 + needs % 7)
    _, reach = reach_of(values, [np.arange(150), needs])
    assert stats.t.ppf(0.975, 3) < reach <= stats.t.ppf(0.975, 2)


def test_a_rare_outcome_leaves_as_many_degrees_of_freedom_as_the_sizes_say():
    """One of 200, in clusters of one size: they contribute unequally by chance, not because few decide."""
    values = 100.0 * (np.arange(200) == 7)
    _, reach = reach_of(values, [np.arange(200) // 5, np.arange(200) % 40])
    assert reach == pytest.approx(stats.t.ppf(0.975, 39))


def test_a_side_that_is_in_one_cluster_does_not_move_without_it():
    """All of a's values are persona a's: without her b alone moves."""
    few = np.where(PERSONAS == "a", A, np.nan)
    found = two_way_differences(few, B, [PERSONAS, np.ones(12)])
    of_b = [B[name != PERSONAS].mean() - B.mean() for name in "abcd"]
    assert found.se[0] == pytest.approx(math.sqrt(3 / 4 * np.square(of_b).sum()))


def test_nothing_found_has_no_ratio_and_nothing_seen_no_interval(recwarn):
    found = two_way_ratios(A, 0 * B, CLUSTERS)
    assert np.isnan([found.value[0], found.low[0], found.high[0], found.se[0]]).all()
    fold = two_way_ratios(0 * A, B, CLUSTERS)
    assert (fold.value[0], fold.low[0]) == (0, 0)
    assert 0.2 < fold.high[0] < 10
    gone = mean_interval(np.full(12, np.nan), Resampling(CLUSTERS))
    assert np.isnan(gone).all()
    assert not recwarn.list


def test_one_clustering_and_training_runs_keep_the_bootstrap():
    table = np.column_stack([A, B])
    one = Resampling([PERSONAS], 200, 3)
    np.testing.assert_array_equal(mean_interval(table, one), bootstrap_interval(table, [PERSONAS], 200, 3))
    means = bootstrap_means(A - B, [PERSONAS], 200, 3)
    np.testing.assert_array_equal(difference_interval(A, B, one), np.percentile(means, [2.5, 97.5]))
    sides = bootstrap_means(table, [PERSONAS], 200, 3)
    fold = ratio_interval(A[:, None], B[:, None], one)
    np.testing.assert_array_equal(np.ravel(fold), np.percentile(sides[:, 0] / sides[:, 1], [2.5, 97.5]))
    runs = Resampling(CLUSTERS, 200, 3, bootstrap=True)
    np.testing.assert_array_equal(mean_interval(table, runs), bootstrap_interval(table, CLUSTERS, 200, 3))
    assert runs.among(np.arange(12) < 6).bootstrap


def test_a_mean_at_an_end_is_no_point_with_one_clustering_either():
    """Wilson's interval of 0 of 4 clusters reaches z²/(n + z²) = 49.0%: repeated questions are no further trials."""
    table = np.column_stack([np.zeros(12), np.full(12, 100.0), A, np.full(12, np.nan)])
    z = 1.959964
    for over in (Resampling([PERSONAS], 200, 3), Resampling(CLUSTERS, 200, 3, bootstrap=True)):
        n = max(len(set(labels)) for labels in over.clusters)
        low, high = mean_interval(table, over)
        assert (low[0], high[0]) == pytest.approx((0, 100 * z**2 / (n + z**2)), abs=1e-4)
        assert (low[1], high[1]) == pytest.approx((100 * n / (n + z**2), 100), abs=1e-4)
        assert (low[2], high[2]) == bootstrap_interval(A, over.clusters, 200, 3)
        assert np.isnan([low[3], high[3]]).all()
        assert mean_interval(table[:, 0], over) == (low[0], high[0])


def test_four_of_four_against_none_is_no_point():
    """Newcombe's interval of 4/4 − 0/4: 100 − √2·49.0 = 30.7. Where both are alike, four units may have missed 60%."""
    over = Resampling([np.arange(4)], 200, 3)
    all_right, none = np.full((4, 1), 100.0), np.zeros((4, 1))
    missed = 100 * float(wilson_interval(0, 4)[1])
    low, high = difference_interval(all_right, none, over)
    assert (low[0], high[0]) == (pytest.approx(100 - math.sqrt(2) * missed), 100)
    other = difference_interval(none, all_right, over)
    assert (-other[1][0], -other[0][0]) == (pytest.approx(low[0]), high[0])
    unseen = 100 * unseen_rate(4)
    for side in (all_right, none):
        low, high = difference_interval(side, side, over)
        assert (low[0], high[0]) == (pytest.approx(-unseen), pytest.approx(unseen))
    assert difference_interval(none[:, 0], none[:, 0], over) == (pytest.approx(-unseen), pytest.approx(unseen))


def test_a_graded_gain_in_every_unit_over_nothing_keeps_the_bootstrap():
    graded = np.linspace(9, 11, 30)
    over = Resampling([np.arange(30)], 200, 3)
    low, high = difference_interval(graded, np.zeros(30), over)
    assert (low, high) == bootstrap_interval(graded, over.clusters, 200, 3)


def test_training_runs_of_a_flow_are_no_further_flows():
    """Forty flows by three runs, all right on one side and none on the other: as sure as forty flows are, not three."""
    flows, runs = np.repeat(np.arange(40), 3), np.tile(np.arange(3), 40)
    over = Resampling([flows, runs], 200, 3, bootstrap=True)
    low, high = difference_interval(np.full(120, 100.0), np.zeros(120), over)
    assert (low, high) == (pytest.approx(100 - math.sqrt(2) * 100 * float(wilson_interval(0, 40)[1])), 100)


def test_repeated_questions_are_no_further_units():
    """Twelve answers about four personas leave what four leave open; a side without a pair does not count."""
    over = Resampling([PERSONAS], 200, 3)
    n = len(set(PERSONAS))
    _, high = difference_interval(np.zeros(12), np.zeros(12), over)
    assert high == pytest.approx(100 * unseen_rate(n))
    half = np.where(np.asarray(PERSONAS) == PERSONAS[0], 0.0, np.nan)
    assert difference_interval(np.zeros(12), half, over)[1] == pytest.approx(100 * unseen_rate(1))


def test_a_ratio_with_one_clustering_is_no_point_either():
    over = Resampling([np.arange(12)], 200, 3)
    none, some, whole = np.zeros((12, 1)), A[:, None], np.full((12, 1), 100.0)
    low, high = ratio_interval(none, some, over)
    least = mean_interval(some, over)[0][0]
    assert (low[0], high[0]) == (0, pytest.approx(100 * float(wilson_interval(0, 12)[1]) / least))
    low, high = ratio_interval(whole, whole, over)
    assert (low[0], high[0]) == (pytest.approx(1 - unseen_rate(12)), pytest.approx(1 + unseen_rate(12)))
    low, high = ratio_interval(some, none, over)
    assert np.isnan([low[0], high[0]]).all()


@pytest.mark.parametrize("clusters", [[[1, 2], [1]], [[1], [1]], [[1, 2], [1, 2], [1, 2]]])
def test_refuses(clusters):
    with pytest.raises(ValueError, match="two clusterings"):
        two_way_means(np.array([1.0, 2.0]), clusters)


def test_unseen_rate():
    assert (1 - unseen_rate(100)) ** 100 == pytest.approx(0.025)


def test_the_clustering_with_the_fewest_clusters_decides_how_far_an_interval_reaches():
    values = np.random.default_rng(0).normal(50, 10, (60, 1))
    influence, there = (values - values.mean()) / 60, np.ones((60, 1), dtype=bool)
    few, many = np.arange(60) % 3, np.arange(60)
    for clusters in ((few, many), (many, few)):
        _, freedom = two_way_errors([(influence, there)], clusters)
        assert freedom[0] <= 2 + 1e-9
    _, freedom = two_way_errors([(influence, there)], (many, many))
    assert freedom[0] > 12


# ---------------------------------------------------------------- p-values


@pytest.mark.parametrize("hypothesis", [-30.0, -5.0, 0.0, 10.0, 60.0])
def test_a_p_value_of_a_difference_is_that_of_t(hypothesis):
    found = two_way_differences(A, B, CLUSTERS)
    t = abs(found.value[0] - hypothesis) / found.se[0]
    assert found.p_values(hypothesis)[0] == pytest.approx(2 * stats.t.sf(t, found.freedom[0]))


@pytest.mark.parametrize("estimate", [two_way_differences, two_way_ratios])
def test_a_p_value_is_005_where_the_interval_ends(estimate):
    for sides in ((A, B), (LACKING, B), (A, np.full(12, 100.0)), (0 * A, B)):
        found = estimate(*sides, CLUSTERS)
        for end in {found.low[0], found.high[0]} - {found.value[0], 0.0, 100.0, -100.0}:
            assert found.p_values(end)[0] == pytest.approx(0.05)
        assert found.p_values(found.value[0])[0] == 1


def test_a_p_value_of_a_mean_follows_its_interval():
    found = two_way_means(np.column_stack([A, np.zeros(12), np.full(12, np.nan)]), CLUSTERS)
    for end in (found.low[0], found.high[0]):
        assert found.p_values(end)[0] == pytest.approx(0.05)
    assert found.p_values(found.high[1] / 2)[1] > 0.05 > found.p_values(2 * found.high[1])[1]
    assert np.isnan(found.p_values(50)[2])


def test_p_values_ask_what_other_needs_would_show():
    """Two methods that differ by needs alone: exchanges of personas call that significant, whatever the needs."""
    rng = np.random.default_rng(3)
    personas, needs = np.repeat(np.arange(60), 8), np.tile(np.arange(8), 60)
    a = 100.0 * (needs < 4)
    b = np.where(needs == 0, 0.0, a) * (rng.random(480) < 0.99)
    found = two_way_differences(a, b, [personas, needs])
    assert found.p_values()[0] > 0.3
    assert randomisation_test(a, b, personas) < 0.001
