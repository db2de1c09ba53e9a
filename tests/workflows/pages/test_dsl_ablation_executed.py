import pytest

from lib.workflows.pages.dsl_ablation import COPY, FINETUNED
from lib.workflows.pages.dsl_ablation_executed import executed_rates
from tests.workflows.pages.studies import FIVE, ROWS, study_of

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
    assert 0 <= wide.loc[(FIVE, "executed"), "ci_low"] < 25 < wide.loc[(FIVE, "executed"), "ci_high"] <= 75
    assert wide.loc[(COPY, "wrong_at_1"), "counted"] == 0
    assert wide.loc[(FIVE, "wrong_at_1"), "counted"] == 3
