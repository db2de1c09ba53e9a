"""What notebook 11 shows of Flow-Bench."""

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


def test_requests_by_what_is_asked_for(bench):
    table = page.requests_table(bench.pairs)
    assert table.frame.to_numpy().tolist() == [
        ["a new flow", 1, 1.0, 0, 0, 0],
        ["an edit that adds", 1, 2.0, 1, 1, 1],
        ["an edit that deletes", 1, 1.0, 0, 0, 0],
    ]


def test_the_drawing_has_every_reading_and_its_data(recall):
    drawing = page.recall_drawing(recall, PUBLISHED)
    left, right = drawing.figure.axes
    assert (left.get_xlabel(), right.get_xlabel()) == ("Recall@10, %", "Recall@50, %")
    assert len(left.containers) == len(READINGS)
    assert [line.get_xdata()[0] for line in left.lines if line.get_linestyle() == "--"] == [93.07]
    assert drawing.data is recall


def differences(rows, **more):
    columns = ["a", "b", "difference", "ci_low", "ci_high", "settled"]
    return pd.DataFrame(rows, columns=columns).assign(n=101, **more)


FREE, UNDER = "in_context, tst, sfd, free", "in_context, tst, sfd, grammar"


def test_flows_written_in_a_table_and_a_forest(bench):
    values = pd.DataFrame(
        [(name, metric, 40.0, 30.0, 50.0, 24) for name in (FREE, "copy_tst", "copy_prior")
         for metric in page.MEASURES],
        columns=["condition", "metric", "value", "ci_low", "ci_high", "n"],
    )  # fmt: skip
    values.loc[(values["metric"] == "made_up_names") & (values["condition"] == FREE), "n"] = 20
    table = page.flows_table(values)
    frame = table.frame
    assert table.caption.startswith("Flows for 24 of")
    assert "counted over the flows that parse alone, 20 to 24." in table.caption
    assert page.condition_label(UNDER.replace("sfd", "none")) == "in-context: TST alone, grammar"
    assert frame["flows"].tolist() == [
        "in-context: TST + SFD", "copied: TST", "copied: flow to edit, else nearest"]  # fmt: skip
    assert frame["unparsed, %"].tolist() == ["40.0 [30.0, 50.0]"] * 3
    tests = differences([(FREE, "copy_tst", 9.0, 1.0, 17.0, True), (UNDER, FREE, 1.0, -1.0, 3.0, False)])
    drawing = page.flows_forest(tests)
    assert len(drawing.data) == 2
