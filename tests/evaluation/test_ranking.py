"""Recall and NDCG: by hand, against ir_measures, and by their properties."""

import math

import ir_measures
import numpy as np
import pandas as pd
import pytest
from ir_measures import R, nDCG

from lib.evaluation.ranking import checked_run, hit_matrix, ndcg_at_k, ndcg_from_hits, recall_at_k, recall_from_hits
from lib.workbook.inputs import InputError

CUTOFFS = (1, 3, 5, 10)


def random_task(seed: int, n_queries: int, highest_gain: int):
    """(rankings, gains) by query: short and empty rankings, queries without hits or without relevant items."""
    rng = np.random.default_rng(seed)
    items = [f"d{i}" for i in range(25)]
    rankings, gains = {}, {}
    for number in range(n_queries):
        query = f"q{number}"
        order = rng.permutation(items).tolist()
        judged = rng.permutation(items).tolist()[: rng.integers(1, 20)]
        gains[query] = {item: int(rng.integers(0, highest_gain + 1)) for item in judged}
        if number % 7 == 0:
            gains[query] = dict.fromkeys(judged, 0)
        if number % 5 == 0:
            order = [item for item in order if item not in judged]
        rankings[query] = order[: rng.integers(0, 16)] if number % 3 else order
    return rankings, gains


def reference_scores(rankings, gains):
    """{(measure, query): value} as ir_measures has them."""
    qrels = [ir_measures.Qrel(q, item, gain) for q, judged in gains.items() for item, gain in judged.items()]
    run = [ir_measures.ScoredDoc(q, d, float(-i)) for q, ranked in rankings.items() for i, d in enumerate(ranked)]
    measures = [measure @ k for k in CUTOFFS for measure in (R, nDCG)]
    return {(str(m.measure), m.query_id): m.value for m in ir_measures.iter_calc(measures, qrels, run)}


def as_frames(rankings, gains):
    run = [(q, item, rank) for q, ranked in rankings.items() for rank, item in enumerate(ranked, start=1)]
    relevant = [(q, item) for q, judged in gains.items() for item, gain in judged.items() if gain > 0]
    return pd.DataFrame(run, columns=["query", "item", "rank"]), pd.DataFrame(relevant, columns=["query", "item"])


def test_ndcg_by_hand():
    gains = dict.fromkeys(["a", "b", "missed"], 1)
    dcg = 1 / math.log2(3) + 1 / math.log2(5)
    assert recall_at_k(["x", "a", "y", "b"], {"a", "b", "missed"}, 3) == pytest.approx(1 / 3)
    assert ndcg_at_k(["x", "a", "y", "b"], gains, 4) == pytest.approx(dcg / (1 + 1 / math.log2(3) + 1 / 2))
    assert ndcg_at_k(["x", "a", "y", "b"], gains, 4, ideal="retrieved") == pytest.approx(dcg / (1 + 1 / math.log2(3)))


def test_nothing_relevant():
    assert recall_at_k(["a", "b"], set(), 2) == ndcg_at_k(["a", "b"], {}, 2) == ndcg_at_k(["a"], {"a": 0}, 2) == 0.0
    assert math.isnan(ndcg_at_k(["a", "b"], {"a": 0}, 2, ideal="retrieved"))


@pytest.mark.parametrize("highest_gain", [1, 4], ids=["binary", "graded"])
def test_agreement_with_ir_measures(highest_gain):
    rankings, gains = random_task(seed=highest_gain, n_queries=300, highest_gain=highest_gain)
    reference = reference_scores(rankings, gains)
    assert len(reference) == 300 * 2 * len(CUTOFFS)
    for query, ranked in rankings.items():
        relevant = {item for item, gain in gains[query].items() if gain > 0}
        for k in CUTOFFS:
            assert recall_at_k(ranked, relevant, k) == pytest.approx(reference[f"R@{k}", query], abs=1e-9)
            assert ndcg_at_k(ranked, gains[query], k) == pytest.approx(reference[f"nDCG@{k}", query], abs=1e-9)


