"""What notebook 02 shows of its own rankings."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

from lib.assistant.pages import context_baselines as page
from lib.assistant.pages.common import Scored
from lib.evaluation.comparison import summarise
from lib.evaluation.inference import Resampling

METHODS = ["random", "recency", "bm25t", "bm25t_per_store", "semantic"]
KIND = np.array(["meaning", "habit"] * 4)


@pytest.fixture
def scored():
    """Eight queries: semantic search finds 80% for *meaning* and 20% for *habit*, BM25T 30%, a random order 10%."""
    recall = {"random": 10.0, "recency": 5.0, "bm25t": 30.0, "bm25t_per_store": 30.0}
    columns = {
        (method, metric, k): np.full(8, recall[method]) if method in recall else np.where(KIND == "meaning", 80.0, 20.0)
        for method in METHODS
        for metric in ("recall", "ndcg", "ndcg_retrieved")
        for k in (3, 10)
    }
    table = pd.DataFrame(columns)
    table.loc[0, [("semantic", "ndcg_retrieved", 3)]] = np.nan
    table.columns = table.columns.set_names(["method", "metric", "k"])
    return Scored(table, KIND, [3, 10], Resampling([np.arange(8)], 200, 0))


@pytest.fixture
def retrieval(scored):
    samples = {"all": np.ones(8, dtype=bool), "unseen_needs": np.arange(8) < 2}
    summary = summarise(scored.table, scored.groups(samples), scored.resampling)
    published = {("semantic", 3): 23.74, ("bm25t", 3): 11.35}
    recall = (summary["metric"] == "recall") & (summary["kind"] == "all") & (summary["sample"] == "all")
    values = [published.get(pair, np.nan) for pair in zip(summary["method"], summary["k"], strict=True)]
    return summary.assign(published=np.where(recall, values, np.nan))


def chance_tests(*rows):
    return pd.DataFrame(rows, columns=["kind", "a", "b", "difference", "ci_low", "ci_high", "p_value", "p_holm"])


def test_what_is_searched_counts():
    queries = pd.DataFrame({"persona": ["p", "p", "q"]})
    assert page.what_is_searched(queries, pd.Series([1000, 1000, 40])) == (
        "3 evaluation queries of 2 personas, each against the 680.0 items its persona holds on average (40 to 1000): "
        "2,040 candidate pairs."
    )


def test_one_shuffle_gives_way_to_the_expectation(scored):
    floor = scored.table[["random"]].reset_index(drop=True) * 0 + 7
    table = page.with_expected_random(scored.table.rename(index=lambda row: f"q{row}"), floor)
    assert table.columns.equals(scored.table.columns)
    assert (table["random"] == 7).all(axis=None)
    assert table.index[0] == "q0"


def test_the_better_of_the_two_is_the_one_that_finds_more(retrieval):
    cells = page.cells_of(retrieval)
    assert cells.index.is_monotonic_increasing
    said = page.better_of_the_two(cells, 3, 31.04)
    assert said.startswith("The better of the two, semantic search, finds **50.0 [")
    assert said.endswith("the first 3 of 31.0; BM25T finds 30.0%, a random order 10.0% and the most recent items 5.0%.")
    worse = cells.assign(value=cells["value"].where(cells.index.get_level_values("method") != "semantic", 1.0))
    assert page.better_of_the_two(worse, 3, 31.0).startswith("The better of the two, BM25T, finds **30.0 [")


def test_recall_is_drawn_for_four_methods_and_told_in_words(retrieval):
    drawing = page.recall_drawing(retrieval, 3)
    assert drawing.finding == ("Semantic search finds 50% of the context in its first 3 results, BM25T 30%, chance 10%")
    assert "semantic search: 50% at 3, 50% at 10. Dotted: the published rows." in drawing.alt
    assert "BM25T per store" not in drawing.alt
    assert sorted(drawing.data["method"].unique()) == sorted(METHODS)
    assert len(drawing.data) == 10
    plt.close(drawing.figure)


def test_tests_are_drawn_as_differences(scored):
    drawing = page.tests_figure(scored.compare(page.FAMILY), 3, 8)
    assert drawing.data["comparison"].iloc[0] == "semantic search − BM25T"
    assert drawing.data.loc[3, ["difference", "ci_low", "ci_high"]].tolist() == pytest.approx([20, 20, 20])
    assert {"p_value", "p_holm", "settled"} <= set(drawing.data)
    assert drawing.figure.axes[0].get_xlabel() == "points of Recall@3, 95% intervals, n = 8"
    plt.close(drawing.figure)


def test_coverage_is_tabulated_and_told_in_words():
    found = pd.DataFrame(
        {
            "sample": ["all", "all", "meaning"],
            "n": [936, 936, 401],
            "rates": [(10.0,), (40.0, 15.0), (49.0, 36.0)],
            "ratio": [False, False, True],
            "persona": [0.0, 0.05, 0.0],
            "need": [0.1, 0.3, 0.87],
            "likeness": [0.5, 0.5, 0.97],
            "truth": [10.0, 25.0, 49 / 36],
            "two_way": [94.04, 96.0, 95.0],
            "two_way_width": [5.0, 8.0, 0.49],
            "crossed": [99.9, 98.0, 98.5],
            "crossed_width": [7.0, 12.8, 0.735],
            "personas": [90.0, 70.0, 40.0],
            "personas_width": [4.0, 5.0, 0.2],
            "strict": [0.2, 0.4, 0.3],
            "replicates": [1000, 1000, 1000],
        }
    )
    table = page.coverage_table(found)
    assert table.frame["queries"].tolist() == ["all (936)", "all (936)", "meaning (401)"]
    truths = table.frame["true rate, difference or ratio"]
    assert truths.tolist() == ["10", "40 − 15 = 25", "49 / 36 = 1.36"]
    assert table.frame["needs, %"].tolist() == [10, 30, 87]
    assert table.frame["likeness, %"].fillna(-1).tolist() == [-1, 50, 97]
    assert table.frame["two-way covers, %"].tolist() == [94.04, 96.0, 95.0]
    assert table.frame["crossed bootstrap: width"].tolist() == pytest.approx([7.0, 12.8, 54])
    assert table.frame["p ≤ 0.0025, %"].tolist() == [0.2, 0.4, 0.3]
    assert "1,000 worlds a row, so that a coverage of 95% has a standard error of 0.7" in table.caption
    assert page.coverage_in_words(found) == (
        "Intervals that shall cover 95% cover 94.0 to 96.0% of these worlds, whether needs matter little or decide "
        "almost everything. The crossed bootstrap's, which resample personas and needs at once, cover 98.0 to 99.9% "
        "and are 1.4 to 1.6 times as wide. Intervals over personas alone, which take the needs as given, cover 40.0 to "
        "90.0%: a test that exchanges the answers of whole personas errs as often as these miss. So p-values come from "
        "the two-way intervals: they are at most 0.0025 by chance in 0.2 to 0.4% of the worlds."
    )


def test_shares_are_told_in_words():
    needs, personas = np.repeat(np.arange(40), 5), np.tile(np.arange(5), 40)
    decided = 100.0 * (np.arange(40) % 2)[needs]
    scores = pd.DataFrame({"bm25t": decided, "semantic": 100.0 * (personas % 2), "random": 3.0})
    assert page.shares_in_words(scores, [personas, needs], 3) == (
        "Which need is asked about explains of the variation in Recall@3, as a method of moments estimates it, 100% "
        "for BM25T (who asks: 0%) and 0% for semantic search (who asks: 100%). So the 40 needs decide how wide "
        "intervals are, more than n."
    )


def test_kinds_are_drawn_and_tabulated(retrieval, scored):
    rows = page.recall_by_kind(retrieval, 3)
    assert set(rows["kind"]) == {"meaning", "habit"}
    drawing = page.kinds_drawing(rows, scored)
    assert drawing.finding == (
        "Semantic search finds 80% of the context of meaning queries, 20% of the context of habit queries"
    )
    assert "habit: random order 10%, most recent first 5%, BM25T 30%, semantic search 20%" in drawing.alt
    plt.close(drawing.figure)
    table = page.kinds_table(rows, scored)
    assert list(table.frame.columns) == ["method", "meaning", "habit"]
    assert table.frame["method"].iloc[-1] == "semantic search"
    assert table.frame["meaning"].iloc[-1] == "80.0 [80.0, 80.0]"
    assert table.best == {"meaning": "max", "habit": "max"}
    assert table.cases["habit"][-1] == f"queries.html#kind=habit&method=semantic&k={scored.k}"


def test_who_beats_chance_takes_settled_gains_alone():
    tests = chance_tests(
        ("meaning", "semantic", "random", 70.0, 60, 80, 0.001, 0.01),
        ("habit", "semantic", "random", 10.0, 5, 15, 0.001, 0.01),
        ("meaning", "bm25t", "random", -20.0, -30, -10, 0.001, 0.01),
        ("habit", "bm25t", "random", 20.0, -1, 40, 0.001, 0.01),
    )
    assert page.who_beats_chance(tests) == (
        "BM25T beats chance for no kind of queries. Semantic search beats chance for meaning and habit queries."
    )
    table = page.chance_table(tests, 3)
    assert list(table.frame.columns) == ["kind", "method", "points above random", "p", "p, Holm"]
    assert table.frame["points above random"].iloc[2] == "−20.0 [−30.0, −10.0]"


@pytest.fixture
def world():
    items = pd.DataFrame(
        {"item": list("abcd"), "app": ["mail", "mail", "notes", "music"], "text": ["A", "B", "C", "D"]}
    )
    qrels = pd.DataFrame({"query": ["q1", "q1", "q2"], "item": ["a", "c", "b"]})
    run = pd.DataFrame({"query": ["q1", "q1", "q2", "q2"], "item": ["a", "d", "d", "b"], "rank": [1, 2, 1, 2]})
    provenance = pd.DataFrame({"item": list("abcd"), "source": ["need", "need", "need", "stale"]})
    return items, qrels, {"semantic": run}, provenance


def test_found_items_are_counted_by_app(world):
    items, qrels, runs, _ = world
    frame = page.apps_table(runs, qrels, items, 1).frame
    assert frame.to_dict("records") == [
        {"app": "mail", "relevant items": 2, "semantic search": 50.0},
        {"app": "notes", "relevant items": 1, "semantic search": 0.0},
    ]
    assert page.apps_table(runs, qrels, items, 2).frame["semantic search"].tolist() == [100.0, 0.0]


def test_wrong_first_results_are_told_by_what_they_were_made_for(world):
    items, qrels, runs, provenance = world
    frame = page.wrong_firsts_table(runs, qrels, items, provenance).frame.set_index("method")
    assert frame.loc["semantic search"].to_dict() == {"gone stale": 100.0}
    assert frame.loc["all items"].to_dict() == {"gone stale": 25.0}


def test_no_wrong_first_result_leaves_the_share_of_all_items(world):
    items, _, runs, provenance = world
    right = pd.DataFrame({"query": ["q1", "q2"], "item": ["a", "d"]})
    frame = page.wrong_firsts_table(runs, right, items, provenance).frame
    assert frame["method"].tolist() == ["semantic search", "all items"]
    assert frame.iloc[0, 1:].isna().all()


def test_failures_show_what_was_found_instead(world):
    items, _, runs, _ = world
    asked = pd.DataFrame(
        {
            "query": ["q1", "q2"],
            "text": ["one?", "two?"],
            "kind": ["habit", "habit"],
            "need": ["x_y", "run_late"],
            "relevant": [["a", "c"], ["b"]],
        }
    )
    table = page.failures_table(asked, runs["semantic"], pd.Series([50.0, 0.0]), items, 1, seed=0)
    assert table.frame.to_dict("records") == [
        {"kind": "habit", "need": "run late", "query": "two?", "relevant": "• B", "found instead": "• D"}
    ]
    assert page.failures_table(asked, runs["semantic"], pd.Series([50.0, 1.0]), items, 1, seed=0).frame.empty


def test_ndcg_stands_under_three_definitions(retrieval, scored):
    table = page.ndcg_table(page.cells_of(retrieval), scored)
    row = table.frame.set_index(["method", "K"]).loc[("semantic search", 3)]
    assert row["standard"].startswith("50.0 [")
    assert row["queries with a hit"] == 7
    assert row["retrieved ideal, no-hit 0"] == pytest.approx((3 * 80 + 4 * 20) / 8)
    assert len(table.frame) == 4


def test_the_finding_names_the_worst_kind_and_what_is_published(retrieval):
    cells, by_kind = page.cells_of(retrieval), page.recall_by_kind(retrieval, 3)
    chance = chance_tests(("habit", "semantic", "random", 10.0, 5, 15, 0.001, 0.01))
    said = page.finding(cells, by_kind, chance, 3)
    assert "first 3 results (published 23.7% with a larger encoder on other data), BM25T **30.0 [" in said
    assert "a random order 10.0%. Worst for habit queries (n = " in said
    assert "semantic search 20.0 [20.0, 20.0]%, settledly above a random order (" in said
    assert "; the most recently opened items " in said
    assert "%, not settledly above a random order" in page.finding(cells, by_kind, chance.assign(p_holm=0.2), 3)
    assert "published" not in page.finding(cells, page.recall_by_kind(retrieval, 10), chance, 10)
