"""One request through retrieval and a model that answers what it is told to, and the flow beside the catalogue."""

import functools

import numpy as np
import pytest

from lib.workbook.artifacts import ArtifactError
from lib.workflows.explorer import FlowWriter, checks, open_writer

FORM = 'x = await shared_microsoftforms.CreateFormWebhook({"form_id": "Leads"});'
MAIL = 'shared_office365.SendEmailV2({"emailMessage/To": "a@b.c"});'
POST = 'shared_teams.PostMessageToConversation({"poster": "Flow bot"});'


@pytest.fixture
def models(writing_model):
    return {
        "untuned": writing_model(f"{FORM}\n{POST}\n\nRequest: more"),
        "finetuned": writing_model(f"{FORM}\n<END>"),
    }


@pytest.fixture
def writer(four_flows, catalogue, models):
    training = four_flows[four_flows["split"] == "training"].reset_index(drop=True)
    vectors = np.array([[1, 0], [0, 1], [0.6, 0.8]], np.float32)

    def encode(texts):
        return np.float32([[0.8, 0.6]] * len(texts))

    return FlowWriter(training, catalogue, vectors, encode, functools.cache(models.pop), 32)


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


def test_the_fine_tuned_model_reads_the_request_alone_and_is_held_to_the_catalogue(writer, models):
    model = models["finetuned"]
    written = writer.write("Post my leads", "finetuned", 2)
    writer.write("Post my leads", "finetuned", 1, "catalogue")
    assert written.few_shots["shown"].tolist() == [False, False]
    assert (written.definitions, written.text) == ([], FORM)
    assert model.asked[0][0] == model.asked[1][0] == "Post my leads\n<START>\n"
    (grammar,) = model.asked[1][1]["grammars"]
    assert '"CreateFormWebhook"' in grammar


def test_missing_artifacts_are_named_with_their_notebooks(flow_book):
    (flow_book.data / "adapters/nl2dsl_2/training.json").unlink()
    with pytest.raises(ArtifactError, match=r"08_dsl_retrieval \(adapters/nl2dsl_2/training.json\): run"):
        open_writer(flow_book)


def test_a_flow_is_checked_against_the_catalogue(catalogue):
    assert checks("x = await", catalogue)["check"].tolist() == ["does not parse"]
    found = checks('shared_x.Y({"a": 1});\nshared_teams.PostMessageToConversation({"b": z});', catalogue)
    found = found.set_index("check")["found"]
    assert found["made-up names"].startswith("shared_x.Y")
    assert found["made-up keys"] == "b of shared_teams.PostMessageToConversation"
    assert found["variables used before they are assigned"] == "z"
    assert set(checks(FORM, catalogue)["found"]) == {"none"}
