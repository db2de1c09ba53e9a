"""What notebook 11 shows and says of Flow-Bench."""

import itertools

import pandas as pd
import pytest

from lib.workflows.catalogue import Catalogue
from lib.workflows.flow_bench import ASKED, READINGS, RECALL, USER_TASK, FlowBench
from lib.workflows.pages import transfer as page

PUBLISHED = pd.DataFrame(
    [("pretrained", "a_model", "recall", 10, 93.07), ("pretrained", "a_model", "recall", 50, 97.94),
     ("finetuned", "tuned", "recall", 10, 97.03), ("finetuned", "tuned", "recall", 50, 99.26)],
    columns=["method", "label", "metric", "k", "value"],
)  # fmt: skip


@pytest.fixture
def bench():
    rows = [
        ("p1", "linear", "", "x", "", "a.b();", ["a.b"], ["a.b"]),
        ("p2", "conditional", "add", "y", "a.b();",
         "for (x of xs) {\n  if (x) {\n    a.b();\n  }\n}\nperson.user_task();", ["a.b", "person.user_task"], []),
        ("p3", "conditional", "delete", "z", "a.b();", "if(x){a.c();}", ["a.c"], ["a.c"]),
    ]  # fmt: skip
    pairs = pd.DataFrame(rows, columns=["pair", "kind", "update", "request", "prior", "dsl", "apis", "new_apis"])
    return FlowBench(Catalogue({"a.b": object(), USER_TASK.name: USER_TASK}, {}), pairs)


@pytest.fixture
def recall():
    """Recall of `both` by clauses under `given` is nearest; that of `id` is nearest at 10 alone."""
    values = dict.fromkeys(itertools.product(page.TEXTS, ASKED, READINGS), (50.0, 60.0))
    values |= {("id", "request", "flow"): (93.0, 80.0), ("both", "clauses", "given"): (92.0, 97.0)}
    rows = [
        (*setting, k, value, value - 2, value + 1.5, 85 if setting[-1] == "new" else 101)
        for setting, both in values.items()
        for k, value in zip((10, 50), both, strict=True)
    ]
    return pd.DataFrame(rows, columns=RECALL)


def test_flows_that_are_not_the_same_are_counted(bench):
    assert page.what_was_read(bench) == (
        "4 of 5 flows (3 right ones, 2 to edit) are the same text after they are parsed and printed. The right ones "
        "call 2 different APIs, of which 1 are among the 1 of the catalogue."
    )


def test_requests_by_what_is_asked_for(bench):
    table = page.requests_table(bench.pairs)
    assert table.frame.to_numpy().tolist() == [
        ["a new flow", 1, 1.0, 0, 0, 0],
        ["an edit that adds", 1, 2.0, 1, 1, 1],
        ["an edit that deletes", 1, 1.0, 0, 0, 0],
    ]


def test_recall_beside_the_published(recall):
    table = page.recall_table(recall, PUBLISHED, "my_encoder")
    assert len(table.frame) == 18
    assert table.frame.iloc[0].tolist() == [
        "the whole request", "id", READINGS["flow"], 101, "93.0 [91.0, 94.5]", "80.0 [78.0, 81.5]",
    ]  # fmt: skip
    assert table.frame.iloc[-1]["requests"] == 85
    assert r"my\_encoder" in table.caption
    assert r"a\_model: 93.07 (K = 10), 97.94 (K = 50); tuned: 97.03 (K = 10), 99.26 (K = 50)." in table.caption


def test_the_nearest_reading_is_near_at_all_cutoffs(recall):
    assert page.nearest(recall, PUBLISHED)[[*page.SETTING, "k"]].to_numpy().tolist() == [
        ["both", "clauses", "given", 10], ["both", "clauses", "given", 50],
    ]  # fmt: skip
    said = page.nearest_sentence(recall, PUBLISHED)
    assert said == (
        "Nearest to the published recall: 92.0% at 10 (published 93.1%) and 97.0% at 50 (published 97.9%); searched "
        f"for its clauses in id and description; needed are {READINGS['given']}"
    )


@pytest.mark.parametrize(("move", "word"), [(0, "inside"), (-5, "outside"), (-0.5, "only in part inside")])
def test_the_finding_says_whether_the_published_value_is_inside(bench, recall, move, word):
    near = (recall["texts"] == "both") & (recall["reading"] == "given") & (recall["asked"] == "clauses")
    shift = (near & ((recall["k"] == 10) | (word == "outside"))) * move
    recall[["value", "ci_low", "ci_high"]] = recall[["value", "ci_low", "ci_high"]].add(shift, axis=0)
    text = page.finding(bench, recall, PUBLISHED)
    assert text.startswith("2 of Flow-Bench's 3 flows")
    assert f"The published recall is {word} our 95% intervals" in text
    assert "Of 18 settings this one was chosen by that nearness" in text


def test_the_drawing_has_every_reading_and_its_data(recall):
    drawing = page.recall_drawing(recall, PUBLISHED)
    left, right = drawing.figure.axes
    assert (left.get_xlabel(), right.get_xlabel()) == ("Recall@10, %", "Recall@50, %")
    assert len(left.containers) == len(READINGS)
    assert [line.get_xdata()[0] for line in left.lines if line.get_linestyle() == "--"] == [93.07]
    assert drawing.data is recall


def test_copying_the_flow_to_edit_has_an_interval():
    prior = pd.DataFrame({"family": ["a", "a", "b", "c"], "value": [0.0, 0.0, 100.0, 100.0]})
    assert page.prior_words(prior).startswith(
        "For 4 edits the flow to edit, copied as it is, has a similarity of 50.0 ["
    )
