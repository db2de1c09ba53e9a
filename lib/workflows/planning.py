"""Which APIs a flow calls, and where its condition stands."""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass, field

import numpy as np

from lib.workflows.apis import API
from lib.workflows.conditions import MAKERS, is_testable
from lib.workflows.distribution import GONE, FlowDistribution

LONGEST = 5
SAME_CONNECTOR = 2.0
TAKES_UP = 6.0  # an action on the very thing that an earlier call returned
TAKES_GONE = 0.05  # unless that thing has just been deleted
UNDOES = 0.02  # deleting what the flow has just made
LOOKED_UP = 0.5  # an action on a thing that another call has to give first
AGAIN = 0.1  # an API that the flow has already
OWN_PROVIDER = 5.0  # what an action needs mostly comes from its own connector
OWN_TRIGGER = 0.7  # of the flows around an action begin with a trigger of its connector
CALLS_BEFORE = {0: 7, 1: 2.5, 2: 0.7}  # weights of so many actions before a condition
# By number of actions from the condition on: sizes of the branches, whether the last is an `else`, weight. What they
# leave of the number comes after the condition.
SHAPES: dict[int, list[tuple[list[int], bool, float]]] = {
    1: [([1], False, 6.0)],
    2: [([1, 1], True, 6), ([2], False, 3), ([1, 1], False, 1.5)],
    3: [([1, 1, 1], True, 3), ([2, 1], True, 4), ([1, 2], True, 1), ([1, 1], True, 1.5), ([3], False, 0.7)],
    4: [([2, 2], True, 2), ([2, 1, 1], True, 2), ([1, 1, 1, 1], True, 1), ([3, 1], True, 1), ([1, 1, 1], True, 1)],
}


@dataclass(slots=True)
class FlowPlan:
    """APIs in the order of the flow: the trigger, actions before the condition, branches, actions after it.

    `branches` are the bodies, the last one that of `else` where `has_else`.
    """

    trigger: API
    before: list[API]
    branches: list[list[API]] = field(default_factory=list)
    has_else: bool = False
    after: list[API] = field(default_factory=list)


class APISampler:
    """Draws one flow's APIs.

    Attributes:
        distribution, rng: of the catalogue and of the pair.
        allowed: which actions the flow may have, (actions,).
        flow: the calls so far.
        have: ids and files that they returned, as in `Exchange.column`.
    """

    def __init__(self, distribution: FlowDistribution, rng: random.Random, trigger: API, allowed: np.ndarray):
        self.distribution, self.rng, self.allowed = distribution, rng, allowed
        self.have = np.zeros(len(distribution.exchange.column), dtype=np.float32)
        self.flow: list[API] = []
        self.add(trigger)

    def add(self, api: API) -> None:
        self.flow.append(api)
        exchange = self.distribution.exchange
        self.have[exchange.columns(exchange.gives[api.name])] = 1

    def several(self, n: int, ends: bool) -> list[API] | None:
        """`n` actions, added to the flow, the last of which ends it or a branch (`ends`); None for a dead end."""
        found: list[API] = []
        while (room := n - len(found)) > 0:
            drawn = self.draw(room, last=ends and room == 1)
            if not drawn or len(drawn) > room:
                return None
            for api in drawn:
                self.add(api)
            found += drawn
        return found

    def draw(self, room: int, last: bool) -> list[API]:
        """One action, or with `room` for two an action and before it the call that looks up what it needs."""
        weights = self._fitting(last)
        missing = self._missing()
        destroys = self.distribution.destroys
        weights = np.where(missing == 0, weights, weights * LOOKED_UP if room > 1 else 0.0)
        weights = np.where(missing > 1, 0.0, np.where(destroys & (missing > 0), weights * UNDOES, weights))
        return self.with_provider(self.distribution.actions[_draw(self.rng, weights)])

    def _missing(self) -> np.ndarray:
        """How many things each action needs that no call has returned."""
        return self.distribution.exchange.needs @ (1 - self.have)

    def _fitting(self, last: bool) -> np.ndarray:
        """How well each action goes on with the flow, whatever it needs."""
        known = self.distribution
        weights = known.base * self.allowed * known.affinity[known.category[self.flow[0].name]]
        if len(self.flow) > 1:
            weights = weights * np.sqrt(known.affinity[known.category[self.flow[-1].name]])
        for connector in {api.connector for api in self.flow}:
            weights = np.where(known.of_connector[connector], weights * SAME_CONNECTOR, weights)
        takes_up = TAKES_GONE if GONE.search(self.flow[0].display_name) else TAKES_UP
        weights = np.where(known.exchange.takes_id @ self.have > 0, weights * takes_up, weights)
        weights = weights * (known.last if last else known.earlier)
        for connector in {api.connector for api in self.flow[1:] if MAKERS.match(api.display_name)}:
            weights = np.where(known.destroys & known.of_connector[connector], weights * UNDOES, weights)
        for api in self.flow[1:]:
            weights[known.number[api.name]] *= AGAIN
        return weights

    def with_provider(self, action: API) -> list[API]:
        """The action, and before it a call that gives the one thing that it misses; empty where there is none."""
        known = self.distribution
        row = known.number[action.name]
        lacks = np.flatnonzero(known.exchange.needs[row] * (1 - self.have))
        if not len(lacks):
            return [action]
        if len(lacks) > 1:
            return []
        ready = (self._missing() == 0) & (known.exchange.provides[:, lacks[0]] > 0)
        weights = known.base * self.allowed * ready
        weights = weights * np.where(known.of_connector[action.connector], OWN_PROVIDER, 1.0)
        if known.destroys[row]:
            weights = weights * np.where(known.reader, 1.0, UNDOES)
        weights[row] = 0.0
        if not weights.sum():
            return []
        return [known.actions[_draw(self.rng, weights)], action]


