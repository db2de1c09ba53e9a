import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lib.evaluation.pareto import on_front, shared_quality, with_fronts

NUMBERS = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=12)


def test_what_no_other_beats():
    assert on_front([1, 2, 3, 3], [10, 30, 20, 40]).tolist() == [True, True, False, True]
    assert on_front([1, 1, 2], [5, 5, 5]).tolist() == [True, True, False], "equal points both stay"
    assert on_front([1, 1], [4, 5]).tolist() == [False, True]


def test_a_point_without_a_cost_is_on_no_front_and_keeps_none_off():
    assert on_front([np.nan, 2, 3], [99, 10, 20]).tolist() == [False, True, True]
    assert on_front([1, 2], [np.nan, 3]).tolist() == [False, True]


@given(NUMBERS)
def test_the_front_rises_and_beats_all_else(points):
    cost, quality = np.array(points).T
    front = on_front(cost, quality)
    assert front.any()
    order = np.lexsort((quality[front], cost[front]))
    assert (np.diff(quality[front][order]) >= 0).all()
    for i in np.flatnonzero(~front):
        beaten = (cost[front] <= cost[i]) & (quality[front] >= quality[i])
        assert beaten.any()


def test_a_column_for_each_cost():
    points = pd.DataFrame({"value": [1.0, 2.0], "seconds": [2.0, 1.0], "tokens": [1.0, 2.0]})
    table = with_fronts(points, ["seconds", "tokens"])
    assert table["front_seconds"].tolist() == [False, True]
    assert table["front_tokens"].tolist() == [True, True]
    with pytest.raises(KeyError):
        with_fronts(points, ["dollars"])


def test_two_are_compared_on_what_both_were_asked():
    """The dear one is better on its one request than the cheap one there, whatever that is on the others."""
    scores = pd.DataFrame({"cheap": [1.0, 1.0, 0.0], "dear": [np.nan, np.nan, 0.5], "alone": [np.nan] * 3})
    quality = shared_quality(scores)
    assert quality.loc["cheap"].tolist()[:2] == [pytest.approx(2 / 3), 0]
    assert quality.loc["dear", "cheap"] == quality.loc["dear", "dear"] == 0.5
    assert quality["alone"].isna().all()
    assert on_front([1, 2, 3], quality).tolist() == [True, True, False]
    same = shared_quality(pd.DataFrame({"a": [1.0, 0.0], "b": [0.0, 0.5]}))
    assert on_front([1, 2], same).tolist() == on_front([1, 2], [0.5, 0.25]).tolist()
