"""What notebook 07 shows and says, on frames small enough to count by hand."""

import json
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

from lib.assistant.pages import planner_figures as figures
from lib.assistant.pages import planner_tables as tables
from lib.assistant.pages import planner_words as words
from lib.assistant.pages.planner import SHORT, Learned, clustered_rate, share
from lib.assistant.plan_comparison import by_needs, failure_rows, failure_shares, sweep_points
from lib.assistant.planner import SETTINGS
from lib.generation.finetune import Training
from lib.workbook.trained import Adapter, thinned

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
FUNCTIONS = [{"name": "open_note"}]
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


def comparisons(settled=True, low=1.0, differing=3):
    pairs = [("context_tuned_rag", "rag"), ("upper_bound", "context_tuned_rag")]
    return pd.DataFrame(
        {
            "a": [a for a, _ in pairs],
            "b": [b for _, b in pairs],
            "metric": "ast_accuracy",
            "difference": 25.0,
            "ci_low": low,
            "ci_high": 40.0,
            "p_holm": [0.0004, 0.02],
            "settled": settled,
            "differing": differing,
        }
    )


def summary():
    rows = [
        (setting, metric, 25.0 * right, max(0.0, 25.0 * right - 5), min(100.0, 25.0 * right + 5), 4, 43.8)
        for setting, right in RATES.items()
        for metric in (
            "ast_accuracy",
            "exact_match",
            "hallucination",
            "executed",
            "right_api",
            "outside_shown",
            "answerable",
        )
    ]
    columns = ["setting", "metric", "value", "ci_low", "ci_high", "n", "published"]
    table = pd.DataFrame(rows, columns=columns)
    missing = (table["setting"] == "lower_bound") & table["metric"].isin(["outside_shown", "answerable"])
    table.loc[missing, ["value", "ci_low", "ci_high"]] = np.nan
    return table


@pytest.fixture
def learned():
    curve = pd.DataFrame(
        {
            "step": range(1, 21),
            "loss": np.linspace(2, 0.1, 20),
            "learning_rate": 0.003,
            "tokens": 100,
            "target_tokens": 7,
        }
    )
    record = {"settings": asdict(Training(learning_rate=0.003, epochs=1, batch_size=8, seed=7))}
    adapter = Adapter(Path("planner"), False, "No part fits.", curve, 3, 2000, 61.4, "a laptop", record)
    numbers = {"queries": 2, "personas": 2, "second_calls": 1, "thoughts": 1, "missed": 0.25}
    return Learned("Some_model", adapter, numbers, 1, 5)


# ---------------------------------------------------------------- small things


def test_shares():
    assert share([True, False, False]) == "33%"


# ---------------------------------------------------------------- words


def test_the_example_prompt_stands_as_it_is_and_shares_are_counted():
    prompts = pd.concat(
        pd.DataFrame(
            {
                "query": NAMES,
                "setting": setting,
                "tools": [["open_note"], ["default"], ["default"], ["default"]],
                "items": items,
                "prompt": ["Request: <b>\nPlan:\n", "", "", ""],
            }
        )
        for setting, items in (("rag", [None] * 4), ("context_tuned_rag", [["i1"], ["i1"], ["i9"], ["i4"]]))
    )
    text = words.what_is_shown(prompts, GOLD, 10, 3)
    assert text.startswith("4 evaluation queries")
    assert "\n\n    Request: <b>\n    Plan:\n" in text  # `say` escapes it
    assert "among the 10 shown for 75% of the queries (by the query alone) and 75% (with context)" in text
    assert "all are among the 3 shown for 50%, at least one for 75%." in text


def test_training_is_told_with_its_numbers(learned):
    text = words.training(learned)
    assert text.startswith(
        "Some\\_model, 3 pairs from 2 queries of 2 training personas (1 of them second calls, 1 with"
    )
    assert "2,000 tokens read, 140 of them learned. It was trained here, in 61 s on a laptop. No part fits." in text
    shipped = replace(learned, adapter=replace(learned.adapter, shipped=True, reason=""))
    assert "It came with the project, where it was trained in 61 s on a laptop. Adapter" in words.training(shipped)
    assert "learning rate 0.003. 1 of the 5 needs are left out. Retrieval had missed a gold tool in 25%" in text


