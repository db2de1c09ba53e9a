import pandas as pd
import pytest

from lib.workbook.artifacts import ROOT
from lib.workflows.pages.dsl_ablation_claims import (
    bounds_table,
    claims_table,
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


def test_what_the_papers_flows_could_show(published):
    shown = power_table(published)
    assert shown.frame["could be shown"].value_counts().to_dict() == {"yes": 26, "only at best": 5, "no": 2}
    hidden = shown.frame[shown.frame["could be shown"] == "no"]
    assert hidden[["table", "condition", "rate", "difference", "p at best"]].to_numpy().tolist() == [
        [3, "TST, 20 few-shots", "unparsed, %", "+0.52", "0.062"],
        [3, "TST, 20 few-shots", "made-up parameters, %", "+0.52", "0.062"],
    ]


def test_the_table_of_claims():
    verdict = {
        "statement": "it helps",
        "effect": 1.25,
        "ci_low": -1.0,
        "ci_high": 3.0,
        "p_value": 0.5,
        "published": 2.0,
    }
    frame = claims_table(pd.DataFrame([verdict | {"n": 12, "verdict": "reproduced", "reason": "because"}])).frame
    assert frame.loc[0, ["ours", "p (Holm)"]].tolist() == ["1.2 [−1.0, 3.0]", "0.500"]
