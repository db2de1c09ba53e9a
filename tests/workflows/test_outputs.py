import pytest

from lib.workflows.apis import API, Field
from lib.workflows.language import Reference
from lib.workflows.outputs import Output, candidates, describe, same_moment, thing

MAIL = API("mail", "OnMail", "When an email arrives", "Mail", trigger=True,
           returns=(Field("id", "id:message", summary="message"), Field("head/subject", "subject", summary="subject"),
                    Field("due", "date", summary="due date")))  # fmt: skip
CARD_FIELDS = (Field("id", "id:card", summary="card"), Field("subject", "subject", summary="subject"))
CARD = API("board", "GetCard", "Get a card", "Board", returns=CARD_FIELDS)


def outputs(api, step=0, variable="x"):
    return [Output(step, api, variable, output) for output in api.returns]


def test_a_reference_is_the_path_below_the_body():
    assert outputs(MAIL)[1].reference == Reference("x", ("body", "head", "subject"))


@pytest.mark.parametrize(
    ("returns", "word"),
    [
        (MAIL.returns, "email"),
        (CARD.returns, "card"),
        ((Field("n", "file_name"), *CARD.returns), "file"),
        ((Field("t", "text"),), ""),
    ],
)
def test_what_a_call_returns_has_a_name(returns, word):
    assert thing(API("mail", "Op", "When an email arrives", "Mail", returns=returns)) == word


def test_words_for_an_output_tell_it_from_others(draft):
    subject = outputs(MAIL)[1]
    alone = {describe(draft(seed), subject, [subject]) for seed in range(40)}
    assert alone == {"the subject", "the subject of the email", "the email's subject"}
    other = outputs(CARD, 1, "y")[1]
    among = {describe(draft(seed), subject, [subject, other]) for seed in range(40)}
    assert among == alone - {"the subject"}
    same = Output(1, MAIL, "y", MAIL.returns[1])
    assert describe(draft(), subject, [subject, same]) is None
    assert "its subject" in {describe(draft(seed), subject, [subject], possessive=True) for seed in range(40)}


def test_dates_go_together_where_they_are_of_one_moment():
    due = MAIL.returns[2]
    assert same_moment(Field("dueDate", "date"), due)
    assert not same_moment(Field("start", "date"), due)


def test_what_a_step_looked_up_is_taken_up_rather_and_only_once(draft):
    one = draft()
    title = Field("title", "subject")
    visible = [*outputs(MAIL), *outputs(CARD, 1, "y")]
    api = API("tasks", "Add", "Add a task", "Tasks", parameters=(title,))
    assert [(o.variable, weight) for o, weight in candidates(one, api, title, visible)] == [("x", 6.0), ("y", 18.0)]
    one.referred.add(visible[-1].reference)
    assert candidates(one, api, title, visible)[-1][1] == pytest.approx(1.8)


def test_a_tag_of_given_examples_and_the_end_of_a_range_are_not_filled(draft):
    visible = [*outputs(MAIL), Output(0, MAIL, "x", Field("tag", "tag", summary="tag"))]
    tag = Field("tag", "tag")
    api = API("tasks", "Add", "Add", "Tasks", parameters=(tag, Field("start", "date"), Field("end", "date")))
    assert len(candidates(draft(), api, tag, visible)) == 1
    assert candidates(draft(), api, Field("tag", "tag", examples=("red",)), visible) == []
    assert candidates(draft(), api, api.parameters[2], visible) == []
