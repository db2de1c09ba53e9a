"""What notebook 08 shows of the fine-tuned model."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

from lib.workflows.pages import dsl_retrieval_model as page
from lib.workflows.training_runs import Run

SETS = ("test", "test_same")


def rows_of(where, condition, pairs, right, n=20, run=0):
    """Flows of a condition, the given share of them right, the others with a made-up name."""
    good = np.arange(n) < right * n
    return pd.DataFrame(
        {
            "test_set": where,
            "unit": [f"{where}-{i}" for i in range(n)],
            "condition": condition,
            "pairs": pairs,
            "run": run,
            "parsed": True,
            "valid": good,
            "similarity": good.astype(float),
            "executed": good & (np.arange(n) % 2 == 0),
            "made_up_names": [() if one else ("own.Do",) for one in good],
            "made_up_parameters": [()] * n,
            "text": [f"flow {i}" for i in range(n)],
            "finished": True,
        }
    )


@pytest.fixture
def scores():
    """Fine-tuning on 8 pairs is worse than copying the nearest of them, on 64 better."""
    parts = []
    for where in SETS:
        parts += [rows_of(where, page.COPIED, 64, 0.5), rows_of(where, "copy, TST", 64, 0.5)]
        parts += [rows_of(where, page.copied(8), 8, 0.5), rows_of(where, page.copied(64), 64, 0.5)]
        parts += [rows_of(where, page.finetuned(8), 8, 0.0, n=10), rows_of(where, page.finetuned(64), 64, 1.0)]
    parts += [rows_of("test", page.constrained(64), 64, 1.0, n=5)]
    parts += [rows_of(where, page.finetuned(64), 64, 0.5, n=10) for where in ("reworded", "unseen")]
    return pd.concat(parts, ignore_index=True)


@pytest.fixture
def table(scores):
    return page.metric_values(scores, 200, 0)


def runs(*rows):
    curve = pd.DataFrame({"loss": [1.0]})
    columns = ["name", "pairs", "seed", "shipped", "reason"]
    return pd.DataFrame([("nl2dsl", *row, "") for row in rows], columns=columns).assign(curve=[curve] * len(rows))


RUNS = runs((8, 0, False), (64, 0, True))


def test_what_each_run_writes():
    asks = pd.DataFrame(
        {"test_set": ["test"] * 5 + ["test_same"] * 4 + ["reworded", "unseen"], "unit": list("abcdefghijk")}
    )
    made = page.tasks([Run("nl2dsl", 8, 0), Run("nl2dsl", 64, 0), Run("nl2dsl", 64, 1)], asks)
    assert [(task.run.pairs, task.run.seed, task.condition, task.grammar) for task in made] == [
        (8, 0, "fine-tuned, 8 pairs", False),
        (64, 0, "fine-tuned, 64 pairs", False),
        (64, 0, "fine-tuned, 64 pairs, catalogue's grammar", True),
        (64, 1, "fine-tuned, 64 pairs", False),
    ]
    assert ["".join(task.asks["unit"]) for task in made] == ["abcfg", "abcdefghijk", "abf", "abcdefghi"]


def test_flows_are_copied_from_as_many_pairs_as_each_run_learned():
    sizes = page.curve_sizes([Run("nl2dsl", 200, 0), Run("nl2dsl", 67_000, 0)], 67_000)
    assert sizes == [200, 256, 1024, 4096, 16_384, 67_000]
    assert page.curve_sizes([Run("nl2dsl", 8, 0)], 100) == [8, 64, 100]


def test_what_was_learned_from():
    training = pd.DataFrame({"apis": [["a", "b"], ["c"], ["a"]]})
    some = page.training_in_words("my_model", training, {"a", "b"}, runs((2, 0, False)), 0.003)
    assert some == (
        "my\\_model learned from at most 2 of 3 training pairs, which use 2 of the 3 APIs that training uses; what the "
        "model writes of the others, it has not seen. What is trained here has a learning rate of 0.003."
    )
    everything = page.training_in_words("my_model", training, {"a", "b", "c"}, runs((3, 0, True)), 0.003)
    assert everything.endswith("which use 3 of the 3 APIs that training uses.")


def test_metrics_by_set_and_condition(table):
    assert list(table) == [
        "test_set", "condition", "pairs", "runs", "metric", "value", "ci_low", "ci_high", "n", "counted"
    ]  # fmt: skip
    at = table.set_index(["test_set", "condition", "metric"])
    assert at.loc[("test", page.finetuned(64), "similarity"), ["value", "n", "pairs", "runs"]].tolist() == [
        1,
        20,
        64,
        1,
    ]
    assert at.loc[("test_same", page.COPIED, "made_up_names"), "value"] == 50
    ran = at.loc[("test_same", page.COPIED, "executed")]
    assert ran["value"] == 25  # percent; every second flow with the right names does as the right one
    assert 0 < ran["ci_low"] < 25 < ran["ci_high"] < 60


def test_intervals_cover_the_training_runs():
    one = pd.concat([rows_of("test", "m", 64, share, run=run) for run, share in enumerate((0.2, 0.5, 0.8))])
    values = page.metric_values(one, 500, 0).set_index("metric")
    alone = page.metric_values(one[one["run"] == 1], 500, 0).set_index("metric")
    for metric in ("similarity", "made_up_names"):
        row = values.loc[metric]
        assert (row["n"], row["runs"]) == (20, 3)
        assert row["value"] == pytest.approx(alone.loc[metric, "value"])
        assert row["ci_high"] - row["ci_low"] > alone.loc[metric, "ci_high"] - alone.loc[metric, "ci_low"]
    never = pd.concat([rows_of("test", "m", 64, 1.0, run=run) for run in range(3)])
    several = page.metric_values(never, 100, 0).set_index("metric").loc["made_up_names"]
    single = page.metric_values(never[never["run"] == 0], 100, 0).set_index("metric").loc["made_up_names"]
    assert several["ci_high"] == pytest.approx(single["ci_high"])  # three runs of a flow are no three flows


def test_flows_are_tabulated_by_set_and_condition(table):
    shown = page.flows_table(table)
    assert shown.frame["requests"].drop_duplicates().tolist() == [
        "new wordings", "known wordings", "reworded by hand", "held-out APIs"
    ]  # fmt: skip
    assert not shown.frame[""].str.startswith("copy of").any()
    where = zip(shown.frame["requests"], shown.frame[""], shown.cases["similarity"], strict=True)
    found = {(requests, condition): address for requests, condition, address in where}
    assert found["new wordings", "copy, TST"] == "flows.html#set=test&condition=copy%2C+TST"
    assert found["held-out APIs", "fine-tuned, 64 pairs"] == "", "its flows are not kept"
    first = shown.frame.set_index(["requests", ""]).loc["new wordings"]
    assert first.loc["fine-tuned, 64 pairs", "similarity"].startswith("1.00 [")
    assert first.loc["fine-tuned, 64 pairs, catalogue's grammar", "n"] == 5
    assert first.loc["copy, TST", "made-up names, %"].startswith("50 [")


def test_the_model_is_compared_with_copying_and_with_itself_under_the_grammar(scores):
    tests = page.similarity_tests(scores, 64, 100, 0)
    assert list(zip(tests["test_set"], tests["a"], tests["b"], strict=True)) == [
        ("test", "fine-tuned, 64 pairs", "copy, pretrained"),
        ("test", "fine-tuned, 64 pairs", "copy, TST"),
        ("test", "fine-tuned, 64 pairs, catalogue's grammar", "fine-tuned, 64 pairs"),
        ("test_same", "fine-tuned, 64 pairs", "copy, pretrained"),
        ("test_same", "fine-tuned, 64 pairs", "copy, TST"),
    ]
    assert tests["difference"].tolist() == [0.5, 0.5, 0, 0.5, 0.5]
    assert tests["n"].tolist() == [20, 20, 5, 20, 20]
    shown = page.similarity_table(tests).frame
    assert shown["comparison"][0] == "fine-tuned, 64 pairs minus copy, pretrained"
    assert shown["similarity"][0].startswith("0.50 [")


def answers(similarity, made_up=(), finished=True):
    n = len(similarity)
    index = pd.Index([f"t{i}" for i in range(n)], name="unit")
    columns = {"similarity": similarity, "parsed": np.asarray(similarity) > 0, "finished": finished, "test_set": "test"}
    return pd.DataFrame(columns, index=index).assign(made_up_names=[tuple(made_up)] * n, made_up_parameters=[()] * n)


def test_too_few_answers_are_not_split():
    mine = answers([0.5, 0.0, 1.0], finished=[True, False, True])
    said = page.answers_in_words(mine, pd.Series([True, True, False], mine.index), 256)
    assert said == (
        "On new wordings the fine-tuned model reaches a similarity of 0.50; 2 of its 3 flows are valid. Exactly the "
        "wanted flow is among what it learned for 2 of them; too few flows are on one side to compare. It made up no "
        "name. Cut at 256 tokens or for repetition: 1 of 3."
    )


def test_a_made_up_parameter_is_not_valid():
    """As in the tables: the column `valid` of the scores counts such a flow."""
    mine = answers([0.5, 1.0, 1.0]).assign(valid=True, made_up_parameters=[(), (("a.Do", "speed"),), ()])
    assert "2 of its 3 flows are valid." in page.answers_in_words(mine, pd.Series(False, mine.index), 256)


def test_answers_are_split_by_flows_learned_by_heart():
    mine = answers([1.0] * 20 + [0.5] * 20, made_up=["own.Do", 'x["a`b\nc"]'])
    same = pd.Series([True] * 20 + [False] * 20, mine.index)
    said = page.answers_in_words(mine, same, 256)
    assert "is among what it learned for 20 of them: similarity 1.00 there, 0.50 elsewhere. " in said
    assert 'Names it made up: `own.Do`, `x["ab c"]`. ' in said
    assert "too few flows are on one side" in page.answers_in_words(mine[:39], same[:39], 256)


def test_reworded_and_held_out_requests_and_the_grammar_in_words(scores, table):
    tests = page.similarity_tests(scores, 64, 100, 0)
    said = page.elsewhere_in_words(table, tests, 64)
    assert said.startswith("Reworded by people: similarity 0.50 [")
    assert "a made-up name in 50% of the flows that parse (n = 10). Held-out APIs: similarity 0.50 [" in said
    assert "Under the catalogue's grammar, on new wordings: similarity 1.00 [" in said
    assert "(n = 5); 0.000 [" in said
    assert said.endswith("] more than free answers to the same requests.")
    assert page.elsewhere_in_words(table[table["test_set"] == "test_same"], tests, 64) == ""


def test_where_no_flow_parses_there_is_no_rate():
    broken = rows_of("unseen", page.finetuned(64), 64, 0.0).assign(parsed=False, valid=False)
    said = page.elsewhere_in_words(page.metric_values(broken, 100, 0), pd.DataFrame(), 64)
    assert ", no flow parses (n = 20)." in said


def test_examples_go_from_the_worst_to_the_best():
    mine = answers([0.9, 0.0, 0.3, 0.0, 0.6]).assign(text=list("abcde"))
    written = pd.DataFrame({"unit": mine.index, "request": list("ABCDE"), "dsl": list("12345")})
    written = written.sample(frac=1, random_state=0)
    table = page.examples_table(mine, written)
    assert table.frame["request"].tolist() == ["B", "D", "E", "A"]
    assert table.frame["similarity"].tolist() == [0, 0, 0.6, 0.9]
    assert table.frame["flow"][0] == "// wanted\n2\n\n// written\nb"
    assert len(page.examples_table(answers([0.0]).assign(text="a"), written[written["unit"] == "t0"]).frame) == 1


def test_the_model_beside_copying_the_same_pairs(scores):
    tests = page.curve_tests(scores, 100, 0)
    assert list(zip(tests["test_set"], tests["pairs"], strict=True)) == [
        ("test", 8), ("test", 64), ("test_same", 8), ("test_same", 64)
    ]  # fmt: skip
    assert tests["difference"].tolist() == [-1.0, 0.5, -1.0, 0.5]  # 8: on the ten flows that both wrote
    assert (
        page.overtakes(tests)
        == "begins to be ahead of copying between 8 and 64 pairs (new wordings and known wordings)"
    )
    apart = page.overtakes(tests.assign(settled=tests["test_set"] == "test"))
    assert apart == (
        "begins to be ahead of copying between 8 and 64 pairs (new wordings); is ahead of copying at no size up to 64 "
        "pairs (known wordings)"
    )
    said = page.curve_in_words(tests, RUNS)
    assert said.startswith("**Fine-tuning begins to be ahead of copying between 8 and 64 pairs (new wordings and known")
    assert "8 pairs: −1.000 [−1.000, −0.608] (n = 10); 64 pairs: 0.500 [" in said
    assert "] (n = 20). Models: " in said
    assert said.endswith("Models: 8 pairs trained here and 64 pairs shipped.")
    values = page.curve_values(scores, 100, 0)
    assert set(values["n"]) == {10}, "the smaller model was asked half"
    at = values[values["metric"] == "similarity"].set_index(["test_set", "condition"])["value"]
    assert at["test", page.copied(8)] == 1, "the first ten are right"
    assert set(at.index.get_level_values("condition")) == {
        name(size) for name in (page.finetuned, page.copied) for size in (8, 64)
    }
    drawing = page.curve_drawing(values, tests)
    assert drawing.finding.startswith("Fine-tuning begins to be ahead of copying between 8 and 64 pairs")
    assert [axis.get_xscale() for axis in drawing.figure.axes] == ["log", "log"]
    assert drawing.figure.axes[0].get_title().endswith("the same 10 flows")
    assert "the flow of the nearest of the same pairs" in drawing.alt
    plt.close(drawing.figure)


def test_the_finding(scores, table):
    assert page.finding(table, page.curve_tests(scores, 100, 0), 64) == (
        "A model fine-tuned on 64 pairs, which retrieves nothing, reaches a similarity of 1.00 [0.84, 1.00] on new "
        "wordings (20 flows), 1.00 [0.84, 1.00] on known wordings (20 flows), 0.50 [0.24, 0.76] on reworded by hand "
        "(10 flows) and 0.50 [0.24, 0.76] on held-out APIs (10 flows). Beside the nearest of the same pairs by the "
        "pretrained encoder, copied: fine-tuning begins to be ahead of copying between 8 and 64 pairs (new wordings "
        "and known wordings)."
    )


def test_later_notebooks_read_the_first_run_on_the_test_sets(scores):
    kept = page.for_later(pd.concat([scores, scores.assign(run=1)]), 64)
    assert set(kept["condition"]) == {page.COPIED, "copy, TST", page.finetuned(64), page.constrained(64)}
    assert set(kept["test_set"]) == set(SETS)
    assert not kept.duplicated(["condition", "unit"]).any()
    assert "run" not in kept
