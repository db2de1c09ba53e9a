"""Tables of several methods on the same queries."""

import itertools
import math

import numpy as np
import pandas as pd
import pytest

from lib.evaluation.comparison import (
    METRICS,
    compare,
    compare_family,
    compare_in_groups,
    compare_outcomes,
    leads,
    per_query_scores,
    random_order_scores,
    ratios,
    summarise,
)
from lib.evaluation.inference import (
    Resampling,
    bootstrap_interval,
    holm_adjust,
    randomisation_test,
    wilson_interval,
)
from lib.evaluation.intervals import mean_interval, paired_differences, two_way_differences, unseen_rate

QUERIES = ["q1", "q2", "q3", "q4"]
SECOND = 100 / math.log2(3)  # NDCG of one relevant item on rank 2
PERSONAS = ["p", "p", "r", "r"]


def ranking(**results) -> pd.DataFrame:
    rows = [(query, item, rank) for query, items in results.items() for rank, item in enumerate(items, start=1)]
    return pd.DataFrame(rows, columns=["query", "item", "rank"])


@pytest.fixture(scope="module")
def scores():
    qrels = pd.DataFrame(
        [("q1", "a"), ("q1", "b"), ("q2", "c"), ("q3", "d"), ("q4", "e")],
        columns=["query", "item"],
    )
    runs = {
        "one": ranking(q1=["a", "b", "x"], q2=["y", "c"], q3=["x", "y", "d"]),
        "two": ranking(q1=["x", "a"], q2=["c"], q3=["d"], q4=["x", "e"]),
    }
    return per_query_scores(runs, qrels, QUERIES, (1, 2))


GROUPS = {
    ("all", "all"): np.array([True, True, True, True]),
    ("kind", "first"): np.array([True, True, False, False]),
    ("kind", "none"): np.array([False, False, False, False]),
}


def test_scores_by_hand(scores):
    ideal = 1 + 1 / math.log2(3)
    assert scores.index.tolist() == QUERIES
    assert scores.columns.names == ["method", "metric", "k"]
    assert set(scores.columns) == {(m, metric, k) for m in ("one", "two") for metric in METRICS for k in (1, 2)}
    nan = float("nan")
    expected = {
        ("one", "recall", 1): [50, 0, 0, 0],
        ("one", "recall", 2): [100, 100, 0, 0],
        ("one", "ndcg", 1): [100, 0, 0, 0],
        ("one", "ndcg", 2): [100, SECOND, 0, 0],
        ("one", "ndcg_retrieved", 1): [100, nan, nan, nan],
        ("one", "ndcg_retrieved", 2): [100, SECOND, nan, nan],
        ("two", "recall", 2): [50, 100, 100, 100],
        ("two", "ndcg", 2): [SECOND / ideal, 100, 100, SECOND],
        ("two", "ndcg_retrieved", 2): [SECOND, 100, 100, SECOND],
    }
    for column, values in expected.items():
        assert scores[column].tolist() == pytest.approx(values, nan_ok=True), column


def test_summary(scores):
    table = summarise(scores, GROUPS, Resampling([PERSONAS, QUERIES], samples=200, seed=0))
    assert table.columns.tolist() == ["method", "kind", "sample", "metric", "k", "value", "ci_low", "ci_high", "n"]
    assert len(table) == 2 * scores.shape[1]  # the empty group is left out
    keyed = table.set_index(["method", "kind", "sample", "metric", "k"])
    assert keyed.index.is_unique
    assert keyed.loc[("one", "all", "all", "recall", 2), "value"] == pytest.approx(50)
    assert keyed.loc[("one", "kind", "first", "recall", 2), "value"] == pytest.approx(100)
    assert keyed.loc[("one", "all", "all", "ndcg_retrieved", 2), "value"] == pytest.approx((100 + SECOND) / 2)


def test_n_counts_the_queries_averaged_over(scores):
    table = summarise(scores, GROUPS, Resampling([PERSONAS], samples=50, seed=0))
    n = table.set_index(["method", "sample", "metric", "k"])["n"]
    assert n["one", "all", "ndcg_retrieved", 1] == 1
    assert n["one", "all", "ndcg_retrieved", 2] == 2
    assert n["two", "all", "ndcg_retrieved", 2] == 4
    assert n["one", "first", "ndcg_retrieved", 1] == 1
    assert (table.loc[(table["metric"] != "ndcg_retrieved") & (table["kind"] == "all"), "n"] == 4).all()
    assert (table.loc[(table["metric"] != "ndcg_retrieved") & (table["kind"] == "kind"), "n"] == 2).all()


