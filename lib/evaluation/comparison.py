"""Several methods on the same queries: values over units with intervals, and paired tests."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from lib.evaluation.inference import Resampling, difference_interval, mean_interval, ratio_interval, sign_flip_test
from lib.evaluation.ranking import hit_matrix, ndcg_from_hits, recall_from_hits


def per_query_scores(
    runs: Mapping[Any, pd.DataFrame], qrels: pd.DataFrame, queries: Sequence, cutoffs: Sequence[int]
) -> pd.DataFrame:
    """Scores in percent, one row for each of the `queries` and one column for each (method, metric, k).

    `ndcg_retrieved` is NaN for a query without a hit among the first k. Of `qrels`, each pair of query and item is a
    relevant one; the ranking of each method is as `lib.evaluation.ranking.checked_run` has it, which raises.
    """
    columns = {}
    for method, run in runs.items():
        hits, n_relevant = hit_matrix(run, qrels, queries, max(cutoffs), str(method))
        for k in cutoffs:
            columns[method, "recall", k] = 100 * recall_from_hits(hits, n_relevant, k)
            columns[method, "ndcg", k] = 100 * ndcg_from_hits(hits, n_relevant, k)
            columns[method, "ndcg_retrieved", k] = 100 * ndcg_from_hits(hits, n_relevant, k, ideal="retrieved")
    table = pd.DataFrame(columns, index=pd.Index(queries, name="query"))
    return table.rename_axis(columns=["method", "metric", "k"])


def random_order_scores(
    n_candidates: Sequence[int],
    n_relevant: Sequence[int] | np.ndarray,
    cutoffs: Sequence[int],
    draws: int = 1000,
    seed: int = 0,
) -> pd.DataFrame:
    """What a random order of each query's candidates scores on average: percent, one row a query in the order of the
    numbers of candidates and of relevant ones, columns ("random", metric, k).

    One shuffle is a lottery ticket; the floor is its expectation, here the mean over `draws` shuffles a query.
    `ndcg_retrieved` is the mean over those with a hit.
    """
    rng = np.random.default_rng(seed)
    depth, rows = max(cutoffs), list[dict]()
    for candidates, relevant in zip(n_candidates, n_relevant, strict=True):
        ranks = rng.permuted(np.tile(np.arange(candidates), (draws, 1)), axis=1)[:, :relevant]
        hits = np.zeros((draws, max(depth, candidates)), dtype=bool)
        np.put_along_axis(hits, ranks, True, axis=1)
        row, size = {}, np.full(draws, relevant)
        for k in cutoffs:
            row["random", "recall", k] = recall_from_hits(hits, size, k).mean()
            row["random", "ndcg", k] = ndcg_from_hits(hits, size, k).mean()
            order_only = ndcg_from_hits(hits, size, k, ideal="retrieved")
            row["random", "ndcg_retrieved", k] = np.nanmean(order_only) if np.isfinite(order_only).any() else np.nan
        rows.append(row)
    columns = pd.MultiIndex.from_tuples(rows[0] if rows else [], names=["method", "metric", "k"])
    return 100 * pd.DataFrame(rows, columns=columns)


def summarise(
    scores: pd.DataFrame, groups: Mapping[tuple[str, str], np.ndarray], resampling: Resampling
) -> pd.DataFrame:
    """Value and 95% interval of every column of `scores` in every group of queries.

    Args:
        scores: from `per_query_scores`.
        groups: {(kind, sample): bool array over the queries}.
        resampling: of the queries.

    Returns:
        columns method, kind, sample, metric, k, value (the mean over units of the means within them), ci_low, ci_high,
        n_topics (units), n (queries averaged over), over_queries (their plain mean).
    """
    frames = []
    for (kind, sample), chosen in groups.items():
        if not chosen.any():
            continue
        part, over = scores[chosen], resampling.among(chosen)
        frame = part.columns.to_frame(index=False)
        frame["value"], frame["ci_low"], frame["ci_high"] = mean_interval(part.to_numpy(float), over)
        frame["n_topics"] = [len(set(np.asarray(over.units)[known])) for known in part.notna().to_numpy().T]
        frame["n"], frame["over_queries"] = part.notna().sum().to_numpy(), part.mean().to_numpy()
        frame.insert(1, "kind", kind)
        frame.insert(2, "sample", sample)
        frames.append(frame)
    return pd.concat(frames, ignore_index=True)


def means(
    scores: pd.DataFrame, by: Sequence[str], unit: str, samples: int, seed: int, top: float = 100.0
) -> pd.DataFrame:
    """The mean of each group of scores over units, with its 95% interval.

    Args:
        scores: columns value (0 to `top`, NaN is left out), `unit` and those that tell groups apart.

    Returns:
        columns `by`, value, ci_low, ci_high, n (scores averaged over); groups in their order of appearance.
    """
    rows = []
    for key, part in scores.groupby(list(by), sort=False):
        over = Resampling(part[unit].to_numpy(), samples, seed)
        rows.append((*key, *mean_interval(part["value"].to_numpy(float), over, top), part["value"].count()))
    return pd.DataFrame(rows, columns=[*by, "value", "ci_low", "ci_high", "n"])


def compare(
    scores: pd.DataFrame,
    pairs: Sequence[tuple[str, str]],
    metric: str,
    k: int,
    resampling: Resampling,
    top: float = 100.0,
) -> pd.DataFrame:
    """Paired comparisons a − b of scores of 0 to `top`, on the queries that have a value on both sides: columns a, b,
    difference, ci_low, ci_high, p_value, n_topics, n, over_queries (the difference of plain means)."""
    left, right = (np.column_stack([scores[pair[side], metric, k] for pair in pairs]).astype(float) for side in (0, 1))
    found = difference_interval(left, right, resampling, top)
    both = ~np.isnan(left - right)
    table = pd.DataFrame(pairs, columns=["a", "b"])
    table["difference"], table["ci_low"], table["ci_high"] = found
    table["p_value"] = sign_flip_test(left, right, resampling)
    table["n_topics"] = [len(set(np.asarray(resampling.units)[known])) for known in both.T]
    table["n"] = both.sum(axis=0)
    table["over_queries"] = np.ma.masked_array(left - right, ~both).mean(axis=0).filled(np.nan)
    return table


def ratios(
    scores: pd.DataFrame, a: str, b: str, metric: str, cutoffs: Sequence[int], resampling: Resampling
) -> pd.DataFrame:
    """How many times b's value is a's at each cutoff, of `per_query_scores`: columns k, ratio, ci_low, ci_high; NaN
    where b's value is 0."""
    over, under = (scores[[(method, metric, k) for k in cutoffs]].to_numpy(float) for method in (a, b))
    ratio, low, high = ratio_interval(over, under, resampling)
    return pd.DataFrame({"k": list(cutoffs), "ratio": ratio, "ci_low": low, "ci_high": high})


