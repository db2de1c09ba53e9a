"""`make report`: check the profile, let Snakemake run what is out of date, render the report.

python -m lib.report.run quick [-- options for Snakemake]
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

from lib.report import book
from lib.workbook.artifacts import ROOT, ArtifactError, atomic_path, remove_leftovers
from lib.workbook.inputs import InputError
from lib.workbook.machine import cores
from lib.workbook.parameters import (
    NOTEBOOKS,
    ProfileError,
    check_profile_name,
    is_remote,
    notebook_parameters,
    read_profile,
)

# After a kill -9 Snakemake finds a stale lock and half-made files: go on and make them again. The checksum limit is far
# above any artifact's size, so that touching a file never reruns anything.
SNAKEMAKE_FLAGS = (
    "--nolock", "--rerun-incomplete", "--keep-going", "--max-checksum-file-size", "1000000000", "--quiet", "rules",
)  # fmt: skip
# What a profile may name outside itself, besides `world_folder`.
INPUTS = ("openapi_folder", "pairs_file", "review_file")


def check_inputs(path: Path, values: dict[str, Any], root: Path = ROOT) -> None:
    """Check values of a profile that do not go together, and that what it names outside itself, below `root`, is there:
    Snakemake would bury a missing file in a page of its own, and a later notebook may start after hours. Raises
    ProfileError, which names the profile and the key, where a file is not there or two values contradict each other."""
    from lib.assistant.schemas import WorldKnobs
    from lib.generation.local import remote_settings
    from lib.workflows.ablation import asked_rows

    world, chains, ablation = (
        notebook_parameters(name, values) for name in ("01_data_gen", "03_cot_augmentation", "09_dsl_ablation")
    )
    try:
        WorldKnobs.of(world)
        asked_rows(ablation)
        remote_settings(world)
    except InputError as error:
        raise ProfileError(f"{path}: {error}") from error
    if world.world_folder and world.data_writer:
        raise ProfileError(f"{path}: world_folder and data_writer exclude each other: one of them gives the personas")
    if is_remote(chains.writer) and not chains.distilled_writer:
        raise ProfileError(
            f"{path}: distilled_writer: a model behind an endpoint cannot be fine-tuned: name a local one beside "
            "writer, such as `distilled_writer: SmolLM2-135M-Instruct`"
        )
    named = [(key, values[key]) for key in INPUTS if values.get(key)]
    if folder := values.get("world_folder"):
        from lib.assistant.world import FILES

        named += [("world_folder", name) for name in (folder, *(f"{folder}/{file}" for file in FILES))]
    for key, name in named:
        there = root / name
        if not (there.is_file() if key.endswith("_file") else there.exists()):
            raise ProfileError(f"{path}: {key}: no such file or folder: {name}")


def write_notebook_parameters(values: dict[str, Any], folder: Path) -> dict[str, Path]:
    """One file of parameters for each notebook of the report, rewritten only where its content changed, so that a
    changed parameter reruns just the notebooks that know it. Raises ArtifactError where the folder cannot be written.
    """
    paths = {}
    for notebook in NOTEBOOKS:
        paths[notebook] = folder / f"{notebook}.yaml"
        text = yaml.safe_dump(vars(notebook_parameters(notebook, values)), sort_keys=True, allow_unicode=True)
        if not paths[notebook].exists() or paths[notebook].read_text(encoding="utf-8") != text:
            with atomic_path(paths[notebook]) as temporary:
                temporary.write_text(text, encoding="utf-8")
    return paths


def run_notebooks(profile: str, extra: list[str], root: Path = ROOT) -> int:
    """Run Snakemake over the notebooks of a profile; returns its exit code."""
    command = [sys.executable, "-m", "snakemake", "--snakefile", str(root / "notebooks" / "Snakefile")]
    command += ["--directory", str(root), "--config", f"profile={profile}", *SNAKEMAKE_FLAGS]
    if not any(flag.startswith(("--cores", "-c", "--jobs", "-j")) for flag in extra):
        # at most 4 GiB and one GPU for what runs side by side, see `needs` there
        command += ["--resources", "peak_mb=4096", "gpu=1", "--cores", str(cores())]
    return subprocess.run([*command, *extra], cwd=root).returncode


def make_report(arguments: list[str]) -> int:
    """Run the notebooks of a profile, with options for Snakemake, and render what they made; returns the exit code."""
    if not arguments:
        print("usage: python -m lib.report.run PROFILE [options for Snakemake]", file=sys.stderr)
        return 2
    profile, extra = arguments[0], [flag for flag in arguments[1:] if flag != "--"]
    try:
        check_profile_name(profile)
        path = Path(os.path.relpath(ROOT / "notebooks" / "profiles" / f"{profile}.yaml"))
        values = read_profile(path)
        check_inputs(path, values)
        data = ROOT / "data" / "generated" / profile
        write_notebook_parameters(values, data / "parameters")
        for draft in (data / "executed").glob("*.ipynb.*.ipynb"):
            draft.unlink(missing_ok=True)  # left by a run that was killed
        for folder in (data, ROOT / "data" / "models", ROOT / "reports" / profile):
            remove_leftovers(folder)
        code = run_notebooks(profile, extra)
        if {"-n", "--dry-run", "--dryrun"}.isdisjoint(extra):
            print_outcome(book.build(profile))
        return code
    except (ProfileError, ArtifactError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


def print_outcome(record: dict[str, Any]) -> None:
    """What became of each notebook, a line each."""
    folder = os.path.relpath(ROOT / "reports" / record["profile"])
    for name, status in record["status"].items():
        seconds, peak, error = record["seconds"][name], record["peak_mib"][name], record["errors"].get(name, "")
        took, held = ("" if seconds is None else f"{seconds:.0f} s"), ("" if peak is None else f"{peak / 1024:.1f} GiB")
        print(f"{name:24} {status:8} {took:>7} {held:>9}  {error}".rstrip())
        if status in ("failed", "stopped"):
            print(f"{'':24} see {folder}/{name}.html")
    for name, spent in record["spending"].items():
        print(f"{name:24} asked {spent['model']}: {spent['calls']:,} prompts, cost {spent['cost']:,.4g}")
    if (record["commit"] or "").endswith("+"):
        print("note: files of the project differ from the commit; run.json names it with a +")
    print(f"report: {folder}/index.html")


if __name__ == "__main__":
    sys.exit(make_report(sys.argv[1:]))
