"""Small worlds in which one knob differs."""

import numpy as np
import pytest

from lib.assistant.schemas import WorldKnobs
from lib.assistant.sensitivity import SWEEPS, embed_worlds, simulate_worlds, small_knobs, swept_knobs
from tests.assistant.test_ranking import recall, task_of

HABITS_ALONE = {"recency_strength": 0.0, "frequency_strength": 0.0}


@pytest.fixture(scope="module")
def worlds(data):
    base = WorldKnobs(seed=3, **HABITS_ALONE)
    return simulate_worlds(data, [small_knobs(base, 60, **change) for change in ({}, {"habit_strength": 0.0})])


def test_a_small_world_keeps_the_proportions():
    knobs = small_knobs(WorldKnobs(), 100, hour_noise=3.0)
    assert (knobs.n_personas, knobs.n_training_queries, knobs.n_evaluation_queries) == (100, 548, 118)
    assert knobs.hour_noise == 3.0
    assert knobs.habit_strength == WorldKnobs().habit_strength


def test_a_text_of_several_worlds_is_encoded_once(worlds):
    seen = []

    def encode(texts):
        seen.append(list(texts))
        return np.array([[len(text)] for text in texts])

    arrays = embed_worlds(worlds, encode)
    assert len(seen) == 1
    assert len(seen[0]) == len(set(seen[0]))
    for world, vectors in zip(worlds, arrays, strict=True):
        for name, found in vectors.items():
            assert found[:, 0].tolist() == world[name]["text"].str.len().tolist()


def test_one_knob_is_turned_at_a_time():
    base = WorldKnobs()
    knobs = swept_knobs(base, 60)
    assert list(knobs) == [(knob, level) for knob, levels in SWEEPS.items() for level in levels]
    for (knob, level), small in knobs.items():
        assert getattr(small, knob) == level
        others = set(SWEEPS) - {knob}
        assert all(getattr(small, other) == getattr(base, other) for other in others)
    assert knobs["meaning_share", 0.0].habit_share == 0.5


def test_without_habit_lambdamart_loses_its_edge(worlds):
    found = []
    for world in worlds:
        task = task_of(world)
        every = np.ones(len(task.pairs), dtype=bool)
        runs = {"lambdamart": task.rank(task.cross_fit(every), every)}
        found.append(recall(task, runs)["lambdamart"])
    assert found[0] > found[1] + 15
