"""The rules as jobs for Slurm: what a dry run would send."""

import os
import re
import shutil
import subprocess
import sys

import pytest
import yaml

from lib.report.run import write_notebook_parameters
from lib.workbook.artifacts import ROOT
from lib.workbook.parameters import read_profile

pytestmark = pytest.mark.slow

pytest.importorskip("snakemake_executor_plugin_slurm")
RULES = {
    "data_gen", "context_baselines", "cot_augmentation", "finetuned_search", "lambdamart_rrf", "tool_retrieval",
    "planner", "dsl_retrieval", "dsl_ablation", "transfer",
}  # fmt: skip


@pytest.fixture
def project(tmp_path):
    """A copy of the project without anything generated."""
    ignore = shutil.ignore_patterns("__pycache__", "generated", "models")
    for name in ("lib", "notebooks", "data"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=ignore)
    return tmp_path


def change(project, profile, **values):
    path = project / "notebooks" / "profiles" / f"{profile}.yaml"
    path.write_text(yaml.safe_dump(yaml.safe_load(path.read_text()) | values))


def snakemake(project, profile, *flags, **environment):
    """Snakemake as `make report` calls it, but for `--quiet`."""
    values = read_profile(project / "notebooks" / "profiles" / f"{profile}.yaml")
    write_notebook_parameters(values, project / "data" / "generated" / profile / "parameters")
    command = [
        sys.executable,
        "-m",
        "snakemake",
        "--snakefile",
        "notebooks/Snakefile",
        "--config",
        f"profile={profile}",
    ]
    environment = os.environ | {"PYTHONPATH": f"{project}:{os.environ.get('PYTHONPATH', '')}"} | environment
    done = subprocess.run([*command, *flags], cwd=project, env=environment, capture_output=True, text=True, timeout=600)
    return done.stdout + done.stderr


SLURM = ("--executor", "slurm", "--jobs", "4", "--max-threads", "8", "--latency-wait", "60")


def resources_of(said):
    """Of each job of a dry run: its threads and the resources it declares."""
    jobs = {}
    for part in re.split(r"^(?:local)?rule ", said, flags=re.M)[1:]:
        declared = re.search(r"^    resources: (.*)$", part, flags=re.M)
        threads = re.search(r"^    threads: (\d+)$", part, flags=re.M)
        pairs = (pair.split("=", 1) for pair in declared.group(1).split(", ")) if declared else ()
        jobs[part.split(":", 1)[0]] = {"threads": threads.group(1) if threads else "1", **dict(pairs)}
    return jobs


def test_each_job_declares_what_it_needs(project):
    jobs = {name: resources_of(snakemake(project, name, *SLURM, "--dry-run")) for name in ("paper", "quick")}
    for profile, found in jobs.items():
        assert set(found) - {"all"} == RULES | {"index"}, profile  # the front page reads tables alone
        for rule in RULES:
            assert int(found[rule]["mem_mb"]) >= 6 * 1024
            assert 60 <= int(found[rule]["runtime"]) <= 24 * 60
            assert int(found[rule]["threads"]) <= 8
            assert found[rule]["nodes"] == "1"
    assert {rule for rule in RULES if int(jobs["quick"][rule]["gpu"])} == set()
    # GTR-T5-XL, OpenLLaMA or the code model; notebook 01 only embeds requests, with Distil-RoBERTa
    assert {rule for rule in RULES if int(jobs["paper"][rule]["gpu"])} == RULES - {"data_gen"}
    for rule in ("planner", "dsl_retrieval", "dsl_ablation"):  # room for 7 billion weights in float32
        assert int(jobs["paper"][rule]["mem_mb"]) > int(jobs["quick"][rule]["mem_mb"]) + 26 * 1024


def test_the_readme_says_it_so():
    text = (ROOT / "notebooks" / "README.md").read_text()
    assert f'FLAGS="{" ".join(SLURM)} --dry-run"' in text
