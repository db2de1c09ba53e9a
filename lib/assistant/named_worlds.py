"""Three named worlds: where the values of a call's arguments stand, and what decides the call.

Both are fixed beforehand. The toolbox has no API without arguments, so a call that takes none is `default()`, or one
whose only argument is the day on which it is asked for.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lib.assistant.needs import GROUPS, Group, Kind
from lib.assistant.queries import deal_kinds
from lib.assistant.schemas import WorldKnobs


@dataclass(frozen=True)
class Mix:
    """Shares of a world's queries.

    Attributes:
        query, items, none: where the call's text arguments stand (`argument_source`): in the query, in the persona's
            items, or the call takes none. They sum to 1.
        by_place: the call is decided by where the persona keeps the matter, else by the need alone (`api_source`).
    """

    query: float
    items: float
    none: float
    by_place: float


WORLDS = {
    "explicit": Mix(query=0.85, items=0.05, none=0.10, by_place=0.10),
    "mixed": Mix(query=0.40, items=0.40, none=0.20, by_place=0.50),
    "hard": Mix(query=0.00, items=0.80, none=0.20, by_place=1.00),
}


def group_shares(knobs: WorldKnobs) -> dict[Group, float]:
    """The share of a world's queries that needs of each group voice.

    Of the kept needs' queries a `default_share` takes no argument. `hard` is made of kept needs alone, so its share
    without arguments is `default_share` and not 0.2, and the rest falls to the items.
    """
    mix = WORLDS[knobs.world]
    if not mix.query:
        return {"kept": 1.0, "said": 0.0, "placed": 0.0, "unfilled": 0.0, "unserved": 0.0}
    kept = min(mix.items / max(1 - knobs.default_share, mix.items), 1 - mix.query)
    placed = float(np.clip(mix.by_place - kept, 0, mix.query))
    none = 1 - kept - mix.query
    unserved = min(knobs.default_share * (1 - kept), none)
    return {
        "kept": kept,
        "said": mix.query - placed,
        "placed": placed,
        "unfilled": none - unserved,
        "unserved": unserved,
    }


def plan_shares(group: Group, knobs: WorldKnobs) -> tuple[float, float]:
    """Shares of plans with two calls and of `default()` among a group's lived needs, so that over all groups they are
    `complex_share` and `default_share`, as far as the groups that have such plans are large enough."""
    if group == "kept":
        return knobs.complex_share, knobs.default_share
    if group == "said":
        shares = group_shares(knobs)
        return min(knobs.complex_share * (1 - shares["kept"]) / shares["said"], 1.0), 0.0
    return 0.0, 1.0 if group == "unserved" else 0.0


def deal_asks(total: int, knobs: WorldKnobs, rng: np.random.Generator) -> list[tuple[Group, Kind]]:
    """Group and kind of each of `total` queries, in their shares as exactly as whole numbers allow, shuffled.

    What says its arguments is not resolved by habit alone: its kinds are `meaning` and `either`, in their ratio.
    """
    shares = group_shares(knobs)
    wanted = np.array([shares[group] * total for group in GROUPS])
    counts = np.floor(wanted + 1e-9).astype(int)
    counts[np.argsort(counts - wanted, kind="stable")[: total - counts.sum()]] += 1
    deck: list[tuple[Group, Kind]] = []
    for group, count in zip(GROUPS, counts.tolist(), strict=True):
        if group == "kept":
            deck += [(group, kind) for kind in deal_kinds(count, knobs, rng)]
        else:
            worded = 1 - knobs.habit_share
            meaning = round(count * (knobs.meaning_share / worded if worded > 0 else 0.5))
            kinds: dict[Kind, int] = {"meaning": meaning, "either": count - meaning}
            deck += [(group, kind) for kind, n in kinds.items() for _ in range(n)]
    return deck if counts[0] == total else [deck[i] for i in rng.permutation(total)]
