"""What each split promises to keep apart, checked by `leaks` and by other means; and what a text gives away."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from lib.assistant.needs import alternatives
from lib.assistant.queries import EVALUATION_NEEDS, OPENERS, families_of, held_out_needs, normal_form, split_phrasings
from lib.assistant.tool_ranker import api_classifier
from lib.assistant.world import SIDES, frames

MIDDLE = {"seed": 5, "n_personas": 150, "n_training_queries": 700, "n_evaluation_queries": 160}
SPLITS = ("phrasing",)


@pytest.fixture(scope="module")
def split_by(make_world):
    """Tables of a mid-size world by its split."""
    return {split: frames(make_world(split=split, **MIDDLE)) for split in SPLITS}


def by_side(series, side):
    return [set(series[side == name]) for name in SIDES]


def shared(pair) -> set:
    training, evaluation = pair
    assert training
    assert evaluation
    return training & evaluation


def bare(text: str) -> str:
    """A text without the word it opens with, such as `Hey, `."""
    text = normal_form(text)
    for opener in OPENERS:
        if text.startswith(opener.lower()):
            return text.removeprefix(opener.lower())
    return text


@pytest.mark.parametrize("split", SPLITS)
def test_personas_and_texts_are_apart(split_by, split):
    tables = split_by[split]
    queries = tables["queries"]
    assert not shared(by_side(queries["persona"], queries["split"]))
    assert not shared(by_side(queries["text"].str.lower().str.rstrip(".?! "), queries["split"]))
    items = tables["items"]
    side_of = queries.drop_duplicates("persona").set_index("persona")["split"]
    assert not shared(by_side(items["item"], items["persona"].map(side_of)))


def test_phrasing_split_keeps_surface_forms_apart(split_by, needs, explicit_needs):
    tables = split_by["phrasing"]
    gold = tables["gold"]
    assert not shared(by_side(gold["phrasing"], gold["split"]))
    families = families_of([*needs, *explicit_needs])
    forms = {family.id: {normal_form(form) for form in alternatives(family.text)} for family in families}
    said = [set().union(*(forms[phrasing] for phrasing in used)) for used in by_side(gold["phrasing"], gold["split"])]
    assert not shared(said)
    assert not shared(by_side(tables["queries"]["text"].map(bare), tables["queries"]["split"]))
    assert len(shared(by_side(gold["need"], gold["split"]))) > 30


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_split_of_phrasings_binds_shared_forms(needs, seed):
    side = split_phrasings(needs, seed)
    families = families_of(needs)
    assert set(side) == {family.id for family in families}
    forms = [
        {normal_form(form) for family in families if side[family.id] == name for form in alternatives(family.text)}
        for name in SIDES
    ]
    assert not shared(forms)
    assert 0.25 < sum(value == "evaluation" for value in side.values()) / len(side) < 0.4
    for need in needs:
        for kind in ("meaning", "either"):
            used = {side[family.id] for family in families if (family.need, family.kind) == (need.need, kind)}
            assert used == set(SIDES), (need.need, kind)


def test_held_out_needs_do_not_depend_on_the_others(needs):
    names = [need.need for need in needs]
    held = [held_out_needs(names, seed) for seed in range(40)]
    assert sum(map(len, held)) / 40 / len(names) == pytest.approx(EVALUATION_NEEDS, abs=0.05)
    assert len({frozenset(one) for one in held}) > 30
    for seed, whole in enumerate(held):
        half = names[::2]
        assert whole & set(half) <= held_out_needs(half, seed)
    assert held_out_needs(["only"], 7) == {"only"}


def test_the_classifier_has_converged_whatever_order_it_saw_the_queries_in():
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(600, 48)).astype(np.float32) + 2  # to one side of the origin, as embeddings are
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    labels, order = pd.Series(rng.choice(list("abcdef"), 600)), rng.permutation(600)
    once = api_classifier(vectors, labels).predict_proba(vectors)
    again = api_classifier(vectors[order], labels[order]).predict_proba(vectors)
    assert np.abs(once - again).max() < 1e-6
