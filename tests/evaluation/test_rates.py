import numpy as np
import pandas as pd
import pytest

from lib.evaluation.inference import randomisation_test, wilson_interval
from lib.evaluation.rates import paired_deltas, rates_with_intervals


def outcomes(condition: str, numerators, denominators=None, metric="m") -> pd.DataFrame:
    numerators = np.asarray(numerators, dtype=float)
    denominators = np.ones(len(numerators)) if denominators is None else np.asarray(denominators, dtype=float)
    return pd.DataFrame(
        {
            "condition": condition,
            "unit": [f"u{i:02}" for i in range(len(numerators))],
            "metric": metric,
            "numerator": numerators,
            "denominator": denominators,
        }
    )


def test_a_rate_counts_what_its_denominator_counts():
    table = rates_with_intervals(outcomes("a", [1, 0, 0, 0], [1, 1, 0, 0]), {"m"}, 500, 0).iloc[0]
    assert table["value"] == 50.0
    assert table["n"] == 4
    assert table["counted"] == 2
    assert (table["ci_low"], table["ci_high"]) == pytest.approx((9.45, 90.55), abs=0.01)


def test_a_rate_with_one_wrong_among_few_does_not_reach_100():
    """Resampling three of four gives 100% in a third of the draws: no interval may hold what one flow has excluded."""
    table = rates_with_intervals(outcomes("a", [1, 1, 1, 0, 0], [1, 1, 1, 1, 0]), {"m"}, 500, 0).iloc[0]
    assert (table["value"], table["counted"]) == (75, 4)
    assert (table["ci_low"], table["ci_high"]) == pytest.approx((30.06, 95.44), abs=0.01)


def test_the_interval_of_a_mean_is_that_of_the_normal_where_n_is_large():
    values = np.random.default_rng(0).random(2000)
    row = rates_with_intervals(outcomes("a", values), set(), 4000, 1).iloc[0]
    half = 1.96 * values.std() / np.sqrt(len(values))
    assert row["value"] == pytest.approx(values.mean())
    assert row["ci_low"] == pytest.approx(values.mean() - half, abs=half / 10)
    assert row["ci_high"] == pytest.approx(values.mean() + half, abs=half / 10)


def test_where_nothing_happens_the_interval_is_wilsons():
    row = rates_with_intervals(outcomes("a", [0] * 30, [1] * 20 + [0] * 10), {"m"}, 500, 0).iloc[0]
    assert (row["ci_low"], row["ci_high"]) == pytest.approx([100 * float(x) for x in wilson_interval(0, 20)])
    nothing = rates_with_intervals(outcomes("a", [0, 0], [0, 0]), {"m"}, 200, 0).iloc[0]
    assert np.isnan(nothing[["value", "ci_low", "ci_high"]].astype(float)).all()


def test_a_difference_is_taken_over_shared_units_only():
    a, b = outcomes("a", [1, 1, 0, 0]), outcomes("b", [0, 1])
    row = paired_deltas(pd.concat([a, b]), [("a", "b")], {"m"}, 500, 0).iloc[0]
    assert row["n"] == 2
    assert row["delta"] == 50.0


def test_equal_outcomes_settle_only_what_so_many_units_can_show():
    frame = pd.concat([outcomes("a", [0] * 12), outcomes("b", [0] * 12)])
    row = paired_deltas(frame, [("a", "b")], {"m"}, 500, 0).iloc[0]
    assert row["p_value"] == 1.0
    assert row["ci_high"] == pytest.approx(100 * float(wilson_interval(0, 12)[1]))
    assert row["ci_low"] == -row["ci_high"]


def test_pairing_narrows_the_interval():
    rng = np.random.default_rng(3)
    hard = rng.random(200)
    frame = pd.concat([outcomes("a", np.clip(hard + 0.05, 0, 1)), outcomes("b", hard)])
    paired = paired_deltas(frame, [("a", "b")], set(), 1000, 0).iloc[0]
    alone = rates_with_intervals(frame, set(), 1000, 0).iloc[0]
    assert paired["ci_high"] - paired["ci_low"] < 0.2 * (alone["ci_high"] - alone["ci_low"])
    assert paired["ci_low"] > 0
    assert paired["p_value"] < 0.001


