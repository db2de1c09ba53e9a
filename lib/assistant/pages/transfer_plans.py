"""Tables and sentences of notebook 11: plans of NESTFUL and WorkBench."""

from __future__ import annotations

import pandas as pd

from lib.assistant.nestful import MUTANTS
from lib.evaluation.inference import percent
from lib.workbook.display import Table, interval
from lib.workbook.markup import plain


def share(successes, n: int, decimals: int = 1) -> str:
    """A percentage with Wilson's 95% interval."""
    return interval(*map(float, percent(int(successes), n)), decimals) + "%"


def held_words(trips: pd.DataFrame) -> str:
    """How many of NESTFUL's plans the plan language holds, and what it does not.

    Args:
        trips: of `lib.assistant.nestful.round_trips`.
    """
    held, nested = int(trips["matches"].sum()), int((trips["nested"] > 0).sum())
    said = (
        f"{held} of {len(trips)} right plans ({share(held, len(trips))}; {nested} have a call that uses another's "
        "result) are themselves after printing and parsing, and right by AST match."
    )
    lost = trips[~trips["matches"]]
    if lost.empty:
        return said
    unparsed = lost["reason"].str.contains("does not parse")
    return f"{said} Of the others {int(unparsed.sum())} do not parse. One of them: {plain(lost['reason'].iloc[0])}."


def swapped_words(trips: pd.DataFrame) -> str:
    """Whether AST match sees that a reference has come to mean another call."""
    counted = trips[trips["matches"] & trips["swapped"].notna()]
    if counted.empty:
        return "No plan has two calls to exchange."
    flat, content = (int(counted[name].astype(bool).sum()) for name in ("swapped", "swapped_by_content"))
    return (
        "AST match takes calls in any order, and a reference names a place: where two calls are exchanged, it sees "
        f"{flat} of {len(counted)} such plans as wrong, and {content} of {len(counted)} where references are compared "
        "by the call that they mean."
    )


def mutants_table(trips: pd.DataFrame) -> Table:
    """Which wrong plans are found wrong, among plans that are right before."""
    rows = []
    for kind, said in MUTANTS.items():
        counted = trips[trips["matches"] & trips[kind].notna()]
        found = [int(counted[f"{kind}{way}"].astype(bool).sum()) for way in ("", "_by_content")]
        shown = [share(one, len(counted)) if len(counted) else "" for one in found]
        rows.append({"made wrong by": said, "plans": len(counted), "AST match, %": shown[0].rstrip("%"),
                     "references by content, %": shown[1].rstrip("%")})  # fmt: skip
    caption = "NESTFUL's right plans, each made wrong in one place: share that is found wrong, 95% intervals."
    return Table(pd.DataFrame(rows), caption)
