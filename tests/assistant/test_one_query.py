"""One query at a time gets what it gets among all; its steps, and what methods cost."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from lib.assistant import one_query
from lib.assistant.one_query import (
    STEPS,
    PersonaIndex,
    Rankers,
    chain_cost,
    cost_row,
    index_personas,
    ranking_costs,
    time_queries,
    time_steps,
)
from lib.assistant.ranking import STORES, WHOLE, RankingTask
from lib.assistant.second_stage import alike_by_persona, fit_second
from lib.assistant.signals import CATEGORICAL, log_similarities, signals
from lib.retrieval.fusion import Fusion, rank_per_store
from lib.retrieval.lambdamart import LambdaMART, train
from lib.retrieval.stores import bm25t_scores, candidate_pairs, cosine_of_pairs, rank_pairs, relevant_pairs_mask
from lib.retrieval.training import mapped_cosines

FUSION = Fusion((WHOLE, STORES, "semantic"), 5, (2.0, 1.0, 1.0))


@pytest.fixture(scope="module")
def batch(make_world):
    """A small world ranked in one go, and a ranker trained on it."""
    from lib.assistant.world import frames

    world = frames(make_world(seed=5, n_personas=30, n_training_queries=120, n_evaluation_queries=40))
    rng = np.random.default_rng(0)
    vectors = {name: rng.normal(size=(len(world[name]), 8)) for name in ("items", "queries")}
    vectors = {name: array / np.linalg.norm(array, axis=1, keepdims=True) for name, array in vectors.items()}
    pairs = candidate_pairs(world["queries"], world["items"], "persona")
    text = {
        "bm25t": bm25t_scores(pairs, world["queries"], world["items"], ["persona"]),
        "semantic": cosine_of_pairs(pairs, vectors["queries"], vectors["items"]),
    }
    features = signals(pairs, world["queries"], world["items"], world["opens"], text)
    truth = world["gold"][["query", "relevant"]].explode("relevant").rename(columns={"relevant": "item"})
    relevant = relevant_pairs_mask(pairs, truth)
    model = train(pairs, features, relevant, pairs["persona"].to_numpy(), CATEGORICAL, 10, seed=0, threads=1)
    return world | {"vectors": vectors, "pairs": pairs, "features": features, "model": model, "text": text}


def index_of(batch, persona):
    rows = (batch["items"]["persona"] == persona).to_numpy()
    mine = batch["items"][rows]
    opens = batch["opens"][batch["opens"]["item"].isin(mine["item"])]
    return PersonaIndex(mine, opens, batch["vectors"]["items"][rows])


@pytest.mark.parametrize("row", [0, 7, 99])
def test_one_query_alone_gets_what_it_gets_among_all(batch, row):
    query = batch["queries"].iloc[[row]].reset_index(drop=True)
    index = index_of(batch, query["persona"].iloc[0])
    scores = {
        "bm25t": index.bm25t(query["text"].iloc[0]),
        "semantic": index.semantic(batch["vectors"]["queries"][row]),
    }
    alone = index.signals(query, scores)
    rows = (batch["pairs"]["query_row"] == row).to_numpy()
    pd.testing.assert_frame_equal(alone, batch["features"][rows].reset_index(drop=True))

    # Of two stores one has a ranker; the other's items tie. What is fused for one query is fused for all.
    app = batch["items"].set_index("item")["app"]
    store = batch["pairs"]["item"][rows].map(app).to_numpy()
    part = store[0]
    rankers = Rankers(batch["model"], {part: batch["model"]}, FUSION, batch["model"])
    scores |= rankers.on_one_thread().fused_scores(alone, store)
    whole = batch["model"].predict(batch["features"][rows])
    np.testing.assert_array_equal(scores[WHOLE], whole)
    np.testing.assert_array_equal(scores[STORES], np.where(store == part, whole, 0))
    by_store = rank_pairs(batch["pairs"][rows], scores[STORES])
    runs = {
        WHOLE: rank_pairs(batch["pairs"][rows], whole),
        STORES: rank_per_store(by_store, by_store["item"].map(app)),
        "semantic": rank_pairs(batch["pairs"][rows], batch["text"]["semantic"][rows]),
    }
    assert index.fuse(FUSION, scores) == FUSION.of(runs)["item"].tolist()


def test_a_query_without_weekday_has_that_of_its_time(batch):
    query = batch["queries"].iloc[[0]].reset_index(drop=True)
    index = index_of(batch, query["persona"].iloc[0])
    given, derived = index.signals(query, {}), index.signals(query.drop(columns="weekday"), {})
    pd.testing.assert_frame_equal(given, derived)


def test_an_unknown_place_is_refused(batch):
    query = batch["queries"].iloc[[0]].reset_index(drop=True)
    index = index_of(batch, query["persona"].iloc[0])
    with pytest.raises(ValueError, match=r"no such place: 'the moon' \(there are: home, work"):
        index.signals(query.assign(place="the moon"), {})
    elsewhere = PersonaIndex(index.items, index.opens.assign(place="the moon"), index.vectors)
    with pytest.raises(ValueError, match="no such place"):
        elsewhere.signals(query, {})


def test_how_alike_logs_are_is_kept_until_the_next_open(batch):
    """Also where queries come in another order than opens, and at the very moment of one."""
    index = index_of(batch, batch["queries"]["persona"].iloc[0])
    opened = np.sort(index.opens["time"].to_numpy())
    moments = [
        opened[-1],
        opened[3],
        opened[0],
        opened[3] + np.timedelta64(1, "s"),
        opened[-1] + np.timedelta64(9, "D"),
    ]
    for moment in moments:
        times = pd.Series([moment])
        found = index.alike(times)
        expected, of_query = log_similarities(index.items, index.opens, times)
        np.testing.assert_array_equal(found.log[found.state[0]], expected[of_query[0]])
    later = pd.Series([opened[-1] + np.timedelta64(1, "h")])
    assert index.alike(later) is index.alike(times), "nothing was opened between them"


def test_every_step_is_timed(batch, monkeypatch):
    query = batch["queries"].iloc[[3]].reset_index(drop=True)
    index = index_of(batch, query["persona"].iloc[0])
    vector = batch["vectors"]["queries"][3]
    task = RankingTask.of_world(batch, batch["vectors"], 10, seed=0, folds=2)
    scores = batch["model"].predict(batch["features"])
    alike = alike_by_persona(task, batch["vectors"]["items"])
    second, _ = fit_second(task, alike, scores, batch["text"]["semantic"])
    index.adapter = np.eye(8)
    asked = []
    monkeypatch.setattr(index, "adapted", lambda given: asked.append(given) or PersonaIndex.adapted(index, given))
    rankers = Rankers(batch["model"], {"notes": batch["model"]}, FUSION, second)
    took = time_steps(index, query, lambda text: vector, rankers)
    assert set(took) == {name for names in STEPS.values() for name in names}
    assert len(asked) == 1, "the fine-tuned cosine is part of the second stage"
    assert asked[0] is vector


def test_the_map_is_applied_to_items_before_a_query_comes(batch):
    persona = batch["queries"]["persona"].iloc[0]
    rows = (batch["items"]["persona"] == persona).to_numpy()
    mine, adapter = batch["items"][rows], np.random.default_rng(2).normal(size=(8, 8))
    opens = batch["opens"][batch["opens"]["item"].isin(mine["item"])]
    index = PersonaIndex(mine, opens, batch["vectors"]["items"][rows], adapter=adapter)
    index.before(batch["queries"]["time"].iloc[[0]])
    assert "adapted_vectors" in vars(index)
    pairs = batch["pairs"][(batch["pairs"]["query_row"] == 0).to_numpy()]
    among_all = mapped_cosines(pairs, batch["vectors"]["queries"], batch["vectors"]["items"], adapter)
    np.testing.assert_allclose(index.adapted(batch["vectors"]["queries"][0]), among_all, atol=1e-12)


# ---- costs

NAMES = ["encode", "cosine", "bm25t", "signals", "predict", "sort", "predict_fused", "fuse", "fuse_text", "second"]
TOOK = pd.DataFrame([[1, 2, 4, 8, 16, 32, 64, 128, 256, 512]] * 50, columns=NAMES, dtype=float)


def test_a_method_costs_the_steps_that_it_needs():
    costs = pd.DataFrame(ranking_costs(TOOK, tokens=12.0)).set_index("method")
    assert costs["p50_ms"].to_dict() == {
        "random": 32, "recency": 32, "bm25t": 36, "semantic": 35, "finetuned": 35, "rrf_text": 263, "lambdamart": 63,
        "lambdamart_rrf": 207, "lambdamart_2": 575, "lambdamart_2_finetuned": 578,
    }  # fmt: skip
    assert costs["tokens_in"][["random", "recency", "bm25t"]].eq(0).all()
    assert costs["tokens_in"][["semantic", "finetuned", "rrf_text", "lambdamart", "lambdamart_rrf"]].eq(12).all()
    assert costs["tokens_in"]["lambdamart_2_finetuned"] == 24, "it encodes a query twice"
    assert costs["tokens_out"].eq(0).all()


def test_a_95th_percentile_needs_fifty_queries():
    assert np.isnan(cost_row("few", pd.Series([1.0] * 49), 1.0, 0.0)["p95_ms"])
    many = cost_row("many", pd.Series([1.0] * 49 + [9.0]), 2.0, 3.0)
    assert many == {"method": "many", "p50_ms": 1.0, "p95_ms": 1.0, "tokens_in": 2.0, "tokens_out": 3.0}


class Writer:
    """Answers at once; an endpoint's last request took two seconds."""

    def __init__(self):
        self.asked = []
        self.costs = [SimpleNamespace(seconds=2.0)]

    def generate(self, prompts, **settings):
        self.asked.append((list(prompts), settings))
        return ["Check notes"]


