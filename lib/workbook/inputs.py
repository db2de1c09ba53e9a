"""What reaches the project from outside: strict records, one error type, JSON lines."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import BaseModel, ConfigDict, StringConstraints, ValidationError

Text = Annotated[str, StringConstraints(min_length=1, strip_whitespace=True)]


class InputError(ValueError):
    """Data from outside that cannot be used; the message names the file, the record and the field."""


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


def describe_error(error: ValidationError) -> str:
    """The first problem of a pydantic error as `field: what is wrong`, with the number of further ones."""
    first, *rest = error.errors()
    where = [
        f"record {part + 1}" if isinstance(part, int) and not i else str(part) for i, part in enumerate(first["loc"])
    ]
    field = ".".join(where) or "record"
    return f"{field}: {first['msg']}" + (f" (and {len(rest)} more)" if rest else "")


def read_records(path: str | Path) -> Iterator[tuple[int, dict]]:
    """(line number, object) for each line of a JSON-lines file that is not blank.

    Raises:
        InputError: the file cannot be read, or a line is no JSON object; names file and line.
    """
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read: {error}") from error
    for number, line in enumerate(text.split("\n"), start=1):  # texts may hold other line separators
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise InputError(f"{path}, line {number}: not JSON: {error}") from error
        if not isinstance(record, dict):
            raise InputError(f"{path}, line {number}: expected a JSON object")
        yield number, record


def read_json_records(path: str | Path) -> list[tuple[str, object]]:
    """Records of a file that holds a JSON list, one JSON object or JSON lines, each with its place (`record 3`).

    Raises:
        InputError: the file cannot be read or is neither of these; names file and line.
    """
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read: {error}") from error
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        if text.lstrip().startswith("["):
            raise InputError(f"{path}: not JSON: {error}") from error
        return [(f"line {number}", record) for number, record in read_records(path)]
    records = content if isinstance(content, list) else [content]
    return [(f"record {number}", record) for number, record in enumerate(records, start=1)]


class UniqueKeyLoader(yaml.SafeLoader):
    """YAML in which a key that stands twice is an error instead of the last one winning."""

    def construct_mapping(self, node, deep=False):
        seen = set()
        for key, _ in node.value:
            if key.value in seen:
                raise yaml.YAMLError(f"key {key.value!r} stands twice (line {key.start_mark.line + 1})")
            seen.add(key.value)
        return super().construct_mapping(node, deep)


def read_yaml(path: str | Path) -> Any:
    """The content of a YAML file that people wrote.

    Raises:
        InputError: the file cannot be read, is no YAML, or has a key twice; names the file.
    """
    try:
        return yaml.load(Path(path).read_text(encoding="utf-8"), Loader=UniqueKeyLoader)
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
        raise InputError(f"{path}: cannot be read: {' '.join(str(error).split())}") from error
