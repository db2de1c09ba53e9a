"""What notebook 11 shows and says of Flow-Bench."""

import itertools
from types import SimpleNamespace

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


def test_the_nearest_reading_is_near_at_all_cutoffs(recall):
    assert page.nearest(recall, PUBLISHED)[[*page.SETTING, "k"]].to_numpy().tolist() == [
        ["both", "clauses", "given", 10], ["both", "clauses", "given", 50],
    ]  # fmt: skip
    said = page.nearest_sentence(recall, PUBLISHED)
    assert said == (
        "Nearest to the published recall: 92.0% at 10 (published 93.1%) and 97.0% at 50 (published 97.9%); searched "
        f"for its clauses in id and description; counted as needed: {READINGS['given']}"
    )


@pytest.mark.parametrize(("move", "word"), [(0, "inside"), (-5, "outside"), (-0.5, "only in part inside")])
def test_the_finding_says_whether_the_published_value_is_inside(bench, recall, move, word):
    near = (recall["texts"] == "both") & (recall["reading"] == "given") & (recall["asked"] == "clauses")
    shift = (near & ((recall["k"] == 10) | (word == "outside"))) * move
    recall[["value", "ci_low", "ci_high"]] = recall[["value", "ci_low", "ci_high"]].add(shift, axis=0)
    text = page.finding(bench, recall, PUBLISHED)
    assert text.startswith("2 of Flow-Bench's 3 flows")
    assert f"The published recall is {word} our 95% intervals" in text
    assert "Our setting was chosen among 18 settings by that nearness, and is no test." in text
    assert "Of 3 requests 1 need only APIs of the flow to edit, so no search." in text


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


def differences(rows, **more):
    columns = ["a", "b", "difference", "ci_low", "ci_high", "settled"]
    return pd.DataFrame(rows, columns=columns).assign(n=101, **more)


@pytest.mark.parametrize(
    ("between", "anew", "verdict"),
    [
        ((3.0, 1.0, 5.0, True), (0.5, -1.0, 2.0, False), "explains at least a part"),
        ((0.5, -1.0, 2.0, False), (-3.0, -5.0, -1.0, True), "alone does not explain"),
        ((0.5, -1.0, 2.0, False), (-0.5, -2.0, 1.0, False), "stays open"),
    ],
)
def test_whether_the_domain_explains_the_loss(between, anew, verdict):
    tests = differences(
        [
         ("tst", "pretrained", -1.3, -2.0, -0.5, True), ("tst_anew", "pretrained", *anew),
         ("tst_anew", "tst", *between)],
        metric="jaccard",
    )  # fmt: skip
    said = page.tuned_words(tests, 600.0, 41.2)
    assert said.startswith(
        "Against the pretrained encoder the shipped TST changes the overlap of APIs (Jaccard) by −1.3 [−2.0, −0.5] "
        "points, settled"
    )
    assert "600 pairs" in said
    assert "Holm over all 3 comparisons of few-shots)." in said
    assert verdict in said
    assert page.tuned_words(tests.iloc[:1], 0, 0) == "TST was not tuned anew here."
    drawing = page.shots_forest(pd.concat([tests, tests.assign(metric="copied", settled=False)]))
    settled = sum(row[-1] for row in (between, anew)) + 1
    assert drawing.finding == f"{settled} of 3 comparisons of few-shots are settled on Flow-Bench"


def test_a_claim_that_is_settled_in_one_family_alone_is_named():
    tests = differences([("tst", "pretrained", -1.3, -2.0, -0.5, False), ("pretrained", "random", 5.0, 4.0, 6.0, True)],
                        metric="jaccard")  # fmt: skip
    claims = [
        SimpleNamespace(claim=f"{a}_wins", metric=metric, a=[a], b=b, statement=f"{a} wins.")
        for a, b, metric in (("tst", "pretrained", "jaccard"), ("pretrained", "random", "jaccard"), ("x", "y", "other"))
    ]
    rows = [("tst_wins", "contradicted", 3), ("pretrained_wins", "reproduced", 3), ("x_wins", "contradicted", 3)]
    transfer = pd.DataFrame(rows, columns=["claim", "there_overall", "there_tests"])
    assert page.two_families(transfer, claims, tests) == (
        "“tst wins” is contradicted on Flow-Bench among 3 claims, and not settled among the 2 comparisons of "
        "few-shots: Holm's adjustment asks more of more tests."
    )
    assert page.two_families(transfer.tail(2), claims, tests) == ""


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
    assert drawing.finding == ("Written flows beat copied ones in 1 of 1 comparisons and lose in 0; the rest is open")
    scores = pd.DataFrame(
        {"condition": FREE, "unit": ["p1", "p2", "p3"], "text": ["u", "v", "w"], "similarity": [0.5, 1.0, 0.0]}
    )
    examples = page.flow_examples(scores, bench.pairs, FREE).frame
    assert examples["written"].tolist() == ["w", "v"]
    assert "compares the APIs alone, not loops or arguments" in page.flow_examples(scores, bench.pairs, FREE).caption
    assert len(page.flow_examples(scores.iloc[:1], bench.pairs, FREE).frame) == 1


def test_who_wrote_the_instruct_rows_is_said():
    kept = pd.DataFrame({"writer": ["Larger-1.5B"] * 2, "seconds": [20.0, 24.0]})
    assert page.kept_words(kept, 2, 2, False) == (
        "The instruct model is Larger-1.5B. Its 2 flows were written once on a processor, in 22 seconds each in the "
        "median, and are kept with the project under the prompts that they answer."
    )
    assert page.kept_words(kept, 2, 2, True) == "The instruct model is Larger-1.5B, asked in this run."
    assert page.kept_words(kept.head(0), 120, 111, False).startswith(
        "An instruct model's rows are left out: 111 of 120 prompts have a kept answer"
    )
