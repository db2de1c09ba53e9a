"""`make report PROFILE=smoke` where it was made before: run again, changed, broken and killed."""

import json
import re
import subprocess
import time
from pathlib import Path

import nbformat
import psutil
import pytest
from bs4 import BeautifulSoup

from lib.report.dag import lib_files
from lib.workbook.parameters import NOTEBOOKS
from tests.notebooks.smoke import command, copy_project, executed_at, run, tables

pytestmark = pytest.mark.slow


def planned(project: Path, *flags: str) -> set[str]:
    """The rules that a dry run would start."""
    done = run(project, "--dry-run", *flags)
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
    profile.write_text(profile.read_text().replace("workbench_plans: 2", "workbench_plans: 3"))
    assert planned(project) == {"transfer", "index"}


def test_a_profile_with_a_typo_stops_before_any_work(project):
    before = executed_at(project)
    path = project / "notebooks" / "profiles" / "smoke.yaml"
    path.write_text(path.read_text().replace("n_personas", "n_persnas"))
    done = run(project)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "smoke.yaml: n_persnas" in done.stderr
    assert executed_at(project) == before


def test_a_truncated_artifact_is_one_clear_error_on_a_failed_page(project):
    """The damaged file is newer than what was made of it, so notebook 02 runs, and must not believe it."""
    path = project / "data" / "generated" / "smoke" / "items.parquet"
    path.write_bytes(path.read_bytes()[:-100])
    done = run(project, "--until", "context_baselines")
    assert done.returncode != 0
    assert "items.parquet: damaged" in done.stdout
    page = BeautifulSoup((project / "reports" / "smoke" / "02_context_baselines.html").read_text(), "html.parser")
    assert "failed" in page.find(class_="banner").get_text()
    assert "items.parquet" in page.find(class_="banner").get_text()


def test_a_failed_notebook_keeps_its_copy_and_a_marked_page(project):
    path = project / "notebooks" / "02_context_baselines.ipynb"
    notebook = nbformat.read(path, as_version=4)
    notebook.cells.insert(6, nbformat.v4.new_code_cell("raise RuntimeError('broken on <purpose>')"))
    nbformat.write(notebook, path)
    done = run(project, "--until", "context_baselines")
    assert done.returncode != 0
    executed = nbformat.read(
        project / "data" / "generated" / "smoke" / "executed" / "02_context_baselines.ipynb", as_version=4
    )
    assert any(output.output_type == "error" for cell in executed.cells for output in cell.get("outputs", []))
    page = (project / "reports" / "smoke" / "02_context_baselines.html").read_text()
    assert "This notebook failed" in page
    assert "broken on &lt;purpose&gt;" in page
    record = json.loads((project / "reports" / "smoke" / "run.json").read_text())
    assert record["status"]["01_data_gen"] == "ok"
    assert record["status"]["02_context_baselines"] == "failed"


def finish_the_first_notebook(project: Path, finished: Path, others=()) -> None:
    """Run what was killed again: all is as if nobody had killed it. `others` are processes still at work."""
    done = run(project, "--until", "data_gen")
    assert done.returncode == 0, done.stdout + done.stderr
    psutil.wait_procs(others, timeout=120)
    outcome, expected = tables(project), tables(finished)
    assert "dataset.csv" in outcome
    assert outcome == {name: expected[name] for name in outcome}
    data = [folder / "data" / "generated" / "smoke" for folder in (project, finished)]
    made = [path.name for path in data[0].glob("*.parquet")]
    assert {"queries.parquet", "flows.parquet"} <= set(made)
    for name in made:
        assert (data[0] / name).read_bytes() == (data[1] / name).read_bytes(), name


def start_and_wait_for(project: Path, sign: Path) -> subprocess.Popen:
    """Start a run and return once `sign` exists."""
    process = subprocess.Popen(**command(project), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 300
    while not sign.exists():
        assert process.poll() is None, "the run ended before the sign appeared"
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return process


def test_killed_as_a_whole_in_the_middle_it_finishes_the_next_time(finished, tmp_path):
    project = copy_project(tmp_path / "project")
    process = start_and_wait_for(project, project / "data" / "generated" / "smoke" / "queries.parquet")
    family = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
    for member in family:
        member.kill()
    psutil.wait_procs(family, timeout=30)
    finish_the_first_notebook(project, finished)
