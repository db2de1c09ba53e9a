"""Intervals and tests over units: against SciPy, by hand, by simulation."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from lib.evaluation.inference import (
    Resampling,
    difference_interval,
    holm_adjust,
    mean_interval,
    percent,
    ratio_interval,
    sign_flip_test,
    surest_first,
    unit_means,
    wilson_interval,
)


def by(labels, samples: int = 2000) -> Resampling:
    return Resampling(np.asarray(labels), samples)


def topics(seed: int = 0, n: int = 60) -> tuple[np.ndarray, np.ndarray]:
    """Labels of topics of very different size, and scores that depend on them."""
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(n), rng.integers(1, 9, size=n))
    return labels, np.clip(50 + 20 * rng.normal(size=n)[labels] + 10 * rng.normal(size=len(labels)), 1, 99)


def test_the_interval_is_scipys_percentile_bootstrap_of_the_topics_means():
    labels, values = topics()
    found = mean_interval(values, by(labels, samples=20_000))
    means = unit_means(values[:, None], labels)[:, 0]
    expected = stats.bootstrap((means,), np.mean, n_resamples=20_000, method="percentile", rng=1)
    assert found.value == pytest.approx(means.mean())
    assert (found.low, found.high) == pytest.approx(tuple(expected.confidence_interval), abs=0.15)


def test_the_interval_of_a_ratio_is_scipys():
    labels, values = topics()
    other = np.clip(values - 10 + 5 * np.random.default_rng(5).normal(size=len(values)), 1, 99)
    found = ratio_interval(values, other, by(labels, samples=20_000))
    a, b = unit_means(np.column_stack([values, other]), labels).T
    ratio = stats.bootstrap(
        (a, b), lambda x, y, axis: x.mean(axis) / y.mean(axis), n_resamples=20_000, method="percentile", paired=True,
        vectorized=True, rng=1,
    ).confidence_interval  # fmt: skip
    assert found.value == pytest.approx(a.mean() / b.mean())
    assert (found.low, found.high) == pytest.approx(tuple(ratio), abs=0.005)


def test_each_topic_counts_once_however_many_queries_it_has():
    labels = ["often"] * 8 + ["seldom", "rare", "rare"]
    values = np.array([100.0] * 8 + [0.0, 50.0, 0.0])
    assert mean_interval(values, by(labels)).value == pytest.approx((100 + 0 + 25) / 3)
    assert unit_means(values[:, None], labels)[:, 0].tolist() == [100, 25, 0]  # in the order of their labels
    two = mean_interval(np.array([[10.0, np.nan], [20.0, np.nan], [40.0, 80.0]]), by(["a", "a", "b"]))
    assert two.value.tolist() == [27.5, 80], "missing values are left out of their column alone"


def test_a_paired_difference_uses_the_observations_of_both_sides():
    a, b = np.array([10.0, np.nan, 30.0, 70.0]), np.array([0.0, 50.0, 25.0, np.nan])
    found = difference_interval(a, b, by(["x", "x", "y", "z"]))
    assert found.value == pytest.approx((10 + 5) / 2)
    assert (found.low, found.high) == (5, 10)


def test_of_one_unit_there_is_no_interval():
    found = mean_interval(np.array([20.0, 30.0]), by(["a", "a"]))
    assert found.value == 25
    assert np.isnan([found.low, found.high]).all()
    a, b = np.array([20.0, 30.0]), np.array([10.0, 10.0])
    assert np.isnan(ratio_interval(a, b, by(["a", "a"])).low)
    assert ratio_interval(a, b, by(["a", "b"]))[1:] == (2, 3), "of two there is"


def test_the_surest_answers_come_first_and_each_topic_weighs_the_same():
    right, sure = np.array([0.0, 100.0, 100.0, 0.0]), np.array([-9.0, -1.0, -7.0, -3.0])
    found = surest_first(right, sure, by(["a", "b", "c", "d"]))
    assert [found[name].value for name in ("auroc", "surest_10", "surest_50", "surest_100")] == [0.75, 100, 50, 50]
    assert found["any_share"].value == pytest.approx((100 + 50 + 200 / 3 + 50) / 4)
    found = surest_first(right, sure, by(["a", "b", "b", "b"]))
    assert [found[f"surest_{n}"].value for n in (20, 50, 100)] == pytest.approx([50, 200 / 3, 100 / 3])


@pytest.mark.parametrize(("value", "ends"), [(0.0, (0, 7.135)), (100.0, (92.865, 100))])
def test_none_or_all_of_n_has_wilsons_interval_over_queries(value, ends):
    found = mean_interval(np.full(50, value), by(np.arange(50) // 10))
    assert (found.low, found.high) == pytest.approx(ends, abs=1e-3)


def test_where_no_pair_differs_the_difference_has_what_so_many_pairs_can_exclude():
    """Denominators of both sides: 200 flows of which five are counted exclude far less than 200."""
    rate = np.full(200, np.nan)
    rate[:5] = [100, 0, 0, 0, 0]
    found = difference_interval(rate, rate, by(range(200)))
    assert (found.value, found.low, found.high) == pytest.approx((0, -43.448, 43.448), abs=1e-3)
    opposite = difference_interval(np.full(50, 100.0), np.zeros(50), by(range(50)))
    assert (opposite.low, opposite.high) == pytest.approx((92.865, 100), abs=1e-3)


@pytest.mark.parametrize("shift", [0.0, 9.0])
def test_the_test_is_scipys_permutation_test_of_samples(shift):
    labels, values = topics()
    other = values - shift + 12 * np.random.default_rng(3).normal(size=60)[labels]
    found = sign_flip_test(values, other, by(labels))
    a, b = unit_means(np.column_stack([values, other]), labels).T
    expected = stats.permutation_test(
        (a, b), lambda x, y, axis: (x - y).mean(axis=axis), permutation_type="samples", n_resamples=9999, rng=1
    )
    assert found == pytest.approx(expected.pvalue, abs=0.015)


def test_the_test_keeps_its_level():
    """1,000 worlds without a difference; standard error of a share 0.7%."""
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 30, 1000))
    assert (sign_flip_test(a, b, by(range(30))) <= 0.05).mean() == pytest.approx(0.05, abs=0.02)


@settings(deadline=None, derandomize=True, database=None, max_examples=100)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_holm_rejects_what_the_stepwise_procedure_rejects(p_values):
    rejected = np.zeros(len(p_values), dtype=bool)
    for step, index in enumerate(np.argsort(p_values, kind="stable")):
        if p_values[index] * (len(p_values) - step) > 0.05:
            break
        rejected[index] = True
    assert ((holm_adjust(p_values) <= 0.05) == rejected).all()


def test_wilson_by_hand_and_of_nothing():
    assert np.round(wilson_interval([0, 5, 10], 10), 4).tolist() == [[0, 0.2366, 0.7225], [0.2775, 0.7634, 1]]
    assert np.array_equal(percent(0, 0), [np.nan, 0, 100], equal_nan=True)
    with pytest.raises(ValueError, match="between"):
        wilson_interval(3, 2)
