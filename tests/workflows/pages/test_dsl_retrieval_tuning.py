"""What notebook 08 shows of target similarity tuning."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

from lib.workflows.pages import dsl_retrieval_tuning as page

PAIRS = pd.DataFrame({"positive": [True, True, False, False], "score": [1.0, 0.0, 0.0, 0.5]})


def grouped(*rows):
    columns = ["group", "n", "a", "b", "difference", "ci_low", "ci_high", "p_value", "p_holm"]
    return pd.DataFrame(rows, columns=columns)


GAIN = ("one or two calls", 5, 0.5, 0.4, 0.1, 0.05, 0.15, 0.01, 0.02)
LOSS = ("held-out APIs", 5, 0.2, 0.4, -0.2, -0.25, -0.15, 0.01, 0.02)
EVERY_TEST = ("all test requests", 10, 0.5, 0.4, 0.1, -0.05, 0.25, 0.5, 0.6)
FROM_TRAINING = ("training requests", 9, 0.5, 0.4, 0.3, 0.1, 0.5, 0.5, 0.6)


def test_targets_are_tabulated_by_kind():
    table = page.targets_table(PAIRS)
    assert table.frame["pairs"].tolist() == ["not above the threshold", "cosine above the threshold"]
    assert table.frame["mean target"].tolist() == [0.25, 0.5]
    assert table.frame["no API in common, %"].tolist() == [50, 50]
    assert table.frame["the same APIs, %"].tolist() == [0, 50]
    assert table.caption.startswith("Targets of the 4 mined pairs")
    assert len(page.targets_table(PAIRS[:0]).frame) == 0


def test_the_loss_is_drawn_beside_two_constants():
    curve = pd.DataFrame({"step": range(1, 21), "loss": np.linspace(0.39, 0.2, 20)})
    drawing = page.loss_drawing(PAIRS, curve, 32)
    assert drawing.finding == (
        "Target similarity tuning takes the squared error from 0.385 to 0.205 (first and last 2 steps); knowing only "
        "whether a pair is positive gives 0.156"
    )
    assert drawing.alt.startswith("Training loss against step, 20 steps;")
    assert drawing.figure.axes[0].get_xlabel() == "step of 32 pairs"
    plt.close(drawing.figure)


def test_a_short_curve_has_ends_of_one_step():
    assert page.ends_of(pd.Series([3.0, 2.0, 1.0])) == (3.0, 1.0, 1)


def test_the_amounts_of_tuning_are_told():
    said = page.tuning_in_words("my_encoder", 3000, 4000, 123456, 1e-4, 2)
    assert said.startswith(
        "my\\_encoder, 3,000 of the 4,000 mined pairs (123,456 tokens), learning rate 0.0001, 2 epoch"
    )


def test_groups_are_tested_where_they_have_requests():
    index = [f"q{i}" for i in range(8)]
    table = pd.DataFrame(
        {("tst", "jaccard", 5): [0.5] * 4 + [0.1] * 4, ("pretrained", "jaccard", 5): 0.3}, index=pd.Index(index)
    )
    groups = {"first": pd.Series(index[:4]), "nobody": pd.Series([], dtype=object), "last": pd.Series(index[4:])}
    tests = page.grouped_tests(table, groups, 5, 100, 0)
    assert tests["group"].tolist() == ["first", "last"]
    np.testing.assert_allclose(tests["difference"], [0.2, -0.2])
    shown = page.groups_table(tests, 5)
    assert shown.frame.columns.tolist() == ["requests", "n", "pretrained", "TST", "difference", "p (Holm)"]
    assert shown.frame["TST"].tolist() == [0.5, 0.1]
    assert shown.caption.startswith("Mean Jaccard similarity of 5 few-shots")


def test_groups_in_words():
    assert page.groups_in_words(grouped(EVERY_TEST)) == "Settled in 0 of 1 groups (0 gains, 0 losses). "
    said = page.groups_in_words(grouped(GAIN, LOSS, EVERY_TEST, FROM_TRAINING))
    assert said.startswith(
        "Settled in 2 of 4 groups (1 gains, 1 losses), with the largest change for held-out APIs (−0.200). **On "
    )
    assert "by 0.300 [0.100, 0.500], on test requests by 0.100 [−0.050, 0.250].**" in said


def test_the_contrasts_of_a_learning_curve():
    curve = page.LearningCurve([8, 16], 3000)
    assert curve.contrasts == [
        ("TST, 8 pairs", "pretrained"),
        ("TST, 16 pairs", "pretrained"),
        ("TST, 3,000 pairs", "pretrained"),
        ("shuffled targets, 16 pairs", "pretrained"),
        ("TST, 3,000 pairs", "TST, 8 pairs"),
        ("TST, 16 pairs", "shuffled targets, 16 pairs"),
    ]
    alone = page.LearningCurve([], 8)
    assert alone.contrasts == [
        ("TST, 8 pairs", "pretrained"),
        ("shuffled targets, 8 pairs", "pretrained"),
        ("TST, 8 pairs", "shuffled targets, 8 pairs"),
    ]


def curve_of(full, shuffled, curve):
    """Tests on twenty requests, the pretrained encoder and TST on fewer pairs at 0.4."""
    values = {"pretrained": 0.4, curve.shuffled: shuffled, curve.name(curve.full): full}
    values |= {curve.name(size): 0.4 for size in curve.fewer}
    columns = {(name, metric, 5): np.full(20, v) for name, v in values.items() for metric in ("jaccard", "coverage")}
    return page.curve_tests(pd.DataFrame(columns), curve, 5, 100, 0)


@pytest.mark.parametrize(
    ("full", "shuffled", "true", "harm"),
    [
        (0.5, 0.3, "a gain: 0.200 [0.200, 0.200]", "a loss: −0.100 [−0.100, −0.100]"),
        (0.4, 0.4, "no settled change: 0.000 [0.000, 0.000]", "no settled change: 0.000 [0.000, 0.000]"),
        (0.3, 0.5, "a loss: −0.200 [−0.200, −0.200]", "a gain: 0.100 [0.100, 0.100]"),
    ],
)
def test_whether_it_is_the_flows(full, shuffled, true, harm):
    curve = page.LearningCurve([], 64)
    said = page.curve_in_words(curve_of(full, shuffled, curve), curve)
    assert said.startswith(f"True targets against shuffled ones, with as many pairs: {true} in mean Jaccard")
    assert said.endswith(f"Against the pretrained encoder the shuffled ones are {harm}. ")


def test_more_pairs_against_the_fewest():
    curve = page.LearningCurve([32], 64)
    tests = curve_of(0.5, 0.4, curve)
    assert page.curve_in_words(tests, curve).endswith(
        " TST, 64 pairs against TST, 32 pairs: a gain: 0.100 [0.100, 0.100]."
    )
    table = page.curve_table(tests, 100, 20)
    assert len(table.frame) == 10
    assert table.frame.loc[0, ["measure", "encoder", "against"]].tolist() == [
        "Jaccard", "TST, 32 pairs", "pretrained encoder"
    ]  # fmt: skip
    assert table.frame.loc[1, ["its value", "the other's"]].tolist() == pytest.approx([0.5, 0.4])
    assert table.caption.startswith("5 few-shots out of 100 training requests, 20 test requests;")
