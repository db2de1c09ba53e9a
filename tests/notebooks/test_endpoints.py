"""Notebook 03 with a writer behind an endpoint: faults, limit, kills and all; the key is written nowhere."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import nbformat
import numpy as np
import pandas as pd
import psutil
import pytest
import yaml
from bs4 import BeautifulSoup

from lib.assistant.schemas import WorldKnobs
from lib.assistant.world import frames, simulate
from lib.generation.local import LocalModel
from lib.report.book import build
from lib.report.record import executed_path
from lib.workbook.artifacts import ROOT, Workbook
from lib.workbook.parameters import notebook_parameters
from tests.generation.endpoint import Endpoint
from tests.generation.server import FAULTS, FaultyProxy, ModelServer
from tests.notebooks.smoke import copy_project

pytestmark = pytest.mark.slow

NAME = "03_cot_augmentation"
KEY = "sk-recognisable-0123456789-abcdefghij"
TINY = {
    "profile": "tiny", "seed": 7, "encoder": "tiny-encoder", "writer": "remote:served", "distilled_writer": "tiny-lm",
    "cot_queries": 12, "cot_training_queries": 4, "distilled_pairs": 4, "cot_max_tokens": 12, "bootstrap_samples": 100,
    "remote_concurrency": 2, "remote_price_in": 1000.0, "remote_price_out": 2000.0,
}  # fmt: skip


@pytest.fixture
def project(tmp_path):
    """A copy of the project with what notebook 03 reads: a small world and embeddings drawn at random."""
    root = copy_project(tmp_path / "project")
    book = Workbook("01_data_gen", notebook_parameters("01_data_gen", profile="tiny"), root)
    knobs = WorldKnobs(n_personas=8, n_training_queries=24, n_evaluation_queries=12)
    tables = frames(simulate(ROOT / "data", knobs))
    for name in ("items", "queries", "gold"):
        book.write(name, tables[name])
    drawn = np.random.default_rng(0).normal(size=(len(tables["items"]) + len(tables["queries"]), 32))
    drawn = (drawn / np.linalg.norm(drawn, axis=1, keepdims=True)).astype("float32")
    sides = {"items": drawn[: len(tables["items"])], "queries": drawn[len(tables["items"]) :]}
    book.write_arrays("embeddings_pretrained", sides)
    return root


def without_experts(project):
    """Take the experts' CoTs out: there is nothing to distil then, and the endpoint writes for training queries too."""
    book = Workbook("01_data_gen", notebook_parameters("01_data_gen", profile="tiny"), project)
    book.write("gold", book.read("gold").assign(cot=""))


def start(project, url, **changes):
    """Begin to execute the notebook as the Snakefile does; what it prints goes to `run.log`."""
    parameters = project / "data" / "generated" / "tiny" / "parameters" / f"{NAME}.yaml"
    parameters.parent.mkdir(exist_ok=True)
    parameters.write_text(yaml.safe_dump(TINY | changes))
    executed = executed_path(NAME, "tiny", project)
    executed.parent.mkdir(exist_ok=True)
    environment = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
    environment |= {"PYTHONPATH": str(project), "OPENAI_BASE_URL": url, "OPENAI_API_KEY": KEY, "WORKBOOK_BATCH": "1"}
    command = [sys.executable, "-m", "papermill", "--no-progress-bar", "--cwd", "notebooks", "-f", str(parameters)]
    with open(project / "run.log", "ab") as log:
        return subprocess.Popen(
            [*command, f"notebooks/{NAME}.ipynb", str(executed)], cwd=project, env=environment, stdout=log, stderr=log
        )


def finish(running, project):
    """Wait for the notebook and render the report; returns the record that `run.json` holds."""
    running.wait(timeout=600)
    record = build("tiny", project)
    return record | {"log": (project / "run.log").read_text()}


def kill(running):
    """The notebook and its kernel, at once."""
    for process in [*psutil.Process(running.pid).children(recursive=True), psutil.Process(running.pid)]:
        process.kill()
    running.wait()


def places(folder, secret):
    """Files below a folder that hold a text, compressed columns of tables included."""
    found = []
    for path in sorted(Path(folder).rglob("*")):
        if path.is_file() and not path.is_symlink():
            content = path.read_bytes()
            if path.suffix == ".parquet":
                content += pd.read_parquet(path).to_csv().encode()
            found += [str(path.relative_to(folder))] * (secret.encode() in content)
    return found


