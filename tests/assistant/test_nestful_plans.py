"""NESTFUL's requests asked of the planner: what it is shown, and how its plans are judged."""

import numpy as np
import pandas as pd
import pytest

from lib.assistant import nestful_plans, workbench_plans
from lib.assistant.nestful import Nestful
from lib.assistant.pages import transfer_plans as page
from lib.assistant.workbench_plans import rates

FUNCTIONS = [
    {"name": name, "description": text, "parameters": {"properties": {key: {} for key in keys}, "required": keys[:1]}}
    for name, text, keys in (
        ("find_airport", "finds an airport", ["query"]),
        ("book_flight", "books a flight", ["to", "seats"]),
        ("change_money", "changes money", ["amount"]),
    )
]
CASES = [
    ("sgd-1", "sgd", "a flight to London", [
        ("find_airport", {"query": "London"}), ("book_flight", {"to": "$var1.id$"}), ("var_result", {"flight": "$2"}),
    ]),
    ("sgd-2", "sgd", "three dollars", [("change_money", {"amount": 3})]),
]  # fmt: skip
BENCH = Nestful(pd.DataFrame(CASES, columns=["case", "set", "request", "calls"]), {"sgd": FUNCTIONS})


@pytest.fixture
def prompted(monkeypatch):
    def encode(_, texts):
        """A text by the words of the three functions that it shares."""
        words = ["airport", "flight", "money"]
        return np.array([[float(word in text) for word in words] for text in texts]) + 0.01

    monkeypatch.setattr(workbench_plans, "encode", encode)
    return nestful_plans.prompts(BENCH, nestful_plans.sample(BENCH, 9, seed=1), None)


def test_tools_are_the_nearest_or_those_of_the_answer(prompted):
    by = prompted.set_index(["case", "setting"])
    nearest, *others, last = by.loc[("sgd-1", "rag"), "tools"]
    assert (nearest, set(others), last) == ("book_flight", {"find_airport", "change_money"}, "default")
    assert by.loc[("sgd-1", "upper_bound"), "tools"] == ["book_flight", "find_airport"]
    text = by.loc[("sgd-1", "upper_bound"), "prompt"]
    assert "a flight to London" in text
    assert "book_flight(to, seats?)" in text
    assert "$var1" not in text
    assert "default()" in by.loc[("sgd-2", "rag"), "prompt"]


def test_plans_are_right_as_a_whole_or_in_their_first_call(prompted):
    texts = {
        ("sgd-1", "rag"): 'find_airport(query="London")',
        ("sgd-1", "upper_bound"): 'find_airport(query="London")\nbook_flight(to="$var1.id$")',
        ("sgd-2", "rag"): "change_money(amount=3",
        ("sgd-2", "upper_bound"): "change_purse(amount=3)",
    }
    plans = nestful_plans.judged(
        prompted.assign(text=[texts[row.case, row.setting] for row in prompted.itertuples()]), BENCH
    )
    found = plans.set_index(["case", "setting"])[list(nestful_plans.MEASURES)]
    assert found.loc[("sgd-1", "rag")].tolist() == [False, True, False, False, False]
    assert found.loc[("sgd-1", "upper_bound")].tolist() == [True, True, True, False, False]
    assert found.loc[("sgd-2", "rag")].tolist() == [False, False, True, True, False]
    assert found.loc[("sgd-2", "upper_bound")].tolist() == [False, False, False, False, True]
    table = rates(plans, nestful_plans.MEASURES)
    assert table[(table["setting"] == "rag") & (table["measure"] == "first")]["value"].item() == 50
    shown = page.plans_table(table, "NESTFUL's requests", nestful_plans.MEASURES).frame
    assert list(shown)[1:] == [f"{said}, %" for said in nestful_plans.MEASURES.values()]
    said = page.nested_words(plans)
    assert said.startswith("The shipped planner, which learned no reference, is right: with ")
    assert said.endswith("(n = 2).")


def test_a_sample_is_seeded_and_in_order():
    assert (
        nestful_plans.sample(BENCH, 1, seed=3)["case"].tolist()
        == nestful_plans.sample(BENCH, 1, seed=3)["case"].tolist()
    )
    assert nestful_plans.sample(BENCH, 9, seed=3)["case"].tolist() == ["sgd-1", "sgd-2"]
