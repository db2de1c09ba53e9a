from lib.workflows.ablation import cost_of
from lib.workflows.pages.dsl_ablation import COPY, FINETUNED, HELD
from lib.workflows.pages.dsl_ablation_fair import fair_rows, fair_table, questions, questions_table
from tests.workflows.pages.studies import FIVE, ROWS, study_of

BOUND = "pretrained_5_in_context_catalogue"
VALUES = {FIVE: [0.6] * 4, BOUND: [0.7] * 4, FINETUNED: [0.8] * 4, HELD: [0.9] * 4, COPY: [0.4] * 4}
OTHERS = {"random_5_in_context": [0.1] * 4, "pretrained_5_gold_in_context": [0.9] * 4, "pretrained_5": [0.3] * 4}


def rows_of(values, same=None, **columns):
    study = study_of(values, same=same, **columns)
    return study, fair_rows(study, ROWS, cost_of(study.scores), {"in_context": 1500, "finetuned": 9000})


def test_the_rows_of_the_fair_table():
    study, fair = rows_of(VALUES | OTHERS, same={FIVE: [0.5] * 3})
    assert "pretrained_5" not in set(fair["condition"])  # the untuned model stands beside another table
    kinds = fair.drop_duplicates("condition").set_index("condition")[["knows", "kind"]].T.to_dict("list")
    assert kinds[FIVE] == kinds[BOUND] == ["catalogue unseen", "method"]
    assert kinds[HELD] == ["catalogue learned", "method"]
    assert kinds[COPY] == ["no model", "floor"]
    assert kinds["random_5_in_context"] == ["catalogue unseen", "floor"]
    assert kinds["pretrained_5_gold_in_context"] == ["catalogue unseen", "ceiling"]
    assert set(fair.loc[fair["metric"] == "executed", "condition"]) == set(fair["condition"])
    assert fair.loc[fair["condition"] == HELD, "tokens_trained"].unique().tolist() == [9000]
    table = fair_table(study, fair)
    rows = table.frame.set_index(["condition", "test set"])
    five = study.titles[FIVE]
    assert rows.loc[(five, "new wordings"), "similarity"] == "0.60 [0.60, 0.60]"
    assert rows.loc[(five, "known wordings"), ["similarity", "flows"]].tolist() == ["0.50 [0.50, 0.50]", 3]
    assert rows.loc[(five, "new wordings"), "executed right, %"] == "0 [0, 49]"
    place = table.frame["condition"].tolist().index(five)
    assert table.cases["similarity"][place] == f"flows.html#set=test&half=one&condition={FIVE}"


def test_all_rows_are_on_flows_of_one_half():
    assert set(rows_of(VALUES, half=["a", "", "b", ""])[1]["n"]) == {2}


def test_questions_are_those_whose_sides_were_asked():
    study = study_of({COPY: [0.5] * 14, FIVE: [0.9] * 14, "random_5_in_context": [0.85, 0.95] * 7})
    asked = questions(study)
    shown = questions_table(study, asked)
    assert shown.frame["question"].tolist() == [
        "does the model add to its nearest few-shot?", "does it matter which few-shots?",
    ]  # fmt: skip
    assert shown.frame["similarity, difference"].iloc[0] == "0.40 [0.40, 0.40]"
    assert shown.frame["test set"].tolist() == ["new wordings"] * 2
    assert shown.frame["executed right, difference, points"].iloc[0].startswith("0 [")
