"""Which queries each encoder of search learns from and is asked, and what is kept of those trained without a fold."""

from itertools import combinations

import numpy as np
import pandas as pd
import pytest

from lib.assistant import search_training as module
from lib.assistant.search_training import (
    COSINES,
    KEPT_DEPTH,
    RANKINGS,
    FoldTraining,
    chains_of_one_writer,
    evaluation_sets,
    keep,
    kept_cosines,
    kept_rankings,
    train_fold_cosines,
    train_fold_rankings,
    training_sets,
)
from lib.retrieval.stores import candidate_pairs, folds_of
from lib.retrieval.training import Finetuning
from lib.workbook.inputs import InputError

SETTINGS = Finetuning(1e-3, 2, seed=7)
CHAINS = pd.Series({"q0": "Look here.", "q3": "Look there.", "foreign": "No."})


def asked_by(personas, text="what?"):
    names = [f"q{i}" for i in range(len(personas))]
    return pd.DataFrame({"query": names, "persona": list(personas), "text": text})


@pytest.fixture
def training():
    return asked_by("aabbccddee")


@pytest.fixture
def sets(training):
    return training_sets(training, training["query"].isin(["q3", "q4"]).to_numpy(), CHAINS, [4, 2, 5, 2], seed=1)


# ---- what notebook 04 trains


def test_each_model_gets_its_queries(sets):
    sizes = {name: len(part) for name, part in sets.items()}
    assert sizes.pop("half_0") + sizes.pop("half_1") == 10
    assert sizes == {
        "finetuned": 10, "first_2": 2, "first_4": 4, "finetuned_unseen_needs": 8, "finetuned_subset": 1,
        "finetuned_cot": 1, "permuted": 4,
    }  # fmt: skip
    assert not {"q3", "q4"} & set(sets["finetuned_unseen_needs"]["query"])
    assert sets["permuted"] is sets["first_4"], "half of ten and more is left out"


def test_a_half_is_trained_on_the_other_personas(sets, training):
    half = folds_of(training["persona"], 2, 1)
    for side in (0, 1):
        assert set(sets[f"half_{side}"]["query"]) == set(training["query"][half != side])
        assert not set(sets[f"half_{side}"]["persona"]) & set(training["persona"][half == side])


def test_a_chain_is_all_that_tells_two_models_apart(sets):
    without, with_chain = sets["finetuned_subset"], sets["finetuned_cot"]
    assert without["query"].tolist() == with_chain["query"].tolist() == ["q0"]
    assert (without["text"].item(), with_chain["text"].item()) == ("what?", "what? Look here.")


def test_without_training_queries_nothing_is_trained(training):
    none = training.head(0)
    assert training_sets(none, np.zeros(0, dtype=bool), CHAINS, [4], seed=1) == {}
    assert evaluation_sets([], asked_by("xy"), np.array([True, False]), CHAINS) == {}


def test_models_are_asked_what_they_are_compared_on(sets):
    evaluation = asked_by("xyz")
    asked = evaluation_sets([*sets], evaluation, np.array([False, True, True]), CHAINS)
    assert {name: part["query"].tolist() for name, part in asked.items()} == {
        "half_0": ["q0", "q1", "q2"], "first_2": ["q0", "q1", "q2"], "first_4": ["q0", "q1", "q2"],
        "permuted": ["q0", "q1", "q2"], "finetuned_unseen_needs": ["q1", "q2"], "finetuned_subset": ["q0"],
        "finetuned_cot": ["q0"],
    }  # fmt: skip
    assert asked["finetuned_cot"]["text"].tolist() == ["what? Look here."]
    bare = evaluation_sets([*sets], evaluation, np.zeros(3, dtype=bool), CHAINS.head(0))
    assert list(bare) == ["half_0", "first_2", "first_4", "permuted"]


def test_evaluation_takes_the_writer_of_training():
    def found(*rows):
        frame = pd.DataFrame(rows, columns=["query", "split", "writer", "text"])
        return [part.to_dict() for part in chains_of_one_writer(frame, ["q0"])]

    both = [("q0", "evaluation", "cot", "zero"), ("q0", "evaluation", "cot_distilled", "tuned")]
    assert found(("t", "training", "cot", "T"), *both) == [{"t": "T"}, {"q0": "zero"}]
    assert found(*both)[1] == {"q0": "tuned"}
    assert found(("t", "training", "cot_distilled", "T"), both[0])[1] == {"q0": "zero"}
    assert found(("other", "evaluation", "cot", "zero"))[1] == {}


