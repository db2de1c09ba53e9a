"""Ranking the context of every query: the candidates, what a ranker sees of them, LambdaMART, and what RRF fuses.

The paper ranks with LambdaMART and re-ranks by RRF; it does not say which rankings are fused. Here one LambdaMART of
all stores and one a store (each learns from its own store's items) give rankings that differ, fused with each other,
with text rankings or without, weighted or not. A store holds one context type here (`lib.assistant.schemas.APP_NAMES`),
so that one LambdaMART a context type is one a store.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, product

import numpy as np
import pandas as pd

from lib.assistant.queries import folds_of_needs, held_out_needs, qrels_of
from lib.assistant.signals import CATEGORICAL, signals
from lib.retrieval.fusion import Fusion, rank_per_store
from lib.retrieval.lambdamart import LambdaMART, out_of_fold, train
from lib.retrieval.stores import (
    bm25t_scores,
    candidate_pairs,
    cosine_of_pairs,
    folds_of,
    rank_pairs,
    relevant_pairs_mask,
)

WHOLE = "lambdamart"  # the ranking by one LambdaMART of all stores
STORES = "lambdamart store by store"  # ranks start anew in each store
READINGS = ((WHOLE,), (STORES,), (WHOLE, STORES))
WEIGHTS = (2.0, 4.0)  # of LambdaMART's ranking, or of the one of all stores beside others; the rest weigh 1
CONSTANTS = (1, 5, 20, 60)  # of rank fusion
STORE_FOLDS = 3  # at most: there are many rankers


@dataclass(frozen=True)
class RankingTask:
    """Every query with every item of its persona: a row a pair in `pairs`, in `features` and in each array."""

    items: pd.DataFrame  # these four are the world's frames (see `lib.assistant.world.frames`)
    opens: pd.DataFrame
    queries: pd.DataFrame
    gold: pd.DataFrame
    pairs: pd.DataFrame  # the candidates, from `lib.retrieval.stores.candidate_pairs`
    text: Mapping[str, np.ndarray]  # text scores by name
    features: pd.DataFrame  # from `lib.assistant.signals.signals`
    cutoff: int  # the largest K of interest, which rankers are trained for
    seed: int  # of rankers and folds
    folds: int = 5  # of cross-fitting by persona
    threads: int = 1  # of training

    @classmethod
    def of_world(
        cls,
        world: Mapping[str, pd.DataFrame],
        vectors: Mapping[str, np.ndarray],
        cutoff: int,
        seed: int,
        folds: int = 5,
        threads: int = 1,
        bm25_b: float = 0.75,
    ) -> RankingTask:
        """The task with the text scores bm25t and semantic; `vectors` are unit-length embeddings of items and queries,
        in frame order."""
        items, opens, queries, gold = (world[name] for name in ("items", "opens", "queries", "gold"))
        pairs = candidate_pairs(queries, items, on="persona")
        text = {
            "bm25t": bm25t_scores(pairs, queries, items, within=["persona"], b=bm25_b),
            "semantic": cosine_of_pairs(pairs, vectors["queries"], vectors["items"]),
        }
        features = signals(pairs, queries, items, opens, text)
        return cls(items, opens, queries, gold, pairs, text, features, cutoff, seed, folds, threads)

    # ---- the data

    @cached_property
    def qrels(self) -> pd.DataFrame:
        """Columns query, item: one row a relevant pair."""
        return qrels_of(self.gold)

    @cached_property
    def relevant(self) -> np.ndarray:
        """Whether each pair is relevant."""
        return relevant_pairs_mask(self.pairs, self.qrels)

    @property
    def persona(self) -> np.ndarray:
        """The persona of each pair."""
        return self.pairs["persona"].to_numpy()

    @cached_property
    def store(self) -> np.ndarray:
        """The store (app) of each pair's item."""
        return self.items["app"].to_numpy()[self.pairs["item_row"]]

    @cached_property
    def training(self) -> np.ndarray:
        """Whether each pair is of a training query."""
        return (self.queries["split"] == "training").to_numpy()[self.pairs["query_row"]]

    @property
    def evaluation(self) -> np.ndarray:
        """Whether each pair is of an evaluation query."""
        return ~self.training

    @cached_property
    def topic_fold(self) -> np.ndarray:
        """The fold of the topic (see `lib.assistant.queries.folds_of_needs`) that each pair's query asks about."""
        need = self.pairs["query"].map(self.gold.set_index("query")["need"])
        held_out = held_out_needs(self.gold["need"].unique(), self.seed)
        return need.map(folds_of_needs(need, held_out, self.seed)).to_numpy()

    @cached_property
    def new_topics(self) -> dict[int, tuple[np.ndarray, np.ndarray]]:
        """{fold of topics that is asked about: the training pairs of other folds, to learn from, and the evaluation
        pairs asked about}, bools."""
        return {
            int(number): (self.training & (self.topic_fold != number), self.evaluation & (self.topic_fold == number))
            for number in np.unique(self.topic_fold[self.evaluation])
        }

    def queries_of(self, split: str) -> list[str]:
        """The ids of the training or the evaluation queries."""
        return self.queries["query"][self.queries["split"] == split].tolist()

    # ---- learning and ranking

    def learn(
        self,
        rows: np.ndarray | None = None,
        features: pd.DataFrame | None = None,
        labels: np.ndarray | None = None,
        threads: int = 0,
    ) -> LambdaMART:
        """A ranker.

        Args:
            rows: the pairs it learns from, bools; None: those of the training queries.
            features: other ones than the task's, or some of them.
            labels: one bool a pair; None: what is relevant.
            threads: other than the task's.
        """
        pairs, seen, relevant, persona = self._lessons(self.training if rows is None else rows, features, labels)
        return train(pairs, seen, relevant, persona, CATEGORICAL, self.cutoff, self.seed, threads or self.threads)

    def cross_fit(self, rows: np.ndarray, features: pd.DataFrame | None = None, folds: int = 0) -> np.ndarray:
        """A score of some pairs (bools), each by a ranker that saw none of its persona's; 0 of all others.

        Args:
            features, folds: other ones than the task's.
        """
        scores = np.zeros(len(self.pairs))
        pairs, seen, relevant, persona = self._lessons(rows, features)
        scores[rows] = out_of_fold(
            pairs, seen, relevant, persona, CATEGORICAL, self.cutoff, self.seed, self.threads, folds or self.folds
        )
        return scores

    def _lessons(self, rows: np.ndarray, features: pd.DataFrame | None, labels: np.ndarray | None = None) -> tuple:
        features, labels = self.features if features is None else features, self.relevant if labels is None else labels
        return self.pairs[rows], features[rows], labels[rows], self.persona[rows]

    def fit(self, ranker: LambdaMART | None = None) -> tuple[LambdaMART, np.ndarray]:
        """A ranker of all features, and a score of every pair; those of training queries are out of fold by persona.

        Args:
            ranker: one that has learned from the training queries; None: learn one.
        """
        ranker = ranker or self.learn()
        return ranker, self.cross_fit(self.training) + self.predict(ranker, self.evaluation)

    def predict(self, ranker: LambdaMART, rows: np.ndarray, features: pd.DataFrame | None = None) -> np.ndarray:
        """A ranker's score of some pairs (bools), seen with other features where they are given; 0 of all others."""
        scores = np.zeros(len(self.pairs))
        if rows.any():
            scores[rows] = ranker.predict((self.features if features is None else features)[rows])
        return scores

    def rank(self, scores: np.ndarray, rows: np.ndarray | None = None) -> pd.DataFrame:
        """The ranking of some pairs (bools; None: of the evaluation queries) by a score of all pairs."""
        rows = self.evaluation if rows is None else rows
        return rank_pairs(self.pairs[rows], scores[rows])


