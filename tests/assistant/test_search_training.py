"""Which queries each encoder of search learns from and is asked, and what is kept of those trained without a fold."""

import numpy as np
import pandas as pd
import pytest

from lib.assistant import search_training as module
from lib.assistant.queries import NEED_FOLDS, folds_of_needs
from lib.assistant.search_training import (
    KEPT_DEPTH,
    FoldTraining,
    encoder_sets,
    keep,
    kept_cosines,
    kept_rankings,
    train_fold_cosines,
    train_fold_rankings,
)
from lib.retrieval.stores import candidate_pairs, folds_of
from lib.retrieval.training import Finetuning

SETTINGS = Finetuning(1e-3, 2, seed=7)
CHAINS = {"q0": "Look here.", "q3": "Look there.", "foreign": "No."}
COT = pd.DataFrame({"query": CHAINS, "text": CHAINS, "writer": "cot_distilled", "split": "training"})
COT["query"] = COT.index


def asked_by(personas, new):
    names = [f"q{i}" for i in range(len(personas))]
    frame = pd.DataFrame({"query": names, "persona": list(personas), "text": "what?"})
    return frame.assign(fold=np.where(frame["query"].isin(new), 0, 1))


@pytest.fixture
def training():
    return asked_by("aabbccddee", ["q3", "q4"])


@pytest.fixture
def sets(training):
    return encoder_sets(training, asked_by("xyz", ["q1", "q2"]), COT, [4, 2, 5, 2], seed=1)


# ---- what notebook 04 trains


def test_each_model_gets_its_queries(sets, training):
    sizes = {name: len(learned) for name, (learned, _) in sets.items()}
    assert sizes.pop("half_0") in (4, 6)
    assert sizes == {
        "finetuned": 10, "first_2": 2, "first_4": 4, "finetuned_unseen_needs": 8, "finetuned_subset": 1,
        "finetuned_cot": 1, "permuted": 4,
    }  # fmt: skip
    assert not {"q3", "q4"} & set(sets["finetuned_unseen_needs"][0]["query"])
    assert sets["permuted"][0] is sets["first_4"][0], "half of ten and more is left out"
    half = folds_of(training["persona"], 2, 1)
    assert not set(sets["half_0"][0]["persona"]) & set(training["persona"][half == 0])


def test_models_are_asked_what_they_are_compared_on(sets):
    assert {name: asked["query"].tolist() for name, (_, asked) in sets.items()} == {
        "finetuned": ["q0", "q1", "q2"], "half_0": ["q0", "q1", "q2"], "first_2": ["q0", "q1", "q2"],
        "first_4": ["q0", "q1", "q2"], "permuted": ["q0", "q1", "q2"], "finetuned_unseen_needs": ["q1", "q2"],
        "finetuned_subset": ["q0"], "finetuned_cot": ["q0"],
    }  # fmt: skip


def test_a_chain_is_all_that_tells_two_models_apart(sets):
    for without, with_chain in zip(sets["finetuned_subset"], sets["finetuned_cot"], strict=True):
        assert without["query"].tolist() == with_chain["query"].tolist() == ["q0"]
        assert (without["text"].item(), with_chain["text"].item()) == ("what?", "what? Look here.")


def test_what_has_nothing_to_learn_from_or_to_be_asked_is_not_trained(training):
    evaluation = asked_by("xy", ["q1"])
    assert encoder_sets(training.head(0), evaluation, COT, [4], seed=1) == {}
    bare = encoder_sets(training, evaluation, COT.head(0), [], seed=1)
    assert list(bare) == ["finetuned", "half_0", "finetuned_unseen_needs", "permuted"]


def test_chains_are_those_of_the_writer_that_wrote_for_training(training):
    zero = COT.assign(writer="cot", split="evaluation", text="No.")
    taken = encoder_sets(training, asked_by("xy", []), pd.concat([zero, COT]), [], seed=1)["finetuned_cot"]
    assert [part["text"].item() for part in taken] == ["what? Look here."] * 2
    other = encoder_sets(training, asked_by("xy", []), zero.assign(split="training"), [], seed=1)["finetuned_cot"]
    assert other[1]["text"].item() == "what? No."


# ---- without folds of topics


def in_three_folds(small_world, tiny, **changed):
    """Every two of five folds would be twenty encoders."""
    frames, vectors = small_world
    lessons = FoldTraining.of_world(frames | changed, vectors, SETTINGS, 1, tiny)
    for frame in (lessons.learned, lessons.asked):
        frame["fold"] = frame["fold"].clip(upper=2)
    return lessons


@pytest.fixture(scope="module")
def lessons(small_world, tiny):
    return in_three_folds(small_world, tiny)


