"""Files from outside: what is wrong is one InputError that names file, record and field, and nothing else is raised."""

from __future__ import annotations

import json
import re
import shutil

import pandas as pd
import pytest
import yaml

from lib.assistant.needs import read_needs
from lib.assistant.personas import read_cast
from lib.assistant.schemas import APPS, ITEM_TYPES, Apps, InputError, WorldKnobs, read_personas
from lib.assistant.toolbox import Toolbox
from lib.assistant.world import check_trainable, frames, read_world, simulate_from
from lib.workbook.artifacts import ROOT

NEED = "airport_pickup"
TINY = WorldKnobs(seed=1, n_personas=20, n_training_queries=80, n_evaluation_queries=20)


def refused(call, *parts) -> str:
    """The message of the InputError that `call` raises; every one of `parts` stands in it."""
    with pytest.raises(InputError) as caught:
        call()
    message = str(caught.value)
    for part in parts:
        assert part in message
    assert "\n" not in message
    return message


# ---------------------------------------------------------------- personas


def test_the_readme_shows_an_item_of_each_app_with_all_its_fields():
    text = (ROOT / "data" / "README.md").read_text(encoding="utf-8")
    section = text.split("`apps` are the seven of `lib/assistant/schemas.py`: ")[1]
    said, block = re.match(r"([^.]*)\..*?```json\n(.*?)```", section, re.DOTALL).groups()
    assert re.split(", | and ", said) == list(APPS)
    apps = json.loads(block)
    Apps.model_validate(apps)
    assert list(apps) == list(APPS)
    for app, (item,) in apps.items():
        assert item.keys() == ITEM_TYPES[app].model_fields.keys() - {"opens"}


def set_in(record, path, value):
    *parents, last = path
    for key in parents:
        record = record[key]
    record[last] = value


@pytest.mark.parametrize(
    ("path", "value", "field"),
    [
        (("shoe_size",), 43, "shoe_size"),
        (("age",), "many", "age"),
        (("age",), 7, "age"),
        (("name",), "  ", "name"),
        (("today",), "tomorrow", "today"),
        (("hobbies",), "chess", "hobbies"),
        (("people", 0, "shoe_size"), 43, "people.0.shoe_size"),
        (("apps", "fax"), [], "apps.fax"),
        (("apps", "notes"), {}, "apps.notes"),
        (("apps", "notes", 0, "colour"), "red", "apps.notes.0.colour"),
        (("apps", "notes", 0, "title"), 3, "apps.notes.0.title"),
        (("apps", "notes", 0, "opens", 0, "place"), "moon", "apps.notes.0.opens.0.place"),
        (("apps", "notes", 0, "opens", 0, "time"), "2023-12-10T06:01:00", "a-note"),
        (("apps", "music", 0, "id"), "a-note", "a-note"),
        (("apps", "music", 0, "played_time"), None, "apps.music.0.played_time"),
    ],
    ids=lambda value: str(value),
)
def test_wrong_persona(records, write_world, path, value, field):
    records["personas"].reverse()
    set_in(records["personas"][1], path, value)
    folder = write_world(records)
    refused(lambda: read_personas(folder / "personas.jsonl"), "personas.jsonl", "line 2", "persona a", field)


@pytest.mark.parametrize("path", [("name",), ("apps",), ("today",)])
def test_persona_without_a_field(records, write_world, path):
    del records["personas"][0][path[0]]
    folder = write_world(records)
    refused(lambda: read_personas(folder / "personas.jsonl"), "personas.jsonl", "line 1", "persona a", path[0])


def test_several_problems_are_counted(records, write_world):
    records["personas"][0] |= {"age": "many", "name": ""}
    folder = write_world(records)
    refused(lambda: read_personas(folder / "personas.jsonl"), "1 more")


