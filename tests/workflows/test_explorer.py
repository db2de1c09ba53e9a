"""One request through retrieval and a model that answers what it is told to, and the flow beside the catalogue and the
gold."""

import numpy as np
import pandas as pd
import pytest

from lib.generation.models import ModelError
from lib.workbook.artifacts import ArtifactError, Workbook
from lib.workflows.explorer import (
    NEEDED,
    FlowWriter,
    Selector,
    check,
    load_model,
    load_selector,
    open_writer,
    read_saved,
    usual_cosine,
)
from lib.workflows.language import FlowError

FORM = 'x = await shared_microsoftforms.CreateFormWebhook({"form_id": "Leads"});'
MAIL = 'shared_office365.SendEmailV2({"emailMessage/To": "a@b.c"});'
POST = 'shared_teams.PostMessageToConversation({"poster": "Flow bot"});'


@pytest.fixture
def writer(flow_book, writing_model):
    saved = read_saved(flow_book)
    models = {
        "untuned": writing_model(f"{FORM}\n{POST}\n\nRequest: more"),
        "finetuned": writing_model(f"{FORM}\n<END>"),
    }
    loads = []
    vectors = np.array([[1, 0], [0, 1], [0.6, 0.8]], np.float32)

    def load_model(role):
        loads.append(role)
        return models[role]

    def load_selector(name):
        loads.append(name)
        return Selector(
            vectors[::-1] if name == "tst" else vectors, lambda texts: np.float32([[0.8, 0.6]] * len(texts))
        )

    made = FlowWriter(saved.training, saved.catalogue, load_selector, load_model, saved.tuned.dsl_max_tokens)
    made.loads = loads
    return made


def test_what_was_saved_is_read_without_models(flow_book):
    saved = read_saved(flow_book)
    assert saved.training["pair"].tolist() == ["training-0", "training-1", "training-2"]
    assert saved.tests["pair"].tolist() == ["test-0"]
    assert (saved.selectors, saved.learned, saved.tuned.dsl_max_tokens) == (("tst", "pretrained"), 2, 32)
    assert len(saved.catalogue) > 500


def test_missing_artifacts_are_named_with_their_notebooks(flow_book):
    (flow_book.data / "encoders/tst/adapter_config.json").unlink()
    (flow_book.data / "adapters/nl2dsl_2/training.json").unlink()
    with pytest.raises(ArtifactError) as error:
        read_saved(flow_book)
    assert "08_dsl_retrieval (adapters/nl2dsl_2/training.json, encoders/tst/adapter_config.json): run" in str(
        error.value
    )
    empty = Workbook("explore_workflows", flow_book.parameters, flow_book.root / "elsewhere")
    with pytest.raises(ArtifactError) as error:
        read_saved(empty)
    assert all(f"{notebook} ({', '.join(names)})" in str(error.value) for notebook, names in NEEDED.items())
    assert "`make report PROFILE=smoke`" in str(error.value)


def test_without_mined_pairs_only_the_pretrained_encoder_chooses(flow_book):
    nothing = pd.DataFrame({"a": [], "b": []})
    Workbook("01_data_gen", flow_book.parameters, flow_book.root).write("tst_pairs", nothing)
    (flow_book.data / "encoders/tst/adapter_config.json").unlink()
    assert read_saved(flow_book).selectors == ("pretrained",)


def test_the_vectors_of_each_selector_are_those_of_the_training_requests(flow_book, monkeypatch):
    saved = read_saved(flow_book)
    asked = []
    monkeypatch.setattr(
        "lib.retrieval.dense.load_encoder", lambda path, adapter: asked.append((path, adapter)) or "encoder"
    )
    (flow_book.root.parent / "no-model").mkdir()
    assert load_selector(flow_book, saved, "pretrained").vectors[:, 0].tolist() == pytest.approx([1, 0, 0.6])
    assert load_selector(flow_book, saved, "tst").vectors[:, 0].tolist() == pytest.approx([0, 1, 0.6])
    assert asked == [(saved.encoder, None), (saved.encoder, flow_book.data / "encoders" / "tst")]


def test_a_missing_model_is_named(flow_book):
    saved = read_saved(flow_book)
    for load in (
        lambda: load_model(flow_book, saved, "untuned"),
        lambda: load_selector(flow_book, saved, "pretrained"),
    ):
        with pytest.raises(ModelError, match="no-model"):
            load()
    with pytest.raises(ModelError, match="no-model"):
        open_writer(flow_book, saved).write("Post", "pretrained", 1, True, "untuned", "free")


