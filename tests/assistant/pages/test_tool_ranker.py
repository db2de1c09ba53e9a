"""Notebook 06's part on learned tools: what tables, figure and sentences say of numbers that are given."""

import numpy as np
import pandas as pd
import pytest

from lib.assistant.pages import tool_ranker as page
from lib.assistant.pages.tool_retrieval import Results, cutoffs_of
from lib.assistant.tool_ranker import DEALT, OTHER
from lib.assistant.tool_retrieval import ToolTask
from lib.evaluation.inference import Resampling

NAMES = ["q0", "q1", "q2", "q3"]
METHODS = [page.ALONE, page.CONTEXT, *page.CLASSIFIERS, *page.OURS, *page.OURS_UNSEEN, "query_only/random"]


@pytest.fixture
def task():
    queries = pd.DataFrame(
        {
            "query": NAMES,
            "text": NAMES,
            "split": "evaluation",
            "persona": ["a", "a", "b", "b"],
            "need": ["n", "m", "n", "m"],
            "kind": ["habit", "meaning", "either", "habit"],
        }
    )
    tools = pd.DataFrame({"item": list("vwxyz"), "app": "mail", "text": list("vwxyz")})
    gold = pd.DataFrame({"query": NAMES, "item": ["v", "v", "y", "x"]})
    one = pd.DataFrame({"query": NAMES, "item": "i", "rank": 1, "app": "mail"})
    return ToolTask(queries, tools, gold, gold.iloc[:0], {"query_plus_context": one})


def results_of(task, **levels):
    """Every method finds 40% of everything, unless `levels` says otherwise."""
    cutoffs = cutoffs_of(len(task.tools))
    columns = {
        (method, "recall", k): np.full(4, float(levels.get(method.replace("/", "_"), 40)))
        for method in METHODS
        for k in cutoffs.all
    }
    scores = pd.DataFrame(columns, index=pd.Index(NAMES, name="query"))
    scores.columns = scores.columns.set_names(["method", "metric", "k"])
    return Results(task, scores, cutoffs, Resampling(task.units, 50, 1))


@pytest.fixture
def results(task):
    return results_of(
        task,
        query_only=20,
        query_plus_context_lambdamart=80,
        query_only_lambdamart=50,
        query_plus_context_lambdamart_unseen=60,
        query_only_lambdamart_unseen=30,
    )


def test_ratios_say_what_is_over_what(results):
    over = page.times_as_many(results)
    assert [part["ratio"].iloc[0] for part in over.values()] == [4, 1.6, 2, 2]
    table = page.ratio_table(results, over).frame
    assert table["K = 3"].str.split().str[0].tolist() == ["4.00", "1.60", "2.00", "2.00"]
    assert table["K = 3"].iloc[0] == "4.00 [4.00, 4.00]"


def test_kinds_are_apart(results):
    results.scores.loc["q1", (page.OURS_CONTEXT, "recall", 3)] = 10
    frame = page.kind_table(results).frame.set_index("resolved by")
    column = "LambdaMART, query + retrieved context"
    assert frame[column].str.split().str[0].to_dict() == {"meaning": "10.0", "habit": "80.0", "either": "80.0"}
    assert frame["n"].to_dict() == {"meaning": 1, "habit": 2, "either": 1}


def compared(*rows):
    """Paired tests (a, b, difference); settled where the difference is 5 or more."""
    frame = pd.DataFrame(rows, columns=["a", "b", "difference"])
    firm = frame["difference"].abs() >= 5
    return frame.assign(
        ci_low=frame["difference"] - np.where(firm, 1, 9),
        ci_high=frame["difference"] + np.where(firm, 1, 9),
        p_value=0.01,
    )


def run_of(first):
    """The tools of every query, `first` first."""
    order = [first, *(tool for tool in "vwxyz" if tool != first)]
    rows = [(query, tool, rank) for query in NAMES for rank, tool in enumerate(order, start=1)]
    return pd.DataFrame(rows, columns=["query", "item", "rank"]).eval("score = -rank")


def test_controls_stand_beside_what_they_must_not_exceed(results):
    weighed = page.weighed(results, run_of("v"), [run_of("v"), run_of("z")])
    assert weighed["control"].tolist() == [OTHER, DEALT]
    assert weighed["reference"].tolist() == [page.OURS_ALONE, "halfway to its reverse"]
    assert weighed["draws"].tolist() == [1, 2]
    assert weighed["reference_recall"].iloc[0] == results.scores[page.OURS_ALONE, "recall", 3].mean()
    frame = page.control_table(results, weighed).frame
    assert frame["control"].tolist() == ["another query's context", "labels permuted"]
    assert frame["compared with"].tolist() == ["LambdaMART, query alone", "halfway to its reverse"]
