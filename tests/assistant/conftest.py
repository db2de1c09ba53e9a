"""Worlds and files that the tests of lib.assistant share."""

from __future__ import annotations

import hashlib
import json
import shutil
from copy import deepcopy
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from lib.assistant.explorer import Assistant
from lib.assistant.personas import read_cast
from lib.assistant.schemas import WorldKnobs
from lib.assistant.world import frames, read_world, simulate
from lib.retrieval.dense import encode, load_encoder
from lib.workbook.artifacts import Workbook
from lib.workbook.parameters import Parameters, notebook_parameters
from tests.retrieval.conftest import WORDS, build_encoder

ROOT = Path(__file__).parents[2]
SIZES = {"n_personas": 264, "n_training_queries": 1446, "n_evaluation_queries": 312}
HABITS_ALONE = {"recency_strength": 0.0, "frequency_strength": 0.0}

# The smallest world one can write by hand: two personas, one on each side, one query each.
RECORDS = {
    "personas": [
        {
            "id": name,
            "name": f"Person {name}",
            "age": 30,
            "profession": "Baker",
            "today": "2023-12-10T06:00:00",
            "people": [{"role": "friend", "name": "Ana Ruiz", "email": "ana@mail.example", "phone": "+1 555 0000001"}],
            "apps": {
                "notes": [
                    {
                        "id": f"{name}-note",
                        "title": "Dough",
                        "body": "flour, water, salt",
                        "modified": "2023-12-01T09:00:00",
                        "opens": [{"time": "2023-12-02T07:30:00", "place": "home"}],
                    }
                ],
                "music": [{"id": f"{name}-song", "song_name": "Yeast Inside", "played_time": "2023-12-03T08:00:00"}],
            },
        }
        for name in ("a", "b")
    ],
    "queries": [
        {
            "id": f"{name}-q0",
            "persona": name,
            "text": f"What goes in it, {name}?",
            "time": "2023-12-11T07:30:00",
            "place": "home",
            "split": side,
        }
        for name, side in (("a", "training"), ("b", "evaluation"))
    ],
    "gold": [
        {
            "query": f"{name}-q0",
            "kind": "habit",
            "need": "baking",
            "phrasing": "baking/habit/0",
            "relevant": [f"{name}-note"],
            "apis": ["open_note"],
            "apps": ["notes"],
            "plan": 'open_note(title="Dough")',
            "answers": [{"open_note": {"title": ["Dough"]}}],
        }
        for name in ("a", "b")
    ],
}


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
def root() -> Path:
    return ROOT


@pytest.fixture(scope="session")
def data() -> Path:
    return ROOT / "data"


@pytest.fixture(scope="session")
def cast(data):
    return read_cast(data)


@pytest.fixture(scope="session")
def toolbox(cast):
    return cast.toolbox


@pytest.fixture(scope="session")
def needs(cast):
    return cast.needs


@pytest.fixture(scope="session")
def make_world(data):
    """A world with the given knobs."""

    def make(**knobs):
        return simulate(data, WorldKnobs(**knobs))

    return make


@pytest.fixture(scope="session")
def world(make_world):
    """A world of seed 7 at a third of the published size."""
    return make_world(seed=7, **SIZES)


@pytest.fixture(scope="session")
def tables(world):
    return frames(world)


@pytest.fixture(scope="session")
def habitual_tables(make_world):
    """The world in which habits are all that the log tells: neither recency nor frequency is a signal."""
    return frames(make_world(seed=7, **SIZES, **HABITS_ALONE))


@pytest.fixture(scope="session")
def usage(world, habitual_tables):
    """Every item with its source, whether it is gold, its opens by habit and hours since the last one."""
    tables = habitual_tables
    items = tables["items"].merge(tables["provenance"][["item", "source"]], on="item")
    items["gold"] = items["item"].isin(set(tables["gold"]["relevant"].explode()))
    opens = tables["opens"].groupby("item")["time"].agg(["size", "max"])
    items["opens"] = items["item"].map(opens["size"])
    today = items["persona"].map({persona.id: persona.today for persona in world.personas})
    items["hours_ago"] = (today - items["item"].map(opens["max"])).dt.total_seconds() / 3600
    return items


@pytest.fixture
def records():
    """Records of a valid world, free to be spoilt."""
    return deepcopy(RECORDS)


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


class ByOpens:
    """A ranker that knows but one feature."""

    def predict(self, features):
        return features["opens"].to_numpy(dtype=float) if "opens" in features else np.zeros(len(features))


def encode_anyhow(texts):
    """Unit-length vectors drawn by the hash of each text."""
    seeds = [int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big") for text in texts]
    vectors = np.array([np.random.default_rng(seed).normal(size=16) for seed in seeds])
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


@pytest.fixture
def make_assistant():
    """An assistant on tables, with a ranker that knows opens alone, a made-up encoder, and a planner that calls
    `open_note` with the title of persona b's note where the prompt shows that tool first."""

    def make(tables, bm25_b=0.75):
        def plan(prompts):
            return ['open_note(title="Dough")' if "Tools:\nopen_note" in prompt else "no plan" for prompt in prompts]

        return Assistant(tables, encode_anyhow, ByOpens(), plan, "app", 1, 4, 2, bm25_b)

    return make


@pytest.fixture
def own_tables(records, write_world):
    """The smallest world as tables, its evaluation persona being asked about twice."""
    query, gold = deepcopy(records["queries"][1]), deepcopy(records["gold"][1])
    records["queries"].append(query | {"id": "b-q1", "text": "And how is that done?", "place": "work"})
    records["gold"].append(gold | {"query": "b-q1"})
    return frames(read_world(write_world(records)))


@pytest.fixture
def book(tmp_path, own_tables):
    """What notebooks 01 to 07 leave for the assistant, of the smallest world; the models are missing."""
    root, ranked = tmp_path / "workbook", pd.DataFrame({"query": ["b-q0"]})
    made = {
        "01_data_gen": ({}, own_tables),
        "02_context_baselines": ({"encoder": str(tmp_path / "no-encoder")}, {"baseline_rankings": ranked}),
        "05_lambdamart_rrf": ({"bm25_b": 0.4}, {"context_rankings": ranked}),
        "06_tool_retrieval": ({}, {"tool_wording": pd.DataFrame({"wording": ["app"], "items": [1]})}),
        "07_planner": ({"shown_tools": 4, "shown_items": 2}, {"plans": ranked}),
    }
    for notebook, (parameters, tables) in made.items():
        there = Workbook(notebook, notebook_parameters(notebook, profile="smoke", **parameters), root)
        for name, table in tables.items():
            there.write(name, table)
        if notebook == "05_lambdamart_rrf":
            there.write_lines("lambdamart", ['"tree"'])
    (there.data / "adapters" / "planner").mkdir(parents=True)
    (there.data / "adapters" / "planner" / "training.json").write_text("{}")
    return Workbook("explore_assistant", Parameters(profile="smoke"), root)
