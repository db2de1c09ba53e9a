"""Few-shots of Flow-Bench from Flow-Bench: other families alone, judged against the right flow."""

import numpy as np
import pandas as pd
import pytest

from lib.workflows import flow_bench_shots as shots

PAIRS = pd.DataFrame(
    [
        ("p1", "", "a.b();", ["a.b"]),
        ("p2", "a.b();", "a.b(); a.c();", ["a.b", "a.c"]),  # edits p1
        ("p3", "", "a.b(); x.y();", ["a.b", "x.y"]),
        ("p4", "", "z.z();", ["z.z"]),
    ],
    columns=["pair", "prior", "dsl", "apis"],
)
VECTORS = np.eye(4)[:, :3] * 0.9 + np.array([0.0, 0.0, 0.1])


def value(scores, flow, method, metric):
    chosen = scores[(scores["flow"] == flow) & (scores["method"] == method) & (scores["metric"] == metric)]
    return chosen["value"].item()


def test_a_few_shot_is_never_of_the_same_family():
    near = np.array([[1.0, 0], [0.999, 0.04], [0.8, 0.6], [0, 1]])  # p1's nearest is its own edit
    scores = shots.shot_scores(PAIRS, {"pretrained": near})
    assert value(scores, "p1", "pretrained", "copied") == pytest.approx(50)  # p3's flow for p1's
    assert value(scores, "p1", "pretrained", "jaccard") == pytest.approx(25)  # p3 and p4: a half and nothing
    assert value(scores, "p1", "random", "copied") == pytest.approx(25)
    assert value(scores, "p3", "oracle_shots", "copied") == pytest.approx(50)
    assert scores.groupby("flow")["family"].first()["p1"] == scores.groupby("flow")["family"].first()["p2"]


def test_edits_of_an_edit_are_of_its_family_in_any_order():
    """Else the edit of p2 would show p2's flow, the one to be edited, among the few-shots of p2."""
    chain = pd.DataFrame(
        [("p5", "a.b(); a.c();", "a.d();", ["a.d"]), ("p6", "z.z();", "z.y();", ["z.y"])], columns=PAIRS.columns
    )
    pairs = pd.concat([PAIRS, chain], ignore_index=True)
    for order in ([0, 1, 2, 3, 4, 5], [4, 2, 5, 0, 3, 1]):
        part = pairs.iloc[order].reset_index(drop=True)
        family = dict(zip(part["pair"], shots.families(part), strict=True))
        assert family["p1"] == family["p2"] == family["p5"]
        assert family["p4"] == family["p6"]
        assert len({family[name] for name in ("p1", "p3", "p4")}) == 3
        allowed = [
            (one, other)
            for one in part.itertuples()
            for other in part.itertuples()
            if family[one.pair] != family[other.pair]
        ]
        assert len(allowed) == 22
        assert not any(one.dsl in (other.prior, other.dsl) for one, other in allowed)


def test_oracle_is_the_best_and_random_its_mean():
    scores = shots.shot_scores(PAIRS, {"pretrained": VECTORS})
    means = scores[scores["metric"] == "jaccard"].groupby("method")["value"].mean()
    assert means["oracle_shots"] >= means["random"]
    assert set(scores["method"]) == {"pretrained", "random", "oracle_shots"}


def test_our_own_few_shots_are_scored_alike():
    flows = pd.DataFrame(
        {"pair": ["t1", "r1", "r2", "s1"], "split": ["test", "training", "training", "test_same"],
         "apis": [["a", "b"], ["a"], ["b", "c"], ["a"]]}
    )  # fmt: skip
    few = pd.DataFrame(
        [("t1", 1, "r1", "tst"), ("t1", 2, "r2", "tst"), ("t1", 9, "r1", "tst"), ("s1", 1, "r1", "tst")],
        columns=["pair", "rank", "shot", "selector"],
    )
    scores = shots.own_shot_scores(few, flows)
    assert set(scores["flow"]) == {"t1"}
    assert value(scores, "t1", "tst", "copied") == pytest.approx(50)
    assert value(scores, "t1", "tst", "jaccard") == pytest.approx(100 * (1 / 2 + 1 / 3) / 2)


def test_a_part_that_is_not_shipped_has_a_reason(tmp_path):
    encoder, reason = shots.tuned_encoder("nowhere", "tst-1", tmp_path)
    assert encoder is None
    assert "tst-1" in reason
