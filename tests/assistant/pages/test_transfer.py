"""What notebook 11 shows and says of claims asked of both worlds."""

import pandas as pd
import pytest

from lib.assistant.pages import transfer as page
from lib.evaluation.transfer import COLUMNS


def row(claim, here, there, verdicts, unit="points", k="3"):
    both = (value for side, verdict in zip((here, there), verdicts, strict=True)
            for value in ("semantic", side, side - 2, side + 1, 100, verdict, "significant", 9))  # fmt: skip
    return (claim, "assistant", f"{claim} <b>holds</b>.", k, unit, "semantic", *both)


@pytest.fixture
def transfer():
    rows = [
        row("a_beats_b", 10.0, 5.0, ("reproduced", "reproduced")),
        row("c_beats_d", 10.0, -5.0, ("reproduced", "contradicted")),
        row("level", 40.0, 60.0, ("same direction", "contradicted"), "percent"),
    ]
    return pd.DataFrame(rows, columns=COLUMNS)


@pytest.fixture
def orders():
    return pd.DataFrame(
        [("context", 3, 1.0, 0.3, 1.0), ("all", 6, 0.5, 0.1, 0.9)],
        columns=["family", "pairs", "tau", "ci_low", "ci_high"],
    )


def test_directions_are_of_claims_in_points(transfer, orders):
    assert page.directions(transfer) == (1, 2)
    assert page.finding(transfer, orders) == (
        "Of 2 claims that are reproduced here (each K counts) others' data reproduce 1 and contradict 1; the rest is "
        "open there. 1 of 2 effects point the same way; order of methods: tau 0.50 [0.10, 0.90]."
    )


def test_the_claims_that_turn_are_named(transfer):
    said = page.turned_words(transfer)
    assert "c_beats_d" in said.replace("\\", "")
    assert "a_beats_b" not in said.replace("\\", "")
    assert page.turned_words(transfer.iloc[:1]) == ("No claim is reproduced on one side and contradicted on the other.")


def test_tables_and_figure(transfer, orders):
    table = page.transfer_table(transfer).frame
    assert table["here"].tolist()[0] == "10.0 [8.0, 11.0]"
    assert table["there: verdict"].tolist() == ["reproduced", "contradicted", "contradicted"]
    shown = page.order_table(orders, {"context": ["semantic", "bm25t"]}).frame
    assert shown["methods"].tolist() == ["semantic search, BM25T", ""]
    drawing = page.transfer_drawing(transfer, orders)
    assert len(drawing.figure.axes[0].get_legend().get_texts()) == 2


def test_claims_name_the_method_of_each_side(transfer):
    columns = ["here_method", "there_method", "here_tests", "there_tests"]
    rows = [("semantic", "bm25t", 10, 9), ("tst", "tst", 3, 3), ("tst", "tst", 3, 3)]
    claims = pd.concat([transfer.head(2), transfer.iloc[[1]].assign(k="5")])
    named = claims.assign(**dict(zip(columns, zip(*rows, strict=True), strict=True)))
    table = page.transfer_table(named)
    assert list(table.frame)[:3] == ["claim", "method", "K"]
    assert list(table.frame)[-1] == "tests here, there"
    assert table.frame["method"].tolist() == ["semantic search here, BM25T there", "TST"]
    assert table.frame["tests here, there"].tolist() == ["10, 9", "3, 3"]
    assert "one may differ from the index" in table.caption


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
