"""Trained parts that come with the project, `data/trained/<part>/`; and arrays that take long, `data/answers/*.npz`.

A part is a LoRA adapter in peft's format, its weights in bfloat16, and `training.json`, the record of its training. It
is used only where base model, training pairs and settings are those that the caller asks for: another world, or another
learning rate, is trained for anew.

Arrays are found by a key, SHA-256 of all that they depend on. A file is of one key, under the name `key`, or its names
begin with theirs.
"""

from __future__ import annotations

import json
import shutil
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, is_dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from lib.workbook.artifacts import ROOT, atomic_folder, atomic_path, sha256_of

FOLDER = Path("data") / "trained"
RECORD, WEIGHTS, CONFIG = "training.json", "adapter_model.safetensors", "adapter_config.json"
POINTS = 200  # of a loss curve that is kept
ADDED_UP = ("tokens", "target_tokens", "seconds")  # columns of a curve that count what a step took


class Shipped(NamedTuple):
    """A part that was looked for."""

    folder: Path | None  # of the adapter; None where none fits
    record: dict[str, Any]  # of its training
    reason: str  # why none is used, a sentence; empty where one is


NONE = Shipped(None, {}, "")


@dataclass(frozen=True)
class Adapter:
    """An adapter, shipped or trained here."""

    folder: Path
    shipped: bool
    reason: str  # why no shipped one is used, a sentence; empty where one is, or none was asked for
    curve: pd.DataFrame  # a row a step or, where shipped, for several: step, loss and what else the training wrote
    rows: int  # trained on, each epoch counted
    seconds: float
    device: str
    record: dict[str, Any]  # everything else


def shipped(part: str, model: str, pairs: str | None, root: Path = ROOT, settings: Any = None) -> Shipped:
    """The shipped part of this name, if it was trained from this model on these pairs with these settings.

    Args:
        model: hash of the base model.
        pairs: hash of the training pairs; None takes any: for data that others made, which no part has learned from.
        settings: a dataclass or mapping that its record must agree with, as far as it names them; None takes any.
    """
    folder = root / FOLDER / part
    if not folder.is_dir():
        return Shipped(None, {}, f"No trained part {part} is shipped.")
    asked = asdict(settings) if is_dataclass(settings) and not isinstance(settings, type) else dict(settings or {})
    record = whole_record(folder)
    had = {"epochs": 1, **record.get("settings", {})}  # an encoder's rows count once
    others = [f"{name} {had[name]}, not {value}" for name, value in asked.items() if had.get(name, value) != value]
    flaws = {
        "it is damaged": not record,
        "it was trained from another base model": record.get("model") != model,
        "it was trained on other pairs than these": pairs not in (None, record.get("pairs")),
        f"it was trained with {'; '.join(others)}": bool(others),
    }
    for reason, flawed in flaws.items():
        if flawed:
            return Shipped(None, record, f"The shipped part {part} is not used: {reason}.")
    return Shipped(folder, record, "")


def adapter_of(folder: Path, record: dict[str, Any], reason: str = "", from_project: bool = False) -> Adapter:
    """An adapter with the record of its training (`columns` names those of its curve)."""
    curve = pd.DataFrame(record["curve"], columns=record["columns"])
    figures = {key: record[key] for key in ("rows", "seconds", "device")}
    rest = {key: value for key, value in record.items() if key not in {"curve", "columns", *figures}}
    return Adapter(folder, from_project, reason, curve, **figures, record=rest)


def save_adapter(adapted, masters: dict, output: Path, record: dict) -> dict:
    """Write the adapter in float32, in peft's format, and the record of its training, which is returned with the hash
    of the weights; whole or not at all."""
    from peft import get_peft_model_state_dict
    from safetensors.torch import save_file

    state = get_peft_model_state_dict(adapted, state_dict=dict(masters), save_embedding_layers=False)
    with atomic_folder(output) as fresh:
        weights = fresh / WEIGHTS
        with atomic_path(weights) as temporary:
            save_file({key: value.contiguous().cpu() for key, value in state.items()}, temporary)
        config = adapted.peft_config["default"]
        config.inference_mode = True
        config.target_modules = sorted(config.target_modules)  # a set, written in an order of its own
        config.save_pretrained(fresh)
        record = {**record, "sha256": sha256_of(weights)}
        (fresh / RECORD).write_text(json.dumps(record) + "\n", encoding="utf-8")
    return record


