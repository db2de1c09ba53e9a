"""What notebook 04 shows beyond what training showed, and its controls."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

from lib.assistant.encoder_training import TrainingSets
from lib.assistant.pages import finetuned_search_reach as page
from lib.assistant.pages.common import Scored
from lib.evaluation.inference import Resampling
from lib.retrieval.finetune import Finished

COLUMNS = ["on", "n", "pretrained", "fine-tuned", "gain", "ci_low", "ci_high"]
HALF = np.arange(8) < 4


@pytest.fixture
def scored():
    """Eight queries: fine-tuning adds 20 points to the first four and takes 10 from the others."""
    recall = {"semantic": np.full(8, 30.0), "finetuned": np.where(HALF, 50.0, 20.0)}
    table = pd.DataFrame({(method, "recall", 3): values for method, values in recall.items()})
    return Scored(table, np.array(["habit"] * 8), [3], Resampling([np.arange(8)], 100, 0))


def test_gains_are_of_the_trials_own_queries(scored):
    trials = [
        *page.by_knownness("queries, phrasing {}", "finetuned", scored, HALF),
        *page.by_knownness("all known: {}", "finetuned", scored, scored.everyone),
        *page.by_knownness("half, {}", "half_0", scored, HALF),
    ]
    found = page.gains(trials)
    assert found.to_numpy().tolist()[:2] == [
        ["queries, phrasing known", 4, 30.0, 50.0, 20.0, 20.0, 20.0],
        ["queries, phrasing new", 4, 30.0, 20.0, -10.0, -10.0, -10.0],
    ]
    assert found["on"].tolist()[2:] == ["all known: known"]  # nothing new, and no model of half of the training


def test_no_trial_gives_no_row(scored):
    assert list(page.gains(page.on_held_out_needs(scored, np.zeros(8, dtype=bool))).columns) == COLUMNS
    held_out = page.gains(page.on_held_out_needs(scored, HALF))
    assert held_out["on"].tolist() == ["first fold of needs, trained with them"]  # no model was trained without


def test_items_are_found_among_the_first_k():
    wanted = pd.DataFrame({"query": ["a", "a", "b"], "item": ["i", "j", "i"]}, index=[0, 2, 5])
    run = pd.DataFrame({"query": ["a", "a", "a", "b"], "item": ["x", "i", "j", "y"], "rank": [1, 2, 3, 1]})
    scores = page.item_scores({"semantic": run}, wanted, 2)
    assert scores["semantic", "recall", 2].tolist() == [100.0, 0.0, 0.0]


def reach_of(low=-13.0, high=0.0):
    rows = [
        ("evaluation queries, phrasing new", 60, 40.0, 48.0, 8.0, 2.0, 14.0),
        (page.HELD_OUT["with"], 11, 40.0, 54.0, 14.0, -18.0, 53.0),
        (page.HELD_OUT["without"], 11, 40.0, 37.0, -3.0, low, high),
    ]
    return pd.DataFrame(rows, columns=COLUMNS)


def test_reach_is_shown_with_intervals():
    table = page.reach_table(reach_of(), 3)
    assert list(table.frame.columns) == ["on", "n", "pretrained", "fine-tuned", "gain"]
    assert table.frame["gain"].iloc[1] == "14.0 [−18.0, 53.0]"


def test_reach_is_drawn_and_told():
    drawing = page.reach_drawing(reach_of(), 3)
    assert drawing.finding == (
        "On needs held out the gain is −3.0 [−13.0, 0.0] points, 14.0 [−18.0, 53.0] when training includes them"
    )
    assert "evaluation queries, phrasing new: 8.0 points; first fold of needs, trained with them: 14.0" in drawing.alt
    ticks = [tick.get_text() for tick in drawing.figure.axes[0].get_yticklabels()]
    assert ticks[0] == "evaluation queries, phrasing new (n = 60)"
    plt.close(drawing.figure)
    without = page.reach_drawing(reach_of().head(2), 3)
    assert without.finding == "Gains of fine-tuning lie between 8.0 and 14.0 points"
    plt.close(without.figure)


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (1.0, 5.0, "carries over to them."),
        (-5.0, -1.0, "harms them."),
        (-1.0, 0.0, "has not been shown to carry over to them."),
    ],
)
def test_held_out_needs_are_told_by_the_interval(low, high, verdict):
    said = page.held_out_in_words(reach_of(low, high))
    assert said.startswith("On the 11 queries about the needs held out, one fold of five, the model that never saw ")
    assert f"these needs is −3.0 [{str(low).replace('-', '−')}, " in said
    assert "with them in training it is 14.0 [−18.0, 53.0]" in said
    assert said.endswith(f"What fine-tuning learns about some needs {verdict}")


def test_held_out_needs_that_were_not_tried_are_not_told():
    assert page.held_out_in_words(reach_of().head(2)) == ""


def test_controls_are_named_with_their_pairs():
    done = {name: Finished(pd.DataFrame(), rows, 0, 1.0) for name, rows in (("finetuned", 90), ("first_40", 40))}
    done["permuted"] = done["first_40"]
    names = page.control_names(TrainingSets({}, np.array([]), [40]), done)
    assert list(names) == ["random", "semantic", "permuted", "first_40", "finetuned", "swapped", "blank"]
    assert (names["permuted"], names["first_40"]) == (
        "relevant items dealt anew, 40 pairs",
        "true relevant items, 40 pairs",
    )
    whole = page.control_names(TrainingSets({}, np.array([]), []), done)
    assert list(whole) == ["random", "semantic", "permuted", "finetuned", "swapped", "blank"]
    assert whole["finetuned"] == "fine-tuned"
    assert list(page.control_names(TrainingSets({}, np.array([]), []), {})) == ["random", "semantic"]


def test_controls_are_shown_in_the_order_of_their_names():
    summary = pd.DataFrame({"method": ["semantic", "other", "random"], "value": [40.0, 1.0, 10.0]})
    table = page.controls_table(summary.assign(ci_low=5.0, ci_high=50.0), {"random": "chance", "semantic": "S"}, 3, 8)
    assert table.frame.to_numpy().tolist() == [["chance", "10.0 [5.0, 50.0]"], ["S", "40.0 [5.0, 50.0]"]]
    assert table.caption == "Controls: Recall@3 in percent, 95% intervals, n = 8."


@pytest.mark.parametrize(("low", "verdict"), [(-17.6, "the control holds."), (0.5, "the control **fails**.")])
def test_the_control_fails_where_dealt_labels_teach(low, verdict):
    rows = [
        ("permuted", "semantic", 7.1, low, 8.0),
        ("swapped", "random", -2.0, -7.7, 5.6),
        ("blank", "random", 2.6, -4.2, 13.2),
        ("first_40", "semantic", 9.0, 1.0, 24.5),
    ]
    said = page.controls_in_words(pd.DataFrame(rows, columns=["a", "b", "difference", "ci_low", "ci_high"]), "first_40")
    assert said.startswith("With relevant items dealt anew the model lies 7.1 [")
    assert f"its twin with true ones 9.0 [1.0, 24.5]: {verdict} With another persona's query" in said
    assert (
        "query the ranking is −2.0 [−7.7, 5.6] points from a random order. Without a query the ranking is 2.6" in said
    )
