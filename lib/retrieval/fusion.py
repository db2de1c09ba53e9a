"""Reciprocal rank fusion: several rankings of the same documents merged by rank alone.

RRF(d) = Σ 1 / (k + rank(d)) over the rankings that hold d, ranks from 1 (Cormack, Clarke and Büttcher, 2009,
"Reciprocal Rank Fusion outperforms Condorcet and individual Rank Learning Methods"; their k is 60). A document that a
ranking leaves out gains nothing there.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from itertools import combinations
from math import fsum
from typing import NamedTuple, TypeVar

import numpy as np
import pandas as pd

from lib.evaluation.ranking import hit_matrix, recall_from_hits
from lib.retrieval.stores import hash_of_id, tie_breakers

Document = TypeVar("Document", bound=Hashable)
DECIMALS = 12  # sums of the same terms in another order are ties


def reciprocal_rank_fusion(rankings: Sequence[Sequence[Document]], k: float = 60) -> list[tuple[Document, float]]:
    """Fuse rankings of ids, best first, into [(id, score)], best first; ties are broken by a hash of the id.

    The order of `rankings` does not matter.

    Raises:
        ValueError: k below 0, or an id twice in a ranking.

    >>> [item for item, _ in reciprocal_rank_fusion([["a", "b"], ["b"]])]
    ['b', 'a']
    """
    _check_k(k)
    terms: dict[Document, list[float]] = {}
    for number, ranking in enumerate(rankings):
        if len(set(ranking)) != len(ranking):
            raise ValueError(f"ranking {number} names a document twice")
        for rank, document in enumerate(ranking, start=1):
            terms.setdefault(document, []).append(1 / (k + rank))
    scores = {document: fsum(parts) for document, parts in terms.items()}
    return sorted(scores.items(), key=lambda pair: (-round(pair[1], DECIMALS), hash_of_id(str(pair[0]))))


def fuse_runs(runs: Sequence[pd.DataFrame], k: float = 60) -> pd.DataFrame:
    """`reciprocal_rank_fusion` for all queries at once.

    Args:
        runs: at least one frame with columns query, item, rank (from 1), such as `lib.retrieval.stores.rank_pairs`
            returns. A run whose ranks start anew in every store (`rank_per_store`) stands for one ranking a store.
        k: see the module's text.

    Returns:
        columns query, item, rank, score; queries in the order in which the runs name them first, then by rank.

    Raises:
        ValueError: k below 0, or an item twice for a query of one run.
    """
    _check_k(k)
    return _fused(_align(runs), k)


class _Aligned(NamedTuple):
    """The ranks that several rankings give each (query, item) pair: all that does not depend on RRF's constant.

    Attributes:
        queries, items: the ids.
        query, item: of each pair, positions in them.
        ties: of each pair, what breaks ties between items.
        rank: the ranks, pair by pair, from the best to the worst.
        starts: where those of each pair begin.
    """

    queries: pd.Index
    items: pd.Index
    query: np.ndarray
    item: np.ndarray
    ties: np.ndarray
    rank: np.ndarray
    starts: np.ndarray


def _align(runs: Sequence[pd.DataFrame]) -> _Aligned:
    for number, run in enumerate(runs):
        if run.duplicated(["query", "item"]).any():
            raise ValueError(f"run {number} names an item twice for a query")
    entries = pd.concat([run[["query", "item", "rank"]] for run in runs], ignore_index=True)
    query, queries = pd.factorize(entries["query"])
    item, items = pd.factorize(entries["item"])
    # Terms of a pair are added from the best rank to the worst: no order of the runs can change a sum's last bit, and
    # with it a tie.
    rank = entries["rank"].to_numpy(dtype=float)
    pair, position = np.unique(query.astype(np.int64) * len(items) + item, return_inverse=True)
    order = np.lexsort((rank, position))
    starts = np.searchsorted(position[order], np.arange(len(pair)))
    query, item = pair // max(len(items), 1), pair % max(len(items), 1)
    return _Aligned(queries, items, query, item, tie_breakers(pd.Series(items))[item], rank[order], starts)


def _fused(aligned: _Aligned, k: float) -> pd.DataFrame:
    score = np.add.reduceat(1 / (k + aligned.rank), aligned.starts) if len(aligned.query) else np.empty(0)
    best_first = np.lexsort((aligned.ties, -np.round(score, DECIMALS), aligned.query))
    query = aligned.query[best_first]
    return pd.DataFrame(
        {
            "query": aligned.queries[query],
            "item": aligned.items[aligned.item[best_first]],
            "rank": np.arange(len(query)) - np.searchsorted(query, query) + 1,
            "score": score[best_first],
        }
    )


def try_fusions(
    runs: Mapping[str, pd.DataFrame],
    always: Sequence[str],
    ks: Sequence[float],
    qrels: pd.DataFrame,
    queries: Sequence,
    cutoffs: Sequence[int],
) -> pd.DataFrame:
    """Recall of every fusion of the runs in `always` with some or none of the others, at every constant k.

    Args:
        runs: rankings by name (see `fuse_runs`).
        always: names of those that every fusion holds.
        ks: constants of RRF.
        qrels: columns query, item.
        queries: ids averaged over.
        cutoffs: values of K.

    Returns:
        columns rankings (names joined by " + ", in the order of `runs`), k, recall@K in percent for each K, and mean,
        the mean over them; best first, and of equals the one with fewer rankings, then the smaller k.
    """
    rows = []
    others = [name for name in runs if name not in always]
    for size in range(len(others) + 1):
        for extra in combinations(others, size):
            names = [name for name in runs if name in always or name in extra]
            aligned = _align([runs[name] for name in names])
            for k in ks:
                _check_k(k)
                hits, n_relevant = hit_matrix(_fused(aligned, k), qrels, queries, max(cutoffs))
                recalls = [100 * recall_from_hits(hits, n_relevant, at).mean() for at in cutoffs]
                rows.append((" + ".join(names), k, *recalls, float(np.mean(recalls)), len(names)))
    table = pd.DataFrame(rows, columns=["rankings", "k", *(f"recall@{at}" for at in cutoffs), "mean", "size"])
    table["mean"] = table["mean"].round(9)
    return (
        table.sort_values(["mean", "size", "k"], ascending=[False, True, True])
        .drop(columns="size")
        .reset_index(drop=True)
    )


class Fusion(NamedTuple):
    """Which rankings are fused, and RRF's constant."""

    rankings: tuple[str, ...]
    k: float

    @classmethod
    def best(cls, trials: pd.DataFrame) -> Fusion:
        """The first row of what `try_fusions` returned."""
        return cls(tuple(trials.loc[0, "rankings"].split(" + ")), trials.loc[0, "k"])

    def of(self, runs: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
        """These of the runs, fused (see `fuse_runs`)."""
        return fuse_runs([runs[name] for name in self.rankings], self.k)


def rank_per_store(run: pd.DataFrame, stores: pd.Series) -> pd.DataFrame:
    """The same run with ranks that start anew in each store of a query: one ranking a store.

    Args:
        run: columns query, item, rank, and any others.
        stores: the store of each row of `run`, with the same index.
    """
    return run.assign(rank=run.groupby(["query", stores], sort=False)["rank"].rank(method="first").astype(int))


def _check_k(k: float) -> None:
    if not k >= 0:
        raise ValueError(f"k must be at least 0, not {k}")
