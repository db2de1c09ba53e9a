"""What a query costs by LambdaMART-RRF, stage by stage, beside one chain of thought; no time is asserted but one as a
share of another."""

from itertools import cycle

import numpy as np
import pytest

from lib.assistant.one_query import PersonaIndex
from lib.assistant.ranking import WHOLE
from lib.assistant.signals import CATEGORICAL, signals
from lib.generation.models import ModelError, locate
from lib.retrieval.dense import encode, load_encoder
from lib.retrieval.fusion import Fusion
from lib.retrieval.lambdamart import train
from lib.retrieval.stores import bm25t_scores, candidate_pairs, relevant_pairs_mask

GROUP = "one query"


@pytest.fixture(scope="module")
def model(tables):
    """LambdaMART on the signals of the training queries."""
    queries = tables["queries"].query("split == 'training'")
    pairs = candidate_pairs(queries, tables["items"], "persona")
    text = bm25t_scores(pairs, queries, tables["items"], ["persona"])
    features = signals(pairs, queries, tables["items"], tables["opens"], {"bm25t": text, "cosine": text})
    gold = tables["gold"].explode("relevant")
    relevant = relevant_pairs_mask(pairs, gold[["query", "relevant"]].rename(columns={"relevant": "item"}))
    return train(pairs, features, relevant, pairs["persona"].to_numpy(), CATEGORICAL, cutoff=10, seed=7, threads=1)


@pytest.fixture(scope="module")
def tasks(tables):
    """Of each evaluation query: its persona's index, its row and text scores."""
    rng = np.random.default_rng(0)
    tasks = []
    for _, query in tables["queries"].query("split == 'evaluation'").groupby("query", sort=False):
        items = tables["items"][tables["items"]["persona"] == query["persona"].iloc[0]]
        opens = tables["opens"][tables["opens"]["item"].isin(items["item"])]
        index = PersonaIndex(items, opens, np.zeros((len(items), 1)))
        tasks.append((index, query, {name: rng.random(len(items)) for name in ("bm25t", "cosine")}))
    return tasks


def compute_signals(task):
    index, query, text_scores = task
    return index.signals(query, text_scores)


def rank_and_fuse(task, scores):
    """The ranking by LambdaMART fused with both of the texts."""
    index, _, text_scores = task
    fusion = Fusion((WHOLE, *text_scores), 60)
    return index.fuse(fusion, {WHOLE: scores, **text_scores})


def time_each(benchmark, function, inputs, rounds=200):
    """Times `function` on one input after the other."""
    following = cycle(inputs)
    return benchmark.pedantic(
        function, setup=lambda: ((next(following),), {}), rounds=rounds, iterations=1, warmup_rounds=5
    )


@pytest.mark.benchmark(group=GROUP)
def test_signals(benchmark, rate, tasks):
    features = time_each(benchmark, compute_signals, tasks)
    rate("usage signals of all candidates", 1, "queries")
    assert len(features) > 0


@pytest.mark.benchmark(group=GROUP)
def test_fusion(benchmark, rate, model, tasks):
    scored = [(task, model.predict(compute_signals(task))) for task in tasks]
    fused = time_each(benchmark, lambda pair: rank_and_fuse(*pair), scored)
    rate("rankings and their fusion", 1, "queries")
    assert len(fused) > 0


@pytest.mark.benchmark(group=GROUP)
def test_lambdamart_rrf(benchmark, rate, model, tasks):
    """Features, prediction and fusion."""
    fused = time_each(benchmark, lambda task: rank_and_fuse(task, model.predict(compute_signals(task))), tasks)
    rate("LambdaMART-RRF: signals, prediction, fusion", 1, "queries")
    assert len(fused) > 0


@pytest.mark.benchmark(group=GROUP)
def test_semantic_search(benchmark, rate, tasks):
    """The query's embedding and its cosines with the persona's items, whose embeddings are at hand."""
    try:
        encoder = load_encoder(locate("all-MiniLM-L6-v2"), threads=2)
    except ModelError as error:
        pytest.skip(str(error))
    inputs = []
    for index, query, _ in tasks[:20]:
        vectors = encode(encoder, index.items["text"].tolist())
        inputs.append((PersonaIndex(index.items, index.opens, vectors), query["text"].iloc[0]))
    scores = time_each(benchmark, lambda pair: pair[0].semantic(encode(encoder, [pair[1]])[0]), inputs, 60)
    rate("semantic search, items' embeddings at hand", 1, "queries")
    assert np.isfinite(scores).all()
