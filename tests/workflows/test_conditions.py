from dataclasses import replace

from lib.workflows.apis import Field, Operation
from lib.workflows.conditions import compared, is_testable
from lib.workflows.steps import Output


def output(*fields, step=0, name="When something happens"):
    api = Operation("c", "Op", name, "App", trigger=not step, returns=fields)
    return [Output(step, api, "x", one) for one in fields]


STATUS = Field("status", "choice", summary="status", examples=("Open", "Closed"))
AMOUNT = Field("total", "amount", summary="total", examples=(10, 20, 30, 40, 50, 60))


def test_what_can_be_tested():
    due, flag = Field("d", "date", summary="due date"), Field("b", "boolean", summary="folder flag")
    assert all(is_testable(field) for field in (STATUS, due, flag))
    one, code = replace(STATUS, examples=("Open",)), Field("s", "subject", summary="reference")
    assert not any(
        is_testable(field) for field in (one, code, replace(due, summary="date"), replace(flag, summary="x"))
    )


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
