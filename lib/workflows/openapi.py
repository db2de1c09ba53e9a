"""APIs from Swagger 2 and OpenAPI 3 documents.

What was mended in a file or left out of it is warned of, naming the file; a file that is of no use is skipped, with a
warning and the reason.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from lib.workbook.inputs import InputError
from lib.workflows.apis import API, Connector, Field, Use
from lib.workflows.categories import category_of
from lib.workflows.documents import CONTROL, Unreadable, read_document

SUFFIXES = {".json", ".yaml", ".yml"}
METHODS = ("get", "put", "post", "delete", "options", "head", "patch", "trace")
FORMS = ("multipart/form-data", "application/x-www-form-urlencoded")
DYNAMIC = ("x-ms-dynamic-schema", "x-ms-dynamic-properties")
CHOSEN = ("x-ms-dynamic-values", "x-ms-dynamic-list")  # a designer offers what there is, by name
TYPES = {"string", "integer", "number", "boolean", "array", "object"}
USE: dict[str, Use] = {"important": "core", "advanced": "rare"}  # by `x-ms-visibility`
DEEPEST_SCHEMA = 12
MOST_FIELDS = 2000  # of one schema: definitions that refer to each other twice double with each level


def document_files(path: Path) -> list[Path]:
    """The file itself, or the documents in a folder and its subfolders."""
    if not path.is_dir():
        return [path]
    return sorted(file for file in path.rglob("*") if file.suffix.lower() in SUFFIXES)


def read_documents(path: Path) -> Iterator[tuple[Path, Connector | None, list[API], str]]:
    """(file, connector, its APIs, reason) for each document in a file or folder; with a reason, it was skipped.

    Raises:
        InputError: there is no such file, or the folder (with its subfolders) holds none.
    """
    if not path.exists():
        raise InputError(f"{path}: there is no such file or folder")
    files = document_files(path)
    if not files:
        raise InputError(f"{path}: holds no .json, .yaml or .yml file")
    taken: set[str] = set()
    for file in files:
        notes: list[str] = []
        try:
            document = read_document(file, notes)
            _check(document, notes)
            name, connector_id = _name(file, document), _unused(_connector_id(file, document), taken, notes)
            apis = list(_apis(document, connector_id, name, notes))
            if not apis:
                raise Unreadable("describes no operation")
        except RecursionError:
            yield from _skip(file, "nested too deeply")
            continue
        except Unreadable as error:
            yield from _skip(file, str(error))
            continue
        taken.add(connector_id)
        if notes:
            warnings.warn(f"{file}: {'; '.join(notes)}", stacklevel=3)
        yield file, Connector(connector_id, name, (name,), _category(document, name)), apis, ""


def _skip(file: Path, reason: str) -> Iterator[tuple[Path, None, list[API], str]]:
    warnings.warn(f"{file}: skipped: {reason}", stacklevel=4)
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


def _stem(file: Path) -> str:
    """The file's name, or its folder's where all connectors' files have the same name."""
    stem = file.name.split(".")[0]
    return file.absolute().parent.name if stem.lower() in ("apidefinition", "swagger", "openapi") else stem


def _name(file: Path, document: dict) -> str:
    return _clean(_mapping(document.get("info")).get("title")) or _stem(file)


def _category(document: dict, name: str) -> str:
    """What the app is for, by the texts of its document; empty where they do not tell."""
    items = [_mapping(item) for item in document["paths"].values()]
    operations = [_mapping(item[method]) for item in items for method in item if method.lower() in METHODS]
    tags = {_clean(tag) for operation in operations for tag in _list(operation.get("tags"))}
    metadata = [_mapping(entry) for entry in _list(document.get("x-ms-connector-metadata"))]
    declared = [_clean(m.get("propertyValue")) for m in metadata if m.get("propertyName") == "Categories"]
    description = _clean(_mapping(document.get("info")).get("description"))
    return category_of(name, " ".join(declared), sorted(tags), description)


def _connector_id(file: Path, document: dict) -> str:
    """`shared_` and the file's name in lower case, letters and digits only."""
    names = (_stem(file), _name(file, document))
    slugs = [re.sub(r"[^a-z0-9]", "", name.lower()) for name in names]
    return f"shared_{slugs[0] or slugs[1] or 'connector'}"


