"""The values that a request names, and how people write them: moments, quotation marks, ends of ranges."""

from __future__ import annotations

import random
import re
from datetime import datetime, timedelta
from functools import cache

from lib.workflows.apis import API, Field
from lib.workflows.drafts import Draft
from lib.workflows.language import Value

DATED = {"date", "datetime"}
FIRST_DAY = datetime(2024, 1, 8)
DAYS = 900
OPENING_HOURS = range(8, 18)
DAY_FORMAT, MOMENT_FORMAT = "%Y-%m-%d", "%Y-%m-%dT%H:%M:%SZ"
DAY_LAYOUTS = (
    "{day} {month} {year}",
    "{month} {day}, {year}",
    "{iso}",
    "{short} {day} {year}",
    "{day} {short} {year}",
    "",
)
CLOCKS = ("at {hour24}", "at {plain}", "at {twelve}", "{hour24}")
RANGES = (("start", "end"), ("since", "before"), ("since", "until"), ("after", "before"), ("from", "to"),
          ("from", "until"), ("min", "max"), ("begin", "end"))  # fmt: skip
UNSPOKEN_CHOICES = {"any", "all", "none", "auto", "default"}  # nobody asks for the value that changes nothing
DOMAINS = ("contoso.com", "fabrikam.com", "northwind.example", "adatum.example")
# Whether people put a value of this kind in quotation marks; 0.05 for all others.
QUOTED = {"text": 0.9, "subject": 0.7, "title": 0.65, "query": 0.6, "tag": 0.4, "container": 0.2, "channel": 0.15,
          "folder": 0.2, "team": 0.1, "file_name": 0.15, "code": 0.3}  # fmt: skip
QUOTES = ('""', '""', '""', "''", "“”")


@cache
def partner(api: API, key: str) -> tuple[str, bool] | None:
    """The key at the other end of a range and whether `key` is its start; None where `key` is no end of one."""
    for low, high in RANGES:
        for mine, other, starts in ((low, high, True), (high, low, False)):
            for old, new in ((mine, other), (mine.capitalize(), other.capitalize())):
                changed = re.sub(rf"(?<![a-z]){old}(?![a-z])", new, key)
                if changed != key and changed in api.keys:
                    return changed, starts
    return None


def literal(draft: Draft, api: API, parameter: Field, call: dict[str, Value]) -> Value | None:
    """A value that people would name, in order where its range's other end is in the call; None where there is none."""
    kind, rng = parameter.kind, draft.rng
    end = partner(api, parameter.key)
    other = call.get(end[0]) if end else None
    if kind in DATED:
        return moment(rng, kind, other, bool(end and end[1]))
    pool = list(parameter.examples) or list(draft.wordings.values.get(kind, ()))
    if kind == "choice":
        pool = [value for value in pool if str(value).lower() not in UNSPOKEN_CHOICES]
    if kind == "person_email" and not parameter.examples and rng.random() < 0.5:
        pool = [address(rng, rng.choice(draft.wordings.values["person_name"]))]
    if end and isinstance(other, int | float):
        pool = [value for value in pool if (value < other if end[1] else value > other)]
    elif len(pool) > 1:
        pool = [value for value in pool if str(value) not in draft.literals] or pool
    if not pool:
        return None
    value = rng.choice(pool)
    draft.literals.add(str(value))
    return value


def address(rng: random.Random, name: str) -> str:
    """An email address for a first and a last name."""
    first, last = name.lower().split()
    return f"{rng.choice((first, f'{first}.{last}', f'{first[0]}.{last}'))}@{rng.choice(DOMAINS)}"


def moment(rng: random.Random, kind: str, other: Value = None, starts: bool = False) -> str:
    """A date, or a date and time in UTC; before the moment `other` where it `starts` their range, else after it."""
    layout = DAY_FORMAT if kind == "date" else MOMENT_FORMAT
    if isinstance(other, str):
        step = timedelta(days=rng.randint(1, 10)) if kind == "date" else timedelta(minutes=30 * rng.randint(1, 6))
        return (datetime.strptime(other, layout) + (-step if starts else step)).strftime(layout)
    day = FIRST_DAY + timedelta(days=rng.randrange(DAYS))
    return (day + timedelta(hours=rng.choice(OPENING_HOURS), minutes=rng.choice((0, 0, 0, 30)))).strftime(layout)


def speak(draft: Draft, value: Value, kind: str) -> str:
    """The value as people write it, as a placeholder."""
    rng = draft.rng
    if kind in DATED:
        return draft.token(spoken_moment(str(value), draft.day_layout, draft.clock))
    if not isinstance(value, str):
        return draft.token(str(value))
    chance = QUOTED.get(kind, 0.05)
    if kind == "text" and re.search(r"[,.!?]|\s\S+\s\S+\s", value):
        chance = 1.0
    if draft.terse:
        chance *= 0.8
    if rng.random() < chance:
        draft.quoted.append(value)
        marks = rng.choice(QUOTES)
        if "'" in value and marks == "''":
            marks = '""'
        return draft.token(marks[0] + value + marks[1])
    if kind == "choice" and re.fullmatch(r"[A-Z][a-z]+( [a-z]+)*", value) and rng.random() < 0.7:
        return draft.token(value.lower())
    return draft.token(value)


def spoken_moment(value: str, day_layout: str, clock: str) -> str:
    """A moment as somebody writes it who writes days by `day_layout` and times by `clock`."""
    if day_layout == "":
        return value
    at = datetime.fromisoformat(value.removesuffix("Z"))
    day = day_layout.format(day=at.day, month=f"{at:%B}", short=f"{at:%b}", year=at.year, iso=f"{at:%Y-%m-%d}")
    if "T" not in value:
        return day
    hour = (at.hour - 1) % 12 + 1
    twelve = f"{hour}:{at:%M} {at:%p}" if at.minute else f"{hour} {at:%p}".lower()
    return f"{day} " + clock.format(twelve=twelve, hour24=f"{at:%H:%M}", plain=f"{at.hour}:{at:%M}")
