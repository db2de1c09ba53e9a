"""What became of each notebook, as its executed copy and the files beside it tell; and `run.json`."""

from __future__ import annotations

import json
import platform
import subprocess
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

import nbformat

from lib.report.timing import device, keep_cold_seconds
from lib.workbook.artifacts import ROOT
from lib.workbook.machine import cores, processor
from lib.workbook.profiles import NOTEBOOKS
from lib.workbook.spending import read_spending

PACKAGES = (
    "jupyterlab", "papermill", "pandas", "numpy", "scipy", "matplotlib", "seaborn", "torch", "transformers",
    "sentence-transformers", "rank-bm25", "lightgbm", "peft", "bitsandbytes", "snakemake",
)  # fmt: skip


def executed_path(notebook: str, profile: str, root: Path = ROOT) -> Path:
    return root / "data" / "generated" / profile / "executed" / f"{notebook}.ipynb"


def read_status(notebook: str, profile: str, root: Path = ROOT) -> dict:
    """What became of a notebook: {status: ok, outdated, failed, stopped or missing; seconds; peak_mib; error; ran}.

    Stopped is one that reached its spending limit: its answers are kept, and a higher limit goes on from there.
    peak_mib is None where `lib.report.execute` did not run it. ran is papermill's record.
    """
    path = executed_path(notebook, profile, root)
    try:
        executed = nbformat.read(path, as_version=4)
    except (OSError, ValueError, AttributeError, nbformat.ValidationError):
        return {"status": "missing", "seconds": None, "peak_mib": None, "error": "not run", "ran": {}}
    record = executed.metadata.get("papermill", {})
    errors = [
        f"{output.ename}: {output.evalue}"
        for cell in executed.cells
        for output in cell.get("outputs", [])
        if output.output_type == "error"
    ]
    noted = executed.metadata.get("workbook", {})
    if noted.get("died"):
        errors.append("its kernel died: most often for want of memory")
    finished = record.get("end_time") is not None and not record.get("exception") and not errors
    seconds = record.get("duration")
    changed = changed_input(notebook, path.parents[1]) if finished else ""
    error = f"not run again since {changed} changed" if changed else "" if finished else "did not finish"
    unfinished = "stopped" if errors and errors[0].startswith("SpendingLimit:") else "failed"
    return {
        "status": "outdated" if changed else "ok" if finished else unfinished,
        "seconds": round(seconds, 1) if seconds else None,
        "peak_mib": noted.get("peak_mib"),
        "error": errors[0] if errors else error,
        "ran": dict(record),
    }


def changed_input(notebook: str, data: Path) -> str:
    """An artifact that a notebook read and that is gone or another one now, since a notebook before it failed or
    changed; empty if there is none. The sidecars tell."""
    try:
        metas = {
            path.name.removesuffix(".meta.json"): json.loads(path.read_text(encoding="utf-8"))
            for path in sorted(data.glob("*.meta.json"), key=lambda path: path.stat().st_mtime)
        }
        # The last one that a notebook wrote names all that it had read.
        read: dict[str, str] = next(
            (meta["inputs"] for meta in reversed(metas.values()) if meta["notebook"] == notebook), {}
        )
        return next((n for n, sha in read.items() if not (data / n).exists() or metas[n]["sha256"] != sha), "")
    except (OSError, ValueError, KeyError, TypeError):
        return "an artifact's sidecar"


def read_title(notebook: str, profile: str, root: Path) -> str:
    """The first heading of the executed notebook."""
    executed = nbformat.read(executed_path(notebook, profile, root), as_version=4)
    return title_of(executed, notebook)


def title_of(executed, notebook: str) -> str:
    first = next((cell.source for cell in executed.cells if cell.cell_type == "markdown" and cell.source), notebook)
    return first.splitlines()[0].lstrip("# ")


def read_highlights(notebook: str, profile: str, root: Path) -> list[dict]:
    path = root / "data" / "generated" / profile / f"{notebook}.highlights.json"
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return []


def git_commit(root: Path) -> str | None:
    """The commit, with a plus where tracked files other than the reports differ from it; None outside a repository."""
    try:
        commit = subprocess.run(
            ["git", "rev-parse", "HEAD"], cwd=root, capture_output=True, text=True, check=True
        ).stdout.strip()
        changed = subprocess.run(
            ["git", "status", "--porcelain", "--untracked-files=no", "--", ".", ":!reports"],
            cwd=root, capture_output=True, text=True, check=True,
        ).stdout.strip()  # fmt: skip
    except (OSError, subprocess.CalledProcessError):
        return None
    return commit + ("+" if changed else "")


def run_record(profile: str, root: Path = ROOT) -> dict:
    """What `run.json` holds: profile, commit, versions, machine, device, and of each notebook status, seconds (of the
    last run and of the last cold one) and peak memory."""
    import psutil

    data = root / "data" / "generated" / profile
    statuses = {notebook: read_status(notebook, profile, root) for notebook in NOTEBOOKS}
    spending = {notebook: read_last_spending(notebook, profile, root) for notebook in NOTEBOOKS}
    versions: dict[str, str | None] = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            versions[package] = None
    return {
        "profile": profile,
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": git_commit(root),
        "versions": versions,
        "machine": {
            "system": f"{platform.system()} {platform.machine()}",
            "processor": processor(),
            "cores": cores(),
            "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
        },
        "device": device(),
        "status": {notebook: status["status"] for notebook, status in statuses.items()},
        "errors": {notebook: status["error"] for notebook, status in statuses.items() if status["error"]},
        "seconds": {notebook: status["seconds"] for notebook, status in statuses.items()},
        "cold_seconds": {
            notebook: keep_cold_seconds(notebook, data, status["ran"], status["status"] in ("ok", "outdated"))
            for notebook, status in statuses.items()
        },
        "peak_mib": {notebook: status["peak_mib"] for notebook, status in statuses.items()},
        "spending": {notebook: spent for notebook, spent in spending.items() if spent},
    }


def read_last_spending(notebook: str, profile: str, root: Path = ROOT) -> dict | None:
    """What the last run of a notebook spent at an endpoint; None where it asked none.

    A record older than the run is of an earlier one, whose profile named a remote model.
    """
    record = root / "data" / "generated" / profile / f"{notebook}.spending.json"
    try:
        executed = nbformat.read(executed_path(notebook, profile, root), as_version=4)
        started = datetime.fromisoformat(executed.metadata["papermill"]["start_time"])
        written = datetime.fromtimestamp(record.stat().st_mtime, UTC)
        return read_spending(record) if written >= started.astimezone(UTC) else None
    except (OSError, ValueError, AttributeError, KeyError, TypeError, nbformat.ValidationError):
        return None
