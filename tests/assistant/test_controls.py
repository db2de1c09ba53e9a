"""When a negative control holds, on recalls with known means, and what it finds in a small world."""

import numpy as np
import pandas as pd
import pytest

from lib.assistant.controls import (
    HALFWAY,
    LOG_DRAWS,
    MARGIN,
    negative_controls,
    permute_labels,
    permute_logs,
    relevant_dealt_anew,
    reverse,
    weighed,
)
from lib.evaluation.inference import Resampling
from tests.assistant.test_ranking import recall, task  # noqa: F401

N = 40
OVER = Resampling(np.arange(N) % 8, 100, 0)
WOBBLE = 0.01 * np.where(np.arange(N) // 2 % 2, 1, -1)  # where nothing varies an interval is wide


def weigh(recall, other=40.0, one_sided=False):
    draws = np.tile(recall * np.ones(N), (2, 1))
    return weighed("a link", draws, "a reference", other * np.ones((1, N)), OVER, one_sided)


@pytest.mark.parametrize(
    ("recall", "one_sided", "holds"),
    [
        (40.0 + MARGIN - 0.1, False, True),
        (40.0 + MARGIN + 0.1, False, False),
        (40.0 - MARGIN - 0.1, False, False),
        (40.0 + MARGIN + 0.1, True, False),
        (40.0 - MARGIN - 9.0, True, True),  # what comes through could only add
    ],
)
def test_a_control_holds_within_the_margin(recall, one_sided, holds):
    found = weigh(recall + WOBBLE, one_sided=one_sided)
    assert found["holds"] == holds
    assert found["difference"] == pytest.approx(recall - 40.0)
    assert (found["recall"], found["reference_recall"], found["draws"]) == (pytest.approx(recall), 40.0, 2)


def test_a_control_that_scatters_too_much_is_not_shown_to_hold():
    found = weigh(40.0 + np.where(np.arange(N) // 2 % 2, 60.0, -60.0))
    assert found["difference"] == pytest.approx(0)
    assert not found["holds"]


def test_a_ranking_reversed_has_the_last_first():
    run = pd.DataFrame({"query": list("aabb"), "item": list("xyxz"), "rank": [1, 2] * 2, "score": [2.0, 1.0, 4.0, 3.0]})
    assert reverse(run)[["query", "item"]].to_numpy().tolist() == [["a", "y"], ["a", "x"], ["b", "z"], ["b", "x"]]


def test_with_a_link_cut_a_ranker_loses_what_the_log_gave(task):  # noqa: F811
    labels = task.gold.set_index("query").loc[task.queries_of("evaluation")]
    habit = (labels["kind"] == "habit").to_numpy()
    groups = {"all": np.ones(len(labels), dtype=bool), "habit": habit}
    columns = task.groups["categorical"] + task.groups["text"]
    blind = task.rank(task.predict(task.learn(columns=columns), task.evaluation))
    no_usage = np.full(len(labels), recall(task, {"run": blind})["run"])
    found = negative_controls(task, 3, 3, no_usage, groups, Resampling(labels["need"].to_numpy(), 100, 7))
    assert found[["control", "queries", "draws"]].to_numpy().tolist() == [
        ["logs permuted", "all", LOG_DRAWS],
        ["logs permuted", "habit", LOG_DRAWS],
        ["labels permuted", "all", 3],
        ["labels permuted", "habit", 3],
    ]
    assert found["reference"].tolist() == ["without usage"] * 2 + [HALFWAY] * 2
    whole = recall(task, {"run": task.rank(task.fit()[1])}, kind="habit")["run"]
    assert (found.query("queries == 'habit'")["recall"] < whole - 20).all()
    assert found["difference"].abs().max() < 25


def test_permuted_logs_stay_whole_and_with_their_persona(task):  # noqa: F811
    items, opens = task.items, task.opens
    permuted = permute_logs(items, opens, np.random.default_rng(0))
    persona = items.set_index("item")["persona"]
    assert (permuted["item"].map(persona) == opens["item"].map(persona)).all()
    assert pd.Series(permuted["item"].to_numpy()).groupby(opens["item"].to_numpy()).nunique().max() == 1
    assert (permuted["item"] != opens["item"]).mean() > 0.9
    pd.testing.assert_frame_equal(permuted[["time", "place"]], opens[["time", "place"]])


def test_permuted_labels_keep_their_number(task):  # noqa: F811
    permuted = permute_labels(task.pairs, task.relevant, np.random.default_rng(0))
    query = task.pairs["query"]
    per_query = [pd.Series(labels).groupby(query).sum() for labels in (permuted, task.relevant)]
    pd.testing.assert_series_equal(*per_query)
    assert (permuted & task.relevant).sum() < 0.15 * task.relevant.sum()


def test_relevant_items_are_dealt_among_the_querys_candidates(task):  # noqa: F811
    pairs = task.pairs
    true = pairs.loc[task.relevant, ["query", "item"]]
    dealt = relevant_dealt_anew(pairs, true, np.random.default_rng(0))
    pd.testing.assert_series_equal(dealt["query"].value_counts(), true["query"].value_counts(), check_like=True)
    assert len(dealt.merge(pairs, on=["query", "item"])) == len(dealt)
    assert len(dealt.merge(true, on=["query", "item"])) < 0.15 * len(true)
