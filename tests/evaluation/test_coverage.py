"""Two-way intervals cover 95%, where needs matter little and where they decide; the simulation is what it says."""

import numpy as np
import pytest

from lib.evaluation.coverage import (
    MILD,
    SETTINGS,
    STRONG,
    Setting,
    coverage,
    coverage_table,
    crossed_labels,
    draw_answers,
    latent_shares,
)


@pytest.fixture(scope="module")
def clusters():
    """About as many personas, needs and queries as the evaluation has."""
    return crossed_labels(150, 80, 936, np.random.default_rng(3))


@pytest.fixture(scope="module")
def unequal():
    """As unequal as the needs of the evaluation: two have 15% of the queries, most have a handful."""
    rng = np.random.default_rng(4)
    weight = 1 / np.arange(1, 120) ** 0.4
    weight[:2] = 0.08 * weight.sum()
    needs = np.concatenate([np.arange(119), rng.choice(119, 817, p=weight / weight.sum())])
    return crossed_labels(140, 80, 936, rng)[0], needs


@pytest.mark.parametrize("setting", MILD, ids=str)
def test_two_way_intervals_cover_and_the_crossed_bootstrap_is_too_wide(setting, clusters):
    """2,000 worlds: a coverage's standard error is half a point."""
    found = coverage(setting, clusters, replicates=2000, samples=200, seed=5)
    assert 93 <= found["two_way"] <= 97
    assert found["crossed"] > found["two_way"] + 1
    assert 1.1 < found["crossed_width"] / found["two_way_width"] < 1.7
    assert found["strict"] < 0.6, "0.25% expected, with a standard error of 0.11"


@pytest.mark.parametrize("setting", STRONG, ids=str)
def test_two_way_intervals_cover_where_few_needs_decide(setting, unequal):
    found = coverage(setting, unequal, replicates=4000, samples=2, seed=5)
    assert 93 <= found["two_way"] <= 97
    assert found["personas"] < 80, "a test over personas alone would call a fifth of nothing significant"
    assert found["strict"] < 1


def test_an_interval_that_ignores_needs_does_not_cover(clusters):
    """What the test above would find if V were that of personas alone."""
    personas, _ = clusters
    answers = draw_answers(Setting((40.0,), 0.1, 0.3), clusters, 500, np.random.default_rng(1))[0]
    means = np.array([np.bincount(personas, column) for column in (answers - answers.mean(axis=0)).T]) / 936
    half = 1.96 * np.sqrt((means**2).sum(axis=1))
    assert (np.abs(answers.mean(axis=0) - 40) <= half).mean() < 0.85


def test_labels_are_crossed_and_of_unequal_size(clusters):
    personas, needs = clusters
    assert (len(personas), len(set(personas)), len(set(needs))) == (936, 150, 80)
    sizes = np.bincount(needs)
    assert sizes.min() >= 1
    assert sizes.max() > 2 * sizes.min()
    assert len(set(zip(personas, needs, strict=True))) > 850  # few ask twice about one need


def test_answers_have_the_stated_rates_and_likeness(clusters):
    setting = Setting((40.0, 15.0), persona=0.1, need=0.3, likeness=0.8)
    a, b = draw_answers(setting, clusters, 1000, np.random.default_rng(0))
    assert set(np.unique(a)) == {0.0, 100.0}
    assert setting.truth == 25
    assert (a.mean(), b.mean()) == pytest.approx((40, 15), abs=0.5)
    assert np.corrcoef(a.ravel(), b.ravel())[0, 1] > 0.4
    alike = {name: [] for name in ("need", "persona", "neither")}
    rng = np.random.default_rng(1)
    centred = a - 40
    for i, j in rng.integers(0, 936, (20000, 2)):
        same = [labels[i] == labels[j] for labels in clusters]
        if i != j and not all(same):
            alike["persona" if same[0] else "need" if same[1] else "neither"].append((i, j))
    together = {
        name: np.mean([(centred[i] * centred[j]).mean() for i, j in pairs[:100]]) for name, pairs in alike.items()
    }
    assert together["need"] > together["persona"] > together["neither"] + 50
    assert together["neither"] == pytest.approx(0, abs=30)


@pytest.mark.parametrize(("persona", "need"), [(0.0, 0.1), (0.1, 0.3), (0.03, 0.9)])
def test_shares_are_found_again(persona, need, clusters):
    answers = draw_answers(Setting((40.0,), persona, need), clusters, 60, np.random.default_rng(2))[0]
    found = np.median([latent_shares(column, clusters) for column in answers.T], axis=0)
    assert found == pytest.approx((persona, need), abs=0.05)


def test_shares_of_nothing_and_of_all():
    needs = np.repeat(np.arange(40), 5)
    personas = np.tile(np.arange(5), 40)
    decided = 100.0 * (np.arange(40) % 2)[needs]
    assert latent_shares(decided, [personas, needs]) == (0, 1)
    assert latent_shares(decided, [needs, personas]) == (1, 0)


def test_a_ratio_is_held_against_the_ratio(clusters):
    setting = Setting((40.0, 20.0), 0.0, 0.1, ratio=True)
    found = coverage(setting, clusters, 300, 50, seed=2)
    assert found["truth"] == 2
    assert found["two_way"] > 90
    assert 0.2 < found["two_way_width"] < 1.5


def test_the_table_has_a_row_a_setting_and_sample():
    clusters = crossed_labels(12, 8, 40, np.random.default_rng(0))
    samples = {"all": clusters, "half": [labels[::2] for labels in clusters]}
    table = coverage_table(samples, 200, 50, seed=1)
    assert table["rates"].tolist() == [setting.rates for setting in SETTINGS] * 2
    assert table["truth"].tolist() == pytest.approx([10, 40, 40, 25, 5, 50, 84, 18, 35, 70 / 50, 49 / 36] * 2)
    assert table["n"].tolist() == [40] * 11 + [20] * 11
    assert table["sample"].iloc[[0, -1]].tolist() == ["all", "half"]
    assert table[["two_way", "crossed"]].stack().between(50, 100).all()
    again = coverage_table(samples, 200, 50, seed=1)
    assert again.equals(table)
