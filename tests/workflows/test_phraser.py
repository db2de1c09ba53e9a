import json
import warnings
from pathlib import Path

import pytest

from lib.workbook.artifacts import ROOT
from lib.workbook.inputs import InputError
from lib.workflows.apis import APP, SLOT
from lib.workflows.catalogue import Catalogue
from lib.workflows.generating import generate
from lib.workflows.pairs import check_requests_apart, leaks, read_values
from lib.workflows.phraser import STARTS, phrase_catalogue
from lib.workflows.planning import FlowKnobs
from tests.workflows.authoring import authoring_problems

REAL = Path(__file__).parents[3] / "shared/connectors"
SMALL = FlowKnobs(n_training_pairs=60, n_test_pairs=10, n_unseen_pairs=10, n_test_same_pairs=10)


def string(name, **more):
    return {"name": name, "in": "query", "type": "string"} | more


def returning(**properties):
    schema = {"type": "object", "properties": {name: {"type": kind} for name, kind in properties.items()}}
    return {"200": {"description": "", "schema": schema}}


def operation(name, summary, *parameters, responses=None, **more):
    return {
        "operationId": name,
        "summary": summary,
        "parameters": list(parameters),
        "responses": responses or {},
    } | more


TICKET = returning(id="string", title="string", priority="string")
PRIORITY = string("priority", enum=["high", "low"], **{"x-ms-summary": "Priority"})
DESK = [
    operation("OnTicket", "When a ticket is created", string("boardId", **{"x-ms-dynamic-values": {}}),
              responses=TICKET, **{"x-ms-trigger": "single"}),
    operation("CreateTicket", "Creates a ticket", string("title", required=True), PRIORITY, responses=TICKET),
    operation("GetTicket", "Get ticket by ID", string("ticketId", required=True), responses=TICKET),
    operation("GetTicketV2", "Get ticket by ID (V2)", string("ticketId", required=True), responses=TICKET),
    operation("ListTickets", "Returns a list of tickets", PRIORITY, responses=TICKET),
    operation("DeleteTicket", "Delete ticket", string("ticketId", required=True)),
    operation("SearchNotes", "Search notes", string("query")),
    operation("AddNote", "Add a note", string("text")),
    operation("Ping", "Ping the API"),
    operation("Widgets", "Widgets"),
    operation("Hidden", "Delete everything", **{"x-ms-visibility": "internal"}),
    operation("Old", "Close ticket", deprecated=True),
]  # fmt: skip


def written(folder, operations, title="Ticket Desk", name="desk"):
    paths = {f"/{op['operationId']}": {"get": op} for op in operations}
    document = {"swagger": "2.0", "info": {"title": title}, "paths": paths}
    (folder / f"{name}.json").write_text(json.dumps(document))
    return folder


def phrased(folder, seed=7):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return phrase_catalogue(Catalogue.from_openapi(folder), Catalogue.load(ROOT / STARTS), seed)


@pytest.fixture
def desk(tmp_path):
    return phrased(written(tmp_path, DESK))


def test_operations_get_several_wordings_of_what_they_do(desk):
    create = desk.catalogue["shared_desk.CreateTicket"]
    assert create.phrases[0] == "create a ticket in {app}"
    assert "add a ticket called {title} in {app}" in create.phrases
    assert "with the priority {priority}" in create.clauses
    trigger = desk.catalogue["shared_desk.OnTicket"]
    assert trigger.phrases[0] == "a ticket is created in {app}"
    assert {"somebody creates a ticket in {app}", "there is a new ticket in {app}"} <= set(trigger.phrases)
    assert "for the {boardId} board" in trigger.clauses
    assert desk.catalogue["shared_desk.ListTickets"].phrases[0] == "list tickets from {app}"
    assert "matching {query}" in desk.catalogue["shared_desk.SearchNotes"].clauses
    assert not desk.started


def test_endings_name_what_people_set_in_words_that_they_say(tmp_path):
    keys = ["createdate", "last_reply_date", "service_upn", "saveAs", "localonly", "city", "start_date_time"]
    strings = [string(key) for key in keys]
    folder = written(tmp_path, [*DESK, operation("CreateNote", "Create a note", *strings)])
    clauses = phrased(folder).catalogue["shared_desk.CreateNote"].clauses
    assert clauses[::3] == ("with the city {city}", "with the start time {start_date_time}")


