"""TST tuned anew on Flow-Bench: does few-shot search lose by tuning, or by the domain that was tuned on?

Cross-fitted: families are dealt to folds, and an encoder that learned from the other folds alone reads the requests of
a fold. It learns from pairs of their requests, each with the Jaccard similarity of the two flows' APIs, as TST does:
from all that share an API, and from others drawn at random. They are few beside the paper's hundred thousand.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from lib.retrieval.dense import encode, load_encoder
from lib.retrieval.tuning import Tuning, tune_encoder
from lib.workflows.flow_bench_shots import families
from lib.workflows.target_similarity import jaccard

FOLDS = 5


class Tuned(NamedTuple):
    """`similarity`: (requests, requests), each row by the encoder that has not seen its request; `pairs`: learned from
    in a fold, on average; `seconds`: of training, all folds."""

    similarity: np.ndarray
    pairs: float
    seconds: float


def folds_of(pairs: pd.DataFrame, seed: int, folds: int = FOLDS) -> np.ndarray:
    """The fold of each request, (requests,): whole families, dealt in a seeded order."""
    labels = families(pairs)
    names = np.array(list(dict.fromkeys(labels)), dtype=object)
    order = np.random.default_rng(seed).permutation(len(names))
    fold = {names[name]: place % folds for place, name in enumerate(order)}
    return np.array([fold[label] for label in labels])


def scored_pairs(pairs: pd.DataFrame, rows: Sequence[int], most: int, seed: int) -> pd.DataFrame:
    """Pairs of some requests: sentence1, sentence2, score (Jaccard similarity of their flows' APIs).

    At most `most`: those that share an API first, of the others as many as there is room for.
    """
    requests, apis = pairs["request"].tolist(), pairs["apis"].tolist()
    made = [(requests[i], requests[j], jaccard(apis[i], apis[j])) for i, j in itertools.combinations(rows, 2)]
    frame = pd.DataFrame(made, columns=["sentence1", "sentence2", "score"]).sample(frac=1, random_state=seed)
    return frame.sort_values("score", ascending=False, kind="stable").head(most).sort_index(ignore_index=True)


def tuned_anew(
    pairs: pd.DataFrame,
    path: str,
    folder: Path,
    seed: int,
    most: int,
    threads: int | None = None,
    folds: int = FOLDS,
) -> Tuned:
    """Few-shot similarities under encoders that are tuned here.

    Args:
        pairs: of `lib.workflows.flow_bench.FlowBench`.
        path: of the encoder to start from.
        folder: of the adapters, one a fold; a finished one is not repeated.
        seed: of folds, adapters, order and what is drawn.
        most: pairs that an encoder learns from.
    """
    fold, requests = folds_of(pairs, seed, folds), pairs["request"].tolist()
    similarity, seconds, rows = np.zeros((len(pairs), len(pairs))), 0.0, 0
    for number in range(folds):
        learned = scored_pairs(pairs, np.flatnonzero(fold != number).tolist(), most, seed)
        record = tune_encoder(path, learned, folder / f"fold-{number}", Tuning(seed=seed), threads)
        vectors = encode(load_encoder(path, threads, folder / f"fold-{number}"), requests)
        mine = fold == number
        similarity[mine] = (vectors @ vectors.T)[mine]
        seconds, rows = seconds + record["seconds"], rows + len(learned)
    return Tuned(similarity, rows / folds, seconds)
