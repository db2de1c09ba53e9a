"""The ranker that comes with the project: taken where it learned from this very world, and nowhere else."""

import json
import lzma
from dataclasses import replace

import pytest

from lib.assistant.parts import RANKER, ranker_for
from lib.assistant.parts import ranker_source as learned_from
from lib.assistant.ranking import RankingTask
from lib.assistant.world import frames
from lib.workbook.artifacts import ROOT
from lib.workbook.parts import FOLDER, ship_rankers
from tests.assistant.test_ranking import unit

HOW = ("words", 0.75)
FILE = FOLDER / f"{RANKER}.jsonl.xz"


@pytest.fixture(scope="module")
def world(make_world):
    return frames(make_world(seed=3, n_personas=30, n_training_queries=100, n_evaluation_queries=30))


def task_of(world, noise=0.0, seed=7):
    vectors = {"items": unit(len(world["items"]), 0), "queries": unit(len(world["queries"]), 1)}
    vectors = {name: array + noise * unit(len(array), 2) for name, array in vectors.items()}
    return RankingTask.of_world(world, vectors, 10, seed, folds=2)


@pytest.fixture(scope="module")
def task(world):
    return task_of(world)


@pytest.fixture
def shipped(task, tmp_path):
    assert ship_rankers(RANKER, [ranker_for(task, *HOW, tmp_path).record], tmp_path)
    return tmp_path


def test_it_is_taken_on_another_processor_and_scores_as_it_did(world, task, shipped):
    """Where the last bits of the embeddings are other ones."""
    taken = ranker_for(task_of(world, noise=1e-7), *HOW, shipped)
    assert taken.shipped
    assert (taken.ranker.predict(task.features) == task.learn().predict(task.features)).all()


def test_another_world_or_another_way_to_learn_has_one_of_its_own(world, task, shipped):
    queries = world["queries"]
    first = queries.index[queries["split"] == "training"][0]
    others = [
        task_of(world | {"queries": queries.assign(text=queries["text"].mask(queries.index == first, "else"))}),
        task_of(world | {"opens": world["opens"].iloc[1:]}),
        task_of(world, seed=8),
        replace(task, features=task.features.drop(columns="bm25t")),
    ]
    for other in others:
        assert learned_from(other, *HOW) != learned_from(task, *HOW)
    assert learned_from(task, "others", 0.75) != learned_from(task, *HOW) != learned_from(task, "words", 0.5)
    taken = ranker_for(others[0], *HOW, shipped)
    assert not taken.shipped


def test_evaluation_queries_and_their_labels_are_not_part_of_what_it_learned(world, task):
    evaluation = world["queries"]["split"] == "evaluation"
    queries = world["queries"].assign(text=world["queries"]["text"].mask(evaluation, "else"))
    gold = world["gold"][world["gold"]["split"] == "training"]
    assert learned_from(task_of(world | {"queries": queries, "gold": gold}), *HOW) == learned_from(task, *HOW)


def test_the_shipped_one_is_whole():
    record = json.loads(lzma.decompress((ROOT / FILE).read_bytes()))
    assert record["queries"] == 4338
    assert len(record["learned_from"]) == 64
    assert record["model"].startswith("tree")
