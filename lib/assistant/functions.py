"""Queries over function definitions: Berkeley-style files, read as they are."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import pandas as pd
from pydantic import AfterValidator, BaseModel

from lib.assistant.plans import GoldAnswers
from lib.assistant.toolbox import DEFAULT_API
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


class PossibleAnswer(BaseModel):
    """One record of a file in `possible_answer/`: one call a record, {api: {argument: [acceptable values]}}."""

    id: Text
    ground_truth: CheckedAnswers


class FunctionQuery(BaseModel):
    """One record: a question as a text, as messages or as turns of messages, of which the first counts."""

    id: Text
    question: Text | list[Message] | list[list[Message]]
    ground_truth: CheckedAnswers | None = None

    @property
    def text(self) -> str:
        """What the user says in the first turn."""
        if isinstance(self.question, str):
            return self.question
        first = self.question[0] if self.question else []
        turn = first if isinstance(first, list) else [part for part in self.question if isinstance(part, Message)]
        return "\n".join(message.content for message in turn if message.role == "user").strip()


def read_function_queries(path: str | Path) -> pd.DataFrame:
    """Queries of a Berkeley-style file (JSON lines, a JSON list or one object), in its order.

    A record has `id`, `question` (see `FunctionQuery`) and `ground_truth` in the Berkeley format; without it, its
    answers stand under the same id in `possible_answer/<name of the file>` beside the file. An empty list of answers
    says that no function fits. The definitions in `function` are read by `Toolbox.from_functions`.

    Returns:
        A row a query: query (its id), text, apis (names of the gold APIs, one a call), place (file and record).

    Raises:
        InputError: a file cannot be read or holds no query, a record has a wrong field or no answers, or an id is used
            twice; names the file, the record and the field.
    """
    path, beside = Path(path), Path(path).parent / ANSWERS_FOLDER / Path(path).name
    queries = _read(path, FunctionQuery)
    if not queries:
        raise InputError(f"{path}: holds no query")
    told = _read(beside, PossibleAnswer) if beside.is_file() else {}
    rows = []
    for place, query in queries.values():
        if not query.text:
            raise InputError(f"{place}, query {query.id}, question: holds no text of a user in the first turn")
        if query.ground_truth is None and query.id not in told:
            raise InputError(f"{place}, query {query.id}: no ground_truth, nor any in {beside}")
        answers = query.ground_truth or told[query.id][1].ground_truth
        rows.append((query.id, query.text, [name for call in answers for name in call], place))
    return pd.DataFrame(rows, columns=["query", "text", "apis", "place"])


def _read(path: Path, kind: type[FunctionQuery | PossibleAnswer]) -> dict[str, tuple[str, Any]]:
    """(place, record) by id."""
    found: dict[str, tuple[str, Any]] = {}
    for where, record in read_json_records(path):
        said = f", query {record['id']}" if isinstance(record, dict) and "id" in record else ""
        one = validated(kind, record, f"{path}, {where}{said}")
        if one.id in found:
            raise InputError(f"{path}, {where}, query {one.id}: appears twice")
        found[one.id] = f"{path}, {where}", one
    return found
