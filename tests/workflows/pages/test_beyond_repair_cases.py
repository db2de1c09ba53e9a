import pandas as pd
import pytest

from lib.workflows.pages.beyond_repair_cases import examples_table, penalty_in_words, repairs_in_words, repairs_table
from lib.workflows.repair_costs import repairs
from tests.workflows.repair_worlds import ASKED, CATALOGUE, GOLD, MADE_UP, OTHER


@pytest.fixture(scope="module")
def fixed():
    texts = [MADE_UP, OTHER.replace('"to"', '"tos"'), GOLD[:-3]]
    answers = pd.DataFrame(
        {"model": "finetuned", "test_set": "unseen", "unit": ["q0", "q1", "q2"], "way": "free", "text": texts}
    )
    return repairs(answers, ASKED, CATALOGUE)


def test_what_was_repaired_is_counted(fixed):
    frame = repairs_table(fixed).frame
    assert frame["repair"].tolist() == [
        "made-up name, snapped", "made-up key, snapped or dropped", "text that broke off, closed",
    ]  # fmt: skip
    assert frame["right"].tolist() == [1, 0, 1]
    assert repairs_in_words(fixed).startswith("Of 3 free answers that the checker does not accept: made-up name")
    both = pd.concat([fixed, fixed.head(1).assign(model="in_context")])
    assert repairs_in_words(both).startswith("Of 4 free answers"), "two models' to one request"
    assert repairs_in_words(fixed.head(0)).startswith("The checker accepts every free answer")


def test_examples_of_each_kind(fixed):
    frame = examples_table(fixed, ASKED).frame
    assert frame["right"].tolist() == ["yes", "no", "yes"]
    assert frame["written"].tolist()[:2] == ["shared_chat.Pots", "tos"]
    assert frame["repaired"].tolist()[:2] == ["shared_chat.Post", "to"]
    assert (frame["request"] == "when mail comes, say hi").all()
    doubled = pd.concat([fixed, fixed])
    assert len(examples_table(doubled, ASKED).frame) == 3
    assert len(examples_table(doubled, ASKED, each=2).frame) == 6


def test_the_words_on_the_penalty():
    means = pd.DataFrame([("finetuned", "unseen", 48, 0.3, 0.45, 0.47)],
                         columns=["model", "test_set", "flows", "free", "lifted", "snapped"])  # fmt: skip
    assert "0.30 free, 0.45 without the penalty, 0.47 snapped" in penalty_in_words(means)
