"""The toolbox, needs, names and background items that ship with the project."""

from __future__ import annotations

import re
from collections import Counter
from datetime import datetime

import numpy as np
import pytest

from lib.assistant.needs import KINDS, Need, alternatives, slots_of
from lib.assistant.personas import (
    ITEMS_PER_APP,
    LivedNeed,
    Scene,
    draw_life,
    draw_slot,
    fill,
    furnish,
    make_item,
    moment_facts,
)
from lib.assistant.queries import families_of, normal_form, resolve_plan, voice
from lib.assistant.schemas import APPS, WorldKnobs
from lib.assistant.toolbox import DEFAULT_API
from lib.retrieval.bm25 import content_terms

NOON = datetime(2023, 12, 10, 12)
MOMENTS = [(datetime(2023, 12, 1, 9), "home"), (datetime(2023, 12, 2, 9), "work")]
PYTHON_TYPES = {"string": str, "integer": int, "number": (int, float), "boolean": bool, "array": list}


@pytest.fixture(scope="module")
def life(needs, cast):
    """A persona with room for anything."""
    return draw_life(0, needs, cast, dict.fromkeys(APPS, 10**6), np.random.default_rng(3))


def namespace_of(need, life, which=0):
    variables = {name: values[which % len(values)] for name, values in need.vars.items()}
    return life.people | life.facts | moment_facts(NOON, life.rng) | variables


def live(need, keep_name, life):
    """The need lived by this persona in one keep, with its items written."""
    keep = need.keeps[keep_name]
    variables = {name: values[0] for name, values in need.vars.items()}
    slot = draw_slot(need.habit, life.places, life.rng)
    lived = LivedNeed(need, keep_name, slot, variables, dict.fromkeys(keep.items, 1))
    furnish(life, lived, NOON, True, Scene("training", [need], None, WorldKnobs()))
    return lived


def test_toolbox_has_the_published_number_of_apis(toolbox):
    assert len(toolbox) == 59
    assert Counter(api.app for api in toolbox) == {
        "music": 11,
        "google": 10,
        "notes": 9,
        "mail": 8,
        "phone_call": 8,
        "calendar": 7,
        "reminders": 6,
    }


def test_items_per_app_are_the_published_ones():
    published = {
        "mail": 2.93,
        "calendar": 5.63,
        "google": 9.57,
        "notes": 2.23,
        "music": 4.38,
        "reminders": 4.81,
        "phone_call": 2.34,
    }
    assert published == ITEMS_PER_APP


def test_tool_texts_are_distinct(toolbox):
    assert len({api.description for api in toolbox}) == len(toolbox)


def test_number_of_needs(needs, data):
    assert 60 <= len(needs) <= 100
    assert [need.need for need in needs] == sorted(path.stem for path in (data / "needs").glob("*.yaml"))


def test_every_need_has_a_dozen_phrasings_and_two_final_apis(needs):
    for need in needs:
        families = families_of([need])
        assert len(families) >= 12, need.need
        assert {family.kind for family in families} == set(KINDS), need.need
        assert len({keep.calls[-1][0] for keep in need.keeps.values()}) >= 2, need.need


def test_plans_call_most_of_the_toolbox_and_every_app(needs, toolbox):
    called = {api for need in needs for keep in need.keeps.values() for api, _ in keep.calls}
    assert DEFAULT_API in called
    called.remove(DEFAULT_API)
    assert {toolbox[api].app for api in called} == set(APPS)
    assert len(called) > len(toolbox) / 2


def test_no_phrasing_that_names_its_matter_stands_twice(needs):
    forms = Counter(
        form
        for family in families_of(needs)
        if family.kind in ("meaning", "either")
        for form in {normal_form(form) for form in alternatives(family.text)}
    )
    assert [form for form, count in forms.items() if count > 1] == []


def test_ids_of_phrasings_are_unique(needs):
    families = families_of(needs)
    assert len({family.id for family in families}) == len(families)


def test_phrasings_leave_no_bracket_after_expansion(needs):
    for family in families_of(needs):
        for form in alternatives(family.text):
            assert not set("[]|") & set(form), family.id


