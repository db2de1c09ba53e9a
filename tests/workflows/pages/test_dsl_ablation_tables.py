import numpy as np
import pandas as pd
import pytest

from lib.workbook.artifacts import ROOT
from lib.workflows.ablation import compare_conditions
from lib.workflows.pages.dsl_ablation import FINETUNED, Writers, marked
from lib.workflows.pages.dsl_ablation_full import FullReport
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
from tests.workflows.pages.studies import FIVE, FIVE_TST, TWENTY, TWENTY_TST, study_of

PUBLISHED = pd.read_csv(ROOT / "data" / "published" / "workflow_ablation.csv")
SIMILARITIES = {
    FIVE: [0.2] * 14,
    TWENTY: [0.25, 0.15] * 5,
    FIVE_TST: [0.9] * 14,
    TWENTY_TST: [None] + [0.2] * 13,
}
SAME = {FIVE: [0.3] * 12, FIVE_TST: [0.8] * 12}
NEW, KNOWN, NO_REPORT = "new wordings", "known wordings", FullReport({})


@pytest.fixture(scope="module")
def study():
    return study_of(SIMILARITIES, same=SAME)


@pytest.fixture(scope="module")
def table_1(study):
    return rebuilt(study, PUBLISHED, 1, NO_REPORT)


def test_a_table_of_which_no_two_rows_are_asked_is_empty_and_says_so(table_1):
    few = study_of({FIVE: [0.2] * 4, FIVE_TST: [0.9] * 4, FINETUNED: [0.9] * 4})
    for number in (3, 4):
        absent = rebuilt(few, PUBLISHED, number, NO_REPORT)
        assert absent.table is None
        assert absent.words == f"This profile asks no two rows of Table {number}; profile `full` asks all."
        assert list(absent.contract) == list(table_1.contract)
        assert absent.contract.empty
        together = at_a_glance(few, [rebuilt(few, PUBLISHED, 1, NO_REPORT), absent])
        assert set(together["table"]) == {1}


def test_a_rebuilt_table_has_values_differences_and_the_published_ones(table_1):
    frame = table_1.table.frame
    metrics = [
        "similarity",
        "executed right, %",
        "unparsed, %",
        "made-up names, %",
        "made-up parameters, %",
        "valid, %",
    ]
    assert frame.columns.tolist() == [
        ("", "condition"), *((group, name) for group in (NEW, KNOWN) for name in ("flows", *metrics)),
    ]  # fmt: skip
    assert frame[NEW, "flows"].tolist() == ["14", "10 (10)", "14 (14)", "14 (14)"]
    assert frame[KNOWN, "flows"].fillna("").tolist() == ["12", "", "12 (12)", ""]
    assert frame.loc[0, (NEW, "similarity")] == "0.20 [0.20, 0.20]"
    assert frame.loc[2, (NEW, "similarity")] == "0.90 [0.90, 0.90]\nΔ 0.70 [0.70, 0.70] ●\npublished Δ 0.02"
    assert frame.loc[2, (KNOWN, "similarity")].startswith("0.80 [0.80, 0.80]\nΔ 0.50")
    assert frame.loc[3, (NEW, "made-up names, %")].startswith("0 [0, 23] of 13\nΔ 0 [−23, 23] of 13\npublished Δ −")
    assert table_1.table.caption.startswith("Table 1 of the paper, rebuilt. Differences from: pretrained encoder, 5")
    assert "the in-context model, catalogue unseen (SmolLM2-135M-Instruct) writes." in table_1.table.caption
    assert table_1.contract["published_delta"].notna().sum() == 16
    assert table_1.contract["test_set"].unique().tolist() == ["test", "test_same"]
    assert table_1.compared["table"].eq(1).all()


def test_executed_right_stands_beside_similarity_outside_of_the_tests(study, table_1):
    assert table_1.table.frame.loc[2, (NEW, "executed right, %")] == "0 [0, 22]"
    ran = table_1.contract[table_1.contract["metric"] == "executed"]
    assert len(ran) == table_1.contract["metric"].eq("similarity").sum()
    assert ran[["delta", "delta_ci_low", "delta_ci_high", "published_delta"]].isna().all(axis=None)
    assert ran["value"].notna().all()
    alone = compare_conditions(study.scores, table_1.compared["condition"].unique(), FIVE, 200, 0)
    published = table_1.compared[table_1.compared["metric"] != "executed"]
    assert alone["p_holm"].dropna().tolist() == published["p_holm"].dropna().tolist()
    assert table_1.compared.loc[ran.index, "p_holm"].isna().all()


def test_what_is_settled_is_said_first(table_1):
    assert table_1.words.startswith(
        "**2 of 20 differences are settled** (TST, 5 few-shots: similarity 0.70 [0.70, 0.70], new wordings; TST, 5 "
        "few-shots: similarity 0.50 [0.50, 0.50], known wordings). Our interval holds"
    )


def test_rows_of_another_generator_stand_against_its_own_baseline():
    instruct = {"pretrained_5_instruct": [0.5] * 14, "tst_5_instruct": [0.6] * 14}
    table = rebuilt(study_of(SIMILARITIES | instruct), PUBLISHED, 1, NO_REPORT)
    deltas = table.compared[table.compared["metric"] == "similarity"].set_index("condition")["delta"]
    assert deltas["tst_5_instruct"] == pytest.approx(0.1)
    assert deltas[FIVE_TST] == pytest.approx(0.7)
    assert table.contract.loc[table.compared["condition"] == "tst_5_instruct", "generator"].unique() == ["Qwen"]
    assert "instruct" not in " ".join(at_a_glance(study_of(SIMILARITIES), [table])["condition"])


