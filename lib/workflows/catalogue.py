"""The API catalogue: what the operations of each connector are called, take and return, and how people ask for them.

One YAML file a connector in `data/catalogue/`; `data/README.md` explains the form. `Catalogue.from_openapi` reads the
same metadata from Swagger 2 and OpenAPI 3 documents, which say nothing about how people ask.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import AfterValidator, StringConstraints, ValidationError, field_validator, model_validator

from lib.workbook.inputs import InputError, Strict, Text, describe_error

# Kinds of value, with JSON type and format. A value can go where its kind is asked for; see `fits`.
KINDS: dict[str, tuple[str, str]] = {
    "person_name": ("string", ""),
    "person_email": ("string", "email"),
    "phone": ("string", "phone"),
    "company": ("string", ""),
    "place": ("string", ""),
    "subject": ("string", ""),  # headline of a message
    "title": ("string", ""),  # name of a task, event, page, ticket
    "text": ("string", ""),  # body, comment, note
    "query": ("string", ""),  # search words
    "tag": ("string", ""),  # tag, label, category
    "file_name": ("string", ""),
    "file_path": ("string", ""),
    "file_content": ("string", "binary"),
    "folder": ("string", ""),
    "team": ("string", ""),
    "channel": ("string", ""),
    "container": ("string", ""),  # list, board, project, table, form: where the records of an app live
    "datetime": ("string", "date-time"),
    "date": ("string", "date"),
    "language": ("string", ""),
    "number": ("number", "double"),
    "amount": ("number", "double"),  # of money
    "count": ("integer", "int32"),
    "boolean": ("boolean", ""),
    "choice": ("string", ""),  # one of its examples
    "url": ("string", "uri"),
    "code": ("string", ""),  # filter, formula, markup
    "record": ("object", ""),
    "records": ("array", ""),
    "any": ("string", ""),
}
ID = "id:"  # `id:message` identifies a message; nobody says such a value, an earlier call gives it
SHARED_IDS = {"id:user", "id:group"}  # the same in all connectors; other ids have a meaning in their connector only
UNSAID = {"file_content", "code", "record", "records", "any"}
# What may fill a parameter of a kind, besides a value of the same kind.
ALSO_FITS: dict[str, set[str]] = {
    "subject": {"title", "file_name"},
    "title": {"subject", "person_name", "company", "file_name"},
    "text": {
        "subject", "title", "person_name", "person_email", "phone", "company", "place", "tag", "file_name", "url",
        "datetime", "date", "number", "amount", "count", "choice",
    },
    "query": {"subject", "title", "person_name", "person_email", "company", "place", "tag", "file_name"},
    "tag": {"title"},
    "file_name": {"title", "subject"},
    "date": {"datetime"},
    "datetime": {"date"},
    "number": {"amount", "count"},
    "amount": {"number"},
}  # fmt: skip

CATEGORIES = (
    "mail", "chat", "calendar", "tasks", "files", "documents", "forms", "data", "crm", "support", "development",
    "social", "marketing", "shop", "finance", "people", "approvals", "signing", "analytics", "security", "ai",
    "media", "devices", "places", "events", "web",
)  # fmt: skip
Category = Literal[CATEGORIES]
Use = Literal["core", "common", "rare"]
Type = Literal["string", "integer", "number", "boolean", "array", "object"]

SLOT = re.compile(r"\{([^{}]*)\}")
APP = "app"  # the slot that stands for a name of the connector
RESERVED = re.compile(r"[\"'\\{}*|\x00-\x1f\x7f]")


def fits(source: str, target: str, same_connector: bool) -> bool:
    """Whether a value of kind `source` can fill a parameter of kind `target`."""
    if target.startswith(ID):
        return source == target and (same_connector or target in SHARED_IDS)
    if target in {"choice", "any", "container"}:
        return False
    return source == target or source in ALSO_FITS.get(target, ())


def said(kind: str) -> bool:
    """Whether people name values of this kind in a request."""
    return not kind.startswith(ID) and kind not in UNSAID


def _known_kind(kind: str) -> str:
    if kind not in KINDS and not re.fullmatch(r"id:[a-z][a-z_]*", kind):
        raise ValueError(f"unknown kind {kind!r}: neither id:<what> nor one of {', '.join(KINDS)}")
    return kind


def _unreserved(key: str) -> str:
    if not key.strip("* ") or RESERVED.search(key.removesuffix("*")):
        raise ValueError(f"{key!r} is empty or holds a reserved character: \" ' \\ {{ }} * | or a control character")
    return key


def _plain_slots(phrase: str) -> str:
    if re.search(r"[{}\[\]|\n]", SLOT.sub("", phrase)) or "" in SLOT.findall(phrase):
        raise ValueError(f"{phrase!r}: slots are written {{name}}; no other braces, brackets or bars")
    return phrase


ConnectorId = Annotated[str, StringConstraints(pattern=r"^shared_[a-z0-9][a-z0-9_\-]*$")]
OperationId = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_\-]*$")]
Kind = Annotated[str, AfterValidator(_known_kind)]
Key = Annotated[str, AfterValidator(_unreserved)]
Phrase = Annotated[Text, AfterValidator(_plain_slots)]


class WrittenField(Strict):
    """A parameter or response field as people write it: `kind | summary | description | example; example`."""

    kind: Kind
    summary: str = ""
    description: str = ""
    examples: list[str | int | float | bool] = []
    type: Type | None = None
    format: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _from_line(cls, value: Any) -> Any:
        if not isinstance(value, str):
            return value
        kind, summary, description, examples, *more = [part.strip() for part in value.split("|")] + [""] * 3
        if any(more):
            raise ValueError(f"{value!r}: at most kind | summary | description | examples")
        return {
            "kind": kind,
            "summary": summary,
            "description": description,
            "examples": [yaml.safe_load(part) if kind in {"count", "number", "amount", "boolean"} else part.strip()
                         for part in examples.split(";") if part.strip()],
        }  # fmt: skip


class WrittenOperation(Strict):
    """An operation as people write it. A star after a parameter's key: required."""

    id: OperationId
    name: Text
    description: str
    trigger: bool = False
    dynamic: bool = False
    use: Use = "common"
    held_out: bool = False
    parameters: dict[Key, WrittenField] = {}
    returns: dict[Key, WrittenField] = {}
    phrases: list[Phrase] = []
    terse: list[Phrase] = []
    clauses: list[Phrase] = []

    @field_validator("parameters", "returns", mode="before")
    @classmethod
    def _none_is_empty(cls, value: Any) -> Any:
        return {} if value is None else value

    @model_validator(mode="after")
    def _check(self) -> WrittenOperation:
        keys = [key.removesuffix("*") for key in self.parameters]
        twice = [key for key, count in Counter(keys).items() if count > 1]
        if twice:
            raise ValueError(f"parameters: {twice[0]} is there twice, with a star and without")
        starred = [key for key in self.returns if key.endswith("*")]
        if starred:
            raise ValueError(f"returns: {starred[0]!r}: only parameters can be required")
        for name in ("phrases", "terse", "clauses"):
            for phrase in getattr(self, name):
                for slot in SLOT.findall(phrase):
                    if slot != APP and len(_meant(slot, keys)) != 1:
                        raise ValueError(f"{name}: {phrase!r}: {{{slot}}} is not one parameter's key or the end of it")
        return self


