import numpy as np
import pandas as pd
import pytest

from lib.assistant.persona_index import PersonaIndex, time_stages
from lib.assistant.ranking_task import Learning, RankingTask
from lib.assistant.second_stage import Setting, TwoStages
from lib.assistant.signals import CATEGORICAL, signals
from lib.retrieval.fusion import fuse_runs, rank_per_store
from lib.retrieval.lambdamart import train
from lib.retrieval.stores import bm25t_scores, candidate_pairs, cosine_of_pairs, rank_pairs, relevant_pairs_mask


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

    whole = rank_pairs(batch["pairs"][rows], batch["model"].predict(batch["features"][rows]))
    store = whole["item"].map(batch["items"].set_index("item")["app"])
    fused = fuse_runs([whole, rank_per_store(whole, store)], 5)
    assert index.fuse(batch["model"].predict(alone), [], 5) == fused["item"].tolist()


def test_every_stage_is_timed(batch):
    query = batch["queries"].iloc[[3]].reset_index(drop=True)
    index = index_of(batch, query["persona"].iloc[0])
    vector = batch["vectors"]["queries"][3]
    task = RankingTask.of_world(batch, batch["vectors"], Learning([10], seed=0, folds=2))
    scores = batch["model"].predict(batch["features"])
    second = TwoStages.of(task, batch["vectors"]["items"]).learn(scores, Setting(leaves=7))
    took = time_stages(index, query, lambda text: vector, batch["model"], ["semantic"], 5, second)
    assert list(took) == ["encode", "cosine", "bm25t", "signals", "predict", "sort", "fuse", "fuse_text", "second"]
