"""Reciprocal rank fusion: several rankings of the same documents merged by rank alone.

RRF(d) = Σ w / (k + rank(d)) over the rankings that hold d, ranks from 1 (Cormack, Clarke and Büttcher, 2009,
"Reciprocal Rank Fusion outperforms Condorcet and individual Rank Learning Methods"; their k is 60, and every ranking
weighs w = 1). A document that a ranking leaves out gains nothing there.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from math import fsum
from typing import NamedTuple, TypeVar

import numpy as np
import pandas as pd

from lib.evaluation.ranking import recall_from_hits
from lib.retrieval.stores import hash_of_id, relevant_pairs_mask, tie_breakers

Document = TypeVar("Document", bound=Hashable)
DECIMALS = 12  # sums of the same terms in another order are ties


def reciprocal_rank_fusion(
    rankings: Sequence[Sequence[Document]], k: float = 60, weights: Sequence[float] = ()
) -> list[tuple[Document, float]]:
    """Fuse rankings of ids, best first, into [(id, score)], best first; ties are broken by a hash of the id.

    The order of `rankings` does not matter. `weights` are theirs, in their order; none: each weighs 1.

    Raises:
        ValueError: k below 0, weights that are not one above 0 a ranking, an id twice in a ranking, or a text for one
            (as rankings by name, or a frame, would give).

    >>> [item for item, _ in reciprocal_rank_fusion([["a", "b"], ["b"]])]
    ['b', 'a']
    """
    terms: dict[Document, list[float]] = {}
    for number, (ranking, weight) in enumerate(zip(rankings, _checked(k, weights, len(rankings)), strict=True)):
        if isinstance(ranking, str):
            raise ValueError(f"ranking {number} is the text {ranking!r}, not a list of ids")
        if len(set(ranking)) != len(ranking):
            raise ValueError(f"ranking {number} names a document twice")
        for rank, document in enumerate(ranking, start=1):
            terms.setdefault(document, []).append(weight / (k + rank))
    scores = {document: fsum(parts) for document, parts in terms.items()}
    return sorted(scores.items(), key=lambda pair: (-round(pair[1], DECIMALS), hash_of_id(str(pair[0]))))


def fuse_runs(runs: Sequence[pd.DataFrame], k: float = 60, weights: Sequence[float] = ()) -> pd.DataFrame:
    """`reciprocal_rank_fusion` for all queries at once, which raises the same.

    Args:
        runs: at least one frame with columns query, item, rank (from 1), such as `lib.retrieval.stores.rank_pairs`
            returns. A run whose ranks start anew in every store (`rank_per_store`) stands for one ranking a store.

    Returns:
        columns query, item, rank, score; queries in the order in which the runs name them first, then by rank.
    """
    pairs, query, ranks = _align(runs)
    score = _scores(ranks, k, weights)
    best_first = np.lexsort((-np.round(score, DECIMALS), query))  # stable: pairs stand in the order that breaks ties
    fused = pairs.iloc[best_first].reset_index(drop=True)
    place = np.arange(len(query)) - np.searchsorted(query, query)
    return fused.assign(rank=place + 1, score=score[best_first])


def _align(runs: Sequence[pd.DataFrame]) -> tuple[pd.DataFrame, np.ndarray, np.ndarray]:
    """What does not depend on RRF's constant: the pairs (query, item) that any run holds, by query, then in the order
    that breaks ties; the number of each pair's query; their ranks, (pairs, runs), infinite where a run has none."""
    for number, run in enumerate(runs):
        if run.duplicated(["query", "item"]).any():
            raise ValueError(f"run {number} names an item twice for a query")
        if not (pd.to_numeric(run["rank"], errors="coerce") >= 1).all():
            raise ValueError(f"run {number} has a rank that is no number from 1")
    entries = pd.concat([run[["query", "item", "rank"]] for run in runs], ignore_index=True)
    query, queries = pd.factorize(entries["query"])
    named = entries["item"].drop_duplicates()
    items = pd.Index(named.iloc[np.argsort(tie_breakers(named), kind="stable")])
    pair, place = np.unique(
        query.astype(np.int64) * len(items) + items.get_indexer(entries["item"]), return_inverse=True
    )
    ranks = np.full((len(pair), len(runs)), np.inf)
    ranks[place, np.repeat(np.arange(len(runs)), [len(run) for run in runs])] = entries["rank"]
    query, item = np.divmod(pair, max(len(items), 1))
    return pd.DataFrame({"query": queries[query], "item": items[item]}), query, ranks


