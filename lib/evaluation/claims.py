"""The papers' claims, each as a test over our scores: one row a claim and K, and one of four words.

The word is read off the 95% interval of the effect (`lib.evaluation.inference`), as `data/claims.yaml` says; Holm's
adjustment over all claims of a paper decides nothing but a star (`add_holm`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import pandas as pd
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, model_validator

from lib.evaluation import inference
from lib.evaluation.inference import LEVEL, TAIL, Resampling
from lib.workbook.inputs import InputError, read_yaml

WORDS = ("holds", "reversed", "no clear difference", "not shown", "not testable here")
HOLDS, REVERSED, NO_DIFFERENCE, NOT_SHOWN, NOT_TESTABLE = WORDS
END = 1.0  # points from 0 or 100 within which both sides are at the floor or the ceiling
COLUMNS = [
    "claim", "paper", "statement", "k", "a", "b", "effect", "ci_low", "ci_high", "p_value", "published", "inside",
    "word", "reason", "n_topics", "n", "comparator", "over_queries", "share", "unit", "source",
]  # fmt: skip

Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*(/[a-z][a-z0-9_]*)?$")]
Text = Annotated[str, Field(min_length=1)]
# What notebooks evaluate: their own scores, and, of data/transfer/claims.yaml, both sides of notebook 10.
Scores = Literal[
    "context_scores", "tool_scores", "planner_scores", "dsl_scores", "flow_bench_shots",
    "context", "tools", "shots", "flows",
]  # fmt: skip


class Claim(BaseModel):
    """A method `a` against its comparator `b`, in one metric at each of some K.

    Attributes:
        test: a has a `greater` or a `less` value, `ratio`: so many times b's, `same`: within the margin of b's.
        margin: of `same`, in points.
        size: of `ratio`, what the paper says.
        against_k: K of the comparator, where it is another one.
        published_as: the published row that stands for one of ours whose name is another.
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    claim: Name
    paper: Literal["assistant", "workflow"]
    source: Text
    statement: Text
    scores: Scores
    metric: Name
    test: Literal["greater", "less", "ratio", "same"]
    a: Name
    b: Name
    cutoffs: Annotated[list[Annotated[int, Field(ge=0)]], Field(min_length=1)]
    margin: Annotated[float, Field(gt=0)] | None = None
    size: Annotated[float, Field(gt=1)] | None = None
    against_k: Annotated[int, Field(ge=0)] | None = None
    published_as: dict[Name, Name] = {}

    @model_validator(mode="after")
    def _sized(self) -> Claim:
        if (self.test == "same") != (self.margin is not None) or (self.test == "ratio") != (self.size is not None):
            raise ValueError("`same`, and no other test, has a margin; `ratio`, and no other, a size")
        return self


def read_claims(path: str | Path) -> list[Claim]:
    """The claims of a file, in its order. Raises InputError where it is no YAML list of claims, a field is missing,
    unknown or wrong, or a name stands twice."""
    claims = read_yaml(path, TypeAdapter(list[Claim]))
    names = [claim.claim for claim in claims]
    if twice := {name for name in names if names.count(name) > 1}:
        raise InputError(f"{path}: claim: {min(twice)} stands twice")
    return claims


def word(test: str, low: float, high: float, margin: float | None = None) -> str:
    """What the interval of an effect says of a claim; NaN ends say nothing.

    >>> word("greater", 13.4, 39.1), word("less", 13.4, 39.1), word("greater", -1.7, 9.4)
    ('holds', 'reversed', 'no clear difference')
    >>> word("same", -4.2, 0.7, 5.0), word("same", -4.2, 5.7, 5.0), word("ratio", 1.17, 1.69)
    ('holds', 'not shown', 'holds')
    """
    if np.isnan([low, high]).any():
        return NOT_TESTABLE
    if test == "same" and margin is not None:
        if -margin < low and high < margin:
            return HOLDS
        return REVERSED if low > margin or high < -margin else NOT_SHOWN
    boundary = 1.0 if test == "ratio" else 0.0
    if low <= boundary <= high:
        return NO_DIFFERENCE
    return HOLDS if (low > boundary) == (test != "less") else REVERSED


