"""Embeddings, with a stand-in for the encoder."""

import numpy as np
import pandas as pd
import pytest
import torch

from lib.retrieval import dense
from lib.retrieval.dense import _computed, encode, load_encoder, search


class Letters:
    """Counts letters; behaves like a sentence encoder, and remembers what it was asked."""

    def __init__(self):
        self.seen = []

    def encode(self, texts, batch_size, normalize_embeddings, convert_to_numpy, show_progress_bar):
        assert convert_to_numpy
        self.seen += list(texts)
        vectors = np.array([[text.count(letter) + 0.1 for letter in "abcdef"] for text in texts], dtype=np.float64)
        vectors = vectors.reshape(len(texts), 6)
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True) if normalize_embeddings else vectors


TEXTS = ["cab", "feed", "aaa", "cab", "", "deaf", "aaa"]


def test_equal_texts_are_encoded_once_long_ones_first():
    encoder = Letters()
    vectors = encode(encoder, TEXTS)
    assert encoder.seen == ["deaf", "feed", "aaa", "cab", ""]
    assert (vectors[0] == vectors[3]).all()
    assert (vectors[2] == vectors[6]).all()
    again = Letters()
    encode(again, TEXTS[::-1])
    assert again.seen == encoder.seen
    assert len(encode(again, [])) == 0


def test_embeddings_do_not_depend_on_the_number_of_cores(tiny, monkeypatch):
    encoder = load_encoder(tiny)
    words = "user item query app plan call mail note".split()
    texts = [" ".join(words[i % 8 :] * (1 + i % 5)) + f" {words[i % 7]}" for i in range(150)]
    found, threads = [], torch.get_num_threads()
    for cores in (1, 2, 5):
        monkeypatch.setattr(dense, "cores", lambda cores=cores: cores)
        found.append(encode(encoder, texts, batch_size=8))
    assert torch.get_num_threads() == threads
    for other in found[1:]:
        assert (found[0] == other).all()
    alone = np.concatenate([encode(encoder, [text]) for text in texts])
    assert found[0] == pytest.approx(alone, abs=1e-6)


def test_embeddings_are_float32_whatever_the_files_hold(tiny, tmp_path, monkeypatch):
    """T5 encoders come in float16."""
    load_encoder(tiny).half().save_pretrained(str(tmp_path), create_model_card=False)
    encoder, seen = load_encoder(str(tmp_path)), []
    forward = torch.nn.Linear.forward
    monkeypatch.setattr(torch.nn.Linear, "forward", lambda self, x: seen.append(forward(self, x)) or seen[-1])
    encode(encoder, ["user item", "query app plan"])
    assert {product.dtype for product in seen} == {torch.float32}


def test_search_stays_in_the_querys_own_collection():
    queries = pd.DataFrame({"query": ["q", "r"], "owner": ["x", "y"], "text": ["aab", "fff"]})
    documents = pd.DataFrame(
        {"item": ["1", "2", "3", "4"], "owner": ["x", "x", "y", "z"], "text": ["aab", "fff", "aab", "bed"]}
    )
    encoder = Letters()
    run = search(encoder, queries, documents, on="owner")
    assert run[["query", "item", "rank"]].to_numpy().tolist() == [["q", "1", 1], ["q", "2", 2], ["r", "3", 1]]
    assert run["score"][0] == pytest.approx(1)
    assert "bed" not in encoder.seen, "nobody searches it"


def test_kept_embeddings_are_taken_where_nothing_changed(tiny, tmp_path, monkeypatch):
    """The second time nothing is computed; other texts, other weights or another processor bring it back."""
    encoder, file = load_encoder(tiny), tmp_path / "embedded" / "some.safetensors"
    texts = ["user item", "query app", "user item", "plan"]
    first = encode(encoder, texts, keep=file)
    assert np.array_equal(first, encode(encoder, texts))
    computed = []
    monkeypatch.setattr(dense, "_computed", lambda *given: computed.append(given) or _computed(*given), raising=True)
    assert np.array_equal(encode(encoder, texts[::-1], keep=file), first[::-1])
    assert not computed, "the same texts in another order"

    file.write_bytes(file.read_bytes()[:100])
    assert np.array_equal(encode(encoder, texts, keep=file), first)
    assert len(computed) == 1, "cut off"
    encode(encoder, [*texts, "call mail"], keep=file)
    assert len(computed) == 2, "another text, which may share a batch with these"
    monkeypatch.setattr(dense, "accelerator", lambda: "another processor")
    encode(encoder, [*texts, "call mail"], keep=file)
    assert len(computed) == 3
    with torch.no_grad():
        next(encoder.parameters()).add_(1e-4)
    encode(encoder, [*texts, "call mail"], keep=file)
    assert len(computed) == 4
    assert [path.name for path in file.parent.iterdir()] == ["some.safetensors"]
