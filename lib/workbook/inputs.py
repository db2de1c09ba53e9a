"""What reaches the project from outside: strict records, one error type, one reader of YAML and one of JSON lines.

Whatever a file holds, a reader gives its content or raises InputError with one sentence that names the file and the
place. Keys that stand twice, nesting beyond `DEEPEST`, unknown tags, aliases that expand without bound, numbers of
thousands of digits and halves of surrogate pairs are errors: none of them is what anybody meant to write.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Annotated, Any, TypeVar, overload

import yaml
from pydantic import BaseModel, ConfigDict, StringConstraints, TypeAdapter, ValidationError

Text = Annotated[str, StringConstraints(min_length=1, strip_whitespace=True)]
Content = TypeVar("Content")
Record = TypeVar("Record", bound=BaseModel)

MOST_BYTES = 256 * 2**20
MOST_YAML_BYTES = 8 * 2**20
DEEPEST = 100
# How many nodes the aliases of a file may expand to, as a multiple of what it spells out.
EXPANSION, FREE_NODES = 4, 10_000
TAGS = {f"tag:yaml.org,2002:{name}" for name in "null bool int float timestamp str seq map merge".split()}
SURROGATE = re.compile(r"[\ud800-\udfff]")
# libyaml's parser where PyYAML has it: ten times as fast, the same documents.
SafeLoader: type = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


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
    """A record as its model.

    Args:
        where: the file and the record, for the error message.

    Raises:
        InputError: a field is missing, unknown or wrong; names it and `where`.
    """
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
    from difflib import get_close_matches

    close = get_close_matches(name, known, n=1)
    return f"; did you mean {close[0]}?" if close else ""


def read_text(path: str | Path, most_bytes: int = MOST_BYTES) -> str:
    """The text of a UTF-8 file, without a byte order mark.

    Raises:
        InputError: the file cannot be read, is larger than `most_bytes`, or is no UTF-8; names the file.
    """
    path = Path(path)
    try:
        size = path.stat().st_size
        if size > most_bytes:
            raise InputError(f"{path}: cannot be read: has {size:,} bytes, more than {most_bytes:,}")
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from error
    except ValueError as error:  # no UTF-8, or a NUL in the path
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path}: cannot be read: {one_line(error)}") from error


# ---------------------------------------------------------------- JSON


def parse_json(text: str) -> Any:
    """The content of a JSON text.

    Raises:
        ValueError: it is no JSON, has a key twice, a number of thousands of digits or half a surrogate pair, or is
            nested too deeply.
    """
    try:
        content = json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if "\\u" in text or SURROGATE.search(text):
        place = find_surrogate(content)
        if place is not None:
            raise ValueError(f"{place or 'the text'}: holds half a surrogate pair, which is no character")
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


def find_surrogate(content: Any) -> str | None:
    """Where in some JSON content a text holds half a surrogate pair, such as `items.3.title`; None where none does."""
    waiting: list[tuple[str, Any]] = [("", content)]
    while waiting:
        place, value = waiting.pop()
        if isinstance(value, str) and SURROGATE.search(value):
            return one_line(place, 80)
        if isinstance(value, dict):
            waiting += [(place, key) for key in value]
            waiting += [(f"{place}.{key}".lstrip("."), part) for key, part in value.items()]
        elif isinstance(value, list):
            waiting += [(f"{place}.{number}".lstrip("."), part) for number, part in enumerate(value)]
    return None


def read_records(path: str | Path) -> Iterator[tuple[int, dict]]:
    """(line number, object) for each line of a JSON-lines file that is not blank.

    Raises:
        InputError: the file cannot be read, or a line is no JSON object; names file and line.
    """
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
    """Records of a file that holds a JSON list, one JSON object or JSON lines, each with its place (`record 3`).

    Raises:
        InputError: the file cannot be read or is neither of these; names file and line.
    """
    text = read_text(path)
    try:
        content = parse_json(text)
    except ValueError as error:
        if text.lstrip().startswith("["):
            raise InputError(f"{path}: not JSON: {one_line(error)}") from error
        return [(f"line {number}", record) for number, record in read_records(path)]
    records = content if isinstance(content, list) else [content]
    return [(f"record {number}", record) for number, record in enumerate(records, start=1)]


# ---------------------------------------------------------------- YAML


@overload
def read_yaml(path: str | Path) -> Any: ...
@overload
def read_yaml(path: str | Path, adapter: TypeAdapter[Content], strict: bool | None = None) -> Content: ...
def read_yaml(path: str | Path, adapter: TypeAdapter | None = None, strict: bool | None = None) -> Any:
    """The content of a YAML file that people wrote, validated where an adapter is given.

    Args:
        adapter: of the content's type.
        strict: passed on to the adapter's validation.

    Raises:
        InputError: the file cannot be read, is no YAML (see this module), or is not what the adapter expects; names the
            file and the line or the field.
    """
    try:
        content = parse_yaml(read_text(path, MOST_YAML_BYTES))
    except InputError:
        raise
    except ValueError as error:
        raise InputError(f"{path}: cannot be read: {error}") from error
    try:
        return content if adapter is None else adapter.validate_python(content, strict=strict)
    except ValidationError as error:
        raise InputError(f"{path}: {describe_error(error)}") from error


def parse_yaml(text: str) -> Any:
    """The content of a YAML text of one document.

    Raises:
        ValueError: it is none, or has what this module does not let through; names the line.
    """
    return compose_and_construct(text, SafeLoader, _check_strictly)


def compose_and_construct(text: str, loader: type, check: Callable[[yaml.Node], None]) -> Any:
    """The content of a YAML text whose nodes were checked before anything was made of them.

    Args:
        loader: a PyYAML loader.
        check: raises ValueError for a node that must not be.

    Raises:
        ValueError: no YAML, aliases that expand without bound, or what `check` raises.
    """
    try:
        reader = loader(text)
        try:
            node = reader.get_single_node()
            if node is None:
                return None
            check_expansion(node)
            check(node)
            return reader.construct_document(node)
        finally:
            reader.dispose()
    except RecursionError:
        raise ValueError("nested too deeply") from None
    except (yaml.YAMLError, ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
        raise ValueError(one_line(error)) from error


def check_expansion(root: yaml.Node) -> None:
    """Refuse nodes that contain themselves, are nested too deeply, or whose aliases expand without bound.

    Raises:
        ValueError: names the line.
    """
    sizes: dict[int, int] = {}
    open_nodes: set[int] = set()
    waiting: list[tuple[yaml.Node, bool]] = [(root, False)]
    while waiting:
        node, closing = waiting.pop()
        if closing:
            open_nodes.discard(id(node))
            sizes[id(node)] = 1 + sum(sizes[id(part)] for part in _parts(node))
            continue
        if id(node) in sizes:
            continue
        if id(node) in open_nodes:
            raise ValueError(f"an alias stands inside what it names (line {_line(node)})")
        if len(open_nodes) > DEEPEST:
            raise ValueError(f"nested too deeply (line {_line(node)})")
        open_nodes.add(id(node))
        waiting.append((node, True))
        waiting += [(part, False) for part in _parts(node)]
    if sizes[id(root)] > EXPANSION * len(sizes) + FREE_NODES:
        raise ValueError(f"its aliases expand to {one_line(sizes[id(root)], 30)} values")


def _parts(node: yaml.Node) -> list[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        return [part for pair in node.value for part in pair]
    return node.value if isinstance(node, yaml.SequenceNode) else []


def _line(node: yaml.Node) -> int:
    return node.start_mark.line + 1


def _check_strictly(root: yaml.Node) -> None:
    """Refuse unknown tags, keys that stand twice or are no plain values, and values that are not what their tag is."""
    seen: set[int] = set()
    waiting = [root]
    constructor = yaml.constructor.SafeConstructor()
    while waiting:
        node = waiting.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if node.tag not in TAGS:
            raise ValueError(f"tag {one_line(node.tag, 80)} is not known here (line {_line(node)})")
        if isinstance(node, yaml.MappingNode):
            _check_keys(node)
        elif isinstance(node, yaml.ScalarNode) and node.tag != "tag:yaml.org,2002:merge":
            _check_scalar(node, constructor)
        waiting += _parts(node)


def _check_keys(node: yaml.MappingNode) -> None:
    names: set[str] = set()
    for key, _ in node.value:
        if not isinstance(key, yaml.ScalarNode):
            raise ValueError(f"a key must be a plain value (line {_line(key)})")
        if key.value in names:
            raise ValueError(f"key {one_line(key.value, 80)!r} stands twice (line {_line(key)})")
        names.add(key.value)


def _check_scalar(node: yaml.ScalarNode, constructor: yaml.constructor.SafeConstructor) -> None:
    if SURROGATE.search(node.value):
        raise ValueError(f"a text holds half a surrogate pair, which is no character (line {_line(node)})")
    if node.tag == "tag:yaml.org,2002:str":
        return
    try:
        constructor.construct_object(node)
    except Exception as error:
        kind = node.tag.rpartition(":")[2]
        raise ValueError(f"{one_line(node.value, 40)!r} is no {kind} (line {_line(node)})") from error
