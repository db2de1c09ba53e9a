"""WorkBench's requests for the planner: its functions, what a prompt shows, and how a plan is judged."""

import json

import pandas as pd
import pytest

from lib.assistant import workbench_plans as planning
from lib.assistant.pages import transfer_plans as page
from lib.assistant.toolbox import Toolbox
from lib.assistant.workbench import WorkBench

DELETE, SEND = "email.delete_email", "email.send_email"
ITEMS = pd.DataFrame(
    [("email-0001", "email", "Hello", "inbox. ann.lee@atlas.com. Hello"),
     ("calendar-0001", "calendar", "Lunch", "Lunch. bo.ek@atlas.com")],
    columns=["item", "app", "title", "text"],
)  # fmt: skip
QUERIES = pd.DataFrame(
    [  # answers of one call, and one of two
        ("q1", "Delete it", "Delete Ann's mail", 1, [(DELETE, {"email_id": "0001"})]),
        ("q2", "Delete it", "Delete my mail", 1, [(DELETE, {"email_id": "0001"})]),
        ("q3", "Write", "Write to Bo", 2,
         [(SEND, {"recipient": "bo.ek@atlas.com", "body": "x"}), (SEND, {"body": "y"})]),
        ("q4", "Nothing", "Do nothing", 0, []),
    ],
    columns=["query", "template", "text", "n_calls", "calls"],
)  # fmt: skip
TOOLS = pd.DataFrame(
    [(DELETE, "email", "Email: delete email (email id)"), (SEND, "email", "Email: send email (recipient, body)")],
    columns=["item", "app", "text"],
)
BENCH = WorkBench(ITEMS, QUERIES, pd.DataFrame([("q1", "email-0001"), ("q2", "email-0001")], columns=["query", "item"]),
                  TOOLS, pd.DataFrame(columns=["query", "item"]))  # fmt: skip


def ranking(queries, items):
    rows = [(query, item, place) for query in queries for place, item in enumerate(items, start=1)]
    return pd.DataFrame(rows, columns=["query", "item", "rank"])


@pytest.fixture
def toolbox(tmp_path):
    (path := tmp_path / "functions.json").write_text(json.dumps(planning.functions_of(BENCH)))
    return Toolbox.from_functions(path)


@pytest.fixture
def prompted(toolbox):
    asked = QUERIES.iloc[[0, 2]]
    return planning.prompts(
        BENCH, asked, toolbox, ranking(["q1", "q3"], [SEND, DELETE]), ranking(["q1", "q3"], ["email-0001"])
    )


def test_functions_say_what_the_data_say(toolbox):
    assert toolbox[SEND].function["parameters"]["required"] == ["body"]
    assert toolbox[DELETE].function["description"] == "Email: delete email"


def test_a_sample_has_one_request_of_a_template_and_none_without_an_answer():
    drawn = planning.sample(BENCH, 9, seed=1)
    assert sorted(drawn["template"]) == ["Delete it", "Write"]
    assert len(planning.sample(BENCH, 1, seed=1)) == 1


def test_prompts_show_ids_people_and_tools_and_no_answer(prompted):
    rows = prompted[prompted["query"] == "q1"].set_index("setting")["prompt"]
    assert "Context:" not in rows["rag"]
    assert (
        "Email: email_id 0001. inbox. ann.lee@atlas.com. Hello\nContact: Ann Lee, ann.lee@atlas.com\n"
        in (rows["context_tuned_rag"])
    )
    assert rows["rag"].index("email.send_email(recipient?, body)") < rows["rag"].index("email.delete_email(email_id)")
    assert "default()" in rows["rag"]
    right = rows["context_tuned_upper_bound"]
    assert "delete_email" in right
    assert "send_email" not in right
    other = prompted[prompted["query"] == "q3"].set_index("setting")["prompt"]["context_tuned_upper_bound"]
    assert "Contact: Bo Ek, bo.ek@atlas.com" in other


def test_the_template_takes_the_first_item_that_a_tool_takes(prompted, toolbox):
    floor = planning.template_plans(prompted, toolbox)
    assert floor["text"].tolist() == ['email.delete_email(email_id="0001")'] * 2
    assert set(floor["setting"]) == {planning.TEMPLATE}
    bare = planning.template_plans(prompted.assign(items=[[]] * len(prompted)), toolbox)
    assert bare["text"].tolist() == ["email.send_email()"] * 2


def test_plans_are_judged_by_the_answers(prompted, toolbox):
    texts = ['email.delete_email(email_id="0001")', "delete_email(", 'email.drop(email_id="0001")']
    mine = prompted[prompted["query"] == "q1"].assign(text=texts)
    plans = planning.judged(pd.concat([mine, planning.template_plans(prompted, toolbox)]), BENCH, toolbox)
    first = plans[plans["setting"] == "rag"].iloc[0]
    assert (first["right"], first["tools"], first["category"]) == (True, True, "")
    assert plans["unparsed"].tolist() == [False, True, False, False, False]
    assert plans["made_up"].tolist() == [False, True, True, False, False]
    assert plans["right"].tolist() == [True, False, False, True, False]
    assert plans["category"].iloc[-1] == "wrong_number_of_calls"
    rates = planning.rates(plans)
    assert rates[(rates["setting"] == "template") & (rates["measure"] == "right")]["value"].item() == 50
    table = page.plans_table(rates, "some requests", planning.MEASURES)
    assert table.frame["right by AST match, %"].iloc[-1].startswith("50.0 [")
    assert table.caption == "Plans for 2 of some requests; Wilson's 95% intervals."


def test_a_planner_of_another_model_is_not_used(tmp_path, monkeypatch):
    monkeypatch.setattr(planning, "fingerprint", lambda path, quantization: "x")
    monkeypatch.setattr(planning, "locate", lambda name: name)
    assert planning.planner_of("some", "none", tmp_path, tmp_path, 1) == (
        None, "No trained part planner-4338 is shipped.")  # fmt: skip


def test_examples_stand_beside_their_answers(prompted, toolbox):
    plans = planning.judged(prompted.assign(text="x()"), BENCH, toolbox)
    frame = page.plan_examples(plans, QUERIES, n=2).frame
    assert frame["answer"].tolist()[1] == 'email.delete_email(email_id="0001")'
    assert frame["request"].tolist() == ["Write to Bo", "Delete Ann's mail"]  # the shortest first
    assert len(frame) == 2
