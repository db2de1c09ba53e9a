import pandas as pd
import pytest

from lib.workflows.nl2dsl import prompt
from lib.workflows.repair_asking import Row, all_first_prompts, ask, ask_all, first_prompts, second_prompts
from tests.workflows.repair_worlds import ASKING, CATALOGUE, GOLD, MADE_UP, OTHER, PROMPTS, told


def test_each_way_is_asked_for_apart():
    model = told()
    answers = ask(PROMPTS, "finetuned", model, CATALOGUE, ASKING)
    assert [call.way for call in model.calls] == ["free", "catalogue", "sample", "second"]
    assert [len(call.prompts) for call in model.calls] == [3, 3, 2, 1]
    assert answers.groupby("way").size().to_dict() == {"free": 3, "catalogue": 3, "sample": 4, "second": 1}
    drawn = answers[answers["way"] == "sample"]
    assert list(zip(drawn["unit"], drawn["draw"], strict=True)) == [("q0", 0), ("q0", 1), ("q1", 0), ("q1", 1)]
    assert drawn["text"].tolist() == [GOLD, OTHER, MADE_UP, GOLD]
    assert answers.loc[answers["way"] == "second", "unit"].tolist() == ["q1"]


def test_batches_leave_one_for_each_core():
    model = told()
    ask(PROMPTS, "finetuned", model, CATALOGUE, ASKING)
    assert [call.rows for call in model.calls] == [2, 2, 2, 1]
    model = told()
    model.padded = True
    ask(PROMPTS, "finetuned", model, CATALOGUE, ASKING)
    assert {call.rows for call in model.calls} == {64}


def test_what_is_asked_later_has_the_models_own_batches():
    model = told()
    ask(PROMPTS, "finetuned", model, CATALOGUE, ASKING)
    assert model.batch_size == 64
    model.answers = {}
    with pytest.raises(KeyError):
        ask(PROMPTS, "finetuned", model, CATALOGUE, ASKING)
    assert model.batch_size == 64


def test_nothing_is_asked_again_where_all_is_valid():
    model = told()
    model.answers["free"] = [GOLD] * 3
    answers = ask(PROMPTS.assign(sampled=False), "finetuned", model, CATALOGUE, ASKING)
    assert [call.way for call in model.calls] == ["free", "catalogue"]
    assert set(answers["way"]) == {"free", "catalogue"}


def test_second_prompts_are_of_flows_that_are_not_valid_and_fit():
    texts = [GOLD, MADE_UP, OTHER]
    again = second_prompts(PROMPTS, texts, "finetuned", CATALOGUE, ASKING)
    assert again["unit"].tolist() == ["q1"]
    assert "there is no API shared_chat.Pots" in again["prompt"].iloc[0]
    assert again["grammar"].isna().all()
    assert second_prompts(PROMPTS, texts, "finetuned", CATALOGUE, ASKING._replace(room=9)).empty


REQUESTS = pd.DataFrame(
    {"pair": ["a", "b", "c"], "request": ["say hi", "say ho", "go"], "apis": [[]] * 3, "half": ["a", "", "b"]}
)
TRAINING = pd.DataFrame({"request": ["old"], "dsl": [GOLD], "apis": [["shared_mail.OnNew", "shared_chat.Post"]]})


def written(row):
    return first_prompts(row, REQUESTS, [[0]] * 3, TRAINING, CATALOGUE, 1000, lambda text: len(text.split()), "compact")


def test_the_fine_tuned_model_reads_the_request():
    prompts = written(Row("finetuned", "unseen", 2, 1))
    assert prompts["prompt"].tolist() == [prompt("say hi"), prompt("say ho")]
    assert prompts["sampled"].tolist() == [True, False]
    assert prompts["unit"].tolist() == ["a", "b"]
    assert set(prompts["model"]) == {"finetuned"}


def test_the_in_context_model_reads_few_shots_and_definitions_of_the_other_half():
    prompts = written(Row("in_context", "test", 5, 0))
    assert prompts["unit"].tolist() == ["a", "c"]
    assert prompts["model"].tolist() == ["in_context-b", "in_context-a"]
    assert prompts["request"].tolist() == ["say hi", "go"]
    assert all("Request: old" in text and "shared_chat.Post" in text for text in prompts["prompt"])
    assert not prompts["sampled"].any()


def test_every_row_whose_test_set_there_is():
    few = pd.DataFrame({"selector": "pretrained", "pair": ["a", "b", "c"], "shot": "t", "rank": 1})
    rows = [Row("finetuned", "unseen", 1, 0), Row("in_context", "test", 1, 1), Row("finetuned", "test_same", 9, 9)]
    order = {"test": REQUESTS, "unseen": REQUESTS.assign(pair=["u0", "u1", "u2"])}
    training = TRAINING.assign(pair="t")
    prompts = all_first_prompts(rows, order, few, training, CATALOGUE, 1000, lambda text: len(text.split()), "compact")
    assert prompts[["test_set", "unit", "model", "sampled"]].to_numpy().tolist() == [
        ["unseen", "u0", "finetuned", False],
        ["test", "a", "in_context-b", True],
    ]
    assert "Request: old" in prompts["prompt"].iloc[1]


def test_each_model_is_asked_its_own_prompts():
    model, other = told(), told()
    other.answers = {"free": [GOLD], "catalogue": [GOLD], "sample": [GOLD, OTHER]}
    prompts = pd.concat([PROMPTS, PROMPTS.head(1).assign(model="in_context-b", test_set="test", unit="q9")])
    answers = ask_all(prompts, {"finetuned": model, "in_context-b": other}, CATALOGUE, ASKING)
    assert set(answers["model"]) == {"finetuned", "in_context"}
    assert set(answers.loc[answers["model"] == "in_context", "unit"]) == {"q9"}
    assert len(answers) == 11 + 4
