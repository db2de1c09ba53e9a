"""How long notebooks took on which device: their last run, and their last one that began with nothing of its own; and
how their peak memory is written."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path

from lib.workbook.artifacts import atomic_path
from lib.workbook.machine import accelerator, cores, processor


def device() -> str:
    """What computed: the GPU's name, or the processor's and its number of cores."""
    name = accelerator()
    return f"{name}, {cores()} cores" if name == processor() else name


def in_gib(mib: float | None) -> str:
    """Memory for readers, in GiB; a dash where none was measured.

    >>> in_gib(4403.2)
    '4.3'
    """
    return "–" if mib is None else f"{mib / 1024:.1f}"


def keep_cold_seconds(notebook: str, data: Path, ran: dict, finished: bool) -> float | None:
    """Seconds of a notebook's last cold run: one that began without answers or training of its own.

    A cold run is kept beside the artifacts, so that it outlives the runs after it that found what it left.

    Args:
        data: the folder of artifacts, in which `Workbook` records each start.
        ran: papermill's record of the run that the report shows: start_time, end_time, duration.
        finished: whether it came to its end.

    Returns:
        None where no cold run is known.
    """
    kept = data / f"{notebook}.cold.json"
    if finished and _was_cold(data / f"{notebook}.start.json", ran):
        with atomic_path(kept) as temporary:
            temporary.write_text(json.dumps({"seconds": round(ran["duration"], 1)}) + "\n", encoding="utf-8")
    try:
        return float(json.loads(kept.read_text(encoding="utf-8"))["seconds"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _was_cold(record: Path, ran: dict) -> bool:
    """Whether the start on record is the one of this run, and was cold."""
    try:
        start = json.loads(record.read_text(encoding="utf-8"))
        began, ended = (datetime.fromisoformat(ran[f"{end}_time"]) for end in ("start", "end"))
        return start["cold"] is True and began <= datetime.fromisoformat(start["started"]) <= ended
    except (OSError, ValueError, KeyError, TypeError):
        return False