@pytest.mark.parametrize("line", ["5", "null", "[]", '"a"', '["split"]', "{", "{}", "\x00"])
def test_line_that_is_no_persona(records, write_world, line):
    records["personas"][1] = line
    folder = write_world(records)
    refused(lambda: read_personas(folder / "personas.jsonl"), "personas.jsonl", "line 2")


def test_persona_twice(records, write_world):
    records["personas"][1]["id"] = "a"
    folder = write_world(records)
    refused(lambda: read_personas(folder / "personas.jsonl"), "personas.jsonl", "line 2", "persona a", "twice")


@pytest.mark.parametrize("content", [b"", b"\n \n", b"\xff\xfe\x00"])
def test_file_without_personas(tmp_path, content):
    path = tmp_path / "personas.jsonl"
    path.write_bytes(content)
    refused(lambda: read_personas(path), "personas.jsonl")


def test_persona_file_that_is_missing_or_a_folder(tmp_path):
    refused(lambda: read_personas(tmp_path / "none.jsonl"), "none.jsonl")
    refused(lambda: read_personas(tmp_path), tmp_path.name)


def test_blank_lines_do_no_harm(records, write_world):
    records["personas"].insert(1, "  ")
    assert [persona.id for persona in read_personas(write_world(records) / "personas.jsonl")] == ["a", "b"]


@pytest.mark.parametrize("today", ["2023-12-10T06:00:00Z", 1702188000], ids=["offset", "seconds"])
def test_today_with_a_time_zone(records, write_world, today):
    records["personas"][0]["today"] = today
    folder = write_world(records)
    refused(lambda: read_personas(folder / "personas.jsonl"), "personas.jsonl", "line 1", "persona a")


def test_number_too_long_to_read(records, write_world):
    records["personas"][0] = '{"id": "a", "age": ' + "9" * 5000 + "}"
    folder = write_world(records)
    refused(lambda: read_personas(folder / "personas.jsonl"), "personas.jsonl", "line 1")


# ---------------------------------------------------------------- toolbox

GOOD_API = "- {api: open_door, app: notes, description: Open a door.}\n"


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        (GOOD_API + GOOD_API, ["open_door", "2 times"]),
        (GOOD_API + "- {api: shut, app: notes, description: d, colour: red}", ["record 2", "shut", "colour"]),
        (GOOD_API + "- {api: shut, app: fax, description: d}", ["record 2", "shut", "app"]),
        (GOOD_API + "- {api: shut, app: notes}", ["record 2", "shut", "description"]),
        (GOOD_API + "- {api: shut it, app: notes, description: d}", ["record 2", "shut it", "api"]),
        (GOOD_API + "- {api: shut, app: notes, description: d, arguments: [x]}", ["record 2", "shut", "arguments"]),
        (
            "- {api: shut, app: notes, description: d, arguments: {x: {description: e, type: str}}}",
            ["record 1", "shut", "arguments.x.type"],
        ),
        (
            "- {api: shut, app: notes, description: d, arguments: {x: {description: e, optional: true}}}",
            ["record 1", "shut", "arguments.x.optional"],
        ),
        (GOOD_API + "- {app: notes, description: d}", ["record 2", "without name", "api"]),
        (GOOD_API + "- open_door", ["record 2"]),
        ("- {api: default, app: notes, description: d}", ["default", "reserved"]),
        ("open_door: {app: notes}", ["list"]),
        ("[]", ["list"]),
        ("", ["list"]),
        ("- {api: [", ["cannot be read"]),
        ("- {[a]: 1}", ["cannot be read"]),
        ("\x00", ["cannot be read"]),
    ],
)
def test_wrong_toolbox(tmp_path, text, parts):
    path = tmp_path / "toolbox.yaml"
    path.write_text(text, encoding="utf-8")
    refused(lambda: Toolbox.from_yaml(path), "toolbox.yaml", *parts)


def test_toolbox_that_is_missing(tmp_path):
    refused(lambda: Toolbox.from_yaml(tmp_path / "toolbox.yaml"), "toolbox.yaml")