def test_the_gain_of_context_is_settled_or_not():
    assert words.gain_of_context(comparisons()).endswith(", a settled gain.")
    assert "25.0 [1.0, 40.0] points" in words.gain_of_context(comparisons())
    assert words.gain_of_context(comparisons(False)).endswith("is not settled with this many queries.")


def test_executed_plans_are_told_by_their_largest_difference():
    every = plans()
    every.loc[every["setting"] == "lower_bound", "text"] = 'read_mail(subject="A")'
    assert words.executed(every, GOLD) == (
        "Executed in the simulated world, the same plans are right (the largest difference from AST accuracy in any "
        "row is 0.0 points). Another call can do the same only where both read and change nothing: of 10 plans that "
        "AST accuracy calls wrong, 3 are for queries that a reading serves, 2 of them read, and 0 give back what is "
        "wanted."
    )
    every.loc[every["setting"] == "rag", "executed"] = [100.0, 100.0, 0.0, 0.0]
    assert "world, not quite the same plans are right (" in words.executed(every, GOLD)
    assert "in any row is 25.0 points)." in words.executed(every, GOLD)
    assert words.executed(every, GOLD).endswith(" 2 of them read, and 1 give back what is wanted.")


def test_retrieved_tools_add_nothing_to_a_planner_that_knows_the_toolbox():
    numbers = "Without a list of tools the tuned planner calls the right API in 50.0%, with search's list in 50.0%."
    assert words.tools_alone(plans(RATES | {"lower_bound": 2, "rag": 2})) == (
        "Why retrieved tools alone add nothing here: the tuned planner has learned the toolbox. " + numbers
    )
    assert words.tools_alone(plans()).startswith("Without a list of tools the tuned planner calls the right API in 0.0")
    more = plans(RATES | {"lower_bound": 2, "rag": 2})
    more.loc[(more["setting"] == "rag"), "ast_accuracy"] += 1
    assert words.tools_alone(more).startswith("Why retrieved tools alone add little here")
    more_right = plans(RATES | {"lower_bound": 1, "rag": 2}, right_api=[100.0, 100.0, 0.0, 0.0])
    assert words.tools_alone(more_right) == numbers


def test_upper_bounds_are_called_so_only_where_they_are():
    text = words.upper_bounds(plans(), comparisons(), GOLD)
    assert "an upper bound, as in the paper." in text
    assert "of 4 prompts 0 spell out the arguments, and 2 gold plans need none" in text
    assert "a planner can only guess the values" in text
    assert text.endswith("is the highest of all, as it should be.")
    for compared in (comparisons(settled=False), comparisons(low=-1.0)):
        assert "is not shown to be one here" in words.upper_bounds(plans(), compared, GOLD)
    other = words.upper_bounds(
        plans(RATES | {"rag": 4, "context_tuned_upper_bound": 3}, answerable=100.0), comparisons(), GOLD
    )
    assert other.endswith("is not the highest of all.")
    assert "of 4 prompts 2 spell out" in other
    assert "guess the values" not in other


def test_choosing_names_the_commonest_call():
    chosen = plans().assign(first=["default", "default", "default", "open_note"] * 5, shows=[True, False] * 10)
    text = words.choosing(chosen, pd.Series(["open_note"] * 4, index=NAMES), "default", GOLD)
    assert (
        "is called in 50.0 [0.0, 100.0]% of plans where it is shown and in 50.0 [0.0, 100.0]% where it is not" in text
    )
    assert "`default` alone makes 75% of the calls. The classifier names the first API in 50.0%" in text
    assert text.endswith("the commonest API of training, `default`, is right in 50.0%.")


def test_held_out_needs_are_told_only_beside_others():
    named = plans().assign(held_out=[True, False, False, False] * 5, **ASKED_BY)
    text = words.held_out_needs(named)
    assert "(n = 1) are right in 100.0 [20.7, 100.0]%, for the others in 100.0 [43.9, 100.0]%" in text
    assert "gets the API right in 100.0 [20.7, 100.0]% and 33.3 [0.1, 99.7]%" in text
    assert words.held_out_needs(named.assign(held_out=True)) == ""


