"""The fine-tuned NL-to-DSL model: what it reads and writes, what it learns from, is tested on and stands beside.

It sees the request alone; `<START>` and `<END>` stand around the flow (workflow paper, section 3.1). Both are plain
text, not tokens of the vocabulary, so that any model can be tuned. `<START>` closes the prompt; generation stops at
`<END>`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd

from lib.retrieval.neighbours import nearest
from lib.workflows.scoring import score_flows

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
        split: one of `lib.workflows.pairs.SPLITS`.
        n: how many; all of them where there are fewer.
        seed: of the order.

    Returns:
        Rows of `pairs` in the seeded order.
    """
    rows = pairs[pairs["split"] == split]
    return rows.iloc[np.random.default_rng(seed).permutation(len(rows))[:n]]


def flows_to_write(pairs: pd.DataFrame, reworded: Sequence[str], n: int, seed: int) -> pd.DataFrame:
    """The test flows that the model writes: first those whose requests people reworded, so that both can be compared.

    Args:
        pairs, n, seed: as for `sample`.
        reworded: pairs.
    """
    too = pairs["pair"].isin(reworded)
    return pd.concat([sample(part, "test", n, seed) for part in (pairs[too], pairs[~too])]).head(n)


def copied_flows(pool: pd.DataFrame, pool_vectors: np.ndarray, vectors: np.ndarray) -> pd.DataFrame:
    """What writes without any model: for each request the flow of the nearest training pair.

    Args:
        pool: the training pairs, column dsl.
        pool_vectors, vectors: unit vectors of their requests and of those asked.

    Returns:
        columns text, finished (all True).
    """
    found = nearest(pool_vectors, vectors, 1)[0][:, 0]
    return pd.DataFrame({"text": pool["dsl"].iloc[found].tolist(), "finished": True})


def scored_answers(
    condition: str, answers: pd.DataFrame, units: Sequence[str], golds: Sequence[str], catalogue
) -> pd.DataFrame:
    """Answers with their scores, as `lib.workflows.scoring.outcomes` takes them.

    Args:
        condition: who wrote them.
        answers: column text, and whatever else.
        units: the test pair of each.
        golds: the right flows, as text.

    Returns:
        columns of `score_flows`, those of `answers`, condition, unit; a range index.
    """
    scores = score_flows(answers["text"], golds, catalogue)
    return scores.join(answers.reset_index(drop=True)).assign(condition=condition, unit=list(units))


def with_lists(scores: pd.DataFrame) -> pd.DataFrame:
    """Scored answers whose made-up names and parameters are lists, which Parquet holds."""
    names, parameters = scores["made_up_names"], scores["made_up_parameters"]
    return scores.assign(
        made_up_parameters=parameters.map(lambda made: [list(one) for one in made]), made_up_names=names.map(list)
    )
