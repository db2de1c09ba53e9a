import numpy as np
import pandas as pd
import pytest

from lib.assistant.persona_index import PersonaIndex, time_stages
from lib.assistant.ranking_task import Learning, RankingTask
from lib.assistant.rrf_readings import STORES, WHOLE, FusedRankers
from lib.assistant.second_stage import TwoStages
from lib.assistant.signals import CATEGORICAL, log_similarities, signals
from lib.retrieval.adapter import adapted_cosines
from lib.retrieval.fusion import Fusion, rank_per_store
from lib.retrieval.lambdamart import train
from lib.retrieval.stores import bm25t_scores, candidate_pairs, cosine_of_pairs, rank_pairs, relevant_pairs_mask

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
    fused = FusedRankers(FUSION, {WHOLE: {WHOLE: batch["model"]}, STORES: {part: batch["model"]}})
    scores |= fused.scores(alone, store)
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
        found, state = index.log_similarity(times)
        expected, of_query = log_similarities(index.items, index.opens, times)
        np.testing.assert_array_equal(found[state[0]], expected[of_query[0]])
    later = pd.Series([opened[-1] + np.timedelta64(1, "h")])
    assert index.log_similarity(later) is index.log_similarity(times), "nothing was opened between them"


def test_every_stage_is_timed(batch, monkeypatch):
    query = batch["queries"].iloc[[3]].reset_index(drop=True)
    index = index_of(batch, query["persona"].iloc[0])
    vector = batch["vectors"]["queries"][3]
    task = RankingTask.of_world(batch, batch["vectors"], Learning([10], seed=0, folds=2))
    scores = batch["model"].predict(batch["features"])
    second = TwoStages.of(task, batch["vectors"]["items"], batch["text"]["semantic"]).fit(scores).stage
    index.adapter = np.eye(8)
    asked = []
    monkeypatch.setattr(index, "adapted", lambda given: asked.append(given) or PersonaIndex.adapted(index, given))
    fused = FusedRankers(FUSION, {WHOLE: {WHOLE: batch["model"]}, STORES: {"notes": batch["model"]}})
    took = time_stages(index, query, lambda text: vector, batch["model"], fused, second)
    assert list(took) == [
        "encode", "cosine", "bm25t", "signals", "predict", "sort", "predict_fused", "fuse", "fuse_text", "second",
    ]  # fmt: skip
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
    among_all = adapted_cosines(pairs, batch["vectors"]["queries"], batch["vectors"]["items"], adapter)
    np.testing.assert_allclose(index.adapted(batch["vectors"]["queries"][0]), among_all, atol=1e-12)
