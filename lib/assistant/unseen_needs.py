"""Methods of context retrieval on needs that no training query asks about, beside the same ones trained with them."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from lib.assistant.context_scores import ContextScores
from lib.assistant.ranker_ablation import TWO_CROSS_FITTED
from lib.evaluation.comparison import per_query_scores, summarise

NEVER_TRAINED = ("recency", "bm25t", "semantic", "cot")
TRAINED = ("finetuned", "lambdamart", "lambdamart_rrf", "lambdamart_2", TWO_CROSS_FITTED)
SAMPLE = "unseen_needs"


def score_unseen(scored: ContextScores, runs: Mapping[str, pd.DataFrame], qrels: pd.DataFrame) -> pd.DataFrame:
    """Scores on all evaluation queries of methods that met none of the query's need.

    Args:
        scored: the methods as they were trained; those of `NEVER_TRAINED`, and a random order, are as they are.
        runs: rankings of the others, by method; one that does not rank every query is left out.
        qrels: columns query, item.
    """
    names = scored.asked.names
    complete = {method: run for method, run in runs.items() if set(names) <= set(run["query"])}
    same = [method for method in scored.complete if method in ("random", *NEVER_TRAINED)]
    return scored.scores[same].join(per_query_scores(complete, qrels, names, scored.cutoffs))


def summarise_unseen(scored: ContextScores, unseen: pd.DataFrame) -> pd.DataFrame:
    """Means with intervals of `score_unseen`, as `ContextScores.summary`; the sample is `SAMPLE`."""
    asked = scored.asked
    return summarise(unseen, asked.by_kind(SAMPLE, asked.everyone), scored.resampling)
