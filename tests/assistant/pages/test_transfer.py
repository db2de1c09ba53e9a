"""What notebook 11 shows and says of claims asked of both worlds."""

import matplotlib.pyplot as plt
import pandas as pd
import pytest

from lib.assistant.pages import transfer as page


def row(claim, here, there, words, unit="points", k=3):
    sides = zip(("here", "there"), (here, there), words, strict=True)
    effects = {f"{side}_{name}": value for side, effect, word in sides
               for name, value in (("effect", effect), ("ci_low", effect - 2), ("ci_high", effect + 1), ("n", 100),
                                   ("word", word))}  # fmt: skip
    return {"claim": claim, "statement": f"{claim} <b>holds</b> (as said).", "k": k, "unit": unit} | effects


@pytest.fixture
def transfer():
    """a holds in both worlds at 3 and at 5; c turns at 5; e is reversed there alone."""
    rows = [
        row("a_beats_b", 10.0, 5.0, ("holds", "holds")),
        row("a_beats_b", 9.0, 4.0, ("holds", "holds"), k=5),
        row("c_beats_d", 10.0, 1.0, ("holds", "no clear difference")),
        row("c_beats_d", 10.0, -5.0, ("holds", "reversed"), k=5),
        row("e_beats_f", -1.0, -8.0, ("no clear difference", "reversed")),
        row("times", 1.5, 1.2, ("holds", "holds"), "fold"),
    ]
    return pd.DataFrame(rows)


def test_a_row_a_claim_and_cutoff(transfer):
    table = page.transfer_table(transfer).frame
    assert table["here"].tolist()[::5] == ["10.0 [8.0, 11.0]", "1.50 [−0.50, 2.50]"]
    assert table["K"].tolist() == [3, 5, 3, 5, 3, 3]
    assert table["there: word"].tolist()[2:5] == ["no clear difference", "reversed", "reversed"]
    assert table["n here, there"].eq("100, 100").all()


def test_the_figure_has_a_row_a_claim_in_points_and_cutoff(transfer):
    drawing = page.transfer_drawing(transfer)
    (axis,) = drawing.figure.axes
    assert [text.get_text() for text in axis.get_yticklabels()] == ["K = 3", "K = 5", "K = 3", "K = 5", "K = 3"]
    named = [text.get_text() for text in axis.texts]
    assert named == [f"{name} <b>holds</b>" for name in ("a_beats_b", "c_beats_d", "e_beats_f")]
    marks = [line for line in axis.lines if line.get_marker() in "os"]
    assert [float(line.get_xdata()[0]) for line in marks[:4]] == [10.0, 9.0, 5.0, 4.0]
    assert [line.get_markerfacecolor() for line in marks[6:8]] == ["white", "#D55E00"], "not clear at 3, clear at 5"
    plt.close("all")


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