def test_matrix_functions_agree_with_single_query_functions():
    rankings, gains = random_task(seed=5, n_queries=300, highest_gain=1)
    run, qrels = as_frames(rankings, gains)
    queries = list(rankings)
    shuffled = run.sample(frac=1, random_state=1)
    hits, n_relevant = hit_matrix(shuffled, qrels, queries, max(CUTOFFS))
    for k in CUTOFFS:
        relevant = [{item for item, gain in gains[q].items() if gain > 0} for q in queries]
        recall = [recall_at_k(rankings[q], r, k) for q, r in zip(queries, relevant, strict=True)]
        assert recall_from_hits(hits, n_relevant, k) == pytest.approx(recall, abs=1e-12)
        for ideal in ("all", "retrieved"):
            single = [ndcg_at_k(rankings[q], gains[q], k, ideal) for q in queries]
            matrix = ndcg_from_hits(hits, n_relevant, k, ideal)
            assert matrix == pytest.approx(single, abs=1e-12, nan_ok=True)
            assert np.isnan(matrix).any() == (ideal == "retrieved")


def test_cutoffs_and_rankings_that_cannot_be():
    hits = np.zeros((2, 3), dtype=bool)
    for call in (
        lambda: recall_at_k(["a", "a"], {"a"}, 1),
        lambda: ndcg_at_k(["a"], {"a": 1}, 0),
        lambda: recall_from_hits(hits, np.ones(2), 4),
        lambda: ndcg_from_hits(hits, np.ones(2), 0),
        lambda: ndcg_at_k(["a"], {"a": 1}, 1, "best"),
    ):
        with pytest.raises(ValueError):
            call()


def run_of(ranks, items=("a", "x", "y"), **columns) -> pd.DataFrame:
    return pd.DataFrame({"query": "q1", "item": items, "rank": ranks, **columns})


@pytest.mark.parametrize("ranks", [[1.0, 2.0, 3.0], ["1", "2", "3"]])
def test_whole_ranks_of_another_type_count(ranks):
    hits, n_relevant = hit_matrix(run_of(ranks), pd.DataFrame({"query": ["q1"], "item": ["x"]}), ["q1"], 2)
    assert hits.tolist() == [[False, True]]
    assert n_relevant.tolist() == [1]


@pytest.mark.parametrize(
    ("run", "said"),
    [
        (run_of([0, 1, 2]), "rank of query q1: 0 is below 1"),
        (run_of([1, 2, 3], ["a", "a", "x"]), "item of query q1: a stands twice"),
        (run_of([1, 2, 2]), "rank of query q1: 2 has two items"),
        (run_of([1.5, 2, 3]), "rank of query q1: 1.5 is no whole number"),
        (run_of([1, 2, float("nan")]), "rank of query q1: nan is no whole number"),
        (run_of([1, 2, 3], ["a", None, "x"]), "item of query q1: nan is missing"),
        (run_of([1, 2, 3], score=[0.5, float("nan"), 0.1]), "score of query q1: nan is no number"),
        (run_of([1, 2, 3]).drop(columns="rank"), "rank: no such column"),
        (pd.concat([run_of([1, 2, 3]), run_of([0, 1, 2]).assign(query="q2")]), "rank of query q2: 0 is below 1"),
    ],
)
def test_a_ranking_that_cannot_be_scored_is_one_sentence(run, said):
    with pytest.raises(InputError, match=f"^mine: {said}"):
        checked_run(run, 3, "mine")


def test_ids_of_another_type_are_one_sentence():
    with pytest.raises(InputError, match=r"^mine: its ids are of another type"):
        hit_matrix(run_of([1, 2, 3], [7, 8, 9]), pd.DataFrame({"query": ["q1"], "item": ["7"]}), ["q1"], 3, "mine")


def test_what_stands_below_the_depth_is_not_looked_at():
    assert checked_run(run_of([1, 2, 3], ["a", "x", "x"]), 2)["item"].tolist() == ["a", "x"]
