"""APIs from Swagger 2 and OpenAPI 3 documents in JSON or YAML, each in one file or in several.

A file that is of no use is skipped, and what is odd in one is left out; warnings name the files and say what.
"""

from __future__ import annotations

import json
import re
import warnings
from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import yaml

from lib.workbook.inputs import InputError, SafeLoader, compose_and_construct, one_line
from lib.workbook.references import References
from lib.workflows.apis import Connector, Field, Operation, Use, free_name

SUFFIXES = {".json", ".yaml", ".yml"}
METHODS = ("get", "put", "post", "delete", "options", "head", "patch", "trace", "query")
FORMS = ("multipart/form-data", "application/x-www-form-urlencoded")
DYNAMIC = ("x-ms-dynamic-schema", "x-ms-dynamic-properties")
CHOSEN = ("x-ms-dynamic-values", "x-ms-dynamic-list")  # a designer offers what there is, by name
TEXTS = ("x-ms-summary", "description", "title")
ALTERNATIVES = ("allOf", "oneOf", "anyOf")
TYPES = ("string", "integer", "number", "boolean", "array", "object")
TYPE_OF = {str: "string", bool: "boolean", int: "integer", float: "number"}  # what an enumeration's values are
USE: dict[str, Use] = {"important": "core", "advanced": "rare"}  # by `x-ms-visibility`
DEEPEST_SCHEMA = 12
MOST_FIELDS = 2000  # of one schema: definitions that refer to each other twice double with each level
MOST_RETURNED = 200  # fields that an operation returns
MOST_WORDS = 12  # of a description that stands for a summary
MOST_TOLD = 5  # warnings of a folder, and changes told of a file; more are counted
NO_NAME = re.compile(r"apidefinition|swagger|openapi|v?\d+(\.\d+)*", re.IGNORECASE)
CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\x80-\x9f\ud800-\udfff\ufffe\uffff]")
COMMENT = re.compile(r'("(?:[^"\\]|\\.)*")|//[^\n]*|/\*.*?\*/', re.DOTALL)  # or a text, which stays


