"""What notebook 02 shows of the published table."""

import matplotlib.pyplot as plt
import pandas as pd
import pytest

from lib.assistant.pages import context_forensics as page
from lib.assistant.pages.common import printed_values
from lib.workbook.artifacts import ROOT


@pytest.fixture(scope="module")
def published():
    return pd.read_csv(ROOT / "data/published/context_retrieval.csv")


@pytest.fixture(scope="module")
def percent(published):
    return printed_values(published, both_ideals=False)


@pytest.fixture(scope="module")
def names(published):
    return published.drop_duplicates("method").set_index("method")["label"]


@pytest.fixture
def bounds():
    """Two rows: BM25's values at K = 3 and 5 are impossible, that at 3 even with no-hit queries counted 0."""
    rows = [("bm25t", 3, 56.0, 20.0, 50.0, "NO"), ("bm25t", 5, 30.0, 25.0, 55.0, "NO"), ("bm25t", 10, 5, 30, 60, "yes")]
    rows += [("semantic", k, 10.0, 40.0, 70.0, "yes") for k in page.PRINTED_K]
    columns = ["row", "K", page.PUBLISHED, page.MOST, page.MOST_OR_ZERO, page.POSSIBLE]
    return pd.DataFrame(rows, columns=columns)


def test_bounds_of_the_published_rows(percent):
    two = percent[percent.index.get_level_values("method").isin(["bm25t", "lambdamart_rrf"])]
    bounds = page.ndcg_bounds(two).set_index(["row", "K"])
    assert len(bounds) == 6
    assert bounds.loc[("bm25t", 3), page.PUBLISHED] == 56.45
    assert bounds.loc[("bm25t", 3), page.MOST] < bounds.loc[("bm25t", 3), page.MOST_OR_ZERO] < 56.45
    assert bounds.loc[("bm25t", 3), page.POSSIBLE] == "NO"
    assert bounds.loc[("lambdamart_rrf", 3), page.POSSIBLE] == "yes"


def test_the_table_of_bounds_has_printed_names(bounds, names):
    table = page.bounds_table(bounds, names)
    assert table.frame["row"].iloc[[0, 3]].tolist() == ["BM25", "Semantic Search"]
    assert bounds["row"].iloc[0] == "bm25t"


def test_impossible_values_are_crossed_counted_and_named(bounds, names):
    drawing = page.bounds_drawing(bounds, names)
    assert drawing.finding == (
        "2 of the 6 published NDCG values are no standard NDCG beside the published recalls: 5.0 to 36.0 points above "
        "the largest possible"
    )
    assert drawing.alt.endswith("which are impossible: BM25 at 3, BM25 at 5.")
    axis = drawing.figure.axes[0]
    assert [len(points.get_offsets()) for points in axis.collections] == [4, 2]
    assert [text.get_text() for text in axis.texts] == ["BM25", "Semantic\nSearch"]
    plt.close(drawing.figure)


def test_no_hit_queries_explain_all_or_not(bounds, names):
    said = page.no_hit_queries(bounds, names)
    assert (
        "still too low for BM25 at K = 3 (56.0 printed, 50.0 possible). Of the three definitions only the last" in said
    )
    said = page.no_hit_queries(bounds.assign(**{page.PUBLISHED: 1.0}), names)
    assert said.endswith("still too low for no row. ")


def test_chance_is_compared_with_the_published_rows(percent, names):
    dataset = pd.DataFrame(
        {"quantity": ["mail items per persona", "note items per persona", "queries"], "published": [12.0, 20.0, 900.0]}
    )
    assert page.items_per_persona(dataset) == 32.0
    assert page.chance_of(32.0)[10] == pytest.approx(100 * 10 / 32)
    said = page.chance_in_words(32.0, percent, names, pd.Series({10: 33.84}))
    assert "Recall@10 of **31.2%** (our random row: 33.8%), above the published rows BM25 (14.9%) and Semantic" in said
    assert "(our random row: not measured)" in page.chance_in_words(32.0, percent, names, pd.Series({3: 10.0}))
    said = page.chance_in_words(1000.0, percent, names, pd.Series({10: 1.0}))
    assert said.endswith("above none of the published rows.")


def test_short_lists_are_cut_where_recall_is_the_published_one(percent):
    run = pd.DataFrame(
        [(f"q{q}", f"i{rank}", rank, 1.0 / rank - q / 1000) for q in range(20) for rank in range(1, 13)],
        columns=["query", "item", "rank", "score"],
    )
    queries = [f"q{q}" for q in range(20)]
    qrels = pd.DataFrame({"query": queries, "item": "i1"})
    lists = page.short_lists({"bm25t": run}, qrels, queries, percent)
    assert lists["K"].tolist() == [3, 5, 10]
    assert lists["recall"].tolist() == [15.0, 15.0, 15.0]  # 3 of 20, the first share of 14.92% and more
    assert lists["published recall"].tolist() == [11.35, 13.47, 14.92]
    assert lists["results a query"].iloc[0] == pytest.approx(3 / 20)
    assert lists["NDCG retrieved"].tolist() == [100.0, 100.0, 100.0]
    assert lists["NDCG retrieved, no-hit 0"].iloc[0] == pytest.approx(15.0)
    assert page.short_lists_table(lists).frame["method"].unique().tolist() == ["BM25T"]


def lists_of(change, level):
    rows = [(k, 10.0 + k, 11.0 + k, level + change * (k - 3), 50.0 - k) for k in page.PRINTED_K]
    columns = ["K", "recall", "published recall", "NDCG retrieved", page.PUBLISHED]
    return pd.DataFrame(rows, columns=columns).assign(method="bm25t")


def test_the_pattern_is_reproduced_in_direction_and_level_or_not():
    said = page.pattern_reproduced(lists_of(-1.0, 47.0))
    assert "by −7.0 points (BM25T; published −7.0): the published fall is reproduced in direction." in said
    assert "Their recall rises by 7.0 points (BM25T; published 7.0). The level is reproduced: ours lies 0.0" in said
    said = page.pattern_reproduced(lists_of(1.0, 80.0))
    assert "by +7.0 points (BM25T; published −7.0): the published fall is not reproduced in direction." in said
    assert "The level is not reproduced: ours lies +39.0 points (BM25T) from" in said


def test_statements_are_recomputed_from_the_published_tables(percent, names):
    planner = pd.DataFrame(
        [("rag", "ast_accuracy", 50.0), ("context_tuned_rag", "ast_accuracy", 55.0), ("rag", "exact_match", 50.01)],
        columns=["setting", "metric", "value"],
    )
    frame = page.statements_table(percent, planner, names).frame
    says = frame["recomputed from the published tables"]
    ratio = percent["lambdamart_rrf", "recall", 3] / percent["semantic", "recall", 3]
    assert f"LambdaMART-RRF gives {ratio:.2f} (K = 3)," in says[0]
    assert says[1] == "5.00 points; 10.0% is the relative increase"
    assert says[2].startswith("1 of the 3 percentages of Table 3 are a count over 936")


def test_the_finding_tells_what_cannot_be(bounds, percent, names):
    said = page.finding(bounds, 31.89, percent, names)
    assert "2 of the 6 NDCG values of the paper's Table 2 exceed" in said
    assert said.endswith(
        "Separately, its BM25 and Semantic Search rows lie below the Recall@10 of a random order, 31%, "
        "if the stores hold just the items of its Table 4."
    )
    assert "Separately" not in page.finding(bounds, 1000.0, percent, names)
