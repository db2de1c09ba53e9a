"""Cosines of encoders trained once more for a ranker: which pairs each says something of, and what it had met."""

from itertools import combinations

import numpy as np
import pandas as pd
import pytest

from lib.assistant import retrained_cosines as module
from lib.assistant.retrained import Retraining, without
from lib.assistant.retrained_cosines import EVALUATION, FILE, TRAINING, EncoderCosines, cosines, keep, kept, trained
from lib.retrieval.stores import candidate_pairs
from lib.workbook.inputs import InputError
from tests.assistant.test_retrained import retraining_of


def in_three_folds(small_world, tiny, **changed):
    """Every two of five folds would be twenty encoders."""
    again = retraining_of(small_world, tiny, **changed)
    for frame in (again.learned, again.asked):
        frame["fold"] = frame["fold"].clip(upper=2)
    return again


@pytest.fixture(scope="module")
def retraining(small_world, tiny):
    return in_three_folds(small_world, tiny)


@pytest.fixture(scope="module")
def made(retraining, tmp_path_factory):
    """The cosines, and for each encoder its folder's name, the queries it learned from and the texts it read."""
    learned, read, patch = {}, {}, pytest.MonkeyPatch()

    def watched(again, queries, output, progress=False):
        learned[output.name] = queries
        model = original(again, queries, output, progress)
        read[id(model)] = output.name
        keeping.append(model)  # or another one may get its id
        return model

    def reading(model, texts, **rest):
        asked.setdefault(read[id(model)], []).extend(texts)
        return encode(model, texts, **rest)

    keeping, asked = [], {}
    original, encode = Retraining.encoder_on, module.encode
    patch.setattr(Retraining, "encoder_on", watched)
    patch.setattr(module, "encode", reading)
    found = trained(retraining, tmp_path_factory.mktemp("encoders"))
    patch.undo()
    return found, learned, asked


def test_each_fold_and_each_two_folds_have_their_sides(retraining, made):
    found, folds = made[0], retraining.folds
    both = [without(*pair) for pair in combinations(folds, 2)]
    sides = [f"{without(fold)}_{side}" for fold in folds for side in (TRAINING, EVALUATION)]
    assert list(found) == [*sides, *(f"{name}_{TRAINING}" for name in both)]
    items = retraining.items[retraining.items["persona"].isin(retraining.learned["persona"])]
    training = candidate_pairs(retraining.learned, items, on="persona")
    asked = candidate_pairs(retraining.asked, retraining.items, on="persona")
    for fold in folds:
        taught, told = (found[f"{without(fold)}_{side}"] for side in (TRAINING, EVALUATION))
        assert taught.dtype == told.dtype == np.float16
        assert len(taught) == len(training)
        assert np.isfinite(taught).all()
        theirs = retraining.asked["query"][retraining.asked["fold"] == fold]
        np.testing.assert_array_equal(np.isfinite(told), asked["query"].isin(theirs).to_numpy())
    fold = training["query"].map(retraining.learned.set_index("query")["fold"])
    for name, pair in zip(both, combinations(folds, 2), strict=True):
        np.testing.assert_array_equal(np.isfinite(found[f"{name}_{TRAINING}"]), fold.isin(pair))


def test_no_encoder_met_the_need_or_the_person_that_it_is_asked_about(retraining, made):
    _, learned, asked = made
    assert len(learned) == 3 * len(retraining.folds) + 2 * len(list(combinations(retraining.folds, 2)))
    training = retraining.learned
    for name, queries in learned.items():
        numbers = name.removeprefix("finetuned_without_").partition("_half")[0].split("_")
        assert not set(queries["fold"]) & set(map(int, numbers))
        read = set(asked[name])
        if "half" in name:
            others = training[training["persona"].isin(set(queries["persona"]))]
            assert read & set(training["text"])
            assert not read & set(others["text"])
        else:
            theirs = retraining.asked[retraining.asked["fold"] == int(numbers[0])]
            assert read <= set(theirs["text"]) | set(retraining.items["text"])


def test_what_is_kept_is_found_again_in_this_world_alone(small_world, tiny, retraining, made, tmp_path):
    assert kept(retraining, tmp_path) is None
    assert cosines(retraining, False, tmp_path, tmp_path) == {}
    (tmp_path / FILE).parent.mkdir(parents=True)
    keep(made[0], retraining.key, tmp_path / FILE)
    again = cosines(retraining, False, tmp_path, tmp_path)
    assert list(again) == list(made[0])
    for name, values in made[0].items():
        np.testing.assert_array_equal(again[name], values)
    items = small_world[0]["items"]
    mended = items.assign(text=items["text"].where(items["item"] != "p0-i0", "lemon"))
    assert kept(in_three_folds(small_world, tiny, items=mended), tmp_path) is None
    assert kept(in_three_folds(small_world, tiny), tmp_path) is not None
    (tmp_path / FILE).write_text("no archive")
    with pytest.raises(InputError, match=FILE.name):
        kept(retraining, tmp_path)


