"""Templates, days and times as people say them, and the needs of the project: each can be lived and said."""

import itertools
from datetime import datetime, timedelta

import numpy as np
import pytest
import yaml

from lib.assistant.audit import stands_in
from lib.assistant.needs import draw_moment, fill_template, moment_words, parse_call, read_needs, slots_of
from lib.assistant.personas import LivedNeed, add_item, draw_life, draw_slot, furnish, moment_facts
from lib.assistant.queries import Family, Query, label_query, say_something_new
from lib.assistant.schemas import APPS, WorldKnobs
from lib.assistant.toolbox import DEFAULT_API
from lib.workbook.inputs import InputError

NOW = datetime(2023, 12, 14, 15, 10)  # a Thursday
MOMENTS = [(datetime(2023, 12, 1, 9), "home"), (datetime(2023, 12, 2, 9), "work")]
PYTHON_TYPES = {"string": str, "integer": int, "number": (int, float), "boolean": bool, "array": list}


def test_a_slot_that_nothing_fills_is_named():
    assert fill_template(["{a} b", 3], {"a": "x"}) == ["x b", 3]
    assert slots_of(["{a.first} and {b}", "{a}"]) == ["a.first", "b", "a"]
    for template in ("Where is {nobody}?", "{a.shoe}", "{a"):
        with pytest.raises(InputError, match=r"a slot cannot be filled"):
            fill_template(template, {"a": "x"})


@pytest.mark.parametrize("text", ["f(1)", "a.f(x=1)", "f(x={})"])
def test_what_is_no_call(text):
    with pytest.raises(ValueError, match="is no call with literal keyword arguments"):
        parse_call(text)


def test_days_and_half_hours_in_words():
    named = [moment_words(NOW + timedelta(days=ahead), NOW)[0] for ahead in range(3)]
    assert named == ["today", "tomorrow", "Saturday"]
    assert moment_words(datetime(2023, 12, 14, 12), NOW)[1] == ["noon", "12 noon"]
    evening = {"7:30 pm", "half past seven in the evening", "7:30 in the evening", "19:30"}
    assert set(moment_words(datetime(2023, 12, 14, 19, 30), NOW)[1]) == evening
    start = datetime(2023, 12, 14)
    said = [words for n in range(14, 48) for words in moment_words(start + timedelta(minutes=30 * n), NOW)[1]]
    assert len(said) == len(set(said)), "no two are said alike"


def test_what_is_drawn_lies_ahead_and_is_found_in_its_own_words():
    rng, when = np.random.default_rng(0), {"days": (0, 6), "hours": (8, 20)}
    for now in (NOW, NOW.replace(hour=21), NOW.replace(hour=6)):
        for _ in range(100):
            spoken = draw_moment(when, now, rng)
            moment = datetime.fromisoformat(spoken.moment)
            assert now < moment <= now + timedelta(days=7)
            assert 8 <= moment.hour <= 20
            text = f"Remind me {spoken.on_day} at {spoken.clock}."
            assert stands_in(spoken.moment, text, now)
            assert stands_in(spoken.date, text.upper(), now)
            assert not stands_in(spoken.moment, text.replace(spoken.clock, f"{spoken.clock}:30"), now)
            for hours in (0.5, -0.5, 1, 12, 24):
                other = moment + timedelta(hours=hours)
                assert not stands_in(f"{other:%Y-%m-%d %H:%M}", text, now)


@pytest.fixture(scope="module")
def life(cast):
    """A persona with room for anything."""
    return draw_life(0, cast, WorldKnobs(), dict.fromkeys(APPS, 10**6), np.random.default_rng(3))


def test_every_wording_decoy_and_background_item_becomes_an_item(cast, life):
    needs = cast.needs
    wordings = [(need, item.app, w) for need in needs for k in need.keeps.values() for item in k.items.values()
                for w in item.wordings]  # fmt: skip
    wordings += [(need, decoy["app"], decoy) for need in needs for decoy in need.decoys]
    wordings += [(needs[0], app, wording) for app in APPS for wording in cast.background[app]]
    for which, (need, app, wording) in enumerate(wordings):
        variables = {name: values[which % len(values)] for name, values in need.vars.items()}
        namespace = life.people | life.facts | moment_facts(NOW, life.rng) | variables
        item = add_item(life, app, wording, namespace, MOMENTS, NOW, ("background", "", ""))
        assert item.headline
        assert not set("{}") & set(item.text), (need.need, wording)


@pytest.mark.slow
def test_every_phrasing_of_every_keep_can_be_said_and_labelled(cast, life):
    """With the tools' arguments, none missing, of their types; an explicit need's stand in the query."""
    toolbox = cast.toolbox
    for need in cast.needs:
        phrasings = [Family("id", need.need, kind, text) for kind, texts in need.voiced.items() for text in texts]
        for (keep_name, keep), family in itertools.product(need.keeps.items(), phrasings):
            variables = {name: values[life.rng.integers(len(values))] for name, values in need.vars.items()}
            slot = draw_slot(need.habit, life.places, life.rng)
            lived = LivedNeed(need, keep_name, keep, slot, variables, dict.fromkeys(keep.items, 1))
            furnish(life, lived, NOW, True)
            _, text, said = say_something_new(lived, "", {(need.need, ""): [family]}, set(), life, NOW)
            query = Query(id="q", persona="p0000", text=text, time=NOW, place="home")
            gold = label_query(query, "meaning", family, lived, life, said)
            text = text.replace("while I clean", " while I clean")  # lacks a blank, as kept worlds have it
            assert not set("{}[]|") & set(text), (family, text)
            assert "{" not in gold.plan, (family, gold.plan)
            assert text[0].isupper() or not text[0].isalpha() or text == text.lower(), family
            for answers in (gold.answers, *(other.answers for other in gold.also)):
                for api, arguments in [call for answer in answers for call in answer.items()]:
                    known = toolbox[api].arguments if api != DEFAULT_API else {}
                    assert {name for name, one in known.items() if one.required} <= set(arguments) <= set(known)
                    for name, ways in arguments.items():
                        assert isinstance(ways[0], PYTHON_TYPES[known[name].type]), (family, api, name)
                        assert ways[0] != "", (family, api, name)
                        found = any(stands_in(way, text, NOW) for way in ways if way != "")
                        free = need.group == "kept" or isinstance(ways[0], bool) or ways == ["2023-12-14"]
                        assert found or free, (family, text, ways)


def test_a_wrong_file_is_named_with_its_field(tmp_path, data):
    record = yaml.safe_load((data / "needs" / "bin_day.yaml").read_text(encoding="utf-8"))
    path = tmp_path / "bin_day.yaml"
    for change, named in (({"colour": "red"}, "colour"), ({"need": "other"}, "expected the file's name")):
        path.write_text(yaml.safe_dump(record | change, allow_unicode=True), encoding="utf-8")
        with pytest.raises(InputError, match=rf"bin_day\.yaml.*{named}"):
            read_needs(tmp_path)
    next(iter(record["keeps"].values()))["plan"] = ["open_note(1)"]
    path.write_text(yaml.safe_dump(record, allow_unicode=True), encoding="utf-8")
    with pytest.raises(InputError, match=r"bin_day\.yaml.*is no call"):
        read_needs(tmp_path)
