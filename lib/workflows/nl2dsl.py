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


def questions(pairs: pd.DataFrame, reworded: pd.DataFrame, n: int, seed: int) -> pd.DataFrame:
    """The requests whose flows are to be written: n of each test set, half as many of those reworded by hand (of the
    test requests chosen) and of those that need held-out APIs.

    Args:
        pairs, n, seed: as for `sample`; column said, where it is known.
        reworded: columns pair (the test request), request, dsl, apis.

    Returns:
        columns test_set (test, test_same, reworded, unseen), unit (the composed pair), pair (of the request asked),
        request, dsl, apis, and said where `pairs` has it (of the composed pair); a range index.
    """
    half = -(-n // 2)
    tests = flows_to_write(pairs, reworded["pair"], n, seed)
    free = reworded.set_index("pair", drop=False).reindex(tests["pair"]).dropna(subset=["request"]).head(half)
    parts = {
        "test": tests,
        "test_same": sample(pairs, "test_same", n, seed),
        "reworded": free,
        "unseen": sample(pairs, "unseen", half, seed),
    }
    asked = pd.concat([part.assign(test_set=name) for name, part in parts.items()], ignore_index=True)
    asked = asked.assign(unit=asked["pair"])
    asked.loc[asked["test_set"] == "reworded", "pair"] += " reworded"
    columns = ["test_set", "unit", "pair", "request", "dsl", "apis"]
    if "said" not in pairs:
        return asked[columns]
    said = pairs.drop_duplicates("pair").set_index("pair")["said"]
    return asked.assign(said=asked["unit"].map(said))[[*columns, "said"]]


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


def scored_answers(condition: str, answers: pd.DataFrame, asks: pd.DataFrame, catalogue) -> pd.DataFrame:
    """Answers with their scores, as `lib.workflows.scoring.outcomes` takes them.

    Args:
        condition: who wrote them.
        answers: column text, and whatever else.
        asks: what was asked, a row an answer: columns unit (the test pair), dsl (the right flow), and said (see
            `lib.workflows.generating.generate`) where it is known.

    Returns:
        columns of `score_flows`, those of `answers`, condition, unit; a range index.
    """
    scores = score_flows(answers["text"], asks["dsl"], catalogue, asks.get("said"))
    return scores.join(answers.reset_index(drop=True)).assign(condition=condition, unit=asks["unit"].tolist())


def scored_copies(
    condition: str, pool: pd.DataFrame, pool_vectors: np.ndarray, asks: pd.DataFrame, vectors: np.ndarray, catalogue
) -> pd.DataFrame:
    """`copied_flows` of a pool with their scores.

    Args:
        pool, pool_vectors, vectors: as for `copied_flows`.
        asks: of `questions`.

    Returns:
        as `scored_answers`, with columns test_set and pairs (of the pool).
    """
    copied = copied_flows(pool, pool_vectors, vectors)
    scores = scored_answers(condition, copied, asks, catalogue)
    return scores.assign(test_set=asks["test_set"].to_numpy(), pairs=len(pool))


def with_lists(scores: pd.DataFrame) -> pd.DataFrame:
    """Scored answers whose made-up names and parameters are lists, which Parquet holds."""
    names, parameters = scores["made_up_names"], scores["made_up_parameters"]
    return scores.assign(
        made_up_parameters=parameters.map(lambda made: [list(one) for one in made]), made_up_names=names.map(list)
    )
