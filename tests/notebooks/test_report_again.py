"""`make report PROFILE=smoke` where it was made before: run again, changed, broken and killed."""

import re
import subprocess
import time
from pathlib import Path

import psutil
import pytest

from lib.report.dag import lib_files
from lib.workbook.parameters import NOTEBOOKS
from tests.notebooks.smoke import command, copy_project, run, tables

pytestmark = pytest.mark.slow


def planned(project: Path) -> set[str]:
    """The rules that a dry run would start."""
    done = run(project, "--dry-run")
    assert done.returncode == 0, done.stdout + done.stderr
    return set(re.findall(r"^(\w+) +1$", done.stdout + done.stderr, flags=re.MULTILINE)) - {"all", "total"}


def test_touched_files_rerun_nothing_changed_ones_exactly_their_consumers(project):
    """Notebook 11 alone uses the file and the parameter; the front page reads what it writes."""
    for path in [*(project / "lib").rglob("*.py"), *(project / "data" / "generated" / "smoke").glob("*.parquet")]:
        path.touch()
    assert planned(project) == set()
    used = {name: set(lib_files(project / "notebooks" / f"{name}.ipynb", project)) for name in NOTEBOOKS}
    path = project / min(used.pop("10_transfer").difference(*used.values()))
    before = path.read_text()
    path.write_text(before + "\n# changed\n")
    assert planned(project) == {"transfer", "index"}
    path.write_text(before)
    profile = project / "notebooks" / "profiles" / "smoke.yaml"
    profile.write_text(profile.read_text().replace("flow_bench_flows: 2", "flow_bench_flows: 3"))
    assert planned(project) == {"transfer", "index"}


def test_killed_as_a_whole_in_the_middle_it_finishes_the_next_time(finished, tmp_path):
    """All is then as if nobody had killed it."""
    project = copy_project(tmp_path / "project")
    data = project / "data" / "generated" / "smoke"
    process = subprocess.Popen(**command(project), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 300
    while not (data / "queries.parquet").exists():
        assert process.poll() is None, "the run ended before the sign appeared"
        assert time.monotonic() < deadline
        time.sleep(0.05)
    family = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
    for member in family:
        member.kill()
    psutil.wait_procs(family, timeout=30)
    done = run(project, "--until", "data_gen")
    assert done.returncode == 0, done.stdout + done.stderr
    outcome, expected = tables(project), tables(finished)
    assert "dataset.csv" in outcome
    assert outcome == {name: expected[name] for name in outcome}
    made = [path.name for path in data.glob("*.parquet")]
    assert {"queries.parquet", "flows.parquet"} <= set(made)
    for name in made:
        assert (data / name).read_bytes() == (finished / "data/generated/smoke" / name).read_bytes(), name
