"""The simulated users' workflows: pairs of a request and a flow, made and checked by several processes.

A planned flow is put into words and into the DSL at once. A pair has a random generator of its own, seeded with
the seed, its split and its number, so the same sizes give the same pairs whatever the machine and the number of
processes. Source: the workflow paper, section 4.1.
"""

from __future__ import annotations

import itertools
import multiprocessing
import os
import random
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from typing import Any

import pandas as pd

from lib.workflows.apis import Operation
from lib.workflows.catalogue import Catalogue
from lib.workflows.conditions import Tested, condition
from lib.workflows.language import Branch, Call, Flow, If, Reference, Statement, calls, nodes, parse, rewritten
from lib.workflows.pairs import COLUMNS, SPLITS, normal_form, pair_of
from lib.workflows.planning import FlowDistribution, FlowPlan, draw_plan
from lib.workflows.steps import TRIGGER, Unsayable, step
from lib.workflows.wording import HABITS, Draft, Wordings, composed, last_part, typed

CHUNK = 1000  # pairs that a process makes at a time
MOST_ATTEMPTS = 200


def write(plan: FlowPlan, wordings: Wordings, split: str, rng: random.Random) -> tuple[str, Flow, list[list[str]]]:
    """A request for a plan, its flow, and of each call the keys of the arguments that the request says. Raises
    Unsayable where an output to test or a value is wanting."""
    day_layout, clock = rng.choice(HABITS["day_layouts"]), rng.choice(HABITS["clocks"])
    builds = dict(HABITS["builds"]) if plan.before or plan.branches else {"only": 1.0}
    if len(plan.before) > 2:
        del builds["action"]  # nobody says when after four actions
    build = rng.choices(list(builds), list(builds.values()))[0]
    draft = Draft(rng, wordings, split, build == "telegraph", bool(plan.branches), day_layout, clock)
    opening, trigger = step(draft, plan.trigger)
    before, called = _sequence(draft, plan.before)
    statements: list[Statement] = [*called]
    branches: list = []
    after: list = []
    if plan.branches:
        draft.literals = set()
        tests = _tests(draft, plan, trigger)
        visible, bodies = draft.visible, []
        for body, words in zip(plan.branches, [test.words for test in tests] + [""] * plan.has_else, strict=True):
            draft.last_connector, draft.visible = "", visible
            texts, called = _sequence(draft, body)
            branches.append((words, texts))
            bodies.append(tuple(called))
        otherwise = bodies.pop() if plan.has_else else ()
        tested = tuple(Branch(test.condition, body) for test, body in zip(tests, bodies, strict=True))
        draft.visible = visible
        after, called = _sequence(draft, plan.after)
        statements = [*statements, If(tested, otherwise), *called]
    request = typed(draft, composed(draft, build, opening, before, branches, after))
    flow = Flow((trigger, *statements))
    # Names stand only for outputs that the flow uses.
    used = {TRIGGER, *(node.variable for node in nodes(flow) if isinstance(node, Reference))}
    flow = rewritten(flow, lambda node: replace(node, variable=None)
                     if isinstance(node, Call) and node.variable not in used else node)  # fmt: skip
    return request, flow, draft.said


def _sequence(draft: Draft, apis: Sequence[Operation]) -> tuple[list[str], list[Call]]:
    """Words and calls of one step after the other."""
    done = [step(draft, api) for api in apis]
    return [text for text, _ in done], [call for _, call in done]


def _tests(draft: Draft, plan: FlowPlan, trigger: Call) -> list[Tested]:
    """One test for each branch but that of `else`, and another try where a test came out twice. What the trigger is
    set to (summaries and last parts of keys, values) is nothing to test."""
    settings: set[str] = set()
    for key, value in trigger.parameters.pairs:  # a value may be the measure that a trigger watches
        settings |= {plan.trigger.by_slot[key].summary.lower(), last_part(key), str(value)}
    subject = any("subject" in setting for setting in settings)
    returned = [output.field for output in draft.visible if output.step == 0]
    settings |= {field.summary for field in returned
                 if last_part(field.key) in settings or (subject and field.kind == "subject")}  # fmt: skip
    tests: list[Tested] = []
    for _ in range(len(plan.branches) - plan.has_else):
        made = condition(draft, settings, tests[-1] if tests else None)
        if made is None or made.condition in [test.condition for test in tests]:
            made = condition(draft, set())
        if made is None:
            raise Unsayable(f"{plan.trigger.name}: nothing to test")
        tests.append(made)
    return tests


