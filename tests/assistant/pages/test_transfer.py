"""What notebook 11 shows and says of claims asked of both worlds."""

import matplotlib.pyplot as plt
import pandas as pd
import pytest

from lib.assistant.pages import transfer as page
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


def test_tables_and_figure(transfer, orders):
    table = page.transfer_table(transfer).frame
    assert table["here"].tolist()[0] == "10.0 [8.0, 11.0]"
    assert table["K"].tolist() == ["3, 5", "3, 5", "3", "3"]
    assert table["there: verdict"].tolist() == ["reproduced", "contradicted", "contradicted", "contradicted"]


def test_the_figure_has_a_row_a_claim_in_points_and_cutoff(transfer):
    drawing = page.transfer_drawing(transfer)
    (axis,) = drawing.figure.axes
    assert [text.get_text() for text in axis.get_yticklabels()] == ["K = 3", "K = 5", "K = 3", "K = 5", "K = 3"]
    named = [text.get_text() for text in axis.texts]
    assert named == [f"{name} <b>holds</b>" for name in ("a_beats_b", "c_beats_d", "e_beats_f")]
    marks = [line for line in axis.lines if line.get_marker() in "os"]
    assert [float(line.get_xdata()[0]) for line in marks[:4]] == [10.0, 9.0, 5.0, 4.0]
    assert [line.get_markerfacecolor() for line in marks[6:8]] == ["white", "#D55E00"], "open at 3, settled at 5"
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
