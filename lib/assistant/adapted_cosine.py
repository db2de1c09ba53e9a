"""A cosine fine-tuned on training queries, cross-fitted so that a ranker learns how far to trust it.

An encoder that has met a need finds its items better than one that has not. A ranker that learns from cosines of
encoders that met every training need learns to trust them further than a need that nobody trained on deserves. So the
cosines of training queries come from maps (`lib.retrieval.adapter`) that saw neither the query's persona nor its need.
Our own ranker (`lib.assistant.second_stage`) sees them, where that is better on training queries.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from lib.assistant.ranker_ablation import folds_of_pairs
from lib.evaluation.comparison import compare, per_query_scores
from lib.evaluation.inference import holm_adjust
from lib.retrieval.adapter import Adapting, adapted_cosines, fit_adapter
from lib.retrieval.finetune import folds_of
from lib.retrieval.stores import rank_pairs

if TYPE_CHECKING:
    from lib.assistant.ranking_task import RankingTask
    from lib.assistant.second_stage import Setting, TwoStages

ENOUGH = 4  # personas to learn from: both stages are not learned from fewer, either
ROWS = (
    "training queries, persona and need new",
    "evaluation queries, needs known",
    "evaluation queries, needs unseen",
    "evaluation queries, the cosine shuffled",
    "the cosine alone, needs known",
    "the cosine alone, needs unseen",
)
OF_ENCODERS = (  # with the cosine of fine-tuned encoders in its place
    "an encoder's cosine, needs known",
    "an encoder's cosine, needs unseen",
    "an encoder's cosine, shuffled",
)


@dataclass(frozen=True)
class AdaptedCosines:
    """Cosines of pairs after maps that were learned on parts of what may be learned from. A map is learned when it is
    asked for.

    Where fewer than `ENOUGH` personas may be learned from, nothing is: all cosines are 0, and the map is the identity.

    Attributes:
        task: the pairs.
        vectors: unit-length embeddings of items and queries, in frame order.
        labels: one bool a pair.
        learned, asked: which pairs may be learned from, and which are asked about besides; bools, one a pair, no
            persona in both.
    """

    task: RankingTask
    vectors: Mapping[str, np.ndarray]
    labels: np.ndarray
    learned: np.ndarray
    asked: np.ndarray

    @cached_property
    def adapter(self) -> np.ndarray:
        """The map that learned from all that may be learned from, (dimensions, dimensions)."""
        return self._map(self.learned)

    @property
    def asked_about(self) -> np.ndarray:
        """Of pairs that are asked about by `adapter`; of all others 0."""
        return self._cosines(self.adapter, self.asked)

    @cached_property
    def known(self) -> np.ndarray:
        """`asked_about`; of pairs that are learned from, cosines by maps that learned neither from half of the
        personas, theirs among them, nor from two folds of needs, theirs among them; of all others 0."""
        values = self.asked_about
        for number in self._numbers:
            others = [other for other in self._numbers if other != number] or [number]
            here = self.learned & (self._fold == number)
            values[here] = self._of_halves(frozenset((number, others[-1])))[here]
        return values

    @cached_property
    def without(self) -> dict[int, np.ndarray]:
        """{fold of needs: the same where nothing learned from a need of that fold}: of the asked pairs about its needs,
        and of learned pairs about others'; of all others 0."""
        found = {}
        for number in self._numbers:
            about = self._fold == number
            values = self._cosines(self._map(self.learned & ~about), self.asked & about)
            for other in self._numbers:
                here = self.learned & (self._fold == other)
                if other != number:
                    values[here] = self._of_halves(frozenset((number, other)))[here]
            found[number] = values
        return found

    @cached_property
    def unseen(self) -> np.ndarray:
        """Of asked pairs by maps that learned from other folds' needs alone; of others 0."""
        values = np.zeros(len(self.asked))
        for number, cosines in self.without.items():
            here = self.asked & (self._fold == number)
            values[here] = cosines[here]
        return values

    # ---- the maps

    @cached_property
    def _fold(self) -> np.ndarray:
        """The fold of needs of each pair."""
        return folds_of_pairs(self.task)

    @cached_property
    def _numbers(self) -> list[int]:
        """The folds of needs."""
        return [int(number) for number in np.unique(self._fold)]

    @cached_property
    def _enough(self) -> bool:
        """Whether anything is learned."""
        return len(set(self.task.persona[self.learned])) >= ENOUGH

    @cached_property
    def _of_halves(self) -> Callable[[frozenset[int]], np.ndarray]:
        """The cosines of learned pairs about some folds' needs, by two maps that learned from the other half of the
        personas and from other needs; of all others 0. Of each set of folds they are computed once."""
        half = folds_of(pd.Series(self.task.persona), 2, self.task.learning.seed)

        def cosines(folds: frozenset[int]) -> np.ndarray:
            about = np.isin(self._fold, list(folds))
            values = np.zeros(len(half))
            for side in (0, 1):
                mine, others = self.learned & (half == side), self.learned & (half != side)
                values += self._cosines(self._map(others & ~about), mine & about)
            return values

        return cache(cosines)

    def _map(self, learned: np.ndarray) -> np.ndarray:
        """That of some pairs."""
        task, learned = self.task, learned & self._enough
        lessons = task.pairs[learned], self.labels[learned], task.persona[learned]
        return fit_adapter(*lessons, *self._vectors, Adapting(seed=task.learning.seed))

    def _cosines(self, adapter: np.ndarray, asked: np.ndarray) -> np.ndarray:
        """Of some pairs after a map; of all others 0."""
        values = np.zeros(len(asked))
        if self._enough:
            values[asked] = adapted_cosines(self.task.pairs[asked], *self._vectors, adapter)
        return values

    @property
    def _vectors(self) -> tuple[np.ndarray, np.ndarray]:
        return self.vectors["queries"], self.vectors["items"]


