"""A cosine fine-tuned on training queries, cross-fitted so that a ranker learns how far to trust it.

An encoder that has met a need finds its items better than one that has not. A ranker that learns from cosines of
encoders that met every training need learns to trust them further than a need that nobody trained on deserves. So the
cosines of training queries come from maps (`lib.retrieval.adapter`) that saw neither the query's persona nor its need.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from lib.assistant.controls import permute_labels
from lib.assistant.ranker_ablation import TWO_SEEING, folds_of_pairs
from lib.evaluation.comparison import compare, per_query_scores
from lib.evaluation.inference import Resampling
from lib.retrieval.adapter import Adapting, adapted_cosines, fit_adapter
from lib.retrieval.finetune import folds_of
from lib.retrieval.stores import rank_pairs

if TYPE_CHECKING:
    from lib.assistant.ranking_task import RankingTask
    from lib.assistant.second_stage import FittedSecond, TwoStages

COSINE = "adapted"
COLUMNS = (COSINE, f"{COSINE}_rank")
ROWS = (
    "training queries, persona and need new",
    "evaluation queries, needs known",
    "evaluation queries, needs unseen",
    "evaluation queries, the cosine shuffled",
    "the cosine alone, needs known",
    "the cosine alone, needs unseen",
)


@dataclass(frozen=True)
class AdaptedCosines:
    """Cosines of all pairs.

    Attributes:
        known: of evaluation queries by a map that learned from all training queries; of training queries by maps that
            learned neither from half of the personas, theirs among them, nor from two folds of needs, theirs among
            them.
        without: {fold of needs: the same where nothing learned from a need of that fold}; zero for training queries
            about them.
    """

    known: np.ndarray
    without: Mapping[int, np.ndarray]

    def unseen(self, task: RankingTask) -> np.ndarray:
        """Of evaluation queries by maps that learned from other folds' needs alone; zero for training queries."""
        fold = folds_of_pairs(task)
        values = np.zeros(len(self.known))
        for number, cosines in self.without.items():
            here = task.evaluation & (fold == number)
            values[here] = cosines[here]
        return values


def cross_fitted(task: RankingTask, vectors: Mapping[str, np.ndarray]) -> AdaptedCosines:
    """The cosines of all pairs after maps that were learned on parts of the training queries.

    Args:
        vectors: unit-length embeddings of items and queries, in frame order.
    """
    settings = Adapting(seed=task.learning.seed)
    fold, half = folds_of_pairs(task), folds_of(pd.Series(task.persona), 2, task.learning.seed)
    arrays = vectors["queries"], vectors["items"]

    def cosines(learned: np.ndarray, asked: np.ndarray) -> np.ndarray:
        lessons = task.pairs[learned], task.relevant[learned], task.persona[learned]
        return adapted_cosines(task.pairs[asked], *arrays, fit_adapter(*lessons, *arrays, settings))

    numbers = [int(number) for number in np.unique(fold)]
    known = np.zeros(len(task.pairs))
    known[task.evaluation] = cosines(task.training, task.evaluation)
    without = {number: np.zeros(len(task.pairs)) for number in numbers}
    for number in numbers:
        asked = task.evaluation & (fold == number)
        without[number][asked] = cosines(task.training & (fold != number), asked)
    for place, one in enumerate(numbers):
        for two in numbers[place:] if len(numbers) == 1 else numbers[place + 1 :]:
            for side in (0, 1):
                mine, others = task.training & (half == side), task.training & (half != side)
                asked = mine & np.isin(fold, (one, two))
                values = np.zeros(len(task.pairs))
                values[asked] = cosines(others & ~np.isin(fold, (one, two)), asked)
                for left_out, own in ((one, two), (two, one)):
                    here = mine & (fold == own)
                    if own != left_out:
                        without[left_out][here] = values[here]
                    known[here] = values[here]  # of several maps without the query's need the last
    return AdaptedCosines(known, without)


def seeing(two: TwoStages, cosines: np.ndarray) -> TwoStages:
    """Both stages, the second of which also sees some cosines; the first's scores stay what they are."""
    task = two.task.with_text_scores(COSINE, cosines)
    return replace(two, task=task, columns=[*two.columns, *COLUMNS])


def scores_seeing(two: TwoStages, plain: FittedSecond, first: np.ndarray, cosines: np.ndarray) -> np.ndarray:
    """The score of each pair by a second stage that sees the cosines, of training queries out of fold by persona.

    Args:
        plain: the second stage without them, whose setting is taken.
        first: the first stage's score of each pair, of training pairs out of fold.
    """
    richer, setting = seeing(two, cosines), plain.choice.setting
    scores = richer.predict(richer.learn(first, setting), first)
    scores[two.task.training] = richer.cross_fit(first, setting)
    return scores


def evaluation_shuffled(two: TwoStages, plain: FittedSecond, first: np.ndarray, cosines: np.ndarray) -> pd.DataFrame:
    """The ranking of evaluation queries where the cosines were dealt anew among each query's candidates, in training,
    too."""
    task = two.task
    dealt = permute_labels(task.pairs, cosines, np.random.default_rng([task.learning.seed, 500]))
    richer = seeing(two, dealt)
    return task.rank_by(richer.predict(richer.learn(first, plain.choice.setting), first))


def what_it_adds(
    two: TwoStages,
    plain: FittedSecond,
    scores: np.ndarray,
    shuffled: pd.DataFrame,
    fresh: Mapping[str, pd.DataFrame],
    adapted: AdaptedCosines,
) -> pd.DataFrame:
    """What the cosines add to the second stage's recall at the first cutoff, and to search by the cosine alone.

    Args:
        plain, scores: the second stage without them, and what the one that sees them says of each pair.
        shuffled: from `evaluation_shuffled`.
        fresh: from `lib.assistant.ranker_ablation.without_their_needs`, with both stages of `seeing`.

    Returns:
        columns queries, n, without, with, difference, ci_low, ci_high, one row for each of `ROWS`; of the cosine alone
        `without` is that of the pretrained encoder.
    """
    task = two.task
    known, pretrained = task.rank_by(plain.scores), task.rank_by(task.text["semantic"])
    lessons = task.pairs[task.training]
    runs = (
        (rank_pairs(lessons, plain.choice.training), rank_pairs(lessons, scores[task.training])),
        (known, task.rank_by(scores)),
        (fresh["lambdamart_2"], fresh[TWO_SEEING]),
        (known, shuffled),
        (pretrained, task.rank_by(adapted.known)),
        (pretrained, task.rank_by(adapted.unseen(task))),
    )
    return pd.DataFrame([_gain(task, name, *pair) for name, pair in zip(ROWS, runs, strict=True)])


def _gain(task: RankingTask, name: str, without: pd.DataFrame, richer: pd.DataFrame) -> dict:
    k = task.learning.cutoffs[0]
    queries = without["query"].unique().tolist()
    scores = per_query_scores({"without": without, "with": richer}, task.qrels, queries, [k])
    clusters = [
        frame.set_index("query")[column].loc[queries].to_numpy()
        for frame, column in ((task.queries, "persona"), (task.gold, "need"))
    ]
    test = compare(scores, [("with", "without")], "recall", k, Resampling(clusters, 0, task.learning.seed)).iloc[0]
    means = {side: scores[side, "recall", k].mean() for side in ("without", "with")}
    return {"queries": name, "n": len(queries), **means} | test[["difference", "ci_low", "ci_high"]].to_dict()
