import numpy as np
import pandas as pd

from lib.workflows.pages.common import (
    settled_deltas,
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


def test_a_difference_is_settled_by_its_interval():
    assert settled_deltas(TABLE).tolist() == [True, False, False, False] * 2