def test_right_toolbox(tmp_path):
    path = tmp_path / "toolbox.yaml"
    path.write_text(GOOD_API + "- {api: shut, app: mail, description: d, arguments: null}", encoding="utf-8")
    toolbox = Toolbox.from_yaml(path)
    assert [api.api for api in toolbox] == ["open_door", "shut"]
    assert "shut" in toolbox
    assert "default" not in toolbox
    assert toolbox["open_door"].text == "open door. Open a door."


# ---------------------------------------------------------------- needs


def hour(record, value):
    record["habit"]["hours"] = value


def phrasing(record, text):
    record["phrasings"]["meaning"][0] = text


def decoy(record, **fields):
    record["decoys"][0] |= fields


def first_wording(record):
    return record["keeps"]["phone"]["items"]["message"]["wordings"][0]


def plan(record, *calls):
    record["keeps"]["google"]["plan"] = list(calls)


WRONG_NEEDS = [
    (lambda r: phrasing(r, "Where is {nobody}?"), ["meaning phrasing", "{nobody}"]),
    (lambda r: phrasing(r, "Where is {friend.shoe}?"), ["meaning phrasing", "{friend.shoe}"]),
    (lambda r: phrasing(r, "Where is {friend?"), []),
    (lambda r: phrasing(r, "Where is {}?"), ["phrasings.meaning"]),
    (lambda r: phrasing(r, 5), ["phrasings.meaning.0"]),
    (lambda r: decoy(r, title="{nobody}"), ["decoy title", "{nobody}"]),
    (lambda r: first_wording(r).update(voicemail="{nobody} rang"), ["keep phone", "voicemail", "{nobody}"]),
    (lambda r: plan(r, 'fly_home(flight="{flight}")'), ["keep google", "fly_home"]),
    (lambda r: plan(r, "track_flight()"), ["keep google", "track_flight", "flight"]),
    (lambda r: plan(r, 'track_flight(flight="{flight}", seat="1A")'), ["keep google", "track_flight", "seat"]),
    (lambda r: plan(r, 'track_flight(flight="{alert.shoe}")'), ["keep google", "track_flight(flight)", "alert.shoe"]),
    (lambda r: plan(r, 'track_flight(flight="{event.title}")'), ["keep google", "track_flight(flight)", "event.title"]),
    (lambda r: plan(r, 'track_flight("x")'), ["track_flight"]),
    (lambda r: plan(r, "track_flight(flight=f())"), ["track_flight"]),
    (lambda r: plan(r, "default()", 'track_flight(flight="{flight}")'), ["keep google", "default"]),
    (lambda r: plan(r, "default(x=1)"), ["keep google", "default"]),
    (lambda r: plan(r), ["keeps.google.plan"]),
    (lambda r: r.update(colour="red"), ["colour"]),
    (lambda r: r["habit"].update(colour="red"), ["habit.colour"]),
    (lambda r: r["cot"].update(blind=["one"]), ["cot.blind"]),
    (lambda r: r.pop("ask"), ["ask"]),
    (lambda r: r.update(trait="tall"), ["trait"]),
    (lambda r: hour(r, [9, 7]), ["habit", "hours"]),
    (lambda r: hour(r, [9, 25]), ["habit", "hours"]),
    (lambda r: hour(r, "nine"), ["habit.hours"]),
    (lambda r: r["habit"].update(places=["moon"]), ["habit.places.0"]),
    (lambda r: r["phrasings"]["habit"].__delitem__(slice(3, None)), ["phrasings.habit"]),
    (lambda r: r["keeps"]["phone"]["items"]["message"]["wordings"].pop(), ["keeps.phone.items.message.wordings"]),
    (
        lambda r: first_wording(r).update(subject="hi"),
        ["keeps.phone.items.message", "wording 1", "phone_call", "subject"],
    ),
    (lambda r: first_wording(r).pop("direction"), ["keeps.phone.items.message", "wording 1", "direction"]),
    (lambda r: r["keeps"]["phone"]["items"]["message"].update(app="fax"), ["keeps.phone.items.message.app"]),
    (lambda r: decoy(r, subject="hi"), ["decoy 1", "calendar", "subject"]),
    (lambda r: decoy(r, app="fax"), ["decoy 1", "app"]),
    (lambda r: r.update(decoys=r["decoys"][:2]), ["decoys"]),
    (lambda r: r.update(keeps={"google": r["keeps"]["google"]}), ["keeps"]),
    (
        lambda r: r.update(keeps={"google": r["keeps"]["google"], "calendar": r["keeps"]["calendar"]}),
        ["different APIs"],
    ),
    (lambda r: r.update(need="other_name"), ["need", "other_name"]),
    (lambda r: r.update(need="No Name"), ["need"]),
]


