"""Answers to be repaired that are kept with the project: whole requests, asked as they would be asked now."""

import pandas as pd
import pytest

from lib.workbook.artifacts import ROOT
from lib.workflows.kept_flows import REPAIRS, read
from lib.workflows.repair_asking import Row, ask_all
from lib.workflows.repair_kept import keep_answers, kept_answers, kept_or_asked
from tests.workflows.repair_worlds import ASKING, CATALOGUE, PROMPTS, told

ORDER = {"unseen": pd.DataFrame({"pair": PROMPTS["unit"]})}


def model(weights="w1"):
    made = told()
    made.fingerprint, made.dtype = weights, "float32"
    return {"finetuned": made}


@pytest.fixture
def path(tmp_path):
    models = model()
    answers = ask_all(PROMPTS, models, CATALOGUE, ASKING)
    keep_answers(tmp_path / "kept.jsonl", PROMPTS, answers, models, CATALOGUE, ASKING)
    return tmp_path / "kept.jsonl"


def found(path, prompts=PROMPTS, models=None, asking=ASKING):
    return kept_answers(path, prompts, models or model(), CATALOGUE, asking)


def test_they_come_back_as_they_were_asked(path):
    keys, columns = ["unit", "way"], ["model", "test_set", "text", "finished", "tokens_in", "tokens_out"]
    asked = ask_all(PROMPTS, model(), CATALOGUE, ASKING).set_index(keys).sort_index()
    kept = found(path).set_index(keys).sort_index()
    pd.testing.assert_frame_equal(kept[columns], asked[columns], check_dtype=False)
    assert set(kept["dtype"]) == {"float32"}


def test_a_changed_prompt_weight_or_setting_finds_nothing(path):
    assert found(path, PROMPTS.assign(prompt="another")).empty
    assert found(path, models=model("w2")).empty
    assert found(path, asking=ASKING._replace(max_new_tokens=17)).empty


def test_a_request_is_there_whole_or_not_at_all(path):
    lines = path.read_text(encoding="utf-8").splitlines()
    one_less = [line for line in lines if '"condition": "unseen catalogue", "unit": "q0"' not in line]
    path.write_text("\n".join(one_less) + "\n", encoding="utf-8")
    assert set(found(path)["unit"]) == {"q1", "q2"}


def test_without_a_second_answer_nothing_is_there(path):
    """What would be left are the requests whose first flow is valid."""
    lines = path.read_text(encoding="utf-8").splitlines()
    without_second = [line for line in lines if '"condition": "unseen second"' not in line]
    assert len(without_second) == len(lines) - 1
    path.write_text("\n".join(without_second) + "\n", encoding="utf-8")
    assert found(path).empty


def test_few_of_those_that_were_kept_are_not_enough(path, tmp_path):
    """A change that leaves one prompt of three as it was: one flow is asked for, and all is asked anew."""
    models = model()
    models["finetuned"].answers = {way: texts[:1] for way, texts in models["finetuned"].answers.items()}

    def changed(rows, order):
        prompts = write(rows, order)
        return prompts.assign(prompt=prompts["prompt"].where(prompts["unit"] == "q0", "another"))

    row = Row("finetuned", "unseen", 1)
    kept_or_asked(path, tmp_path / "own.jsonl", changed, [row], ORDER, models, CATALOGUE, ASKING)
    assert models["finetuned"].calls


def write(rows, order):
    (row,) = rows
    return PROMPTS[PROMPTS["unit"].isin(order[row.test_set]["pair"].head(row.flows))]


@pytest.mark.parametrize(("flows", "from_file"), [(1, True), (3, True), (4, False)])
def test_all_that_are_kept_are_taken_where_they_are_enough(path, tmp_path, flows, from_file):
    models, own = model(), tmp_path / "own.jsonl"
    row = Row("finetuned", "unseen", flows)
    answers = kept_or_asked(path, own, write, [row], ORDER, models, CATALOGUE, ASKING)
    assert answers.loc[answers["way"] == "free", "unit"].nunique() == 3
    assert bool(models["finetuned"].calls) is not from_file
    assert own.exists() is not from_file


def test_without_a_file_all_is_asked_and_kept_for_oneself(tmp_path):
    own, row = tmp_path / "own.jsonl", Row("finetuned", "unseen", 3)
    answers = kept_or_asked(tmp_path / "none.jsonl", own, write, [row], ORDER, model(), CATALOGUE, ASKING)
    again = kept_or_asked(own, tmp_path / "unused.jsonl", write, [row], ORDER, model(), CATALOGUE, ASKING)
    assert not (tmp_path / "unused.jsonl").exists()
    both = [part.sort_values(["unit", "way"])["text"].tolist() for part in (answers, again)]
    assert both[0] == both[1]


def test_the_projects_answers_are_whole():
    found = read(ROOT / REPAIRS)
    assert not found.duplicated(["key", "weights"]).any()
    kinds = found["condition"].str.split(" ", expand=True).set_axis(["test_set", "way"], axis=1)
    found = found.join(kinds).assign(model=found["writer"].str.split("-").str[0])
    units = found.groupby(["model", "test_set", "way"])["unit"].agg(set)
    for model, test_set, flows in (
        ("finetuned", "test", 100),
        ("finetuned", "unseen", 200),
        ("in_context", "test", 24),
    ):
        free, held, second = (units[model, test_set, way] for way in ("free", "catalogue", "second"))
        assert free == held
        assert len(free) == flows
        assert second < free
