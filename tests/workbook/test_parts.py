"""Shipped trained parts: those of the project are whole and small, and none is used for another world."""

import json
import shutil

import pandas as pd
import pytest
from safetensors import safe_open

from lib.generation.finetune import Training
from lib.workbook.artifacts import ROOT, sha256_of
from lib.workbook.parts import CONFIG, FOLDER, POINTS, RECORD, WEIGHTS, adapter_of, shipped, thinned

PARTS = sorted(path for path in (ROOT / FOLDER).iterdir() if path.is_dir())


@pytest.mark.parametrize("folder", PARTS, ids=lambda path: path.name)
def test_every_part_has_a_record_that_holds(folder):
    record = json.loads((folder / RECORD).read_text())
    assert record["part"] == folder.name
    assert record["sha256"] == sha256_of(folder / WEIGHTS)
    assert sorted(path.name for path in folder.iterdir()) == [CONFIG, WEIGHTS, RECORD]
    assert {"model", "pairs", "code", "settings"} <= set(record)
    adapter = adapter_of(folder, record, from_project=True)
    assert 0 < len(adapter.curve) <= POINTS
    assert adapter.curve["loss"].tail(5).mean() < adapter.curve["loss"].head(5).mean()
    assert min(adapter.rows, adapter.seconds) > 0
    with safe_open(folder / WEIGHTS, framework="np") as file:
        assert {file.get_slice(key).get_dtype() for key in file.keys()} == {"BF16"}  # noqa: SIM118 (not a dict)
    assert '"/' not in (folder / CONFIG).read_text(), "no folder of another machine"


@pytest.fixture
def project(tmp_path):
    """A project with one part, and the hashes of what it was trained from and on."""
    shutil.copytree(PARTS[0], tmp_path / FOLDER / PARTS[0].name)
    record = json.loads((PARTS[0] / RECORD).read_text())
    return tmp_path, PARTS[0].name, record["model"], record["pairs"]


def test_a_part_is_used_for_the_settings_that_it_was_trained_with(project):
    root, part, model, pairs = project
    had = json.loads((PARTS[0] / RECORD).read_text())["settings"]
    assert shipped(part, model, pairs, root, had | {"checkpoint_every": 1}).folder
    assert shipped(part, model, pairs, root, Training(**had)).folder
    for name, value in {"rank": 4, "seed": 123}.items():
        refused = shipped(part, model, pairs, root, Training(**had | {name: value}))
        assert refused.folder is None
        assert f"trained with {name} {had[name]}, not {value}" in refused.reason


def test_a_part_is_used_for_its_own_model_and_pairs_only(project):
    root, part, model, pairs = project
    found = shipped(part, model, pairs, root)
    assert (found.folder, found.reason) == (root / FOLDER / part, "")
    for name, of_model, of_pairs, why in (
        ("tst-1", model, pairs, "No trained part tst-1"),
        (part, model[::-1], pairs, "base model"),
        (part, model, pairs[::-1], "other pairs"),
    ):
        refused = shipped(name, of_model, of_pairs, root)
        assert refused.folder is None
        assert why in refused.reason
    assert shipped(part, model, None, root).folder, "whatever it learned from"


@pytest.mark.parametrize("file", [WEIGHTS, CONFIG])
def test_a_damaged_part_is_not_used(project, file):
    root, part, model, pairs = project
    path = root / FOLDER / part / file
    path.write_bytes(path.read_bytes()[:-9]) if file != CONFIG else path.unlink()
    refused = shipped(part, model, pairs, root)
    assert refused.folder is None
    assert "damaged" in refused.reason


def test_a_thinned_curve_keeps_sums_and_the_last_step():
    curve = pd.DataFrame({"step": range(1, 1048), "loss": range(1047), "tokens": 3, "seconds": 0.5})
    thin = thinned(curve)
    assert len(thin) == 175
    assert (thin["tokens"].sum(), thin["seconds"].sum(), thin["step"].iloc[-1]) == (3141, 523.5, 1047)
    assert thin["loss"].iloc[0] == 2.5
    pd.testing.assert_frame_equal(thinned(curve.head(7)), curve.head(7), check_dtype=False)
