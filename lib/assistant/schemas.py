"""Personas and the items of their seven apps, as pydantic models (assistant paper, appendix A.2): JSON in, validated,
JSON out. An unknown field or a wrong type is an error that names the field."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from pathlib import Path
from typing import Any, ClassVar, Literal, get_args

from pydantic import Field, NaiveDatetime, create_model

from lib.workbook.inputs import InputError, Strict, Text, read_records, validated

App = Literal["mail", "calendar", "google", "music", "reminders", "notes", "phone_call"]
APPS: tuple[App, ...] = get_args(App)
APP_NAMES = {app: app.title().replace("_", "") for app in APPS}  # as people call them: Mail … PhoneCall
Place = Literal["home", "work", "commute", "gym", "cafe", "store", "outdoors", "school"]
PLACES: tuple[Place, ...] = get_args(Place)
Moment = tuple[datetime, Place]


class Person(Strict):
    """Somebody a persona knows; `role` is what they are to the persona."""

    role: Text
    name: Text
    email: str
    phone: str

    @property
    def first(self) -> str:
        return self.name.removeprefix("Dr. ").split()[0]

    @property
    def last(self) -> str:
        return self.name.split()[-1]

    def __format__(self, spec: str) -> str:
        return format(self.name, spec)


class Open(Strict):
    """One use of an item: when (local time) and where."""

    time: NaiveDatetime
    place: Place


class Item(Strict):
    """What all context items share."""

    time_field: ClassVar[str]
    text_fields: ClassVar[tuple[str, ...]]  # the first is its name

    id: Text
    opens: list[Open] = []

    @property
    def headline(self) -> str:
        """The item's name, whatever its app calls it."""
        return getattr(self, self.text_fields[0])

    @property
    def shown(self) -> datetime:
        """The one time that its app shows of it."""
        return getattr(self, self.time_field)

    @property
    def text(self) -> str:
        """All text that retrieval sees, in reading order, as one line."""
        parts = (getattr(self, field) for field in self.text_fields)
        return ". ".join(", ".join(part) if isinstance(part, list) else part for part in parts if part)

    def add_opens(self, moments: Sequence[Moment]) -> None:
        self.opens += [Open.model_construct(time=time, place=place) for time, place in moments]
        self.opens.sort(key=lambda opened: opened.time)


def item_type(name: str, time: str, text: Sequence[str], /, **fields: Any) -> type[Item]:
    """The item of an app: which field is its time, which make its text (the first is its title), and all its fields."""
    kind = create_model(name, __base__=Item, **fields)
    kind.time_field, kind.text_fields = time, tuple(text)
    return kind


TEXT, MAYBE, TIME = (Text, ...), (str, ""), (NaiveDatetime, ...)
SOME: Any = (list[str], [])
DIRECTION = (Literal["incoming", "outgoing", "missed"], ...)
ITEM_TYPES: dict[str, type[Item]] = {
    "mail": item_type(
        "MailMessage", "received", ("subject", "sender", "body"),
        sender=TEXT, address=MAYBE, subject=TEXT, body=MAYBE, received=TIME,
    ),
    "calendar": item_type(
        "CalendarEvent", "start", ("title", "location", "organizer", "attendees", "notes"),
        title=TEXT, start=TIME, end=TIME, location=MAYBE, organizer=MAYBE, attendees=SOME, notes=MAYBE,
    ),
    "google": item_type("WebVisit", "visited", ("title", "query"), title=TEXT, query=MAYBE, visited=TIME),
    "music": item_type(
        "Song", "played_time", ("song_name", "artist", "album_title", "playlist"),
        song_name=TEXT, artist=MAYBE, album_title=MAYBE, playlist=MAYBE, played_time=TIME,
    ),
    "reminders": item_type(
        "Reminder", "due", ("title", "list", "notes"),
        title=TEXT, due=TIME, list=MAYBE, notes=MAYBE,
    ),
    "notes": item_type("Note", "modified", ("title", "body"), title=TEXT, body=MAYBE, folder=MAYBE, modified=TIME),
    "phone_call": item_type(
        "PhoneCall", "time", ("contact", "direction", "voicemail"),
        contact=TEXT, number=MAYBE, direction=DIRECTION, time=TIME, voicemail=MAYBE,
    ),
}  # fmt: skip
ListOf: Any = list  # for types that are known at run time alone, which a type checker cannot follow
STORES: dict[str, Any] = {app: (ListOf[kind], []) for app, kind in ITEM_TYPES.items()}
Apps = create_model("Apps", __base__=Strict, **STORES)


class Persona(Strict):
    """One synthetic user: traits, people, and the items of the seven apps (assistant paper, Figure 3)."""

    id: Text
    name: Text
    age: int = Field(ge=16, le=99)
    profession: Text
    company: str = ""
    city: str = ""
    hobbies: list[str] = []
    favorite_music_genre: str = ""
    favorite_movie_genre: str = ""
    favorite_cuisine: str = ""
    favorite_sport: str = ""
    traits: list[str] = Field(default=[], description="household and ways of life, such as pet, car, children")
    today: NaiveDatetime = Field(description="the moment the data were collected; no item was opened after it")
    log_until: NaiveDatetime | None = Field(
        default=None, description="the last moment of the usage log, where that goes on after the data were collected"
    )
    people: list[Person] = []
    apps: Apps  # type: ignore[valid-type]

    @property
    def items(self) -> list[tuple[App, Item]]:
        """All items with their apps, app by app."""
        return [(app, item) for app in APPS for item in getattr(self.apps, app)]


def read_personas(path: str | Path) -> list[Persona]:
    """Personas from a JSON-lines file. Raises InputError, with line and field, for a wrong one, an id used twice, or an
    item opened after the log's end."""
    personas: list[Persona] = []
    used: set[str] = set()
    for number, record in read_records(path):
        where = f"{path}, line {number}, persona {record.get('id', 'without id')}"
        persona = validated(Persona, record, where)
        for name in [f"persona {persona.id}", *(f"item {item.id}" for _, item in persona.items)]:
            if name in used:
                raise InputError(f"{where}: {name} appears twice")
            used.add(name)
        end = max(persona.today, persona.log_until or persona.today)
        for app, item in persona.items:
            if any(opened.time > end for opened in item.opens):
                raise InputError(
                    f"{where}: {app} item {item.id!r} was opened after the log's end ({end:%Y-%m-%d %H:%M})"
                )
        personas.append(persona)
    if not personas:
        raise InputError(f"{path}: holds no persona")
    return personas


@dataclass(frozen=True)
class WorldKnobs:
    """Sizes and strengths of the simulated world of personas: what notebook 01's parameters of these names say."""

    seed: int = 7
    world: str = "mixed"
    n_personas: int = 791
    n_training_queries: int = 4338
    n_evaluation_queries: int = 936
    meaning_share: float = 1 / 3
    habit_share: float = 1 / 3
    habit_strength: float = 0.8
    recency_strength: float = 0.3
    frequency_strength: float = 0.3

    @classmethod
    def of(cls, parameters: Any, **changes: Any) -> WorldKnobs:
        """Those among a notebook's parameters, some changed."""
        given = {field.name for field in fields(cls)} & vars(parameters).keys()
        return cls(**{name: getattr(parameters, name) for name in given} | changes)
