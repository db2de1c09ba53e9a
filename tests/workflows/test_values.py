import random
import re

import pytest

from lib.workflows.apis import API, Field
from lib.workflows.values import QUOTES, address, literal, moment, partner, speak, spoken_moment


def test_ends_of_ranges(catalogue):
    event = catalogue["shared_office365.V4CalendarPostItem"]
    assert partner(event, "item/start") == ("item/end", True)
    assert partner(event, "item/end") == ("item/start", False)
    assert partner(event, "item/subject") is None
    meeting = catalogue["shared_teams.CreateTeamsMeeting"]
    assert partner(meeting, "item/start/dateTime") == ("item/end/dateTime", True)


@pytest.mark.parametrize(
    ("value", "layout", "clock", "words"),
    [
        ("2024-03-05", "{day} {month} {year}", "at {twelve}", "5 March 2024"),
        ("2024-03-05", "{short} {day} {year}", "at {twelve}", "Mar 5 2024"),
        ("2024-03-05T14:00:00Z", "{month} {day}, {year}", "at {twelve}", "March 5, 2024 at 2 pm"),
        ("2024-03-05T14:30:00Z", "{iso}", "at {twelve}", "2024-03-05 at 2:30 PM"),
        ("2024-03-05T09:30:00Z", "{iso}", "{hour24}", "2024-03-05 09:30"),
        ("2024-03-05T09:30:00Z", "{iso}", "at {plain}", "2024-03-05 at 9:30"),
        ("2024-03-05T12:00:00Z", "{iso}", "at {twelve}", "2024-03-05 at 12 pm"),
        ("2024-03-05T09:30:00Z", "", "at {plain}", "2024-03-05T09:30:00Z"),
    ],
)
def test_moments_as_people_write_them(value, layout, clock, words):
    assert spoken_moment(value, layout, clock) == words


@pytest.mark.parametrize(("kind", "other"), [("date", "2024-03-05"), ("datetime", "2024-03-05T14:00:00Z")])
def test_a_moment_keeps_the_order_of_its_range(kind, other):
    for seed in range(20):
        assert moment(random.Random(seed), kind, other, starts=True) < other < moment(random.Random(seed), kind, other)
        assert len(moment(random.Random(seed), kind)) == len(other)


def test_a_literal_is_above_the_start_of_its_range_and_not_said_twice(draft):
    limits = (Field("min", "number", examples=(1, 5, 9)), Field("max", "number", examples=(1, 5, 9)))
    api = API("c", "Op", "Do", "App", parameters=limits)
    assert {literal(draft(seed), api, limits[1], {"min": 5}) for seed in range(20)} == {9}
    assert literal(draft(), api, limits[1], {"min": 9}) is None
    one = draft()
    tag = Field("tag", "tag", examples=("a", "b", "c"))
    assert {literal(one, api, tag, {}) for _ in range(3)} == {"a", "b", "c"}


def test_nobody_asks_for_the_choice_that_changes_nothing(draft):
    choice = Field("importance", "choice", examples=("Any", "High"))
    assert {literal(draft(seed), API("c", "Op", "Do", "App"), choice, {}) for seed in range(10)} == {"High"}


def test_sentences_are_quoted_and_choices_mostly_in_lower_case(draft, spelled):
    spoken = [spelled(one := draft(seed), speak(one, "Hello, all of you", "text")) for seed in range(30)]
    assert {text[1:-1] for text in spoken} == {"Hello, all of you"}
    assert {text[0] + text[-1] for text in spoken} <= set(QUOTES)
    choices = [spelled(one := draft(seed), speak(one, "High", "choice")) for seed in range(60)]
    assert choices.count("high") > choices.count("High") > 0


def test_quotation_marks_do_not_clash_with_an_apostrophe(draft, spelled):
    spoken = {spelled(one := draft(seed), speak(one, "It's done, at last", "text")) for seed in range(40)}
    assert "'It's done, at last'" not in spoken
    assert len(spoken) == 2


@pytest.mark.parametrize("seed", range(5))
def test_an_address_is_made_of_the_name(seed):
    assert re.fullmatch(r"(ada|ada\.byron|a\.byron)@[a-z.]+", address(random.Random(seed), "Ada Byron"))
