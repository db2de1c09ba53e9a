"""The simulated users' workflows: pairs of a request and a flow, made and checked by several processes.

A planned flow is put into words and into the DSL at once. A pair has a random generator of its own, seeded with the
knobs' seed, its split and its number, so the same knobs give the same pairs whatever the machine and the number of
processes. Source: the workflow paper, section 4.1.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from lib.workflows.apis import API
from lib.workflows.catalogue import Catalogue
from lib.workflows.conditions import Tested, condition
from lib.workflows.language import Branch, Call, Flow, For, If, Statement, calls, parse, validate, variables_used
from lib.workflows.pairs import COLUMNS, SPLITS, normal_form, pair_of
from lib.workflows.planning import FlowDistribution, FlowKnobs, FlowPlan, draw_plan
from lib.workflows.steps import TRIGGER, Output, Unsayable, step
from lib.workflows.wording import BUILD, HABITS, Draft, Parts, Wordings, draw_build, last_part, marked, typed

CHUNK = 1000  # pairs that a process makes at a time
MOST_ATTEMPTS = 200


# ---------------------------------------------------------------- a plan in words and in the DSL


def write(plan: FlowPlan, wordings: Wordings, split: str, rng: random.Random) -> tuple[Flow, dict[str, Any]]:
    """The flow of a plan; and its request with how it was made: the columns request, frame, wordings, quoted, said and
    clauses that `generate` tells of.

    Raises:
        Unsayable: an output to test or a value is wanting.
    """
    day_layout, clock = rng.choice(HABITS["day_layouts"]), rng.choice(HABITS["clocks"])
    build = draw_build(rng, len(plan.before), bool(plan.branches))
    draft = Draft(rng, wordings, split, build == "telegraph", bool(plan.branches), day_layout, clock)
    words, trigger, visible = step(draft, plan.trigger, [])
    parts = Parts(marked(words, 0))
    settings = settings_of(plan.trigger, trigger, visible)
    parts.before, calls, visible = _sequence(draft, plan.before, visible)
    statements: list[Statement] = [trigger, *calls]
    if plan.branches:
        parts.branches, conditional = _conditional(draft, plan, visible, settings)
        parts.after, calls, _ = _sequence(draft, plan.after, visible)
        statements += [conditional, *calls]
    request, frame = BUILD[build](draft, parts)
    text, stretches = typed(draft, request)
    how: dict[str, Any] = {
        "request": text,
        "frame": frame,
        "wordings": draft.used,
        "quoted": draft.quoted,
        "said": draft.said,
    }
    how["clauses"] = [stretches[number] for number in range(draft.steps)]
    return without_unused(Flow(tuple(statements))), how


def _sequence(draft: Draft, apis: Sequence[API], visible: list[Output]) -> tuple[list[str], list[Call], list[Output]]:
    """Words and calls of one step after the other, and what is visible after them."""
    texts, calls = [], []
    for api in apis:
        text, call, outputs = step(draft, api, visible)
        texts.append(marked(text, draft.steps - 1))
        calls.append(call)
        visible = visible + outputs
    return texts, calls, visible


def settings_of(api: API, trigger: Call, returned: Sequence[Output]) -> set[str]:
    """Summaries and last parts of keys of what the trigger is set to, and its values: nothing a condition tests."""
    named = dict(trigger.parameters.pairs)
    settings = set()
    for parameter in api.parameters:
        if parameter.key in named:
            settings |= {parameter.summary.lower(), last_part(parameter.key)}
            settings.add(str(named[parameter.key]))  # such as the measure that a trigger watches
    subject = any("subject" in setting for setting in settings)
    return settings | {o.field.summary for o in returned
                       if last_part(o.field.key) in settings or (subject and o.field.kind == "subject")}  # fmt: skip


def _conditional(
    draft: Draft, plan: FlowPlan, visible: list[Output], settings: set[str]
) -> tuple[list[tuple[str, list[str]]], If]:
    """Words as (condition, actions) for each branch, with an empty condition for `else`; and the statement."""
    draft.literals = set()
    tests = _tests(draft, plan, visible, settings)
    words, bodies = [], []
    for body in plan.branches:
        draft.last_connector = ""
        texts, calls, _ = _sequence(draft, body, visible)
        words.append(texts)
        bodies.append(tuple(calls))
    conditions = [test.words for test in tests] + [""] * plan.has_else
    otherwise = bodies.pop() if plan.has_else else ()
    branches = tuple(Branch(test.condition, body) for test, body in zip(tests, bodies, strict=True))
    return list(zip(conditions, words, strict=True)), If(branches, otherwise)


def _tests(draft: Draft, plan: FlowPlan, visible: list[Output], settings: set[str]) -> list[Tested]:
    """One test for each branch but that of `else`, and another try where a test came out twice."""
    tests: list[Tested] = []
    for _ in range(len(plan.branches) - plan.has_else):
        made = condition(draft, visible, settings, tests[-1] if tests else None)
        if made is None or made.condition in [test.condition for test in tests]:
            made = condition(draft, visible, set())
        if made is None:
            raise Unsayable(f"{plan.trigger.name}: nothing to test")
        tests.append(made)
    return tests


def without_unused(flow: Flow) -> Flow:
    """The flow with names only for outputs that it uses, and the trigger's: a shorter shot."""
    used = {TRIGGER, *variables_used(flow)}

    def bare(statement: Statement) -> Statement:
        if isinstance(statement, Call):
            return statement if statement.variable in used else replace(statement, variable=None)
        if isinstance(statement, For):
            return replace(statement, body=tuple(map(bare, statement.body)))
        branches = tuple(Branch(branch.condition, tuple(map(bare, branch.body))) for branch in statement.branches)
        return If(branches, tuple(map(bare, statement.otherwise)))

    return Flow(tuple(map(bare, flow.statements)))