class WrittenConnector(Strict):
    """What a connector's file says besides its operations."""

    connector: ConnectorId
    name: Text
    called: Annotated[list[Text], AfterValidator(lambda names: names or _none_called())]
    category: Category
    use: Use = "common"
    held_out: bool = False


def _none_called() -> None:
    raise ValueError("needs at least one name")


def _meant(slot: str, keys: Iterable[str]) -> list[str]:
    """The keys that a slot can mean: the very key, else those whose last part it is."""
    exact = [key for key in keys if key == slot]
    return exact or [key for key in keys if key.rsplit("/", 1)[-1] == slot]


@dataclass(frozen=True, slots=True)
class Field:
    """A parameter of an API, or a field of its response, whose key is the path below `body`."""

    key: str
    kind: str = "any"
    type: str = "string"
    format: str = ""
    summary: str = ""
    description: str = ""
    required: bool = False
    internal: bool = False
    examples: tuple = ()

    @property
    def metadata(self) -> dict[str, str]:
        """As in appendix A.2's ParametersInfo."""
        return {
            "Key": self.key,
            "Type": self.type.capitalize(),
            "Summary": self.summary,
            "Format": self.format,
            "Description": self.description,
        }


@dataclass(frozen=True)
class API:
    """One operation of a connector; `name` is how flows call it.

    `dynamic`: its schema depends on parameters, undeclared keys below a body are legal. `in_training`: flows of the
    training and test sets may use it. `internal`: exists, but designers do not offer it. `phrases`: ways to ask for
    it, for a trigger clauses in the present tense without conjunction, for an action imperatives; `terse`: the same in
    telegraph style; `clauses`: endings that add a parameter. Slots are `{app}` and ends of parameter keys.
    """

    connector: str
    operation: str
    display_name: str
    app_name: str
    description: str = ""
    trigger: bool = False
    dynamic: bool = False
    in_training: bool = False
    internal: bool = False
    use: Use = "common"
    parameters: tuple[Field, ...] = ()
    returns: tuple[Field, ...] = ()
    phrases: tuple[str, ...] = ()
    terse: tuple[str, ...] = ()
    clauses: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return f"{self.connector}.{self.operation}"

    @cached_property
    def keys(self) -> frozenset[str]:
        return frozenset(parameter.key for parameter in self.parameters)

    @property
    def family(self) -> str:
        """The name without its version: SendEmail for SendEmailV2 and Send_Email_V3's Send_Email."""
        return f"{self.connector}.{re.sub(r'[_-]?[vV][0-9]+$', '', self.operation)}"

    @property
    def text(self) -> str:
        """What retrieval of definitions sees."""
        summaries = ", ".join(p.summary for p in self.parameters if p.summary and not p.internal)
        parts = (f"{self.app_name}: {self.display_name}", self.description.rstrip("."), summaries)
        return ". ".join(part for part in parts if part) + "."

    @property
    def metadata(self) -> dict[str, Any]:
        """Appendix A.2's record."""
        return {
            "FunctionName": self.name,
            "Description": self.description,
            "IsInTrainingSet": self.in_training,
            "DisplayName": self.display_name,
            "ParametersInfo": [parameter.metadata for parameter in self.parameters if not parameter.internal],
            "ResponseSchema": [output.metadata for output in self.returns],
            "IsTrigger": self.trigger,
        }

    @property
    def definition(self) -> str:
        """One line for prompts: `name(keys): what it does`. Keys under one parent are grouped: `body/{title, due}`."""
        groups: dict[str, list[str]] = {}
        for parameter in self.parameters:
            if not parameter.internal:
                parent, _, last = parameter.key.rpartition("/")
                groups.setdefault(parent, []).append(last)
        keys = [
            key
            for parent, lasts in groups.items()
            for key in (lasts if not parent else [f"{parent}/{lasts[0]}"] if len(lasts) == 1 else
                        [f"{parent}/{{{', '.join(lasts)}}}"])
        ]  # fmt: skip
        return f"{self.name}({', '.join(keys)}): {self.description or self.display_name}"

    def parameter(self, slot: str) -> Field:
        """The parameter that a phrase's slot stands for."""
        (key,) = _meant(slot, [parameter.key for parameter in self.parameters])
        return next(parameter for parameter in self.parameters if parameter.key == key)


