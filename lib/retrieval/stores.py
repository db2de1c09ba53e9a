"""Federated search: every query searches the stores of its own collection, and the results are merged into one ranking.

Frames in, frames out. A *collection* is whatever owns several stores (a persona with its apps); `on` names its column.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

import numpy as np
import pandas as pd

from lib.retrieval.bm25 import BM25T, tokenize

PAIRS_AT_ONCE = 2**14  # whose cosines are computed together: 50 MB of vectors with 384 dimensions


def candidate_pairs(queries: pd.DataFrame, documents: pd.DataFrame, on: str = "") -> pd.DataFrame:
    """All (query, document) pairs of the same collection, in canonical order: by query as given, then by document id.

    Takes columns `query` and `on`, and `item` and `on`; returns columns query, item, `on`, query_row, item_row: the ids
    and their positions in the two frames. Without `on` every query searches all documents.
    """
    owner = [on] if on else []
    left = queries[["query", *owner]].assign(query_row=np.arange(len(queries)))
    right = documents[["item", *owner]].assign(item_row=np.arange(len(documents))).sort_values("item", kind="stable")
    pairs = left.merge(right, on=on, sort=False) if on else left.merge(right, how="cross")
    return pairs.sort_values("query_row", kind="stable").reset_index(drop=True)


def relevant_pairs_mask(pairs: pd.DataFrame, qrels: pd.DataFrame) -> np.ndarray:
    """Whether each pair (columns query, item) is one of `qrels` (columns query, item), as bools in their order."""
    return pd.MultiIndex.from_frame(pairs[["query", "item"]]).isin(pd.MultiIndex.from_frame(qrels[["query", "item"]]))


def hash_of_id(name: str) -> int:
    """A hash of an id, below 2⁶⁴: ties are broken by it, never by position."""
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "big")


_remembered_hash = lru_cache(maxsize=2**17)(hash_of_id)  # the same ids are ranked again and again


def seeded_order(names: Iterable[str], seed: int) -> list[str]:
    """The distinct names in an order that depends on nothing but them and the seed."""
    return sorted(set(names), key=lambda name: hash_of_id(f"{seed}:{name}"))


def folds_of(collections: pd.Series, folds: int, seed: int) -> np.ndarray:
    """Fold (from 0) of each row: whole collections dealt in turn, in an order that the seed and their names decide."""
    place = {name: i % folds for i, name in enumerate(seeded_order(collections, seed))}
    return collections.map(place).to_numpy(dtype=int)


def nested_sample(queries: pd.DataFrame, size: int, on: str, seed: int) -> pd.DataFrame:
    """At most `size` queries of whole collections (`on`); a smaller sample is part of every larger one of the seed."""
    place = queries[on].map({name: i for i, name in enumerate(seeded_order(queries[on], seed))})
    return queries.assign(place=place).sort_values(["place", "query"]).head(size).drop(columns="place").sort_index()


def tie_breakers(items: pd.Series) -> np.ndarray:
    """`hash_of_id` of each id as uint64."""
    place, names = pd.factorize(items)
    return np.fromiter(map(_remembered_hash, names), dtype=np.uint64, count=len(names))[place]


def rank_pairs(pairs: pd.DataFrame, scores: np.ndarray) -> pd.DataFrame:
    """Rank the candidates of each query by score, highest first.

    Returns columns query, item, rank (from 1), score; sorted by query as in `pairs` (see `candidate_pairs`), then rank.
    Raises ValueError where a score is not finite, or there is not one a pair.
    """
    scores = np.asarray(scores, dtype=float)
    if scores.shape != (len(pairs),) or not np.isfinite(scores).all():
        raise ValueError("rank_pairs needs one finite score a pair")
    # Nine decimals: sums that differ only in the order of their terms are ties.
    order = np.lexsort((tie_breakers(pairs["item"]), -np.round(scores, 9), pairs["query_row"].to_numpy()))
    ranked = pairs.iloc[order][["query", "item"]].reset_index(drop=True)
    ranked["rank"] = ranked.groupby("query", sort=False).cumcount() + 1
    ranked["score"] = scores[order]
    return ranked


def stack_runs(runs: Mapping[str, pd.DataFrame], depth: int = 100) -> pd.DataFrame:
    """The first results of several methods (from `rank_pairs`) as columns method, query, item, rank, score."""
    heads = [run[run["rank"] <= depth].assign(method=method) for method, run in runs.items()]
    return pd.concat(heads, ignore_index=True)[["method", "query", "item", "rank", "score"]]


def best_first(items: Sequence[str], scores: np.ndarray) -> list[str]:
    """The ids of one query's candidates in the order of `rank_pairs`, without a frame: a hundredth of a millisecond,
    not one."""
    ties = np.fromiter(map(hash_of_id, items), dtype=np.uint64, count=len(items))
    return [items[i] for i in np.lexsort((ties, -np.round(np.asarray(scores, dtype=float), 9)))]


def bm25t_scores(
    pairs: pd.DataFrame, queries: pd.DataFrame, documents: pd.DataFrame, within: Sequence[str] = (), b: float = 0.75
) -> np.ndarray:
    """BM25T score of each pair, with document frequencies and lengths over the documents that share `within`.

    Args:
        pairs: from `candidate_pairs` over the same two frames.
        queries: column `text`.
        documents: column `text` and those of `within`: none (one index of all), the collection alone (one index over
            all its stores), or collection and store (one index a store, whose scores are then merged as they are).
        b: length normalisation.
    """
    asked, tokens = ([tokenize(text) for text in frame["text"]] for frame in (queries, documents))
    index_of = np.zeros(len(documents), dtype=int)
    if within:
        index_of = documents.groupby(list(within), sort=False).ngroup().to_numpy()
    rows_of = pd.Series(index_of).groupby(index_of).indices
    place = pd.Series(index_of).groupby(index_of).cumcount().to_numpy()  # of each document in its index
    query_row, item_row = pairs["query_row"].to_numpy(), pairs["item_row"].to_numpy()
    scores = np.zeros(len(pairs))
    for number, chosen in pd.Series(index_of[item_row]).groupby(index_of[item_row]).indices.items():
        index = BM25T([tokens[row] for row in rows_of[number]], b=b)
        for query, some in pd.Series(chosen).groupby(query_row[chosen]):
            scores[some] = index.get_scores(asked[query])[place[item_row[some]]]
    return scores


def cosine_of_pairs(pairs: pd.DataFrame, query_vectors: np.ndarray, document_vectors: np.ndarray) -> np.ndarray:
    """Cosine similarity of each pair; rows of the unit-length arrays follow the frames that `pairs` was made from."""
    left, right = pairs["query_row"].to_numpy(), pairs["item_row"].to_numpy()
    cosines = np.empty(len(pairs), dtype=np.result_type(query_vectors, document_vectors))
    for start in range(0, len(pairs), PAIRS_AT_ONCE):  # each vector is copied as often as it is in a pair
        some = slice(start, start + PAIRS_AT_ONCE)
        cosines[some] = np.einsum("ij,ij->i", query_vectors[left[some]], document_vectors[right[some]])
    return cosines
