"""Habits tell where they should and nowhere else; each knob does what it says."""

from __future__ import annotations

from datetime import datetime, timedelta

import numpy as np
import pandas as pd
import pytest

from lib.assistant.personas import LOG_DAYS, Slot, draw_moments
from lib.assistant.schemas import PLACES, WorldKnobs
from lib.assistant.toolbox import DEFAULT_API
from lib.assistant.world import frames
from lib.workbook.inputs import InputError

MIDDLE = {"seed": 5, "n_personas": 150, "n_training_queries": 700, "n_evaluation_queries": 160}
HABITS_ALONE = {"recency_strength": 0.0, "frequency_strength": 0.0}  # all opens are those of `opens_per_item`
SMALL = {"seed": 5, "n_personas": 80, "n_training_queries": 380, "n_evaluation_queries": 90}
TODAY = datetime(2023, 12, 10, 6)


def lift(tables, feature: str) -> pd.Series:
    """By kind of query: share of the gold items' opens that agree with the query, less that of the other items."""
    relevant = {(row.query, item) for row in tables["gold"].itertuples() for item in row.relevant}
    queries = tables["queries"].merge(tables["gold"][["query", "kind"]], on="query")
    pairs = queries.merge(tables["items"][["persona", "item"]], on="persona")
    pairs["gold"] = [pair in relevant for pair in zip(pairs["query"], pairs["item"], strict=True)]
    joined = pairs.merge(tables["opens"], on="item", suffixes=("", "_open"))
    if feature == "hour":
        minutes = [joined[name].dt.hour * 60 + joined[name].dt.minute for name in ("time", "time_open")]
        apart = (minutes[0] - minutes[1]).abs()
        joined["agree"] = np.minimum(apart, 1440 - apart) <= 120
    else:
        joined["agree"] = joined["place"] == joined["place_open"]
    shares = joined.groupby(["kind", "gold"])["agree"].mean().unstack()
    return shares[True] - shares[False]


@pytest.fixture(scope="module")
def of_habits(make_world):
    return frames(make_world(**HABITS_ALONE, **MIDDLE))


@pytest.fixture(scope="module")
def full_lift(of_habits):
    return {feature: lift(of_habits, feature) for feature in ("hour", "place")}


@pytest.fixture(scope="module")
def plain(make_world):
    """A world whose knobs all say little: no hard distractors, short logs, no default, few habit queries. In `hard`, of
    whose queries the shares are, all of them."""
    knobs = {"hard_distractors": 0.0, "opens_per_item": 3.0, "meaning_share": 0.6, "habit_share": 0.1}
    return frames(make_world(world="hard", complex_share=0.4, default_share=0.0, **knobs, **HABITS_ALONE, **SMALL))


@pytest.fixture(scope="module")
def crowded(make_world):
    """Many hard distractors, long logs, many queries that no tool fits; in `hard`, too."""
    knobs = {"hard_distractors": 12.0, "opens_per_item": 15.0, "meaning_share": 0.0, "habit_share": 1.0}
    return frames(make_world(world="hard", complex_share=0.0, default_share=0.3, **knobs, **HABITS_ALONE, **SMALL))


# ---------------------------------------------------------------- habits


@pytest.mark.slow
@pytest.mark.parametrize("feature", ["hour", "place"])
def test_habit_tells_in_queries_of_kind_habit_and_either(full_lift, feature):
    assert full_lift[feature]["habit"] > 0.2
    assert full_lift[feature]["either"] > 0.2


@pytest.mark.parametrize("feature", ["hour", "place"])
def test_habit_does_not_tell_in_queries_of_kind_meaning(full_lift, feature):
    assert full_lift[feature]["meaning"] == pytest.approx(0, abs=0.03)


def test_without_habit_strength_nothing_tells(make_world):
    tables = frames(make_world(habit_strength=0.0, **HABITS_ALONE, **MIDDLE))
    for feature in ("hour", "place"):
        for kind, gap in lift(tables, feature).items():
            assert gap == pytest.approx(0, abs=0.04), (feature, kind)


def moments(**knobs):
    slot = Slot((2,), 13.0, "cafe")
    first = TODAY - timedelta(days=LOG_DAYS)
    rng = np.random.default_rng(1)
    return draw_moments(slot, first, TODAY, 2000, set(PLACES), WorldKnobs(**knobs), rng)