def test_phrases_are_those_that_flows_can_be_made_from(desk):
    offered = [api for api in desk.catalogue if api.phrases]
    wrong = ("{app}", "ends with", "conjunction", "no slot", "all have the phrase")
    problems = authoring_problems(desk.catalogue, read_values(ROOT / "data" / "values.yaml"))
    problems = [problem for problem in problems if any(word in problem for word in wrong)]
    names = tuple(f"{api.name}:" for api in offered)
    assert not [problem for problem in problems if problem.startswith(names) or "all have the phrase" in problem]
    for api in offered:
        for text in (*api.phrases, *api.terse, *api.clauses):
            assert all(api.parameter(slot).key for slot in SLOT.findall(text) if slot != APP)


def test_ids_go_from_call_to_call(desk):
    (taken,) = desk.catalogue["shared_desk.DeleteTicket"].parameters
    given = {field.kind for field in desk.catalogue["shared_desk.CreateTicket"].returns}
    assert taken.kind == "id:ticket"
    assert taken.kind in given


def test_what_gives_no_phrase_is_left_out_with_the_reason(desk):
    reasons = desk.left_out.set_index("api")["reason"].to_dict()
    assert reasons == {
        "shared_desk.GetTicket": "an older form of another operation",
        "shared_desk.Ping": "a programmer's words",
        "shared_desk.Widgets": "neither summary nor operation id has a verb",
        "shared_desk.Hidden": "internal or deprecated",
        "shared_desk.Old": "internal or deprecated",
    }
    assert all(not desk.catalogue[name].phrases and not desk.catalogue[name].in_training for name in reasons)
    assert len(desk.catalogue) == len(DESK), "they stay in the catalogue"


def test_some_operations_are_held_out_and_the_seed_says_which(tmp_path):
    folder = written(tmp_path, DESK)
    held = [{api.name for api in phrased(folder, seed).catalogue if api.phrases and not api.in_training}
            for seed in range(8)]  # fmt: skip
    assert {len(names) for names in held} == {1}
    assert len(set.union(*held)) > 1
    assert not any("DeleteTicket" in name for names in held for name in names), "an id is wanted"


def test_requests_and_flows_are_made_from_a_document_alone(desk):
    pairs = generate(desk.catalogue, read_values(ROOT / "data" / "values.yaml"), SMALL)
    assert pairs["split"].value_counts().to_dict() == {"training": 60, "test": 10, "unseen": 10, "test_same": 10}
    check_requests_apart(leaks(pairs))
    used = {name for apis in pairs["apis"] for name in apis}
    assert used <= {api.name for api in desk.catalogue if api.phrases}
    called = pairs[pairs["dsl"].str.contains('"priority": "high"', regex=False)]
    assert len(called)
    assert called["request"].str.contains("high", case=False).all(), "what the call holds was said"


def test_a_document_without_triggers_borrows_them(tmp_path):
    found = phrased(written(tmp_path, DESK[1:]))
    assert found.started
    assert any(api.trigger and api.in_training for api in found.catalogue)
    pairs = generate(found.catalogue, read_values(ROOT / "data" / "values.yaml"), SMALL)
    assert pairs["trigger"].str.startswith("shared_flow_start.").all()


def test_the_triggers_to_borrow_are_whole():
    starts = Catalogue.load(ROOT / STARTS)
    assert authoring_problems(starts, read_values(ROOT / "data" / "values.yaml")) == []


def test_two_apps_with_the_same_operations_are_told_apart_by_name(tmp_path):
    written(tmp_path, DESK)
    catalogue = phrased(written(tmp_path, DESK, "Help Point", "help")).catalogue
    texts = catalogue["shared_help.CreateTicket"].phrases
    assert texts
    assert all("{app}" in text for text in texts)


def test_documents_of_which_nothing_can_be_asked_for_are_an_error(tmp_path):
    with pytest.raises(InputError, match=r"1 of 3 operations can be asked for.*a programmer's words: 1"):
        phrased(written(tmp_path, [DESK[1], DESK[8], DESK[9]]))


# ---- how good they are


@pytest.mark.skipif(not REAL.exists(), reason="the real connector files are not here")
def test_real_connectors_are_asked_for():
    found = phrased(REAL)
    offered = [api for api in found.catalogue if api.phrases]
    designed = [api for api in found.catalogue if not api.internal]
    assert len(offered) > 0.85 * len(designed)
    pairs = generate(found.catalogue, read_values(ROOT / "data" / "values.yaml"), SMALL)
    assert len(pairs) == 90
