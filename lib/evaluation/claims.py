"""What the papers claim, tested on our scores: one verdict a claim, and one for each of its cutoffs.

`data/claims.yaml` lists the claims. A claim states what must hold for each of its methods at each of its cutoffs (K, or
for workflows the number of few-shots), and holds only if every such cell holds (intersection-union: the p-value is the
largest of the cells', with no further correction). Its row shows the cell with the weakest evidence. Where that cell
points against the claim, its p-value is multiplied by the number of cells it was picked from. The same rules give each
cutoff by itself a verdict (`by_row`).

A cell compares two sides on the queries for which both have a row. Where a row has no value (NaN), as a flow that does
not parse has no made-up names, a trend and a `conditional` comparison average each side over its own values, but are
tested on the queries that have one on both: otherwise a side that parses more often would seem to make up less. Any
other comparison drops the query.

Evidence in a cell: the effect, its standard error and 95% interval (`lib.evaluation.intervals`: two-way cluster-robust
over personas and needs for the assistant, as in the tables beside; a bootstrap of test flows for workflows), and the
p-value, of the queries that have a value on both sides. For the assistant that is the interval's own. For workflows it
is that of a paired randomisation test that exchanges the sides flow by flow; at a margin or a constant, where that is
none, that of a normal estimate with this standard error. P-values are adjusted by Holm's method over all claims that
are decided together, those on all flows apart: they restate others. A notebook decides its own (`evaluate`); the index
page decides all of a paper's again as one family (`lib.evaluation.families`). Cutoffs by themselves are another family:
all cutoffs of all these claims; but a claim that is settled as a whole holds at each of its cutoffs, so that a cutoff's
p-value is at most the claim's. A side is *settled* if the adjusted p is at most .05 **and** the interval lies wholly on
that side. The *detectable* effect is the smallest that this n would show with 80% power: 2.8 standard errors of the
effect. Fewer than six first units with a value on both sides can settle nothing: exchanges of so few give no p below
.05, and theirs is 1. Where no outcome (0 or 100) differs between the sides, as of an event that never occurred, there
is no spread: the interval is then as wide as the largest effect that n queries may all have missed (see `unseen_rate`).
Where a rate is 0 or 100% on one side alone, the interval allows for what that side may have missed (see
`lib.evaluation.rates.square_and_add`), and the standard error is that of its width.

The first rule that applies to the weakest cell gives the verdict (`lib.evaluation.judgement`). The effect *looked for*
is the published one; where none is, the size of a claim that has one, otherwise the margin; for sameness the margin.

1. `underpowered`: no query in common, or fewer than six first units.
2. `not testable here`: a ratio to nothing.
3. `not testable here`: on both sides fewer than six queries are off the floor (0), or off the ceiling (100), where the
   effect looked for would have moved six or more. No exchange of so few gives a p below .05, and nothing is reproduced
   on one case against none.
4. `not testable here`: neither side is settled, and the side held against is so near the floor or the ceiling (its
   interval) that there is room neither for the effect looked for nor for one that is detectable and worth the margin.
5. `equivalent`: the interval of every cell lies within the margin around no effect (two one-sided tests at 2.5% each).
   For a claim of sameness this is what the paper said, and Holm's p must agree; for a claim of a difference it means
   that there is none worth the name. A claim of "not less" or "not more" skips this rule.
6. `reproduced`: settled on the claimed side; a claim with a size must also have an interval that reaches it, otherwise
   it is `same direction`, or `not testable here`, settled or not, where so many times the other side is more than 100%.
7. `contradicted`: settled on the other side.
8. `undecided`: significant by itself, its intervals on one side, but not after Holm's adjustment. An estimate on the
   other side is left to rule 12 where the effect looked for would have shown.
9. `not testable here`: the published difference of two rates is one that the paper's own number of queries could not
   have shown, even with all queries that differ on one side (McNemar's test).
10. `underpowered`: the detectable effect exceeds the one looked for, or the estimate is outside the margin of a claim
    of sameness.
11. `same direction`: the estimate is on the claimed side, unsettled.
12. `contradicted`: the estimate is on the other side, unsettled, where the effect looked for would have shown.

Each verdict comes with its reason, in a few words, and each open one (`undecided`, `underpowered`) with the n that
would decide it. Not every claim is about a method: `about` says which are decided by something else, and `tally` counts
those apart.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from lib.evaluation.claim_records import ABOUT, Claim, Column
from lib.evaluation.claim_records import ClaimError as ClaimError
from lib.evaluation.claim_records import Ratio as Ratio
from lib.evaluation.claim_records import read_claims as read_claims
from lib.evaluation.inference import bootstrap_means, holm_adjust, randomisation_test, wilson_interval
from lib.evaluation.intervals import (
    NOTHING,
    paired_differences,
    two_way_differences,
    two_way_means,
    two_way_ratios,
    unseen_rate,
)
from lib.evaluation.judgement import VERDICTS, Evidence, combined_p, holds, judge, n_needed, weakest
from lib.evaluation.rates import FEWEST_UNITS, beside_a_constant

COLUMNS = ["claim", "paper", "statement", "k", "effect", "ci_low", "ci_high", "p_value", "n", "verdict"]
BY_ROW = [*COLUMNS, "reason", "n_needed", "method", "published", "overall", "weakest"]


def evaluate(
    claims: Sequence[Claim],
    scores: pd.DataFrame,
    published: pd.DataFrame,
    samples: int,
    seed: int,
    units: Sequence[str] = ("persona", "need"),
) -> pd.DataFrame:
    """Verdicts on claims, one row each, in the order given.

    Two sides are compared on the queries for which both have a row; the module's text says what becomes of a row whose
    value is NaN.

    Args:
        claims: one family: Holm's adjustment covers all of them (those about `all_flows` are a family of their own).
        scores: columns query, method, metric, k, value and `units`; one row for each (query, method, metric, k). Rates
            and similarity are 0–100. Without a column query, a query is the first of `units`.
        published: columns method, metric, k, value; `ndcg` stands for every definition of NDCG.
        samples, seed: of the bootstrap, where there is one unit; the seed is the randomisation tests', too.
        units: one or two columns of `scores` by which queries cluster; reasons name the first. Workflows: ("flow",).

    Returns:
        `COLUMNS`, of the weakest cell, with its K as text, the adjusted p as `p_value` and the queries with a value on
        either side as n; then reason (of the verdict), n_needed (see `judgement.n_needed`), about (see `ABOUT`),
        as_claimed (bool: reproduced, or equivalent where that is the claim), source, unit (points, percent or fold),
        and of the weakest cell: published (the same effect in the published table, NaN where it has none), method,
        clusters (units of the first kind with a value on both sides, which the p-value uses) and detectable; rows (what
        `by_row` unfolds, and the evidence in their cells). A claim without a query to test it on has n = 0 and no
        effect.
    """
    query = "query" if "query" in scores else units[0]
    wide = scores.pivot(index=query, columns=["method", "metric", "k"], values="value")
    listed = scores.assign(value=1.0).pivot(index=query, columns=["method", "metric", "k"], values="value").notna()
    labels = scores.drop_duplicates(query).set_index(query, drop=False).loc[wide.index, list(units)]
    printed = published.set_index(["method", "metric", "k"])["value"]
    cells = [(claim, *cell) for claim in claims for cell in claim.cells(set(scores["k"]))]
    found = _weigh(cells, wide, listed, labels, printed, samples, seed)
    evidence: dict[str, dict[str, list[Evidence]]] = {claim.claim: {} for claim in claims}
    for (claim, *_), cell in zip(cells, found, strict=True):
        evidence[claim.claim].setdefault(cell.k, []).append(cell)
    return decide(claims, [evidence[claim.claim] or {"": [Evidence()]} for claim in claims])


def decide(claims: Sequence[Claim], rows: Sequence[dict[str, list[Evidence]]]) -> pd.DataFrame:
    """The verdicts of `evaluate` on claims as one family, from what their cells show, by cutoff."""
    adjusted = _adjust(claims, rows)
    return pd.DataFrame(
        [_verdict(claim, by_k, found) for claim, by_k, found in zip(claims, rows, adjusted, strict=True)]
    )


@dataclass(frozen=True)
class _Adjusted:
    """Holm's p of a claim as a whole, among so many claims, and at each cutoff, among so many cutoffs of all claims."""

    whole: float = 1.0
    claims: int = 0
    by_k: Mapping[str, float] = field(default_factory=dict)
    cutoffs: int = 0


