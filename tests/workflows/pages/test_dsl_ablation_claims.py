import pandas as pd
import pytest

from lib.workbook.artifacts import ROOT
from lib.workflows.pages.dsl_ablation_claims import (
    bounds_table,
    claims_in_words,
    claims_table,
    consistency,
    printed_name,
    readings_table,
    scale_table,
)


@pytest.fixture(scope="module")
def published():
    return pd.read_csv(ROOT / "data" / "published" / "workflow_ablation.csv")


def test_names_of_published_rows():
    assert printed_name("finetuned", 0, "none") == "fine-tuned model"
    assert printed_name("tst", 20, "fd_sfd") == "TST, 20 few-shots, FD + SFD"
    assert printed_name("pretrained", 5, "none") == "pretrained encoder, 5 few-shots"


def test_the_published_rows_on_one_scale(published):
    scale = scale_table(published).frame.set_index("")
    assert scale.index[0] == "fine-tuned model"
    assert scale.columns.tolist() == ["similarity", "unparsed, %", "made-up names, %", "made-up parameters, %"]
    assert scale.loc["pretrained encoder, 5 few-shots"].tolist() == [0, 0, 0, 0]
    assert scale.loc["pretrained encoder, 20 few-shots"].tolist() == [0.03, -3.37, -7.34, -15.17]
    bounds = bounds_table(published).frame.set_index("")
    assert bounds.index.tolist() == scale.index.tolist()
    assert bounds.columns.tolist()[:2] == ["similarity, at most", "unparsed, %, at least"]
    assert bounds["unparsed, %, at least"].min() == 0


def test_what_the_text_says(published):
    shown = readings_table(published)
    assert shown.frame.columns.tolist() == ["statement", "where", "tables", "verdict"]


def test_where_the_published_tables_disagree(published):
    text = consistency(published)
    assert text.startswith(
        "Of 8 cells that follow from two tables 1 disagrees (made-up parameters of Table 3: +0.52 is printed, +0.59 "
        "follows). FD raises unparsed flows in 4 of 4 published pairs. SFD changes made-up parameters by −2.00 points"
    )
    assert "With 1,000 test flows 11 of the 12 differences" in text


def test_tables_that_agree(published):
    table_3 = (published["table"] == 3) & (published["metric"] == "made_up_parameters") & (published["delta"] == 0.52)
    agreeing = published.assign(delta=published["delta"].mask(table_3, 0.59))
    assert consistency(agreeing).startswith("Of 8 cells that follow from two tables 0 disagree. FD raises")


def verdicts(*names):
    return pd.DataFrame(
        {
            "statement": "it helps",
            "method": "tst",
            "k": "5",
            "effect": 1.25,
            "ci_low": -1.0,
            "ci_high": 3.0,
            "p_value": 0.5,
            "published": 2.0,
            "n": [12, 12, 0, 12][: len(names)],
            "clusters": [12, 9, 0, 12][: len(names)],
            "verdict": names,
            "reason": "because",
        }
    )


def test_the_table_of_claims():
    frame = claims_table(verdicts("reproduced", "underpowered", "underpowered")).frame
    assert frame["weakest row"].tolist() == ["TST, 5 few-shots", "TST, 5 few-shots", "–"]
    assert frame["n"].tolist() == ["12", "12 (9)", "0"]
    assert frame.loc[0, ["ours", "p (Holm)"]].tolist() == ["1.2 [−1.0, 3.0]", "0.500"]


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (
            ["underpowered", "underpowered"],
            "Of 2 claims: 2 underpowered. All are undecided: this profile tests few flows.",
        ),
        (
            ["underpowered", "underpowered", "reproduced"],
            "Of 3 claims: 2 underpowered, 1 reproduced. Most are undecided: this profile tests few flows.",
        ),
        (["underpowered", "reproduced"], "Of 2 claims: 1 underpowered, 1 reproduced. "),
        (["contradicted"], "Of 1 claims: 1 contradicted. "),
    ],
)
def test_how_many_claims_are_decided(names, said):
    assert claims_in_words(verdicts(*names)) == said
