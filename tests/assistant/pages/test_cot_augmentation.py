"""What notebook 03 shows of search with chains of thought."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

from lib.assistant.pages import cot_augmentation as page
from lib.assistant.pages.common import Scored
from lib.evaluation.comparison import summarise
from lib.evaluation.inference import Resampling
from lib.workbook.methods import colour

KIND = np.array(["meaning", "habit"] * 6)
WRITERS = ["cot", "cot_distilled"]
NAMES = page.names_of(WRITERS, "paper")
TEST = ["a", "b", "difference", "ci_low", "ci_high", "p_value", "p_holm"]


@pytest.fixture
def tests():
    rows = [
        ("cot", "semantic", 5.04, 1.0, 9.0, 0.001, 0.01),
        ("cot_distilled", "semantic", -3.0, -5.0, -1.0, 0.001, 0.01),
        ("cot_other_types", "semantic", 1.0, -5.0, 7.0, 0.5, 1.0),
        ("cot_of_another", "semantic", -2.0, -3.0, -1.0, 0.2, 0.4),
        ("expert", "semantic", 20.0, 10.0, 30.0, 0.001, 0.01),
        ("cot", "cot_of_another", 7.0, 3.0, 11.0, 0.001, 0.01),
    ]
    return page.with_verdicts(pd.DataFrame(rows, columns=TEST))


@pytest.fixture
def scored():
    """Twelve queries: CoT adds 40 points for *meaning*, the expert's names of types lose 10 of the 20 it adds."""
    gains = {"semantic": 0, "cot": np.where(KIND == "meaning", 40, 0), "expert": 20, "expert_names": 5}
    gains["expert_words"] = 30
    columns = {(name, "recall", 3): np.full(12, 30.0) + gain for name, gain in gains.items()}
    table = pd.DataFrame(columns)
    table.columns = table.columns.set_names(["method", "metric", "k"])
    return Scored(table, KIND, [3], Resampling([np.arange(12)], 200, 0))


def test_verdicts_follow_direction_and_settledness(tests):
    assert tests["verdict"].tolist() == ["higher", "lower", "not settled", "not settled", "higher", "higher"]
    table = page.tests_table(tests, NAMES, 3, 12)
    assert table.frame["comparison"].iloc[-1] == "CoT, zero-shot − CoT, zero-shot, of another query"
    assert list(table.frame.columns) == ["comparison", "difference", "p", "p, Holm", "verdict"]


def test_the_caption_names_writer_and_encoder():
    assert page.caption(12, "tiny", "mini").startswith("n = 12 queries; writer tiny, encoder mini. Paper:")


def test_gains_are_drawn_filled_for_methods_and_hollow_for_the_rest(tests):
    drawing = page.gain_drawing(tests, NAMES, WRITERS, "my_model", 3)
    assert drawing.finding == (
        "CoT by my_model changes Recall@3 of semantic search by 5.0 [1.0, 9.0] points zero-shot (higher) "
        "and −3.0 [−5.0, −1.0] points distilled (lower)"
    )
    assert "of another query: −2.0 [−3.0, −1.0] points, not settled; expert's CoT (not a method): 20.0 [" in drawing.alt
    axis = drawing.figure.axes[0]
    dots = [container.lines[0] for container in axis.containers]
    assert [dot.get_color() for dot in dots] == [
        colour("cot"), colour("cot_distilled"), colour("cot"), colour("cot"), "#333333",
    ]  # fmt: skip
    assert [dot.get_markerfacecolor() == "white" for dot in dots] == [False, False, True, True, True]
    assert [tick.get_text() for tick in axis.get_yticklabels()] == [NAMES[name] for name in tests["a"].iloc[:5]]
    assert drawing.data is tests
    plt.close(drawing.figure)


def test_the_gain_stands_beside_the_published_one(tests):
    against = page.against_semantic(tests)
    rows = {("cot", "recall", 3): 71.0, ("semantic", "recall", 3): 23.0}
    published = pd.Series(rows).rename_axis(["method", "metric", "k"])
    assert page.gain_in_words(against, ["cot"], "my_model", 3, 12, published) == (
        "CoT moves Recall@3 of semantic search by 5.0 [1.0, 9.0] points with the zero-shot writer (higher) "
        "(n = 12, my\\_model); the paper's GPT-4 moves it by +48.0."
    )
    said = page.gain_in_words(against, WRITERS, "tiny", 4, 12, published)
    assert said.endswith(" and −3.0 [−5.0, −1.0] points with the distilled writer (lower) (n = 12, tiny).")


def test_controls_are_told_where_they_were_tried(tests):
    against = page.against_semantic(tests)
    said = page.controls_in_words(against, WRITERS)
    assert said.startswith("Taken from another query, the CoT of the zero-shot writer moves it by −2.0 [−3.0, −1.0] ")
    assert "The expert's CoT moves it by 20.0 [" in said
    assert "(higher): it was written beforehand for the need" in said
    assert page.controls_in_words(against.loc[["cot"]], WRITERS) == ""


