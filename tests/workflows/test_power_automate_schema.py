"""Exported flows have the structure of a workflow's definition, as its reference describes it.

`workflow_definition.json` says the structure in our own words. The published schema's text is no part of the project.
"""

import copy
import json
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from lib.workflows.execution import executed_alike
from lib.workflows.language import parse
from lib.workflows.power_automate import to_power_automate
from tests.workflows.exported import read_back

STRUCTURE = json.loads(Path(__file__).with_name("workflow_definition.json").read_text(encoding="utf-8"))
CHECK = Draft202012Validator(STRUCTURE)
TEXT = """
t = await shared_forms.OnNew({"form_id": "Feedback"});
if (t?['n'] > 5 && !contains(t?['s'], "a")) { u = shared_users.Profile({"id": t?['who'], "n": [1, {"k": true}]}); }
else if (t?['s'] != "@b") { shared_b.Do({"x": "@{y}"}); } else { shared_c['/odd id']({}); }
for (i of t?['items']) { shared_d.Post({"to": i?['mail']}); }
"""


def structure_errors(definition):
    found = sorted(CHECK.iter_errors(json.loads(json.dumps(definition))), key=lambda error: error.path)
    return [f"{error.json_path}: {error.message}" for error in found]


def test_the_structure_is_a_schema_itself():
    Draft202012Validator.check_schema(STRUCTURE)


def test_hundreds_of_exported_flows_have_the_structure(pairs):
    flows = pairs["dsl"].drop_duplicates().head(500)
    assert len(flows) >= 300
    for dsl in flows:
        definition = to_power_automate(parse(dsl))
        assert not structure_errors(definition), dsl
        names = list(action_names(definition["actions"])) + list(definition["triggers"])
        assert len(names) == len(set(names)), "a name of an action is used once in the whole definition"


def action_names(actions):
    for name, action in actions.items():
        yield name
        yield from action_names(action.get("actions", {}))
        yield from action_names(action.get("else", {}).get("actions", {}))


def test_conditions_loops_and_odd_texts_have_it_too():
    made = parse(TEXT)
    definition = to_power_automate(made)
    assert structure_errors(definition) == []
    assert executed_alike(read_back(definition), made)


@pytest.mark.parametrize(
    "change",
    [
        lambda made: made.update(contentVersion="1"),
        lambda made: made.update(triggers={}),
        lambda made: made.pop("actions"),
        lambda made: made.update(notes="x"),
        lambda made: made["actions"]["Condition"].pop("expression"),
        lambda made: made["actions"]["Condition"].update(runAfter={"t": ["Done"]}),
        lambda made: made["actions"]["Condition"]["expression"]["and"][0].update(greater=["@triggerOutputs()"]),
        lambda made: made["actions"]["Apply_to_each"].update(foreach="items"),
        lambda made: made["actions"]["Apply_to_each"]["actions"]["Post"]["inputs"]["host"].pop("operationId"),
        lambda made: made["actions"]["Apply_to_each"]["actions"]["Post"]["inputs"]["parameters"].update(to="@me()"),
        lambda made: made["actions"].update({"a name": made["actions"]["Apply_to_each"]}),
    ],
)
def test_what_the_structure_refuses(change):
    definition = copy.deepcopy(to_power_automate(parse(TEXT)))
    change(definition)
    assert structure_errors(definition)
