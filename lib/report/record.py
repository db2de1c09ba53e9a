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

from lib.workbook.artifacts import ROOT, atomic_path
from lib.workbook.machine import accelerator, cores, processor
from lib.workbook.parameters import NOTEBOOKS

PACKAGES = (
    "jupyterlab", "papermill", "pandas", "numpy", "scipy", "matplotlib", "seaborn", "torch", "transformers",
    "sentence-transformers", "rank-bm25", "lightgbm", "peft", "bitsandbytes", "snakemake", "sphinx",
)  # fmt: skip
SPENT = (
    "model", "calls", "retries", "refused", "tokens_in", "tokens_out", "cost", "cost_lost", "cost_cached", "reasons",
)  # fmt: skip
MISSING: dict[str, Any] = {"status": "missing", "seconds": None, "peak_mib": None, "error": "not run", "ran": {}}


def executed_path(notebook: str, profile: str, root: Path = ROOT) -> Path:
    return root / "data" / "generated" / profile / "executed" / f"{notebook}.ipynb"


def read_executed(notebook: str, profile: str, root: Path = ROOT) -> nbformat.NotebookNode | None:
    """The executed copy of a notebook; None where there is no readable one."""
    try:
        return nbformat.read(executed_path(notebook, profile, root), as_version=4)
    except (OSError, ValueError, AttributeError, nbformat.ValidationError):
        return None


def read_status(notebook: str, profile: str, root: Path = ROOT) -> dict:
    """What became of a notebook: {status: ok, outdated, failed, stopped or missing; seconds; peak_mib; error; ran}.

    Stopped is one that reached its spending limit: its answers are kept, and a higher limit goes on from there.
    peak_mib is None where `lib.report.execute` did not run it. ran is papermill's record.
    """
    executed = read_executed(notebook, profile, root)
    if executed is None:
        return MISSING
    ran, noted = dict(executed.metadata.get("papermill", {})), executed.metadata.get("workbook", {})
    outputs = [output for cell in executed.cells for output in cell.get("outputs", [])]
    errors = [f"{output.ename}: {output.evalue}" for output in outputs if output.output_type == "error"]
    if noted.get("died"):
        errors.append("its kernel died: most often for want of memory")
    status, error = "ok", ""
    if errors or ran.get("exception") or ran.get("end_time") is None:
        stopped = bool(errors) and errors[0].startswith("SpendingLimit:")
        status, error = "stopped" if stopped else "failed", errors[0] if errors else "did not finish"
    elif changed := changed_input(notebook, root / "data" / "generated" / profile):
        status, error = "outdated", f"not run again since {changed} changed"
    seconds = round(ran["duration"], 1) if ran.get("duration") else None
    return {"status": status, "seconds": seconds, "peak_mib": noted.get("peak_mib"), "error": error, "ran": ran}


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


def cold_seconds(notebook: str, data: Path, status: dict) -> float | None:
    """Seconds of a notebook's last run that began without answers or training of its own; None where there was none.

    They are kept beside the artifacts, so that they outlive the runs after it that found what it left.

    Args:
        data: the folder of artifacts, in which `Workbook` records each start.
        status: of `read_status`.
    """
    kept, ran = data / f"{notebook}.cold.json", status["ran"]
    try:
        start = json.loads((data / f"{notebook}.start.json").read_text(encoding="utf-8"))
        began, ended = (datetime.fromisoformat(ran[f"{end}_time"]) for end in ("start", "end"))
        ours = began <= datetime.fromisoformat(start["started"]) <= ended
        if ours and start["cold"] is True and status["status"] in ("ok", "outdated"):
            with atomic_path(kept) as temporary:
                temporary.write_text(json.dumps({"seconds": round(ran["duration"], 1)}) + "\n", encoding="utf-8")
    except (OSError, ValueError, KeyError, TypeError):
        pass  # no record of a start, or none of this run
    try:
        return float(json.loads(kept.read_text(encoding="utf-8"))["seconds"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def last_spending(notebook: str, data: Path, ran: dict) -> dict | None:
    """What the last run of a notebook spent at an endpoint; None where it asked none. A record older than the run is of
    an earlier one, whose profile named a remote model."""
    path = data / f"{notebook}.spending.json"
    try:
        started = datetime.fromisoformat(ran["start_time"]).astimezone(UTC)
        if datetime.fromtimestamp(path.stat().st_mtime, UTC) < started:
            return None
        record = json.loads(path.read_text(encoding="utf-8"))
        return {name: record[name] for name in SPENT}
    except (OSError, ValueError, KeyError, TypeError):
        return None


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


def run_record(profile: str, root: Path = ROOT) -> dict:
    """What `run.json` holds: profile, commit, versions, machine, device, and of each notebook status, seconds (of the
    last run and of the last cold one) and peak memory."""
    import psutil

    data = root / "data" / "generated" / profile
    found = {notebook: read_status(notebook, profile, root) for notebook in NOTEBOOKS}
    spending = {notebook: last_spending(notebook, data, status["ran"]) for notebook, status in found.items()}
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
        "status": {notebook: status["status"] for notebook, status in found.items()},
        "errors": {notebook: status["error"] for notebook, status in found.items() if status["error"]},
        "seconds": {notebook: status["seconds"] for notebook, status in found.items()},
        "cold_seconds": {notebook: cold_seconds(notebook, data, status) for notebook, status in found.items()},
        "peak_mib": {notebook: status["peak_mib"] for notebook, status in found.items()},
        "spending": {notebook: spent for notebook, spent in spending.items() if spent},
    }
