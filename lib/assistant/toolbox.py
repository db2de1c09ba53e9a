"""The toolbox: the APIs an assistant can call, our own or any function definitions."""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, Field, ValidationError, field_validator, model_validator

from lib.assistant.schemas import App
from lib.workbook.inputs import InputError, Strict, Text, describe_error, read_json_records, read_yaml, validated

log = logging.getLogger(__name__)

DEFAULT_API = "default"
ArgumentType = Literal["string", "integer", "number", "boolean", "array"]
JSONType = Literal["string", "integer", "number", "boolean", "array", "object", "null", "any"]
PARAMETERS_ELSEWHERE = ("input_schema", "inputSchema")
# Keys of a definition that need no mention; beside other keys, `parameters` may be missing by mistake.
USUAL_KEYS = {"name", "description", "parameters", "type", "strict"}
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


class AnyArgument(Strict):
    """What arguments of our own APIs and of any functions have in common."""

    description: str
    type: str
    required: bool = True


class Argument(AnyArgument):
    """One argument of an API; `type` is a JSON Schema type."""

    description: Text
    type: ArgumentType = "string"


class AnyAPI(Strict):
    """What our own tools and any functions have in common."""

    api: Text
    app: App | None
    description: str
    arguments: Mapping[str, AnyArgument] = {}

    @field_validator("arguments", mode="before")
    @classmethod
    def _none_is_empty(cls, value: object) -> object:
        return {} if value is None else value

    @property
    def text(self) -> str:
        """What tool retrieval sees: name, description and arguments in one line."""
        arguments = "; ".join(f"{name}: {argument.description}" for name, argument in self.arguments.items())
        return f"{self.api.replace('_', ' ')}. {self.description} {arguments}".strip()

    @property
    def function(self) -> dict:
        """The API as an OpenAI-style function definition."""
        properties = {
            name: {"type": argument.type, "description": argument.description}
            for name, argument in self.arguments.items()
        }
        required = [name for name, argument in self.arguments.items() if argument.required]
        return {
            "name": self.api,
            "description": self.description,
            "parameters": {"type": "object", "properties": properties, "required": required},
        }


class OwnAPI(AnyAPI):
    """One tool: its name, the app it belongs to, what it does, and its arguments by name."""

    api: Text = Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")
    app: App
    description: Text
    arguments: dict[str, Argument] = {}


def json_types(type_: object) -> tuple[JSONType, ...]:
    """JSON Schema types of a definition's `type` (a name, or a list of names); none where any value will do, where
    `type` is missing, or where a name is unknown."""
    names = type_ if isinstance(type_, list) else [type_]
    types: tuple[JSONType, ...] = tuple(
        TYPE_NAMES.get(name.lower(), "any") if isinstance(name, str) else "any" for name in names
    )
    return () if "any" in types else types


def check_type(type_: str | list[str]) -> str | list[str]:
    """Raises ValueError where a name of `type_` is no type; gives it back as it is."""
    for name in [type_] if isinstance(type_, str) else type_:
        if name.lower() not in TYPE_NAMES:
            raise ValueError(f"unknown type {name!r}")
    return type_


class NullIsAbsent(BaseModel):
    """A record of a JSON file in which `null` says no more than a missing key; unknown keys are passed over."""

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, value: object) -> object:
        return {key: part for key, part in value.items() if part is not None} if isinstance(value, dict) else value


class Schema(NullIsAbsent):
    """What we use of a JSON Schema; its other keys, such as `$ref` and `anyOf`, put no bounds on a value here."""

    type: Annotated[str | list[str], AfterValidator(check_type)] = "any"
    description: str = ""
    enum: list = []
    properties: dict[str, Schema | bool] = {}
    items: Schema | list[Schema] | bool = True

    def lines(self, name: str) -> Iterator[str]:
        """`name: description (one, or, another)`, then the same of what is nested in it."""
        values = f" ({', '.join(map(str, self.enum))})" if self.enum else ""
        yield f"{name}: {self.description}".rstrip(": ") + values
        inside = self.items if isinstance(self.items, list) else [self.items]
        for schema in [self, *inside]:
            if isinstance(schema, Schema):
                for key, part in schema.properties.items():
                    if isinstance(part, Schema):
                        yield from part.lines(f"{name}.{key}")


