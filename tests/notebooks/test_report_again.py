"""`make report PROFILE=smoke` where it was made before: run again, changed, broken and killed."""

import re
import subprocess
import time
from pathlib import Path

import psutil
import pytest

from lib.report.dag import lib_files
from lib.workbook.parameters import NOTEBOOKS
from tests.notebooks.smoke import command, run, tables

pytestmark = pytest.mark.slow


def planned(project: Path) -> set[str]:
    """The rules that a dry run would start."""
    done = run(project, "--dry-run")
    assert done.returncode == 0, done.stdout + done.stderr
    return set(re.findall(r"^(\w+) +1$", done.stdout + done.stderr, flags=re.MULTILINE)) - {"all", "total"}


def test_touched_files_rerun_nothing_changed_ones_exactly_their_consumers(project):
    """Notebook 10 alone uses the file, 07 the parameter; the front page reads what both write."""
    for path in [*(project / "lib").rglob("*.py"), *(project / "data" / "generated" / "smoke").glob("*.parquet")]:
        path.touch()
    assert planned(project) == set()
    used = {name: set(lib_files(project / "notebooks" / f"{name}.ipynb", project)) for name in NOTEBOOKS}
    path = project / min(used.pop("10_transfer").difference(*used.values()))
    path.write_text(path.read_text() + "\n# changed\n")
    profile = project / "notebooks" / "profiles" / "smoke.yaml"
    profile.write_text(profile.read_text().replace("planner_queries: 2", "planner_queries: 3"))
    assert planned(project) == {"transfer", "planner", "index"}


def test_killed_as_a_whole_in_the_middle_it_finishes_the_next_time(finished, project):
    """All is then as if nobody had killed it. The shortest notebook runs again, since what it wrote is gone."""
    data = project / "data" / "generated" / "smoke"
    made = [data / "claims_transfer.parquet", *(project / "reports/smoke/tables").glob("transfer*.csv")]
    executed = data / "executed" / "10_transfer.ipynb"
    for path in (*made, executed):
        path.unlink()
    process = subprocess.Popen(**command(project), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 300
    while not any(path.exists() for path in made):
        assert process.poll() is None, "the run ended before the sign appeared"
        assert time.monotonic() < deadline
        time.sleep(0.01)
    family = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
    for member in family:
        member.kill()
    psutil.wait_procs(family, timeout=30)
    assert not executed.exists()
    done = run(project, "--until", "transfer")
    assert done.returncode == 0, done.stdout + done.stderr
    assert tables(project) == tables(finished)
    for path in data.glob("*.parquet"):
        assert path.read_bytes() == (finished / "data/generated/smoke" / path.name).read_bytes(), path.name
