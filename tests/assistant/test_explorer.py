"""The whole chain for one request, with a real ranker's features, a made-up encoder and a planner that repeats."""

import pandas as pd
import pytest

from lib.assistant.explorer import Assistant
from lib.assistant.planner import SETTINGS
from lib.assistant.world import frames, read_world
from lib.workbook.inputs import InputError
from tests.assistant.conftest import letters


class ByOpens:
    """A ranker that knows but one feature."""

    def predict(self, features):
        return features["opens"].to_numpy(dtype=float)


def plan(prompts):
    """Calls `open_note` with the title of persona b's note where the prompt shows that tool first."""
    return ['open_note(title="Dough")' if "Tools:\nopen_note" in prompt else "no plan" for prompt in prompts]


@pytest.fixture
def tables(records, write_world):
    return frames(read_world(write_world(records)))


@pytest.fixture
def assistant(tables):
    return Assistant(tables, letters, ByOpens(), plan, 4, 2, 0.75)


def test_a_typed_request_goes_through_the_whole_chain(assistant):
    answer = assistant.answer("b", "Play something.", pd.Timestamp("2024-01-10 08:00"), "home")
    assert answer["setting"].tolist() == ["lower_bound", "rag", "context_tuned_rag"]
    assert answer["tools"].map(len).tolist() == [0, 5, 5]
    assert answer["context"].map(len).tolist()[:2] == [0, 0]
    assert "failure" not in answer
    assert answer["items"].iloc[2] == ["b-note", "b-song"], "its own alone, what was opened first"


def test_labels_add_the_upper_bounds_and_a_verdict(assistant):
    asked = assistant.question(7, "b")
    answer = assistant.answer(asked["persona"], asked["text"], asked["time"], asked["place"], asked)
    assert answer["setting"].tolist() == list(SETTINGS)
    answer = answer.set_index("setting")
    assert answer.loc["upper_bound", "tools"] == ["open_note"]
    assert answer.loc["context_tuned_upper_bound", "items"] == ["b-note"]
    assert answer.loc["upper_bound", ["plan", "failure", "why"]].tolist() == ['open_note(title="Dough")', "", ""]
    assert answer.loc["lower_bound", "failure"] == "unparsed"
    with pytest.raises(InputError, match="nobody who asks is called 'c'"):
        assistant.question(7, "c")
