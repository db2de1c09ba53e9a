"""Flows mended after they were written, without a model: made-up names and keys are snapped to the catalogue.

It stands beside constrained decoding, which lets a model write nothing else. Nothing here reads a right flow. A flow
that makes nothing up, or that does not parse, is never changed. Source: ours.
"""

from __future__ import annotations

from dataclasses import replace
from difflib import SequenceMatcher
from functools import cache

from lib.workflows import language
from lib.workflows.catalogue import Catalogue


def likeness(left: str, right: str) -> float:
    """Twice the matching characters over all characters (Ratcliff and Obershelp), 0–1; case does not count."""
    return SequenceMatcher(None, left.casefold(), right.casefold(), autojunk=False).ratio()


def snapped(text: str, catalogue: Catalogue) -> str:
    """A flow with no made-up name or key; the text as it was where it has none, or does not parse.

    A made-up name becomes the API whose connector and operation are most alike, each counted half; a connector that
    exists is kept. A made-up key becomes the key of that API that is most alike and that the call does not have, the
    pairs most alike first. Ties go to the name that comes first. A key is dropped where the API has none left. Keys
    that a dynamic API may have undeclared stay.
    """
    try:
        flow = language.parse(text)
    except language.FlowError:
        return text
    report = language.validate(flow, catalogue)
    if not (report.made_up_names or report.made_up_parameters):
        return text
    return language.print_flow(
        language.rewritten(flow, lambda node: _snapped(node, catalogue) if isinstance(node, language.Call) else node)
    )


def _snapped(call: language.Call, catalogue: Catalogue) -> language.Call:
    name = call.api
    if name not in catalogue:
        connector, _, operation = name.partition(".")
        own = sorted(known for known in catalogue.apis if known.startswith(f"{connector}."))
        halves, most = cache(likeness), -1.0  # a connector is compared once
        for known in own or sorted(catalogue.apis):
            other, _, its = known.partition(".")
            alike = round(halves(connector, other) + likeness(operation, its), 9)
            if alike > most:  # of several the first
                name, most = known, alike
    made_up, chosen = language.made_up_keys(call, catalogue[name]), dict[str, str]()
    free = sorted(set(catalogue[name].keys) - set(call.keys))
    for _, before, after in sorted((-likeness(one, key), one, key) for one in made_up for key in free):
        if before not in chosen and after not in chosen.values():
            chosen[before] = after
    dropped = set(made_up) - set(chosen)
    kept = [(chosen.get(key, key), value) for key, value in call.parameters.pairs if key not in dropped]
    return replace(call, api=name, parameters=language.Object(tuple(kept)))
