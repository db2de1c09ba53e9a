"""An API of a connector: what it is called, takes and returns, and how people ask for it."""

from __future__ import annotations

import itertools
import json
import re
import textwrap
from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Literal, get_args

import yaml

from lib.workbook.artifacts import ROOT

ABOUT_KINDS = yaml.safe_load((ROOT / "data" / "flows" / "kinds.yaml").read_text(encoding="utf-8"))
# Kinds of value, with JSON type and format.
KINDS = {kind: (told.get("type", "string"), told.get("format", "")) for kind, told in ABOUT_KINDS["kinds"].items()}
ID = "id:"  # `id:message` identifies a message
SHARED_IDS = {"id:user", "id:group"}  # the same in all connectors; other ids have a meaning in their connector only

Use = Literal["core", "common", "rare"]  # most used first
USES: tuple[Use, ...] = get_args(Use)
DefinitionForm = Literal["compact", "described", "record"]
MOST_KEYS, MOST_KEY_CHARACTERS, MOST_DESCRIPTION = 20, 900, 300  # in a definition
MOST_SAID_OF_A_KEY = 150  # characters of its summary, and of its description
MOST_DESCRIBED, MOST_RECORD = 2000, 4000  # characters, after which keys are named alone, and outputs left out
SLOT = re.compile(r"\{([^{}]*)\}")
APP = "app"  # the slot that stands for a name of the connector
_shortened = partial(textwrap.shorten, width=MOST_SAID_OF_A_KEY, placeholder="…")


def fits(source: str, target: str, same_connector: bool) -> bool:
    """Whether a value of kind `source` can fill a parameter of kind `target`."""
    if target.startswith(ID):
        return source == target and (same_connector or target in SHARED_IDS)
    if target in {"choice", "any", "container"}:
        return False
    return source == target or source in ABOUT_KINDS["also_fits"].get(target, ())


def said(kind: str) -> bool:
    """Whether people name values of this kind in a request."""
    return not kind.startswith(ID) and kind not in ABOUT_KINDS["unsaid"]


def free_name(name: str, taken: Collection[str]) -> str:
    """The name, with a number behind it where it is taken."""
    free, number = name, 1
    while free in taken:
        number += 1
        free = f"{name}_{number}"
    return free


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
        told = {"Key": self.key, "Type": self.type.capitalize(), "Summary": self.summary}
        return told | {"Format": self.format, "Description": self.description}


@dataclass(frozen=True)
class Operation:
    """One operation of a connector; `name` is how flows call it. Slots of its phrases are `{app}` and ends of keys."""

    connector: str
    operation: str
    display_name: str
    app_name: str
    description: str = ""
    trigger: bool = False
    dynamic: bool = False  # its schema depends on parameters: undeclared keys below a body are legal
    in_training: bool = False  # flows of the training and test sets may use it
    internal: bool = False  # exists, but designers do not offer it
    use: Use = "common"
    parameters: tuple[Field, ...] = ()
    returns: tuple[Field, ...] = ()
    phrases: tuple[str, ...] = ()  # of a trigger clauses in the present tense, of an action imperatives
    terse: tuple[str, ...] = ()  # the same in telegraph style
    clauses: tuple[str, ...] = ()  # endings that add a parameter

    def __hash__(self) -> int:
        """By name alone: caches look APIs up often, and a catalogue has each name once."""
        return hash(self.name)

    @cached_property
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

    def definition_in(self, form: DefinitionForm = "compact") -> str:
        """The definition as one line for prompts, of bounded length.

        "compact" is `name: what it does. Keys: a, body/b`, which does not look like a call, as small models copy those
        into the flow; required keys come first. "described" has each key with its type, summary and description, as the
        workflow paper's prompts have them, until `MOST_DESCRIBED` characters are full. "record" is `metadata` as JSON,
        texts cut to length, with response fields up to `MOST_RECORD` characters, without `IsInTrainingSet`.
        """
        if form in self._definitions:
            return self._definitions[form]
        offered = sorted((p for p in self.parameters if not p.internal), key=lambda p: not p.required)
        room = itertools.accumulate(len(p.key) + 2 for p in offered)
        shown = [p for p, used in zip(offered[:MOST_KEYS], room, strict=False) if used <= MOST_KEY_CHARACTERS]
        if form == "record":
            kept = self.metadata
            del kept["IsInTrainingSet"]
            kept["ParametersInfo"] = [parameter.metadata for parameter in self.parameters if parameter in shown]
            outputs, kept["ResponseSchema"] = kept["ResponseSchema"], []
            for told in (*kept["ParametersInfo"], *outputs):
                told |= {name: _shortened(text) for name, text in told.items() if name != "Key"}
            kept |= {name: _shortened(kept[name], width=MOST_DESCRIPTION) for name in ("Description", "DisplayName")}
            left = MOST_RECORD - len(json.dumps(kept, ensure_ascii=False))
            used = itertools.accumulate(len(json.dumps(output, ensure_ascii=False)) + 2 for output in outputs)
            kept["ResponseSchema"] = [output for output, length in zip(outputs, used, strict=True) if length <= left]
            made = json.dumps(kept, ensure_ascii=False)
        else:
            keys, length = [parameter.key for parameter in shown], 0
            for number, parameter in enumerate(shown if form == "described" else []):
                texts = (_shortened(text).rstrip(".") for text in (parameter.summary, parameter.description))
                said = ", ".join(text for text in dict.fromkeys(texts) if text)
                one = f"{parameter.key} ({parameter.type})" + (f": {said}" if said else "")
                length += len(one)
                keys[number] = one if length <= MOST_DESCRIBED else parameter.key
            more = [f"{len(offered) - len(keys)} more"] if len(offered) > len(keys) else []
            listed = ("; " if form == "described" else ", ").join(keys + more)
            does = _shortened(self.description or self.display_name, width=MOST_DESCRIPTION).rstrip(".")
            made = f"{self.name}: {does}." + (f" Keys: {listed}" if listed else "")
        self._definitions[form] = made
        return made

    @cached_property
    def _definitions(self) -> dict[str, str]:
        return {}

    @cached_property
    def by_slot(self) -> dict[str, Field]:
        """The parameter that each possible slot of a phrase stands for."""
        return {p.key.rpartition("/")[2]: p for p in self.parameters} | {p.key: p for p in self.parameters}

    def slots(self, template: str) -> list[Field]:
        """The parameters that the slots of a phrase stand for."""
        return [self.by_slot[slot] for slot in SLOT.findall(template) if slot != APP]


@dataclass(frozen=True)
class Connector:
    """A service; `called` are the names that people give it."""

    id: str
    name: str
    called: tuple[str, ...]
    category: str = ""
    use: Use = "common"
