"""Needs, the latent variable of the simulated world: one YAML file each, in `data/needs/`.

A need says what a user wants, how people voice it (`phrasings`), where a persona may keep the items that answer it
(`keeps`), which call then serves it (`plan`), how an expert would reason about where to look (`cot`), and items that
look right but are not (`decoys`). The arguments of most calls stand in the items that the persona keeps. An explicit
need (`data/needs/explicit/`) says them; its items are gold, too, though the call can be made without them.

Templates have slots, `{teacher}` or `{teacher.first}`: who and what of a persona, and an item's fields in plans. A
phrasing may have alternatives, `[a|b]`. Of an explicit need, `said` holds values drawn anew for each query, `vars`
values drawn once a persona; `{when.day}`, `{when.on_day}` and `{when.clock}` say a moment that the plan has as
`{when.moment}` or `{when.date}`; `{now.date}` is the day on which the query is voiced.
"""

from __future__ import annotations

import itertools
import re
import string
from collections import Counter
from dataclasses import field
from datetime import date, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any, Literal, get_args

import numpy as np
from pydantic import Field, TypeAdapter
from pydantic.dataclasses import dataclass

from lib.assistant.plans import parse_plan
from lib.assistant.schemas import App, Place
from lib.assistant.toolbox import DEFAULT_API
from lib.workbook.inputs import InputError, Strict, Text, read_yaml

Kind = Literal["meaning", "habit", "either"]
KINDS: tuple[Kind, ...] = get_args(Kind)
KIND_NAMES = {"meaning": "by content", "habit": "by habit", "either": "either"}  # as readers meet them
Trait = Literal["partner", "children", "pet", "car", "student", "employed", "renter", "homeowner"]
ROLES = (
    "partner", "child", "parent", "sibling", "friend", "friend2", "neighbour", "boss", "colleague", "client",
    "teacher", "coach", "doctor", "dentist", "vet", "hairdresser", "landlord", "mechanic", "plumber", "accountant",
    "agent", "babysitter",
)  # fmt: skip
# Where a need's arguments stand and what decides its call: in the persona's items, which also decide the call; in the
# query, the call decided by the need, or by where the persona keeps the matter; or nowhere, because the call takes none
# but the day, or because no API serves the need.
Group = Literal["kept", "said", "placed", "unfilled", "unserved"]
GROUPS: tuple[Group, ...] = get_args(Group)
Call = tuple[str, dict[str, object]]
Wording = dict[str, str | list[str]]
When = dict[Literal["days", "hours"], tuple[int, int]]
Texts = Annotated[list[Text], Field(min_length=1)]
Plan = Annotated[list[str], Field(min_length=1, max_length=2)]

NUMBERS = "twelve one two three four five six seven eight nine ten eleven".split()
HALF_HOUR = timedelta(minutes=30)
CHOICE = re.compile(r"\[([^\[\]]*)\]")


def alternatives(text: str) -> list[str]:
    """All surface forms of a template with `[a|b]` alternatives, in order."""
    parts = [part.split("|") if number % 2 else [part] for number, part in enumerate(CHOICE.split(text))]
    return ["".join(form) for form in itertools.product(*parts)]


def slots_of(value: str | list[str]) -> list[str]:
    """Names in braces, in order: `{teacher.first}` gives `teacher.first`."""
    text = " ".join(map(str, value)) if isinstance(value, list) else value
    return [name for _, name, _, _ in string.Formatter().parse(text) if name is not None]


def fill_template(value: Any, namespace: dict) -> Any:
    """A template, or each of a list of them, with its slots filled; what is no text stays as it is. Raises InputError
    where there is nothing of a slot's name."""
    if isinstance(value, list):
        return [fill_template(part, namespace) for part in value]
    if not isinstance(value, str):
        return value
    try:
        return value.format_map(namespace)
    except (KeyError, AttributeError, ValueError) as error:
        raise InputError(f"template {value!r}: a slot cannot be filled: {error}") from error


