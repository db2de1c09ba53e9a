"""Needs: the latent variable of the simulated world.

A need says what a user wants (`ask`), the ways in which people voice it (`phrasings`, by kind), where a persona may
keep the items that answer it (`keeps`) and which call then serves it (`plan`), how an expert would reason about
where to look (`cot`), and items that look right but are not (`decoys`). One YAML file a need, in `data/needs/`.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Collection, Iterator
from datetime import date, datetime
from functools import cached_property
from pathlib import Path
from typing import Annotated, Literal, Self, TypeVar

import numpy as np
from pydantic import AfterValidator, Field, TypeAdapter, model_validator

from lib.assistant.plans import parse_plan
from lib.assistant.schemas import APPS, ITEM_TYPES, App, Place
from lib.assistant.toolbox import DEFAULT_API, Toolbox
from lib.workbook.inputs import InputError, Strict, Text, read_yaml

Kind = Literal["meaning", "habit", "either"]
KINDS: tuple[Kind, ...] = ("meaning", "habit", "either")
Trait = Literal["partner", "children", "pet", "car", "student", "employed", "renter", "homeowner"]

# Who and what a template may name; `{teacher}` is the name, `{teacher.first}`, `.last`, `.email`, `.phone` its parts.
ROLES = (
    "partner", "child", "parent", "sibling", "friend", "friend2", "neighbour", "boss", "colleague", "client",
    "teacher", "coach", "doctor", "dentist", "vet", "hairdresser", "landlord", "mechanic", "plumber", "accountant",
    "agent", "babysitter",
)  # fmt: skip
FACTS = (
    "city", "street", "office", "gym", "school", "clinic", "cafe", "restaurant", "store", "station", "company",
    "profession", "cuisine", "music_genre", "movie_genre", "sport",
    "date", "time", "weekday", "month", "n", "amount", "code", "number",
)  # fmt: skip

TEMPLATE_FIELDS: dict[str, set[str]] = {
    "mail": {"sender", "subject", "body"},
    "calendar": {"title", "location", "organizer", "attendees", "notes"},
    "google": {"title", "query"},
    "music": {"song_name", "artist", "album_title", "playlist"},
    "reminders": {"title", "list", "notes"},
    "notes": {"title", "body", "folder"},
    "phone_call": {"contact", "direction", "voicemail"},
}
# Fields of an item that a plan may name besides those of its template.
PLAN_FIELDS = {"calendar": {"start"}, "reminders": {"due"}, "phone_call": {"number"}}
JSON_TYPES = {"string": str, "integer": int, "number": int | float, "boolean": bool, "array": list}
REQUIRED_FIELDS = {"mail": {"sender", "subject"}, "phone_call": {"contact", "direction"}}

Group = Literal["kept", "said", "placed", "unfilled", "unserved"]
# Where a need's arguments stand and what decides its call: in the persona's items, which also decide the call; in the
# query, the call decided by the need, or by where the persona keeps the matter; or nowhere, because the call takes none
# but the day, or because no API serves the need (see `explicit_needs`).
GROUPS: tuple[Group, ...] = ("kept", "said", "placed", "unfilled", "unserved")
Call = tuple[str, dict[str, object]]
Wording = dict[str, str | list[str]]
AtLeastThree = Annotated[list[Wording], Field(min_length=3)]


def expand(text: str, choose) -> str:
    """Replace each `[a|b]` of a template by one of its alternatives; `choose(list)` picks."""
    return re.sub(r"\[([^\[\]]*)\]", lambda match: choose(match.group(1).split("|")), text)


def alternatives(text: str) -> list[str]:
    """All surface forms of a template with `[a|b]` alternatives, in order."""
    match = re.search(r"\[([^\[\]]*)\]", text)
    if not match:
        return [text]
    return [
        form
        for option in match.group(1).split("|")
        for form in alternatives(text[: match.start()] + option + text[match.end() :])
    ]


def slots_of(value: str | list[str]) -> list[str]:
    """Names in braces, in order: `{teacher.first}` gives `teacher.first`."""
    text = " ".join(map(str, value)) if isinstance(value, list) else value
    return [name for _, name, _, _ in string.Formatter().parse(text) if name is not None]


def check_template(value: str | list[str]) -> None:
    """Raises ValueError unless every slot is a plain `{name}` or `{name.part}`."""
    for text in value if isinstance(value, list) else [value]:
        for _, name, spec, conversion in string.Formatter().parse(text):
            if name is not None and (spec or conversion or not re.fullmatch(r"[a-z]\w*(\.\w+)?", name)):
                raise ValueError(f"{text!r}: slots are written {{name}} or {{name.part}}")


def check_slots(slots: list[str], variables: Collection[str] = (), where: str = "text") -> None:
    """Raises ValueError where a slot is neither a role (or a part of one), nor a fact, nor one of `variables`."""
    for slot in slots:
        head, _, part = slot.partition(".")
        role = head in ROLES and part in ("", "first", "last", "email", "phone", "name")
        if not role and slot not in FACTS and slot not in variables:
            raise ValueError(f"{where}: unknown slot {{{slot}}}")


def check_phrasing(text: str) -> str:
    """A phrasing with plain slots and unnested, closed `[a|b]`; raises ValueError otherwise."""
    check_template(text)
    if re.search(r"[\[\]]", re.sub(r"\[[^\[\]]*\]", "", text)):
        raise ValueError(f"{text!r}: alternatives are written [a|b], not nested")
    return text


def check_wording(app: str, wording: Wording) -> None:
    """Raises ValueError where a wording has a field its app lacks, or lacks one it needs."""
    fields = set(wording)
    for field, value in wording.items():
        if field in TEMPLATE_FIELDS[app] and isinstance(value, list) != (field == "attendees"):
            raise ValueError(f"{app} field {field!r} must be {'a list' if field == 'attendees' else 'one text'}")
        check_template(value)
    if app == "phone_call" and wording.get("direction") not in (None, "incoming", "outgoing", "missed"):
        raise ValueError(f"direction must be incoming, outgoing or missed, not {wording['direction']!r}")
    required = REQUIRED_FIELDS.get(app, {ITEM_TYPES[app].title_field})
    if unknown := sorted(fields - TEMPLATE_FIELDS[app]):
        raise ValueError(f"{app} items have no field {unknown[0]!r} (they have {sorted(TEMPLATE_FIELDS[app])})")
    if missing := sorted(required - fields):
        raise ValueError(f"{app} items need the field {missing[0]!r}")


Phrasing = Annotated[Text, AfterValidator(check_phrasing)]


class Habit(Strict):
    """When and where people voice the need; a persona draws one peak hour, its days and one place from these ranges."""

    days: Literal["daily", "weekdays", "weekend", "weekly"]
    hours: tuple[float, float] = Field(description="earliest and latest peak hour, 0 to 24")
    places: list[Place] = Field(min_length=1)

    @model_validator(mode="after")
    def _ordered(self) -> Habit:
        low, high = self.hours
        if not 0 <= low < high <= 24:
            raise ValueError("hours must be two numbers, 0 <= earliest < latest <= 24")
        return self


class ItemTemplate(Strict):
    """One item of a keep, in at least three wordings."""

    app: App
    wordings: AtLeastThree

    @model_validator(mode="after")
    def _fields(self) -> ItemTemplate:
        for number, wording in enumerate(self.wordings, start=1):
            try:
                check_wording(self.app, wording)
            except ValueError as error:
                raise ValueError(f"wording {number}: {error}") from None
        return self


class Keep(Strict):
    """One way in which a persona keeps the need's items, and the call (or two) that serves the need there."""

    items: dict[str, ItemTemplate] = Field(min_length=1, max_length=5)
    plan: list[str] = Field(min_length=1, max_length=2)
    weight: float = Field(default=1.0, gt=0)
    also: list[Annotated[list[str], Field(min_length=1, max_length=2)]] = Field(
        default=[], description="further plans that serve the need as well"
    )

    @cached_property
    def calls(self) -> list[Call]:
        """The plan as (API, {argument: template or literal}) pairs."""
        return [parse_call(text) for text in self.plan]

    @cached_property
    def other_calls(self) -> list[list[Call]]:
        """The plans of `also`, likewise."""
        return [[parse_call(text) for text in plan] for plan in self.also]

    @cached_property
    def room(self) -> Counter[App]:
        """How many items it needs in each app at least."""
        return Counter(template.app for template in self.items.values())

    @cached_property
    def always(self) -> set[str]:
        """The items that a persona has for certain: the first, and those that the plan names."""
        values = [value for _, arguments in self.calls for value in arguments.values() if isinstance(value, str | list)]
        named = {slot.partition(".")[0] for value in values for slot in slots_of(value)}
        return {next(iter(self.items))} | named & set(self.items)

    @cached_property
    def kind_of_plan(self) -> str:
        """`simple` (one call), `complex` (two calls) or `default` (no API fits)."""
        if self.calls[0][0] == DEFAULT_API:
            return "default"
        return "complex" if len(self.plan) == 2 else "simple"


