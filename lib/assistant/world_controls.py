"""The negative controls of LambdaMART (`lib.assistant.controls`) in any world."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from lib.assistant.context_scores import EvaluationQueries, RankerScores, score_methods
from lib.assistant.controls import negative_controls, recall_of_draws, weigh_controls
from lib.assistant.ranker_ablation import without_usage
from lib.assistant.ranking_task import Learning, RankingTask


def controls_in(
    world: Mapping[str, pd.DataFrame], vectors: Mapping[str, np.ndarray], learning: Learning, draws: int
) -> pd.DataFrame:
    """A LambdaMART learned in a world, and its controls there.

    Args:
        world: frames items, opens, queries, gold.
        vectors: unit-length embeddings of items and queries, in frame order.
        draws: see `lib.assistant.controls.negative_controls`.

    Returns:
        as `lib.assistant.controls.weigh_controls`, at the first cutoff, with columns lambdamart (its own recall) and n
        (queries).
    """
    task = RankingTask.of_world(world, vectors, learning)
    ranker = task.learn()
    asked = EvaluationQueries.of_world(task.queries, task.gold, ())
    candidates = task.pairs.groupby("query").size()[asked.names]
    resampling = asked.resampling(0, learning.seed)
    own = {"lambdamart": task.rank(ranker)}
    scored = score_methods(asked, own, {}, candidates, task.qrels, learning.cutoffs, resampling)
    references = task.score({"lambdamart_no_usage": without_usage(task)})
    rankers = RankerScores.beside_methods(scored, ["lambdamart", "random"], references)
    drawn = negative_controls(task, ranker, draws)
    weighed = weigh_controls(recall_of_draws(task, drawn, learning.cutoffs[0]), rankers)
    return weighed.assign(
        lambdamart=[rankers.recall("lambdamart", kind) for kind in weighed["queries"]],
        n=[int(asked.of_kind(kind).sum()) for kind in weighed["queries"]],
    )
