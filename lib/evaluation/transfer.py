"""Claims asked of two worlds: each effect here and there, and whether both put methods into the same order."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from lib.evaluation.claims import Claim, by_row, evaluate
from lib.evaluation.inference import bootstrap_means

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


def order_of(here: World, there: World, metric: str, k: int, without: Collection[str] = ()) -> tuple[Order, list[str]]:
    """The order of the methods that both worlds scored on every query, and their names.

    Args:
        without: methods left out, such as floors and oracles, whose places are known beforehand.
    """
    found, labels = [], []
    for scores, units in (here, there):
        query = "query" if "query" in scores else units[0]
        chosen = scores[(scores["metric"] == metric) & (scores["k"] == k)]
        wide = chosen.pivot(index=query, columns="method", values="value").dropna(axis=1)
        found.append(wide)
        known = chosen.drop_duplicates(query).set_index(query, drop=False).loc[wide.index]
        labels.append([known[unit].to_numpy() for unit in units])
    methods = [name for name in found[0] if name in found[1] and name not in without]
    return Order(*(wide[methods].to_numpy() for wide in found), *labels), methods


def rank_agreement(orders: Mapping[str, Order], samples: int, seed: int) -> pd.DataFrame:
    """Kendall's tau (tau-a) between the orders of methods in two worlds, with bootstrap intervals.

    Queries are resampled in whole clusters, in each world for itself. The interval says how sure the two orders of
    these methods are, and nothing of other methods.

    Returns:
        one row for each of `orders` that has two methods or more, and if there are several, a last one `all` over their
        pairs of methods: family, pairs (of methods), tau, ci_low, ci_high.
    """
    orders = {name: order for name, order in orders.items() if order.here.shape[1] > 1}
    measured, drawn = [], []
    for here, there, *clusters in orders.values():
        left, right = (_signs(scores.mean(axis=0)[None]) for scores in (here, there))
        measured.append((left * right)[0])
        draws = [
            _signs(bootstrap_means(scores, labels, samples, seed + side))
            for side, (scores, labels) in enumerate(zip((here, there), clusters, strict=True))
        ]
        drawn.append(draws[0] * draws[1])
    rows = []
    names = [*orders, "all"] if len(orders) > 1 else list(orders)
    if len(orders) > 1:
        measured, drawn = [*measured, np.concatenate(measured)], [*drawn, np.hstack(drawn)]
    for name, agree, draws in zip(names, measured, drawn, strict=True):
        low, high = np.percentile(draws.mean(axis=1), [2.5, 97.5])
        rows.append((name, len(agree), agree.mean(), low, high))
    return pd.DataFrame(rows, columns=["family", "pairs", "tau", "ci_low", "ci_high"])


def _signs(means: np.ndarray) -> np.ndarray:
    """Of the difference of each pair of columns: (rows, pairs)."""
    first, second = np.triu_indices(means.shape[1], k=1)
    return np.sign(np.round(means[:, first] - means[:, second], 9))
