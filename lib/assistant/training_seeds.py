"""How much of a trained method's result is the seed of its training? The trained methods of context retrieval, each
with the workbook's seed and with further ones, on the same evaluation queries.

The models of text search with further seeds are notebook 04's (`lib.assistant.retrained`); rankers are trained here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from lib.assistant import rrf_readings
from lib.assistant.adapted_cosine import learned_again
from lib.assistant.ranker_ablation import FINETUNED, TWO_CROSS_FITTED, WITH_FINETUNED
from lib.assistant.ranking_task import RankingTask
from lib.assistant.second_stage import Setting, TwoStages
from lib.evaluation import over_seeds as seeds
from lib.evaluation.inference import Resampling
from lib.evaluation.over_seeds import SEEDS
from lib.retrieval.fusion import Fusion
from lib.retrieval.stores import rank_pairs

if TYPE_CHECKING:
    from lib.assistant.retrained_cosines import EncoderCosines

LAMBDAMART, RRF, OURS = "lambdamart", "lambdamart_rrf", "lambdamart_2"
METHODS = (
    "cot_distilled",
    "finetuned",
    "finetuned_cot",
    "cross_encoder",
    "late_interaction",
    LAMBDAMART,
    RRF,
    OURS,
    TWO_CROSS_FITTED,
    WITH_FINETUNED,
)
PAIRS = (  # whose difference is shown: a minus b
    (RRF, LAMBDAMART),
    (OURS, LAMBDAMART),
    (OURS, RRF),
    (TWO_CROSS_FITTED, OURS),
    (TWO_CROSS_FITTED, "finetuned"),
    (WITH_FINETUNED, OURS),
    (WITH_FINETUNED, "finetuned"),
    ("finetuned", OURS),
    ("finetuned", LAMBDAMART),
    ("finetuned", "late_interaction"),
    ("finetuned", "finetuned_cot"),
    ("finetuned_cot", "cot_distilled"),
    ("late_interaction", "cross_encoder"),
)


def rankers(
    two: TwoStages,
    setting: Setting,
    fusion: Fusion,
    vectors: Mapping[str, np.ndarray],
    encoders: EncoderCosines,
) -> dict[str, pd.DataFrame]:
    """{`<method>/<seed>`: ranking of the evaluation queries} of all rankers with further seeds, counted from 1. The
    maps behind the second stage's fine-tuned cosine are learned with its seed.

    Args:
        setting: of the second stage, as it was chosen with the workbook's seed.
        fusion: of LambdaMART-RRF, likewise.
        vectors: unit-length embeddings of items and queries, in frame order.
        encoders: with further seeds; a ranker that sees a fine-tuned encoder has no further seeds where these are
            missing. What the second stage learns from is cross-fitted by need and always of the workbook's seed: so
            many encoders have no further ones. It is asked with those of the further seed.
    """
    task, found = two.task, {}
    for number in range(1, SEEDS + 1):
        seeded = replace(task, learning=replace(task.learning, seed=task.learning.seed + number))
        ranked = seeded.rankings(seeded.learn().predict(task.features[task.evaluation]), task.evaluation)
        names = rrf_readings.needed(fusion.rankings)
        ranked |= rrf_readings.rank_without(seeded, names, task.training, task.evaluation)
        found[f"{LAMBDAMART}/{number}"] = ranked[rrf_readings.WHOLE]
        found[f"{RRF}/{number}"] = fusion.of(ranked)
        again = learned_again(replace(two, task=seeded, folds=task.learning.folds), setting, vectors)
        first = again.first_without(task.training, task.evaluation)
        found[f"{OURS}/{number}"] = _by_second(again, first, setting)
        if number in encoders.seeds:
            cosine = encoders.seeds[number]
            seeing = seeded.with_text_scores(FINETUNED, cosine)
            found[f"{WITH_FINETUNED}/{number}"] = seeing.rank(seeing.learn())
            if encoders.cross_fitted is not None:
                stages = again.seeing(np.where(task.evaluation, cosine, encoders.cross_fitted))
                found[f"{TWO_CROSS_FITTED}/{number}"] = _by_second(stages, first, setting._replace(adapted=True))
    return found


def _by_second(two: TwoStages, first: np.ndarray, setting: Setting) -> pd.DataFrame:
    """The evaluation queries ranked by a second stage that is learned upon the first's scores."""
    task = two.task
    return rank_pairs(task.pairs[task.evaluation], two.second_without(first, setting, task.training, task.evaluation))


def over_seeds(
    own: pd.DataFrame,
    further: pd.DataFrame,
    resampling: Resampling,
    k: int,
    methods: Sequence[str] = METHODS,
    pairs: Sequence[tuple[str, str]] = PAIRS,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Recall at k of each method over its seeds, and differences of two (`lib.evaluation.over_seeds`).

    Args:
        own: per-query scores with the workbook's seed, columns (method, metric, k).
        further: the same of the rankings with further seeds, by their names.
        resampling: of these queries.
        methods: those that have scores of both, on all queries, are taken.
        pairs: whose difference is wanted: a minus b.
    """
    columns = {
        method: [own[method, "recall", k], *(further[name, "recall", k] for name in _of(method, further))]
        for method in methods
        if (method, "recall", k) in own.columns and own[method, "recall", k].notna().all() and _of(method, further)
    }
    return seeds.over_seeds({name: np.column_stack(each) for name, each in columns.items()}, pairs, resampling)


def _of(method: str, further: pd.DataFrame) -> list[str]:
    names = further.columns.get_level_values("method").unique()
    return sorted(name for name in names if name.rpartition("/")[0] == method)


def further_scores(
    task: RankingTask, text: Mapping[str, pd.DataFrame], learned: Mapping[str, pd.DataFrame], queries: Sequence[str]
) -> pd.DataFrame:
    """Per-query scores of all rankings with further seeds.

    Args:
        text: of text search (`lib.assistant.retrained.of_other_seeds`).
        learned: of `rankers`.
        queries: in the order that is wanted.
    """
    return task.score({**text, **learned}).loc[list(queries)]
