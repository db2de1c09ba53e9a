import matplotlib.pyplot as plt
import pandas as pd
import pytest

from lib.workflows.pages.dsl_ablation import COPY, COPY_TST, FINETUNED
from lib.workflows.pages.dsl_ablation_executed import (
    beside_copying,
    executed_drawing,
    executed_finding,
    executed_in_words,
    executed_rates,
    executed_table,
    mutants_in_words,
    parity,
    parity_in_words,
    parity_table,
    strictness_in_words,
)
from tests.workflows.pages.studies import FIVE, FIVE_TST, ROWS, study_of

VALUES = {FIVE: [1.0, 1.0, 1.0, 0.5], FINETUNED: [1.0, 1.0, 0.0, 0.0], COPY: [0.0] * 4}
RIGHT = {FIVE: [True, False, False, False], FINETUNED: [True, True, False, False], COPY: [False] * 4}


@pytest.fixture
def study():
    made = study_of(VALUES)
    made.scores["executed"] = [value for name in VALUES for value in RIGHT[name]]
    return made


def test_rates_of_right_names_and_of_right_flows(study):
    rates = executed_rates(study, ROWS)
    value = rates.set_index(["condition", "metric"])["value"]
    assert value[FIVE, "same_names"] == 75
    assert value[FIVE, "executed"] == 25
    assert value[FIVE, "wrong_at_1"] == pytest.approx(200 / 3)
    assert value[FINETUNED].to_dict() == {"same_names": 50, "executed": 50, "wrong_at_1": 0}
    wide = rates.set_index(["condition", "metric"])
    assert 0 < wide.loc[(FIVE, "executed"), "ci_low"] < 25 < wide.loc[(FIVE, "executed"), "ci_high"] < 75
    assert wide.loc[(COPY, "wrong_at_1"), "counted"] == 0
    assert wide.loc[(FIVE, "wrong_at_1"), "counted"] == 3


def test_the_table_has_them_beside_similarity(study):
    table = executed_table(study, executed_rates(study, ROWS))
    rows = table.frame.set_index("condition")
    assert rows.loc[study.titles[FIVE], "flows"] == 4
    assert rows.loc[study.titles[FIVE], "similarity"].startswith("0.88 [")
    assert rows.loc[study.titles[FIVE], "executed right, %"].startswith("25 [")
    assert rows.loc[study.titles[COPY], "of right names, wrong, %"] == "–"
    assert table.cases["executed right, %"][0] == f"flows.html#set=test&condition={FIVE}"


def test_what_is_wrong_behind_right_names_is_counted(study):
    rates = executed_rates(study, ROWS)
    assert executed_finding(rates) == "40% of the 5 flows with the right API names do something else when they run"
    copies = rates[rates["condition"] == COPY]
    assert executed_finding(copies) == "none of the flows has the right API names in order"
    said = executed_in_words(study, rates)
    assert said.startswith("Models: 40% of the 5 flows")
    assert "Copied flows: none of the flows has the right API names in order" in said
    assert f"Most are executed right on new wordings by {study.titles[FINETUNED]} (50 [" in said
    assert said.endswith("% of the same 4 flows).")


def best_of(right):
    """What is said to be the best of {condition: whether each of its flows is executed right}."""
    made = study_of({name: [1.0] * len(flags) for name, flags in right.items()})
    made.scores["executed"] = [flag for flags in right.values() for flag in flags]
    return made, executed_in_words(made, executed_rates(made, ROWS)).partition("Most are executed right ")[2]


def test_few_flows_make_no_condition_the_best():
    made, said = best_of({FIVE: [True], FINETUNED: [True, True, False, False]})
    assert said.startswith(f"on new wordings by {made.titles[FINETUNED]} (50 [")


def test_the_best_is_that_on_the_flows_that_all_have():
    made, said = best_of({FIVE: [True, True, False], FINETUNED: [True, False, False, True, True]})
    assert said.startswith(f"on new wordings by {made.titles[FIVE]} (67 ["), "the other has more right on its own five"
    assert said.endswith("% of the same 3 flows).")


def test_mutants_are_told_by_what_is_wrong():
    caught = pd.DataFrame({"kind": ["argument", "api", "dropped"], "mutants": [2000, 10, 0], "caught": [2000, 9, 0]})
    said = mutants_in_words(caught, 3)
    assert (
        "of 2,010 such mutants 2,009 are caught (2,000 of 2,000 with a said argument changed; 9 of 10 with an" in said
    )
    assert said.endswith("3 flows with a call that is never made are left out.")
    assert mutants_in_words(caught.assign(mutants=0), 0) == "No right flow can be made wrong here."


