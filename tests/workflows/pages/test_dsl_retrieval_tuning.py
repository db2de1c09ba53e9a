"""What notebook 08 shows of target similarity tuning."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

from lib.workflows.pages import dsl_retrieval_tuning as page
from lib.workflows.target_similarity import over_seeds

PAIRS = pd.DataFrame({"positive": [True, True, False, False], "score": [1.0, 0.0, 0.0, 0.5]})
SETS = ("test", "test_same")


def grouped(*rows):
    columns = ["group", "n", "a", "b", "difference", "ci_low", "ci_high", "p_value", "p_holm", "settled"]
    return pd.DataFrame(rows, columns=columns)


GAIN = ("rarest API: rare", 5, 0.5, 0.4, 0.1, 0.05, 0.15, 0.01, 0.02, True)
LOSS = ("held-out APIs", 5, 0.2, 0.4, -0.2, -0.25, -0.15, 0.01, 0.02, True)
UNCLEAR = ("reworded by hand", 10, 0.5, 0.4, 0.1, -0.05, 0.25, 0.5, 0.6, False)


def test_targets_are_tabulated_by_kind():
    table = page.targets_table(PAIRS)
    assert table.frame["pairs"].tolist() == ["not above the threshold", "cosine above the threshold"]
    assert table.frame["mean target"].tolist() == [0.25, 0.5]
    assert table.frame["no API in common, %"].tolist() == [50, 50]
    assert table.frame["the same APIs, %"].tolist() == [0, 50]
    assert table.caption.startswith("Targets of the 4 mined pairs")
    assert len(page.targets_table(PAIRS[:0]).frame) == 0


def test_a_short_curve_has_ends_of_one_step():
    assert page.ends_of(pd.Series([3.0, 2.0, 1.0])) == (3.0, 1.0, 1)


def runs():
    curve = pd.DataFrame({"loss": [0.4, 0.2]})
    rows = [
        ("tst", 750, 0, curve, 9_000, 7.4, "a laptop", False, ""),
        ("tst", 100_000, 0, curve, 900_000, 200.0, "one GPU", True, ""),
        ("nl2dsl", 512, 0, curve, 9_000, 90.0, "a laptop", False, "The shipped part x is not used: other pairs."),
    ]
    columns = ["name", "pairs", "seed", "curve", "tokens", "seconds", "device", "shipped", "reason"]
    return pd.DataFrame(rows, columns=columns)


def test_runs_say_where_they_were_trained():
    table = page.runs_table(runs(), "my_model")
    assert table.frame[""].tolist() == ["TST", "TST", "fine-tuned model"]
    assert table.frame["trained"].tolist() == ["here, on a laptop", "shipped, on one GPU", "here, on a laptop"]
    assert table.frame["loss, first tenth"].tolist() == [0.4] * 3
    assert table.frame["last tenth"].tolist() == [0.2] * 3
    assert table.frame["seconds"].tolist() == ["7", "200", "90"]
    assert table.caption.startswith("Training runs of my_model;")


def test_a_refused_part_is_named_with_its_reason():
    assert page.refused_in_words(runs()) == "The shipped part x is not used: other pairs."
    assert page.refused_in_words(runs().head(2)) == ""
    twice = pd.concat([runs(), runs()])
    assert page.refused_in_words(twice) == "The shipped part x is not used: other pairs."
    assert page.refused_in_words(runs().assign(reason="The part a_b is not used.")) == "The part a\\_b is not used."


def curve(values, n=20, seeds=1):
    """Scores of the points of a learning curve; all requests and runs of one score the same."""
    rows = [
        (where, method, size, seed, f"{where}-{i}", value)
        for where in SETS
        for (method, size), value in ({("pretrained", 0): 0.4} | values).items()
        for seed in range(seeds if size > 1000 else 1)
        for i in range(n)
    ]
    return pd.DataFrame(rows, columns=["test_set", "method", "pairs", "seed", "pair", "jaccard"])


POINTS = {
    ("tst", 750): 0.3,
    ("tst", 3000): 0.4,
    ("tst", 9000): 0.5,
    ("tst_affine", 750): 0.5,
    ("tst_affine", 9000): 0.6,
    ("tst_shuffled", 9000): 0.35,
}


def test_the_values_of_a_learning_curve():
    values = page.curve_values(curve(POINTS, seeds=3), 100, 0).set_index(["test_set", "method", "pairs"])
    row = values.loc["test", "tst", 9000]
    assert row[["value", "ci_low", "ci_high", "n", "seeds"]].tolist() == pytest.approx([0.5, 0.5, 0.5, 20, 3])
    assert values.loc[("test_same", "tst", 750), "seeds"] == 1


def test_the_contrasts_of_a_learning_curve():
    tests = page.curve_tests(curve(POINTS, seeds=3), 100, 0)
    assert len(tests) == 2 * (6 + 1)
    first = tests[tests["test_set"] == "test"]
    assert list(zip(first["method"], first["pairs"], first["against"], strict=True)) == [
        ("tst", 750, "pretrained"),
        ("tst", 3000, "pretrained"),
        ("tst", 9000, "pretrained"),
        ("tst_affine", 750, "pretrained"),
        ("tst_affine", 9000, "pretrained"),
        ("tst_shuffled", 9000, "pretrained"),
        ("tst", 9000, "tst_shuffled"),
    ]
    np.testing.assert_allclose(first["difference"], [-0.1, 0, 0.1, 0.1, 0.2, -0.05, 0.15], atol=1e-9)
    assert first["settled"].tolist() == [True, False, True, True, True, True, True]
    assert set(tests["n"]) == {20}


def test_where_tuning_begins_to_help():
    said = page.curve_in_words(page.curve_tests(curve(POINTS), 100, 0))
    assert said.startswith(
        "**TST begins to help between 3,000 and 9,000 pairs and harms at 750 (new wordings). TST begins to help "
        "between 3,000 and 9,000 pairs and harms at 750 (known wordings). affine TST helps already at 750 pairs, "
        "the fewest tried (new wordings)."
    )


HARM = "harms on new wordings, −0.050 [−0.050, −0.050]; harms on known wordings, −0.050 [−0.050, −0.050]. "
NO_GAIN = "Without the right targets no gain is settled. True targets against shuffled ones: 0.150"


@pytest.mark.parametrize(
    ("shuffled", "said"),
    [
        (0.35, HARM + NO_GAIN),
        (0.4, "not settled on new wordings, 0.000 [0.000, 0.000]; not settled on known wordings"),
        (0.45, "So part of a gain owes nothing to the flows. True targets against shuffled ones: 0.050"),
    ],
)
def test_shuffled_targets_must_not_help(shuffled, said):
    tests = page.curve_tests(curve(POINTS | {("tst_shuffled", 9000): shuffled}), 100, 0)
    words = page.curve_in_words(tests)
    assert "The control with targets shuffled among 9,000 pairs, positive ones and negative ones apart" in words
    assert said in words


def test_without_a_control_nothing_is_said_of_it():
    points = {key: value for key, value in POINTS.items() if key[0] != "tst_shuffled"}
    assert "shuffled" not in page.curve_in_words(page.curve_tests(curve(points), 100, 0))


def test_the_learning_curve_is_drawn_and_tabulated():
    scores = curve(POINTS, seeds=3)
    values, tests = page.curve_values(scores, 100, 0), page.curve_tests(scores, 100, 0)
    drawing = page.curve_drawing(values, tests, 5, 2500)
    assert drawing.name == "tst_learning_curve"
    assert drawing.finding == (
        "Out of 2,500 training requests: TST begins to help between 3,000 and 9,000 pairs; affine TST helps "
        "already at 750 pairs, the fewest tried, on each test set"
    )
    assert [axis.get_xscale() for axis in drawing.figure.axes] == ["log", "log"]
    titles = [axis.get_title(loc="left") or axis.get_title() for axis in drawing.figure.axes]
    assert titles == ["new wordings", "known wordings"]
    assert "on new wordings and known wordings" in drawing.alt
    plt.close(drawing.figure)
    table = page.curve_table(values, tests, 5, 2500)
    assert table.frame["encoder"].tolist()[:2] == ["pretrained encoder", "TST"]
    assert table.frame["pairs"].tolist()[:3] == ["–", 750, 3000]
    assert table.frame["against pretrained, new wordings"].tolist()[:3] == [
        "–", "−0.100 [−0.100, −0.100], harms", "0.000 [0.000, 0.000], not settled"
    ]  # fmt: skip
    assert "5 few-shots out of 2,500 training requests, 20 and 20 test requests" in table.caption
    assert "over requests and 3 training runs, where there are as many" in table.caption


def test_groups_are_tested_where_they_have_requests():
    index = [f"q{i}" for i in range(8)]
    table = pd.DataFrame(
        {("tst", "jaccard", 5): [0.5] * 4 + [0.1] * 4, ("pretrained", "jaccard", 5): 0.3},
        index=pd.Index(index, name="pair"),
    )
    groups = {"first": pd.Series(index[:4]), "nobody": pd.Series([], dtype=object), "last": pd.Series(index[4:])}
    tests = page.grouped_tests(over_seeds([table, table]), groups, 5, 100, 0)
    assert tests["group"].tolist() == ["first", "last"]
    assert tests["n"].tolist() == [4, 4]
    np.testing.assert_allclose(tests["difference"], [0.2, -0.2])
    shown = page.groups_table(tests, 5)
    assert shown.frame.columns.tolist() == ["requests", "n", "pretrained", "TST", "difference", "p (Holm)"]
    assert shown.frame["TST"].tolist() == [0.5, 0.1]
    assert shown.caption.startswith("Mean Jaccard similarity of 5 few-shots")


def test_groups_in_words():
    assert page.groups_in_words(grouped(UNCLEAR)) == "Settled in 0 of 1 groups (0 gains, 0 losses)."
    assert page.groups_in_words(grouped(GAIN, LOSS, UNCLEAR)) == (
        "Settled in 2 of 3 groups (1 gains, 1 losses), with the largest change for held-out APIs (−0.200)."
    )
