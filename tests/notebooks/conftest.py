"""The smoke report, made once for all tests and all workers."""

import fcntl
import shutil
from pathlib import Path

import pytest

from tests.notebooks.smoke import copy_or_link, copy_project, run


@pytest.fixture(scope="session")
def finished(tmp_path_factory, worker_id) -> Path:
    """A copy of the project in which the smoke report was made once, undisturbed. Tests leave it as it is."""
    own = tmp_path_factory.getbasetemp()
    shared = own if worker_id == "master" else own.parent
    # The folder's name would break any command that does not quote it.
    project, outcome = shared / "finished" / 'it\'s a "test"; $(touch pwned) &', shared / "finished.txt"
    with (shared / "finished.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another worker waits and finds it made
        if not outcome.exists():
            done = run(copy_project(project))
            outcome.write_text("" if done.returncode == 0 else done.stdout + done.stderr, encoding="utf-8")
    if problem := outcome.read_text(encoding="utf-8"):
        pytest.fail(problem)
    return project


@pytest.fixture
def project(finished, tmp_path) -> Path:
    """A copy of the finished project, data and Snakemake's records included, to change."""
    target = tmp_path / "project"
    shutil.copytree(finished, target, symlinks=True, copy_function=copy_or_link)
    return target
