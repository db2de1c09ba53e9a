"""Worlds and files that the tests of lib.assistant share."""

from __future__ import annotations

import json
import shutil
from copy import deepcopy
from pathlib import Path

import pytest

from lib.assistant.needs import read_needs
from lib.assistant.personas import read_cast
from lib.assistant.toolbox import Toolbox
from lib.assistant.world import frames, simulate_from
from lib.workbook.parameters.worlds import WorldKnobs

ROOT = Path(__file__).parents[2]

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
def root() -> Path:
    return ROOT


@pytest.fixture(scope="session")
def data() -> Path:
    return ROOT / "data"


@pytest.fixture(scope="session")
def toolbox(data):
    return Toolbox.from_yaml(data / "toolbox.yaml")


@pytest.fixture(scope="session")
def needs(data, toolbox):
    return read_needs(data / "needs", toolbox)


@pytest.fixture(scope="session")
def cast(data):
    return read_cast(data)


@pytest.fixture(scope="session")
def make_world(needs, cast, toolbox):
    """A world with the given knobs; read files are shared, so that only the simulation takes time."""

    def make(**knobs):
        return simulate_from(needs, cast, toolbox, WorldKnobs(**knobs))

    return make


@pytest.fixture(scope="session")
def world(make_world):
    """The full-size world of seed 7, split by phrasing."""
    return make_world(seed=7)


@pytest.fixture(scope="session")
def tables(world):
    return frames(world)


@pytest.fixture(scope="session")
def usage(world, tables):
    """Every item of the full-size world with its source, whether it is gold, its opens and hours since the last one."""
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
    """Writes records (dicts, or lines as they are) to a folder that `read_world` reads."""

    def write(records) -> Path:
        for name, entries in records.items():
            lines = [
                entry if isinstance(entry, str) else json.dumps(entry, default=str, ensure_ascii=False)
                for entry in entries
            ]
            (tmp_path / f"{name}.jsonl").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        shutil.copy(data / "toolbox.yaml", tmp_path / "toolbox.yaml")
        return tmp_path

    return write
