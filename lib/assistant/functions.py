"""Queries over function definitions: Berkeley-style files, read as they are."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import pandas as pd
from pydantic import AfterValidator, BaseModel, Field

from lib.assistant.plans import GoldAnswers
from lib.assistant.toolbox import DEFAULT_API, definitions_in
from lib.workbook.inputs import InputError, Text, read_json_records, validated

ANSWERS_FOLDER = "possible_answer"


class Message(BaseModel):
    role: str
    content: str


def check_answers(answers: GoldAnswers) -> GoldAnswers:
    """Raises ValueError unless each record is one call; no call at all is what `default` stands for."""
    for number, call in enumerate(answers, start=1):
        if len(call) != 1:
            raise ValueError(f"answer {number} names {len(call)} APIs instead of one")
    return answers or [{DEFAULT_API: {}}]


CheckedAnswers = Annotated[GoldAnswers, AfterValidator(check_answers)]


class FunctionQuery(BaseModel):
    """One record: a question as a text, as messages or as turns of messages, and the functions it may use, if any."""

    id: Text
    question: Text | list[Message] | list[list[Message]]
    function: Any = []
    ground_truth: CheckedAnswers | None = None
    answers: CheckedAnswers | None = None

    @property
    def text(self) -> str:
        """What the user says in the first turn."""
        if isinstance(self.question, str):
            return self.question
        first = self.question[0] if self.question else []
        turn = first if isinstance(first, list) else [part for part in self.question if isinstance(part, Message)]
        return "\n".join(message.content for message in turn if message.role == "user").strip()


class PossibleAnswer(BaseModel):
    """One record of a file in `possible_answer/`."""

    id: Text
    ground_truth: CheckedAnswers = Field(description="one call a record: {api: {argument: [acceptable values]}}")


def read_function_queries(path: str | Path) -> pd.DataFrame:
    """Queries of a Berkeley-style file (JSON lines, a JSON list or one object), in its order.

    A record has `id`, `question` (a text, a list of messages, or a list of turns of messages, of which the first
    counts), perhaps `function` (the definitions it may use), and `ground_truth` or `answers` in the Berkeley format;
    without them, its answers stand under the same id in `possible_answer/<name of the file>` beside the file. An empty
    list of answers says that no function fits.

    Returns:
        A row a query: query (its id), text, apis (names of the gold APIs, one a call), answers, functions (names of the
        functions offered in its record), place (file and record).

    Raises:
        InputError: a file cannot be read or holds no query, a record has a wrong field or no answers, or an id is used
            twice; names the file, the record and the field.
    """
    path = Path(path)
    queries: dict[str, FunctionQuery] = {}
    rows = []
    for where, record in read_json_records(path):
        record_at = f"{path}, {where}"
        query = validated(FunctionQuery, record, record_at + _query_of(record))
        place = f"{record_at}, query {query.id}"
        if query.id in queries:
            raise InputError(f"{place}: appears twice")
        if not query.text:
            raise InputError(f"{place}, question: holds no text of a user in the first turn")
        queries[query.id] = query
        answers = query.ground_truth or query.answers
        rows.append((query.id, query.text, answers, function_names(query, place), record_at))
    if not queries:
        raise InputError(f"{path}: holds no query")
    frame = pd.DataFrame(rows, columns=["query", "text", "answers", "functions", "place"])
    missing = frame["answers"].isna()
    if missing.any():
        frame.loc[missing, "answers"] = frame.loc[missing, "query"].map(read_answers(path, frame["query"][missing]))
    frame.insert(2, "apis", [[name for call in answers for name in call] for answers in frame["answers"]])
    return frame


def read_answers(path: Path, ids: pd.Series) -> dict[str, GoldAnswers]:
    """Answers by query id from the file of the same name in `possible_answer/`; one for each of `ids`."""
    beside = path.parent / ANSWERS_FOLDER / path.name
    if not beside.is_file():
        raise InputError(f"{path}, query {ids.iloc[0]}: neither ground_truth nor answers, and there is no {beside}")
    answers: dict[str, GoldAnswers] = {}
    for where, record in read_json_records(beside):
        answer = validated(PossibleAnswer, record, f"{beside}, {where}{_query_of(record)}")
        if answer.id in answers:
            raise InputError(f"{beside}, {where}, query {answer.id}: appears twice")
        answers[answer.id] = answer.ground_truth
    if absent := [name for name in ids if name not in answers]:
        raise InputError(f"{beside}: no answers for query {absent[0]} of {path.name}")
    return answers


def function_names(query: FunctionQuery, place: str) -> list[str]:
    """Names of the functions in a query's record; they are checked in full by `Toolbox.from_functions`."""
    names = []
    for number, definition in enumerate(definitions_in(query.function), start=1):
        name = definition.get("name") if isinstance(definition, dict) else None
        if not isinstance(name, str):
            raise InputError(f"{place}, function {number}, name: expected a text")
        names.append(name)
    return names


def _query_of(record: object) -> str:
    """The query that a record is of, for error messages, where it says so."""
    return f", query {record['id']}" if isinstance(record, dict) and "id" in record else ""
