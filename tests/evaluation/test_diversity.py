"""Diversity is measured on equal numbers of texts and n-grams."""

import math

import pandas as pd
import pytest

from lib.evaluation.diversity import MEASURES, distinct, matched_diversity, ngrams


def frame(texts, app="a"):
    return pd.DataFrame({"app": app, "title": [text.split()[0] for text in texts], "text": texts})


def test_distinct_counts_within_texts():
    assert distinct(ngrams(["the cat", "The CAT sat"], 1)) == 3 / 5
    assert distinct(ngrams(["the cat", "the cat sat"], 2)) == 2 / 3
    assert distinct(ngrams(["a b", "c d"], 2)) == 1
    assert distinct(ngrams(["the cat", "the cat sat"], 1), first=2) == 1
    assert math.isnan(distinct(ngrams(["one"], 2)))


def test_a_side_is_not_better_for_being_smaller():
    many = frame([f"w{i % 40} x{i % 40}" for i in range(400)])
    few = frame([f"w{i} x{i}" for i in range(20)])
    table = matched_diversity(many, few, ["app"], draws=200, seed=1).set_index(["side", "measure"])
    assert (table["n"] == 20).all()
    assert table.loc[("theirs", "distinct_titles"), ["value", "draws_low", "draws_high"]].tolist() == [100] * 3
    drawn = table.loc[("ours", "distinct_titles")]
    expected = 100 * 40 * (1 - math.prod(1 - 20 / (400 - i) for i in range(10))) / 20  # 40 kinds of ten copies each
    assert drawn["value"] == pytest.approx(expected, abs=1.5)
    assert drawn["draws_low"] < expected < drawn["draws_high"]


def test_cells_are_matched_and_long_texts_cut():
    ours = pd.concat([frame(["red one", "red two"], "a"), frame(["blue three"], "b"), frame(["x y"], "only ours")])
    theirs = pd.concat([frame(["green " + "again " * 50], "a"), frame(["grey four"] * 3, "b")])
    table = matched_diversity(ours, theirs, ["app"], draws=20, seed=1).set_index(["side", "measure"])
    assert (table["n"] == 2).all()
    assert table.loc[("ours", "distinct_1"), "value"] == 100
    assert table.loc[("theirs", "words"), "value"] == (51 + 2) / 2
    assert table.loc[("theirs", "distinct_1"), "draws_low"] in (50, 100)  # the first four words only
    assert set(table.index.get_level_values("measure")) == set(MEASURES)


def test_nothing_in_common_has_no_row():
    assert matched_diversity(frame(["a b"], "a"), frame(["a b"], "b"), ["app"], draws=5, seed=0).empty
    nothing = pd.DataFrame(columns=["app", "title", "text"])
    assert matched_diversity(nothing, frame(["a b"]), ["app"], draws=5, seed=0).empty


def test_the_same_seed_gives_the_same_numbers():
    ours, theirs = frame([f"a{i} b" for i in range(9)]), frame([f"c{i % 3} d e" for i in range(30)])
    tables = [matched_diversity(ours, theirs, ["app"], draws=20, seed=seed) for seed in (3, 3, 4)]
    assert tables[0].equals(tables[1])
    assert not tables[0].equals(tables[2])