def test_the_top_says_what_context_gives_for_needs_left_out():
    rows = [("rag", True, 0), ("rag", True, 100), ("rag", False, 100), ("context_tuned_rag", True, 100)]
    named = pd.DataFrame([*rows, ("context_tuned_rag", True, 100)], columns=["setting", "held_out", "ast_accuracy"])
    said = " Of plans for needs left out of training (n = 2) 50.0% are right with retrieved tools, 100.0% with context"
    assert words.of_new_needs(named) == f"{said}, too."
    assert words.of_new_needs(named[named["held_out"]]) == ""


def test_the_length_of_prompts_is_said_to_matter_only_where_it_does():
    tests = pd.DataFrame(
        [
            ("tools", 1, "right_api", -20.0, -31.0, -9.0, 0.004, True),
            ("items", 1, "ast_accuracy", 3.0, -2.0, 8.0, 0.001, False),
        ],
        columns=["varied", "number", "metric", "difference", "ci_low", "ci_high", "p_holm", "settled"],
    )
    text = words.length_of_prompts(tests, 30, 10, 3)
    assert text.startswith("30 queries a point")
    assert "Against 10 tools, or 3 items with their texts, tools 1: right API −20.0 [−31.0, −9.0] points (" in text
    assert "Holm over 2 tests" in text
    assert "items 1" not in text
    assert "no difference is settled" in words.length_of_prompts(tests[1:], 30, 10, 3)


def thought(settled):
    return pd.DataFrame(
        {
            "metric": ["right_api", "ast_accuracy"],
            "without": [50.0, 25.0],
            "with": [75.0, 25.0],
            "difference": [25.0, 0.0],
            "ci_low": [5.0, -3.0],
            "ci_high": [45.0, 3.0],
            "p_holm": [0.01, 1.0],
            "settled": settled,
        }
    )


def test_a_thought_changes_something_or_nothing():
    assert words.effect_of_thought(thought([True, False])) == "right API: 25.0 [5.0, 45.0] points."
    assert "changes nothing that can be settled" in words.effect_of_thought(thought([False, False]))


def two(right, pair):
    return plans({"context_tuned_upper_bound": right, "context_tuned_rag": 0}).assign(pair=pair, first_right=True)


def test_plans_of_two_calls_are_compared_fairly_too():
    text = words.two_calls(two(1, [True, True, False, False] * 2), two(4, [True] * 8))
    assert "are right in 25.0% at once and 100.0% step by step, a difference of 75.0 [" in text
    assert "] points (n = 4). Of the 2 queries for which it wrote two calls at once: 50.0% at once and 100.0%" in text
    assert text.endswith("] points.")
    none = words.two_calls(two(0, [False] * 8), two(0, [True] * 8))
    assert none.endswith("Of the 0 queries for which it wrote two calls at once there is none to compare.")


def test_two_calls_are_compared_over_personas_and_needs():
    """Eight queries that differ are much; of two personas who ask for two things they are little."""

    def width(**clusters):
        sides = (
            pd.DataFrame({"ast_accuracy": [right] * 8 + [0.0] * 8, **clusters}).assign(
                setting="context_tuned_upper_bound", pair=True
            )
            for right in (0.0, 100.0)
        )
        low, high = words.two_calls(*sides).split("difference of 50.0 [")[1].split("]")[0].split(", ")
        return float(high) - float(low.replace("−", "-"))

    assert width(persona=[0] * 8 + [1] * 8, need=[0] * 8 + [1] * 8) > 1.5 * width(persona=range(16), need=range(16))


