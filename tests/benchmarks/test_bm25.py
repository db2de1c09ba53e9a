"""How fast BM25T is beside other implementations of BM25: compare the rows of a group; no time is asserted."""

import bm25s
import numpy as np
import pandas as pd
import pytest
from rank_bm25 import BM25Plus

from lib.retrieval.bm25 import BM25T
from lib.retrieval.stores import bm25t_scores, candidate_pairs

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


@pytest.mark.benchmark(group="bm25-federated")
@pytest.mark.parametrize("within", [["persona"], ["persona", "app"]], ids=["one index", "one a store"])
def test_federated_search(benchmark, corpus_and_queries, within):
    """100 collections of 30 documents in three stores, ten queries each."""
    corpus, query_words = corpus_and_queries
    documents = pd.DataFrame(
        {
            "item": [f"i{i}" for i in range(DOCUMENTS)],
            "persona": [f"p{i % 100}" for i in range(DOCUMENTS)],
            "app": [f"a{i // 100 % 3}" for i in range(DOCUMENTS)],
            "text": [" ".join(words) for words in corpus],
        }
    )
    queries = pd.DataFrame(
        {
            "query": [f"q{i}" for i in range(10 * QUERIES)],
            "persona": [f"p{i % 100}" for i in range(10 * QUERIES)],
            "text": [" ".join(query_words[i // 10]) for i in range(10 * QUERIES)],
        }
    )
    pairs = candidate_pairs(queries, documents, "persona")
    scores = benchmark.pedantic(bm25t_scores, args=(pairs, queries, documents, within), rounds=3)
    benchmark.extra_info.update(pairs=len(pairs), collections=100)
    assert scores.shape == (30 * 10 * QUERIES,)
    assert (scores > 0).any()