def _adjust(claims: Sequence[Claim], rows: Sequence[dict[str, list[Evidence]]]) -> list[_Adjusted]:
    """Holm's p-values of each claim; those about `all_flows` are families of their own."""
    adjusted = [_Adjusted()] * len(claims)
    for apart in (False, True):
        members = [number for number, claim in enumerate(claims) if (claim.about == "all_flows") == apart]
        whole = holm_adjust([combined_p(claims[number], _cells(rows[number])) for number in members])
        keys = [(number, k) for number in members for k in rows[number]]
        at = dict(
            zip(keys, holm_adjust([combined_p(claims[number], rows[number][k]) for number, k in keys]), strict=True)
        )
        for number, p_value in zip(members, whole, strict=True):
            most = p_value if holds(claims[number], _cells(rows[number])) else 1.0
            of_claim = {k: min(p, most) for (other, k), p in at.items() if other == number}
            adjusted[number] = _Adjusted(p_value, len(members), of_claim, len(keys))
    return adjusted


def _cells(by_k: Mapping[str, Sequence[Evidence]]) -> list[Evidence]:
    return [cell for row in by_k.values() for cell in row]


def _verdict(claim: Claim, by_k: dict[str, list[Evidence]], adjusted: _Adjusted) -> dict:
    """One claim's row of `evaluate`, from its cells and adjusted p-values."""
    cells = _cells(by_k)
    cell = weakest(claim, cells)
    overall = _row(claim, cells, adjusted.whole, adjusted.claims)
    rows = [
        _row(claim, row, adjusted.by_k[k], adjusted.cutoffs)
        | {"overall": overall["verdict"], "weakest": k == cell.k, "cells": [asdict(one) for one in row]}
        for k, row in by_k.items()
    ]
    return {
        **overall,
        "about": claim.about,
        "as_claimed": overall["verdict"] == ("equivalent" if claim.test == "same" else "reproduced"),
        "source": claim.source,
        "unit": claim.unit,
        "published": cell.published,
        "method": cell.method,
        "clusters": cell.clusters,
        "detectable": cell.detectable,
        "rows": rows,
    }


