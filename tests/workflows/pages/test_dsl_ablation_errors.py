import pandas as pd
import pytest

from lib.workbook.artifacts import ROOT
from lib.workflows.catalogue import Catalogue
from lib.workflows.pages.dsl_ablation import COPY
from lib.workflows.pages.dsl_ablation_errors import (
    brief,
    commonest,
    flaws,
    groups_table,
    kinds_table,
    looked_at,
    of_retrieval,
    parts_of,
    prompt_table,
    several_ways_table,
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
TRAINING = pd.DataFrame({"apis": [["shared_gmail.SendEmailV2"]] * 4})


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
    found = flaws(study, looked_at(study), ASKED["dsl"], catalogue)
    assert found.conditions == [FIVE]
    counted = found.counted.set_index("kind")
    assert counted.loc["made_up_version", ["flows", "times", "n"]].tolist() == [2, 2, 3]
    shown = kinds_table(study, found, 8)
    assert shown.frame.columns.tolist() == ["kind of error", "pretrained, 5 (n = 3)"]
    assert all(": " in kind for kind in shown.frame["kind of error"])
    assert f"flows.html#condition={FIVE}&error=made_up_version" in shown.cases["pretrained, 5 (n = 3)"]
    assert "and reached 8 tokens or was stopped before, where it only repeated itself" in shown.caption
    assert "0 of the 0 answers not finished" in shown.caption


def test_answers_that_were_cut_may_repeat_themselves(catalogue):
    cut = study_writing({FIVE: ["a.B(" * 20, "c.D("]}, finished=False)
    shown = kinds_table(cut, flaws(cut, looked_at(cut), ASKED["dsl"], catalogue), 8)
    assert "1 of the 2 answers not finished on this page end in text that stands in them before." in shown.caption
    assert shown.frame.iloc[0, 0] == "syntax: not finished (token limit, or repeating itself)"
    assert shown.frame.iloc[0, 1].startswith("100 [")


def test_a_copied_flow_was_not_cut(catalogue):
    copied = study_writing({"no_shots_finetuned": ["x("]}, finished=None)
    kinds = flaws(copied, looked_at(copied), ASKED["dsl"], catalogue).errors["kind"].tolist()
    assert kinds != ["cut"]
    assert len(kinds) == 1


def test_the_head_of_a_column():
    assert brief("pretrained encoder, 5 few-shots, under the grammar and the catalogue") == "pretrained, 5, catalogue"
    assert brief("fine-tuned model, no few-shots") == "fine-tuned model"


def test_parts_by_what_is_wanted():
    parts = parts_of(ASKED, TRAINING)
    assert {name: list(members) for name, members in parts.items()} == {
        "all": ["q0", "q1", "q2"],
        "one or two calls": ["q0", "q1"],
        "three calls or more": ["q2"],
        "rarest API in at most 0 training flows": ["q1", "q2"],
        "rarest API in more": ["q0"],
    }


def test_groups_of_errors_over_conditions(study, catalogue):
    found = flaws(study, of_retrieval(study), ASKED["dsl"], catalogue)
    shown = groups_table(study, found, ASKED, TRAINING)
    frame = shown.frame.set_index("flows that are wanted")
    assert frame.columns.tolist() == ["syntax, %", "names, %", "calls, %", "parameters, %"]
    assert frame.loc["all (n = 3)", "syntax, %"].startswith("33 [")
    assert frame.loc["three calls or more (n = 1)", "syntax, %"].startswith("100 [")
    assert frame.loc["three calls or more (n = 1)", "names, %"] == "–"
    assert frame.loc["one or two calls (n = 2)", "names, %"].startswith("50 [")
    assert "over 2 conditions" in shown.caption


def test_the_commonest_error(study, catalogue):
    text = commonest(study, flaws(study, looked_at(study), ASKED["dsl"], catalogue))
    assert text.startswith("The commonest error with pretrained encoder, 5 few-shots: ")
    assert text.endswith("in 2 of 3 flows.")
    right = study_writing({FIVE: [MAIL]})
    assert commonest(right, flaws(right, looked_at(right), ASKED["dsl"], catalogue)) == ""


def test_the_flow_that_is_shown_is_a_valid_one_near_the_mean():
    assert typical_flow(study_of({FIVE: [None, 0.2, 0.5, 1.0]})) == "q2"
    assert typical_flow(study_of({FIVE: [None, None]})) == "q0"


def test_one_request_several_ways():
    study = study_writing({FIVE: [MAIL], COPY: ["x " * 400]}, prompt="the prompt")
    shown = several_ways_table(study, "q0", ASKED)
    assert shown.frame[""].tolist() == [
        "the flow that is wanted",
        "nearest few-shot copied, pretrained encoder (similarity 0.50, executed wrong)",
        "pretrained encoder, 5 few-shots (similarity 0.50, executed wrong)",
    ]
    assert shown.frame["flow"].tolist()[::2] == [MAIL, MAIL]
    assert shown.frame["flow"][1].endswith(" …")
    assert len(shown.frame["flow"][1]) <= 600
    assert shown.caption.startswith("Request: mail (of the valid")
    whole = prompt_table(study, "q0", FIVE)
    assert whole.frame["prompt"].tolist() == ["the prompt"]
    assert whole.caption.endswith(
        "pretrained encoder, 5 few-shots: the in-context model, catalogue unseen (SmolLM2-135M-Instruct) goes on "
        "from its end."
    )
    assert prompt_table(study, "q0", "pretrained_5_fd_in_context") is None