def p_of(a, b) -> float:
    """The p-value of a difference; a and b are numerators and denominators."""
    frame = pd.concat([outcomes("a", *a), outcomes("b", *b)])
    return paired_deltas(frame, [("a", "b")], {"m"}, 100, 1)["p_value"].item()


def test_the_p_value_is_that_of_the_units_that_count_on_both_sides():
    rng = np.random.default_rng(5)
    a, b = rng.random(40), rng.random(40) - 0.1
    assert p_of((a,), (b,)) == randomisation_test(a, b, seed=1)
    under = (np.arange(40) % 5 > 0).astype(float), (np.arange(40) % 7 > 0).astype(float)
    both = (under[0] > 0) & (under[1] > 0)
    p = p_of((a * under[0], under[0]), (b * under[1], under[1]))
    assert p == randomisation_test(a[both], b[both], seed=1)
    assert 1e-3 < p < 1


def test_parsing_more_often_is_no_evidence_on_what_is_made_up():
    """The same two flows have made-up names: 2 of 28 against 2 of 21 differ by what parses alone."""
    over = [1, 1] + [0] * 26
    row = paired_deltas(
        pd.concat([outcomes("a", over), outcomes("b", over, [1] * 21 + [0] * 7)]), [("a", "b")], {"m"}, 200, 0
    ).iloc[0]
    assert row["delta"] == pytest.approx(100 * (2 / 28 - 2 / 21))
    assert row["p_value"] == 1


@pytest.mark.parametrize(("counted", "p"), [(5, 1.0), (6, 2 / 2**6)])
def test_fewer_than_six_units_on_both_sides_settle_nothing(counted, p):
    """Ten units count on either side, all of a's and none of b's as 1."""
    of_a, of_b = [1] * 10 + [0] * (10 - counted), [0] * (10 - counted) + [1] * 10
    assert p_of((of_a, of_a), ([0] * len(of_b), of_b)) == pytest.approx(p, abs=0.006)


def test_the_p_value_keeps_its_level_for_rates_over_what_parses():
    """Also where one side parses far more often."""
    rng = np.random.default_rng(7)
    small = 0
    for _ in range(200):
        under = rng.random((2, 30)) < [[0.9], [0.5]]
        over = under & (rng.random((2, 30)) < 0.3)
        small += p_of((over[0], under[0]), (over[1], under[1])) <= 0.05
    assert small <= 20  # 5% of 200 is 10; 20 would be beaten once in a thousand times


def test_a_real_difference_between_rates_is_found():
    under = np.r_[np.ones(50), np.zeros(10)]
    assert p_of((np.r_[np.ones(30), np.zeros(30)],), (np.zeros(60), under)) < 0.001


def test_conditions_and_metrics_keep_their_order():
    frame = pd.concat([outcomes("z", [1, 0], metric="q"), outcomes("a", [1, 0], metric="q"), outcomes("z", [1, 1])])
    table = rates_with_intervals(frame, set(), 100, 0)
    assert list(zip(table["condition"], table["metric"], strict=True)) == [("z", "q"), ("a", "q"), ("z", "m")]


def test_a_plain_rate_has_wilsons_interval():
    row = rates_with_intervals(outcomes("a", [1, 1] + [0] * 58), {"m"}, 500, 0).iloc[0]
    assert (row["ci_low"], row["ci_high"]) == pytest.approx([100 * float(x) for x in wilson_interval(2, 60)])