def test_made_up_apis_are_named_and_settings_without_a_right_plan_told():
    text = words.made_up_apis(plans(), GOLD, FUNCTIONS)
    assert "(lower bound) 0, retrieved tools (RAG) 0" in text
    assert "of 4 plans each. A rate of 0 leaves nothing that context could reduce. 0 of all 20 plans call" in text
    assert "Without a single right plan: no retrieval (lower bound). Beside it any right plan counts" in text
    assert text.endswith("Of the 1 right plans with retrieved tools alone 0 need no argument at all (`default()`).")
    many = plans(RATES | {"rag": 0})
    many.loc[0, ["text", "hallucination"]] = ["send_note(", 100.0]
    many.loc[1, "text"] = "no call"
    text = words.made_up_apis(many, GOLD, FUNCTIONS)
    assert "(lower bound) 1," in text
    assert "Names made up: `send_note`. 1 of all 20 plans call nothing at all." in text
    assert "Two such settings cannot differ" in text
    assert text.endswith("Of the 0 right plans with retrieved tools alone 0 need no argument at all (`default()`).")
    assert "Without a single" not in words.made_up_apis(plans(dict.fromkeys(RATES, 4)), GOLD, FUNCTIONS)


def test_twice_the_same_counts_both():
    above = pd.DataFrame({"setting": "rag", "text": ["a", "y", "z"], "ast_accuracy": [100.0, 100.0, 100.0]})
    now = above.assign(text=["a", "b", "c"], ast_accuracy=[0.0, 100.0, 0.0])
    text = words.twice_the_same(["a", "b", "c"], ["a", "b", "x"], above, now)
    assert text == (
        "2 of 3 plans are the same both times, 1 the same as above (retrieved tools (RAG)). Of the 2 others 2 were "
        "right above and 1 are right now."
    )
    assert words.twice_the_same(["a"], ["a"], above[:1], now[:1]).endswith(
        "1 the same as above (retrieved tools (RAG))."
    )


# ---------------------------------------------------------------- tables


def test_table_3_stands_beside_the_published_one(learned):
    table = tables.table_3(summary(), 4, learned)
    frame, caption, *_ = table
    assert set(table.cases) == {name for name in frame if name.endswith("ours")}
    assert table.cases["exact match, ours"][1] == "queries.html#setting=rag"
    assert frame["setting"].tolist() == list(SHORT.values())
    assert frame["AST accuracy, ours"].iloc[1] == "25.0 [20.0, 30.0]"
    assert frame["hallucination, paper"].tolist() == [43.8] * 5
    assert frame["executed right, ours"].iloc[2] == "50.0 [45.0, 55.0]"
    assert "percent of 4 queries" in caption
    assert "Some_model, LoRA on 3 pairs and 2,000 tokens" in caption


def test_behind_table_3_stand_the_lengths_of_prompts():
    prompts = pd.DataFrame({"setting": [*SETTINGS, "rag"], "tokens": [10, 20, 30, 40, 50, 23]})
    frame = tables.behind_table_3(summary(), prompts, 4).frame
    assert frame["tokens of a prompt"].tolist() == [10, 22, 30, 40, 50]
    assert frame["answerable"].iloc[0] == "–"


def test_settings_are_compared_in_a_picture():
    both = pd.concat([comparisons(), comparisons().assign(metric="right_api")], ignore_index=True)
    drawing = figures.differences(both, 4)
    rows = [tick.get_text() for tick in drawing.figure.axes[0].get_yticklabels()]
    assert rows == ["context-tuned RAG − RAG", "right tool − context-tuned RAG"]
    assert drawing.data["comparison"].tolist()[::2] == [
        "AST accuracy: context-tuned RAG − RAG", "right API: context-tuned RAG − RAG",
    ]  # fmt: skip
    assert drawing.finding == (
        "Does context make more plans right? It changes AST accuracy by 25.0 [1.0, 40.0] points with retrieved tools "
        "(settled)"
    )
    assert figures.differences(comparisons(False), 4).finding.endswith("with retrieved tools (not settled)")
    with_tool = comparisons().assign(a=["context_tuned_rag", "context_tuned_upper_bound"], b=["rag", "upper_bound"])
    assert " and 25.0 [1.0, 40.0] points with the right tool (settled)" in figures.differences_finding(with_tool)
    plt.close("all")


