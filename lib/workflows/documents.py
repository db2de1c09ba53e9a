"""JSON and YAML files as they are found: in any encoding, slightly broken.

What can be mended without guessing is mended and noted; what cannot is Unreadable.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from lib.workbook.inputs import SafeLoader, compose_and_construct

DEEPEST_JSON = 200
MOST_FAULTS = 100
CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\x80-\x9f\ud800-\udfff\ufffe\uffff]")


class Unreadable(ValueError):
    """A document that cannot be used; the message is the reason."""


def read_document(path: Path, notes: list[str]) -> dict:
    """The mapping in a JSON or YAML file; mended faults go to `notes`, others raise Unreadable."""
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise Unreadable(f"cannot be read: {error.strerror}") from error
    text = _decode(raw, notes)
    try:
        document = _yaml(text, notes) if path.suffix.lower() != ".json" else _json(text, notes)
    except RecursionError as error:
        raise Unreadable("nested too deeply") from error
    if not isinstance(document, dict):
        raise Unreadable("is no mapping")
    return document


def _decode(raw: bytes, notes: list[str]) -> str:
    for mark, encoding in ((b"\xef\xbb\xbf", "utf-8"), (b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be")):
        if raw.startswith(mark):
            notes.append("begins with a byte order mark")
            return raw[len(mark) :].decode(encoding, errors="replace")
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        notes.append("is not UTF-8, read as cp1252")
        return raw.decode("cp1252", errors="replace")


def _merge(pairs: list[tuple[Any, Any]], notes: list[str]) -> dict:
    """A mapping from pairs; of equal keys the last counts, two mappings are joined."""
    merged: dict[str, Any] = {}
    for key, value in pairs:
        key = str(key)
        if key in merged:
            notes.append(f"key {key!r} is there twice")
            if isinstance(value, dict) and isinstance(merged[key], dict):
                value = merged[key] | value
        merged[key] = value
    return merged


def _json(text: str, notes: list[str]) -> Any:
    found: list[str] = []
    try:
        document = json.loads(text, strict=False, object_pairs_hook=lambda pairs: _merge(pairs, found))
        if re.search(r"[\x00-\x08\x0b\x0c\x0e-\x1f]", text):
            notes.append("holds raw control characters")
    except ValueError:
        found = []
        document = _LenientJSON(text, found).document()
    notes.extend(dict.fromkeys(found))
    return document


class _LenientJSON:
    """JSON whose commas are missing or too many, whose brackets are not closed, and with any white space."""

    STRING = re.compile(r'"([^"\\]*(?:\\.[^"\\]*)*)"', re.DOTALL)
    SCALAR = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][-+]?\d{1,3})?|true|false|null")
    STRAY = re.compile(r"\}\s*\]")
    LITERALS = {"true": True, "false": False, "null": None}

    def __init__(self, text: str, notes: list[str]):
        self.text, self.notes, self.at = text, notes, 0

    def where(self) -> str:
        return f"line {self.text.count(chr(10), 0, self.at) + 1}"

    def note(self, fault: str) -> None:
        self.notes.append(f"{fault} in {self.where()}")
        if len(self.notes) > MOST_FAULTS:
            raise Unreadable(f"is not JSON: more than {MOST_FAULTS} faults up to {self.where()}")

    def fail(self, expected: str) -> Unreadable:
        return Unreadable(f"is not JSON: {self.where()}: expected {expected}")

    def peek(self) -> str:
        """The next character after white space, '' at the end."""
        start = self.at
        while self.at < len(self.text) and (self.text[self.at].isspace() or self.text[self.at] in "\ufeff\x00"):
            self.at += 1
        if set(self.text[start : self.at]) - set(" \t\r\n"):
            self.note("odd white space")
        return self.text[self.at : self.at + 1]

    def document(self) -> Any:
        value = self.value(0)
        while self.peek():
            if not isinstance(value, dict):
                raise self.fail("the end")
            self.note("a closing bracket too many")
            before = self.at
            value = _merge([*value.items(), *self.members("}", "", 0)], self.notes)
            if self.at == before:
                raise self.fail("the end")
        return value

    def value(self, depth: int, inside: str = "") -> Any:
        if depth > DEEPEST_JSON:
            raise Unreadable("nested too deeply")
        first = self.peek()
        if first == "{":
            self.at += 1
            return _merge(list(self.members("}", inside, depth)), self.notes)
        if first == "[":
            self.at += 1
            return [value for _, value in self.members("]", inside, depth)]
        if first == '"':
            return self.string()
        match = self.SCALAR.match(self.text, self.at)
        if not match:
            raise self.fail("a value")
        self.at = match.end()
        word = match.group()
        return self.LITERALS[word] if word in self.LITERALS else float(word)

    def string(self) -> str:
        match = self.STRING.match(self.text, self.at)
        if not match:
            raise self.fail("a string with a closing quote")
        self.at = match.end()
        try:
            return json.loads(match.group(), strict=False)
        except ValueError:
            self.note("unknown escape")
            return match.group(1)

    def members(self, closing: str, inside: str, depth: int) -> Iterator[tuple[str, Any]]:
        """Members up to the closing bracket; of an array with the key ''. `inside`: the bracket that closes around."""
        last = ""  # what was read last: nothing, a comma or a value
        while True:
            mark = self.peek()
            if mark == ",":
                if last != "value":
                    self.note("a comma too many")
                self.at, last = self.at + 1, "comma"
                continue
            if closing == "]" and self.STRAY.match(self.text, self.at):
                self.note("a closing bracket too many")
                self.at += 1
                continue
            next_element = closing == "}" and inside == "]" and mark in ("{", "[")
            if mark in ("]", "}", "") or next_element:
                if last == "comma" and mark == closing:
                    self.note("a comma too many")
                if mark == closing:
                    self.at += 1
                else:
                    self.note(f"{closing!r} is missing")
                return
            if last == "value":
                self.note("a comma is missing")
            key = ""
            if closing == "}":
                if mark != '"':
                    raise self.fail("a key in quotes")
                key = self.string()
                if self.peek() != ":":
                    raise self.fail("a colon")
                self.at += 1
            yield key, self.value(depth + 1, closing)
            last = "value"


def _yaml(text: str, notes: list[str]) -> Any:
    if CONTROL.search(text):
        notes.append("holds raw control characters")
        text = CONTROL.sub(" ", text)
    found: list[str] = []

    class Loader(SafeLoader):
        def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict:
            self.flatten_mapping(node)
            pairs = [(self.construct_scalar(key) if isinstance(key, yaml.ScalarNode) else repr(key.tag), value)
                     for key, value in node.value]  # fmt: skip
            return _merge([(key, self.construct_object(value, deep=True)) for key, value in pairs], found)

    # As in JSON: dates are text, and so are yes, no, on and off.
    dropped = {"tag:yaml.org,2002:timestamp", "tag:yaml.org,2002:bool"}
    Loader.yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in resolvers if tag not in dropped]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    Loader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile(r"^(?:true|false)$"), ["t", "f"])
    try:
        document = compose_and_construct(text, Loader, check=lambda node: None)
    except ValueError as error:
        raise Unreadable(f"is not YAML: {error}") from error
    notes.extend(dict.fromkeys(found))
    return document
