"""Three named worlds: their shares, that `hard` is the world as it was, and that what a query says is told apart."""

from __future__ import annotations

import hashlib
import json

import numpy as np
import pandas as pd
import pytest

from lib.assistant.audit import argument_sources, check_apart, shared_values
from lib.assistant.world import WORLDS, deal_asks, group_shares, plan_shares
from lib.assistant.queries import normal_form
from lib.assistant.schemas import WorldKnobs
from lib.assistant.world import frames, read_world, simulate_from
from lib.workbook.inputs import InputError

SMALL = {"seed": 5, "n_personas": 60, "n_training_queries": 330, "n_evaluation_queries": 90}
SPOKEN = ["explicit", "mixed"]
# Of the world of `TINY` before there were others beside it.
TINY = {"seed": 5, "n_personas": 12, "n_training_queries": 50, "n_evaluation_queries": 20}
DRAWN = "4b1985e30a022253466be112c67621d83f5365adabad98f9c1a13a1abc260906"


@pytest.fixture(scope="module")
def worlds(make_world):
    return {name: make_world(world=name, **SMALL) for name in WORLDS}


@pytest.fixture(scope="module")
def tables_of(worlds):
    return {name: frames(world) for name, world in worlds.items()}


# ---------------------------------------------------------------- shares


def test_mixed_is_the_default(make_world, worlds):
    assert WorldKnobs().world == "mixed"
    assert make_world(**SMALL).gold == worlds["mixed"].gold


def test_hard_is_drawn_as_it_was(make_world):
    made = make_world(world="hard", recency_strength=0.0, frequency_strength=0.0, **TINY)
    lines = [persona.model_dump_json() for persona in made.personas]
    lines += [query.model_dump_json() for query in made.queries]
    lines += [entry.model_dump_json(exclude={"also"}) for entry in made.gold]
    assert hashlib.sha256("\n".join(lines).encode()).hexdigest() == DRAWN


def test_shares_of_a_mix_sum_to_one():
    for name, mix in WORLDS.items():
        assert mix.query + mix.items + mix.none == pytest.approx(1)
        for default in (0.0, 0.05, 0.1):
            knobs = WorldKnobs(world=name, default_share=default)
            shares = group_shares(knobs)
            assert sum(shares.values()) == pytest.approx(1)
            assert min(shares.values()) >= 0
            two = {group: plan_shares(group, knobs) for group, share in shares.items() if share > 1e-9}
            overall = sum(shares[group] * np.array(part) for group, part in two.items())
            assert overall == pytest.approx([knobs.complex_share, knobs.default_share], abs=1e-6), (name, default)


@pytest.mark.parametrize("name", list(WORLDS))
def test_every_query_is_dealt_a_group_and_a_kind(name):
    knobs = WorldKnobs(world=name)
    deck = deal_asks(1000, knobs, np.random.default_rng(0))
    assert len(deck) == 1000
    groups = pd.Series([group for group, _ in deck]).value_counts() / 1000
    for group, share in group_shares(knobs).items():
        assert groups.get(group, 0) == pytest.approx(share, abs=0.001)
    assert all(kind != "habit" for group, kind in deck if group != "kept")


@pytest.mark.parametrize("name", list(WORLDS))
def test_arguments_stand_where_the_world_says(worlds, tables_of, name):
    tables, mix = tables_of[name], WORLDS[name]
    here = argument_sources(tables["queries"], tables["gold"]).value_counts(normalize=True)
    none = 0.05 if name == "hard" else mix.none  # `default_share`: hard has kept needs alone
    expected = {"query": mix.query, "none": none, "items": 1 - mix.query - none}
    assert {source: here.get(source, 0.0) for source in expected} == pytest.approx(expected, abs=0.04)
    by_place = (tables["gold"]["need"].map(worlds[name].api_sources) == "place").mean()
    assert by_place == pytest.approx(mix.by_place, abs=0.04)  # of 420 queries, whose plans and keeps are drawn


def test_kinds_are_thirds_in_hard(tables_of):
    shares = tables_of["hard"]["gold"]["kind"].value_counts(normalize=True)
    assert shares.to_dict() == pytest.approx(dict.fromkeys(("meaning", "habit", "either"), 1 / 3), abs=0.005)


@pytest.mark.parametrize("name", SPOKEN)
def test_plans_keep_their_shares(tables_of, name):
    apis = tables_of[name]["gold"]["apis"]
    assert (apis.str[0] == "default").mean() == pytest.approx(0.05, abs=0.02)
    assert (apis.str.len() == 2).mean() == pytest.approx(0.10, abs=0.04)


# ---------------------------------------------------------------- labels and sides


@pytest.mark.parametrize("name", [*WORLDS])
def test_sides_share_no_persona_and_no_phrasing(tables_of, name):
    tables = tables_of[name]
    assert tables["queries"]["text"].map(normal_form).is_unique
    check_apart(shared_values(tables))


@pytest.mark.parametrize("name", [*WORLDS])
def test_every_query_has_items_of_its_own_persona(worlds, tables_of, name):
    tables = tables_of[name]
    owner = tables["items"].set_index("item")["persona"]
    pairs = tables["gold"][["query", "relevant"]].explode("relevant")
    asker = pairs["query"].map(tables["queries"].set_index("query")["persona"])
    assert (pairs["relevant"].map(owner) == asker).all()
    assert tables["gold"]["relevant"].str.len().between(1, 5).all()


def test_other_plans_stand_in_a_table_of_their_own(worlds, tables_of):
    assert all(len(tables_of[name]["other_plans"]) for name in WORLDS)
    assert "also" not in tables_of["explicit"]["gold"]
    others = tables_of["explicit"]["other_plans"]
    assert len(others)
    gold = tables_of["explicit"]["gold"].set_index("query")["plan"]
    assert (others["plan"] != others["query"].map(gold)).all()
    called = [[next(iter(call)) for call in json.loads(answers)] for answers in others["answers"]]
    assert called == others["apis"].tolist()


def test_the_smallest_world_cannot_lack_a_group(make_world, needs, cast, toolbox):
    with pytest.raises(InputError, match=r"mixed.*said"):
        simulate_from(needs, cast, toolbox, WorldKnobs(world="mixed", **SMALL))


def test_a_world_of_ones_own_may_name_other_plans(records, write_world):
    other = {
        "apis": ["search_notes"],
        "plan": 'search_notes(text="Dough")',
        "answers": [{"search_notes": {"text": ["Dough"]}}],
    }
    records["gold"][0]["also"] = [other]
    assert frames(read_world(write_world(records)))["other_plans"]["plan"].tolist() == [other["plan"]]
    records["gold"][0]["also"] = [other | {"apis": ["search_mail"]}]
    with pytest.raises(InputError, match="also 1"):
        read_world(write_world(records))


@pytest.mark.slow
@pytest.mark.parametrize("name", SPOKEN)
def test_every_api_is_right_for_some_query(make_world, toolbox, name):
    """At the published size."""
    made = make_world(seed=7, world=name)
    assert {api.api for api in toolbox} <= {api for entry in made.gold for api in entry.apis}


# ---------------------------------------------------------------- where arguments stand
