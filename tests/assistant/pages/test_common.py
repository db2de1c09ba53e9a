"""Helpers that the assistant's pages share."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

from lib.assistant.pages import common
from lib.evaluation.comparison import summarise
from lib.evaluation.inference import Resampling
from lib.workbook.methods import UnknownMethod, colour


@pytest.fixture
def scored():
    """Twelve queries: semantic search finds all for *meaning*, and what BM25T finds for *habit*."""
    kind = np.array(["meaning", "habit"] * 6)
    values = {
        (method, metric, k): column
        for method, column in (
            ("semantic", np.where(kind == "meaning", 100.0, 20.0)),
            ("bm25t", np.full(12, 20.0)),
        )
        for metric in ("recall", "ndcg", "ndcg_retrieved")
        for k in (3, 5)
    }
    table = pd.DataFrame(values)
    table.columns = table.columns.set_names(["method", "metric", "k"])
    return common.Scored(table, kind, [3, 5], Resampling(np.arange(12), 200, 0))


@pytest.fixture
def published():
    rows = [("semantic", "recall", 3, 18.0), ("semantic", "ndcg", 3, 60.0), ("rrf", "recall", 3, 1.0)]
    return pd.DataFrame(rows, columns=["method", "metric", "k", "value"])


def compared(*rows):
    return pd.DataFrame(rows, columns=["a", "b", "difference", "ci_low", "ci_high", "p_value"])


def test_scored_counts_and_groups_the_kinds_that_occur(scored):
    assert (scored.k, scored.n, scored.counts) == (3, 12, {"meaning": 6, "habit": 6})
    groups = scored.groups({"all": np.ones(12, dtype=bool), "first": np.arange(12) < 3})
    assert {name: int(mask.sum()) for name, mask in groups.items()} == {
        ("all", "all"): 12, ("meaning", "all"): 6, ("habit", "all"): 6,
        ("all", "first"): 3, ("meaning", "first"): 2, ("habit", "first"): 1,
    }  # fmt: skip


def test_a_page_may_name_what_the_workbook_does_not():
    assert common.named("expert", {"expert": "the expert"}) == "the expert"
    assert common.named("bm25t", {"expert": "the expert"}) == common.named("bm25t") == "BM25T"
    with pytest.raises(UnknownMethod):
        common.named("expert")


def test_published_values_stand_where_they_belong(scored, published):
    summary = summarise(scored.table, scored.groups({"all": np.ones(12, dtype=bool)}), scored.resampling)
    merged = common.with_published(summary, common.printed_values(published), summary["kind"] == "all")
    found = merged.dropna(subset="published").set_index(["method", "kind", "metric", "k"])["published"]
    assert found.to_dict() == {
        ("semantic", "all", "recall", 3): 18.0,
        ("semantic", "all", "ndcg", 3): 60.0,
        ("semantic", "all", "ndcg_retrieved", 3): 60.0,
    }
    assert list(merged.columns) == [*summary.columns, "published"]
    assert len(merged) == len(summary)
    one = common.with_published(summary, common.printed_values(published, both_ideals=False))
    assert one.dropna(subset="published").groupby(["kind", "metric"]).size().to_dict() == {
        (kind, metric): 1 for kind in ("all", "habit", "meaning") for metric in ("recall", "ndcg")
    }


def test_the_table_beside_the_published_rows(scored, published):
    summary = summarise(scored.table, {("all", "all"): np.ones(12, dtype=bool)}, scored.resampling)
    rows = common.with_published(summary, common.printed_values(published))
    table = common.beside_published_table(rows, "ndcg", "n = 12.", {"bm25t": "words"})
    assert table.frame["method"].tolist() == ["semantic search", "words"]
    assert list(table.frame.columns) == [
        "method",
        "@3, ours",
        "@3, over queries",
        "@3, paper",
        "@5, ours",
        "@5, over queries",
        "@5, paper",
    ]
    assert table.frame["@3, paper"].tolist()[0] == 60.0
    assert table.frame["@3, ours"].tolist()[1] == "20.0 [20.0, 20.0]"
    assert table.caption == "NDCG@K (standard ideal) in percent with 95% intervals, n = 12."
    assert table.best == {"@3, ours": "max", "@5, ours": "max"}
    assert table.cases == {
        f"@{k}, ours": [f"queries.html#method={method}&k={k}" for method in ("semantic", "bm25t")] for k in (3, 5)
    }
    of_sample = common.beside_published_table(rows.assign(sample="cot"), "ndcg", "")
    assert of_sample.cases["@3, ours"][0] == "queries.html#sample=cot&method=semantic&k=3"
    assert common.beside_published_table(rows, "ndcg", "", starred=False).best is None


def test_tests_as_readers_see_them():
    shown = common.shown_tests(compared(("x", "bm25t", -5.0, -9, -1, 0.001)), {"x": "X"}, "points")
    row = shown.iloc[0]
    assert (row["comparison"], row["method"], row["points"]) == ("X − BM25T", "X", "−5.0 [−9.0, −1.0]")
    assert row["p"] == "0.0010"


def test_recall_lines_dot_the_published_row_and_name_each_line(scored, published):
    summary = summarise(scored.table, {("all", "all"): np.ones(12, dtype=bool)}, scored.resampling)
    rows = common.with_published(summary[summary["metric"] == "recall"], common.printed_values(published))
    figure, axis = plt.subplots()
    common.recall_lines(axis, rows, ["bm25t", "semantic"], gap=4)
    assert {text.get_text() for text in axis.texts} == {"BM25T", "semantic search", "semantic search, published"}
    assert [line.get_linestyle() for line in axis.lines if line.get_marker() == "o"] == ["-", ":"]
    assert axis.get_xticks().tolist() == [3, 5]
    plt.close(figure)


def test_dots_by_kind_stand_side_by_side_and_count_the_queries(scored):
    summary = summarise(scored.table, scored.groups({"all": np.ones(12, dtype=bool)}), scored.resampling)
    recall = summary[(summary["metric"] == "recall") & (summary["k"] == 3)]
    cells = recall.set_index(["method", "kind"])
    assert common.values_by_kind(cells, ["semantic", "bm25t"], ["habit"], {"bm25t": "words"}) == (
        "habit: semantic search 20%, words 20%"
    )
    figure, axis = plt.subplots()
    styles = {"bm25t": {"fmt": "d", "color": "#333333"}}
    common.dots_by_kind(axis, cells, ["semantic", "bm25t"], scored.counts, 3, styles=styles, gap=0.2)
    first, second = (container.lines[0] for container in axis.containers)
    assert first.get_xdata() == pytest.approx([-0.1, 0.9])
    assert first.get_ydata() == pytest.approx([100, 20])
    assert (first.get_color(), second.get_color(), second.get_marker()) == (colour("semantic"), "#333333", "d")
    assert [tick.get_text() for tick in axis.get_xticklabels()] == ["meaning\n(n = 6)", "habit\n(n = 6)"]
    assert axis.get_ylabel() == "Recall@3, % (bars: 95% interval)"
    assert axis.get_ylim()[0] == 0
    plt.close(figure)
