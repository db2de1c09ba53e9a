"""Flows that a larger model wrote once and that are kept with the project, for machines on which it takes hours.

An answer is shown under the very prompt, and the very grammar, that it was given to: a prompt that has changed since
finds none.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pandas as pd

from lib.workbook.artifacts import atomic_path

FILE = Path("data") / "answers" / "flow_bench_flows.jsonl"
ANSWER = ["text", "finished", "tokens_in", "tokens_out", "seconds"]
ABOUT = ["writer", "weights", "dtype"]


def key_of(prompt: str, grammar: str | None) -> str:
    """What an answer is kept under."""
    return hashlib.sha256(f"{prompt}\0{grammar or ''}".encode()).hexdigest()


def keep(path: Path, answered: pd.DataFrame, writer: str, weights: str, dtype: str) -> None:
    """Add answers to a file; one to the same prompt by the same weights is replaced.

    Args:
        answered: columns condition, unit, prompt, grammar, and `ANSWER`.
        writer: the model's name.
        weights: their fingerprint.
        dtype: of the computation.
    """
    rows = {(row["key"], row["weights"]): row for row in read(path).to_dict("records")}
    for row in answered[["condition", "unit", "prompt", "grammar", *ANSWER]].to_dict("records"):
        key = key_of(row.pop("prompt"), row.pop("grammar"))
        rows[key, weights] = {"key": key, **row, "writer": writer, "weights": weights, "dtype": dtype}
    lines = [json.dumps(row, ensure_ascii=False) for row in rows.values()]
    with atomic_path(path) as temporary:
        temporary.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def read(path: Path) -> pd.DataFrame:
    """All kept answers: key, condition, unit, `ANSWER`, `ABOUT`; empty where there is no file."""
    columns = ["key", "condition", "unit", *ANSWER, *ABOUT]
    if not path.exists():
        return pd.DataFrame(columns=columns)
    lines = path.read_text(encoding="utf-8").split("\n")[:-1]
    return pd.DataFrame([json.loads(line) for line in lines], columns=columns)


def kept(path: Path, prompted: pd.DataFrame) -> pd.DataFrame:
    """The answers that were kept for prompts.

    Args:
        prompted: columns condition, prompt and grammar, whatever else.

    Returns:
        the rows of `prompted` with `ANSWER` and `ABOUT`; without conditions of which an answer is missing.
    """
    keys = [key_of(*both) for both in zip(prompted["prompt"], prompted["grammar"], strict=True)]
    answers = read(path).drop_duplicates("key").set_index("key")[[*ANSWER, *ABOUT]]
    found = prompted.assign(key=keys).join(answers, on="key").drop(columns="key")
    whole = found["text"].notna().groupby(found["condition"]).transform("all")
    return found[whole].reset_index(drop=True)
