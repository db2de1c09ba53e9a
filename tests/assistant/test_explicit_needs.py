"""Needs that say their arguments: what the reader refuses, what a query says, what the shipped ones cover."""

from __future__ import annotations

import shutil
from datetime import datetime

import numpy as np
import pytest
import yaml

from lib.assistant.audit import stands_in
from lib.assistant.explicit_needs import read_explicit_needs
from lib.assistant.needs import alternatives
from lib.assistant.personas import LivedNeed, Scene, draw_life, draw_slot, furnish
from lib.assistant.queries import Query, families_of, label, normal_form, voice
from lib.assistant.schemas import APPS, WorldKnobs
from lib.assistant.world import read_all_needs
from lib.workbook.inputs import InputError

NOW = datetime(2023, 12, 14, 15, 10)
NEED = "remind_me"


@pytest.fixture(scope="module")
def life(needs, cast):
    return draw_life(0, needs, cast, dict.fromkeys(APPS, 10**6), np.random.default_rng(3))


def asked(need, keep_name, family, life, toolbox):
    """Text and gold of one query of an explicit need."""
    keep = need.keeps[keep_name]
    variables = {name: values[life.rng.integers(len(values))] for name, values in need.vars.items()}
    lived = LivedNeed(
        need, keep_name, draw_slot(need.habit, life.places, life.rng), variables, dict.fromkeys(keep.items, 1)
    )
    furnish(life, lived, NOW, True, Scene("training", [need], None, WorldKnobs()))
    said = need.draw_said(NOW, life.rng)
    text = voice(family, lived, life, said)
    query = Query(id="q", persona="p0000", text=text, time=NOW, place="home")
    return text, label(query, "meaning", family, lived, life, toolbox, said)


# ---------------------------------------------------------------- the shipped ones


def test_there_are_enough_and_each_is_said_in_many_ways(explicit_needs):
    assert len(explicit_needs) >= 25
    for need in explicit_needs:
        assert len({normal_form(text) for text in need.phrasings}) >= 18, need.need
        for pool in need.said.values():
            assert len(pool) == len(set(pool)), need.need
    assert {need.group for need in explicit_needs} == {"said", "placed", "unfilled", "unserved"}


def test_a_name_cannot_stand_in_both_folders(tmp_path, data, needs, explicit_needs, toolbox):
    found = [need.need for need in read_all_needs(data, toolbox) if need.group != "hop"]
    assert found == [need.need for need in [*needs, *explicit_needs]]
    (tmp_path / "needs" / "explicit").mkdir(parents=True)
    for folder, name in ((".", "bin_day"), ("explicit", NEED)):
        shutil.copy(data / "needs" / folder / f"{name}.yaml", tmp_path / "needs" / folder)
    assert len(read_all_needs(tmp_path, toolbox)) == 2
    other = (tmp_path / "needs" / "bin_day.yaml").read_text(encoding="utf-8").replace("bin_day", NEED)
    (tmp_path / "needs" / "bin_day.yaml").unlink()
    (tmp_path / "needs" / f"{NEED}.yaml").write_text(other, encoding="utf-8")
    with pytest.raises(InputError, match=rf"explicit.{NEED}.yaml: a need of that name"):
        read_all_needs(tmp_path, toolbox)


def test_every_api_is_right_for_some_need(needs, explicit_needs, toolbox):
    def called(some):
        return {api for need in some for keep in need.keeps.values() for api, _ in keep.calls}

    idle = {api.api for api in toolbox} - called(needs)
    assert len(idle) == 21
    assert idle <= called(explicit_needs)


def test_what_is_said_stands_in_the_query(explicit_needs, life, toolbox):
    """Every argument of every plan, in every phrasing; and of the plans that do as well."""
    for need in explicit_needs:
        for keep_name in need.keeps:
            for family in families_of([need]):
                text, gold = asked(need, keep_name, family, life, toolbox)
                for answers in (gold.answers, *(other.answers for other in gold.also)):
                    for ways in (ways for call in answers for given in call.values() for ways in given.values()):
                        said = any(stands_in(way, text, NOW) for way in ways if way != "")
                        assert said or isinstance(ways[0], bool) or ways == ["2023-12-14"], (family.id, text, ways)


def test_a_persons_first_name_is_accepted_in_full_and_nothing_may_be_left_out(explicit_needs, life, toolbox):
    [need] = [need for need in explicit_needs if need.need == "event_with_guest"]
    _, gold = asked(need, "talk", families_of([need])[0], life, toolbox)
    event, invitation = gold.answers
    friend = life.people["friend"]
    assert invitation["invite_to_event"]["contact"] == [friend.first, friend.name]
    assert all(values and "" not in values for values in event["create_event"].values())
    assert len(event["create_event"]["start"]) == 1


