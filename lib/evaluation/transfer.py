"""Claims asked of two worlds: each effect here and there, and whether both put methods into the same order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from lib.evaluation.claims import Claim, by_row, evaluate

WORDS = ["method", "effect", "ci_low", "ci_high", "n", "verdict", "reason", "overall", "tests"]
COLUMNS = ["claim", "paper", "statement", "k", "unit", "method", *(f"here_{word}" for word in WORDS),
           *(f"there_{word}" for word in WORDS)]  # fmt: skip
UNPUBLISHED = pd.DataFrame(columns=["method", "metric", "k", "value"])


class World(NamedTuple):
    """`scores`: see `lib.evaluation.claims.evaluate`; `units`: their columns by which queries cluster."""

    scores: pd.DataFrame
    units: Sequence[str]


def side_by_side(claims: Sequence[Claim], here: World, there: World, samples: int, seed: int) -> pd.DataFrame:
    """Each claim's effect in two worlds at every cutoff that both have, and the verdict of each world by itself.

    In each world the claims are a family of their own. The effect looked for is the claim's margin: published effects
    are left out, so that both worlds are asked the same.

    Returns:
        columns `COLUMNS`; of a claim for several methods, a row shows the weakest in each world, here_method and
        there_method; `method` is the one there. here_verdict and there_verdict are the cutoff's own, here_overall and
        there_overall those of the whole claim, of all cutoffs that a world has; here_tests and there_tests: the number
        of claims, over which Holm's adjustment of whole claims goes.
    """
    tables = []
    for world in (here, there):
        verdicts = evaluate(claims, world.scores, UNPUBLISHED, samples, seed, world.units)
        rows = by_row(verdicts).merge(verdicts[["claim", "unit"]], on="claim")
        tables.append(rows.assign(tests=len(claims))[rows["n"] > 0])
    keys = ["claim", "paper", "statement", "k", "unit"]
    left, right = (
        table[[*keys, *WORDS]].rename(columns={word: f"{side}_{word}" for word in WORDS})
        for table, side in zip(tables, ("here", "there"), strict=True)
    )
    both = left.merge(right, on=keys)
    return both.assign(method=both["there_method"])[COLUMNS]


class Order(NamedTuple):
    """What puts methods into an order: `here` and `there`, scores of the same methods (queries, methods), and the
    labels by which the queries of each cluster."""

    here: np.ndarray
    there: np.ndarray
    here_clusters: Sequence[Sequence]
    there_clusters: Sequence[Sequence]


def _signs(means: np.ndarray) -> np.ndarray:
    """Of the difference of each pair of columns: (rows, pairs)."""
    first, second = np.triu_indices(means.shape[1], k=1)
    return np.sign(np.round(means[:, first] - means[:, second], 9))
