"""What the report reads of a run: a stop at the spending limit, and what a model behind an endpoint was paid."""

from datetime import UTC, datetime, timedelta

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook, new_output

from lib.generation.remote import RemoteModel, SpendingLimit
from lib.report.record import read_status
from lib.workbook.artifacts import Workbook
from lib.workbook.parameters import Parameters
from tests.generation.endpoint import Endpoint

NAME = "03_cot_augmentation"


@pytest.fixture
def endpoint(monkeypatch):
    with Endpoint() as running:
        monkeypatch.setenv("OPENAI_BASE_URL", running.url)
        monkeypatch.setenv("OPENAI_API_KEY", "none")
        yield running


def status_after(error, root, started):
    """Of a run that ended with this error."""
    output = new_output("error", ename=type(error).__name__, evalue=str(error))
    executed = new_notebook(cells=[new_code_cell("model.generate(prompts)", outputs=[output])])
    executed.metadata["papermill"] = {"start_time": started.isoformat(), "end_time": started.isoformat()}
    path = root / f"data/generated/smoke/executed/{NAME}.ipynb"
    path.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(executed, path)
    return read_status(NAME, "smoke", root)


def test_a_notebook_at_its_spending_limit_is_stopped_and_what_it_paid_is_told(endpoint, tmp_path):
    book = Workbook(NAME, Parameters(profile="smoke"), tmp_path)
    started = datetime.now(UTC)
    model = RemoteModel("served", record=book.spending, concurrency=1, price_in=1e6, price_out=2e6, limit=20)
    with pytest.raises(SpendingLimit) as caught:
        model.generate([f"prompt{i}" for i in range(10)], max_new_tokens=4)
    status = status_after(caught.value, tmp_path, started)
    assert status["status"] == "stopped"
    assert status["error"].startswith("SpendingLimit: the spending limit of 20 leaves 8 after 12")
    spent = status["spending"]
    assert (spent["model"], spent["calls"], spent["tokens_out"], spent["cost"]) == ("served", 4, 4, 12)
    later = status_after(caught.value, tmp_path, started + timedelta(hours=1))
    assert later["spending"] is None, "it is of the run before"


def test_a_notebook_whose_input_has_changed_is_outdated(tmp_path):
    first, second = (Workbook(name, Parameters(profile="smoke"), tmp_path) for name in ("01_data_gen", NAME))
    first.write_lines("queries", ["{}"])
    second.read_lines("queries")
    second.write_lines("cot", ["{}"])
    path = tmp_path / f"data/generated/smoke/executed/{NAME}.ipynb"
    path.parent.mkdir()
    nbformat.write(new_notebook(metadata={"papermill": {"end_time": "2024"}}), path)
    assert read_status(NAME, "smoke", tmp_path)["status"] == "ok"
    first.write_lines("queries", ["{}", "{}"])
    found = read_status(NAME, "smoke", tmp_path)
    assert (found["status"], found["error"]) == ("outdated", "not run again since queries.jsonl changed")
