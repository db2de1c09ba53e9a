"""What the page of notebook 07_planner calls things, and the record of what its planner learned from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from lib.assistant.planner import ALONE_BY_RANKER, BY_RANKER, TAUGHT
from lib.evaluation.inference import Resampling
from lib.evaluation.intervals import mean_interval
from lib.workbook.display import interval, number
from lib.workbook.trained import Adapter

SHORT = {
    "lower_bound": "no retrieval",
    "rag": "RAG",
    "context_tuned_rag": "context-tuned RAG",
    "upper_bound": "right tool",
    "context_tuned_upper_bound": "right tool + context",
}
OURS = {ALONE_BY_RANKER: "RAG, tools by our ranker", BY_RANKER: "context-tuned RAG, tools by our ranker"}
OURS |= {TAUGHT[setting]: f"{name}, learned from such" for setting, name in OURS.items()}
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


@dataclass(frozen=True)
class Learned:
    """What the planner learned from, and how.

    Attributes:
        planner: name of the language model.
        adapter: what was trained; its curve has step, loss (nats a token), learning_rate, tokens, target_tokens.
        numbers: of what it learned from, see `lib.assistant.trained_parts.PlannerLesson.pairs`.
        held_out, needs: number of needs left out, and of all.
    """

    planner: str
    adapter: Adapter
    numbers: Mapping[str, Any]
    held_out: int
    needs: int

    @property
    def settings(self) -> Mapping[str, Any]:
        """Of the training, by the names of `lib.generation.finetune.Training`."""
        return self.adapter.record["settings"]

    @property
    def pairs(self) -> int:
        """Prompts with their targets, each counted once."""
        return self.adapter.rows // self.settings["epochs"]

    @property
    def steps_a_row(self) -> int:
        """Steps that a row of the curve stands for."""
        curve = self.adapter.curve
        return -(-int(curve["step"].iloc[-1]) // len(curve))

    def ends(self) -> tuple[int, float, float]:
        """A number of rows of the curve, a tenth of all, and the mean loss over that many first and last ones."""
        loss = self.adapter.curve["loss"]
        window = max(1, len(loss) // 10)
        return window, loss.iloc[:window].mean(), loss.iloc[-window:].mean()


def share(values: Iterable[bool]) -> str:
    """`37%`: how many of the values are true."""
    return f"{number(float(100 * np.mean(list(values))), 0)}%"


def clustered_rate(plans: pd.DataFrame, metric: str) -> str:
    """The mean of a measure with its interval over personas and needs; – of no plan.

    Args:
        plans: columns persona, need and the measure.
    """
    if plans.empty:
        return "–"
    over = Resampling([plans["persona"].to_numpy(), plans["need"].to_numpy()])
    low, high = mean_interval(plans[metric].to_numpy(dtype=float), over)
    return interval(plans[metric].mean(), float(low), float(high))
