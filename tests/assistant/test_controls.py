"""When a negative control holds, on frames with known means."""

import numpy as np
import pandas as pd
import pytest

from lib.assistant.context_scores import ContextScores, EvaluationQueries, RankerScores
from lib.assistant.controls import (
    HALFWAY,
    MARGIN,
    REFERENCES,
    Recalls,
    reverse,
    weigh_controls,
)

N = 40
HABIT = np.arange(N) % 2 == 0
WOBBLE = 0.01 * np.where(np.arange(N) // 2 % 2, 1, -1)  # where nothing varies an interval is wide


def asked(kinds=("habit", "meaning")):
    names = [f"q{number}" for number in range(N)]
    kind = np.where(HABIT, *kinds)
    persona, need = np.arange(N) // 2, np.arange(N) % 8
    return EvaluationQueries(names, persona, need, kind, np.ones(N), np.zeros(N, dtype=bool))


def table(values):
    scores = pd.DataFrame({(name, "recall", 3): value * np.ones(N) for name, value in values.items()})
    scores.columns = scores.columns.set_names(["method", "metric", "k"])
    return scores.set_index(pd.Index(asked().names, name="query"))


def rankers(kinds=("habit", "meaning")):
    who = asked(kinds)
    scored = ContextScores(who, table({"random": 10.0}), (), [3], who.resampling(100, 0))
    return RankerScores.beside_methods(scored, ["random"], table({"lambdamart_no_usage": 40.0}))


def drawn(*recalls, backward=10.0):
    """A control's draws; the rankings reversed find the same number everywhere."""
    forward = np.array([recall * np.ones(N) for recall in recalls])
    return Recalls(forward, np.full_like(forward, backward))


@pytest.mark.parametrize(
    ("name", "recall", "holds"),
    [
        ("logs permuted", 40.0 + MARGIN - 0.1, True),
        ("logs permuted", 40.0 + MARGIN + 0.1, False),
        ("logs permuted", 40.0 - MARGIN - 0.1, False),
    ],
)
def test_a_control_holds_within_the_margin(name, recall, holds):
    weighed = weigh_controls({name: drawn(recall + WOBBLE)}, rankers())
    assert weighed["queries"].tolist() == ["all", "habit"]
    assert weighed["holds"].tolist() == [holds] * 2
    assert weighed["reference"].unique().tolist() == [REFERENCES[name]]
    gap = recall - weighed["reference_recall"][0]
    assert weighed["difference"].tolist() == pytest.approx([gap] * 2)
    assert weighed["test"].unique().tolist() == ["two-sided"]
    assert weighed["deviation"].tolist() == pytest.approx([abs(gap)] * 2)


def test_a_control_that_scatters_too_much_is_not_shown_to_hold():
    recalls = {"logs permuted": drawn(40.0 + np.where(np.arange(N) // 2 % 2, 60.0, -60.0))}
    weighed = weigh_controls(recalls, rankers())
    assert weighed["difference"][0] == pytest.approx(0)
    assert not weighed["holds"].any()


def test_habit_queries_are_weighed_by_themselves():
    weighed = weigh_controls({"logs permuted": drawn(40.0 + 10.0 * HABIT)}, rankers())
    assert weighed["difference"].tolist() == pytest.approx([5.0, 10.0])
    alone = weigh_controls({"logs permuted": drawn(40.0 + 10.0 * HABIT)}, rankers(kinds=("either", "meaning")))
    assert alone["queries"].tolist() == ["all"]


@pytest.mark.parametrize(("forward", "backward", "holds"), [(19, 17, True), (2, 40, True), (40, 2, False)])
def test_permuted_labels_are_weighed_against_the_same_ranking_reversed(forward, backward, holds):
    """More than a random order finds (10 here) is no sign of the labels; more than the reverse finds is."""
    weighed = weigh_controls({"labels permuted": drawn(forward + WOBBLE, backward=backward)}, rankers())
    assert weighed["reference"].unique().tolist() == [HALFWAY]
    assert weighed["difference"].tolist() == pytest.approx([(forward - backward) / 2] * 2)
    assert weighed["backward"].tolist() == pytest.approx([backward] * 2)
    assert weighed["holds"].tolist() == [holds] * 2


def test_a_ranking_reversed_has_the_last_first():
    run = pd.DataFrame({"query": list("aabb"), "item": list("xyxz"), "rank": [1, 2] * 2, "score": [2.0, 1.0, 4.0, 3.0]})
    assert reverse(run)[["query", "item"]].to_numpy().tolist() == [["a", "y"], ["a", "x"], ["b", "z"], ["b", "x"]]
