"""People's own tools and queries, as others write them, and how well the tools are found.

Definitions are read from files for OpenAI, Anthropic, MCP (a saved answer of `tools/list`, pages, several servers, an
event stream), Gemini and Bedrock, and from those of the Berkeley leaderboard; each becomes one in OpenAI's form.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from lib.retrieval.fusion import fuse_runs
from lib.retrieval.stores import bm25t_scores, candidate_pairs, cosine_of_pairs, rank_pairs
from lib.workbook.inputs import InputError, did_you_mean, one_line, parse_json, read_json_records, read_text
from lib.workbook.references import References

ANSWERS_FOLDER = "possible_answer"
INSIDE = ("result", "toolConfig", "tools", "toolSpec", "functionDeclarations", "function_declarations", "function")
SCHEMAS = ("parameters", "inputSchema", "input_schema", "parametersJsonSchema", "parameters_json_schema")
JOINED = ("allOf", "anyOf", "oneOf")
# What has another form says nothing.
FORMS: dict[str, Any] = dict.fromkeys((*JOINED, "required"), list) | {"properties": dict, "type": (str, list)}
MOST_SCHEMAS = 5_000  # of one definition, its references followed
QUESTION = ("question", "query", "text", "request", "prompt", "input")  # keys, or columns, of a query
ANSWER = ("ground_truth", "tools", "tool", "functions", "apis", "api", "expected", "answer")

# ---------------------------------------------------------------- definitions


def read_definitions(path: str | Path) -> list[tuple[str, Any]]:
    """The function definitions of a file, each with its place (`record 2, function 1`) and with its schema under
    `parameters`, without references and alternatives; one that has this form, or is no object, is as it was. Raises
    InputError where the file cannot be read or holds an error message of a server."""
    text = read_text(path)
    if text.lstrip().startswith(("event:", "data:", "id:", ":")):
        lines = [line.removeprefix("data:").strip() for line in text.split("\n") if line.startswith("data:")]
        try:
            records = [(f"message {number}", parse_json(line)) for number, line in enumerate(lines, start=1) if line]
        except ValueError as error:
            raise InputError(f"{path}: an event stream without JSON: {one_line(error)}") from error
    else:
        records = read_json_records(path)
    found = []
    for where, record in records:
        if isinstance(record, dict) and "jsonrpc" in record and "error" in record:
            raise InputError(f"{path}, {where}: a server's error instead of tools: {one_line(record['error'], 200)}")
        for number, definition in enumerate(_definitions_in(record), start=1):
            if isinstance(definition, dict):
                schema = next((definition[key] for key in SCHEMAS if key in definition), None)
                if isinstance(schema, dict) and set(schema) == {"json"}:  # Bedrock's wrapper
                    schema = schema["json"]
                if isinstance(schema, dict) and any(f'"{word}"' in json.dumps(schema) for word in ("$ref", *JOINED)):
                    schema = plain_schema(schema)
                if schema is not definition.get("parameters"):
                    definition = {key: value for key, value in definition.items() if key not in SCHEMAS}
                    definition["parameters"] = schema
            found.append((f"{where}, function {number}", definition))
    return found


def _definitions_in(record: Any) -> Iterator[Any]:
    """The definitions of a record, whatever they are wrapped in; none in a query that offers no function."""
    if isinstance(record, list):
        for part in record:
            yield from _definitions_in(part)
    elif not isinstance(record, dict):
        yield record
    elif inside := [record[key] for key in INSIDE if isinstance(record.get(key), dict | list)]:
        for part in inside:
            yield from _definitions_in(part)
    elif record and all(isinstance(value, dict) and "tools" in value for value in record.values()):  # servers by name
        for server in record.values():
            yield from _definitions_in(server)
    elif "question" not in record:
        yield record


def plain_schema(root: dict) -> dict:
    """A JSON schema with what its `$ref`s stand for, as far as these lie in it; with the properties of all parts and
    alternatives, of which those of `allOf` alone may be required; and with `null` among types."""
    references, seen = References(root), 0

    def plain(schema: Any, around: tuple[str, ...]) -> Any:
        nonlocal seen
        seen += 1
        reference = schema.get("$ref") if isinstance(schema, dict) else None
        if isinstance(reference, str) and reference not in around:
            schema, around = references.resolve(schema), (*around, reference)
        if not isinstance(schema, dict) or seen > MOST_SCHEMAS:
            return schema if isinstance(schema, bool) else {}
        schema = {
            key: value
            for key, value in schema.items()
            if key not in ("$ref", "$defs", "definitions") and isinstance(value, FORMS.get(key, object))
        }
        parts = {
            word: [plain(part, around) for part in schema.pop(word, []) if isinstance(part, dict)] for word in JOINED
        }
        known = [part for word in JOINED for part in parts[word] if part.get("type") != "null"]
        if "properties" in schema:
            schema["properties"] = {name: plain(child, around) for name, child in schema["properties"].items()}
        for key in ("items", "additionalProperties"):
            if isinstance(schema.get(key), dict):
                schema[key] = plain(schema[key], around)
        properties: dict[str, Any] = {}
        for part in known:
            properties = part.get("properties", {}) | properties
        required = [name for part in [schema, *parts["allOf"]] for name in part.get("required", [])]
        types = [name for part in known for name in np.atleast_1d(part.get("type", [])).tolist()]
        types += ["null"] if len(known) < sum(map(len, parts.values())) else []
        for part in known:
            schema = {key: value for key, value in part.items() if key not in ("type", "required")} | schema
        if types and "type" not in schema:
            schema["type"] = types[0] if len(set(types)) == 1 else list(dict.fromkeys(types))
        if properties or "properties" in schema:
            schema |= {
                "properties": properties | schema.get("properties", {}),
                "required": list(dict.fromkeys(required)),
            }
        return schema

    return plain(root, ())


# ---------------------------------------------------------------- queries


def read_function_queries(path: str | Path) -> pd.DataFrame:
    """Queries of somebody's own over functions, in the order of their file: JSON, JSON lines or CSV.

    A record, or row, has a question under one of `QUESTION` (a text, chat messages, or turns of messages, of which the
    first counts) and what answers it under one of `ANSWER`: names of functions (in CSV separated by `;`), or calls in
    the Berkeley format, which may stand under the same id in `possible_answer/<name of the file>` instead. No name says
    that no function fits. Without `id` it is numbered.

    Returns:
        A row a query: query (its id), text, apis (names of the right functions), place (file and record).

    Raises:
        InputError: a file cannot be read or holds no query, a record has no question or no answer, or an id is used
            twice; names the file, the record and the field.
    """
    path, beside = Path(path), Path(path).parent / ANSWERS_FOLDER / Path(path).name
    told = {record.get("id"): record for _, record in _records(beside)} if beside.is_file() else {}
    rows: dict[str, tuple] = {}
    for number, (where, record) in enumerate(_records(path), start=1):
        name = str(number if record.get("id") in (None, "") else record["id"])
        place = f"{path}, {where}, query {name}"
        key = next((key for key in ANSWER if record.get(key) is not None), None)
        answers = record[key] if key else told.get(record.get("id"), {}).get("ground_truth")
        text = next(filter(None, (_said(record.get(key)) for key in QUESTION)), "")
        if name in rows:
            raise InputError(f"{place}: appears twice")
        if not text:
            raise InputError(f"{place}: no question: none of {', '.join(QUESTION)} holds a text of a user")
        if answers is None:
            raise InputError(f"{place}: no answer: needs one of {', '.join(ANSWER)}, or ground_truth in {beside}")
        rows[name] = name, text, _named(answers, f"{place}, {key or 'ground_truth'}"), f"{path}, {where}"
    if not rows:
        raise InputError(f"{path}: holds no query")
    return pd.DataFrame(list(rows.values()), columns=["query", "text", "apis", "place"])


def _records(path: Path) -> list[tuple[str, dict]]:
    if path.suffix.lower() == ".csv":
        try:
            rows = pd.read_csv(path, dtype=str, keep_default_na=False, encoding="utf-8-sig").to_dict("records")
        except (OSError, ValueError) as error:
            raise InputError(f"{path}: cannot be read: {one_line(error)}") from error
        records: list[tuple[str, Any]] = [(f"row {number}", row) for number, row in enumerate(rows, start=1)]
    else:
        records = read_json_records(path)
    if wrong := [where for where, record in records if not isinstance(record, dict)]:
        raise InputError(f"{path}, {wrong[0]}: a query is an object with a question and an answer")
    return records


def _said(question: Any) -> str:
    """What a user says: in a text, in parts of a content, or in the first turn of messages."""
    if isinstance(question, list) and question and isinstance(question[0], list):
        question = question[0]
    if not isinstance(question, list):
        return question.strip() if isinstance(question, str) else ""
    texts = []
    for message in question:
        if isinstance(message, dict) and message.get("role") == "user":
            content = message.get("content")
            parts = content if isinstance(content, list) else [{"text": content}]
            texts += [part["text"] for part in parts if isinstance(part, dict) and isinstance(part.get("text"), str)]
    return "\n".join(texts).strip()


def _named(answers: Any, where: str) -> list[str]:
    """The names of functions in an answer, one a call."""
    if isinstance(answers, str):
        answers = [name.strip() for name in answers.split(";") if name.strip()]
    calls = [
        [call] if isinstance(call, str) else list(call) if isinstance(call, dict) else []
        for call in (answers if isinstance(answers, list) else [None])
    ]
    if any(len(call) != 1 for call in calls):
        raise InputError(f"{where}: neither names of functions nor calls, one a record, such as {{name: arguments}}")
    return [name for call in calls for name in call]


def phrases_of(tools: pd.DataFrame) -> pd.DataFrame:
    """A query for each tool (item, description) that has a description, for want of others: its first sentence. It
    finds its own tool more easily than what people say."""
    first = tools["description"].str.split(r"(?<=[.!?])\s|\n", regex=True).str[0].str.strip(" .")
    found = tools.assign(text=first)[first != ""]
    return pd.DataFrame(
        {"query": found["item"], "text": found["text"], "apis": [[name] for name in found["item"]], "place": "phrases"}
    ).reset_index(drop=True)


# ---------------------------------------------------------------- how well they are found


def search_tools(
    queries: pd.DataFrame, tools: pd.DataFrame, encode: Callable[[list[str]], np.ndarray]
) -> dict[str, pd.DataFrame]:
    """All tools (item, text) ranked for each query (query, text, apis, place) by words (bm25t), by the cosine of unit
    vectors (semantic), and by both, fused (rrf_text). Raises InputError where a query's answer is none of the tools,
    which names both, and the query's place."""
    names = set(tools["item"])
    for query, apis, place in zip(queries["query"], queries["apis"], queries["place"], strict=True):
        if unknown := [api for api in apis if api not in names]:
            close = did_you_mean(unknown[0], names)
            raise InputError(
                f"{place}, query {query}: its answer calls {unknown[0]}, which is not in the toolbox{close}"
            )
    pairs = candidate_pairs(queries, tools)
    vectors = encode(queries["text"].tolist()), encode(tools["text"].tolist())
    runs = {
        "bm25t": rank_pairs(pairs, bm25t_scores(pairs, queries, tools)),
        "semantic": rank_pairs(pairs, cosine_of_pairs(pairs, *vectors)),
    }
    return runs | {"rrf_text": fuse_runs(list(runs.values()))[["query", "item", "rank"]]}


