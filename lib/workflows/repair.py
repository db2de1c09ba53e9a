"""Flows mended after they were written, without a model: made-up names and keys are snapped to the catalogue.

It stands beside constrained decoding, which lets a model write nothing else. Nothing here reads a right flow. A flow
that makes nothing up, or that does not parse, is never changed. Source: ours.
"""

from __future__ import annotations

from dataclasses import replace
from difflib import SequenceMatcher
from functools import cache

from lib.workflows.catalogue import Catalogue
from lib.workflows.language import (
    Call,
    Flow,
    FlowError,
    For,
    If,
    Object,
    Statement,
    made_up_keys,
    parse,
    print_flow,
    validate,
)


def likeness(left: str, right: str) -> float:
    """Twice the matching characters over all characters (Ratcliff and Obershelp), 0–1; case does not count."""
    return SequenceMatcher(None, left.casefold(), right.casefold(), autojunk=False).ratio()


class Snapper:
    """Repairs flows against a catalogue.

    A made-up name becomes the API whose connector and operation are most alike, each counted half; a connector that
    exists is kept. A made-up key becomes the key of that API that is most alike and that the call does not have, the
    pairs most alike first. Ties go to the name that comes first. A key is dropped where the API has none left. Keys
    that a dynamic API may have undeclared stay.

    Example:
        >>> Snapper(catalogue).repair('x = await shared_teams.PostMesage({"mesage": "hi"});')
    """

    def __init__(self, catalogue: Catalogue):
        self.catalogue = catalogue
        self.names = sorted(catalogue.apis)
        self.nearest = cache(self._nearest)

    def repair(self, text: str) -> str:
        """A flow with no made-up name or key; the text as it was where it has none, or does not parse."""
        try:
            flow = parse(text)
        except FlowError:
            return text
        report = validate(flow, self.catalogue)
        if not report.made_up_names and not report.made_up_parameters:
            return text
        return print_flow(Flow(tuple(map(self._statement, flow.statements))))

    def _statement(self, statement: Statement) -> Statement:
        if isinstance(statement, Call):
            return self._call(statement)
        if isinstance(statement, For):
            return replace(statement, body=tuple(map(self._statement, statement.body)))
        branches = (replace(one, body=tuple(map(self._statement, one.body))) for one in statement.branches)
        return If(tuple(branches), tuple(map(self._statement, statement.otherwise)))

    def _call(self, call: Call) -> Call:
        api = self.catalogue[call.api if call.api in self.catalogue else self.nearest(call.api)]
        made_up = made_up_keys(call, api)
        free = sorted(set(api.keys) - set(call.keys))
        chosen: dict[str, str] = {}
        pairs = sorted((-likeness(before, after), before, after) for before in made_up for after in free)
        for _, before, after in pairs:
            if before not in chosen and after not in chosen.values():
                chosen[before] = after
        dropped = set(made_up) - set(chosen)
        kept = [(chosen.get(key, key), value) for key, value in call.parameters.pairs if key not in dropped]
        return replace(call, api=api.name, parameters=Object(tuple(kept)))

    def _nearest(self, made_up: str) -> str:
        connector, _, operation = made_up.partition(".")
        own = [name for name in self.names if name.startswith(f"{connector}.")]
        halves = cache(likeness)  # a connector is compared once

        def alike(name: str) -> float:
            other, _, its = name.partition(".")
            return round(halves(connector, other) + likeness(operation, its), 9)

        return max(own or self.names, key=alike)  # of several the first
