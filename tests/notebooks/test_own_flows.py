"""Notebooks 01, 08 and 09 on APIs, requests and flows of somebody's own, and personas that a model writes."""

import json
import os
import shutil
import subprocess
import sys

import pandas as pd
import pytest
import yaml

from lib.workflows.catalogue import Catalogue
from lib.workflows.pairs import read_pairs, review_lines
from tests.assistant.test_data_writer import CUE, right
from tests.generation.endpoint import Endpoint
from tests.notebooks.smoke import copy_project
from tests.workflows.test_ablation import PRINTED as PUBLISHED_ROWS

pytestmark = pytest.mark.slow

PARCELS = {
    "swagger": "2.0",
    "info": {"title": "Parcels", "version": "1"},
    "paths": {
        "/new": {"get": {"operationId": "OnNewParcel", "summary": "When a parcel arrives", "x-ms-trigger": "single"}},
        "/label": {
            "post": {
                "operationId": "LabelParcel",
                "summary": "Label a parcel",
                "parameters": [{"name": "label", "in": "query", "type": "string", "x-ms-summary": "Label"}],
            }
        },
    },
}
TIDES = """
openapi: 3.0.0
info: {title: Tides, version: '1'}
paths:
  /tide:
    get:
      operationId: TideTable
      summary: Show times of high and low water
      parameters: [{name: harbour, in: query, schema: {type: string}}]
"""
ARRIVES = "triggerOutputs = await shared_parcels.OnNewParcel();"
LABELS = f'{ARRIVES}\nshared_parcels.LabelParcel({{"label": "LABEL"}});'
HEAVY = f'{ARRIVES}\nshared_parcels.LabelParcel({{"kg": 1}});'
TIDE = f'{ARRIVES}\nshared_tides.TideTable({{"harbour": "Whitby"}});'
PAIRS = [
    {"id": "one", "request": "Label new parcels as urgent", "dsl": LABELS.replace("LABEL", "urgent")},
    {"id": "two", "request": "Put the label fragile on parcels", "dsl": LABELS.replace("LABEL", "fragile")},
    {"id": "three", "request": "Start when a parcel arrives", "dsl": ARRIVES},
    {"id": "four", "request": "New parcel? Whistle", "dsl": f"{ARRIVES}\nshared_whistle.Blow();"},
    {"id": "five", "split": "test", "request": "Label parcels as heavy", "dsl": LABELS.replace("LABEL", "heavy")},
    {"id": "six", "split": "test", "request": "Tell me the weight of parcels", "dsl": HEAVY},
    {"id": "seven", "split": "unseen", "request": "Show the tides of Whitby for each parcel", "dsl": TIDE},
    {"id": "eight", "split": "test", "request": "Label parcels as I mean it", "dsl": LABELS},
]
REVIEW = "data/generated/mine/review.jsonl"


def make_project(folder):
    """The notebooks, the code and what people wrote, and beside them APIs and pairs of one's own."""
    copy_project(folder)
    (folder / "apis" / "more").mkdir(parents=True)
    (folder / "apis" / "parcels.json").write_text(json.dumps(PARCELS))
    (folder / "apis" / "more" / "tides.yaml").write_text(TIDES)
    (folder / "apis" / "broken.json").write_text('{"swagger": "2.0", "paths": {"/a": ')
    (folder / "pairs.jsonl").write_text("".join(json.dumps(pair) + "\n" for pair in PAIRS))
    return folder


def run(project, notebook="01_data_gen", **parameters):
    """Execute a notebook there; the parameters are those of tiny models and small worlds where none is given."""
    tiny = {"workflow_encoder": "tiny-encoder", "generator": "tiny-lm", "bootstrap_samples": 100, "dsl_max_tokens": 8}
    small = {"n_personas": 8, "n_training_queries": 30, "n_evaluation_queries": 10, "pairs_file": "pairs.jsonl"}
    values = {"profile": "mine", **tiny, **(small if notebook == "01_data_gen" else {}), **parameters}
    (project / "values.yaml").write_text(yaml.safe_dump(values))
    command = [sys.executable, "-m", "papermill", f"notebooks/{notebook}.ipynb", f"{notebook}.ipynb"]
    command += ["-f", "values.yaml", "--no-progress-bar"]
    environment = os.environ | {"PYTHONPATH": str(project), "WORKBOOK_BATCH": "1"}
    done = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr[-3000:]


def answer(prompt):
    return right(prompt) if CUE in prompt else f"Please see to matter {len(prompt)} of the parcels"


@pytest.fixture(scope="module")
def endpoint():
    """A model behind an endpoint, which writes the personas."""
    with pytest.MonkeyPatch.context() as patch, Endpoint(answer) as running:
        patch.setenv("OPENAI_API_KEY", "some key")
        patch.setenv("OPENAI_BASE_URL", running.url)
        yield running


