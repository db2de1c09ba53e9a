"""What the page of notebook 07_planner calls things, and the record of what its planner learned from."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from lib.evaluation.inference import wilson_interval
from lib.workbook.display import interval, number

if TYPE_CHECKING:
    from lib.generation.finetune import Training

SHORT = {
    "lower_bound": "no retrieval",
    "rag": "RAG",
    "context_tuned_rag": "context-tuned RAG",
    "upper_bound": "right tool",
    "context_tuned_upper_bound": "right tool + context",
}
MEASURED = {
    "ast_accuracy": "AST accuracy",
    "exact_match": "exact match",
    "hallucination": "hallucination",
    "right_api": "right API",
    "answerable": "answerable",
    "outside_shown": "API outside the tools shown",
}


@dataclass(frozen=True)
class Learned:
    """What the planner learned from, and how.

    Attributes:
        planner: name of the language model.
        pairs: see `lib.assistant.planner.training_pairs`.
        personas: number of personas whose queries they are.
        curve: one row a step: step, loss (nats a token), learning_rate, tokens, target_tokens.
        settings: of the training.
        held_out, needs: number of needs left out, and of all.
        missed: share of the prompts with retrieved tools in which retrieval had missed a gold one, 0 to 1.
    """

    planner: str
    pairs: pd.DataFrame
    personas: int
    curve: pd.DataFrame
    settings: Training
    held_out: int
    needs: int
    missed: float

    @property
    def tokens(self) -> int:
        """Tokens read in training, each as often as it was read."""
        return self.curve["tokens"].sum()

    def ends(self) -> tuple[int, float, float]:
        """A number of steps, a tenth of all, and the mean loss over that many first and last ones."""
        window = max(1, len(self.curve) // 10)
        loss = self.curve["loss"]
        return window, loss.iloc[:window].mean(), loss.iloc[-window:].mean()


def share(values: Iterable[bool]) -> str:
    """`37%`: how many of the values are true."""
    return f"{number(float(100 * np.mean(list(values))), 0)}%"


def rate(values: pd.Series) -> str:
    """The mean of scores of 0 or 100 with Wilson's interval: `23.7 [21.2, 26.3]`."""
    low, high = wilson_interval((values > 0).sum(), len(values))
    return interval(values.mean(), 100 * float(low), 100 * float(high))
