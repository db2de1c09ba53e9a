"""Searches over a toolbox, on an encoder that knows four words."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from lib.assistant import tool_search
from lib.assistant.tool_retrieval import ToolTask
from lib.assistant.tool_search import (
    ToolSearch,
    lexical_runs,
    runs_of_plans,
    scores_beside_chance,
    semantic_runs,
    try_wordings,
)

WORDS = ["mail", "notes", "music", "who"]


class Encoder:
    """A text's vector says which of `WORDS` it holds, the last of them ever so little."""

    def encode(self, texts, **settings):
        vectors = np.array([[word in text.lower().split() for word in WORDS] for text in texts], dtype=np.float32)
        vectors[:, -1] += 0.01
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


@pytest.fixture
def task():
    """Each query's right tool is the one of the app in which its first context item lies; queries ask only "who"."""
    names = [f"t{i}" for i in range(4)] + ["a", "b", "c"]
    apps = ["mail", "notes", "music", "mail", "mail", "notes", "music"]
    context = pd.DataFrame({"query": names, "item": names, "rank": 1, "app": apps, "title": "hm", "text": "well"})
    return ToolTask(
        queries=pd.DataFrame(
            {
                "query": names,
                "text": "who",
                "split": ["training"] * 4 + ["evaluation"] * 3,
                "persona": names,
                "need": ["n", "m", "n", "m", "n", "m", "n"],
                "kind": "habit",
            }
        ),
        tools=pd.DataFrame(
            {"item": ["read", "jot", "play"], "app": ["mail", "notes", "music"], "text": ["mail", "notes", "music"]}
        ),
        gold=pd.DataFrame({"query": names, "item": ["read", "jot", "play", "read", "read", "jot", "play"]}),
        gold_apps=pd.DataFrame({"query": names, "item": apps}),
        contexts={"query_plus_context": context},
    )


@pytest.fixture
def search(task):
    return ToolSearch.over(task.tools, Encoder())


def first(run):
    return run[run["rank"] == 1].set_index("query")["item"].to_dict()


def test_search_ranks_every_tool_for_every_query(task, search):
    run = search(task.evaluated, ["mail", "music who", "notes"])
    assert len(run) == 9
    assert first(run) == {"a": "read", "b": "play", "c": "jot"}


def test_wordings_are_tried_and_the_best_names_the_app(task, search):
    trial = try_wordings(search, task, task.training, "query_plus_context")
    assert trial.best() == ("app", 1), "of equals the first"
    assert trial.recall.loc["app|1", 3] == 100
    assert set(trial.recall) == {3, 5, 10, "mean"}


def test_a_wording_is_chosen_by_the_gold_plans_alone(task, search, monkeypatch):
    """Though any tool is said to serve every training query as well."""
    monkeypatch.setattr(tool_search, "TRIED_CUTOFFS", [1])
    also = pd.DataFrame(
        [(f"t{n}", plan, item) for n in range(4) for plan, item in enumerate(task.tools["item"])],
        columns=["query", "plan", "item"],
    )
    alone, served = (
        try_wordings(search, asked, task.training, "query_plus_context") for asked in (task, replace(task, also=also))
    )
    pd.testing.assert_frame_equal(served.recall, alone.recall)
    assert alone.recall.loc["query_only", 1] < 100


def test_runs_of_settings(task, search):
    texts = {"query_only": ["who"] * 3, "query_plus_context": ["who mail", "who notes", "who music"]}
    runs, vectors = semantic_runs(search, task, texts)
    assert first(runs["query_plus_context"]) == {"a": "read", "b": "jot", "c": "play"}
    assert vectors["query_only"].shape == (3, 4)
    lexical = lexical_runs(task, texts, runs)
    assert list(lexical) == ["query_only/bm25t", "query_only/rrf", "query_plus_context/bm25t", "query_plus_context/rrf"]
    assert first(lexical["query_plus_context/rrf"]) == {"a": "read", "b": "jot", "c": "play"}


def test_plans_teach_what_is_called_most(task):
    vectors, training = np.ones((3, 2), dtype=np.float32), np.ones((4, 2), dtype=np.float32)
    runs = runs_of_plans(task, vectors, training, seed=1)
    assert set(runs) == {
        "query_only/frequency", "query_only/classifier", "query_only/frequency_unseen", "query_only/classifier_unseen",
    }  # fmt: skip
    assert set(first(runs["query_only/frequency"]).values()) == {"read"}
    # Of need n, the plans of need m are left: read and jot; of need m, those of n: read and play.
    unseen = runs["query_only/frequency_unseen"]
    last = unseen[unseen["rank"] == 3].set_index("query")["item"].to_dict()
    assert last == {"a": "play", "b": "jot", "c": "play"}


def test_chance_stands_beside_the_scores(task, search):
    runs, _ = semantic_runs(search, task, {"query_only": ["mail", "notes", "music"]})
    scores = scores_beside_chance(runs, task, [1, 3], seed=1)
    assert scores["query_only", "recall", 1].tolist() == [100] * 3
    assert scores["query_only/random", "recall", 1].mean() == pytest.approx(100 / 3, abs=3)
    assert scores["query_only/random", "app_recall", 1].tolist() == pytest.approx([100 / 3] * 3)
    assert scores["query_only/random", "recall", 3].tolist() == [100] * 3


def test_chance_takes_other_plans_too(task, search):
    runs, _ = semantic_runs(search, task, {"query_only": ["mail", "notes", "music"]})
    also = pd.DataFrame({"query": ["b", "t0"], "plan": [0, 0], "item": ["read", "play"]})
    scores = scores_beside_chance(runs, replace(task, also=also), [1, 3], seed=1)
    plain = scores_beside_chance(runs, task, [1, 3], seed=1)
    column = ("query_only/random", "recall", 1)
    assert scores.loc["b", column] == pytest.approx(200 / 3, abs=4)
    pd.testing.assert_frame_equal(scores.drop("b"), plain.drop("b"))


def test_a_tool_is_learned_from_the_gold_plan_alone(task):
    vectors, training = np.ones((3, 2), dtype=np.float32), np.ones((4, 2), dtype=np.float32)
    also = pd.DataFrame({"query": ["t1", "t2"], "plan": [0, 0], "item": ["play", "jot"]})
    before, after = (runs_of_plans(asked, vectors, training, seed=1) for asked in (task, replace(task, also=also)))
    for name, run in before.items():
        pd.testing.assert_frame_equal(after[name], run)
