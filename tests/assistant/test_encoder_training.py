"""Which queries each encoder learns from and is asked."""

import numpy as np
import pandas as pd
import pytest

from lib.assistant import encoder_training as plan


def asked_by(personas, text="what?"):
    names = [f"q{i}" for i in range(len(personas))]
    return pd.DataFrame({"query": names, "persona": list(personas), "text": text})


@pytest.fixture
def training():
    return asked_by("aabbccddee")


def cots(*rows):
    return pd.DataFrame(rows, columns=["query", "split", "writer", "text"])


COTS = pd.Series({"q0": "Look here.", "q3": "Look there.", "foreign": "No."})


@pytest.fixture
def sets(training):
    is_unseen = training["query"].isin(["q3", "q4"])
    return plan.training_sets(training, is_unseen, COTS, [4, 2, 5, 2], seed=1)


def test_each_model_gets_its_queries(sets, training):
    sizes = {name: len(part) for name, part in sets.queries.items()}
    halves = sizes.pop("half_0"), sizes.pop("half_1")
    assert sum(halves) == 10
    assert sizes == {
        "finetuned": 10, "first_2": 2, "first_4": 4, "finetuned_unseen_needs": 8, "finetuned_subset": 1,
        "finetuned_cot": 1, "permuted": 4,
    }  # fmt: skip
    assert not {"q3", "q4"} & set(sets.queries["finetuned_unseen_needs"]["query"])


def test_a_half_is_trained_on_the_other_fold(sets, training):
    for n in (0, 1):
        assert set(sets.queries[f"half_{n}"]["query"]) == set(training["query"][sets.fold != n])
        assert not set(sets.queries[f"half_{n}"]["persona"]) & set(training["persona"][sets.fold == n])


def test_cot_is_all_that_tells_two_models_apart(sets):
    without, with_cot = sets.queries["finetuned_subset"], sets.queries["finetuned_cot"]
    assert without["query"].tolist() == with_cot["query"].tolist() == ["q0"]
    assert (without["text"].item(), with_cot["text"].item()) == ("what?", "what? Look here.")


def test_the_control_has_a_twin_of_the_same_queries(sets, training):
    assert sets.sizes == [2, 4]  # half of ten and more is left out
    assert sets.twin == "first_4"
    assert sets.queries["permuted"] is sets.queries["first_4"]
    alone = plan.training_sets(training, training["query"].isin([]), COTS, [500], seed=1)
    assert (alone.sizes, alone.twin) == ([], "finetuned")
    assert alone.queries["permuted"]["query"].tolist() == training["query"].tolist()


def test_without_training_queries_nothing_is_trained(training):
    none = training.head(0)
    sets = plan.training_sets(none, none["query"].isin([]), COTS, [4], seed=1)
    assert (sets.queries, sets.twin) == ({}, "finetuned")
    assert plan.evaluation_sets(sets, asked_by("xy"), np.array([True, False]), COTS) == {}


def test_models_are_asked_what_they_are_compared_on(sets):
    evaluation = asked_by("xyz")
    asked = plan.evaluation_sets(sets, evaluation, np.array([False, True, True]), COTS)
    assert {name: part["query"].tolist() for name, part in asked.items()} == {
        "half_0": ["q0", "q1", "q2"], "first_2": ["q0", "q1", "q2"], "first_4": ["q0", "q1", "q2"],
        "permuted": ["q0", "q1", "q2"], "finetuned_unseen_needs": ["q1", "q2"], "finetuned_subset": ["q0"],
        "finetuned_cot": ["q0"],
    }  # fmt: skip
    assert asked["finetuned_cot"]["text"].tolist() == ["what? Look here."]
    bare = plan.evaluation_sets(sets, evaluation, np.zeros(3, dtype=bool), COTS.head(0))
    assert list(bare) == ["half_0", "first_2", "first_4", "permuted"]


def test_no_model_embeds_a_persona_it_was_trained_on(sets, training):
    embedded = plan.embedded_personas(training, sets.fold, asked_by("xyx"))
    assert embedded["finetuned"] == {"x", "y"}
    assert embedded["half_0"] | embedded["half_1"] == set("abcde")
    for n in (0, 1):
        assert not embedded[f"half_{n}"] & set(sets.queries[f"half_{n}"]["persona"])


def test_evaluation_takes_the_writer_of_training():
    both = [("q0", "evaluation", "cot", "zero"), ("q0", "evaluation", "cot_distilled", "tuned")]
    evaluation = asked_by("x")
    by_cot = plan.thoughts(cots(("t", "training", "cot", "T"), *both), evaluation)
    assert (by_cot.writer, by_cot.evaluation.to_dict(), by_cot.training.to_dict()) == (
        "cot",
        {"q0": "zero"},
        {"t": "T"},
    )
    assert plan.thoughts(cots(*both), evaluation).writer == "cot_distilled"
    assert plan.thoughts(cots(("t", "training", "cot_distilled", "T"), both[0]), evaluation).writer == "cot"
    foreign = plan.thoughts(cots(("other", "evaluation", "cot", "zero")), evaluation)
    assert (foreign.writer, len(foreign.evaluation)) == ("", 0)