@dataclass(frozen=True)
class Connector:
    """A service; `called` are the names that people give it."""

    id: str
    name: str
    called: tuple[str, ...]
    category: str = ""
    use: Use = "common"


@dataclass
class Catalogue:
    """APIs by full name, in the order read. `skipped`: files that could not be read, with the reason."""

    apis: dict[str, API]
    connectors: dict[str, Connector]
    skipped: list[tuple[str, str]] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.apis)

    def __iter__(self) -> Iterator[API]:
        return iter(self.apis.values())

    def __contains__(self, name: object) -> bool:
        return name in self.apis

    def __getitem__(self, name: str) -> API:
        return self.apis[name]

    @classmethod
    def load(cls, path: str | Path) -> Catalogue:
        """The catalogue in a folder of YAML files, one a connector, or in one such file.

        Raises:
            InputError: a file cannot be read, a field is wrong, or a connector or operation is there twice; names
                file, operation and field.
        """
        path = Path(path)
        files = sorted(path.glob("*.yaml")) if path.is_dir() else [path]
        if not files:
            raise InputError(f"{path}: holds no .yaml file")
        catalogue = cls({}, {})
        source: dict[str, Path] = {}
        for file in files:
            connector, apis = _read_connector(file)
            if connector.id in source:
                raise InputError(f"{file}: connector {connector.id} is also in {source[connector.id]}")
            source[connector.id] = file
            catalogue.connectors[connector.id] = connector
            catalogue.apis |= {api.name: api for api in apis}
        return catalogue

    @classmethod
    def from_openapi(cls, path: str | Path) -> Catalogue:
        """The catalogue in a Swagger 2 or OpenAPI 3 document (JSON or YAML), or in a folder of them.

        A file that cannot be read is skipped with a warning and counted in `skipped`. `in_training` is false: whoever
        has training pairs knows which APIs they use.

        Raises:
            InputError: there is no such file, or the folder holds none.
        """
        from lib.workflows.openapi import read_documents  # here, as the importer makes APIs

        return read_documents(Path(path))


