import pandas as pd
import pytest

from lib.workbook.artifacts import ROOT
from lib.workflows.catalogue import Catalogue
from lib.workflows.pages.dsl_ablation_errors import (
    counted_errors,
    kinds_table,
    typical_flow,
)
from tests.workflows.pages.studies import FIVE, FIVE_TST, study_of

MAIL = 'shared_gmail.SendEmailV2({"emailMessage/To": "a@b.example"});'
POST = "shared_teams.PostMessageToConversation();"
ASKED = pd.DataFrame(
    {
        "request": ["mail", "post", "both"],
        "dsl": [MAIL, POST, f"{MAIL}\n{POST}"],
        "apis": [
            ["shared_gmail.SendEmailV2"],
            ["shared_teams.PostMessageToConversation"],
            ["shared_gmail.SendEmailV2", "shared_teams.PostMessageToConversation"],
        ],
        "n_calls": [1, 1, 3],
    },
    index=["q0", "q1", "q2"],
)


@pytest.fixture(scope="module")
def catalogue():
    return Catalogue.load(ROOT / "data" / "catalogue")


def study_writing(texts, **columns):
    study = study_of({name: [0.5] * len(flows) for name, flows in texts.items()}, **columns)
    for name, flows in texts.items():
        chosen = study.scores["condition"] == name
        study.scores.loc[chosen, "text"] = flows
        study.scores.loc[chosen, "parsed"] = [not text.endswith("(") for text in flows]
    return study


@pytest.fixture(scope="module")
def study():
    made_up = "shared_gmail.SendEmailV9();"
    return study_writing({FIVE: [made_up, made_up, "cut("], FIVE_TST: [MAIL, POST, "cut("]})


def test_errors_are_counted_by_flow(study, catalogue):
    counted = counted_errors(study, ASKED["dsl"], catalogue)
    assert set(counted["condition"]) == {FIVE}
    assert counted.set_index("kind").loc["made_up_version", ["flows", "times", "n"]].tolist() == [2, 2, 3]
    shown = kinds_table(study, counted)
    assert shown.frame.columns.tolist() == ["kind of error", "pretrained, 5 (n = 3)"]
    assert all(": " in kind for kind in shown.frame["kind of error"])
    assert f"flows.html#condition={FIVE}&error=made_up_version" in shown.cases["pretrained, 5 (n = 3)"]


def test_answers_that_were_cut(catalogue):
    cut = study_writing({FIVE: ["a.B(" * 20, "c.D("]}, finished=False)
    shown = kinds_table(cut, counted_errors(cut, ASKED["dsl"], catalogue))
    assert shown.frame.iloc[0, 0] == "syntax: not finished (token limit, or repeating itself)"
    assert shown.frame.iloc[0, 1].startswith("100 [")


def test_the_flow_that_is_shown_is_a_valid_one_near_the_mean():
    assert typical_flow(study_of({FIVE: [None, 0.2, 0.5, 1.0]})) == "q2"
    assert typical_flow(study_of({FIVE: [None, None]})) == "q0"