def test_kinds_are_drawn_with_the_expert_hollow(scored):
    summary = summarise(scored.table, scored.groups({"cot": scored.everyone}), scored.resampling)
    cells = page.recall_by_kind(summary, 3)
    tests = scored.compare_by_kind([("cot", "semantic"), ("expert", "semantic")])
    sure = tests.assign(p_holm=[0.01, 0.5, 0.01, 0.01], ci_low=tests["difference"] - 1, ci_high=tests["difference"] + 1)
    drawing = page.kinds_drawing(cells, ["semantic", "cot", "expert"], NAMES, scored, sure)
    assert drawing.finding == "CoT changes Recall@3, in points, by +40 for meaning queries"
    none = page.kinds_drawing(cells, ["semantic", "cot", "expert"], NAMES, scored, sure.assign(p_holm=0.5))
    assert none.finding == "CoT settledly changes Recall@3 for no kind of query"
    assert "habit: semantic search 30%, CoT, zero-shot 30%, expert's CoT (not a method) 50%" in drawing.alt
    expert = drawing.figure.axes[0].containers[-1].lines[0]
    assert (expert.get_marker(), expert.get_markerfacecolor(), expert.get_color()) == ("d", "white", "#333333")
    assert {"method", "kind"} <= set(drawing.data.columns)
    plt.close(drawing.figure)


def test_settled_differences_by_kind_are_counted_and_named(scored):
    tests = scored.compare_by_kind([("cot", "semantic")])
    table = page.kinds_table(tests, NAMES, 3)
    assert table.frame["difference from semantic search"].tolist() == ["40.0 [40.0, 40.0]", "0.0 [0.0, 0.0]"]
    sure = tests.assign(p_holm=0.01, ci_low=[30.0, -1.0], ci_high=[50.0, 1.0])
    assert page.settled_by_kind(sure, NAMES) == "1 of these 2 differences is settled: CoT, zero-shot, meaning queries."
    assert page.settled_by_kind(sure.assign(p_holm=1.0), NAMES) == "0 of these 2 differences are settled."
    assert page.settled_by_kind(sure.assign(ci_low=1.0), NAMES).startswith("2 of these 2 differences are settled: CoT")


def test_parts_of_a_cot_are_compared_and_told(scored):
    tests = page.tests_of_parts(["expert"], scored)
    assert tests[["a", "part"]].to_numpy().tolist() == [
        ["expert", "whole"], ["expert_names", "names of types only"], ["expert_words", "all but these names"],
    ]  # fmt: skip
    assert tests["recall"].tolist() == [50.0, 35.0, 60.0]
    table = page.parts_table(tests, NAMES, 3, 12)
    assert table.frame["what is added"].iloc[1] == "expert's CoT (not a method): names of types only"
    assert table.frame["Recall@3"].tolist() == ["50.0", "35.0", "60.0"]
    assert page.parts_in_words(tests, NAMES, 3) == (
        "Expert's CoT (not a method) moves Recall@3 by 20.0 points as a whole, by 5.0 with the names of types alone "
        "and by 30.0 with all but these names."
    )


def test_the_parts_of_two_are_told_in_the_order_asked(scored):
    parts = scored.table[["expert_names", "expert_words"]]
    two = scored.joined(parts.rename(columns=lambda name: name.replace("expert", "cot"), level="method"))
    said = page.parts_in_words(page.tests_of_parts(["expert", "cot"], two), NAMES, 3)
    assert said.index("Expert's CoT") < said.index("CoT, zero-shot moves Recall@3 by 20.0 points as a whole, by 5.0")


@pytest.mark.parametrize(("low", "ending"), [(1.0, "points: the expert's CoT is no ceiling."), (-1.0, "3.0] points.")])
def test_the_expert_is_no_ceiling_where_less_finds_more(low, ending):
    cut = pd.Series({"difference": 2.0, "ci_low": low, "ci_high": 3.0})
    assert page.is_it_a_ceiling(cut).endswith(ending)


def test_the_largest_gains_and_losses_are_shown_once_each():
    change = [50.0, 10.0, 0.0, -20.0, -40.0]
    table = pd.DataFrame({("semantic", "ndcg", 5): 50.0, ("cot", "ndcg", 5): [50 + points for points in change]})
    sample = pd.DataFrame({"text": list("vwxyz"), "relevant": [["i"], ["i", "j"], ["j"], ["i"], ["j"]]})
    items = pd.DataFrame({"item": ["i", "j"], "text": ["one", "two"]})
    shown = page.extremes_table(table, {"cot": list("VWXYZ")}, sample, items, 5, seed=0)
    assert shown.frame["change"].tolist() == [50.0, 10.0, -20.0, -40.0]
    assert shown.frame.iloc[1].to_dict() == {
        "method": "CoT", "query": "w", "CoT": "W", "relevant items": "• one\n• two", "change": 10.0,
    }  # fmt: skip
    few = page.extremes_table(table.head(3), {"cot": list("VWX")}, sample.head(3), items, 5, seed=0)
    assert few.frame["query"].tolist() == ["v", "w", "x"]
