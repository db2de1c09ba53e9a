"""A world of one's own: what is wrong in its files is one InputError that names file, record and field."""

from __future__ import annotations

import json
from copy import deepcopy

import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lib.assistant.schemas import ITEM_TYPES, Persona, read_personas
from lib.assistant.toolbox import Toolbox
from lib.assistant.world import check_trainable, frames, read_world
from lib.workbook.artifacts import ROOT
from lib.workbook.inputs import InputError

EXAMPLE = ROOT / "data" / "examples" / "world"


def refused(call, *parts) -> None:
    """`call` raises an InputError of one line in which every one of `parts` stands."""
    with pytest.raises(InputError) as caught:
        call()
    for part in parts:
        assert part in str(caught.value)
    assert "\n" not in str(caught.value)


def set_in(record, path, value):
    *parents, last = path
    for key in parents:
        record = record[key]
    record[last] = value


@pytest.mark.parametrize(
    ("path", "value", "field"),
    [
        (("shoe_size",), 43, "shoe_size"),
        (("apps", "notes", 0, "opens", 0, "place"), "moon", "apps.notes.0.opens.0.place"),
        (("apps", "notes", 0, "opens", 0, "time"), "2023-12-10T06:01:00", "a-note"),
        (("apps", "music", 0, "id"), "b-song", "b-song"),
    ],
)
def test_wrong_persona(records, write_world, path, value, field):
    records["personas"].reverse()
    set_in(records["personas"][1], path, value)
    folder = write_world(records)
    refused(lambda: read_personas(folder / "personas.jsonl"), "personas.jsonl", "line 2", field)


json_values = st.one_of(
    st.none(), st.booleans(), st.integers(-5, 5), st.text(max_size=5), st.just([]), st.just({}), st.just([{}])
)


def places_in(record, path=()):
    """Paths of all values of a nested record."""
    children = record.items() if isinstance(record, dict) else enumerate(record) if isinstance(record, list) else ()
    for key, value in children:
        yield (*path, key)
        yield from places_in(value, (*path, key))


@given(data=st.data())
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], database=None, max_examples=150)
def test_any_value_anywhere_is_read_or_refused(records, tmp_path, data):
    record = deepcopy(records["personas"][0])
    set_in(record, data.draw(st.sampled_from(list(places_in(record)))), data.draw(json_values))
    file = tmp_path / "personas.jsonl"
    file.write_text(json.dumps(record) + "\n", encoding="utf-8")
    try:
        persona = read_personas(file)[0]
    except InputError as error:
        message = str(error)
    else:
        message = "personas.jsonl, line 1"
        assert Persona.model_validate_json(persona.model_dump_json()) == persona
    assert "personas.jsonl, line 1" in message


GOOD_API = "- {api: open_door, app: notes, description: Open a door.}\n"


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        (GOOD_API + GOOD_API, ["open_door", "more than once"]),
        ("- {api: a, app: notes, description: d, arguments: {x: {description: e, type: str}}}", ["arguments.x.type"]),
        ("- {api: default, app: notes, description: d}", ["default", "reserved"]),
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
    assert tables["provenance"].empty
    assert len(tables["opens"]) == 2


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
    """A small one, with an item of each app with all its fields, and nobody to train on."""
    _, line = (EXAMPLE / "personas.jsonl").read_text(encoding="utf-8").splitlines()
    for app, (item,) in json.loads(line)["apps"].items():
        assert item.keys() == ITEM_TYPES[app].model_fields.keys() - {"opens"}
    tables = frames(read_world(EXAMPLE))
    assert [len(tables[name]) for name in ("items", "opens", "queries", "gold", "toolbox")] == [9, 1, 1, 1, 1]
    refused(lambda: check_trainable(tables["queries"], tables["gold"], folds=5), "0 training personas", "at least 6")


def test_a_simulated_world_survives_its_files(make_world, write_world):
    world = make_world(seed=2, n_personas=14, n_training_queries=60, n_evaluation_queries=30)
    queries = [query.model_dump(mode="json") | {"split": world.sides[query.id]} for query in world.queries]
    files = {"personas": [persona.model_dump(mode="json") for persona in world.personas], "queries": queries}
    read = read_world(write_world(files | {"gold": [gold.model_dump(mode="json") for gold in world.gold]}))
    assert read.personas == world.personas
    before, after = frames(world), frames(read)
    for name in ("items", "opens", "queries", "gold", "other_plans", "toolbox"):
        assert before[name].equals(after[name]), name


def test_too_few_personas_to_train_on():
    queries = pd.DataFrame({"persona": ["a", "b", "c", "c", "d", "d"], "split": ["training"] * 4 + ["evaluation"] * 2})
    gold = pd.DataFrame({"need": ["dinner", "lesson", "lesson"]})
    check_trainable(queries, gold, folds=2)
    refused(lambda: check_trainable(queries, gold, folds=3), "3 training personas", "at least 4")
    refused(lambda: check_trainable(queries[:5], gold, folds=2), "1 evaluation queries", "at least 2")
