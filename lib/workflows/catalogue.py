"""The API catalogue: what the operations of each connector are called, take and return, and how people ask for them.

One YAML file a connector in `data/catalogue/`; `data/README.md` explains the form.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import pydantic
from pydantic import StringConstraints, model_validator

from lib.workbook.inputs import InputError, Strict, Text, did_you_mean, parse_yaml, read_yaml, validated
from lib.workflows.apis import APP, KINDS, SLOT, Connector, Field, Operation, Use
from lib.workflows.openapi import read_documents

Kind = Annotated[str, StringConstraints(pattern=f"^(id:[a-z][a-z_]*|{'|'.join(KINDS)})$")]
Type = Literal["string", "integer", "number", "boolean", "array", "object"]
ConnectorId = Annotated[str, StringConstraints(pattern=r"^shared_[a-z0-9][a-z0-9_\-]*$")]
OperationId = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_\-]*$")]
Key = Annotated[str, StringConstraints(pattern=r"""^[^"'\\{}*|\x00-\x1f\x7f]+\*?$""")]  # a star: required
SAME = ("description", "trigger", "dynamic", "use", "phrases", "terse", "clauses")  # as people write them
Phrase = Annotated[Text, StringConstraints(pattern=r"^([^{}\[\]|\n]|\{[^{}\[\]|\n]+\})+$")]  # slots are written {name}


class WrittenField(Strict):
    """A parameter or response field as people write it: `kind | summary | description | example; example`."""

    kind: Kind
    summary: str = ""
    description: str = ""
    examples: tuple[str | int | float | bool, ...] = ()
    type: Type | None = None
    format: str | None = None

    def field(self, key: str) -> Field:
        usual_type, usual_format = KINDS.get(self.kind, ("string", ""))
        told = {"type": usual_type, "format": usual_format} | self.model_dump(exclude_none=True)
        return Field(key.removesuffix("*"), required=key.endswith("*"), **told)

    @model_validator(mode="before")
    @classmethod
    def _from_line(cls, value: Any) -> Any:
        if not isinstance(value, str):
            return value
        kind, summary, description, examples, *more = [part.strip() for part in value.split("|")] + [""] * 3
        if any(more):
            raise ValueError(f"{value!r}: at most kind | summary | description | examples")
        read = parse_yaml if kind in {"count", "number", "amount", "boolean"} else str.strip
        shown = [read(part) for part in examples.split(";") if part.strip()]
        return {"kind": kind, "summary": summary, "description": description, "examples": shown}


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
    phrases: tuple[Phrase, ...] = ()
    terse: tuple[Phrase, ...] = ()
    clauses: tuple[Phrase, ...] = ()

    @model_validator(mode="after")
    def _slots_are_keys(self) -> WrittenOperation:
        keys = [key.removesuffix("*") for key in self.parameters]
        ends = [key.rpartition("/")[2] for key in keys]
        for name in ("phrases", "terse", "clauses"):
            for phrase in getattr(self, name):
                for slot in SLOT.findall(phrase):
                    if slot != APP and slot not in keys and ends.count(slot) != 1:
                        raise ValueError(f"{name}: {phrase!r}: {{{slot}}} is not one parameter's key or the end of it")
        return self


class WrittenConnector(Strict):
    """A connector's file."""

    connector: ConnectorId
    name: Text
    called: Annotated[list[Text], pydantic.Field(min_length=1)]
    category: Text
    use: Use = "common"
    held_out: bool = False
    operations: Annotated[list[dict[str, Any]], pydantic.Field(min_length=1)]


class Entry(Strict):
    """One API of a catalogue on disk, with its connector."""

    connector: Connector
    api: Operation


@dataclass
class Catalogue:
    """APIs by full name, in the order read. `skipped`: files that could not be read, with the reason."""

    apis: dict[str, Operation]
    connectors: dict[str, Connector]
    skipped: list[tuple[str, str]] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.apis)

    def __iter__(self) -> Iterator[Operation]:
        return iter(self.apis.values())

    def __contains__(self, name: object) -> bool:
        return name in self.apis

    def __getitem__(self, name: str) -> Operation:
        if name not in self.apis:
            raise KeyError(f"no API {name}{did_you_mean(name, self.apis)}")
        return self.apis[name]

    @classmethod
    def load(cls, path: str | Path) -> Catalogue:
        """The catalogue in a folder of YAML files, one a connector, or in one such file.

        Raises:
            InputError: names file, operation and field of what is wrong or there twice.
        """
        path = Path(path)
        files = sorted(path.glob("*.yaml")) if path.is_dir() else [path]
        if not files:
            raise InputError(f"{path}: holds no .yaml file")
        catalogue = cls({}, {})
        for file in files:
            connector, apis = _read_connector(file)
            if connector.id in catalogue.connectors:
                raise InputError(f"{file}: connector {connector.id} is in another file, too")
            catalogue.connectors[connector.id] = connector
            catalogue.apis |= {api.name: api for api in apis}
        return catalogue

    @classmethod
    def from_openapi(cls, path: str | Path) -> Catalogue:
        """The catalogue in a Swagger 2 or OpenAPI 3 document (JSON or YAML), or in a folder of them.

        A file that cannot be read is skipped with a warning and counted in `skipped`. `in_training` is false: whoever
        has training pairs knows which APIs they use. Raises InputError where no document has an API.
        """
        return cls(*read_documents(Path(path)))

    @classmethod
    def from_lines(cls, lines: Iterable[str]) -> Catalogue:
        """The catalogue that `to_lines` wrote; pydantic raises where a line is none of its."""
        catalogue = cls({}, {})
        for line in lines:
            entry = Entry.model_validate_json(line)
            catalogue.connectors[entry.connector.id] = entry.connector
            catalogue.apis[entry.api.name] = entry.api
        return catalogue

    def to_lines(self) -> list[str]:
        """JSON, one API a line in the order read; `skipped` is left out."""
        return [Entry(connector=self.connectors[api.connector], api=api).model_dump_json() for api in self]

    def trained_on(self, names: Collection[str]) -> Catalogue:
        """The same APIs, `in_training` being whether their name is among `names`."""
        apis = {name: replace(api, in_training=name in names) for name, api in self.apis.items()}
        return replace(self, apis=apis)


def _read_connector(path: Path) -> tuple[Connector, list[Operation]]:
    """A connector and its APIs from one file; raises InputError naming file, operation and field."""
    told = validated(WrittenConnector, read_yaml(path), str(path))
    raw: dict[str, dict] = {}
    apis = []
    for number, operation in enumerate(told.operations, start=1):
        where = f"{path}, operation {number} ({operation.get('id', 'without id')})"
        if sibling := operation.pop("like", None):  # what it leaves unsaid is taken from there
            if str(sibling) not in raw:
                raise InputError(f"{where}: like: there is no operation {sibling!r} above")
            operation = raw[str(sibling)] | operation
        written = validated(WrittenOperation, operation, where)
        if written.id in raw:
            raise InputError(f"{where}: this id is used twice")
        raw[written.id] = operation
        api = Operation(
            connector=told.connector,
            operation=written.id,
            display_name=written.name,
            app_name=told.name,
            in_training=not (told.held_out or written.held_out),
            parameters=tuple(value.field(key) for key, value in written.parameters.items()),
            returns=tuple(value.field(key) for key, value in written.returns.items()),
            **{name: getattr(written, name) for name in SAME},
        )
        apis.append(api)
    return Connector(told.connector, told.name, tuple(told.called), told.category, told.use), apis
