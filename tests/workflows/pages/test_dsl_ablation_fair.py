from lib.workflows.ablation import cost_of
from lib.workflows.pages.dsl_ablation import COPY, FINETUNED, HELD
from lib.workflows.pages.dsl_ablation_fair import fair_drawing, fair_rows, fair_table, questions, questions_table
from tests.workflows.pages.studies import FIVE, ROWS, study_of

BOUND = "pretrained_5_in_context_catalogue"
VALUES = {FIVE: [0.6] * 4, BOUND: [0.7] * 4, FINETUNED: [0.8] * 4, HELD: [0.9] * 4, COPY: [0.4] * 4}
OTHERS = {"random_5_in_context": [0.1] * 4, "pretrained_5_gold_in_context": [0.9] * 4, "pretrained_5": [0.3] * 4}


def rows_of(values, same=None, **columns):
    study = study_of(values, same=same, **columns)
    return fair_rows(study, ROWS, cost_of(study.scores), {"in_context": 1500, "finetuned": 9000})


def test_one_row_for_what_is_free_and_what_is_held():
    fair = rows_of(VALUES | OTHERS, same={FIVE: [0.5] * 3})
    assert "pretrained_5" not in set(fair["condition"])  # the untuned model stands beside another table
    kinds = fair.drop_duplicates("condition").set_index("condition")[["knows", "kind"]].T.to_dict("list")
    assert kinds[FIVE] == kinds[BOUND] == ["catalogue unseen", "method"]
    assert kinds[HELD] == ["catalogue learned", "method"]
    assert kinds[COPY] == ["no model", "floor"]
    assert kinds["random_5_in_context"] == ["catalogue unseen", "floor"]
    assert kinds["pretrained_5_gold_in_context"] == ["catalogue unseen", "ceiling"]
    table = fair_table(fair)
    frame = table.frame
    free = dict(zip(frame["", "retrieval"], table.cases["new wordings", "similarity, free"], strict=True))
    assert free["5 few-shots, pretrained encoder"] == f"flows.html#set=test&half=one&condition={FIVE}"
    assert "" in table.cases["known wordings", "similarity, catalogue's grammar"]
    new, cost = "new wordings", "cost"
    five = frame[frame["", "retrieval"] == "5 few-shots, pretrained encoder"].iloc[0]
    assert five[new, "similarity, free"] == "0.60 [0.60, 0.60]"
    assert five[new, "similarity, catalogue's grammar"] == "0.70 [0.70, 0.70]"
    assert five["known wordings", "similarity, free"] == "0.50 [0.50, 0.50]"
    assert five["known wordings", "similarity, catalogue's grammar"] == "–"
    assert five[new, "flows"] == "4 / 4"
    assert five[new, "executed right, %, free"] == "0 [0, 49]"
    assert set(fair.loc[fair["metric"] == "executed", "condition"]) == set(fair["condition"])
    assert five[cost, "tokens trained on"] == "1,500"
    tuned = frame[frame["", "the model's catalogue"] == "catalogue learned"].iloc[0]
    assert [tuned["", "retrieval"], tuned[cost, "tokens trained on"]] == ["no few-shots", "9,000"]
    copied = frame[frame["", "the model's catalogue"] == "no model"].iloc[0]
    assert copied["", "retrieval"] == "nearest few-shot copied, pretrained encoder"


def test_all_rows_are_on_flows_of_one_half():
    assert set(rows_of(VALUES, half=["a", "", "b", ""])["n"]) == {2}


def test_the_fair_table_drawn():
    fair = rows_of(VALUES, same={FIVE: [0.5] * 3})
    drawing = fair_drawing(fair)
    assert drawing.name == "dsl_fair"
    assert len(drawing.figure.axes) == 2
    assert [label.get_text() for label in drawing.figure.axes[0].get_yticklabels()][-1].endswith("catalogue unseen")


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