@pytest.fixture
def write_need(tmp_path, data):
    """Writes one need of the project, changed, as the only file of a folder."""

    def write(change=None, text=None):
        record = yaml.safe_load((data / "needs" / f"{NEED}.yaml").read_text(encoding="utf-8"))
        if change:
            change(record)
        text = yaml.safe_dump(record, allow_unicode=True) if text is None else text
        (tmp_path / f"{NEED}.yaml").write_text(text, encoding="utf-8")
        return tmp_path

    return write


def test_unchanged_need_is_read(write_need, toolbox):
    assert [need.need for need in read_needs(write_need(), toolbox)] == [NEED]


@pytest.mark.parametrize("case", range(len(WRONG_NEEDS)))
def test_wrong_need(write_need, toolbox, case):
    change, parts = WRONG_NEEDS[case]
    folder = write_need(change)
    refused(lambda: read_needs(folder, toolbox), f"{NEED}.yaml", *parts)


@pytest.mark.parametrize("text", ["", "- a", "5", "need: [", "need: airport_pickup", "\x00"])
def test_file_that_is_no_need(write_need, toolbox, text):
    folder = write_need(text=text)
    refused(lambda: read_needs(folder, toolbox), f"{NEED}.yaml")


def test_folder_without_needs(tmp_path, toolbox):
    refused(lambda: read_needs(tmp_path, toolbox), tmp_path.name, "no need")
    refused(lambda: read_needs(tmp_path / "none", toolbox), "none")


@pytest.mark.parametrize("kind", ["meaning", "either"])
def test_phrasing_that_stands_in_two_needs(write_need, toolbox, data, kind):
    def borrow(record):
        record["need"] = "zzz"
        record["phrasings"][kind] = record["phrasings"][kind][:1] + [f"{n} zebras, {kind}?" for n in range(4)]
        other = "either" if kind == "meaning" else "meaning"
        record["phrasings"][other] = [f"{n} gnus, {kind}?" for n in range(5)]

    folder = write_need(borrow)
    (folder / f"{NEED}.yaml").rename(folder / "zzz.yaml")
    assert len(read_needs(folder, toolbox)) == 1
    shutil.copy(data / "needs" / f"{NEED}.yaml", folder)
    refused(lambda: read_needs(folder, toolbox), "zzz.yaml", kind, f"{NEED}.yaml")


RAW_NEEDS = {
    "decoy number": lambda r: decoy(r, title=2024),
    "decoy null": lambda r: decoy(r, notes=None),
    "plan list of numbers": lambda r: plan(r, "track_flight(flight=[1, 2])"),
    "plan unhashable": lambda r: plan(r, "track_flight(flight={[]: 1})"),
    "plan double star": lambda r: plan(r, "track_flight(seat=1, **{'x': 1})"),
}


@pytest.mark.parametrize("case", RAW_NEEDS)
def test_need_with_a_value_of_another_type(write_need, toolbox, case):
    folder = write_need(RAW_NEEDS[case])
    refused(lambda: read_needs(folder, toolbox), f"{NEED}.yaml")


