"""Cosines of encoders trained once more for a ranker: which pairs each says something of, and what it had met."""

import numpy as np
import pandas as pd
import pytest

from lib.assistant import retrained_cosines as module
from lib.assistant.retrained import WITHOUT, Variant
from lib.assistant.retrained_cosines import (
    EVALUATION,
    FILE,
    TRAINING,
    by_fold,
    by_seed,
    cosines,
    keep,
    kept,
    of_all_pairs,
    trained,
    variants_of,
)
from lib.retrieval.stores import candidate_pairs
from lib.workbook.inputs import InputError
from lib.workbook.parameters.finetuned_search import FinetunedSearch
from tests.assistant.readers_world import make_world
from tests.assistant.test_retrained import retraining_of
from tests.retrieval.conftest import build_encoder


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    return build_encoder(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="module")
def world(tiny):
    return make_world(tiny)


@pytest.fixture(scope="module")
def retraining(world, tiny):
    return retraining_of(world, tiny)


@pytest.fixture(scope="module")
def made(retraining, tmp_path_factory):
    """The cosines, and for each encoder its folder's name, the queries it learned from and the texts it read."""
    learned, read, patch = {}, {}, pytest.MonkeyPatch()

    def watched(again, variant, queries, output, progress=False):
        learned[output.name] = queries
        model = original(again, variant, queries, output, progress)
        read[id(model)] = output.name
        keeping.append(model)  # or another one may get its id
        return model

    def reading(model, texts, **rest):
        asked.setdefault(read[id(model)], []).extend(texts)
        return encode(model, texts, **rest)

    keeping, asked = [], {}
    original, encode = module.finetuned_on, module.encode
    patch.setattr(module, "finetuned_on", watched)
    patch.setattr(module, "encode", reading)
    found = trained(retraining, tmp_path_factory.mktemp("encoders"))
    patch.undo()
    return found, learned, asked


def test_each_fold_and_each_seed_has_both_sides(retraining, made):
    found = made[0]
    names = [variant.name for variant in variants_of(retraining)]
    assert names[0] == "without_0"
    assert list(found) == [f"{name}_{side}" for name in names for side in (TRAINING, EVALUATION)]
    training = candidate_pairs(retraining.lesson.queries, retraining.lesson.items, on="persona")
    asked = candidate_pairs(retraining.queries, retraining.items, on="persona")
    for variant in variants_of(retraining):
        taught, told = (found[f"{variant.name}_{side}"] for side in (TRAINING, EVALUATION))
        assert taught.dtype == told.dtype == np.float16
        # something is said of the pairs that are learned from, and of those asked about, and of no other
        about = training["query"].isin(retraining.taught(variant)["query"]).to_numpy()
        np.testing.assert_array_equal(np.isfinite(taught), about)
        np.testing.assert_array_equal(
            np.isfinite(told), asked["query"].isin(retraining.asked(variant)["query"]).to_numpy()
        )


def test_no_encoder_met_the_need_or_the_person_that_it_is_asked_about(retraining, made):
    _, learned, asked = made
    assert len(learned) == 3 * len(variants_of(retraining))
    training = retraining.lesson.queries
    for name, queries in learned.items():
        variant = next(each for each in variants_of(retraining) if f"finetuned_{each.name}" in name)
        if variant.kind == WITHOUT:
            assert not set(queries["need"]) & {n for n, fold in retraining.fold_of.items() if fold == variant.number}
        read = set(asked[name])
        if "half" in name:
            others = training[training["persona"].isin(set(queries["persona"]))]
            assert read & set(training["text"])
            assert not read & set(others["text"])
        else:
            assert set(queries["query"]) == set(retraining.taught(variant)["query"])
            assert read <= set(retraining.asked(variant)["text"]) | set(retraining.items["text"])


def test_what_is_kept_is_found_again_in_this_world_alone(world, tiny, retraining, made, tmp_path):
    assert kept(retraining, tmp_path) is None
    (tmp_path / FILE).parent.mkdir(parents=True)
    keep(made[0], retraining.key, tmp_path / FILE)
    again = kept(retraining, tmp_path)
    assert list(again) == list(made[0])
    for name, values in made[0].items():
        np.testing.assert_array_equal(again[name], values)
    mended = world[1].assign(text=world[1]["text"].where(world[1]["item"] != "p0-i0", "lemon"))
    assert kept(retraining_of(world, tiny, items=mended), tmp_path) is None
    shipped = FinetunedSearch(profile="p", seed=7)
    assert cosines(retraining, shipped, tmp_path, tmp_path, False)[1]
    off = shipped.model_copy(update={"shipped_interaction_queries": 0})
    assert cosines(retraining, off, tmp_path, tmp_path, False) == ({}, False)
    (tmp_path / FILE).write_text("no archive")
    with pytest.raises(InputError, match=FILE.name):
        kept(retraining, tmp_path)


class Task:
    """Two evaluation queries around a training query, two items each."""

    pairs = pd.DataFrame({"query": ["a", "a", "b", "b", "c", "c"]})
    training = np.array([False, False, True, True, False, False])
    evaluation = ~training


def test_both_sides_are_put_where_their_pairs_stand():
    nan = np.nan
    arrays = {
        "without_3_training": np.array([0.5, nan], dtype=np.float16),
        "without_3_evaluation": np.array([0.25, 0.75, nan, nan], dtype=np.float16),
        "seed_1_training": np.zeros(2, dtype=np.float16),
        "seed_1_evaluation": np.ones(4, dtype=np.float16),
    }
    found = of_all_pairs(Task, arrays)
    assert found[Variant(WITHOUT, 3)].tolist() == [0.25, 0.75, 0.5, 0, 0, 0]
    assert list(by_fold(found)) == [3]
    assert list(by_seed(found)) == [1]
    assert by_seed(found)[1].tolist() == [1, 1, 0, 0, 1, 1]
    assert of_all_pairs(Task, {}) == {}
