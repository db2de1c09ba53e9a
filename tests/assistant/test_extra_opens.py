"""Worlds in which recency, frequency or due times say something, and the controls that they must pass."""

from __future__ import annotations

from datetime import datetime, timedelta

import numpy as np
import pandas as pd
import pytest

from lib.assistant import audit
from lib.assistant.controls import permute_logs
from lib.assistant.extra_opens import RECENT, RIVALS, lately
from lib.assistant.schemas import Persona
from lib.assistant.signals import opens_before
from lib.assistant.world import frames
from lib.retrieval.stores import candidate_pairs

SIZES = {"seed": 4, "n_personas": 120, "n_training_queries": 600, "n_evaluation_queries": 150}
NEITHER = {"recency_strength": 0.0, "frequency_strength": 0.0}
KINDS = ["meaning", "habit", "either"]


@pytest.fixture(scope="module")
def worlds(make_world):
    """By the knob that is turned up: one where both are 0, one for each, and the default world."""
    knobs = {"": NEITHER, "recency": NEITHER | {"recency_strength": 0.6}}
    knobs |= {"frequency": NEITHER | {"frequency_strength": 0.6}, "default": {}}
    return {name: make_world(**SIZES, **changed) for name, changed in knobs.items()}


@pytest.fixture(scope="module")
def tables(worlds):
    return {name: frames(world) for name, world in worlds.items()}


def added(tables, name: str) -> pd.DataFrame:
    """The opens of a world that the one without signals lacks, with their persona."""
    count = [table["opens"].value_counts() for table in (tables[name], tables[""])]
    more = count[0].sub(count[1], fill_value=0)
    assert (more >= 0).all(), "no open is lost"
    opens = more[more > 0].reset_index()
    return opens.merge(tables[""]["items"][["item", "persona"]], on="item")


def relevant(table) -> pd.DataFrame:
    """Columns query, item, kind, persona, asked (when): a row a relevant item."""
    gold = table["gold"][["query", "kind", "relevant"]].explode("relevant").rename(columns={"relevant": "item"})
    return gold.merge(table["queries"][["query", "persona", "time"]].rename(columns={"time": "asked"}), on="query")


# ---------------------------------------------------------------- nothing else moves


@pytest.mark.parametrize("name", ["recency", "frequency"])
def test_opens_alone_are_added(tables, name):
    for key, frame in tables[""].items():
        if key != "opens":
            pd.testing.assert_frame_equal(tables[name][key], frame)
    assert len(added(tables, name)) > 0


def test_the_same_seed_gives_the_same_opens(make_world, tables):
    again = frames(make_world(**SIZES, **NEITHER | {"recency_strength": 0.6}))
    pd.testing.assert_frame_equal(again["opens"], tables["recency"]["opens"])


def test_more_strength_only_adds_queries(make_world, tables):
    weaker = frames(make_world(**SIZES, **NEITHER | {"recency_strength": 0.3}))["opens"].value_counts()
    stronger = tables["recency"]["opens"].value_counts()
    assert stronger.sub(weaker, fill_value=0).min() >= 0
    assert len(tables[""]["opens"]) < weaker.sum() < stronger.sum()


def test_a_log_that_goes_on_says_until_when(worlds):
    for name, world in worlds.items():
        for persona in world.personas:
            record = persona.model_dump_json()
            assert Persona.model_validate_json(record) == persona
            assert ("log_until" in record) == (persona.log_until is not None)
            assert name in ("recency", "default") or persona.log_until is None
    persona = next(persona for persona in worlds["recency"].personas if persona.log_until)
    record = persona.model_dump(mode="json")
    with pytest.raises(ValueError, match="was opened after today"):
        Persona.model_validate({key: value for key, value in record.items() if key != "log_until"})
    with pytest.raises(ValueError, match="was opened after the end of the log"):
        Persona.model_validate(record | {"log_until": persona.today + timedelta(seconds=1)})


@pytest.mark.parametrize("name", ["recency", "frequency"])
def test_opens_of_an_item_stand_in_order(worlds, name):
    for persona in worlds[name].personas:
        for items in dict(persona.apps).values():
            for item in items:
                times = [opened.time for opened in item.opens]
                assert times == sorted(times)


# ---------------------------------------------------------------- what is added


@pytest.mark.parametrize("hour", range(24))
def test_lately_is_a_waking_moment_of_the_day_before(hour):
    moment, rng = datetime(2023, 12, 12, hour, 17), np.random.default_rng(hour)
    drawn = [lately(moment, moment - timedelta(days=9), rng) for _ in range(300)]
    assert all(moment - RECENT <= time < moment and 7 <= time.hour < 23 for time in drawn)
    assert len({time.hour for time in drawn}) >= 15


def test_lately_is_not_before_the_data_were_collected():
    moment, rng = datetime(2023, 12, 12, 9, 17), np.random.default_rng(0)
    since = moment - timedelta(minutes=3)
    assert {lately(moment, since, rng) for _ in range(60)} == {since + timedelta(minutes=more) for more in range(3)}
    assert lately(moment, moment, rng) is None
    early = datetime(2023, 12, 12, 6, 30)
    assert lately(early, early - timedelta(minutes=29), rng) is None, "nobody is awake"


