import json
import os

import pandas as pd
import pytest

from lib.workbook.artifacts import ArtifactError, Workbook, atomic_path, copy_folder, remove_leftovers, sidecar_of
from lib.workbook.parameters import notebook_parameters


@pytest.fixture
def first(tmp_path):
    return Workbook("01_data_gen", notebook_parameters("01_data_gen", profile="smoke", seed=3), root=tmp_path)


@pytest.fixture
def second(tmp_path):
    return Workbook("02_context_baselines", notebook_parameters("02_context_baselines", profile="smoke"), root=tmp_path)


FRAME = pd.DataFrame({"item": ["a", "b"], "score": [0.5, 1.5], "tags": [["x"], ["y", "z"]]})


def test_a_frame_survives_the_round_trip(first, second):
    first.write("items", FRAME)
    back = second.read("items")
    assert back["item"].tolist() == ["a", "b"]
    assert [list(tags) for tags in back["tags"]] == [["x"], ["y", "z"]]
    written = (first.data / "items.parquet").read_bytes()
    first.write("items", FRAME.copy())
    assert (first.data / "items.parquet").read_bytes() == written


def test_the_sidecar_names_parameters_and_input_hashes(first, second):
    first.write("items", FRAME)
    second.read("items")
    second.write("rankings", FRAME)
    source, written = first.data / "items.parquet", second.data / "rankings.parquet"
    meta = json.loads(sidecar_of(written).read_text())
    assert meta["notebook"] == "02_context_baselines"
    assert meta["parameters"]["bm25_b"] == 0.75
    assert meta["inputs"] == {"items.parquet": json.loads(sidecar_of(source).read_text())["sha256"]}


@pytest.mark.parametrize("damage", ["truncated", "broken sidecar"])
def test_a_damaged_file_is_noticed(first, second, damage):
    first.write("items", FRAME)
    path = first.data / "items.parquet"
    if damage == "truncated":
        path.write_bytes(path.read_bytes()[:-10])
    else:
        sidecar_of(path).write_text("{")
    with pytest.raises(ArtifactError, match=r"items\.parquet.*make report PROFILE=smoke"):
        second.read("items")


def test_a_full_disk_is_one_clear_error_and_keeps_the_old_file(tmp_path, monkeypatch):
    target = tmp_path / "file.txt"
    target.write_text("old")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ArtifactError, match=r"file\.txt.*No space left"), atomic_path(target) as temporary:
        temporary.write_text("x")
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_what_a_killed_writer_left_is_removed_the_next_day_and_nothing_else(tmp_path):
    target, left = tmp_path / "file.txt", tmp_path / ".file.txt.0f.tmp"
    for path in (target, left):
        path.write_text("half")
    remove_leftovers(tmp_path)
    assert left.exists(), "another process may be writing it"
    for path in (left, target):
        os.utime(path, (0, 0))
    remove_leftovers(tmp_path)
    assert list(tmp_path.iterdir()) == [target]


def test_a_parameter_edited_in_one_notebook_alone_is_refused(first, second, tmp_path):
    second.write("baseline_rankings", FRAME)
    other = notebook_parameters("02_context_baselines", profile="smoke", encoder="mine")
    third = Workbook("04_finetuned_search", other, root=tmp_path)
    second.require_same("baseline_rankings.parquet", "encoder", "bm25_b")
    third.require_same("baseline_rankings.parquet", "bm25_b")
    said = "encoder is 'mine' here.*run notebook 02_context_baselines with encoder = 'mine' first"
    with pytest.raises(ArtifactError, match=said):
        third.require_same("baseline_rankings.parquet", "bm25_b", "encoder")


def test_a_folder_is_copied_whole_and_replaces_what_was_there(tmp_path):
    source, target = tmp_path / "source", tmp_path / "deep" / "target"
    for folder, name in ((source, "new"), (target, "old")):
        folder.mkdir(parents=True)
        (folder / name).write_text(name)
    copy_folder(source, target)
    copy_folder(target, target)
    with pytest.raises(ArtifactError):
        copy_folder(tmp_path / "nowhere", target)
    assert [path.name for path in target.parent.rglob("*")] == ["target", "new"], "and nothing of what failed"
