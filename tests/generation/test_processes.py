"""Training in several processes: `accelerate launch` on a CPU, where they talk by gloo."""

import json
import subprocess
import sys
import time

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from lib.generation import finetune as module
from lib.generation.finetune import Checkpoints, Training, finetune_language_model
from lib.generation.processes import add_up

WORDS = ["fox", "dog", "guitar", "music room", "evening", "quick", "lazy", "brown"]
PAIRS = [(f"the {a} and the {b}", f"{b} over {a}") for a in WORDS for b in WORDS][:41]
PROMPTS, TARGETS = [list(side) for side in zip(*PAIRS, strict=True)]
TRAINING = Training(rank=4, learning_rate=5e-3, batch_size=4, checkpoint_every=3)  # the last batch has one pair
HERE = {"dtype": "float32", "threads": 2}


class Killed(BaseException):
    pass


@pytest.fixture(scope="module")
def alone(tiny, tmp_path_factory):
    """Folder and loss curve of a run in one process."""
    folder = tmp_path_factory.mktemp("alone") / "adapter"
    return folder, finetune_language_model(tiny, PROMPTS, TARGETS, folder, TRAINING, **HERE)


def assert_same(folder, curve, other, other_curve):
    """Equal but for the order of summation, and for how long it took."""
    ours, theirs = (load_file(path / "adapter_model.safetensors") for path in (folder, other))
    assert ours.keys() == theirs.keys()
    moved = max(value.abs().max() for key, value in ours.items() if "lora_B" in key)  # it begins at zero
    assert moved > 1e-2
    for key, value in ours.items():
        torch.testing.assert_close(value, theirs[key], rtol=1e-3, atol=1e-3 * moved)
    numbers = [column for column in curve if column not in ("loss", "seconds")]
    assert curve[numbers].equals(other_curve[numbers])
    assert curve["loss"].to_numpy() == pytest.approx(other_curve["loss"].to_numpy(), rel=1e-4)


@pytest.mark.slow
def test_two_processes_train_the_adapter_of_one(tiny, alone, tmp_path, monkeypatch):
    curve = finetune_language_model(tiny, PROMPTS, TARGETS, tmp_path / "adapter", TRAINING, **HERE, processes=2)
    assert_same(tmp_path / "adapter", curve, *alone)
    assert "training: 100%" in (tmp_path / "adapter.job.log").read_text()
    assert not (tmp_path / ".adapter.checkpoints").exists()
    # whoever asks next, in whatever number of processes, finds it finished
    monkeypatch.setattr(module, "load_model", lambda *_, **__: pytest.fail("it is trained again"))
    monkeypatch.setattr(module, "launch", lambda *_: pytest.fail("it is trained again"))
    for processes in (1, 2, 3):
        again = finetune_language_model(
            tiny, PROMPTS, TARGETS, tmp_path / "adapter", TRAINING, **HERE, processes=processes
        )
        assert again.equals(curve)


@pytest.mark.slow
def test_two_processes_go_on_from_the_checkpoint_of_one(tiny, alone, tmp_path, monkeypatch):
    save = Checkpoints.save

    def then_die(self, *args):
        save(self, *args)
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(Checkpoints, "save", then_die)
        with pytest.raises(Killed):
            finetune_language_model(tiny, PROMPTS, TARGETS, tmp_path / "adapter", TRAINING, **HERE)
    curve = finetune_language_model(tiny, PROMPTS, TARGETS, tmp_path / "adapter", TRAINING, **HERE, processes=2)
    assert_same(tmp_path / "adapter", curve, *alone)
    assert curve["loss"][:3].tolist() == alone[1]["loss"][:3].tolist()  # those of the first process


@pytest.mark.slow
def test_weights_in_four_bits(wide, tmp_path):
    settings = {"quantization": "nf4", "threads": 2}
    training = Training(rank=4, batch_size=4)
    curves = [
        finetune_language_model(wide, PROMPTS[:12], TARGETS[:12], tmp_path / f"a{n}", training, **settings, processes=n)
        for n in (1, 2)
    ]
    ours, theirs = (load_file(tmp_path / f"a{n}" / "adapter_model.safetensors") for n in (1, 2))
    assert curves[0]["loss"].to_numpy() == pytest.approx(curves[1]["loss"].to_numpy(), rel=0.02)
    assert not np.allclose(ours[next(key for key in ours if "lora_B" in key)], 0)
    for key, value in ours.items():
        assert (value - theirs[key]).norm() <= 0.3 * value.norm()


@pytest.mark.slow
def test_what_fails_in_a_process_is_said(tiny, tmp_path):
    (tmp_path / ".adapter.checkpoints").write_text("in the way")
    with pytest.raises(RuntimeError, match=r"2 processes failed: .*Error: .*adapter.job.log.*accelerate"):
        finetune_language_model(tiny, PROMPTS, TARGETS, tmp_path / "adapter", TRAINING, **HERE, processes=2)
    job = json.loads((tmp_path / "adapter.job.json").read_text())
    assert job["prompts"] == PROMPTS
    assert not (tmp_path / "adapter").exists()


def test_one_process_adds_nothing_up(monkeypatch):
    from accelerate import PartialState

    tensors = [torch.ones(2, 3), torch.tensor(5.0)]
    add_up(tensors, PartialState(cpu=True))
    assert torch.equal(tensors[0], torch.ones(2, 3))
    assert tensors[1] == 5


KILLED = """
import json, sys
from pathlib import Path
from lib.generation import processes
from lib.generation.finetune import Training, finetune_language_model
settings = json.loads(Path(sys.argv[1]).read_text())
finetune_language_model(**settings | {"training": Training(**settings["training"])}, processes=2)
"""


@pytest.mark.slow
def test_processes_that_outlive_a_kill_are_waited_for(tiny, alone, tmp_path):
    """Whoever launched them is killed by -9; the next one waits, and finds what they made."""
    settings = {"name": tiny, "prompts": PROMPTS, "targets": TARGETS, "output": str(tmp_path / "adapter"), **HERE}
    settings["training"] = {"rank": 4, "learning_rate": 5e-3, "batch_size": 4, "checkpoint_every": 3}
    (tmp_path / "settings").write_text(json.dumps(settings))
    process = subprocess.Popen([sys.executable, "-c", KILLED, str(tmp_path / "settings")])
    log = tmp_path / "adapter.job.log"
    while process.poll() is None and not (log.exists() and log.read_text()):
        time.sleep(0.1)
    process.kill()
    process.wait()
    curve = finetune_language_model(tiny, PROMPTS, TARGETS, tmp_path / "adapter", TRAINING, **HERE, processes=2)
    assert_same(tmp_path / "adapter", curve, *alone)
    assert "training" not in log.read_text()  # the second launch found it finished
