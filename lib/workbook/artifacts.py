"""Artifacts: the files that notebooks exchange, each written whole or not at all and with a sidecar.

The sidecar `<file>.meta.json` names the notebook, its parameters, the hashes of what it read, and the file's own hash:
a truncated or foreign file is noticed when it is read.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import platform
import re
import shutil
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from lib.workbook.parameters import Parameters, notebook_parameters

ROOT = Path(__file__).resolve().parents[2]
UMASK = os.umask(0)  # read once: it cannot be read without being set, and threads that write would set it at once
os.umask(UMASK)
LEFTOVER = re.compile(r"\.(?P<pid>\d+)@(?P<node>[A-Za-z0-9-]+)\.[^.]*\.tmp$")
LEFTOVER_DAYS = 2
RENDERED = re.compile(r"\d\d_")  # how the names of notebooks begin that the report renders


class ArtifactError(RuntimeError):
    """An artifact that is missing, damaged, or cannot be written; names the file and what to do."""


def temporary_prefix(path: Path) -> str:
    """How the temporary name of what is to become `path` begins; it names the process that writes it."""
    return f".{path.name}.{os.getpid()}@{_node()}."


def _node() -> str:
    return re.sub("[^A-Za-z0-9-]", "-", platform.node()) or "here"


def remove_leftovers(folder: Path) -> None:
    """Delete the temporary files and folders below `folder` that a killed process left: those of processes of this
    machine that are gone, and any that nothing has touched for `LEFTOVER_DAYS`."""
    for path in sorted(folder.rglob(".*.tmp"), reverse=True):
        named = LEFTOVER.search(path.name)
        try:
            old = time.time() - path.stat().st_mtime > LEFTOVER_DAYS * 86400
            if old or (named and named["node"] == _node() and not _alive(int(named["pid"]))):
                shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
        except OSError:
            continue  # somebody else's, or gone already


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


@contextlib.contextmanager
def atomic_path(path: str | Path) -> Iterator[Path]:
    """A temporary path in the same folder that becomes `path` when the block ends without error.

    The name is unique to the process, so that two writers cannot disturb each other, and nothing is left on failure.

    Raises:
        ArtifactError: the folder cannot be written or the disk is full.
    """
    path = Path(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=temporary_prefix(path), suffix=".tmp")
        os.close(handle)
    except OSError as error:
        raise ArtifactError(f"{path}: cannot be written: {error.strerror}") from error
    temporary = Path(name)
    try:
        yield temporary
        os.chmod(temporary, 0o666 & ~UMASK)  # mkstemp makes files private
        with open(temporary, "rb+") as file:
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        raise ArtifactError(f"{path}: cannot be written: {error.strerror or error}") from error
    finally:
        temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def atomic_folder(path: str | Path) -> Iterator[Path]:
    """An empty folder beside `path` that takes its place when the block ends without error; nothing is left on failure.

    Raises:
        ArtifactError: it cannot be written or the disk is full.
    """
    from safetensors import SafetensorError

    path = Path(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=temporary_prefix(path), suffix=".tmp") as scratch:
            fresh = Path(scratch) / path.name
            fresh.mkdir()
            yield fresh
            replace_folder(fresh, path)
    except (OSError, SafetensorError) as error:
        raise ArtifactError(f"{path}: cannot be written: {error}") from error


def replace_folder(fresh: Path, target: Path) -> None:
    """Put a folder of the same disk in the place of another."""
    if target.exists():
        shutil.rmtree(target)
    os.replace(fresh, target)


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
    """What one notebook reads and writes, for one profile.

    Attributes:
        data: folder of the files that notebooks exchange, `data/generated/<profile>/`.
        report: folder of the report, `reports/<profile>/`.
        spending: where a model behind an endpoint keeps what this notebook spent on it.
    """

    def __init__(self, notebook: str, parameters: Parameters, root: str | Path = ROOT):
        self.notebook = notebook
        self.parameters = parameters
        self.root = Path(root)
        self.data = self.root / "data" / "generated" / parameters.profile
        self.report = self.root / "reports" / parameters.profile
        self.spending = self.data / f"{notebook}.spending.json"
        self.inputs: dict[str, str] = {}
        self._unnoted = bool(RENDERED.match(notebook))
        if self.data.is_dir():  # what fails on its inputs leaves no folder behind
            self._note_start()

    def _note_start(self) -> None:
        """Record that this notebook starts, and whether for the first time in this folder of artifacts.

        Answers, adapters and encoders that a notebook made are in this folder: one that never started here finds none
        of its own. One that was killed did start. Where the folder is not there yet, the first thing written brings
        the record.
        """
        if not self._unnoted:
            return
        self._unnoted = False
        record = self.data / f"{self.notebook}.start.json"
        cold = not record.exists()
        started = datetime.now(UTC).isoformat()
        with atomic_path(record) as temporary:
            temporary.write_text(json.dumps({"started": started, "cold": cold}) + "\n", encoding="utf-8")

    # ---- reading

    def read(self, name: str) -> pd.DataFrame:
        """The table `name` of an earlier notebook.

        Raises:
            ArtifactError: the file or its sidecar is missing, or its content is not what was written.
        """
        path = self.data / f"{name}.parquet"
        self._verify(path)
        return pd.read_parquet(path)

    def read_arrays(self, name: str) -> dict[str, np.ndarray]:
        """The arrays `name` of an earlier notebook. Raises as `read` does."""
        from safetensors.numpy import load_file

        path = self.data / f"{name}.safetensors"
        self._verify(path)
        return load_file(path)

    def read_lines(self, name: str) -> list[str]:
        """The JSON lines `name` of an earlier notebook. Raises as `read` does."""
        path = self.data / f"{name}.jsonl"
        self._verify(path)
        return path.read_text(encoding="utf-8").split("\n")[:-1]  # texts may hold other line separators

    def require(self, needed: Mapping[str, Iterable[str]]) -> None:
        """Check that files are there.

        Args:
            needed: {notebook: files below `data` that it writes}.

        Raises:
            ArtifactError: some are missing; names all of these and their notebooks, or the profiles that there are.
        """
        profile = self.parameters.profile
        lacking = {
            notebook: [name for name in names if not (self.data / name).exists()] for notebook, names in needed.items()
        }
        if missing := [f"{notebook} ({', '.join(names)})" for notebook, names in lacking.items() if names]:
            profiles = sorted(path.stem for path in (self.root / "notebooks" / "profiles").glob("*.yaml"))
            if profiles and profile not in profiles:
                raise ArtifactError(f"there is no profile {profile} (there are: {', '.join(profiles)})")
            raise ArtifactError(
                f"profile {profile} lacks what these notebooks write: {'; '.join(missing)}: "
                f"run `make report PROFILE={profile}`"
            )

    def made_with(self, file: str) -> dict[str, Any]:
        """The parameters of the notebook that wrote an artifact, such as `cot.parquet`. Raises as `read` does."""
        path = self.data / file
        self._verify(path)
        return json.loads(sidecar_of(path).read_text(encoding="utf-8"))["parameters"]

    def require_same(self, file: str, *names: str) -> None:
        """Check that parameters of this notebook are those that an earlier one wrote an artifact with.

        Args:
            file: such as `embeddings_pretrained.safetensors`.
            names: of parameters that both notebooks have, such as `encoder`.

        Raises:
            ArtifactError: one differs; names the notebook to run first. Or as `read`.
        """
        ours, theirs = vars(self.parameters), self.made_with(file)
        written_by = json.loads(sidecar_of(self.data / file).read_text(encoding="utf-8"))["notebook"]
        for name in names:
            if ours[name] != theirs.get(name):
                raise ArtifactError(
                    f"{name} is {ours[name]!r} here, but {file} was made with {theirs.get(name)!r}: "
                    f"run notebook {written_by} with {name} = {ours[name]!r} first, and those after it"
                )

    def parameters_of(self, file: str) -> Parameters:
        """The parameters of the notebook that wrote an artifact as they are declared now: what it has no longer is left
        out, what is new has its default. Raises as `read` does, or ProfileError where no such notebook is there."""
        values = self.made_with(file)
        return notebook_parameters(
            json.loads(sidecar_of(self.data / file).read_text(encoding="utf-8"))["notebook"], values
        )

    def _verify(self, path: Path) -> None:
        shown = path.relative_to(self.root) if path.is_relative_to(self.root) else path
        again = f"run `make report PROFILE={self.parameters.profile}` again"
        if not path.exists():
            raise ArtifactError(f"{shown}: missing; an earlier notebook writes it: {again}")
        try:
            meta = json.loads(sidecar_of(path).read_text(encoding="utf-8"))
            expected = meta["sha256"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ArtifactError(
                f"{shown}: its sidecar {sidecar_of(path).name} is missing or damaged: {again}"
            ) from error
        if sha256_of(path) != expected:
            raise ArtifactError(
                f"{shown}: damaged (not the {meta.get('bytes')} bytes that {meta.get('notebook')} wrote): "
                f"delete it and {again}"
            )
        self.inputs[path.name] = expected

    # ---- writing (nothing is returned: a cell that ends with it shows no path of this machine)

    def write(self, name: str, frame: pd.DataFrame) -> None:
        """Write a table for later notebooks; deterministic bytes for the same frame."""
        path = self.data / f"{name}.parquet"
        with atomic_path(path) as temporary:
            frame.to_parquet(temporary, index=False, compression="zstd")
        self._annotate(path)

    def write_arrays(self, name: str, arrays: dict[str, np.ndarray]) -> None:
        """Write NumPy arrays (embeddings) for later notebooks."""
        from safetensors.numpy import save

        path = self.data / f"{name}.safetensors"
        with atomic_path(path) as temporary:
            temporary.write_bytes(save({key: np.ascontiguousarray(value) for key, value in arrays.items()}))
        self._annotate(path)

    def write_lines(self, name: str, records: list[str]) -> None:
        """Write JSON lines, one record (already JSON text) a line."""
        path = self.data / f"{name}.jsonl"
        with atomic_path(path) as temporary:
            temporary.write_text("".join(f"{record}\n" for record in records), encoding="utf-8")
        self._annotate(path)

    def _annotate(self, path: Path) -> None:
        meta = {
            "notebook": self.notebook,
            "bytes": path.stat().st_size,
            "sha256": sha256_of(path),
            "parameters": vars(self.parameters),
            "inputs": dict(sorted(self.inputs.items())),
        }
        self._note_start()
        with atomic_path(sidecar_of(path)) as temporary:
            temporary.write_text(json.dumps(meta, indent=1, sort_keys=True) + "\n", encoding="utf-8")

    def write_table(self, name: str, frame: pd.DataFrame) -> None:
        """Write `tables/<name>.csv` of the report, six significant digits."""
        self._write_csv(self.report / "tables" / f"{name}.csv", frame)

    def _write_csv(self, path: Path, frame: pd.DataFrame) -> None:
        with atomic_path(path) as temporary:
            frame.to_csv(temporary, index=False, float_format="%.6g", lineterminator="\n")

    def write_picture(self, name: str, figure) -> Path:
        """Write `figures/<name>.png` of the report.

        An opaque picture has a palette of 256 colours, which charts do not exceed to the eye: a third of the bytes. One
        without a background keeps its colours as they are: palettes with transparency are off by a tenth in places.
        """
        from PIL import Image

        path, drawn = self.report / "figures" / f"{name}.png", io.BytesIO()
        figure.savefig(drawn, format="png", metadata={"Software": None})
        with Image.open(drawn) as opened, atomic_path(path) as temporary:
            picture: Image.Image = opened
            if opened.getchannel("A").getextrema()[0] == 255:
                flat = opened.convert("RGB")
                picture = flat.quantize(256, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
            picture.save(temporary, format="png", optimize=True)
        return path