def _draw(rng: random.Random, weights: np.ndarray) -> int:
    """An index, with chances as the weights; `random.choices` on an array."""
    cumulated = np.cumsum(weights)
    return min(int(np.searchsorted(cumulated, rng.random() * cumulated[-1], side="right")), len(weights) - 1)


def draw_plan(distribution: FlowDistribution, rng: random.Random, split: str, focus: API | None) -> FlowPlan | None:
    """A plan for a flow; None where the draws led nowhere. `focus`: an API that the flow must use."""
    knobs = distribution.knobs
    length = rng.choices(range(1, LONGEST + 1), knobs.length_shares)[0]
    long_share = sum(knobs.length_shares[1:]) / sum(knobs.length_shares)
    conditional = length > 1 and rng.random() < knobs.condition_share / long_share
    if split != "unseen" and rng.random() < knobs.tail_share:
        focus = rng.choice(distribution.tail)
    sampler = _start(distribution, rng, focus)
    actions: list[API] = []
    if focus is not None and not focus.trigger:
        actions = sampler.with_provider(focus)
        if not actions:
            return None
        for api in actions:
            sampler.add(api)
        length = max(length, 1 + len(actions) + conditional)
    room = length - 1 - len(actions)
    if conditional:
        return _conditional(sampler, actions, room)
    further = sampler.several(room, ends=True)
    return None if further is None else FlowPlan(sampler.flow[0], actions + further)


def _start(distribution: FlowDistribution, rng: random.Random, focus: API | None) -> APISampler:
    """A flow with its trigger, which belongs to the connector of the `focus` where there is one and by chance."""
    triggers, cumulated = distribution.trained_triggers
    allowed = distribution.trained
    if focus is not None:
        if not focus.in_training:
            allowed = allowed | distribution.of_connector[focus.connector]
        same = [api for api in distribution.triggers
                if api.connector == focus.connector and api.in_training >= focus.in_training]  # fmt: skip
        if focus.trigger or (same and rng.random() < OWN_TRIGGER):
            triggers = [focus] if focus.trigger else same
            cumulated = list(itertools.accumulate(distribution.weight[api.name] for api in triggers))
    trigger = rng.choices(triggers, cum_weights=cumulated)[0]
    return APISampler(distribution, rng, trigger, allowed)


def _conditional(sampler: APISampler, before: list[API], room: int) -> FlowPlan | None:
    """A plan with a condition, with `room` further calls for what stands before it, in it and after it."""
    rng = sampler.rng
    if room < 1:
        return None
    trigger = sampler.flow[0]
    earlier = rng.choices(tuple(CALLS_BEFORE), tuple(CALLS_BEFORE.values()))[0]
    if not any(map(is_testable, trigger.returns)) and not before:
        earlier = max(earlier, 1)
    earlier = min(earlier, room - 1)
    further = sampler.several(earlier, ends=False)
    if further is None or not any(is_testable(output) for api in sampler.flow for output in api.returns):
        return None
    room -= earlier
    sizes, has_else, _ = rng.choices(SHAPES[room], [weight for *_, weight in SHAPES[room]])[0]
    start, branches = sampler.have.copy(), []
    for size in sizes:
        sampler.have = start.copy()
        body = sampler.several(size, ends=True)
        if body is None:
            return None
        branches.append(body)
    sampler.have = start.copy()
    after = sampler.several(1, ends=True) if sum(sizes) < room else []
    return None if after is None else FlowPlan(trigger, before + further, branches, has_else, after)
