"""Tables of several methods on the same queries."""

import math

import numpy as np
import pandas as pd
import pytest

from lib.evaluation.comparison import (
    compare,
    means,
    per_query_scores,
    random_order_scores,
    rate_differences,
    rates,
    summarise,
)
from lib.evaluation.inference import Resampling, wilson_interval

QUERIES = ["q1", "q2", "q3", "q4"]
SECOND = 100 / math.log2(3)  # NDCG of one relevant item on rank 2
NEEDS = ["p", "p", "r", "r"]


def ranking(**results) -> pd.DataFrame:
    rows = [(query, item, rank) for query, items in results.items() for rank, item in enumerate(items, start=1)]
    return pd.DataFrame(rows, columns=["query", "item", "rank"])


@pytest.fixture(scope="module")
def scores():
    qrels = pd.DataFrame({"query": ["q1", "q1", "q2", "q3", "q4"], "item": list("abcde")})
    runs = {
        "one": ranking(q1=["a", "b", "x"], q2=["y", "c"], q3=["x", "y", "d"]),
        "two": ranking(q1=["x", "a"], q2=["c"], q3=["d"], q4=["x", "e"]),
    }
    return per_query_scores(runs, qrels, QUERIES, (1, 2))


def test_scores_by_hand(scores):
    ideal = 1 + 1 / math.log2(3)
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


def over(labels, samples: int = 300, seed: int = 1) -> Resampling:
    return Resampling(labels, samples, seed)


def by_method(**columns):
    table = pd.DataFrame({(name, "recall", 1): values for name, values in columns.items()})
    return table.rename_axis(columns=["method", "metric", "k"])


def test_a_value_is_over_topics_and_the_mean_over_queries_stands_beside():
    table = by_method(a=[90.0, 90.0, 90.0, 30.0])
    first = np.arange(4) < 2
    groups = {("all", "all"): first | ~first, ("kind", "first"): first, ("no", "one"): first & ~first}
    found = summarise(table, groups, over(["often"] * 3 + ["once"])).set_index("kind")
    assert list(found.index) == ["all", "kind"], "the empty group is left out"
    columns = ["value", "over_queries", "n_topics", "n", "ci_low", "ci_high"]
    assert found.loc["all", columns].tolist() == [60, 75, 2, 4, 30, 90]
    assert found.loc["kind", ["value", "n_topics", "n"]].tolist() == [90, 1, 2]


def test_comparison(scores):
    pairs = [("two", "one"), ("one", "two"), ("one", "one")]
    table = compare(scores, pairs, "recall", 2, over(QUERIES))
    assert table["difference"].tolist() == pytest.approx([37.5, -37.5, 0])
    assert table["ci_low"][0] == -table["ci_high"][1] < 37.5 < table["ci_high"][0]
    assert table["ci_high"][2] == -table["ci_low"][2] == pytest.approx(100 * wilson_interval(0, 4)[1])
    assert table["p_value"].tolist() == [pytest.approx(0.5, abs=0.02)] * 2 + [1]  # half of the sums reach 150


def test_queries_that_one_side_lacks_count_for_neither():
    table = by_method(a=[100.0] * 6 + [0.0] + [np.nan] * 5, b=[0.0] * 7 + [100.0] * 5)
    row = compare(table, [("a", "b")], "recall", 1, over(np.arange(12))).iloc[0]
    assert row["difference"] == row["over_queries"] == pytest.approx(600 / 7)
    assert (row["n_topics"], row["n"]) == (7, 7)
    assert row["p_value"] == pytest.approx(2 / 64, abs=0.005)


def test_the_random_floor_is_an_expectation():
    """Recall of a random order is k/n whatever is relevant; NDCG of one relevant item averages its discounts."""
    scores = random_order_scores([10, 4, 40], [1, 2, 5], [3, 5], draws=4000, seed=1)
    assert list(scores.columns.names) == ["method", "metric", "k"]
    assert scores["random", "recall", 3].tolist() == pytest.approx([30, 75, 7.5], abs=2.5)
    assert scores["random", "recall", 5].tolist() == pytest.approx([50, 100, 12.5], abs=2.5)
    expected = 100 * (1 / np.log2([2, 3, 4])).sum() / 10
    assert scores["random", "ndcg", 3][0] == pytest.approx(expected, abs=2.5)
    assert scores["random", "ndcg_retrieved", 3].between(50, 100).all()


# ---------------------------------------------------------------- rates


def outcomes(condition: str, numerators, denominators=None) -> pd.DataFrame:
    units = [f"u{i:03}" for i in range(len(numerators))]
    counted = np.ones(len(numerators)) if denominators is None else denominators
    columns = {"condition": condition, "unit": units, "metric": "m", "numerator": numerators, "denominator": counted}
    return pd.DataFrame(columns)


def delta(a, b, percent=("m",)) -> pd.Series:
    """The difference of two conditions; a and b are numerators and denominators."""
    return rate_differences(pd.concat([outcomes("a", *a), outcomes("b", *b)]), [("a", "b")], percent, 500, 1).iloc[0]


def test_a_rate_counts_what_its_denominator_counts():
    row = rates(outcomes("a", [1, 0, 0, 0], [1, 1, 0, 0]), {"m"}, 500, 0).iloc[0]
    assert row[["value", "n", "counted"]].tolist() == [50, 4, 2]


def test_where_nothing_happens_the_interval_is_wilsons():
    row = rates(outcomes("a", [0] * 30, [1] * 20 + [0] * 10), {"m"}, 500, 0).iloc[0]
    assert (row["ci_low"], row["ci_high"]) == pytest.approx([100 * float(x) for x in wilson_interval(0, 20)])
    nothing = rates(outcomes("a", [0, 0], [0, 0]), {"m"}, 200, 0).iloc[0]
    assert np.isnan(nothing[["value", "ci_low", "ci_high"]].astype(float)).all()


def test_a_difference_is_that_of_the_units_that_count_on_both_sides():
    rng = np.random.default_rng(5)
    a, b = rng.random((2, 40))
    under = (np.arange(40) % 5 > 0).astype(float), (np.arange(40) % 7 > 0).astype(float)
    both = (under[0] > 0) & (under[1] > 0)
    row = delta((a * under[0], under[0]), (b * under[1], under[1]))
    assert row["delta"] == pytest.approx(100 * (a[both] - b[both]).mean())
    assert row["counted_both"] == both.sum()
    shared = delta(([1, 1, 0, 0],), ([0, 1],))
    assert shared[["delta", "n"]].tolist() == [50, 2], "of the units that both have"
    assert delta(([1, 1, 0, 0],), ([0, 1],), ())["delta"] == 0.5, "of what is no percentage"


def test_means_are_over_units_within_each_group():
    scores = pd.DataFrame(
        [("b", "p", 100.0), ("b", "p", 0.0), ("b", "r", 100.0), ("a", "p", np.nan), ("a", "r", 40.0), ("a", "s", 20.0)],
        columns=["method", "unit", "value"],
    )
    found = means(scores.assign(k=3), ["method", "k"], "unit", 200, 1)
    assert found[["method", "k", "value", "n"]].to_numpy().tolist() == [["b", 3, 75.0, 3], ["a", 3, 30.0, 2]]
    assert (found["ci_low"] <= found["value"]).all()
    assert (found["value"] <= found["ci_high"]).all()
