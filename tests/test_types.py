"""Types: the annotations of `lib` agree with each other and with those of the libraries."""

import subprocess
import sys

import pytest

from lib.workbook.artifacts import ROOT


@pytest.mark.slow
def test_mypy_finds_no_error():
    """With the settings of pyproject.toml; the first run takes half a minute, later ones check what has changed."""
    command = [sys.executable, "-m", "mypy", "--cache-dir", str(ROOT / ".mypy_cache"), "--no-color-output"]
    checked = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert checked.returncode == 0, checked.stdout + checked.stderr
