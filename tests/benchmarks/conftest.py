"""What the benchmarks share: prompts, and the language model."""

import pytest

from lib.generation.models import ModelError, locate

SENTENCE = "An assistant can search what a person keeps in seven apps, such as mail, notes and music. "


@pytest.fixture(scope="session")
def requests():
    """Prompts with a long common beginning, as for a chain of thought."""
    things = ("bridge", "flight", "meeting", "song", "recipe", "lesson", "dentist", "garden")
    texts = [f"What was it again about the {thing}, {number} days ago?" for number in range(8) for thing in things]
    return [f"{SENTENCE * 8}\n\nRequest: {text}\nThought:" for text in texts]


@pytest.fixture(scope="session")
def language_model():
    """Folder of SmolLM2-135M; skipped where it cannot be fetched."""
    try:
        return locate("SmolLM2-135M-Instruct")
    except ModelError as error:
        pytest.skip(str(error))