class Task:
    """Three evaluation queries around four training queries, an item each; needs of folds 0, 1, 2 and 0, 1, 2, 2."""

    pairs = pd.DataFrame({"query": list("abcdefg")})
    evaluation = np.array([True, True, True, False, False, False, False])
    training = ~evaluation
    fold = np.array([0, 1, 2, 0, 1, 2, 2])


NAN = np.nan
MET = np.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7])
ASKED = {
    "without_0": [0.11, NAN, NAN],
    "without_1": [NAN, 0.21, NAN],
    "without_2": [NAN, NAN, 0.31],
}
BY_TWO_FOLDS = {  # of the training queries about either
    "without_0_1": [-0.01, -0.02, NAN, NAN],
    "without_0_2": [-0.03, NAN, -0.04, -0.05],
    "without_1_2": [NAN, -0.06, -0.07, -0.08],
}


def as_kept():
    arrays = {f"{name}_training": values for name, values in BY_TWO_FOLDS.items()}
    for number, (name, told) in enumerate(ASKED.items(), 1):
        arrays |= {f"{name}_training": np.array([0.01, 0.02, 0.03, 0.04]) * number, f"{name}_evaluation": told}
    return {name: np.array(values, dtype=np.float16) for name, values in arrays.items()}


@pytest.fixture(autouse=True)
def folds_of_the_task(monkeypatch):
    monkeypatch.setattr(module, "folds_of_pairs", lambda task: task.fold)


@pytest.fixture
def of_pairs():
    return EncoderCosines(Task, MET, as_kept())


def test_both_sides_are_put_where_their_pairs_stand(of_pairs):
    assert of_pairs.folds == [0, 1, 2]
    np.testing.assert_allclose(of_pairs.without[0], [0.11, 0, 0, 0.01, 0.02, 0.03, 0.04], atol=1e-3)
    np.testing.assert_allclose(of_pairs.without[1], [0, 0.21, 0, 0.02, 0.04, 0.06, 0.08], atol=1e-3)
    np.testing.assert_allclose(of_pairs.without[2], [0, 0, 0.31, 0.03, 0.06, 0.09, 0.12], atol=1e-3)


def test_a_training_query_meets_encoders_that_met_neither_its_need_nor_the_fold_left_out(of_pairs):
    """Where no fold is left out, the other one is the last, and of the last the one before."""
    np.testing.assert_allclose(of_pairs.cross_fitted, [*MET[:3], -0.03, -0.06, -0.07, -0.08], atol=1e-3)
    left_out = of_pairs.cross_fitted_without
    np.testing.assert_allclose(left_out[0], [0.11, 0, 0, 0, -0.02, -0.04, -0.05], atol=1e-3)
    np.testing.assert_allclose(left_out[1], [0, 0.21, 0, -0.01, 0, -0.07, -0.08], atol=1e-3)
    np.testing.assert_allclose(left_out[2], [0, 0, 0.31, -0.03, -0.06, 0, 0], atol=1e-3)


@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("without_1_training", lambda cosines: cosines.without),
        ("without_1_evaluation", lambda cosines: cosines.without),
        ("without_1_2_training", lambda cosines: cosines.cross_fitted),
        ("without_0_1_training", lambda cosines: cosines.cross_fitted_without),
    ],
)
def test_a_cosine_that_is_missing_where_there_must_be_one_is_no_zero(name, read):
    arrays = as_kept()
    arrays[name] = arrays[name].copy()
    arrays[name][1] = NAN
    with pytest.raises(ValueError, match=f"{name}: 1 of . pairs have no cosine"):
        read(EncoderCosines(Task, MET, arrays))


def test_without_encoders_of_every_training_need_nothing_is_cross_fitted():
    nothing = EncoderCosines(Task, MET, {})
    assert (nothing.folds, nothing.without) == ([], {})
    of_one = EncoderCosines(
        Task, MET, {name: as_kept()[name] for name in ("without_0_training", "without_0_evaluation")}
    )
    assert of_one.cross_fitted is None
    assert of_one.cross_fitted_without == {}