def cross_fitted(
    task: RankingTask,
    vectors: Mapping[str, np.ndarray],
    labels: np.ndarray | None = None,
    learned: np.ndarray | None = None,
) -> AdaptedCosines:
    """The cosines of all pairs.

    Args:
        vectors: unit-length embeddings of items and queries, in frame order.
        labels: one bool a pair; None: what is relevant.
        learned: which pairs may be learned from, bools; all others are asked about. None: those of training queries.
    """
    labels, learned = task.relevant if labels is None else labels, task.training if learned is None else learned
    return AdaptedCosines(task, vectors, labels, learned, ~learned)


def learned_again(
    two: TwoStages, setting: Setting, vectors: Mapping[str, np.ndarray], labels: np.ndarray | None = None
) -> TwoStages:
    """Both stages with the cosines of maps that were learned from other labels, or with the seed of another task; as
    they are where the setting has none. See `cross_fitted`."""
    return two.seeing(cross_fitted(two.task, vectors, labels).known) if setting.adapted else two


def what_it_adds(
    task: RankingTask,
    settings: Mapping[str, Setting],
    scores: Mapping[str, np.ndarray],
    shuffled: pd.DataFrame,
    fresh: Mapping[str, pd.DataFrame],
    adapted: AdaptedCosines,
    encoders: Sequence[pd.DataFrame] = (),
) -> pd.DataFrame:
    """What the cosines add to the second stage's recall at the first cutoff, and to search by the cosine alone.

    Args:
        settings: of a second stage with the cosine and of one without, by name.
        scores: of each pair, of training queries out of fold, by these names.
        shuffled: from `lib.assistant.controls.evaluation_shuffled`.
        fresh: from `lib.assistant.ranker_ablation.without_their_needs`, of both.
        encoders: the rankings of `OF_ENCODERS`, or none.

    Returns:
        columns queries, n, without, with, difference, ci_low, ci_high, p_holm (over all rows), one row for each of
        `ROWS` and for each of `OF_ENCODERS` that there is; of the cosine alone `without` is that of the pretrained
        encoder.
    """
    without, richer = sorted(settings, key=lambda name: settings[name].adapted)
    known, pretrained = task.rank_by(scores[without]), task.rank_by(task.text["semantic"])
    lessons = task.pairs[task.training]
    pairs = (
        (rank_pairs(lessons, scores[without][task.training]), rank_pairs(lessons, scores[richer][task.training])),
        (known, task.rank_by(scores[richer])),
        (fresh[without], fresh[richer]),
        (known, shuffled),
        (pretrained, task.rank_by(adapted.known)),
        (pretrained, task.rank_by(adapted.unseen)),
    )
    runs = dict(zip(ROWS, pairs, strict=True))
    if encoders:
        beside = (known, fresh[without], known)
        runs |= dict(zip(OF_ENCODERS, zip(beside, encoders, strict=True), strict=True))
    gains = pd.DataFrame([_gain(task, name, *pair) for name, pair in runs.items()])
    return gains.assign(p_holm=holm_adjust(gains.pop("p_value")))


def _gain(task: RankingTask, name: str, without: pd.DataFrame, richer: pd.DataFrame) -> dict:
    k = task.learning.cutoffs[0]
    queries = without["query"].unique().tolist()
    scores = per_query_scores({"without": without, "with": richer}, task.qrels, queries, [k])
    test = compare(scores, [("with", "without")], "recall", k, task.resampling_of(queries)).iloc[0]
    means = {side: scores[side, "recall", k].mean() for side in ("without", "with")}
    return {"queries": name, "n": len(queries), **means} | test[
        ["difference", "ci_low", "ci_high", "p_value"]
    ].to_dict()
