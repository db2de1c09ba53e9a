"""The ranking of context on a small simulated world: what is learned, ranked and fused, and by whom."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from lib.assistant.parts import kept_for
from lib.assistant.ranking import (
    STORES,
    WHOLE,
    Kept,
    fusions,
    hybrid,
    learn_by_store,
    rankings_to_fuse,
)
from lib.assistant.signals import feature_groups
from lib.evaluation.comparison import per_query_scores
from lib.retrieval.fusion import Fusion, choose_fusion


@pytest.fixture(scope="module")
def fitted(task):
    return task.fit()


@pytest.fixture(scope="module")
def by_store(task):
    return task.cross_fit(task.training, by_store=True) + learn_by_store(task, task.training, task.evaluation)[1]


def chosen(task, rankings):
    tried = [fusion for fusion in fusions([*task.text]) if fusion.k in (1, 60)]
    return choose_fusion(rankings, tried, task.qrels, task.queries_of("training"), [3, 10])


def recall(task, runs):
    """Over evaluation queries that are resolved by habit."""
    kind = task.gold.set_index("query")["kind"]
    queries = [query for query in task.queries_of("evaluation") if kind[query] == "habit"]
    return per_query_scores(runs, task.qrels, queries, [3]).xs("recall", axis=1, level="metric").mean().droplevel("k")


def test_no_ranker_saw_the_persona_that_it_scores(task, fitted, by_store):
    ranker, scores = fitted
    np.testing.assert_array_equal(scores[task.evaluation], ranker.predict(task.features[task.evaluation]))
    mine = task.persona == task.persona[task.training][0]
    other = replace(task)
    other.__dict__["relevant"] = np.where(mine, ~task.relevant, task.relevant)
    for before, how in ((fitted[1], {}), (by_store, {"by_store": True})):
        again = other.cross_fit(task.training, **how)
        np.testing.assert_array_equal(again[mine], before[mine])
        assert (again[task.training] != before[task.training]).any()
    with pytest.raises(ValueError, match="99 folds of"):
        task.cross_fit(task.training, folds=99)


def test_a_ranker_that_sees_less_finds_less(task, fitted):
    """The encoder is noise here and a habit shows in the log alone."""
    groups, runs = feature_groups(task.features), {"whole": task.rank(fitted[1])}
    without = [name for name in task.features if name not in groups["habitual"]]
    for name, columns in (("text alone", groups["text"]), ("without habits", without)):
        runs[name] = task.rank(task.predict(task.learn(features=task.features[columns]), task.evaluation))
    found = recall(task, runs)
    assert found["whole"] > found[["text alone", "without habits"]].max() + 20


def test_one_a_store_learns_from_its_own_items(task):
    store = pd.Series(task.store[task.training]).mode()[0]
    own = learn_by_store(task, task.training, task.evaluation)[0][store]
    # Labels of other stores' items are worth nothing to it.
    other = replace(task)
    other.__dict__["relevant"] = task.relevant ^ (task.store != store)
    again = learn_by_store(other, task.training, task.evaluation)[0][store]
    assert own.booster.model_to_string() == again.booster.model_to_string()


def test_a_store_that_one_persona_alone_teaches_has_no_ranker(task):
    one, store = task.persona == task.persona[task.training][0], task.store[task.training][0]
    rankers, scores = learn_by_store(task, task.training & (one | (task.store != store)), task.evaluation)
    assert store not in rankers
    assert (scores[(task.store == store) | task.training] == 0).all()
    assert (scores != 0).any()


def test_every_reading_is_tried_but_lambdamart_alone():
    """Eleven choices of rankings by four constants; of what there is to weigh, in three ways."""
    every = fusions(["bm25t", "semantic"])
    assert len(set(every)) == len(every) == 4 + 10 * 4 * 3
    assert (WHOLE,) not in {fusion.rankings for fusion in every}, "alone it is no fusion"
    some = Fusion((STORES,), 5), Fusion((STORES, "semantic"), 60, (2.0, 1.0)), Fusion((WHOLE, STORES), 1, (4.0, 1.0))
    assert {*some, Fusion((WHOLE, STORES, "bm25t", "semantic"), 20)} < {*every}


def test_no_evaluation_query_takes_part_in_the_choice(task, fitted, by_store):
    training = rankings_to_fuse(task, fitted[1], by_store, task.training)
    labels = task.gold.set_index("query")["relevant"]
    asked, rng = task.queries_of("evaluation"), np.random.default_rng(0)
    candidates = task.pairs.groupby("query")["item"].agg(list)
    drawn = {query: rng.permutation(candidates[query])[: len(labels[query])].tolist() for query in asked}
    permuted = replace(task, gold=task.gold.assign(relevant=[drawn.get(name, labels[name]) for name in labels.index]))
    assert (permuted.relevant != task.relevant)[task.evaluation].any()
    _, scores = permuted.fit()
    stores = permuted.cross_fit(task.training, by_store=True)
    again = rankings_to_fuse(permuted, scores, stores, task.training)
    for name, run in training.items():
        pd.testing.assert_frame_equal(again[name], run)
    assert chosen(permuted, again) == chosen(task, training)


def test_a_hybrid_weighs_by_labels_of_training_queries_and_on_new_topics_of_other_topics(task):
    def relabelled(rows, by):
        """A task in which some pairs are relevant where a text score ranks them high."""
        other = replace(task)
        best = task.pairs.assign(score=task.text[by]).groupby("query")["score"].rank(ascending=False) <= 3
        other.__dict__["relevant"] = np.where(rows, best, task.relevant)
        return other

    scores, shares = hybrid(task, [3, 10])
    for by in ("bm25t", "semantic"):
        again = hybrid(relabelled(task.evaluation, by), [3, 10])
        assert again[1] == shares
        for topics, values in scores.items():
            np.testing.assert_array_equal(again[0][topics], values)
        for fold in set(task.topic_fold):
            assert hybrid(relabelled(task.topic_fold == fold, by), [3, 10])[1][f"new {fold}"] == shares[f"new {fold}"]
    taught = {by: hybrid(relabelled(task.training, by), [3])[1] for by in ("bm25t", "semantic")}
    assert set(taught["semantic"].values()) == {1.0}
    assert max(taught["bm25t"].values()) < 0.5
    alone = task.rank(hybrid(relabelled(task.training, "semantic"), [3])[0]["new"])
    assert alone["item"].tolist() == task.rank(task.text["semantic"])["item"].tolist()


def test_orders_and_rankers_are_kept_under_their_key_and_rank_as_they_did(task, fitted, tmp_path):
    paths = shipped, own = tmp_path / "shipped.npz", tmp_path / "own" / "arrays.npz"
    scores = np.random.default_rng(0).integers(0, 5, len(task.pairs)) / 3.0
    first = Kept(task, "key", *paths)
    taken = first.scores("known", lambda: {"mine": scores})
    assert task.rank(taken["mine"])["item"].tolist() == task.rank(scores)["item"].tolist()
    first.rankers("whole", lambda: {"all": fitted[0]})
    own.rename(shipped)
    again = Kept(task, "key", *paths)
    assert (first.shipped, again.shipped) == (False, True)
    np.testing.assert_array_equal(again.scores("known", lambda: 1 / 0)["mine"], taken["mine"])
    ranker = again.rankers("whole", lambda: 1 / 0)["all"]
    np.testing.assert_array_equal(ranker.predict(task.features), fitted[0].predict(task.features))
    assert again.take("others", lambda: {"x": scores})["x"] is scores
    assert {name.partition("/")[0] for name in Kept(task, "key", own).arrays} == {"known", "whole", "others"}
    with pytest.raises(ZeroDivisionError):
        Kept(task, "another", *paths).scores("known", lambda: 1 / 0)


def test_what_is_kept_is_of_one_world_and_one_way_to_learn(task, tmp_path):
    """And not of the last bits of the embeddings, which other processors give otherwise."""

    def key(task, *how):
        return kept_for(task, *(how or ("words", 0.75, {})), tmp_path, tmp_path).key

    shifted = replace(task, features=task.features + 1e-7)
    others = [
        replace(task, queries=task.queries.assign(text="else")),
        replace(task, opens=task.opens.iloc[1:]),
        replace(task, seed=8),
        replace(task, features=task.features.drop(columns="bm25t")),
    ]
    keys = {key(task), *map(key, others), key(task, "words", 0.5, {}), key(task, "words", 0.75, {"a": np.ones(2)})}
    assert len(keys) == 7
    assert key(shifted) == key(task)
