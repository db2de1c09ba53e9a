"""The simulated world: its sizes and shares, its labels, its knobs, and that nothing gives the answer away but what is
meant to."""

import re

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn.metrics import roc_auc_score

from lib.assistant import audit
from lib.assistant.needs import alternatives
from lib.assistant.queries import HELD_OUT, held_out_needs, normal_text, qrels_of, split_phrasings
from lib.assistant.toolbox import DEFAULT_API
from lib.assistant.world import WORLDS, embed_worlds, frames
from lib.retrieval.stores import relevant_pairs_mask

SMALL = {"seed": 5, "n_personas": 60, "n_training_queries": 330, "n_evaluation_queries": 90}


@pytest.fixture(scope="module")
def tables_of(make_world):
    return {name: frames(make_world(world=name, **SMALL)) for name in WORLDS}


@pytest.mark.parametrize("name", WORLDS)
def test_arguments_stand_where_the_world_says(cast, tables_of, name):
    tables, (query, items, decided_by_place) = tables_of[name], WORLDS[name]
    here = audit.argument_sources(tables["queries"], tables["gold"]).value_counts(normalize=True)
    none = 0.05 if name == "hard" else 1 - query - items  # hard has kept needs alone
    expected = {"query": query, "none": none, "items": 1 - query - none}
    assert {source: here.get(source, 0.0) for source in expected} == pytest.approx(expected, abs=0.04)
    by_place = tables["gold"]["need"].map({need.need: need.api_source for need in cast.needs}).eq("place").mean()
    assert by_place == pytest.approx(decided_by_place, abs=0.04)  # of 420 queries, whose plans and keeps are drawn
    apis = tables["gold"]["apis"]
    assert (apis.str[0] == DEFAULT_API).mean() == pytest.approx(0.05, abs=0.02)
    assert (apis.str.len() == 2).mean() == pytest.approx(0.10, abs=0.04)


def test_sides_share_no_persona_text_phrasing_or_surface_form(tables_of, cast):
    for tables in tables_of.values():
        assert tables["queries"]["text"].map(normal_text).is_unique
        shared = audit.shared_values(tables).set_index("what")["shared"]
        assert not shared[["personas", "query texts", "phrasings"]].any()
    split = split_phrasings(cast.needs, 5)
    forms = [
        {normal_text(form) for some in side.values() for family in some for form in alternatives(family.text)}
        for side in split.values()
    ]
    assert not forms[0] & forms[1]
    sizes = [sum(map(len, side.values())) for side in split.values()]
    assert sizes[1] / sum(sizes) == pytest.approx(1 / 3, abs=0.05)


def test_held_out_needs_do_not_depend_on_the_others(cast):
    names = [need.need for need in cast.needs]
    held = [held_out_needs(names, seed) for seed in range(40)]
    assert sum(map(len, held)) / 40 / len(names) == pytest.approx(HELD_OUT, abs=0.05)
    assert len({frozenset(one) for one in held}) > 30
    for seed, whole in enumerate(held):
        assert whole & set(names[::2]) <= held_out_needs(names[::2], seed)
    assert held_out_needs(["only"], 7) == {"only"}


def test_habits_tell_in_queries_of_kind_habit_and_either_alone(tables):
    """By kind of query: share of the gold items' opens that agree with the query, less that of the other items."""
    queries = tables["queries"].merge(tables["gold"][["query", "kind"]], on="query")
    pairs = queries.merge(tables["items"][["persona", "item"]], on="persona")
    pairs["gold"] = relevant_pairs_mask(pairs, qrels_of(tables["gold"]))
    joined = pairs.merge(tables["opens"], on="item", suffixes=("", "_open"))
    minutes = [joined[name].dt.hour * 60 + joined[name].dt.minute for name in ("time", "time_open")]
    apart = (minutes[0] - minutes[1]).abs()
    for agree in (np.minimum(apart, 1440 - apart) <= 120, joined["place"] == joined["place_open"]):
        shares = agree.groupby([joined["kind"], joined["gold"]]).mean().unstack()
        lift = shares[True] - shares[False]
        assert lift[["habit", "either"]].min() > 0.2
        assert lift["meaning"] == pytest.approx(0, abs=0.04)


def test_ids_texts_and_numbers_hold_no_label(tables):
    for frame, column, tail in (("items", "item", r"[0-9a-f]{8}"), ("queries", "query", r"q\d+")):
        assert tables[frame][column].str.fullmatch(rf"p\d{{4}}-{tail}").all()
        assert (tables[frame][column].str.split("-").str[0] == tables[frame]["persona"]).all()
    ids = set(tables["items"]["item"]) | {item.split("-")[1] for item in tables["items"]["item"]}
    ids |= set(tables["items"]["persona"]) | {family.lower() for family in tables["gold"]["phrasing"]}
    for text in [*tables["queries"]["text"], *tables["items"]["text"]]:
        assert ids.isdisjoint(re.findall(r"[\w/-]+", text.lower())), text
    number = tables["queries"]["query"].str.extract(r"q(\d+)$")[0].astype(int)
    for kind in ("meaning", "habit", "either"):
        assert roc_auc_score(tables["gold"]["kind"] == kind, number) == pytest.approx(0.5, abs=0.05)


def test_neither_order_nor_number_nor_recency_of_opens_tells_gold(world, tables):
    """Stale items are set aside: their matter is over, which their time shows and is meant to show."""
    usage = tables["items"].merge(tables["provenance"][["item", "source"]], on="item")
    opens = tables["opens"].groupby("item")["time"].agg(["size", "max"])
    today = usage["persona"].map({persona.id: persona.today for persona in world.personas})
    groups = usage.groupby(["persona", "app"])["item"]
    usage = usage.assign(
        gold=usage["item"].isin(set(tables["gold"]["relevant"].explode())),
        opens=usage["item"].map(opens["size"]),
        hours_ago=(today - usage["item"].map(opens["max"])).dt.total_seconds() / 3600,
        position=(groups.cumcount() + 0.5) / groups.transform("size"),
        value=usage["item"].str[-8:].map(lambda x: int(x, 16)),
    )
    live = usage[usage["source"] != "stale"]
    several = live[groups.transform("size")[live.index] > 1]
    for part, column in ((several, "position"), (several, "value"), (usage, "opens"), (live, "hours_ago")):
        assert roc_auc_score(part["gold"], part[column]) == pytest.approx(0.5, abs=0.03), column
    gold, background = live[live["gold"]], live[live["source"] == "background"]
    for column in ("opens", "hours_ago"):
        assert stats.ks_2samp(gold[column], background[column]).statistic < 0.06, column
    assert usage[usage["source"] == "stale"]["hours_ago"].min() >= 28 * 24


def test_known_texts_are_looked_up_and_the_others_encoded_at_once():
    texts = {"a": (["x", "known"], ["y"]), "b": (["y"], ["w", "x"])}
    worlds = {
        name: {"items": pd.DataFrame({"text": items}), "queries": pd.DataFrame({"text": queries})}
        for name, (items, queries) in texts.items()
    }
    places = {("w", "x", "y"): np.arange(3)[:, None] * np.ones(2)}
    found = embed_worlds(worlds, lambda fresh: places[tuple(fresh)], {"known": np.array([7.0, 7.0])})
    assert found["a"]["items"].tolist() == [[1, 1], [7, 7]]
    assert found["b"]["queries"].tolist() == [[0, 0], [1, 1]]
