"""A world of one's own: what is wrong in its files is one InputError that names file, record and field."""

import functools
import json
import operator

import pandas as pd
import pytest

from lib.assistant.schemas import ITEM_TYPES, read_personas
from lib.assistant.toolbox import Toolbox
from lib.assistant.world import check_trainable, frames, read_world
from lib.workbook.artifacts import ROOT
from tests.assistant.conftest import refused

EXAMPLE = ROOT / "data" / "examples" / "world"


@pytest.mark.parametrize(
    ("path", "value", "field"),
    [
        (("apps", "notes", 0, "opens", 0, "place"), "moon", "apps.notes.0.opens.0.place"),
        (("apps", "notes", 0, "opens", 0, "time"), "2023-12-10T06:01:00", "a-note"),
        (("apps", "music", 0, "id"), "b-song", "b-song"),
    ],
)
def test_wrong_persona(records, write_world, path, value, field):
    records["personas"].reverse()
    *parents, last = path
    functools.reduce(operator.getitem, parents, records["personas"][1])[last] = value
    folder = write_world(records)
    refused(lambda: read_personas(folder / "personas.jsonl"), "personas.jsonl", "line 2", field)


GOOD_API = "- {api: open_door, app: notes, description: Open a door.}\n"


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        (GOOD_API + GOOD_API, ["open_door", "more than once"]),
        ("- {api: a, app: notes, description: d, arguments: {x: {description: e, type: str}}}", ["arguments.x.type"]),
    ],
)
def test_wrong_toolbox(tmp_path, text, parts):
    path = tmp_path / "toolbox.yaml"
    path.write_text(text, encoding="utf-8")
    refused(lambda: Toolbox.from_yaml(path), "toolbox.yaml", *parts)


def test_world_of_one_s_own(records, write_world):
    records["gold"].reverse()
    world = read_world(write_world(records))
    tables = frames(world)
    assert world.sides == {"a-q0": "training", "b-q0": "evaluation"}
    assert list(tables["queries"]["weekday"]) == [0, 0]
    assert list(tables["items"]["text"][:2]) == ["Yeast Inside", "Dough. flour, water, salt"]
    assert list(tables["gold"]["query"]) == list(tables["queries"]["query"]), "labels in the order of the queries"
    assert list(tables["gold"]["relevant"]) == [["a-note"], ["b-note"]]


@pytest.mark.parametrize(
    ("file", "field", "value", "parts"),
    [
        ("queries", "persona", "c", ["line 1", "persona", "'c'"]),
        ("queries", "split", "test", ["line 1", "split", "'test'"]),
        ("queries", "time", "2023-12-01T07:30:00", ["line 1", "time", "before"]),
        ("gold", "relevant", ["b-note"], ["line 1", "relevant", "b-note"]),
        ("gold", "relevant", ["a-note", "a-note"], ["relevant", "a-note"]),
        ("gold", "query", "c-q0", ["c-q0"]),
        ("gold", "answers", [{"open_note": {"title": ["something else"]}}], ["line 1", "plan", "answers"]),
        ("gold", "also", [{"apis": ["open_note"], "plan": "x()", "answers": []}], ["line 1", "no API x"]),
    ],
)
def test_wrong_record(records, write_world, file, field, value, parts):
    records[file][0][field] = value
    folder = write_world(records)
    refused(lambda: read_world(folder), f"{file}.jsonl", *parts)


def test_every_query_has_a_label_and_every_persona_a_side(records, write_world):
    other = records["queries"][0] | {"id": "a-q1", "split": "evaluation"}
    folder = write_world(records | {"queries": [*records["queries"], other]})
    refused(lambda: read_world(folder), "both sides")
    folder = write_world(records | {"gold": records["gold"][1:]})
    refused(lambda: read_world(folder), "gold.jsonl", "a-q0")
    folder = write_world({"personas": records["personas"], "queries": [], "gold": []})
    refused(lambda: read_world(folder), "gold.jsonl", "there is none")


def test_the_example_is_a_world():
    """A small one, with an item of each app with all its fields."""
    _, line = (EXAMPLE / "personas.jsonl").read_text(encoding="utf-8").splitlines()
    for app, (item,) in json.loads(line)["apps"].items():
        assert item.keys() == ITEM_TYPES[app].model_fields.keys() - {"opens"}
    tables = frames(read_world(EXAMPLE))
    assert [len(tables[name]) for name in ("items", "opens", "queries", "gold", "toolbox")] == [9, 1, 1, 1, 1]


def test_too_few_personas_to_train_on():
    queries = pd.DataFrame({"persona": ["a", "b", "c", "c", "d", "d"], "split": ["training"] * 4 + ["evaluation"] * 2})
    gold = pd.DataFrame({"need": ["dinner", "lesson", "lesson"]})
    check_trainable(queries, gold, folds=2)
    refused(lambda: check_trainable(queries, gold, folds=3), "3 training personas", "at least 4")
    refused(lambda: check_trainable(queries[:5], gold, folds=2), "1 evaluation queries", "at least 2")
