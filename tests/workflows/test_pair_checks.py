import numpy as np
import pandas as pd
import pytest

from lib.workflows import pair_checks
from lib.workflows.apis import API
from lib.workflows.catalogue import Catalogue
from lib.workflows.pair_checks import (
    check_held_out,
    check_requests_apart,
    leaks,
    nearest_training_pairs,
    outside_the_catalogue,
    request_vectors,
)

PAIRS = pd.DataFrame(
    [
        ("a", "training", "Post it!", "x;", ["s.On", "s.Post"], "When {T}, {B}", [("s.On", "it is new")]),
        ("b", "training", "Mail it", "y;", ["s.On", "s.Mail"], "If {T}, {B}", [("s.On", "comes"), ("s.Mail", "mail")]),
        ("c", "test", "post it", "x;", ["s.On", "s.Post"], "Once {T}, {B}", [("s.On", "is there"), ("s.Mail", "mail")]),
        ("d", "test", "file it", "z;", ["s.On", "s.Mail", "s.File"], "After {T}, {B}", [("s.On", "is there")]),
        ("e", "unseen", "Mail it", "u;", ["s.New"], "If {T}, {B}", []),
    ],
    columns=["pair", "split", "request", "dsl", "apis", "frame", "wordings"],
)  # fmt: skip


def test_what_training_and_test_share():
    shared = leaks(PAIRS).set_index("what")
    assert set(shared.pop("test_set")) == {"test"}
    assert shared.loc["requests, without case and punctuation"].tolist() == [2, 2, 1, 50]
    assert shared.loc["frames of requests"].tolist() == [2, 2, 0, 0]
    assert shared.loc["wordings of an API"].tolist() == [3, 2, 1, 50]
    assert shared.loc["flows, word for word"].tolist() == [2, 2, 1, 50]
    assert shared.loc["sequences of APIs"].tolist() == [2, 2, 1, 50]
    assert shared.loc["APIs"].tolist() == [3, 4, 3, 100]


def test_each_test_set_has_rows_of_its_own():
    both = leaks(pd.concat([PAIRS, PAIRS[PAIRS["pair"] == "d"].assign(split="test_same", frame="When {T}, {B}")]))
    same = both[both["test_set"] == "test_same"].set_index("what")
    assert both[both["test_set"] == "test"].equals(leaks(PAIRS))
    assert same.loc["frames of requests", ["test", "shared", "affected"]].tolist() == [1, 1, 100]
    assert same.loc["sequences of APIs", ["test", "shared", "affected"]].tolist() == [1, 0, 0]


class LengthEncoder:
    """Vectors that show how many texts were encoded together."""

    def encode(self, texts, **_):
        return np.tile([[1.0, len(texts)]], (len(texts), 1)) / np.hypot(1, len(texts))


def test_sets_that_came_later_move_no_others_vectors(monkeypatch):
    monkeypatch.setattr(pair_checks, "FIRST_UNSEEN", 1)
    texts = [f"text {number}" for number in range(7)]
    splits = ["training", "training", "test", "unseen", "unseen", "test_same", "test_same"]
    pairs = pd.DataFrame({"split": splits, "request": texts})
    vectors = request_vectors(LengthEncoder(), pairs)
    assert (vectors[:, 1] / vectors[:, 0]).round().tolist() == [4, 4, 4, 4, 3, 3, 3]
    assert np.array_equal(request_vectors(LengthEncoder(), pairs.head(4)), vectors[:4])


def test_your_own_pairs_have_no_frames_or_wordings():
    own = PAIRS.assign(frame="", wordings=[[]] * len(PAIRS))
    assert len(leaks(own)) == len(leaks(PAIRS)) - 2


def test_the_nearest_training_pair_of_each_other_pair():
    angles = np.array([0.0, 1.0, 0.1, 0.8, 3.0])
    vectors = np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)
    found = nearest_training_pairs(PAIRS, vectors)
    assert found["pair"].tolist() == ["c", "d", "e"]
    assert found["split"].tolist() == ["test", "test", "unseen"]
    assert found["nearest"].tolist() == ["a", "b", "b"]
    assert found["cosine"].to_numpy() == pytest.approx(np.cos([0.1, 0.2, 2.0]), abs=1e-6)
    assert found["similarity"].to_numpy() == pytest.approx([1, 2 / 3, 0])
    assert found["same_flow"].tolist() == [True, False, False]


def test_simulated_sides_share_no_request_and_no_frame():
    shared = leaks(PAIRS)
    with pytest.raises(ValueError, match=r"training and test share requests, without case and punctuation$"):
        check_requests_apart(shared)
    check_requests_apart(leaks(PAIRS.assign(request=list("vwxyz"))))
    both = leaks(PAIRS.assign(frame="one"))
    with pytest.raises(ValueError, match=r"share requests, without case and punctuation and frames of requests$"):
        check_requests_apart(both)
    same = PAIRS.assign(frame="one", split=PAIRS["split"].replace("test", "test_same"))
    with pytest.raises(ValueError, match=r"training and test_same share requests, without case and punctuation$"):
        check_requests_apart(leaks(same))
    check_requests_apart(leaks(same.assign(request=list("vwxyz"))))


def some_catalogue(*held):
    names = {name for apis in PAIRS["apis"] for name in apis}
    apis = [API(*name.split("."), name, "S", in_training=name not in held) for name in sorted(names)]
    return Catalogue({api.name: api for api in apis}, {})


def test_apis_held_out_are_in_unseen_pairs_alone():
    check_held_out(PAIRS, some_catalogue("s.New"))
    with pytest.raises(ValueError, match="training or test pairs use an API held out"):
        check_held_out(PAIRS, some_catalogue("s.New", "s.File"))
    with pytest.raises(ValueError, match="an unseen pair uses no API held out"):
        check_held_out(PAIRS, some_catalogue())


def test_flows_outside_the_catalogue_are_counted():
    flows = ["x = await s.On();", "x = await s.Off();", 'x = await s.On({"a": 1});\ns.Off();']
    assert outside_the_catalogue(pd.DataFrame({"dsl": flows}), some_catalogue()) == (2, 1)
