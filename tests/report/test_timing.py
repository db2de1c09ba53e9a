"""Cold runs: first starts in a folder of artifacts, kept across the warm ones after them."""

import json
from datetime import UTC, datetime, timedelta

import pytest

from lib.report import timing
from lib.workbook.artifacts import Workbook
from lib.workbook.parameters.base import Parameters

NAME = "08_dsl_retrieval"


@pytest.fixture
def start(tmp_path):
    """Start the notebook; returns papermill's record of a run of so many seconds around that moment."""

    def run(seconds, notebook=NAME):
        began = datetime.now(UTC)
        (tmp_path / "data" / "generated" / "smoke").mkdir(parents=True, exist_ok=True)
        Workbook(notebook, Parameters(profile="smoke"), tmp_path)
        ended = datetime.now(UTC) + timedelta(seconds=1)
        return {"start_time": began.isoformat(), "end_time": ended.isoformat(), "duration": seconds}

    return run


@pytest.fixture
def data(tmp_path):
    return tmp_path / "data" / "generated" / "smoke"


def kept(data, ran, finished=True):
    return timing.keep_cold_seconds(NAME, data, ran, finished)


def test_a_cold_run_outlives_the_warm_ones(start, data):
    assert kept(data, start(500.04)) == 500.0
    assert kept(data, start(7)) == 500.0
    assert kept(data, start(8)) == 500.0


def test_a_killed_run_leaves_the_next_one_no_cold_one(start, data):
    assert kept(data, start(100), finished=False) is None
    assert kept(data, start(20)) is None


def test_another_notebooks_start_says_nothing(start, data):
    start(300, "07_planner")
    assert kept(data, start(9)) == 9.0
    assert timing.keep_cold_seconds("06_tool_retrieval", data, start(5), True) is None


def test_an_artifact_folder_from_before_there_were_records_is_not_cold(start, data):
    data.mkdir(parents=True)
    (data / f"{NAME}.highlights.json").write_text("[]")
    assert kept(data, start(9)) is None


def test_a_start_outside_the_run_on_record_does_not_count(start, data):
    """Somebody opened the notebook in JupyterLab: what the report shows is the run before."""
    ran = start(60)
    later = {
        end: (datetime.fromisoformat(ran[end]) + timedelta(hours=1)).isoformat() for end in ("start_time", "end_time")
    }
    assert kept(data, ran | later) is None
    assert kept(data, ran) == 60.0


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"cold": "yes", "started": "now"}'])
def test_a_damaged_record_is_no_cold_run(start, data, content):
    ran = start(60)
    (data / f"{NAME}.start.json").write_text(content)
    assert kept(data, ran) is None
    (data / f"{NAME}.cold.json").write_text(content)
    assert kept(data, ran) is None


def test_no_record_at_all(data):
    assert kept(data, {}) is None


def test_explorers_leave_no_record(start, data):
    start(1, "explore_workflows")
    assert not list(data.iterdir())


def test_the_device_is_named(monkeypatch):
    monkeypatch.setattr(timing, "processor", lambda: "AMD EPYC")
    monkeypatch.setattr(timing, "accelerator", lambda: "AMD EPYC")
    monkeypatch.setattr(timing, "cores", lambda: 2)
    assert timing.device() == "AMD EPYC, 2 cores"
    monkeypatch.setattr(timing, "accelerator", lambda: "NVIDIA H100")
    assert timing.device() == "NVIDIA H100"


def test_the_record_is_json(start, data):
    start(1)
    assert json.loads((data / f"{NAME}.start.json").read_text())["cold"] is True


def test_a_notebook_that_fails_on_its_inputs_leaves_no_folder(data, tmp_path):
    book = Workbook(NAME, Parameters(profile="smoke"), tmp_path)
    assert not data.exists()
    book.highlight("A finding.")
    assert json.loads((data / f"{NAME}.start.json").read_text())["cold"] is True
