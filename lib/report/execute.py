"""Execute a notebook with papermill, and note in the executed copy how much memory that took, whether its kernel died,
which papermill says with its exit code alone, and how long it took the first time.

python -m lib.report.execute [papermill's options] NOTEBOOK EXECUTED
"""

from __future__ import annotations

import contextlib
import json
import resource
import sys
import time
from pathlib import Path
from typing import Any

from papermill.__main__ import papermill

from lib.workbook.artifacts import atomic_path

KERNEL_DIED = 138  # papermill's exit code
UNIT = 2**20 if sys.platform == "darwin" else 2**10  # of ru_maxrss in a MiB: bytes on macOS, else KiB


def run_papermill(arguments: list[str]) -> None:
    """Run papermill's command, which ends with an exit or the notebook's error; the last argument is its output.

    The peak is the most memory (resident) that one process which this one started held at once: a notebook's kernel,
    or one that the kernel started and waited for. A process counts as its parent's copy until it is a program of its
    own, so that no notebook has less than papermill itself, some 0.2 GiB. Beside the copy, `<notebook>.first.json`
    has the seconds of the first run in this folder, from nothing: none if that one was killed or failed.
    """
    executed = Path(arguments[-1])
    first = executed.parent / f"{executed.name.partition('.')[0]}.first.json"
    began, fresh, noted = time.perf_counter(), not first.exists(), dict[str, Any]()
    if fresh:
        with atomic_path(first) as temporary:
            temporary.write_text("{}\n", encoding="utf-8")
    try:
        papermill(arguments, prog_name="papermill")
    except SystemExit as end:
        if end.code == KERNEL_DIED:
            noted = {"died": True}
        elif not end.code and fresh:
            first.write_text(json.dumps({"seconds": round(time.perf_counter() - began, 1)}) + "\n", encoding="utf-8")
        raise
    finally:
        noted["peak_mib"] = round(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / UNIT, 1)
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):  # there may be no readable copy
            notebook = json.loads(executed.read_text(encoding="utf-8"))
            notebook["metadata"]["workbook"] = noted
            with atomic_path(executed) as temporary:
                temporary.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    run_papermill(sys.argv[1:])
