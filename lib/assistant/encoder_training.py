"""Which queries each fine-tuned encoder learns from, and which it is asked.

Frames in, frames out; the training itself is `lib.retrieval.finetune`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd

from lib.assistant.cot import augment
from lib.retrieval.finetune import folds_of, nested_sample


class Thoughts(NamedTuple):
    """CoT of one writer.

    Attributes:
        training, evaluation: texts, indexed by query.
        writer: who wrote for evaluation; empty where nobody did.
    """

    training: pd.Series
    evaluation: pd.Series
    writer: str


@dataclass(frozen=True)
class TrainingSets:
    """Queries that each encoder is trained on.

    Attributes:
        queries: {model: columns query, persona, text}; no set is empty.
        fold: of each training query, 0 or 1; `half_0` is trained on the queries outside fold 0.
        sizes: of the nested samples, ascending; their models are `first_<size>`.
    """

    queries: dict[str, pd.DataFrame]
    fold: np.ndarray
    sizes: list[int]

    @property
    def twin(self) -> str:
        """The model that is trained on the queries of `permuted` with their true labels."""
        return _twin(self.sizes)


def _twin(sizes: Sequence[int]) -> str:
    return f"first_{sizes[-1]}" if sizes else "finetuned"


def thoughts(cot: pd.DataFrame, evaluation: pd.DataFrame) -> Thoughts:
    """CoT for training and evaluation, for evaluation by the writer that also wrote for training, where it wrote for
    both.

    Args:
        cot: columns query, split, writer, text.
        evaluation: column query.
    """
    written = cot[cot["split"] == "training"].drop_duplicates("query")
    ours = cot[(cot["split"] == "evaluation") & cot["query"].isin(evaluation["query"])]
    preferred = (*written["writer"].unique(), "cot_distilled", "cot")
    writer = next((name for name in preferred if (ours["writer"] == name).any()), "")
    ours = ours[ours["writer"] == writer]
    return Thoughts(written.set_index("query")["text"], ours.set_index("query")["text"], writer)


def training_sets(
    training: pd.DataFrame, is_unseen: pd.Series, cots: pd.Series, sizes: Sequence[int], seed: int
) -> TrainingSets:
    """The training queries dealt to the models.

    `finetuned` gets all; `half_0` and `half_1` those of half of the personas each; `first_<size>` a nested sample;
    `finetuned_unseen_needs` those of other needs than the held-out ones; `finetuned_cot` those of them that have a CoT,
    with it appended, and `finetuned_subset` the same without it; `permuted` those of the largest nested sample.

    Args:
        training: columns query, persona, text.
        is_unseen: whether each asks about a held-out need.
        cots: CoT by query.
        sizes: of the nested samples; one of half of the queries or more is left out.
    """
    fold = folds_of(training["persona"], 2, seed)
    sizes = [size for size in sorted(set(sizes)) if size < len(training) / 2]
    with_cot = training[training["query"].isin(cots.index) & ~is_unseen]
    queries = {"finetuned": training, "half_0": training[fold != 0], "half_1": training[fold != 1]}
    queries |= {f"first_{size}": nested_sample(training, size, "persona", seed) for size in sizes}
    queries["finetuned_unseen_needs"] = training[~is_unseen]
    queries["finetuned_subset"] = with_cot
    queries["finetuned_cot"] = with_cot.assign(text=augment(with_cot["text"], cots[with_cot["query"]]))
    queries["permuted"] = queries[_twin(sizes)]
    return TrainingSets({name: part for name, part in queries.items() if len(part)}, fold, sizes)


def evaluation_sets(
    sets: TrainingSets, queries: pd.DataFrame, is_unseen: np.ndarray, cots: pd.Series
) -> dict[str, pd.DataFrame]:
    """The evaluation queries that each trained model is asked by itself, without empty ones.

    `finetuned` is not among them: its embeddings of all evaluation queries are kept and ranked.

    Args:
        queries: columns query, persona, text.
        is_unseen: whether each asks about a held-out need.
        cots: CoT by query.
    """
    with_cot = queries[queries["query"].isin(cots.index)]
    asked = {name: queries for name in sets.queries if name.startswith(("half_0", "first_", "permuted"))}
    asked["finetuned_unseen_needs"] = queries[is_unseen]
    asked["finetuned_subset"] = with_cot
    asked["finetuned_cot"] = with_cot.assign(text=augment(with_cot["text"], cots[with_cot["query"]]))
    return {name: part for name, part in asked.items() if name in sets.queries and len(part)}


def embedded_personas(training: pd.DataFrame, fold: np.ndarray, evaluation: pd.DataFrame) -> dict[str, set[str]]:
    """The personas whose queries and items each model embeds for later notebooks: none that it was trained on.

    Args:
        training, evaluation: column persona.
        fold: of each training query.
    """
    halves = {f"half_{n}": set(training["persona"][fold == n]) for n in (0, 1)}
    return {"finetuned": set(evaluation["persona"]), **halves}