def test_numbers_are_numbers(explicit_needs, life, toolbox):
    [need] = [need for need in explicit_needs if need.need == "sleep_timer"]
    text, gold = asked(need, "music", families_of([need])[0], life, toolbox)
    [minutes] = gold.answers[0]["set_sleep_timer"]["minutes"]
    assert isinstance(minutes, int)
    assert str(minutes) in text


def test_a_form_voiced_twice_says_other_things(explicit_needs, life, toolbox):
    [need] = [need for need in explicit_needs if need.need == NEED]
    plans = {asked(need, "reminders", families_of([need])[0], life, toolbox)[1].plan for _ in range(12)}
    assert len(plans) > 6


# ---------------------------------------------------------------- what is refused


def plans(record, *calls):
    record["keeps"]["reminders"]["plan"] = list(calls)


WRONG = [
    (lambda r: r["phrasings"].append("Remind me to {task}."), ["create_reminder(due)", "does not say"]),
    (lambda r: r["phrasings"].append("[Remind|Tell] me {when.on_day} at {when.clock}."), ["create_reminder(title)"]),
    (lambda r: r["phrasings"].append("Remind me {when.moment} to {task}."), ["when.moment"]),
    (lambda r: r["phrasings"].append("Tell {zebra} {when.on_day} at {when.clock} to {task}."), ["zebra"]),
    (lambda r: r.update(phrasings=r["phrasings"][:5]), ["phrasings"]),
    (lambda r: r.update(phrasings={"meaning": r["phrasings"]}), ["phrasings"]),
    (lambda r: r.pop("when"), ["when"]),
    (lambda r: r.update(when={"days": [3, 1], "hours": [8, 20]}), ["when", "days"]),
    (lambda r: r.update(said={"task": []}), ["said.task"]),
    (lambda r: r.update(vars={"task": ["a", "b"]}), ["task", "said and in vars"]),
    (lambda r: r["decoys"][0].update(title="{task}"), ["decoy", "task"]),
    (lambda r: r["keeps"]["reminders"]["items"]["entry"]["wordings"][0].update(title="{task}"), ["entry", "task"]),
    (lambda r: plans(r, "create_reminder()"), ["title"]),
    (lambda r: plans(r, 'create_reminder(title="{entry.title}")'), ["does not say", "{entry.title}"]),
    (lambda r: plans(r, 'create_reminder(title="a call")'), ["does not say", "a call"]),
    (lambda r: plans(r, 'set_sleep_timer(minutes="{task}")'), ["set_sleep_timer(minutes)", "integer"]),
    (lambda r: plans(r, 'zebra(title="{task}")'), ["no API", "zebra"]),
    (lambda r: r["keeps"]["reminders"].update(also=[['zebra(title="{task}")']]), ["no API", "zebra"]),
    (lambda r: r["keeps"]["reminders"].update(also=[['search_web(query="a call")']]), ["does not say", "a call"]),
    (lambda r: r.update(keeps={}), ["keeps"]),
    (lambda r: r["keeps"].update(other=r["keeps"]["reminders"] | {"plan": ["default()"]}), ["default()"]),
    (lambda r: r.update(cot=["one"]), ["cot"]),
    (lambda r: r.update(need="other"), ["need", "other"]),
]


@pytest.fixture
def write_need(tmp_path, data):
    def write(change=None):
        record = yaml.safe_load((data / "needs" / "explicit" / f"{NEED}.yaml").read_text(encoding="utf-8"))
        if change:
            change(record)
        (tmp_path / f"{NEED}.yaml").write_text(yaml.safe_dump(record, allow_unicode=True), encoding="utf-8")
        return tmp_path

    return write


def test_an_unchanged_need_is_read(write_need, toolbox):
    [need] = read_explicit_needs(write_need(), toolbox)
    assert (need.need, need.group, need.api_source) == (NEED, "said", "need")
    assert all(form for text in need.phrasings for form in alternatives(text))


@pytest.mark.parametrize("case", range(len(WRONG)))
def test_a_broken_need_is_refused_in_one_sentence(write_need, toolbox, case):
    change, parts = WRONG[case]
    folder = write_need(change)
    with pytest.raises(InputError) as caught:
        read_explicit_needs(folder, toolbox)
    message = str(caught.value)
    assert "\n" not in message
    for part in [f"{NEED}.yaml", *parts]:
        assert part in message
