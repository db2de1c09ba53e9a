"""What flows do on mocked connectors."""

import time

import pytest

from lib.workflows.execution import Run, executed_alike, never_made, worlds
from lib.workflows.language import parse

TRIGGER = "x = await a.New();"


def flow(body):
    return parse(f"{TRIGGER} {body}")


def alike(body, gold, said=None):
    return executed_alike(flow(body), flow(gold), said)


@pytest.mark.parametrize(
    ("body", "gold"),
    [
        ("b.Do({'a': x?['body/id']});", "b.Do({'a': x?['body']?['id']});"),
        ("z = b.Get(); b.Do({'a': z?['id']});", "other = b.Get(); b.Do({'a': other?['id']});"),
        ("if (x?['n'] > 5) { b.A(); } else { b.B(); }", "if (x?['n'] <= 5) { b.B(); } else { b.A(); }"),
        ("if (x?['yes']) { b.A(); }", "if (x?['yes'] == true) { b.A(); }"),
        ("if (x?['s'] == 'a') { b.A(); } else if (x?['s'] == 'b') { b.B(); }",
         "if (x?['s'] == 'b') { b.B(); } else if (x?['s'] == 'a') { b.A(); }"),
        ("if (!contains(x?['s'], 'a') || x?['d'] < \"2024-05-01\") { b.A(); }",
         "if (!(contains(x?['s'], 'A') && x?['d'] >= '2024-05-01')) { b.A(); }"),
    ],
)  # fmt: skip
def test_flows_that_do_the_same(body, gold):
    assert alike(body, gold)
    assert alike(gold, body)


@pytest.mark.parametrize(
    ("body", "gold"),
    [
        ("b.A({'t': 1});", "b.A({'t': true});"),
        ("b.A({'t': nothing?['subject']});", "b.A({'t': x?['subject']});"),
        ("y = b.Get({'q': 'a'}); z = b.Get({'q': 'b'}); b.A({'t': y?['id']});",
         "y = b.Get({'q': 'a'}); z = b.Get({'q': 'b'}); b.A({'t': z?['id']});"),
        ("if (x?['n'] > 5) { b.A(); }", "if (x?['n'] >= 5) { b.A(); }"),
        ("if (contains(x?['s'], 'a') && contains(x?['s'], 'b')) { b.A(); }",
         "if (contains(x?['s'], 'a') || contains(x?['s'], 'b')) { b.A(); }"),
        ("if (startsWith(x?['s'], 'a')) { b.A(); }", "if (contains(x?['s'], 'a')) { b.A(); }"),
        ("if (x?['s'] == x?['t']) { b.A(); }", "if (contains(x?['s'], x?['t'])) { b.A(); }"),
        ("if (x?['s'] == '') { b.A(); }", "if (x?['s'] == null) { b.A(); }"),
    ],
)  # fmt: skip
def test_flows_that_do_something_else(body, gold):
    assert not alike(body, gold)
    assert not alike(gold, body)


def test_loops_run_none_one_and_two_times():
    loop = "for (i of x?['items']) { b.A({'t': i?['id']}); }"
    assert {len(Run(flow(loop), world).made) for world in worlds([flow(loop)])} == {1, 2, 3}
    assert alike(loop, "for (other of x?['items']) { b.A({'t': other?['id']}); }")
    assert not alike("b.A({'t': x?['items']?[0]?['id']});", loop)
    assert not alike("for (i of x?['others']) { b.A({'t': i?['id']}); }", loop)


def test_arguments_that_the_request_does_not_say_may_differ():
    wrong, right = "b.A({'said': 1, 'unsaid': 2});", "b.A({'said': 1, 'unsaid': 3});"
    assert not alike(wrong, right)
    assert alike(wrong, right, [[], ["said"]])
    assert alike("b.A({'said': 1});", right, [[], ["said"]])
    twice = "if (x?['n'] == 1) { b.A({'k': 1}); } b.A({'k': 2});"  # what is said belongs to a call, not to its place
    assert alike(twice.replace("1})", "9})"), twice, [[], [], ["k"]])
    assert not alike(twice.replace("2})", "9})"), twice, [[], [], ["k"]])
    assert not alike("b.A({'said': 2});", right, [[], ["said"]])
    with pytest.raises(ValueError, match="2 calls, and there are 1 lists"):
        alike(wrong, right, [["said"]])


