from dataclasses import replace

import pytest

from lib.workflows.apis import API, Field
from lib.workflows.catalogue import Catalogue
from lib.workflows.language import Reference
from lib.workflows.outputs import Output
from lib.workflows.steps import Unsayable, fill, implied, lead_in, put, step
from lib.workflows.wordings import Wordings

TRIGGER = API("mail", "OnMail", "When an email arrives", "Mail", trigger=True,
              returns=(Field("id", "id:message", summary="message"), Field("subject", "subject", summary="subject"),
                       Field("user", "id:user", summary="user")))  # fmt: skip
VISIBLE = [Output(0, TRIGGER, "triggerOutputs", output) for output in TRIGGER.returns]


@pytest.mark.parametrize(
    ("spoken", "lead"),
    [
        ("create a task called ", "named after "),
        ("create a task with the title ", "set to "),
        ("send a note to ", ""),
        ("post ", ""),
        ("create a ticket ", None),
    ],
)
def test_what_leads_from_a_phrase_to_words_for_an_output(spoken, lead):
    assert lead_in(spoken) == lead


def test_ids_come_from_the_connector_or_are_shared(draft):
    def of(connector, kind):
        parameter = Field("id", kind, required=True)
        return implied(draft(), API(connector, "Op", "Do", "App", parameters=(parameter,)), parameter, {}, VISIBLE)

    assert of("mail", "id:message") == Reference("triggerOutputs", ("body", "id"))
    assert of("other", "id:message") is None
    assert of("other", "id:user") == Reference("triggerOutputs", ("body", "user"))


def test_what_the_request_leaves_unsaid_is_filled_once(draft):
    title = Field("title", "title", required=True)
    api = API("tasks", "Add", "Add", "Tasks", parameters=(title,))
    subject = Reference("triggerOutputs", ("body", "subject"))
    assert implied(draft(), api, title, {}, VISIBLE) == subject
    assert implied(draft(), api, title, {"text": subject}, VISIBLE) is None
    assert implied(draft(), api, Field("p", "choice", examples=("Normal", "High")), {}, []) == "Normal"


def test_a_container_once_said_is_meant_again(draft):
    board = Field("folder/Board", "container", examples=("Roadmap",))
    api = API("board", "Add", "Add a card", "Board", parameters=(board,))
    one, call = draft(), {}
    one.said_before["board", "board"] = "Backlog"
    fill(one, api, board, call, [])
    assert call == {"folder/Board": "Backlog"}
    assert implied(one, api, board, {}, []) == "Backlog"


def test_a_phrase_whose_slots_cannot_be_filled_leaves_no_value(draft):
    name, code = Field("name", "title", examples=("x",)), Field("code", "code")
    api = API("c", "Op", "Do", "App", parameters=(name, code))
    values = {}
    assert put(draft(), api, "do {name} by {code}", values, []) is None
    assert values == {}
    assert put(draft(), api, "do {name}", values, []) is not None
    assert values == {"name": "x"}


def test_an_action_without_a_usable_phrase_cannot_be_said(draft):
    api = API("c", "Op", "Do", "App")
    one = replace(draft(), wordings=Wordings(Catalogue({api.name: api}, {}), {}, seed=7))
    with pytest.raises(Unsayable, match=r"c\.Op: no phrase"):
        step(one, api, [])


def test_variables_of_equal_calls_differ(draft, catalogue):
    one = draft()
    api = catalogue["shared_teams.PostMessageToConversation"]
    names = [step(one, api, [])[1].variable for _ in range(3)]
    base = "outputs_PostMessageToConversation"
    assert names == [base, f"{base}_2", f"{base}_3"]
    assert one.steps == 3
