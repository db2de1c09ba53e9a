"""APIs from Swagger 2 and OpenAPI 3 documents as they are found: in any encoding, slightly broken, in several files.

What can be mended without guessing is mended, and what was mended in a file or left out of it is warned of, naming the
file; a file that is of no use is skipped, with a warning and the reason.
"""

from __future__ import annotations

import functools
import json
import re
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import yaml

from lib.workbook.inputs import InputError, SafeLoader, compose_and_construct
from lib.workflows.apis import API, Connector, Field, Use

SUFFIXES = {".json", ".yaml", ".yml"}
METHODS = ("get", "put", "post", "delete", "options", "head", "patch", "trace", "query")
FORMS = ("multipart/form-data", "application/x-www-form-urlencoded")
DYNAMIC = ("x-ms-dynamic-schema", "x-ms-dynamic-properties")
CHOSEN = ("x-ms-dynamic-values", "x-ms-dynamic-list")  # a designer offers what there is, by name
TEXTS = ("x-ms-summary", "description", "title")
OWN = (*CHOSEN, "example", "examples")  # what a parameter may say beside its schema
ALTERNATIVES = ("allOf", "oneOf", "anyOf")
TYPES = {"string": str, "integer": int, "number": float, "boolean": bool, "array": list, "object": dict}
USE: dict[str, Use] = {"important": "core", "advanced": "rare"}  # by `x-ms-visibility`
DEEPEST_SCHEMA = 12
MOST_FIELDS = 2000  # of one schema: definitions that refer to each other twice double with each level
MOST_FAULTS = 100
NO_NAME = re.compile(r"apidefinition|swagger|openapi|v?\d+(\.\d+)*", re.IGNORECASE)
CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\x80-\x9f\ud800-\udfff\ufffe\uffff]")
ODD_SPACE = re.compile(r"(?=[^ \t\r\n])[\s\ufeff\x00]")
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
BRACKETS = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{}]', re.DOTALL)
# What was expected where a text is no JSON, by the decoder's messages.
EXPECTED = {"Expecting value": "a value", "Expecting property": "a key in quotes", "Expecting ':'": "a colon",
            "Expecting ','": "a comma", "Unterminated": "a string with a closing quote",
            "Extra data": "the end"}  # fmt: skip


class Unreadable(ValueError):
    """A document that cannot be used; the message is the reason."""


# ---------------------------------------------------------------- files


def document_files(path: Path) -> list[Path]:
    """The file itself, or the documents in a folder and its subfolders."""
    if not path.is_dir():
        return [path]
    return sorted(file for file in path.rglob("*") if file.suffix.lower() in SUFFIXES)


def read_documents(path: Path) -> Iterator[tuple[Path, Connector | None, list[API], str]]:
    """(file, connector, its APIs, reason) for each document in a file or folder; with a reason, it was skipped.

    A file that is part of another document is no document of its own.

    Raises:
        InputError: there is no such file, or the folder (with its subfolders) holds none.
    """
    if not path.exists():
        raise InputError(f"{path}: there is no such file or folder")
    files = document_files(path)
    if not files:
        raise InputError(f"{path}: holds no .json, .yaml or .yml file")
    taken: set[str] = set()
    parts: set[Path] = set()
    skipped: list[tuple[Path, str]] = []
    for file in files:
        notes: list[str] = []
        try:
            document = read_document(file, notes)
            _check(document, notes)
            name, wanted = _named(file, document)
            connector_id = _unused(wanted, taken, notes)
            reader = _Reader(document, file, notes)
            apis = list(_apis(reader, connector_id, name))
            if not apis:
                raise Unreadable("describes no operation")
        except (RecursionError, Unreadable) as error:
            skipped.append((file, "nested too deeply" if isinstance(error, RecursionError) else str(error)))
            continue
        taken.add(connector_id)
        parts |= set(reader.files)
        if notes:
            warnings.warn(f"{file}: {'; '.join(dict.fromkeys(notes))}", stacklevel=3)
        yield file, Connector(connector_id, name, (name,)), apis, ""
    for file, reason in skipped:
        if file.resolve() not in parts:
            warnings.warn(f"{file}: skipped: {reason}", stacklevel=3)
            yield file, None, [], reason


