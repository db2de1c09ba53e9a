import numpy as np
import pytest

from lib.workflows.ablation import cost_of
from lib.workflows.pages.dsl_ablation import COPY, fair_comparisons
from lib.workflows.pages.dsl_ablation_beyond import (
    FAIR,
    amounts_table,
    beyond_contract,
    constrained,
    constrained_in_words,
    fair_contract,
    fair_in_words,
    fair_table,
    floors,
    steps_in_words,
    steps_table,
    sweep,
    sweep_drawing,
    valid_table,
)
from tests.workflows.pages.studies import ROWS, study_of

SWEPT = [row for row in ROWS if row.name in ("pretrained_1", "pretrained_5", "pretrained_20")]


def swept(one, five, twenty):
    study = study_of({"pretrained_1": one, "pretrained_5": five, "pretrained_20": twenty})
    return sweep(study, SWEPT[::-1], cost_of(study.scores))


def test_floors_are_copies_and_controls_that_were_asked():
    study = study_of({"pretrained_5": [0.5] * 3, "random_5": [0.1] * 3, COPY: [0.4] * 3, "tst_5": [0.1] * 3})
    assert floors(study)["condition"].unique().tolist() == [COPY, "random_5"]


def test_fair_comparisons_in_similarity():
    study = study_of({COPY: [0.5] * 14, "pretrained_5": [0.9] * 14, "random_5": [0.85, 0.95] * 7})
    fair = fair_comparisons(study)
    shown = fair_table(study, fair)
    assert shown.frame["against"].tolist() == [
        "nearest few-shot copied, pretrained encoder", "drawn at random, 5 few-shots",
    ]  # fmt: skip
    assert shown.frame["similarity, difference"].iloc[0] == "0.40 [0.40, 0.40]"
    assert shown.frame["n"].tolist() == [14, 14]
    assert "(8 in all)" in shown.caption
    assert fair_in_words(study, fair) == (
        "Settled: pretrained encoder, 5 few-shots against nearest few-shot copied, pretrained encoder "
        "0.40 [0.40, 0.40]."
    )


def test_no_fair_comparison_may_be_settled():
    study = study_of({COPY: [0.5] * 3, "pretrained_5": [0.9] * 3})
    assert fair_in_words(study, fair_comparisons(study)) == (
        "None of these differences in similarity is settled with 3 flows."
    )


def test_valid_times_similar():
    study = study_of({"pretrained_5": [None, 0.5, 1.0, 0.5], "tst_5": [None, None]})
    frame = valid_table(study, ROWS).frame
    assert frame["condition"].tolist() == ["pretrained encoder, 5 few-shots", "TST, 5 few-shots"]
    assert frame.loc[0, "valid, %"].startswith("75 [")
    assert frame.loc[0, "similarity if valid"].startswith("0.67 [")
    assert frame.loc[0, "similarity if valid"].endswith(" of 3")
    assert frame.loc[0, "similarity"] == 0.5
    assert frame.loc[1, "similarity if valid"] == "–"


def test_a_sweep_has_its_rows_in_order_and_its_cost():
    curve = swept([0.5] * 4, [0.6] * 4, [0.7] * 3).curve
    assert curve["shots"].drop_duplicates().tolist() == [1, 5, 20]
    assert curve[["tokens_in", "seconds"]].drop_duplicates().to_numpy().tolist() == [[100.0, 0.5]]


def test_a_sweep_drawn():
    drawing = sweep_drawing(swept([0.5] * 4, [0.6] * 4, [0.7] * 3))
    assert drawing.finding == (
        "Few-shots: similarity on the 3 flows that all numbers have (dashed) is 0.50 with 1, 0.60 with 5, 0.70 with 20"
    )
    assert len(drawing.data) == 12
    hollow = [line for line in drawing.figure.axes[0].lines if line.get_markerfacecolor() == "white"]
    assert [line.get_xdata().tolist() for line in hollow] == [[20.0]]
    dashed = next(line for line in drawing.figure.axes[0].lines if line.get_linestyle() == "--")
    assert dashed.get_ydata() == pytest.approx([0.5, 0.6, 0.7])
    assert [text.get_text() for text in drawing.figure.axes[2].texts] == ["1", "5", "20"]


def test_steps_and_amounts():
    one = swept([0.1] * 14, [0.6] * 14, [0.6] * 14)
    steps = steps_table(one).frame
    assert steps["step"].tolist() == ["1 to 5", "5 to 20"]
    assert steps["similarity"].iloc[0] == "0.50 [0.50, 0.50] ●"
    assert steps["flows"].tolist() == [14, 14]
    amounts = amounts_table(one).frame
    assert amounts["few-shots"].tolist() == [1, 5, 20]
    assert amounts["flows"].tolist() == [14] * 3
    assert amounts.iloc[0, -2:].tolist() == [100, "0.5"]


def test_a_step_that_is_settled_and_one_that_says_nothing():
    text = steps_in_words(swept([0.1] * 14, [0.6] * 14, [0.0, 1.0] * 7))
    assert text.startswith("Settled: similarity from 1 to 5 few-shots by 0.50 [0.50, 0.50]. The last step, 5 to 20")
    assert text.endswith("too uncertain to say that it levels off.")


def test_levelling_off_is_shown_not_assumed():
    text = steps_in_words(swept([0.5] * 3, [0.6] * 40, [0.61, 0.59] * 20))
    assert text.startswith("Settled: no single step.")
    assert text.endswith("it is shown to level off (within 0.05).")


def bound_study(**columns):
    return study_of(
        {
            "pretrained_5": [0.2] * 14,
            "pretrained_5_grammar": [0.3] * 13 + [None],
            "pretrained_5_catalogue": [0.9] * 14,
            "finetuned": [0.5] * 14,
            "no_shots_finetuned_catalogue": [0.5] * 14,
        },
        **columns,
    )


def test_rows_under_a_grammar_beside_the_same_decoded_freely():
    study = bound_study()
    tested, shown = constrained(study, ROWS)
    assert tested[["condition", "against"]].drop_duplicates().to_numpy().tolist() == [
        ["pretrained_5_grammar", "pretrained_5"],
        ["pretrained_5_catalogue", "pretrained_5"],
        ["no_shots_finetuned_catalogue", "finetuned"],
    ]
    assert shown["condition"].unique().tolist()[:2] == ["pretrained_5", "finetuned"]
    assert np.isnan(shown.loc[:7, ["delta", "p_holm", "shared"]].to_numpy(float)).all()
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
    study = study_of({"pretrained_5": [0.2] * 4})
    tested, shown = constrained(study, ROWS)
    assert tested.empty
    assert shown.empty
    assert constrained_in_words(study, ROWS, tested, cost_of(study.scores), 8) == (
        "The profile has no row under a grammar."
    )


def test_the_reports_tables():
    study = bound_study()
    tested, _ = constrained(study, ROWS)
    parts = {"floors": study.compare(["finetuned"], "pretrained_5"), "constrained decoding": tested}
    table = beyond_contract(study, parts, {"finetuned": "its own"})
    assert table.columns[:3].tolist() == ["experiment", "selector", "shots"]
    assert table["experiment"].unique().tolist() == [
        "its own",
        "constrained decoding, against pretrained encoder, 5 few-shots",
        "constrained decoding, against fine-tuned model (512 pairs), no few-shots",
    ]
    steps = swept([0.5] * 3, [0.6] * 3, [0.7] * 3).steps
    fair = fair_contract(tested.assign(why="because"), steps)
    assert fair.columns.tolist() == FAIR
    assert fair["why"].unique().tolist() == ["because", "step in the number of few-shots"]