def test_where_all_is_found_or_nothing_the_interval_is_no_point():
    """Four queries of three clusters: a fifth might be missed. What varies keeps its bootstrap."""
    columns = pd.MultiIndex.from_tuples(
        [(name, "recall", 1) for name in ("all", "none", "some", "half")], names=["method", "metric", "k"]
    )
    scores = pd.DataFrame(
        [[100, 0, 0, 50], [100, 0, 100, 50], [100, np.nan, 100, 50], [100, 0, 100, 50]], columns=columns
    )
    over = Resampling([["a", "a", "b", "c"]], samples=200, seed=0)
    table = summarise(scores, {("all", "all"): np.ones(4, dtype=bool)}, over).set_index("method")
    low, high = (100 * end for end in wilson_interval(3, 3))
    assert table.loc["all", ["ci_low", "ci_high"]].tolist() == pytest.approx([low, high])
    assert table.loc["none", ["ci_low", "ci_high"]].tolist() == pytest.approx([0, 100 * wilson_interval(0, 2)[1]])
    assert table.loc["some", ["ci_low", "ci_high"]].tolist() == list(mean_interval(scores["some", "recall", 1], over))
    assert table.loc["half", ["ci_low", "ci_high"]].tolist() == [50, 50], "a point where no score is at an end"


def test_intervals_are_those_of_the_group(scores):
    for (sample, chosen), clusters in itertools.product(
        (("all", GROUPS["all", "all"]), ("first", GROUPS["kind", "first"])), ([PERSONAS, QUERIES], [QUERIES])
    ):
        table = summarise(scores, GROUPS, Resampling(clusters, samples=300, seed=5)).set_index(
            ["method", "sample", "metric", "k"]
        )
        values = scores["two", "ndcg", 2][chosen].to_numpy()
        here = [np.array(labels)[chosen] for labels in clusters]
        two_way = len(clusters) == 2
        expected = mean_interval(values, Resampling(here)) if two_way else bootstrap_interval(values, here, 300, 5)
        row = table.loc[("two", sample, "ndcg", 2)]
        assert (row["ci_low"], row["ci_high"]) == pytest.approx(expected)
        assert row["ci_low"] <= row["value"] <= row["ci_high"]


def test_comparison(scores):
    pairs = [("two", "one"), ("one", "two"), ("one", "one")]
    table = compare(scores, pairs, "recall", 2, Resampling([QUERIES, PERSONAS], samples=300, seed=1))
    assert table.columns.tolist() == ["a", "b", "difference", "ci_low", "ci_high", "p_value", "p_holm"]
    assert list(zip(table["a"], table["b"], strict=True)) == pairs
    assert table["difference"].tolist() == pytest.approx([37.5, -37.5, 0])
    assert table["ci_low"].tolist()[:2] == pytest.approx([table["ci_low"][0], -table["ci_high"][0]])
    assert table["ci_high"][2] == -table["ci_low"][2] == pytest.approx(100 * unseen_rate(4))
    assert table["ci_low"][0] < 37.5 < table["ci_high"][0]
    assert table["p_value"][2] == 1
    assert table["p_value"][0] == table["p_value"][1]
    found = paired_differences(scores["two", "recall", 2], scores["one", "recall", 2], [QUERIES, PERSONAS])
    assert table["p_value"][0] == found.p_values()[0] > 0.05
    alone = compare(scores, pairs, "recall", 2, Resampling([QUERIES], samples=300, seed=1))
    assert alone["p_value"][0] == pytest.approx(0.5, abs=0.02)  # −50, 0, 100, 100: half of the sums reach 150
    assert table["p_holm"].tolist() == pytest.approx(holm_adjust(table["p_value"]).tolist())


def test_the_lead_of_the_best_over_the_second(scores):
    scores = scores.join(pd.concat({"none": 0 * scores["one"]}, axis=1, names=["method", "metric", "k"]))
    table = leads(
        scores, ["none", "one", "two"], "recall", [1, 2], Resampling([QUERIES, PERSONAS], samples=300, seed=1)
    )
    assert table["k"].tolist() == [1, 2]
    for row in table.itertuples():
        means = {method: scores[method, "recall", row.k].mean() for method in ("none", "one", "two")}
        assert [row.best, row.second] == sorted(means, key=means.get, reverse=True)[:2]
        test = compare(
            scores, [(row.best, row.second)], "recall", row.k, Resampling([QUERIES, PERSONAS], samples=300, seed=1)
        )
        assert [row.difference, row.ci_low, row.ci_high] == test.loc[0, ["difference", "ci_low", "ci_high"]].tolist()


def test_with_one_clustering_the_comparison_flips_whole_clusters(scores):
    for clusters in (PERSONAS, QUERIES):
        table = compare(scores, [("two", "one")], "recall", 2, Resampling([clusters], samples=50, seed=1))
        expected = randomisation_test(scores["two", "recall", 2], scores["one", "recall", 2], clusters, seed=1)
        assert table["p_value"].tolist() == [expected]


def test_comparison_of_scores_that_some_queries_lack(scores):
    row = compare(scores, [("two", "one")], "ndcg_retrieved", 2, Resampling([QUERIES], samples=300, seed=1)).iloc[0]
    assert row["ci_low"] <= row["difference"] <= row["ci_high"]
    assert row["p_value"] > 0.05