# ---- without folds of topics


def lessons_of(small_world, encoder="none", **changed):
    frames, vectors = small_world
    return FoldTraining.of_world(frames | changed, vectors, 4, SETTINGS, 1, encoder)


def in_three_folds(small_world, tiny, **changed):
    """Every two of five folds would be twenty encoders."""
    lessons = lessons_of(small_world, tiny, **changed)
    for frame in (lessons.learned, lessons.asked):
        frame["fold"] = frame["fold"].clip(upper=2)
    return lessons


@pytest.fixture(scope="module")
def lessons(small_world, tiny):
    return in_three_folds(small_world, tiny)


@pytest.fixture(scope="module")
def made(lessons, tmp_path_factory):
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
    original, encode = FoldTraining.encoder_on, module.encode
    patch.setattr(FoldTraining, "encoder_on", watched)
    patch.setattr(module, "encode", reading)
    found = train_fold_cosines(lessons, tmp_path_factory.mktemp("encoders"))
    patch.undo()
    return found, learned, asked


def test_every_query_is_asked_in_one_fold_and_labels_of_evaluation_queries_are_not_kept(small_world):
    lessons, queries = lessons_of(small_world), small_world[0]["queries"]
    evaluation = set(queries["query"][queries["split"] == "evaluation"])
    assert set(lessons.asked["query"]) == evaluation
    assert lessons.folds == sorted(lessons.asked["fold"].unique())
    assert not evaluation & {*lessons.qrels["query"], *lessons.negatives["query"], *lessons.learned["query"]}


def test_no_model_met_the_topics_that_it_is_asked_about(small_world, tiny, tmp_path, monkeypatch):
    lessons, gold = lessons_of(small_world, tiny), small_world[0]["gold"].set_index("query")["need"]
    met = []

    def watched(queries, *rest):
        met.append(set(gold[queries["query"]]))
        return original(queries, *rest)

    original = module.training_rows
    monkeypatch.setattr(module, "training_rows", watched)
    found = train_fold_rankings(lessons, tmp_path)
    later = [fold for fold in lessons.folds if fold]
    assert found["variant"].unique().tolist() == [f"without_{fold}" for fold in later]
    for fold, learned in zip(later, met, strict=True):
        asked = lessons.asked[lessons.asked["fold"] == fold]
        assert set(found["query"][found["variant"] == f"without_{fold}"]) == set(asked["query"])
        assert not set(asked["need"]) & learned


def test_a_cosine_says_something_of_the_folds_left_out_alone(lessons, made):
    found, folds = made[0], lessons.folds
    items = lessons.items[lessons.items["persona"].isin(lessons.learned["persona"])]
    training = candidate_pairs(lessons.learned, items, on="persona")
    asked = candidate_pairs(lessons.asked, lessons.items, on="persona")
    for fold in folds:
        values = found[f"without_{fold}_evaluation"]
        assert values.dtype == np.float16
        theirs = lessons.asked["query"][lessons.asked["fold"] == fold]
        np.testing.assert_array_equal(np.isfinite(values), asked["query"].isin(theirs).to_numpy())
    fold = training["query"].map(lessons.learned.set_index("query")["fold"])
    for one, other in combinations(folds, 2):
        values = found[f"without_{one}_{other}_training"]
        np.testing.assert_array_equal(np.isfinite(values), fold.isin([one, other]))
    assert len(found) == len(folds) + len(list(combinations(folds, 2)))


def test_no_encoder_met_the_topic_or_the_person_that_it_is_asked_about(lessons, made):
    _, learned, asked = made
    assert len(learned) == len(lessons.folds) + 2 * len(list(combinations(lessons.folds, 2)))
    training = lessons.learned
    for name, queries in learned.items():
        numbers = name.removeprefix("finetuned_without_").partition("_half")[0].split("_")
        assert not set(queries["fold"]) & set(map(int, numbers))
        read = set(asked[name])
        if "half" in name:
            others = training[training["persona"].isin(set(queries["persona"]))]
            assert read & set(training["text"])
            assert not read & set(others["text"])
        else:
            theirs = lessons.asked[lessons.asked["fold"] == int(numbers[0])]
            assert read <= set(theirs["text"]) | set(lessons.items["text"])


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
    for path, find in ((RANKINGS, kept_rankings), (COSINES, kept_cosines)):
        (tmp_path / path).write_text("no such file")
        with pytest.raises(InputError, match=path.name):
            find(lessons, tmp_path)