def _check(document: dict, notes: list[str]) -> None:
    """Raises Unreadable unless the mapping is a Swagger or OpenAPI document; puts paths where they belong."""
    stray = [key for key in document if key.startswith("/")]
    if stray and isinstance(document.get("paths"), dict):  # a brace too many ended `paths` early
        notes.append(f"{len(stray)} paths beside 'paths' were taken as part of it")
        document["paths"] |= {key: document.pop(key) for key in stray}
    if not {"swagger", "openapi"} & set(document):
        raise Unreadable("is neither a Swagger 2 nor an OpenAPI 3 document")
    if webhooks := _mapping(document.get("webhooks")):
        notes.append(f"{len(webhooks)} webhook{'' if len(webhooks) == 1 else 's'} left out: flows call paths alone")
        if "paths" not in document:  # as OpenAPI 3.1 allows
            raise Unreadable("has webhooks alone, which no flow calls")
    if not isinstance(document.get("paths"), dict):
        raise Unreadable("has no mapping 'paths'")


def _clean(value: Any) -> str:
    """Text in one line without control characters; '' for what is no text."""
    return " ".join(CONTROL.sub(" ", value).split()) if isinstance(value, str) else ""


def _mapping(value: Any) -> dict:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list:
    return value if isinstance(value, list) else []


def _named(file: Path, document: dict) -> tuple[str, str]:
    """What the app is called, and its connector's id: `shared_` and the file's name, letters and digits only.

    Where all connectors' files have the same name, and where it is a version, the folder's name counts.
    """
    names = [re.sub(r"\.(swagger|openapi)$", "", file.stem, flags=re.IGNORECASE)]
    names += [folder.name for folder in file.absolute().parents]
    stem = next((name for name in names if name and not NO_NAME.fullmatch(name)), names[0])
    title = _clean(_mapping(document.get("info")).get("title")) or stem
    slugs = [re.sub(r"[^a-z0-9]", "", name.lower()) for name in (stem, title)]
    return title, f"shared_{slugs[0] or slugs[1] or 'connector'}"


def _unused(name: str, taken: set[str], notes: list[str]) -> str:
    """The name, with a number behind it where it is taken."""
    free, number = name, 1
    while free in taken:
        number += 1
        free = f"{name}_{number}"
    if free != name:
        notes.append(f"{name} is there twice, now {free}")
    return free


# ---------------------------------------------------------------- text of a file


