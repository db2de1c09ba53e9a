"""What readers' answers are worth, on a small world."""

import json
from pathlib import Path

import pandas as pd
import pytest

from lib.assistant.query_review import (
    FOLDER,
    Reading,
    judgements,
    label_hashes,
    of_this_world,
    read_readings,
)
from lib.assistant.world import frames
from lib.workbook.inputs import InputError

ROOT = Path(__file__).resolve().parents[2]
YES = {"items_right": "yes", "api_right": "yes", "arguments_right": "yes", "another": "no", "clear": "yes"}


@pytest.fixture(scope="module")
def tables(make_world):
    return frames(make_world(n_personas=150, n_training_queries=400, n_evaluation_queries=300))


def reading(query, reader="A", proposed="label", **fields):
    given = {"understood": "yes", "items": ["i1"], "plan": "default()", **YES, **fields}
    return Reading(reader=reader, query=query, label="h", proposed=proposed, **given).model_dump()


def test_a_reading_counts_while_query_and_label_are_the_same(tables):
    hashes = label_hashes(tables["queries"], tables["gold"])
    first, second = hashes.index[:2]
    readings = pd.DataFrame([reading(first) | {"label": hashes[first]}, reading(second) | {"label": "another"}])
    assert of_this_world(readings, tables["queries"], tables["gold"])["query"].tolist() == [first]
    mended = tables["gold"].assign(plan="default()")
    assert not len(of_this_world(readings, tables["queries"], mended))
    reworded = tables["queries"].assign(text="something else")
    assert not len(of_this_world(readings, reworded, tables["gold"]))


def test_agreement_is_cohens(tables):
    said = [("q1", "yes", "yes"), ("q2", "yes", "no"), ("q3", "no", "no"), ("q4", "yes", "yes")]
    readings = pd.DataFrame([reading(q, r, clear=v) for q, *both in said for r, v in zip("AB", both, strict=True)])
    rows = judgements(readings).set_index(["question", "reader"])
    assert rows.loc[("clear", "A"), "percent"] == 75
    assert rows.loc[("clear", "agreement"), "percent"] == 75
    assert rows.loc[("clear", "agreement"), "kappa"] == pytest.approx((0.75 - 0.5) / 0.5)  # by chance 3/4·2/4 + 1/4·2/4
    assert rows.loc[("clear", "agreement"), "n"] == 4
    assert pd.isna(rows.loc[("items_right", "agreement"), "kappa"]), "both always say yes"
    foil = pd.DataFrame([reading("q5", "A", "api", clear="no"), reading("q5", "B", "api", clear="no")])
    assert judgements(pd.concat([readings, foil])).equals(judgements(readings)), "foils are no labels"


def test_wrong_lines_are_named(tmp_path):
    path = tmp_path / "a.jsonl"
    good = json.dumps(reading("q1"))
    path.write_text(good + "\n" + good.replace('"clear": "yes"', '"clear": "maybe"') + "\n")
    with pytest.raises(InputError, match=r"line 2: clear"):
        read_readings([path])
    path.write_text(good + "\n" + good + "\n")
    with pytest.raises(InputError, match="q1 twice"):
        read_readings([path])
    assert read_readings([]).empty


def test_the_readings_that_come_with_the_project_are_whole():
    readings = read_readings(sorted((ROOT / FOLDER).glob("reader_*.jsonl")))
    per_reader = readings.groupby("reader")["query"].agg(frozenset)
    assert len(per_reader) == 2
    assert len(set(per_reader)) == 1, "both read the same queries"
