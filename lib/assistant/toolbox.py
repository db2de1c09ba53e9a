"""The toolbox: the APIs an assistant can call."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Literal

import yaml
from pydantic import Field, ValidationError, field_validator

from lib.assistant.schemas import App, InputError, Strict, Text, describe_error

DEFAULT_API = "default"


class Argument(Strict):
    """One argument of an API; `type` is a JSON Schema type."""

    description: Text
    type: Literal["string", "integer", "number", "boolean", "array"] = "string"
    required: bool = True


class API(Strict):
    """One tool: its name, the app it belongs to, what it does, and its arguments by name."""

    api: Text = Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")
    app: App
    description: Text
    arguments: dict[str, Argument] = {}

    @field_validator("arguments", mode="before")
    @classmethod
    def _none_is_empty(cls, value: object) -> object:
        return {} if value is None else value

    @property
    def text(self) -> str:
        """What tool retrieval sees: name, description and arguments in one line."""
        arguments = "; ".join(f"{name}: {argument.description}" for name, argument in self.arguments.items())
        return f"{self.api.replace('_', ' ')}. {self.description} {arguments}".strip()


class Toolbox:
    """APIs by name, in the order of their file. `default` is no tool: it says that no tool fits (appendix A.4)."""

    def __init__(self, apis: list[API]):
        counts = Counter(api.api for api in apis)
        for name, count in counts.items():
            if count > 1:
                raise InputError(f"API {name} is defined {count} times")
        if DEFAULT_API in counts:
            raise InputError(f"API {DEFAULT_API} is reserved for queries that no tool fits")
        self.apis = {api.api: api for api in apis}

    def __len__(self) -> int:
        return len(self.apis)

    def __iter__(self):
        return iter(self.apis.values())

    def __contains__(self, name: object) -> bool:
        return name in self.apis

    def __getitem__(self, name: str) -> API:
        return self.apis[name]

    @classmethod
    def from_yaml(cls, path: str | Path) -> Toolbox:
        """A toolbox from a YAML list of records `api, app, description, arguments`.

        Raises:
            InputError: the file is not such a list, a record has a wrong field, or a name is used twice;
                names the file, the record and the field.
        """
        path = Path(path)
        try:
            records = yaml.safe_load(path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
            raise InputError(f"{path}: cannot be read: {' '.join(str(error).split())}") from error
        if not isinstance(records, list) or not records:
            raise InputError(f"{path}: expected a list of APIs")
        apis = []
        for number, record in enumerate(records, start=1):
            name = record.get("api", "without name") if isinstance(record, dict) else "no mapping"
            try:
                apis.append(API.model_validate(record))
            except ValidationError as error:
                raise InputError(f"{path}, record {number} ({name}): {describe_error(error)}") from error
        try:
            return cls(apis)
        except InputError as error:
            raise InputError(f"{path}: {error}") from None
