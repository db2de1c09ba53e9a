"""`python -m lib.report.run`: what a profile may be called and may name."""

import pytest

from lib.report import run
from lib.workbook.artifacts import ROOT


@pytest.mark.parametrize("name", ["../profiles/smoke", ""])
def test_a_name_that_is_no_profiles_stops_before_any_work(name, capsys, monkeypatch):
    monkeypatch.setattr(run, "write_notebook_parameters", lambda *_: pytest.fail("something was written"))
    assert run.make_report([name]) == 1
    said = capsys.readouterr().err
    assert said.startswith(f"error: {name!r} cannot name a profile")
    assert said.count("\n") == 1


@pytest.mark.parametrize(
    ("key", "name", "said"),
    [
        ("pairs_file", "data", "no such file or folder: data"),
        ("world_folder", "data", "no such file or folder: data/personas.jsonl"),
    ],
)
def test_what_a_profile_names_must_be_there(tmp_path, monkeypatch, capsys, key, name, said):
    profiles = tmp_path / "notebooks" / "profiles"
    profiles.mkdir(parents=True)
    (tmp_path / "data").symlink_to(ROOT / "data")
    smoke = (ROOT / "notebooks" / "profiles" / "smoke.yaml").read_text().replace("profile: smoke", "profile: mine", 1)
    (profiles / "mine.yaml").write_text(f"{smoke}\n{key}: {name}\n")
    monkeypatch.setattr(run, "ROOT", tmp_path)
    monkeypatch.setattr(run, "write_notebook_parameters", lambda *_: pytest.fail("something was written"))
    monkeypatch.chdir(tmp_path)
    assert run.make_report(["mine"]) == 1
    error = capsys.readouterr().err
    assert error.startswith(f"error: notebooks/profiles/mine.yaml: {key}: {said}")
    assert error.count("\n") == 1
