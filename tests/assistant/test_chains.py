"""Sampling for the writers of chains of thought."""

import numpy as np
import pandas as pd
import pytest

from lib.assistant.chains import equal_shares, other_rows, taught_and_asked


@pytest.fixture
def training():
    rng = np.random.default_rng(1)
    kind = rng.choice(["meaning", "habit", "either"], 300, p=[0.6, 0.3, 0.1])
    persona = [f"p{i}" for i in rng.integers(30, size=300)]
    need = np.where(np.arange(300) % 5, "rent", "flight")
    return pd.DataFrame({"persona": persona, "kind": kind, "cot": "Check.", "need": need})


def test_a_rare_kind_gives_all_it_has_and_the_others_fill_up(training):
    counts = equal_shares(training, training["kind"], 200, seed=3)["kind"].value_counts()
    assert counts["either"] == (training["kind"] == "either").sum()
    assert counts.sum() == 200
    assert abs(counts["meaning"] - counts["habit"]) <= 1 or counts["habit"] == (training["kind"] == "habit").sum()
    assert equal_shares(training, training["kind"], 10_000, 3).equals(training)


def test_a_writer_learns_from_experts_on_other_personas_and_never_from_the_needs_kept_apart(training):
    training.loc[::7, "cot"] = ""
    learned, asked = taught_and_asked(training, ["flight"], n_pairs=40, n_cots=20, seed=3)
    assert (len(learned), len(asked)) == (40, 20)
    assert set(learned["need"]) == {"rent"}
    assert (learned["cot"] != "").all()
    assert (asked["cot"] == "").any()  # whoever is only written for needs no expert
    assert "flight" in set(asked["need"])
    assert not set(learned["persona"]) & set(asked["persona"])
    assert asked["kind"].value_counts().max() <= 8
    alone, nobody = taught_and_asked(training[training["persona"] == "p1"], [], 10, 10, seed=2)
    assert len(alone) > 0 == len(nobody)


def test_personas_are_cut_in_two_in_the_ratio_of_the_sizes(training):
    for n_pairs, n_cots, expected in ((100, 200, 100), (1, 10_000, 10), (10_000, 1, 290)):
        sides = taught_and_asked(training, [], 10**6 * n_pairs, 10**6 * n_cots, seed=2)
        assert len(sides[0]) == pytest.approx(expected, abs=20)
        assert len(sides[0]) + len(sides[1]) == len(training)


def test_every_row_gets_another_and_each_is_taken_once():
    for n in (2, 3, 50):
        others = other_rows(n, seed=5)
        assert sorted(others) == list(range(n))
        assert (others != np.arange(n)).all()
