"""One seed, one world; another seed, another world of the same kind."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys

import pandas as pd
import pytest
from scipy import stats

from lib.assistant.schemas import WorldKnobs
from lib.assistant.world import frames, simulate

SMALL = {"seed": 11, "n_personas": 30, "n_training_queries": 150, "n_evaluation_queries": 40}
OTHER = {"seed": 8, "n_personas": 240, "n_training_queries": 1316, "n_evaluation_queries": 284}
DIGEST = """
import hashlib, sys
from lib.assistant.world import simulate
from lib.assistant.schemas import WorldKnobs
world = simulate("data", WorldKnobs(seed=11, n_personas=30, n_training_queries=150, n_evaluation_queries=40))
text = "".join(entry.model_dump_json() for entry in [*world.personas, *world.queries, *world.gold])
sys.stdout.write(hashlib.sha256(text.encode()).hexdigest())
"""


@pytest.fixture(scope="module")
def other(make_world):
    return make_world(**OTHER)


@pytest.fixture(scope="module")
def other_tables(other):
    return frames(other)


@pytest.fixture(scope="module")
def small(data):
    return simulate(data, WorldKnobs(**SMALL))


def test_same_seed_gives_identical_frames_and_personas(small, make_world):
    again = make_world(**SMALL)
    left, right = frames(small), frames(again)
    assert list(left) == list(right)
    for name in left:
        assert left[name].equals(right[name]), name
    assert [p.model_dump_json() for p in small.personas] == [p.model_dump_json() for p in again.personas]


def test_world_does_not_depend_on_the_hash_seed_of_the_process(small, root):
    environment = os.environ | {"PYTHONHASHSEED": "4242"}
    run = subprocess.run(
        [sys.executable, "-c", DIGEST], cwd=root, env=environment, capture_output=True, text=True, check=True
    )
    text = "".join(entry.model_dump_json() for entry in [*small.personas, *small.queries, *small.gold])
    assert run.stdout == hashlib.sha256(text.encode()).hexdigest()


def test_another_seed_gives_other_people_items_and_texts(tables, other_tables):
    n = len(other_tables["queries"])
    assert (tables["queries"]["text"][:n] == other_tables["queries"]["text"]).mean() < 0.01
    assert not set(tables["items"]["item"]) & set(other_tables["items"]["item"])
    same = tables["items"]["text"].isin(set(other_tables["items"]["text"]))
    assert same[: len(other_tables["items"])].mean() < 0.5


def test_another_seed_splits_phrasings_otherwise(tables, other_tables):
    sides = [frame["gold"].groupby("phrasing")["split"].first() for frame in (tables, other_tables)]
    both = pd.concat(sides, axis=1, join="inner").set_axis(["seven", "eight"], axis=1)
    agree = (both["seven"] == both["eight"]).mean()
    assert 0.4 < agree < 0.75


def test_another_seed_has_the_same_kinds(tables, other_tables):
    counts = [frame["gold"]["kind"].value_counts().sort_index() for frame in (tables, other_tables)]
    assert stats.chi2_contingency(counts).pvalue > 0.5
