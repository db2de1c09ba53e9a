"""What reaches the project from outside: strict records, one error type, one reader of YAML and one of JSON lines.

Whatever a file holds, a reader gives its content or raises InputError with one sentence that names the file and the
place. Keys that stand twice, nesting beyond `DEEPEST`, unknown tags, aliases that expand without bound, numbers of
thousands of digits and halves of surrogate pairs are errors: none of them is what anybody meant to write.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, StringConstraints, TypeAdapter, ValidationError

Text = Annotated[str, StringConstraints(min_length=1, strip_whitespace=True)]
Record = TypeVar("Record", bound=BaseModel)

MOST_BYTES = 256 * 2**20
MOST_YAML_BYTES = 8 * 2**20
MOST_YAML_VALUES = 2_000_000  # of a document, its aliases expanded
DEEPEST = 100
TAGS = {f"tag:yaml.org,2002:{name}" for name in "null bool int float timestamp str seq map merge".split()}
SURROGATE = re.compile(r"[\ud800-\udfff]")
SafeLoader = yaml.CSafeLoader  # libyaml's parser: ten times as fast as PyYAML's own


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
    return one_line(f"{field}: {first['msg']}" + (f" (and {len(rest)} more)" if rest else ""))


def validated(model: type[Record], record: object, where: str) -> Record:
    """A record as its model. Raises InputError where a field is missing, unknown or wrong; it names the field and
    `where`: the file and the record."""
    try:
        return model.model_validate(record)
    except ValidationError as error:
        raise InputError(f"{where}: {describe_error(error)}") from error


def one_line(text: object, most: int = 500) -> str:
    """Text for an error message: on one line, without halves of surrogate pairs, cut at `most` characters."""
    line = SURROGATE.sub("\ufffd", " ".join(str(text).split()))
    return line if len(line) <= most else f"{line[: most - 1]}…"


def did_you_mean(name: str, known: Collection[str]) -> str:
    """The end of an error message: the closest of the known names, if one is close."""
    close = get_close_matches(name, known, n=1)
    return f"; did you mean {close[0]}?" if close else ""


def read_text(path: str | Path, most_bytes: int = MOST_BYTES) -> str:
    """The text of a UTF-8 file, without a byte order mark. Raises InputError, which names the file, where it cannot be
    read, is larger than `most_bytes`, or is no UTF-8."""
    try:
        size = Path(path).stat().st_size
        text = Path(path).read_text(encoding="utf-8-sig") if size <= most_bytes else ""
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read: {getattr(error, 'strerror', '') or one_line(error)}") from error
    if size > most_bytes:
        raise InputError(f"{path}: cannot be read: has {size:,} bytes, more than {most_bytes:,}")
    return text


def parse_json(text: str) -> Any:
    """The content of a JSON text. Raises ValueError for what is none, or what this module does not let through."""
    try:
        content = json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant)
        (json.dumps(content, ensure_ascii=False) if "\\u" in text else text).encode()
    except RecursionError:
        raise ValueError("nested too deeply") from None
    except UnicodeEncodeError:
        raise ValueError("holds half a surrogate pair, which is no character") from None
    return content


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"key {one_line(twice, 80)!r} stands twice")
    return content


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def read_records(path: str | Path) -> Iterator[tuple[int, dict]]:
    """(line number, object) for each line of a JSON-lines file that is not blank. Raises InputError where the file
    cannot be read or a line is no JSON object; it names file and line."""
    for number, line in enumerate(read_text(path).split("\n"), start=1):  # texts may hold other line separators
        if not line.strip():
            continue
        try:
            record = parse_json(line)
        except ValueError as error:
            raise InputError(f"{path}, line {number}: not JSON: {one_line(error)}") from error
        if not isinstance(record, dict):
            raise InputError(f"{path}, line {number}: expected a JSON object")
        yield number, record


def read_json_records(path: str | Path) -> list[tuple[str, object]]:
    """Records of a file that holds a JSON list, one JSON object or JSON lines, each with its place (`record 3`). Raises
    InputError, which names file and line, where it is none of these."""
    text = read_text(path)
    try:
        content = parse_json(text)
    except ValueError as error:
        if not text.lstrip().startswith("["):
            return [(f"line {number}", record) for number, record in read_records(path)]
        raise InputError(f"{path}: not JSON: {one_line(error)}") from error
    records = content if isinstance(content, list) else [content]
    return [(f"record {number}", record) for number, record in enumerate(records, start=1)]


def read_yaml(path: str | Path, adapter: TypeAdapter | None = None, strict: bool | None = None) -> Any:
    """The content of a YAML file that people wrote, validated where an adapter of its type is given, strictly if asked.
    Raises InputError, which names the file and the line or field, where it cannot be read, is no YAML (see this module)
    or not what the adapter expects."""
    text = read_text(path, MOST_YAML_BYTES)
    try:
        content = parse_yaml(text)
        return content if adapter is None else adapter.validate_python(content, strict=strict)
    except ValidationError as error:
        raise InputError(f"{path}: {describe_error(error)}") from error
    except ValueError as error:
        raise InputError(f"{path}: cannot be read: {error}") from error


def parse_yaml(text: str) -> Any:
    """The content of a YAML text of one document. Raises ValueError, which names the line, for what is none here."""
    return compose_and_construct(text, SafeLoader, _check_strictly)


def _check_strictly(node: yaml.Node) -> None:
    """Refuse unknown tags, and keys that stand twice or are no plain values."""
    if node.tag not in TAGS:
        raise ValueError(f"tag {node.tag} is not known here")
    if isinstance(node, yaml.MappingNode):
        names = [key.value if isinstance(key, yaml.ScalarNode) else None for key, _ in node.value]
        if None in names:
            raise ValueError("a key must be a plain value")
        if len(set(names)) < len(names):
            raise ValueError(f"key {next(name for name in names if names.count(name) > 1)!r} stands twice")


def compose_and_construct(text: str, loader: type, check: Callable[[yaml.Node], None]) -> Any:
    """The content of a YAML text, by a PyYAML loader, whose nodes were checked before anything was made of them. Raises
    ValueError where it is no YAML, nested too deeply, its aliases expand without bound, or `check` raises one."""
    try:
        reader = loader(text)
        node = reader.get_single_node()
        waiting, count = [(node, 0)] if node else [], 0
        while waiting:
            part, depth = waiting.pop()
            count += 1
            try:
                if depth > DEEPEST or count > MOST_YAML_VALUES:
                    raise ValueError("nested too deeply" if depth > DEEPEST else "its aliases expand without bound")
                check(part)
            except ValueError as error:
                raise ValueError(f"{error} (line {part.start_mark.line + 1})") from error
            if isinstance(part, yaml.MappingNode):
                waiting += [(one, depth + 1) for pair in part.value for one in pair]
            elif isinstance(part, yaml.SequenceNode):
                waiting += [(one, depth + 1) for one in part.value]
        return reader.construct_document(node) if node else None
    except RecursionError:
        raise ValueError("nested too deeply") from None
    except (yaml.YAMLError, ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
        raise ValueError(one_line(error)) from error
