"""Templates, days and times as people say them, and the needs of the project: each can be lived and said."""

import itertools
import re
import shutil
from collections import Counter
from datetime import datetime, timedelta

import numpy as np
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from lib.assistant.audit import stands_in
from lib.assistant.needs import (
    GROUPS,
    KINDS,
    When,
    alternatives,
    clock_words,
    day_words,
    draw_moment,
    expand,
    fill_template,
    is_said,
    parse_call,
    read_needs,
    slots_of,
)
from lib.assistant.personas import LivedNeed, draw_life, draw_slot, furnish, make_item, moment_facts
from lib.assistant.queries import Query, families_of, label_query, normal_text, print_call, voice
from lib.assistant.schemas import APPS, WorldKnobs
from lib.assistant.toolbox import DEFAULT_API
from lib.retrieval.bm25 import content_terms
from lib.workbook.inputs import InputError

NOW = datetime(2023, 12, 14, 15, 10)  # a Thursday
MOMENTS = [(datetime(2023, 12, 1, 9), "home"), (datetime(2023, 12, 2, 9), "work")]
PYTHON_TYPES = {"string": str, "integer": int, "number": (int, float), "boolean": bool, "array": list}
relaxed = settings(deadline=None, database=None)
plain = st.text(st.characters(exclude_characters="[]|", exclude_categories=["Cs"]), max_size=8)
parts = st.lists(st.one_of(plain, st.lists(plain, min_size=1, max_size=4)), max_size=4)
strings = st.one_of(st.text(max_size=30), st.sampled_from(['"', "\n", "\\", 'say "it"', "Ünïcode ✓ 🎵", "#", "\x00"]))
scalars = st.one_of(strings, st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False))


# ---------------------------------------------------------------- templates and calls


@given(parts)
@relaxed
def test_alternatives_are_all_combinations_in_order(pieces):
    template = "".join(f"[{'|'.join(piece)}]" if isinstance(piece, list) else piece for piece in pieces)
    combinations = itertools.product(*(piece if isinstance(piece, list) else [piece] for piece in pieces))
    forms = ["".join(form) for form in combinations]
    assert alternatives(template) == forms
    numbers = itertools.product(*(range(len(piece)) for piece in pieces if isinstance(piece, list)))
    choices = [iter(combination) for combination in numbers]
    assert [expand(template, lambda options, rest=rest: options[next(rest)]) for rest in choices] == forms


def test_a_slot_that_nothing_fills_is_named():
    assert fill_template(["{a} b", 3], {"a": "x"}) == ["x b", 3]
    assert slots_of(["{a.first} and {b}", "{a}"]) == ["a.first", "b", "a"]
    for template in ("Where is {nobody}?", "{a.shoe}", "{a"):
        with pytest.raises(InputError, match=r"a slot cannot be filled"):
            fill_template(template, {"a": "x"})


@given(
    st.dictionaries(
        st.sampled_from(["to", "title", "count", "names"]), st.one_of(scalars, st.lists(scalars, max_size=4))
    )
)
@relaxed
def test_a_printed_call_parses_back(arguments):
    text = print_call("send_mail", arguments)
    assert "\n" not in text
    assert repr(parse_call(text)) == repr(("send_mail", arguments)), "True is not 1, nor 1.0"


@pytest.mark.parametrize("text", ["f", "f(1)", "f(x=y)", "f(x=1) + 1", "a.f(x=1)", "f(x=1); g()", "f(x={})", "f(", ""])
def test_what_is_no_call(text):
    with pytest.raises(ValueError, match="is no call with literal keyword arguments"):
        parse_call(text)


# ---------------------------------------------------------------- days and times


def test_days_and_half_hours_in_words():
    named = [day_words(NOW.date() + timedelta(days=ahead), NOW.date()) for ahead in range(4)]
    assert named == [["today"], ["tomorrow"], ["Saturday"], ["Sunday"]]
    assert clock_words(datetime(2023, 12, 14, 12)) == ["noon", "12 noon"]
    evening = {"7:30 pm", "half past seven in the evening", "7:30 in the evening", "19:30"}
    assert set(clock_words(datetime(2023, 12, 14, 19, 30))) == evening
    start = datetime(2023, 12, 14)
    said = [words for n in range(14, 48) for words in clock_words(start + timedelta(minutes=30 * n))]
    assert len(said) == len(set(said)), "no two are said alike"