class FunctionParameters(Schema):
    """The `parameters` of a function: always an object."""

    required: list[str] = []

    @model_validator(mode="after")
    def _consistent(self) -> FunctionParameters:
        if json_types(self.type) not in ((), ("object",)):
            raise ValueError(f"type must be object, not {self.type!r}")
        if unknown := [name for name in self.required if name not in self.properties]:
            raise ValueError(f"required names {unknown[0]!r}, which is not among the properties")
        return self


class Definition(NullIsAbsent):
    """An OpenAI-style function definition, of which `openai_form` also makes others' tools."""

    name: Text = Field(pattern=r"^[^\s()'\"]+$")
    description: str = ""
    parameters: FunctionParameters = FunctionParameters()


class FunctionArgument(AnyArgument):
    """One argument of a function; `type` is `any` where the definition allows several types or says nothing."""

    description: str = ""
    type: JSONType = "any"


class FunctionAPI(AnyAPI):
    """A function as a tool; it belongs to no app and keeps its definition as it was read."""

    app: None = None
    description: str = ""
    arguments: dict[str, FunctionArgument] = {}
    definition: dict[str, Any]

    @classmethod
    def from_definition(cls, record: dict) -> FunctionAPI:
        """Raises ValidationError where the definition has a wrong field."""
        record = openai_form(record)
        definition = Definition.model_validate(record)
        arguments = {}
        for name, schema in definition.parameters.properties.items():
            schema = schema if isinstance(schema, Schema) else Schema()
            types = [type_ for type_ in json_types(schema.type) if type_ != "null"] or json_types(schema.type)
            arguments[name] = FunctionArgument(
                description=schema.description,
                type=types[0] if len(types) == 1 else "any",
                required=name in definition.parameters.required,
            )
        return cls(api=definition.name, description=definition.description, arguments=arguments, definition=record)

    @property
    def text(self) -> str:
        """What tool retrieval sees: name, description and all arguments, nested ones and allowed values included."""
        parameters = Definition.model_validate(self.definition).parameters
        lines = [
            line
            for name, schema in parameters.properties.items()
            if isinstance(schema, Schema)
            for line in schema.lines(name)
        ]
        return f"{re.sub('[_.]', ' ', self.api)}. {self.description.strip()} {'; '.join(lines)}".strip()

    @property
    def function(self) -> dict:
        return self.definition


def unwrap(function: dict) -> dict:
    """The definition in `{"type": "function", "function": definition}`, or the definition itself."""
    return function["function"] if isinstance(function.get("function"), dict) else function


def openai_form(definition: dict) -> dict:
    """The definition with its arguments under `parameters`, which Anthropic's tools and those of MCP call otherwise."""
    if not isinstance(definition, dict) or definition.get("parameters") is not None:
        return definition
    if not (elsewhere := [key for key in PARAMETERS_ELSEWHERE if key in definition]):
        return definition
    rest = {key: part for key, part in definition.items() if key not in PARAMETERS_ELSEWHERE}
    return rest | {"parameters": definition[elsewhere[0]]}


def argument_names(function: dict) -> list[str]:
    """Names of the arguments of an OpenAI-style definition, in its order."""
    return list((function.get("parameters") or {}).get("properties") or {})


def signature(function: dict) -> str:
    """A function's name and the names of its arguments; optional ones end in a question mark.

    >>> signature({"name": "f", "parameters": {"properties": {"a": {}, "b": {}}, "required": ["a"]}})
    'f(a, b?)'
    """
    parameters = function.get("parameters") or {}
    required = parameters.get("required") or []
    names = [name if name in required else f"{name}?" for name in argument_names(function)]
    return f"{function['name']}({', '.join(names)})"


def definitions_in(record: object) -> list:
    """The definitions of one record: itself, wrapped, what a Berkeley record has under `function`, or a list under
    `tools`; none in a query that offers no function."""
    inside = record
    if isinstance(record, dict):
        itself = [] if "question" in record else record
        inside = record.get("function", record["tools"] if isinstance(record.get("tools"), list) else itself)
    return [
        unwrap(part) if isinstance(part, dict) else part for part in (inside if isinstance(inside, list) else [inside])
    ]