class _Loader(SafeLoader):
    """YAML with the scalars of JSON: dates are text, and so are yes, no, on and off."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if not tag.endswith((":timestamp", ":bool"))]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile(r"^(?:true|false)$"), ["t", "f"])


def document_files(path: Path) -> list[Path]:
    """The file itself, or the documents in a folder and its subfolders."""
    return sorted(file for file in path.rglob("*") if file.suffix.lower() in SUFFIXES) if path.is_dir() else [path]


def read_documents(path: Path) -> tuple[dict[str, Operation], dict[str, Connector], list[tuple[str, str]]]:
    """What the documents in a file, or a folder with its subfolders, hold: APIs by name, connectors by id, and (file,
    reason) of the skipped. A file that is part of another document is none of its own.

    Raises:
        InputError: there is no such file, the folder holds none, or none has an API.
    """
    if not path.exists():
        raise InputError(f"{path}: there is no such file or folder")
    files = document_files(path)
    if not files:
        raise InputError(f"{path}: holds no .json, .yaml or .yml file")
    apis: dict[str, Operation] = {}
    connectors: dict[str, Connector] = {}
    parts: set[Path] = set()
    reasons: dict[Path, str] = {}
    told: list[str] = []
    for file in files:
        try:
            reader = _Reader(file, (path if path.is_dir() else path.parent).resolve())
            name, wanted = _named(file, reader.document)
            connector = free_name(wanted, connectors)
            found = {api.name: api for api in reader.apis(connector, name)}
            if not found:
                raise InputError("describes no operation")
        except (RecursionError, InputError) as error:
            reasons[file] = "nested too deeply" if isinstance(error, RecursionError) else str(error)
            continue
        apis |= found
        connectors[connector] = Connector(connector, name, (name,))
        parts |= set(reader.files)
        notes = [*dict.fromkeys(reader.notes)]
        notes += [f"reference {lost} leads nowhere, or in a circle" for lost in reader.references.lost]
        more = [f"and {len(notes) - MOST_TOLD:,} more"] if len(notes) > MOST_TOLD else []
        told += [f"{file}: {'; '.join(notes[:MOST_TOLD] + more)}"] if notes else []
    skipped = [(str(file), reason) for file, reason in reasons.items() if file.resolve() not in parts]
    for lines in (told, [f"{file}: skipped: {reason}" for file, reason in skipped]):
        if len(lines) > MOST_TOLD:
            lines = [f"{path}: {len(lines):,} of {len(files):,} files have such a warning as {one_line(lines[0], 300)}"]
        for line in lines:
            warnings.warn(line, stacklevel=3)
    if not apis:
        raise InputError(f"{path}: no API could be read; {': '.join(skipped[0])}")
    return apis, connectors, skipped


def read_content(path: Path) -> Any:
    """What a JSON or YAML file holds, its keys as text; raises InputError where it is neither.

    People save YAML as JSON, and JSON with comments or a comma too many.
    """
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}") from error
    try:
        text = raw.decode(json.detect_encoding(raw))
    except UnicodeDecodeError:
        text = raw.decode("cp1252", errors="replace")
    text = text.removeprefix("\ufeff")
    broken = []
    for form in ("json", "commented", "yaml") if path.suffix.lower() == ".json" else ("yaml",):
        try:
            if form == "yaml":
                return _with_text_keys(compose_and_construct(text, _Loader, check=lambda node: None))
            bare = text if form == "json" else COMMENT.sub(lambda found: found[1] or "", text)
            return json.loads(bare, strict=False, parse_constant=str)
        except ValueError as error:
            broken.append(error)
    raise InputError(f"is not {path.suffix[1:].upper()}: {one_line(broken[0])}")


def _with_text_keys(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _with_text_keys(part) for key, part in value.items()}
    return [_with_text_keys(part) for part in value] if isinstance(value, list) else value


def _clean(value: Any) -> str:
    """Text in one line without control characters; '' for what is no text."""
    return " ".join(CONTROL.sub(" ", value).split()) if isinstance(value, str) else ""


def first_sentence(text: str) -> str:
    """The first sentence of a description, without its full stop and markup."""
    return re.sub(r"<[^>]*>", "", re.split(r"(?<=\w)[.:;!?](?: |<|$)|</p>|<br", text)[0]).strip()


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


class _Reader:
    """The operations of a document and the fields of their schemas; its references do not leave the folder. Raises
    InputError where it is no such document."""

    def __init__(self, file: Path, folder: Path):
        self.file, self.folder, self.document = file.resolve(), folder, read_content(file)
        if not isinstance(self.document, dict):
            raise InputError("is no mapping")
        if not {"swagger", "openapi"} & set(self.document):
            raise InputError("is neither a Swagger 2 nor an OpenAPI 3 document")
        if not isinstance(self.document.get("paths"), dict):
            raise InputError("has no mapping 'paths'")
        self.notes: list[str] = []  # what was changed and left out
        self.files: dict[Path, Any] = {}  # those that it refers to
        self.operation = ""  # the one at hand
        self.dynamic = False  # whether a schema of its parameters depends on other parameters
        self.references = References(self.document, self._file)
        self.resolve = self.references.resolve
        self.joined: dict[int, dict] = {}  # by id: the documents keep their nodes

    def apis(self, connector: str, app: str) -> Iterator[Operation]:
        taken: set[str] = set()
        for path, item in ((path, self.resolve(item)) for path, item in self.document["paths"].items()):
            for method in (key for key in _mapping(item) if key.lower() in METHODS):
                operation = self.resolve(item[method])
                if not isinstance(operation, dict):
                    self.notes.append(f"{method} {path} is no mapping and is left out")
                    continue
                given = operation.get("operationId")
                name = given if isinstance(given, str) and re.search(r"[A-Za-z0-9]", given) else f"{method} {path}"
                if not re.fullmatch(r"[\w-]+", name, re.ASCII):
                    name = re.sub(r"[^A-Za-z0-9_-]+", "_", name).strip("_-")
                self.operation = name = free_name(name if re.match(r"[A-Za-z_]", name) else f"_{name}", taken)
                if name != given:
                    self.notes.append(f"operation id {given!r} of {method} {path}: now {name}")
                taken.add(name)
                trigger = bool(operation.get("x-ms-trigger")) and operation.get("x-ms-trigger") != "none"
                parameters = self.parameters(item, operation)
                dynamic = self.dynamic
                summary = _clean(operation.get("summary")) or _clean(operation.get("x-ms-summary"))
                description = _clean(operation.get("description")) or summary
                said = first_sentence(description) if len(first_sentence(description).split()) <= MOST_WORDS else ""
                words = re.findall(r"[A-Z]+(?![a-z])[0-9]*|[A-Z]?[a-z]+[0-9]*|[0-9]+", name)
                yield Operation(
                    connector=connector,
                    operation=name,
                    display_name=summary or said or " ".join(words) or name,
                    app_name=app,
                    description=description,
                    trigger=trigger,
                    dynamic=dynamic,
                    internal=operation.get("x-ms-visibility") == "internal" or operation.get("deprecated") is True,
                    use=USE.get(str(operation.get("x-ms-visibility")), "common"),
                    parameters=tuple(parameters),
                    returns=tuple(self.returns(item, operation, trigger)),
                )

    def _file(self, place: str) -> Any:
        """The content of another file of the folder, or None; references in it name their files whole from then on."""
        try:
            path = (self.file.parent / unquote(place)).resolve()
            if path == self.file:
                return self.document
            if path not in self.files and path.is_relative_to(self.folder) and path.is_file():
                self.files[path] = read_content(path)
                waiting: list[Any] = [self.files[path]]
                for node in waiting:
                    waiting += node.values() if isinstance(node, dict) else _list(node)
                    if isinstance(node, dict) and isinstance(node.get("$ref"), str):
                        file, _, pointer = node["$ref"].partition("#")
                        node["$ref"] = f"{(path.parent / unquote(file)).resolve() if file else path}#{pointer}"
        except (OSError, ValueError):
            return None
        return self.files.get(path)

    def parameters(self, item: dict, operation: dict) -> list[Field]:
        """Parameters of the operation and of its path, bodies flattened; `dynamic` then says whether a schema is.

        Of two with one name, as in the path and in a form, the second is called by its place, too: `body/id`.
        """
        declared: dict[tuple[str, str], dict] = {}
        for raw in (*_list(item.get("parameters")), *_list(operation.get("parameters"))):
            parameter = _mapping(self.resolve(raw))
            if isinstance(parameter.get("name"), str) and parameter["name"].strip():
                declared[parameter["name"], str(parameter.get("in"))] = parameter
            else:
                self.notes.append(f"{self.operation}: a parameter without name is left out")
        fields: dict[str, Field] = {}
        self.dynamic = False
        for (key, place), parameter in declared.items():
            schema = self._schema(parameter)[1] if {"schema", "content"} & set(parameter) else parameter
            required = parameter.get("required") is True
            found = self.flatten(key, schema, required) if place == "body" else []
            if not found or [field.key for field in found] == [key]:
                # What a parameter says of itself counts more than its schema.
                own = {name: parameter[name] for name in (*TEXTS, *CHOSEN, "example", "examples") if name in parameter}
                schema = self._joined(schema) | own
                found = [self._leaf(key, schema, required, False)]
            if parameter.get("x-ms-visibility") == "internal":
                found = [replace(field, internal=True) for field in found]
            self.dynamic |= any(mark in one for one in (parameter, schema) for mark in DYNAMIC)
            _add(fields, found, place)
        if body := _mapping(self.resolve(operation.get("requestBody"))):
            media, schema = self._schema(body)
            root = "" if media in FORMS else "body"
            _add(fields, self.flatten(root, schema, body.get("required") is True), "body")
        return list(fields.values())

    def returns(self, item: dict, operation: dict, trigger: bool) -> list[Field]:
        """The fields of the successful response; of a webhook trigger, what it is notified of."""
        responses = {str(code): _mapping(self.resolve(value))
                     for code, value in _mapping(operation.get("responses")).items()}  # fmt: skip
        successes = sorted(code for code in responses if code.startswith("2"))
        telling = (code for code in successes if self._schema(responses[code])[1])
        response = responses.get(next(telling, successes[0] if successes else "default"), {})
        if trigger and "x-ms-notification-content" in item:
            response = _mapping(item["x-ms-notification-content"])
        schema = self._joined(self._schema(response)[1])
        if trigger and operation.get("x-ms-trigger") == "batch" and "items" not in schema:  # one item starts one flow
            lists = [p for p in map(self._joined, _mapping(schema.get("properties")).values()) if "items" in p]
            schema = lists[0] if len(lists) == 1 else schema
        schema = self._joined(schema["items"]) if "items" in schema else schema
        fields: dict[str, Field] = {}
        if _mapping(schema.get("properties")):
            _add(fields, self.flatten("", schema, False, "writeOnly", MOST_RETURNED))
        return list(fields.values())

    def _schema(self, holder: dict) -> tuple[str, dict]:
        """Media type, JSON where there is a choice, and schema of a body, a response or a parameter."""
        if "schema" in holder:
            return "", _mapping(self.resolve(holder["schema"]))
        content = _mapping(holder.get("content"))
        media = min(content, key=lambda media: "json" not in media, default="")
        return media, _mapping(self.resolve(_mapping(content.get(media)).get("schema")))

    def _joined(self, schema: Any) -> dict:
        """The schema with the parts of `allOf`, and with the properties and the choices of all its alternatives."""
        schema = _mapping(self.resolve(schema))
        parts = [(word, part) for word in ALTERNATIVES for part in _list(schema.get(word))]
        if not parts or id(schema) in self.joined:
            return self.joined.get(id(schema), schema)
        self.joined[id(schema)] = {}  # what a part of itself finds
        told = [(word, part) for word, part in ((word, self._joined(part)) for word, part in parts)
                if part.get("type") != "null"]  # fmt: skip
        choices = [part for word, part in told if word != "allOf"]
        properties, required = dict(_mapping(schema.get("properties"))), _list(schema.get("required"))
        joined = {key: value for key, value in schema.items() if key not in ALTERNATIVES}
        for word, part in told:
            properties = _mapping(part.get("properties")) | properties
            required = required + (_list(part.get("required")) if word == "allOf" else [])
            own = ("enum", "const", *TEXTS) if word != "allOf" and len(choices) > 1 else ()  # of one of several
            joined = {key: value for key, value in part.items() if key not in own} | joined
        values = list(dict.fromkeys(value for part in choices for value in _values(part)))
        joined |= {"enum": values} if len(choices) > 1 and values and not _values(schema) else {}
        joined |= {"properties": properties, "required": list(dict.fromkeys(map(str, required)))}
        self.joined[id(schema)] = joined
        return joined

    def flatten(
        self, root: str, schema: dict, required: bool, skipped: str = "readOnly", most: int = MOST_FIELDS
    ) -> list[Field]:
        """Leaves of a schema as fields with keys `root/a/b`, outer objects opened first, until there are `most`.

        Arrays are leaves, and so is an object that holds itself. `skipped` marks what is left out: of a request, what
        is only read.
        """
        waiting: deque[tuple] = deque([((), root, schema, required, False, ())])
        found: list[tuple[tuple[int, ...], Field]] = []
        cut = False
        while waiting:
            place, key, told, wanted, internal, around = waiting.popleft()
            target, node = _mapping(self.resolve(told)), self._joined(told)
            self.dynamic |= any(mark in node for mark in DYNAMIC)
            internal |= node.get("x-ms-visibility") == "internal"
            inside = [(str(name), child) for name, child in _mapping(node.get("properties")).items()
                      if str(name).strip() and _mapping(self.resolve(child)).get(skipped) is not True]  # fmt: skip
            full = len(found) + len(waiting) + len(inside) > most
            cut |= full
            if key and (full or not inside or id(target) in around or len(around) >= DEEPEST_SCHEMA):
                found.append((place, self._leaf(key, node, wanted, internal)))
                continue
            needed = _list(node.get("required")) if wanted else []
            for number, (name, child) in enumerate(inside[:most]):
                path = f"{key}/{name}" if key else name
                waiting.append(((*place, number), path, child, name in needed, internal, (*around, id(target))))
        if cut:
            self.notes.append(f"{self.operation}: a schema has more than {most:,} fields; inner ones are left out")
        return [field for _, field in sorted(found, key=lambda one: one[0])]

    def _leaf(self, key: str, schema: dict, required: bool, internal: bool) -> Field:
        values, shown = _values(schema), schema.get("examples")
        if isinstance(shown, dict):  # of a parameter, by name
            shown = [_mapping(self.resolve(one)).get("value") for one in shown.values()]
        examples = values or [
            one for one in (schema.get("example"), *_list(shown)) if isinstance(one, str | int | float)
        ]
        named = schema["type"] if isinstance(schema.get("type"), list) else [schema.get("type")]
        fallback = "object" if schema.get("properties") else "array" if "items" in schema else "string"
        fallback = TYPE_OF[type(values[0])] if values else fallback
        chosen = any(mark in schema for mark in CHOSEN)
        return Field(
            key=CONTROL.sub("", key),
            kind="choice" if len(values) > 1 else "container" if chosen else "any",
            examples=tuple(_clean(value) if isinstance(value, str) else value for value in examples),
            type=next((name for name in named if name in TYPES), fallback),
            format=_clean(schema.get("format")),
            summary=_clean(schema.get("x-ms-summary")) or _clean(schema.get("title")),
            description=_clean(schema.get("description")),
            required=required,
            internal=internal or schema.get("x-ms-visibility") == "internal",
        )


def _values(schema: dict) -> list[str | int | float]:
    """The plain values that a schema names."""
    named = _list(schema.get("enum")) or [schema.get("const")]
    return [value for value in named if isinstance(value, str | int | float)]


def _add(fields: dict[str, Field], found: list[Field], place: str = "") -> None:
    """Put fields under their keys, of each key the first; what another place has already is called by its own."""
    before = set(fields)
    for field in found:
        key = f"{place}/{field.key}" if place and field.key in before else field.key
        fields.setdefault(key, field if key == field.key else replace(field, key=key))