def rates(outcomes: pd.DataFrame, percent: Collection[str], samples: int, seed: int) -> pd.DataFrame:
    """Each condition's value of each metric over the units that count, such as flows that parse, with a 95% interval.

    Args:
        outcomes: columns condition, unit (a flow), metric, numerator (0-1), denominator (1 where the unit counts, else
            0); several rows of a unit, of several training runs, are averaged.
        percent: metrics that are shown times 100.
        samples, seed: of the bootstrap.

    Returns:
        columns condition, metric, value, ci_low, ci_high, n (units), counted (of them); NaN where nothing is counted.
    """
    rows, metrics = [], outcomes["metric"].unique()
    scale = np.where(pd.Index(metrics).isin(list(percent)), 100.0, 1.0)
    for condition, values in _values(outcomes).items():
        found = mean_interval(values, Resampling(values.index, samples, seed), 1.0)
        columns = zip(metrics, *(part * scale for part in found), values.notna().sum(), strict=True)
        rows += [(condition, metric, *three, len(values), n) for metric, *three, n in columns]
    return pd.DataFrame(rows, columns=["condition", "metric", "value", "ci_low", "ci_high", "n", "counted"])


def rate_differences(
    outcomes: pd.DataFrame, pairs: Sequence[tuple[str, str]], percent: Collection[str], samples: int, seed: int
) -> pd.DataFrame:
    """Differences a − b of pairs of conditions of `rates`, on the units that count on both sides: columns a, b, metric,
    delta, ci_low, ci_high, n (units that both have), counted_both (of them: those that count on both sides)."""
    rows, metrics, values = [], outcomes["metric"].unique(), _values(outcomes)
    scale = np.where(pd.Index(metrics).isin(list(percent)), 100.0, 1.0)
    for a, b in pairs:
        left, right = values.get(a, pd.DataFrame()).align(values.get(b, pd.DataFrame()), join="inner", axis=0)
        if len(left):
            found = difference_interval(left, right, Resampling(left.index, samples, seed), 1.0)
            counted = (left.notna() & right.notna()).sum()
            cells = zip(metrics, *(part * scale for part in found), counted, strict=True)
            rows += [(a, b, metric, *three, len(left), n) for metric, *three, n in cells]
    columns = ["a", "b", "metric", "delta", "ci_low", "ci_high", "n", "counted_both"]
    return pd.DataFrame(rows, columns=columns)


def _values(outcomes: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """{condition: each unit's values of 0 to 1, a column a metric; NaN where it does not count}."""
    shares = outcomes["numerator"] / outcomes["denominator"].where(outcomes["denominator"] > 0)
    wide = shares.groupby([outcomes["condition"], outcomes["unit"], outcomes["metric"]], sort=False).mean().unstack()
    wide = wide[outcomes["metric"].unique()]
    return {str(name): part.droplevel(0).sort_index() for name, part in wide.groupby(level=0, sort=False)}
