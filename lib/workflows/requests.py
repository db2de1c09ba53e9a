"""A planned flow put into words and into the DSL at once."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

from lib.workflows.apis import API
from lib.workflows.conditions import Tested, condition
from lib.workflows.drafts import Draft, last_part, marked
from lib.workflows.language import Branch, Call, Flow, For, If, Statement, variables_used
from lib.workflows.outputs import Output
from lib.workflows.planning import FlowPlan
from lib.workflows.sentences import BUILD, Parts, draw_build, typed
from lib.workflows.steps import TRIGGER, Unsayable, step
from lib.workflows.values import CLOCKS, DAY_LAYOUTS
from lib.workflows.wordings import Wordings


@dataclass(slots=True)
class Written:
    """A request with its flow. `wordings`: which phrases of which API it uses; `frame`: which frame; `said`: of each
    call, in order of text, the keys of the arguments that the request says; `clauses`: of each call the stretch of the
    request that says it, from its first character to the one after its last."""

    request: str
    flow: Flow
    frame: str
    wordings: list[tuple[str, str]]
    quoted: list[str]
    said: list[list[str]]
    clauses: list[list[int]]


def write(plan: FlowPlan, wordings: Wordings, split: str, rng: random.Random) -> Written:
    """The request and the flow of a plan.

    Raises:
        Unsayable: an output to test or a value is wanting.
    """
    day_layout, clock = rng.choice(DAY_LAYOUTS), rng.choice(CLOCKS)
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
    flow = without_unused(Flow(tuple(statements)))
    text, stretches = typed(draft, request)
    clauses = [stretches[number] for number in range(draft.steps)]
    return Written(text, flow, frame, draft.used, draft.quoted, draft.said, clauses)


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
