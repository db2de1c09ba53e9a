"""Ranking metrics: recall and NDCG at a cutoff.

Definitions, agreeing with `ir_measures` (R@k, nDCG@k) to 1e-9:

    recall@k = relevant among the first k / all relevant
    NDCG@k   = DCG@k / ideal DCG@k,   DCG@k = Σ gain_i / log2(i + 1), i = 1…k (linear gain)

The field uses two ideals. `all` is the standard one: the best ranking of all relevant documents, cut at k. `retrieved`
divides by the best order of the k documents that were retrieved: it measures order only, ignores what was missed, and
is undefined (NaN) where none of them is relevant. Means of it leave those queries out unless they are scored 0.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Literal

import numpy as np
import pandas as pd

from lib.workbook.inputs import InputError, one_line

Ideal = Literal["all", "retrieved"]


def _check(ranked: Sequence, k: int) -> None:
    if k < 1:
        raise ValueError(f"cutoff k must be at least 1, not {k}")
    if len(set(ranked)) != len(ranked):
        raise ValueError("the ranking names a document twice")


def recall_at_k(ranked: Sequence, relevant: Collection, k: int) -> float:
    """Share of the relevant documents among the first `k`; 0 where nothing is relevant, as trec_eval has it. Raises
    ValueError where k is below 1 or an id stands twice in `ranked`, which has the best first.

    >>> recall_at_k(["a", "b", "c"], {"a", "d"}, 2)
    0.5
    """
    _check(ranked, k)
    relevant = set(relevant)
    return len(relevant.intersection(ranked[:k])) / len(relevant) if relevant else 0.0


def ndcg_at_k(ranked: Sequence, gains: Mapping, k: int, ideal: Ideal = "all") -> float:
    """NDCG of the first `k` documents with linear gains and a log2 discount.

    Args:
        ranked: document ids, best first, without repetition.
        gains: gain by id; ids that are missing or not positive gain nothing.
        ideal: `all` (standard; 0 where nothing is relevant) or `retrieved` (NaN where none of the k has a gain).

    Raises:
        ValueError: k below 1, an id twice in `ranked`, or an unknown ideal.

    >>> ndcg_at_k(["x", "a"], {"a": 1}, 2, ideal="all") == ndcg_at_k(["x", "a"], {"a": 1}, 2, ideal="retrieved")
    True
    """
    _check(ranked, k)
    if ideal not in ("all", "retrieved"):
        raise ValueError(f"ideal must be 'all' or 'retrieved', not {ideal!r}")
    got = np.array([max(float(gains.get(doc, 0)), 0.0) for doc in ranked[:k]])
    pool = got if ideal == "retrieved" else np.array([max(float(gain), 0.0) for gain in gains.values()])
    best = np.sort(pool)[::-1][:k]
    ideal_dcg = float(best @ discounts(len(best)))
    if ideal_dcg == 0:
        return 0.0 if ideal == "all" else float("nan")
    return float(got @ discounts(len(got))) / ideal_dcg


def discounts(k: int) -> np.ndarray:
    """1 / log2(rank + 1) for ranks 1…k."""
    return 1 / np.log2(np.arange(2, k + 2))


# ---------------------------------------------------------------- many queries at once, binary relevance


def checked_run(run: pd.DataFrame, depth: int, name: str = "the ranking") -> pd.DataFrame:
    """The first `depth` items of each query, their ranks as integers: columns query, item, rank.

    Args:
        run: columns query, item, rank (1 = best), and score or not; a rank may be a whole number as text or float.

    Raises:
        InputError: a column or a value is missing, a rank is no whole number from 1, two items of a query share one, an
            item stands twice, or some scores are no numbers; begins with `name`, the column and the query.
    """
    if missing := [column for column in ("query", "item", "rank") if column not in run]:
        raise InputError(f"{name}: {missing[0]}: no such column (there are: {', '.join(map(str, run.columns))})")
    run = run.reset_index(drop=True)
    rank = pd.to_numeric(run["rank"], errors="coerce")
    part = run.assign(rank=rank)[~(rank > depth)]  # what stands below is not scored
    faults = [
        ("query", part["query"].isna(), "is missing"),
        ("item", part["item"].isna(), "is missing"),
        ("rank", part["rank"].isna() | (part["rank"] % 1 != 0), "is no whole number"),
        ("rank", part["rank"] < 1, "is below 1: the best item has rank 1"),
        ("rank", part.duplicated(["query", "rank"], keep=False), "has two items"),
        ("item", part.duplicated(["query", "item"], keep=False), "stands twice"),
    ]
    if "score" in run and run["score"].notna().any():
        faults.append(("score", part["score"].isna(), "is no number"))
    for column, wrong, what in faults:
        if wrong.any():
            first = run.loc[part.index[wrong.to_numpy()]].iloc[0]
            raise InputError(f"{name}: {column} of query {first['query']}: {first[column]} {what}")
    return part[["query", "item", "rank"]].astype({"rank": int})


def hit_matrix(
    run: pd.DataFrame, qrels: pd.DataFrame, queries: Sequence, depth: int, name: str = "the ranking"
) -> tuple[np.ndarray, np.ndarray]:
    """Relevance by rank for every query of a run.

    Args:
        run, name: see `checked_run`, which raises.
        qrels: columns query, item: the relevant pairs.
        queries: ids in the order of the result's rows; a query without ranked items gets a row of zeros.
        depth: number of ranks kept.

    Returns:
        (hits, n_relevant): bool array (queries, depth) and int array (queries,).
    """
    row = pd.Series(np.arange(len(queries)), index=pd.Index(queries))
    judged = qrels[["query", "item"]].drop_duplicates()
    top = checked_run(run, depth, name)
    try:
        top = top.merge(judged, on=["query", "item"])
    except ValueError as error:  # numbers on one side, texts on the other
        raise InputError(f"{name}: its ids are of another type than those judged: {one_line(error)}") from error
    top = top[top["query"].isin(row.index)]
    hits = np.zeros((len(queries), depth), dtype=bool)
    hits[row[top["query"]].to_numpy(), top["rank"].to_numpy() - 1] = True
    return hits, judged["query"].value_counts().reindex(row.index, fill_value=0).to_numpy()


def _check_depth(hits: np.ndarray, k: int) -> None:
    if not 1 <= k <= hits.shape[1]:
        raise ValueError(f"cutoff k must lie between 1 and the matrix's depth {hits.shape[1]}, not {k}")


def recall_from_hits(hits: np.ndarray, n_relevant: np.ndarray, k: int) -> np.ndarray:
    """`recall_at_k` for each row of a hit matrix that is at least k deep."""
    _check_depth(hits, k)
    return hits[:, :k].sum(axis=1) / np.maximum(n_relevant, 1)


def ndcg_from_hits(hits: np.ndarray, n_relevant: np.ndarray, k: int, ideal: Ideal = "all") -> np.ndarray:
    """`ndcg_at_k` for each row of a hit matrix that is at least k deep, with gains of 0 and 1."""
    _check_depth(hits, k)
    if ideal not in ("all", "retrieved"):
        raise ValueError(f"ideal must be 'all' or 'retrieved', not {ideal!r}")
    dcg = hits[:, :k] @ discounts(k)
    pool = np.asarray(n_relevant) if ideal == "all" else hits[:, :k].sum(axis=1)
    cumulative = np.concatenate([[0.0], np.cumsum(discounts(k))])
    best = cumulative[np.minimum(pool, k)]
    undefined = 0.0 if ideal == "all" else np.nan
    return np.divide(dcg, best, out=np.full(len(dcg), undefined), where=best > 0)
