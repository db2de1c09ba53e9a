"""Search by an encoder: what comes with the project is taken where it fits, computed again in part, else computed."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from lib.retrieval.neighbours import nearest
from lib.workbook.parts import kept_arrays
from lib.workflows import search as module
from lib.workflows.few_shots import asked_requests
from lib.workflows.search import OWN, SHIPPED, Search, near_training, ship_lists
from tests.retrieval.conftest import WORDS, build_encoder


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    return build_encoder(tmp_path_factory.mktemp("search"))


@pytest.fixture
def texts():
    rng = np.random.default_rng(0)
    return [" ".join(rng.choice(WORDS, 4, replace=False)) for _ in range(50)]


@pytest.fixture
def open_search(encoder, tmp_path):
    def open_search(run="run"):
        return Search(encoder, tmp_path / run, root=tmp_path)

    return open_search


def shipped_by(search, tmp_path):
    book = SimpleNamespace(data=search.data)
    assert ship_lists(book, tmp_path) == "1 sets of lists"
    assert ship_lists(book, tmp_path) == ""


def never(*_, **__):
    raise AssertionError("nothing has to be computed")


def test_lists_of_the_project_are_taken_and_some_are_computed_again(open_search, texts, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "OTHERS", 5)
    first = open_search()
    rows, cosines = first.nearest(texts[:40], texts[40:], 6)
    expected = nearest(first.embed(texts[:40]), first.embed(texts[40:]), 6)
    assert rows.tolist() == expected[0].tolist()
    assert cosines == pytest.approx(expected[1][:, 0])
    assert first.audited == 0
    shipped_by(first, tmp_path)

    second = open_search("another run")
    again, _ = second.nearest(texts[:40], texts[40:], 3, vectors=never)
    assert again.tolist() == rows[:, :3].tolist()
    assert (second.audited, second.agreed) == (5, 5)
    assert not (second.data / OWN).exists()


def test_what_was_kept_wrong_is_told(open_search, texts, tmp_path):
    first = open_search()
    first.nearest(texts[:40], texts[40:], 6)
    shipped_by(first, tmp_path)
    lists = {
        name: rows if "cosine" in name else rows[:, ::-1] for name, rows in kept_arrays(tmp_path / SHIPPED).items()
    }
    np.savez(tmp_path / SHIPPED, **lists)
    second = open_search("another run")
    second.nearest(texts[:40], texts[40:], 6)
    assert (second.audited, second.agreed) == (5, 0)


@pytest.mark.parametrize("change", ["documents", "depth", "encoder", "damage"])
def test_other_texts_depths_and_encoders_are_computed(open_search, texts, tmp_path, change):
    first, documents, queries, k = open_search(), texts[:40], texts[40:], 6
    first.nearest(documents, queries, k)
    shipped_by(first, tmp_path)
    second = open_search("another run")
    if change == "documents":
        documents = [*documents[:-1], "piano"]
    elif change == "depth":
        k = 7
    elif change == "damage":
        (tmp_path / SHIPPED).write_bytes(b"PK")
    else:
        second = Search(build_encoder(tmp_path / "other"), second.data, root=tmp_path)
        second.model[0].auto_model.embeddings.word_embeddings.weight.data *= 2
    rows, _ = second.nearest(documents, queries, k)
    expected, _ = nearest(second.embed(documents), second.embed(queries), k)
    assert rows.tolist() == expected.tolist()
    assert second.audited == 0
    assert second.nearest(documents, queries, k, vectors=never)[0].tolist() == expected.tolist(), "kept by the run"


def test_training_requests_near_to_what_is_asked(open_search, texts):
    splits = ["training"] * 20 + ["test"] * 3 + ["training"] * 10
    pairs = pd.DataFrame({"pair": [f"p{i}" for i in range(33)], "split": splits, "request": texts[:33]})
    asked = asked_requests(pairs, pd.DataFrame({"pair": ["p21"], "request": [texts[25]]}))
    search = open_search()
    rows, cosines = near_training(search, pairs, asked, 2)
    assert rows.shape == (4, 20)
    assert rows[3][0] == 22, "the row among those for training of a request asked in its own words"
    assert cosines[3] == pytest.approx(1)
    trained = (pairs["split"] == "training").to_numpy()
    expected, _ = nearest(search.embed(pairs["request"][trained]), search.embed(asked["request"]), 20)
    assert rows.tolist() == expected.tolist()