def test_what_is_drawn_lies_ahead_and_is_found_in_its_own_words():
    rng, when = np.random.default_rng(0), When(days=(0, 6), hours=(8, 20))
    for now in (NOW, NOW.replace(hour=21), NOW.replace(hour=6)):
        for _ in range(100):
            spoken = draw_moment(when, now, rng)
            moment = datetime.fromisoformat(spoken.moment)
            assert now < moment <= now + timedelta(days=7)
            assert 8 <= moment.hour <= 20
            text = f"Remind me {spoken.on_day} at {spoken.clock}."
            assert is_said(spoken.moment, text, now)
            assert is_said(spoken.date, text.upper(), now)
            assert not is_said(spoken.moment, text.replace(spoken.clock, f"{spoken.clock}:30"), now)
            for hours in (0.5, -0.5, 1, 12, 24):
                other = moment + timedelta(hours=hours)
                assert not is_said(f"{other:%Y-%m-%d %H:%M}", text, now)


# ---------------------------------------------------------------- the needs of the project


@pytest.fixture(scope="module")
def life(needs, cast):
    """A persona with room for anything."""
    return draw_life(0, needs, cast, WorldKnobs(), dict.fromkeys(APPS, 10**6), np.random.default_rng(3))


@pytest.fixture(scope="module")
def kept(needs):
    return [need for need in needs if need.group == "kept"]


@pytest.fixture(scope="module")
def explicit(needs):
    return [need for need in needs if need.group != "kept"]


def asked(need, keep_name, family, life, toolbox):
    """Text and labels of one query, of a need that this persona lives in one keep."""
    keep = need.keeps[keep_name]
    variables = {name: values[life.rng.integers(len(values))] for name, values in need.vars.items()}
    slot = draw_slot(need.habit, life.places, life.rng)
    lived = LivedNeed(need, keep_name, slot, variables, dict.fromkeys(keep.items, 1))
    furnish(life, lived, NOW, True)
    said = need.draw_said(NOW, life.rng)
    text = voice(family, lived, life, said)
    query = Query(id="q", persona="p0000", text=text, time=NOW, place="home")
    return text, label_query(query, "meaning", family, lived, life, toolbox, said)


def test_there_are_enough_of_each_group_and_each_is_said_in_many_ways(kept, explicit):
    assert 60 <= len(kept) <= 100
    assert len(explicit) >= 25
    assert {need.group for need in [*kept, *explicit]} == set(GROUPS)
    for need in kept:
        families = families_of([need])
        assert len(families) >= 12, need.need
        assert {family.kind for family in families} == set(KINDS), need.need
        assert len({keep.calls[-1][0] for keep in need.keeps.values()}) >= 2, need.need
    for need in explicit:
        assert len({normal_text(text) for text in need.phrasings}) >= 18, need.need
        assert not set(need.said) & set(need.vars), need.need
        assert all(len(pool) == len(set(pool)) for pool in need.said.values()), need.need


def test_every_api_is_right_for_some_need(kept, explicit, toolbox):
    def called(some):
        return {api for need in some for keep in need.keeps.values() for api, _ in keep.calls}

    idle = {api.api for api in toolbox} - called(kept)
    assert len(idle) == 21
    assert idle <= called(explicit)


def test_every_wording_decoy_and_background_item_becomes_an_item(needs, cast, life):
    wordings = [(need, item.app, w) for need in needs for k in need.keeps.values() for item in k.items.values()
                for w in item.wordings]  # fmt: skip
    wordings += [(need, decoy["app"], decoy) for need in needs for decoy in need.decoys]
    wordings += [(needs[0], app, wording) for app in APPS for wording in cast.background[app]]
    for which, (need, app, wording) in enumerate(wordings):
        variables = {name: values[which % len(values)] for name, values in need.vars.items()}
        namespace = life.people | life.facts | moment_facts(NOW, life.rng) | variables
        item = make_item(app, wording, namespace, MOMENTS, NOW, life)
        assert item.headline
        assert not set("{}") & set(item.text), (need.need, wording)