@pytest.fixture(scope="module")
def made(lessons, tmp_path_factory):
    """The cosines, the rankings, and for each encoder's name the queries that it learned from and was asked."""
    learned, asked, patch = {}, {}, pytest.MonkeyPatch()
    train, find = FoldTraining.encoder_on, module.search

    def watched(again, queries, output, progress=False):
        learned[output.name] = queries
        return train(again, queries, output, progress)

    def searching(model, queries, *rest, **how):
        asked[[*learned][-1]] = queries
        return find(model, queries, *rest, **how)

    patch.setattr(FoldTraining, "encoder_on", watched)
    patch.setattr(module, "search", searching)
    folder = tmp_path_factory.mktemp("encoders")
    cosines, rankings = train_fold_cosines(lessons, folder), train_fold_rankings(lessons, folder)
    patch.undo()
    return cosines, rankings, learned, asked


def test_held_out_needs_are_the_first_fold():
    folds = folds_of_needs([f"n{number}" for number in range(11)] * 2, {"n3", "n4"}, 7)
    assert {name for name, fold in folds.items() if fold == 0} == {"n3", "n4"}
    assert sorted(pd.Series(folds).value_counts().tolist()) == [2, 2, 2, 2, 3]
    assert set(folds.values()) == set(range(NEED_FOLDS))


def test_every_query_is_asked_in_one_fold_and_labels_of_evaluation_queries_are_not_kept(small_world, lessons):
    queries = small_world[0]["queries"]
    evaluation = set(queries["query"][queries["split"] == "evaluation"])
    assert set(lessons.asked["query"]) == evaluation
    assert not evaluation & {*lessons.qrels["query"], *lessons.negatives["query"], *lessons.learned["query"]}


def test_no_encoder_met_the_topic_or_the_person_that_it_is_asked_about(lessons, made):
    *_, learned, asked = made
    assert len(learned) == 3 + 2 * 3
    for name, queries in learned.items():
        numbers = name.removeprefix("finetuned_without_").partition("_half")[0].split("_")
        assert not set(queries["fold"]) & set(map(int, numbers))
        assert set(asked[name]["fold"]) <= set(map(int, numbers))
        assert not set(queries["persona"]) & set(asked[name]["persona"])


def test_a_ranking_of_each_later_fold_is_by_what_did_not_meet_it(lessons, made):
    found = made[1]
    assert found["variant"].unique().tolist() == ["without_1", "without_2"]
    for fold in (1, 2):
        theirs = lessons.asked["query"][lessons.asked["fold"] == fold]
        assert set(found["query"][found["variant"] == f"without_{fold}"]) == set(theirs)


def test_a_cosine_says_something_of_the_folds_left_out_alone(lessons, made):
    found, ranked = made[:2]
    assert len(found) == 3 + 3
    for name, values in found.items():
        queries = lessons.asked if name.endswith("evaluation") else lessons.learned
        pairs = candidate_pairs(queries, lessons.items, on="persona")
        about = pairs["query"].map(queries.set_index("query")["fold"]).astype(str)
        np.testing.assert_array_equal(np.isfinite(values), about.isin(name.split("_")[1:-1]))
        assert values.dtype == np.float16
    pairs = candidate_pairs(lessons.asked, lessons.items, on="persona")
    both = pairs.assign(cosine=found["without_1_evaluation"]).merge(ranked[ranked["variant"] == "without_1"])
    np.testing.assert_allclose(both["cosine"], both["score"], atol=1e-3)


def test_what_is_kept_is_found_again_in_this_world_alone(small_world, tiny, lessons, made, tmp_path):
    assert kept_rankings(lessons, tmp_path) is kept_cosines(lessons, tmp_path) is None
    rows = pd.DataFrame({"variant": "without_1", "query": "q", "item": [f"i{n}" for n in range(KEPT_DEPTH + 2)]})
    rows = rows.assign(rank=range(1, KEPT_DEPTH + 3), score=0.5)
    keep(lessons, rows, made[0], tmp_path)
    pd.testing.assert_frame_equal(kept_rankings(lessons, tmp_path), rows.head(KEPT_DEPTH))
    again = kept_cosines(lessons, tmp_path)
    assert list(again) == list(made[0])
    for name, values in made[0].items():
        np.testing.assert_array_equal(again[name], values)
    queries, items = small_world[0]["queries"], small_world[0]["items"]
    asked_other = queries.assign(text=queries["text"].where(queries["split"] == "training", "lemon"))
    mended = items.assign(text=items["text"].where(items["item"] != "p0-i0", "lemon"))
    for changed in ({"queries": asked_other}, {"items": mended}):
        other = in_three_folds(small_world, tiny, **changed)
        assert kept_rankings(other, tmp_path) is kept_cosines(other, tmp_path) is None
