"""The simulated users' workflows: pairs of a request in plain English and a flow, and statistics over them.

A pair has a random generator of its own, seeded with the world's seed, its split and its number, so the same knobs
give the same pairs whatever the machine and the number of processes. Source: the workflow paper, section 4.1.
"""

from __future__ import annotations

import hashlib
import logging
import multiprocessing
import os
import random
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd
import yaml
from pydantic import ValidationError

from lib.workbook.inputs import InputError, Strict, Text, describe_error, read_records
from lib.workbook.parameters.worlds import FlowKnobs
from lib.workflows.apis import API, ID, SHARED_IDS, said
from lib.workflows.catalogue import Catalogue
from lib.workflows.language import Flow, FlowError, If, called_apis, calls, parse, print_flow, validate
from lib.workflows.requests import MAKERS, Planned, Unsayable, Wordings, testable, write

log = logging.getLogger(__name__)

CHUNK = 1000  # pairs that a process makes at a time
MOST_ATTEMPTS = 200
SPLITS = ("training", "test", "unseen")

# Weight of an API = that of its connector times that of its operation times a log-normal factor.
CONNECTOR_WEIGHT = {"core": 8.0, "common": 2.0, "rare": 0.7}
OPERATION_WEIGHT = {"core": 8.0, "common": 2.5, "rare": 0.9}
OLDER_SIBLING = 0.1  # nobody can ask for an older form by words, so flows that have one are rare
PARTNERS: dict[str, tuple[str, ...]] = {
    "mail": ("tasks", "files", "chat", "approvals", "crm", "support", "calendar", "data", "devices", "documents"),
    "chat": ("tasks", "mail", "files", "calendar", "data", "support", "devices", "people"),
    "calendar": ("chat", "mail", "tasks", "devices", "documents", "people"),
    "tasks": ("chat", "mail", "calendar", "devices", "data", "development"),
    "files": ("mail", "chat", "documents", "approvals", "data", "ai", "signing"),
    "documents": ("mail", "files", "chat", "approvals", "tasks"),
    "forms": ("data", "mail", "chat", "approvals", "crm", "tasks", "support", "files", "marketing"),
    "data": ("mail", "chat", "approvals", "analytics", "files", "tasks", "devices"),
    "crm": ("mail", "chat", "tasks", "marketing", "calendar", "data", "documents"),
    "support": ("mail", "chat", "tasks", "development", "crm", "devices", "ai"),
    "development": ("chat", "mail", "tasks", "devices", "data"),
    "social": ("chat", "mail", "data", "ai", "analytics", "marketing", "devices"),
    "marketing": ("mail", "crm", "data", "chat", "forms"),
    "shop": ("mail", "chat", "data", "finance", "crm", "devices"),
    "finance": ("mail", "chat", "data", "crm", "shop", "devices"),
    "people": ("mail", "chat", "tasks", "calendar", "data", "approvals"),
    "approvals": ("mail", "chat", "files", "data", "tasks"),
    "signing": ("mail", "chat", "files", "data", "crm"),
    "analytics": ("mail", "chat", "devices", "tasks"),
    "security": ("mail", "chat", "data"),
    "ai": ("mail", "chat", "data", "files", "social"),
    "media": ("chat", "mail", "social", "data"),
    "devices": ("mail", "chat", "tasks"),
    "places": ("mail", "chat", "calendar", "devices"),
    "events": ("mail", "chat", "data", "marketing", "calendar", "crm"),
    "web": ("mail", "chat", "social", "data", "devices"),
}
PARTNER, SAME_CATEGORY, SAME_CONNECTOR, STRANGER = 4.0, 1.0, 2.0, 0.15
TAKES_UP = 6.0  # an action on the very thing that an earlier call returned
TAKES_GONE = 0.05  # unless that thing has just been deleted
GONE = re.compile(r"delet|remov|cancel", re.IGNORECASE)
UNDOES = 0.02  # deleting what the flow has just made
LOOKED_UP = 0.5  # an action on a thing that another call has to give first
AGAIN = 0.1  # an API that the flow has already
# Looking something up is for a later step; a list of records is of less use to it than single fields.
READER_LAST, READER_EARLIER, LISTER_EARLIER = 0.1, 0.6, 0.15
READERS = re.compile(
    r"(get|list|lists|search|find|retrieve|query|perform|optical|analyze|describe|sentiment|key|languages|named|entity|"
    r"predict|chat|completion|embeddings|translate|transliterate|download|extract|check|convert|pdf|show|encrypt|decrypt)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Pair:
    pair: str
    split: str
    request: str
    dsl: str
    apis: list[str]
    trigger: str
    n_calls: int
    conditions: int
    frame: str
    wordings: list[tuple[str, str]]
    quoted: list[str]


def _family_heads(catalogue: Catalogue) -> dict[str, str]:
    """For every API the sibling that a request is taken to mean: the most used one, of equals the one written first."""
    heads: dict[str, API] = {}
    order = {"core": 0, "common": 1, "rare": 2}
    for api in catalogue:
        head = heads.get(api.family)
        if head is None or order[api.use] < order[head.use]:
            heads[api.family] = api
    return {api.name: heads[api.family].name for api in catalogue}


def ambiguity(pairs: pd.DataFrame, catalogue: Catalogue) -> pd.DataFrame:
    """How many requests cannot tell which of several sibling APIs (V1, V2) they mean.

    Returns:
        One row a split: split, n, with_siblings (share of requests that use an API with siblings), older (share whose
        flow has one that is not the most used of its siblings: the words lead to another API set), 0–1.
    """
    heads = _family_heads(catalogue)
    many = {name for name, count in Counter(heads.values()).items() if count > 1}
    frame = pairs.assign(
        with_siblings=[any(heads.get(a) in many for a in apis) for apis in pairs["apis"]],
        older=[any(heads.get(a, a) != a for a in apis) for apis in pairs["apis"]],
    )
    return frame.groupby("split", sort=False).agg(
        n=("pair", "size"), with_siblings=("with_siblings", "mean"), older=("older", "mean")
    ).reset_index()  # fmt: skip


class World:
    """What all pairs share: the catalogue, its wordings, and how likely which API follows which."""

    def __init__(self, catalogue: Catalogue, values: dict[str, list], knobs: FlowKnobs):
        self.catalogue, self.knobs = catalogue, knobs
        self.wordings = Wordings(catalogue, values, knobs.seed)
        heads = _family_heads(catalogue)
        offered = [api for api in catalogue if not api.internal and api.phrases and api.terse]
        self.triggers = [api for api in offered if api.trigger]
        self.actions = [api for api in offered if not api.trigger]
        if not any(a.in_training for a in self.triggers) or not any(a.in_training for a in self.actions):
            raise InputError("the catalogue has no trigger or no action with phrases that training may use")
        self.tail = [api for api in offered if api.in_training]
        self.weight = {api.name: self._weight(api, heads) for api in offered}
        connectors = catalogue.connectors
        categories = sorted({connectors[api.connector].category for api in offered})
        self.category = {api.name: connectors[api.connector].category for api in offered}
        self.affinity = {
            one: np.array([self._affinity(one, self.category[a.name]) for a in self.actions]) for one in categories
        }
        self.base = np.array([self.weight[a.name] for a in self.actions])
        self.trained = np.array([a.in_training for a in self.actions])
        self.of_connector = {c: np.array([a.connector == c for a in self.actions]) for c in connectors}
        self.reader = np.array([bool(READERS.match(a.display_name)) and bool(a.returns) for a in self.actions])
        self.destroys = np.array([bool(GONE.match(a.display_name)) for a in self.actions])
        speakable = np.array([any(said(o.kind) for o in a.returns) for a in self.actions])
        self.last = np.where(self.reader, READER_LAST, 1.0)
        self.earlier = np.where(self.reader, np.where(speakable, READER_EARLIER, LISTER_EARLIER), 1.0)
        self.number = {api.name: number for number, api in enumerate(self.actions)}
        # What actions need and calls give: ids within their connector, shared ids, files.
        gives = {api.name: _gives(api) for api in offered}
        given = set().union(*gives.values())
        self.gives = gives
        tokens = sorted({need for a in self.actions for need in _needs(a)} & given)
        self.token = {token: number for number, token in enumerate(tokens)}
        self.needs = np.zeros((len(self.actions), len(tokens)), dtype=np.int32)
        self.provides = np.zeros_like(self.needs)
        for row, api in enumerate(self.actions):
            for need in _needs(api) & given:
                self.needs[row, self.token[need]] = 1
            for token in gives[api.name] & set(tokens):
                self.provides[row, self.token[token]] = 1
        self.takes_id = self.needs.copy()
        for token, column in self.token.items():
            if token[1] == "file":
                self.takes_id[:, column] = 0

    def _weight(self, api: API, heads: dict[str, str]) -> float:
        spread = random.Random(f"{self.knobs.seed}:{api.name}").gauss(0, self.knobs.api_spread)
        weight = CONNECTOR_WEIGHT[self.catalogue.connectors[api.connector].use] * OPERATION_WEIGHT[api.use]
        return weight * float(np.exp(spread)) * (OLDER_SIBLING if heads[api.name] != api.name else 1.0)

    @staticmethod
    def _affinity(one: str, other: str) -> float:
        return PARTNER if other in PARTNERS.get(one, ()) else SAME_CATEGORY if one == other else STRANGER


def _scope(api: API, kind: str) -> tuple[str, str]:
    return ("" if kind in SHARED_IDS else api.connector, kind)


def _needs(api: API) -> set[tuple[str, str]]:
    needs = {_scope(api, p.kind) for p in api.parameters if p.required and p.kind.startswith(ID)}
    if any(p.required and p.kind == "file_content" for p in api.parameters):
        needs.add(("", "file"))
    return needs


def _gives(api: API) -> set[tuple[str, str]]:
    gives = {_scope(api, output.kind) for output in api.returns if output.kind.startswith(ID)}
    attached = any(output.kind == "boolean" and "attachment" in output.summary for output in api.returns)
    if attached or any(output.kind == "file_content" for output in api.returns):
        gives.add(("", "file"))
    return gives


def _draw_trigger(world: World, rng: random.Random, only: list[API]) -> API:
    return rng.choices(only, [world.weight[api.name] for api in only])[0]


class _Planner:
    """Draws one flow's APIs. `have`: ids and files that earlier calls returned."""

    def __init__(self, world: World, rng: random.Random, trigger: API, allowed: np.ndarray):
        self.world, self.rng, self.allowed = world, rng, allowed
        self.have = np.zeros(len(world.token), dtype=np.int32)
        self.flow: list[API] = []
        self.add(trigger)

    def add(self, api: API) -> None:
        self.flow.append(api)
        for token in self.world.gives[api.name]:
            if token in self.world.token:
                self.have[self.world.token[token]] = 1

    def draw(self, room: int, last: bool) -> list[API]:
        """One action, or with `room` for two an action and before it the call that looks up what it needs."""
        world = self.world
        missing = world.needs @ (1 - self.have)
        weights = world.base * self.allowed * world.affinity[world.category[self.flow[0].name]]
        if len(self.flow) > 1:
            weights = weights * np.sqrt(world.affinity[world.category[self.flow[-1].name]])
        for connector in {api.connector for api in self.flow}:
            weights = np.where(world.of_connector[connector], weights * SAME_CONNECTOR, weights)
        takes_up = TAKES_GONE if GONE.search(self.flow[0].display_name) else TAKES_UP
        weights = np.where(world.takes_id @ self.have > 0, weights * takes_up, weights)
        weights = weights * (world.last if last else world.earlier)
        for connector in {api.connector for api in self.flow[1:] if MAKERS.match(api.display_name)}:
            weights = np.where(world.destroys & world.of_connector[connector], weights * UNDOES, weights)
        for api in self.flow[1:]:
            weights[world.number[api.name]] *= AGAIN
        weights = np.where(missing == 0, weights, weights * LOOKED_UP if room > 1 else 0.0)
        weights = np.where(missing > 1, 0.0, np.where(world.destroys & (missing > 0), weights * UNDOES, weights))
        action = self.world.actions[_draw(self.rng, weights)]
        return self.with_provider(action)

    def with_provider(self, action: API) -> list[API]:
        """The action, and before it a call that gives the one thing that it misses; empty where there is none."""
        world = self.world
        row = world.number[action.name]
        lacks = np.flatnonzero(world.needs[row] * (1 - self.have))
        if not len(lacks):
            return [action]
        if len(lacks) > 1:
            return []
        ready = (world.needs @ (1 - self.have) == 0) & (world.provides[:, lacks[0]] > 0)
        weights = world.base * self.allowed * ready * np.where(world.of_connector[action.connector], 5.0, 1.0)
        if world.destroys[row]:
            weights = weights * np.where(world.reader, 1.0, UNDOES)
        weights[row] = 0.0
        if not weights.sum():
            return []
        return [world.actions[_draw(self.rng, weights)], action]


def _draw(rng: random.Random, weights: np.ndarray) -> int:
    """An index, with chances as the weights; `random.choices` on an array."""
    cumulated = np.cumsum(weights)
    return min(int(np.searchsorted(cumulated, rng.random() * cumulated[-1], side="right")), len(weights) - 1)


def _plan(world: World, rng: random.Random, split: str, focus: API | None) -> Planned | None:
    """A plan for a flow; None where the draws led nowhere. `focus`: an API that the flow must use."""
    knobs = world.knobs
    length = rng.choices(range(1, 6), knobs.length_shares)[0]
    long_share = sum(knobs.length_shares[1:]) / sum(knobs.length_shares)
    conditional = length > 1 and rng.random() < knobs.condition_share / long_share
    triggers = [api for api in world.triggers if api.in_training]
    allowed = world.trained
    if split != "unseen" and rng.random() < knobs.tail_share:
        focus = rng.choice(world.tail)
    if focus is not None:
        if not focus.in_training:
            allowed = allowed | world.of_connector[focus.connector]
        same = [api for api in world.triggers
                if api.connector == focus.connector and api.in_training >= focus.in_training]  # fmt: skip
        triggers = [focus] if focus.trigger else (same if same and rng.random() < 0.7 else triggers)
    trigger = _draw_trigger(world, rng, triggers)
    planner = _Planner(world, rng, trigger, allowed)
    actions: list[API] = []
    if focus is not None and not focus.trigger:
        forced = planner.with_provider(focus)
        if not forced:
            return None
        for api in forced:
            planner.add(api)
            actions.append(api)
        length = max(length, 1 + len(actions) + conditional)
    room = length - 1 - len(actions)
    if not conditional:
        while room > 0:
            drawn = planner.draw(room, last=room == 1)
            if not drawn or len(drawn) > room:
                return None
            for api in drawn:
                planner.add(api)
                actions.append(api)
            room = length - 1 - len(actions)
        return Planned(trigger, actions)
    return _conditional(planner, actions, room)


def _conditional(planner: _Planner, before: list[API], room: int) -> Planned | None:
    """A plan with a condition, with `room` further calls for what stands before it, in it and after it."""
    rng = planner.rng
    if room < 1:
        return None
    trigger = planner.flow[0]
    tests = any(map(testable, trigger.returns))
    earlier = rng.choices((0, 1, 2), (7, 2.5, 0.7))[0]
    if not tests and not before:
        earlier = max(earlier, 1)
    earlier = min(earlier, room - 1)
    while earlier > 0:
        drawn = planner.draw(earlier, last=False)
        if not drawn or len(drawn) > earlier:
            return None
        for api in drawn:
            planner.add(api)
            before.append(api)
        earlier -= len(drawn)
        room -= len(drawn)
    if not any(testable(output) for api in planner.flow for output in api.returns):
        return None
    shapes = {
        1: [([1], False, 6.0)],
        2: [([1, 1], True, 6), ([2], False, 3), ([1, 1], False, 1.5)],
        3: [([1, 1, 1], True, 3), ([2, 1], True, 4), ([1, 2], True, 1), ([1, 1], True, 1.5), ([3], False, 0.7)],
        4: [([2, 2], True, 2), ([2, 1, 1], True, 2), ([1, 1, 1, 1], True, 1), ([3, 1], True, 1), ([1, 1, 1], True, 1)],
    }[room]
    bodies, has_else, _ = rng.choices(shapes, [weight for *_, weight in shapes])[0]
    start, branches = planner.have.copy(), []
    drawn_before = list(planner.flow)
    for size in bodies:
        planner.have, body = start.copy(), []
        while len(body) < size:
            drawn = planner.draw(size - len(body), last=len(body) == size - 1)
            if not drawn or len(drawn) > size - len(body):
                return None
            for api in drawn:
                planner.add(api)
                body.append(api)
        branches.append(body)
    after = []
    planner.have = start.copy()
    if sum(bodies) < room:
        drawn = planner.draw(1, last=True)
        if len(drawn) != 1:
            return None
        after = drawn
    planner.flow = drawn_before
    return Planned(planner.flow[0], before, branches, has_else, after)


def make_pair(world: World, split: str, index: int, attempt: int = 0) -> Pair:
    """Pair number `index` of a split. A further `attempt` gives another one, for a request that is there already.

    Raises:
        RuntimeError: the pair does not parse, round-trip or validate, which would be an error of this module.
    """
    focus = None
    if split == "unseen":
        held = [a for a in (*world.triggers, *world.actions) if not a.in_training]
        focus = held[index % len(held)]
    for trial in range(MOST_ATTEMPTS):
        rng = random.Random(f"{world.knobs.seed}:{split}:{index}:{attempt}:{trial}")
        plan = _plan(world, rng, split, focus)
        if plan is None:
            continue
        try:
            written = write(plan, world.wordings, split, rng)
        except Unsayable:
            continue
        dsl = print_flow(written.flow)
        _check(written.flow, dsl, world.catalogue)
        apis = called_apis(written.flow)
        return Pair(
            pair=f"{split}-{index:05d}",
            split=split,
            request=written.request,
            dsl=dsl,
            apis=apis,
            trigger=apis[0],
            n_calls=len(apis),
            conditions=count_conditions(written.flow),
            frame=written.frame,
            wordings=written.wordings,
            quoted=written.quoted,
        )
    raise RuntimeError(f"no flow for {split} pair {index}" + (f" with {focus.name}" if focus else ""))


def _check(flow: Flow, dsl: str, catalogue: Catalogue) -> None:
    if parse(dsl) != flow:
        raise RuntimeError(f"does not round-trip: {dsl}")
    report = validate(flow, catalogue)
    if report.made_up_names or report.made_up_parameters or report.unassigned:
        raise RuntimeError(f"does not validate: {report}: {dsl}")
    triggers = [catalogue[call.api].trigger for call in calls(flow)]
    if not triggers[0] or any(triggers[1:]):
        raise RuntimeError(f"the trigger is not the first call: {dsl}")


def count_conditions(flow: Flow) -> int:
    """How many conditions a flow tests: the branches of its `if`s without `else`."""
    return sum(_conditions(statement) for statement in flow.statements)


def _conditions(statement) -> int:
    if not isinstance(statement, If):
        return 0
    inside = [s for branch in statement.branches for s in branch.body] + list(statement.otherwise)
    return len(statement.branches) + sum(map(_conditions, inside))


def normal_form(request: str) -> str:
    """A request without case, punctuation and white space: two that share it are the same request."""
    return " ".join(re.findall(r"\w+", request.casefold()))


_world: World | None = None


def _start(catalogue: Catalogue, values: dict[str, list], knobs: FlowKnobs) -> None:
    global _world
    _world = World(catalogue, values, knobs)


def _start_worker(*world) -> None:
    """Like `_start`, in a process that ends with the one that made it: a worker that waits for work never notices."""
    maker = multiprocessing.parent_process()
    threading.Thread(target=lambda: (maker.join(), os._exit(1)), daemon=True).start()
    _start(*world)


def _chunk(split: str, start: int, stop: int) -> list[Pair]:
    return [make_pair(_world, split, index) for index in range(start, stop)]


def _chunks(knobs: FlowKnobs) -> list[tuple[str, int, int]]:
    sizes = (knobs.n_training_pairs, knobs.n_test_pairs, knobs.n_unseen_pairs)
    return [(split, start, min(start + CHUNK, size)) for split, size in zip(SPLITS, sizes, strict=True)
            for start in range(0, size, CHUNK)]  # fmt: skip


def generate(
    catalogue: Catalogue, values: dict[str, list], knobs: FlowKnobs, processes: int = 1, progress: Callable = iter
) -> pd.DataFrame:
    """All pairs of a world, each flow checked: it round-trips, validates and begins with its only trigger.

    No two requests are equal, not even in their normal form.

    Args:
        catalogue: with phrases, as `Catalogue.load` reads it.
        values: by kind, as `lib.workflows.pair_checks.read_values` reads them.
        knobs: sizes, shares and seed.
        processes: how many make pairs at a time; the result does not depend on it.
        progress: wraps the list of chunks, `tqdm` for a bar.

    Returns:
        One row a pair, training first, then test and unseen: pair (id), split, request, dsl, apis (list, in order of
        text), trigger, n_calls (the trigger's included), conditions, frame (the template that
        the request begins with), wordings (list of (API, phrase)), quoted (values that the request has in quotes).
    """
    chunks = _chunks(knobs)
    if processes == 1:
        _start(catalogue, values, knobs)
        made = [_chunk(*chunk) for chunk in progress(chunks)]
    else:
        context = multiprocessing.get_context("spawn")  # forking a process that has threads may hang
        with ProcessPoolExecutor(processes, context, _start_worker, (catalogue, values, knobs)) as pool:
            waiting = [pool.submit(_chunk, *chunk) for chunk in chunks]
            made = [chunk.result() for chunk in progress(waiting)]
        _start(catalogue, values, knobs)
    pairs = _distinct([pair for chunk in made for pair in chunk])
    return _frame(pairs)


def _distinct(pairs: list[Pair]) -> Iterator[Pair]:
    """The pairs in order; one whose request is there already is made again until it is new."""
    seen: set[str] = set()
    for pair in pairs:
        attempt = 0
        while (form := normal_form(pair.request)) in seen:
            attempt += 1
            if attempt > MOST_ATTEMPTS:
                raise RuntimeError(f"{pair.pair}: no new request in {MOST_ATTEMPTS} attempts; ask for fewer pairs")
            pair = make_pair(_world, pair.split, int(pair.pair.rpartition("-")[2]), attempt)
        seen.add(form)
        yield pair


COLUMNS = ["pair", "split", "request", "dsl", "apis", "trigger", "n_calls", "conditions", "frame", "wordings", "quoted"]


def _frame(pairs: Iterator[Pair]) -> pd.DataFrame:
    return pd.DataFrame([[getattr(pair, name) for name in COLUMNS] for pair in pairs], columns=COLUMNS)


def statistics(
    pairs: pd.DataFrame, catalogue: Catalogue, n_examples: int = 10, seed: int = 7
) -> dict[str, pd.DataFrame]:
    """What the pairs look like, as frames.

    Returns:
        `lengths`: split, n_calls, pairs, share (0–1, of the split);
        `conditions`: split, conditions, pairs, share;
        `apis`: the training pairs' APIs, most used first: rank (from 1), api, use (core, common or rare), calls, flows;
        `examples`: pair, request, dsl of training pairs, one of each length and number of conditions first.
    """
    training = pairs[pairs["split"] == "training"]
    named = training[["pair", "apis"]].explode("apis").rename(columns={"apis": "api"})
    apis = named.groupby("api").agg(calls=("pair", "size"), flows=("pair", "nunique"))
    apis = apis.sort_values("calls", ascending=False, kind="stable").reset_index()
    apis.insert(0, "rank", range(1, len(apis) + 1))
    apis.insert(2, "use", [catalogue[name].use if name in catalogue else "" for name in apis["api"]])
    shuffled = training.sample(frac=1, random_state=seed)
    first = shuffled.drop_duplicates(["n_calls", "conditions"])
    examples = pd.concat([first, shuffled.drop(first.index)]).head(n_examples)[["pair", "request", "dsl"]]
    return {
        "lengths": _shares(pairs, "n_calls"),
        "conditions": _shares(pairs, "conditions"),
        "apis": apis,
        "examples": examples.reset_index(drop=True),
    }


def _shares(pairs: pd.DataFrame, column: str) -> pd.DataFrame:
    counts = pairs.groupby(["split", column], sort=True).size().rename("pairs").reset_index()
    counts["share"] = counts["pairs"] / counts.groupby("split")["pairs"].transform("sum")
    return counts


class WrittenPair(Strict):
    """A pair of one's own."""

    request: Text
    dsl: Text
    id: Text | None = None
    split: Literal[SPLITS] = "training"


def read_pairs(path: str | Path, catalogue: Catalogue) -> pd.DataFrame:
    """Your own pairs from JSON lines: `request` and `dsl`, and where wanted `id` and `split` (training unless given).

    Returns:
        As `generate`, with `unknown` (APIs of the flow that the catalogue lacks; a warning tells how many);
        `frame`, `wordings` and `quoted` are empty.

    Raises:
        InputError: the file holds no training or no test pair, a record has a wrong field, an id is there twice, or a
            flow does not parse or calls nothing; names file, line and field.
    """
    rows, seen = [], {}
    for number, record in read_records(path):
        where = f"{path}, line {number}"
        try:
            written = WrittenPair.model_validate(record)
            flow = parse(written.dsl)
        except ValidationError as error:
            raise InputError(f"{where}: {describe_error(error)}") from error
        except FlowError as error:
            raise InputError(f"{where}: dsl: {error}") from error
        apis = called_apis(flow)
        if not apis:
            raise InputError(f"{where}: dsl: calls no API")
        name = written.id or f"{written.split}-{number:05d}"
        if name in seen:
            raise InputError(f"{where}: id: {name!r} is also in line {seen[name]}")
        seen[name] = number
        unknown = [api for api in dict.fromkeys(apis) if api not in catalogue]
        rows.append([name, written.split, written.request, print_flow(flow), apis, apis[0], len(apis),
                     count_conditions(flow), "", [], [], unknown])  # fmt: skip
    pairs = pd.DataFrame(rows, columns=[*COLUMNS, "unknown"])
    for split in ("training", "test"):
        if split not in set(pairs["split"]):
            raise InputError(f'{path}: split: no pair is a {split} pair ("split": "{split}")')
    strange = sorted({api for unknown in pairs["unknown"] for api in unknown})
    if strange:
        flows = int(pairs["unknown"].map(bool).sum())
        log.warning("%s: %d flows use APIs that the catalogue lacks: %s", path, flows, ", ".join(strange[:5]))
    return pairs


def dsl_hash(dsl: str) -> str:
    return hashlib.sha256(dsl.encode()).hexdigest()[:12]


class Reworded(Strict):
    """A request in somebody's own words for the flow of a pair, whose hash is `dsl`."""

    pair: Text
    dsl: Text
    request: Text


def read_reworded(path: str | Path) -> pd.DataFrame:
    """Requests that people have reworded, from a YAML list of `pair`, `dsl` (`dsl_hash` of its flow) and `request`.

    Raises:
        InputError: a record has a wrong field, or a pair is there twice; names file, record and field.
    """
    try:
        records = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise InputError(f"{path}: cannot be read: {' '.join(str(error).split())}") from error
    if not isinstance(records, list) or not records:
        raise InputError(f"{path}: expected a list of records")
    read: dict[str, Reworded] = {}
    for number, record in enumerate(records, start=1):
        where = f"{path}, record {number}"
        try:
            reworded = Reworded.model_validate(record)
        except ValidationError as error:
            raise InputError(f"{where}: {describe_error(error)}") from error
        if reworded.pair in read:
            raise InputError(f"{where}: pair: {reworded.pair!r} is there twice")
        read[reworded.pair] = reworded
    return pd.DataFrame([record.model_dump() for record in read.values()])


def match_reworded(reworded: pd.DataFrame, pairs: pd.DataFrame) -> pd.DataFrame:
    """The pairs whose flow is the one that was reworded, with the new request, and the old one as `original`.

    Another seed or size of the world has other pairs; what is reworded of pairs that are not here, or have another
    flow here, is left out.

    Args:
        reworded: as `read_reworded` returns it.
        pairs: as `generate` returns it.

    Returns:
        Their rows of `pairs` in the order of `reworded`, with the column `original`.
    """
    hashes = reworded.rename(columns={"dsl": "hash", "request": "reworded"})
    found = hashes.merge(pairs[pairs["pair"].isin(reworded["pair"])], on="pair")
    found = found[found["dsl"].map(dsl_hash) == found["hash"]].reset_index(drop=True)
    return found.assign(original=found["request"], request=found["reworded"])[[*pairs.columns, "original"]]
