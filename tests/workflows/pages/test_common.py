import numpy as np
import pandas as pd

from lib.workflows.pages.common import (
    agreement_in_words,
    api_uses,
    beside_full,
    change,
    error_bars,
    full_table,
    intervals,
    metric_intervals,
    p_values,
    rarest_use,
    settled_deltas,
    wide_by_metric,
    without_unit,
)

TABLE = pd.DataFrame(
    {
        "condition": ["b", "b", "b", "b", "a", "a", "a", "a"],
        "metric": ["similarity", "unparsed", "made_up_names", "made_up_parameters"] * 2,
        "value": [0.5, 20.4, 0.0, np.nan] * 2,
        "ci_low": [0.25, 10.6, 0.0, np.nan] * 2,
        "ci_high": [0.625, 30.0, 7.0, np.nan] * 2,
        "delta": [-0.1, 5.0, 0.0, np.nan] * 2,
        "delta_ci_low": [-0.2, -1.0, -7.0, np.nan] * 2,
        "delta_ci_high": [-0.05, 9.0, 7.0, np.nan] * 2,
        "p_holm": [0.04, 0.01, 1.0, np.nan, 0.06, 1.0, 1.0, 1.0],
    }
)


def test_each_metric_has_its_decimals():
    assert metric_intervals(TABLE[:4]) == ["0.50 [0.25, 0.62]", "20 [11, 30]", "0 [0, 7]", "–"]
    assert intervals(TABLE[:1], decimals=1) == ["0.5 [0.2, 0.6]"]
    assert change(next(TABLE.itertuples())) == "−0.10 [−0.20, −0.05]"
    assert p_values([0.5, np.nan]) == ["0.500", "–"]


def test_a_difference_is_settled_by_p_and_interval():
    assert settled_deltas(TABLE).tolist() == [True] + [False] * 7


def test_a_metrics_name_in_a_sentence():
    assert [without_unit(name) for name in ("similarity", "made_up_names")] == ["similarity", "made-up names"]


def test_one_row_a_condition_in_order_of_appearance():
    wide = wide_by_metric(TABLE, "condition", range(8))
    assert wide.index.tolist() == ["b", "a"]
    assert wide.columns.tolist() == ["similarity", "unparsed, %", "made-up names, %", "made-up parameters, %"]
    assert wide.to_numpy().tolist() == [[0, 1, 2, 3], [4, 5, 6, 7]]


def test_error_bars_reach_down_and_up():
    assert error_bars(TABLE[:1]).tolist() == [[0.25], [0.125]]


def test_the_rarest_api_of_a_flow():
    uses = api_uses(pd.DataFrame({"apis": [["a", "a", "b"], ["a"]]}))
    assert uses.to_dict() == {"a": 2, "b": 1}
    assert rarest_use(pd.Series([["a"], ["a", "b"], ["a", "new"]]), uses).tolist() == [2, 1, 0]


def test_values_beside_the_full_reports():
    ours = pd.DataFrame({"selector": ["tst", "bm25t", "none"], "shots": 5, "value": [0.5, 0.9, np.nan]})
    full = pd.DataFrame(
        {"selector": ["bm25t", "tst", "none"], "shots": 5, "value": [0.6, 0.45, 1.0], "ci_low": 0.4, "ci_high": 0.7}
    )
    both = beside_full(ours, full, ["selector", "shots"])
    assert both["selector"].tolist() == ["tst", "bm25t"]
    assert both["agrees"].tolist() == [True, False]
    assert agreement_in_words(both).startswith("**1 of 2 values of this page lie in the 95% intervals of the report")
    shown = full_table(both, "Few-shots")
    assert shown.frame.columns.tolist() == ["selector", "shots", "here", "full", "in its interval"]
    assert shown.frame["full"].tolist() == ["0.45 [0.40, 0.70]", "0.60 [0.40, 0.70]"]
    assert shown.frame["in its interval"].tolist() == ["yes", "no"]


def test_without_a_full_report_nothing_is_said():
    ours = pd.DataFrame({"selector": ["tst"], "value": [0.5]})
    for full in (pd.DataFrame(), pd.DataFrame({"other": [1]})):
        assert agreement_in_words(beside_full(ours, full, ["selector"])) == ""
