"""What the benchmarks share: prompts, the language model; and rates side by side, printed at the end."""

from itertools import groupby
from pathlib import Path

import pytest

from lib.assistant.schemas import WorldKnobs
from lib.assistant.world import frames, simulate
from lib.generation.models import ModelError, locate

ROWS = pytest.StashKey[list]()
INSTRUCTION = (
    "An assistant can search what a person keeps in seven apps: mail, calendar, google (past searches), music, "
    "reminders, notes and phone call. A person asks for something without naming what is meant. Say in one or two "
    "sentences what the person probably wants, which two or three of the apps may hold what the assistant has to know "
    "to help, and which words to look for in each of them: names of people and places, subjects, titles, times. Think "
    "of what people write down, plan, look up, play and talk about in such a situation. Do not answer the request "
    "itself, ask nothing back, and name the likeliest app first.\n\nRequest: "
)


@pytest.fixture(scope="session")
def requests():
    """Prompts with a long common beginning, as for a chain of thought, about the queries of a small world."""
    knobs = WorldKnobs(n_personas=60, n_training_queries=300, n_evaluation_queries=100, seed=7)
    texts = frames(simulate(Path(__file__).parents[2] / "data", knobs))["queries"]["text"].drop_duplicates()
    return [f"{INSTRUCTION}{text}\nThought:" for text in texts]


@pytest.fixture(scope="session")
def language_model():
    """Folder of SmolLM2-135M; skipped where it cannot be fetched."""
    try:
        return locate("SmolLM2-135M-Instruct")
    except ModelError as error:
        pytest.skip(str(error))


@pytest.fixture
def rate(benchmark, request):
    """Notes how much a timed round did: the summary shows rates, and how many times the group's slowest each one is."""

    def note(row: str, amount: float, unit: str) -> None:
        if benchmark.stats:
            rows = request.config.stash.setdefault(ROWS, [])
            rows.append((f"{benchmark.group}, {unit} a second", row, amount / benchmark.stats.stats.median))

    return note


def pytest_terminal_summary(terminalreporter, config):
    for title, rows in groupby(sorted(config.stash.get(ROWS, []), key=lambda row: row[0]), key=lambda row: row[0]):
        rows = sorted(((speed, name) for _, name, speed in rows), reverse=True)
        terminalreporter.section(title)
        for speed, name in rows:
            terminalreporter.write_line(f"{speed:14,.1f} {speed / rows[-1][0]:10,.2f} x  {name}")
