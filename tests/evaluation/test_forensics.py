"""Bounds that follow from published means."""

import itertools
import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lib.evaluation.forensics import cut_to_recall, is_share_of, ndcg_upper_bound, random_recall
from lib.evaluation.ranking import hit_matrix, ndcg_at_k, recall_from_hits

PUBLISHED = Path(__file__).resolve().parents[2] / "data" / "published"


@pytest.fixture(scope="module")
def published():
    """{(method, metric): {k: share}}"""
    table = pd.read_csv(PUBLISHED / "context_retrieval.csv")
    return {
        key: dict(zip(part["k"].tolist(), (part["value"] / 100).tolist(), strict=True))
        for key, part in table.groupby(["method", "metric"])
    }


# ---------------------------------------------------------------- the published table


def test_bound_of_the_published_bm25(published):
    bound = ndcg_upper_bound(published["bm25t", "recall"], 3, published["lambdamart_rrf", "recall"])
    assert bound == pytest.approx(0.287, abs=5e-4)
    assert published["bm25t", "ndcg"][3] > bound


def test_bound_of_the_published_bm25_under_the_other_ideal(published):
    """Even the ideal of the retrieved list cannot explain the value, if queries without a hit count 0."""
    reference = published["lambdamart_rrf", "recall"]
    bound = ndcg_upper_bound(published["bm25t", "recall"], 3, reference, score="retrieved_or_zero")
    assert bound == pytest.approx(0.528, abs=5e-4)
    assert published["bm25t", "ndcg"][3] > bound


def test_bound_of_the_published_cot(published):
    bound = ndcg_upper_bound(published["cot", "recall"], 3, published["lambdamart_rrf", "recall"])
    assert 0.933 < bound <= 0.9332
    assert published["cot", "ndcg"][3] > bound


def test_more_relevant_items_only_loosen_the_bound(published):
    recall, reference = published["bm25t", "recall"], published["lambdamart_rrf", "recall"]
    bounds = [ndcg_upper_bound(recall, 3, reference, max_relevant=most) for most in (10, 20, 40)]
    assert bounds[0] <= bounds[1] + 1e-9
    assert bounds[1] <= bounds[2] + 1e-9
    assert bounds[2] == pytest.approx(bounds[1], abs=1e-3)  # and 40 is enough


# ---------------------------------------------------------------- tiny cases


def test_bound_in_closed_form():
    """Cutoff 1, at most two relevant items. Reference .8 needs 60% of queries with one relevant item; of the method's
    recall .5, at most .2 comes at half price from the other 40% and .3 from the first: 70% of queries with a hit."""
    for score in ("all", "retrieved_or_zero"):
        assert ndcg_upper_bound({1: 0.5}, 1, {1: 0.8}, score, max_relevant=2) == pytest.approx(0.7, abs=1e-3)


def test_one_relevant_item_everywhere():
    """The reference finds everything at 1, so NDCG@1 is recall@1."""
    assert ndcg_upper_bound({1: 0.3, 2: 0.6}, 1, {1: 1.0, 2: 1.0}) == pytest.approx(0.3, abs=1e-3)
    at_2 = 0.3 + 0.3 / math.log2(3)
    assert ndcg_upper_bound({1: 0.3, 2: 0.6}, 2, {1: 1.0, 2: 1.0}) == pytest.approx(at_2, abs=1e-3)


def test_no_arrangement_of_three_queries_beats_the_bound():
    """Brute force over every pair of rankings of three queries with one or two relevant items, cutoffs 1 and 2."""
    outcomes = [(n, hits) for n in (1, 2) for hits in itertools.product((0, 1), repeat=2) if sum(hits) <= n]
    joint = [(n, a, b) for n, a in outcomes for m, b in outcomes if n == m]
    best = {}
    for queries in itertools.combinations_with_replacement(joint, 3):
        recalls = tuple(
            round(sum(sum(q[which][:k]) / q[0] for q in queries) / 3, 9) for which in (1, 2) for k in (1, 2)
        )
        ndcg = 0.0
        hit_share = sum(any(hits) for _, hits, _ in queries) / 3
        for n, hits, _ in queries:
            gains = {f"r{i}": 1 for i in range(n)}
            ranked = [f"r{i}" if hit else f"x{i}" for i, hit in enumerate(hits)]
            if n == 1 and hits[1]:
                ranked[1] = "r0"
            ndcg += ndcg_at_k(ranked, gains, 2) / 3
        old = best.get(recalls, (0.0, 0.0))
        best[recalls] = max(old[0], ndcg), max(old[1], hit_share)
    assert len(best) > 100
    tight = 0
    for (a1, a2, b1, b2), (ndcg, hit_share) in itertools.islice(best.items(), 0, None, 4):
        bound = ndcg_upper_bound({1: a1, 2: a2}, 2, {1: b1, 2: b2}, max_relevant=2)
        assert ndcg <= bound + 1e-9
        loose = ndcg_upper_bound({1: a1, 2: a2}, 2, {1: b1, 2: b2}, "retrieved_or_zero", max_relevant=2)
        assert hit_share <= loose + 1e-9
        tight += bound < ndcg + 1e-3
    assert tight > 20  # the bound is reached, not merely kept


