import pandas as pd
import pytest

from lib.workbook.artifacts import ROOT
from lib.workflows.pages.dsl_ablation_claims import (
    bounds_table,
    claims_in_words,
    claims_table,
    consistency,
    power_in_words,
    power_table,
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
    assert "11 of the 12 differences in unparsed flows are no multiples of 0.1 points" in text


def test_tables_that_agree(published):
    table_3 = (published["table"] == 3) & (published["metric"] == "made_up_parameters") & (published["delta"] == 0.52)
    agreeing = published.assign(delta=published["delta"].mask(table_3, 0.59))
    assert consistency(agreeing).startswith("Of 8 cells that follow from two tables 0 disagree. FD raises")


def test_what_the_papers_flows_could_show(published):
    shown = power_table(published)
    assert shown.frame["could be shown"].value_counts().to_dict() == {"yes": 26, "only at best": 5, "no": 2}
    hidden = shown.frame[shown.frame["could be shown"] == "no"]
    assert hidden[["table", "condition", "rate", "difference", "p at best"]].to_numpy().tolist() == [
        [3, "TST, 20 few-shots", "unparsed", "+0.52", "0.062"],
        [3, "TST, 20 few-shots", "made-up parameters", "+0.52", "0.062"],
    ]
    assert "at least 6" in shown.caption
    assert power_in_words(published) == (
        "Of 33 published differences of rates 1,000 flows could have shown **26** if failures of two rows are "
        "independent and **5** more only if the flows on which they differ lie (nearly) all on one side; **2** they "
        "could not have shown at all (unparsed +0.52 in Table 3, made-up parameters +0.52 in Table 3)."
    )


def test_differences_that_could_all_be_shown(published):
    larger = published.assign(delta=published["delta"].where(published["delta"].abs() > 0.6, published["delta"] * 2))
    assert power_in_words(larger).endswith("**0** they could not have shown at all.")


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
            "about": "method",
            "n_needed": [813.0, float("nan"), float("nan"), float("nan")][: len(names)],
            "rows": [[{"k": "5", "verdict": names[0]}, {"k": "20", "verdict": "equivalent"}], *([[{"k": "5"}]] * 3)][
                : len(names)
            ],
        }
    )


def test_the_table_of_claims():
    frame = claims_table(verdicts("reproduced", "underpowered", "underpowered")).frame
    assert frame["weakest row"].tolist() == ["TST, 5 few-shots", "TST, 5 few-shots", "–"]
    assert frame["n"].tolist() == ["12", "12 (9)", "0"]
    assert frame.loc[0, ["ours", "p (Holm)"]].tolist() == ["1.2 [−1.0, 3.0]", "0.500"]
    assert frame["by few-shots"].tolist() == ["5: reproduced\n20: equivalent", "", ""]
    assert frame["n to decide it"].tolist() == ["813", "–", "–"]


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (
            ["underpowered", "underpowered"],
            "Of 2 claims: 2 underpowered. All are open: too few flows to tell.",
        ),
        (
            ["underpowered", "underpowered", "reproduced"],
            "Of 3 claims: 2 underpowered, 1 reproduced. Most are open: too few flows to tell.",
        ),
        (["undecided", "reproduced"], "Of 2 claims: 1 undecided, 1 reproduced."),
        (["contradicted"], "Of 1 claims: 1 contradicted."),
    ],
)
def test_how_many_claims_are_decided(names, said):
    assert claims_in_words(verdicts(*names)) == said


def test_claims_restated_over_all_flows_are_counted_apart():
    frame = verdicts("reproduced", "reproduced", "undecided").assign(about=["method", "all_flows", "all_flows"])
    assert claims_in_words(frame) == (
        "Of 1 claims: 1 reproduced. Of 2 restated over all flows: 1 reproduced, 1 undecided."
    )
