import numpy as np
import pandas as pd
import pytest

from lib.workbook.artifacts import ROOT
from lib.workflows.pages.dsl_ablation import Writers
from lib.workflows.pages.dsl_ablation_tables import (
    at_a_glance,
    changes,
    compared_table,
    glance_drawing,
    highlight,
    rebuilt,
    too_few,
    tuning_in_words,
    verdict,
    with_published,
)
from tests.workflows.pages.studies import WRITERS, study_of

PUBLISHED = pd.read_csv(ROOT / "data" / "published" / "workflow_ablation.csv")
SIMILARITIES = {
    "pretrained_5": [0.2] * 14,
    "pretrained_20": [0.25, 0.15] * 5,
    "tst_5": [0.9] * 14,
    "tst_20": [None] + [0.2] * 13,
}


@pytest.fixture(scope="module")
def study():
    return study_of(SIMILARITIES)


@pytest.fixture(scope="module")
def table_1(study):
    return rebuilt(study, PUBLISHED, 1, ["pretrained_20", "tst_5", "tst_20"], "pretrained_5")


def test_a_rebuilt_table_has_values_differences_and_the_published_ones(table_1):
    frame = table_1.table.frame
    assert frame.columns.tolist() == [
        "condition", "flows", "similarity", "unparsed, %", "made-up names, %", "made-up parameters, %",
    ]  # fmt: skip
    assert frame["flows"].tolist() == ["14", "10 (10)", "14 (14)", "14 (14)"]
    assert frame.loc[0, "similarity"] == "0.20 [0.20, 0.20]"
    assert frame.loc[2, "similarity"] == "0.90 [0.90, 0.90]\nΔ 0.70 [0.70, 0.70] ●\npublished Δ 0.02"
    assert frame.loc[3, "made-up names, %"].startswith("0 [0, 23] of 13\nΔ 0 [−23, 23] of 13\npublished Δ −")
    assert table_1.table.caption.startswith("Table 1 of the paper, rebuilt. Differences from: pretrained encoder, 5")
    assert table_1.table.caption.endswith("● settled.")
    assert table_1.contract["published_delta"].notna().sum() == 12
    assert table_1.compared["table"].eq(1).all()


def test_what_is_settled_is_said_first(table_1):
    assert table_1.words.startswith(
        "**1 of 12 differences are settled** (TST, 5 few-shots: similarity 0.70 [0.70, 0.70]). Our interval holds"
    )


def test_differences_that_no_outcome_could_settle():
    few = study_of({"pretrained_5": [0.5] * 4, "tst_5": [0.6] * 4})
    text = changes(few, few.compare(["tst_5"], "pretrained_5"))
    assert text.startswith("**0 of 4 differences are settled**; 4 could not be, whatever the outcome: too few flows")
    assert too_few(pd.DataFrame({"counted_both": [7, 5]})) == (
        "; 1 could not be, whatever the outcome: too few flows count in both rows. "
    )
    assert too_few(pd.DataFrame({"counted_both": [20, 20]})) == ". "


def test_a_table_without_published_differences(study):
    compared = study.compare(["tst_5"], "pretrained_5")
    shown = compared_table(study, compared, "Differences from: five.")
    assert shown.frame.loc[0, "similarity"] == "0.90 [0.90, 0.90]\nΔ 0.70 [0.70, 0.70] ●"
    assert shown.caption.startswith("Differences from: five. Flows: tested")


def beside(rows):
    return pd.DataFrame(
        rows, columns=["condition", "metric", "baseline", "delta", "delta_ci_low", "delta_ci_high",
                       "published_delta", "p_holm"],
    )  # fmt: skip


COMPARED = beside(
    [
        ("a", "similarity", "z", 0.3, 0.1, 0.5, 0.2, 0.01),  # holds the published one, not 0
        ("b", "similarity", "z", 0.0, -0.5, 0.5, 0.2, 1.0),  # both
        ("c", "similarity", "z", -0.3, -0.5, -0.1, 0.2, 0.01),  # settled the other way
        ("c", "similarity", "z", -0.3, -0.5, -0.1, 0.2, 0.01),  # the same, printed in another table
        ("d", "similarity", "z", 0.3, 0.1, 0.5, np.nan, 0.01),
    ]
)


def test_our_interval_and_the_published_difference():
    assert with_published(COMPARED[:3]) == (
        "Our interval holds the published difference for 2 of 3; for 1 of these it holds 0 as well, so it tells the "
        "two apart in 1."
    )


def test_the_verdict_counts_a_comparison_once():
    assert verdict(COMPARED[:4]) == (
        "our 95% intervals hold 2 of 3 published differences, but 1 of these intervals hold 0 as well; 1 of our "
        "differences are settled the other way"
    )


def test_what_tst_shows_before_a_model_reads_it():
    asked = pd.DataFrame({"pair": ["q"], "apis": [["a", "b"]]})
    near = {"tst": pd.Series([[0, 1]], ["q"]), "pretrained": pd.Series([[1]], ["q"])}
    text = tuning_in_words(3000, near, asked, [["a", "b"], ["c"]])
    assert "at most 3,000 pairs" in text
    assert "Jaccard similarity of 0.50 with the right flow, those of the pretrained encoder 0.00" in text


def test_all_tables_in_one_figure(study, table_1):
    everything = at_a_glance(study, [table_1])
    assert everything["name"].unique().tolist() == [
        "Table 1: pretrained, 20", "Table 1: TST, 5", "Table 1: TST, 20",
    ]  # fmt: skip
    drawing = glance_drawing(everything)
    assert drawing.name == "dsl_ablation"
    assert drawing.finding == "O" + verdict(everything)[1:]
    assert "with 3 rows of Tables 1 to 4" in drawing.alt
    assert drawing.data is everything
    titles = [axis.get_title(loc="left") or axis.get_title() for axis in drawing.figure.axes]
    assert titles[0] == "similarity (right is better)"
    assert titles[1] == "unparsed, % (left is better)"
    shown = drawing.figure.axes[0].lines[-1].get_xdata()
    assert shown.tolist() == everything.loc[everything["metric"] == "similarity", "published_delta"].tolist()[::-1]


def test_the_finding_of_the_page():
    everything = COMPARED.assign(name=list("abccd"))
    text, figure, alt = highlight(WRITERS, everything, "Short.")
    assert text.startswith("Tables 1 to 4 of the workflow paper with SmolLM2-135M-Instruct as the writer: our 95%")
    assert text.endswith("settled the other way. Short.")
    assert (figure, "for 4 rows" in alt) == ("dsl_ablation", True)
    other = highlight(Writers("remote:my_model_x", "s", 1), everything, "")[0]
    assert r"with remote:my\_model\_x (with few-shots) and s (fine-tuned) as the writers: our" in other