# ---------------------------------------------------------------- pairs


@dataclass(frozen=True, slots=True)
class FlowSource:
    """What all pairs are made from."""

    catalogue: Catalogue
    wordings: Wordings
    distribution: FlowDistribution
    seed: int

    @classmethod
    def of(cls, catalogue: Catalogue, values: dict[str, list], knobs: FlowKnobs) -> FlowSource:
        """Arguments and errors as those of `generate`."""
        wordings = Wordings(catalogue, values, knobs.seed)
        return cls(catalogue, wordings, FlowDistribution(catalogue, knobs), knobs.seed)


def make_pair(source: FlowSource, split: str, index: int, attempt: int = 0) -> dict[str, Any]:
    """Pair number `index` of a split, by column. A further `attempt` gives another one, for a request that is there
    already. Each unseen pair is made around one of the APIs that training never has, one after the other.

    Raises:
        RuntimeError: the pair does not parse, round-trip or validate, which would be an error of this package.
    """
    known = source.distribution
    held = [api for api in (*known.triggers, *known.actions) if not api.in_training] if split == "unseen" else []
    focus = held[index % len(held)] if held else None
    for trial in range(MOST_ATTEMPTS):
        rng = random.Random(f"{source.seed}:{split}:{index}:{attempt}:{trial}")
        plan = draw_plan(known, rng, split, focus)
        if plan is None:
            continue
        try:
            flow, how = write(plan, source.wordings, split, rng)
        except Unsayable:
            continue
        pair = pair_of(f"{split}-{index:05d}", split, flow=flow, **how)
        check(flow, pair["dsl"], source.catalogue)
        return pair
    raise RuntimeError(f"no flow for {split} pair {index}" + (f" with {focus.name}" if focus else ""))


def check(flow: Flow, dsl: str, catalogue: Catalogue) -> None:
    """Raises RuntimeError unless the text is the flow's, its names are known and its only trigger comes first."""
    if parse(dsl) != flow:
        raise RuntimeError(f"does not round-trip: {dsl}")
    report = validate(flow, catalogue)
    if report.made_up_names or report.made_up_parameters or report.unassigned:
        raise RuntimeError(f"does not validate: {report}: {dsl}")
    triggers = [catalogue[call.api].trigger for call in calls(flow)]
    if not triggers[0] or any(triggers[1:]):
        raise RuntimeError(f"the trigger is not the first call: {dsl}")


