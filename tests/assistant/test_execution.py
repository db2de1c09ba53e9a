"""Plans carried out: what counts as done, and what must not."""

import json

import pandas as pd
import pytest

from lib.assistant.execution import READS, executed_right, read_items, readings
from lib.assistant.planner import Desk, score_plans, with_other_plans
from lib.assistant.toolbox import Toolbox

APIS = {
    "open_note": ("notes", ["title"], []),
    "search_notes": ("notes", ["text"], []),
    "delete_note": ("notes", ["title"], []),
    "read_mail": ("mail", ["subject"], ["sender"]),
    "search_mail": ("mail", ["text"], ["sender"]),
    "open_attachment": ("mail", ["subject"], []),
    "create_note": ("notes", ["title"], ["body"]),
    "find_event": ("calendar", ["title"], []),
}
FUNCTIONS = [
    {
        "name": name,
        "parameters": {
            "type": "object",
            "properties": {argument: {"type": "string"} for argument in required + optional},
            "required": required,
        },
    }
    for name, (_, required, optional) in APIS.items()
]
ITEMS = pd.DataFrame(
    [
        ("m1", "ana", "mail", "Roster", "Roster. Dana Ruiz. earlies and lates"),
        ("n1", "ana", "notes", "Roster", "Roster. copied out"),
        ("n2", "ana", "notes", "Shopping", "Shopping. eggs"),
        ("n3", "ana", "notes", "Shopping", "Shopping. nails"),
        ("n4", "ana", "notes", "-", "-"),
        ("m2", "bo", "mail", "Roster", "Roster. Dana Ruiz. nights"),
    ],
    columns=["item", "persona", "app", "title", "text"],
)
QUERIES = pd.DataFrame({"query": ["q"], "persona": ["ana"]})


@pytest.fixture(scope="module")
def desk():
    people = pd.DataFrame(columns=["persona", "name", "email", "phone"])
    return Desk(ITEMS, people, FUNCTIONS, {name: app for name, (app, *_) in APIS.items()})


def done(desk, answers, text, relevant=("m1", "n1"), also=()):
    names = [name for call in answers for name in call]
    gold = pd.DataFrame(
        {"query": ["q"], "apis": [names], "plan": "gold", "answers": json.dumps(answers), "relevant": [list(relevant)]}
    )
    others = [("q", [name for call in plan for name in call], "other", json.dumps(plan)) for plan in also]
    gold = with_other_plans(gold, pd.DataFrame(others, columns=["query", "apis", "plan", "answers"]))
    plans = score_plans(pd.DataFrame({"query": ["q"], "text": [text], "tools": [None]}), gold, FUNCTIONS)
    return executed_right(desk, plans, QUERIES, gold)[0]


READ = [{"read_mail": {"subject": ["Roster"], "sender": ["Dana Ruiz", ""]}}]


@pytest.mark.parametrize(
    "text",
    [
        'read_mail(subject="Roster", sender="Dana Ruiz")',
        'read_mail(subject="Roster")',
        'search_mail(text="roster")',
        'search_mail(text="Roster", sender="Dana Ruiz")',
    ],
)
def test_reading_the_gold_item_is_enough(desk, text):
    assert done(desk, READ, text) == 100


@pytest.mark.parametrize(
    "text",
    [
        'search_mail(text="Roster", sender="Somebody Else")',  # finds nothing
        'read_mail(subject="Roster", sender="earlies")',  # stands in the mail, but did not send it
        'search_mail(text="Dana Ruiz")',  # no title: which mail it finds is not known
        'open_note(title="Roster")',  # relevant, but another item
        'open_attachment(subject="Roster")',  # gives something else back
        'search_mail(text="Roster", folder="inbox")',  # no such argument
        'search_mail(sender="Roster")',  # misses one
        'search_mail(text="Roster")\nopen_note(title="Roster")',
        "default()",
        "no plan",
    ],
)
def test_anything_else_is_not(desk, text):
    assert done(desk, READ, text) == 0


def test_an_irrelevant_or_another_personas_item_does_not_count(desk):
    assert done(desk, READ, 'search_mail(text="Roster")', relevant=("n1", "m2")) == 0


@pytest.mark.parametrize(
    "gold", [[{"delete_note": {"title": ["Roster"]}}], [{"create_note": {"title": ["Roster"], "body": [""]}}]]
)
def test_no_reading_serves_a_call_that_acts(desk, gold):
    assert done(desk, gold, 'open_note(title="Roster")') == 0
    assert done(desk, gold, 'search_notes(text="Roster")') == 0
    assert done(desk, gold, f'{next(iter(gold[0]))}(title="Roster")') == 100


def test_what_the_gold_call_does_not_ask_for_is_too_much(desk):
    assert done(desk, [{"read_mail": {"subject": ["Roster"]}}], 'search_mail(text="Roster", sender="Dana Ruiz")') == 0


def test_no_acting_serves_a_reading(desk):
    assert done(desk, [{"open_note": {"title": ["Roster"]}}], 'delete_note(title="Roster")') == 0


def test_a_common_title_reaches_all_that_have_it(desk):
    gold = [{"open_note": {"title": ["Shopping"]}}]
    assert read_items(desk, "ana", ("search_notes", {"text": "Shopping"})) == {"n2", "n3"}
    assert done(desk, gold, 'search_notes(text="Shopping")', relevant=("n2",)) == 0
    assert done(desk, gold, 'search_notes(text="Shopping")', relevant=("n2", "n3")) == 100


def test_an_empty_value_reaches_nothing(desk):
    assert read_items(desk, "ana", ("search_notes", {"text": "-"})) == frozenset()
    assert read_items(desk, "ana", ("search_notes", {"text": 3})) == frozenset()
    assert read_items(desk, "nobody", ("search_notes", {"text": "Shopping"})) == frozenset()


def test_default_is_served_by_itself_alone(desk):
    assert done(desk, [{"default": {}}], "default()") == 100
    assert done(desk, [{"default": {}}], 'search_mail(text="Roster")') == 0


def test_each_call_of_a_plan_must_serve_and_other_plans_count(desk):
    two = [*READ, {"delete_note": {"title": ["Roster"]}}]
    assert done(desk, two, 'search_mail(text="Roster")\ndelete_note(title="Roster")') == 100
    assert done(desk, two, 'search_mail(text="Roster")\nopen_note(title="Roster")') == 0
    assert done(desk, two, 'delete_note(title="Roster")\nsearch_mail(text="Roster")') == 0
    other = [[{"open_note": {"title": ["Roster"]}}]]
    assert done(desk, READ, 'search_notes(text="Roster")') == 0
    assert done(desk, READ, 'search_notes(text="Roster")', also=other) == 100


def test_what_reads_stands_in_the_toolbox(data):
    toolbox = Toolbox.from_yaml(data / "toolbox.yaml")
    assert set(toolbox.apis) >= READS
    assert not {name for name in READS if name.split("_")[0] not in {"open", "read", "find", "search"}}


def test_only_readings_of_queries_that_want_one_could_serve():
    gold = pd.DataFrame({"query": ["q", "r"], "apis": [["open_note"], ["open_note", "create_note"]]})
    texts = ['find_event(title="x")', 'delete_note(title="x")', "no plan(", "", 'read_mail(subject="x")']
    plans = pd.DataFrame({"query": [*"qqqq", "r"], "text": texts}, index=[3, 5, 7, 9, 11])
    found = readings(plans, gold)
    assert found.index.tolist() == plans.index.tolist()
    assert found["wanted"].tolist() == [True, True, True, True, False]
    assert found["wanted_and_read"].tolist() == [True, False, False, False, False]