@pytest.mark.parametrize("name", ["recency", "frequency", "default"])
def test_what_a_text_says_of_its_use_stays_true(worlds, tables, name):
    """Mails and notes came before their first use, songs, searches and calls show the last one when the data were
    collected."""
    items, opens = tables[name]["items"].set_index("item"), tables[name]["opens"]
    today = {persona.id: persona.today for persona in worlds[name].personas}
    before = opens[opens["time"] < opens["item"].map(items["persona"]).map(today)]
    last = items["app"].isin(["music", "google", "phone_call"])
    pd.testing.assert_series_equal(
        items["shown"][last],
        before.groupby("item")["time"].max()[items.index[last]],
        check_names=False,
        check_dtype=False,
    )
    came = items["app"].isin(["mail", "notes"])
    assert (items["shown"][came] < opens.groupby("item")["time"].min()[items.index[came]]).all()


def test_no_open_of_a_querys_recency_lies_at_or_after_it(tables):
    """Every added open lies within the day before some query of its persona, and as many are added as must be."""
    opens = added(tables, "recency")
    asked = tables[""]["queries"][["persona", "time"]].rename(columns={"time": "asked"})
    opens["row"] = range(len(opens))
    wait = opens.merge(asked, on="persona")
    wait = wait[(wait["time"] < wait["asked"]) & (wait["asked"] - wait["time"] <= RECENT)]
    assert wait["row"].nunique() == len(opens)
    n = len(relevant(tables[""])) + RIVALS * len(tables[""]["queries"])
    assert opens["count"].sum() / n == pytest.approx(0.6, abs=0.04)
    stale = tables[""]["provenance"].query("source == 'stale'")["item"]
    assert not opens["item"].isin(set(stale) - set(relevant(tables[""])["item"])).any()


@pytest.mark.parametrize("kind", KINDS)
def test_queries_of_every_kind_are_hinted_at(tables, kind):
    """By recency: all relevant items were opened within a day. By frequency: they have more opens than before."""
    gold = relevant(tables[""]).query("kind == @kind")
    opens = tables["recency"]["opens"].merge(gold, on="item")
    late = opens[(opens["time"] < opens["asked"]) & (opens["asked"] - opens["time"] <= RECENT)]
    n_late = late.drop_duplicates(["query", "item"]).groupby("query").size()
    n_relevant = gold.groupby("query").size()
    assert (n_late.reindex(n_relevant.index, fill_value=0) == n_relevant).mean() >= 0.5
    more = added(tables, "frequency").groupby("item")["count"].sum()
    grown = gold.set_index("query")["item"].map(more).fillna(0)
    assert (grown >= 5).groupby(level=0).all().mean() >= 0.5


def test_often_is_often_and_any_time_of_the_log(worlds, tables):
    opens = added(tables, "frequency")
    today = opens["persona"].map({persona.id: persona.today for persona in worlds[""].personas})
    assert (opens["time"] < today).all()
    age = (today - opens["time"]).dt.days
    assert age.between(0, 56).all()
    assert age.mean() == pytest.approx(28, abs=1.5)
    hour = opens["time"].dt.hour
    assert hour.between(7, 22).all()
    n = len(relevant(tables[""])) + RIVALS * len(tables[""]["queries"])
    assert opens["count"].sum() / n == pytest.approx(0.6 * 16, rel=0.08)


# ---------------------------------------------------------------- is it a signal, and only that?


def shortcuts(table, opens: pd.DataFrame | None = None) -> dict[str, float]:
    """How often the most opened and the most recently opened item are relevant, and chance, in percent."""
    found = audit.shortcuts(table if opens is None else table | {"opens": opens}).tail(2)
    often, last = found["here"]
    return {"frequency": often, "recency": last, "chance": found["by chance"].iloc[0]}


def test_at_strength_0_neither_recency_nor_frequency_tells(tables):
    found = shortcuts(tables[""])
    assert found["recency"] == pytest.approx(found["chance"], abs=3)
    assert found["frequency"] == pytest.approx(found["chance"], abs=3)


@pytest.mark.parametrize(
    ("world", "name", "above"),
    [("recency", "recency", 8), ("frequency", "frequency", 3), ("default", "recency", 4), ("default", "frequency", 1)],
)
def test_what_was_opened_last_or_most_is_relevant_above_chance(tables, world, name, above):
    found = shortcuts(tables[world])
    assert found["chance"] + above < found[name] < 40, "a hint, and not the answer"


@pytest.mark.parametrize(
    ("world", "name"),
    [("recency", "recency"), ("frequency", "frequency"), ("default", "recency"), ("default", "frequency")],
)
def test_a_permuted_log_tells_nothing(tables, world, name):
    table = tables[world]
    draws = [
        shortcuts(table, permute_logs(table["items"], table["opens"], np.random.default_rng(seed))) for seed in range(3)
    ]
    assert np.mean([found[name] for found in draws]) == pytest.approx(draws[0]["chance"], abs=2.5)


def test_a_later_open_is_not_seen(tables):
    """The opens of later queries' recency are in the log, but not in what is counted before a query."""
    world = tables["recency"]
    pairs = candidate_pairs(world["queries"], world["items"], "persona")
    _, last = opens_before(pairs, world["queries"], world["items"], world["opens"])
    asked = world["queries"]["time"].to_numpy()[pairs["query_row"]].astype("datetime64[m]").astype(np.int64)
    assert (last < asked).all()
    final = world["opens"].groupby("item")["time"].max().astype("datetime64[s]")
    later = pairs["item"].map(final).to_numpy().astype("datetime64[m]").astype(np.int64) > asked
    assert later.any()
