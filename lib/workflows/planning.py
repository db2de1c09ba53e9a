"""Which APIs a flow calls, how likely which follows which, what they need from each other, and where an `if` stands."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lib.workbook.inputs import InputError
from lib.workflows.apis import ID, SHARED_IDS, USES, Operation, said
from lib.workflows.catalogue import Catalogue
from lib.workflows.conditions import MAKERS, is_testable
from lib.workflows.wording import HABITS

PLANS: dict[str, Any] = HABITS["plans"]
GONE, READERS = (re.compile(HABITS[name], re.IGNORECASE) for name in ("deletes", "looks_up"))

Need = tuple[str, str]  # connector (empty where all share it) and kind of an id; ("", "file") for a file


class FlowDistribution:
    """Weights of a catalogue's APIs and what calls need and give; arrays are over the actions, (actions,), unless said
    otherwise.

    What actions need are ids within their connector, shared ids, and files: the columns of `needs`, `provides` and
    `takes_id`, (actions, columns), small whole numbers as floats, of which NumPy multiplies matrices much faster.
    Raises InputError where no trigger or no action has phrases and is for training."""

    def __init__(self, catalogue: Catalogue, seed: int):
        connectors = catalogue.connectors
        offered = [api for api in catalogue if not api.internal and api.phrases and api.terse]
        self.triggers = [api for api in offered if api.trigger]
        self.actions = actions = [api for api in offered if not api.trigger]
        self.tail = [api for api in offered if api.in_training]  # a share of the flows has one drawn evenly
        if len({api.trigger for api in self.tail}) < 2:
            raise InputError("the catalogue has no trigger or no action with phrases that training may use")
        # Of every family the API that a request is taken to mean: the most used one, of equals the one written first.
        heads: dict[str, Operation] = {}
        for api in sorted(catalogue, key=lambda api: USES.index(api.use)):
            heads.setdefault(api.family, api)
        self.weight: dict[str, float] = {}
        for api in offered:
            spread = float(np.exp(random.Random(f"{seed}:{api.name}").gauss(0, PLANS["spread"])))
            weight = PLANS["connector"][connectors[api.connector].use] * PLANS["operation"][api.use]
            self.weight[api.name] = weight * spread * (1.0 if heads[api.family] is api else PLANS["older_form"])
        self.base = np.array([self.weight[a.name] for a in actions])
        self.category = {api.name: connectors[api.connector].category for api in offered}
        self.affinity: dict[str, np.ndarray] = {}  # by category, how well the actions go with it
        for one in set(self.category.values()):
            weights = dict.fromkeys(HABITS["partners"].get(one, ()), PLANS["partner"])
            weights.setdefault(one, PLANS["same_category"])
            self.affinity[one] = np.array([weights.get(self.category[a.name], PLANS["stranger"]) for a in actions])
        self.trained = np.array([a.in_training for a in actions])
        trained = [trigger for trigger in self.triggers if trigger.in_training]
        self.trained_triggers = trained, [self.weight[trigger.name] for trigger in trained]
        self.of_connector = {c: np.array([a.connector == c for a in actions]) for c in connectors}
        self.reader = np.array([bool(READERS.match(a.display_name)) and bool(a.returns) for a in actions])
        self.destroys = np.array([bool(GONE.match(a.display_name)) for a in actions])
        speakable = np.array([any(said(o.kind) for o in a.returns) for a in actions])
        # Factors for an action that ends a flow or branch, and for one before it.
        self.last = np.where(self.reader, PLANS["reader_last"], 1.0)
        self.earlier = np.where(self.reader, np.where(speakable, PLANS["reader_earlier"], PLANS["lister_earlier"]), 1.0)
        self.number = {api.name: number for number, api in enumerate(actions)}
        given = {api.name: given_by(api) for api in offered}
        met = sorted({need for api in actions for need in needed_by(api)} & set().union(*given.values()))
        self.column = column = {need: number for number, need in enumerate(met)}
        self.gives = {name: [column[need] for need in needs if need in column] for name, needs in given.items()}
        self.needs, self.provides = np.zeros((2, len(actions), len(met)), dtype=np.float32)
        for row, api in enumerate(actions):
            self.needs[row, [column[need] for need in needed_by(api) if need in column]] = 1
            self.provides[row, self.gives[api.name]] = 1
        self.takes_id = self.needs * np.array([need[1] != "file" for need in met], dtype=np.float32)


def needed_by(api: Operation) -> set[Need]:
    """What a call needs from earlier ones."""
    required = [p.kind for p in api.parameters if p.required]
    needs = {("" if kind in SHARED_IDS else api.connector, kind) for kind in required if kind.startswith(ID)}
    return needs | ({("", "file")} if "file_content" in required else set())


def given_by(api: Operation) -> set[Need]:
    """What a call returns that later ones may need."""
    kinds = {output.kind for output in api.returns}
    gives = {("" if kind in SHARED_IDS else api.connector, kind) for kind in kinds if kind.startswith(ID)}
    attached = any(output.kind == "boolean" and "attachment" in output.summary for output in api.returns)
    return gives | ({("", "file")} if attached or "file_content" in kinds else set())


@dataclass(slots=True)
class FlowPlan:
    """APIs in the order of the flow."""

    trigger: Operation
    before: list[Operation]  # actions before the condition
    branches: list[list[Operation]] = field(default_factory=list)  # the last one is that of `else` where `has_else`
    has_else: bool = False
    after: list[Operation] = field(default_factory=list)  # actions after the condition


class APISampler:
    """Draws one flow's APIs. `allowed`: which actions it may have, (actions,)."""

    def __init__(self, distribution: FlowDistribution, rng: random.Random, trigger: Operation, allowed: np.ndarray):
        self.distribution, self.rng, self.allowed = distribution, rng, allowed
        # Ids and files that the calls so far returned, as in the columns of `FlowDistribution.needs`.
        self.have = np.zeros(len(distribution.column), dtype=np.float32)
        self.flow: list[Operation] = []
        self.add(trigger)

    def add(self, *apis: Operation) -> None:
        self.flow += apis
        for api in apis:
            self.have[self.distribution.gives[api.name]] = 1

    def several(self, n: int, ends: bool) -> list[Operation] | None:
        """`n` actions, added to the flow, the last of which ends it or a branch (`ends`); None for a dead end."""
        found: list[Operation] = []
        while (room := n - len(found)) > 0:
            drawn = self.draw(room, last=ends and room == 1)
            if not drawn or len(drawn) > room:
                return None
            self.add(*drawn)
            found += drawn
        return found

    def draw(self, room: int, last: bool) -> list[Operation]:
        """One action, or with `room` for two an action and before it the call that looks up what it needs."""
        known = self.distribution
        weights = known.base * self.allowed * known.affinity[known.category[self.flow[0].name]]
        if len(self.flow) > 1:
            weights = weights * np.sqrt(known.affinity[known.category[self.flow[-1].name]])
        for connector in {api.connector for api in self.flow}:
            weights = np.where(known.of_connector[connector], weights * PLANS["same_connector"], weights)
        takes_up = PLANS["takes_gone"] if GONE.search(self.flow[0].display_name) else PLANS["takes_up"]
        weights = np.where(known.takes_id @ self.have > 0, weights * takes_up, weights)
        weights = weights * (known.last if last else known.earlier)
        for connector in {api.connector for api in self.flow[1:] if MAKERS.match(api.display_name)}:
            weights = np.where(known.destroys & known.of_connector[connector], weights * PLANS["undoes"], weights)
        for api in self.flow[1:]:
            weights[known.number[api.name]] *= PLANS["again"]
        missing = known.needs @ (1 - self.have)
        weights = np.where(missing == 0, weights, weights * PLANS["looked_up"] if room > 1 else 0.0)
        weights = np.where(known.destroys & (missing > 0), weights * PLANS["undoes"], weights)
        weights = np.where(missing > 1, 0.0, weights)
        return self.with_provider(known.actions[_draw(self.rng, weights)])

    def with_provider(self, action: Operation) -> list[Operation]:
        """The action, and before it a call that gives the one thing that it misses; empty where there is none."""
        known = self.distribution
        row = known.number[action.name]
        lacks = np.flatnonzero(known.needs[row] * (1 - self.have))
        if not len(lacks):
            return [action]
        if len(lacks) > 1:
            return []
        ready = (known.needs @ (1 - self.have) == 0) & (known.provides[:, lacks[0]] > 0)
        weights = known.base * self.allowed * ready
        weights = weights * np.where(known.of_connector[action.connector], PLANS["own_provider"], 1.0)
        if known.destroys[row]:
            weights = weights * np.where(known.reader, 1.0, PLANS["undoes"])
        weights[row] = 0.0
        return [known.actions[_draw(self.rng, weights)], action] if weights.sum() else []


