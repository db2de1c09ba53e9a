"""How fast BM25T is beside other implementations of BM25: compare the rows of a group; no time is asserted."""

import bm25s
import numpy as np
import pytest
from rank_bm25 import BM25Plus

from lib.retrieval.bm25 import BM25T

DOCUMENTS, QUERIES, TOP = 3000, 100, 10


@pytest.fixture(scope="module")
def corpus_and_queries():
    """Zipfian words: documents of 5 to 40, queries of 3 to 8."""
    rng = np.random.default_rng(0)
    words = np.array([f"w{i}" for i in range(4000)])
    chances = 1 / np.arange(1, len(words) + 1)
    chances /= chances.sum()

    def texts(n, low, high):
        return [rng.choice(words, size=rng.integers(low, high + 1), p=chances).tolist() for _ in range(n)]

    return texts(DOCUMENTS, 5, 40), texts(QUERIES, 3, 8)


def search_bm25t(corpus, queries):
    index = BM25T(corpus)
    return np.array([index.get_scores(query) for query in queries])


def search_bm25plus(corpus, queries):
    index = BM25Plus(corpus)
    return np.array([index.get_scores(query) for query in queries])


def search_bm25s(corpus, queries):
    index = bm25s.BM25(method="bm25+")
    index.index(corpus, show_progress=False)
    return np.array([index.get_scores(query) for query in queries])


@pytest.mark.benchmark(group="bm25")
@pytest.mark.parametrize("search", [search_bm25t, search_bm25plus, search_bm25s], ids=["bm25t", "rank_bm25", "bm25s"])
def test_index_and_search(benchmark, corpus_and_queries, search):
    scores = benchmark.pedantic(search, args=corpus_and_queries, rounds=3, warmup_rounds=1)
    benchmark.extra_info.update(documents=DOCUMENTS, queries=QUERIES)
    assert scores.shape == (QUERIES, DOCUMENTS)
    assert np.isfinite(scores).all()
