import random

import pytest

from lib.workbook.inputs import InputError
from lib.workflows.apis import SHARED_IDS
from lib.workflows.catalogue import Catalogue
from lib.workflows.conditions import is_testable
from lib.workflows.planning import APISampler, FlowDistribution, FlowKnobs, draw_plan


def test_what_the_flow_has_just_made_is_not_deleted(catalogue):
    distribution = FlowDistribution(catalogue, FlowKnobs())
    deleted = 0
    for seed in range(400):
        sampler = APISampler(
            distribution,
            random.Random(seed),
            catalogue["shared_microsoftforms.CreateFormWebhook"],
            distribution.trained,
        )
        sampler.add(catalogue["shared_commondataserviceforapps.CreateRecord"])
        deleted += sampler.draw(1, last=True)[-1].name == "shared_commondataserviceforapps.DeleteRecord"
    assert deleted <= 1


def test_a_plan_has_its_focus_and_what_that_needs(catalogue):
    distribution = FlowDistribution(catalogue, FlowKnobs())
    exchange = distribution.exchange
    focus = next(a for a in distribution.actions if exchange.needs[distribution.number[a.name]].any() and a.in_training)
    needed = exchange.needs[distribution.number[focus.name]]
    found = 0
    for seed in range(60):
        plan = draw_plan(distribution, random.Random(seed), "unseen", focus)
        if plan is None:
            continue
        before = [plan.trigger, *plan.before]
        assert focus in before
        have = {
            column for api in before[: before.index(focus)] for column in exchange.columns(exchange.gives[api.name])
        }
        assert set(needed.nonzero()[0]) <= have
        found += 1
    assert found > 20


def test_a_plan_with_a_condition_has_something_to_test_and_at_most_five_calls(catalogue):
    distribution = FlowDistribution(catalogue, FlowKnobs(length_shares=[0, 0, 0, 0, 1], condition_share=1.0))
    plans = [draw_plan(distribution, random.Random(seed), "training", None) for seed in range(150)]
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
    bare = Catalogue({}, catalogue.connectors)
    with pytest.raises(InputError, match="no trigger or no action with phrases"):
        FlowDistribution(bare, FlowKnobs())


def test_what_actions_need_some_call_gives_within_the_connector(catalogue):
    exchange = FlowDistribution(catalogue, FlowKnobs()).exchange
    assert exchange.needs.shape == exchange.provides.shape
    assert exchange.needs.any(axis=1).sum() > 50
    for connector, kind in exchange.column:
        assert any((connector, kind) in given for given in exchange.gives.values())
        assert (connector == "") == (kind == "file" or kind in SHARED_IDS)
    files = exchange.column["", "file"]
    assert exchange.needs[:, files].any()
    assert not exchange.takes_id[:, files].any()