def generate(
    catalogue: Catalogue, values: dict[str, list], knobs: FlowKnobs, processes: int = 1, progress: Callable = iter
) -> pd.DataFrame:
    """All pairs, each flow checked: it round-trips, validates and begins with its only trigger.

    No two requests are equal, not even in their normal form. `test_same` is drawn as training is, with its wordings and
    frames, by generators of its own; further pairs of any split leave all others as they are.

    Args:
        catalogue: with phrases, as `Catalogue.load` reads it.
        values: by kind, as `lib.workflows.pairs.read_values` reads them.
        knobs: sizes, shares and seed.
        processes: how many make pairs at a time; the result does not depend on it.
        progress: wraps the list of chunks, `tqdm` for a bar.

    Returns:
        One row a pair, in the order of `SPLITS`: pair (id), split, request, dsl, apis (list, in order of text),
        trigger, n_calls (the trigger's included), conditions, frame (the template that the request begins with),
        wordings (list of (API, phrase)), quoted (values that the request has in quotes), said (for each call, in order
        of text, the keys of the arguments that the request says; for scores alone), clauses (for each call, in order of
        text, where the words that say it begin and end in the request; for scores).

    Raises:
        InputError: no trigger or no action of the catalogue has phrases and is for training.
    """
    source = FlowSource.of(catalogue, values, knobs)
    chunks = _chunks(knobs)
    if processes == 1:
        made = [_chunk(source, *chunk) for chunk in progress(chunks)]
    else:
        context = multiprocessing.get_context("spawn")  # forking a process that has threads may hang
        with ProcessPoolExecutor(processes, context, _start_worker, (catalogue, values, knobs)) as pool:
            waiting = [pool.submit(_workers_chunk, *chunk) for chunk in chunks]
            made = [chunk.result() for chunk in progress(waiting)]
    pairs = distinct(source, (pair for chunk in made for pair in chunk))
    return pd.DataFrame(list(pairs), columns=COLUMNS)


def _chunks(knobs: FlowKnobs) -> list[tuple[str, int, int]]:
    """Split, first number and the number after the last."""
    sizes = {split: getattr(knobs, f"n_{split}_pairs") for split in SPLITS}
    return [(split, start, min(start + CHUNK, size)) for split, size in sizes.items()
            for start in range(0, size, CHUNK)]  # fmt: skip


def _chunk(source: FlowSource, split: str, start: int, stop: int) -> list[dict[str, Any]]:
    return [make_pair(source, split, index) for index in range(start, stop)]


_source: FlowSource | None = None  # of a worker process, made once


def _start_worker(catalogue: Catalogue, values: dict[str, list], knobs: FlowKnobs) -> None:
    """Set up a process that ends with the one that made it: a worker that waits for work never notices."""
    global _source
    maker = multiprocessing.parent_process()
    assert maker is not None  # a worker has one

    def end_with_it() -> None:
        maker.join()
        os._exit(1)

    threading.Thread(target=end_with_it, daemon=True).start()
    _source = FlowSource.of(catalogue, values, knobs)


def _workers_chunk(split: str, start: int, stop: int) -> list[dict[str, Any]]:
    assert _source is not None  # the process began with `_start_worker`
    return _chunk(_source, split, start, stop)


def distinct(source: FlowSource, pairs: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The pairs in order; one whose request is there already is made again until it is new."""
    seen: set[str] = set()
    for pair in pairs:
        name, attempt = pair["pair"], 0
        while (form := normal_form(pair["request"])) in seen:
            attempt += 1
            if attempt > MOST_ATTEMPTS:
                raise RuntimeError(f"{name}: no new request in {MOST_ATTEMPTS} attempts; ask for fewer pairs")
            pair = make_pair(source, pair["split"], int(name.rpartition("-")[2]), attempt)
        seen.add(form)
        yield pair
