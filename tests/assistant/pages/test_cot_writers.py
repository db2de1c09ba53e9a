"""What notebook 03 shows of those who write chains of thought."""

from dataclasses import replace
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

from lib.assistant.pages import cot_writers as page
from lib.assistant.schemas import APPS
from lib.generation.local import Usage
from lib.workbook.trained import Adapter

CURVE = pd.DataFrame(
    {"tokens": [600, 400], "target_tokens": [300, 200], "loss": [3.04, 1.96], "seconds": [2.0, 1.4], "step": [1, 2]}
)
SAMPLE = pd.DataFrame(
    {
        "query": ["q1", "q2"],
        "kind": ["habit", "meaning"],
        "text": ["play it", "when?"],
        "cot": ["Check 'Music'.", "Check 'Calendar'."],
        "persona": ["p", "q"],
        "phrasing": ["a", "b"],
    }
)


def test_who_writes_counts_queries_personas_and_shared_phrasings():
    learned = pd.DataFrame({"persona": ["r", "r"], "phrasing": ["b", "c"]})
    written_for = pd.DataFrame({"persona": ["s"], "phrasing": ["c"]})
    assert page.who_writes(pd.concat([SAMPLE] * 3), SAMPLE, learned, written_for) == (
        "2 of the 6 evaluation queries get a CoT from each writer; 2 training queries of 1 personas teach the "
        "distilled writer; 1 queries of 1 other training personas get a CoT for notebook 04, 100% of them in a "
        "phrasing that the writer learned from; of the evaluation queries 50%."
    )


def test_a_prompt_is_quoted_as_plain_text():
    said = page.quoted_prompt("Be *brief*.\n\nRequest: `rm` [x](y)")
    assert said.splitlines()[2:] == ["> Be \\*brief\\*.", "> ", "> Request: \\`rm\\` \\[x\\](y)"]


def test_what_was_learned_or_that_nothing_was():
    trained = Adapter(Path("writer"), True, "", CURVE, 12, 1000, 3.4, "a laptop", {})
    assert page.what_it_learned("my_model", 12, trained) == (
        "my\\_model learned from 12 pairs in 2 steps: 1,000 tokens, 500 of them counted in the loss. "
        "It came with the project, where it was trained in 3 s on a laptop."
    )
    here = replace(trained, shipped=False, reason="Other *pairs*.")
    assert page.what_it_learned("m", 12, here).endswith("It was trained here, in 3 s on a laptop. Other \\*pairs\\*.")
    assert "there is nothing to learn from" in page.what_it_learned("m", 0, None)


def test_the_loss_is_drawn_against_tokens():
    drawing = page.loss_drawing(CURVE, 12)
    assert drawing.finding == "The loss goes from 3.0 to 2.0 nats a token over 12 pairs"
    assert drawing.alt.endswith("thin: each step, thick: running mean, from 3.04 to 1.96.")
    assert "thin: means of 4 steps" in page.loss_drawing(CURVE.assign(step=[4, 7]), 12).alt
    assert drawing.figure.axes[0].lines[0].get_xdata().tolist() == [600, 1000]
    assert "seconds" not in drawing.data.columns
    plt.close("all")


def test_cots_of_both_sides_are_kept_and_the_last_writer_wrote_for_training():
    texts = {"cot": ["A", "B"], "cot_distilled": ["C", "D"]}
    kept = page.cot_frame(SAMPLE, texts, pd.DataFrame({"query": ["q9"]}), ["E"])
    assert kept.to_numpy().tolist() == [
        ["q1", "evaluation", "cot", "A"],
        ["q2", "evaluation", "cot", "B"],
        ["q1", "evaluation", "cot_distilled", "C"],
        ["q2", "evaluation", "cot_distilled", "D"],
        ["q9", "training", "cot_distilled", "E"],
    ]
    alone = page.cot_frame(SAMPLE, {"cot": ["A", "B"]}, pd.DataFrame({"query": []}), [])
    assert alone["split"].unique().tolist() == ["evaluation"]
    assert list(alone.columns) == ["query", "split", "writer", "text"]


