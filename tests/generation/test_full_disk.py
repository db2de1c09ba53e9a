"""A disk that fills up, or that cannot be written, while answers are computed or an adapter is trained.

The disk is a small one in memory, mounted where only the child process sees it.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

PRELUDE = """
import json, subprocess, sys
from pathlib import Path
import pandas as pd
from lib.generation import decoding, finetune as training
from lib.generation.local import LocalModel
from lib.workbook.artifacts import ArtifactError

disk, tiny = Path(sys.argv[1]), sys.argv[2]
filler = disk / "filler"

def fill(pages_left):
    with open(filler, "wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            pass
        file.truncate(max(0, file.tell() - 4096 * pages_left))

def remount(how):
    subprocess.run(["mount", "-o", f"remount,{how}", str(disk)], check=True)

def error_of(function, *args, **settings):
    try:
        function(*args, **settings)
    except ArtifactError as error:
        return str(error)
"""
ANSWERS = """
runs, run = [], decoding.Batch.run
decoding.Batch.run = lambda self, *args: runs.append(1) or run(self, *args)
prompts = ["the fox", "a lazy dog plays", "music", "jumps over the room", "every evening the dog", "guitar and"]
model = LocalModel(tiny, cache=disk / "answers", dtype="float32", batch_size=1, threads=1)
expected = LocalModel(tiny, dtype="float32", batch_size=1, threads=1).generate(prompts, max_new_tokens=4)
runs.clear()
kept_in = disk / "answers" / "answers.jsonl"
kept_in.parent.mkdir()
kept_in.write_bytes(b"x" * 3500 + bytes([10]))  # no answer, but most of a page
fill(pages_left=0)
full = error_of(model.generate, prompts, max_new_tokens=4)
kept = kept_in.read_bytes().count(bytes([10])) - 1
computed = len(runs)
left = [path.name for path in disk.rglob("*.tmp")]
filler.unlink()
runs.clear()
same = model.generate(prompts, max_new_tokens=4) == expected
remount("ro")
read_only = error_of(model.generate, ["zebra"], max_new_tokens=4)
cached = model.generate(prompts, max_new_tokens=4) == expected
print(json.dumps({"full": full, "kept": kept, "computed": computed, "left": left, "rest": len(runs), "same": same,
                  "read_only": read_only, "cached": cached}))
"""
TRAINING = """
steps, loss = [], training.target_loss
timeless = lambda curve: curve.drop(columns="seconds")
training.target_loss = lambda *args: steps.append(1) or loss(*args)
prompts, targets = [f"the fox {i}" for i in range(16)], [f"dog {i}" for i in range(16)]
settings = training.Training(rank=2, batch_size=2, checkpoint_every=2)
here = {"dtype": "float32", "threads": 1}
expected = training.finetune_language_model(tiny, prompts, targets, sys.argv[3], settings, **here)
steps.clear()
fill(pages_left=30)
full = error_of(training.finetune_language_model, tiny, prompts, targets, disk / "adapter", settings, **here)
kept = sorted(path.name for path in disk.rglob("*.safetensors"))
computed = len(steps)
left = [path.name for path in disk.rglob("*.tmp")]
filler.unlink()
steps.clear()
curve = training.finetune_language_model(tiny, prompts, targets, disk / "adapter", settings, **here)
ours, theirs = [Path(folder, "adapter_model.safetensors").read_bytes() for folder in (disk / "adapter", sys.argv[3])]
same = timeless(curve).equals(timeless(expected)) and ours == theirs
remount("ro")
finetune = training.finetune_language_model
read_only = error_of(finetune, tiny, prompts[1:], targets[1:], disk / "adapter", settings, **here)
again = finetune(tiny, prompts, targets, disk / "adapter", settings, **here)
finished = timeless(again).equals(timeless(expected))
print(json.dumps({"full": full, "kept": kept, "computed": computed, "left": left, "rest": len(steps), "same": same,
                  "read_only": read_only, "finished": finished}))
"""


@pytest.fixture
def on_a_small_disk(tiny, tmp_path):
    """Runs code in a process of its own that has a disk of one megabyte; returns what it prints as JSON."""

    def run(code: str):
        disk, root = tmp_path / "disk", Path(__file__).resolve().parents[2]
        disk.mkdir()
        mount = 'mount -t tmpfs -o size=1m tmpfs "$0" && exec "$@"'
        inside = ["unshare", "--map-root-user", "--mount", "sh", "-c", mount, str(disk)]
        try:
            subprocess.run([*inside, "true"], check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError) as error:
            pytest.skip(f"no disk of one's own can be mounted here: {error}")
        child = [sys.executable, "-c", PRELUDE + code, str(disk), tiny, str(tmp_path / "elsewhere")]
        environment = os.environ | {"PYTHONPATH": str(root), "OMP_NUM_THREADS": "1"}
        done = subprocess.run([*inside, *child], capture_output=True, text=True, cwd=root, env=environment)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.splitlines()[-1])

    return run


def test_answers(on_a_small_disk):
    found = on_a_small_disk(ANSWERS)
    assert "cannot be written: No space left on device" in found["full"]
    assert 0 < found["kept"] < 6
    assert found["computed"] == found["kept"] + 1
    assert found["left"] == []
    # those that were missing but the one that was computed, which stays in memory, and one on a read-only disk
    assert found["rest"] == 6 - found["computed"] + 1
    assert found["same"]
    assert "cannot be written: Read-only file system" in found["read_only"]
    assert found["cached"]


def test_training(on_a_small_disk):
    found = on_a_small_disk(TRAINING)
    assert "cannot be written" in found["full"]
    assert "No space left" in found["full"]
    assert found["kept"] == ["00000002.safetensors"]
    assert found["computed"] == 4
    assert found["left"] == []
    assert found["rest"] == 6 + 2  # the other six, and the two before the first checkpoint on a read-only disk
    assert found["same"]
    assert "Read-only file system" in found["read_only"]
    assert found["finished"]
