import pytest

from lib.workflows.apis import Field
from lib.workflows.categories import category_of
from lib.workflows.field_kinds import label_of, with_kind, words_of


def kind(key, noun="", **more):
    return with_kind(Field(key, **more), noun).kind


@pytest.mark.parametrize(
    ("key", "more", "expected"),
    [
        ("email", {}, "person_email"),
        ("body/emailAddress", {}, "person_email"),
        ("who", {"format": "email"}, "person_email"),
        ("dueDate", {"format": "date"}, "date"),
        ("createdAt", {}, "datetime"),
        ("start_date", {}, "date"),
        ("price", {"type": "number"}, "amount"),
        ("price", {}, "any"),
        ("quantity", {"type": "integer"}, "count"),
        ("body/title", {}, "title"),
        ("subject", {}, "subject"),
        ("fileName", {}, "file_name"),
        ("firstName", {}, "any"),
        ("displayName", {}, "person_name"),
        ("fileContent", {"format": "byte"}, "file_content"),
        ("webSite", {}, "url"),
        ("q", {}, "query"),
        ("limit", {"type": "integer"}, "any"),
        ("apiKey", {}, "any"),
        ("done", {"type": "boolean"}, "boolean"),
        ("tags", {"type": "array"}, "records"),
        ("blob", {"type": "object"}, "record"),
        ("zzz", {"summary": "Due date"}, "date"),
        ("zzz", {}, "any"),
    ],
)
def test_kinds_by_name_type_and_format(key, more, expected):
    assert kind(key, **more) == expected


def test_ids_identify_what_their_name_or_their_place_says():
    assert kind("boardId", type="integer") == "id:board"
    assert kind("id", "ticket") == "id:ticket"
    assert kind("body/id", "ticket") == "id:ticket"
    assert kind("fields/project/id", "issue") == "id:project"
    assert kind("id", "assignee", summary="Task Id") == "id:task"
    assert kind("issueIdOrKey") == "id:issue"
    assert kind("projectKey") == "id:project"
    assert kind("userId") == "id:own_user", "not the directory's"


def test_what_is_chosen_from_a_list_is_said_where_people_know_it_by_name():
    assert kind("boardId", kind="container") == "container"
    assert kind("teamId", kind="container") == "team"
    assert kind("ownerId", kind="container") == "person_name"
    assert kind("envelopeId", kind="container") == "id:envelope"


def test_choices_are_what_people_can_say():
    def choices(*values):
        return with_kind(Field("priority", kind="choice", examples=values))

    assert choices("High", "Low", "x{y}", "High").examples == ("High", "Low")
    assert choices(1, 2, 3).examples == (1, 2, 3)
    assert choices("true", "false").kind == "boolean"
    assert choices("High", "<none>").kind == "any"
    assert with_kind(Field("format", kind="choice", examples=("json", "xml"))).kind == "any", "set by programmers"


def test_examples_of_the_document_serve_where_the_name_tells_nothing():
    assert with_kind(Field("harbour", examples=("Whitby", "{x}"))).examples == ("Whitby",)
    assert with_kind(Field("title", examples=("My title",))).examples == (), "a title's values are known"
    assert with_kind(Field("apiKey", examples=("abc",))).examples == ()


def test_labels():
    assert words_of("body/dueDateTime") == "due date time"
    assert label_of(Field("x", summary="Due Date (UTC)")) == "due date"
    assert label_of(Field("due_date", summary="The moment at which all of this has to be done")) == "due date"
    assert label_of(Field("boardId", summary="Board ID")) == "board"
    assert label_of(Field("urlorMail", summary="Workspace URL or Email Address")) == "workspace URL"
    assert label_of(Field("hs_meeting_body")) == "meeting body", "without the maker's mark"
    assert label_of(Field("cc_text")) == "cc text"
    assert label_of(Field("a1_b2_c3_d4_e5")) == ""


def test_categories():
    assert category_of("Ticket Desk", "", [], "") == "support"
    assert category_of("Acme", "Sales and CRM", [], "") == "crm"
    assert category_of("Acme", "", ["Invoices", "Payments"], "Keeps files.") == "finance"
    assert category_of("Acme", "", [], "Does things.") == ""
