"""What notebook 08 shows of few-shots."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

from lib.workflows.pages import dsl_retrieval as page

KS = [1, 5, 20]
JACCARD = {"random": 0.1, "bm25t": 0.3, "pretrained": 0.4, "tst": 0.5, "tst_affine": 0.6, "oracle_shots": 0.9}
PAIRS = {"tst": 100_000, "tst_affine": 100_000}
ASKED = {name: pd.DataFrame({"pair": [f"{name}-{i}" for i in range(20)]}) for name in page.SETS}


def scores(jaccard):
    """Twenty requests of each test set whose few-shots of a selector all score the same."""
    columns = {
        (name, measure, k): np.full(40, value)
        for name, value in jaccard.items()
        for measure in page.MEASURES
        for k in KS
    }
    index = pd.Index(pd.concat(list(ASKED.values()))["pair"], name="pair")
    return pd.DataFrame(columns, index=index).rename_axis(columns=["method", "metric", "k"])


@pytest.fixture
def table():
    return scores(JACCARD)


@pytest.fixture
def values(table):
    return page.selector_values(table, ASKED, PAIRS, 100, 0)


@pytest.fixture
def flows():
    rows = [
        ("a", "training", "one", ["f.New", "m.Send"]),
        ("b", "test", "one", ["f.New", "m.Send"]),
        ("c", "test", "two", ["f.New", "rare.Do", "m.Send"]),
        ("d", "test", "six", ["f.New"]),
        ("s", "test_same", "six", ["f.New"]),
        ("e", "unseen", "new", ["new.Do"]),
    ]
    flows = pd.DataFrame(rows, columns=["pair", "split", "dsl", "apis"])
    return flows.assign(request=flows["pair"] + "!")


def test_everything_asked_is_looked_up(flows):
    reworded = pd.DataFrame({"pair": ["c"], "request": ["other words"], "dsl": ["two"], "apis": [["f.New"]]})
    asked = page.asked_requests(flows, reworded)
    assert asked["pair"].tolist() == ["b", "c", "d", "s", "e", "c reworded"]
    assert asked["sample"].tolist() == ["test", "test", "test", "test_same", "unseen", "reworded"]
    assert asked["original"].tolist() == ["b", "c", "d", "s", "e", "c"]
    assert len(page.asked_requests(flows, reworded[:0])) == 5
    assert {name: part["pair"].tolist() for name, part in page.sets_of(asked).items()} == {
        "test": ["b", "c", "d"],
        "test_same": ["s"],
    }
    assert list(page.sets_of(asked[asked["sample"] != "test_same"])) == ["test"]


def test_few_shots_of_some_requests():
    shots = pd.DataFrame({"pair": ["b", "b", "c"], "rank": [1, 2, 1], "shot": ["x", "y", "z"]})
    asked = pd.DataFrame({"pair": ["b"]})
    assert page.of_pairs({"tst": shots}, asked)["tst"]["shot"].tolist() == ["x", "y"]
    assert page.of_pairs({"tst": shots}, asked, 1)["tst"]["shot"].tolist() == ["x"]


def test_values_say_what_was_learned_from(values):
    assert list(values) == [
        "test_set", "selector", "train_pairs", "metric", "shots", "value", "ci_low", "ci_high", "n"
    ]  # fmt: skip
    assert len(values) == 2 * 6 * 5 * 3
    assert set(values["n"]) == {20}
    learned = values.groupby("selector")["train_pairs"].max()
    assert (learned["tst_affine"], learned["pretrained"]) == (100_000, 0)


def test_tst_is_compared_in_all_measures_on_both_sets(table):
    tests = page.tst_tests(table, ASKED, [5, 20], 100, 0)
    assert len(tests) == 2 * 4 * 3 * 2
    assert tests["settled"].all()
    np.testing.assert_allclose(tests.loc[tests["b"] == "bm25t", "difference"], 0.2)
    drawing = page.tst_tests_drawing(tests)
    assert drawing.data["comparison"].nunique() == 18
    assert drawing.data["comparison"].tolist()[:2] == [
        "Jaccard of 5: TST − pretrained encoder",
        "Jaccard of 5: affine TST − pretrained encoder",
    ]
    assert [axis.get_title(loc="left") for axis in drawing.figure.axes] == ["new wordings", "known wordings"]
    assert {"p_value", "n"} <= set(drawing.data)
    plt.close(drawing.figure)


def test_drawn_rows_are_seeded_and_keep_their_order(flows):
    some = page.drawn(flows, 3, seed=1)
    assert len(some) == 3
    assert some.index.is_monotonic_increasing
    assert len(page.drawn(flows, 99, seed=1)) == len(flows)
    assert {tuple(page.drawn(flows, 3, seed)["pair"]) for seed in range(9)} != {tuple(some["pair"])}


def test_the_better_encoder_is_the_one_that_shows_more(values):
    cells = page.cells_of(values)
    assert page.best_encoder(cells, 20) == "tst_affine"
    assert page.best_encoder(cells * 0, 20) == "pretrained"


def test_an_encoder_that_searches_a_sample_only_is_left_out():
    plain = {name: value for name, value in JACCARD.items() if name != "tst_affine"}
    table, pairs = scores(plain), {"tst": 100_000}
    values = page.selector_values(table, ASKED, pairs, 100, 0)
    tests = page.tst_tests(table, ASKED, [5], 100, 0)
    assert set(tests["a"] + tests["b"]) == {"tstpretrained", "tstbm25t"}
    assert page.selectors_table(values, [5]).frame["selector"].tolist() == [
        page.NAMES[name] for name in page.SELECTORS if name != "tst_affine"
    ]
    drawing = page.selectors_drawing(values)
    assert "for 5 selectors" in drawing.alt
    plt.close(drawing.figure)
    assert page.best_encoder(page.cells_of(values), 20) in ("pretrained", "tst")


def test_two_sides_meet_on_their_requests():
    one = pd.DataFrame({"pair": list("abc"), "jaccard": [0.5, 0.7, 0.9]})
    other = pd.DataFrame({"pair": list("cbx"), "jaccard": [0.4, 0.6, 0.1]})
    tests = page.tested({"key": (one, other)}, "jaccard", 100, 0)
    assert tests.loc[0, "difference"] == pytest.approx(0.3)
    assert tests.loc[0, "n"] == 2