def test_they_are_drawn(study):
    drawing = executed_drawing(study, executed_rates(study, ROWS), parity(study).head(0))
    axis = drawing.figure.axes[0]
    assert next(text.get_text() for text in axis.get_yticklabels()) == study.titles[FIVE]
    assert set(drawing.data["metric"]) == {"same_names", "executed"}
    plt.close(drawing.figure)


def test_parity_in_names_need_not_be_parity_in_flows():
    made = study_of({FIVE_TST: [1.0] * 12, FINETUNED: [1.0] * 12, COPY: [0.0] * 12})
    made.scores["executed"] = [False] * 11 + [True] + [True] * 12 + [False] * 12
    rows = parity(made)
    assert rows["metric"].tolist() == ["similarity", "executed"]
    similar, ran = rows.to_dict("records")
    assert (similar["delta"], similar["p_holm"]) == (0, 1)
    assert ran["delta"] == pytest.approx(-1100 / 12)
    assert ran["p_holm"] < 0.01
    assert (ran["right"], ran["wrong"], ran["wrong_against"], ran["shared"]) == (12, 11, 0, 12)
    shown = parity_table(made, rows).frame
    assert shown["right names, wrong flow"].tolist() == ["11 of 12 / 0 of 12"]
    assert shown["executed right, difference, points"][0].startswith("−92 [")
    said = parity_in_words(made, rows)
    assert "similarity 0.00 [−0.24, 0.24] (not settled), executed right −92 [" in said
    assert "Settled or not after Holm's adjustment over these 2 tests." in said
    assert said.endswith("are wrong, of the fine-tuned model's 0 of 12.")
    drawing = executed_drawing(made, executed_rates(made, ROWS), rows)
    assert drawing.finding == (
        "Right names, and yet something else when they run: 11 of 12 flows by few-shots of TST, 0 of 12 by the "
        "fine-tuned model"
    )
    plt.close(drawing.figure)


def test_what_few_shots_add_to_their_nearest_one_is_tested():
    made = study_of({FIVE_TST: [1.0] * 12, COPY_TST: [1.0] * 12, FINETUNED: [1.0] * 12})
    made.scores["executed"] = [True] * 12 + [False] * 12 + [True] * 12
    said = beside_copying(made)
    assert "similarity 0.00 [−0.24, 0.24] (new wordings, n = 12, not settled)" in said
    assert "executed right, in points, 100 [" in said
    assert "(new wordings, n = 12, settled). Holm's adjustment over these 2 tests." in said
    assert beside_copying(study_of({FIVE_TST: [1.0]})) == ""


def test_a_flow_of_two_comparisons_is_counted_once():
    made = study_of({FIVE_TST: [1.0] * 4, "tst_20_fd_in_context": [1.0] * 2, FINETUNED: [1.0] * 9})
    made.scores["executed"] = made.scores["condition"] != FINETUNED
    said = parity_in_words(made, parity(made))
    assert said.endswith("with the right names 0 of 6 are wrong, of the fine-tuned model's 4 of 4.")


def test_parity_counts_the_flows_that_both_have():
    made = study_of({FIVE_TST: [1.0] * 4, FINETUNED: [1.0] * 9})
    assert parity(made)["shared"].unique().tolist() == [4]
    alone = parity(study_of({FIVE: [1.0]}))
    assert alone.empty
    assert parity_in_words(made, alone).startswith("This profile asks nothing of both")


def test_what_the_request_does_not_say_is_counted_apart(study):
    gold = 'a.Post({"text": "hi", "to": "x"});'
    scores = study.scores
    scores["text"], scores["executed"] = gold, False
    own = scores.index[scores["condition"] == FIVE]
    scores.loc[own[:3], "executed"] = True
    scores.loc[own[1], "text"] = 'a.Post({"to": "x", "text": "hi", "cc": "z"});'
    scores.loc[own[2], "text"] = 'a.Post({"text": "hi", "to": "y"});'
    scores.loc[scores["condition"] == COPY, "executed"] = True  # no model's
    said = strictness_in_words(study, dict.fromkeys(scores["unit"], gold))
    assert "Of the 3 flows of models that are executed right, for 3 requests," in said
    assert "1 (33%) have the right flow's arguments and no more, 1 (33%) have keys besides" in said
    assert "in 1 (33%) an argument differs" in said
    scores["executed"] = None
    assert strictness_in_words(study, {}) == "No model's flow is executed right."