def _row(claim: Claim, cells: Sequence[Evidence], p_holm: float, tests: int) -> dict:
    cell = weakest(claim, cells)
    verdict, reason = judge(claim, cells, p_holm, tests)
    values = (claim.claim, claim.paper, claim.statement, cell.k, cell.effect, cell.ci_low, cell.ci_high, p_holm, cell.n)
    return dict(zip(COLUMNS, (*values, verdict), strict=True)) | {
        "reason": reason,
        "n_needed": n_needed(claim, cell, verdict, tests),
        "method": cell.method,
        "published": cell.published,
    }


def by_row(verdicts: pd.DataFrame) -> pd.DataFrame:
    """The verdicts of `evaluate` cutoff by cutoff.

    Returns:
        one row for each claim and cutoff, columns `BY_ROW`: each cutoff's own verdict, and that of the whole claim as
        overall; weakest (bool) marks the cutoff that the claim's own row shows.
    """
    rows = pd.DataFrame([row for rows in verdicts["rows"] for row in rows], columns=BY_ROW)
    numbers = ["effect", "ci_low", "ci_high", "p_value", "n_needed", "published"]
    return rows.astype(dict.fromkeys(numbers, float))  # a parquet file has None where a number is missing


def tally(verdicts: pd.DataFrame) -> pd.DataFrame:
    """How many claims came out as the papers have them, by what they are about.

    Args:
        verdicts: from `evaluate`, of one or more families.

    Returns:
        one row for each of `ABOUT` that has a claim, in its order; columns about, why (from `ABOUT`), and counts:
        claims, as_claimed, and one for each of `VERDICTS`.
    """
    rows = []
    for about, why in ABOUT.items():
        group = verdicts[verdicts["about"] == about]
        counts = {verdict: int((group["verdict"] == verdict).sum()) for verdict in VERDICTS}
        rows.append(
            {"about": about, "why": why, "claims": len(group), "as_claimed": int(group["as_claimed"].sum()), **counts}
        )
    table = pd.DataFrame(rows)
    return table[table["claims"] > 0].reset_index(drop=True)


