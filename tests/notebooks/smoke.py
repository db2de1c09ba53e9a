"""A copy of the project, `make report PROFILE=smoke` on it, and what it makes."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from lib.workbook.artifacts import ROOT

COPIED = ("lib", "notebooks", "data")
MODELS = ROOT / "data" / "models"


def copy_project(target: Path) -> Path:
    ignore = shutil.ignore_patterns("__pycache__", ".ipynb_checkpoints", "generated", "models", "trained")
    for name in COPIED:
        source, destination = ROOT / name, target / name
        destination.parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(source, destination, ignore=ignore) if source.is_dir() else shutil.copy(source, destination)
    MODELS.mkdir(parents=True, exist_ok=True)
    (target / "data" / "models").symlink_to(MODELS)
    return target


def command(project: Path) -> dict:
    """Arguments for subprocess that run the copy's own code."""
    environment = os.environ | {"PYTHONPATH": str(project), "PYTHONDONTWRITEBYTECODE": "1"}
    return {"args": [sys.executable, "-m", "lib.report.run", "smoke"], "cwd": project, "env": environment}


def run(project: Path, *flags: str) -> subprocess.CompletedProcess:
    named = command(project)
    named["args"] += flags
    return subprocess.run(**named, capture_output=True, text=True, timeout=2000)


TIMED = ("context_cost", "context_pareto", "cost_against_recall", "dsl_sweep")  # the only files that hold times


def tables(project: Path) -> dict[str, bytes]:
    """Every table and figure that must come out the same again, without what a kill left half-written."""
    folder = project / "reports" / "smoke"
    paths = [path for part in ("tables", "figures") for path in sorted((folder / part).glob("[!.]*"))]
    return {path.name: path.read_bytes() for path in paths if path.stem not in TIMED}


def copy_or_link(source: str, target: str) -> None:
    """Copy a file; large weights, which are never changed in place, are linked: there is a gigabyte of them."""
    if source.endswith(".safetensors") and os.path.getsize(source) > 2**22:
        os.link(source, target)
    else:
        shutil.copy2(source, target)
