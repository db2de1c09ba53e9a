"""Which queries each encoder of search learns from and is asked, and when what it found is taken from the project."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from lib.assistant import search_training as module
from lib.assistant.search_training import KEPT, SearchLessons, audit, cosines_by_fold, encoder_sets, find, ranker_sets
from lib.retrieval.stores import candidate_pairs, cosine_of_pairs, folds_of
from lib.retrieval.training import Finetuning

SETTINGS = Finetuning(1e-3, 2, seed=7)
CHAINS = {"q0": "Look here.", "q3": "Look there.", "foreign": "No."}
COT = pd.DataFrame({"query": CHAINS, "text": CHAINS, "writer": "cot_distilled", "split": "training"})
COT["query"] = COT.index


def asked_by(personas, new):
    names = [f"q{i}" for i in range(len(personas))]
    frame = pd.DataFrame({"query": names, "persona": list(personas), "text": "what?"})
    return frame.assign(fold=np.where(frame["query"].isin(new), 0, 1))


def lessons_of(learned, asked):
    return SimpleNamespace(learned=learned, asked=asked, negatives=learned, finetuning=Finetuning(seed=1))


@pytest.fixture
def training():
    return asked_by("aabbccddee", ["q3", "q4"])


@pytest.fixture
def sets(training):
    return encoder_sets(lessons_of(training, asked_by("xyz", ["q1", "q2"])), COT, [4, 2, 5, 2])


def test_each_model_gets_its_queries(sets, training):
    sizes = {name: len(learned) for name, (learned, _) in sets.items()}
    assert sizes.pop("half_0") in (4, 6)
    assert sizes == {
        "finetuned": 10, "first_2": 2, "first_4": 4, "unseen_0": 8, "unseen_1": 2, "finetuned_subset": 1,
        "finetuned_cot": 1, "permuted": 4,
    }  # fmt: skip
    for fold in (0, 1):
        learned, asked = sets[f"unseen_{fold}"]
        assert set(asked["fold"]) == {fold} != set(learned["fold"])
    assert sets["permuted"][0] is sets["first_4"][0], "half of ten and more is left out"
    half = folds_of(training["persona"], 2, 1)
    assert not set(sets["half_0"][0]["persona"]) & set(training["persona"][half == 0])


def test_a_chain_is_all_that_tells_two_models_apart(sets):
    for without, with_chain in zip(sets["finetuned_subset"], sets["finetuned_cot"], strict=True):
        assert without["query"].tolist() == with_chain["query"].tolist() == ["q0"]
        assert (without["text"].item(), with_chain["text"].item()) == ("what?", "what? Look here.")


def test_what_has_nothing_to_learn_from_or_to_be_asked_is_not_trained(training):
    evaluation = asked_by("xy", ["q1"])
    assert encoder_sets(lessons_of(training.head(0), evaluation), COT, [4]) == {}
    bare = encoder_sets(lessons_of(training, evaluation), COT.head(0), [])
    assert list(bare) == ["finetuned", "half_0", "unseen_0", "unseen_1", "permuted"]


@pytest.fixture(scope="module")
def lessons(small_world, tiny):
    """In three folds of topics: every two of five would be twenty encoders."""
    lessons = SearchLessons.of_world(*small_world, SETTINGS, 1, tiny)
    for frame in (lessons.learned, lessons.asked):
        frame["fold"] = frame["fold"].clip(upper=2)
    return lessons


def test_no_encoder_met_the_topic_or_the_person_that_it_is_asked_about(lessons):
    sets = ranker_sets(lessons)
    assert len(sets) == 3 + 2 * 3
    for name, (learned, asked) in sets.items():
        assert len(learned)
        assert not set(learned["fold"]) & set(asked["fold"])
        assert not set(learned["persona"]) & set(asked["persona"])
        assert len(set(asked["fold"])) == 2 - name.endswith("evaluation") == 3 - len(set(learned["fold"]))


def test_nothing_is_learned_from_evaluation_queries(small_world, lessons):
    queries = small_world[0]["queries"]
    evaluation = set(queries["query"][queries["split"] == "evaluation"])
    assert set(lessons.asked["query"]) == evaluation
    assert not evaluation & {*lessons.negatives["query"], *lessons.learned["query"]}
    rows = [lessons.rows(name, lessons.learned) for name in ("finetuned", "permuted")]
    taught = lessons.items[lessons.items["persona"].isin(lessons.learned["persona"])]["text"]
    assert all(set(each["positive"]) | set(each["negative"]) <= set(taught) for each in rows)
    assert not rows[0].equals(rows[1]), "relevant items are dealt anew"


def test_what_an_encoder_found_is_taken_in_this_world_alone(small_world, tiny, lessons, tmp_path, monkeypatch):
    root, folder = tmp_path / "project", tmp_path / "encoders"
    queries = lessons.learned, lessons.asked
    assert find(lessons, "finetuned", queries, root, None) is None
    fresh = find(lessons, "finetuned", queries, root, folder, keep=True)
    kept = find(lessons, "finetuned", queries, root, None)
    assert (fresh.kept, kept.kept) == (False, True)
    pd.testing.assert_frame_equal(kept.run, fresh.run)
    assert (kept.rows, kept.loss) == (fresh.rows, fresh.loss)
    items = small_world[0]["items"]
    mended = items.assign(text=items["text"].where(items["item"] != "p0-i0", "lemon"))
    others = [
        (SearchLessons.of_world(small_world[0] | {"items": mended}, small_world[1], SETTINGS, 1, tiny), queries),
        (replace(lessons, epochs=2), queries),
        (lessons, (lessons.learned.iloc[1:], lessons.asked)),
        (lessons, (lessons.learned, lessons.asked.assign(text="lemon"))),
    ]
    assert all(find(other, "finetuned", those, root, None) is None for other, those in others)
    assert len([*(root / KEPT).iterdir()]) == 1


def test_the_kept_encoder_that_learned_least_is_trained_again(lessons, tmp_path):
    small, sets = lessons.learned.head(6), {"finetuned": (lessons.learned, lessons.asked)}
    sets["first_6"] = small, lessons.asked
    found = {name: find(lessons, name, each, tmp_path, tmp_path / "encoders") for name, each in sets.items()}
    assert audit(lessons, sets, found, tmp_path / "again", 2) == ("", 0, 0)
    found = {name: each._replace(kept=True) for name, each in found.items()}
    name, same, items = audit(lessons, sets, found, tmp_path / "again", 2)
    assert name == "first_6"
    assert same == items > 0
    run = found["first_6"].run
    upside_down = run.assign(rank=run.groupby("query")["rank"].rank(ascending=False))
    found["first_6"] = found["first_6"]._replace(run=upside_down)
    assert audit(lessons, sets, found, tmp_path / "again", 2)[1] < items


def test_a_cosine_says_something_of_the_folds_left_out_alone(lessons):
    found = {}
    for number, (name, (_, asked)) in enumerate(ranker_sets(lessons).items()):
        pairs = candidate_pairs(asked, lessons.items, on="persona")
        cosines = np.full(len(pairs), number, dtype=np.float16)
        found[name] = module.Found(cosines, pairs, 1, 0.0, True)
    arrays = cosines_by_fold(lessons, found)
    assert len(arrays) == 3 + 3
    for name, values in arrays.items():
        queries = lessons.asked if name.endswith("evaluation") else lessons.learned
        pairs = candidate_pairs(queries, lessons.items, on="persona")
        about = pairs["query"].map(queries.set_index("query")["fold"]).astype(str)
        np.testing.assert_array_equal(np.isfinite(values), about.isin(name.split("_")[1:-1]))
    values = arrays["without_0_1_training"]
    assert set(values[np.isfinite(values)]) == {3.0, 4.0}, "both halves"
    assert cosines_by_fold(lessons, found | {"without_0_evaluation": None}) == {}


def test_other_encoders_are_computed_to_be_kept_and_taken_for_these_texts_alone(
    small_world, tiny, lessons, tmp_path, monkeypatch
):
    name = module.OTHERS["semantic_mpnet"]
    monkeypatch.setattr(module, "locate", lambda asked: tiny if asked == name else None)
    items, asked = small_world[0]["items"], lessons.asked
    assert module.other_encoders(asked, items, tmp_path) == {}
    fresh = module.other_encoders(asked, items, tmp_path, keep=True)
    monkeypatch.setattr(module, "locate", None)  # nothing is encoded any more
    kept = module.other_encoders(asked, items, tmp_path)
    pd.testing.assert_frame_equal(kept["semantic_mpnet"], fresh["semantic_mpnet"])
    vectors = [small_world[1][side] for side in ("queries", "items")]
    pairs = candidate_pairs(small_world[0]["queries"], items, "persona")
    expected = pairs.assign(score=cosine_of_pairs(pairs, *vectors)).merge(kept["semantic_mpnet"], on=["query", "item"])
    np.testing.assert_allclose(expected["score_x"], expected["score_y"], atol=1e-5)
    mended = items.assign(text=items["text"].where(items["item"] != "p7-i0", "lemon"))
    for those in ((asked.assign(text="lemon"), items), (asked, mended)):
        assert module.other_encoders(*those, tmp_path) == {}
