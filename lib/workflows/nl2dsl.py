"""The fine-tuned NL-to-DSL model: what it reads and writes, and which pairs it learns from and is tested on.

It sees the request alone; `<START>` and `<END>` stand around the flow (workflow paper, section 3.1). Both are plain
text, not tokens of the vocabulary, so that any model can be tuned. `<START>` closes the prompt; generation stops at
`<END>`.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pandas as pd

START, END = "<START>", "<END>"


def prompt(request: str) -> str:
    """What the model continues with a flow.

    >>> prompt("When it rains, mail me")
    'When it rains, mail me\\n<START>\\n'
    """
    return f"{' '.join(request.split())}\n{START}\n"


def prompt_parts(
    request: str, shots: Iterable[tuple[str, str]] = (), definitions: Iterable[str] = (), explain: bool | None = None
) -> list[str]:
    """The prompt with few-shots before it, each as the model saw it in training; for `lib.workflows.metaprompt.fit`.

    Raises:
        ValueError: there are definitions; the model learned from none.
    """
    if list(definitions) or explain:
        raise ValueError("the fine-tuned model reads no definitions")
    return [*(f"{prompt(other)}{target(dsl)}\n\n" for other, dsl in reversed(list(shots))), prompt(request)]


def target(dsl: str) -> str:
    """What the model learns to answer."""
    return f"{dsl}\n{END}"


def sample(pairs: pd.DataFrame, split: str, n: int, seed: int) -> pd.DataFrame:
    """The first n pairs of one seeded order of a split, so that samples of different sizes nest.

    Args:
        pairs: columns pair, split, and whatever else.
        split: training, test or unseen.
        n: how many; all of them where there are fewer.
        seed: of the order.

    Returns:
        Rows of `pairs` in the seeded order.
    """
    rows = pairs[pairs["split"] == split]
    return rows.iloc[np.random.default_rng(seed).permutation(len(rows))[:n]]
