import numpy as np
import pandas as pd

from lib.workbook.artifacts import ROOT
from lib.workflows.ablation import Condition
from lib.workflows.ablation_claims import claimed_methods, claimed_scores, published_for_claims
from lib.workflows.ablation_grid import UNSEEN_FINETUNED, unseen_name
from tests.workflows.ablation_rows import ABLATION

ROWS = [Condition.model_validate(row) for row in ABLATION]


def test_which_conditions_claims_are_about():
    methods = claimed_methods(ROWS, "in_context", [0, 1], unseen=False)
    assert methods["tst_20_fd_sfd_in_context"] == [("tst_fd_sfd", 20)]
    assert methods["pretrained_5_in_context"] == [("pretrained", 5)]
    assert methods["no_shots_finetuned"] == [("finetuned_dsl", 5), ("finetuned_dsl", 20)]
    for other in (
        "random_5_in_context",
        "other_5_in_context",
        "pretrained_5",  # the untuned model's
        "tst_affine_5_in_context",
        "pretrained_5_in_context_catalogue",
    ):
        assert other not in methods


def test_of_the_added_examples_the_fewest_are_claimed_about():
    methods = claimed_methods(ROWS, "in_context", [0, 3, 1], unseen=True)
    assert methods[unseen_name(1, "fd_sfd")] == [("unseen_fd_sfd_new_shot", 5)]
    assert methods[UNSEEN_FINETUNED] == [("unseen_finetuned_dsl", 5)]
    assert unseen_name(3, "none") not in methods
    assert not any(
        "new_shot" in method for pairs in claimed_methods(ROWS, "in_context", [0], True).values() for method, _ in pairs
    )


def flow(condition, parsed):
    return {
        "condition": condition, "unit": "q", "similarity": 0.5 * parsed, "parsed": parsed,
        "made_up_names": ("a.B",) * parsed, "made_up_parameters": (),
    }  # fmt: skip


def test_scores_that_claims_are_tested_on():
    methods = {"finetuned": [("finetuned_dsl", 5), ("finetuned_dsl", 20)], "tst_5": [("tst", 5)]}
    scores = pd.DataFrame([flow("finetuned", True), flow("tst_5", False), flow("random_5", True)])
    claimed = claimed_scores(scores, methods).set_index(["method", "k", "metric"])["value"]
    assert len(claimed) == 15
    assert claimed["finetuned_dsl", 20, "similarity"] == 50
    assert claimed["finetuned_dsl", 5, "made_up_names"] == 100
    assert claimed["tst", 5, "unparsed"] == 100
    assert np.isnan(claimed["tst", 5, "made_up_names"])


def test_calls_of_new_apis_are_a_metric_of_their_own():
    name = unseen_name(0, "none")
    called = pd.DataFrame({name: [100, 0], "not claimed about": [0, 0]}, index=pd.Index(["q", "r"], name="unit"))
    claimed = claimed_scores(
        pd.DataFrame([flow(name, True)]), {name: [("unseen_pretrained", 5)], "absent": [("x", 5)]}, called
    )
    calls = claimed[claimed["metric"] == "new_apis_called"]
    assert calls.to_numpy().tolist() == [
        ["q", "unseen_pretrained", "new_apis_called", 5, 100],
        ["r", "unseen_pretrained", "new_apis_called", 5, 0],
    ]


def test_published_rows_as_claims_take_them():
    published = published_for_claims(pd.read_csv(ROOT / "data" / "published" / "workflow_ablation.csv"))
    rows = published.set_index(["method", "k", "metric"])["value"]
    assert rows["pretrained", 20, "similarity"] == 3
    assert rows["pretrained", 20, "unparsed"] == -3.37
    assert rows["finetuned_dsl", 5, "unparsed"] == rows["finetuned_dsl", 20, "unparsed"]
    assert "finetuned" not in set(published["method"])
    assert ("tst_fd_sfd", 20, "similarity") in rows.index