def test_usage_is_kept_of_the_writers_alone():
    usage = {("evaluation", "cot"): Usage(2, 20, 10, 3.0), ("evaluation", "cot_other_types"): Usage(2, 30, 10, 3.0)}
    kept = page.usage_frame(usage, ["cot"])
    assert kept.to_dict("records") == [
        {"writer": "cot", "split": "evaluation", "prompts": 2, "tokens_in": 20, "tokens_out": 10, "seconds": 3.0}
    ]


def test_examples_show_one_query_of_each_kind_beside_the_expert():
    names = page.names_of("paper")
    table = page.examples_table(SAMPLE, {"cot": ["A", "B"]}, names, "some model", seed=0)
    assert table.frame.to_dict("records") == [
        {"kind": "habit", "query": "play it", "zero-shot": "A", "expert": "Check 'Music'."},
        {"kind": "meaning", "query": "when?", "zero-shot": "B", "expert": "Check 'Calendar'."},
    ]
    assert table.caption == "CoTs by some model and the expert's."
    assert names["cot_other_types"] == "zero-shot, types: paper"


def test_precision_needs_ten_cots_that_name_an_app():
    relevant = pd.Series([["music"]] * 10, index=[f"q{n}" for n in range(10)])
    texts = {"cot": ["Check 'Music'."] * 10, "cot_distilled": ["Check 'Music'."] * 9 + ["Check"]}
    naming = page.naming_of(texts, relevant, list(APPS))
    table = page.naming_table(naming, texts, page.names_of("paper"))
    rows = table.frame.set_index("writer")
    assert rows.loc["zero-shot", ["CoTs that name an app", "precision, %", "coverage, %"]].tolist() == [10, 100, 100]
    assert rows.loc["distilled", "only the word Check, %"] == 10
    assert np.isnan(rows.loc["distilled", ["precision, %", "at random", "commonest"]].astype(float)).all()
    assert rows.loc["distilled", "coverage, %"] == 90
    assert "n = 10 queries" in table.caption


def test_quality_counts_what_differs_is_empty_or_repeats_itself():
    texts = {"cot": ["", "a b c d a b c d"], "expert": ["one two", "one two"]}
    rows = page.quality_table(texts, page.names_of("paper")).frame.set_index("writer")
    assert rows.loc["zero-shot"].tolist() == [2, 50.0, 50.0, 4.0]
    assert rows.loc["expert"].tolist() == [1, 0.0, 0.0, 2.0]


def test_what_they_name_says_more_where_an_app_is_named():
    relevant = pd.Series([["music"], ["notes"]])
    texts = {"cot": ["Check", "hm"], "cot_distilled": ["Check 'Music'.", "Check 'Music'."]}
    naming = page.naming_of(texts, relevant, ["music", *(app for app in APPS if app != "music")])
    said = page.what_they_name(naming, texts, ["cot", "cot_distilled"])
    assert said == (
        "The zero-shot writer names an app in 0% of its CoTs, and 1 of 2 say nothing but “Check”. "
        "The distilled writer names an app in 100% of its CoTs; the named apps hold 50% of all relevant items "
        "(as many at random: 14%, the commonest: 50%)."
    )


USAGE = {("evaluation", "cot"): Usage(10, 1000, 200, 5.0), ("evaluation", "cot_distilled"): Usage(0, 0, 0, 0.0)}


def test_cost_is_told_a_query_and_extrapolated():
    names = {"cot": "CoT", "cot_distilled": "CoT, distilled"}
    table = page.cost_table(USAGE, names, {"training": 1200, "evaluation": 12})
    first, second = table.frame.to_dict("records")
    assert (first["queries"], first["tokens in"], first["tokens out"], first["seconds"]) == (10, 100.0, 20.0, 0.5)
    assert (first["minutes for all 1,200 training queries"], second["seconds"]) == (10.0, 0.0)


@pytest.mark.parametrize(
    ("curve", "remote", "expected"),
    [
        (None, True, "takes 0.50 s a query of waiting for the endpoint. Notebook 05"),
        (
            CURVE,
            False,
            "takes 0.50 s a query in large batches, one of the distilled writer 0.00 s after 3 s of training on 1,000 "
            "tokens. Notebook 05",
        ),
    ],
)
def test_cost_in_words(curve, remote, expected):
    assert expected in page.cost_in_words(USAGE, curve, remote)
