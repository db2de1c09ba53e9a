"""Embeddings, by a tiny encoder."""

import numpy as np
import pandas as pd
import pytest
import torch

from lib.retrieval import dense
from lib.retrieval.dense import _batches, _computed, encode, load_encoder, onnx_encoder, search


@pytest.fixture
def computed(monkeypatch):
    """The texts whose embeddings were computed, call by call."""
    calls = []
    monkeypatch.setattr(dense, "_computed", lambda *given: calls.append(given[1]) or _computed(*given))
    return calls


def test_equal_texts_are_encoded_once_in_an_order_of_their_own(tiny, computed):
    encoder, texts = load_encoder(tiny), ["tree", "lemon", "", "tree", "lemon stone"]
    vectors = encode(encoder, texts)
    np.testing.assert_array_equal(encode(encoder, texts[::-1]), vectors[::-1])
    assert computed == [["", "lemon", "lemon stone", "tree"]] * 2
    assert len(encode(encoder, [])) == 0


def test_batches_hold_texts_of_nearly_equal_length_the_longest_first():
    """Fewer than a batch are cut in two where the length falls to half of the longest."""
    assert [batch.tolist() for batch in _batches([3, 9, 1, 8, 3], 2)] == [[1, 3], [0, 4], [2]]
    assert [batch.tolist() for batch in _batches([4, 9, 1, 8], 4)] == [[1, 3], [0, 2]]


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
    assert found[0] == pytest.approx(np.stack([*map(onnx_encoder(encoder), texts)]), abs=1e-6)


def test_embeddings_are_float32_whatever_the_files_hold(tiny, tmp_path, monkeypatch):
    """T5 encoders come in float16."""
    load_encoder(tiny).half().save_pretrained(str(tmp_path), create_model_card=False)
    encoder, seen = load_encoder(str(tmp_path)), []
    forward = torch.nn.Linear.forward
    monkeypatch.setattr(torch.nn.Linear, "forward", lambda self, x: seen.append(forward(self, x)) or seen[-1])
    encode(encoder, ["user item", "query app plan"])
    assert {product.dtype for product in seen} == {torch.float32}


def test_search_stays_in_the_querys_own_collection(tiny, computed):
    queries = pd.DataFrame({"query": ["q", "r"], "owner": ["x", "y"], "text": ["lemon", "tree"]})
    documents = pd.DataFrame({"item": list("1234"), "owner": list("xxyz"), "text": ["lemon", "tree", "lemon", "stone"]})
    run = search(load_encoder(tiny), queries, documents, on="owner")
    assert run[["query", "item", "rank"]].to_numpy().tolist() == [["q", "1", 1], ["q", "2", 2], ["r", "3", 1]]
    assert run["score"][0] == pytest.approx(1)
    assert computed == [["lemon", "tree"]] * 2, "nobody searches the stone"


def test_kept_embeddings_are_taken_where_nothing_changed(tiny, tmp_path, computed, monkeypatch):
    """The second time nothing is computed; other texts, other weights or another processor bring it back."""
    encoder, file = load_encoder(tiny), tmp_path / "embedded" / "some.safetensors"
    texts = ["user item", "query app", "user item", "plan"]
    first = encode(encoder, texts, keep=file)
    assert np.array_equal(first, encode(encoder, texts))
    computed.clear()
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