def read_document(path: Path, notes: list[str]) -> dict:
    """The mapping in a JSON or YAML file; mended faults go to `notes`, others raise Unreadable."""
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise Unreadable(f"cannot be read: {error.strerror}") from error
    marks = ((b"\xef\xbb\xbf", "utf-8"), (b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be"))
    encoding = next((name for mark, name in marks if raw.startswith(mark)), "")
    if encoding:
        notes.append("begins with a byte order mark")
    try:
        text = raw.decode(encoding or "utf-8", errors="replace" if encoding else "strict").removeprefix("\ufeff")
    except UnicodeDecodeError:
        notes.append("is not UTF-8, read as cp1252")
        text = raw.decode("cp1252", errors="replace")
    try:
        document = _json(text, notes) if path.suffix.lower() == ".json" else _yaml(text, notes)
    except RecursionError as error:
        raise Unreadable("nested too deeply") from error
    if not isinstance(document, dict):
        raise Unreadable("is no mapping")
    return document


def _merge(pairs: Iterable[tuple[Any, Any]], notes: list[str]) -> dict:
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
    """The content of a JSON text whose commas and brackets may be missing or too many; else of a YAML text."""
    faults: list[Any] = []
    mended, problem = text, f"more than {MOST_FAULTS} faults"
    while len(faults) <= MOST_FAULTS:
        twice: list[str] = []
        try:
            document = json.loads(
                mended,
                strict=False,
                object_pairs_hook=functools.partial(_merge, notes=twice),
                parse_int=lambda digits: int(digits) if len(digits) < 400 else float(digits),
                parse_constant=str,
            )
        except json.JSONDecodeError as error:
            mended, fault = _mend(mended, error)
            if not fault:
                expected = next((words for start, words in EXPECTED.items() if error.msg.startswith(start)), error.msg)
                problem = f"line {error.lineno}: expected {expected}"
                break
            faults.append(f"{fault} in line {error.lineno}")
            continue
        if CONTROL.search(mended):
            faults.append("holds raw control characters")
        notes += dict.fromkeys(faults + twice)
        return document
    try:
        document = _yaml(text, [])
    except Unreadable:
        document = None
    if not isinstance(document, dict):
        raise Unreadable(f"is not JSON: {problem}")
    notes.append("is YAML")
    return document


def _mend(text: str, error: json.JSONDecodeError) -> tuple[str, str]:
    """The text with the fault mended at which the decoder stopped, and what it was; '' where only guessing helps."""
    at, message = error.pos, error.msg
    before, here, after = text[:at].rstrip(), text[at : at + 1], text[at:]
    if message.startswith("Invalid"):
        place = text.rfind("\\", 0, at + 1)
        return f"{text[:place]}\\{text[place:]}", "unknown escape"
    if here and ODD_SPACE.match(here):
        return ODD_SPACE.sub(" ", text), "odd white space"
    if comment := COMMENT.match(text, at):
        return text[:at] + text[comment.end() :], "a comment"
    if message.startswith("Extra data"):
        if here in "]}":
            return text[:at] + text[at + 1 :], "a closing bracket too many"
        too_early = before.endswith("}") and here in ',"'
        return (before[:-1] + after, "a closing bracket too many") if too_early else (text, "")
    inside = _opened(before)
    closing = {"{": "}", "[": "]"}.get(inside, "")
    if here == "," and not message.startswith("Expecting ':'"):
        return text[:at] + text[at + 1 :], "a comma too many"
    if before.endswith(",") and (here == "" or here in "]}"):
        return f"{before[:-1]} {after}", "a comma too many"
    if message.startswith("Expecting property") and here in ("{", "[") and before.endswith(","):
        return f"{before[:-1]}}},{after}", "'}' is missing"
    if message.startswith("Expecting ','"):
        if inside == "[" and re.match(r"\}\s*\]", after):
            return text[:at] + text[at + 1 :], "a closing bracket too many"
        if here == "" or here in "]}" or (inside == "{" and here in "{["):
            return f"{before}{closing}{after}", f"{closing!r} is missing"
        if here == '"' or here in "{[" or here.isalnum() or here == "-":
            return f"{before},{after}", "a comma is missing"
    if here == "" and before.endswith(("{", "[")):
        return before + closing, f"{closing!r} is missing"
    return text, ""


def _opened(text: str) -> str:
    """The bracket around the end of a text; '' outside of all."""
    opened: list[str] = []
    for found in BRACKETS.finditer(text):
        if found[0] in "[{":
            opened.append(found[0])
        elif found[0] in "]}" and opened:
            opened.pop()
    return opened[-1] if opened else ""


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


# ---------------------------------------------------------------- operations


def _apis(reader: _Reader, connector: str, app: str) -> Iterator[API]:
    taken: set[str] = set()
    notes = reader.notes
    for path, item in reader.document["paths"].items():
        item = reader.resolve(item)
        if not isinstance(item, dict):
            notes.append(f"path {path} is no mapping and is left out")
            continue
        for method in (key for key in item if key.lower() in METHODS):
            operation = reader.resolve(item[method])
            if not isinstance(operation, dict):
                notes.append(f"{method} {path} is no mapping and is left out")
                continue
            reader.operation = name = _unused(_identifier(operation, method, path, notes), taken, notes)
            taken.add(name)
            trigger = bool(operation.get("x-ms-trigger")) and operation.get("x-ms-trigger") != "none"
            parameters = reader.parameters(item, operation)
            dynamic = reader.dynamic
            summary = _clean(operation.get("summary")) or _clean(operation.get("x-ms-summary"))
            yield API(
                connector=connector,
                operation=name,
                display_name=summary or _words(name),
                app_name=app,
                description=_clean(operation.get("description")) or summary,
                trigger=trigger,
                dynamic=dynamic,
                internal=operation.get("x-ms-visibility") == "internal" or operation.get("deprecated") is True,
                use=USE.get(str(operation.get("x-ms-visibility")), "common"),
                parameters=tuple(parameters),
                returns=tuple(reader.returns(item, operation, trigger)),
            )


def _words(name: str) -> str:
    """An operation id as words: `ListTasks_V3` as `List Tasks V3`."""
    return " ".join(re.findall(r"[A-Z]+(?![a-z])[0-9]*|[A-Z]?[a-z]+[0-9]*|[0-9]+", name)) or name


def _identifier(operation: dict, method: str, path: str, notes: list[str]) -> str:
    """The operation's id; where it is missing or no identifier, one made from it or from method and path."""
    given = operation.get("operationId")
    name = given if isinstance(given, str) and re.search(r"[A-Za-z0-9]", given) else f"{method} {path}"
    identifier = re.sub(r"[^A-Za-z0-9_-]+", "_", name).strip("_-") if not re.fullmatch(r"[\w-]+", name, re.A) else name
    if not re.match(r"[A-Za-z_]", identifier):
        identifier = f"_{identifier}"
    if identifier != given:
        notes.append(f"operation id {given!r} of {method} {path}: now {identifier}")
    return identifier


# ---------------------------------------------------------------- schemas


class _Reader:
    """Fields of the schemas of one document.

    Attributes:
        files: those that it refers to, by place.
        operation: the one at hand.
        dynamic: whether a schema of its parameters depends on other parameters.
    """

    def __init__(self, document: dict, file: Path, notes: list[str]):
        self.document, self.file, self.notes = document, file.resolve(), notes
        self.files: dict[Path, Any] = {}
        self.operation, self.dynamic, self.visited = "", False, 0
        self.anchors: dict[str, Any] | None = None
        # By id of a node: the node, so that the id stays in use, and what it stands for.
        self.joined: dict[int, tuple[dict, dict]] = {}
        self.followed: dict[int, tuple[dict, Any]] = {}

    def resolve(self, node: Any) -> Any:
        """What a `$ref`, or a chain of them, stands for, with the texts beside it; {} with a note where it leads
        nowhere."""
        if not isinstance(node, dict) or not isinstance(node.get("$ref"), str):
            return node
        if id(node) not in self.followed:
            self.followed[id(node)] = (node, None)
            target = self.resolve(self._target(node["$ref"]))
            if target is None:
                self.notes.append(f"reference {node['$ref']} leads nowhere, or in a circle")
                target = {}
            if texts := {key: node[key] for key in TEXTS if isinstance(node.get(key), str)}:
                target = target | texts if isinstance(target, dict) else target
            self.followed[id(node)] = (node, target)
        return self.followed[id(node)][1]

    def _target(self, reference: str) -> Any:
        """What stands at the place that a reference names: a pointer or an anchor, in this file or one beside it."""
        place, _, pointer = reference.partition("#")
        node = self._file(place) if place else self.document
        if pointer and not pointer.startswith("/"):
            if self.anchors is None:
                self.anchors = {part["$anchor"]: part for part in _parts(self.document)
                                if isinstance(part.get("$anchor"), str)}  # fmt: skip
            return self.anchors.get(pointer)
        for part in pointer.split("/")[1:]:
            name = unquote(part).replace("~1", "/").replace("~0", "~")
            if isinstance(node, list):
                node = node[int(name)] if name.isdecimal() and int(name) < len(node) else None
            else:
                node = node.get(name) if isinstance(node, dict) else None
        return node

    def _file(self, place: str) -> Any:
        """A file in the document's folder or below it; the references in it name files from there, too."""
        folder = self.file.parent
        try:
            path = (folder / unquote(place)).resolve()
            if path == self.file:
                return self.document
            if path not in self.files and path.is_relative_to(folder) and path.is_file():
                self.files[path] = read_document(path, self.notes)
                for part in _parts(self.files[path]):
                    if isinstance(part.get("$ref"), str):
                        file, _, pointer = part["$ref"].partition("#")
                        beside = (path.parent / unquote(file)).resolve() if file else path
                        part["$ref"] = f"{beside}#{pointer}"
        except (Unreadable, OSError, ValueError):
            return None
        return self.files.get(path)

    def parameters(self, item: dict, operation: dict) -> list[Field]:
        """Parameters of the operation and of its path, bodies flattened; `dynamic` then says whether a schema is."""
        declared: dict[tuple[str, str], dict] = {}
        for raw in (*_list(item.get("parameters")), *_list(operation.get("parameters"))):
            parameter = _mapping(self.resolve(raw))
            if not isinstance(parameter.get("name"), str) or not parameter["name"].strip():
                self.notes.append(f"{self.operation}: a parameter without name is left out")
                continue
            declared[parameter["name"], str(parameter.get("in"))] = parameter
        fields: list[Field] = []
        self.dynamic = False
        for (key, place), parameter in declared.items():
            schema, required = self._schema(parameter), parameter.get("required") is True
            found = self.flatten(key, schema, required) if place == "body" else []
            if not found or [field.key for field in found] == [key]:
                # What a parameter says of itself counts more than its schema.
                own = {name: parameter[name] for name in TEXTS if isinstance(parameter.get(name), str)}
                own |= {name: parameter[name] for name in OWN if name in parameter}
                schema = self._joined(schema) | own
                found = [_leaf(key, schema, required, schema.get("x-ms-visibility") == "internal")]
            if parameter.get("x-ms-visibility") == "internal":
                found = [replace(field, internal=True) for field in found]
            fields += found
            self.dynamic |= any(mark in one for one in (parameter, schema) for mark in DYNAMIC)
        body = _mapping(self.resolve(operation.get("requestBody")))
        if body:
            media, schema = self._content(body)
            found = self.flatten("" if media in FORMS else "body", schema, body.get("required") is True)
            named = {field.key for field in fields}
            fields += [replace(field, key=f"body/{field.key}") if field.key in named else field for field in found]
        return self._unique(fields)

    def returns(self, item: dict, operation: dict, trigger: bool) -> list[Field]:
        """The fields of the successful response; of a webhook trigger, what it is notified of."""
        responses = {str(code): _mapping(self.resolve(value))
                     for code, value in _mapping(operation.get("responses")).items()}  # fmt: skip
        successes = sorted(code for code in responses if code.startswith("2"))
        telling = (code for code in successes if {"schema", "content"} & set(responses[code]))
        response = responses.get(next(telling, successes[0] if successes else "default"), {})
        schema = self._schema(response) if "schema" in response else self._content(response)[1]
        if trigger and "x-ms-notification-content" in item:
            schema = self._schema(_mapping(item["x-ms-notification-content"]))
        schema = self._joined(schema)
        if trigger and operation.get("x-ms-trigger") == "batch" and "items" not in schema:  # one item starts one flow
            lists = [p for p in map(self._joined, _mapping(schema.get("properties")).values()) if "items" in p]
            schema = lists[0] if len(lists) == 1 else schema
        schema = self._joined(schema["items"]) if "items" in schema else schema
        if not _mapping(schema.get("properties")):
            return []
        return self._unique(self.flatten("", schema, False, skipped="writeOnly"))

    def _unique(self, fields: list[Field]) -> list[Field]:
        by_key: dict[str, Field] = {}
        for field in fields:
            if field.key in by_key:
                self.notes.append(f"{self.operation}: {field.key} is there twice")
            by_key.setdefault(field.key, field)
        return list(by_key.values())

    def _content(self, holder: dict) -> tuple[str, dict]:
        """Media type and schema of an OpenAPI 3 body, JSON where there is a choice."""
        content = _mapping(holder.get("content"))
        media = min(content, key=lambda media: "json" not in media, default="")
        return media, _mapping(self.resolve(_mapping(content.get(media)).get("schema")))

    def _schema(self, holder: dict) -> dict:
        """The schema of a parameter or response; Swagger 2's parameters are schemas themselves."""
        if "content" in holder and "schema" not in holder:
            return self._content(holder)[1]
        return _mapping(self.resolve(holder["schema"])) if "schema" in holder else holder

    def _joined(self, schema: Any) -> dict:
        """The schema with the parts of `allOf`, and with the properties or choices of all its alternatives."""
        schema = _mapping(self.resolve(schema))
        parts = [(word, part) for word in ALTERNATIVES for part in _list(schema.get(word))]
        if not parts:
            return schema
        if id(schema) not in self.joined:
            self.joined[id(schema)] = (schema, {})  # what a part of itself finds
            self.joined[id(schema)] = (schema, self._join(schema, parts))
        return self.joined[id(schema)][1]

    def _join(self, schema: dict, parts: list[tuple[str, Any]]) -> dict:
        joined = {key: value for key, value in schema.items() if key not in ALTERNATIVES}
        properties, required = dict(_mapping(schema.get("properties"))), _list(schema.get("required"))
        read = [(word, self._joined(part)) for word, part in parts]
        read = [(word, part) for word, part in read if part.get("type") != "null"]
        values = [_values(part) if word != "allOf" else [] for word, part in read]
        if len(values) > 1 and all(values):  # alternatives that are values are one choice
            joined = {"type": read[0][1].get("type")} | joined
            return joined | {"enum": [value for some in values for value in some]}
        for word, part in read:
            properties = _mapping(part.get("properties")) | properties
            required = required + (_list(part.get("required")) if word == "allOf" else [])
            joined = {key: value for key, value in part.items() if key not in ("properties", "required")} | joined
        required = list(dict.fromkeys(map(str, required)))
        return joined | ({"properties": properties} if properties else {}) | {"required": required}

    def flatten(self, root: str, schema: dict, required: bool, skipped: str = "readOnly") -> list[Field]:
        """Leaves of a schema as fields with keys `root/a/b`. `skipped` marks what is left out: of a request, what is
        only read. Arrays are leaves, and so is an object that holds itself."""
        self.visited = 0
        return list(self._leaves(root, schema, required, False, skipped, ()))

    def _leaves(
        self, key: str, schema: Any, required: bool, internal: bool, skipped: str, around: tuple[int, ...]
    ) -> Iterator[Field]:
        self.visited += 1
        if self.visited > MOST_FIELDS:
            self.notes.append(f"{self.operation}: a schema has more than {MOST_FIELDS} fields; the rest is left out")
            return
        target, node = _mapping(self.resolve(schema)), self._joined(schema)
        self.dynamic |= any(mark in node for mark in DYNAMIC)
        internal |= node.get("x-ms-visibility") == "internal"
        properties = _mapping(node.get("properties"))
        if not properties or id(target) in around or len(around) >= DEEPEST_SCHEMA:
            if key:
                yield _leaf(key, node, required, internal)
            return
        wanted = {str(name) for name in _list(node.get("required"))}
        for name, child in properties.items():
            if name.strip() and _mapping(self.resolve(child)).get(skipped) is not True:
                path = f"{key}/{name}" if key else name
                yield from self._leaves(
                    path, child, required and name in wanted, internal, skipped, (*around, id(target))
                )


def _parts(document: Any) -> Iterator[dict]:
    """All mappings in a document."""
    waiting = [document]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            yield node
        waiting += [
            part for part in (node.values() if isinstance(node, dict) else node) if isinstance(part, dict | list)
        ]


def _values(schema: dict) -> list:
    """The values that a schema allows, where it names them."""
    values = _list(schema.get("enum")) or ([schema["const"]] if "const" in schema else [])
    return [value for value in values if isinstance(value, str | int | float)]


def _leaf(key: str, schema: dict, required: bool, internal: bool) -> Field:
    values = _values(schema)
    named = schema["type"] if isinstance(schema.get("type"), list) else [schema.get("type")]
    types = [name for name in named if isinstance(name, str) and name in TYPES]
    types += [name for name, kind in TYPES.items() if "const" in schema and type(schema["const"]) is kind]
    fallback = "object" if "properties" in schema else "array" if "items" in schema else "string"
    examples = schema.get("examples")
    shown = (
        [_mapping(example).get("value") for example in examples.values()]
        if isinstance(examples, dict)
        else _list(examples)
    )
    examples = values or [value for value in (schema.get("example"), *shown) if isinstance(value, str | int | float)]
    chosen = any(mark in schema for mark in CHOSEN)
    return Field(
        key=CONTROL.sub("", key),
        kind="choice" if len(values) > 1 else "container" if chosen else "any",
        examples=tuple(_clean(value) if isinstance(value, str) else value for value in examples),
        type=types[0] if types else fallback,
        format=_clean(schema.get("format")),
        summary=_clean(schema.get("x-ms-summary")) or _clean(schema.get("title")),
        description=_clean(schema.get("description")),
        required=required,
        internal=internal,
    )
