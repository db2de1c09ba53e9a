"""Function definitions and Berkeley-style queries as they come from others."""

from __future__ import annotations

import json

import pytest

from lib.assistant.functions import read_function_queries
from lib.assistant.schemas import InputError
from lib.assistant.toolbox import Toolbox

LAMP = {
    "name": "home.set_lamp",
    "description": "Switch a lamp on or off.",
    "parameters": {
        "type": "dict",
        "properties": {
            "room": {"type": "string", "description": "Where the lamp is.", "enum": ["hall", "attic"]},
            "level": {"type": "float", "description": "Brightness from 0 to 1."},
            "timer": {
                "type": "dict",
                "description": "When to go off.",
                "properties": {"minutes": {"type": "integer", "description": "How long to wait."}},
            },
            "note": {"type": ["string", "null"]},
        },
        "required": ["room", "level"],
    },
}
BELL = {"name": "ring-bell", "description": "Ring.", "parameters": {"type": "object", "properties": {}}}
BARE = {"name": "wait"}


def as_lines(records):
    return "".join(json.dumps(record) + "\n" for record in records)


@pytest.fixture
def write(tmp_path):
    def write(text, name="functions.json"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text if isinstance(text, str) else json.dumps(text), encoding="utf-8")
        return path

    return write


def refused(call, *parts):
    with pytest.raises(InputError) as caught:
        call()
    for part in parts:
        assert part in str(caught.value)
    assert "\n" not in str(caught.value)


# ---------------------------------------------------------------- toolbox


@pytest.mark.parametrize(
    "text",
    [
        [LAMP, BELL, BARE],
        as_lines([{"type": "function", "function": LAMP}, BELL, BARE]),
        as_lines([{"id": "1", "question": "?", "function": [LAMP, BELL]}, {"id": "2", "function": BARE}]),
    ],
)
def test_every_form_gives_the_same_toolbox(write, text):
    toolbox = Toolbox.from_functions(write(text))
    assert [api.api for api in toolbox] == ["home.set_lamp", "ring-bell", "wait"]
    assert toolbox.functions == [LAMP, BELL, BARE]


def test_arguments_have_json_schema_types_and_the_text_says_all_that_search_sees(write):
    lamp = Toolbox.from_functions(write([LAMP]))["home.set_lamp"]
    types = {name: argument.type for name, argument in lamp.arguments.items()}
    assert types == {"room": "string", "level": "number", "timer": "object", "note": "any"}
    assert [name for name, argument in lamp.arguments.items() if argument.required] == ["room", "level"]
    assert lamp.text == (
        "home set lamp. Switch a lamp on or off. room: Where the lamp is.; level: Brightness from 0 to 1.; "
        "timer: When to go off.; note"
    )


def test_name_with_two_definitions_keeps_the_first_and_warns(write, caplog):
    other = LAMP | {"description": "Another lamp."}
    toolbox = Toolbox.from_functions(write(as_lines([LAMP, BELL, {"function": [BELL, other]}])))
    assert toolbox.functions == [LAMP, BELL]
    assert "home.set_lamp" in caplog.text
    assert "ring-bell" not in caplog.text


@pytest.mark.parametrize(
    ("records", "parts"),
    [
        ([LAMP, {"description": "d"}], ["record 2", "name"]),
        ([LAMP, {"name": "f", "parameters": []}], ["record 2", "f", "parameters"]),
        ([{"name": "f", "parameters": {"properties": {"x": 5}}}], ["record 1", "f", "parameters.properties.x"]),
        ([{"name": "default"}], ["default", "reserved"]),
        ([], ["no function"]),
        (as_lines([LAMP]) + "{", ["line 2", "not JSON"]),
        ("[" * 100_000, ["not JSON"]),
    ],
    ids=lambda value: str(value)[:60],
)
def test_wrong_functions(write, records, parts):
    path = write(records)
    refused(lambda: Toolbox.from_functions(path), "functions.json", *parts)


# ---------------------------------------------------------------- queries

LIT = [{"home.set_lamp": {"room": ["hall"], "level": [1]}}]
TWICE = [{"wait": {}}, {"ring-bell": {}}]
TURNS = [[{"role": "system", "content": "Be short."}, {"role": "user", "content": "Ring it."}], [], []]
RECORDS = [
    {"id": "q0", "question": "Make the hall brighter.", "function": [LAMP, BELL], "ground_truth": LIT},
    {"id": "q1", "question": TURNS, "function": BELL, "ground_truth": TWICE},
    {"id": "q2", "question": TURNS[0], "ground_truth": LIT},
    {"id": "q3", "question": "What is love?", "function": [BARE], "ground_truth": []},
]


def without_answers(records):
    return [{name: value for name, value in record.items() if name != "ground_truth"} for record in records]


@pytest.mark.parametrize("beside", [0, 2, 4])
def test_queries_with_their_answers_or_with_answers_beside_them(write, beside):
    truths = [{"id": record["id"], "ground_truth": record["ground_truth"]} for record in RECORDS]
    write(as_lines(truths[::-1]), "possible_answer/queries.json")
    path = write(as_lines(without_answers(RECORDS[:beside]) + RECORDS[beside:]), "queries.json")
    frame = read_function_queries(path)
    assert frame["query"].tolist() == ["q0", "q1", "q2", "q3"]
    assert frame["text"].tolist() == ["Make the hall brighter.", "Ring it.", "Ring it.", "What is love?"]
    assert frame["apis"].tolist() == [["home.set_lamp"], ["wait", "ring-bell"], ["home.set_lamp"], ["default"]]
    assert frame["place"].str.fullmatch(r".*queries\.json, line \d").all()
    assert set(frame["apis"].explode()) - {"default"} <= set(Toolbox.from_functions(path).apis), "one file is both"


GOOD = RECORDS[0]


@pytest.mark.parametrize(
    ("records", "parts"),
    [
        ([GOOD, GOOD], ["record 2", "q0", "twice"]),
        ([GOOD, {"question": "Ring."}], ["record 2", "id"]),
        ([GOOD, GOOD | {"id": "q1", "question": [[]]}], ["record 2", "q1", "question"]),
        ([GOOD, GOOD | {"id": "q1", "ground_truth": [{"f": {"x": 1}}]}], ["record 2", "q1", "ground_truth.0.f.x"]),
        ([GOOD, GOOD | {"id": "q1", "ground_truth": [{"f": {}, "g": {}}]}], ["record 2", "q1", "ground_truth"]),
        ([GOOD, without_answers([GOOD | {"id": "q1"}])[0]], ["q1", "ground_truth", "possible_answer"]),
        ([], ["no query"]),
        ("{", ["line 1", "not JSON"]),
    ],
    ids=lambda value: str(value)[-60:],
)
def test_wrong_queries(write, records, parts):
    path = write(records, "queries.json")
    refused(lambda: read_function_queries(path), "queries.json", *parts)


@pytest.mark.parametrize(
    ("truths", "parts"),
    [
        ([{"id": "q9", "ground_truth": LIT}], ["no ground_truth", "q0"]),
        ([{"id": "q0", "ground_truth": LIT}] * 2, ["record 2", "q0", "twice"]),
        ([{"id": "q0"}], ["record 1", "q0", "ground_truth"]),
    ],
)
def test_wrong_answers_beside_queries(write, truths, parts):
    write(truths, "possible_answer/queries.json")
    path = write(without_answers([GOOD]), "queries.json")
    refused(lambda: read_function_queries(path), "queries.json", "possible_answer", *parts)
