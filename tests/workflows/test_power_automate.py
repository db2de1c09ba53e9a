"""Flows as Power Automate's definitions: they have the structure of one, and read back and run they do the same.

`workflow_definition.json` says the structure in our own words. The published schema's text is no part of the project.
"""

import json
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from lib.workflows.execution import executed_alike
from lib.workflows.language import parse, print_flow
from lib.workflows.power_automate import ExportError, from_power_automate, to_power_automate

STRUCTURE = json.loads(Path(__file__).with_name("workflow_definition.json").read_text(encoding="utf-8"))
CHECK = Draft202012Validator(STRUCTURE)


def back(flow):
    """The flow that its definition says, which has the structure and uses each action's name once."""
    definition = json.loads(json.dumps(to_power_automate(flow)))
    assert not [f"{error.json_path}: {error.message}" for error in CHECK.iter_errors(definition)]
    names = [*names_of(definition["actions"]), *definition["triggers"]]
    assert len(names) == len(set(names))
    return from_power_automate(definition)


def names_of(actions):
    for name, action in actions.items():
        yield name
        yield from names_of(action.get("actions", {}))
        yield from names_of(action.get("else", {}).get("actions", {}))


def flow(body, trigger="x = await a.New();"):
    return parse(f"{trigger} {body}")


@pytest.mark.slow
def test_all_simulated_flows_come_back(pairs):
    for dsl in pairs.loc[pairs["split"] != "training", "dsl"].head(300):
        made = parse(dsl)
        again = back(made)
        assert executed_alike(again, made), dsl
        assert parse(print_flow(again)) == again


def test_actions_run_one_after_the_other_under_names_of_their_own():
    made = to_power_automate(flow("b.Get(); b.Get(); z = c['/x/y']({'a': [x?['l']?[0], {'k': true}]});"))["actions"]
    assert [action["runAfter"] for action in made.values()] == [{}, {"Get": ["Succeeded"]}, {"Get_2": ["Succeeded"]}]
    assert made["z"]["inputs"]["host"]["operationId"] == "/x/y"
    assert made["z"]["inputs"]["parameters"] == {"a": ["@triggerOutputs()?['l']?[0]", {"k": True}]}


def test_conditions():
    made = flow(
        "if (x?['n'] > 5 && !contains(x?['it\\'s'], 'a')) { b.A(); } else if (x?['s'] != 'b') { b.B(); }"
        " else { b.C(); }"
    )
    condition = to_power_automate(made)["actions"]["Condition"]
    assert condition["expression"] == {
        "and": [
            {"greater": ["@triggerOutputs()?['n']", 5]},
            {"not": {"contains": ["@triggerOutputs()?['it''s']", "a"]}},
        ]
    }
    inner = condition["else"]["actions"]["Condition_2"]
    assert inner["expression"] == {"not": {"equals": ["@triggerOutputs()?['s']", "b"]}}
    assert list(inner["else"]["actions"]) == ["C"]
    assert executed_alike(back(made), made)


@pytest.mark.parametrize("text", ["@you", "mail me@example.com", "a @{b} c", "@outputs('a')"])
def test_text_is_never_taken_for_an_expression(text):
    wanted = flow(f"b.A({{'t': {json.dumps(text)}}});")
    written = to_power_automate(wanted)["actions"]["A"]["inputs"]["parameters"]["t"]
    assert not written.startswith("@") or written.startswith("@@")
    assert executed_alike(back(wanted), wanted)


@pytest.mark.parametrize(
    ("made", "problem"),
    [
        (parse("b.A();"), "begins with its trigger"),
        (flow("y = await b.A();"), "one trigger"),
        (flow("b.A({'t': nothing?['x']});"), "nothing is assigned nowhere"),
        (flow("if (x?['n'] == 1) { y = b.A(); } else { y = b.B(); } b.C({'t': y?['id']});"), "in another branch"),
        (flow("y = b.A(); if (x?['n'] == 1) { y = b.B(); } b.C({'t': y?['id']});"), "in another branch"),
        (flow("y = b.Get(); for (i of x?['l']) { y = c.Get(); } d.Post({'t': y?['v']});"), "a loop"),
    ],
)
def test_what_no_definition_can_say(made, problem):
    with pytest.raises(ExportError, match=problem):
        to_power_automate(made)


def test_an_output_of_one_branch_can_be_used_after_it():
    made = flow("if (x?['n'] == 1) { y = b.A(); b.C({'t': y?['id']}); } b.D();")
    assert executed_alike(back(made), made)
    after = flow("if (x?['n'] == 1) { y = b.A(); } b.C({'t': y?['id']});")
    assert "@outputs('y')?['id']" in json.dumps(to_power_automate(after))


# ---------------------------------------------------------------- definitions that others made

HOST = {"apiId": "/providers/Microsoft.PowerApps/apis/shared_teams", "operationId": "Post"}


def action(name="Send_(V2)", after=(), **values):
    return {
        name: {"type": "OpenApiConnection", "inputs": {"host": HOST, "parameters": values}, "runAfter": dict(after)}
    }


TRIGGER = {"t": {"type": "OpenApiConnectionWebhook", "inputs": {"host": HOST}}}


@pytest.mark.parametrize(
    ("triggers", "actions", "problem"),
    [
        ({"Daily": {"type": "Recurrence", "recurrence": {"interval": 1}}}, action(), r"triggers\.Daily\.type"),
        ({"manual": {"type": "OpenApiConnection", "inputs": {"schema": {}}}}, action(), r"triggers\.manual\.inputs"),
        (TRIGGER, {"c": {"type": "If", "expression": "@equals(1, 1)", "actions": {}}}, "expression"),
        (TRIGGER, {"c": {"type": "If", "expression": {"equals": [1]}, "actions": {}}}, "no flow has a condition"),
        (TRIGGER, action(m="Hi @{triggerOutputs()?['body/from']}"), "no flow has an expression"),
        (TRIGGER, action(m="@outputs('later')"), "no flow has an expression"),
        (TRIGGER, action("a") | action("b", {"a": ["Failed"]}), "b: a flow's actions run one after another"),
        (TRIGGER, action("a") | action("b"), "a and b"),
        ({}, {}, "triggers"),
    ],
)  # fmt: skip
def test_what_no_flow_can_say(triggers, actions, problem):
    with pytest.raises(ExportError, match=problem):
        from_power_automate({"triggers": triggers, "actions": actions})


def test_names_of_actions_become_variables():
    made = action() | action("Send (V2)", {"Send_(V2)": ["Succeeded"]}, m="@body('Send_(V2)')?['id']")
    made |= action("2nd", {"Send (V2)": ["SUCCEEDED"]}, m="@triggerBody()?['it''s'][0]", n="@@me")
    assert print_flow(from_power_automate({"triggers": TRIGGER, "actions": made})).splitlines()[1:] == [
        "Send__V2_ = shared_teams.Post();",
        "Send__V2__2 = shared_teams.Post({\"m\": Send__V2_?['body']?['id']});",
        'step_2nd = shared_teams.Post({"m": triggerOutputs?[\'body\']?[\'it\\\'s\']?[0], "n": "@me"});',
    ]
