"""Execute a notebook with papermill, and note in the executed copy how much memory that took and whether its kernel
died, which papermill says with its exit code alone.

python -m lib.report.execute [papermill's options] NOTEBOOK EXECUTED
"""

from __future__ import annotations

import contextlib
import json
import resource
import sys
from pathlib import Path

from papermill.__main__ import papermill

from lib.workbook.artifacts import atomic_path

KERNEL_DIED = 138  # papermill's exit code
UNIT = 2**20 if sys.platform == "darwin" else 2**10  # of ru_maxrss in a MiB: bytes on macOS, else KiB


def peak_mib() -> float:
    """The most memory (resident, MiB) that one process which this one started held at once: a notebook's kernel, or one
    that the kernel started and waited for. Processes side by side are not added up. A process counts as its parent's
    copy until it is a program of its own, so that no notebook has less than papermill itself, some 0.2 GiB."""
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / UNIT


def note_peak(executed: Path, mib: float, died: bool = False) -> None:
    """Write the peak into an executed notebook's metadata, and whether its kernel died; nothing where there is no
    readable one."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        notebook = json.loads(executed.read_text(encoding="utf-8"))
        notebook["metadata"]["workbook"] = {"peak_mib": round(mib, 1)} | ({"died": True} if died else {})
        with atomic_path(executed) as temporary:
            temporary.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def main(arguments: list[str]) -> None:
    """Run papermill's command, which ends with an exit or the notebook's error; the last argument is its output."""
    died = False
    try:
        papermill(arguments, prog_name="papermill")
    except SystemExit as end:
        died = end.code == KERNEL_DIED
        raise
    finally:
        note_peak(Path(arguments[-1]), peak_mib(), died)


if __name__ == "__main__":
    main(sys.argv[1:])
