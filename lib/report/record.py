"""What became of each notebook, as its executed copy and the files beside it tell; and `run.json`."""

from __future__ import annotations

import json
import platform
import subprocess
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

import nbformat

from lib.workbook.artifacts import ROOT
from lib.workbook.machine import accelerator, cores, processor
from lib.workbook.parameters import NOTEBOOKS

PACKAGES = (
    "jupyterlab", "papermill", "pandas", "numpy", "scipy", "matplotlib", "seaborn", "torch", "transformers",
    "sentence-transformers", "rank-bm25", "lightgbm", "peft", "bitsandbytes", "snakemake", "sphinx",
)  # fmt: skip
SPENT = ("model", "calls", "tokens_in", "tokens_out", "cost")
OF_EACH = ("status", "seconds", "cold_seconds", "peak_mib")


def executed_path(notebook: str, profile: str, root: Path = ROOT) -> Path:
    return root / "data" / "generated" / profile / "executed" / f"{notebook}.ipynb"


def read_executed(notebook: str, profile: str, root: Path = ROOT) -> nbformat.NotebookNode | None:
    """The executed copy of a notebook; None where there is no readable one."""
    try:
        return nbformat.read(executed_path(notebook, profile, root), as_version=4)
    except (OSError, ValueError, AttributeError, nbformat.ValidationError):
        return None


def read_status(notebook: str, profile: str, root: Path = ROOT) -> dict[str, Any]:
    """What became of a notebook: {status: ok, outdated, failed, stopped or missing; error; seconds; cold_seconds;
    peak_mib; spending}.

    Stopped is one that reached its spending limit: its answers are kept, and a higher limit goes on from there.
    cold_seconds are those of the first run in this folder, and peak_mib is None, where `lib.report.execute` did not run
    it. spending is what the last run spent at an endpoint, None where it asked none.
    """
    found: dict[str, Any] = dict.fromkeys(("seconds", "cold_seconds", "peak_mib", "spending"))
    executed = read_executed(notebook, profile, root)
    if executed is None:
        return found | {"status": "missing", "error": "not run"}
    path, data = executed_path(notebook, profile, root), root / "data" / "generated" / profile
    ran, noted = executed.metadata.get("papermill", {}), executed.metadata.get("workbook", {})
    outputs = [output for cell in executed.cells for output in cell.get("outputs", [])]
    errors = [f"{output.ename}: {output.evalue}" for output in outputs if output.output_type == "error"]
    if noted.get("died"):
        errors.append("its kernel died: most often for want of memory")
    status, error = "ok", ""
    if errors or ran.get("exception") or ran.get("end_time") is None:
        stopped = bool(errors) and errors[0].startswith("SpendingLimit:")
        status, error = "stopped" if stopped else "failed", errors[0] if errors else "did not finish"
    elif changed := changed_input(notebook, data):
        status, error = "outdated", f"not run again since {changed} changed"
    return found | {
        "status": status,
        "error": error,
        "seconds": round(ran["duration"], 1) if ran.get("duration") else None,
        "cold_seconds": read_json(path.with_name(f"{notebook}.first.json")).get("seconds"),
        "peak_mib": noted.get("peak_mib"),
        "spending": last_spending(data / f"{notebook}.spending.json", ran.get("start_time", "")),
    }


def read_json(path: Path) -> dict[str, Any]:
    """What a file beside the artifacts holds; nothing where it is missing or damaged."""
    try:
        return dict(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return {}


def changed_input(notebook: str, data: Path) -> str:
    """An artifact that a notebook read and that is gone or another one now, since a notebook before it failed or
    changed; empty if there is none. The sidecars tell: the last one that it wrote names all that it had read."""
    paths = sorted(data.glob("*.meta.json"), key=lambda path: path.stat().st_mtime)
    written = {path.name.removesuffix(".meta.json"): read_json(path) for path in paths}
    read_by = [one["inputs"] for one in written.values() if one.get("notebook") == notebook]
    read: dict[str, str] = read_by[-1] if read_by else {}
    there = {name: one.get("sha256") for name, one in written.items() if (data / name).exists()}
    return next((name for name, sha256 in read.items() if there.get(name) != sha256), "")


def last_spending(path: Path, started: str) -> dict[str, Any] | None:
    """What a run that started then spent at an endpoint; None where it asked none: a record from before it is of an
    earlier run, whose profile named a remote model."""
    record = read_json(path)
    if not record or not started or path.stat().st_mtime < datetime.fromisoformat(started).timestamp():
        return None
    return {name: record.get(name) for name in SPENT}


def git_commit(root: Path) -> str | None:
    """The commit, with a plus where tracked files other than the reports differ from it; None outside a repository."""
    changes = ["status", "--porcelain", "--untracked-files=no", "--", ".", ":!reports"]
    try:
        commit, changed = (
            subprocess.run(["git", *command], cwd=root, capture_output=True, text=True, check=True).stdout.strip()
            for command in (["rev-parse", "HEAD"], changes)
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return commit + ("+" if changed else "")


def run_record(profile: str, root: Path = ROOT) -> dict[str, Any]:
    """What `run.json` holds: profile, commit, versions, machine, device, and of each notebook what became of it."""
    import psutil

    found = {notebook: read_status(notebook, profile, root) for notebook in NOTEBOOKS}
    installed = {one.metadata["Name"]: one.version for one in metadata.distributions() if one.metadata["Name"]}
    name = accelerator()
    return {
        "profile": profile,
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": git_commit(root),
        "versions": {"python": platform.python_version()} | {package: installed.get(package) for package in PACKAGES},
        "machine": {
            "system": f"{platform.system()} {platform.machine()}",
            "processor": processor(),
            "cores": cores(),
            "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
        },
        "device": f"{name}, {cores()} cores" if name == processor() else name,
        **{key: {notebook: one[key] for notebook, one in found.items()} for key in OF_EACH},
        "errors": {notebook: one["error"] for notebook, one in found.items() if one["error"]},
        "spending": {notebook: one["spending"] for notebook, one in found.items() if one["spending"]},
    }
