"""Worlds and files that the tests of lib.assistant share."""

import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from lib.assistant.personas import read_cast
from lib.assistant.ranking import RankingTask
from lib.assistant.schemas import WorldKnobs
from lib.assistant.world import frames, simulate
from lib.retrieval.dense import encode, load_encoder
from lib.workbook.inputs import InputError
from tests.retrieval.conftest import WORDS, build_encoder, unit

ROOT = Path(__file__).parents[2]
SIZES = {"n_personas": 264, "n_training_queries": 1446, "n_evaluation_queries": 312}

# The smallest world one can write by hand: two personas, one on each side, one query each.
OPENED = {"time": "2023-12-02T07:30:00", "place": "home"}
NOTE = {"title": "Dough", "body": "flour, water, salt", "modified": "2023-12-01T09:00:00", "opens": [OPENED]}
SONG = {"song_name": "Yeast Inside", "played_time": "2023-12-03T08:00:00"}
FRIEND = {"role": "friend", "name": "Ana Ruiz", "email": "ana@mail.example", "phone": "+1 555 0000001"}
ABOUT = {"age": 30, "profession": "Baker", "today": "2023-12-10T06:00:00", "people": [FRIEND]}
ASKED = {"time": "2023-12-11T07:30:00", "place": "home"}
LABEL = {"kind": "habit", "need": "baking", "phrasing": "baking/habit/0", "apps": ["notes"], "apis": ["open_note"],
         "plan": 'open_note(title="Dough")', "answers": [{"open_note": {"title": ["Dough"]}}]}  # fmt: skip
RECORDS: dict = {"personas": [], "queries": [], "gold": []}
for name, side in (("a", "training"), ("b", "evaluation")):
    apps = {"notes": [{"id": f"{name}-note"} | NOTE], "music": [{"id": f"{name}-song"} | SONG]}
    RECORDS["personas"].append({"id": name, "name": f"Person {name}", "apps": apps} | ABOUT)
    RECORDS["queries"].append({"id": f"{name}-q0", "persona": name, "split": side, "text": f"In it, {name}?"} | ASKED)
    RECORDS["gold"].append({"query": f"{name}-q0", "relevant": [f"{name}-note"]} | LABEL)


def refused(call, *parts) -> None:
    """`call` raises an InputError of one line in which every one of `parts` stands."""
    with pytest.raises(InputError) as caught:
        call()
    for part in parts:
        assert part in str(caught.value)
    assert "\n" not in str(caught.value)


def letters(texts):
    """Embeddings that say something: unit-length counts of pairs of letters, hashed."""
    vectors = np.full((len(texts), 64), 0.01, dtype=np.float32)
    for row, text in enumerate(texts):
        for pair in zip(text.lower(), text.lower()[1:], strict=False):
            vectors[row, (31 * ord(pair[0]) + ord(pair[1])) % 64] += 1
    return unit(vectors)


def table(columns, *rows):
    """A frame of rows, its columns named in one text."""
    return pd.DataFrame(rows, columns=columns.split())


@pytest.fixture(scope="session")
def tiny(tmp_path_factory):
    """Folder of a tiny sentence encoder."""
    return build_encoder(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="session")
def small_world(tiny):
    """What text search is trained on with it, frames and vectors; tests leave them as they are. Two queries a persona
    about one of four needs; the first five personas are of training."""
    rng, encoder = np.random.default_rng(5), load_encoder(tiny)
    texts = [(f"p{p}-i{i}", f"p{p}", " ".join(rng.permutation(WORDS)[:3])) for p in range(8) for i in range(6)]
    asked = [
        (f"p{p}-q{n}", f"p{p}", "training" if p < 5 else "evaluation", " ".join(rng.permutation(WORDS)[:2]))
        for p in range(8)
        for n in range(2)
    ]
    frames = {
        "items": pd.DataFrame(texts, columns=["item", "persona", "text"]),
        "queries": pd.DataFrame(asked, columns=["query", "persona", "split", "text"]),
    }
    about = [(query, f"need {n % 4}", [f"{persona}-i{n % 3}"]) for n, (query, persona, *_) in enumerate(asked)]
    frames["gold"] = pd.DataFrame(about, columns=["query", "need", "relevant"])
    return frames, {name: encode(encoder, frames[name]["text"].tolist()) for name in ("items", "queries")}


@pytest.fixture(scope="session")
def data() -> Path:
    return ROOT / "data"


@pytest.fixture(scope="session")
def cast(data):
    return read_cast(data)


@pytest.fixture(scope="session")
def make_world(data):
    """A world with the given knobs."""
    return lambda **knobs: simulate(data, WorldKnobs(**knobs))


@pytest.fixture(scope="session")
def world(make_world):
    """A third of the published size; habits are all that the log tells: neither recency nor frequency is a signal."""
    return make_world(seed=7, **SIZES, recency_strength=0.0, frequency_strength=0.0)


@pytest.fixture(scope="session")
def small_tables(make_world):
    return frames(make_world(seed=3, n_personas=40, n_training_queries=150, n_evaluation_queries=60))


@pytest.fixture(scope="session")
def drawn_vectors(small_tables):
    """Embeddings of its items and queries that say nothing."""
    sizes = {name: (len(small_tables[name]), 8) for name in ("items", "queries")}
    return {name: unit(np.random.default_rng(n).normal(size=size)) for n, (name, size) in enumerate(sizes.items())}


@pytest.fixture(scope="session")
def task(small_tables, drawn_vectors):
    return RankingTask.of_world(small_tables, drawn_vectors, cutoff=10, seed=7, folds=2)


@pytest.fixture(scope="session")
def tables(world):
    return frames(world)


@pytest.fixture
def records():
    """Records of a valid world, free to be spoilt."""
    return json.loads(json.dumps(RECORDS))


@pytest.fixture
def write_world(tmp_path, data):
    """Writes records to a folder that `read_world` reads."""

    def write(records) -> Path:
        for name, entries in records.items():
            lines = [json.dumps(entry, default=str, ensure_ascii=False) for entry in entries]
            (tmp_path / f"{name}.jsonl").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        shutil.copy(data / "toolbox.yaml", tmp_path / "toolbox.yaml")
        return tmp_path

    return write
