"""Which APIs a flow calls, how likely which follows which, what they need from each other, and where an `if` stands."""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from lib.workbook.inputs import InputError
from lib.workflows.apis import API, ID, SHARED_IDS, Connector, family_heads, said
from lib.workflows.catalogue import Catalogue
from lib.workflows.conditions import MAKERS, is_testable
from lib.workflows.wording import HABITS

# Weight of an API = that of its connector times that of its operation times a log-normal factor.
CONNECTOR_WEIGHT = {"core": 8.0, "common": 2.0, "rare": 0.7}
OPERATION_WEIGHT = {"core": 8.0, "common": 2.5, "rare": 0.9}
OLDER_SIBLING = 0.1  # nobody can ask for an older form by words, so flows that have one are rare
PARTNER, SAME_CATEGORY, STRANGER = 4.0, 1.0, 0.15
GONE = re.compile(r"delet|remov|cancel", re.IGNORECASE)
# Looking something up is for a later step; a list of records is of less use to it than single fields.
READER_LAST, READER_EARLIER, LISTER_EARLIER = 0.1, 0.6, 0.15
READERS = re.compile(
    r"(get|list|lists|search|find|retrieve|query|perform|optical|analyze|describe|sentiment|key|languages|named|entity|"
    r"predict|chat|completion|embeddings|translate|transliterate|download|extract|check|convert|pdf|show|encrypt|decrypt)\b",
    re.IGNORECASE,
)
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

Need = tuple[str, str]  # connector (empty where all share it) and kind of an id; ("", "file") for a file


@dataclass(frozen=True)
class FlowKnobs:
    """Sizes and shares of the simulated workflows; the defaults are the paper's sizes.

    APIs are drawn by weight, but a `tail_share` of the flows has one drawn evenly, so that none goes unused.
    `length_shares` are those of flows with one to five calls.
    """

    seed: int = 7
    n_training_pairs: int = 67_000
    n_test_pairs: int = 1_000
    n_unseen_pairs: int = 1_200
    n_test_same_pairs: int = 1_000
    length_shares: Sequence[float] = (0.04, 0.52, 0.27, 0.12, 0.05)
    condition_share: float = 1 / 3
    tail_share: float = 0.06
    api_spread: float = 0.4

    def __post_init__(self) -> None:
        if len(self.length_shares) != 5 or sum(self.length_shares[1:]) <= 0:
            raise InputError("length_shares must be five, and allow flows of two calls or more")
        if self.condition_share > sum(self.length_shares[1:]) / sum(self.length_shares):
            raise InputError("condition_share exceeds the share of flows with two calls or more")

    @classmethod
    def of(cls, parameters: Any, **changes: Any) -> FlowKnobs:
        """Those among a notebook's parameters, some changed. Raises InputError where they contradict each other."""
        return cls(**{field.name: getattr(parameters, field.name) for field in fields(cls)} | changes)