def test_the_search_for_a_key_finds_it_where_it_is(tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "a.log").write_text(f"x {KEY} y")
    (tmp_path / "b.ipynb").write_text(json.dumps({"x": KEY}))
    pd.DataFrame({"text": ["x", f"Bearer {KEY}"]}).to_parquet(tmp_path / "c.parquet", compression="zstd")
    (tmp_path / "d.json").write_text("sk-another")
    assert places(tmp_path, KEY) == places(tmp_path, KEY[3:20]) == ["b.ipynb", "c.parquet", "sub/a.log"]


def test_a_notebook_asks_a_model_through_every_fault_and_writes_the_key_nowhere(project):
    served = LocalModel("tiny-lm", dtype="float32", batch_size=1, threads=1)
    with ModelServer(served.generate, served) as server, FaultyProxy(server.url, every=2, delay=0.1) as proxy:
        record = finish(start(project, proxy.url), project)
    assert record["status"][NAME] == "ok", record["log"]
    assert server.keys == {KEY}
    assert set(server.paid.values()) == {1}
    assert len(server.paid) == 12
    assert {fault for fault in proxy.injected if fault} == set(FAULTS)

    spent = record["spending"][NAME]
    assert (spent["model"], spent["calls"], spent["calls"] - spent["retries"]) == ("served", proxy.requests, 12)
    assert spent["retries"] == sum(proxy.injected[fault] for fault in FAULTS if fault != "delay")
    assert spent["cost"] == pytest.approx((1000 * spent["tokens_in"] + 2000 * spent["tokens_out"]) / 1e6)
    assert json.loads((project / "reports" / "tiny" / "run.json").read_text())["spending"][NAME] == spent
    page = BeautifulSoup((project / "reports" / "tiny" / f"{NAME}.html").read_text(), "html.parser").get_text()
    assert "served" in page
    usage = pd.read_parquet(project / "data" / "generated" / "tiny" / "cot_usage.parquet").set_index("writer")
    assert usage.loc["cot", "tokens_in"] == spent["tokens_in"]

    for secret in (KEY, KEY[3:20]):
        assert places(project, secret) == []
    (project / "reports" / "tiny" / "planted.txt").write_text(KEY)
    assert places(project, KEY) == ["reports/tiny/planted.txt"]


def test_a_notebook_stopped_by_its_limit_and_killed_asks_nothing_twice(project):
    without_experts(project)
    with Endpoint(answer=lambda prompt: f"Check {len(prompt)} mails") as endpoint:
        record = finish(start(project, endpoint.url, spending_limit=0.6), project)
        assert record["status"][NAME] == "stopped"
        assert record["errors"][NAME].startswith("SpendingLimit: the spending limit of 0.6 leaves ")
        assert "run again with a higher limit; " in record["errors"][NAME]
        page = BeautifulSoup((project / "reports" / "tiny" / f"{NAME}.html").read_text(), "html.parser")
        assert "stopped at its spending limit" in page.find(class_="banner").get_text()
        before = sum(endpoint.paid.values())
        assert 0 < before < 12
        assert record["spending"][NAME]["calls"] == before

        endpoint.held = before + 5
        running = start(project, endpoint.url, spending_limit=50.0)
        deadline = time.monotonic() + 300
        kept = project / "data" / "generated" / "tiny" / "answers" / "chains.jsonl"
        while kept.read_bytes().count(b"\n") < before + 5 or len(endpoint.requests) <= before + 5:
            assert running.poll() is None, (project / "run.log").read_text()
            assert time.monotonic() < deadline
            time.sleep(0.02)
        kill(running)
        endpoint.held = None
        assert sum(endpoint.paid.values()) == before + 5

        record = finish(start(project, endpoint.url, spending_limit=50.0), project)
        assert record["status"][NAME] == "ok", record["log"]
        assert set(endpoint.paid.values()) == {1}
        assert len(endpoint.paid) == 16
        spent = record["spending"][NAME]
        assert (spent["calls"], spent["retries"]) == (16 - before - 5, 0)
        assert spent["cost_cached"] > 0
        executed = nbformat.read(executed_path(NAME, "tiny", project), as_version=4)
        assert executed.metadata["papermill"]["parameters"]["spending_limit"] == 50.0
