"""One training loop, for encoders and language models: killed at any moment and started again, it gives the same ones.

What is trained and the loss of a batch are the caller's (`one_step`); the loop has the learning rate, the curve and the
checkpoints.
"""

from __future__ import annotations

import hashlib
import json
import logging
import shutil
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tqdm.auto import tqdm

from lib.workbook.artifacts import ArtifactError, atomic_path, remove_leftovers, sha256_of

log = logging.getLogger(__name__)

READ_EVERY = 50  # steps; a loss that is read makes the processor wait for a GPU


def code_hashes(*files: str | Path) -> list[str]:
    """SHA-256 of the files that decide what a training gives, this loop's among them: runs are known by their code."""
    return [sha256_of(Path(file)) for file in (*files, __file__)]


def take_steps(
    one_step: Callable[[Any], Any],
    batches: Sequence[Any],
    optimizer,
    rate: Callable[[int, int, float], float],
    progress: bool = False,
    trained: dict | None = None,
    weights: dict | None = None,
    checkpoints: Checkpoints | None = None,
    checkpoint_every: int = 50,
) -> list[list[float]]:
    """Train, from the last whole checkpoint on where there are any; returns the curve: step (from 1), loss, seconds.

    Args:
        one_step: takes a step on a batch; returns its loss, which nothing has read yet.
        optimizer: each of its groups has its highest learning rate as `highest`.
        rate: the learning rate, from the step (from 0), the number of steps and the highest rate.
        trained: what checkpoints hold: float32 tensors that the optimizer updates, the adapter's `weights` among them.
    """
    import torch

    curve: list[list[float]] = []
    if checkpoints is not None and trained is not None:
        curve = checkpoints.restore(trained, optimizer)
        copy_weights(trained, weights or {})
    waiting: list = []
    started = time.perf_counter() - (curve[-1][2] if curve else 0.0)
    steps = range(len(curve), len(batches))
    for step in tqdm(steps, disable=not progress, unit="step", desc="training", initial=len(curve), total=len(batches)):
        for group in optimizer.param_groups:
            group["lr"] = rate(step, len(batches), group["highest"])
        waiting.append(one_step(batches[step]))
        last, due = step + 1 == len(batches), (step + 1) % checkpoint_every == 0
        if last or due or len(waiting) == READ_EVERY:
            losses, seconds = torch.stack(waiting).tolist(), time.perf_counter() - started
            curve += [[len(curve) + i, loss, seconds] for i, loss in enumerate(losses, 1)]
            waiting.clear()
        if due and not last and checkpoints is not None and trained is not None:
            checkpoints.save(trained, optimizer, curve)
    return curve


def update(optimizer, masters: dict, weights: dict) -> None:
    """A step on float32 `masters` whose gradients are there, clipped to a norm of 1, as the model's `weights` then."""
    import torch

    torch.nn.utils.clip_grad_norm_(masters.values(), 1.0)
    optimizer.step()
    copy_weights(masters, weights)


def copy_weights(masters: dict, weights: dict) -> None:
    """Round the float32 weights into those of the model that is trained."""
    import torch

    with torch.no_grad():
        torch._foreach_copy_(list(weights.values()), [masters[key] for key in weights])


class Checkpoints:
    """The last two checkpoints of a run, `<step>.safetensors`: the trained weights, both moments of AdamW, PyTorch's
    random state, the curve up to its step, and a checksum over it all."""

    def __init__(self, folder: Path, run: str):
        self.folder, self.run = folder, run

    def save(self, masters: dict, optimizer, curve: list) -> None:
        """Write a checkpoint and drop all but the last two. Raises ArtifactError if it cannot be written."""
        import torch
        from safetensors import SafetensorError
        from safetensors.torch import save_file

        tensors = {"random": torch.get_rng_state()}
        for key, value in masters.items():
            tensors |= {f"{moment}.{key}": optimizer.state[value][moment] for moment in ("exp_avg", "exp_avg_sq")}
            tensors[f"adapter.{key}"] = value.detach()
        tensors = {key: value.cpu().contiguous() for key, value in tensors.items()}
        note = json.dumps({"run": self.run, "curve": curve})
        path = self.folder / f"{len(curve):08d}.safetensors"
        with atomic_path(path) as temporary:
            try:
                save_file(tensors, temporary, metadata={"note": note, "sha256": checksum(tensors, note)})
            except SafetensorError as error:
                raise ArtifactError(f"{path}: cannot be written: {error}") from error
        for old in sorted(self.folder.glob("*.safetensors"))[:-2]:
            old.unlink(missing_ok=True)

    def restore(self, masters: dict, optimizer) -> list:
        """Load the last whole checkpoint of this run; returns its loss curve, empty if there is none."""
        import torch
        from safetensors import safe_open

        remove_leftovers(self.folder)
        for path in sorted(self.folder.glob("*.safetensors"), reverse=True):
            try:
                with safe_open(path, framework="pt") as file:
                    said = file.metadata()
                    tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118 (not a dict)
                note = json.loads(said["note"])
                if checksum(tensors, said["note"]) != said["sha256"] or note["run"] != self.run:
                    raise ValueError("damaged, or of another run")
            except Exception as error:  # whatever a damaged file leads to: it is not believed
                log.warning("checkpoint %s is not used: %s", path.name, error)
                continue
            fused = optimizer.defaults.get("fused")  # AdamW in one kernel counts its steps on the GPU
            with torch.no_grad():
                for key, value in masters.items():
                    value.copy_(tensors[f"adapter.{key}"])
                    step = torch.tensor(float(len(note["curve"])), device=value.device if fused else "cpu")
                    moments = {name: tensors[f"{name}.{key}"].to(value.device) for name in ("exp_avg", "exp_avg_sq")}
                    optimizer.state[value] = {"step": step, **moments}
            torch.set_rng_state(tensors["random"])
            return note["curve"]
        return []

    def remove(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)


def checksum(tensors: dict, note: str) -> str:
    """SHA-256 over a note and the names, types, shapes and bytes of tensors."""
    digest = hashlib.sha256(note.encode())
    for key, value in sorted(tensors.items()):
        digest.update(f"{key} {value.dtype} {tuple(value.shape)}".encode() + value.numpy().tobytes())
    return digest.hexdigest()