class FlowDistribution:
    """Weights of a catalogue's APIs, over the actions as arrays of shape (actions,) unless said otherwise.

    Attributes:
        knobs: shares and seed.
        triggers, actions: APIs that designers offer, with phrases.
        tail: APIs of training; a share of the flows has one drawn evenly.
        weight: by API.
        category: by API, its connector's.
        base: the actions' weights.
        affinity: by category, how well the actions go with it.
        trained: which actions training may use.
        trained_triggers: which triggers training may use, and their weights, added up.
        of_connector: by connector, which actions are its own.
        reader: which actions look something up.
        destroys: which actions delete something.
        last, earlier: factors for an action that ends a flow or branch, and for one before it.
        number: by action, its place in the arrays.
        exchange: what calls need and give.

    Raises:
        InputError: no trigger or no action has phrases and is for training.
    """

    def __init__(self, catalogue: Catalogue, knobs: FlowKnobs):
        self.knobs = knobs
        connectors = catalogue.connectors
        offered = [api for api in catalogue if not api.internal and api.phrases and api.terse]
        self.triggers = [api for api in offered if api.trigger]
        self.actions = actions = [api for api in offered if not api.trigger]
        if not any(a.in_training for a in self.triggers) or not any(a.in_training for a in actions):
            raise InputError("the catalogue has no trigger or no action with phrases that training may use")
        self.tail = [api for api in offered if api.in_training]
        heads = family_heads(catalogue)
        self.weight = {api.name: _weight(api, connectors, heads[api.name] == api.name, knobs) for api in offered}
        self.category = {api.name: connectors[api.connector].category for api in offered}
        self.affinity = {
            one: np.array([_affinity(one, self.category[a.name]) for a in actions])
            for one in sorted(set(self.category.values()))
        }
        self.base = np.array([self.weight[a.name] for a in actions])
        self.trained = np.array([a.in_training for a in actions])
        trained = [trigger for trigger in self.triggers if trigger.in_training]
        self.trained_triggers = trained, list(itertools.accumulate(self.weight[trigger.name] for trigger in trained))
        self.of_connector = {c: np.array([a.connector == c for a in actions]) for c in connectors}
        self.reader = np.array([bool(READERS.match(a.display_name)) and bool(a.returns) for a in actions])
        self.destroys = np.array([bool(GONE.match(a.display_name)) for a in actions])
        speakable = np.array([any(said(o.kind) for o in a.returns) for a in actions])
        self.last = np.where(self.reader, READER_LAST, 1.0)
        self.earlier = np.where(self.reader, np.where(speakable, READER_EARLIER, LISTER_EARLIER), 1.0)
        self.number = {api.name: number for number, api in enumerate(actions)}
        self.exchange = Exchange(offered, actions)


class Exchange:
    """What actions need and calls give: ids within their connector, shared ids, files.

    Attributes:
        gives: by API, what it returns.
        column: by need that some call can meet, its place in the arrays.
        needs, provides: (actions, columns), 1 where an action needs it or returns it; small whole numbers, as floats
            because NumPy multiplies matrices of these much faster.
        takes_id: like `needs`, without files.
    """

    def __init__(self, offered: Sequence[API], actions: Sequence[API]):
        self.gives = {api.name: _gives(api) for api in offered}
        given = set().union(*self.gives.values())
        met = sorted({need for api in actions for need in _needs(api)} & given)
        self.column = {need: number for number, need in enumerate(met)}
        self.needs = np.zeros((len(actions), len(met)), dtype=np.float32)
        self.provides = np.zeros_like(self.needs)
        for row, api in enumerate(actions):
            self.needs[row, self.columns(_needs(api))] = 1
            self.provides[row, self.columns(self.gives[api.name])] = 1
        self.takes_id = self.needs.copy()
        self.takes_id[:, [column for need, column in self.column.items() if need[1] == "file"]] = 0

    def columns(self, needs: set[Need]) -> list[int]:
        """Places of those that some call can meet and some action has."""
        return [self.column[need] for need in needs if need in self.column]


def _weight(api: API, connectors: dict[str, Connector], is_head: bool, knobs: FlowKnobs) -> float:
    spread = random.Random(f"{knobs.seed}:{api.name}").gauss(0, knobs.api_spread)
    weight = CONNECTOR_WEIGHT[connectors[api.connector].use] * OPERATION_WEIGHT[api.use]
    return weight * float(np.exp(spread)) * (1.0 if is_head else OLDER_SIBLING)


def _affinity(one: str, other: str) -> float:
    return PARTNER if other in HABITS["partners"].get(one, ()) else SAME_CATEGORY if one == other else STRANGER


def _scope(api: API, kind: str) -> Need:
    return ("" if kind in SHARED_IDS else api.connector, kind)


def _needs(api: API) -> set[Need]:
    needs = {_scope(api, p.kind) for p in api.parameters if p.required and p.kind.startswith(ID)}
    if any(p.required and p.kind == "file_content" for p in api.parameters):
        needs.add(("", "file"))
    return needs


def _gives(api: API) -> set[Need]:
    gives = {_scope(api, output.kind) for output in api.returns if output.kind.startswith(ID)}
    attached = any(output.kind == "boolean" and "attachment" in output.summary for output in api.returns)
    if attached or any(output.kind == "file_content" for output in api.returns):
        gives.add(("", "file"))
    return gives


# ---------------------------------------------------------------- one flow


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
