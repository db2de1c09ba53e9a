"""A real Slurm on the loopback address takes Snakemake's jobs, and one that is killed is sent again."""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "srun")
PATH = f"{os.environ['PATH']}:/usr/sbin:/sbin"
SCRIPT = Path(__file__).with_name("slurm.sh")

pytest.importorskip("snakemake_executor_plugin_slurm")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not all(shutil.which(name, path=PATH) for name in PROGRAMS),
        reason="Slurm is not installed: apt-get install munge slurmctld slurmd slurm-client",
    ),
]

# As the project's rules, but small. The first job waits to be killed and does not when it is sent again.
SNAKEFILE = """
from pathlib import Path

rule all:
    input: "second.txt"

rule first:
    output: "first.txt"
    threads: 1
    resources: mem_mb=100, runtime=10, nodes=1, gpu=0
    shell:
        "echo $SLURM_JOB_ID >> tries.txt; "
        "if [ $(wc -l < tries.txt) -eq 1 ]; then touch waiting; sleep 600; fi; "
        "echo $WORKBOOK_SAYS $PWD > {output}"

rule second:
    input: "first.txt"
    output: "second.txt"
    resources: mem_mb=100, runtime=10, nodes=1, gpu=0
    shell: "cat {input} > {output}"
"""
FLAGS = [
    "--executor", "slurm", "--jobs", "2", "--retries", "1", "--latency-wait", "20",
    "--slurm-status-command", "squeue", "--slurm-init-seconds-before-status-checks", "1",
]  # fmt: skip


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.fixture
def cluster(tmp_path):
    """The environment in which Slurm's commands find the cluster."""
    folder = tmp_path / "slurm"
    run = subprocess.run([SCRIPT, "start", folder], capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stderr
    pids = [int((folder / f"{name}.pid").read_text()) for name in ("munged", "slurmctld", "slurmd")]
    assert all(map(alive, pids))
    yield os.environ | {"SLURM_CONF": str(folder / "slurm.conf"), "PATH": f"{folder / 'bin'}:{PATH}"}
    subprocess.run([SCRIPT, "stop", folder], check=True, capture_output=True, timeout=120)
    assert not any(map(alive, pids))


def wait_for(path, run, seconds=300):
    for _ in range(10 * seconds):
        if path.exists():
            return
        assert run.poll() is None, run.communicate()
        time.sleep(0.1)
    raise AssertionError(f"{path} never came")


def ask(cluster, *command):
    """What one of Slurm's commands says, a word or line each."""
    return subprocess.run(command, env=cluster, check=True, capture_output=True, text=True).stdout.split()


def test_a_job_that_is_killed_is_sent_again(cluster, tmp_path):
    project = tmp_path / "project"
    project.mkdir()
    (project / "Snakefile").write_text(SNAKEFILE)
    command = [sys.executable, "-m", "snakemake", *FLAGS]
    run = subprocess.Popen(
        command,
        cwd=project,
        env=cluster | {"WORKBOOK_SAYS": "hello"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        wait_for(project / "waiting", run)
        killed = (project / "tries.txt").read_text().strip()
        subprocess.run(["scancel", killed], env=cluster, check=True)
        said, _ = run.communicate(timeout=300)
    finally:
        run.kill()
        run.wait()
    assert run.returncode == 0, said
    assert (project / "second.txt").read_text() == f"hello {project}\n"  # variables and folder are the submitter's
    tries = (project / "tries.txt").read_text().split()
    name = ask(cluster, "squeue", "--states=all", "--noheader", "--format=%j")[0]
    ended = dict(line.split("|") for line in ask(cluster, "squeue", "--states=all", "--noheader", "--format=%i|%T"))
    asked = ask(cluster, "sacct", "-X", "--parsable2", "--noheader", "--format=JobIdRaw,State", "--name", name)
    assert dict(line.split("|") for line in asked) == ended
    assert len(tries) == 2
    assert [ended[job] for job in tries] == ["CANCELLED", "COMPLETED"]
    assert sorted(ended.values()) == ["CANCELLED", "COMPLETED", "COMPLETED"]
