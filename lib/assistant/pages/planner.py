"""What the page of notebook 07_planner calls things."""

from __future__ import annotations

import pandas as pd

from lib.assistant.planner import ALONE_BY_RANKER, BY_RANKER
from lib.evaluation.inference import Resampling, mean_interval
from lib.workbook.display import interval

SHORT = {
    "lower_bound": "no retrieval",
    "rag": "RAG",
    "context_tuned_rag": "context-tuned RAG",
    "upper_bound": "right tool",
    "context_tuned_upper_bound": "right tool + context",
}
OURS = {ALONE_BY_RANKER: "RAG, tools by our ranker", BY_RANKER: "context-tuned RAG, tools by our ranker"}
MEASURED = {
    "ast_accuracy": "AST accuracy",
    "exact_match": "exact match",
    "hallucination": "hallucination",
    "executed": "executed right",
    "right_api": "right API",
    "arguments": "right arguments, of plans with the right API",
    "answerable": "answerable",
    "outside_shown": "API outside the tools shown",
}


def over_topics(plans: pd.DataFrame, metric: str) -> str:
    """A measure with its interval over topics; – of no plan.

    Args:
        plans: columns need and the measure.
    """
    if plans.empty:
        return "–"
    return interval(*mean_interval(plans[metric].to_numpy(dtype=float), Resampling(plans["need"].to_numpy())))
