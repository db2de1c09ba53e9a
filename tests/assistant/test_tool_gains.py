"""Where retrieved context helps tool search and where it misleads."""

from dataclasses import replace

import pandas as pd
import pytest

from lib.assistant.tool_gains import (
    drawn_examples,
    first_gold_app,
    query_groups,
    ranks_before_and_after,
)
from lib.assistant.tool_retrieval import ToolTask


def context(*rows):
    return pd.DataFrame(rows, columns=["query", "item", "rank", "app"])


@pytest.fixture
def task():
    """q0's first item names its app; q1's is relevant and names another; q2's is irrelevant; no tool fits q3; q4 has no
    context."""
    return ToolTask(
        queries=pd.DataFrame(
            {
                "query": ["t", "q0", "q1", "q2", "q3", "q4"],
                "text": "x",
                "split": ["training"] + ["evaluation"] * 5,
                "persona": "p",
                "need": "n",
                "kind": ["habit", "habit", "meaning", "habit", "either", "habit"],
            }
        ),
        tools=pd.DataFrame(
            {
                "item": ["read", "send", "jot", "play"],
                "app": ["mail", "mail", "notes", "music"],
                "text": ["read a mail", "send it", "jot down", "play a song"],
            }
        ),
        gold=pd.DataFrame(
            {
                "query": ["t", "q0", "q0", "q1", "q2", "q4"],
                "item": ["jot", "read", "play", "play", "jot", "send"],
            }
        ),
        gold_apps=pd.DataFrame(columns=["query", "item"]),
        contexts={
            "query_plus_context": context(
                ("q0", "a", 1, "music"), ("q0", "b", 2, "notes"), ("q1", "c", 1, "notes"), ("q2", "d", 1, "mail"),
                ("q3", "e", 1, "mail"),
            ),
            "oracle_context": context(
                ("q0", "b", 1, "notes"), ("q1", "c", 1, "notes"), ("q1", "f", 2, "music"), ("q2", "g", 1, "notes"),
                ("q3", "e", 1, "mail"),
            ),
        },
    )  # fmt: skip


def test_groups_follow_the_kind_and_the_first_tools_app(task):
    assert first_gold_app(task).tolist()[:3] == ["mail", "music", "notes"]
    assert pd.isna(first_gold_app(task)[3])
    groups = query_groups(task)
    assert groups["resolved by habit"].tolist() == [True, False, True, False, True]
    assert groups["tool in Mail"].tolist() == [True, False, False, False, True]
    assert not groups["tool in Calendar"].any()


def test_ranks_and_examples(task):
    order = ["read", "send", "jot", "play"]

    def run(**first):
        rows = [
            (query, name, rank)
            for query, top in first.items()
            for rank, name in enumerate([top, *(name for name in order if name != top)], start=1)
        ]
        return pd.DataFrame(rows, columns=["query", "item", "rank"])

    alone = run(q0="read", q1="read", q2="read", q3="read", q4="read")
    beside = run(q0="send", q1="play", q2="jot", q3="jot", q4="jot")
    ranks = ranks_before_and_after(task, {"query_only": alone, "query_plus_context": beside})
    assert ranks.to_dict("index") == {
        "q0": {"before": 1, "after": 2},
        "q1": {"before": 4, "after": 1},
        "q2": {"before": 3, "after": 1},
        "q4": {"before": 2, "after": 3},
    }


def test_examples_rose_into_or_fell_out_of_the_first_k():
    ranks = pd.DataFrame(
        {"before": [9, 9, 9, 9, 1, 2, 3, 9, 1], "after": [1, 2, 3, 4, 9, 9, 9, 6, 3]}, index=[f"q{i}" for i in range(9)]
    )
    picked = drawn_examples(ranks, 5, seed=1)
    assert len(picked) == 5
    assert set(picked[:3]) < {"q0", "q1", "q2", "q3"}
    assert set(picked[3:]) < {"q4", "q5", "q6"}
    assert picked == drawn_examples(ranks, 5, seed=1)
    assert len({tuple(drawn_examples(ranks, 5, seed)) for seed in range(9)}) > 1
    assert drawn_examples(ranks[7:], 5, seed=1) == []


def test_an_app_is_right_where_another_plan_acts(task):
    also = replace(task, also=pd.DataFrame({"query": ["q1"], "plan": [0], "item": ["jot"]}))
    run = pd.DataFrame({"query": "q1", "item": ["jot", "play"], "rank": [1, 2]})
    ranks = ranks_before_and_after(also, {"query_only": run, "query_plus_context": run})
    assert ranks.loc["q1"].tolist() == [1, 1]
