"""papermill's command, with the peak memory of what it started noted in the executed notebook."""

import os
import subprocess
import sys

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook

from lib.report.record import read_status
from lib.workbook.artifacts import ROOT

NAME = "01_data_gen"
HOLD = "held = bytearray(300 * 2**20)\nheld[::4096] = b'x' * len(held[::4096])"  # every page is touched


@pytest.fixture
def execute(tmp_path):
    """Execute cells in place of a notebook; returns the exit code, and what the report reads of it."""

    def run(*cells):
        source, executed = tmp_path / "in.ipynb", tmp_path / f"data/generated/smoke/executed/{NAME}.ipynb"
        nbformat.write(new_notebook(cells=[new_code_cell(cell) for cell in cells]), source)
        executed.parent.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "lib.report.execute", "--no-progress-bar", "-k", "python3"]
        environment = os.environ | {"PYTHONPATH": str(ROOT)}
        done = subprocess.run([*command, str(source), str(executed)], cwd=ROOT, env=environment, timeout=300)
        return done.returncode, read_status(NAME, "smoke", tmp_path)

    return run


@pytest.mark.slow
def test_the_kernels_peak_is_noted_and_the_time_of_the_first_run(execute):
    code, large = execute(HOLD, "del held")
    assert (code, large["status"]) == (0, "ok")
    assert 300 < large["peak_mib"] < 500, "though it was let go of"
    code, small = execute("x = 1")
    assert (code, small["status"]) == (0, "ok")
    assert 20 < small["peak_mib"] < 300
    assert small["cold_seconds"] == large["cold_seconds"] >= large["seconds"]


@pytest.mark.slow
def test_a_notebook_whose_kernel_dies_has_its_peak(execute):
    code, found = execute(HOLD, "import os; os.kill(os.getpid(), 9)")
    assert code != 0
    assert 300 < found["peak_mib"] < 500
    said = "its kernel died: most often for want of memory"
    assert (found["status"], found["error"], found["cold_seconds"]) == ("failed", said, None)
