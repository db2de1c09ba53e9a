"""Flows made wrong in one place that the request decides."""

import itertools
import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from lib.workflows.language import Branch, Call, Flow, Not, Object, Reference, calls, nodes, rewritten

KINDS = ("argument", "condition", "api", "reference")


def mutant(
    flow: Flow, said: Sequence[Sequence[str]], apis: Sequence[str], rng: random.Random, kind: str
) -> Flow | None:
    """The flow with one said argument changed, one condition negated, one API exchanged, or one said reference led
    elsewhere; None where it has nothing of the kind. `said`: for each call, the keys of the arguments that the request
    says."""
    places: list[tuple[int, str]] = [
        (place, key)
        for place, (call, keys) in enumerate(zip(calls(flow), said, strict=True))
        for key, value in call.parameters.pairs
        if key in keys and isinstance(value, Reference) == (kind == "reference")
    ]
    if kind in ("condition", "api"):
        of_kind = Branch if kind == "condition" else Call
        places = [(place, "") for place in range(sum(isinstance(node, of_kind) for node in nodes(flow)))]
    if not places:
        return None
    chosen, seen = rng.choice(places), itertools.count()

    def change(node: Any) -> Any:
        if not isinstance(node, Branch if kind == "condition" else Call) or next(seen) != chosen[0]:
            return node
        if kind == "condition":
            return Branch(Not(node.condition), node.body)
        if kind == "api":
            return replace(node, api=rng.choice([name for name in apis if name != node.api]))
        pairs = ((key, _other(value) if key == chosen[1] else value) for key, value in node.parameters.pairs)
        return replace(node, parameters=Object(tuple(pairs)))

    return rewritten(flow, change)


def _other(value: Any) -> Any:
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