def confused(run: pd.DataFrame, gold: pd.DataFrame) -> pd.DataFrame:
    """Which tool stands first in a run of `search_tools` where another one is right (`gold`: query, item): columns
    item, instead, n (queries), query (one of them); the most frequent first."""
    first = run[run["rank"] == 1][["query", "item"]].rename(columns={"item": "instead"})
    missed = gold.merge(first, on="query")
    right = missed.assign(right=missed["item"] == missed["instead"]).groupby("query")["right"].transform("any")
    found = missed[~right].groupby(["item", "instead"])["query"].agg(["size", "first"]).reset_index()
    found = found.rename(columns={"size": "n", "first": "query"})
    return found.sort_values("n", ascending=False, kind="stable", ignore_index=True)


def descriptions_to_mend(tools: pd.DataFrame, vectors: np.ndarray, alike: float = 0.9) -> pd.DataFrame:
    """Tools whose text tells too little: columns item, fault.

    Args:
        tools: columns item, description, silent (arguments without description).
        vectors: unit-length embeddings of their texts.
        alike: cosine from which two texts are nearly the same.
    """
    cosines = vectors @ vectors.T - 2 * np.eye(len(tools))
    faults = []
    for row, tool in enumerate(tools.itertuples()):
        words = len(tool.description.split())
        faults += [(tool.item, "no description" if not words else f"description of {words} word(s)")] * (words < 4)
        if tool.silent:
            faults.append((tool.item, f"arguments without description: {', '.join(tool.silent)}"))
        if len(tools) > 1 and cosines[row].max() >= alike:
            faults.append((tool.item, f"reads like {tools['item'].iloc[int(cosines[row].argmax())]}"))
    return pd.DataFrame(faults, columns=["item", "fault"])
