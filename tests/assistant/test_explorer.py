"""The whole chain for one request, with a real ranker's features, a made-up encoder and a planner that repeats."""

import pandas as pd
import pytest

from lib.assistant.explorer import open_assistant
from lib.assistant.planner import SETTINGS
from lib.generation.models import ModelError
from lib.workbook.artifacts import ArtifactError
from lib.workbook.inputs import InputError


def test_a_typed_request_goes_through_the_whole_chain(make_assistant, own_tables):
    assistant = make_assistant(own_tables)
    own = own_tables["items"][own_tables["items"]["persona"] == "b"]
    answer = assistant.answer("b", "Play something.", pd.Timestamp("2024-01-10 08:00"), "home")
    assert answer["setting"].tolist() == ["lower_bound", "rag", "context_tuned_rag"]
    assert answer["tools"].map(len).tolist() == [0, 5, 5]
    assert answer["context"].map(len).tolist()[:2] == [0, 0]
    shown = answer["context"].iloc[2][:2]
    assert all(any(text in line for text in own["text"]) for line in shown)
    assert "failure" not in answer
    assert set(assistant.context(own_tables["queries"].iloc[[1]])["item"]) == set(own["item"])
    assert set(answer["items"].iloc[2]) <= set(own["item"])


def test_labels_add_the_upper_bounds_and_a_verdict(make_assistant, own_tables):
    assistant = make_assistant(own_tables)
    asked = assistant.question(7, "b")
    answer = assistant.answer(asked["persona"], asked["text"], asked["time"], asked["place"], asked)
    assert answer["setting"].tolist() == list(SETTINGS)
    answer = answer.set_index("setting")
    assert answer.loc["upper_bound", "tools"] == ["open_note"]
    assert answer.loc["context_tuned_upper_bound", "items"] == ["b-note"]
    assert answer.loc["upper_bound", ["plan", "failure", "why"]].tolist() == ['open_note(title="Dough")', "", ""]
    assert answer.loc["lower_bound", "failure"] == "unparsed"
    assert "does not parse" in answer.loc["lower_bound", "why"]


def test_somebody_who_asks_nothing_is_named(make_assistant, own_tables):
    with pytest.raises(InputError, match="nobody who asks is called 'c'"):
        make_assistant(own_tables).question(7, "c")


def test_the_ranker_sees_text_scores_as_it_learned_from_them(make_assistant, own_tables):
    """Of another length normalisation than BM25T's usual one, BM25T's scores are others."""

    class Recorder:
        def predict(self, features):
            self.seen = features["bm25t"].to_numpy()
            return self.seen

    request, found = own_tables["queries"].iloc[[1]].assign(text="flour and water"), {}
    for b in (0.0, 0.75):
        assistant = make_assistant(own_tables, bm25_b=b)
        assistant.ranker = Recorder()
        assistant.context(request)
        found[b] = assistant.ranker.seen
    assert (found[0.0] != found[0.75]).any()


def test_the_assistant_is_opened_as_it_was_saved(book, own_tables, monkeypatch):
    for name in ("load_encoder", "encode"):
        monkeypatch.setattr(f"lib.retrieval.dense.{name}", lambda *_: None)
    monkeypatch.setattr("lib.assistant.explorer.load_or_say_how", lambda *_: None)
    monkeypatch.setattr("lib.assistant.explorer.LambdaMART.from_text", lambda text: text)
    assistant = open_assistant(book)
    assert (assistant.ranker, assistant.bm25_b, assistant.wording) == ("tree", 0.4, "app")
    assert (assistant.n_tools, assistant.n_items) == (4, 2)
    assert assistant.tables["queries"]["query"].tolist() == ["b-q0", "b-q1"]
    assert "also" in assistant.tables["gold"]


def test_missing_artifacts_are_named_with_their_notebooks(book):
    for name in ("lambdamart.jsonl", "plans.parquet"):
        (book.data / name).unlink()
    with pytest.raises(ArtifactError) as error:
        open_assistant(book)
    assert str(error.value) == (
        "profile smoke lacks what these notebooks write: 05_lambdamart_rrf (lambdamart.jsonl); 07_planner "
        "(plans.parquet): run `make report PROFILE=smoke`"
    )


def test_a_missing_model_is_named(book):
    with pytest.raises(ModelError, match="no-encoder"):
        open_assistant(book)
