"""Function definitions and queries as they come from others, and how well functions are found."""

import json

import numpy as np
import pandas as pd
import pytest

from lib.assistant import functions as module
from lib.assistant.functions import phrases_of, plain_schema, read_function_queries, search_tools
from lib.assistant.toolbox import Toolbox
from tests.assistant.conftest import letters, refused

MINUTES = {"type": "integer", "description": "How long to wait."}
FIELDS = {
    "room": {"type": "string", "description": "Where the lamp is.", "enum": ["hall", "attic"]},
    "level": {"type": "float", "description": "Brightness from 0 to 1."},
    "timer": {"type": "dict", "description": "When to go off.", "properties": {"minutes": MINUTES}},
    "note": {"type": ["string", "null"]},
}
LAMP = {
    "name": "home.set_lamp",
    "description": "Switch a lamp on or off.",
    "parameters": {"type": "dict", "properties": FIELDS, "required": ["room", "level"]},
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


@pytest.mark.parametrize("first", [{"type": "function", "function": LAMP}, {"question": "?", "function": [LAMP]}])
def test_every_form_gives_the_same_toolbox(write, first):
    toolbox = Toolbox.from_functions(write(as_lines([first, {"function": [BELL, BARE]}])))
    assert list(toolbox) == ["home.set_lamp", "ring-bell", "wait"]
    assert [api.function for api in toolbox.values()] == [LAMP, BELL, BARE]


def test_arguments_have_json_schema_types_and_the_text_says_all_that_search_sees(write):
    lamp = Toolbox.from_functions(write([LAMP]))["home.set_lamp"]
    types = {name: argument.type for name, argument in lamp.arguments.items()}
    assert types == {"room": "string", "level": "number", "timer": "object", "note": "string"}
    assert [name for name, argument in lamp.arguments.items() if argument.required] == ["room", "level"]
    assert lamp.text == (
        "home set lamp. Switch a lamp on or off. room: Where the lamp is.; level: Brightness from 0 to 1.; "
        "timer: When to go off.; minutes: How long to wait.; note"
    )


def test_name_with_two_definitions_keeps_the_first_and_warns(write, caplog):
    other = LAMP | {"description": "Another lamp."}
    toolbox = Toolbox.from_functions(write(as_lines([LAMP, BELL, {"function": [BELL, other]}])))
    assert [api.function for api in toolbox.values()] == [LAMP, BELL]
    assert "home.set_lamp" in caplog.text
    assert "ring-bell" not in caplog.text


@pytest.mark.parametrize(
    ("records", "parts"),
    [
        ([LAMP, {"description": "d"}], ["record 2", "name"]),
        ([{"name": "f", "parameters": {"properties": {"x": 5}}}], ["record 1", "f", "parameters.properties.x"]),
        ([], ["no function"]),
    ],
    ids=lambda value: str(value)[:60],
)
def test_wrong_functions(write, records, parts):
    path = write(records)
    refused(lambda: Toolbox.from_functions(path), "functions.json", *parts)


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


@pytest.mark.parametrize("beside", [0, 2])
def test_queries_with_their_answers_or_with_answers_beside_them(write, beside):
    truths = [{"id": record["id"], "ground_truth": record["ground_truth"]} for record in RECORDS]
    write(as_lines(truths[::-1]), "possible_answer/queries.json")
    path = write(as_lines(without_answers(RECORDS[:beside]) + RECORDS[beside:]), "queries.json")
    frame = read_function_queries(path)
    assert frame["query"].tolist() == ["q0", "q1", "q2", "q3"]
    assert frame["text"].tolist() == ["Make the hall brighter.", "Ring it.", "Ring it.", "What is love?"]
    assert frame["apis"].tolist() == [["home.set_lamp"], ["wait", "ring-bell"], ["home.set_lamp"], []]
    assert frame["place"].str.fullmatch(r".*queries\.json, line \d").all()
    assert set(frame["apis"].explode().dropna()) <= set(Toolbox.from_functions(path)), "one file is both"


OWN = {
    "own.json": [{"query": "Ring.", "tools": ["ring-bell"]}, {"text": " Sleep ", "tool": "wait"}],
    "own.jsonl": as_lines(
        [{"request": "Ring.", "expected": [{"ring-bell": {"loud": True}}]}, {"input": "Sleep", "tool": "wait"}]
    ),
    "own.csv": "\ufeffquestion,answer\nRing.,ring-bell\nSleep,wait\n",
}


@pytest.mark.parametrize("name", OWN)
def test_names_alone_are_labels(write, name):
    frame = read_function_queries(write(OWN[name], name))
    assert frame[["query", "text"]].to_numpy().tolist() == [["1", "Ring."], ["2", "Sleep"]]
    assert frame["apis"].tolist() == [["ring-bell"], ["wait"]]


def test_several_names_in_a_table_and_none(write):
    frame = read_function_queries(write("query,tools\nBoth,ring-bell; wait\nNone,\n", "own.csv"))
    assert frame["apis"].tolist() == [["ring-bell", "wait"], []]


def test_an_id_of_zero_and_a_question_under_a_later_key(write):
    ring = {"id": 0, "question": None, "query": "Ring.", "tool": "ring-bell"}
    frame = read_function_queries(write([ring, ring | {"id": 1, "question": ""}], "own.json"))
    assert frame[["query", "text"]].to_numpy().tolist() == [["0", "Ring."], ["1", "Ring."]]


def test_chat_messages(write):
    answered = {"role": "assistant", "content": None, "tool_calls": []}
    parts = [{"type": "text", "text": "Ring."}, {"type": "image_url"}]
    for said in ([[answered, {"role": "user", "content": "Ring."}]], [{"role": "user", "content": parts}]):
        path = write([{"question": said, "tools": ["wait"]}], "queries.json")
        assert read_function_queries(path)["text"].tolist() == ["Ring."]


GOOD = RECORDS[0]


@pytest.mark.parametrize(
    ("records", "parts"),
    [
        ([GOOD, GOOD], ["record 2", "q0", "twice"]),
        ([GOOD, GOOD | {"id": "q1", "question": [[]]}], ["record 2", "q1", "question"]),
        ([GOOD, GOOD | {"id": "q1", "ground_truth": [{"f": {}, "g": {}}]}], ["record 2", "q1", "ground_truth"]),
        ([GOOD, {"query": "Ring.", "tools": 5}], ["record 2", "tools", "neither names"]),
        ([GOOD, without_answers([GOOD | {"id": "q1"}])[0]], ["q1", "ground_truth", "possible_answer"]),
        ([], ["no query"]),
        ([GOOD, "Ring."], ["record 2", "object"]),
    ],
    ids=lambda value: str(value)[-60:],
)
def test_wrong_queries(write, records, parts):
    path = write(records, "queries.json")
    refused(lambda: read_function_queries(path), "queries.json", *parts)


SCHEMA = {"type": "object", "properties": {"harbour": {"type": "string", "description": "its name"}}}
TIDE = {"name": "tide", "description": "High water.", "parameters": SCHEMA}


def of(schema, key="inputSchema"):
    return {"name": "tide", "description": "High water.", key: schema}


def answer_of(*tools):
    return {"jsonrpc": "2.0", "id": 1, "result": {"tools": [*tools]}}


FORMS = {
    "Anthropic": {"tools": [of(SCHEMA, "input_schema")]},
    "MCP, an answer": answer_of(of(SCHEMA)),
    "MCP, pages": as_lines([answer_of(of(SCHEMA)), answer_of(BELL)]),
    "MCP, servers by name": {"sea": {"tools": [of(SCHEMA)]}, "bells": {"tools": [BELL]}},
    "MCP, an event stream": f"event: message\ndata: {json.dumps(answer_of(of(SCHEMA)))}\n\n",
    "Gemini": [{"functionDeclarations": [TIDE]}],
    "Gemini, JSON schema": {"tools": [{"function_declarations": [of(SCHEMA, "parametersJsonSchema")]}]},
    "Bedrock": {"toolConfig": {"tools": [{"toolSpec": of({"json": SCHEMA})}]}},
    "one that is none": {"tools": [None, of(SCHEMA)]},
}


@pytest.mark.parametrize("content", FORMS.values(), ids=FORMS)
def test_each_form_is_read(write, content):
    toolbox = Toolbox.from_functions(write(content))
    assert next(iter(toolbox)) == "tide"
    assert toolbox["tide"].text == "tide. High water. harbour: its name"
    assert toolbox["tide"].function["parameters"] == SCHEMA
    assert ("ring-bell" in toolbox) == ("pages" in str(content) or "ring-bell" in str(content))


REF = {"$ref": "#/$defs/Place"}
DEFINED = {
    "Place": SCHEMA,
    "Many": {"oneOf": [REF, {"type": "null"}]},
    "Loop": {"properties": {"in": {"$ref": "#/$defs/Loop"}}},
}
NESTED = {
    "chain through a list": {"properties": {"query": {"$ref": "#/$defs/Many/oneOf/0"}}},
    "or null": {"properties": {"query": {"anyOf": [SCHEMA, {"type": "null"}]}}},
    "values of a map": {"properties": {"query": {"additionalProperties": REF}}},
    "lists in lists": {"properties": {"query": {"additionalProperties": {"items": {"items": REF}}}}},
    "of each": {"properties": {"harbour": {"items": {"type": "string", "description": "its name"}}}},
    "odd schemas": {"properties": {"query": {"anyOf": [True, REF], "required": True}, "other": {"oneOf": 5}}},
    "root reference": REF,
    "root alternatives": {"oneOf": [{"properties": {"code": {"type": "string"}}, "required": ["code"]}, REF]},
    "parts": {"allOf": [REF, {"properties": {"code": {"type": "string"}}, "required": ["code"]}]},
    "nowhere": {"properties": {"query": REF, "lost": {"$ref": "#/$defs/None"}}},
}


@pytest.mark.parametrize("schema", NESTED.values(), ids=NESTED)
def test_what_is_nested_is_read(write, schema):
    tool = Toolbox.from_functions(write([of(schema | {"$defs": DEFINED})]))["tide"]
    assert "harbour: its name" in tool.text
    if "code" in str(schema):
        assert set(tool.arguments) == {"code", "harbour"}
        assert tool.arguments["code"].required == ("allOf" in schema), "one of several alternatives is not required"


def test_types_are_found_behind_alternatives_and_no_schema_takes_forever():
    schema = {
        "properties": {"day": {"anyOf": [{"type": "string"}, {"type": "null"}]}, "n": {"oneOf": [{"type": "integer"}]}}
    }
    assert [field["type"] for field in plain_schema(schema)["properties"].values()] == [["string", "null"], "integer"]
    doubled = {str(n): {"properties": {name: {"$ref": f"#/$defs/{n + 1}"} for name in "ab"}} for n in range(40)}
    assert plain_schema({"$ref": "#/$defs/0", "$defs": doubled})["properties"]


def test_a_servers_error_is_told(write):
    path = write({"jsonrpc": "2.0", "id": 1, "error": {"code": -32601, "message": "Method not found"}})
    refused(lambda: Toolbox.from_functions(path), "functions.json, record 1", "Method not found")


TOOLS = pd.DataFrame(
    [
        ("tide", "Show high water. Of a harbour.", "tide high water", []),
        ("current", "Show high water currents", "current high water", ["hour"]),
        ("bell", "", "bell", []),
    ],
    columns=["item", "description", "text", "silent"],
)


def test_search_confusions_and_what_to_mend():
    queries = pd.DataFrame({"query": list("abcd"), "text": ["high tide", "tide water", "bell", "the current"]})
    queries = queries.assign(apis=[["tide"], ["current"], ["bell", "tide"], ["current"]], place="q.json")
    runs = search_tools(queries, TOOLS, letters)
    assert list(runs) == ["bm25t", "semantic", "rrf_text"]
    for run in runs.values():
        first = run[run["rank"] == 1].set_index("query")["item"]
        assert first.to_dict() == {"a": "tide", "b": "tide", "c": "bell", "d": "current"}
        assert (run.groupby("query")["rank"].max() == 3).all()
        gold = queries.explode("apis").rename(columns={"apis": "item"})[["query", "item"]]
        found = module.confused(run, gold).to_numpy().tolist()
        assert found == [["current", "tide", 1, "b"]], "c has one of its tools first"
    faults = module.descriptions_to_mend(TOOLS, np.array([[1.0, 0], [0.95, 0.3122], [0, 1]]))
    assert faults.to_numpy().tolist() == [
        ["tide", "reads like current"],
        ["current", "arguments without description: hour"],
        ["current", "reads like tide"],
        ["bell", "no description"],
    ]
    assert phrases_of(TOOLS)["text"].tolist() == ["Show high water", "Show high water currents"]


def test_an_answer_outside_the_toolbox_is_one_clear_error():
    queries = pd.DataFrame({"query": ["a"], "text": ["x"], "apis": [["tid"]], "place": ["q.json, line 3"]})
    refused(lambda: search_tools(queries, TOOLS, letters), "q.json, line 3, query a", "tid,", "did you mean tide")
