"""Federated search: candidates, ranks, ties, indexes."""

import hashlib

import numpy as np
import pandas as pd
import pytest

from lib.retrieval.bm25 import BM25T, tokenize
from lib.retrieval.stores import (
    best_first,
    bm25t_scores,
    candidate_pairs,
    cosine_of_pairs,
    folds_of,
    nested_sample,
    rank_pairs,
)

WORDS = "guitar lesson rent due milk bread piano concert ticket train flight hotel dentist birthday cake".split()


def task():
    """(queries, documents): random texts, some of them equal, in collections `persona` with stores `app`."""
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice(WORDS, size=rng.integers(1, 8))) for _ in range(30)]
    documents = pd.DataFrame(
        {
            "item": [f"i{i}" for i in rng.permutation(60)],
            "persona": [f"p{i % 4}" for i in range(60)],
            "app": rng.choice(["calendar", "mail", "notes"], size=60),
            "text": texts * 2,
        }
    )
    asked = [(f"q{i}", f"p{i % 4}", " ".join(rng.choice(WORDS, size=rng.integers(1, 5)))) for i in rng.permutation(15)]
    return pd.DataFrame(asked, columns=["query", "persona", "text"]), documents


def test_candidates_by_hand():
    queries = pd.DataFrame({"query": ["q2", "q1", "q3"], "persona": ["b", "a", "nobody"]})
    documents = pd.DataFrame({"item": ["i3", "i1", "i2", "i0"], "persona": ["a", "b", "a", "b"]})
    pairs = candidate_pairs(queries, documents, "persona")
    assert pairs[["query", "item"]].to_numpy().tolist() == [["q2", "i0"], ["q2", "i1"], ["q1", "i2"], ["q1", "i3"]]
    assert pairs["query_row"].tolist() == [0, 0, 1, 1]
    assert pairs["item_row"].tolist() == [3, 1, 2, 0]
    assert pairs.index.tolist() == [0, 1, 2, 3]


def test_ties_are_broken_by_the_hash_of_the_id():
    items = [f"item-{i}" for i in range(40)]
    queries = pd.DataFrame({"query": ["q"], "persona": ["p"]})
    pairs = candidate_pairs(queries, pd.DataFrame({"item": items, "persona": "p"}), "persona")
    ranked = rank_pairs(pairs, np.zeros(40))["item"].tolist()
    assert ranked == sorted(items, key=lambda item: hashlib.blake2b(item.encode(), digest_size=8).digest())
    assert ranked != sorted(items)


def test_one_query_is_ranked_as_all_are():
    queries, documents = task()
    pairs = candidate_pairs(queries, documents, "persona")
    scores = np.random.default_rng(1).integers(0, 4, len(pairs)) / 3 + 1e-12 * np.arange(len(pairs))
    ranked = rank_pairs(pairs, scores)
    for query, group in pairs.groupby("query"):
        expected = ranked.loc[ranked["query"] == query, "item"].tolist()
        assert best_first(group["item"].tolist(), scores[group.index]) == expected


@pytest.mark.parametrize("bad", [np.nan, -np.inf])
def test_scores_that_are_not_finite_are_refused(bad):
    pairs = candidate_pairs(*task(), "persona")
    scores = np.zeros(len(pairs))
    scores[3] = bad
    with pytest.raises(ValueError, match="finite"):
        rank_pairs(pairs, scores)


@pytest.mark.parametrize("within", [["persona"], ["persona", "app"]], ids=["one index", "one a store"])
def test_scores_equal_those_of_a_direct_index(within):
    queries, documents = task()
    pairs = candidate_pairs(queries, documents, "persona")
    scores = bm25t_scores(pairs, queries, documents, within, b=0.2)
    texts = queries.set_index("query")["text"]
    expected = {}
    for _, part in documents.groupby(within):
        index = BM25T([tokenize(text) for text in part["text"]], b=0.2)
        for query in queries.loc[queries["persona"] == part["persona"].iloc[0], "query"]:
            for item, score in zip(part["item"], index.get_scores(tokenize(texts[query])), strict=True):
                expected[query, item] = score
    assert len(expected) == len(pairs)
    assert scores == pytest.approx([expected[pair] for pair in zip(pairs["query"], pairs["item"], strict=True)])
    assert (scores > 0).any()


def test_cosines_do_not_depend_on_how_many_are_computed_together(monkeypatch):
    vectors = np.random.default_rng(0).normal(size=(2, 5, 384)).astype(np.float32)
    pairs = pd.DataFrame({"query_row": [0, 1, 1, 2, 4, 0, 3], "item_row": [4, 0, 1, 1, 1, 2, 3]})
    whole = np.einsum("ij,ij->i", vectors[0][pairs["query_row"]], vectors[1][pairs["item_row"]])
    monkeypatch.setattr("lib.retrieval.stores.PAIRS_AT_ONCE", 3)
    np.testing.assert_array_equal(cosine_of_pairs(pairs, *vectors), whole)
    assert cosine_of_pairs(pairs[:0], *vectors).shape == (0,)


@pytest.fixture
def asked():
    """Twelve personas with two queries each."""
    names = [(f"p{person}-q{number}", f"p{person}") for person in range(12) for number in range(2)]
    return pd.DataFrame(names, columns=["query", "persona"])


def test_samples_are_nested_and_hold_whole_personas(asked):
    small, large = (nested_sample(asked, size, "persona", seed=1) for size in (6, 15))
    assert (len(small), len(large)) == (6, 15)
    assert set(small["query"]) < set(large["query"])
    assert small["persona"].nunique() == 3
    assert set(nested_sample(asked, 6, "persona", seed=2)["query"]) != set(small["query"])
    assert len(nested_sample(asked, 99, "persona", seed=1)) == len(asked)


def test_folds_keep_a_persona_together(asked):
    folds = folds_of(asked["persona"], 2, seed=1)
    assert set(folds) == {0, 1}
    assert pd.Series(folds).groupby(asked["persona"].to_numpy()).nunique().eq(1).all()
    assert (folds == folds_of(asked["persona"][::-1], 2, seed=1)[::-1]).all()
