"""Flows that were written once and are kept with the project, for machines on which that takes hours.

An answer is shown under the very prompt, and the very grammar, that it was given to, and where the weights are known,
to these: a prompt or a model that has changed since finds none.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pandas as pd

from lib.generation.kept import ENOUGH
from lib.workbook.artifacts import atomic_path
from lib.workbook.machine import accelerator, cores
from lib.workflows.ablation_grid import Asked

if TYPE_CHECKING:
    from lib.generation.local import LocalModel

FILE = Path("data") / "answers" / "flow_bench_flows.jsonl"
REPAIRS = FILE.with_name("repair_flows.jsonl")  # of notebook 12, by the shipped models
ABLATION = FILE.with_name("ablation_flows.jsonl")  # of notebook 09, by the shipped models
ANSWER = ["text", "finished", "tokens_in", "tokens_out", "seconds"]
ABOUT = ["writer", "weights", "dtype", "device"]


def key_of(prompt: str, grammar: str | None, length: int | None = None) -> str:
    """What an answer is kept under; `length` is that of the longest one, where others may be asked for."""
    held = grammar if isinstance(grammar, str) else ""  # pandas may have made None into NaN
    key = hashlib.sha256(f"{prompt}\0{held}".encode()).hexdigest()
    return key if length is None else hashlib.sha256(f"{key}\0{length}".encode()).hexdigest()


def keep(
    path: Path,
    answered: pd.DataFrame,
    writer: str,
    weights: str,
    dtype: str,
    length: int | None = None,
    device: str = "",
) -> None:
    """Add answers to a file; those to the same prompt by the same weights are replaced, in whatever condition. A prompt
    that two conditions share has a line of each.

    Args:
        answered: columns condition, unit, prompt, grammar, and `ANSWER`.
        writer: the model's name.
        weights: their fingerprint.
        dtype: of the computation.
        length: see `key_of`.
        device: that they were written on; empty where nobody asks for their seconds.
    """
    about = {"writer": writer, "weights": weights, "dtype": dtype} | ({"device": device} if device else {})
    rows = {(row["key"], row["weights"], row["condition"]): row for row in _lines(path)}
    fresh = {}
    for row in answered[["condition", "unit", "prompt", "grammar", *ANSWER]].to_dict("records"):
        key = key_of(row.pop("prompt"), row.pop("grammar"), length)
        rows[key, weights, row["condition"]] = {"key": key, **row, **about}
        fresh[key, weights] = {name: row[name] for name in ANSWER} | about
    lines = [json.dumps(row | fresh.get(of[:2], {}), ensure_ascii=False) for of, row in rows.items()]
    with atomic_path(path) as temporary:
        temporary.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def read(path: Path) -> pd.DataFrame:
    """All kept answers: key, condition, unit, `ANSWER`, `ABOUT`; empty where there is no file."""
    return pd.DataFrame(_lines(path), columns=["key", "condition", "unit", *ANSWER, *ABOUT])


def _lines(path: Path) -> list[dict]:
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n")[:-1]]


def kept(path: Path, prompted: pd.DataFrame) -> pd.DataFrame:
    """The answers that were kept for prompts, by whatever weights.

    Args:
        prompted: columns condition, prompt and grammar, whatever else.

    Returns:
        the rows of `prompted` with `ANSWER` and `ABOUT`; without conditions of which an answer is missing.
    """
    return kept_by(read(path), prompted, None, ["condition"])


def kept_by(
    answers: pd.DataFrame,
    prompted: pd.DataFrame,
    weights: Mapping[str, str] | None,
    whole: Sequence[str],
    length: int | None = None,
) -> pd.DataFrame:
    """Those of kept answers that were given to prompts, by these weights.

    Args:
        answers: of `read`.
        prompted: columns model, prompt, grammar and those of `whole`, whatever else.
        weights: by model, their fingerprint; None takes any, and needs no column model.
        whole: columns that tell what stays together, such as all answers to a request.
        length: see `key_of`.

    Returns:
        the rows of `prompted` with `ANSWER` and `ABOUT`; without groups of which an answer is missing.
    """
    keys = [key_of(*both, length) for both in zip(prompted["prompt"], prompted["grammar"], strict=True)]
    asked, on = prompted.assign(key=keys), ["key"]
    if weights is not None:
        asked, on = asked.assign(weights=prompted["model"].map(weights)), ["key", "weights"]
    known = answers[["key", *ANSWER, *ABOUT]].drop_duplicates(on).set_index(on)
    found = asked.join(known, on=on).drop(columns="key")
    complete = found["text"].notna().groupby([found[name] for name in whole]).transform("all")
    return found[complete].reset_index(drop=True)


def kept_as(asked: Asked) -> str:
    """The condition under which notebook 09's answers are kept: the same one on another test set is another."""
    return f"{asked.test_set} {asked.name}"


class Known(NamedTuple):
    """What of notebook 09's conditions is kept.

    Attributes:
        asked: all conditions, those with kept answers on as many requests as are kept.
        answers: the kept ones: prompts with `ANSWER` and `ABOUT`; empty where none are taken.
        left: the conditions that are still to be asked.
    """

    asked: list[Asked]
    answers: pd.DataFrame
    left: list[Asked]


def kept_conditions(
    path: Path,
    asked: Sequence[Asked],
    write: Callable[[Sequence[Asked]], pd.DataFrame],
    weights: Mapping[str, str],
    length: int,
) -> Known:
    """The answers of notebook 09 that are kept, condition by condition.

    A condition's are taken if they are to at least as many requests as it would be asked about here, and nearly all
    (`ENOUGH`) of those that were kept are found: the first ones in the order of asking.

    Args:
        path: of the kept answers.
        asked: the conditions.
        write: their prompts (`lib.workflows.ablation_grid.write_prompts`).
        weights: fingerprint of each model that a prompt may name.
        length: see `key_of`.
    """
    answers = read(path)
    answers = answers[answers["weights"].isin(set(weights.values()))]
    once = answers.groupby("condition")["unit"].nunique()
    conditions, left, parts = [], [], []
    for one in asked:
        number, enough = int(once.get(kept_as(one), 0)), one.condition.flows
        if number >= enough:
            wide = one._replace(condition=one.condition.model_copy(update={"flows": number}))
            found = kept_by(answers, write([wide]), weights, ["unit"], length)
            if len(found) >= max(ENOUGH * number, enough):
                conditions.append(wide)
                parts.append(found)
                continue
        conditions.append(one)
        left.append(one)
    return Known(conditions, pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(), left)


def keep_conditions(path: Path, answered: pd.DataFrame, model: LocalModel, length: int) -> None:
    """Add answers of notebook 09 that one model wrote to a file.

    Args:
        answered: columns model, condition, test_set, unit, prompt, grammar, and `ANSWER`.
        length: see `key_of`.
    """
    named = answered.assign(condition=answered["test_set"] + " " + answered["condition"])
    device = f"{cores()} cores of {accelerator()}"
    keep(path, named, str(answered["model"].iloc[0]), model.fingerprint, model.dtype, length, device)