def _unused(name: str, taken: set[str], notes: list[str]) -> str:
    """The name, with a number behind it where it is taken."""
    free, number = name, 1
    while free in taken:
        number += 1
        free = f"{name}_{number}"
    if free != name:
        notes.append(f"{name} is there twice, now {free}")
    return free


def _apis(document: dict, connector: str, app: str, notes: list[str]) -> Iterator[API]:
    reader = _Reader(document, notes)
    taken: set[str] = set()
    for path, item in document["paths"].items():
        item = reader.resolve(item)
        if not isinstance(item, dict):
            notes.append(f"path {path} is no mapping and is left out")
            continue
        for method in (key for key in item if key.lower() in METHODS):
            operation = item[method]
            if not isinstance(operation, dict):
                notes.append(f"{method} {path} is no mapping and is left out")
                continue
            name = _unused(_identifier(operation, method, path, notes), taken, notes)
            taken.add(name)
            trigger = bool(operation.get("x-ms-trigger")) and operation.get("x-ms-trigger") != "none"
            parameters, dynamic = reader.parameters(name, item, operation)
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
                returns=tuple(reader.returns(name, item, operation, trigger)),
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


class _Reader:
    """Fields of the schemas of one document."""

    def __init__(self, document: dict, notes: list[str]):
        self.document, self.notes = document, notes
        self.joined: dict[int, tuple[dict, dict]] = {}
        self.noted: set[str] = set()

    def resolve(self, node: Any) -> Any:
        """What a `$ref`, or a chain of them, stands for; {} with a note where it leads nowhere."""
        for _ in range(DEEPEST_SCHEMA):
            if not isinstance(node, dict) or not isinstance(node.get("$ref"), str):
                return node
            reference = node["$ref"]
            node = self.document if reference.startswith("#") else None
            for part in reference.lstrip("#").strip("/").split("/"):
                name = unquote(part).replace("~1", "/").replace("~0", "~")
                node = node.get(name) if isinstance(node, dict) else None
            if node is None:
                self.note(f"reference {reference} leads nowhere")
                return {}
        self.note(f"reference {reference} leads in a circle")
        return {}

    def note(self, fault: str) -> None:
        if fault not in self.noted:
            self.noted.add(fault)
            self.notes.append(fault)

    def parameters(self, name: str, item: dict, operation: dict) -> tuple[list[Field], bool]:
        """Parameters of the operation and of its path, bodies flattened; and whether their schema is dynamic."""
        declared: dict[tuple[str, str], dict] = {}
        for raw in (*_list(item.get("parameters")), *_list(operation.get("parameters"))):
            parameter = _mapping(self.resolve(raw))
            if not isinstance(parameter.get("name"), str) or not parameter["name"].strip():
                self.note(f"{name}: a parameter without name is left out")
                continue
            declared[parameter["name"], str(parameter.get("in"))] = parameter
        fields: list[Field] = []
        dynamic = False
        for (key, place), parameter in declared.items():
            schema = self._schema(parameter)
            required = parameter.get("required") is True
            internal = parameter.get("x-ms-visibility") == "internal"
            found, changing = self.flatten(key, schema, required, internal, body=place == "body")
            if len(found) == 1 and found[0].key == key:  # what a parameter says of itself counts more than its schema
                found = [_leaf(key, self._joined(schema) | _texts(parameter), required, found[0].internal)]
            fields += found
            dynamic |= changing or any(mark in parameter for mark in DYNAMIC)
        body = _mapping(self.resolve(operation.get("requestBody")))
        if body:
            media, schema = self._content(body)
            root = "" if media in FORMS else "body"
            found, changing = self.flatten(root, schema, body.get("required") is True, False, body=True)
            fields += found
            dynamic |= changing
        return self._unique(name, fields), dynamic

    def returns(self, name: str, item: dict, operation: dict, trigger: bool) -> list[Field]:
        """The fields of the successful response; of a webhook trigger, what it is notified of."""
        responses = {str(code): self.resolve(value) for code, value in _mapping(operation.get("responses")).items()}
        code = min((code for code in responses if code.startswith("2")), default="default")
        response = _mapping(responses.get(code))
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
        return self._unique(name, self.flatten("", schema, False, False, body=True, request=False)[0])

    def _unique(self, name: str, fields: list[Field]) -> list[Field]:
        by_key: dict[str, Field] = {}
        for field in fields:
            if field.key in by_key:
                self.note(f"{name}: {field.key} is there twice")
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
        """The schema with the parts of `allOf`, and with the properties of all its alternatives."""
        schema = _mapping(self.resolve(schema))
        parts = [(word, part) for word in ("allOf", "oneOf", "anyOf") for part in _list(schema.get(word))]
        if not parts:
            return schema
        if id(schema) not in self.joined:
            self.joined[id(schema)] = (schema, {})  # what a part of itself finds; and keeps the id in use
            self.joined[id(schema)] = (schema, self._join(schema, parts))
        return self.joined[id(schema)][1]

    def _join(self, schema: dict, parts: list[tuple[str, Any]]) -> dict:
        joined = {key: value for key, value in schema.items() if key not in ("allOf", "oneOf", "anyOf")}
        properties, required = dict(_mapping(schema.get("properties"))), _list(schema.get("required"))
        for word, part in parts:
            part = self._joined(part)
            properties = _mapping(part.get("properties")) | properties
            required = required + (_list(part.get("required")) if word == "allOf" else [])
            joined = {key: value for key, value in part.items() if key not in ("properties", "required")} | joined
        required = list(dict.fromkeys(map(str, required)))
        return joined | ({"properties": properties} if properties else {}) | {"required": required}

    def flatten(
        self, root: str, schema: dict, required: bool, internal: bool, body: bool, request: bool = True
    ) -> tuple[list[Field], bool]:
        """Leaves of a schema as fields with keys `root/a/b`, and whether any part of it is dynamic.

        Arrays are leaves, and so is an object that holds itself. Of a request, what is only read is left out.
        """
        fields: list[Field] = []
        dynamic = False
        # (key, schema, required, internal, definitions around it)
        stack: list[tuple[str, dict, bool, bool, tuple[int, ...]]] = [(root, schema, required, internal, ())]
        visited = 0
        while stack:
            visited += 1
            if visited > MOST_FIELDS:
                self.note(f"a schema has more than {MOST_FIELDS} fields; the rest is left out")
                break
            key, raw, needed, hidden, around = stack.pop()
            target = _mapping(self.resolve(raw))
            node = self._joined(raw)
            dynamic |= any(mark in node for mark in DYNAMIC)
            hidden |= node.get("x-ms-visibility") == "internal"
            properties = _mapping(node.get("properties")) if body else {}
            if not properties or id(target) in around or len(around) >= DEEPEST_SCHEMA:
                if key:
                    fields.append(_leaf(key, node, needed, hidden))
                continue
            wanted = {str(name) for name in _list(node.get("required"))}
            skipped = "readOnly" if request else "writeOnly"
            children = [
                (f"{key}/{name}" if key else name, child, needed and name in wanted, hidden, (*around, id(target)))
                for name, child in properties.items()
                if name.strip() and _mapping(self.resolve(child)).get(skipped) is not True
            ]
            stack.extend(reversed(children))
        return fields, dynamic


