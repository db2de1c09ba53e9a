"""What notebook 08 shows of target similarity tuning."""

import numpy as np
import pandas as pd
import pytest

from lib.workflows.pages import dsl_retrieval_tuning as page

SETS = ("test", "test_same")


def test_a_short_curve_has_ends_of_one_step():
    assert page.ends_of(pd.Series([3.0, 2.0, 1.0])) == (3.0, 1.0, 1)


def curve(values, n=20):
    """Scores of the points of a learning curve; all requests of one score the same."""
    rows = [
        (where, method, size, f"{where}-{i}", value)
        for where in SETS
        for (method, size), value in ({("pretrained", 0): 0.4} | values).items()
        for i in range(n)
    ]
    return pd.DataFrame(rows, columns=["test_set", "method", "pairs", "pair", "jaccard"])


POINTS = {
    ("tst", 750): 0.3,
    ("tst", 3000): 0.4,
    ("tst", 9000): 0.5,
    ("tst_affine", 750): 0.5,
    ("tst_affine", 9000): 0.6,
    ("tst_shuffled", 9000): 0.35,
}


def test_the_values_of_a_learning_curve():
    values = page.curve_values(curve(POINTS), 100, 0).set_index(["test_set", "method", "pairs"])
    row = values.loc["test", "tst", 9000]
    assert row[["value", "ci_low", "ci_high", "n"]].tolist() == pytest.approx([0.5, 0.5, 0.5, 20])


def test_the_contrasts_of_a_learning_curve():
    tests = page.curve_tests(curve(POINTS), 100, 0)
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
