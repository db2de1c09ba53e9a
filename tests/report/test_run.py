"""`python -m lib.report.run`: names of profiles, and folders with any name."""

import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import venv

import pytest

from lib.report import run
from lib.report.run import write_notebook_parameters
from lib.workbook.artifacts import ROOT
from lib.workbook.parameters import read_profile

HOSTILE = 'it\'s a "test"; $(touch pwned) &'


@pytest.mark.parametrize("name", ["../profiles/smoke", "Smoke", "", "smoke;ls", "--dry"])
def test_a_name_that_is_no_profiles_stops_before_any_work(name, capsys, monkeypatch):
    monkeypatch.setattr(run, "write_notebook_parameters", lambda *_: pytest.fail("something was written"))
    assert run.make_report([name]) == 1
    said = capsys.readouterr().err
    assert said.startswith(f"error: {name!r} cannot name a profile")
    assert said.count("\n") == 1


@pytest.mark.parametrize(
    ("key", "name", "said"),
    [
        ("openapi_folder", "my/apis", "no such file or folder: my/apis"),
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


def small_project(folder):
    """A copy of the project's code and data."""
    ignore = shutil.ignore_patterns("__pycache__", "generated", "models")
    for name in ("lib", "notebooks", "data"):
        shutil.copytree(ROOT / name, folder / name, ignore=ignore)
    return folder


@pytest.fixture(scope="module")
def planned(tmp_path_factory):
    """What Snakemake would run in a folder with a hostile name, by a Python that lies in it."""
    project = small_project(tmp_path_factory.mktemp("folder") / HOSTILE)
    venv.create(project / ".venv", with_pip=False)
    python = project / ".venv" / "bin" / "python"
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    packages = project / ".venv" / "lib" / version / "site-packages"
    (packages / "shared.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    values = read_profile(project / "notebooks" / "profiles" / "smoke.yaml")
    write_notebook_parameters(values, project / "data" / "generated" / "smoke" / "parameters")
    command = [python, "-m", "snakemake", "--snakefile", project / "notebooks" / "Snakefile", "--directory", project]
    command += ["--config", "profile=smoke", "--cores", "1", "--dry-run", "--printshellcmds"]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    return project, str(python), done.stdout + done.stderr


@pytest.mark.slow
def test_the_interpreters_path_reaches_the_shell_as_one_word(planned):
    project, python, said = planned
    commands = re.findall(r"^.* -m lib\.report\.execute .*$", said, flags=re.M)
    assert len(commands) >= 9
    for command in commands:
        assert python in shlex.split(command)
    assert not list(project.parent.rglob("pwned"))
