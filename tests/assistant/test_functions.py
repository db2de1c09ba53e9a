"""Function definitions and Berkeley-style queries as they come from others."""

from __future__ import annotations

import json

import pytest

from lib.assistant.functions import read_function_queries
from lib.assistant.plans import ast_match
from lib.assistant.schemas import InputError
from lib.assistant.toolbox import Toolbox
from lib.workbook.artifacts import ROOT

LAMP = {
    "name": "home.set_lamp",
    "description": "Switch a lamp on or off.",
    "parameters": {
        "type": "dict",
        "properties": {
            "room": {"type": "string", "description": "Where the lamp is.", "enum": ["hall", "attic"]},
            "level": {"type": "float", "description": "Brightness from 0 to 1."},
            "colours": {"type": "array", "items": {"type": "string"}, "description": "Colours to cycle through."},
            "timer": {
                "type": "dict",
                "description": "When to go off.",
                "properties": {
                    "minutes": {"type": "integer", "description": "How long to wait."},
                    "days": {"type": "array", "items": {"type": "dict", "properties": {"name": {"enum": ["Mon"]}}}},
                },
            },
            "span": {"type": "tuple", "items": {"type": "integer"}},
            "note": {"type": ["string", "null"]},
            "either": {"type": ["string", "integer"]},
            "extra": {"$ref": "#/definitions/extra", "description": "Whatever else."},
        },
        "required": ["room", "level"],
    },
}
BELL = {"name": "ring-bell", "description": "Ring.", "parameters": {"type": "object", "properties": {}}}
BARE = {"name": "wait"}


def as_lines(records):
    return "".join(json.dumps(record) + "\n" for record in records)


def wrapped(definition):
    return {"type": "function", "function": definition}


@pytest.fixture
def write(tmp_path):
    def write(text, name="functions.json"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text if isinstance(text, str) else json.dumps(text), encoding="utf-8")
        return path

    return write


def test_the_example_of_the_readme_is_a_query_with_its_answer(write):
    text = (ROOT / "data" / "README.md").read_text(encoding="utf-8")
    section = text.split("\n## Your own functions and queries")[1].split("\n## ")[0]
    path = write(section.split("```json\n")[1].split("```")[0])
    (query,) = read_function_queries(path).itertuples()
    assert (query.apis, query.functions) == (["tide_table"], ["tide_table"])
    assert ast_match('tide_table(harbour="Whitby")', query.answers, Toolbox.from_functions(path).functions)


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
        json.dumps([LAMP, BELL, BARE], indent=2),
        as_lines([LAMP, BELL, BARE]),
        "\ufeff" + as_lines([LAMP, BELL, BARE]),
        as_lines([wrapped(LAMP), BELL, wrapped(BARE)]),
        as_lines([{"id": "1", "question": "?", "function": [LAMP, BELL]}, {"id": "2", "function": BARE}]),
        {"id": "1", "question": "?", "function": [wrapped(LAMP), BELL, BARE]},
        [LAMP, BELL, LAMP, BARE, wrapped(LAMP)],
    ],
)
def test_every_form_gives_the_same_toolbox(write, text, caplog):
    toolbox = Toolbox.from_functions(write(text))
    assert [api.api for api in toolbox] == ["home.set_lamp", "ring-bell", "wait"]
    assert toolbox.functions == [LAMP, BELL, BARE]
    assert "home.set_lamp" in toolbox
    assert not caplog.records


def test_single_object(write):
    assert Toolbox.from_functions(write(LAMP)).functions == [LAMP]


def test_arguments_have_json_schema_types(write):
    arguments = Toolbox.from_functions(write([LAMP]))["home.set_lamp"].arguments
    assert {name: argument.type for name, argument in arguments.items()} == {
        "room": "string",
        "level": "number",
        "colours": "array",
        "timer": "object",
        "span": "array",
        "note": "any",
        "either": "any",
        "extra": "any",
    }
    assert [name for name, argument in arguments.items() if argument.required] == ["room", "level"]


def test_null_is_as_good_as_absent(write):
    record = {"name": "f", "description": None, "parameters": {"properties": {"x": {"type": None}}}}
    api = Toolbox.from_functions(write([record, {"name": "g", "parameters": None}]))["f"]
    assert (api.description, api.arguments["x"].type, api.arguments["x"].required) == ("", "any", False)


def test_name_with_two_definitions_keeps_the_first_and_warns(write, caplog):
    other = LAMP | {"description": "Another lamp."}
    toolbox = Toolbox.from_functions(write(as_lines([LAMP, BELL, {"function": [BELL, other]}, other])))
    assert toolbox.functions == [LAMP, BELL]
    [record] = caplog.records
    assert record.levelname == "WARNING"
    for part in ("functions.json", "line 3", "home.set_lamp"):
        assert part in record.getMessage()
    assert "ring-bell" not in record.getMessage()


