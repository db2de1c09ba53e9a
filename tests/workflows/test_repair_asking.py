import pandas as pd
import pytest

from lib.workflows.prompts import finetuned_prompt as prompt
from lib.workflows.repair_asking import (
    QUALITY,
    Row,
    all_first_prompts,
    ask,
    ask_all,
    compare,
    first_prompts,
    second_prompts,
    ways,
)
from tests.workflows.repair_worlds import ASKED, ASKING, CATALOGUE, GOLD, MADE_UP, OTHER, PROMPTS, told


def test_each_way_is_asked_for_apart():
    model = told()
    answers = ask(PROMPTS, "finetuned", model, CATALOGUE, ASKING)
    assert [call.way for call in model.calls] == ["free", "catalogue", "second"]
    assert [len(call.prompts) for call in model.calls] == [3, 3, 1]
    assert answers.groupby("way").size().to_dict() == {"free": 3, "catalogue": 3, "second": 1}
    assert answers.loc[answers["way"] == "second", "unit"].tolist() == ["q1"]


def test_nothing_is_asked_again_where_all_is_valid():
    model = told()
    model.answers["free"] = [GOLD] * 3
    answers = ask(PROMPTS, "finetuned", model, CATALOGUE, ASKING)
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
    prompts = written(Row("finetuned", "unseen", 2))
    assert prompts["prompt"].tolist() == [prompt("say hi"), prompt("say ho")]
    assert prompts["unit"].tolist() == ["a", "b"]
    assert set(prompts["model"]) == {"finetuned"}


def test_the_in_context_model_reads_few_shots_and_definitions_of_the_other_half():
    prompts = written(Row("in_context", "test", 5))
    assert prompts["unit"].tolist() == ["a", "c"]
    assert prompts["model"].tolist() == ["in_context-b", "in_context-a"]
    assert prompts["request"].tolist() == ["say hi", "go"]
    assert all("Request: old" in text and "shared_chat.Post" in text for text in prompts["prompt"])


def test_every_row_whose_test_set_there_is():
    few = pd.DataFrame({"selector": "pretrained", "pair": ["a", "b", "c"], "shot": "t", "rank": 1})
    rows = [Row("finetuned", "unseen", 1), Row("in_context", "test", 1), Row("finetuned", "test_same", 9)]
    order = {"test": REQUESTS, "unseen": REQUESTS.assign(pair=["u0", "u1", "u2"])}
    training = TRAINING.assign(pair="t")
    prompts = all_first_prompts(rows, order, few, training, CATALOGUE, 1000, lambda text: len(text.split()), "compact")
    assert prompts[["test_set", "unit", "model"]].to_numpy().tolist() == [
        ["unseen", "u0", "finetuned"],
        ["test", "a", "in_context-b"],
    ]
    assert "Request: old" in prompts["prompt"].iloc[1]


def test_each_model_is_asked_its_own_prompts():
    model, other = told(), told()
    other.answers = {"free": [GOLD], "catalogue": [GOLD]}
    prompts = pd.concat([PROMPTS, PROMPTS.head(1).assign(model="in_context-b", test_set="test", unit="q9")])
    answers = ask_all(prompts, {"finetuned": model, "in_context-b": other}, CATALOGUE, ASKING)
    assert set(answers["model"]) == {"finetuned", "in_context"}
    assert set(answers.loc[answers["model"] == "in_context", "unit"]) == {"q9"}
    assert len(answers) == 7 + 2


@pytest.fixture(scope="module")
def made():
    answers = ask(PROMPTS, "finetuned", told(), CATALOGUE, ASKING).assign(model="finetuned")
    return ways(answers, ASKED, CATALOGUE)


def of(made, way):
    return made[made["way"] == way].set_index("unit")


def test_the_flow_of_each_way(made):
    assert of(made, "free")["text"].tolist() == [GOLD, MADE_UP, OTHER]
    assert of(made, "snapped")["text"].tolist() == [GOLD, GOLD, OTHER]
    assert of(made, "reasked")["text"].tolist() == [GOLD, GOLD, OTHER]
    assert of(made, "catalogue")["text"].tolist() == [GOLD, OTHER, OTHER]
    assert of(made, "free")["executed"].tolist() == [1, 0, 0]
    assert of(made, "free")["valid"].tolist() == [1, 0, 1]
    assert of(made, "free")["similarity"].tolist() == [1, 0, 0.5]
    assert of(made, "snapped")["executed"].tolist() == [1, 1, 0]
    assert not made[[*QUALITY, "tokens_in", "tokens_out"]].isna().any().any()


def test_a_second_round_costs_both_prompts_and_both_answers(made):
    free, again, snapped = (of(made, way)[["tokens_in", "tokens_out"]] for way in ("free", "reasked", "snapped"))
    assert free.sum(axis=1).tolist() == snapped.sum(axis=1).tolist() == [19, 19, 19]
    assert again.sum(axis=1).tolist() == [19, 19 + 21, 19]


def test_ways_are_compared_with_constrained_decoding(made):
    table = compare(made, 100, 7).set_index(["way", "metric"])
    assert table.loc[("snapped", "executed"), ["value", "delta", "n"]].tolist() == pytest.approx([200 / 3, 100 / 3, 3])
    assert table.loc["catalogue"][["delta", "p_value"]].isna().all().all()
    assert table.loc[("reasked", "similarity"), "tokens_in"] == pytest.approx((14 * 3 + 16) / 3)