def test_the_bound_holds_for_random_rankings():
    rng = np.random.default_rng(0)
    for _ in range(10):
        scores = {"a": [], "b": []}
        ndcg = []
        for _ in range(40):
            n = int(rng.integers(1, 8))
            gains = {f"r{i}": 1 for i in range(n)}
            pool = [*gains, *(f"x{i}" for i in range(8))]
            for method in scores:
                ranked = rng.permutation(pool).tolist()
                scores[method].append([sum(doc in gains for doc in ranked[:k]) / n for k in (3, 5)])
                if method == "a":
                    ndcg.append(ndcg_at_k(ranked, gains, 5))
        recall, reference = ({3: r[0], 5: r[1]} for r in (np.mean(scores[m], axis=0) for m in ("a", "b")))
        assert np.mean(ndcg) <= ndcg_upper_bound(recall, 5, reference) + 1e-9


@pytest.mark.parametrize(
    ("recall", "k", "reference"),
    [
        ({3: 0.5, 5: 0.6}, 10, {3: 0.5, 5: 0.6}),
        ({3: 0.5, 5: 0.6}, 3, {3: 0.5}),
        ({3: 0.6, 5: 0.5}, 3, {3: 0.5, 5: 0.6}),
        ({3: 0.5, 5: 0.6}, 3, {3: 1.1, 5: 1.2}),
    ],
    ids=["k is no cutoff", "other cutoffs", "falling recall", "recall above 1"],
)
def test_impossible_recalls_are_refused(recall, k, reference):
    with pytest.raises(ValueError):
        ndcg_upper_bound(recall, k, reference)


# ---------------------------------------------------------------- counts


def test_five_published_cells_are_counts():
    values = pd.read_csv(PUBLISHED / "planner.csv")["value"]
    assert len(values) == 15
    assert sum(is_share_of(value, 936) for value in values) == 5


def test_as_many_percentages_are_counts_as_there_are_counts():
    assert sum(is_share_of(i / 100, 936) for i in range(10_001)) == 937


@settings(deadline=None, derandomize=True, database=None)
@given(st.integers(1, 5000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))), st.integers(0, 4))
def test_a_rounded_share_is_recognised(share, decimals):
    count, n = share
    assert is_share_of(round(100 * count / n, decimals), n, decimals)


def test_fewer_decimals_say_less():
    assert not is_share_of(33.34, 3)
    assert is_share_of(33.3, 3, decimals=1)
    assert not is_share_of(33.4, 3, decimals=1)


@pytest.mark.parametrize("percentage", [100.11, -0.11])
def test_a_share_lies_between_0_and_100(percentage):
    assert not is_share_of(percentage, 936)


# ---------------------------------------------------------------- random rankings


def test_random_recall_by_simulation():
    rng = np.random.default_rng(0)
    sizes, relevant = [2, 4, 10, 30], [1, 3, 4, 2]
    simulated = [
        np.mean([(rng.permutation(n)[:3] < r).sum() / r for _ in range(4000)])
        for n, r in zip(sizes, relevant, strict=True)
    ]
    assert random_recall(np.array(sizes), 3) == pytest.approx(np.mean(simulated), abs=0.01)


def test_random_recall_by_hand():
    assert random_recall(np.array([2, 3, 6, 12]), 3) == pytest.approx((1 + 1 + 1 / 2 + 1 / 4) / 4)


# ---------------------------------------------------------------- cutting a run


@pytest.fixture
def run_and_qrels():
    """Four queries whose relevant item has score 9, 7, 5 and 3, each behind a worthless one of a higher score."""
    run = pd.DataFrame(
        [
            row
            for i, score in enumerate([9.0, 7.0, 5.0, 3.0])
            for row in [(f"q{i}", "x", 1, score + 0.5), (f"q{i}", f"r{i}", 2, score), (f"q{i}", "y", 3, 1.0)]
        ],
        columns=["query", "item", "rank", "score"],
    )
    return run, pd.DataFrame({"query": [f"q{i}" for i in range(4)], "item": [f"r{i}" for i in range(4)]})


@pytest.mark.parametrize(("target", "threshold"), [(1.0, 3.0), (0.75, 5.0), (0.6, 5.0), (0.5, 7.0), (0.25, 9.0)])
def test_cut_to_recall_finds_the_highest_threshold(run_and_qrels, target, threshold):
    run, qrels = run_and_qrels
    short, found = cut_to_recall(run, qrels, list(qrels["query"]), 3, target)
    assert found == threshold
    assert short["score"].tolist() == run.loc[run["score"] >= threshold, "score"].tolist()
    hits, n_relevant = hit_matrix(short, qrels, list(qrels["query"]), 3)
    assert recall_from_hits(hits, n_relevant, 3).mean() >= target


def test_cut_to_recall_gives_the_whole_run_if_the_target_is_out_of_reach(run_and_qrels):
    run, qrels = run_and_qrels
    short, found = cut_to_recall(run, qrels, list(qrels["query"]), 1, 0.5)
    assert found == 1.0
    pd.testing.assert_frame_equal(short, run)


def test_cut_to_recall_agrees_with_trying_every_threshold():
    rng = np.random.default_rng(0)
    queries = [f"q{i}" for i in range(20)]
    rows = [(q, f"d{i}", i + 1, s) for q in queries for i, s in enumerate(-np.sort(-rng.integers(0, 30, size=8)))]
    run = pd.DataFrame(rows, columns=["query", "item", "rank", "score"])
    qrels = run.sample(frac=0.3, random_state=0)[["query", "item"]]
    reaching = []
    for threshold in run["score"].unique():
        hits, n_relevant = hit_matrix(run[run["score"] >= threshold], qrels, queries, 5)
        if recall_from_hits(hits, n_relevant, 5).mean() >= 0.4:
            reaching.append(threshold)
    assert 0 < len(reaching) < run["score"].nunique()
    assert cut_to_recall(run, qrels, queries, 5, 0.4)[1] == max(reaching)
