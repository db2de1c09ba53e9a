import pandas as pd
import pytest

from lib.workbook.artifacts import ROOT
from lib.workflows.pages.dsl_ablation_claims import bounds_table, printed_name, scale_table


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