def test_parts_of_accuracy_leave_out_plans_without_arguments():
    frame = tables.parts_of_accuracy(plans(answerable=[100.0, 0.0, 0.0, 0.0]), GOLD, 4).frame.set_index("setting")
    row = frame.loc["right tool"]
    assert row[["right API", "plans with the right API", "right, not answerable"]].tolist() == [
        "75.0 [0.0, 100.0]", 3, 2
    ]  # fmt: skip
    given = row[["AST, of plans with the right API, %", "AST, of answerable prompts, %"]]
    assert given.str.split().str[0].tolist() == ["100.0", "100.0"]
    due = frame["AST where arguments are due"].str.split(" [", regex=False).str[0]
    assert due.tolist() == ["0.0", "50.0", "100.0", "100.0", "100.0"]
    asked = plans().query("setting == 'rag' and query in ['q0', 'q1']")
    assert frame.loc[SHORT["rag"], "AST where arguments are due"] == clustered_rate(asked, "ast_accuracy")


def test_floors_have_a_verdict():
    compared = pd.DataFrame(
        {
            "setting": "context_tuned_rag",
            "floor": ["a", "b", "c"],
            "of_planner": 20.0,
            "of_floor": 10.0,
            "difference": 10.0,
            "ci_low": [1.0, -9.0, 1.0],
            "ci_high": [9.0, -1.0, 9.0],
            "p_holm": [0.01, 0.01, 0.5],
            "settled": [True, True, False],
        }
    )
    verdicts = tables.floors(compared, 4).frame["verdict"].tolist()
    assert verdicts == ["the planner is better", "the planner is worse", "not shown to differ"]


def test_choices_are_counted():
    chosen = plans().assign(
        first=["open_note", "default", "default", "default"] * 5, shows=[True, True, False, False] * 5
    )
    row = tables.choices(chosen, 4).frame.set_index("setting").loc["context-tuned RAG"]
    assert row.tolist() == [2, 100.0, 0.0, 0.0, 2, "default", 75.0]


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
    assert row["value"] == 50
    assert row["ci_low"] < 50 < row["ci_high"]


def test_a_rate_in_few_clusters_is_less_certain():
    many = pd.DataFrame({"persona": range(40), "need": range(40), "right": [0.0, 100.0] * 20})
    few = many.assign(persona=[0, 1] * 20, need=[0, 1] * 20)
    spans = [clustered_rate(part, "right") for part in (many, few)]
    assert spans[0] == "50.0 [34.3, 65.7]"  # ± 2.02 · 0.32 on the logit scale
    low, high = (float(end) for end in spans[1].split("[")[1].rstrip("]").split(", "))
    assert low < 10
    assert high > 90


def test_a_thought_names_its_writer():
    table = tables.thought(thought([True, False]), 4, "some writer")
    assert table.frame["difference, points"].tolist() == ["25.0 [5.0, 45.0]", "0.0 [−3.0, 3.0]"]
    assert "Writer: some writer, distilled" in table.caption


def test_two_calls_are_shown_by_setting_and_way():
    frame = tables.two_calls({"at once": two(1, [True, False] * 4), "step by step": two(4, [True] * 8)}).frame
    assert frame["setting"].tolist() == ["context-tuned RAG"] * 2 + ["right tool + context"] * 2
    assert frame["planned"].tolist() == ["at once", "step by step"] * 2
    assert frame.iloc[2, 2:].tolist() == [4, 100.0, 25.0, 25.0, 50.0, 50.0]
    assert frame.iloc[3, 2:].tolist() == [4, 100.0, 100.0, 100.0, 100.0, 100.0]
    last = "both right, where two were written at once"
    both = {"at once": two(1, [True, False] * 4), "step by step": two(2, [True] * 8)}
    assert tables.two_calls(both).frame[last].tolist()[2:] == [50, 50], "q0 and q2 both ways"


def test_examples_are_right_and_wrong_ones():
    queries = pd.DataFrame({"query": NAMES, "text": [f"Request {name}" for name in NAMES]})
    table = tables.examples(plans(), queries, GOLD, seed=0)
    assert table.frame.groupby("setting")["verdict"].value_counts().to_dict() == {
        ("context-tuned RAG", "right"): 2,
        ("context-tuned RAG", "argument with wrong value"): 2,
        ("right tool + context", "right"): 2,
    }
    assert table.frame["request"].str.startswith("Request q").all()
    assert {"plan", "gold plan"} <= set(table.text_columns)