def parse_call(text: str) -> Call:
    """`api(name="value")` as (api, {name: value}); ValueError for anything but a call with literal keywords.

    Values are texts, numbers, booleans or lists of them.
    """
    try:
        [(api, arguments)] = parse_plan(text)
        parts = [part for value in arguments.values() for part in (value if isinstance(value, list) else [value])]
        if not api.isidentifier() or not all(isinstance(part, str | bool | int | float) for part in parts):
            raise ValueError
        return api, arguments
    except ValueError as error:
        raise ValueError(f"plan {text!r} is no call with literal keyword arguments") from error


class Cot(Strict):
    """How an expert reasons about where to look: `informed` where the words name the matter, `blind` where not."""

    informed: list[Text] = Field(min_length=2)
    blind: list[Text] = Field(min_length=2)


class Phrasings(Strict):
    """Ways to voice the need, by what resolves them; `[a|b]` are alternatives of one phrasing."""

    meaning: list[Phrasing] = Field(min_length=4)
    habit: list[Phrasing] = Field(min_length=4)
    either: list[Phrasing] = Field(min_length=4)


class AnyNeed(Strict):
    """What all needs have, whether their arguments stand in the persona's items (`Need`) or in the query."""

    need: Text = Field(pattern=r"^[a-z][a-z0-9_]*$")
    ask: Text
    hobby: str | None = None
    trait: Trait | None = None
    age: tuple[int, int] | None = None
    habit: Habit
    vars: dict[str, Annotated[list[Text], Field(min_length=1)]] = {}
    keeps: dict[str, Keep] = Field(min_length=1)
    decoys: list[Wording] = Field(min_length=2)

    @property
    def voiced(self) -> dict[str, list[str]]:
        """Its phrasings, by the kind that phrasing ids name."""
        raise NotImplementedError

    @property
    def group(self) -> Group:
        raise NotImplementedError

    def thoughts(self, kind: str) -> list[str]:
        """Ways of reasoning about where to look, for a query of this kind."""
        raise NotImplementedError

    def draw_said(self, now: datetime, rng: np.random.Generator, day: date | None = None) -> dict[str, object]:
        """Slots that one query, voiced at `now`, fills on its own, apart from what the persona and its items give; a
        moment that it names is on `day` where one is given."""
        return {}

    def day_asked(self, now: datetime, rng: np.random.Generator) -> date | None:
        """The day that a query voiced at `now` is about, where the need's events are to be on it."""
        return None

    @property
    def api_source(self) -> str:
        """What decides the call: `need` alone, or the `place` where a persona keeps the matter."""
        plans = {tuple(api for api, _ in keep.calls) for keep in self.keeps.values()}
        return "need" if len(plans) == 1 else "place"

    @model_validator(mode="after")
    def _decoys(self) -> Self:
        for number, decoy in enumerate(self.decoys, start=1):
            app = decoy.get("app")
            if app not in APPS:
                raise ValueError(f"decoy {number}: app must be one of {APPS}")
            try:
                check_wording(app, {key: value for key, value in decoy.items() if key != "app"})
            except ValueError as error:
                raise ValueError(f"decoy {number}: {error}") from None
        return self

    def _plan_texts(self) -> Iterator[tuple[str, Keep, str | list[str]]]:
        """(where, keep, value) of every argument that is a text or a list, in plans and other plans."""
        for name, keep in self.keeps.items():
            for calls in (keep.calls, *keep.other_calls):
                for api, arguments in calls:
                    for argument, value in arguments.items():
                        if isinstance(value, str | list):
                            yield f"keep {name}, {api}({argument})", keep, value

    def _item_texts(self) -> Iterator[tuple[str, str | list[str]]]:
        for name, keep in self.keeps.items():
            for slot, item in keep.items.items():
                for wording in item.wordings:
                    for field, value in wording.items():
                        yield f"keep {name}, item {slot}, {field}", value
        for decoy in self.decoys:
            for field, value in decoy.items():
                yield f"decoy {field}", value

    def _check_plan_slots(self, where: str, keep: Keep, slots: list[str]) -> None:
        for slot in slots:
            head, _, tail = slot.partition(".")
            if head in keep.items:
                template = keep.items[head]
                given = set.intersection(*(set(wording) for wording in template.wordings))
                if tail not in given | PLAN_FIELDS.get(template.app, set()):
                    raise ValueError(f"{where}: {{{slot}}} is not in every wording of item {head}")
            else:
                check_slots([slot], self.vars, where)

    def check_plans(self, toolbox: Toolbox) -> None:
        """Raises ValueError where a plan calls an unknown API, names an unknown argument or lacks a required one."""
        for name, keep in self.keeps.items():
            for calls in (keep.calls, *keep.other_calls):
                for api, arguments in calls:
                    self._check_call(f"keep {name}", api, arguments, len(calls) == 1, toolbox)

    def _check_call(self, where: str, api: str, arguments: dict[str, object], alone: bool, toolbox: Toolbox) -> None:
        if api == DEFAULT_API:
            if arguments or not alone:
                raise ValueError(f"{where}: default() stands alone and without arguments")
            return
        if api not in toolbox:
            raise ValueError(f"{where}: no API {api!r} in the toolbox")
        known = toolbox[api].arguments
        if unknown := sorted(set(arguments) - set(known)):
            raise ValueError(f"{where}: {api} has no argument {unknown[0]!r}")
        for key, value in arguments.items():
            if not self._fits(value, known[key].type):
                raise ValueError(f"{where}: {api}({key}) must be of type {known[key].type}, not {value!r}")
        missing = [key for key, argument in known.items() if argument.required and key not in arguments]
        if missing:
            raise ValueError(f"{where}: {api} needs the argument {missing[0]!r}")

    def _fits(self, value: object, json_type: str) -> bool:
        return isinstance(value, JSON_TYPES[json_type])


