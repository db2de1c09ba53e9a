"""Sampling for the writers of chains of thought."""

import numpy as np
import pandas as pd
import pytest

from lib.assistant.chains import (
    equal_shares,
    named_types,
    other_rows,
    taught_and_asked,
)


def many(n=300, personas=30):
    rng = np.random.default_rng(1)
    kind = rng.choice(["meaning", "habit", "either"], n, p=[0.6, 0.3, 0.1])
    frame = pd.DataFrame(
        {"query": [f"q{i}" for i in range(n)], "persona": [f"p{i}" for i in rng.integers(personas, size=n)]}
    )
    return frame, kind


def test_a_rare_kind_gives_all_it_has_and_the_others_fill_up():
    frame, kind = many()
    counts = pd.Series(kind)[equal_shares(frame, kind, 200, seed=3).index].value_counts()
    assert counts["either"] == (kind == "either").sum()
    assert counts.sum() == 200
    assert abs(counts["meaning"] - counts["habit"]) <= 1 or counts["habit"] == (kind == "habit").sum()


def test_a_sample_depends_on_the_seed_alone_and_is_all_there_is_at_most():
    frame, kind = many()
    assert equal_shares(frame, kind, 60, 3).equals(equal_shares(frame, kind, 60, 3))
    assert not equal_shares(frame, kind, 60, 3).equals(equal_shares(frame, kind, 60, 4))
    assert equal_shares(frame, kind, 10_000, 3).equals(frame)
    assert equal_shares(frame.head(1), kind[:1], 312, 3)["query"].tolist() == ["q0"]
    assert equal_shares(frame.head(0), kind[:0], 312, 3).empty


def test_a_writer_learns_from_experts_on_other_personas_and_never_from_the_needs_kept_apart():
    frame, kind = many()
    training = frame.assign(kind=kind, cot="Check.", need=np.where(np.arange(len(frame)) % 5, "rent", "flight"))
    training.loc[::7, "cot"] = ""
    learned, asked = taught_and_asked(training, ["flight"], n_pairs=40, n_cots=20, seed=3)
    assert (len(learned), len(asked)) == (40, 20)
    assert set(learned["need"]) == {"rent"}
    assert (learned["cot"] != "").all()
    assert (asked["cot"] == "").any()  # whoever is only written for needs no expert
    assert "flight" in set(asked["need"])
    assert not set(learned["persona"]) & set(asked["persona"])
    assert asked["kind"].value_counts().max() <= 8
    nothing, asked = taught_and_asked(training.assign(cot=""), [], n_pairs=40, n_cots=20, seed=3)
    assert nothing.empty
    assert len(asked) == 20


def test_no_persona_is_on_both_sides_whose_sizes_are_as_they_are_wished():
    frame, kind = many()
    training = frame.assign(kind=kind, cot="Check.", need="rent")
    for n_pairs, n_cots, expected in ((100, 200, 100), (1, 10_000, 10), (10_000, 1, 290)):
        learned, asked = taught_and_asked(training, [], n_pairs, n_cots, seed=2)
        assert not set(learned["persona"]) & set(asked["persona"])
        assert len(learned)
        assert len(asked)
        sides = taught_and_asked(training, [], 10**6 * n_pairs, 10**6 * n_cots, seed=2)
        assert len(sides[0]) == pytest.approx(expected, abs=20)
        assert len(sides[0]) + len(sides[1]) == len(frame)
    alone, nobody = taught_and_asked(training[training["persona"] == "p1"], [], 10, 10, seed=2)
    assert len(alone)
    assert nobody.empty
    assert all(side.empty for side in taught_and_asked(training.head(0), [], 10, 10, seed=2))


@pytest.mark.parametrize("n", [2, 3, 50])
def test_every_row_gets_another_and_each_is_taken_once(n):
    others = other_rows(n, seed=5)
    assert sorted(others) == list(range(n))
    assert (others != np.arange(n)).all()
    assert (others == other_rows(n, seed=5)).all()


@pytest.mark.parametrize(
    ("text", "types"),
    [
        ("Check 'Calendar', then 'Reminders', then 'Calendar' again.", ["Calendar", "Reminders"]),
        ("Look in Notes and in \"mail\", not in the mail.", ["Notes", "Mail"]),
        ("The user takes notes, plays music and reads mail on google.", []),
        ("a 'Phone Call', PhoneCall or a phone call", ["PhoneCall"]),
        ("'Google Maps' is not Google", ["Google Maps", "Google"]),
        ("the Calendars' entries and ‘Reminder’", []),
    ],
)  # fmt: skip
def test_context_types_that_a_text_names(text, types):
    assert named_types(text) == types