class FlowSource:
    """What all pairs are made from; arguments and errors are those of `generate`."""

    def __init__(self, catalogue: Catalogue, values: dict[str, list], seed: int):
        self.seed = seed
        self.parsed: set[tuple[str, str]] = set()  # keys whose flows were read again: all would take as long as making
        self.wordings = Wordings(catalogue, values, seed)
        self.distribution = FlowDistribution(catalogue, seed)

    def pair(self, split: str, index: int, attempt: int = 0) -> dict[str, Any]:
        """Pair number `index` of a split, by column; a further `attempt` gives another one. Each unseen pair is made
        around one of the APIs that training never has, one after the other. Raises RuntimeError where the flow does not
        round-trip, or none can be made."""
        known = self.distribution
        held = [api for api in (*known.triggers, *known.actions) if not api.in_training] if split == "unseen" else []
        focus = held[index % len(held)] if held else None
        for trial in range(MOST_ATTEMPTS):
            rng = random.Random(f"{self.seed}:{split}:{index}:{attempt}:{trial}")
            plan = draw_plan(known, rng, split, focus)
            if plan is None:
                continue
            try:
                request, flow, said = write(plan, self.wordings, split, rng)
            except Unsayable:
                continue
            pair = pair_of(f"{split}-{index:05d}", split, request, flow, said)
            keys = {(call.api, key) for call in calls(flow) for key in call.keys}
            if keys - self.parsed and parse(pair["dsl"]) != flow:
                raise RuntimeError(f"does not round-trip: {pair['dsl']}")
            self.parsed |= keys
            return pair
        raise RuntimeError(f"no flow for {split} pair {index}" + (f" with {focus.name}" if focus else ""))


def generate(
    catalogue: Catalogue,
    values: dict[str, list],
    sizes: Mapping[str, int],
    seed: int = 7,
    processes: int = 1,
    progress: Callable = iter,
) -> pd.DataFrame:
    """All pairs; each flow round-trips, validates and begins with its only trigger. No two requests are equal.

    Args:
        catalogue: with phrases; InputError where no trigger or no action has any and is for training.
        values: by kind, as `lib.workflows.pairs.read_values` reads them.
        sizes: how many pairs of each split; further ones leave all others as they are.
        seed: of the pairs, and of what is held out of training.
        processes: how many make pairs at a time; the result does not depend on it.
        progress: wraps the list of chunks, `tqdm` for a bar.

    Returns:
        One row a pair, in the order of `SPLITS`: pair (id), split, request, dsl, apis (list, in order of text; the
        trigger's first), said (for each call, the keys of the arguments that the request says; for scores alone).
    """
    source = FlowSource(catalogue, values, seed)
    chunks = [(split, range(start, min(start + CHUNK, sizes.get(split, 0))))
              for split in SPLITS for start in range(0, sizes.get(split, 0), CHUNK)]  # fmt: skip
    if processes == 1:
        made = [[source.pair(split, index) for index in numbers] for split, numbers in progress(chunks)]
    else:
        context = multiprocessing.get_context("spawn")  # forking a process that has threads may hang
        with ProcessPoolExecutor(processes, context, _start_worker, (catalogue, values, seed)) as pool:
            waiting = [pool.submit(_workers_chunk, *chunk) for chunk in chunks]
            made = [chunk.result() for chunk in progress(waiting)]
    pairs: dict[str, dict[str, Any]] = {}  # by normal form
    for pair in itertools.chain.from_iterable(made):
        name, attempt = pair["pair"], 0
        while (form := normal_form(pair["request"])) in pairs:
            attempt += 1
            if attempt > MOST_ATTEMPTS:
                raise RuntimeError(f"{name}: no new request in {MOST_ATTEMPTS} attempts; ask for fewer pairs")
            pair = source.pair(pair["split"], int(name.rpartition("-")[2]), attempt)
        pairs[form] = pair
    return pd.DataFrame(list(pairs.values()), columns=COLUMNS)


_worker: list[FlowSource] = []  # of a process that makes pairs, made once


def _start_worker(catalogue: Catalogue, values: dict[str, list], seed: int) -> None:
    """Set up a process that ends with the one that made it: a worker that waits for work never notices."""
    maker = multiprocessing.parent_process()

    def end_with_it() -> None:
        maker.join()  # type: ignore[union-attr]  # a worker has one
        os._exit(1)

    threading.Thread(target=end_with_it, daemon=True).start()
    _worker.append(FlowSource(catalogue, values, seed))


def _workers_chunk(split: str, numbers: range) -> list[dict[str, Any]]:
    return [_worker[0].pair(split, index) for index in numbers]
