"""All claims of a paper decided together, and what that says in words: which stay open, and which are close."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from lib.assistant.pages.common import ranker_name
from lib.evaluation.claim_records import ClaimError, read_claims
from lib.evaluation.families import Wobbles, close_calls, one_family
from lib.evaluation.judgement import OPEN
from lib.workbook.display import number


def decide_papers(verdicts: pd.DataFrame, path: Path, wobbles: Wobbles) -> tuple[pd.DataFrame, list[str]]:
    """The notebooks' verdicts decided again, all claims of a paper as one family, and what stood in the way.

    Args:
        verdicts: from `lib.report.verdicts.read_verdicts`.
        path: the file of claims; without it verdicts stay as they are.

    Returns:
        `verdicts` with the columns of `lib.evaluation.families`, empty for a paper that stays as its notebooks have it.
    """
    if verdicts.empty or not path.exists():
        return verdicts.assign(alone=verdicts["verdict"], turns="", wobble=0.0), []
    try:
        claims = read_claims(path)
    except ClaimError as error:
        return verdicts.assign(alone=verdicts["verdict"], turns="", wobble=0.0), [str(error)]
    parts, problems = [], []
    for paper, part in verdicts.groupby("paper", sort=False):
        try:
            parts.append(close_calls(one_family(part, claims), claims, wobbles))
        except KeyError as error:
            problems.append(f"{paper}: another version tested its claims ({error}): run `make report` again")
            parts.append(part.assign(alone=part["verdict"], turns="", wobble=0.0))
    return pd.concat(parts).sort_index(), problems


def open_share(verdicts: pd.DataFrame) -> str:
    """Which share of the claims about methods stayed open, and how many of these have an n that would decide them."""
    still = verdicts[verdicts["verdict"].isin(OPEN)]
    if still.empty:
        return ""
    told, share = int(still["n_needed"].notna().sum()), len(still) / len(verdicts)
    return (
        f"Open ({' or '.join(OPEN)}) means that more queries or flows would be needed to tell: so stayed {len(still)} "
        f"of the {len(verdicts)} claims about methods ({share:.0%}). "
        f"How many is said of {'each' if told == len(still) else f'{told} of them'}. "
    )


def close_in_words(verdicts: pd.DataFrame, wobbles: Wobbles) -> str:
    """Which rows were seen to differ between processors, and which verdicts are so close that this could turn them."""
    if not verdicts["wobble"].any():
        return ""
    largest: dict[str, float] = {}
    for (method, _), points in sorted(wobbles.items(), key=lambda entry: -entry[1]):
        if round(points, 1) > 0:
            largest.setdefault(ranker_name(method), points)
    differ = ", ".join(f"{method} by up to {number(points, 1)}" for method, points in largest.items())
    turned = verdicts["turns"] != ""
    cutoffs = sum(bool(one.get("turns")) for rows in verdicts["rows"] for one in rows)
    close = f"{turned.sum()} of {len(verdicts)} verdicts ({cutoffs} of {verdicts['rows'].map(len).sum()} by cutoff)"
    return (
        f"The same code and seed gave other numbers on another processor: {differ or 'all by less than 0.1'} points "
        f"(data/processors.csv). {close} could turn by as much: they are marked as close."
    )
