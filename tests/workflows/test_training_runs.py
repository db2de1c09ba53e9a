"""Which training runs notebook 08 takes, and which it makes."""

import json
from dataclasses import asdict, replace
from pathlib import Path

import pandas as pd
import pytest

from lib.generation.finetune import Training
from lib.retrieval.training import Tuning
from lib.workbook.artifacts import ROOT
from lib.workbook.parameters import notebook_parameters, read_profile
from lib.workbook.parts import FOLDER, RECORD, Adapter, Shipped
from lib.workflows import parts as module
from lib.workflows.parts import SMALL_WRITER, WRITER, Run, Trainer, World, runs_frame, trainer_of

TRAINED = {"curve": [[1, 0.5]], "columns": ["step", "loss"], "rows": 9, "tokens": 90, "seconds": 1.0, "device": "a GPU"}


@pytest.fixture
def world():
    rows = [(f"training-{i}", "training", f"request {i}", "a.Do();", ["a.Do"]) for i in range(6)]
    flows = pd.DataFrame(
        [*rows, ("test-0", "test", "other", "a.Do();", ["a.Do"])], columns=["pair", "split", "request", "dsl", "apis"]
    )
    ids = [f"training-{i}" for i in range(6)]
    mined = pd.DataFrame({"a": ids[:-1], "b": ids[1:], "positive": [True, False] * 2 + [True]})
    return World(flows, mined, "encoder", "generator", 7)


@pytest.fixture
def trainer(world, tmp_path, monkeypatch):
    """A trainer that notes what it would train, in a project whose shipped parts fit by their names in `fit`."""
    made = Trainer(
        world,
        tmp_path / "runs",
        {
            "tst": lambda pairs: Tuning(batch_size=2),
            "tst_affine": lambda pairs: Tuning(loss="affine"),
            "nl2dsl": lambda pairs: Training(batch_size=2),
        },
        epochs=1,
        machine={"threads": 1, "quantization": "none"},
        root=tmp_path,
    )
    calls, fit = [], set()

    def look_up(part, model, pairs, root, settings):
        assert (model, pairs, settings["batch_size"]) == ("model", "pairs", 2)
        found = root / "data" / "trained" / part if part in fit else None
        return Shipped(found, TRAINED, "" if found else f"The shipped part {part} is not used: other pairs.")

    def train(part, name, *rows, **own):
        *rows, output, settings = rows
        assert part == ""
        calls.append((output.name, len(rows[0]), settings.seed, sorted(own)))
        return Adapter(output, False, "", pd.DataFrame({"loss": [0.4]}), len(rows[0]), 90, 1.0, "a laptop", {})

    monkeypatch.setattr(module, "shipped", look_up)
    monkeypatch.setattr(module, "adapter_for", train)
    monkeypatch.setattr(module, "encoder_for", train)
    monkeypatch.setattr(module, "locate", lambda name: name)
    monkeypatch.setattr(Trainer, "hashes", lambda self, kind, pairs: ("model", "pairs"))
    object.__setattr__(made, "calls", calls)
    object.__setattr__(made, "fit", fit)
    return made


def test_a_shipped_part_is_taken_and_smaller_ones_trained(trainer):
    trainer.fit.add("tst-4")
    runs = trainer.runs("tst", 4, 3, fewer=[2, 4, 5])
    assert list(runs) == [Run("tst", 2), Run("tst", 4)]
    assert [made.shipped for made in runs.values()] == [False, True]
    assert [made.reason for made in runs.values()] == ["", ""]
    assert trainer.calls == [("tst-2", 2, 0, ["threads"])]


def test_smaller_shipped_parts_are_taken_where_the_largest_is(trainer, tmp_path):
    trainer.fit.update({"tst-2", "tst-4"})
    runs = trainer.runs("tst", 4, 3, fewer=[2, 3])
    assert {run: made.shipped for run, made in runs.items()} == {
        Run("tst", 2): True, Run("tst", 3): False, Run("tst", 4): True
    }  # fmt: skip
    trainer.fit.remove("tst-4")
    assert [made.shipped for made in trainer.runs("tst", 4, 3, fewer=[2]).values()] == [False, False]