def test_the_fine_tuned_model_is_table_4s_baseline():
    rows = {"no_shots_finetuned": [0.9] * 8, "tst_20_fd_in_context": [0.5] * 8, "tst_20_sfd_in_context": [0.4] * 8}
    table = rebuilt(study_of(rows), PUBLISHED, 4, NO_REPORT)
    assert table.compared["condition"].unique().tolist() == list(rows)
    assert table.table.caption.startswith("Table 4 of the paper, rebuilt. Differences from: fine-tuned model, no few-s")
    assert table.contract["published_delta"].notna().sum() == 8


def test_the_full_reports_value_stands_below(study, table_1):
    row = table_1.contract["test_set"].eq("test") & table_1.contract["selector"].eq("tst")
    known = table_1.contract[row & table_1.contract["shots"].eq(5)].assign(value=0.5, ci_low=0.4, ci_high=0.6)
    table = rebuilt(study, PUBLISHED, 1, FullReport({"dsl_shots": known}))
    assert table.table.frame.loc[2, (NEW, "similarity")].endswith("published Δ 0.02\nfull report 0.50 [0.40, 0.60]")
    assert "full report" not in table.table.frame.loc[0, (NEW, "similarity")]
    assert "Beside the full report: of 6 values 0 lie within its interval" in table.words


def test_differences_that_no_outcome_could_settle():
    few = study_of({FIVE: [0.5] * 4, FIVE_TST: [0.6] * 4})
    text = changes(few, few.compare([FIVE_TST], FIVE))
    assert text.startswith("**0 of 5 differences are settled**; 5 could not be, whatever the outcome: too few flows")
    assert too_few(pd.DataFrame({"counted_both": [7, 5]})) == (
        "; 1 could not be, whatever the outcome: too few flows count in both rows. "
    )
    assert too_few(pd.DataFrame({"counted_both": [20, 20]})) == ". "


def test_a_table_without_published_differences():
    study = study_of(SIMILARITIES)
    compared = study.compare([FIVE_TST], FIVE)
    shown = compared_table(study, compared, "Differences from: five.")
    assert shown.frame.loc[0, (NEW, "similarity")] == "0.90 [0.90, 0.90]\nΔ 0.70 [0.70, 0.70] ●"
    assert shown.caption.startswith("Differences from: five. Flows: tested")
    assert shown.cases[NEW, "similarity"][0] == f"flows.html#set=test&condition={compared['condition'].iloc[0]}"
    assert set(shown.cases) == {*shown.frame.columns[1:]}


def beside(rows):
    return pd.DataFrame(
        rows, columns=["condition", "metric", "baseline", "delta", "delta_ci_low", "delta_ci_high",
                       "published_delta", "p_holm"],
    ).assign(test_set="test", longer=False)  # fmt: skip


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
        "differences is settled the other way"
    )
    marked = COMPARED[:4].assign(longer=[True, False, True, True])
    assert verdict(marked).endswith("; 2 of the 3 have a row marked †, with prompts longer than the model learned")
    from_none = beside([("e", "similarity", "z", -0.3, -0.5, -0.1, 0.0, 0.01)])
    assert verdict(from_none).endswith("none of our differences are settled the other way, and 1 is settled where the "
                                       "paper prints 0.00")  # fmt: skip


def test_what_encoders_show_before_a_model_reads_it():
    asked = {"test": pd.DataFrame({"pair": ["q"], "apis": [["a", "b"]]})}
    near = {"tst": pd.Series([[0, 1]], ["q"]), "pretrained": pd.Series([[1]], ["q"])}
    text = tuning_in_words(near, asked, [["a", "b"], ["c"]])
    assert "with the right flow of: TST 0.50 (new wordings); pretrained encoder 0.00 (new wordings)." in text


def test_all_tables_in_one_figure(study, table_1):
    everything = at_a_glance(study, [table_1])
    assert everything["name"].unique().tolist() == [
        "Table 1: pretrained, 20", "Table 1: TST, 5", "Table 1: TST, 20",
    ]  # fmt: skip
    assert not everything["longer"].any()
    of_twenty = at_a_glance(marked(study, [TWENTY]), [table_1])
    assert of_twenty["longer"].tolist() == (of_twenty["condition"] == TWENTY).tolist()
    drawing = glance_drawing(everything)
    assert drawing.name == "dsl_ablation"
    assert drawing.finding == "O" + verdict(everything)[1:]
    assert "with 3 rows of Tables 1 to 4" in drawing.alt
    assert drawing.data is everything
    titles = [axis.get_title(loc="left") or axis.get_title() for axis in drawing.figure.axes]
    assert titles[0] == "similarity (right is better)"
    assert titles[1] == "unparsed, % (left is better)"
    shown = drawing.figure.axes[0].lines[-1].get_xdata()
    of_test = everything[(everything["metric"] == "similarity") & (everything["test_set"] == "test")]
    assert shown.tolist() == of_test["published_delta"].tolist()[::-1]
    assert len(drawing.figure.axes[0].containers) == 2


def test_the_finding_of_the_page():
    everything = COMPARED.assign(name=list("abccd"))
    text, figure, alt = highlight(study_of({FIVE: [0.5]}), everything, "Short.")
    assert text.startswith("Short. Tables 1 to 4 of the workflow paper with the in-context model, catalogue unseen (Sm")
    assert text.endswith("settled the other way.")
    assert (figure, "for 4 rows" in alt) == ("dsl_ablation", True)
    other = Writers("untuned", {"untuned": "remote:my_model_x", "finetuned": "s"}, 1)
    assert r"remote:my\_model\_x" in highlight(study_of({FIVE: [0.5]}, other, []), everything, "")[0]