class _UniqueKeys(yaml.SafeLoader):
    """PyYAML keeps the last of two equal keys; here they are an error."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict:
        seen: set = set()
        for key, _ in node.value:
            name = self.construct_object(key, deep=True)
            if isinstance(name, str) and name in seen:
                raise yaml.constructor.ConstructorError(None, None, f"{name!r} is there twice", key.start_mark)
            seen.add(str(name))
        return super().construct_mapping(node, deep)


def _read_connector(path: Path) -> tuple[Connector, list[API]]:
    """A connector and its APIs from one file; raises InputError naming file, operation and field."""
    try:
        record = yaml.load(path.read_text(encoding="utf-8"), Loader=_UniqueKeys)
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
        raise InputError(f"{path}: cannot be read: {' '.join(str(error).split())}") from error
    if not isinstance(record, dict) or not isinstance(record.get("operations"), list) or not record["operations"]:
        raise InputError(f"{path}: expected a mapping with a list of operations")
    try:
        written = WrittenConnector.model_validate({key: value for key, value in record.items() if key != "operations"})
    except ValidationError as error:
        raise InputError(f"{path}: {describe_error(error)}") from error
    raw: dict[str, dict] = {}
    apis = []
    for number, operation in enumerate(record["operations"], start=1):
        where = f"{path}, operation {number}"
        if not isinstance(operation, dict):
            raise InputError(f"{where}: expected a mapping")
        where += f" ({operation.get('id', 'without id')})"
        operation = _with_sibling(operation, raw, where)
        try:
            read = WrittenOperation.model_validate(operation)
        except ValidationError as error:
            raise InputError(f"{where}: {describe_error(error)}") from error
        if read.id in raw:
            raise InputError(f"{where}: this id is used twice")
        raw[read.id] = operation
        apis.append(_api(written, read))
    connector = Connector(written.connector, written.name, tuple(written.called), written.category, written.use)
    return connector, apis


def _with_sibling(operation: dict, earlier: dict[str, dict], where: str) -> dict:
    """The operation, with what it leaves unsaid taken from the one that `like` names."""
    if "like" not in operation:
        return operation
    if operation["like"] not in earlier:
        raise InputError(f"{where}: like: there is no operation {operation['like']!r} above")
    return earlier[operation["like"]] | {key: value for key, value in operation.items() if key != "like"}


def _api(connector: WrittenConnector, operation: WrittenOperation) -> API:
    return API(
        connector=connector.connector,
        operation=operation.id,
        display_name=operation.name,
        app_name=connector.name,
        description=operation.description,
        trigger=operation.trigger,
        dynamic=operation.dynamic,
        in_training=not (connector.held_out or operation.held_out),
        use=operation.use,
        parameters=tuple(_field(key, value) for key, value in operation.parameters.items()),
        returns=tuple(_field(key, value) for key, value in operation.returns.items()),
        phrases=tuple(operation.phrases),
        terse=tuple(operation.terse),
        clauses=tuple(operation.clauses),
    )


def _field(key: str, written: WrittenField) -> Field:
    kind_type, kind_format = KINDS.get(written.kind, ("string", ""))
    return Field(
        key=key.removesuffix("*"),
        kind=written.kind,
        type=written.type or kind_type,
        format=kind_format if written.format is None else written.format,
        summary=written.summary,
        description=written.description,
        required=key.endswith("*"),
        examples=tuple(written.examples),
    )
