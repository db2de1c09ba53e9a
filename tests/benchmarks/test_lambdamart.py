"""What a query costs by LambdaMART-RRF, stage by stage, beside one chain of thought; no time is asserted but one as a
share of another."""

from itertools import cycle

import numpy as np
import pytest

from lib.assistant.one_query import PersonaIndex
from lib.generation.models import ModelError, locate
from lib.retrieval.dense import encode, load_encoder

GROUP = "one query"


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


def time_each(benchmark, function, inputs, rounds=200):
    """Times `function` on one input after the other."""
    following = cycle(inputs)
    return benchmark.pedantic(
        function, setup=lambda: ((next(following),), {}), rounds=rounds, iterations=1, warmup_rounds=5
    )


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
