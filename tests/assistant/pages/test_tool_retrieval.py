"""Notebook 06's page: each sentence in each thing it can say, and what tables and figures show."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from lib.assistant.pages import tool_retrieval as page
from lib.assistant.pages import tool_retrieval_tables as tables
from lib.assistant.pages.tool_retrieval import Results, cutoffs_of
from lib.assistant.tool_retrieval import ToolTask
from lib.assistant.tool_search import WordingTrial
from lib.evaluation.inference import Resampling

APPS = ["mail", "mail", "notes", "music", "calendar"]
SETTINGS = [*page.MAIN, *page.FLOORS]
REFERENCES = [*page.UNTOUCHED, "query_only/frequency_unseen", "query_only/classifier_unseen"]
SEARCHES = [
    f"{name}/{way}" for name in ("query_only", "query_plus_context", "oracle_context") for way in ("bm25t", "rrf")
]


def context(*rows):
    frame = pd.DataFrame(rows, columns=["query", "item", "rank", "app"])
    return frame.assign(title=frame["item"], text=frame["item"])


@pytest.fixture
def task():
    """Four evaluated queries, the last of which no tool fits, and one training query."""
    names = ["q0", "q1", "q2", "q3"]
    queries = pd.DataFrame(
        {
            "query": ["t0", *names],
            "text": ["train", "one", "two", "three", "four"],
            "split": ["training"] + ["evaluation"] * 4,
            "persona": ["p", "a", "a", "b", "b"],
            "need": ["n", "n", "m", "n", "m"],
            "kind": ["habit", "habit", "meaning", "either", "habit"],
        }
    )
    retrieved = context(
        ("q0", "i0", 1, "mail"), ("q1", "i1", 1, "notes"), ("q2", "i2", 1, "mail"), ("q3", "i3", 1, "mail")
    )
    oracle = context(
        ("q0", "i0", 1, "mail"), ("q1", "i1", 1, "notes"), ("q2", "i9", 1, "notes"), ("q3", "i3", 1, "mail")
    )
    return ToolTask(
        queries=queries,
        tools=pd.DataFrame({"item": list("vwxyz"), "app": APPS, "text": ["a mail", "send", "a note", "play", "meet"]}),
        gold=pd.DataFrame({"query": ["t0", "q0", "q1", "q2"], "item": ["v", "v", "y", "x"]}),
        gold_apps=pd.DataFrame({"query": names, "item": ["mail", "music", "notes", "calendar"]}),
        contexts={"query_plus_context": retrieved, "query_plus_semantic_context": oracle, "oracle_context": oracle},
    )


def results_of(task, **levels):
    """Every method finds 40% of everything at every K, unless `levels` says otherwise."""
    cutoffs = cutoffs_of(len(task.tools))
    columns = {
        (method, metric, k): np.full(4, float(levels.get(method.replace("/", "_"), 40)))
        for metric in ("recall", "app_recall")
        for method in [*SETTINGS, *REFERENCES, *SEARCHES]
        for k in cutoffs.all
    }
    scores = pd.DataFrame(columns, index=pd.Index(["q0", "q1", "q2", "q3"], name="query"))
    scores.columns = scores.columns.set_names(["method", "metric", "k"])
    return Results(task, scores, cutoffs, Resampling(task.units, 50, 1))


@pytest.fixture
def results(task):
    return results_of(task, query_only=20, oracle_context=70, right_app=60)


# ---------------------------------------------------------------- cutoffs and shared pieces


@pytest.mark.parametrize(
    ("n_tools", "shown", "k"), [(1, [1], 1), (4, [1, 3], 1), (7, [1, 3, 5], 3), (59, [1, 3, 5, 10], 5)]
)
def test_cutoffs_stop_at_the_number_of_tools(n_tools, shown, k):
    cutoffs = cutoffs_of(n_tools)
    assert (cutoffs.shown, cutoffs.k) == (shown, k)
    assert cutoffs.all == list(range(1, min(n_tools, 10) + 1))


def test_results_are_means_with_intervals(results):
    assert (results.k, results.n) == (3, 4)
    assert results.mean("oracle_context") == 70
    assert results.interval("query_only", 1) == "20.0 [20.0, 20.0]"


def test_the_report_gets_setting_retriever_and_target(results):
    table = page.published_columns(results)
    assert list(table) == ["setting", "retriever", "target", "k", "recall", "ci_low", "ci_high", "n_topics", "n"]
    assert set(table["target"]) == {"api", "app"}
    plain = table[
        (table["setting"] == "oracle_context") & (table["retriever"] == "semantic") & (table["target"] == "api")
    ]
    assert plain["recall"].tolist() == [70] * 5
    assert set(table["retriever"]) == {
        "semantic", "bm25t", "rrf", "random", "frequency", "classifier", "frequency_unseen", "classifier_unseen",
    }  # fmt: skip


def test_scores_in_rows_leave_other_retrievers_out(results):
    rows = page.scores_in_rows(results, {"query_only": [], "oracle_context": []})
    assert list(rows) == ["query", "persona", "need", "kind", "method", "metric", "k", "value"]
    assert set(rows["method"]) == {"query_only", "oracle_context"}
    assert len(rows) == 4 * 2 * 2 * 5


# ---------------------------------------------------------------- what is searched, and with which words


@pytest.fixture
def trial():
    """Names of apps help most, of three items; texts help by their content."""
    options = [("app", 1), ("app", 3), ("title", 1), ("text", 1), ("app: text", 1)]
    gains = [5.0, 8.0, -2.0, 1.0, 3.0]
    recall = pd.DataFrame(
        {3: [*np.add(10, gains).tolist(), 10.0]}, index=[f"{name}|{n}" for name, n in options] + ["query_only"]
    )
    said = {option: pd.Series(["one two", None]) for option in options}
    return WordingTrial(pd.DataFrame({"query": ["a", "b"]}), pd.DataFrame(), said, {}, recall.assign(mean=recall[3]))


def test_the_wording_chosen(trial):
    assert trial.best() == ("app", 3)
    table = tables.wordings(trial)
    assert table.frame["wording"].tolist()[-1] == "query alone"
    assert table.frame["words added"].tolist() == [1.0] * 5 + [0.0]
    assert "on 2 training queries" in table.caption


# ---------------------------------------------------------------- who gains, and through what


def test_an_example_that_default_serves_names_the_tool_that_does_as_well(task):
    task = replace(task, also=pd.DataFrame({"query": ["q3"], "plan": [0], "item": ["w"]}))
    ranks = pd.DataFrame({"before": [5.0, 1], "after": [1.0, 4]}, index=["q3", "q0"])
    table = tables.examples(results_of(task), ranks, ["q3", "q0"], pd.Series(dtype=str))
    assert table.frame["tool it needs"].tolist() == ["w", "v"]
