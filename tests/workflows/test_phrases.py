import json
import warnings

import pytest

from lib.workbook.artifacts import ROOT
from lib.workbook.inputs import InputError
from lib.workflows.apis import Field
from lib.workflows.catalogue import Catalogue
from lib.workflows.generating import generate
from lib.workflows.phrases import STARTS, Unsaid, app_name, clause, imperative, phrase_catalogue, with_kind

SMALL = {"training": 60, "test": 10, "unseen": 10, "test_same": 10}


def string(name, **more):
    return {"name": name, "in": "query", "type": "string"} | more


def returning(**properties):
    schema = {"type": "object", "properties": {name: {"type": kind} for name, kind in properties.items()}}
    return {"200": {"description": "", "schema": schema}}


def operation(name, summary, *parameters, responses=None, **more):
    told = {"operationId": name, "summary": summary, "parameters": list(parameters)}
    return told | {"responses": responses or {}} | more


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
    operation("Ping", "Check the API"),
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
    return phrased(written(tmp_path, DESK))[0]


def test_operations_get_several_wordings_of_what_they_do(desk):
    create = desk["shared_desk.CreateTicket"]
    assert create.phrases[0] == "create a ticket in {app}"
    assert "add a ticket in {app}" in create.phrases
    assert "with the title {title}" in create.clauses
    assert "with the priority {priority}" in create.clauses
    trigger = desk["shared_desk.OnTicket"]
    assert trigger.phrases[0] == "a ticket is created in {app}"
    assert "{app} reports that a ticket is created" in trigger.phrases
    assert "for the {boardId} board" in trigger.clauses
    assert desk["shared_desk.ListTickets"].phrases[0] == "list tickets from {app}"
    assert "matching {query}" in desk["shared_desk.SearchNotes"].clauses
    (taken,) = desk["shared_desk.DeleteTicket"].parameters
    assert taken.kind == "id:ticket"
    assert taken.kind in {field.kind for field in create.returns}


def test_what_gives_no_phrase_is_left_out_with_the_reason(tmp_path):
    desk, left_out = phrased(written(tmp_path, DESK))
    reasons = left_out.set_index("api")["reason"].to_dict()
    assert reasons == {
        "shared_desk.GetTicket": "asked for in the words of another operation",
        "shared_desk.Ping": "a programmer's words",
        "shared_desk.Widgets": "its summary is no verb with an object",
        "shared_desk.Hidden": "internal or deprecated",
        "shared_desk.Old": "internal or deprecated",
    }
    assert all(not desk[name].phrases and not desk[name].in_training for name in reasons)
    assert len(desk) == len(DESK), "they stay in the catalogue"


def test_descriptions_are_asked_for_where_there_is_no_summary(tmp_path):
    told = [("PostRefunds", "<p>Creates a refund for a charge.</p>"), ("GetPlansPlan", "Retrieves an existing plan."),
            ("Widgets", "Widgets. Lists all.")]  # fmt: skip
    tills = [operation(name, "", description=text) for name, text in told]
    tills += [operation("IP", "IP enrichment", description="Enrich an IP with new data")]
    till, left_out = phrased(written(tmp_path, tills))
    assert [api.phrases[0] for api in till if api.phrases and api.connector == "shared_desk"] == [
        "create a refund for a charge in {app}",
        "retrieve the plan from {app}",
        "enrich the IP with new data with {app}",
    ]
    assert left_out["api"].tolist() == ["shared_desk.Widgets"]


def test_some_operations_are_held_out_and_the_seed_says_which(tmp_path):
    folder = written(tmp_path, DESK)
    held = [{api.name for api in phrased(folder, seed)[0] if api.phrases and not api.in_training}
            for seed in range(8)]  # fmt: skip
    assert {len(names) for names in held} == {1}
    assert len(set.union(*held)) > 1
    assert not any("DeleteTicket" in name for names in held for name in names), "an id is wanted"


def test_requests_and_flows_are_made_from_a_document_alone(desk, values):
    pairs = generate(desk, values, SMALL)
    assert pairs["split"].value_counts().to_dict() == {"training": 60, "test": 10, "unseen": 10, "test_same": 10}
    held = {api.name for api in desk if api.phrases and not api.in_training}
    assert [not held.isdisjoint(apis) for apis in pairs["apis"]] == (pairs["split"] == "unseen").tolist()
    used = {name for apis in pairs["apis"] for name in apis}
    assert used <= {api.name for api in desk if api.phrases}
    called = pairs[pairs["dsl"].str.contains('"priority": "high"', regex=False)]
    assert len(called)
    assert called["request"].str.contains("high", case=False).all(), "what the call holds was said"


def test_a_document_without_triggers_borrows_them(tmp_path, values):
    found, _ = phrased(written(tmp_path, DESK[1:]))
    pairs = generate(found, values, SMALL)
    assert pairs["apis"].str[0].str.startswith("shared_flow_start.").all()


def test_documents_of_which_nothing_can_be_asked_for_are_an_error(tmp_path):
    with pytest.raises(InputError, match=r"1 of 3 operations can be asked for.*a programmer's words: 1"):
        phrased(written(tmp_path, [DESK[1], DESK[8], DESK[9]]))


def test_what_is_asked_for():
    asked = {
        "Creates a ticket": ("create", "a ticket"),
        "Get a ticket by ID": ("get", "the ticket"),
        "Returns a list of tickets": ("list", "tickets"),
        "Create SMS": ("create", "an SMS"),
        "Order items": None,
    }
    assert {text: imperative(text) for text in asked} == asked


@pytest.mark.parametrize("text", ["Get the webhook payload", "Get größte Karte", "Get a" + " b" * 9])
def test_what_nobody_would_say(text):
    with pytest.raises(Unsaid):
        imperative(text)


def test_what_happens():
    said = {
        "When a row is added": "a row is added",
        "When tickets closed": "tickets are closed",
        "Process finished": "a process is finished",
    }
    assert {text: clause(text)[1] for text in said} == said
    assert clause("Conditional trigger") is None


def test_what_people_call_an_app():
    titles = "Swagger Petstore - OpenAPI 3.0", "Ticket REST API v2.1", "{|}"
    assert [app_name(title) for title in titles] == ["Petstore", "Ticket", "the app"]


def test_kinds_by_name_type_and_format():
    kinds = {
        Field("body/emailAddress"): "person_email",
        Field("createdAt"): "datetime",
        Field("start_date"): "date",
        Field("price", type="number"): "amount",
        Field("tags", type="array"): "records",
        Field("boardId", type="integer"): "id:board",
        Field("body/id"): "id:ticket",
        Field("userId"): "id:own_user",  # not the directory's
        Field("boardId", kind="container"): "container",  # chosen by its name
        Field("teamId", kind="container"): "team",
    }
    assert {field: with_kind(field, "ticket").kind for field in kinds} == kinds


def test_choices_and_examples_are_what_people_can_say():
    def choices(*values, key="priority"):
        return with_kind(Field(key, kind="choice", examples=values))

    assert choices("High", "Low", "x{y}", "High").examples == ("High", "Low")
    assert choices(1, 2, 3).examples == (1, 2, 3)
    assert choices("High", "<none>").kind == "any"
    assert choices("json", "xml", key="format").kind == "any", "set by programmers"
    assert with_kind(Field("harbour", examples=("Whitby", "{x}"))).examples == ("Whitby",)
    assert with_kind(Field("title", examples=("My title",))).examples == (), "a title's values are known"
