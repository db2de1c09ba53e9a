"""Chains of thought (CoT) for under-specified queries: who writes and learns which.

Frames in, frames out. A writer sees a query's text alone.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import pandas as pd

# How the zero-shot writer is asked.
ONE_PARAGRAPH: dict[str, Any] = {"chat": True, "stop": ["\n"]}


def equal_shares(queries: pd.DataFrame, kind: Sequence[str], n: int, seed: int) -> pd.DataFrame:
    """A seeded sample of `n` queries (a row each, all where there are no more) with equal shares of the kinds (one a
    query), in their order. A kind that has fewer than its share gives all it has; the others fill up. What an equal
    division leaves over goes to the kinds in alphabetical order."""
    rng = np.random.default_rng(seed)
    kinds = np.asarray(kind, dtype=str)
    drawn = rng.permutation(len(queries))
    place_in_kind = pd.Series(kinds[drawn]).groupby(kinds[drawn]).cumcount().to_numpy()
    round_robin = np.lexsort((kinds[drawn], place_in_kind))
    return queries.iloc[np.sort(drawn[round_robin[:n]])]


def taught_and_asked(
    training: pd.DataFrame, unseen_needs: Collection[str], n_pairs: int, n_cots: int, seed: int
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The training queries (columns persona, need, kind, cot) whose expert CoT a writer learns from, at most `n_pairs`,
    and those that it writes for, at most `n_cots`: other personas', since it knows by heart what it learned from.

    Personas are cut in two whose queries are as n_pairs to n_cots, as near as may be; each side has a persona where
    there are two. It learns from no query without an expert's CoT (your own world may have none), nor from one of the
    needs that are kept for a test on unseen needs. Both are seeded samples with equal shares of the kinds.
    """
    personas = np.random.default_rng(seed).permutation(np.sort(training["persona"].unique()))
    owned = training["persona"].value_counts().reindex(personas)
    share = (owned.cumsum() - owned / 2) / owned.sum()
    taught = (share <= n_pairs / (n_pairs + n_cots)).to_numpy(copy=True)
    taught[:1] = True
    if len(personas) > 1:
        taught[-1] = False
    side = training["persona"].isin(personas[taught])
    learned, asked = training[side], training[~side]
    learned = learned[(learned["cot"] != "") & ~learned["need"].isin(unseen_needs)]
    return equal_shares(learned, learned["kind"], n_pairs, seed), equal_shares(asked, asked["kind"], n_cots, seed)


def other_rows(n: int, seed: int) -> np.ndarray:
    """For each of n rows another one, each row taken once (a random cycle): for the CoT of another query. Raises
    ValueError where there is no other row."""
    if n < 2:
        raise ValueError("one row has no other")
    cycle = np.random.default_rng(seed).permutation(n)
    others = np.empty(n, dtype=int)
    others[cycle] = np.roll(cycle, 1)
    return others


def augment(queries: Sequence[str], cots: Sequence[str]) -> list[str]:
    """Each query's text with its CoT appended."""
    return [f"{query} {cot}".strip() for query, cot in zip(queries, cots, strict=True)]