def whole_record(folder: Path) -> dict[str, Any]:
    """The record of a training; nothing where it or what it made is missing or damaged."""
    try:
        record = json.loads((folder / RECORD).read_text(encoding="utf-8"))
        return record if record["sha256"] == sha256_of(folder / WEIGHTS) and (folder / CONFIG).exists() else {}
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def finished_record(output: Path, run: str) -> dict[str, Any] | None:
    """The record of a finished run, or None if `output` is missing, damaged or of another run."""
    record = whole_record(output)
    return record if record.get("run") == run else None


def ship(source: Path, part: str, pairs: str, root: Path = ROOT, about: Mapping[str, Any] | None = None) -> Path:
    """Put a finished training's adapter (`source`: its folder, with the record, which is to say what is `about` it,
    too) among the shipped parts, in bfloat16 and with a thinned curve; returns its folder there. `pairs`: hash of what
    it learned from, as `shipped` is asked. Raises ArtifactError if it cannot be written."""
    import torch
    from safetensors.torch import load_file, save_file

    record = json.loads((source / RECORD).read_text(encoding="utf-8"))
    curve = thinned(pd.DataFrame(record["curve"], columns=record["columns"]))
    target = root / FOLDER / part
    with atomic_folder(target) as fresh:
        weights = {key: value.to(torch.bfloat16) for key, value in load_file(source / WEIGHTS).items()}
        save_file(weights, fresh / WEIGHTS)
        shutil.copy(source / CONFIG, fresh / CONFIG)
        lines = [[float(f"{value:.5g}") if isinstance(value, float) else value for value in line]
                 for line in curve.astype(object).to_numpy().tolist()]  # fmt: skip
        record |= {**(about or {}), "part": part, "pairs": pairs, "curve": lines, "sha256": sha256_of(fresh / WEIGHTS)}
        (fresh / RECORD).write_text(json.dumps(record, sort_keys=True) + "\n", encoding="utf-8")
    return target


def thinned(curve: pd.DataFrame) -> pd.DataFrame:
    """A curve of at most `POINTS` rows, each of as many steps: the last, mean loss, sums of tokens and seconds."""
    groups = np.arange(len(curve)) // max(-(-len(curve) // POINTS), 1)
    how = {name: "mean" if name == "loss" else "sum" if name in ADDED_UP else "last" for name in curve}
    return curve.groupby(groups).agg(how)


class Recipe(NamedTuple):
    """How `make train` makes a part."""

    about: str  # what it learns from, in words
    notebook: str  # that takes it
    needs: Mapping[str, tuple[str, ...]]  # files that it is made from, by the notebook that writes them
    # From that notebook's artifacts, the project's folder and the machine (threads, progress); says what it took, or
    # nothing where the shipped part fits.
    make: Callable[..., str]


def ship_made(name: str, output: Path, made: Adapter, source: str, about: Mapping | None, root: Path) -> str:
    """Ship what was trained at `output`, as `ship` does, unless the part is there; what it took, or nothing."""
    if made.shipped:
        return ""
    ship(output, name, source, root, about)
    last = made.curve["loss"].tail(50).mean()
    return f"{made.rows:,} rows in {made.seconds:.0f} s on {made.device}, mean loss of the last steps {last:.4f}"


# ---------------------------------------------------------------- arrays


def kept_arrays(path: Path, key: str = "") -> dict[str, np.ndarray]:
    """The arrays of a file by name, its key aside: those under a key (empty: all); none where the file is of another
    key, missing or damaged."""
    try:
        with np.load(path) as file:
            names = [name for name in file.files if name != "key"]
            if "key" in file.files:
                names, key = names if key in ("", str(file["key"])) else [], ""
            return {name.removeprefix(key).strip(): file[name] for name in names if name.startswith(key)}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile):
        return {}


def keep_arrays(path: Path, arrays: Mapping[str, np.ndarray], key: str = "") -> None:
    """Write a file of arrays by name, of one key or, where names begin with theirs, of several."""
    of_key = {"key": np.array(key)} if key else {}
    with atomic_path(path) as temporary, open(temporary, "wb") as file:
        np.savez_compressed(file, allow_pickle=False, **{**arrays, **of_key})


def add_arrays(path: Path, arrays: Mapping[str, np.ndarray]) -> int:
    """Put arrays, whose names begin with their keys, beside those of a file; says how many it did not have."""
    there = kept_arrays(path)
    if fresh := len(arrays.keys() - there.keys()):
        keep_arrays(path, {**there, **arrays})
    return fresh
