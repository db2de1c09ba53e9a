"""One request through retrieval and a model that answers what it is told to, and the flow beside the catalogue."""

import functools
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from lib.retrieval.bm25 import BM25T, tokenize
from lib.workbook.artifacts import ArtifactError, Workbook
from lib.workbook.parameters import Parameters
from lib.workflows import explorer
from lib.workflows.explorer import FlowWriter, checks, open_writer

FORM = 'x = await shared_microsoftforms.CreateFormWebhook({"form_id": "Leads"});'
MAIL = 'shared_office365.SendEmailV2({"emailMessage/To": "a@b.c"});'
POST = 'shared_teams.PostMessageToConversation({"poster": "Flow bot"});'


class Model:
    """Answers every prompt alike and keeps what it was asked; a token is a word, and 500 fit."""

    def __init__(self, answer):
        self.answer, self.asked = answer, []
        self.config = SimpleNamespace(max_position_embeddings=500)
        self.tokenizer = lambda text, **_: {"input_ids": text.split()}

    def generate(self, prompts, **settings):
        self.asked.append((*prompts, settings))
        self.finished = [True]
        return [self.answer]


@pytest.fixture
def models():
    return {"untuned": Model(f"{FORM}\n{POST}\n\nRequest: more"), "finetuned": Model(f"{FORM}\n<END>")}


@pytest.fixture
def writer(catalogue, models):
    form, mail, post = (flow.split("await ")[-1].split("(")[0] for flow in (FORM, MAIL, POST))
    training = pd.DataFrame(
        {
            "pair": ["training-0", "training-1", "training-2"],
            "request": ["Mail me forms", "Post the forms", "Mail and post"],
            "dsl": [f"{FORM}\n{MAIL}", f"{FORM}\n{POST}", f"{FORM}\n{MAIL}\n{POST}"],
            "apis": [[form, mail], [form, post], [form, mail, post]],
        }
    )
    vectors = dict(zip(training["request"], [[1, 0], [0, 1], [0.6, 0.8]], strict=True))
    lexical = BM25T(training["request"], tokenizer=tokenize)

    def encode(texts):
        return np.float32([vectors.get(text, [0.8, 0.6]) for text in texts])

    return FlowWriter(training, catalogue, lexical, encode, functools.cache(models.pop), 32)


def test_the_untuned_model_reads_few_shots_and_definitions(writer, models):
    model = models["untuned"]
    written = writer.write("Post my leads", "untuned", 2)
    assert written.few_shots["pair"].tolist() == ["training-2", "training-0"]
    assert written.few_shots["cosine"].tolist() == pytest.approx([0.96, 0.8])
    assert written.few_shots["shown"].tolist() == [True, True]
    assert written.definitions == [
        "shared_microsoftforms.CreateFormWebhook",
        "shared_office365.SendEmailV2",
        "shared_teams.PostMessageToConversation",
    ]
    assert (written.text, written.finished) == (f"{FORM}\n{POST}", True)
    ((prompt, settings),) = model.asked
    assert prompt.index("Mail me forms") < prompt.index("Mail and post") < prompt.index("Starts when somebody fills in")
    assert prompt.endswith("Request: Post my leads\nFlow:\n")
    assert (settings["max_new_tokens"], settings["grammars"]) == (32, None)


def test_few_shots_come_from_those_most_alike_in_words(writer, monkeypatch):
    monkeypatch.setattr(explorer, "CANDIDATES", 1)
    assert writer.write("Post my leads", "untuned", 2).few_shots["pair"].tolist() == ["training-1"]


def test_the_fine_tuned_model_reads_the_request_alone_and_is_held_to_the_catalogue(writer, models):
    model = models["finetuned"]
    written = writer.write("Post my leads", "finetuned", 2)
    writer.write("Post my leads", "finetuned", 1, "catalogue")
    assert written.few_shots["shown"].tolist() == [False, False]
    assert (written.definitions, written.text) == ([], FORM)
    assert model.asked[0][0] == model.asked[1][0] == "Post my leads\n<START>\n"
    (grammar,) = model.asked[1][1]["grammars"]
    assert '"CreateFormWebhook"' in grammar


def test_missing_artifacts_are_named_with_their_notebooks(tmp_path):
    with pytest.raises(ArtifactError, match=r"01_data_gen \(flows.parquet, catalogue.jsonl\)"):
        open_writer(Workbook("explore_workflows", Parameters(profile="smoke"), tmp_path))


def test_a_flow_is_checked_against_the_catalogue(catalogue):
    assert checks("x = await", catalogue)["check"].tolist() == ["does not parse"]
    found = checks('shared_x.Y({"a": 1});\nshared_teams.PostMessageToConversation({"b": z});', catalogue)
    found = found.set_index("check")["found"]
    assert found["made-up names"].startswith("shared_x.Y")
    assert found["made-up keys"] == "b of shared_teams.PostMessageToConversation"
    assert found["variables used before they are assigned"] == "z"
    assert set(checks(FORM, catalogue)["found"]) == {"none"}
