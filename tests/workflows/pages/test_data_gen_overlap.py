"""What notebook 01 shows and says of what its tests share with training."""

import matplotlib.pyplot as plt
import pandas as pd
import pytest

from lib.workflows.pages import data_gen_overlap as page
from lib.workflows.pair_checks import FRAMES, REQUESTS


@pytest.fixture(autouse=True)
def closed_figures():
    yield
    plt.close("all")


PAIRS = pd.DataFrame({"pair": list("abcg"), "split": ["training", "training", "test", "test_same"]})


def test_what_test_pairs_share_with_training():
    rows = [("test", REQUESTS, 2, 1, 0, 0.0), ("test", FRAMES, 2, 1, 0, 0.0)]
    rows += [("test", "flows, word for word", 2, 1, 1, 25.0), ("test", "sequences of APIs", 2, 1, 1, 50.0)]
    rows += [("test_same", REQUESTS, 2, 1, 0, 0.0), ("test_same", FRAMES, 2, 1, 1, 100.0)]
    shared = pd.DataFrame(rows, columns=["test_set", "what", "training", "test", "shared", "affected"])
    table = page.shared_table(shared, PAIRS)
    assert "2 training pairs, 1 in `test`, 1 in `test_same`." in table.caption
    assert table.frame["test set"].tolist() == ["test"] * 4 + ["test_same"] * 2
    assert "test pairs affected, %" in table.frame


def test_requests_that_cannot_tell_which_version():
    siblings = pd.DataFrame({"split": ["training", "test"], "with_siblings": [1.0, 0.5], "older": [1.0, 0.125]})
    assert page.siblings_table(siblings).frame.to_numpy().tolist() == [["training", 100, 100], ["test", 50, 12.5]]


def test_the_papers_example_of_similarity():
    assert page.similarity_table().caption == "Appendix A.1; similarity here 0.667, published 2/3."


# ---- the nearest training request


def nearest():
    rows = [
        ("c", "test", "a", 0.9, 1.0, True),
        ("e", "test", "b", 0.7, 0.5, False),
        ("f", "test", "b", 0.42, 0.0, False),
        ("d", "unseen", "a", 0.8, 0.5, False),
        ("g", "test_same", "a", 0.95, 1.0, False),
    ]
    return pd.DataFrame(rows, columns=["pair", "split", "nearest", "cosine", "similarity", "same_flow"])


def test_nearest_requests_with_intervals():
    table = page.nearest_table(nearest(), 2, "some encoder", seed=7)
    assert table.frame["pairs"].tolist() == ["test", "unseen", "test_same"]
    first = table.frame.iloc[0]
    assert first[["pairs", "n"]].tolist() == ["test", 3]
    assert first["cosine, median (10% to 90%)"] == "0.70 (0.48 to 0.86)"
    assert first["similarity of its flow"].startswith("0.50 [0.")
    assert first["same flow, %"] == "33.3 [6.1, 79.2]"
    assert "of 2; encoder some encoder" in table.caption


def test_nearest_requests_in_a_figure():
    drawing = page.nearest_figure(nearest())
    assert drawing.alt.endswith("test requests from 0.42 to 0.90.")
    assert drawing.data["test"].sum() == pytest.approx(100)
    assert drawing.data["unseen"].sum() == pytest.approx(100)
    assert drawing.data["test_same"].sum() == pytest.approx(100)
    only = page.nearest_figure(nearest().query("split == 'test'"))
    assert "unseen" not in only.data
    assert len(only.figure.axes[0].lines) == 1


def test_the_nearest_the_middle_and_the_farthest():
    pairs = pd.DataFrame({"pair": list("abcdefg"), "request": list("ABCDEFG")})
    frame = page.nearest_examples(nearest(), pairs).frame
    assert frame["test request"].tolist() == ["C", "E", "F"]
    assert frame["nearest training request"].tolist() == ["A", "B", "B"]
    alone = nearest().head(1)
    assert len(page.nearest_examples(alone, pairs).frame) == 1
