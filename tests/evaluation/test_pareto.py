import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lib.evaluation.pareto import on_front, with_fronts

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
