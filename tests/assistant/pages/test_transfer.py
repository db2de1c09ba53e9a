"""What notebook 11 shows and says of claims asked of both worlds."""

import matplotlib.pyplot as plt
import pandas as pd
import pytest

from lib.assistant.pages import transfer as page
from lib.assistant.workbench import WorkBench
from lib.evaluation.transfer import COLUMNS


def row(claim, here, there, verdicts, unit="points", k="3", overall=None):
    both = (value for side, verdict, whole in zip((here, there), verdicts, overall or verdicts, strict=True)
            for value in ("semantic", side, side - 2, side + 1, 100, verdict, "significant", whole, 9))  # fmt: skip
    return (claim, "assistant", f"{claim} <b>holds</b> (as said).", k, unit, "semantic", *both)


@pytest.fixture
def transfer():
    """a holds in both worlds at 3 and at 5; c turns at 5 and so as a whole; e and f are contradicted there alone."""
    open_there = ("reproduced", "underpowered")
    rows = [
        row("a_beats_b", 10.0, 5.0, ("reproduced", "reproduced")),
        row("a_beats_b", 9.0, 4.0, ("reproduced", "reproduced"), k="5"),
        row("c_beats_d", 10.0, 2.0, open_there, overall=("reproduced", "contradicted")),
        row("c_beats_d", 10.0, -5.0, ("reproduced", "contradicted"), k="5"),
        row("e_beats_f", -1.0, -8.0, ("underpowered", "contradicted")),
        row("level", 40.0, 60.0, ("same direction", "contradicted"), "percent"),
    ]
    return pd.DataFrame(rows, columns=COLUMNS)


@pytest.fixture
def orders():
    return pd.DataFrame(
        [("context", 3, 1.0, 0.3, 1.0), ("shots", 1, -1.0, -1.0, -1.0), ("all", 4, 0.5, 0.1, 0.9)],
        columns=["family", "pairs", "tau", "ci_low", "ci_high"],
    )


def test_a_claim_counts_once_whatever_its_cutoffs(transfer):
    assert page.held_words(transfer) == (
        "Of 2 claims that are reproduced here, others' data reproduce 1 and contradict 1; 0 stay open there."
    )


def test_directions_are_of_claims_in_points_at_all_their_cutoffs(transfer):
    assert page.directions(transfer) == (2, 1, 3)
    assert page.directions_words(transfer) == (
        "2 of 3 claims in points have effects of the same sign here and there at every K, 1 of them below zero on both "
        "sides, against the claim."
    )
    assert "below zero" not in page.directions_words(transfer.head(4))


def test_the_finding_names_what_others_data_contradict_and_the_order_without_floors(transfer, orders):
    said = page.finding(transfer, orders).replace("\\", "")
    assert said.startswith(page.held_words(transfer))
    assert "“e_beats_f <b>holds</b>” at K = 3 (−8.0 [−10.0, −7.0] points there; −1.0 [−3.0, 0.0] points here)" in said
    assert "60.0 [58.0, 61.0]% there" in said
    assert said.endswith("Order of methods, without floors and oracles: Kendall's tau 0.50 [0.10, 0.90] over 4 pairs.")
    assert "tau" not in page.finding(transfer, orders.head(0))
    assert page.finding(transfer, orders.iloc[:2]).endswith("Kendall's tau −1.00 over 1 pair.")


def test_the_claims_that_turn_are_named_at_the_cutoff_where_they_do(transfer):
    turned, contradicted = page.turned_words(transfer).replace("\\", "").split(" Contradicted there")
    assert "“c_beats_d <b>holds</b>” at K = 5" in turned
    assert "a_beats_b" not in turned
    assert "e_beats_f" in contradicted
    assert "c_beats_d" not in contradicted
    assert page.turned_words(transfer.iloc[:2]) == "No claim is reproduced on one side and contradicted on the other."


def test_tables_and_figure(transfer, orders):
    table = page.transfer_table(transfer).frame
    assert table["here"].tolist()[0] == "10.0 [8.0, 11.0]"
    assert table["K"].tolist() == ["3, 5", "3, 5", "3", "3"]
    assert table["there: verdict"].tolist() == ["reproduced", "contradicted", "contradicted", "contradicted"]
    shown = page.order_table(orders, {"context": ["semantic", "bm25t"]})
    assert shown.frame["methods"].tolist() == ["semantic search, BM25T", "", ""]
    assert shown.frame["Kendall's tau"].tolist() == ["1.00 [0.30, 1.00]", "−1.00", "0.50 [0.10, 0.90]"]
    assert "without floors and oracles" in shown.caption


def test_the_figure_has_a_row_a_claim_in_points_and_cutoff(transfer):
    drawing = page.transfer_drawing(transfer)
    (axis,) = drawing.figure.axes
    assert [text.get_text() for text in axis.get_yticklabels()] == ["K = 3", "K = 5", "K = 3", "K = 5", "K = 3"]
    named = [text.get_text() for text in axis.texts]
    assert named == [f"{name} <b>holds</b>" for name in ("a_beats_b", "c_beats_d", "e_beats_f")]
    marks = [line for line in axis.lines if line.get_marker() in "os"]
    assert [float(line.get_xdata()[0]) for line in marks[:4]] == [10.0, 9.0, 5.0, 4.0]
    assert [line.get_markerfacecolor() for line in marks[6:8]] == ["white", "#D55E00"], "open at 3, settled at 5"
    assert drawing.finding == page.held_words(transfer).rstrip(".")
    plt.close("all")


def test_claims_name_the_method_of_each_side(transfer):
    columns = ["here_method", "there_method", "here_tests", "there_tests"]
    rows = [("semantic", "bm25t", 10, 9), ("semantic", "bm25t", 10, 9), ("tst", "tst", 3, 3), ("tst", "tst", 3, 3)]
    named = transfer.head(4).assign(**dict(zip(columns, zip(*rows, strict=True), strict=True)))
    table = page.transfer_table(named)
    assert list(table.frame)[:3] == ["claim", "method", "K"]
    assert list(table.frame)[-1] == "claims here, there"
    assert table.frame["method"].tolist() == ["semantic search here, BM25T there", "TST"]
    assert table.frame["claims here, there"].tolist() == ["10, 9", "3, 3"]
    assert "the index judges against published effects, so its verdict may differ" in table.caption


def test_tools_that_the_data_do_not_name_are_counted():
    queries = pd.DataFrame({"query": ["q1", "q2"], "template": "t", "n_calls": [1, 0]})
    relevant, tools = pd.DataFrame({"query": ["q1"], "item": ["i"]}), pd.DataFrame({"item": ["a.b", "a.c", "a.d"]})
    bench = WorkBench(pd.DataFrame({"item": ["i"]}), queries, relevant, tools, pd.DataFrame())
    said = page.workbench_words(bench, pd.DataFrame({"query": ["q1"]}))
    assert "Only the 3 of WorkBench's 26 tools that some answer calls are searched" in said
    assert "The planner's retrieved tools are 3 of these 3." in said


def test_scores_in_a_table():
    scores = pd.DataFrame(
        [
            (f"t{i % 5}", method, "recall", k, 100.0 * (i % 2))
            for i in range(20)
            for method in ("bm25t", "semantic")
            for k in (3, 5)
        ],
        columns=["template", "method", "metric", "k", "value"],
    )
    table = page.scores_table(scores, "Recall", "template", ["method"])
    assert table.frame["method"].tolist() == ["BM25T", "semantic search"]
    assert table.frame["recall@3, %"].str.startswith("50.0 [").all()
    assert "over templates" in table.caption
