"""Two reports side by side: which verdicts of a small one agree with those of `full`."""

from __future__ import annotations

import pandas as pd

from lib.evaluation.judgement import OPEN

FULL = "full"  # the profile whose answers the others are held against
KEYS = ["claim", "k"]


def beside_full(rows: pd.DataFrame, full: pd.DataFrame) -> pd.DataFrame:
    """Each verdict with that of the report `full` on the same claim at the same cutoff.

    Args:
        rows, full: of `lib.evaluation.claims.by_row`, or as `tables/claims.csv` has them; columns claim, k, verdict.

    Returns:
        `rows` with full_verdict, missing where `full` has no such row, and agrees (bool: the same word).
    """
    theirs = full.assign(k=_as_text(full["k"]))[[*KEYS, "verdict"]].rename(columns={"verdict": "full_verdict"})
    both = rows.assign(k=_as_text(rows["k"])).merge(theirs, on=KEYS, how="left", validate="one_to_one")
    return both.assign(agrees=both["verdict"] == both["full_verdict"])


def _as_text(k: pd.Series) -> pd.Series:
    """K as text; a table in which each is a number is read back as one."""
    return k.fillna("").astype(str).str.removesuffix(".0")


def of_claims(full: pd.DataFrame) -> pd.DataFrame:
    """What a report says of each claim as a whole, one row each (index claim): its verdict, and k, effect, ci_low,
    ci_high and n of the weakest row.

    Args:
        full: as for `beside_full`, with columns overall and weakest besides.
    """
    weakest = full[full["weakest"].astype(bool)].drop_duplicates("claim").set_index("claim")
    return weakest.assign(verdict=weakest["overall"])[["verdict", "k", "effect", "ci_low", "ci_high", "n"]]


def in_words(both: pd.DataFrame) -> str:
    """How many verdicts agree, and how many of the others are open here; empty where nothing can be compared."""
    shared = both.dropna(subset=["full_verdict"])
    if shared.empty:
        return ""
    open_here = int((~shared["agrees"] & shared["verdict"].isin(OPEN)).sum())
    others = len(shared) - int(shared["agrees"].sum())
    rest = f"; of the other {others}, {open_here} are open here" if others else ""
    return (
        f"{shared['agrees'].sum()} of {len(shared)} verdicts (one for each claim and cutoff that both reports test) "
        f"are those of the report {FULL}{rest}."
    )
