"""What follows from published tables: bounds of means, and an ablation on one scale."""

import itertools
from pathlib import Path

import pandas as pd
import pytest

from lib.evaluation.forensics import chained, conflicts, level_bounds, ndcg_upper_bound
from lib.evaluation.ranking import ndcg_at_k

PUBLISHED = Path(__file__).resolve().parents[2] / "data" / "published"


@pytest.fixture(scope="module")
def published():
    """{(method, metric): {k: share}}"""
    table = pd.read_csv(PUBLISHED / "context_retrieval.csv")
    return {
        key: dict(zip(part["k"].tolist(), (part["value"] / 100).tolist(), strict=True))
        for key, part in table.groupby(["method", "metric"])
    }


def test_bounds_of_the_published_bm25(published):
    """Even graded gains cannot explain the value."""
    reference = published["lambdamart_rrf", "recall"]
    binary, graded = (
        ndcg_upper_bound(published["bm25t", "recall"], 3, reference, gains) for gains in ("binary", "graded")
    )
    assert binary == pytest.approx(0.287, abs=5e-4)
    assert graded == pytest.approx(0.528, abs=5e-4)
    assert published["bm25t", "ndcg"][3] > graded


def test_bound_in_closed_form():
    """Cutoff 1, at most two relevant items. Reference .8 needs 60% of queries with one relevant item; of the method's
    recall .5, at most .2 comes at half price from the other 40% and .3 from the first: 70% of queries with a hit."""
    for gains in ("binary", "graded"):
        assert ndcg_upper_bound({1: 0.5}, 1, {1: 0.8}, gains, max_relevant=2) == pytest.approx(0.7, abs=1e-3)


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
    for (a1, a2, b1, b2), (ndcg, hit_share) in itertools.islice(best.items(), 0, None, 12):
        bound = ndcg_upper_bound({1: a1, 2: a2}, 2, {1: b1, 2: b2}, max_relevant=2)
        assert ndcg <= bound + 1e-9
        loose = ndcg_upper_bound({1: a1, 2: a2}, 2, {1: b1, 2: b2}, "graded", max_relevant=2)
        assert hit_share <= loose + 1e-9
        tight += bound < ndcg + 1e-3
    assert tight > 6  # the bound is reached, not merely kept


def test_impossible_recalls_are_refused():
    for recall, k in (({3: 0.5, 5: 0.6}, 10), ({3: 0.6, 5: 0.5}, 3)):
        with pytest.raises(ValueError):
            ndcg_upper_bound(recall, k, {3: 0.5, 5: 0.6})


@pytest.fixture(scope="module")
def ablation():
    return pd.read_csv(PUBLISHED / "workflow_ablation.csv")


def test_one_scale_has_eleven_conditions_and_starts_at_zero(ablation):
    scale = chained(ablation).set_index(["selector", "shots", "definitions", "metric"])["value"].sort_index()
    assert len(scale) == 44
    assert scale.index.is_unique
    assert (scale["pretrained", 5, "none"] == 0).all()
    assert scale["finetuned", 0, "none"].tolist() == [-11.74, -23.34, 0.05, 2.76]  # names, keys, similarity, unparsed
    assert scale["tst", 20, "sfd"].tolist() == [-10.53, -16.58, 0.04, 1.33]
    assert scale["tst", 20, "none", "made_up_parameters"] == -14.58, "Table 1's, not Table 3's"


def test_one_of_eight_cells_printed_twice_disagrees(ablation):
    twice = conflicts(ablation, tolerance=-1)
    assert twice[["table", "shots"]].value_counts().to_dict() == {(2, 5): 4, (3, 20): 4}
    (conflict,) = conflicts(ablation).to_dict("records")
    assert (conflict["table"], conflict["selector"], conflict["metric"]) == (3, "tst", "made_up_parameters")
    told = [conflict[name] for name in ("printed", "follows", "difference", "source")]
    assert told == [0.52, 0.59, -0.07, "Table 1"]


def test_levels_are_bounded_by_what_no_rate_can_be(ablation):
    bounds = level_bounds(ablation).set_index(["selector", "shots", "definitions", "metric"])["value"]
    lowest = bounds.groupby("metric").min()
    assert lowest[["unparsed", "made_up_names", "made_up_parameters"]].tolist() == [0, 0, 0]
    usable = (1 - bounds.xs("unparsed", level="metric") / 100) * (1 - bounds.xs("made_up_names", level="metric") / 100)
    assert (usable - bounds.xs("similarity", level="metric")).min() == pytest.approx(0, abs=1e-3)
