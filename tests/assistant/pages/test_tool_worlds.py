"""Notebook 06's part on the three named worlds: what figure, table and sentences say of numbers that are given."""

import numpy as np
import pandas as pd
import pytest

from lib.assistant.pages import tool_worlds as page
from lib.assistant.pages.tool_retrieval import cutoffs_of
from lib.assistant.tool_retrieval import ToolTask
from lib.assistant.tool_worlds import ToolsFound

N = 60
NAMES = [f"q{n:02}" for n in range(N)]


def found_in(**levels):
    """Recall of each method is 50 but for `levels`, a little noisy, so that intervals are narrow but no points."""
    queries = pd.DataFrame(
        {
            "query": [*NAMES, "t"],
            "text": "x",
            "split": ["evaluation"] * N + ["training"],
            "persona": [f"p{n % 20}" for n in range(N + 1)],
            "need": [f"n{n % 7}" for n in range(N + 1)],
            "kind": "habit",
        }
    )
    tools = pd.DataFrame({"item": [f"t{n}" for n in range(6)], "app": "mail", "text": "y"})
    gold = pd.DataFrame({"query": NAMES, "item": "t0"})
    context = pd.DataFrame({"query": NAMES, "item": "i", "rank": 1, "app": "mail"})
    task = ToolTask(queries, tools, gold, gold.assign(item="mail"), {"oracle_context": context})
    rng = np.random.default_rng(0)
    columns = {
        (method, "recall", k): levels.get(method, 50) + rng.normal(0, 1, N)
        for method in page.METHODS
        for k in range(1, 7)
    }
    scores = pd.DataFrame(columns, index=pd.Index(NAMES, name="query"))
    scores.columns = scores.columns.set_names(["method", "metric", "k"])
    return ToolsFound(task, ("app", 1), scores, {}, {})


@pytest.fixture
def found():
    return {
        "explicit": found_in(),
        "hard": found_in(
            **{page.ALONE: 20, page.CONTEXT: 25, page.TUNED: 30, page.OTHER: 10}
            | {page.RANKER_CONTEXT: 75, page.RANKER_TUNED: 75, page.UNSEEN_TUNED: 40}
        ),
    }


@pytest.fixture
def results(found):
    return page.results_of(found, cutoffs_of(6), 100, 1)


def test_gains_are_over_the_same_retriever_alone(results):
    gains = page.gains_at(results, 3)
    assert gains.loc[("hard", page.TUNED), "ratio"] == pytest.approx(1.5, abs=0.05)
    assert gains.loc[("hard", page.UNSEEN_TUNED), "ratio"] == pytest.approx(0.8, abs=0.05)
    assert gains.loc[("hard", page.OTHER), "ratio"] == pytest.approx(0.5, abs=0.05)
    assert gains.loc[("hard", page.RANKER_CONTEXT), "ratio"] == pytest.approx(1.5, abs=0.05)
    assert gains.loc[("explicit", page.CONTEXT), "ratio"] == pytest.approx(1, abs=0.05)
    low, high = gains.loc[("hard", page.TUNED), ["ci_low", "ci_high"]]
    assert 1 < low < 1.5 < high


def test_the_written_table_has_a_row_for_each_number(results):
    rows = page.in_rows(results)
    assert list(rows) == [
        "world", "setting", "retriever", "k", "recall", "ci_low", "ci_high", "gain", "gain_low", "gain_high",
        "n_topics", "n",
    ]  # fmt: skip
    assert len(rows) == 2 * len(page.METHODS) * 6
    by = rows.set_index(["world", "setting", "retriever", "k"])
    assert by.loc[("hard", "query_only", "semantic", 3), "recall"] == pytest.approx(20, abs=0.5)
    assert np.isnan(by.loc[("hard", "query_only", "semantic", 3), "gain"])
    assert by.loc[("hard", page.CONTEXT, "lambdamart", 3), "gain"] == pytest.approx(1.5, abs=0.05)
    assert (rows["n"] == N).all()


def test_where_nothing_is_found_alone_there_is_no_gain():
    part = found_in()
    part.scores[page.ALONE] = 0.0
    results = page.results_of({"hard": part}, cutoffs_of(6), 100, 1)
    assert page.gains_table(results).frame["`hard`"].iloc[0].startswith("–")