def test_the_untuned_model_reads_few_shots_and_definitions(writer):
    written = writer.write("Post my leads", "pretrained", 2, True, "untuned", "free")
    assert written.few_shots["pair"].tolist() == ["training-2", "training-0"]
    assert written.few_shots["cosine"].tolist() == pytest.approx([0.96, 0.8])
    assert written.few_shots["shown"].tolist() == [True, True]
    assert written.definitions == [
        "shared_microsoftforms.CreateFormWebhook",
        "shared_office365.SendEmailV2",
        "shared_teams.PostMessageToConversation",
    ]
    assert written.text == f"{FORM}\n{POST}"
    assert (written.finished, written.tokens_out, written.condition.name) == (True, 3, "pretrained_2_fd")
    ((prompt, settings),) = writer.models["untuned"][0].asked
    assert prompt.index("Mail me forms") < prompt.index("Mail and post") < prompt.index("Starts when somebody fills in")
    assert prompt.endswith("Request: Post my leads\nFlow:\n")
    assert (settings["max_new_tokens"], settings["grammars"]) == (32, None)


def test_how_near_training_requests_are_is_told_with_a_flow(writer):
    for shots in (0, 2):
        written = writer.write("Post my leads", "pretrained", shots, True, "finetuned", "free")
        assert written.nearest == pytest.approx(0.96)
        assert written.usual == pytest.approx(0.604)  # of 0.6, 0.8, 0.8 the first percentile


def test_what_is_usual_leaves_out_the_request_itself_and_one_per_cent():
    angles = np.concatenate([np.arange(100) / 100, [2.0, 2.5]])  # two requests apart from the others
    vectors = np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)
    usual = usual_cosine(vectors)
    assert np.cos(0.5) < usual < np.cos(0.01)
    assert usual == usual_cosine(vectors)
    assert usual_cosine(np.repeat(vectors[:1], 2, axis=0)) == pytest.approx(1)
    assert usual_cosine(vectors[:1]) < -0.99


def test_without_definitions_none_are_shown(writer):
    written = writer.write("Post my leads", "pretrained", 1, False, "untuned", "free")
    assert (written.definitions, written.condition.definitions) == ([], "none")
    assert "API definitions" not in writer.models["untuned"][0].asked[0][0]


def test_without_few_shots_there_are_no_definitions_either(writer):
    written = writer.write("Post my leads", "pretrained", 0, True, "untuned", "free")
    assert (len(written.few_shots), written.definitions, written.condition.name) == (0, [], "no_shots")


def test_the_fine_tuned_model_reads_the_request_alone(writer):
    written = writer.write("Post my leads", "tst", 2, True, "finetuned", "free")
    assert written.few_shots["pair"].tolist() == ["training-0", "training-2"]
    assert written.few_shots["shown"].tolist() == [False, False]
    assert len(written.definitions) == 3
    assert written.text == FORM
    assert writer.models["finetuned"][0].asked[0][0] == "Post my leads\n<START>\n"


def test_constrained_decoding_holds_the_model_to_the_catalogue(writer):
    writer.write("Post my leads", "tst", 1, True, "finetuned", "catalogue")
    (grammar,) = writer.models["finetuned"][0].asked[0][1]["grammars"]
    assert '"CreateFormWebhook"' in grammar


def test_each_encoder_and_model_is_loaded_once_when_first_needed(writer):
    assert not writer.is_prepared("tst", "untuned")
    for generator in ("untuned", "untuned", "finetuned"):
        writer.write("Post my leads", "tst", 1, False, generator, "free")
    assert writer.loads == ["tst", "untuned", "finetuned"]
    assert writer.is_prepared("tst", "untuned")
    assert not writer.is_prepared("pretrained", "untuned")


def test_a_prompt_too_long_loses_few_shots_and_a_request_too_long_is_an_error(writer):
    written = writer.write("word " * 380, "pretrained", 3, True, "untuned", "free")
    kept = written.few_shots["shown"].tolist()
    assert kept == sorted(kept, reverse=True)
    assert not all(kept)
    with pytest.raises(
        ValueError,
        match=r"^The request is too long for the model: a prompt of the request alone has \d+ tokens, at most 468 fit",
    ):
        writer.write("word " * 480, "pretrained", 3, True, "untuned", "free")


def test_a_flow_is_checked_against_the_catalogue(catalogue):
    error = check("x = await", catalogue)
    assert isinstance(error, FlowError)
    assert error.line == 1
    report = check('shared_x.Y({"a": 1});\nshared_teams.PostMessageToConversation({"b": z});', catalogue)
    assert report.made_up_names == ("shared_x.Y",)
    assert report.made_up_parameters == (("shared_teams.PostMessageToConversation", "b"),)
    assert report.unassigned == ("z",)
