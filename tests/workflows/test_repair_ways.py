import itertools

import numpy as np
import pytest

from lib.workflows.repair import agreement, choose
from lib.workflows.repair_asking import ask
from lib.workflows.repair_ways import QUALITY, ways
from tests.workflows.repair_worlds import ASKED, ASKING, CATALOGUE, GOLD, MADE_UP, OTHER, PROMPTS, told


@pytest.fixture(scope="module")
def answers():
    return ask(PROMPTS, "finetuned", told(), CATALOGUE, ASKING).assign(model="finetuned")


@pytest.fixture(scope="module")
def made(answers):
    return ways(answers, ASKED, CATALOGUE)


def of(made, way, n=1):
    return made[(made["way"] == way) & (made["n"] == n)].set_index("unit")


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
