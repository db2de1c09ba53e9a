"""Several retrieval methods on the same queries: means with intervals, and paired tests."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pandas as pd

from lib.evaluation.inference import (
    Resampling,
    holm_adjust,
    mcnemar_test,
    randomisation_test,
)
from lib.evaluation.intervals import difference_interval, mean_interval, paired_differences, ratio_interval
from lib.evaluation.ranking import hit_matrix, ndcg_from_hits, recall_from_hits

METRICS = ("recall", "ndcg", "ndcg_retrieved")


def per_query_scores(
    runs: Mapping[str, pd.DataFrame], qrels: pd.DataFrame, queries: Sequence, cutoffs: Sequence[int]
) -> pd.DataFrame:
    """Scores in percent, one row a query and one column for each (method, metric, k).

    `ndcg_retrieved` is NaN for a query without a hit among the first k.

    Args:
        runs: ranking of each method (see `lib.evaluation.ranking.hit_matrix`).
        qrels: columns query, item.
        queries: query ids, the rows of the result.
        cutoffs: values of k.
    """
    columns = {}
    for method, run in runs.items():
        hits, n_relevant = hit_matrix(run, qrels, queries, max(cutoffs))
        for k in cutoffs:
            columns[method, "recall", k] = 100 * recall_from_hits(hits, n_relevant, k)
            columns[method, "ndcg", k] = 100 * ndcg_from_hits(hits, n_relevant, k)
            columns[method, "ndcg_retrieved", k] = 100 * ndcg_from_hits(hits, n_relevant, k, ideal="retrieved")
    table = pd.DataFrame(columns, index=pd.Index(queries, name="query"))
    table.columns = table.columns.set_names(["method", "metric", "k"])
    return table


def random_order_scores(
    n_candidates: Sequence[int],
    n_relevant: Sequence[int] | np.ndarray,
    cutoffs: Sequence[int],
    draws: int = 1000,
    seed: int = 0,
) -> pd.DataFrame:
    """What a random order of each query's candidates scores on average, as columns like `per_query_scores` makes.

    One shuffle is a lottery ticket; the floor is its expectation, here the mean over `draws` shuffles a query.
    `ndcg_retrieved` is the mean over those with a hit.

    Args:
        n_candidates, n_relevant: numbers of candidates and of relevant ones, one a query.
        cutoffs: values of k.

    Returns:
        percent, one row a query (in the order given), columns ("random", metric, k).
    """
    rng = np.random.default_rng(seed)
    columns: dict[tuple[str, str, int], list[float]] = {
        ("random", metric, k): [] for k in cutoffs for metric in METRICS
    }
    depth = max(cutoffs)
    for candidates, relevant in zip(n_candidates, n_relevant, strict=True):
        ranks = rng.permuted(np.tile(np.arange(candidates), (draws, 1)), axis=1)[:, :relevant]
        hits = np.zeros((draws, max(depth, candidates)), dtype=bool)
        np.put_along_axis(hits, ranks, True, axis=1)
        size = np.full(draws, relevant)
        for k in cutoffs:
            columns["random", "recall", k].append(recall_from_hits(hits, size, k).mean())
            columns["random", "ndcg", k].append(ndcg_from_hits(hits, size, k).mean())
            order_only = ndcg_from_hits(hits, size, k, ideal="retrieved")
            columns["random", "ndcg_retrieved", k].append(
                np.nanmean(order_only) if np.isfinite(order_only).any() else np.nan
            )
    table = 100 * pd.DataFrame(columns)
    table.columns = table.columns.set_names(["method", "metric", "k"])
    return table


def summarise(
    scores: pd.DataFrame,
    groups: Mapping[tuple[str, str], np.ndarray],
    resampling: Resampling,
) -> pd.DataFrame:
    """Mean and 95% interval (`lib.evaluation.intervals`) of every column of `scores` in every group of queries. No
    interval is a point where all scores are 0 or all are 100.

    Args:
        scores: from `per_query_scores`.
        groups: {(kind, sample): bool array over the queries}.
        resampling: of the queries.

    Returns:
        columns method, kind, sample, metric, k, value, ci_low, ci_high, n; n counts the queries averaged over.
    """
    frames = []
    for (kind, sample), chosen in groups.items():
        if not chosen.any():
            continue
        part, here = scores[chosen], resampling.among(chosen)
        low, high = mean_interval(part.to_numpy(), here)
        frame = part.columns.to_frame(index=False)
        frame["value"] = part.mean().to_numpy()
        frame["ci_low"], frame["ci_high"] = low, high
        frame["n"] = part.notna().sum().to_numpy()
        frame.insert(1, "kind", kind)
        frame.insert(2, "sample", sample)
        frames.append(frame)
    return pd.concat(frames, ignore_index=True)


def leads(
    scores: pd.DataFrame,
    methods: Sequence[str],
    metric: str,
    cutoffs: Sequence[int],
    resampling: Resampling,
) -> pd.DataFrame:
    """The best method against the second best at each cutoff, paired; not corrected for having been picked as these.

    Args:
        scores: from `per_query_scores`.
        methods: at least two.
        metric, cutoffs: of the columns to compare.
        resampling: of the queries.

    Returns:
        columns k, best, second, difference, ci_low, ci_high.
    """
    rows = []
    for k in cutoffs:
        means = scores[[(method, metric, k) for method in methods]].mean().sort_values(ascending=False, kind="stable")
        pair = (means.index[0][0], means.index[1][0])
        test = compare(scores, [pair], metric, k, resampling).iloc[0]
        rows.append((k, *pair, test["difference"], test["ci_low"], test["ci_high"]))
    return pd.DataFrame(rows, columns=["k", "best", "second", "difference", "ci_low", "ci_high"])


def compare(
    scores: pd.DataFrame,
    pairs: Sequence[tuple[str, str]],
    metric: str,
    k: int,
    resampling: Resampling,
    top: float = 100.0,
) -> pd.DataFrame:
    """Paired comparisons a − b: difference of means with its interval, p-value, Holm over the family.

    The p-value of two clusterings is the interval's (`lib.evaluation.intervals.Estimates`). With one, a randomisation
    test flips the signs of whole clusters.

    Args:
        top: the highest score.

    Returns:
        columns a, b, difference, ci_low, ci_high, p_value, p_holm.
    """
    return _compared(
        scores, pairs, metric, k, resampling,
        lambda a, b: randomisation_test(a, b, resampling.clusters[0], seed=resampling.seed), top,
    )  # fmt: skip


def compare_outcomes(
    scores: pd.DataFrame,
    pairs: Sequence[tuple[str, str]],
    metric: str,
    k: int,
    resampling: Resampling,
) -> pd.DataFrame:
    """Like `compare` for scores that are either 0 or 100, right or wrong: with one clustering, of one query each,
    McNemar's exact test on the queries on which the two differ, of those that have a value (not NaN) on both sides."""

    def mcnemar(a: pd.Series, b: pd.Series) -> float:
        both = a.notna() & b.notna()
        return mcnemar_test(a[both] > 0, b[both] > 0)

    return _compared(scores, pairs, metric, k, resampling, mcnemar)


