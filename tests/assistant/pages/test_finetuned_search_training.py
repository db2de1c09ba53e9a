"""What notebook 04 shows of the training."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

from lib.assistant.pages import finetuned_search_training as page
from lib.retrieval.finetune import Finished
from lib.workbook.methods import colour


def record(rows, losses, seconds=2.4):
    curve = pd.DataFrame({"step": np.arange(1, len(losses) + 1), "loss": losses})
    return Finished(curve, rows, 100 * rows, seconds)


@pytest.fixture
def done():
    """Batches of 2: the last of `finetuned` has one row."""
    return {
        "finetuned": record(5, [4.0, 2.0, 1.0]),
        "first_40": record(1, [3.0], 0.4),
        "permuted": record(4, [5.0, 5.5]),
    }


@pytest.fixture
def models(done):
    sets = {name: pd.DataFrame(index=range(n)) for name, n in (("finetuned", 3), ("first_40", 1), ("permuted", 2))}
    return page.models_trained(done, sets, 2)


def test_what_is_learned_counts_true_negatives_that_are_none():
    training = pd.DataFrame({"query": ["a", "b", "c"], "persona": ["p", "p", "q"]})
    queries = pd.DataFrame({"query": ["x"], "persona": ["r"], "need": ["rent"]})
    qrels = pd.DataFrame({"query": ["a", "a", "b", "c", "x"], "item": list("ijklm")})
    need = pd.Series(["rent", "rent", "flight"])
    said = page.what_is_learned(training, need, queries, qrels, 1, 2)
    assert said.startswith(
        "3 training queries of 2 personas have 4 relevant items; each query is seen 1 time. Evaluated: 1 queries of 1 "
        "other personas about 1 needs, which decide how wide intervals are more than n does. Two training queries "
        "drawn at random ask about the same need with probability 33.3%:"
    )
    assert said.endswith("In a batch of 2 that befalls 33% of the queries at least once.")
    assert "is seen 2 times." in page.what_is_learned(training, need, queries, qrels, 2, 2)
    in_four = page.what_is_learned(training, need, queries, qrels, 1, 4)
    assert "befalls 58% of" in in_four  # two of three queries, with probability 1 − (1/2)³


def test_no_training_query_is_said():
    none = pd.DataFrame({"query": [], "persona": []})
    queries = pd.DataFrame({"query": ["x"], "persona": ["r"], "need": ["rent"]})
    qrels = pd.DataFrame({"query": ["x"], "item": ["m"]})
    said = page.what_is_learned(none, pd.Series([], dtype=object), queries, qrels, 1, 32)
    assert said.startswith("0 training queries of 0 personas have 0 relevant items;")
    assert said.endswith("nothing is trained, and the artifacts of this notebook hold no row.**")


def test_one_training_query_has_no_other():
    one = pd.DataFrame({"query": ["a"], "persona": ["p"]})
    said = page.what_is_learned(one, pd.Series(["rent"]), one.assign(need="rent"), one.assign(item="i"), 1, 32)
    assert "with probability 0.0%" in said


def test_negatives_stand_beside_all_items():
    provenance = pd.DataFrame({"item": list("abcd"), "source": ["need", "need", "stale", "decoy"]})
    table = page.negatives_table(pd.DataFrame({"item": ["c", "c", "d", "d"]}), provenance, 8)
    shown = table.frame.set_index("items")
    assert shown.loc["all items"].to_dict() == {"need asked about": 50.0, "gone stale": 25.0, "lookalike": 25.0}
    assert shown.loc["hard negatives"].dropna().to_dict() == {"gone stale": 50.0, "lookalike": 50.0}
    assert table.caption.startswith("What the 8 hardest wrong items")


def test_examples_show_the_hardest_negative():
    training = pd.DataFrame({"query": ["a", "b"], "text": ["A?", "B?"]})
    items = pd.DataFrame({"item": ["i", "j", "k"], "text": ["one", "two", "three"]})
    qrels = pd.DataFrame({"query": ["a", "a", "b"], "item": ["i", "j", "k"]})
    negatives = pd.DataFrame({"query": ["a", "a", "b"], "rank": [1, 2, 1], "item": ["k", "j", "i"]})
    table = page.examples_table(training, qrels, negatives, items, seed=0)
    assert table.frame.sort_values("query").to_numpy().tolist() == [["A?", "one", "three"], ["B?", "three", "one"]]
    assert table.text_columns == ["query", "a relevant item", "the hardest negative"]


def test_losses_are_of_full_batches(models):
    rows = models.set_index("model")
    assert rows["full batches"].to_dict() == {"finetuned": 2, "first_40": 1, "permuted": 2}
    assert rows.loc["finetuned", ["loss, first tenth", "loss, last tenth"]].tolist() == [4.0, 2.0]
    assert rows.loc["finetuned", ["queries", "pairs", "tokens"]].tolist() == [3, 5, 500]
    long = page.models_trained({"finetuned": record(40, np.arange(20.0))}, {"finetuned": rows}, 2)
    assert long[["loss, first tenth", "loss, last tenth"]].to_numpy().tolist() == [[0.5, 18.5]]


def test_without_a_model_there_is_no_row():
    none = page.models_trained({}, {}, 32)
    assert none.empty
    assert {"model", "queries", "pairs", "tokens", "seconds"} <= set(none.columns)


def test_models_have_names_for_readers(models):
    table = page.models_table(models, 2, "mini")
    names = ["fine-tuned search", "first 40 queries", "relevant items dealt anew (control)"]
    assert table.frame["model"].tolist() == names
    assert table.frame["seconds"].tolist() == [2, 0, 2]
    assert "full batches of 2, which" in table.caption
    assert table.caption.endswith("Encoder mini.")
    assert page.model_name("half_1") == "half of the personas, second"


def test_loss_is_drawn_against_pairs(done, models):
    drawing = page.loss_drawing(done, models, 2)
    assert drawing.finding == "Training on 5 pairs takes the loss from 4.00 to 2.00"
    assert drawing.alt == "Training loss against pairs seen: fine-tuned search ends at 3.00; control ends at 5.25."
    assert set(drawing.data["model"]) == {"finetuned", "permuted"}
    assert drawing.data["pairs"].tolist() == [2, 4, 2, 4]
    lines = drawing.figure.axes[0].get_lines()
    assert [line.get_color() for line in lines] == [colour("finetuned")] * 2 + ["#999999"] * 2
    assert lines[3].get_label() == "control: relevant items dealt anew"
    plt.close(drawing.figure)


def test_pairs_seen_end_with_the_last_row():
    curve = page.loss_curves({"finetuned": record(1, [3.0])}, ["finetuned"], 32)
    assert curve["pairs"].tolist() == [1]
