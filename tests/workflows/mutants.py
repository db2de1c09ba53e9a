"""Flows made wrong in one place that the request decides."""

import itertools
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from lib.workflows.language import Branch, Call, Flow, Not, Object, Reference, calls, nodes

KINDS = ("argument", "condition", "api", "dropped", "reference")


def mutant(
    flow: Flow, said: Sequence[Sequence[str]], apis: Sequence[str], rng: random.Random, kind: str
) -> Flow | None:
    """The flow with one said argument changed, one condition negated, one API exchanged, one call left out, or one said
    reference led elsewhere; None where it has nothing of the kind.

    Args:
        said: for each call, the keys of the arguments that the request says.
    """
    called = list(calls(flow))
    places: list[Any] = list(range(len(called) * (kind == "api" or len(called) > 1)))
    if kind == "condition":
        places = list(range(sum(isinstance(node, Branch) for node in nodes(flow))))
    if kind in ("argument", "reference"):
        places = [
            (place, key)
            for place, (call, keys) in enumerate(zip(called, said, strict=True))
            for key, value in call.parameters.pairs
            if key in keys and isinstance(value, Reference) == (kind == "reference")
        ]
    if not places:
        return None
    chosen, seen = rng.choice(places), itertools.count()

    def change(node: Any) -> Any:
        if not isinstance(node, Branch if kind == "condition" else Call):
            return node
        place = next(seen)
        if place != (chosen[0] if isinstance(chosen, tuple) else chosen):
            return node
        if kind == "condition":
            return Branch(Not(node.condition), node.body)
        if kind == "api":
            return replace(node, api=rng.choice([name for name in apis if name != node.api]))
        if kind == "dropped":
            return None
        pairs = ((key, _other(value) if key == chosen[1] else value) for key, value in node.parameters.pairs)
        return replace(node, parameters=Object(tuple(pairs)))

    return _rewritten(flow, change)


def _rewritten(node: Any, change: Callable[[Any], Any]) -> Any:
    """A tree with each node changed, the inner ones first; statements that become None are left out."""
    if isinstance(node, tuple):
        return tuple(new for one in node if (new := _rewritten(one, change)) is not None or one is None)
    parts = {name: _rewritten(getattr(node, name), change) for name in getattr(node, "__slots__", ())}
    return change(replace(node, **parts)) if parts else node


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