def lexical_overlap(need: Need) -> dict[str, float]:
    """Share of (phrasing form, item wording) pairs with a content word in common, by kind of phrasing.

    Words are compared by stem and without stop words; names and other slots do not count, as they differ by persona,
    but `vars` do, with their first value.
    """
    fill = {name: values[0] for name, values in need.vars.items()}

    def terms(value: str | list[str]) -> set[str]:
        text = " ".join(value) if isinstance(value, list) else value
        return set(content_terms(re.sub(r"\{([\w.]+)\}", lambda match: fill.get(match.group(1), " "), text)))

    wordings = [
        set().union(*(terms(value) for value in wording.values()))
        for keep in need.keeps.values()
        for item in keep.items.values()
        for wording in item.wordings
    ]
    shares: dict[str, float] = {}
    for kind in KINDS:
        forms = [terms(form) for text in getattr(need.phrasings, kind) for form in alternatives(text)]
        pairs = [bool(form & wording) for form in forms for wording in wordings]
        shares[kind] = sum(pairs) / len(pairs)
    return shares


def test_lexical_overlap_is_below_a_fifth(needs):
    too_much = {
        (need.need, kind): share for need in needs for kind, share in lexical_overlap(need).items() if share >= 0.2
    }
    assert too_much == {}


def test_every_phrasing_fills(needs, life):
    for need in needs:
        namespace = namespace_of(need, life)
        for family in families_of([need]):
            for form in alternatives(family.text):
                text = fill(form, namespace)
                assert text.strip()
                assert not set("{}") & set(text), family.id


def test_every_wording_and_decoy_becomes_an_item(needs, life):
    for need in needs:
        wordings = [
            (template.app, wording)
            for keep in need.keeps.values()
            for template in keep.items.values()
            for wording in template.wordings
        ]
        wordings += [(decoy["app"], decoy) for decoy in need.decoys]
        for which, (app, wording) in enumerate(wordings):
            item = make_item(app, wording, namespace_of(need, life, which), MOMENTS, NOON, life)
            assert item.headline
            assert not set("{}") & set(item.text), (need.need, wording)


def test_every_background_item_fills(cast, life):
    for app in APPS:
        for wording in cast.background[app]:
            namespace = life.people | life.facts | moment_facts(NOON, life.rng)
            item = make_item(app, wording, namespace, MOMENTS, NOON, life)
            assert item.headline
            assert not set("{}") & set(item.text), wording


def test_background_items_are_distinct(cast):
    for app in APPS:
        wordings = [str(sorted((key, str(value)) for key, value in record.items())) for record in cast.background[app]]
        assert len(set(wordings)) == len(wordings) > 20, app


def test_every_plan_resolves_with_the_types_of_the_toolbox(needs, life, toolbox):
    for need in needs:
        for keep_name in need.keeps:
            lived = live(need, keep_name, life)
            plan, apis, answers = resolve_plan(lived, life, toolbox)
            assert len(plan.split("\n")) == len(apis) == len(answers)
            assert not set("{}") & set(plan), (need.need, keep_name, plan)
            for answer in answers:
                for api, arguments in answer.items():
                    for name, (value, *_) in arguments.items():
                        expected = PYTHON_TYPES[toolbox[api].arguments[name].type]
                        assert isinstance(value, expected), (need.need, keep_name, api, name)
                        assert value != "", (need.need, keep_name, api, name)


def test_plans_name_only_matters_the_keep_holds(needs):
    """A plan slot such as `{event.title}` refers to an item of its own keep, never to another keep's."""
    for need in needs:
        all_items = {name for keep in need.keeps.values() for name in keep.items}
        for name, keep in need.keeps.items():
            for _, arguments in keep.calls:
                for value in arguments.values():
                    heads = (
                        {slot.partition(".")[0] for slot in slots_of(value)} if isinstance(value, str | list) else set()
                    )
                    assert heads & all_items <= set(keep.items), (need.need, name)


def test_voices_begin_with_a_capital_or_are_all_lower_case(needs, life):
    for need in needs[:20]:
        lived = live(need, next(iter(need.keeps)), life)
        for family in families_of([need]):
            text = voice(family, lived, life)
            assert text[0].isupper() or not text[0].isalpha() or text == text.lower(), family.id


def test_no_item_wording_stands_in_two_templates(needs, explicit_needs):
    """Otherwise `split: item_template` would keep one wording for evaluation and train on its twin."""
    wordings = Counter(
        (template.app, str(sorted(wording.items())))
        for need in [*needs, *explicit_needs]
        for keep in need.keeps.values()
        for template in keep.items.values()
        for wording in template.wordings
    )
    assert [wording for wording, count in wordings.items() if count > 1] == []
