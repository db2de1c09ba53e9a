import numpy as np
import pandas as pd
import pytest

from lib.generation.decoding import stop_tokens
from lib.generation.local import load_tokenizer
from lib.generation.models import ModelError, locate
from lib.workflows.metaprompt import flow_of
from lib.workflows.nl2dsl import (
    END,
    copied_flows,
    flows_to_write,
    prompt,
    questions,
    sample,
    scored_answers,
    scored_copies,
    target,
    with_lists,
)
from lib.workflows.scoring import outcomes

FLOW = "triggerOutputs = await a.New();\nb.Post();"


def test_prompt_and_target_put_the_markers_around_the_flow():
    assert prompt(" When it\nrains ") + target(FLOW) == f"When it rains\n<START>\n{FLOW}\n<END>"
    assert flow_of(target(FLOW)) == FLOW


@pytest.mark.slow
def test_the_markers_are_text_that_ends_an_answer():
    """With SmolLM2's tokenizer; skipped where the model cannot be fetched."""
    try:
        tokenizer, _ = load_tokenizer(locate("SmolLM2-135M-Instruct"))
    except ModelError as error:
        pytest.skip(str(error))

    class Model:
        generation_config = None

    assert stop_tokens(Model(), tokenizer, [END])[1] == [END]
    apart = [tokenizer(text)["input_ids"] for text in (prompt("When it rains"), target(FLOW))]
    assert apart[0] + apart[1] == tokenizer(prompt("When it rains") + target(FLOW))["input_ids"]


def test_samples_nest_and_stay_in_their_split():
    splits = ["training", "test"] * 50
    pairs = pd.DataFrame({"pair": [f"p{i}" for i in range(100)], "split": splits}, index=range(1000, 1100))
    whole = sample(pairs, "test", 50, seed=7)
    assert set(whole["split"]) == {"test"}
    assert sorted(whole["pair"]) == sorted(pairs.loc[pairs["split"] == "test", "pair"])
    for n in (1, 12, 30):
        assert sample(pairs, "test", n, seed=7)["pair"].tolist() == whole["pair"].tolist()[:n]
    assert len(sample(pairs, "test", 60, seed=7)) == 50
    orders = {tuple(sample(pairs, "test", 50, seed=seed)["pair"]) for seed in range(3)}
    assert len(orders) == 3
    assert len(sample(pairs, "unseen", 5, seed=7)) == 0


def test_reworded_flows_are_tested_first():
    pairs = pd.DataFrame({"pair": [f"p{i}" for i in range(40)], "split": ["training", "test"] * 20})
    written = flows_to_write(pairs, ["p3", "p5", "p6"], 10, seed=7)
    assert len(written) == 10
    assert set(written["pair"][:2]) == {"p3", "p5"}, "p6 is a training pair"
    assert written["pair"].is_unique
    assert set(written["split"]) == {"test"}
    assert len(flows_to_write(pairs, ["p3", "p5"], 1, seed=7)) == 1


def test_the_nearest_flow_is_copied():
    pool = pd.DataFrame({"dsl": ["one", "other"]}, index=[7, 8])
    vectors = np.eye(2, dtype=np.float32)
    copies = copied_flows(pool, vectors, vectors[[1, 0, 1]])
    assert copies["text"].tolist() == ["other", "one", "other"]
    assert copies["finished"].all()


def test_answers_are_scored_under_their_condition(six_apis):
    gold = "x = await shared_office365.OnNewEmailV3();\nshared_office365users.MyProfile_V2();"
    made_up = 'shared_office365.Fly({"a": 1});\nshared_office365.SendEmailV2({"own": 1});'
    answers = pd.DataFrame({"text": [gold, "b.Post(", made_up], "tokens": [1, 2, 3]}, index=[9, 4, 9])
    scores = scored_answers("copy", answers, pd.DataFrame({"unit": ["x", "y", "z"], "dsl": gold}), six_apis)
    assert scores["similarity"].tolist() == [1, 0, 0]
    assert scores["tokens"].tolist() == [1, 2, 3]
    assert scores["unit"].tolist() == ["x", "y", "z"]
    assert len(outcomes(scores)) == 15  # of three answers, five metrics
    assert scores["executed"].tolist() == [True, False, False]
    kept = with_lists(scores)
    assert kept["made_up_names"].tolist() == [[], [], ["shared_office365.Fly"]]
    assert kept["made_up_parameters"][2] == [["shared_office365.SendEmailV2", "own"]]


def test_an_argument_that_the_request_does_not_say_may_differ(six_apis):
    gold = 'x = await shared_office365.OnNewEmailV3({"folderPath": "Inbox"});'
    other = pd.DataFrame({"text": [gold.replace("Inbox", "Archive")] * 2})
    asks = pd.DataFrame({"unit": ["x", "y"], "dsl": gold, "said": [[[]], [["folderPath"]]]})
    assert scored_answers("m", other, asks, six_apis)["executed"].tolist() == [True, False]
    assert scored_answers("m", other, asks.drop(columns="said"), six_apis)["executed"].tolist() == [False, False]


def test_questions_of_all_kinds():
    rows = [(f"{split}-{i}", split) for split in ("training", "test", "test_same", "unseen") for i in range(6)]
    pairs = pd.DataFrame(rows, columns=["pair", "split"])
    pairs = pairs.assign(request=pairs["pair"], dsl="f", apis=[["a"]] * len(pairs))
    reworded = pd.DataFrame({"pair": ["test-5", "test-1"], "request": ["five", "one"], "dsl": "f", "apis": [["a"]] * 2})
    assert "said" not in questions(pairs, reworded, 4, 0)
    asks = questions(pairs.assign(said=[[[name]] for name in pairs["pair"]]), reworded, 4, 0)
    assert (asks["said"].map(lambda keys: keys[0][0]) == asks["unit"]).all()
    assert asks["test_set"].value_counts().to_dict() == {"test": 4, "test_same": 4, "reworded": 2, "unseen": 2}
    again = asks[asks["test_set"] == "reworded"]
    assert set(again["unit"]) == {"test-1", "test-5"} <= set(asks.loc[asks["test_set"] == "test", "unit"])
    assert (again["pair"] == again["unit"] + " reworded").all()
    assert set(again["request"]) == {"five", "one"}
    assert not asks["unit"].str.startswith("training").any()
    alone = questions(pairs[pairs["split"] != "test_same"], reworded[:0], 3, 0)
    assert alone["test_set"].value_counts().to_dict() == {"test": 3, "unseen": 2}


def test_copies_are_scored_with_what_they_come_from(catalogue):
    mail = 'shared_office365.SendEmailV2({"emailMessage/To": "a@b.c"});'
    pool = pd.DataFrame({"dsl": [mail, "no flow"]})
    asks = pd.DataFrame({"test_set": ["test", "unseen"], "unit": ["x", "y"], "dsl": [mail, mail]})
    vectors = np.eye(2, dtype=np.float32)
    scores = scored_copies("copied", pool, vectors, asks, vectors, catalogue)
    assert scores["similarity"].tolist() == [1, 0]
    assert scores["test_set"].tolist() == ["test", "unseen"]
    assert set(scores["pairs"]) == {2}
