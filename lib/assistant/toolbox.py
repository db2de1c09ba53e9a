"""The toolbox: the APIs an assistant can call, our own or any function definitions."""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, TypeAdapter

from lib.assistant.functions import read_definitions
from lib.assistant.schemas import App
from lib.workbook.inputs import InputError, Strict, Text, read_yaml, validated

log = logging.getLogger(__name__)

DEFAULT_API = "default"
JSONType = Literal["string", "integer", "number", "boolean", "array", "object", "null", "any"]
# Types of JSON Schema by other names, in lower case: those of the Berkeley files, for Python, Java and JavaScript.
TYPE_NAMES: dict[str, JSONType] = {
    "string": "string", "str": "string", "char": "string",
    "integer": "integer", "int": "integer", "long": "integer", "short": "integer", "byte": "integer",
    "number": "number", "float": "number", "double": "number",
    "boolean": "boolean", "bool": "boolean",
    "array": "array", "list": "array", "tuple": "array", "arraylist": "array", "set": "array",
    "object": "object", "dict": "object", "hashmap": "object", "hashtable": "object", "map": "object",
    "null": "null", "none": "null",
    "any": "any", "": "any",
}  # fmt: skip


class Argument(Strict):
    """One argument of an API; `type` is `any` where a function's definition allows several or says nothing."""

    description: Text
    type: JSONType = "string"
    required: bool = True


class OwnAPI(Strict):
    """A record of `toolbox.yaml`: its name, the app it belongs to, what it does, and its arguments by name."""

    api: Text = Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")
    app: App
    description: Text
    arguments: dict[str, Argument] = {}


class ParametersOfFunction(BaseModel):
    properties: dict[str, dict[str, Any] | bool] = {}
    required: list[str] = []


class Definition(BaseModel):
    """What we use of an OpenAI-style function definition."""

    name: Text = Field(pattern=r"^[^\s()'\"]+$")
    description: str | None = None
    parameters: ParametersOfFunction | None = None


def json_types(type_: object) -> tuple[JSONType, ...]:
    """JSON Schema types of a definition's `type` (a name, or a list of names); none where any value will do, where
    `type` is missing, or where a name is unknown."""
    names = type_ if isinstance(type_, list) else [type_]
    types: tuple[JSONType, ...] = tuple(
        TYPE_NAMES.get(name.lower(), "any") if isinstance(name, str) else "any" for name in names
    )
    return () if "any" in types else types


def signature(function: dict) -> str:
    """A function's name and the names of its arguments; optional ones end in a question mark.

    >>> signature({"name": "f", "parameters": {"properties": {"a": {}, "b": {}}, "required": ["a"]}})
    'f(a, b?)'
    """
    required = (function.get("parameters") or {}).get("required") or []
    properties = (function.get("parameters") or {}).get("properties") or {}
    names = [name if name in required else f"{name}?" for name in properties]
    return f"{function['name']}({', '.join(names)})"


@dataclass(frozen=True)
class API:
    """One tool.

    Attributes:
        app: that it belongs to; None of a function of your own.
        text: what tool retrieval sees: name, description and arguments in one line.
        function: its OpenAI-style definition, as it was read.
    """

    api: str
    app: App | None
    description: str
    text: str
    function: dict[str, Any] = field(repr=False)
    arguments: dict[str, Argument]

    @classmethod
    def of(cls, function: dict[str, Any], app: App | None = None) -> API:
        """Of an OpenAI-style definition. Raises ValidationError where it has a wrong field."""
        definition = Definition.model_validate(function)
        parameters, arguments = definition.parameters or ParametersOfFunction(), {}
        said: list[str] = []
        waiting: list[tuple[str, Any]] = list(parameters.properties.items())
        while waiting:  # each argument, then all fields in it
            name, schema = waiting.pop(0)
            parts = [schema] if isinstance(schema, dict) else []
            for part in parts:  # and what it holds
                parts += [part[key] for key in ("items", "additionalProperties") if isinstance(part.get(key), dict)]
            told = " ".join(str(part["description"]) for part in parts if part.get("description"))
            said.append(f"{name}: {told}".rstrip(": "))
            fields = [part.get("properties") for part in parts]
            waiting[:0] = [pair for each in fields if isinstance(each, dict) for pair in each.items()]
        for name, schema in parameters.properties.items():
            schema = schema if isinstance(schema, dict) else {}
            types = [name for name in json_types(schema.get("type")) if name != "null"]
            arguments[name] = Argument.model_construct(
                description=str(schema.get("description") or ""),
                type=types[0] if len(types) == 1 else "any",
                required=name in parameters.required,
            )
        description = (definition.description or "").strip()
        text = f"{re.sub('[_.]', ' ', definition.name)}. {description} {'; '.join(said)}".strip()
        return cls(definition.name, app, description, text, function, arguments)


class Toolbox(dict[str, API]):
    """APIs by name, in the order of their file. `default` is no tool: it says that no tool fits (appendix A.4)."""

    def __init__(self, apis: Sequence[API], where: str | Path = "toolbox"):
        """Raises InputError, naming `where` the APIs stand, where a name is used twice or reserved."""
        super().__init__({api.api: api for api in apis})
        if len(self) < len(apis):
            twice = Counter(api.api for api in apis).most_common(1)[0][0]
            raise InputError(f"{where}: API {twice} is defined more than once")
        if DEFAULT_API in self:
            raise InputError(f"{where}: API {DEFAULT_API} is reserved for queries that no tool fits")

    @classmethod
    def from_yaml(cls, path: str | Path) -> Toolbox:
        """A toolbox from a YAML list of records `api, app, description, arguments`.

        Raises:
            InputError: the file is not such a list, a record has a wrong field, or a name is used twice;
                names the file, the record and the field.
        """
        apis = []
        for record in read_yaml(path, TypeAdapter(Annotated[list[OwnAPI], Field(min_length=1)])):
            arguments = record.arguments.items()
            properties = {name: {"type": one.type, "description": one.description} for name, one in arguments}
            required = [name for name, one in arguments if one.required]
            parameters = {"type": "object", "properties": properties, "required": required}
            function = {"name": record.api, "description": record.description, "parameters": parameters}
            apis.append(API.of(function, record.app))
        return cls(apis, path)

    @classmethod
    def from_functions(cls, path: str | Path) -> Toolbox:
        """A toolbox from function definitions of any of the forms of `lib.assistant.functions`.

        What is no object is left out with a warning. Types may go by their JSON Schema or Berkeley names. Of several
        definitions of one name the first is kept; a warning names those that differ.

        Raises:
            InputError: the file cannot be read or holds no function, or a record has a wrong field; names the file, the
                record and the field.
        """
        apis: dict[str, API] = {}
        differing: dict[str, str] = {}
        for where, function in read_definitions(path):
            if not isinstance(function, dict):
                log.warning("%s, %s: left out, since a definition is an object with a name", path, where)
                continue
            name = validated(Definition, function, f"{path}, {where}").name
            if apis.setdefault(name, API.of(function)).function != function:
                differing.setdefault(name, where)
        if differing:
            listed = ", ".join(f"{name} ({where})" for name, where in differing.items())
            log.warning("%s: defined again with a difference, of which the first definition is kept: %s", path, listed)
        if not apis:
            raise InputError(f"{path}: holds no function (queries without any need a toolbox_file)")
        return cls(list(apis.values()), path)
