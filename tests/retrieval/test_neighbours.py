"""Nearest documents and mined pairs against brute force."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import chisquare

from lib.retrieval.neighbours import mine_pairs, nearest
from tests.retrieval.conftest import unit


def unit_vectors(number, dimensions, seed=0):
    return unit(np.random.default_rng(seed).normal(size=(number, dimensions))).astype(np.float32)


def all_pairs(vectors, threshold):
    """Every unordered pair with its cosine, one by one."""
    cosines = vectors.astype(np.float64) @ vectors.astype(np.float64).T
    a, b = np.triu_indices(len(vectors), k=1)
    return pd.DataFrame({"a": a, "b": b, "cosine": cosines[a, b], "positive": cosines[a, b] > threshold})


def pair_set(frame):
    return set(map(tuple, frame[["a", "b"]].to_numpy()))


def test_nearest_documents_are_those_of_a_full_sort():
    documents, queries = unit_vectors(200, 12), unit_vectors(30, 12, seed=1)
    indices, cosines = nearest(documents, queries, 7)
    expected = queries @ documents.T
    order = np.argsort(-expected, axis=1)[:, :7]
    assert (indices == order).all()
    assert cosines == pytest.approx(np.take_along_axis(expected, order, axis=1), abs=1e-6)


def test_ties_go_to_the_lower_index_however_many():
    documents = np.repeat(unit_vectors(3, 8), 40, axis=0)  # forty copies of each
    query = documents[[50]]
    for k in (1, 5, 40, 45, 120):
        indices, _ = nearest(documents, query, k)
        assert indices[0, :40].tolist() == list(range(40, min(40 + k, 80)))
        assert len(set(indices[0])) == k
    others = nearest(documents, query, 120)[0][0, 40:]
    assert others[:40].tolist() == sorted(others[:40])


def test_fewer_documents_than_wanted_and_none():
    documents = unit_vectors(4, 5)
    indices, cosines = nearest(documents, documents, 9)
    assert indices.shape == cosines.shape == (4, 4)
    assert (indices[:, 0] == np.arange(4)).all()
    assert nearest(documents, documents[:0], 2)[0].shape == (0, 2)
    assert nearest(documents[:0], documents, 2)[0].shape == (4, 0)


VECTORS = unit_vectors(300, 8)
THRESHOLD = 0.6


@pytest.mark.parametrize("number", [7, 400])
def test_mined_pairs_are_distinct_pairs_with_their_cosine_and_half_positive(number):
    mined, positives = mine_pairs(VECTORS, number, THRESHOLD, seed=3)
    every = all_pairs(VECTORS, THRESHOLD)
    assert positives == every["positive"].sum()
    assert len(mined) == len(pair_set(mined)) == number
    assert mined["positive"].sum() == number // 2
    found = mined.merge(every, on=["a", "b"], validate="1:1", suffixes=("", "_expected"))
    assert len(found) == number
    assert found["cosine"].to_numpy() == pytest.approx(found["cosine_expected"].to_numpy(), abs=1e-12)
    assert (found["positive"] == found["positive_expected"]).all()
    assert mined[["a", "b"]].to_numpy().tolist() == sorted(mined[["a", "b"]].to_numpy().tolist())


@pytest.mark.slow
def test_pairs_of_a_kind_are_equally_likely():
    vectors = unit_vectors(12, 3)
    every = all_pairs(vectors, 0.3)
    drawn = pd.concat([mine_pairs(vectors, 8, 0.3, seed)[0] for seed in range(600)])
    times = drawn.groupby(["a", "b"]).size().reindex(pd.MultiIndex.from_frame(every[["a", "b"]]), fill_value=0)
    for kind in (True, False):
        assert chisquare(times[(every["positive"] == kind).to_numpy()]).pvalue > 0.01


def test_the_draw_depends_on_the_seed_and_not_on_the_blocks():
    mined, positives = mine_pairs(VECTORS, 500, THRESHOLD, seed=4)
    for block in (37, 299):
        again, count = mine_pairs(VECTORS, 500, THRESHOLD, seed=4, block=block)
        pd.testing.assert_frame_equal(mined, again)
        assert count == positives
    assert pair_set(mine_pairs(VECTORS, 500, THRESHOLD, seed=5)[0]) != pair_set(mined)


def test_a_cosine_at_the_threshold_is_negative():
    vectors = np.array([[0.5, 0.5, 0.5, 0.5], [0.5, 0.5, 0.5, -0.5], [1, 0, 0, 0]], dtype=np.float32)
    mined, positives = mine_pairs(vectors, 6, 0.5, seed=0)  # all three cosines are one half
    assert positives == 0
    assert not mined["positive"].any()
    assert mine_pairs(vectors, 6, 0.4999999, seed=0)[1] == 3


def test_a_kind_that_runs_short_is_taken_whole_and_the_other_cut_to_it():
    vectors = np.eye(20, dtype=np.float32)
    vectors[7] = vectors[3]
    vectors[11] = vectors[3]
    mined, positives = mine_pairs(vectors, 100, 0.7, seed=1, block=6)
    assert positives == 3
    assert pair_set(mined[mined["positive"]]) == {(3, 7), (3, 11), (7, 11)}
    assert len(mined) == 6
    assert mine_pairs(vectors, 101, 0.7, seed=1)[0]["positive"].tolist().count(False) == 4
