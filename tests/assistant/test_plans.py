"""Plans: parsing that evaluates nothing, the Berkeley matching rules one by one, and what holds for any plan."""

import itertools
import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lib.assistant.plans import MAX_CHARACTERS, PlanError, api_names, ast_match, parse_plan
from lib.assistant.queries import print_call
from lib.assistant.schemas import InputError

relaxed = settings(
    deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture], database=None
)


def function(name="f", required=(), **properties):
    properties = {key: value if isinstance(value, dict) else {"type": value} for key, value in properties.items()}
    return {"name": name, "parameters": {"type": "dict", "properties": properties, "required": list(required)}}


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        ("a(x=1); b(y=2)", [("a", {"x": 1}), ("b", {"y": 2})]),
        ("[a(x=1), b.c(y=2)]", [("a", {"x": 1}), ("b.c", {"y": 2})]),
        ('f(a=[True, None], b={"k": [-1.5]}, c=(1, 2))', [("f", {"a": [True, None], "b": {"k": [-1.5]}, "c": [1, 2]})]),
        ('f(a="call(x=1); \\"b\\"", b="\\d")', [("f", {"a": 'call(x=1); "b"', "b": "\\d"})]),
        ('send_mail(from="a", class="b")', [("send_mail", {"from": "a", "class": "b"})]),
        ("sign-in(user='is'); or-x(in='for x(y=1)')", [("sign-in", {"user": "is"}), ("or-x", {"in": "for x(y=1)"})]),
        ("3d_render(a=1)\nadmin/list(b=2)", [("3d_render", {"a": 1}), ("admin/list", {"b": 2})]),
        ("f(page-size=5, $top=1, a.b=2)", [("f", {"page-size": 5, "$top": 1, "a.b": 2})]),
        ('f(a="""x:\n  y(z=1)""", from=2)', [("f", {"a": "x:\n  y(z=1)", "from": 2})]),
        ("```python\nf(a=1)\n```", [("f", {"a": 1})]),
        ("`f(a=1)`", [("f", {"a": 1})]),
        ("```f(a=1)```", [("f", {"a": 1})]),
        ('```\nsave-note(a="""b\n```\nc""")\n```', [("save-note", {"a": "b\n```\nc"})]),
        ("f(a=1), g(b=2)", [("f", {"a": 1}), ("g", {"b": 2})]),
    ],
)
def test_what_is_a_plan(text, calls):
    assert repr(parse_plan(text)) == repr(calls), "True is not 1, nor 1.0"