def test_outcomes_that_some_queries_lack_are_no_wrong_ones():
    a = [100.0] * 6 + [0.0] + [np.nan] * 5
    table = pd.DataFrame({("a", "right", 1): a, ("b", "right", 1): [0.0] * 7 + [100.0] * 5})
    row = compare_outcomes(table, [("a", "b")], "right", 1, Resampling([list(range(12))], 10, 0)).iloc[0]
    assert row["p_value"] == pytest.approx(2 / 64)
    assert row["difference"] == pytest.approx(600 / 7)
    crossed = [list(range(12)), [number % 4 for number in range(12)]]
    row = compare_outcomes(table, [("a", "b")], "right", 1, Resampling(crossed)).iloc[0]
    shown = two_way_differences(table["a", "right", 1][:7], table["b", "right", 1][:7], [one[:7] for one in crossed])
    assert row["p_value"] == pytest.approx(shown.p_values()[0])


def test_the_random_floor_is_an_expectation():
    """Recall of a random order is k/n whatever is relevant; NDCG of one relevant item averages its discounts."""
    scores = random_order_scores([10, 4, 40], [1, 2, 5], [3, 5], draws=4000, seed=1)
    assert list(scores.columns.names) == ["method", "metric", "k"]
    assert scores["random", "recall", 3].tolist() == pytest.approx([30, 75, 7.5], abs=2.5)
    assert scores["random", "recall", 5].tolist() == pytest.approx([50, 100, 12.5], abs=2.5)
    expected = 100 * (1 / np.log2([2, 3, 4])).sum() / 10
    assert scores["random", "ndcg", 3][0] == pytest.approx(expected, abs=2.5)
    assert scores["random", "ndcg_retrieved", 3].between(50, 100).all()
    again = random_order_scores([10, 4, 40], [1, 2, 5], [3, 5], draws=4000, seed=1)
    pd.testing.assert_frame_equal(scores, again)


def by_method(**columns):
    table = pd.DataFrame({(name, "recall", 1): values for name, values in columns.items()})
    return table.rename_axis(columns=["method", "metric", "k"])


def test_a_ratio_of_means_with_its_interval():
    rng = np.random.default_rng(0)
    under = rng.uniform(20, 60, 200)
    scores = by_method(a=1.5 * under, b=under, c=rng.uniform(20, 60, 200))
    clusters = [np.arange(200) % 40, np.arange(200) % 25]
    exact = ratios(scores, "a", "b", "recall", [1], Resampling(clusters, 200, 0)).iloc[0]
    missed = 100 * unseen_rate(200) / under.mean()  # nothing varies; 200 queries may all have missed something
    np.testing.assert_allclose(exact[["ratio", "ci_low", "ci_high"]].astype(float), [1.5, 1.5 - missed, 1.5 + missed])
    loose = ratios(scores, "c", "b", "recall", [1], Resampling(clusters, 200, 0)).iloc[0]
    assert loose["ci_low"] < loose["ratio"] < loose["ci_high"]


def test_no_ratio_where_nothing_is_found():
    table = ratios(by_method(a=[1.0, 2.0], b=[0.0, 0.0]), "a", "b", "recall", [1], Resampling([[0, 1]], 100, 0))
    assert table[["ratio", "ci_low", "ci_high"]].isna().all(axis=None)


def test_cutoffs_are_one_family(scores):
    resampling = Resampling([QUERIES], 100, 1)
    tests = compare_family(scores, [("one", "two")], ["recall"], [1, 2], resampling)
    each = [compare(scores, [("one", "two")], "recall", k, resampling).iloc[0] for k in (1, 2)]
    assert tests["k"].tolist() == [1, 2]
    assert tests["difference"].tolist() == [row["difference"] for row in each]
    assert tests["p_holm"].tolist() == holm_adjust([row["p_value"] for row in each]).tolist()


def test_groups_are_one_family():
    rng = np.random.default_rng(1)
    scores = by_method(a=np.r_[rng.normal(10, 1, 60), rng.normal(0, 1, 60)], b=np.zeros(120))
    first = np.arange(120) < 60
    groups = {"gains": first, "nothing": ~first, "nobody": np.zeros(120, dtype=bool)}
    table = compare_in_groups(scores, "a", "b", groups, "recall", 1, Resampling([np.arange(120) % 30], 200, 0))
    assert table["group"].tolist() == ["gains", "nothing"]
    assert table["n"].tolist() == [60, 60]
    np.testing.assert_allclose(table["difference"], table["a"] - table["b"])
    assert table["ci_low"][0] > 9
    assert table["p_holm"][0] == pytest.approx(2 * table["p_value"][0])
    assert table["p_holm"][1] > 0.05


def test_metrics_and_cutoffs_are_one_family(scores):
    resampling = Resampling([PERSONAS], 100, 0)
    table = compare_family(scores, [("one", "two")], ["recall", "ndcg"], [1, 2], resampling)
    assert table[["metric", "k"]].to_numpy().tolist() == [["recall", 1], ["ndcg", 1], ["recall", 2], ["ndcg", 2]]
    alone = compare(scores, [("one", "two")], "ndcg", 2, resampling).iloc[0]
    assert table.loc[3, "difference"] == alone["difference"]
    np.testing.assert_allclose(table["p_holm"], holm_adjust(table["p_value"]))
