import random

import pytest

from lib.workflows.apis import Field, Operation
from lib.workflows.language import Reference
from lib.workflows.steps import Output, describe, implied, literal, moment, put, spoken_moment

TRIGGER = Operation("mail", "OnMail", "When an email arrives", "Mail", trigger=True,
              returns=(Field("id", "id:message", summary="message"), Field("subject", "subject", summary="subject"),
                       Field("user", "id:user", summary="user")))  # fmt: skip
VISIBLE = [Output(0, TRIGGER, "triggerOutputs", output) for output in TRIGGER.returns]


def seeing(draft, outputs=VISIBLE):
    draft.visible = outputs
    return draft


def test_what_the_request_leaves_unsaid_is_filled_once(draft):
    title = Field("title", "title", required=True)
    api = Operation("tasks", "Add", "Add", "Tasks", parameters=(title,))
    subject = Reference("triggerOutputs", ("body", "subject"))
    assert implied(seeing(draft()), api, title, {}) == subject
    assert implied(seeing(draft()), api, title, {"text": subject}) is None
    assert implied(draft(), api, Field("p", "choice", examples=("Normal", "High")), {}) == "Normal"


def test_a_phrase_whose_slots_cannot_be_filled_leaves_no_value(draft):
    name, code = Field("name", "title", examples=("x",)), Field("code", "code")
    api = Operation("c", "Op", "Do", "App", parameters=(name, code))
    values = {}
    assert put(draft(), api, "do {name} by {code}", values) is None
    assert values == {}
    assert put(draft(), api, "do {name}", values) is not None
    assert values == {"name": "x"}


CARD_FIELDS = (Field("id", "id:card", summary="card"), Field("subject", "subject", summary="subject"))
CARD = Operation("board", "GetCard", "Get a card", "Board", returns=CARD_FIELDS)


def test_words_for_an_output_tell_it_from_others(draft):
    subject = VISIBLE[1]
    alone = {describe(seeing(draft(seed), [subject]), subject) for seed in range(40)}
    assert alone == {"the subject", "the subject of the email", "the email's subject"}
    other = Output(1, CARD, "y", CARD_FIELDS[1])
    among = {describe(seeing(draft(seed), [subject, other]), subject) for seed in range(40)}
    assert among == alone - {"the subject"}
    same = Output(1, TRIGGER, "y", TRIGGER.returns[1])
    assert describe(seeing(draft(), [subject, same]), subject) is None
    assert "its subject" in {describe(seeing(draft(seed), [subject]), subject, possessive=True) for seed in range(40)}


def test_moments_as_people_write_them():
    assert spoken_moment("2024-03-05", "{day} {month} {year}", "at {twelve}") == "5 March 2024"
    at_two = spoken_moment("2024-03-05T14:00:00Z", "{month} {day}, {year}", "at {twelve}")
    assert at_two == "March 5, 2024 at 2 pm"
    assert spoken_moment("2024-03-05T09:30:00Z", "", "at {plain}") == "2024-03-05T09:30:00Z"


@pytest.mark.parametrize(("kind", "other"), [("date", "2024-03-05"), ("datetime", "2024-03-05T14:00:00Z")])
def test_a_moment_keeps_the_order_of_its_range(kind, other):
    for seed in range(20):
        assert moment(random.Random(seed), kind, other, starts=True) < other < moment(random.Random(seed), kind, other)
        assert len(moment(random.Random(seed), kind)) == len(other)


def test_a_literal_is_above_the_start_of_its_range_and_not_said_twice(draft):
    limits = (Field("min", "number", examples=(1, 5, 9)), Field("max", "number", examples=(1, 5, 9)))
    api = Operation("c", "Op", "Do", "App", parameters=limits)
    assert {literal(draft(seed), api, limits[1], {"min": 5}) for seed in range(20)} == {9}
    assert literal(draft(), api, limits[1], {"min": 9}) is None
    one = draft()
    tag = Field("tag", "tag", examples=("a", "b", "c"))
    assert {literal(one, api, tag, {}) for _ in range(3)} == {"a", "b", "c"}
