"""Answers that are kept with the project: under the prompt that they were given to, and under no other."""

import pandas as pd
import pytest

from lib.generation.local import fingerprint
from lib.generation.models import locate
from lib.workbook.artifacts import ROOT
from lib.workbook.machine import accelerator, cores
from lib.workbook.parameters.dsl_ablation import Condition
from lib.workbook.parts import FOLDER
from lib.workflows import kept_flows
from lib.workflows.ablation_grid import Asked
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


def test_a_prompt_that_two_conditions_share_has_a_line_of_each(path):
    shared = ASKED.head(1).assign(
        condition="other", text="a.e();", finished=True, tokens_in=9, tokens_out=4, seconds=1.0
    )
    kept_flows.keep(path, shared, "larger", "w1", "float32")
    found = kept_flows.read(path)
    once = found[found["key"] == found["key"].iloc[-1]]
    assert once["condition"].tolist() == [ASKED["condition"].iloc[0], "other"]
    assert set(once["text"]) == {"a.e();"}, "one prompt has one answer"
    assert set(once["writer"]) == {"larger"}


def test_the_projects_kept_answers_are_whole():
    found = kept_flows.read(ROOT / kept_flows.FILE)
    assert set(found["condition"]) == {way.name for way in WAYS if way.writer == INSTRUCT}
    assert len(set(found.groupby("condition")["unit"].apply(frozenset))) == 1, "the same requests in every way"
    assert not found["key"].duplicated().any()
    assert (found["seconds"] > 0).all()


# ---------------------------------------------------------------- flows of the shipped models


class Model:
    fingerprint, dtype = "w1", "float32"


# ---------------------------------------------------------------- conditions of the ablation


def row_of(flows, shots=5):
    return Condition.model_validate(["pretrained", shots, "none", "finetuned", "free", flows])


def asked_of(flows, shots=5):
    row = row_of(flows, shots)
    return [Asked(row.name, row, test_set) for test_set in ("test", "test_same")]


def prompts_of(conditions, units=("p1", "p2", "p3"), said=""):
    rows = [
        (one.name, one.test_set, unit, f"{said}{one.name} {one.test_set} {unit}", None)
        for one in conditions
        for unit in units[: one.condition.flows]
    ]
    frame = pd.DataFrame(rows, columns=["condition", "test_set", "unit", "prompt", "grammar"])
    return frame.assign(model="finetuned")


def answered(conditions):
    return prompts_of(conditions).assign(text="a.b();", finished=True, tokens_in=9, tokens_out=4, seconds=1.0)


@pytest.fixture
def three(tmp_path):
    kept_flows.keep_conditions(tmp_path / "kept.jsonl", answered(asked_of(3)), Model(), 256)
    return tmp_path / "kept.jsonl"


def known(path, conditions, weights="w1", length=256, write=prompts_of):
    return kept_flows.kept_conditions(path, conditions, write, {"finetuned": weights}, length)


def test_a_condition_is_asked_on_all_that_are_kept(three):
    found = known(three, asked_of(1))
    assert [one.condition.flows for one in found.asked] == [3, 3]
    assert not found.left
    assert len(found.answers) == 6
    assert set(found.answers["device"]) == {f"{cores()} cores of {accelerator()}"}


def test_a_condition_that_is_not_kept_is_left_to_ask(three):
    found = known(three, [*asked_of(1), *asked_of(2, shots=20)])
    assert [one.condition.flows for one in found.asked] == [3, 3, 2, 2]
    assert [(one.name, one.test_set) for one in found.left] == [
        (row_of(1, 20).name, "test"),
        (row_of(1, 20).name, "test_same"),
    ]
    assert set(found.answers["condition"]) == {row_of(1).name}


@pytest.mark.parametrize("changed", [{"weights": "w2"}, {"length": 64}], ids=str)
def test_no_answer_of_other_weights_or_another_length_is_taken(three, changed):
    found = known(three, asked_of(1), **changed)
    assert found.answers.empty
    assert found.left == found.asked == asked_of(1)


def test_a_condition_asks_anew_where_it_wants_more_or_prompts_have_changed(three):
    assert known(three, asked_of(4)).left == asked_of(4)

    def one_changed(conditions):
        frame = prompts_of(conditions)
        new = (frame["test_set"] == "test") & (frame["unit"] == "p2")
        return frame.assign(prompt=frame["prompt"].mask(new, "new"))

    found = known(three, asked_of(1), write=one_changed)
    assert [one.test_set for one in found.left] == ["test"], "a third of what was kept is missing"
    assert set(found.answers["test_set"]) == {"test_same"}


def test_no_grammar_is_none_however_pandas_writes_it():
    assert kept_flows.key_of("a", None) == kept_flows.key_of("a", float("nan")) == kept_flows.key_of("a", "")


def test_kept_flows_are_of_the_shipped_models():
    base = locate("SmolLM2-135M-Instruct")
    parts = {"finetuned": "nl2dsl-67000", "in_context-a": "in_context-a", "in_context-b": "in_context-b"}
    weights = {writer: fingerprint(base, ROOT / FOLDER / part) for writer, part in parts.items()}
    found = kept_flows.read(ROOT / kept_flows.REPAIRS).drop_duplicates(["writer", "weights"])
    assert found.set_index("writer")["weights"].to_dict().items() <= weights.items()
    assert not found["writer"].duplicated().any()
