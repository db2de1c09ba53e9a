"""Personas and the items of their seven apps, as pydantic models.

`Persona.model_json_schema()` is what a language model would be asked to fill (assistant paper, appendix A.2):
JSON in, validated, JSON out. An unknown field, a wrong type or an item id used twice is an error that names the field.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import (
    Field,
    NaiveDatetime,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)

from lib.workbook.inputs import InputError, Strict, Text, read_records, validated

App = Literal["mail", "calendar", "google", "music", "reminders", "notes", "phone_call"]
APPS: tuple[App, ...] = ("mail", "calendar", "google", "music", "reminders", "notes", "phone_call")
APP_NAMES = {
    "mail": "Mail",
    "calendar": "Calendar",
    "google": "Google",
    "music": "Music",
    "reminders": "Reminders",
    "notes": "Notes",
    "phone_call": "PhoneCall",
}
Place = Literal["home", "work", "commute", "gym", "cafe", "store", "outdoors", "school"]
PLACES: tuple[Place, ...] = ("home", "work", "commute", "gym", "cafe", "store", "outdoors", "school")


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
    """What all context items share. `title` is the field a person would call it by; `text` is what retrieval sees."""

    title_field: ClassVar[str]
    text_fields: ClassVar[tuple[str, ...]]

    id: Text
    opens: list[Open] = []

    @property
    def headline(self) -> str:
        """The item's name, whatever its app calls it: subject, title, song or contact."""
        return getattr(self, self.title_field)

    @property
    def text(self) -> str:
        """All text of the item in reading order, as one line."""
        parts = (getattr(self, field) for field in self.text_fields)
        return ". ".join(", ".join(part) if isinstance(part, list) else part for part in parts if part)


class MailMessage(Item):
    title_field = "subject"
    text_fields = ("subject", "sender", "body")
    sender: Text
    address: str = ""
    subject: Text
    body: str = ""
    received: NaiveDatetime


class CalendarEvent(Item):
    title_field = "title"
    text_fields = ("title", "location", "organizer", "attendees", "notes")
    title: Text
    start: NaiveDatetime
    end: NaiveDatetime
    location: str = ""
    organizer: str = ""
    attendees: list[str] = []
    notes: str = ""


class WebVisit(Item):
    """A search the persona made and the page it led to."""

    title_field = "title"
    text_fields = ("title", "query")
    title: Text
    query: str = ""
    visited: NaiveDatetime


class Song(Item):
    title_field = "song_name"
    text_fields = ("song_name", "artist", "album_title", "playlist")
    song_name: Text
    artist: str = ""
    album_title: str = ""
    playlist: str = ""
    played_time: NaiveDatetime


class Reminder(Item):
    title_field = "title"
    text_fields = ("title", "list", "notes")
    title: Text
    due: NaiveDatetime
    list: str = ""
    notes: str = ""


class Note(Item):
    title_field = "title"
    text_fields = ("title", "body")
    title: Text
    body: str = ""
    folder: str = ""
    modified: NaiveDatetime


class PhoneCall(Item):
    title_field = "contact"
    text_fields = ("contact", "direction", "voicemail")
    contact: Text
    number: str = ""
    direction: Literal["incoming", "outgoing", "missed"]
    time: NaiveDatetime
    voicemail: str = ""


ITEM_TYPES: dict[str, type[Item]] = {
    "mail": MailMessage,
    "calendar": CalendarEvent,
    "google": WebVisit,
    "music": Song,
    "reminders": Reminder,
    "notes": Note,
    "phone_call": PhoneCall,
}
# The one timestamp that each app shows of an item.
TIME_FIELDS = {
    "mail": "received",
    "calendar": "start",
    "google": "visited",
    "music": "played_time",
    "reminders": "due",
    "notes": "modified",
    "phone_call": "time",
}


def by_time(items: Iterable[Item], app: str) -> list[Item]:
    """Items of an app in the order of the time that they show."""
    return sorted(items, key=lambda item: (getattr(item, TIME_FIELDS[app]), item.id))


class Apps(Strict):
    """The seven context stores of a persona."""

    mail: list[MailMessage] = []
    calendar: list[CalendarEvent] = []
    google: list[WebVisit] = []
    music: list[Song] = []
    reminders: list[Reminder] = []
    notes: list[Note] = []
    phone_call: list[PhoneCall] = []


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
    apps: Apps

    @model_serializer(mode="wrap")
    def _without_missing_end(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """A persona whose log ends today is written as if no other did."""
        return {name: value for name, value in write(self).items() if name != "log_until" or value is not None}

    @model_validator(mode="after")
    def _check_items(self) -> Persona:
        end = max(self.today, self.log_until or self.today)
        counts = Counter(item.id for app in APPS for item in getattr(self.apps, app))
        twice = [identifier for identifier, count in counts.items() if count > 1]
        if twice:
            raise ValueError(f"item id {twice[0]!r} is used more than once")
        for app in APPS:
            for item in getattr(self.apps, app):
                if any(opened.time > end for opened in item.opens):
                    until = "today" if end == self.today else "the end of the log"
                    raise ValueError(f"{app} item {item.id!r} was opened after {until} ({end:%Y-%m-%d %H:%M})")
        return self


def read_personas(path: str | Path) -> list[Persona]:
    """Personas from a JSON-lines file, one persona a line.

    Raises:
        InputError: a line that is no JSON object or no valid persona, or a persona or item id used twice;
            names the file, the line, the persona and the field.
    """
    personas: dict[str, Persona] = {}
    owner: dict[str, str] = {}
    for number, record in read_records(path):
        name = record.get("id", "without id")
        persona = validated(Persona, record, f"{path}, line {number}, persona {name}")
        if persona.id in personas:
            raise InputError(f"{path}, line {number}: persona {persona.id} appears twice")
        for app in APPS:
            for item in getattr(persona.apps, app):
                if owner.setdefault(item.id, persona.id) != persona.id:
                    raise InputError(
                        f"{path}, line {number}, persona {persona.id}: {app} item id {item.id!r} "
                        f"is also persona {owner[item.id]}'s"
                    )
        personas[persona.id] = persona
    if not personas:
        raise InputError(f"{path}: holds no persona")
    return list(personas.values())


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
    complex_share: float = 0.10
    default_share: float = 0.05
    habit_strength: float = 0.8
    hour_noise: float = 1.0
    hard_distractors: float = 6.0
    opens_per_item: float = 8.0
    recency_strength: float = 0.3
    frequency_strength: float = 0.3

    def __post_init__(self) -> None:
        if self.meaning_share + self.habit_share > 1 + 1e-9:
            raise InputError("meaning_share and habit_share together exceed 1")
        if self.complex_share + self.default_share > 1:
            raise InputError("complex_share and default_share together exceed 1")
        if self.n_training_queries + self.n_evaluation_queries < self.n_personas:
            raise InputError("there must be at least one query a persona")

    @classmethod
    def of(cls, parameters: Any, **changes: Any) -> WorldKnobs:
        """Those among a notebook's parameters, some changed. Raises InputError where they contradict each other."""
        return cls(**{field.name: getattr(parameters, field.name) for field in fields(cls)} | changes)
