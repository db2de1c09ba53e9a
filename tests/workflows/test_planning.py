import random

import pytest

from lib.workbook.inputs import InputError
from lib.workflows.catalogue import Catalogue
from lib.workflows.conditions import is_testable
from lib.workflows.planning import PLANS, FlowDistribution, draw_plan


@pytest.fixture(scope="module")
def known(catalogue):
    return FlowDistribution(catalogue, seed=7)


def test_a_plan_has_its_focus_and_what_that_needs(known):
    focus = next(a for a in known.actions if known.needs[known.number[a.name]].any() and a.in_training)
    plans = [draw_plan(known, random.Random(seed), "unseen", focus) for seed in range(60)]
    plans = [plan for plan in plans if plan is not None]
    assert len(plans) > 20
    for plan in plans:
        calls = [plan.trigger, *plan.before]
        have = {column for api in calls[: calls.index(focus)] for column in known.gives[api.name]}
        assert set(known.needs[known.number[focus.name]].nonzero()[0]) <= have


def test_a_plan_with_a_condition_has_something_to_test_and_at_most_five_calls(known, monkeypatch):
    monkeypatch.setitem(PLANS, "calls", (0, 0, 0, 0, 1))
    monkeypatch.setitem(PLANS, "conditional", 1.0)
    plans = [draw_plan(known, random.Random(seed), "training", None) for seed in range(150)]
    plans = [plan for plan in plans if plan is not None]
    assert len(plans) > 80
    for plan in plans:
        calls = [plan.trigger, *plan.before, *(api for body in plan.branches for api in body), *plan.after]
        assert len(calls) == 5
        assert any(is_testable(output) for api in (plan.trigger, *plan.before) for output in api.returns)
        assert len(plan.branches) > plan.has_else
    assert {plan.has_else for plan in plans} == {True, False}
    assert any(plan.after for plan in plans)
    assert any(plan.before for plan in plans)


def test_a_catalogue_without_phrases_is_an_error(catalogue):
    with pytest.raises(InputError, match="no trigger or no action with phrases"):
        FlowDistribution(Catalogue({}, catalogue.connectors), seed=7)