def parse_call(text: str) -> Call:
    """`api(name="value")` as (api, {name: value}); ValueError for all but a call with texts, numbers, booleans or lists
    of them as keywords."""
    try:
        [(api, arguments)] = parse_plan(text)
        parts = [part for value in arguments.values() for part in (value if isinstance(value, list) else [value])]
        if not api.isidentifier() or not all(isinstance(part, str | bool | int | float) for part in parts):
            raise ValueError
        return api, arguments
    except ValueError as error:
        raise ValueError(f"plan {text!r} is no call with literal keyword arguments") from error


@dataclass(config=Strict.model_config)
class Habit:
    """When and where people voice the need; a persona draws one peak hour, its days and one place from these ranges."""

    days: Literal["daily", "weekdays", "weekend", "weekly"]
    hours: tuple[float, float]  # earliest and latest peak hour, 0 to 24
    places: Annotated[list[Place], Field(min_length=1)]


@dataclass(config=Strict.model_config)
class ItemTemplate:
    """One item of a keep, in at least three wordings."""

    app: App
    wordings: Annotated[list[Wording], Field(min_length=3)]


@dataclass(config=Strict.model_config)
class Keep:
    """One way in which a persona keeps the need's items, and the call (or two) that serves the need there."""

    items: Annotated[dict[str, ItemTemplate], Field(min_length=1, max_length=5)]
    plan: Plan
    weight: Annotated[float, Field(gt=0)] = 1.0
    also: list[Plan] = field(default_factory=list)  # further plans that serve the need as well
    calls: list[Call] = field(init=False)  # the plan as (API, {argument: template or literal}) pairs
    other_calls: list[tuple[list[Call], set[str]]] = field(init=False)  # likewise of `also`, with the items it names
    kind_of_plan: str = field(init=False)  # `simple` (one call), `complex` (two calls) or `default` (no API fits)
    always: set[str] = field(init=False)  # items that a persona has for certain: the first, and those in the plan
    room: Counter[App] = field(init=False)  # how many items it needs in each app at least

    def __post_init__(self) -> None:
        named = []
        plans = [[parse_call(text) for text in plan] for plan in (self.plan, *self.also)]
        for calls in plans:
            values = [value for _, arguments in calls for value in arguments.values() if isinstance(value, str | list)]
            named.append({slot.partition(".")[0] for value in values for slot in slots_of(value)} & set(self.items))
        self.calls, self.other_calls = plans[0], list(zip(plans[1:], named[1:], strict=True))
        self.always = {next(iter(self.items))} | named[0]
        self.kind_of_plan = "complex" if len(self.plan) == 2 else "simple"
        if self.calls[0][0] == DEFAULT_API:
            self.kind_of_plan = "default"
        self.room = Counter(template.app for template in self.items.values())


@dataclass(config=Strict.model_config)
class Need:
    """A need; explicit where its phrasings are a list: they say all that its call takes. Of its chains of thought those
    are `informed` that fit words which name the matter, the others `blind`."""

    need: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")]
    ask: Text
    habit: Habit
    phrasings: dict[Kind, Texts] | Texts
    keeps: Annotated[dict[str, Keep], Field(min_length=1)]
    cot: dict[Literal["informed", "blind"], Texts] | Texts
    decoys: Annotated[list[Wording], Field(min_length=2)]
    hobby: str | None = None
    trait: Trait | None = None
    age: tuple[int, int] | None = None
    vars: dict[str, Texts] = field(default_factory=dict)
    said: dict[str, Texts] = field(default_factory=dict)
    when: When = field(default_factory=dict)  # what `{when}` may mean: days from now, 0 (today) to 6, hours of the day
    same_day: bool = False  # its events are on the day that its queries are about, which are all voiced on one day
    voiced: dict[str, list[str]] = field(init=False)  # its phrasings by kind, as phrasing ids name it
    api_source: str = field(init=False)  # decides the call: the `need` alone, or the `place` where the matter is kept
    group: Group = field(init=False)

    def __post_init__(self) -> None:
        keeps = self.keeps.values()
        self.api_source = "need" if len({tuple(api for api, _ in keep.calls) for keep in keeps}) == 1 else "place"
        if not isinstance(self.phrasings, list):
            self.voiced, self.group = {kind: self.phrasings[kind] for kind in KINDS}, "kept"
            return
        self.voiced = {"explicit": self.phrasings}
        plans = [calls for keep in keeps for calls in (keep.calls, *(calls for calls, _ in keep.other_calls))]
        values = [value for calls in plans for _, arguments in calls for value in arguments.values()]
        if any(keep.kind_of_plan == "default" for keep in keeps):
            self.group = "unserved"
        elif all(value == "{now.date}" for value in values if isinstance(value, str | list)):
            self.group = "unfilled"
        else:
            self.group = "said" if self.api_source == "need" else "placed"


