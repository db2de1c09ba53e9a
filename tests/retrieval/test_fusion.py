"""Reciprocal rank fusion: by hand, ties, and the two forms against each other."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lib.retrieval.fusion import Fusion, choose_fusion, fuse_runs, rank_per_store, reciprocal_rank_fusion
from tests.retrieval.conftest import run_of

RANKINGS = st.lists(st.lists(st.sampled_from("abcdefgh"), unique=True, max_size=8), min_size=1, max_size=5)


def test_by_hand():
    fused = reciprocal_rank_fusion([["a", "b", "c"], ["b", "d"]], k=60)
    assert [item for item, _ in fused] == ["b", "a", "d", "c"]
    assert dict(fused) == pytest.approx({"b": 1 / 62 + 1 / 61, "a": 1 / 61, "d": 1 / 62, "c": 1 / 63}, abs=1e-15)


@pytest.mark.parametrize("k", [-0.5, float("nan")])
def test_negative_k_is_an_error(k):
    with pytest.raises(ValueError, match="k must be at least 0"):
        reciprocal_rank_fusion([["a"]], k=k)


def test_what_is_no_ranking_is_an_error():
    with pytest.raises(ValueError, match="ranking 1 names a document twice"):
        reciprocal_rank_fusion([["a"], ["b", "a", "b"]])
    with pytest.raises(ValueError, match="run 0 names an item twice"):
        fuse_runs([run_of(q=["a", "b", "a"])])
    for rank in (0, -60, float("nan")):
        with pytest.raises(ValueError, match="run 0 has a rank"):
            fuse_runs([run_of(q=["a"]).assign(rank=rank)])
    with pytest.raises(ValueError, match="ranking 0 is the text 'bm25'"):  # or the letters of the names are fused
        reciprocal_rank_fusion({"bm25": ["a", "b"], "rank": ["b", "a"]})


@settings(deadline=None)
@given(rankings=RANKINGS, k=st.sampled_from([0, 1, 7, 60]), seed=st.integers(0, 9))
def test_the_order_of_the_rankings_does_not_matter(rankings, k, seed):
    shuffled = [rankings[i] for i in np.random.default_rng(seed).permutation(len(rankings))]
    assert reciprocal_rank_fusion(shuffled, k) == reciprocal_rank_fusion(rankings, k)


@settings(deadline=None, max_examples=50)
@given(first=RANKINGS, second=RANKINGS, k=st.sampled_from([0, 1, 60]))
def test_frames_agree_with_lists(first, second, k):
    both = {"q2": first, "q1": second}
    depth = max(len(first), len(second))
    runs = [run_of(**{query: lists[i] for query, lists in both.items() if i < len(lists)}) for i in range(depth)]
    fused = fuse_runs(runs, k)
    for query, lists in both.items():
        part = fused[fused["query"] == query]
        expected = reciprocal_rank_fusion(lists, k)
        assert part["item"].tolist() == [item for item, _ in expected]
        assert part["score"].tolist() == pytest.approx([score for _, score in expected], abs=1e-15)
        assert part["rank"].tolist() == list(range(1, len(expected) + 1))


def test_sums_that_differ_only_in_rounding_are_ties_in_both_forms():
    rankings = [list("ge"), list("abghecf"), list("aegbf"), list("fabghce")]
    frames = [run_of(q=ranking) for ranking in rankings]
    expected = [item for item, _ in reciprocal_rank_fusion(rankings, 0)]
    assert fuse_runs(frames, 0)["item"].tolist() == expected


def test_ranks_per_store():
    run = run_of(q1=["m1", "c1", "m2", "c2"], q2=["c1", "m1"])
    per_store = rank_per_store(run, run["item"].str[0])
    assert per_store["rank"].tolist() == [1, 1, 2, 2, 1, 1]
    rankings = [["m1", "m2"], ["c1", "c2"]]
    assert fuse_runs([per_store])["item"].tolist()[:4] == [item for item, _ in reciprocal_rank_fusion(rankings)]


def test_the_fusion_that_finds_most_is_chosen_and_of_equals_the_simplest():
    right, wrong = run_of(q1=list("abcd"), q2=list("bacd")), run_of(q1=list("dcba"), q2=list("dcab"))
    qrels = pd.DataFrame({"query": ["q1", "q2"], "item": ["a", "b"]})
    runs = {"right": right, "again": right, "wrong": wrong}
    names = ("wrong",), ("right", "wrong"), ("right", "again"), ("right",)
    tried = [Fusion(each, k) for each in names for k in (60, 1)]
    assert choose_fusion(runs, tried, qrels, ["q1", "q2"], [1, 2]) == Fusion(("right",), 1)
    assert choose_fusion(runs, tried[:4], qrels, ["q1", "q2"], [1]).rankings == ("right", "wrong")
    weighted = [Fusion(("right", "wrong"), 1, weights) for weights in ((1.0, 9.0), (9.0, 1.0))]
    assert choose_fusion(runs, weighted, qrels, ["q1", "q2"], [1]) == weighted[1]


def test_weights_by_hand():
    # 2/(1+1) + 1/(1+2) for a, 2/(1+2) + 1/(1+1) for b
    fused = fuse_runs([run_of(q=list("ab")), run_of(q=list("ba"))], 1, (2, 1))
    assert fused["item"].tolist() == ["a", "b"]
    assert fused["score"].tolist() == pytest.approx([1 + 1 / 3, 2 / 3 + 1 / 2])


@pytest.mark.parametrize("weights", [(1,), (1, 0), (1, float("nan"))])
def test_weights_that_are_none_are_refused(weights):
    with pytest.raises(ValueError, match="weights must be"):
        fuse_runs([run_of(q=["a"])] * 2, 60, weights)
