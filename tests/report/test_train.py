"""`make train`: what a part is made from is made first, and brought up to date only where that is asked for."""

import pytest

from lib.report import train
from lib.workbook.artifacts import ArtifactError

NEEDED = {"01_data_gen": ("queries.parquet", "gold.parquet"), "03_cot_augmentation": ("cot.parquet",)}
FILES = [f"data/generated/tiny/{name}" for names in NEEDED.values() for name in names]


@pytest.fixture
def asked(tmp_path, monkeypatch):
    """The files that the notebooks of a project with a profile were asked for; none runs."""
    (tmp_path / "notebooks" / "profiles").mkdir(parents=True)
    (tmp_path / "notebooks" / "profiles" / "tiny.yaml").write_text("profile: tiny\n")
    files = []
    monkeypatch.setattr(train, "run_notebooks", lambda profile, some, root: files.extend(some))
    return files


def test_what_is_missing_is_made_first_and_its_notebooks_are_named(tmp_path, asked):
    (tmp_path / FILES[0]).parent.mkdir(parents=True)
    (tmp_path / FILES[0]).touch()
    with pytest.raises(ArtifactError, match=r"01_data_gen \(gold.parquet\); 03_cot_augmentation \(cot.parquet\)"):
        train.world_of("tiny", "07_planner", NEEDED, root=tmp_path)
    assert asked == FILES[1:]


def test_what_is_there_is_brought_up_to_date_only_where_that_is_asked_for(tmp_path, asked, monkeypatch):
    (tmp_path / FILES[0]).parent.mkdir(parents=True)
    for name in FILES:
        (tmp_path / name).touch()
    train.world_of("tiny", "07_planner", NEEDED, False, tmp_path)
    assert not asked
    train.world_of("tiny", "07_planner", NEEDED, True, tmp_path)
    assert asked == FILES
    monkeypatch.setattr(train, "run_notebooks", lambda *_: 1)
    with pytest.raises(ArtifactError, match="a notebook failed"):
        train.world_of("tiny", "07_planner", NEEDED, True, tmp_path)
