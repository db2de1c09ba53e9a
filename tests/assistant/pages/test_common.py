"""Helpers that the assistant's pages share."""

import numpy as np
import pandas as pd
import pytest

from lib.assistant.pages import common
from lib.evaluation.comparison import summarise
from lib.evaluation.inference import Resampling


@pytest.fixture
def scored():
    """Twelve queries: semantic search finds all for *meaning*, and what BM25T finds for *habit*."""
    kind = np.array(["meaning", "habit"] * 6)
    values = {
        (method, metric, k): column
        for method, column in (
            ("semantic", np.where(kind == "meaning", 100.0, 20.0)),
            ("bm25t", np.full(12, 20.0)),
        )
        for metric in ("recall", "ndcg", "ndcg_retrieved")
        for k in (3, 5)
    }
    table = pd.DataFrame(values)
    table.columns = table.columns.set_names(["method", "metric", "k"])
    return common.Scored(table, kind, [3, 5], Resampling(np.arange(12), 200, 0))


@pytest.fixture
def published():
    rows = [("semantic", "recall", 3, 18.0), ("semantic", "ndcg", 3, 60.0), ("rrf", "recall", 3, 1.0)]
    return pd.DataFrame(rows, columns=["method", "metric", "k", "value"])


def test_scored_counts_and_groups_the_kinds_that_occur(scored):
    assert (scored.k, scored.n, scored.counts) == (3, 12, {"meaning": 6, "habit": 6})
    groups = scored.groups({"all": np.ones(12, dtype=bool), "first": np.arange(12) < 3})
    assert {name: int(mask.sum()) for name, mask in groups.items()} == {
        ("all", "all"): 12, ("meaning", "all"): 6, ("habit", "all"): 6,
        ("all", "first"): 3, ("meaning", "first"): 2, ("habit", "first"): 1,
    }  # fmt: skip


def test_published_values_stand_where_they_belong(scored, published):
    summary = summarise(scored.table, scored.groups({"all": np.ones(12, dtype=bool)}), scored.resampling)
    merged = common.with_published(summary, common.printed_values(published), summary["kind"] == "all")
    found = merged.dropna(subset="published").set_index(["method", "kind", "metric", "k"])["published"]
    assert found.to_dict() == {
        ("semantic", "all", "recall", 3): 18.0,
        ("semantic", "all", "ndcg", 3): 60.0,
        ("semantic", "all", "ndcg_retrieved", 3): 60.0,
    }
    assert list(merged.columns) == [*summary.columns, "published"]
    assert len(merged) == len(summary)
    one = common.with_published(summary, common.printed_values(published, both_ideals=False))
    assert one.dropna(subset="published").groupby(["kind", "metric"]).size().to_dict() == {
        (kind, metric): 1 for kind in ("all", "habit", "meaning") for metric in ("recall", "ndcg")
    }