def test_two_rates_of_zero_are_not_known_to_be_equal():
    """Nothing was made up by 2 of 3 flows that parse and by 3 of 3: so few flows exclude little."""
    both = pd.DataFrame(
        {
            "condition": ["a"] * 3 + ["b"] * 3,
            "unit": [1, 2, 3] * 2,
            "metric": "made_up",
            "numerator": 0.0,
            "denominator": [1.0, 1.0, 0.0, 1.0, 1.0, 1.0],
        }
    )
    row = paired_deltas(both, [("a", "b")], ["made_up"], 200, 0).iloc[0]
    assert row["delta"] == 0
    assert row["ci_high"] == -row["ci_low"] == pytest.approx(100 * wilson_interval(0, 2)[1])
    always = both.assign(numerator=both["denominator"])
    row = paired_deltas(always, [("a", "b")], ["made_up"], 200, 0).iloc[0]
    assert row["ci_high"] > 50


def made_up(over_a, under_a, over_b, under_b) -> pd.Series:
    """The difference where so many of so many flows have a made-up name: two groups of units, each on one side."""
    ns = under_a + under_b
    a = [1] * over_a + [0] * (ns - over_a), [1] * under_a + [0] * under_b
    b = [0] * under_a + [1] * over_b + [0] * (under_b - over_b), [0] * under_a + [1] * under_b
    frame = pd.concat([outcomes("a", *a), outcomes("b", *b)])
    return paired_deltas(frame, [("a", "b")], {"m"}, 4000, 0).iloc[0]


@pytest.mark.parametrize("mirrored", [False, True])
def test_a_rate_of_zero_beside_another_is_not_known_to_be_zero(mirrored):
    """0 of 2 against 9 of 12: resampling shows no spread on the side of two; Wilson's interval reaches 66%."""
    row = made_up(9, 12, 0, 2) if mirrored else made_up(0, 2, 9, 12)
    ends = sorted(np.abs([row["ci_low"], row["ci_high"]]))
    assert row["delta"] == (75 if mirrored else -75)
    # By hand: Wilson's upper end of 0 of 2 is .6576; 9 of 12 reaches down to .5 when resampled.
    assert ends[0] == pytest.approx(100 * (0.75 - np.hypot(0.6576, 0.25)), abs=0.1)
    assert ends[1] == pytest.approx(100, abs=0.1)


def test_a_rate_of_all_beside_another_is_not_known_to_be_all():
    row = made_up(2, 2, 3, 12)
    assert row["ci_low"] == pytest.approx(100 * (0.75 - np.hypot(0.6576, 0.25)), abs=0.1)


def test_none_against_all_is_not_certain():
    row = made_up(0, 8, 8, 8)
    ends = wilson_interval(0, 8)[1]
    assert row["ci_low"] == -100
    assert row["ci_high"] == pytest.approx(100 * (np.hypot(ends, ends) - 1))


def test_a_mean_that_is_constant_on_one_side_keeps_the_bootstraps_interval():
    b = np.random.default_rng(0).random(30)
    frame = pd.concat([outcomes("a", [0.0] * 30), outcomes("b", b)])
    row = paired_deltas(frame, [("a", "b")], set(), 500, 0).iloc[0]
    alone = rates_with_intervals(outcomes("b", b), set(), 500, 0).iloc[0]
    assert row["ci_low"] == pytest.approx(-alone["ci_high"])
    assert row["ci_high"] == pytest.approx(-alone["ci_low"])


def test_the_interval_beside_a_constant_covers_the_truth():
    """1 in 20 against 1 in 2, of 20 flows: a third of the worlds show none, and the bootstrap then misses too often."""
    rng = np.random.default_rng(1)
    held = []
    while len(held) < 200:
        a, b = rng.random((2, 20)) < [[0.05], [0.5]]
        if not a.any():
            frame = pd.concat([outcomes("a", a), outcomes("b", b)])
            row = paired_deltas(frame, [("a", "b")], {"m"}, 300, 0).iloc[0]
            held.append(row["ci_low"] <= -45 <= row["ci_high"])
    assert np.mean(held) >= 0.95
