"""A language model out of a hub's cache on disk, pinned by its commit; no network is asked."""

import json
import os
import shutil
import subprocess
import sys

import pytest

from lib.generation.local import LocalModel

pytestmark = pytest.mark.slow

COMMIT = "0123456789abcdef0123456789abcdef01234567"
CODE = """
import json, sys
from lib.generation.finetune import Training, finetune_language_model
from lib.generation.local import LocalModel
name, folder = sys.argv[1:]
settings = {"dtype": "float32", "threads": 1}
model = LocalModel(name, **settings)
answer = model.generate(["the quick"], max_new_tokens=6)
finetune_language_model(name, ["the fox"] * 8, ["dog"] * 8, folder, Training(rank=2), **settings)
adapted = LocalModel(name, folder, **settings)
adapted.generate(["the quick"], max_new_tokens=6)
moving = LocalModel(name.partition("@")[0], **settings)
print(json.dumps([answer, model.fingerprint, adapted.fingerprint, moving.fingerprint]))
"""


def test_the_pinned_model_is_loaded_trained_and_named_by_its_commit(tiny, wide, tmp_path):
    cache = tmp_path / "models--owner--tiny"
    shutil.copytree(tiny, cache / "snapshots" / COMMIT)
    shutil.copytree(wide, cache / "snapshots" / COMMIT[::-1])
    (cache / "refs").mkdir()
    (cache / "refs" / "main").write_text(COMMIT[::-1])
    environment = os.environ | {"HF_HUB_CACHE": str(tmp_path), "HF_HUB_OFFLINE": "1"}
    command = [sys.executable, "-c", CODE, f"owner/tiny@{COMMIT}", str(tmp_path / "adapter")]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    answer, fingerprint, adapted, moving = json.loads(done.stdout.splitlines()[-1])
    assert answer == LocalModel(tiny, dtype="float32", threads=1).generate(["the quick"], max_new_tokens=6)
    assert fingerprint == f"owner/tiny@{COMMIT}"
    assert moving == f"owner/tiny@{COMMIT[::-1]}"
    assert adapted.startswith(f"{fingerprint}+")
    config = json.loads((tmp_path / "adapter" / "adapter_config.json").read_text())
    assert config["base_model_name_or_path"] == f"owner/tiny@{COMMIT}"
