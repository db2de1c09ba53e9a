"""Data-parallel training: several processes, one a GPU, each with its part of every batch.

`accelerate launch` starts them. Only an adapter's gradients pass between them, so nothing is wrapped: what one process
computes alone is the same sum in another order.
"""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from lib.workbook.artifacts import atomic_path

if TYPE_CHECKING:
    import torch
    from accelerate import PartialState


def join() -> PartialState:
    """This process's number, how many there are, and its device; on a CPU they talk by gloo. One where none were
    launched."""
    import torch
    from accelerate import PartialState

    return PartialState(cpu=not torch.cuda.is_available())


def add_up(tensors: Sequence[torch.Tensor], group: PartialState) -> None:
    """Replace tensors of one type by their sums over all processes."""
    import torch

    if group.num_processes == 1:
        return
    flat = torch.cat([tensor.flatten() for tensor in tensors])
    torch.distributed.all_reduce(flat)
    for tensor, total in zip(tensors, flat.split([tensor.numel() for tensor in tensors]), strict=True):
        tensor.copy_(total.view_as(tensor))


def launch(module: str, job: Path, settings: dict, processes: int) -> None:
    """Write `settings` to the file `job` and run `module` with it in several processes; what they say goes to a log
    file beside it. Where such a run goes on although whoever started it was killed, it is waited for.

    Raises:
        RuntimeError: a process failed; with its error, the log and the command to repeat it.
        ArtifactError: the file cannot be written.
    """
    with atomic_path(job) as temporary:
        temporary.write_text(json.dumps(settings) + "\n", encoding="utf-8")
    command = [sys.executable, "-m", "accelerate.commands.launch", "--multi_gpu", "--num_processes", str(processes)]
    # said in full, so that nobody's accelerate configuration changes what is computed; port 0: any free one
    command += ["--num_machines", "1", "--mixed_precision", "no", "--dynamo_backend", "no", "--main_process_port", "0"]
    command += ["-m", module, str(job)]
    log = job.with_suffix(".log")
    with open(job.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # the launcher inherits it, and keeps it as long as it lives
        with open(log, "w", encoding="utf-8") as output:
            launcher = subprocess.Popen(
                command, stdout=output, stderr=subprocess.STDOUT, env=os.environ, pass_fds=[lock.fileno()]
            )
            try:
                code = launcher.wait()
            except BaseException:
                launcher.terminate()  # and it ends its processes
                launcher.wait()
                raise
    if code:
        lines = [line for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if "Error: " in line]
        raise RuntimeError(
            f"training in {processes} processes failed: {lines[0].strip() if lines else 'no error was reported'} "
            f"(see {log}; again with `{' '.join(command)}`)"
        )