@pytest.mark.parametrize(
    ("records", "parts"),
    [
        ([LAMP, {"description": "d"}], ["record 2", "name"]),
        ([LAMP, {"name": ""}], ["record 2", "name"]),
        ([LAMP, {"name": "set lamp"}], ["record 2", "name"]),
        ([LAMP, {"name": 5}], ["record 2", "name"]),
        ([LAMP, {"name": "f", "description": ["d"]}], ["record 2", "description"]),
        ([LAMP, {"name": "f", "parameters": []}], ["record 2", "f", "parameters"]),
        ([{"name": "f", "parameters": {"properties": []}}], ["record 1", "f", "parameters.properties"]),
        ([{"name": "f", "parameters": {"properties": {"x": 5}}}], ["record 1", "f", "parameters.properties.x"]),
        ([{"name": "f", "parameters": {"required": "y"}}], ["record 1", "f", "parameters.required"]),
        ([{"id": "q", "function": [BELL, {}]}], ["record 1", "function 2", "name"]),
        ([LAMP, "wait"], ["record 2"]),
        ([LAMP, None], ["record 2"]),
        ([{"name": "default"}], ["default", "reserved"]),
        ([], ["no function"]),
        ([{"id": "q", "function": []}], ["no function"]),
        ("", ["no function"]),
        ("5", ["record 1"]),
        ("[{]", ["not JSON"]),
        (as_lines([LAMP]) + "{", ["line 2", "not JSON"]),
        (as_lines([LAMP]) + "[]", ["line 2", "object"]),
        ("[" * 100_000, ["not JSON"]),
        ('{"a":' * 100_000, ["not JSON"]),
        ("\x00", ["not JSON"]),
    ],
    ids=lambda value: str(value)[:60],
)
def test_wrong_functions(write, records, parts):
    path = write(records)
    refused(lambda: Toolbox.from_functions(path), "functions.json", *parts)


def test_functions_that_cannot_be_read(tmp_path):
    refused(lambda: Toolbox.from_functions(tmp_path / "none.json"), "none.json")
    refused(lambda: Toolbox.from_functions(tmp_path), tmp_path.name)
    (tmp_path / "latin.json").write_bytes(b"\xff\xfe{")
    refused(lambda: Toolbox.from_functions(tmp_path / "latin.json"), "latin.json")


def test_our_own_toolbox_as_functions(toolbox, write):
    assert toolbox.functions[0] == {
        "name": "play_song",
        "description": "Start playing one particular track.",
        "parameters": {
            "type": "object",
            "properties": {
                "song": {"type": "string", "description": "title of the track"},
                "artist": {"type": "string", "description": "who performs it"},
            },
            "required": ["song"],
        },
    }
    back = Toolbox.from_functions(write(toolbox.functions))
    assert back.functions == toolbox.functions
    for ours, theirs in zip(toolbox, back, strict=True):
        assert theirs.app is None
        assert {name: (a.description, a.type, a.required) for name, a in ours.arguments.items()} == {
            name: (a.description, a.type, a.required) for name, a in theirs.arguments.items()
        }
        assert theirs.text == ours.text


# ---------------------------------------------------------------- queries

