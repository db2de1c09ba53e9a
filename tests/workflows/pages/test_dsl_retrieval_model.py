"""What notebook 08 shows of the fine-tuned model."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

from lib.workflows.pages import dsl_retrieval_model as page
from lib.workflows.parts import Run

SETS = ("test", "test_same")


def rows_of(where, condition, pairs, right, n=20):
    """Flows of a condition, the given share of them right, the others with a made-up name."""
    good = np.arange(n) < right * n
    return pd.DataFrame(
        {
            "test_set": where,
            "unit": [f"{where}-{i}" for i in range(n)],
            "condition": condition,
            "pairs": pairs,
            "parsed": True,
            "valid": good,
            "similarity": good.astype(float),
            "executed": good & (np.arange(n) % 2 == 0),
            "made_up_names": [() if one else ("own.Do",) for one in good],
            "made_up_parameters": [()] * n,
            "text": [f"flow {i}" for i in range(n)],
            "finished": True,
        }
    )


@pytest.fixture
def scores():
    """Fine-tuning on 8 pairs is worse than copying the nearest of them, on 64 better."""
    parts = []
    for where in SETS:
        parts += [rows_of(where, page.COPIED, 64, 0.5), rows_of(where, "copy, TST", 64, 0.5)]
        parts += [rows_of(where, page.copied(8), 8, 0.5), rows_of(where, page.copied(64), 64, 0.5)]
        parts += [rows_of(where, page.finetuned(8), 8, 0.0, n=10), rows_of(where, page.finetuned(64), 64, 1.0)]
    parts += [rows_of("test", page.constrained(64), 64, 1.0, n=5)]
    parts += [rows_of(where, page.finetuned(64), 64, 0.5, n=10) for where in ("reworded", "unseen")]
    return pd.concat(parts, ignore_index=True)


@pytest.fixture
def table(scores):
    return page.metric_values(scores, 200, 0)


def test_what_each_run_writes():
    asks = pd.DataFrame(
        {"test_set": ["test"] * 5 + ["test_same"] * 4 + ["reworded", "unseen"], "unit": list("abcdefghijk")}
    )
    made = page.tasks([Run("nl2dsl", 8), Run("nl2dsl", 64)], asks)
    assert [(task.run.pairs, task.condition, task.grammar) for task in made] == [
        (8, "fine-tuned, 8 pairs", False),
        (64, "fine-tuned, 64 pairs", False),
        (64, "fine-tuned, 64 pairs, catalogue's grammar", True),
    ]
    assert ["".join(task.asks["unit"]) for task in made] == ["abcfg", "abcdefghijk", "abf"]


def test_flows_are_copied_from_as_many_pairs_as_each_run_learned():
    sizes = page.curve_sizes([Run("nl2dsl", 200), Run("nl2dsl", 67_000)], 67_000)
    assert sizes == [200, 256, 1024, 4096, 16_384, 67_000]
    assert page.curve_sizes([Run("nl2dsl", 8)], 100) == [8, 64, 100]


def test_metrics_by_set_and_condition(table):
    assert list(table) == [
        "test_set", "condition", "pairs", "metric", "value", "ci_low", "ci_high", "n", "counted"
    ]  # fmt: skip
    at = table.set_index(["test_set", "condition", "metric"])
    assert at.loc[("test", page.finetuned(64), "similarity"), ["value", "n", "pairs"]].tolist() == [1, 20, 64]
    assert at.loc[("test_same", page.COPIED, "made_up_names"), "value"] == 50
    ran = at.loc[("test_same", page.COPIED, "executed")]
    assert ran["value"] == 25  # percent; every second flow with the right names does as the right one
    assert 0 < ran["ci_low"] < 25 < ran["ci_high"] < 60


def test_the_model_is_compared_with_copying_and_with_itself_under_the_grammar(scores):
    tests = page.similarity_tests(scores, 64, 100, 0)
    assert list(zip(tests["test_set"], tests["a"], tests["b"], strict=True)) == [
        ("test", "fine-tuned, 64 pairs", "copy, pretrained"),
        ("test", "fine-tuned, 64 pairs", "copy, TST"),
        ("test", "fine-tuned, 64 pairs, catalogue's grammar", "fine-tuned, 64 pairs"),
        ("test_same", "fine-tuned, 64 pairs", "copy, pretrained"),
        ("test_same", "fine-tuned, 64 pairs", "copy, TST"),
    ]
    assert tests["difference"].tolist() == [0.5, 0.5, 0, 0.5, 0.5]
    assert tests["n"].tolist() == [20, 20, 5, 20, 20]
    shown = page.similarity_table(tests).frame
    assert shown["comparison"][0] == "fine-tuned, 64 pairs minus copy, pretrained"
    assert shown["similarity"][0].startswith("0.50 [")


def test_the_model_beside_copying_the_same_pairs(scores):
    tests = page.curve_tests(scores, 100, 0)
    assert list(zip(tests["test_set"], tests["pairs"], strict=True)) == [
        ("test", 8), ("test", 64), ("test_same", 8), ("test_same", 64)
    ]  # fmt: skip
    assert tests["difference"].tolist() == [-1.0, 0.5, -1.0, 0.5]  # 8: on the ten flows that both wrote
    assert page.curve_table(tests).frame["n"].tolist() == [10, 20, 10, 20]
    values = page.curve_values(scores, 100, 0)
    assert set(values["n"]) == {10}, "the smaller model was asked half"
    at = values[values["metric"] == "similarity"].set_index(["test_set", "condition"])["value"]
    assert at["test", page.copied(8)] == 1, "the first ten are right"
    assert set(at.index.get_level_values("condition")) == {
        name(size) for name in (page.finetuned, page.copied) for size in (8, 64)
    }
    drawing = page.curve_drawing(values)
    assert [axis.get_xscale() for axis in drawing.figure.axes] == ["log", "log"]
    assert drawing.figure.axes[0].get_title().endswith("the same 10 flows")
    assert "the flow of the nearest of the same pairs" in drawing.alt
    plt.close(drawing.figure)


def test_later_notebooks_read_the_test_sets(scores):
    kept = page.for_later(scores, 64)
    assert set(kept["condition"]) == {page.COPIED, "copy, TST", page.finetuned(64), page.constrained(64)}
    assert set(kept["test_set"]) == set(SETS)
    assert not kept.duplicated(["condition", "unit"]).any()
