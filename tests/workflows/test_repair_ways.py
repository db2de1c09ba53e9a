import itertools

import numpy as np
import pandas as pd
import pytest

from lib.workflows.nl2dsl import prompt
from lib.workflows.repair import agreement, choose
from lib.workflows.repair_ways import QUALITY, Row, ask, first_prompts, second_prompts, ways
from tests.workflows.repair_worlds import ASKED, ASKING, CATALOGUE, GOLD, MADE_UP, OTHER, PROMPTS, told


@pytest.fixture(scope="module")
def answers():
    return ask(PROMPTS, "finetuned", told(), CATALOGUE, ASKING).assign(model="finetuned")


@pytest.fixture(scope="module")
def made(answers):
    return ways(answers, ASKED, CATALOGUE)


def of(made, way, n=1):
    return made[(made["way"] == way) & (made["n"] == n)].set_index("unit")


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


def test_the_flow_of_each_way(made):
    assert of(made, "free")["text"].tolist() == [GOLD, MADE_UP, OTHER]
    assert of(made, "snapped")["text"].tolist() == [GOLD, GOLD, OTHER]
    assert of(made, "reasked")["text"].tolist() == [GOLD, GOLD, OTHER]
    assert of(made, "catalogue")["text"].tolist() == [GOLD, OTHER, OTHER]
    assert of(made, "best", 2)["text"].tolist() == [GOLD, GOLD]
    assert of(made, "free")["executed"].tolist() == [1, 0, 0]
    assert of(made, "free")["valid"].tolist() == [1, 0, 1]
    assert of(made, "free")["similarity"].tolist() == [1, 0, 0.5]
    assert of(made, "snapped")["executed"].tolist() == [1, 1, 0]


def test_what_each_way_costs(made):
    free, again, snapped = of(made, "free"), of(made, "reasked"), of(made, "snapped")
    assert free["tokens"].tolist() == [19, 19, 19]
    assert again["tokens"].tolist() == [19, 19 + 21, 19]  # both prompts and both answers
    assert again["seconds"].tolist() == [1, 2 + 1, 3]
    assert snapped["tokens"].tolist() == free["tokens"].tolist()
    assert (snapped["seconds"] > free["seconds"]).all()
    assert (snapped["seconds"] < free["seconds"] + 1).all()
    assert of(made, "best", 1)["tokens"].tolist() == [21, 21]
    assert of(made, "best", 2)["tokens"].tolist() == [42, 42]
    assert of(made, "best", 2)["seconds"].tolist() == [3, 7]  # of 1 and 2, of 3 and 4


def test_one_sample_is_worth_the_mean_of_all(made):
    assert of(made, "best", 1)["similarity"].tolist() == [0.75, 0.5]
    assert of(made, "best_snapped", 1)["similarity"].tolist() == [0.75, 1]
    assert of(made, "best_snapped", 2)["valid"].tolist() == [1, 1]
    assert of(made, "best", 1)["text"].isna().all()


def test_the_best_of_n_is_the_mean_over_every_choice():
    model = told()
    texts = [OTHER, MADE_UP, GOLD, "no flow", GOLD]
    model.answers["sample"] = [*texts, *texts]
    answers = ask(PROMPTS, "finetuned", model, CATALOGUE, ASKING._replace(samples=5)).assign(model="finetuned")
    made = ways(answers, ASKED, CATALOGUE)
    right = np.array([0.5, 0, 1, 0, 1])
    valid, alike = [True, False, True, False, True], agreement(texts)
    for n in range(1, 6):
        expected = np.mean([right[choose(valid, alike, among)] for among in itertools.combinations(range(5), n)])
        assert of(made, "best", n)["similarity"].tolist() == pytest.approx([expected] * 2)
    assert of(made, "best", 5)["similarity"].iloc[0] == 1


def test_ways_have_all_columns_and_no_gaps(made):
    assert not made[[*QUALITY, "tokens_in", "tokens_out", "tokens", "seconds"]].isna().any().any()
    assert made[list(QUALITY)].to_numpy().min() >= 0
    assert made[list(QUALITY)].to_numpy().max() <= 1


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
