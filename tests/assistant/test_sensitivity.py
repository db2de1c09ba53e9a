import numpy as np
import pytest

from lib.assistant.ranking_task import Learning
from lib.assistant.rrf_readings import STORES, WHOLE
from lib.assistant.schemas import WorldKnobs
from lib.assistant.sensitivity import (
    COMPARED,
    EDGE,
    SWEEPS,
    cross_fitted_scores,
    embed_worlds,
    recall_in,
    simulate_worlds,
    small_knobs,
    swept_knobs,
)
from lib.retrieval.fusion import Fusion

CUTOFFS = [3, 10]
HABITS_ALONE = {"recency_strength": 0.0, "frequency_strength": 0.0}


def bags_of_letters(texts):
    """A stand-in for an encoder: unit-length counts of letters."""
    counts = np.array(
        [[text.lower().count(letter) + 0.01 for letter in "abcdefghijklmnopqrstuvwxyz"] for text in texts]
    )
    return (counts / np.linalg.norm(counts, axis=1, keepdims=True)).astype(np.float32)


def scores_of(worlds):
    vectors = embed_worlds(worlds, bags_of_letters)
    return [
        cross_fitted_scores(world, arrays, Fusion((WHOLE, STORES), 5), Learning(CUTOFFS, seed=1, folds=2))
        for world, arrays in zip(worlds, vectors, strict=True)
    ]


@pytest.fixture(scope="module")
def worlds(data):
    base = WorldKnobs(seed=3, **HABITS_ALONE)
    return simulate_worlds(data, [small_knobs(base, 60, **change) for change in ({}, {"habit_strength": 0.0})])


@pytest.fixture(scope="module")
def scores(worlds):
    return scores_of(worlds)


def test_a_small_world_keeps_the_proportions():
    knobs = small_knobs(WorldKnobs(), 100, hour_noise=3.0)
    assert (knobs.n_personas, knobs.n_training_queries, knobs.n_evaluation_queries) == (100, 548, 118)
    assert knobs.hour_noise == 3.0
    assert knobs.habit_strength == WorldKnobs().habit_strength


def test_a_knob_out_of_range_is_refused():
    with pytest.raises(ValueError, match="habit_strength"):
        small_knobs(WorldKnobs(), 100, habit_strength=1.5)


def test_every_query_is_scored_by_every_method(worlds, scores):
    for world, table in zip(worlds, scores, strict=True):
        assert table.index.tolist() == world["queries"]["query"].tolist()
        assert set(table.columns.get_level_values("method")) == set(COMPARED)
        assert table.drop(columns="ndcg_retrieved", level="metric").notna().all(axis=None)


def test_a_text_of_several_worlds_is_encoded_once(worlds):
    seen = []

    def encode(texts):
        seen.append(list(texts))
        return bags_of_letters(texts)

    arrays = embed_worlds(worlds, encode)
    assert len(seen) == 1
    assert len(seen[0]) == len(set(seen[0]))
    for world, vectors in zip(worlds, arrays, strict=True):
        assert vectors["items"].shape == (len(world["items"]), 26)
        np.testing.assert_array_equal(vectors["queries"], bags_of_letters(world["queries"]["text"].tolist()))


def test_the_same_seed_gives_the_same_scores(worlds, scores):
    assert scores_of(worlds[:1])[0].equals(scores[0])


def test_one_knob_is_turned_at_a_time():
    base = WorldKnobs()
    knobs = swept_knobs(base, 60)
    assert list(knobs) == [(knob, level) for knob, levels in SWEEPS.items() for level in levels]
    for (knob, level), small in knobs.items():
        assert getattr(small, knob) == level
        others = set(SWEEPS) - {knob}
        assert all(getattr(small, other) == getattr(base, other) for other in others)
    assert knobs["meaning_share", 0.0].habit_share == 0.5


def test_without_habit_lambdamart_loses_its_edge(worlds, scores):
    found = [recall_in(*each, 3).set_index("method") for each in zip(worlds, scores, strict=True)]
    for table in found:
        assert list(table.index) == [*COMPARED, EDGE]
        values = table["recall@3"]
        assert values[EDGE] == pytest.approx(values["lambdamart_rrf"] - values["semantic"])
        assert (table["ci_low"] <= values).all()
    assert found[0].loc["lambdamart", "recall@3"] > found[1].loc["lambdamart", "recall@3"] + 15
