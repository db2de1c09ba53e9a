"""What rank fusion does to a ranking of context: over how many stores its first results are spread, and what other
fusions would find."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd

from lib.assistant.context_scores import ContextScores
from lib.assistant.rrf_readings import STORES, WHOLE
from lib.evaluation.comparison import compare_in_groups
from lib.retrieval.fusion import fuse_runs

NO_FUSION = "all features, not fused"
HALVES = ("usage alone", "text alone")


def stores_of(pairs: pd.DataFrame, store: pd.Series) -> pd.Series:
    """In how many stores the items of each query lie.

    Args:
        pairs: columns query, item.
        store: the store of each item, by its id.
    """
    return pairs["item"].map(store).groupby(pairs["query"]).nunique()


def stores_among_first(run: pd.DataFrame, store: pd.Series, k: int) -> float:
    """In how many stores the first k results of a ranking lie, the mean over queries."""
    return stores_of(run[run["rank"] <= k], store).mean()


def same_first(run: pd.DataFrame, other: pd.DataFrame, k: int) -> float:
    """The share of queries whose first k results are the same items in two rankings."""
    firsts = [part[part["rank"] <= k].groupby("query")["item"].agg(frozenset) for part in (run, other)]
    return float((firsts[0] == firsts[1].reindex(firsts[0].index)).mean())


def compare_by_spread(scored: ContextScores, stores_of_relevant: pd.Series) -> pd.DataFrame:
    """LambdaMART-RRF against LambdaMART (see `compare_in_groups`) where a query's relevant items lie in one app, and
    where they lie in several.

    Args:
        stores_of_relevant: how many apps, by query.
    """
    apps = stores_of_relevant.loc[scored.asked.names].to_numpy()
    groups = {"one app": apps == 1, "several apps": apps > 1}
    return compare_in_groups(
        scored.scores, "lambdamart_rrf", "lambdamart", groups, "recall", scored.k, scored.resampling
    )


def fusions_to_explain(
    usage: pd.DataFrame, text: pd.DataFrame, rankings: Mapping[str, pd.DataFrame], ks: Sequence[float]
) -> dict[str, pd.DataFrame]:
    """Two rankers that know different things, alone and fused, beside one that knows both, alone and fused.

    Args:
        usage, text: rankings by rankers that see usage alone and text alone.
        rankings: of the ranker that sees both, whole; store by store of one a store; and semantic.
        ks: constants of RRF.
    """
    whole = rankings[WHOLE]
    fused = {
        "usage alone + text alone": [usage, text],
        "all features + one ranker a store": [whole, rankings[STORES]],
        "all features + semantic search": [whole, rankings["semantic"]],
    }
    by_name = {name: {f"{name}, fused, k = {k}": fuse_runs(parts, k) for k in ks} for name, parts in fused.items()}
    first, *others = by_name.values()
    runs = {HALVES[0]: usage, HALVES[1]: text} | first | {NO_FUSION: whole}
    for other in others:
        runs |= other
    return runs
