"""What a fine-tuned encoder's cosine promises a ranker of context, and what it keeps.

For training personas the cosine is of encoders that never saw them; but these had met all of the training needs. A
ranker that learns from such cosines learns to trust them further than a need that nobody trained on deserves.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pandas as pd

from lib.evaluation.comparison import compare, per_query_scores
from lib.evaluation.inference import Resampling
from lib.retrieval.stores import rank_pairs

if TYPE_CHECKING:
    from lib.assistant.ranking_task import Fitted, RankingTask
    from lib.assistant.second_stage import FittedSecond, TwoStages

COSINE = "finetuned"


def promised_and_kept(
    two: TwoStages, plain: FittedSecond, richer: RankingTask, fitted: Fitted, fresh: pd.DataFrame, strange: pd.DataFrame
) -> pd.DataFrame:
    """What the cosine adds to the second stage's recall, at the first cutoff.

    Args:
        two, plain: both stages without it.
        richer: the task with it (text score `COSINE`), of training queries by encoders that never saw the persona.
        fitted: the first stage that sees it.
        fresh: the ranking of the evaluation queries on held-out needs by two stages that learned without these needs
            and without the cosine.
        strange: columns query, item, score: the same pairs' cosines by an encoder that was trained without these needs;
            empty where there is none.

    Returns:
        columns queries, n, without, with, difference, ci_low, ci_high: of training queries out of fold by persona
        (all that a choice on training personas sees), of evaluation queries, whose needs were met in training, and of
        evaluation queries on needs that neither encoder nor ranker was shown.
    """
    task, setting, first = two.task, plain.choice.setting, fitted.scores
    seeing = replace(two, task=richer, columns=list(richer.features.columns))
    scores = seeing.predict(seeing.learn(first, setting), first)
    scores[task.training] = seeing.cross_fit(first, setting)
    sides = {
        "training queries, out of fold by persona": task.training,
        "evaluation queries, needs known": task.evaluation,
    }
    rows = [
        _gain(task, name, rank_pairs(task.pairs[rows], plain.scores[rows]), rank_pairs(task.pairs[rows], scores[rows]))
        for name, rows in sides.items()
    ]
    held = task.pairs["query"].map(task.gold.set_index("query")["need"]).isin(task.held_out_needs).to_numpy()
    asked = task.evaluation & held
    if len(strange) and asked.any():
        cosines = task.pairs[asked].merge(strange, on=["query", "item"], how="left")["score"].to_numpy()
        values = richer.text[COSINE].copy()
        values[asked] = cosines
        stranger = replace(seeing, task=richer.with_text_scores(COSINE, values))
        _, found = stranger.scores_without(setting, task.training & ~held, asked)
        fresh = fresh[fresh["query"].isin(task.pairs["query"][asked])]
        rows.append(_gain(task, "evaluation queries, needs unseen", fresh, rank_pairs(task.pairs[asked], found)))
    return pd.DataFrame(rows)


def _gain(task: RankingTask, name: str, without: pd.DataFrame, seeing: pd.DataFrame) -> dict:
    k = task.learning.cutoffs[0]
    queries = without["query"].unique().tolist()
    scores = per_query_scores({"without": without, "with": seeing}, task.qrels, queries, [k])
    clusters = [
        frame.set_index("query")[column].loc[queries].to_numpy()
        for frame, column in ((task.queries, "persona"), (task.gold, "need"))
    ]
    test = compare(scores, [("with", "without")], "recall", k, Resampling(clusters, 0, task.learning.seed)).iloc[0]
    means = {side: scores[side, "recall", k].mean() for side in ("without", "with")}
    return {"queries": name, "n": len(queries), **means} | test[["difference", "ci_low", "ci_high"]].to_dict()