def read_needs(folder: str | Path) -> list[Need]:
    """The needs of a folder by file name, then those of its folder `explicit`. Raises InputError, with the file and
    field, where a file is not a valid need, its name differs from the need's or stands in both, or there is none."""
    folder = Path(folder)
    needs: dict[str, Need] = {}
    for path in [*sorted(folder.glob("*.yaml")), *sorted(folder.glob("explicit/*.yaml"))]:
        need = read_yaml(path, TypeAdapter(Need))
        if need.need != path.stem or need.need in needs:
            raise InputError(f"{path}: need: is {need.need!r}, expected the file's name, which no other has")
        needs[need.need] = need
    if not needs:
        raise InputError(f"{folder}: holds no need (*.yaml)")
    return list(needs.values())


def moment_words(moment: datetime, now: datetime) -> tuple[str, list[str]]:
    """How to name a half-hour: its day, at most six days ahead ("tomorrow", "Friday"), and the ways to say the time, so
    that nobody takes morning for evening ("7 am", "half past seven in the morning")."""
    ahead, hour, minute = (moment.date() - now.date()).days, moment.hour, moment.minute
    day = "today" if ahead == 0 else f"{moment:%A}" if ahead > 1 else "tomorrow"
    if (hour, minute) == (12, 0):
        return day, ["noon", "12 noon"]
    part = "in the morning" if hour < 12 else "in the afternoon" if hour < 18 else "in the evening"
    half, short = ("half past ", f"{(hour - 1) % 12 + 1}:30") if minute else ("", f"{(hour - 1) % 12 + 1}")
    words = [f"{short} {'am' if hour < 12 else 'pm'}", f"{half}{NUMBERS[hour % 12]} {part}", f"{short} {part}"]
    return day, [*words, f"{hour}:{minute:02d}"] if hour > 12 else words


def draw_moment(when: When, now: datetime, rng: np.random.Generator, day: date | None = None) -> SimpleNamespace:
    """A half-hour as `when` allows it, more than half an hour from now, on `day` where one is given, in one of the ways
    to say it: in words (`day`, `on_day`, `clock`) and as an argument (`moment`, `date`)."""
    midnight, (opens, closes), (first, last) = datetime(now.year, now.month, now.day), when["hours"], when["days"]
    over = midnight + timedelta(hours=closes) <= now + HALF_HOUR
    ahead = int(rng.integers(max(first, 1) if over else first, last + 1))
    if day:
        ahead = (day - now.date()).days
    opening = midnight + timedelta(days=ahead, hours=opens)
    choices = [opening + HALF_HOUR * n for n in range(2 * (closes - opens) + 1)]
    choices = [choice for choice in choices if choice > now + HALF_HOUR]
    moment = choices[rng.integers(len(choices))]
    called, words = moment_words(moment, now)
    return SimpleNamespace(
        day=called,
        on_day=called if called in ("today", "tomorrow") else f"on {called}",
        clock=words[rng.integers(len(words))],
        moment=f"{moment:%Y-%m-%d %H:%M}",
        date=f"{moment:%Y-%m-%d}",
    )