@pytest.fixture(scope="module")
def finished(tmp_path_factory, endpoint):
    """A project in which notebook 01 ran on own APIs and pairs, of which people dropped the last. Tests leave it."""
    project = make_project(tmp_path_factory.mktemp("own"))
    pairs = read_pairs(project / "pairs.jsonl", Catalogue.from_openapi(project / "apis"))
    records = [json.loads(line) for line in review_lines(pairs, 7)]
    judged = [record | {"decision": "drop" if record["id"] == "eight" else "keep"} for record in records]
    (project / REVIEW).parent.mkdir(parents=True)
    (project / REVIEW).write_text("".join(json.dumps(record) + "\n" for record in judged))
    run(project, openapi_folder="apis", data_writer="remote:gpt-4", review_file=REVIEW)
    return project


def test_later_notebooks_find_your_own_apis_and_flows(finished):
    data = finished / "data" / "generated" / "mine"
    catalogue = Catalogue.from_lines((data / "catalogue.jsonl").read_text().split("\n")[:-1])
    trained = {api.name: api.in_training for api in catalogue}
    assert trained == {
        "shared_parcels.OnNewParcel": True,
        "shared_parcels.LabelParcel": True,
        "shared_tides.TideTable": False,
    }
    flows = pd.read_parquet(data / "flows.parquet")
    assert flows["pair"].tolist() == [pair["id"] for pair in PAIRS[:-1]], "people dropped the last"
    assert flows["request"].tolist() == [pair["request"] for pair in PAIRS[:-1]]
    assert flows["apis"].map(len).tolist() == [2, 2, 1, 2, 2, 2, 2]
    sizes = pd.read_csv(finished / "reports" / "mine" / "tables" / "dataset.csv").set_index("quantity")["ours"]
    assert sizes[["workflow training pairs", "workflow test pairs", "workflow APIs"]].tolist() == [4, 2, 3]


def test_few_shots_definitions_and_tuning_on_your_own(finished, tmp_path):
    project = shutil.copytree(finished, tmp_path / "copy", symlinks=True)
    run(project, "08_dsl_retrieval", tst_training_pairs=4, dsl_training_pairs=2, dsl_flows=2)
    data, tables = project / "data" / "generated" / "mine", project / "reports" / "mine" / "tables"
    shots = pd.read_parquet(data / "few_shots.parquet")
    assert set(shots["shot"]) == {"one", "two", "three", "four"}
    assert set(shots["pair"]) == {"five", "six", "seven"}
    coverage = pd.read_csv(tables / "definition_coverage.csv").set_index(["sample", "kind"])
    # All four pairs are few-shots, so FD has every API of theirs but the one that no document defines.
    assert {*coverage.loc[("test", "fd"), "share"]} == {100.0}
    assert {*coverage.loc[("unseen", "fd"), "share"]} == {50.0}
    assert len(pd.read_parquet(data / "finetuned_flows.parquet")["unit"].unique()) == 3
    rows = [[*row, "untuned", "free", 2] for row in PUBLISHED_ROWS] + [["pretrained", 1, "none", "untuned", "free", 2]]
    rows += [["pretrained", 0, "none", "finetuned", "free", 2]]
    run(project, "09_dsl_ablation", untuned_generator="tiny-lm", ablation=rows)
    assert (pd.read_csv(tables / "dsl_ablation.csv").query("table == '1'")["n"] == 2).all()
    scores = pd.read_parquet(data / "ablation_scores.parquet")
    assert scores.loc[scores["condition"] == "pretrained_20", "shots"].tolist() == [4, 4], "there are no more"
    assert "Too few flows use an API held out" in (project / "09_dsl_ablation.ipynb").read_text()


def test_own_apis_alone_get_requests_and_flows(tmp_path):
    project = make_project(tmp_path / "project")
    sizes = {"n_training_pairs": 30, "n_test_pairs": 4, "n_unseen_pairs": 4, "n_test_same_pairs": 4}
    run(project, openapi_folder="apis", pairs_file="", **sizes)
    data = project / "data" / "generated" / "mine"
    catalogue = Catalogue.from_lines((data / "catalogue.jsonl").read_text().split("\n")[:-1])
    assert all(api.phrases for api in catalogue)
    assert (project / REVIEW).read_text().count('"decision": ""') == 4, "a sheet for those who judge"
    flows = pd.read_parquet(data / "flows.parquet")
    assert flows["split"].value_counts().to_dict() == {"training": 30, "test": 4, "unseen": 4, "test_same": 4}
    assert {name for apis in flows["apis"] for name in apis} <= {api.name for api in catalogue}


def test_personas_are_a_models_and_its_answers_and_what_people_decided_are_kept(finished, endpoint):
    data = finished / "data" / "generated" / "mine"
    steps = pd.read_parquet(data / "written_world.parquet").set_index("step")
    personas = (data / "personas.jsonl").read_text().splitlines()
    assert 0 < len(personas) == steps.loc["personas", "valid"] <= 8
    assert len(pd.read_parquet(data / "queries.parquet")) == steps.loc["thoughts", "asked"]
    kept = (data / "answers" / "answers.jsonl").read_text().splitlines()
    assert len(kept) == len(endpoint.requests) > 0
    assert (finished / REVIEW).read_text().count('"decision": "keep"') == 2, "it is not written over"
