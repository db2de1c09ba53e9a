"""All claims of a paper decided as one family, and which verdicts another processor might turn.

A notebook decides the claims that it tests. Holm's adjustment over all claims of a paper needs the p-values of all its
notebooks: `one_family` decides them again, from the evidence that `lib.evaluation.claims.evaluate` keeps beside each
verdict.

The same profile and seed give other digits on another processor. `data/processors.csv` has what was measured: rows of
tables from two processors, of the same code. The largest difference over the cutoffs of a method and metric is its
*wobble*. A verdict is *close* if it turns when the effect moves by the wobbles of both its sides, to either side, with
its interval, its p-value and Holm's adjustment. That both sides move apart is the worst case: mostly they move
together. A row that was never measured counts as one that stays, so that a verdict which is not called close may still
turn.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import stats

from lib.evaluation.claim_records import Claim
from lib.evaluation.claims import decide
from lib.evaluation.judgement import Evidence

SMALLEST_P = 1e-4  # of a randomisation test of 9,999 exchanges; as small as a moved p-value becomes
Wobbles = Mapping[tuple[str, str], float]


def evidence_of(row: Mapping) -> dict[str, list[Evidence]]:
    """What a claim's cells show, by cutoff, from a row of `evaluate`, also as a parquet file has it."""
    return {one["k"]: [Evidence(**_numbers(cell)) for cell in one["cells"]] for one in row["rows"]}


def _numbers(cell: Mapping) -> dict:
    return {name: math.nan if value is None else value for name, value in cell.items()}


def one_family(verdicts: pd.DataFrame, claims: Sequence[Claim]) -> pd.DataFrame:
    """The verdicts of several notebooks on one paper's claims, decided together.

    Args:
        verdicts: rows of `evaluate`, of one paper; other columns are kept.
        claims: at least those of `verdicts`.

    Returns:
        `verdicts` decided anew, with alone: the verdict among the claims of its notebook.

    Raises:
        KeyError: a verdict's claim is not among `claims`.
    """
    records = _records(verdicts, claims)
    together = decide(records, [evidence_of(row) for row in verdicts.to_dict("records")])
    together.index = verdicts.index
    return verdicts.assign(**dict(together.items())).assign(alone=verdicts["verdict"])


def _records(verdicts: pd.DataFrame, claims: Sequence[Claim]) -> list[Claim]:
    by_name = {claim.claim: claim for claim in claims}
    return [by_name[name] for name in verdicts["claim"]]


def measured_wobbles(table: pd.DataFrame) -> dict[tuple[str, str], float]:
    """The largest difference between processors over all cutoffs, by method and metric, in points.

    Args:
        table: columns method, metric, one and other: the same row's value on two processors.
    """
    found = (table["one"] - table["other"]).abs().groupby([table["method"], table["metric"]], sort=False).max()
    return {(str(method), str(metric)): float(points) for (method, metric), points in found.items()}


def read_wobbles(path: Path) -> dict[tuple[str, str], float]:
    """`measured_wobbles` of a file; nothing where there is no such file."""
    return measured_wobbles(pd.read_csv(path, comment="#")) if path.exists() else {}


def close_calls(verdicts: pd.DataFrame, claims: Sequence[Claim], wobbles: Wobbles) -> pd.DataFrame:
    """Which verdicts turn where the effect moves by what processors were seen to differ by.

    Args:
        verdicts: one family, from `one_family`.
        claims: at least those of `verdicts`.

    Returns:
        `verdicts` with wobble (of the row that a claim shows, in the effect's unit; 0 where none was measured) and
        turns: the other verdicts, joined by "or", empty where it stays; turns is in each of its `rows`, too.
    """
    records = _records(verdicts, claims)
    rows = [evidence_of(row) for row in verdicts.to_dict("records")]
    told = []
    for number, (claim, row) in enumerate(zip(records, verdicts.to_dict("records"), strict=True)):
        by = {k: [_wobble(claim, cell, wobbles) for cell in cells] for k, cells in rows[number].items()}
        ends = [] if not any(map(any, by.values())) else [_moved(records, rows, number, by, sign) for sign in (-1, 1)]
        turns = [_others(one["verdict"], [end["rows"][place]["verdict"] for end in ends]) for place, one in
                 enumerate(row["rows"])]  # fmt: skip
        told.append(
            {
                "wobble": max((points for cell, points in zip(rows[number][row["k"]], by[row["k"]], strict=True)
                               if cell.method == row["method"]), default=0.0),
                "turns": _others(row["verdict"], [end["verdict"] for end in ends]),
                "rows": [dict(one) | {"turns": turn} for one, turn in zip(row["rows"], turns, strict=True)],
            }
        )  # fmt: skip
    return verdicts.assign(**dict(pd.DataFrame(told, index=verdicts.index).items()))


def _others(verdict: str, found: Sequence[str]) -> str:
    return " or ".join(dict.fromkeys(word for word in found if word != verdict))


def _moved(claims: Sequence[Claim], rows: Sequence[dict], number: int, by: dict, sign: int) -> dict:
    """One claim's row where each of its effects is higher (`sign` 1) or lower (-1) by its wobble."""
    claim = claims[number]
    moved = {
        k: [_shift(claim, cell, sign * points) for cell, points in zip(cells, by[k], strict=True)]
        for k, cells in rows[number].items()
    }
    return decide(claims, [moved if place == number else row for place, row in enumerate(rows)]).iloc[number].to_dict()


def _wobble(claim: Claim, cell: Evidence, wobbles: Wobbles) -> float:
    """By how much the effect in a cell may differ between processors, in its unit."""
    if not math.isfinite(cell.effect):
        return 0.0
    sides = {(method, k): (left, right) for method, k, left, right in claim.cells(set(claim.cutoffs))}
    left, right = (
        wobbles.get(side[:2], 0.0) if isinstance(side, tuple) else 0.0 for side in sides[cell.method, cell.k]
    )
    if claim.unit == "fold":
        return (left + cell.effect * right) / cell.other if cell.other else 0.0
    return left + right


def _shift(claim: Claim, cell: Evidence, by: float) -> Evidence:
    """The same evidence around an effect that is higher by `by`; the p-value moves as that of a normal effect does."""
    if not by or math.isinf(cell.detectable):
        return cell
    moved = replace(cell, effect=cell.effect + by, ci_low=cell.ci_low + by, ci_high=cell.ci_high + by)
    if not cell.se:
        return moved
    depth = claim.depth(cell.effect)
    z = float(stats.norm.isf(cell.p_value / 2))
    if cell.p_value <= SMALLEST_P:  # the test can go no lower, however far the effect is
        z = max(z, abs(depth) / cell.se)
    z = math.copysign(z, depth) + (claim.depth(moved.effect) - depth) / cell.se
    return replace(moved, p_value=float(np.clip(2 * stats.norm.sf(abs(z)), SMALLEST_P, 1.0)))
