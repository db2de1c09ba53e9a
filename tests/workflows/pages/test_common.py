import numpy as np
import pandas as pd

from lib.workflows.pages.common import (
    error_bars,
    intervals,
    metric_intervals,
    p_values,
    settled_deltas,
    wide_by_metric,
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
    }
)


def test_each_metric_has_its_decimals():
    assert metric_intervals(TABLE[:4]) == ["0.50 [0.25, 0.62]", "20 [11, 30]", "0 [0, 7]", "–"]
    assert intervals(TABLE[:1], decimals=1) == ["0.5 [0.2, 0.6]"]
    assert p_values([0.5, np.nan]) == ["0.500", "–"]


def test_a_difference_is_settled_by_its_interval():
    assert settled_deltas(TABLE).tolist() == [True, False, False, False] * 2


def test_one_row_a_condition_in_order_of_appearance():
    wide = wide_by_metric(TABLE, "condition", range(8))
    assert wide.index.tolist() == ["b", "a"]
    assert wide.columns.tolist() == ["similarity", "unparsed, %", "made-up names, %", "made-up parameters, %"]
    assert wide.to_numpy().tolist() == [[0, 1, 2, 3], [4, 5, 6, 7]]


def test_error_bars_reach_down_and_up():
    assert error_bars(TABLE[:1]).tolist() == [[0.25], [0.125]]
