import numpy as np
import pandas as pd
import pytest

from lib.assistant.audit import api_from_text_alone, conditional_entropy_bits, entropy_bits


def test_a_classifier_finds_what_the_text_gives_away_and_nothing_else():
    rng = np.random.default_rng(0)
    apis = pd.Series(rng.choice(["a", "b", "c"], size=600, p=[0.5, 0.3, 0.2]))
    training = np.arange(600) < 400
    telling = np.eye(3)[pd.factorize(apis, sort=True)[0]] + 0.1 * rng.normal(size=(600, 3))
    silent = rng.normal(size=(600, 3))
    right, commonest = api_from_text_alone(telling, apis, training, seed=0)
    assert right == 100
    assert commonest == pytest.approx(100 * (apis[~training] == "a").mean())
    right, commonest = api_from_text_alone(silent, apis, training, seed=0)
    assert right == pytest.approx(commonest, abs=5)


def test_entropies_by_hand():
    labels = pd.Series(["x", "x", "y", "y"])
    assert entropy_bits(labels) == 1
    assert conditional_entropy_bits(labels, pd.Series([1, 1, 2, 2])) == 0
    assert conditional_entropy_bits(labels, pd.Series([1, 2, 1, 2])) == 1
