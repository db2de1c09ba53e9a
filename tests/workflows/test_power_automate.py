"""Flows as Power Automate's definitions, read back and run."""

import json

import pytest

from lib.workflows.execution import executed_alike
from lib.workflows.language import Flow, parse, print_flow
from lib.workflows.power_automate import ExportError, to_power_automate
from tests.workflows.exported import read_back

TEXT = """
triggerOutputs = await shared_forms.OnNew({"form_id": "Feedback"});
user = shared_users.Profile({"id": triggerOutputs?['body']?['respon''der']});
""".replace("''", "\\'")


def back(flow):
    return read_back(json.loads(json.dumps(to_power_automate(flow))))


def flow(body, trigger="x = await a.New();"):
    return parse(f"{trigger} {body}")


def test_a_definition_has_the_published_parts():
    definition = to_power_automate(parse(TEXT))
    assert definition["$schema"].endswith("/2016-06-01/workflowdefinition.json#")
    assert set(definition) == {"$schema", "contentVersion", "parameters", "triggers", "actions"}
    (trigger,) = definition["triggers"].values()
    assert trigger["type"] == "OpenApiConnectionWebhook"
    assert trigger["inputs"]["host"] == {
        "apiId": "/providers/Microsoft.PowerApps/apis/shared_forms",
        "connectionName": "shared_forms",
        "operationId": "OnNew",
    }
    assert trigger["inputs"]["parameters"] == {"form_id": "Feedback"}
    action = definition["actions"]["user"]
    assert action["runAfter"] == {}
    assert action["inputs"]["parameters"] == {"id": "@triggerOutputs()?['body']?['respon''der']"}


def test_actions_run_one_after_the_other_under_names_of_their_own():
    actions = to_power_automate(flow("b.Get(); b.Get(); c['/x/y'](); z = b.Do({'a': [x?['l']?[0], {'k': true}]});"))[
        "actions"
    ]
    assert list(actions) == ["Get", "Get_2", "_x_y", "z"]
    assert [action["runAfter"] for action in actions.values()] == [
        {}, {"Get": ["Succeeded"]}, {"Get_2": ["Succeeded"]}, {"_x_y": ["Succeeded"]},
    ]  # fmt: skip
    assert actions["_x_y"]["inputs"]["host"]["operationId"] == "/x/y"
    assert actions["z"]["inputs"]["parameters"] == {"a": ["@triggerOutputs()?['l']?[0]", {"k": True}]}


def test_conditions_and_loops():
    text = (
        "if (x?['n'] > 5 && !contains(x?['s'], 'a')) { b.A(); } else if (x?['s'] != 'b') { b.B(); } else { b.C(); }"
        "for (i of x?['items']) { b.D({'t': i?['id']}); }"
    )
    actions = to_power_automate(flow(text))["actions"]
    condition = actions["Condition"]
    assert condition["expression"] == {
        "and": [
            {"greater": ["@triggerOutputs()?['n']", 5]},
            {"not": {"contains": ["@triggerOutputs()?['s']", "a"]}},
        ]
    }
    inner = condition["else"]["actions"]["Condition_2"]
    assert inner["expression"] == {"not": {"equals": ["@triggerOutputs()?['s']", "b"]}}
    assert list(inner["else"]["actions"]) == ["C"]
    loop = actions["Apply_to_each"]
    assert loop["foreach"] == "@triggerOutputs()?['items']"
    assert loop["actions"]["D"]["inputs"]["parameters"] == {"t": "@items('Apply_to_each')?['id']"}
    assert executed_alike(back(flow(text)), flow(text))


@pytest.mark.parametrize("text", ["@you", "mail me@example.com", "@@", "a @{b} c", "@{x}", "", "it's", "@outputs('a')"])
def test_text_is_never_taken_for_an_expression(text):
    wanted = flow(f"b.A({{'t': {json.dumps(text)}}});")
    written = to_power_automate(wanted)["actions"]["A"]["inputs"]["parameters"]["t"]
    assert not written.startswith("@") or written.startswith("@@")
    assert executed_alike(back(wanted), wanted)


def test_all_simulated_flows_come_back(pairs):
    for dsl in pairs.loc[pairs["split"] != "training", "dsl"].head(300):
        made = parse(dsl)
        again = back(made)
        assert executed_alike(again, made), dsl
        assert parse(print_flow(again)) == again


@pytest.mark.parametrize(
    ("made", "problem"),
    [
        (Flow(()), "begins with its trigger"),
        (parse("b.A();"), "begins with its trigger"),
        (flow("y = await b.A();"), "one trigger"),
        (flow("b.A({'t': nothing?['x']});"), "nothing is assigned nowhere"),
        (flow("if (x?['n'] == 1) { y = b.A(); } else { y = b.B(); } b.C({'t': y?['id']});"), "in another branch"),
    ],
)
def test_what_no_definition_can_say(made, problem):
    with pytest.raises(ExportError, match=problem):
        to_power_automate(made)


@pytest.mark.parametrize(
    "body",
    [
        "y = b.Get(); for (i of x?['l']) { y = c.Get({'k': i?['id']}); } d.Post({'t': y?['v']});",
        "y = b.Get(); for (i of x?['l']) { d.Post({'t': y?['v']}); y = c.Get(); }",
        "y = b.Get(); for (i of x?['l']) { if (i?['n'] > 1) { y = c.Get(); } } d.Post({'t': y?['v']});",
        "y = b.Get(); for (y of x?['l']) { c.Do({'t': y?['v']}); } d.Post({'t': y?['v']});",
        "y = b.Get(); for (i of x?['l']) { for (y of i?['m']) { c.Do(); } d.Post({'t': y?['v']}); }",
    ],
)
def test_what_another_round_of_a_loop_assigned_is_refused(body):
    with pytest.raises(ExportError, match="y is assigned nowhere before, or otherwise in another branch or round"):
        to_power_automate(flow(body))


def test_what_a_round_of_a_loop_assigned_itself_can_be_used_in_it():
    made = flow(
        "y = b.Get(); for (i of x?['l']) { y = c.Get({'k': i?['id']}); d.Post({'t': y?['v'], 'i': i?['id']}); }"
    )
    assert executed_alike(back(made), made)


@pytest.mark.parametrize("operation", ["contains", "if", "1x", "/x/y", "for"])
def test_operations_of_any_name_are_read_back_and_printed(operation):
    made = flow(f"b['{operation}'](); c.Do();")
    assert executed_alike(parse(print_flow(back(made))), made)


def test_an_output_of_one_branch_can_be_used_after_it():
    made = flow("if (x?['n'] == 1) { y = b.A(); b.C({'t': y?['id']}); } b.D();")
    assert executed_alike(back(made), made)
