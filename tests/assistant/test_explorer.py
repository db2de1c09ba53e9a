"""The whole chain for one request, with a real ranker's features, a made-up encoder and a planner that repeats."""

import numpy as np
import pandas as pd
import pytest

from lib.assistant.explorer import NEEDED, open_assistant, read_saved
from lib.assistant.persona_index import PersonaIndex
from lib.assistant.planner import SETTINGS
from lib.generation.models import ModelError
from lib.workbook.artifacts import ArtifactError, Workbook
from lib.workbook.parameters import Parameters, notebook_parameters


def test_a_typed_request_goes_through_the_whole_chain(make_assistant, own_tables):
    assistant = make_assistant(own_tables, generate=lambda prompts: [f"seen {len(prompt)}" for prompt in prompts])
    persona = "b"
    own = own_tables["items"][own_tables["items"]["persona"] == persona]
    answer = assistant.answer(persona, "Play something.", pd.Timestamp("2024-01-10 08:00"), "home")
    assert answer["setting"].tolist() == ["lower_bound", "rag", "context_tuned_rag"]
    assert answer["tools"].map(len).tolist() == [0, 5, 5]
    assert answer["context"].map(len).tolist()[:2] == [0, 0]
    shown = answer["context"].iloc[2][:2]
    assert all(any(text in line for text in own["text"]) for line in shown)
    assert answer["plan"].str.startswith("seen").all()
    assert "failure" not in answer
    request = own_tables["queries"].iloc[[1]][["text", "time", "weekday", "place"]]
    assert set(assistant.context(persona, request)) == set(own["item"])
    assert set(answer["items"].iloc[2]) <= set(own["item"])


def test_labels_add_the_upper_bounds_and_a_verdict(make_assistant, own_tables):
    query, label = own_tables["queries"].iloc[1], own_tables["gold"].iloc[[1]]
    answer = make_assistant(own_tables).answer(query["persona"], query["text"], query["time"], query["place"], label)
    assert answer["setting"].tolist() == list(SETTINGS)
    answer = answer.set_index("setting")
    assert answer.loc["upper_bound", "tools"] == ["open_note"]
    assert answer.loc["context_tuned_upper_bound", "items"] == ["b-note"]
    assert answer.loc["upper_bound", ["plan", "failure", "why"]].tolist() == ['open_note(title="Dough")', "", ""]
    assert answer.loc["lower_bound", "failure"] == "unparsed"
    assert "does not parse" in answer.loc["lower_bound", "why"]


def test_what_was_saved_is_read_without_models(book):
    saved = read_saved(book)
    assert saved.personas == {"b": "Person b, 30, Baker"}
    assert saved.queries["query"].tolist() == ["b-q0", "b-q1"]
    assert (saved.wording, saved.n_worded, saved.tuned.shown_tools) == ("app", 1, 4)
    assert saved.bm25_b == 0.4


def test_the_ranker_sees_text_scores_as_it_learned_from_them(make_assistant, own_tables):
    """Of another length normalisation than BM25T's usual one, BM25T's scores are others."""

    class Recorder:
        def predict(self, features):
            self.seen = features["bm25t"].to_numpy()
            return self.seen

    own = own_tables["items"][own_tables["items"]["persona"] == "b"]
    request = own_tables["queries"].iloc[[1]][["text", "time", "weekday", "place"]]
    request["text"] = own["text"].iloc[0]
    found = {}
    for b in (0.0, 0.75):
        assistant = make_assistant(own_tables, bm25_b=b)
        assistant.ranker = Recorder()
        assistant.context("b", request)
        index = PersonaIndex(own, own_tables["opens"], np.zeros((len(own), 2)), b)
        found[b] = assistant.ranker.seen
        np.testing.assert_allclose(found[b], index.bm25t(request["text"].iloc[0]))
    assert (found[0.0] != found[0.75]).any()


def test_the_assistant_is_opened_as_it_was_saved(book, monkeypatch):
    for name in ("load_encoder", "encode"):
        monkeypatch.setattr(f"lib.retrieval.dense.{name}", lambda *_: None)
    monkeypatch.setattr("lib.assistant.explorer.load_or_say_how", lambda *_: None)
    monkeypatch.setattr("lib.assistant.explorer.LambdaMART.load", lambda path: path.name)
    assistant = open_assistant(book, read_saved(book))
    assert (assistant.ranker, assistant.bm25_b) == ("lambdamart.txt", 0.4)
    assert (assistant.n_tools, assistant.n_items) == (4, 2)


@pytest.mark.parametrize("texts", ["paper", "terse"])
def test_tools_have_the_texts_that_were_searched(book, texts):
    wording = pd.DataFrame({"wording": ["app"], "items": [1]})
    Workbook(
        "06_tool_retrieval", notebook_parameters("06_tool_retrieval", profile="smoke", tool_wording=texts), book.root
    ).write("tool_wording", wording)
    named = read_saved(book).toolbox["text"].str.contains(" App's ")
    assert named.all() if texts == "paper" else not named.any()


def test_missing_artifacts_are_named_with_their_notebooks(book):
    for name in ("lambdamart.txt", "plans.parquet"):
        (book.data / name).unlink()
    with pytest.raises(ArtifactError) as error:
        read_saved(book)
    assert str(error.value) == (
        "profile smoke lacks what these notebooks write: 05_lambdamart_rrf (lambdamart.txt); 07_planner "
        "(plans.parquet): run `make report PROFILE=smoke`"
    )
    empty = Workbook("explore_assistant", book.parameters, book.root / "elsewhere")
    with pytest.raises(ArtifactError) as error:
        read_saved(empty)
    assert all(name in str(error.value) for names in NEEDED.values() for name in names)


def test_a_parameter_that_the_planner_no_longer_has_is_let_pass(book):
    older = Parameters(profile="smoke", encoder="all-MiniLM-L6-v2")
    Workbook("07_planner", older, book.root).write("plans", pd.DataFrame({"query": ["b-q0"]}))
    assert read_saved(book).tuned == notebook_parameters("07_planner", profile="smoke")


def test_a_missing_model_is_named(book, tmp_path):
    with pytest.raises(ModelError, match="no-encoder"):
        open_assistant(book, read_saved(book))


def test_plans_that_do_as_well_are_read_with_the_labels(book, own_tables):
    other = own_tables["gold"].loc[[1], ["query", "apis", "plan", "answers"]].assign(plan='open_note(title="Dough 2")')
    Workbook("01_data_gen", notebook_parameters("01_data_gen", profile="smoke"), book.root).write("other_plans", other)
    also = read_saved(book).gold["also"]
    assert also.str.len().tolist() == [0, 1, 0]
    assert also[1][0].plan == 'open_note(title="Dough 2")'