@pytest.mark.parametrize("strength", [0.0, 0.3, 0.8, 1.0])
def test_habit_strength_is_the_share_of_habitual_moments(strength):
    drawn = moments(habit_strength=strength)
    # A moment off habit falls on the habit's weekday once in seven.
    expected = strength + (1 - strength) / 7
    assert np.mean([time.weekday() == 2 for time, _ in drawn]) == pytest.approx(expected, abs=0.04)
    assert np.mean([place == "cafe" for _, place in drawn]) >= strength - 0.03
    assert all(TODAY - timedelta(days=LOG_DAYS) <= time < TODAY for time, _ in drawn)
    assert drawn == sorted(drawn)


@pytest.mark.parametrize("noise", [0.25, 1.0, 2.5])
def test_hour_noise_is_the_spread_of_habitual_hours(noise):
    hours = np.array([time.hour + time.minute / 60 for time, _ in moments(habit_strength=1.0, hour_noise=noise)])
    assert hours.mean() == pytest.approx(13, abs=0.2)
    assert hours.std() == pytest.approx(noise, rel=0.08)


def test_hour_noise_blurs_the_habit(make_world, full_lift):
    blurred = lift(frames(make_world(hour_noise=6.0, **SMALL)), "hour")
    for kind in ("habit", "either"):
        assert blurred[kind] < full_lift["hour"][kind] / 2


# ---------------------------------------------------------------- other knobs


def hard(tables) -> float:
    """Hard distractors per persona."""
    return tables["provenance"]["source"].isin(["stale", "decoy"]).sum() / tables["items"]["persona"].nunique()


def test_hard_distractors(plain, crowded, tables):
    assert hard(plain) == 0
    assert 3.5 < hard(tables) <= 6.2
    assert hard(tables) + 2 < hard(crowded) <= 12.5


def test_hard_distractors_take_the_room_of_background(plain, crowded):
    """They displace background items; the number of items is the same."""
    assert len(plain["items"]) == len(crowded["items"])
    background = [(frame["provenance"]["source"] == "background").mean() for frame in (plain, crowded)]
    assert background[0] > background[1]


def test_opens_per_item(plain, crowded, of_habits):
    for frame, expected in ((plain, 3), (of_habits, 8), (crowded, 15)):
        assert len(frame["opens"]) / len(frame["items"]) == pytest.approx(expected, rel=0.05)


def test_shares_of_kinds(plain, crowded):
    shares = plain["gold"]["kind"].value_counts(normalize=True)
    assert shares.to_dict() == pytest.approx({"meaning": 0.6, "either": 0.3, "habit": 0.1}, abs=0.01)
    assert set(crowded["gold"]["kind"]) == {"habit"}


def test_shares_of_plans(plain, crowded):
    default = [(frame["gold"]["apis"].str[0] == DEFAULT_API).mean() for frame in (plain, crowded)]
    double = [(frame["gold"]["apis"].str.len() == 2).mean() for frame in (plain, crowded)]
    assert default == [0, pytest.approx(0.3, abs=0.08)]
    assert double == [pytest.approx(0.4, abs=0.08), 0]


@pytest.mark.parametrize(
    ("knobs", "named"),
    [
        ({"meaning_share": 0.7, "habit_share": 0.7}, "meaning_share"),
        ({"complex_share": 0.7, "default_share": 0.7}, "default_share"),
        ({"n_personas": 10, "n_training_queries": 5, "n_evaluation_queries": 2}, "query a persona"),
    ],
)
def test_impossible_knobs_are_refused(knobs, named):
    with pytest.raises(InputError, match=named):
        WorldKnobs(**knobs)


@pytest.mark.parametrize("sizes", [(4, 3, 1), (4, 1, 3), (12, 11, 1), (12, 1, 11), (9, 100, 2)])
def test_small_worlds_have_their_sizes(make_world, sizes):
    personas, training, evaluation = sizes
    world = make_world(seed=3, n_personas=personas, n_training_queries=training, n_evaluation_queries=evaluation)
    assert len(world.personas) == personas
    assert sorted(world.sides.values()) == ["evaluation"] * evaluation + ["training"] * training
    assert {query.persona for query in world.queries} == {persona.id for persona in world.personas}