class Need(AnyNeed):
    """A need voiced without saying all: its call's arguments stand in the items that the persona keeps."""

    phrasings: Phrasings
    keeps: dict[str, Keep] = Field(min_length=2)
    cot: Cot
    decoys: list[Wording] = Field(min_length=3)

    @property
    def voiced(self) -> dict[str, list[str]]:
        return {kind: getattr(self.phrasings, kind) for kind in KINDS}

    @property
    def group(self) -> Group:
        return "kept"

    def thoughts(self, kind: str) -> list[str]:
        return self.cot.blind if kind == "habit" else self.cot.informed

    @model_validator(mode="after")
    def _consistent(self) -> Need:
        for kind, texts in self.voiced.items():
            for form in (form for text in texts for form in alternatives(text)):
                check_slots(slots_of(form), self.vars, f"{kind} phrasing")
        for where, value in self._item_texts():
            check_slots(slots_of(value), self.vars, where)
        for where, keep, value in self._plan_texts():
            self._check_plan_slots(where, keep, slots_of(value))
        if len({keep.calls[-1][0] for keep in self.keeps.values()}) < 2:
            raise ValueError("at least two keeps must end in different APIs")
        return self


Form = TypeVar("Form", bound=AnyNeed)


def read_needs(folder: str | Path, toolbox: Toolbox) -> list[Need]:
    """The needs of a folder (see `read_forms`)."""
    return read_forms(folder, toolbox, Need)


