"""Trained rankers in one compressed file, each under the hash of what it learned from."""

from __future__ import annotations

import hashlib
import json
import lzma
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from lib.retrieval import lambdamart
from lib.workbook.artifacts import atomic_path

ENTRIES = {"learned_from", "device", "model"}  # of a record: the hash, the processor it was trained on, its text


def how_trained() -> dict[str, Any]:
    """The settings of `lib.retrieval.lambdamart.train` that no caller chooses."""
    return {name: getattr(lambdamart, name) for name in ("TREES", "LEAVES", "MAX_TREES", "PATIENCE", "HELD_OUT_EVERY")}


def hash_of_lesson(settings: Sequence, frames: Iterable[pd.DataFrame]) -> str:
    """SHA-256 of what a ranker learns from.

    Args:
        settings: what JSON can hold.
        frames: the data.
    """
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode())
    for frame in frames:
        digest.update(frame.to_csv(index=False).encode())
    return digest.hexdigest()


def read_rankers(path: Path) -> list[dict]:
    """The whole records of a file; none where it is missing or damaged."""
    try:
        records = [json.loads(line) for line in lzma.decompress(path.read_bytes()).decode().splitlines()]
        return [record for record in records if set(record) >= ENTRIES]
    except (OSError, ValueError, TypeError, lzma.LZMAError):
        return []


def write_rankers(path: Path, records: Iterable[Mapping]) -> None:
    """Write records, one JSON text a line, compressed.

    Raises:
        ArtifactError: the file cannot be written.
    """
    text = "\n".join(json.dumps(record) for record in records)
    with atomic_path(path) as temporary:
        temporary.write_bytes(lzma.compress(text.encode(), preset=9))