def _texts(parameter: dict) -> dict:
    """What a parameter says of itself beside its schema."""
    keys = ("x-ms-summary", "description", "title")
    texts = {key: parameter[key] for key in keys if isinstance(parameter.get(key), str)}
    return texts | {key: parameter[key] for key in (*CHOSEN, "example") if key in parameter}


def _leaf(key: str, schema: dict, required: bool, internal: bool) -> Field:
    named = schema["type"] if isinstance(schema.get("type"), list) else [schema.get("type")]
    types = [name for name in named if isinstance(name, str) and name in TYPES]
    fallback = "object" if "properties" in schema else "array" if "items" in schema else "string"
    values = _list(schema.get("enum")) or [schema.get("example"), *_list(schema.get("examples"))]
    values = [value for value in values if isinstance(value, str | int | float)]
    chosen = any(mark in schema for mark in CHOSEN)
    return Field(
        key=CONTROL.sub("", key),
        kind="choice" if len(values) > 1 and "enum" in schema else "container" if chosen else "any",
        examples=tuple(_clean(value) if isinstance(value, str) else value for value in values),
        type=types[0] if types else fallback,
        format=_clean(schema.get("format")),
        summary=_clean(schema.get("x-ms-summary")) or _clean(schema.get("title")),
        description=_clean(schema.get("description")),
        required=required,
        internal=internal,
    )