def test_claims_have_decimals_by_unit():
    verdicts = pd.DataFrame(
        {
            "statement": ["more", "fewer"],
            "effect": [1.234, 1.234],
            "ci_low": [1.0, 1.0],
            "ci_high": [2.0, 2.0],
            "unit": ["fold", "points"],
            "published": [3.5, 8.9],
            "verdict": "reproduced",
            "reason": "because",
        }
    )
    assert tables.claims(verdicts, 4).frame["ours"].tolist() == ["1.23 [1.00, 2.00]", "1.2 [1.0, 2.0]"]


# ---------------------------------------------------------------- figures


def test_the_loss_is_drawn_with_its_ends(learned):
    drawing = figures.loss(learned)
    assert drawing.finding.startswith(
        "The planner's loss goes from 1.95 to 0.15 nats a token (means of the first and last 2"
    )
    assert "20 steps; grey every step, coloured the moving mean over 2 steps" in drawing.alt
    assert list(drawing.data.columns) == ["step", "loss", "learning_rate", "tokens", "target_tokens"]


def test_a_thinned_loss_counts_the_steps_behind_it(learned):
    thin = replace(learned, adapter=replace(learned.adapter, curve=thinned(learned.adapter.curve, 10)))
    drawing = figures.loss(thin)
    assert "(means of the first and last 2 steps)" in drawing.finding
    assert "20 steps; grey means of 2 steps, coloured the moving mean over 2 steps" in drawing.alt


def test_the_settings_figure_says_whether_context_helps():
    template = pd.Series({"context_tuned_rag": 5.0, "context_tuned_upper_bound": 12.5}, name="ast_accuracy")
    template.index.name = "setting"
    drawing = figures.settings(summary(), template, comparisons(), 4)
    assert drawing.finding == (
        "Context adds 25.0 [1.0, 40.0] points of right plans to retrieved tools (settled); with the right tool and "
        "items 100.0% are right, where a fixed template, without a model, gets 12.5%"
    )
    assert "(not settled)" in figures.settings_finding(
        pd.Series({"context_tuned_upper_bound": 1.0}), template, comparisons(False)
    )
    assert "retrieved tools (RAG) 25.0%" in drawing.alt
    bars = [patch.get_width() for patch in drawing.figure.axes[0].patches]
    assert bars == [0, 25, 50, 75, 100]
    assert drawing.data["template_ast_accuracy"].notna().sum() == 14


def test_failures_are_stacked_to_a_hundred():
    shares = failure_shares(plans())
    rows = failure_rows(plans().assign(persona="p", need="n"))
    drawing = figures.failures(shares, rows, 4)
    assert drawing.finding == (
        "The commonest failure with retrieved tools and context: argument with wrong value (50% of plans); with the "
        "right tool and context: none"
    )
    assert "retrieved tools (RAG): right 25%, argument with wrong value 75%" in drawing.alt
    assert len(drawing.figure.axes[0].patches) == 10  # two causes, five settings
    assert drawing.data.groupby("setting")["percent"].sum().eq(100).all()
    assert set(drawing.data["failure"]) >= {"right", "unparsed"}
    assert (drawing.data["ci_low"] <= drawing.data["percent"]).all()


def test_sweeps_say_what_titles_save():
    parts = [
        ("tools", 10, 2, 300),
        ("tools", 1, 1, 100),
        ("items", 3, 1, 200),
        ("items", 1, 2, 90),
        ("titles", 3, 3, 80),
    ]
    sweep = pd.concat(
        plans({"x": right}).assign(varied=varied, number=n, tokens=tokens) for varied, n, right, tokens in parts
    )
    drawing = figures.sweeps(sweep, sweep_points(sweep), 10, 3)
    assert drawing.finding == (
        "With the right tool, titles alone take 80 tokens instead of 200; 2 of 4 plans become right by it, 0 wrong"
    )
    assert "tools 1: 25.0%" in drawing.alt
    tools, items, _ = drawing.figure.axes
    assert tools.get_ylabel() == "percent of 4 queries"
    assert tools.get_xticks().tolist() == [1, 10]
    assert items.get_xticks().tolist() == [1, 3]
