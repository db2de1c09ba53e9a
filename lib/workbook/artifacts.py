"""Artifacts: the files that notebooks exchange, each written whole or not at all and with a sidecar.

The sidecar `<file>.meta.json` names the notebook, its parameters, the hashes of what it read, and the file's own hash:
a truncated or foreign file is noticed when it is read.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import tempfile
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from lib.workbook.parameters import Parameters, notebook_parameters

ROOT = Path(__file__).resolve().parents[2]
UMASK = os.umask(0)  # read once: it cannot be read without being set, and threads that write would set it at once
os.umask(UMASK)
LEFTOVER_HOURS = 24


class ArtifactError(RuntimeError):
    """An artifact that is missing, damaged, or cannot be written; names the file and what to do."""


def remove_leftovers(folder: Path) -> None:
    """Delete what a killed process left below `folder`: temporary files and folders untouched for `LEFTOVER_HOURS`."""
    for path in sorted(folder.rglob(".*.tmp"), reverse=True):
        with contextlib.suppress(OSError):  # somebody else's, or gone already
            if time.time() - path.stat().st_mtime > LEFTOVER_HOURS * 3600:
                shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()


@contextlib.contextmanager
def atomic_path(path: str | Path) -> Iterator[Path]:
    """A temporary path in the same folder, of its own name, that becomes `path` when the block ends without error;
    nothing is left on failure. Raises ArtifactError if it cannot be written."""
    path = Path(path)
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield temporary
        temporary.chmod(0o666 & ~UMASK)  # safetensors makes files private
        with open(temporary, "rb+") as file:
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        raise ArtifactError(f"{path}: cannot be written: {error.strerror or error}") from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def atomic_folder(path: str | Path) -> Iterator[Path]:
    """An empty folder beside `path` that takes its place when the block ends without error; nothing is left on failure.
    Raises ArtifactError if it cannot be written."""
    from safetensors import SafetensorError

    path = Path(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp") as scratch:
            fresh = Path(scratch) / path.name
            fresh.mkdir()
            yield fresh
            if path.exists():
                shutil.rmtree(path)
            os.replace(fresh, path)
    except (OSError, SafetensorError) as error:
        raise ArtifactError(f"{path}: cannot be written: {error}") from error


def copy_folder(source: Path, target: Path) -> None:
    """Make `target` a copy of a folder, whole or not at all. Raises ArtifactError if it cannot be written."""
    if source.resolve() != target.resolve():
        with atomic_folder(target) as fresh:
            shutil.copytree(source, fresh, dirs_exist_ok=True)


def sha256_of(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sidecar_of(path: Path) -> Path:
    return path.with_name(path.name + ".meta.json")


class Workbook:
    """What one notebook reads and writes, for one profile."""

    def __init__(self, notebook: str, parameters: Parameters, root: str | Path = ROOT):
        self.notebook = notebook
        self.parameters = parameters
        self.root = Path(root)
        self.data = self.root / "data" / "generated" / parameters.profile  # what notebooks exchange
        self.report = self.root / "reports" / parameters.profile
        self.spending = self.data / f"{notebook}.spending.json"  # at an endpoint, by this notebook
        self.inputs: dict[str, str] = {}  # {file that was read: its hash}, for the sidecars of what is written

    def read(self, name: str) -> pd.DataFrame:
        """The table `name` of an earlier notebook. Raises ArtifactError where the file or its sidecar is missing, or
        its content is not what was written."""
        self._verify(path := self.data / f"{name}.parquet")
        return pd.read_parquet(path)

    def read_arrays(self, name: str) -> dict[str, np.ndarray]:
        """The arrays `name` of an earlier notebook. Raises as `read` does."""
        from safetensors.numpy import load_file

        self._verify(path := self.data / f"{name}.safetensors")
        return load_file(path)

    def read_lines(self, name: str) -> list[str]:
        """The JSON lines `name` of an earlier notebook. Raises as `read` does."""
        self._verify(path := self.data / f"{name}.jsonl")
        return path.read_text(encoding="utf-8").split("\n")[:-1]  # texts may hold other line separators

    def require(self, needed: Mapping[str, Iterable[str]]) -> None:
        """Raises ArtifactError, which names them and their notebooks, where files are missing: {notebook: files below
        `data` that it writes}."""
        lacking = {key: [name for name in names if not (self.data / name).exists()] for key, names in needed.items()}
        if missing := [f"{notebook} ({', '.join(names)})" for notebook, names in lacking.items() if names]:
            lacks = f"profile {self.parameters.profile} lacks what these notebooks write: {'; '.join(missing)}"
            raise ArtifactError(f"{lacks}: run `make report PROFILE={self.parameters.profile}`")

    def require_same(self, file: str, *names: str) -> None:
        """Raises ArtifactError, which names the notebook to run first, where parameters (such as `encoder`) are not
        those that it wrote a file with (such as `cot.parquet`), or as `read` does."""
        ours, written = vars(self.parameters), self._verify(self.data / file)
        for name in names:
            if ours[name] != written["parameters"].get(name):
                raise ArtifactError(
                    f"{name} is {ours[name]!r} here, but {file} was made with {written['parameters'].get(name)!r}: "
                    f"run notebook {written['notebook']} with {name} = {ours[name]!r} first, and those after it"
                )

    def parameters_of(self, file: str) -> Parameters:
        """The parameters of the notebook that wrote an artifact, as far as it has them now; new ones as by default.
        Raises as `read` does, or ProfileError where no such notebook is there."""
        written = self._verify(self.data / file)
        return notebook_parameters(written["notebook"], written["parameters"])

    def _verify(self, path: Path) -> dict[str, Any]:
        """The sidecar of an artifact whose content is what was written."""
        try:
            written = json.loads(sidecar_of(path).read_text(encoding="utf-8"))
            whole = sha256_of(path) == written["sha256"]
        except (OSError, ValueError, KeyError, TypeError):
            whole = False
        if not whole:
            profile = self.parameters.profile
            raise ArtifactError(
                f"{path.name} of profile {profile}, which an earlier notebook writes, is missing or damaged: "
                f"delete what is there of it and run `make report PROFILE={profile}`"
            )
        self.inputs[path.name] = written["sha256"]
        return written

    def write(self, name: str, frame: pd.DataFrame) -> None:
        """Write a table for later notebooks; deterministic bytes for the same frame."""
        with self._artifact(f"{name}.parquet") as temporary:
            frame.to_parquet(temporary, index=False, compression="zstd")

    def write_arrays(self, name: str, arrays: dict[str, np.ndarray]) -> None:
        """Write NumPy arrays (embeddings) for later notebooks."""
        from safetensors.numpy import save

        with self._artifact(f"{name}.safetensors") as temporary:
            temporary.write_bytes(save({key: np.ascontiguousarray(value) for key, value in arrays.items()}))

    def write_lines(self, name: str, records: list[str]) -> None:
        """Write JSON lines, one record (already JSON text) a line."""
        with self._artifact(f"{name}.jsonl") as temporary:
            temporary.write_text("".join(f"{record}\n" for record in records), encoding="utf-8")

    @contextlib.contextmanager
    def _artifact(self, file: str) -> Iterator[Path]:
        """A temporary path that becomes an artifact with its sidecar."""
        path = self.data / file
        with atomic_path(path) as temporary:
            yield temporary
        written = {"notebook": self.notebook, "sha256": sha256_of(path), "inputs": self.inputs}
        text = json.dumps(written | {"parameters": vars(self.parameters)}, indent=1, sort_keys=True)
        with atomic_path(sidecar_of(path)) as temporary:
            temporary.write_text(text + "\n", encoding="utf-8")

    def write_table(self, name: str, frame: pd.DataFrame) -> None:
        """Write `tables/<name>.csv` of the report, six significant digits."""
        with atomic_path(self.report / "tables" / f"{name}.csv") as temporary:
            frame.to_csv(temporary, index=False, float_format="%.6g", lineterminator="\n")

    def write_picture(self, name: str, figure) -> Path:
        """Write `figures/<name>.png` of the report; the same bytes for the same figure."""
        path = self.report / "figures" / f"{name}.png"
        with atomic_path(path) as temporary:
            figure.savefig(temporary, format="png", metadata={"Software": None}, pil_kwargs={"optimize": True})
        return path
