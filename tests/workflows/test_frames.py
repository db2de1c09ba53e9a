import pytest

from lib.workflows.frames import split_wordings


@pytest.mark.parametrize(("n", "held"), [(1, 1), (2, 1), (3, 1), (8, 2), (9, 3)])
def test_a_third_of_the_wordings_is_for_the_test(n, held):
    parts = split_wordings([str(i) for i in range(n)], seed=7, name="x")
    assert len(parts["test"]) == held
    assert len(parts["training"]) == max(1, n - held)
    assert n == 1 or not set(parts["training"]) & set(parts["test"])
