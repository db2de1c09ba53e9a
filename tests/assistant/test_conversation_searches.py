"""Searches trained in another world, asked in this one: alone, and behind the turn before."""

from functools import partial

import pandas as pd
import pytest

from lib.assistant import interaction_training
from lib.assistant.conversation import KINDS, TRAINED_BEFORE, conversation_knobs
from lib.assistant.conversation_searches import alone_and_told, met_before, search_of, trained_before
from lib.assistant.hop_needs import read_hop_needs
from lib.assistant.interaction_training import LATE, rank_with
from lib.assistant.world import frames, simulate_from
from lib.retrieval.dense import load_encoder, search
from lib.retrieval.finetune import Finetuning, finetune_encoder, training_rows
from lib.workbook.parameters.worlds import WorldKnobs
from tests.assistant.readers_world import ITEMS, SMALL, first_of, lesson_of

TURN = {"text": "Where is the lemon?", "plan": 'open_note(title="river")'}


@pytest.fixture
def small(small_world):
    """A world in which every second evaluation query has a turn before."""
    queries, items, _, _ = small_world
    asked = queries[queries["split"] == "evaluation"].reset_index(drop=True)
    mine = items[items["persona"].isin(asked["persona"])].reset_index(drop=True)
    return {
        "queries": asked,
        "items": mine,
        "turns": pd.DataFrame([{"query": name} | TURN for name in asked["query"][::2]]),
    }


def ids(run):
    return run.sort_values(["query", "rank"])[["query", "item"]].to_numpy().tolist()


def test_a_query_with_a_turn_before_is_asked_behind_it_and_others_as_alone(small, tiny):
    queries, items, leans = small["queries"], small["items"], small["turns"]["query"]
    model, seen = load_encoder(tiny), []

    def ranked(asked):
        seen.append(asked)
        return search(model, asked, items, on="persona")

    runs = alone_and_told("finetuned", ranked, small)
    alone, told = runs["finetuned"], runs[TRAINED_BEFORE["finetuned"]]
    behind = queries.assign(text=[f"{TURN['text']} {TURN['plan']} {text}" for text in queries["text"]])
    expected = {
        name: search(model, asked, items, on="persona") for name, asked in (("alone", queries), ("told", behind))
    }
    assert ids(alone) == ids(expected["alone"])
    leaning = told["query"].isin(leans)
    assert ids(told[leaning]) == ids(expected["told"][expected["told"]["query"].isin(leans)])
    assert ids(told[leaning]) != ids(alone[alone["query"].isin(leans)])
    assert ids(told[~leaning]) == ids(alone[~alone["query"].isin(leans)])
    assert len(told) == len(alone) == len(queries) * ITEMS
    assert [len(asked) for asked in seen] == [len(queries) + len(leans)]  # at once


def test_where_no_query_leans_on_a_turn_both_rankings_are_one(small, tiny):
    world = {name: small[name] for name in ("queries", "items")}
    runs = alone_and_told(LATE, partial(search, load_encoder(tiny), documents=world["items"], on="persona"), world)
    assert ids(runs[LATE]) == ids(runs[TRAINED_BEFORE[LATE]])


def test_what_notebook_04_left_is_asked_and_what_it_did_not_train_is_not(
    small, small_world, tiny, tmp_path, monkeypatch
):
    monkeypatch.setattr(interaction_training, "SETTINGS", SMALL)
    lesson = lesson_of(small_world)
    adapters = interaction_training.all_readers(lesson, tiny, tmp_path / "adapters", 0, 10)
    rows = training_rows(lesson.queries, lesson.items, lesson.qrels, lesson.negatives, 1, 0)
    model, _ = finetune_encoder(tiny, rows, tmp_path / "encoders" / "finetuned", Finetuning(1e-2, 4, seed=0))
    assert trained_before(["semantic"], tmp_path, tiny, small) == {}
    assert list(trained_before(["finetuned"], tmp_path, tiny, small)) == ["finetuned", TRAINED_BEFORE["finetuned"]]
    runs = trained_before(TRAINED_BEFORE, tmp_path, tiny, small)
    assert set(runs) == {*TRAINED_BEFORE, *TRAINED_BEFORE.values()}
    asked, items = small["queries"], small["items"]
    assert ids(runs["finetuned"]) == ids(search(model, asked, items, on="persona"))
    assert ids(runs["finetuned"]) != ids(search(load_encoder(tiny), asked, items, on="persona"))
    first = first_of(small_world)
    assert ids(runs[LATE]) == ids(rank_with(LATE, adapters[LATE], tiny, first, asked, items))
    with pytest.raises(OSError, match=LATE):
        search_of(LATE, tmp_path / "elsewhere", tiny, items)


def test_what_a_training_query_asked_about_has_been_met():
    """A plain query whose phrasing was learned, one whose need alone was, a follow-up of that need, and a hop."""
    phrasings = ["tea/meaning/0", "tea/meaning/1", "tea/follow_up/0", "jam/hop/0"]
    needs = [phrasing.split("/")[0] for phrasing in phrasings]
    world = {"gold": pd.DataFrame({"query": list("abcd"), "need": needs, "phrasing": phrasings})}
    gold = pd.DataFrame({"query": ["x", "y"], "need": ["tea", "jam"], "phrasing": ["tea/meaning/0", "jam/hop/0"]})
    queries = pd.DataFrame({"query": ["x", "y"], "split": ["training", "evaluation"]})
    met = met_before(world, queries, gold)
    assert list(met.index) == list(KINDS)
    assert met["needs"].tolist() == [100, 100, 0]
    assert met["phrasings"].tolist() == [50, 0, 0]


def test_in_the_world_of_conversation_other_people_live(needs, explicit_needs, cast, toolbox, data):
    """What was trained in the main world met none of its personas: hardly one has the same people around."""
    hops = read_hop_needs(data / "needs" / "hops", toolbox)
    knobs = conversation_knobs("smoke", 3, 16)
    sizes = {name: getattr(knobs, name) for name in ("n_personas", "n_training_queries", "n_evaluation_queries")}
    worlds = (WorldKnobs(seed=3, **sizes), knobs.model_copy(update={"seed": 3}), knobs)
    main, same, talk = (
        set(frames(simulate_from([*needs, *explicit_needs, *hops], cast, toolbox, each))["people"]["name"])
        for each in worlds
    )
    assert same == main  # the test can see it
    assert len(talk & main) < 0.2 * len(main)
