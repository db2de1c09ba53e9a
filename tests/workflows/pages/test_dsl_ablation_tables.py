import pandas as pd
import pytest

from lib.workbook.artifacts import ROOT
from lib.workflows.pages.dsl_ablation import FINETUNED
from lib.workflows.pages.dsl_ablation_tables import at_a_glance, rebuilt
from tests.workflows.pages.studies import FIVE, FIVE_TST, TWENTY, TWENTY_TST, study_of

PUBLISHED = pd.read_csv(ROOT / "data" / "published" / "workflow_ablation.csv")
SIMILARITIES = {
    FIVE: [0.2] * 14,
    TWENTY: [0.25, 0.15] * 5,
    FIVE_TST: [0.9] * 14,
    TWENTY_TST: [None] + [0.2] * 13,
}
SAME = {FIVE: [0.3] * 12, FIVE_TST: [0.8] * 12}
NEW, KNOWN = "new wordings", "known wordings"


@pytest.fixture(scope="module")
def study():
    return study_of(SIMILARITIES, same=SAME)


@pytest.fixture(scope="module")
def table_1(study):
    return rebuilt(study, PUBLISHED, 1)


def test_a_table_of_which_no_two_rows_are_asked_is_empty(table_1):
    few = study_of({FIVE: [0.2] * 4, FIVE_TST: [0.9] * 4, FINETUNED: [0.9] * 4})
    for number in (3, 4):
        absent = rebuilt(few, PUBLISHED, number)
        assert absent.table is None
        assert list(absent.contract) == list(table_1.contract)
        assert absent.contract.empty
        together = at_a_glance(few, [rebuilt(few, PUBLISHED, 1), absent])
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
    assert table_1.contract["published_delta"].notna().sum() == 16
    assert table_1.contract["test_set"].unique().tolist() == ["test", "test_same"]
    assert table_1.compared["table"].eq(1).all()


def test_rows_of_another_generator_stand_against_its_own_baseline():
    instruct = {"pretrained_5_instruct": [0.5] * 14, "tst_5_instruct": [0.6] * 14}
    table = rebuilt(study_of(SIMILARITIES | instruct), PUBLISHED, 1)
    deltas = table.compared[table.compared["metric"] == "similarity"].set_index("condition")["delta"]
    assert deltas["tst_5_instruct"] == pytest.approx(0.1)
    assert deltas[FIVE_TST] == pytest.approx(0.7)
    assert table.contract.loc[table.compared["condition"] == "tst_5_instruct", "generator"].unique() == ["Qwen"]
    assert "instruct" not in " ".join(at_a_glance(study_of(SIMILARITIES), [table])["condition"])


def test_the_fine_tuned_model_is_table_4s_baseline():
    rows = {"no_shots_finetuned": [0.9] * 8, "tst_20_fd_in_context": [0.5] * 8, "tst_20_sfd_in_context": [0.4] * 8}
    table = rebuilt(study_of(rows), PUBLISHED, 4)
    assert table.compared["condition"].unique().tolist() == list(rows)
    assert table.table.caption.startswith("Table 4 of the paper, rebuilt. Differences from: fine-tuned model, no few-s")
    assert table.contract["published_delta"].notna().sum() == 8