def _draw(rng: random.Random, weights: np.ndarray) -> int:
    """An index, with chances as the weights; `random.choices` on an array."""
    cumulated = np.cumsum(weights)
    return min(int(np.searchsorted(cumulated, rng.random() * cumulated[-1], side="right")), len(weights) - 1)


def draw_plan(
    distribution: FlowDistribution, rng: random.Random, split: str, focus: Operation | None
) -> FlowPlan | None:
    """A plan for a flow; None where the draws led nowhere. `focus`: an API that the flow must use; to its connector the
    trigger belongs where there is one, by chance."""
    shares = PLANS["calls"]
    length = rng.choices(range(1, len(shares) + 1), shares)[0]
    conditional = length > 1 and rng.random() < PLANS["conditional"] / (sum(shares[1:]) / sum(shares))
    if split != "unseen" and rng.random() < PLANS["tail"]:
        focus = rng.choice(distribution.tail)
    triggers, weights = distribution.trained_triggers
    allowed = distribution.trained
    if focus is not None:
        if not focus.in_training:
            allowed = allowed | distribution.of_connector[focus.connector]
        same = [api for api in distribution.triggers
                if api.connector == focus.connector and api.in_training >= focus.in_training]  # fmt: skip
        if focus.trigger or (same and rng.random() < PLANS["own_trigger"]):
            triggers = [focus] if focus.trigger else same
            weights = [distribution.weight[api.name] for api in triggers]
    trigger = rng.choices(triggers, weights)[0]
    sampler = APISampler(distribution, rng, trigger, allowed)
    before: list[Operation] = []
    if focus is not None and not focus.trigger:
        before = sampler.with_provider(focus)
        if not before:
            return None
        sampler.add(*before)
        length = max(length, 1 + len(before) + conditional)
    room = length - 1 - len(before)
    if not conditional:
        further = sampler.several(room, ends=True)
        return None if further is None else FlowPlan(trigger, before + further)
    if room < 1:
        return None
    earlier = rng.choices(tuple(PLANS["calls_before"]), tuple(PLANS["calls_before"].values()))[0]
    if not any(map(is_testable, trigger.returns)) and not before:
        earlier = max(earlier, 1)
    earlier = min(earlier, room - 1)
    further = sampler.several(earlier, ends=False)
    if further is None or not any(is_testable(output) for api in sampler.flow for output in api.returns):
        return None
    room -= earlier
    sizes, has_else, _ = rng.choices(PLANS["shapes"][room], [weight for *_, weight in PLANS["shapes"][room]])[0]
    bodies: list[list[Operation]] = []
    start = sampler.have
    for size in (*sizes, int(sum(sizes) < room)):  # the last one comes after the condition
        sampler.have = start.copy()
        body = sampler.several(size, ends=True)
        if body is None:
            return None
        bodies.append(body)
    *branches, after = bodies
    return FlowPlan(trigger, before + further, branches, has_else, after)
