"""What notebook 07 shows and says, on frames small enough to count by hand."""

import json
from types import SimpleNamespace

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

from lib.assistant.pages import planner_tables as tables
from lib.assistant.pages.planner import SHORT, over_topics
from lib.assistant.plan_comparison import by_needs

NAMES = ["q0", "q1", "q2", "q3"]
GOLD = pd.DataFrame(
    {
        "query": NAMES,
        "need": ["late", "late", "none", "none"],
        "apis": [["open_note"], ["open_note"], ["default"], ["default"]],
        "relevant": [["i1"], ["i1", "i2"], ["i3"], ["i4"]],
        "plan": ['open_note(title="A")', 'open_note(title="B")', "default()", "default()"],
        "answers": [
            json.dumps(answer)
            for answer in (
                [{"open_note": {"title": ["A"]}}],
                [{"open_note": {"title": ["B"]}}],
                [{"default": {}}],
                [{"default": {}}],
            )
        ],
    }
)
RATES = {"lower_bound": 0, "rag": 1, "context_tuned_rag": 2, "upper_bound": 3, "context_tuned_upper_bound": 4}


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


ASKED_BY = {"persona": ["ana", "ana", "ben", "cy"] * 5, "need": ["a", "b", "c", "d"] * 5}


def plans(rights=RATES, **columns):
    """Judged plans: in each setting the first few of four are right."""
    frames = []
    for setting, right in rights.items():
        scores = np.where(np.arange(4) < right, 100.0, 0.0)
        values = {
            "query": NAMES,
            "setting": setting,
            "text": ["default()"] * 4,
            "tools": [["default"]] * 4,
            "ast_accuracy": scores,
            "executed": scores,
            "right_api": scores,
            "hallucination": 0.0,
            "outside_shown": 0.0,
            "answerable": 0.0,
            "failure": np.where(scores > 0, "", "wrong_value"),
            "persona": [f"p{n}" for n in range(4)],
            "need": ["walk", "bake"] * 2,
        }
        frames.append(pd.DataFrame(values | columns))
    return pd.concat(frames, ignore_index=True)


# ---------------------------------------------------------------- words


def two(right, pair):
    return plans({"context_tuned_upper_bound": right, "context_tuned_rag": 0}).assign(pair=pair, first_right=True)


# ---------------------------------------------------------------- tables


def test_parts_of_accuracy_leave_out_plans_without_arguments():
    frame = tables.parts_of_accuracy(plans(answerable=[100.0, 0.0, 0.0, 0.0]), GOLD, 4).frame.set_index("setting")
    row = frame.loc["right tool"]
    assert row[["right API", "plans with the right API", "right, not answerable"]].tolist() == [
        "75.0 [50.0, 100.0]", 3, 2
    ]  # fmt: skip
    given = row[["AST, of plans with the right API, %", "AST, of answerable prompts, %"]]
    assert given.str.split().str[0].tolist() == ["100.0", "100.0"]
    due = frame["AST where arguments are due"].str.split(" [", regex=False).str[0]
    assert due.tolist() == ["0.0", "50.0", "100.0", "100.0", "100.0"]
    asked = plans().query("setting == 'rag' and query in ['q0', 'q1']")
    assert frame.loc[SHORT["rag"], "AST where arguments are due"] == over_topics(asked, "ast_accuracy")


def test_kinds_and_needs_are_told_apart():
    kinds = ["meaning", "habit", "habit", "habit"] * 5
    named = plans().assign(kind=kinds, held_out=[False, False, True, True] * 5, **ASKED_BY)
    table = tables.kinds_and_needs(named)
    frame = table.frame.set_index("queries")
    where = dict(zip(frame.index, table.cases["AST, right tool + context"], strict=True))
    assert where["kind: habit"] == "queries.html#kind=habit&setting=context_tuned_upper_bound"
    assert where["needs held out"] == ""
    assert frame["n"].tolist() == [1, 3, 0, 2, 2]
    assert frame.loc["needs seen in training", "AST, RAG"].startswith("50.0 [")
    assert frame.loc["kind: either", "API, right tool + context"] == "–"


def test_needs_that_were_not_learned_have_rows_of_their_own():
    queries = pd.DataFrame({"query": NAMES, "persona": ["p0", "p1", "p2", "p3"]})
    lesson = SimpleNamespace(material=SimpleNamespace(gold=GOLD, queries=queries), held_out={"none"})
    rows = by_needs({"tuned": plans()}, lesson)
    assert set(rows["model"]) == {"tuned"}
    rows = rows.set_index(["needs", "setting", "metric"])
    assert set(rows.index.get_level_values("needs")) == {"learned", "held out"}
    assert (rows["n"] == 2).all()
    row = rows.loc[("learned", "rag", "ast_accuracy")]
    assert (row["value"], row["n_topics"]) == (50, 1)
    assert np.isnan(row["ci_low"]), "of one topic"


def test_a_rate_in_few_clusters_is_less_certain():
    many = pd.DataFrame({"persona": range(40), "need": range(40), "right": [0.0, 100.0] * 20})
    few = many.assign(persona=[0, 1] * 20, need=[0, 1] * 20)
    spans = [over_topics(part, "right") for part in (many, few)]
    assert spans[0] == "50.0 [35.0, 65.0]"
    low, high = (float(end) for end in spans[1].split("[")[1].rstrip("]").split(", "))
    assert low < 10
    assert high > 90


def test_two_calls_are_shown_by_setting_and_way():
    frame = tables.two_calls({"at once": two(1, [True, False] * 4), "step by step": two(4, [True] * 8)}).frame
    assert frame["setting"].tolist() == ["context-tuned RAG"] * 2 + ["right tool + context"] * 2
    assert frame["planned"].tolist() == ["at once", "step by step"] * 2
    assert frame.iloc[2, 2:].tolist() == [4, 100.0, 25.0, 25.0, 50.0, 50.0]
    assert frame.iloc[3, 2:].tolist() == [4, 100.0, 100.0, 100.0, 100.0, 100.0]
    last = "both right, where two were written at once"
    both = {"at once": two(1, [True, False] * 4), "step by step": two(2, [True] * 8)}
    assert tables.two_calls(both).frame[last].tolist()[2:] == [50, 50], "q0 and q2 both ways"
