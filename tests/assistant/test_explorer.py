"""The whole chain for one request, with a real ranker's features, a made-up encoder and a planner that repeats."""

import hashlib
import json

import numpy as np
import pandas as pd
import pytest

from lib.assistant.explorer import Assistant, explorer
from lib.assistant.planner import SETTINGS, Desk


class ByOpens:
    """A ranker that knows but one feature."""

    def predict(self, features):
        return features["opens"].to_numpy(dtype=float) if "opens" in features else np.zeros(len(features))


def encode(texts):
    seeds = [int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big") for text in texts]
    vectors = np.array([np.random.default_rng(seed).normal(size=16) for seed in seeds])
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


@pytest.fixture
def assistant(tables):
    functions = [json.loads(text) for text in tables["toolbox"]["function"]]
    desk = Desk(tables["items"], tables["people"], functions, tables["toolbox"].set_index("api")["app"])
    return Assistant(
        desk,
        tables["items"],
        tables["opens"],
        encode(tables["items"]["text"].tolist()),
        tables["toolbox"].rename(columns={"api": "item"}),
        encode,
        ByOpens(),
        "app",
        1,
        lambda prompts: [f"seen {len(prompt)}" for prompt in prompts],
        n_tools=4,
        n_items=2,
    )


def test_a_typed_request_goes_through_the_whole_chain(assistant, tables):
    persona = tables["queries"]["persona"].iloc[0]
    own = tables["items"][tables["items"]["persona"] == persona]
    answer = assistant.answer(persona, "Play something.", pd.Timestamp("2024-01-10 08:00"), "home")
    assert answer["setting"].tolist() == ["lower_bound", "rag", "context_tuned_rag"]
    assert answer["tools"].map(len).tolist() == [0, 5, 5]
    assert answer["context"].map(len).tolist()[:2] == [0, 0]
    shown = answer["context"].iloc[2][:2]
    assert all(any(text in line for text in own["text"]) for line in shown)
    assert answer["plan"].str.startswith("seen").all()
    assert set(assistant.context(persona, request(tables))) == set(own["item"])


def request(tables):
    return tables["queries"].iloc[[0]][["text", "time", "weekday", "place"]]


def test_labels_add_the_upper_bounds(assistant, tables):
    query, label = tables["queries"].iloc[0], tables["gold"].iloc[[0]][["apis", "relevant"]].assign(query="typed")
    answer = assistant.answer(query["persona"], query["text"], query["time"], query["place"], label)
    assert answer["setting"].tolist() == list(SETTINGS)
    assert answer.set_index("setting").loc["upper_bound", "tools"] == sorted(set(label["apis"].iloc[0]))


def test_the_widgets_plan_for_a_query_and_for_a_typed_request(assistant, tables):
    seen = []
    box = explorer(assistant, tables["queries"], tables["gold"], seen.append)
    persona, query, typed, _, button, _ = box.children
    persona.value = persona.options[1]
    own = tables["queries"][tables["queries"]["persona"] == persona.value]
    assert [name for _, name in query.options] == own["query"].tolist()
    button.click()
    assert seen[0]["setting"].tolist() == list(SETTINGS)
    typed.value = "When do I leave?"
    button.click()
    assert seen[1]["setting"].tolist() == ["lower_bound", "rag", "context_tuned_rag"]
