import numpy as np

from lib.workflows.ablation import cost_of
from lib.workflows.pages.dsl_ablation_beyond import (
    amounts_table,
    beyond_contract,
    constrained,
    constrained_in_words,
    steps_in_words,
    steps_table,
    sweep,
    sweep_drawing,
    valid_table,
)
from tests.workflows.pages.studies import FIVE, FIVE_TST, ROWS, TWENTY, study_of

ONE = "pretrained_1_in_context"
SWEPT = [row for row in ROWS if row.name in (ONE, FIVE, TWENTY)]
NEW, KNOWN = "new wordings", "known wordings"


def swept(one, five, twenty, same=(0.5, 0.5, 0.5)):
    study = study_of(
        {ONE: one, FIVE: five, TWENTY: twenty},
        same=dict(zip((ONE, FIVE, TWENTY), ([x] * 3 for x in same), strict=True)),
    )
    return sweep(study, SWEPT[::-1], cost_of(study.scores))


def test_valid_times_similar():
    study = study_of({FIVE: [None, 0.5, 1.0, 0.5], FIVE_TST: [None, None]}, same={FIVE: [1.0]})
    table = valid_table(study, ROWS)
    frame = table.frame
    assert table.cases["flows"] == [
        f"flows.html#set={test_set}&condition={name}"
        for test_set, name in (("test", FIVE), ("test", FIVE_TST), ("test_same", FIVE))
    ]
    assert frame["condition"].tolist() == [
        "pretrained encoder, 5 few-shots", "TST, 5 few-shots", "pretrained encoder, 5 few-shots",
    ]  # fmt: skip
    assert frame["test set"].tolist() == [NEW, NEW, KNOWN]
    assert frame.loc[0, "no made-up name, %"].startswith("75 [")
    assert frame.loc[0, "similarity of these"].startswith("0.67 [")
    assert frame.loc[0, "similarity of these"].endswith(" of 3")
    assert frame.loc[0, "similarity"] == 0.5
    assert frame.loc[1, "similarity of these"] == "–"


def test_a_sweep_has_its_rows_in_order_and_its_cost():
    curve = swept([0.5] * 4, [0.6] * 4, [0.7] * 3).curve
    assert curve["shots"].drop_duplicates().tolist() == [1, 5, 20]
    assert curve["test_set"].unique().tolist() == ["test", "test_same"]
    assert curve[["tokens_in", "seconds"]].drop_duplicates().to_numpy().tolist() == [[100.0, 0.5]]


def test_a_sweep_drawn():
    drawing = sweep_drawing(swept([0.5] * 4, [0.6] * 4, [0.7] * 3, same=(0.1, 0.2, 0.3)))
    assert drawing.finding == (
        "Similarity by the number of few-shots, on the same flows. new wordings, 3 flows: 0.50 with 1, 0.60 with 5, "
        "0.70 with 20; known wordings, 3 flows: 0.10 with 1, 0.20 with 5, 0.30 with 20"
    )
    assert len(drawing.data) == 36  # executed, too
    assert set(drawing.data["n"]) == {3}
    assert [text.get_text() for text in drawing.figure.axes[2].texts] == ["1", "5", "20"]


def test_the_levels_of_a_sweep_are_of_the_same_flows():
    """The step is a loss where both were asked, though the values of all flows are alike."""
    drawing = sweep_drawing(swept([0.4] * 4, [0.6, 0.6, 0.0, 0.0], [0.3] * 2))
    assert "new wordings, 2 flows: 0.40 with 1, 0.60 with 5, 0.30 with 20;" in drawing.finding


def test_steps_and_amounts():
    one = swept([0.1] * 14, [0.6] * 14, [0.6] * 14)
    steps = steps_table(one).frame
    assert steps["", "few-shots"].tolist() == ["1 to 5", "5 to 20"]
    assert steps[NEW, "similarity"].iloc[0] == "0.50 [0.50, 0.50] ●"
    assert steps[NEW, "flows"].tolist() == ["14", "14"]
    amounts = amounts_table(one).frame
    assert amounts["", "few-shots"].tolist() == [1, 5, 20]
    assert amounts[KNOWN, "flows"].tolist() == ["3"] * 3
    assert amounts.iloc[0, -2:].tolist() == [100, "0.5"]


def test_a_step_that_is_settled_and_one_that_says_nothing():
    text = steps_in_words(swept([0.1] * 14, [0.6] * 14, [0.0, 1.0] * 7))
    assert text.startswith("Settled: similarity from 1 to 5 few-shots by 0.50 [0.50, 0.50] (new wordings). The last st")
    assert "new wordings, 5 to 20 few-shots, by -0.10" in text.replace("−", "-")
    assert text.count("too uncertain to say that it levels off") == 2


def test_levelling_off_is_shown_not_assumed():
    text = steps_in_words(swept([0.5] * 3, [0.6] * 40, [0.61, 0.59] * 20))
    assert text.startswith("Settled: no single step.")
    assert "0.00 [0.00, 0.00]: it is shown to level off (within 0.05); known" in text


def bound_study(**columns):
    return study_of(
        {
            FIVE: [0.2] * 14,
            "pretrained_5_in_context_grammar": [0.3] * 13 + [None],
            "pretrained_5_in_context_catalogue": [0.9] * 14,
            "no_shots_finetuned": [0.5] * 14,
            "no_shots_finetuned_catalogue": [0.5] * 14,
        },
        **columns,
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
    assert np.isnan(shown.loc[:9, ["delta", "p_holm", "shared"]].to_numpy(float)).all()
    text = constrained_in_words(study, ROWS, tested, cost_of(study.scores), 256)
    assert text.startswith(
        "Of 42 finished answers under a grammar 1 do not parse; of 28 under the catalogue 0 make up a name and 0 a "
        "parameter key. Cut at 256 tokens: 0 of 42. **"
    )
    assert "differences are settled** (pretrained encoder, 5 few-shots, under the grammar and the catalogue: " in text


def test_what_a_grammar_lets_through():
    study = bound_study(finished=False)
    study.scores.loc[study.scores.index[-1], ["finished", "made_up_names"]] = [True, ("a.B",)]
    text = constrained_in_words(study, ROWS, constrained(study, ROWS)[0], cost_of(study.scores), 8)
    assert text.startswith("Of 1 finished answers under a grammar 0 do not parse; of 1 under the catalogue 1 make up a")
    assert "Cut at 8 tokens: 41 of 42." in text


def test_a_profile_without_a_grammar():
    study = study_of({FIVE: [0.2] * 4})
    tested, shown = constrained(study, ROWS)
    assert tested.empty
    assert shown.empty
    assert constrained_in_words(study, ROWS, tested, cost_of(study.scores), 8) == (
        "The profile has no row under a grammar."
    )


def test_the_reports_tables():
    study = bound_study()
    tested, _ = constrained(study, ROWS)
    parts = {"sweep": study.compare(["no_shots_finetuned"], FIVE), "constrained decoding": tested}
    table = beyond_contract(study, parts, {"no_shots_finetuned": "its own"})
    assert table.columns[:3].tolist() == ["experiment", "selector", "shots"]
    ran = table[table["metric"] == "executed"]
    assert ran.groupby("experiment").size().eq(table.groupby("experiment").size() / 6).all(), "beside all others"
    assert ran["delta"].isna().all()
    assert "test_set" in table
    assert table["experiment"].unique().tolist() == [
        "its own",
        "constrained decoding, against pretrained encoder, 5 few-shots",
        "constrained decoding, against fine-tuned model, no few-shots",
    ]