UNCHECKED_NEEDS = {
    "alternatives within alternatives": lambda r: phrasing(r, "When [does [my|a]|will the] zebra land?"),
    "bracket left open": lambda r: phrasing(r, "When [does|will the zebra land?"),
    "direction of a call": lambda r: first_wording(r).update(direction="sideways"),
    "list for a text": lambda r: r["keeps"]["calendar"]["items"]["event"]["wordings"][0].update(title=["a", "b"]),
    "no value for a variable": lambda r: r["vars"].update(flight=[]),
    "slot within a slot": lambda r: decoy(r, title="{n:{zebra}}"),
}


@pytest.mark.parametrize("case", UNCHECKED_NEEDS)
def test_need_that_cannot_be_voiced_or_written(write_need, toolbox, case):
    folder = write_need(UNCHECKED_NEEDS[case])
    refused(lambda: read_needs(folder, toolbox), f"{NEED}.yaml")


# ---------------------------------------------------------------- names and background items


@pytest.fixture
def cast_folder(tmp_path, data):
    shutil.copytree(data / "background", tmp_path / "background")
    shutil.copy(data / "people.yaml", tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("file", "text", "parts"),
    [
        ("background/notes.yaml", "- {title: a}\n- {title: b, colour: red}", ["record 2", "colour"]),
        ("background/notes.yaml", "- {body: a}", ["record 1", "title"]),
        ("background/mail.yaml", "- {subject: a}", ["record 1", "sender"]),
        ("background/notes.yaml", "- {title: [", ["cannot be read"]),
        ("people.yaml", "first_names: [", ["cannot be read"]),
        ("background/notes.yaml", "", []),
        ("background/notes.yaml", "- only text", ["record 1"]),
        ("background/notes.yaml", "title: a", []),
        (
            "background/notes.yaml",
            "- {title: 1984}",
            ["record 1", "title"],
        ),
        (
            "background/notes.yaml",
            '- {title: "{nobody}"}',
            ["record 1", "nobody"],
        ),
        (
            "background/phone_call.yaml",
            "- {contact: A, direction: sideways}",
            ["record 1", "direction"],
        ),
        ("people.yaml", "first_names: [A, B]", ["first_names"]),
        ("people.yaml", "", []),
    ],
)
def test_wrong_cast(cast_folder, needs, toolbox, file, text, parts):
    (cast_folder / file).write_text(text, encoding="utf-8")
    refused(lambda: simulate_from(needs, read_cast(cast_folder), toolbox, TINY), file.rsplit("/")[-1], *parts)


@pytest.mark.parametrize("file", ["background/music.yaml", "people.yaml"])
def test_cast_without_a_file(cast_folder, file):
    (cast_folder / file).unlink()
    refused(lambda: read_cast(cast_folder), file.rsplit("/")[-1])


def test_too_many_queries_for_the_phrasings(needs, cast, toolbox):
    """What has been said is not said again; a world that would need to is refused."""
    few = [need for need in needs if need.hobby is None and need.trait is None and need.age is None][:4]
    sizes = {"n_personas": 40, "n_training_queries": 900, "n_evaluation_queries": 100}
    knobs = WorldKnobs(world="hard", seed=1, habit_share=1.0, meaning_share=0.0, **sizes)
    refused(lambda: simulate_from(few, cast, toolbox, knobs), "habit", "phrasing")


# ---------------------------------------------------------------- a world of one's own


def test_world_of_one_s_own(records, write_world):
    world = read_world(write_world(records))
    tables = frames(world)
    assert world.sides == {"a-q0": "training", "b-q0": "evaluation"}
    assert list(tables["queries"]["split"]) == ["training", "evaluation"]
    assert list(tables["queries"]["weekday"]) == [0, 0]
    assert list(tables["items"]["text"][:2]) == ["Yeast Inside", "Dough. flour, water, salt"]
    assert list(tables["gold"]["relevant"]) == [["a-note"], ["b-note"]]
    assert tables["provenance"].empty
    assert len(tables["opens"]) == 2


