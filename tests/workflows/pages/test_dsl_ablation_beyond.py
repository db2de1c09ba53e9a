import numpy as np
import pytest

from lib.workflows.ablation import cost_of
from lib.workflows.pages.dsl_ablation_beyond import beyond_contract, constrained, sweep
from tests.workflows.pages.studies import FIVE, ROWS, TWENTY, study_of

ONE = "pretrained_1_in_context"
SWEPT = [row for row in ROWS if row.name in (ONE, FIVE, TWENTY)]


def swept(one, five, twenty, same=(0.5, 0.5, 0.5)):
    study = study_of(
        {ONE: one, FIVE: five, TWENTY: twenty},
        same=dict(zip((ONE, FIVE, TWENTY), ([x] * 3 for x in same), strict=True)),
    )
    return study, sweep(study, SWEPT[::-1], cost_of(study.scores))


def test_a_sweep_has_its_rows_in_order_and_its_cost():
    curve = swept([0.5] * 4, [0.6] * 4, [0.7] * 3)[1].curve
    assert curve["shots"].drop_duplicates().tolist() == [1, 5, 20]
    assert curve["test_set"].unique().tolist() == ["test", "test_same"]
    assert curve[["tokens_in", "seconds"]].drop_duplicates().to_numpy().tolist() == [[100.0, 0.5]]


def test_the_levels_of_a_sweep_are_of_the_same_flows():
    """The step is a loss where both were asked, though the values of all flows are alike."""
    curve = swept([0.4] * 4, [0.6, 0.6, 0.0, 0.0], [0.3] * 2)[1].curve
    shown = curve[(curve["metric"] == "similarity") & (curve["test_set"] == "test")]
    assert shown["value"].tolist() == pytest.approx([0.4, 0.6, 0.3])
    assert shown["n"].tolist() == [2, 2, 2]


def bound_study():
    return study_of(
        {
            FIVE: [0.2] * 14,
            "pretrained_5_in_context_grammar": [0.3] * 13 + [None],
            "pretrained_5_in_context_catalogue": [0.9] * 14,
            "no_shots_finetuned": [0.5] * 14,
            "no_shots_finetuned_catalogue": [0.5] * 14,
        }
    )


def test_rows_under_a_grammar_beside_the_same_decoded_freely():
    study = bound_study()
    tested, shown = constrained(study, ROWS)
    assert tested[["condition", "against"]].drop_duplicates().to_numpy().tolist() == [
        ["pretrained_5_in_context_catalogue", FIVE],
        ["no_shots_finetuned_catalogue", "no_shots_finetuned"],
        ["pretrained_5_in_context_grammar", FIVE],
    ]
    assert shown["condition"].unique().tolist()[:2] == [FIVE, "no_shots_finetuned"]
    assert np.isnan(shown.loc[:9, ["delta", "p_value", "shared"]].to_numpy(float)).all()


def test_a_profile_without_a_grammar():
    study = study_of({FIVE: [0.2] * 4})
    tested, shown = constrained(study, ROWS)
    assert tested.empty
    assert shown.empty


def test_the_reports_tables():
    study = bound_study()
    tested, _ = constrained(study, ROWS)
    parts = {"sweep": study.compare(["no_shots_finetuned"], FIVE), "constrained decoding": tested}
    table = beyond_contract(study, parts, {"no_shots_finetuned": "its own"})
    assert table.columns[:3].tolist() == ["experiment", "selector", "shots"]
    ran = table[table["metric"] == "executed"]
    assert ran.groupby("experiment").size().eq(table.groupby("experiment").size() / 6).all(), "beside all others"
    assert "test_set" in table
    assert table["experiment"].unique().tolist() == [
        "its own",
        "constrained decoding, against pretrained encoder, 5 few-shots",
        "constrained decoding, against fine-tuned model, no few-shots",
    ]
