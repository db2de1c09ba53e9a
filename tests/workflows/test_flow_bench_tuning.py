"""TST tuned on Flow-Bench: no encoder reads a request whose family it learned from."""

import numpy as np
import pandas as pd
import pytest

from lib.workflows import flow_bench_tuning as tuning

PAIRS = pd.DataFrame(
    [(f"p{i}", "", f"a.b{i}();", f"request {i}", [f"a.b{i}", "a.c"] if i % 2 else [f"a.b{i}"]) for i in range(9)]
    + [("p9", "a.b0();", "a.b0(); a.d();", "edit", ["a.b0", "a.d"])],
    columns=["pair", "prior", "dsl", "request", "apis"],
)


def test_folds_are_of_whole_families():
    fold = tuning.folds_of(PAIRS, seed=3, folds=3)
    assert fold[0] == fold[9]
    assert sorted(np.bincount(fold)) == [3, 3, 4]
    assert fold.tolist() == tuning.folds_of(PAIRS, seed=3, folds=3).tolist()


def test_pairs_that_share_an_api_come_first():
    rows = tuning.scored_pairs(PAIRS, range(10), most=12, seed=0)
    near = 7  # p1, p3, p5 and p7 share a.c, p0 and p9 a.b0
    assert (rows["score"] > 0).sum() == near
    assert len(rows) == 12
    both = rows[(rows["sentence1"] == "request 0") & (rows["sentence2"] == "edit")]
    assert both["score"].item() == pytest.approx(1 / 2)
    assert (tuning.scored_pairs(PAIRS, range(10), most=5, seed=0)["score"] > 0).all()


def test_each_request_is_read_by_an_encoder_that_has_not_seen_it(monkeypatch, tmp_path):
    learned = []

    def tune(path, rows, output, settings, threads):
        learned.append(set(rows["sentence1"]) | set(rows["sentence2"]))
        return {"seconds": 1.5}

    def read(number, texts):
        angle = np.array([number + 1.0 + i for i in range(len(texts))])
        return np.stack([np.cos(angle), np.sin(angle) * (1 if number else -1)], axis=1)

    monkeypatch.setattr(tuning, "tune_encoder", tune)
    monkeypatch.setattr(tuning, "load_encoder", lambda path, threads, folder: int(folder.name.removeprefix("fold-")))
    monkeypatch.setattr(tuning, "encode", read)
    found = tuning.tuned_anew(PAIRS, "some", tmp_path, seed=3, most=9, folds=3)
    fold = tuning.folds_of(PAIRS, seed=3, folds=3)
    for row, number in enumerate(fold):
        assert PAIRS["request"][row] not in learned[number]
        vectors = read(number, PAIRS["request"])
        assert found.similarity[row] == pytest.approx(vectors[row] @ vectors.T)
    assert (found.pairs, found.seconds) == (9, 4.5)
