"""Whose rankings LambdaMART-RRF fuses, and that no evaluation query takes part in the choice."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from lib.assistant import rrf_readings
from lib.assistant.ranking_task import Learning, RankingTask
from lib.assistant.rrf_readings import STORES, WHOLE
from lib.assistant.schemas import APP_NAMES, APPS
from lib.assistant.world import frames
from lib.retrieval.fusion import Fusion, rank_per_store

KS = [1, 60]


def unit(rows, seed):
    vectors = np.random.default_rng(seed).normal(size=(rows, 8))
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


@pytest.fixture(scope="module")
def task(make_world):
    world = frames(make_world(seed=3, n_personas=30, n_training_queries=90, n_evaluation_queries=30))
    vectors = {"items": unit(len(world["items"]), 0), "queries": unit(len(world["queries"]), 1)}
    return RankingTask.of_world(world, vectors, Learning([3, 5], seed=7, folds=2))


@pytest.fixture(scope="module")
def readings(task):
    return rrf_readings.fit(task, task.fit())


@pytest.fixture(scope="module")
def trials(task, readings):
    return rrf_readings.try_readings(task, readings.training, KS)


def test_a_store_holds_one_context_type():
    assert sorted(APP_NAMES) == sorted(APPS)
    assert len(set(APP_NAMES.values())) == len(APPS)


def test_one_a_store_learns_from_its_own_items_and_ranks_these_alone(task):
    learned = task.training
    app = task.pairs["item"].map(task.store).to_numpy()
    store = pd.Series(app[learned]).mode()[0]
    own = rrf_readings.learn(task, [STORES], learned)[STORES][store]
    # Labels of other stores' items are worth nothing to it.
    other = replace(task)
    other.__dict__["relevant"] = task.relevant ^ (app != store)
    again = rrf_readings.learn(other, [STORES], learned)[STORES][store]
    assert own.booster.model_to_string() == again.booster.model_to_string()
    runs = rrf_readings.rank_without(task, [STORES], learned, task.evaluation)[STORES]
    ranks = runs.assign(app=runs["item"].map(task.store)).groupby(["query", "app"])["rank"]
    assert (ranks.min() == 1).all()
    assert (ranks.max() == ranks.size()).all()


def test_the_readings_differ(task, readings):
    """None fuses a ranking with itself."""
    orders = [readings.evaluation[name].set_index(["query", "item"])["rank"] for name in (WHOLE, STORES)]
    for place, order in enumerate(orders):
        for other in orders[place + 1 :]:
            assert (order != other.reindex(order.index)).mean() > 0.2
    # Store by store is not the order that the one of all stores has within each.
    cut = rank_per_store(readings.evaluation[WHOLE], readings.evaluation[WHOLE]["item"].map(task.store))
    within = cut.set_index(["query", "item"])["rank"]
    assert (orders[1] != within.reindex(orders[1].index)).mean() > 0.2


def test_training_queries_are_ranked_by_rankers_that_did_not_see_their_persona(task, readings):
    """Whatever the labels of one persona are, its own rankings stay as they are."""
    persona = task.persona[task.training][0]
    mine = task.persona == persona
    other = replace(task)
    other.__dict__["relevant"] = np.where(mine, ~task.relevant, task.relevant)
    names = [STORES]
    again = rrf_readings.cross_fit(other, names, task.training)
    queries = task.pairs["query"][mine].unique()
    for name in names:
        before, after = (
            run[run["query"].isin(queries)].reset_index(drop=True) for run in (readings.training[name], again[name])
        )
        pd.testing.assert_frame_equal(before, after)
        assert not again[name].equals(readings.training[name])


def test_every_reading_is_tried(trials):
    tried = {fusion.rankings for fusion in trials["fusion"]}
    assert (WHOLE,) not in tried, "alone it is no fusion"
    assert {(STORES,), (WHOLE, STORES), (WHOLE, "semantic"), (WHOLE, STORES, "bm25t", "semantic")} < tried
    assert len(set(trials["fusion"])) == len(trials)
    assert trials["mean"].is_monotonic_decreasing
    assert sorted(fusion.k for fusion in trials["fusion"] if fusion.rankings == (STORES,)) == KS
    assert Fusion((WHOLE, STORES, "bm25t"), 1, (4.0, 1.0, 1.0)) in set(trials["fusion"])
    assert Fusion((STORES, "semantic"), 1, (2.0, 1.0)) in set(trials["fusion"])


def test_no_evaluation_query_takes_part_in_the_choice(task, readings, trials):
    labels = task.gold.set_index("query")["relevant"]
    asked, rng = task.queries_of("evaluation"), np.random.default_rng(0)
    candidates = task.pairs.groupby("query")["item"].agg(list)
    drawn = {query: rng.permutation(candidates[query])[: len(labels[query])].tolist() for query in asked}
    gold = task.gold.assign(relevant=[drawn.get(query, labels[query]) for query in task.gold["query"]])
    permuted = replace(task, gold=gold)
    assert (permuted.relevant != task.relevant)[task.evaluation].any()
    again = rrf_readings.fit(permuted, permuted.fit())
    chosen = rrf_readings.try_readings(permuted, again.training, KS)
    pd.testing.assert_frame_equal(chosen, trials)
    fusion = Fusion.best(trials)
    pd.testing.assert_frame_equal(fusion.of(again.evaluation), fusion.of(readings.evaluation))


def test_a_store_that_one_persona_alone_teaches_has_no_ranker(task):
    app = task.pairs["item"].map(task.store).to_numpy()
    one = task.persona == task.persona[task.training][0]
    store = app[task.training][0]
    learned = task.training & (one | (app != store))
    rankers = rrf_readings.learn(task, [STORES], learned)
    assert store not in rankers[STORES]
    scores = rrf_readings.score(task, rankers, task.evaluation)[STORES]
    assert (scores[app[task.evaluation] == store] == 0).all()
    assert (scores != 0).any()


def test_one_querys_scores_are_those_among_all(task, readings):
    fused = rrf_readings.FusedRankers.of(Fusion((WHOLE, STORES, "semantic"), 5), readings)
    assert list(fused.rankers) == [WHOLE, STORES]
    query = task.queries_of("evaluation")[0]
    rows = (task.pairs["query"] == query).to_numpy()
    together = rrf_readings.score(task, {STORES: readings.rankers[STORES]}, rows)[STORES]
    store = task.pairs["item"][rows].map(task.store).to_numpy()
    alone = fused.on_one_thread().scores(task.features[rows].reset_index(drop=True), store)
    np.testing.assert_array_equal(alone[STORES], together)
