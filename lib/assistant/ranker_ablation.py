"""LambdaMART's ranking of context by rankers that see less, or that learn on fewer needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from lib.assistant.queries import folds_of_needs
from lib.assistant.rrf_readings import needed, rank_without
from lib.retrieval.stores import rank_pairs

if TYPE_CHECKING:
    from lib.assistant.ranking_task import RankingTask
    from lib.assistant.retrained_cosines import EncoderCosines
    from lib.assistant.second_stage import TwoStages

TEXT_ALONE = "text alone"
QUERY_UNSEEN = "items alone (query unseen)"
TWO_CROSS_FITTED = "lambdamart_2_finetuned"  # our two stages with the cosine of a fine-tuned encoder


def without_usage(task: RankingTask) -> pd.DataFrame:
    """The ranking of a LambdaMART without the features of the usage log, numerical and habitual."""
    return task.rank(task.learn(task.groups["categorical"] + task.groups["text"]))


def reduced_rankers(task: RankingTask) -> dict[str, pd.DataFrame]:
    """Rankings of rankers that see less: without each group of features (`without <group>`), `TEXT_ALONE` and
    `QUERY_UNSEEN`."""
    columns = {f"without {group}": task.columns_without(group) for group in task.groups}
    columns |= {TEXT_ALONE: task.groups["text"], QUERY_UNSEEN: [*task.groups["numerical"], "app"]}
    return {name: task.rank(task.learn(seen)) for name, seen in columns.items()}


def folds_of_pairs(task: RankingTask) -> np.ndarray:
    """The fold of the need (see `folds_of_needs`) that each pair's query asks about."""
    need = task.pairs["query"].map(task.gold.set_index("query")["need"])
    return need.map(folds_of_needs(need, task.held_out_needs, task.learning.seed)).to_numpy()


def new_needs(task: RankingTask) -> dict[int, tuple[np.ndarray, np.ndarray]]:
    """{fold of needs that is asked about: the pairs to learn from, of training queries about other folds', and the
    evaluation pairs asked about}, bools."""
    fold = folds_of_pairs(task)
    return {
        int(number): (task.training & (fold != number), task.evaluation & (fold == number))
        for number in np.unique(fold[task.evaluation])
    }


def without_their_needs(
    two: TwoStages, cosines: Mapping[int, np.ndarray], fused: Sequence[str] = ()
) -> dict[str, pd.DataFrame]:
    """The rankings of all evaluation queries (see `RankingTask.rankings`, and lambdamart_2) by a LambdaMART, a second
    stage upon it and the rankers behind the fused rankings, that no training query told of the needs in the query's
    fold.

    Args:
        cosines: {fold: fine-tuned cosines of all pairs, by what learned nothing of that fold's needs}.
        fused: names of rankings.
    """
    task, parts = two.task, []
    for number, (learned, asked) in new_needs(task).items():
        first = two.first_on_new_needs[number]
        ranked = task.rankings(first[asked], asked) | rank_without(task, needed(fused), learned, asked)
        second = two.seeing(cosines[number]).second_without(first, learned, asked)
        parts.append(ranked | {"lambdamart_2": rank_pairs(task.pairs[asked], second)})
    return {name: pd.concat([part[name] for part in parts], ignore_index=True) for name in parts[0]}


def with_encoder(two: TwoStages, first: np.ndarray, cosines: EncoderCosines) -> dict[str, pd.DataFrame]:
    """The ranking by a second stage that sees the cosine of fine-tuned encoders in the adapted one's place, which
    training queries have from encoders that met neither their persona nor their need; none where there are no such
    cosines.

    Args:
        first: the first stage's score of each pair, of training pairs out of fold.
    """
    if cosines.cross_fitted is None:
        return {}
    return {TWO_CROSS_FITTED: two.task.rank_by(two.seeing(cosines.cross_fitted).fit(first).scores)}


def encoder_without_their_needs(two: TwoStages, cosines: EncoderCosines) -> dict[str, pd.DataFrame]:
    """The same where neither the rankers nor an encoder behind them learned from the needs in the query's fold."""
    if not cosines.cross_fitted_without:
        return {}
    return {TWO_CROSS_FITTED: without_their_needs(two, cosines.cross_fitted_without)["lambdamart_2"]}
