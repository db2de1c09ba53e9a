"""Tables and figures of notebook 05, from scores with known means."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

from lib.assistant.context_scores import ContextScores, EvaluationQueries, RankerScores
from lib.assistant.pages import lambdamart_rrf as page
from lib.assistant.ranking_cost import Cost
from lib.assistant.sensitivity import COMPARED, EDGE, SWEEPS

N = 24
RECALL = {"random": 10.0, "semantic": 40.0, "cot": 50.0, "cot_expert": 60.0, "lambdamart": 70.0, "lambdamart_rrf": 80.0}


@pytest.fixture
def two():
    names = [f"q{number}" for number in range(N)]
    in_cot = np.arange(N) < 8
    asked = EvaluationQueries(
        names, np.arange(N) // 2, np.arange(N) % 6, np.array(["habit", "meaning"] * 12), np.ones(N), in_cot
    )
    noise = np.where(np.arange(N) % 3, 1.0, -2.0)
    scores = pd.DataFrame(
        {
            (method, metric, k): value + noise + k
            for method, value in RECALL.items()
            for metric in page.TITLES
            for k in (3, 5)
        },
        index=pd.Index(names, name="query"),
    ).rename_axis(columns=["method", "metric", "k"])
    scores.loc[~in_cot, ["cot", "cot_expert"]] = np.nan
    scored = ContextScores(asked, scores, ("cot", "cot_expert"), [3, 5], asked.resampling(100, 0))
    rows = [("semantic", "recall", 3), ("lambdamart_rrf", "recall", 3)]
    published = pd.Series([20.0, 70.0], pd.MultiIndex.from_tuples(rows, names=["method", "metric", "k"]))
    return page.TableTwo(
        scored, published, page.names_with_pairs(RECALL, pd.DataFrame({"model": [], "pairs": []})), "w"
    )


def test_each_sample_has_its_methods_and_references_stand_in_parentheses(two):
    tables = page.table_two(two)
    assert len(tables) == 2 * len(page.TITLES)
    on_all, on_cot = tables[0].frame, tables[len(page.TITLES)].frame
    assert len(on_all) == len(RECALL) - 2
    assert len(on_cot) == len(RECALL)
    assert on_cot["@3, ours"].str.startswith("(").sum() == 1
    assert set(
        two.summary.query("method == 'semantic' and kind == 'all' and k == 3 and metric == 'recall'")["published"]
    ) == {20.0}


def test_a_table_by_kind_has_a_row_a_method(two):
    table = page.by_kind_table(two)
    assert table.frame["method"].tolist() == [two.names[method] for method in two.scored.methods]
    assert {"habit", "meaning", "all kinds"} <= set(table.frame)


def test_figures_say_what_they_show_to_those_who_cannot_see_it(two):
    rows = pd.DataFrame({"method": ["lambdamart", "semantic"], "value": [70.0, 40.0], "ci_low": 1.0, "ci_high": 99.0})
    swept = pd.DataFrame(
        [
            (method, 50.0, 40.0, 60.0, 9, knob, level)
            for knob, levels in SWEEPS.items()
            for level in levels
            for method in (*COMPARED, EDGE)
        ],
        columns=["method", "recall@3", "ci_low", "ci_high", "n", "knob", "level"],
    )
    drawings = (
        page.by_kind_figure(two),
        page.recall_figure(two),
        page.topics_figure(rows, rows.assign(value=[60.0, 40.0]), ["lambdamart", "semantic"], 3),
        page.sweep_figure(swept, 3),
    )
    for drawing in drawings:
        assert drawing.finding
        assert "LambdaMART" in drawing.alt
        assert len(drawing.data)
        plt.close(drawing.figure)
    assert "LambdaMART 70 and 60%" in drawings[2].alt


def test_rankers_are_compared_with_one_of_them(two):
    rankers = RankerScores.beside_methods(two.scored, ["lambdamart", "semantic"], two.scored.scores[["random"]])
    table = page.rankers_table(rankers, ["lambdamart", "semantic", "random"], "n = 24.")
    assert table.frame["ranker"].tolist() == ["LambdaMART", "semantic search", "random order"]
    assert table.frame["minus LambdaMART"].str.startswith("−30")[1]


def test_each_method_has_its_cost(two):
    costs = {method: Cost(pd.Series([1.0, 3.0]), 4.0, 0.0) for method in two.scored.methods}
    frame = page.costs_table(two, costs).frame
    assert len(frame) == len(two.scored.methods)
    assert (frame["median, ms"] == 2.0).all()
    assert (frame["queries timed"] == 2).all()