class Toolbox:
    """APIs by name, in the order of their file. `default` is no tool: it says that no tool fits (appendix A.4)."""

    def __init__(self, apis: Sequence[AnyAPI]):
        counts = Counter(api.api for api in apis)
        for name, count in counts.items():
            if count > 1:
                raise InputError(f"API {name} is defined {count} times")
        if DEFAULT_API in counts:
            raise InputError(f"API {DEFAULT_API} is reserved for queries that no tool fits")
        self.apis = {api.api: api for api in apis}

    def __len__(self) -> int:
        return len(self.apis)

    def __iter__(self) -> Iterator[AnyAPI]:
        return iter(self.apis.values())

    def __contains__(self, name: object) -> bool:
        return name in self.apis

    def __getitem__(self, name: str) -> AnyAPI:
        return self.apis[name]

    @property
    def functions(self) -> list[dict]:
        """All APIs as OpenAI-style function definitions."""
        return [api.function for api in self]

    @classmethod
    def from_yaml(cls, path: str | Path) -> Toolbox:
        """A toolbox from a YAML list of records `api, app, description, arguments`.

        Raises:
            InputError: the file is not such a list, a record has a wrong field, or a name is used twice;
                names the file, the record and the field.
        """
        path = Path(path)
        records = read_yaml(path)
        if not isinstance(records, list) or not records:
            raise InputError(f"{path}: expected a list of APIs")
        apis = []
        for number, record in enumerate(records, start=1):
            name = record.get("api", "without name") if isinstance(record, dict) else "no mapping"
            apis.append(validated(OwnAPI, record, f"{path}, record {number} ({name})"))
        try:
            return cls(apis)
        except InputError as error:
            raise InputError(f"{path}: {error}") from None

    @classmethod
    def from_functions(cls, path: str | Path) -> Toolbox:
        """A toolbox from OpenAI-style function definitions: JSON (a list or one object) or JSON lines.

        A record is a definition `{name, description, parameters}`, bare or as `{"type": "function", "function": …}`,
        several as `{"tools": […]}`, or a Berkeley record with one or several under `function`. `parameters` may be
        called `input_schema` or `inputSchema`, as in tools of Anthropic's and MCP's form. Types may go by their JSON
        Schema or Berkeley names. A name that comes again with the same definition counts once; with another one, the
        first is kept and a warning names the file, the records and the names. Another warning names definitions
        without parameters that have unknown keys.

        Raises:
            InputError: the file cannot be read or holds no function, or a record has a wrong field; names the file, the
                record and the field.
        """
        apis: dict[str, FunctionAPI] = {}
        differing: dict[str, str] = {}
        strange: dict[str, str] = {}
        records = read_json_records(path)
        for where, record in records:
            for number, definition in enumerate(definitions_in(record), start=1):
                name = definition.get("name", "without name") if isinstance(definition, dict) else "no object"
                try:
                    api = FunctionAPI.from_definition(definition)
                except ValidationError as error:
                    raise InputError(f"{path}, {where}, function {number} ({name}): {describe_error(error)}") from error
                if apis.setdefault(api.api, api).definition != api.definition:
                    differing.setdefault(api.api, where)
                if "parameters" not in api.definition and (keys := [*api.definition.keys() - USUAL_KEYS]):
                    strange.setdefault(api.api, f"{where}: {', '.join(sorted(keys))}")
        if differing:
            listed = ", ".join(f"{name} ({where})" for name, where in differing.items())
            log.warning("%s: defined again with a difference, of which the first definition is kept: %s", path, listed)
        if strange:
            listed = "; ".join(f"{name} ({keys})" for name, keys in strange.items())
            log.warning("%s: without parameters, but with keys that are passed over: %s", path, listed)
        if not apis:
            if any(isinstance(record, dict) and "question" in record for _, record in records):
                raise InputError(f"{path}: no record has `function`: name a toolbox_file")
            raise InputError(f"{path}: holds no function")
        try:
            return cls(list(apis.values()))
        except InputError as error:
            raise InputError(f"{path}: {error}") from None
