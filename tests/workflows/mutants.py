"""Flows made wrong in one place that the request decides."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace

from lib.workflows.language import Branch, Call, Flow, For, If, Not, Object, Reference, Statement, Value, calls

KINDS = ("argument", "condition", "api", "dropped", "reference")


def mutant(
    flow: Flow, said: Sequence[Sequence[str]], apis: Sequence[str], rng: random.Random, kind: str
) -> Flow | None:
    """The flow with one said argument changed, one condition negated, one API exchanged, one call left out, or one said
    reference led elsewhere; None where it has nothing of the kind.

    Args:
        said: for each call, the keys of the arguments that the request says.
    """
    count = len(list(calls(flow)))
    if kind == "condition":
        branches = sum(len(one.branches) for one in _ifs(flow.statements))
        if not branches:
            return None
        return Flow(_edit(flow.statements, negate=rng.randrange(branches))[0])
    if kind in ("argument", "reference"):
        found = [
            (place, key)
            for place, (call, keys) in enumerate(zip(calls(flow), said, strict=True))
            for key, value in call.parameters.pairs
            if key in keys and isinstance(value, Reference) == (kind == "reference")
        ]
        if not found:
            return None
        place, key = rng.choice(found)

        def changed(call: Call) -> Call:
            pairs = tuple((name, _other(value) if name == key else value) for name, value in call.parameters.pairs)
            return replace(call, parameters=Object(pairs))

        return Flow(_edit(flow.statements, at=place, change=changed)[0])
    place = rng.randrange(count)
    if kind == "dropped":
        return Flow(_edit(flow.statements, at=place, change=lambda call: None)[0]) if count > 1 else None
    called = list(calls(flow))[place].api
    other = rng.choice([name for name in apis if name != called])
    return Flow(_edit(flow.statements, at=place, change=lambda call: replace(call, api=other))[0])


def _other(value: Value) -> Value:
    match value:
        case Reference(variable, path):
            return Reference(variable, (*path, "elsewhere"))
        case bool():
            return not value
        case int() | float():
            return value + 1
        case str():
            return f"{value}!"
    return "other"


def _ifs(statements: Sequence[Statement]) -> Iterator[If]:
    for statement in statements:
        if isinstance(statement, If):
            yield statement
            for body in (*(branch.body for branch in statement.branches), statement.otherwise):
                yield from _ifs(body)
        elif isinstance(statement, For):
            yield from _ifs(statement.body)


def _edit(statements, at=None, change=None, negate=None, call=0, branch=0):
    """The statements with call number `at` changed, or branch number `negate` negated; and the numbers reached."""
    made = []
    for statement in statements:
        if isinstance(statement, Call):
            new = change(statement) if call == at else statement
            call += 1
            made += [] if new is None else [new]
        elif isinstance(statement, For):
            body, call, branch = _edit(statement.body, at, change, negate, call, branch)
            made.append(replace(statement, body=body))
        else:
            branches = []
            first, branch = branch, branch + len(statement.branches)
            for number, one in enumerate(statement.branches):
                body, call, branch = _edit(one.body, at, change, negate, call, branch)
                condition = Not(one.condition) if first + number == negate else one.condition
                branches.append(Branch(condition, body))
            otherwise, call, branch = _edit(statement.otherwise, at, change, negate, call, branch)
            made.append(If(tuple(branches), otherwise))
    return tuple(made), call, branch