@pytest.mark.parametrize(("remote", "took"), [(False, 7.0), (True, 2000.0)])
def test_a_chain_of_thought_costs_its_writing_and_a_search(monkeypatch, remote, took):
    monkeypatch.setattr(one_query, "milliseconds", lambda step, *given, **named: (7.0, step(*given, **named)))
    writer, seen = Writer(), []
    usage = pd.Series({"prompts": 10, "tokens_in": 500, "tokens_out": 80})
    asking = ["t0", "t1"], ["p0", "p1"], {"chat": True}, usage, seen.append, 100.0, 12.0, remote
    cost = chain_cost("cot", writer, *asking)
    assert seen == ["t0 Check notes", "t1 Check notes"]
    assert writer.asked == [([prompt], {"chat": True}) for prompt in ("p0", "p0", "p1")]
    assert (cost["tokens_in"], cost["tokens_out"]) == (50 + 12 + 8, 8)
    assert cost["p50_ms"] == took + 7.0 + 100.0


def test_every_persona_has_its_own_items_and_vectors():
    items = pd.DataFrame(
        {"item": ["b", "a", "c"], "persona": ["p", "p", "q"], "app": "notes", "text": ["dough", "walk", "call"]}
    )
    opens = pd.DataFrame({"item": ["a", "c"], "time": pd.Timestamp("2023-12-01"), "place": "home"})
    adapter = np.diag([2.0, 1.0, 1.0])
    indexes = index_personas(items, opens, np.eye(3), ["p"], 0.75, adapter)
    assert indexes["p"].adapter is adapter
    assert list(indexes) == ["p"]
    assert indexes["p"].names == ["a", "b"]
    np.testing.assert_array_equal(indexes["p"].vectors, np.eye(3)[[1, 0]])
    assert indexes["p"].opens["item"].tolist() == ["a"]


def test_the_first_query_is_timed_twice_and_on_one_thread(monkeypatch):
    calls, ready = [], []

    def steps(index, query, encode, rankers):
        assert {rankers.whole.threads, rankers.second.threads, rankers.stores["notes"].threads} == {1}
        calls.append((index.name, query["text"].item()))
        return {"encode": float(len(calls))}

    monkeypatch.setattr(one_query, "time_steps", steps)
    queries = pd.DataFrame({"text": ["t0", "t1"], "persona": ["p", "q"], "time": [3, 4]})
    indexes = {
        name: SimpleNamespace(name=name.upper(), before=lambda times: ready.append((times.item(), len(calls))))
        for name in "pq"
    }
    ranker = LambdaMART(None, threads=4)
    found = time_queries(indexes, queries, None, Rankers(ranker, {"notes": ranker}, FUSION, ranker))
    assert calls == [("P", "t0"), ("P", "t0"), ("Q", "t1")]
    assert ready == [(3, 0), (4, 0)], "what items and log say is known before a query comes"
    assert found["encode"].tolist() == [2.0, 3.0]