def test_labels_come_in_the_order_of_the_queries(records, write_world):
    records["gold"].reverse()
    assert [gold.query for gold in read_world(write_world(records)).gold] == ["a-q0", "b-q0"]


@pytest.mark.parametrize(
    ("file", "field", "value", "parts"),
    [
        ("queries", "persona", "c", ["a-q0", "persona", "'c'"]),
        ("queries", "split", "test", ["a-q0", "split", "'test'"]),
        ("queries", "split", None, ["a-q0", "split"]),
        ("queries", "split", ["training"], ["a-q0", "split"]),
        ("queries", "id", "b-q0", ["b-q0", "twice"]),
        ("queries", "place", "moon", ["line 1", "place"]),
        ("queries", "time", "noon", ["line 1", "time"]),
        ("queries", "text", "", ["line 1", "text"]),
        ("queries", "kind", "habit", ["line 1", "kind"]),
        ("gold", "relevant", ["a-shoe"], ["a-q0", "relevant", "a-shoe"]),
        ("gold", "relevant", ["b-note"], ["a-q0", "relevant", "b-note"]),
        ("gold", "relevant", [], ["line 1", "relevant"]),
        ("gold", "relevant", ["a-note"] * 6, ["line 1", "relevant"]),
        ("gold", "apis", ["fly_home"], ["a-q0", "apis", "fly_home"]),
        ("gold", "apis", [], ["line 1", "apis"]),
        ("gold", "apps", ["fax"], ["line 1", "apps.0"]),
        ("gold", "kind", "mood", ["line 1", "kind"]),
        ("gold", "answers", "open_note()", ["line 1", "answers"]),
        ("gold", "colour", "red", ["line 1", "colour"]),
        ("gold", "query", "c-q0", ["c-q0"]),
        (
            "gold",
            "answers",
            [{"fly_home": {}}],
            ["a-q0", "answers", "fly_home"],
        ),
        ("gold", "plan", "fly_home(", ["a-q0", "plan"]),
        (
            "gold",
            "relevant",
            ["a-note", "a-note"],
            ["relevant", "a-note"],
        ),
    ],
)
def test_wrong_record(records, write_world, file, field, value, parts):
    records[file][0][field] = value
    folder = write_world(records)
    refused(lambda: read_world(folder), f"{file}.jsonl", *parts)


def test_query_without_split(records, write_world):
    del records["queries"][1]["split"]
    folder = write_world(records)
    refused(lambda: read_world(folder), "queries.jsonl", "b-q0", "split")


def test_query_without_label(records, write_world):
    del records["gold"][0]
    folder = write_world(records)
    refused(lambda: read_world(folder), "gold.jsonl", "a-q0")


def test_queries_without_labels_are_counted(records, write_world):
    records["gold"] = []
    folder = write_world(records)
    refused(lambda: read_world(folder), "gold.jsonl", "a-q0", "1 more")


def test_query_labelled_twice(records, write_world):
    records["gold"].append(records["gold"][0])
    folder = write_world(records)
    refused(lambda: read_world(folder), "gold.jsonl", "a-q0", "twice")


def test_persona_on_both_sides(records, write_world):
    records["queries"].append(records["queries"][0] | {"id": "a-q1", "split": "evaluation"})
    folder = write_world(records)
    refused(lambda: read_world(folder), "queries.jsonl", "a-q1", "split", "persona a")


@pytest.mark.parametrize("name", ["personas.jsonl", "queries.jsonl", "gold.jsonl", "toolbox.yaml"])
def test_missing_file(records, write_world, name):
    folder = write_world(records)
    (folder / name).unlink()
    refused(lambda: read_world(folder), name)


@pytest.mark.parametrize("name", ["personas.jsonl", "queries.jsonl", "gold.jsonl", "toolbox.yaml"])
def test_file_that_is_no_text(records, write_world, name):
    folder = write_world(records)
    (folder / name).write_bytes(b"\xff\xfe\x00\x81")
    refused(lambda: read_world(folder), name)


