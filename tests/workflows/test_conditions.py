import pytest

from lib.workflows.apis import Field, Operation
from lib.workflows.conditions import compared, in_words, is_testable
from lib.workflows.steps import Output


def output(*fields, step=0, name="When something happens"):
    api = Operation("c", "Op", name, "App", trigger=not step, returns=fields)
    return [Output(step, api, "x", one) for one in fields]


STATUS = Field("status", "choice", summary="status", examples=("Open", "Closed"))
AMOUNT = Field("total", "amount", summary="total", examples=(10, 20, 30, 40, 50, 60))


@pytest.mark.parametrize(
    ("field", "can"),
    [
        (STATUS, True),
        (Field("s", "choice", summary="status", examples=("Open",)), False),
        (Field("s", "subject"), False),
        (Field("s", "subject", summary="reference"), False),
        (Field("d", "date", summary="due date"), True),
        (Field("d", "date", summary="date"), False),
        (Field("b", "boolean", summary="folder flag"), True),
        (Field("b", "boolean", summary="other flag"), False),
        (Field("u", "url", summary="link"), False),
    ],
)
def test_what_can_be_tested(field, can):
    assert is_testable(field) == can


def test_the_value_in_words_is_the_value_in_the_flow(draft, spelled):
    for seed in range(40):
        one = draft(seed)
        tested = compared(one, *output(STATUS), "the status", None)
        assert tested.condition.operator in ("==", "!=")
        assert tested.condition.right in STATUS.examples
        assert tested.condition.right.lower() in spelled(one, tested.words).lower()


def test_a_further_number_lies_below_the_bound(draft):
    (total,) = output(AMOUNT)
    for seed in range(40):
        tested = compared(draft(seed), total, "the total", bound=30)
        assert tested.condition.operator == ">"
        assert tested.condition.right < 30
        assert tested.bound == tested.condition.right
    assert compared(draft(), total, "the total", bound=10) is None


def test_a_verb_agrees_with_its_outputs(draft):
    labels, status = (Field("l", "tag", summary=name) for name in ("labels", "status"))
    many = {in_words(draft(seed), "contains", "the labels", "red", labels) for seed in range(60)}
    one = {in_words(draft(seed), "contains", "the status", "red", status) for seed in range(60)}
    assert "the labels include red" in many
    assert "the status includes red" in one
    assert not any("the labels includes" in text for text in many)
