"""Days and times of day as people say them, and the moment they mean as a tool wants it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, datetime, timedelta

import numpy as np
from pydantic import model_validator

from lib.workbook.inputs import Strict

NUMBERS = "twelve one two three four five six seven eight nine ten eleven".split()
SAID_PARTS = ("day", "on_day", "clock")  # of `{when}`, in a phrasing
MEANT_PARTS = ("moment", "date")  # of `{when}`, in a plan; of `{now}`, which nobody says, the second
HALF_HOUR = timedelta(minutes=30)


class When(Strict):
    """What `{when}` may mean: how many days from now, 0 (today) to 6, and between which hours of the day."""

    days: tuple[int, int]
    hours: tuple[int, int]

    @model_validator(mode="after")
    def _ordered(self) -> When:
        if not (0 <= self.days[0] <= self.days[1] <= 6 and self.days[1] >= 1):
            raise ValueError("days must be two numbers, 0 <= first <= last <= 6, and reach tomorrow")
        if not 0 <= self.hours[0] < self.hours[1] <= 23:
            raise ValueError("hours must be two numbers, 0 <= earliest < latest <= 23")
        return self


@dataclass(frozen=True)
class Spoken:
    """A moment in words (`day`, `on_day`, `clock`) and as an argument (`moment`, `date`)."""

    day: str
    on_day: str
    clock: str
    moment: str
    date: str


@dataclass(frozen=True)
class Now:
    """The day on which a query is voiced, as an argument."""

    date: str


def day_words(day: date, today: date) -> list[str]:
    """How to name a day at most six days ahead: "tomorrow", "Friday"."""
    ahead = (day - today).days
    return ["today"] if ahead == 0 else [f"{day:%A}"] if ahead > 1 else ["tomorrow"]


def clock_words(moment: datetime) -> list[str]:
    """How to name a half-hour so that nobody takes morning for evening: "7 am", "half past seven in the morning"."""
    hour, minute = moment.hour, moment.minute
    if (hour, minute) == (12, 0):
        return ["noon", "12 noon"]
    part = "in the morning" if hour < 12 else "in the afternoon" if hour < 18 else "in the evening"
    half, short = ("half past ", f"{(hour - 1) % 12 + 1}:30") if minute else ("", f"{(hour - 1) % 12 + 1}")
    words = [f"{short} {'am' if hour < 12 else 'pm'}", f"{half}{NUMBERS[hour % 12]} {part}", f"{short} {part}"]
    return [*words, f"{hour}:{minute:02d}"] if hour > 12 else words


def draw_moment(when: When, now: datetime, rng: np.random.Generator, day: date | None = None) -> Spoken:
    """A half-hour as `when` allows it, more than half an hour from now, on `day` where one is given; in one of the ways
    to say it."""
    latest = datetime(now.year, now.month, now.day, when.hours[1])
    first = when.days[0] if latest > now + HALF_HOUR or when.days[0] else 1
    ahead = int(rng.integers(first, when.days[1] + 1))
    if day:
        ahead = (day - now.date()).days
    opening = datetime(now.year, now.month, now.day, when.hours[0]) + timedelta(days=ahead)
    choices = [opening + HALF_HOUR * n for n in range(2 * (when.hours[1] - when.hours[0]) + 1)]
    choices = [choice for choice in choices if choice > now + HALF_HOUR]
    moment = choices[rng.integers(len(choices))]
    [called] = day_words(moment.date(), now.date())
    words = clock_words(moment)
    return Spoken(
        day=called,
        on_day=called if called in ("today", "tomorrow") else f"on {called}",
        clock=words[rng.integers(len(words))],
        moment=f"{moment:%Y-%m-%d %H:%M}",
        date=f"{moment:%Y-%m-%d}",
    )


def is_said(value: str, text: str, now: datetime) -> bool | None:
    """Whether a text voiced at `now` names the day, and the time of day if there is one, of an argument; None where
    the argument is no moment (`YYYY-MM-DD`, `YYYY-MM-DD HH:MM`)."""
    if not re.fullmatch(r"\d{4}-\d\d-\d\d( \d\d:\d\d)?", value):
        return None
    moment = datetime.fromisoformat(value)
    wanted = [day_words(moment.date(), now.date()), *([clock_words(moment)] if " " in value else [])]
    said = text.lower()
    return all(any(_stands_in(word.lower(), said) for word in ways) for ways in wanted)


def _stands_in(word: str, text: str) -> bool:
    """As words of their own: "half past seven in the evening" does not say "seven in the evening"."""
    return re.search(rf"(?<!past )(?<!\d:)(?<!\w){re.escape(word)}(?!\w)(?!:\d)", text) is not None