def _weigh(cells, wide, listed, labels, printed, samples, seed) -> list[Evidence]:
    """The evidence in each cell; `listed` says which rows of `wide` the scores have, `labels` holds the units."""
    if not cells:
        return []
    sides = [_sides(wide, listed, left, right, claim.own_values) for claim, _, _, left, right in cells]
    pairs, shared = (np.stack(arrays) for arrays in zip(*sides, strict=True))
    clusterings = [labels[name].to_numpy() for name in labels]
    if len(clusterings) == 2:
        spreads = [
            _two_way(claim, pair, isinstance(right, tuple), clusterings)
            for (claim, *_, right), pair in zip(cells, pairs, strict=True)
        ]
    else:
        draws = _resample(pairs, shared, clusterings, samples, seed)
        spreads = [_bootstrapped(cell[0], pairs[number], draws[:, number]) for number, cell in enumerate(cells)]
    evidence = []
    for (claim, method, k, left, right), pair, spread in zip(cells, pairs, spreads, strict=True):
        known = ~np.isnan(pair)
        numbers = {"method": method, "k": k, "n": int(known.any(axis=1).sum()), "cluster": labels.columns[0]}
        numbers["published"] = float(
            claim.effect(*(np.float64(_published(claim, side, printed)) for side in (left, right)))
        )
        numbers |= spread | _against(pair, known)
        if known.any(axis=0).all():
            numbers |= {
                "clusters": len(np.unique(clusterings[0][known.all(axis=1)])),
                "effect": float(claim.effect(*np.nanmean(pair, axis=0))),
            }
            if numbers["clusters"] < FEWEST_UNITS:
                numbers["p_value"] = 1.0
            elif len(clusterings) == 1:
                numbers["p_value"] = _p_value(claim, pair, clusterings[0], numbers, seed)
        evidence.append(Evidence(**numbers))
    return evidence


def _against(pair: np.ndarray, known: np.ndarray) -> dict[str, float | bool]:
    """The level of the side held against, and how many values lie off the floor and the ceiling; the level's interval
    where it is a rate."""
    rate = _is_rate(pair)
    numbers: dict[str, float | bool] = {
        "rate": rate,
        "off_floor": float((known & (pair != 0)).sum(axis=0).max()),
        "off_ceiling": float((known & (pair != 100)).sum(axis=0).max()),
    }
    other = pair[known[:, 1], 1]
    if len(other):
        numbers["other"] = float(other.mean())
        if rate:
            low, high = (100 * float(end) for end in wilson_interval(other.sum() / 100, len(other)))
            numbers |= {"other_low": low, "other_high": high}
    return numbers


def _is_rate(pair: np.ndarray) -> bool:
    """Whether there are values, all of them 0 or 100."""
    values = pair[~np.isnan(pair)]
    return len(values) > 0 and bool(np.isin(values, (0, 100)).all())


def _two_way(claim: Claim, pair: np.ndarray, estimated: bool, clusterings: Sequence[np.ndarray]) -> dict[str, float]:
    """The effect's interval, standard error with its degrees of freedom, p-value (the largest over the claim's
    boundaries) and the interval of the side held against, where that is `estimated` and no constant."""
    left, right = pair[:, [0]], pair[:, [1]]
    numbers: dict[str, float] = {}
    if estimated and not np.isnan(right).all():
        level = two_way_means(right, clusterings)
        numbers |= {"other_low": float(level.low[0]), "other_high": float(level.high[0])}
    if np.isnan(pair).all(axis=0).any():
        return numbers
    if isinstance(claim, Ratio):
        found = two_way_ratios(left, right, clusterings)
    elif estimated:
        found = two_way_differences(left, right, clusterings)
    else:
        found = two_way_means(left, clusterings)
    tested = paired_differences(left, right, clusterings) if claim.own_values else found
    p_value = max(float(tested.p_values(boundary)[0]) for boundary in claim.boundaries)
    ends = {"ci_low": float(found.low[0]), "ci_high": float(found.high[0])}
    return numbers | ends | {"se": float(found.se[0]), "freedom": float(tested.freedom[0]), "p_value": p_value}