def read_forms(folder: str | Path, toolbox: Toolbox, form: type[Form]) -> list[Form]:
    """All needs of a folder, of one form, by file name, checked against the toolbox.

    Raises:
        InputError: a file is not a valid need, its name differs from the need's, two phrasings that name their matter
            are the same text, or the folder holds none; names the file and the field.
    """
    folder = Path(folder)
    needs: list[Form] = []
    seen: dict[str, str] = {}
    for path in sorted(folder.glob("*.yaml")):
        try:
            need = read_yaml(path, TypeAdapter(form))
            need.check_plans(toolbox)
        except InputError:
            raise
        except ValueError as error:
            raise InputError(f"{path}: {' '.join(str(error).split())}") from error
        if need.need != path.stem:
            raise InputError(f"{path}: need: is {need.need!r}, expected the file's name")
        pairs = [(kind, text) for kind, texts in need.voiced.items() if kind != "habit" for text in texts]
        for kind, text in pairs:
            for words in sorted({" ".join(words.lower().split()) for words in alternatives(text)}):
                if words in seen:
                    raise InputError(f"{path}: {kind} phrasing {words!r} also stands in {seen[words]}")
                seen[words] = f"{path.name} ({text!r})"
        needs.append(need)
    if not needs:
        raise InputError(f"{folder}: holds no need (*.yaml)")
    return needs