def test_every_phrasing_of_every_keep_can_be_said_and_labelled(needs, life, toolbox):
    """With the tools' arguments, none missing, of their types; an explicit need's stand in the query."""
    for need in needs:
        for keep_name, family in itertools.product(need.keeps, families_of([need])):
            text, gold = asked(need, keep_name, family, life, toolbox)
            text = text.replace("while I clean", " while I clean")  # lacks a blank, as kept worlds have it
            assert not set("{}[]|") & set(text), (family.id, text)
            assert "{" not in gold.plan, (family.id, gold.plan)
            assert text[0].isupper() or not text[0].isalpha() or text == text.lower(), family.id
            for answers in (gold.answers, *(other.answers for other in gold.also)):
                for api, arguments in [call for answer in answers for call in answer.items()]:
                    known = toolbox[api].arguments if api != DEFAULT_API else {}
                    assert {name for name, one in known.items() if one.required} <= set(arguments) <= set(known)
                    for name, ways in arguments.items():
                        assert isinstance(ways[0], PYTHON_TYPES[known[name].type]), (family.id, api, name)
                        assert ways[0] != "", (family.id, api, name)
                        said = any(stands_in(way, text, NOW) for way in ways if way != "")
                        free = need.group == "kept" or isinstance(ways[0], bool) or ways == ["2023-12-14"]
                        assert said or free, (family.id, text, ways)


def test_a_persons_first_name_is_accepted_in_full_and_numbers_are_numbers(explicit, life, toolbox):
    by_name = {need.need: need for need in explicit}
    need = by_name["event_with_guest"]
    _, gold = asked(need, "talk", families_of([need])[0], life, toolbox)
    event, invitation = gold.answers
    friend = life.people["friend"]
    assert invitation["invite_to_event"]["contact"] == [friend.first, friend.name]
    assert all(values and "" not in values for values in event["create_event"].values())
    need = by_name["sleep_timer"]
    text, gold = asked(need, "music", families_of([need])[0], life, toolbox)
    [minutes] = gold.answers[0]["set_sleep_timer"]["minutes"]
    assert isinstance(minutes, int)
    assert str(minutes) in text


def test_no_phrasing_that_names_its_matter_and_no_wording_stands_twice(needs):
    forms = Counter(
        form
        for family in families_of(needs)
        if family.kind != "habit"
        for form in {normal_text(form) for form in alternatives(family.text)}
    )
    assert [form for form, count in forms.items() if count > 1] == []
    wordings = Counter(
        (template.app, str(sorted(wording.items())))
        for need in needs
        for keep in need.keeps.values()
        for template in keep.items.values()
        for wording in template.wordings
    )
    assert [wording for wording, count in wordings.items() if count > 1] == []


def test_phrasings_repeat_few_words_of_their_items(kept):
    """Under a fifth of the pairs of a form and a wording share a content word; names differ by persona, so slots do not
    count, but `vars` do."""
    for need in kept:
        values = {name: some[0] for name, some in need.vars.items()}

        def terms(text, values=values):
            return set(content_terms(re.sub(r"\{([\w.]+)\}", lambda match: values.get(match.group(1), " "), text)))

        templates = [item for keep in need.keeps.values() for item in keep.items.values()]
        wordings = [terms(" ".join(map(str, wording.values()))) for item in templates for wording in item.wordings]
        for kind, texts in need.voiced.items():
            pairs = [bool(terms(form) & wording) for t in texts for form in alternatives(t) for wording in wordings]
            assert np.mean(pairs) < 0.2, (need.need, kind)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"colour": "red"}, "colour"),
        ({"need": "other"}, "expected the file's name"),
        ({"habit": {"days": "daily", "hours": [7, 9], "places": ["moon"]}}, "habit.places.0"),
    ],
)
def test_a_wrong_file_is_named_with_its_field(tmp_path, data, change, named):
    record = yaml.safe_load((data / "needs" / "bin_day.yaml").read_text(encoding="utf-8"))
    path = tmp_path / "bin_day.yaml"
    path.write_text(yaml.safe_dump(record | change, allow_unicode=True), encoding="utf-8")
    with pytest.raises(InputError, match=rf"bin_day\.yaml.*{named}"):
        read_needs(tmp_path)


def test_a_name_cannot_stand_in_both_folders(tmp_path, data):
    (tmp_path / "explicit").mkdir()
    with pytest.raises(InputError, match="no need"):
        read_needs(tmp_path)
    shutil.copy(data / "needs" / "explicit" / "remind_me.yaml", tmp_path / "explicit")
    assert [need.group for need in read_needs(tmp_path)] == ["said"]
    other = (data / "needs" / "bin_day.yaml").read_text(encoding="utf-8").replace("need: bin_day", "need: remind_me")
    (tmp_path / "remind_me.yaml").write_text(other, encoding="utf-8")
    with pytest.raises(InputError, match=r"explicit.remind_me\.yaml: need"):
        read_needs(tmp_path)