def test_a_smaller_part_that_is_there_and_does_not_fit_is_named(trainer, tmp_path):
    trainer.fit.add("tst-4")
    (tmp_path / "data" / "trained" / "tst-2").mkdir(parents=True)
    runs = trainer.runs("tst", 4, 3, fewer=[2, 3])
    assert [(run.pairs, made.reason) for run, made in runs.items()] == [
        (2, "The shipped part tst-2 is not used: other pairs."), (3, ""), (4, "")
    ]  # fmt: skip
    assert [call[0] for call in trainer.calls] == ["tst-2", "tst-3"]


def test_a_part_that_does_not_fit_is_named_and_less_is_trained_here(trainer):
    runs = trainer.runs("tst", 4, 3, fewer=[2])
    assert list(runs) == [Run("tst", 2), Run("tst", 3)]
    assert runs[Run("tst", 3)].reason == "The shipped part tst-4 is not used: other pairs."
    assert runs[Run("tst", 2)].reason == ""


def test_a_world_with_fewer_pairs_takes_no_shipped_part(trainer):
    trainer.fit.add("nl2dsl-67000")
    runs = trainer.runs("nl2dsl", 67_000, 8)
    assert list(runs) == [Run("nl2dsl", 6)]
    assert runs[Run("nl2dsl", 6)].reason == (
        "The shipped part nl2dsl-67000 is not used: this world has 6 of its 67,000 pairs."
    )
    assert trainer.calls == [("nl2dsl-6", 6, 0, ["quantization", "threads"])]


def test_no_part_is_looked_for_where_none_is_wanted(trainer):
    trainer.fit.add("tst-4")
    runs = trainer.runs("tst", 0, 4, fewer=[2])
    assert [(run.pairs, made.shipped, made.reason) for run, made in runs.items()] == [(2, False, ""), (4, False, "")]


def test_each_size_is_trained(trainer):
    object.__setattr__(trainer, "epochs", 3)
    runs = trainer.runs("tst_affine", 0, 4, fewer=[2])
    assert [run.pairs for run in runs] == [2, 4]
    assert [call[:3] for call in trainer.calls] == [("tst_affine-2", 6, 0), ("tst_affine-4", 12, 0)]


def test_the_runs_as_a_frame(trainer):
    trainer.fit.add("tst-4")
    frame = runs_frame(trainer.runs("tst", 4, 3, fewer=[2]))
    assert frame[["name", "pairs", "shipped", "device"]].to_numpy().tolist() == [
        ["tst", 2, False, "a laptop"], ["tst", 4, True, "a GPU"]
    ]  # fmt: skip
    assert frame["curve"][1]["loss"].tolist() == [0.5]


def test_a_profile_makes_a_trainer(world):
    parameters = notebook_parameters("08_dsl_retrieval", profile="smoke", tst_batch_size=16, dsl_batch_size=2)
    made = trainer_of(parameters, world.flows, world.mined, 0.7, Path("runs"))
    assert made.settings["tst"](3000).batch_size == 16
    assert made.settings["tst"](3000).loss == "squared"
    assert made.settings["tst_affine"](3000).loss == "affine"
    assert made.settings["nl2dsl"](16) == replace(SMALL_WRITER, batch_size=2)
    assert made.world.generator == parameters.generator


def test_settings_that_nobody_asks_for_suit_the_number_of_pairs():
    assert module.writer_settings(67_000) == WRITER
    assert module.writer_settings(2_048) == SMALL_WRITER
    asked = module.writer_settings(67_000, learning_rate=1e-4, epochs=2)
    assert asked == replace(WRITER, learning_rate=1e-4, epochs=2)


@pytest.mark.parametrize("profile", ["quick", "full"])
def test_profiles_ask_for_the_settings_that_the_parts_were_trained_with(profile, world):
    """Else they would train their own."""
    values = read_profile(ROOT / "notebooks" / "profiles" / f"{profile}.yaml")
    parameters = notebook_parameters("08_dsl_retrieval", values)
    trainer = trainer_of(parameters, world.flows, world.mined, 0.7, Path("runs"))
    assert parameters.tst_epochs == 1
    for folder in (ROOT / FOLDER).iterdir():
        kind, _, pairs = folder.name.partition("-")
        if kind in trainer.settings and pairs.isdigit():
            asked = asdict(trainer.settings[kind](int(pairs)))
            had = json.loads((folder / RECORD).read_text())["settings"]
            assert {name: value for name, value in asked.items() if name != "checkpoint_every"} == had
