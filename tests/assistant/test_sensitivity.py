"""Small worlds in which one knob differs."""

import numpy as np
import pandas as pd

from lib.assistant.schemas import WorldKnobs
from lib.assistant.sensitivity import SWEEPS, embed_worlds, swept_knobs
from lib.assistant.world import frames, simulate
from tests.assistant.test_ranking import recall, task_of


def test_known_texts_are_looked_up_and_the_others_encoded_at_once():
    encoded = []

    def encode(texts):
        encoded.append(texts)
        return np.arange(len(texts))[:, None] * np.ones(2)

    worlds = {
        "a": {"items": pd.DataFrame({"text": ["x", "known"]}), "queries": pd.DataFrame({"text": ["y"]})},
        "b": {"items": pd.DataFrame({"text": ["y"]}), "queries": pd.DataFrame({"text": ["w", "x"]})},
    }
    found = embed_worlds(worlds, encode, {"known": np.array([7.0, 7.0])})
    assert encoded == [["w", "x", "y"]]
    assert found["a"]["items"].tolist() == [[1, 1], [7, 7]]
    assert found["b"]["queries"].tolist() == [[0, 0], [1, 1]]


def test_one_knob_is_turned_at_a_time_and_proportions_stay():
    base = WorldKnobs()
    knobs = swept_knobs(base, 100)
    assert list(knobs) == [(knob, level) for knob, levels in SWEEPS.items() for level in levels]
    for (knob, level), small in knobs.items():
        assert (small.n_personas, small.n_training_queries, small.n_evaluation_queries) == (100, 548, 118)
        assert getattr(small, knob) == level
        others = set(SWEEPS) - {knob}
        assert all(getattr(small, other) == getattr(base, other) for other in others)
    assert knobs["meaning_share", 0.0].habit_share == 0.5


def test_without_habit_lambdamart_loses_its_edge(data):
    base, found = WorldKnobs(seed=3, recency_strength=0.0, frequency_strength=0.0), []
    knobs = {level: swept_knobs(base, 60)["habit_strength", level] for level in (1.0, 0.0)}
    for small in knobs.values():
        task = task_of(frames(simulate(data, small)))
        every = np.ones(len(task.pairs), dtype=bool)
        runs = {"lambdamart": task.rank(task.cross_fit(every), every)}
        found.append(recall(task, runs)["lambdamart"])
    assert found[0] > found[1] + 15
