"""The page of own functions: what it says of files, of searches and of misses."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

from lib.assistant.pages import own_functions as page
from lib.assistant.pages.tool_retrieval import Results, cutoffs_of
from lib.assistant.tool_retrieval import task_of_functions
from lib.assistant.tool_search import lexical_runs, scores_beside_chance
from lib.assistant.toolbox import FunctionAPI, Toolbox
from lib.evaluation.inference import Resampling

NAMES = ["add", "halve", "tide", "wind", "kiln"]


@pytest.fixture
def task():
    queries = pd.DataFrame(
        {
            "query": ["a", "b", "c"],
            "text": ["add it", "fire the kiln", "a joke"],
            "apis": [["add", "halve"], ["kiln"], ["default"]],
            "place": "q.json, line 1",
        }
    )
    definitions = [{"name": name, "description": f"{name} <b>it</b> {'far ' * 80}"} for name in NAMES]
    return task_of_functions(queries, Toolbox([FunctionAPI.from_definition(one) for one in definitions]))


def run_of(**orders):
    rows = [(query, name, rank) for query, names in orders.items() for rank, name in enumerate(names, start=1)]
    return pd.DataFrame(rows, columns=["query", "item", "rank"])


@pytest.fixture
def runs(task):
    """Semantic search finds a's functions at once and b's last."""
    runs = {"query_only": run_of(a=NAMES, b=NAMES, c=NAMES)}
    return runs | lexical_runs(task, {"query_only": task.evaluated["text"].tolist()}, runs)


@pytest.fixture
def results(task, runs):
    cutoffs = cutoffs_of(len(task.tools))
    scores = scores_beside_chance(runs, task, cutoffs.all, seed=1)
    return Results(task, scores, cutoffs, Resampling(task.units, 50, 1))


def test_tables_of_the_files(task):
    table = page.functions_table(task.tools)
    assert "first 5 of 5" in table.caption
    assert table.frame["text"].str.len().max() <= 200
    assert page.queries_table(task).frame["functions"].tolist() == ["add, halve", "kiln", "–"]


def test_how_many_are_found(results):
    assert results.k == 3
    table = page.recall_table(results)
    assert table.frame["search"].tolist() == ["semantic search", "BM25T", "RRF of both", "random order"]
    assert table.frame.loc[0, "Recall@3"].startswith("33.3 [")
    drawing = page.recall_figure(results)
    assert set(drawing.data["method"]) == set(page.DRAWN)
    plt.close(drawing.figure)


def paired(*differences):
    firm = np.abs(differences) >= 5
    tests = pd.DataFrame(page.TESTS, columns=["a", "b"]).assign(difference=differences)
    reach = np.where(firm, 1, 9)
    return tests.assign(
        ci_low=tests["difference"] - reach, ci_high=tests["difference"] + reach, p_value=np.where(firm, 0.01, 0.5)
    )


def test_differences(results):
    tests = paired(30, -9, 1)
    table = page.differences_table(results, tests)
    assert table.frame["difference"].tolist()[0] == "semantic search − random order"
    assert list(table.frame) == ["difference", "points", "p"]


def test_misses(results, runs):
    misses = page.missed(results, runs)
    assert misses.to_dict("records") == [
        {"query": "fire the kiln", "needs": "kiln", "rank": 5, "bm25t": 1, "first": "add"}
    ]
    table = page.missed_table(misses, 3)
    assert table.caption.endswith("the worst of 1.")
    assert list(table.frame) == [
        "query", "function it needs", "its rank", "its rank by BM25T", "ranked first instead",
    ]  # fmt: skip


def test_no_misses(results, runs):
    found = runs | {"query_only": run_of(a=NAMES, b=NAMES[::-1], c=NAMES)}
    misses = page.missed(results, found)
    assert misses.empty
