import pytest

from lib.workflows.apis import API
from lib.workflows.summaries import Unsaid, app_names, clause, imperative, is_deprecated


def api(summary, operation="", description="", app="Desk", trigger=False):
    named = operation or summary.replace(" ", "")
    return API("shared_desk", named, summary, app, description, trigger)


def asked(summary, operation="", description="", app="Desk"):
    found = imperative(api(summary, operation, description, app), frozenset(), frozenset())
    return f"{found.verb} {found.object}"


def happens(summary, description="", app="Desk"):
    return clause(api(summary, "OnIt", description, app, True), frozenset(), frozenset()).text


@pytest.mark.parametrize(
    ("summary", "phrase"),
    [
        ("Creates a ticket", "create a ticket"),
        ("Create ticket", "create a ticket"),
        ("Get Ticket (V2)", "get the ticket"),
        ("Get a ticket by ID", "get the ticket"),
        ("Gets the specified ticket.", "get the ticket"),
        ("Returns a list of tickets", "list tickets"),
        ("View Tickets List", "list tickets"),
        ("This operation is used to delete a ticket", "delete the ticket"),
        ("Allows you to close tickets", "close the tickets"),
        ("Create or update a ticket", "create or update a ticket"),
        ("Search tickets", "search for tickets"),
        ("Search for all tickets", "search for tickets"),
        ("Close Request - Incident", "close the request or incident"),
        ("View Requests - Incidents list", "list requests or incidents"),
        ("Convert Docx to Excel", "convert the DOCX to Excel"),
        ("Get details in JSON format", "get the details in JSON format"),
        ("Fetch status of URL-s", "fetch the status of URLs"),
        ("Remove a tickets from list", "remove the tickets from the list"),
        ("List rows that have an owner", "list rows that have an owner"),
        ("List tasks in folder", "list tasks in the folder"),
        ("Update your photo", "update my photo"),
        ("Remove contact(s) from list", "remove the contacts from the list"),
        ("Create an existing Desk ticket in Desk", "create a ticket"),
        ("Frobnicate the ticket", "frobnicate the ticket"),
        ("Retrieve tickets that match a filter", "retrieve the tickets"),
    ],
)
def test_what_is_asked_for(summary, phrase):
    assert asked(summary) == phrase


def test_what_else_may_tell():
    assert asked("Key phrases", "KeyPhrases", "Extract key phrases from notes.") == "extract the key phrases from notes"
    assert asked("Deals", "DealsArchive") == "archive the deals", "the operation id has the verb"
    assert asked("Deal", "ArchiveDeal") == "archive the deal"
    assert asked("listWidgets", "listWidgets") == "list widgets"
    assert asked("Login", "GetLoginAccounts") == "get the login accounts", "the operation id says more"
    assert asked("", "CreateWidget") == "create a widget"


@pytest.mark.parametrize(
    ("summary", "operation", "reason"),
    [
        ("Widgets", "widgets", "no"),
        ("Get the webhook payload", "x1", "a programmer's words"),
        ("Get value", "x1", "says too little"),
        ("Create an object", "x1", "says too little"),
        ("Post an array for MD5", "x1", "says too little"),
        ("View all the links that have an impact on a device here", "x1", "more than 9 words"),
        ("Get the name and the size and the age and the weight of it all", "x1", "more than 9 words"),
        ("Get me", "x1", "neither summary nor operation id has a verb"),
        ("Get größte Karte", "x1", "signs that nobody says"),
        ("", "post_widgets", "neither summary nor operation id has a verb"),
    ],
)
def test_what_nobody_would_say(summary, operation, reason):
    with pytest.raises(Unsaid, match=reason):
        asked(summary, operation)


@pytest.mark.parametrize(
    ("summary", "text"),
    [
        ("When a row is added", "a row is added"),
        ("When a row is added, modified or deleted", "a row is added, modified or deleted"),
        ("When row is Created (V2)", "a row is created"),
        ("When a column changes", "a column changes"),
        ("When you receive an email", "I receive an email"),
        ("Process finished", "a process is finished"),
        ("On new email", "there is a new email"),
        ("New response", "there is a new response"),
        ("Triggers a new flow when an existing item is closed in Desk.", "an item is closed"),
        ("When creating a file", "somebody creates a file"),
    ],
)
def test_what_happens(summary, text):
    assert happens(summary) == text


def test_the_description_tells_what_a_triggers_name_does_not():
    assert happens("Conditional trigger", "Starts when a parcel arrives.") == "a parcel arrives"
    with pytest.raises(Unsaid, match="nothing that happens"):
        happens("Conditional trigger", "Starts when the selected event occurs.")


def test_nouns_are_those_that_an_id_identifies():
    assert imperative(api("List the lists of a board"), frozenset(), frozenset()).noun == "list"
    assert clause(api("When a new survey response is added", trigger=True), frozenset(), frozenset()).noun == "response"


def test_deprecated():
    assert is_deprecated(api("List Records [DEPRECATED]"))
    assert not is_deprecated(api("List records"))


@pytest.mark.parametrize(
    ("title", "names"),
    [
        ("Swagger Petstore - OpenAPI 3.0", ("Petstore",)),
        ("Airtable [DEPRECATED]", ("Airtable",)),
        ("Microsoft Bookings", ("Microsoft Bookings", "Bookings")),
        ("Microsoft 365 Mail", ("Microsoft 365 Mail",)),
        ("Ticket REST API v2.1", ("Ticket",)),
        ("API", ("API",)),
        ("a {b} | c", ("a b",)),
    ],
)
def test_app_names(title, names):
    assert app_names(title) == names