HOSTILE = {
    "empty": "",
    "prose": "I would play the song.",
    "positional": "f(1)",
    "double star": "f(**{'x': 1})",
    "twice": "f(x=1, x=1)",
    "twice under a keyword": "f(from=1, from=2)",
    "twice under no identifier": "f(page-size=1, page-size=2)",
    "key no text": "f(x={1: 2})",
    "name as value": "f(x=y)",
    "power": "f(x=10**10**10)",
    "unhashable key": "f(x={[1]: 2})",
    "difference": "f() - g(x=1)",
    "infinite": "f(x=1e999)",
    "nested lists": f"f(x={'[' * 99}{']' * 99})",
    "surrogate": "f(x='\ud800')",
    "megabytes": "f(x='" + "a" * 5_000_000 + "')",
    "one long name": "a." * (MAX_CHARACTERS // 2),
    "quotes": "'" * MAX_CHARACTERS,
}
for opening, closing in [("(", ")"), ("[", "]"), ("{'a':", "}"), ("f(x=", ")"), ("-", ""), ("not ", "")]:
    for number in (201, 15_000):
        HOSTILE[f"deep {opening} {number}"] = f"f(x={opening * number}1{closing * number})"
        HOSTILE[f"deep and open {opening} {number}"] = f"f(x={opening * number}"


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_hostile_text_is_an_unparsed_plan(text):
    with pytest.raises(PlanError) as caught:
        parse_plan(text)
    assert len(str(caught.value)) < 300
    str(caught.value).encode()
    result = ast_match(text, [{"f": {"x": [1]}}], [function(x="integer")])
    assert (bool(result), result.category) == (False, "unparsed")
    assert all(isinstance(name, str) for name in api_names(text))


@given(st.text(max_size=200) | st.text(st.sampled_from("f(x=[{'\"1,-:;}]).\\\n *#"), max_size=60))
@relaxed
def test_no_text_raises_anything_else(text):
    try:
        parse_plan(text)
    except PlanError:
        assert ast_match(text, [{"f": {}}], []).category == "unparsed"
    assert all(isinstance(name, str) for name in api_names(text))


def test_nothing_is_evaluated(tmp_path):
    path = tmp_path / "evaluated"
    for text in (f"open({str(path)!r}, 'w')", f"f(x=open({str(path)!r}, 'w'))", f"f(x=f'{{open({str(path)!r}, 1)}}')"):
        assert not ast_match(text, [{"f": {"x": [1]}}], [function(x="integer")])
    assert not path.exists()


AREA = function("math.area", ["base", "height"], base="integer", height="float", unit="string")
AREA_ANSWER = [{"math.area": {"base": [10], "height": [5, 6.5], "unit": ["cm", "centimetre", ""]}}]


@pytest.mark.parametrize(
    ("predicted", "category"),
    [
        ("math.area(base=10, height=5)", None),
        ("math.area(base=10, height=5, unit='')", None),
        ("area(base=10, height=5)", "wrong_api"),
        ("math.area(base=10)", "missing_argument"),
        ("math.area(base=10, height=5, colour='red')", "extra_argument"),
        ("math.area(base=10.0, height=5)", "wrong_type"),
        ("math.area(base=11, height=5)", "wrong_value"),
        ("math.area(base=10, height=5)\nmath.area(base=10, height=5)", "wrong_number_of_calls"),
    ],
)
def test_rules_for_one_call(predicted, category):
    for answers, functions in [(AREA_ANSWER, [AREA]), (json.dumps(AREA_ANSWER), [function("other"), AREA])]:
        result = ast_match(predicted, answers, functions)
        assert (result.category, bool(result), bool(result.sentence)) == (category, category is None, bool(category))


def test_an_argument_is_due_where_function_or_answer_says_so():
    functions = [function(required=["x"], x="integer", unit="string")]
    assert ast_match("f(x=1)", [{"f": {"x": [1], "unit": ["cm", ""]}}], functions)
    assert ast_match("f(x=1)", [{"f": {"x": [1], "unit": ["cm"]}}], functions).category == "missing_argument"
    assert ast_match("f(x=1, unit='cm')", [{"f": {"x": [1]}}], functions).category == "extra_argument"
    assert ast_match("f()", [{"f": {"x": [1, ""]}}], functions).category == "missing_argument"


def test_texts_are_compared_without_case_spaces_and_some_punctuation():
    functions, answers = [function(x="string")], [{"f": {"x": ["April 1, 2024"]}}]
    for text, same in {"April 1, 2024": True, "A.p_r*i^l 1 2024": True, "April 1, 2024!": False}.items():
        assert bool(ast_match(print_call("f", {"x": text}), answers, functions)) == same


NUMBERS = {"type": "array", "items": {"type": "integer"}}
FLOATS = {"type": "array", "items": {"type": "float"}}
PERSON = {"type": "dict", "properties": {"name": {"type": "string"}, "age": {"type": "integer"}}}
PEOPLE = {"type": "array", "items": PERSON}
ANA = {"name": ["Ana Ruiz", "Ana"], "age": [30, ""]}
BO = {"name": ["Bo"], "age": [4]}


@pytest.mark.parametrize(
    ("schema", "acceptable", "value", "category"),
    [
        (NUMBERS, [[1, 2]], "[1, 2]", None),
        (NUMBERS, [[1, 2]], "[2, 1]", "wrong_value"),
        (NUMBERS, [[1, 2]], "[1, 2.0]", "wrong_type"),
        (FLOATS, [[1.0, 2.5]], "[1, 2.5]", None),
        ({"type": "tuple"}, [[1, 2]], "(1, 2)", None),
        (PERSON, [ANA], "{'name': 'ana ruiz', 'age': 30}", None),
        (PERSON, [ANA], "{'age': 30}", "wrong_value"),
        (PERSON, [ANA], "{'name': 'Ana', 'city': 'Rome'}", "wrong_value"),
        (PERSON, [{"name": "Ana", "age": 30}], "{'name': 'Ana', 'age': 30}", None),
        (PEOPLE, [[ANA, BO]], "[{'name': 'Ana'}, {'name': 'Bo', 'age': 4}]", None),
        ({"type": "dict"}, [{"who": [ANA]}], "{'who': {'name': 'Bo'}}", "wrong_value"),
        ({"type": "boolean"}, [True], "1", "wrong_type"),
        ({"type": ["string", "null"]}, [None], "None", None),
        ({"type": ["integer", "string"]}, ["5"], "5", "wrong_value"),
        ({"type": "any"}, [5], "5.0", "wrong_type"),
        ({"$ref": "#/definitions/x"}, [[1, "a"]], "[True, 'A']", "wrong_type"),
        ({"type": "string"}, [5], "5", None),
        ({"type": "integer"}, [""], "5", "wrong_value"),
    ],
)
def test_rules_for_values(schema, acceptable, value, category):
    assert ast_match(f"f(x={value})", [{"f": {"x": acceptable}}], [function(x=schema)]).category == category


def test_default_has_no_definition():
    assert ast_match("default()", [{"default": {}}], [AREA])
    assert ast_match("default(x=1)", [{"default": {}}], [AREA]).category == "extra_argument"
    assert ast_match("math.area(base=10, height=5)", [{"default": {}}], [AREA]).category == "wrong_api"
    assert ast_match("default()", AREA_ANSWER, [AREA]).category == "wrong_api"


FG = [function("f", x="integer", y="integer"), function("g", x="integer")]
CALLS = {
    "f(x=1)\nf(x=2)\ng(x=3)": None,
    "f(x=1); f(x=1); g(x=3)": "wrong_value",
    "g(x=3); f(y=2, x=9); f(x=1)": "extra_argument",
}


@pytest.mark.parametrize("predicted", CALLS)
def test_rules_for_several_calls_in_any_order(predicted):
    for answers in itertools.permutations([{"f": {"x": [1]}}, {"f": {"x": [2]}}, {"g": {"x": [3]}}]):
        assert ast_match(predicted, list(answers), FG).category == CALLS[predicted]


def test_matching_is_not_greedy():
    """The first call fits both answers, the second only the first one."""
    for answers in itertools.permutations([{"f": {"x": [1, 2]}}, {"f": {"x": [1]}}]):
        assert ast_match("f(x=1)\nf(x=2)", list(answers), FG)
        assert ast_match("f(x=2)\nf(x=1)", list(answers), FG)


@pytest.mark.parametrize(
    "answers", ["[", "5", [5], {"f": {}}, [{"f": []}], [{"f": {"x": 1}}], None, "[" * 100_000], ids=lambda a: str(a)[:9]
)
def test_answers_in_another_format(answers):
    with pytest.raises(InputError, match="answers"):
        ast_match("f(x=1)", answers, [])


NAMES = {
    "3d_render(x=1)\nmath.area(y=2)\nadmin/list(z=3)": ["3d_render", "math.area", "admin/list"],
    'f(x="g(y=1)\nh(z=2)': ["f", "h"],
    'f(x="call Bo (at work)", y=z)': ["f"],
    "no tool (sorry)": [],
    '1.admin/tools/list(path="a': ["admin/tools/list"],
    '- 3d_render(a="b': ["3d_render"],
    "get:item(a=": ["get:item"],
}


@pytest.mark.parametrize("text", NAMES)
def test_api_names(text):
    assert api_names(text) == NAMES[text]


def test_an_api_is_named_before_an_opening_parenthesis():
    for text in ("f(x=1)", "f(1)", "f(", "math.area(base=", "nothing at all", "", 'f(x="g(y)'):
        assert set(api_names(text)) <= {"f", "math.area"}
    for text in ("g(x=1)", "g(1)", "g(", "f(x=1)\ng(", "area(x=1)", "Default()"):
        assert not set(api_names(text)) <= {"f", "math.area"}


# Not the empty text: among acceptable values it says that the argument may be left out.
strings = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)
scalars = st.one_of(strings, st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.none())
nested = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(strings, inner, max_size=3), max_leaves=6
)
given_arguments = st.dictionaries(st.sampled_from(["song", "count", "on", "names"]), nested, max_size=4)
calls = st.tuples(st.sampled_from(["play", "music.play", "get-song"]), given_arguments)
plans = st.lists(calls, min_size=1, max_size=4)


def print_plan(calls):
    return "\n".join(print_call(*call) for call in calls)


def acceptable(value):
    """A value as an answer has it: the values of a dict are lists of acceptable values."""
    if isinstance(value, dict):
        return {key: [acceptable(part)] for key, part in value.items()}
    return [acceptable(part) for part in value] if isinstance(value, list) else value


def answers_of(calls):
    return [{name: {key: [acceptable(value)] for key, value in arguments.items()}} for name, arguments in calls]


@given(plans)
@relaxed
def test_printed_plan_parses_back(calls):
    text = print_plan(calls)
    assert repr(parse_plan(text)) == repr(calls), "True is not 1, nor 1.0"
    assert text.count("\n") == len(calls) - 1, "a call stands in one line"


@given(plans, st.randoms(use_true_random=False))
@relaxed
def test_a_plan_matches_itself_in_any_order_of_calls_and_arguments(calls, random):
    shuffled = [(name, dict(random.sample(list(args.items()), len(args)))) for name, args in calls]
    random.shuffle(shuffled)
    assert ast_match(print_plan(shuffled), answers_of(calls), [])