@pytest.mark.parametrize(
    "condition",
    [
        " && ".join(f"x?['f{n}'] == 'v{n}'" for n in range(13)),
        " && ".join(f"contains(x?['f{n}'], 'v{n}')" for n in range(13)),
        "startsWith(x?['t'], 'ab') && contains(x?['t'], 'q') && endsWith(x?['t'], 'z')",
    ],
    ids=["several equal", "several texts", "one text"],
)
def test_what_stands_behind_too_many_tests_for_all_worlds_is_seen(condition):
    right, other = (flow(f"if ({condition}) {{ {call} }}") for call in ("b.P();", "b.Q();"))
    assert never_made(right) == []
    assert executed_alike(right, right)
    assert not executed_alike(other, right)


def test_calls_that_no_world_makes_are_found():
    dead = flow("if (x?['s'] != 'a') { b.A(); } else if (x?['s'] == 'b') { b.B(); } else { b.C(); }")
    assert [call.api for call in never_made(dead)] == ["b.B"]
    assert never_made(flow("if (x?['s'] != 'a') { b.A(); } else { b.C(); } for (i of x?['l']) { b.D(); }")) == []


@pytest.mark.parametrize(
    ("body", "gold"),
    [
        ("if (x?['n'] < x?['m']) { b.A(); }", "if (x?['n'] > x?['m']) { b.A(); }"),  # two contents
        ("", "if (x?['n'] > 1 && x?['n'] < 2) { b.A(); }"),  # nothing lies between but a fraction
        ("if (x?['n'] >= 0.8) { b.A(); } else if (x?['n'] > 0.7) { b.B(); }",
         "if (x?['n'] >= 0.8) { b.A(); } else if (x?['n'] > 0.7) { b.C(); }"),
        ("if (contains('high', x?['s'])) { b.A(); }", "if (x?['s'] == 'high') { b.A(); }"),  # the constant on the left
        ("if (startsWith('high', x?['s'])) { b.A(); }", "if (contains('high', x?['s'])) { b.A(); }"),
    ],
)  # fmt: skip
def test_numbers_texts_and_near_constants_are_told_apart(body, gold):
    assert executed_alike(flow(gold), flow(gold), types=number_of_m)
    assert never_made(flow(gold), number_of_m) == []
    assert not executed_alike(flow(body), flow(gold), types=number_of_m)
    assert not executed_alike(flow(gold), flow(body), types=number_of_m)


def number_of_m(content):
    return "number" if content.path in (("n",), ("m",)) else ""


def test_loops_inside_each_other_do_not_take_forever():
    def nested(depth, call):
        head = "".join(f'for (v{n} of {f"v{n - 1}" if n else "x"}?["l{n}"]) {{ ' for n in range(depth))
        return flow(head + call + " }" * depth)

    start = time.process_time()
    assert executed_alike(nested(16, "b.P({'t': v15?['id']});"), nested(16, "b.P({'t': v15?['id']});"))
    assert time.process_time() - start < 20
    assert never_made(nested(16, "b.P();")) == []


def test_very_large_numbers_are_compared():
    gold = flow(f"if (x?['n'] > {'9' * 40}) {{ b.A(); }} else if (x?['n'] > 1) {{ b.B(); }}")
    assert executed_alike(gold, gold, types=lambda content: "integer")


DECLARED = {("size",): "integer", ("open",): "boolean", ("subject",): "string", ("list",): "array"}


def typed(content):
    return DECLARED.get(content.path, "")


@pytest.mark.parametrize(
    ("body", "gold"),
    [
        ("if (x?['size'] > 5.5) { b.A(); }", "if (x?['size'] > 5) { b.A(); }"),  # no whole number lies between
        ("if (x?['size'] != \"5\") { b.A(); }", "b.A();"),  # a number is never a text
        ("if (x?['subject'] == 5) { b.A(); }", "if (x?['subject'] == true) { b.A(); }"),  # neither is ever so
        ("for (i of x?['subject']) { b.A(); }", "if (x?['subject'] == 5) { b.A(); }"),  # no list, so no item
    ],
)
def test_payloads_have_the_types_that_schemas_declare(body, gold):
    assert executed_alike(flow(body), flow(gold), types=typed)
    assert not alike(body, gold), "where no type is known, each may be so"


def test_a_field_of_any_type_may_be_missing_where_a_test_asks():
    gold = flow("if (x?['size'] == null) { b.A(); }")
    assert executed_alike(gold, gold, types=typed)
    for other in ("if (x?['size'] == null) { b.C(); }", "if (x?['size'] != null) { b.A(); }", "b.A();"):
        assert not executed_alike(flow(other), gold, types=typed), other
    assert never_made(gold, typed) == []