# ---------------------------------------------------------------- one ranker a store


def store_rankers(task: RankingTask, rows: np.ndarray) -> dict[str, LambdaMART]:
    """A ranker a store, which learns from some of its pairs; a store that fewer than two personas teach has none.

    On the few pairs of a store, two threads take four times as long as one.
    """
    taught = {app: rows & (task.store == app) for app in sorted(set(task.store))}
    return {app: task.learn(here, threads=1) for app, here in taught.items() if len(set(task.persona[here])) > 1}


def predict_by_store(task: RankingTask, rankers: Mapping[str, LambdaMART], rows: np.ndarray) -> np.ndarray:
    """Scores of some pairs (bools) by their stores' rankers; 0 of all others, and where a store has none."""
    scores = np.zeros(len(rows))
    for app, ranker in rankers.items():
        scores += task.predict(ranker, rows & (task.store == app))
    return scores


def cross_fit_by_store(task: RankingTask, rows: np.ndarray) -> np.ndarray:
    """The same, each by rankers that saw none of its persona's, over `STORE_FOLDS` or the task's folds, whichever are
    fewer."""
    folds = min(task.folds, STORE_FOLDS)
    fold = np.full(len(rows), folds)
    fold[rows] = folds_of(pd.Series(task.persona[rows]), folds, task.seed + 1)
    scores = np.zeros(len(rows))
    for number in range(folds):
        scores += predict_by_store(task, store_rankers(task, rows & (fold != number)), fold == number)
    return scores


# ---------------------------------------------------------------- what is fused


def rankings_to_fuse(
    task: RankingTask, whole: np.ndarray, stores: np.ndarray, rows: np.ndarray
) -> dict[str, pd.DataFrame]:
    """Rankings of some pairs (bools) that may be fused, by name: by scores of all pairs by one ranker (`whole`), by one
    a store (`stores`), and by each text score."""
    by_store = task.rank(stores, rows)
    app = by_store["item"].map(task.items.set_index("item")["app"])
    by_text = {name: task.rank(scores, rows) for name, scores in task.text.items()}
    return {WHOLE: task.rank(whole, rows), STORES: rank_per_store(by_store, app), **by_text}


def fusions(texts: Sequence[str]) -> list[Fusion]:
    """The readings of LambdaMART-RRF that the paper's words allow: each of `READINGS` with every choice of text
    rankings, each of `CONSTANTS` and, where there is something to weigh, `WEIGHTS`."""
    found = []
    for lambdamarts, number in product(READINGS, range(len(texts) + 1)):
        for chosen in combinations(texts, number):
            names = (*lambdamarts, *chosen)
            weights: list[tuple[float, ...]] = [
                (),
                *((weight, *[1.0] * (len(names) - 1)) for weight in WEIGHTS if len(names) > 1),
            ]
            if names != (WHOLE,):  # one ranking a store is many, and can be fused by itself
                found += [Fusion(names, k, each) for each in weights for k in CONSTANTS]
    return found