@pytest.mark.parametrize("name", ["queries", "gold"])
@pytest.mark.parametrize("line", ["5", "null", "[]", '"split"', '["split"]'])
def test_line_that_is_no_object(records, write_world, name, line):
    records[name][1] = line
    folder = write_world(records)
    refused(lambda: read_world(folder), f"{name}.jsonl", "line 2")


def test_world_without_queries(records, write_world):
    folder = write_world(records | {"queries": [], "gold": []})
    refused(lambda: frames(read_world(folder)), "queries.jsonl")


def test_item_id_of_two_personas(records, write_world):
    records["personas"][1]["apps"]["music"][0]["id"] = "a-song"
    folder = write_world(records)
    refused(lambda: read_world(folder), "personas.jsonl", "a-song")


def test_queries_with_and_without_a_time_zone(records, write_world):
    records["queries"][0]["time"] = "2023-12-11T07:30:00+01:00"
    folder = write_world(records)
    refused(lambda: frames(read_world(folder)), "queries.jsonl", "time")


# ---------------------------------------------------------------- round trip


def save(world, folder, data):
    """A world as a folder of files; the inverse of read_world."""
    queries = [query.model_dump(mode="json") | {"split": world.sides[query.id]} for query in world.queries]
    files = {
        "personas": [persona.model_dump_json() for persona in world.personas],
        "queries": [json.dumps(query) for query in queries],
        "gold": [gold.model_dump_json() for gold in world.gold],
    }
    for name, lines in files.items():
        (folder / f"{name}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    shutil.copy(data / "toolbox.yaml", folder)


def test_simulated_world_survives_its_files(make_world, tmp_path, data):
    world = make_world(seed=2, n_personas=40, n_training_queries=200, n_evaluation_queries=50)
    save(world, tmp_path, data)
    read = read_world(tmp_path)
    assert read.personas == world.personas
    before, after = frames(world), frames(read)
    for name in ("items", "opens", "queries", "gold", "toolbox"):
        assert before[name].equals(after[name]), name
    assert after["provenance"].empty


@pytest.mark.parametrize("separator", ["\u2028", "\u2029", "\u0085", "\x1c"], ids=ascii)
@pytest.mark.parametrize("file", ["personas", "queries"])
def test_line_separators_within_a_text(records, write_world, file, separator):
    """JSON allows these characters in a string, and pydantic writes all but the last as they are."""
    text = f"one{separator}two"
    records[file][0]["name" if file == "personas" else "text"] = text
    world = read_world(write_world(records))
    assert text in [world.personas[0].name, world.queries[0].text]


def test_too_few_personas_to_train_on():
    queries = pd.DataFrame({"persona": ["a", "b", "c", "c", "d", "d"], "split": ["training"] * 4 + ["evaluation"] * 2})
    gold = pd.DataFrame({"need": ["dinner", "lesson", "lesson"]})
    check_trainable(queries, gold, folds=2)
    refused(lambda: check_trainable(queries, gold, folds=3), "3 personas with training queries", "at least 4")
    refused(lambda: check_trainable(queries[:4], gold, folds=2), "0 with evaluation queries")
    refused(lambda: check_trainable(queries[:5], gold, folds=2), "1 evaluation query", "2 are needed")
    refused(lambda: check_trainable(queries, gold[1:], folds=2), "need", "the same for all", "2 are needed")


def test_a_plan_that_its_own_answers_do_not_accept(records, write_world):
    """Every plan would be scored against the answers: the label itself would be wrong."""
    (calls,) = records["gold"][0]["answers"]
    calls.update({api: {name: ["something else"] for name in arguments} for api, arguments in calls.items()})
    assert any(calls.values())
    refused(lambda: read_world(write_world(records)), "gold.jsonl", "a-q0", "plan", "answers")