def _scores(ranks: np.ndarray, k: float, weights: Sequence[float]) -> np.ndarray:
    """RRF's score of each pair, from what `_align` gives."""
    # Terms of a pair are added from the largest to the smallest: no order of the rankings can change a sum's last bit,
    # and with it a tie.
    return -np.sort(-_checked(k, weights, ranks.shape[1]) / (k + ranks), axis=1).sum(axis=1)


class Fusion(NamedTuple):
    """Which rankings are fused, RRF's constant, and the rankings' weights in their order; none: each weighs 1."""

    rankings: tuple[str, ...]
    k: float
    weights: tuple[float, ...] = ()

    def of(self, runs: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
        """These of the runs, fused (see `fuse_runs`)."""
        return fuse_runs([runs[name] for name in self.rankings], self.k, self.weights)


def choose_fusion(
    runs: Mapping[str, pd.DataFrame],
    fusions: Iterable[Fusion],
    qrels: pd.DataFrame,
    queries: Sequence,
    cutoffs: Sequence[int],
) -> Fusion:
    """The fusion of highest recall: the mean over queries and cutoffs; of equals the one with fewer rankings, without
    weights, then with the smaller k.

    Args:
        runs: rankings by name (see `fuse_runs`).
        qrels: columns query, item.
        queries: ids averaged over.
    """
    names, depth = list(runs), max(cutoffs)
    pairs, number, ranks = _align([run[run["query"].isin(queries)] for run in runs.values()])
    # One row a query, its items in the order that breaks ties; the rest of a row is empty.
    row = pd.Index(queries).get_indexer(pairs["query"])
    place = np.arange(len(number)) - np.searchsorted(number, number)
    shape = len(queries), max(depth, place.max(initial=-1) + 1)
    relevant, score = np.zeros(shape, dtype=bool), np.zeros(shape)
    relevant[row, place] = relevant_pairs_mask(pairs, qrels)
    n_relevant = qrels.drop_duplicates(["query", "item"])["query"].value_counts().reindex(queries, fill_value=0)

    def key(fusion: Fusion) -> tuple:
        columns = [names.index(name) for name in fusion.rankings]
        score[row, place] = np.round(_scores(ranks[:, columns], fusion.k, fusion.weights), DECIMALS)
        top = np.argsort(-score, axis=1, kind="stable")[:, :depth]
        # A score of 0: an item that none of these rankings holds.
        hits = np.take_along_axis(relevant, top, axis=1) & (np.take_along_axis(score, top, axis=1) > 0)
        recalls = [100 * recall_from_hits(hits, n_relevant.to_numpy(), at).mean() for at in cutoffs]
        return -round(float(np.mean(recalls)), 9), len(fusion.rankings), fusion.weights, fusion.k

    return min(fusions, key=key)


def rank_per_store(run: pd.DataFrame, stores: pd.Series) -> pd.DataFrame:
    """The same run with ranks that start anew in each store of a query: one ranking a store; `stores` has the store of
    each row."""
    return run.assign(rank=run.groupby(["query", stores], sort=False)["rank"].rank(method="first").astype(int))


def scaled_within(query: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Scores from 0, the lowest of each query, to 1, its highest; 0 where all of a query are equal."""
    by_query = pd.Series(scores).groupby(query)
    low, high = (by_query.transform(end).to_numpy() for end in ("min", "max"))
    return (scores - low) / np.where(high > low, high - low, 1)


def _checked(k: float, weights: Sequence[float], n: int) -> np.ndarray:
    """The weights of n rankings."""
    if not k >= 0:
        raise ValueError(f"k must be at least 0, not {k}")
    each = np.asarray(weights, dtype=float) if len(weights) else np.ones(n)
    if len(each) != n or not (each > 0).all():
        raise ValueError(f"weights must be one above 0 for each of {n} rankings, not {list(weights)}")
    return each
