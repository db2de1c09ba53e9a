"""Answers that are kept with the project: under the prompt that they were given to, and under no other."""

import pandas as pd
import pytest

from lib.workbook.artifacts import ROOT
from lib.workflows import kept_flows
from lib.workflows.flow_bench_flows import INSTRUCT, WAYS

ASKED = pd.DataFrame(
    [("free", "p1", "one", None), ("free", "p2", "two", None), ("grammar", "p1", "one", "start: x")],
    columns=["condition", "unit", "prompt", "grammar"],
)


@pytest.fixture
def path(tmp_path):
    answered = ASKED.assign(
        text=["a.b();", "a.c();", "a.“d”();"], finished=True, tokens_in=9, tokens_out=4, seconds=[1.0, 2.0, 3.0]
    )
    kept_flows.keep(tmp_path / "kept.jsonl", answered, "larger", "w1", "float32")
    return tmp_path / "kept.jsonl"


def test_answers_are_found_under_prompt_and_grammar(path):
    found = kept_flows.kept(path, ASKED.iloc[::-1])
    assert found["text"].tolist() == ["a.“d”();", "a.c();", "a.b();"]
    assert found[["writer", "dtype"]].drop_duplicates().to_numpy().tolist() == [["larger", "float32"]]


def test_a_condition_with_a_changed_prompt_is_left_out_whole(path):
    changed = ASKED.assign(prompt=["one", "two, changed", "one"])
    assert kept_flows.kept(path, changed)["condition"].tolist() == ["grammar"]
    assert kept_flows.kept(path.with_name("absent.jsonl"), ASKED).empty


def test_an_answer_to_the_same_prompt_is_replaced(path):
    again = ASKED.head(1).assign(text="a.e();", finished=True, tokens_in=9, tokens_out=4, seconds=1.0)
    kept_flows.keep(path, again, "larger", "w1", "float32")
    assert len(kept_flows.read(path)) == 3
    assert kept_flows.kept(path, ASKED)["text"].tolist() == ["a.e();", "a.c();", "a.“d”();"]


def test_the_projects_kept_answers_are_whole():
    found = kept_flows.read(ROOT / kept_flows.FILE)
    assert set(found["condition"]) == {way.name for way in WAYS if way.writer == INSTRUCT}
    assert len(set(found.groupby("condition")["unit"].apply(frozenset))) == 1, "the same requests in every way"
    assert not found["key"].duplicated().any()
    assert (found["seconds"] > 0).all()