def _bootstrapped(claim: Claim, pair: np.ndarray, draws: np.ndarray) -> dict[str, float]:
    """The same as `_two_way` from bootstrap means of both sides (samples, 2), where units are of one kind."""
    numbers: dict[str, float] = {}
    known = ~np.isnan(pair)
    drawn = draws[np.isfinite(draws[:, 1]), 1]
    if len(drawn):
        numbers["other_low"], numbers["other_high"] = np.percentile(drawn, [2.5, 97.5]).tolist()
    if not known.any(axis=0).all():
        return numbers
    effect = float(claim.effect(*np.nanmean(pair, axis=0)))
    resampled = claim.effect(draws[:, 0], draws[:, 1])
    resampled = resampled[np.isfinite(resampled)]
    if len(resampled):
        numbers["ci_low"], numbers["ci_high"] = np.percentile(resampled, [2.5, 97.5]).tolist()
        numbers["se"] = float(resampled.std())
    points = claim.unit == "points"
    outcomes = points and _is_rate(pair)
    constant = points and numbers.get("se", 1) < NOTHING
    if constant and (effect == 0 or not outcomes):  # n units may all have missed a difference
        missed = 100 * unseen_rate(int(known.sum(axis=0).min()))
        low, high = max(effect - missed, -100.0), min(effect + missed, 100.0)
        numbers |= {"ci_low": low, "ci_high": high, "se": missed / 1.96}
    elif outcomes and len(resampled):
        ends = (numbers["ci_low"] / 100, numbers["ci_high"] / 100)
        low, high = beside_a_constant(ends, np.nanmean(pair, axis=0) / 100, known.sum(axis=0), draws.T / 100)
        if (low, high) != ends:
            numbers |= {"ci_low": 100 * low, "ci_high": 100 * high, "se": 100 * (high - low) / (2 * 1.96)}
    return numbers


def _sides(
    wide: pd.DataFrame, listed: pd.DataFrame, left: Column, right: Column | float, own_values: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Both sides' values (queries, 2), and for which queries both have a row (queries,); values elsewhere are NaN."""
    pair, shared = np.full((len(wide), 2), np.nan), np.ones(len(wide), dtype=bool)
    for number, side in enumerate((left, right)):
        if not isinstance(side, tuple):
            pair[:, number] = side
        elif side in wide:
            pair[:, number] = wide[side]
            shared &= listed[side].to_numpy()
        else:
            shared[:] = False
    dropped = ~shared if own_values else np.isnan(pair).any(axis=1)
    pair[dropped] = np.nan
    return pair, shared


def _resample(
    pairs: np.ndarray, shared: np.ndarray, clusterings: Sequence[np.ndarray], samples: int, seed: int
) -> np.ndarray:
    """Bootstrap means (samples, cells, 2) of `pairs` (cells, queries, 2), each cell's over its shared queries.

    Cells on the same queries share their resamples.
    """
    draws = np.full((samples, len(pairs), 2), np.nan)
    patterns, group = np.unique(shared, axis=0, return_inverse=True)
    for number, rows in enumerate(patterns):
        members = group.ravel() == number
        if rows.any():
            values = pairs[members][:, rows].transpose(1, 0, 2).reshape(rows.sum(), -1)
            means = bootstrap_means(values, [labels[rows] for labels in clusterings], samples, seed)
            draws[:, members] = means.reshape(samples, -1, 2)
    return draws


def _p_value(claim: Claim, pair: np.ndarray, clusters: np.ndarray, numbers: Mapping[str, Any], seed: int) -> float:
    """The largest p-value over the claim's boundaries, of units of one kind.

    At no difference the randomisation test of the units with both values of `pair` (queries, 2). Exchanging sides that
    differ by a margin, or a side and a constant, is no test where scores are 0 or 100: there the effect's distance from
    the boundary is that of a normal estimate with its standard error.
    """
    complete = ~np.isnan(pair).any(axis=1)
    left, right = pair[complete].T
    found = []
    for boundary in claim.boundaries:
        if claim.unit == "fold" or (claim.unit == "points" and boundary == 0):
            found.append(randomisation_test(left, right, clusters[complete], seed=seed))
        else:
            away, se = abs(numbers["effect"] - boundary), numbers["se"]
            found.append(float(2 * stats.norm.sf(away / se)) if se else float(away == 0))
    return max(found)


def _published(claim: Claim, side: Column | float, printed: pd.Series) -> float:
    if not isinstance(side, tuple):
        return side
    method, metric, k = side
    return float(printed.get((claim.published_as.get(method, method), metric.removesuffix("_retrieved"), k), math.nan))
