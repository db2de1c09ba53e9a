"""Claims asked of two worlds, and whether both put methods into the same order."""

import numpy as np
import pandas as pd

from lib.evaluation.claim_records import RECORD
from lib.evaluation.transfer import COLUMNS, Order, World, side_by_side

CLAIM = RECORD.validate_python(
    {"claim": "a_beats_b", "test": "greater", "paper": "assistant", "source": "x", "statement": "A beats B.",
     "scores": "x", "metric": "recall", "a": ["a"], "b": "b", "cutoffs": [3, 5], "margin": 2.0}
)  # fmt: skip


def world(gain, units=("persona",), seed=0, cutoffs=(3, 5)):
    """Forty queries of forty personas; a is `gain` points above b."""
    noise = np.random.default_rng(seed).normal(scale=3, size=40)
    rows = [
        (f"q{i}", f"p{i}", f"n{i % 8}", method, "recall", k, 50 + noise[i] * (method == "a") + gain * (method == "a"))
        for k in cutoffs for i in range(40) for method in ("a", "b")
    ]  # fmt: skip
    return World(pd.DataFrame(rows, columns=["query", "persona", "need", "method", "metric", "k", "value"]), units)


def test_a_claim_is_judged_in_each_world():
    table = side_by_side([CLAIM], world(10, ("persona", "need")), world(-10, seed=1), samples=200, seed=0)
    assert list(table) == COLUMNS
    assert table["k"].tolist() == ["3", "5"]
    assert (table["here_verdict"] == "reproduced").all()
    assert (table["there_verdict"] == "contradicted").all()
    assert (table["here_effect"] > 5).all()
    assert (table["there_effect"] < -5).all()
    assert (table["there_ci_low"] < table["there_effect"]).all()
    assert (table["there_ci_high"] < 0).all()
    assert table["here_overall"].tolist() == ["reproduced"] * 2
    assert table["there_overall"].tolist() == ["contradicted"] * 2


def test_the_verdict_of_a_whole_claim_is_that_of_all_its_cutoffs():
    there = world(10, seed=1)
    lost = there.scores["value"].mask((there.scores["method"] == "a") & (there.scores["k"] == 5), 30.0)
    table = side_by_side([CLAIM], world(10), World(there.scores.assign(value=lost), ("persona",)), 200, 0)
    assert table["there_verdict"].tolist() == ["reproduced", "contradicted"]
    assert table["there_overall"].tolist() == ["contradicted"] * 2


def test_each_world_names_its_own_weakest_method_and_how_many_claims_there_are():
    claim = CLAIM.model_copy(update={"a": ["a", "c"]})
    here, there = (
        World(pd.concat([one.scores, one.scores[one.scores["method"] == "a"].assign(
            method="c", value=lambda rows, more=more: rows["value"] + more)]), one.units)
        for one, more in ((world(10), 5), (world(10, cutoffs=(3,)), -5))
    )  # fmt: skip
    row = side_by_side([claim], here, there, samples=200, seed=0).iloc[0]
    assert row[["here_method", "there_method", "method"]].tolist() == ["a", "c", "c"]
    assert row[["here_tests", "there_tests"]].tolist() == [1, 1], "claims, not cutoffs"


def test_only_cutoffs_of_both_worlds_are_shown():
    table = side_by_side([CLAIM], world(10), world(10, cutoffs=(5,)), samples=200, seed=0)
    assert table["k"].tolist() == ["5"]


def order(here, there, noise=0.01):
    rng = np.random.default_rng(1)
    scores = [np.array(means) + noise * rng.normal(size=(30, len(means))) for means in (here, there)]
    return Order(*scores, [np.arange(30)], [np.arange(30)])
