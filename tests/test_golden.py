"""Worlds, pairs and prompts are those that the kept answers were asked with; see `tests/golden.py`."""

import json

import pandas as pd

from tests import golden


def test_small_worlds_pairs_and_prompts_are_as_recorded():
    before = json.loads(golden.FILE.read_text(encoding="utf-8"))
    changed = [line for line in golden.differences(before, golden.small()) if line.startswith("CHANGED")]
    assert changed == []


def test_one_changed_blank_and_one_moved_score_are_noticed():
    before = {"pairs": {"request": golden.digest(["mail me"]), "gone": golden.digest([1])}}
    after = {"pairs": {"request": golden.digest(["mail  me"])}}
    assert golden.differences(before, after) == ["left: pairs, gone", "CHANGED: pairs, request"]
    scores = pd.DataFrame({"query": ["q1", "q2"], "value": [50.0, 25.0]})
    moved = scores.assign(value=[50.0, 25.1])
    assert golden.score_differences(scores, scores, "scores") == ["scores: 2 of 2 rows before and 2 after are shared"]
    assert "CHANGED: scores, value: 1 rows" in golden.score_differences(scores, moved, "scores")