LIT = [{"home.set_lamp": {"room": ["hall"], "level": [0.5, 1], "note": ["dim", ""]}}]
TWICE = [{"wait": {}}, {"ring-bell": {}}]
TURNS = [
    [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Ring it."}],
    [{"role": "user", "content": "Again."}],
]
RECORDS = [
    {"id": "q0", "question": "Make the hall brighter.", "function": [LAMP, BELL], "ground_truth": LIT},
    {"id": "q1", "question": TURNS, "function": BELL, "ground_truth": TWICE},
    {"id": "q2", "question": TURNS[0], "answers": LIT},
    {"id": "q3", "question": "What is love?", "function": [wrapped(BARE)], "ground_truth": []},
]


def without_answers(records):
    return [{key: part for key, part in record.items() if key not in ("ground_truth", "answers")} for record in records]


def check_frame(frame):
    assert list(frame.columns) == ["query", "text", "apis", "answers", "functions", "place"]
    assert frame["place"].str.fullmatch(r".*queries\.json, (record|line) \d").all()
    assert frame["query"].tolist() == ["q0", "q1", "q2", "q3"]
    assert frame["text"].tolist() == ["Make the hall brighter.", "Ring it.", "Ring it.", "What is love?"]
    assert frame["apis"].tolist() == [["home.set_lamp"], ["wait", "ring-bell"], ["home.set_lamp"], ["default"]]
    assert frame["answers"].tolist() == [LIT, TWICE, LIT, [{"default": {}}]]
    assert frame["functions"].tolist() == [["home.set_lamp", "ring-bell"], ["ring-bell"], [], ["wait"]]


@pytest.mark.parametrize("text", [RECORDS, as_lines(RECORDS)], ids=["list", "lines"])
def test_queries_with_their_answers(write, text):
    check_frame(read_function_queries(write(text, "queries.json")))


def test_queries_with_answers_beside_them(write):
    truths = [{"id": r["id"], "ground_truth": r.get("ground_truth", r.get("answers"))} for r in RECORDS]
    write(as_lines(truths[::-1]), "possible_answer/queries.json")
    check_frame(read_function_queries(write(as_lines(without_answers(RECORDS)), "queries.json")))
    check_frame(read_function_queries(write(as_lines(without_answers(RECORDS[:2]) + RECORDS[2:]), "queries.json")))


def test_one_file_is_both_toolbox_and_queries(write):
    path = write(as_lines(RECORDS), "queries.json")
    toolbox, queries = Toolbox.from_functions(path), read_function_queries(path)
    assert {name for names in queries["apis"] for name in names} - {"default"} <= set(toolbox.apis)
    match = ast_match("home.set_lamp(level=1, room='Hall')", queries["answers"][0], toolbox.functions)
    assert match, match.reason
    assert ast_match("ring-bell()\nwait()", queries["answers"][1], toolbox.functions)
    assert ast_match("default()", queries["answers"][3], toolbox.functions)


def test_queries_without_functions_need_a_toolbox(write):
    path = write(as_lines([RECORDS[2]]), "queries.json")
    refused(lambda: Toolbox.from_functions(path), "queries.json: holds no function", "toolbox_file")


GOOD = RECORDS[0]


@pytest.mark.parametrize(
    ("records", "parts"),
    [
        ([GOOD, GOOD], ["record 2", "q0", "twice"]),
        ([GOOD, GOOD | {"id": ""}], ["record 2", "id"]),
        ([GOOD, GOOD | {"id": 5}], ["record 2", "id"]),
        ([GOOD, {"question": "Ring."}], ["record 2", "id"]),
        ([GOOD, {"id": "q1", "ground_truth": LIT}], ["record 2", "q1", "question"]),
        ([GOOD, GOOD | {"id": "q1", "question": " "}], ["record 2", "q1", "question"]),
        ([GOOD, GOOD | {"id": "q1", "question": []}], ["record 2", "q1", "question"]),
        ([GOOD, GOOD | {"id": "q1", "question": [[]]}], ["record 2", "q1", "question"]),
        ([GOOD, GOOD | {"id": "q1", "question": TURNS[0][:1]}], ["record 2", "q1", "question"]),
        ([GOOD, GOOD | {"id": "q1", "question": [{"role": "user"}]}], ["record 2", "q1", "question"]),
        ([GOOD, GOOD | {"id": "q1", "ground_truth": "f(x=1)"}], ["record 2", "q1", "ground_truth"]),
        ([GOOD, GOOD | {"id": "q1", "ground_truth": [{"f": {"x": 1}}]}], ["record 2", "q1", "ground_truth.0.f.x"]),
        ([GOOD, GOOD | {"id": "q1", "ground_truth": [{"f": {}, "g": {}}]}], ["record 2", "q1", "ground_truth"]),
        ([GOOD, GOOD | {"id": "q1", "function": [{"x": 1}]}], ["record 2", "q1", "function 1", "name"]),
        ([GOOD, GOOD | {"id": "q1", "function": "f"}], ["record 2", "q1", "function 1", "name"]),
        ([GOOD, without_answers([GOOD | {"id": "q1"}])[0]], ["q1", "ground_truth", "possible_answer"]),
        ([GOOD, 5], ["record 2"]),
        ([], ["no query"]),
        ("", ["no query"]),
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
        ([{"id": "q9", "ground_truth": LIT}], ["no answers", "q0"]),
        ([{"id": "q0", "ground_truth": LIT}] * 2, ["record 2", "q0", "twice"]),
        ([{"id": "q0", "ground_truth": [["f(x=1)"]]}], ["record 1", "q0", "ground_truth.0"]),
        ([{"id": "q0"}], ["record 1", "q0", "ground_truth"]),
    ],
)
def test_wrong_answers_beside_queries(write, truths, parts):
    write(truths, "possible_answer/queries.json")
    path = write(without_answers([GOOD]), "queries.json")
    refused(lambda: read_function_queries(path), "queries.json", "possible_answer", *parts)
