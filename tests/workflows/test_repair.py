"""Made-up names and keys, snapped to a catalogue."""

import itertools

import pytest

from lib.workflows.apis import Field, Operation
from lib.workflows.catalogue import Catalogue
from lib.workflows.language import called_apis, parse, validate
from lib.workflows.repair import likeness, snapped


def api(name, *keys, dynamic=False):
    return Operation(*name.split("."), "", "", parameters=tuple(map(Field, keys)), dynamic=dynamic)


def catalogue_of(*apis):
    return Catalogue({one.name: one for one in apis}, {})


APIS = catalogue_of(
    api("shared_todo.CreateToDoV3", "body/title", "folderId"),
    api("shared_todoist.CloseTask", "task_id"),
    api("shared_todoist.CreateProject", "body/name"),
    api("shared_teams.PostMessage", "message", "location", dynamic=True),
    api("shared_teams.OnNewMessage"),
)


@pytest.mark.parametrize(
    ("written", "repaired"),
    [
        ('shared_tods.CreateToDo({"body/title": "a"});', 'shared_todo.CreateToDoV3({"body/title": "a"});'),
        ("shared_todoist.CreateToDoV3();", "shared_todoist.CreateProject();"),  # a connector that exists is kept
        (
            'shared_todo.CreateToDoV3({"body/title": "a", "body/titel": "b"});',  # the call has the nearest one
            'shared_todo.CreateToDoV3({"body/title": "a", "folderId": "b"});',
        ),
        (
            'shared_todo.CreateToDoV3({"title": "a", "body/titles": "b"});',  # the second is nearer to `body/title`
            'shared_todo.CreateToDoV3({"folderId": "a", "body/title": "b"});',
        ),
        ('shared_todoist.CloseTask({"id": 1, "id": 2});', 'shared_todoist.CloseTask({"task_id": 1, "task_id": 2});'),
        ('shared_teams.OnNewMessage({"a": 1});', "shared_teams.OnNewMessage();"),
        (
            'shared_teams.PostMessage({"body/anything": 1, "mesage": 2});',  # of a dynamic API
            'shared_teams.PostMessage({"body/anything": 1, "message": 2});',
        ),
        ('shared_todoist.CloseTsk({"task_id": 1', 'shared_todoist.CloseTsk({"task_id": 1'),
    ],
)
def test_what_is_made_up_becomes_the_nearest_that_exists(written, repaired):
    assert snapped(written, APIS) == repaired


def test_ties_go_to_the_first_name():
    for order in itertools.permutations([api("b.Do"), api("a.Do")]):
        assert snapped("c.Do();", catalogue_of(*order)) == "a.Do();"


def test_calls_in_branches_and_loops_are_repaired():
    text = "if (a) { shared_todoist.A(); } else if (b) { shared_todoist.CloseTsk(); } else { shared_teams.Post(); }"
    for flow in (text, f"for (one of x) {{ {text} }}"):
        repaired = parse(snapped(flow, APIS))
        assert not validate(repaired, APIS).made_up_names
        assert called_apis(repaired)[1:] == ["shared_todoist.CloseTask", "shared_teams.PostMessage"]


def test_likeness_and_right_flows():
    assert likeness("abcd", "ABxy") == 0.5
    right = 'shared_teams.PostMessage({"message":"as it was"});'
    assert snapped(right, APIS) == right
