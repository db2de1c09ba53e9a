"""A cosine fine-tuned on training queries, cross-fitted so that a ranker learns how far to trust it.

An encoder that has met a need finds its items better than one that has not. A ranker that learns from cosines of
encoders that met every training need learns to trust them further than a need that nobody trained on deserves. So the
cosines of training queries come from maps (`lib.retrieval.adapter`) that saw neither the query's persona nor its need.
Our own ranker (`lib.assistant.second_stage`) sees them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from lib.assistant.ranker_ablation import folds_of_pairs
from lib.retrieval.adapter import Adapting, adapted_cosines, fit_adapter
from lib.retrieval.finetune import folds_of

if TYPE_CHECKING:
    from lib.assistant.ranking_task import RankingTask

ENOUGH = 4  # personas to learn from: both stages are not learned from fewer, either


@dataclass(frozen=True)
class AdaptedCosines:
    """Cosines of pairs after maps that were learned on parts of the training queries. A map is learned when it is asked
    for.

    Where there are fewer than `ENOUGH` training personas, nothing is learned: all cosines are 0, and the map is the
    identity.

    Attributes:
        task: the pairs.
        vectors: unit-length embeddings of items and queries, in frame order.
    """

    task: RankingTask
    vectors: Mapping[str, np.ndarray]

    @cached_property
    def adapter(self) -> np.ndarray:
        """The map that learned from all training queries, (dimensions, dimensions)."""
        return self._map(self.task.training)

    @cached_property
    def known(self) -> np.ndarray:
        """Of evaluation pairs by `adapter`; of training pairs by maps that learned neither from half of the personas,
        theirs among them, nor from two folds of needs, theirs among them."""
        values = self._cosines(self.adapter, self.task.evaluation)
        for number in self._numbers:
            others = [other for other in self._numbers if other != number] or [number]
            here = self.task.training & (self._fold == number)
            values[here] = self._of_halves(frozenset((number, others[-1])))[here]
        return values

    @cached_property
    def without(self) -> dict[int, np.ndarray]:
        """{fold of needs: the same where nothing learned from a need of that fold}: of evaluation pairs about its
        needs, and of training pairs about others'; of all others 0."""
        found = {}
        for number in self._numbers:
            about = self._fold == number
            values = self._cosines(self._map(self.task.training & ~about), self.task.evaluation & about)
            for other in self._numbers:
                here = self.task.training & (self._fold == other)
                if other != number:
                    values[here] = self._of_halves(frozenset((number, other)))[here]
            found[number] = values
        return found

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
        return len(set(self.task.persona[self.task.training])) >= ENOUGH

    @cached_property
    def _of_halves(self) -> Callable[[frozenset[int]], np.ndarray]:
        """The cosines of training pairs about some folds' needs, by two maps that learned from the other half of the
        personas and from other needs; of all others 0. Of each set of folds they are computed once."""
        half = folds_of(pd.Series(self.task.persona), 2, self.task.learning.seed)

        def cosines(folds: frozenset[int]) -> np.ndarray:
            about = np.isin(self._fold, list(folds))
            values = np.zeros(len(half))
            for side in (0, 1):
                mine, others = self.task.training & (half == side), self.task.training & (half != side)
                values += self._cosines(self._map(others & ~about), mine & about)
            return values

        return cache(cosines)

    def _map(self, learned: np.ndarray) -> np.ndarray:
        """That of some pairs."""
        task, learned = self.task, learned & self._enough
        lessons = task.pairs[learned], task.relevant[learned], task.persona[learned]
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
