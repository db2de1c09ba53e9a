"""What a published table of means can and cannot be: bounds that follow from its own numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Literal

import numpy as np
import pandas as pd
from scipy.optimize import linprog
from scipy.sparse import coo_array, csr_array, vstack

from lib.evaluation.ranking import discounts, hit_matrix, recall_from_hits

Score = Literal["all", "retrieved_or_zero"]
MAX_RELEVANT = 40
ROUNDING = 5e-5  # published percentages have two decimals


@cache
def _outcomes(cutoffs: tuple[int, ...], max_relevant: int) -> np.ndarray:
    """All (relevant, hits@k1, hits@k2, …) a query can have: int array (outcomes, 1 + cutoffs)."""
    rows = [[n] for n in range(1, max_relevant + 1)]
    for i, k in enumerate(cutoffs):
        previous_k = cutoffs[i - 1] if i else 0
        extended = []
        for row in rows:
            previous = row[-1] if i else 0
            most = min(row[0], k, previous + k - previous_k)
            extended += [[*row, hits] for hits in range(previous, most + 1)]
        rows = extended
    return np.array(rows)


def _best_dcg(outcomes: np.ndarray, cutoffs: tuple[int, ...], k: int) -> np.ndarray:
    """The largest DCG@k of each outcome: the hits between two cutoffs stand right behind the first of them."""
    gain = np.concatenate([[0.0], np.cumsum(discounts(max(cutoffs)))])
    total = np.zeros(len(outcomes))
    previous_k, previous = 0, np.zeros(len(outcomes), dtype=int)
    for i, cutoff in enumerate(cutoffs):
        if cutoff > k:
            break
        hits = outcomes[:, 1 + i]
        total += gain[previous_k + hits - previous] - gain[previous_k]
        previous_k, previous = cutoff, hits
    return total


def ndcg_upper_bound(
    recall: Mapping[int, float],
    k: int,
    reference: Mapping[int, float],
    score: Score = "all",
    max_relevant: int = MAX_RELEVANT,
) -> float:
    """The largest mean NDCG@k a method can have, given its mean recalls and those of another on the same queries.

    A linear program over the joint distribution of how many items are relevant and how many of them each method finds
    by each cutoff (binary relevance; the two methods meet only in the number of relevant items, which is the same for
    both). Recalls hold within their rounding.

    Args:
        recall: the method's mean recall by cutoff, 0 to 1; `k` is one of the cutoffs.
        k: cutoff of the NDCG.
        reference: mean recall by cutoff of the method that constrains the number of relevant items.
        score: `all` for the standard ideal; `retrieved_or_zero` for the ideal of the retrieved list, where queries
            without a hit count 0 (it is then at most the share of queries with a hit).
        max_relevant: largest number of relevant items considered.

    Raises:
        ValueError: k is no cutoff of `recall`, or no distribution has such recalls.
    """
    cutoffs = tuple(sorted(recall))
    if k not in cutoffs or tuple(sorted(reference)) != cutoffs:
        raise ValueError("both methods need recalls at the same cutoffs, k among them")
    outcomes = _outcomes(cutoffs, max_relevant)
    relevant, size = outcomes[:, 0], len(outcomes)
    if score == "all":
        ideal = np.concatenate([[0.0], np.cumsum(discounts(k))])[np.minimum(relevant, k)]
        value = _best_dcg(outcomes, cutoffs, k) / ideal
    else:
        value = (outcomes[:, 1 + cutoffs.index(k)] > 0).astype(float)
    # Variables: the method's outcome probabilities, then the reference's.
    share = outcomes[:, 1:].T / relevant
    upper, bounds_of = [], []
    for i, cutoff in enumerate(cutoffs):
        for offset, target in ((0, recall[cutoff]), (size, reference[cutoff])):
            row = np.zeros(2 * size)
            row[offset : offset + size] = share[i]
            upper += [row, -row]
            bounds_of += [target + ROUNDING, -(target - ROUNDING)]
    same = coo_array(
        (np.r_[np.ones(size), -np.ones(size)], (np.r_[relevant, relevant] - 1, np.arange(2 * size))),
        shape=(max_relevant, 2 * size),
    ).tocsr()
    total = np.r_[np.ones(size), np.zeros(size)]
    found = linprog(
        -np.r_[value, np.zeros(size)],
        A_ub=csr_array(np.array(upper)),
        b_ub=bounds_of,
        A_eq=vstack([same, csr_array(total[None, :])]).tocsr(),
        b_eq=np.r_[np.zeros(max_relevant), 1.0],
        bounds=(0, None),
        method="highs",
    )
    if not found.success:
        raise ValueError(f"no distribution of relevant items has these recalls: {found.message}")
    return float(-found.fun)


def is_share_of(percentage: float, n: int, decimals: int = 2) -> bool:
    """Whether a printed percentage is some count over `n`, rounded to `decimals`."""
    count = round(percentage * n / 100)
    return any(
        round(100 * c / n, decimals) == round(percentage, decimals)
        for c in (count - 1, count, count + 1)
        if 0 <= c <= n
    )


def random_recall(n_items: np.ndarray, k: int) -> float:
    """Expected recall@k of a random ranking, averaged over queries with `n_items` candidates each."""
    return float(np.mean(np.minimum(k / np.asarray(n_items, dtype=float), 1.0)))


def cut_to_recall(
    run: pd.DataFrame, qrels: pd.DataFrame, queries: Sequence, k: int, target: float
) -> tuple[pd.DataFrame, float]:
    """Drop results below one score threshold, the highest at which mean recall@k still reaches `target`.

    Returns:
        (shortened run, threshold); the whole run and its lowest score where even that does not reach the target.
    """
    low, high = 0, len(run) - 1
    scores = np.sort(run["score"].to_numpy())
    while low < high:  # recall falls as the threshold rises: find the last position that still reaches the target
        middle = (low + high + 1) // 2
        hits, n_relevant = hit_matrix(run[run["score"] >= scores[middle]], qrels, queries, k)
        if recall_from_hits(hits, n_relevant, k).mean() >= target:
            low = middle
        else:
            high = middle - 1
    return run[run["score"] >= scores[low]], float(scores[low])