def evaluate(
    claims: Sequence[Claim],
    scores: pd.DataFrame,
    published: pd.DataFrame,
    samples: int,
    seed: int,
    unit: str = "need",
    unfit: Mapping[str | tuple[str, int], str] | None = None,
) -> pd.DataFrame:
    """What our scores say of claims.

    Both sides are compared on the queries that have a value (not NaN) on both. A published value is a mean over
    queries, so it is `inside` where it lies in the interval of our effect over queries, by the same resamples.

    Args:
        scores: columns method, metric, k, value (0-100) and `unit`; query where a unit has several.
        published: columns method, metric, k, value; `ndcg` stands for every definition of NDCG.
        samples, seed: of the bootstrap, and the seed of the test.
        unit: column of `scores`: what is resampled.
        unfit: {method, or (method, k): why a row with it on either side is not testable here}.

    Returns:
        `COLUMNS`, one row for each claim and K: a, b (names), effect (of means over units), inside (true, false or
        missing), comparator (b's mean over units), over_queries (the effect over queries), share (of the queries that
        both were asked: those with a value on both sides), unit (points or fold).
    """
    query = "query" if "query" in scores else unit
    cells = {"index": query, "columns": ["method", "metric", "k"], "values": "value"}
    wide, listed = scores.pivot(**cells), scores.assign(value=1.0).pivot(**cells).notna()
    labels = scores.drop_duplicates(query).set_index(query, drop=False)[unit].loc[wide.index].to_numpy()
    printed = published.set_index(["method", "metric", "k"])["value"].to_dict()
    over = Resampling(labels, samples, seed)
    rows = []
    for claim, k in [(one, k) for one in claims for k in one.cutoffs]:
        against = k if claim.against_k is None else claim.against_k
        sides = [(claim.a, claim.metric, k), (claim.b, claim.metric, against)]
        names = [
            (claim.published_as.get(name, name), metric.removesuffix("_retrieved"), at) for name, metric, at in sides
        ]
        theirs = claim.size or printed.get(names[0], np.nan) - printed.get(names[1], np.nan)
        row: dict[str, Any] = {
            "claim": claim.claim, "paper": claim.paper, "statement": claim.statement, "k": k, "a": claim.a,
            "b": claim.b, "unit": "fold" if claim.test == "ratio" else "points", "source": claim.source,
            "published": float(theirs), "n_topics": 0, "n": 0, "reason": "not asked in this run",
        }  # fmt: skip
        if all(side in wide for side in sides):
            asked = int(np.logical_and.reduce([listed[side].to_numpy() for side in sides]).sum())
            pair = np.column_stack([wide[side].to_numpy(float) for side in sides])
            row |= _measured(claim, pair, asked, over, row["published"])
        reasons = [(unfit or {}).get((method, at), (unfit or {}).get(method)) for method, _, at in sides]
        row["reason"] = next((reason for reason in reasons if reason), row["reason"])
        rows.append(row | {"word": NOT_TESTABLE} if row["reason"] else row)
    table = pd.DataFrame(rows, columns=COLUMNS)
    return table.astype({"inside": "boolean"} | dict.fromkeys(["effect", "ci_low", "ci_high", "p_value"], float))


def add_holm(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows of `evaluate` with Holm's adjustment over all of a paper: columns p_holm (NaN where a claim is not testable)
    and star (whether the test survives it)."""
    adjusted = pd.Series(np.nan, rows.index)
    for _, part in rows[(rows["word"] != NOT_TESTABLE) & rows["p_value"].notna()].groupby("paper"):
        adjusted[part.index] = inference.holm_adjust(part["p_value"])
    return rows.assign(p_holm=adjusted, star=adjusted <= LEVEL)


def side_by_side(here: pd.DataFrame, there: pd.DataFrame) -> pd.DataFrame:
    """Rows of `evaluate` in two worlds, of the claims and K that both have scores for: columns claim, paper, statement,
    k, unit, a, b, and effect, ci_low, ci_high, n, word of either, with `here_` and `there_` before them."""
    keys = ["claim", "paper", "statement", "k", "unit", "a", "b"]
    words = ["effect", "ci_low", "ci_high", "n", "word"]
    sides = [
        rows.loc[rows["n"] > 0, [*keys, *words]].rename(columns={name: f"{side}_{name}" for name in words})
        for side, rows in (("here", here), ("there", there))
    ]
    return sides[0].merge(sides[1], on=keys)


def _measured(claim: Claim, pair: np.ndarray, asked: int, over: Resampling, published: float) -> dict:
    """The effect between two columns of values and what follows from it; a reason where there is nothing to measure."""
    known = ~np.isnan(pair).any(axis=1)
    if not known.any():
        return {"reason": "no value on both sides"}
    pair, over = pair[known], over.among(known)
    a, b = pair.T
    found = inference.ratio_interval(a, b, over) if claim.test == "ratio" else inference.difference_interval(a, b, over)
    means = inference.unit_means(pair, over.units)
    sizes = np.unique(np.asarray(over.units), return_counts=True)[1]
    drawn = inference.weighted_means(means, over, np.column_stack([sizes, sizes]))
    effect = np.divide if claim.test == "ratio" else np.subtract
    with np.errstate(divide="ignore", invalid="ignore"):
        low, high = np.percentile(effect(*drawn.T), TAIL)
        whole = float(effect(*pair.mean(axis=0)))
    margins = (-claim.margin, claim.margin) if claim.margin else (0.0,)
    says, reason = word(claim.test, found.low, found.high, claim.margin), ""
    if (pair.mean(axis=0) < END).all():
        reason = f"floor: both sides within {END:g} point of 0"
    elif (pair.mean(axis=0) > 100 - END).all():
        reason = f"ceiling: both sides within {END:g} point of 100"
    elif says == NOT_TESTABLE:
        reason = "one topic" if len(sizes) < 2 else "the comparator is 0"
    return {
        "effect": found.value,
        "ci_low": found.low,
        "ci_high": found.high,
        "p_value": max(inference.sign_flip_test(a - b, margin, over) for margin in margins),
        "inside": pd.NA if np.isnan([published, low, high]).any() else bool(low <= published <= high),
        "word": says,
        "reason": reason,
        "n_topics": len(sizes),
        "n": len(pair),
        "comparator": float(means[:, 1].mean()),
        "over_queries": whole,
        "share": len(pair) / asked,
    }
