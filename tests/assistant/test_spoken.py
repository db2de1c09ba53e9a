"""Moments as people say them mean one thing only, and are found again in what was said."""

from __future__ import annotations

from datetime import datetime, timedelta

import numpy as np
import pytest
from pydantic import ValidationError

from lib.assistant.spoken import When, clock_words, day_words, draw_moment, is_said

THURSDAY = datetime(2023, 12, 14, 15, 10)


def test_days_are_named_as_seen_from_today():
    today = THURSDAY.date()
    named = [day_words(today + timedelta(days=ahead), today) for ahead in range(4)]
    assert named == [["today"], ["tomorrow"], ["Saturday"], ["Sunday"]]


@pytest.mark.parametrize(
    ("hour", "minute", "words"),
    [
        (7, 0, {"7 am", "seven in the morning", "7 in the morning"}),
        (12, 0, {"noon", "12 noon"}),
        (12, 30, {"12:30 pm", "half past twelve in the afternoon", "12:30 in the afternoon"}),
        (19, 30, {"7:30 pm", "half past seven in the evening", "7:30 in the evening", "19:30"}),
    ],
)
def test_clock_in_words(hour, minute, words):
    assert set(clock_words(datetime(2023, 12, 14, hour, minute))) == words


def test_no_two_half_hours_are_said_alike():
    start = datetime(2023, 12, 14)
    said = [words for n in range(14, 48) for words in clock_words(start + timedelta(minutes=30 * n))]
    assert len(said) == len(set(said))


def test_what_is_drawn_lies_ahead_and_is_found_in_its_own_words():
    rng, when = np.random.default_rng(0), When(days=(0, 6), hours=(8, 20))
    for now in (THURSDAY, THURSDAY.replace(hour=21), THURSDAY.replace(hour=6)):
        for _ in range(100):
            spoken = draw_moment(when, now, rng)
            moment = datetime.fromisoformat(spoken.moment)
            assert now < moment <= now + timedelta(days=7)
            assert 8 <= moment.hour <= 20
            text = f"Remind me {spoken.on_day} at {spoken.clock}."
            assert is_said(spoken.moment, text, now)
            assert is_said(spoken.date, text.upper(), now)
            for hours in (0.5, -0.5, 1, 12, 24):
                other = moment + timedelta(hours=hours)
                assert not is_said(f"{other:%Y-%m-%d %H:%M}", text, now)


def test_words_that_hold_a_time_do_not_say_it():
    assert not is_said("2023-12-15 07:00", "tomorrow at 17 am", THURSDAY)
    assert not is_said("2023-12-15 19:00", "tomorrow at 19:00:30", THURSDAY)
    assert is_said("2023-12-15 12:00", "Tomorrow at noon: lunch", THURSDAY)
    assert is_said("oat milk", "oat milk", THURSDAY) is None


@pytest.mark.parametrize(
    ("days", "hours"), [((0, 0), (8, 9)), ((2, 1), (8, 9)), ((0, 7), (8, 9)), ((0, 1), (9, 9)), ((0, 1), (9, 24))]
)
def test_impossible_ranges_are_refused(days, hours):
    with pytest.raises(ValidationError):
        When(days=days, hours=hours)