def _compared(
    scores, pairs, metric, k, resampling, test: Callable[[pd.Series, pd.Series], float], top: float = 100.0
) -> pd.DataFrame:
    scale = 100 / top
    left, right = (scale * np.column_stack([scores[pair[side], metric, k] for pair in pairs]) for side in (0, 1))
    if resampling.two_way:
        found = paired_differences(left, right, resampling.clusters)
        low, high, p_values = found.low, found.high, found.p_values().tolist()
    else:
        low, high = difference_interval(left, right, resampling)
        p_values = [test(scores[a, metric, k], scores[b, metric, k]) for a, b in pairs]
    return pd.DataFrame(
        {
            "a": [a for a, _ in pairs],
            "b": [b for _, b in pairs],
            "difference": np.nanmean(left - right, axis=0) / scale,
            "ci_low": low / scale,
            "ci_high": high / scale,
            "p_value": p_values,
            "p_holm": holm_adjust(p_values),
        }
    )


def ratios(
    scores: pd.DataFrame,
    a: str,
    b: str,
    metric: str,
    cutoffs: Sequence[int],
    resampling: Resampling,
) -> pd.DataFrame:
    """How many times b's mean is a's at each cutoff: ratio of means, with its 95% interval.

    Args:
        scores: from `per_query_scores`.
        resampling: of the queries.

    Returns:
        columns k, ratio, ci_low, ci_high; NaN where b's mean is 0.
    """
    over, under = (scores[[(method, metric, k) for k in cutoffs]].to_numpy() for method in (a, b))
    means = over.mean(axis=0), under.mean(axis=0)
    ratio = np.divide(*means, out=np.full(len(cutoffs), np.nan), where=means[1] > 0)
    low, high = ratio_interval(over, under, resampling)
    return pd.DataFrame({"k": list(cutoffs), "ratio": ratio, "ci_low": low, "ci_high": high})


def compare_in_groups(
    scores: pd.DataFrame,
    a: str,
    b: str,
    groups: Mapping[str, np.ndarray],
    metric: str,
    k: int,
    resampling: Resampling,
) -> pd.DataFrame:
    """`compare` of one pair in each group of queries, Holm over the groups; groups without a query are left out.

    Args:
        groups: {name: bool array over the queries}.

    Returns:
        columns group, n, a and b (the two means), difference, ci_low, ci_high, p_value, p_holm.
    """
    rows = []
    for name, chosen in groups.items():
        if chosen.any():
            part = scores[chosen]
            tested = compare(part, [(a, b)], metric, k, resampling.among(chosen)).drop(columns=["a", "b", "p_holm"])
            means = {"a": part[a, metric, k].mean(), "b": part[b, metric, k].mean()}
            rows.append({"group": name, "n": int(chosen.sum()), **means, **tested.iloc[0]})
    table = pd.DataFrame(rows)
    return table.assign(p_holm=holm_adjust(table["p_value"]))


def compare_family(
    scores: pd.DataFrame,
    pairs: Sequence[tuple[str, str]],
    metrics: Sequence[str],
    cutoffs: Sequence[int],
    resampling: Resampling,
    top: float = 100.0,
) -> pd.DataFrame:
    """`compare` for each cutoff and metric, Holm over all rows.

    Returns:
        columns of `compare`, metric, k.
    """
    tests = [
        compare(scores, pairs, metric, k, resampling, top).assign(metric=metric, k=k)
        for k in cutoffs
        for metric in metrics
    ]
    table = pd.concat(tests, ignore_index=True)
    return table.assign(p_holm=holm_adjust(table["p_value"]))
