"""Ranking the context of every query: what a ranker sees of each candidate, on which queries it learns, and on which it
is tested.

One LambdaMART ranks all stores of a persona at once. Which rankings RRF fuses: `lib.assistant.rrf_readings`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pandas as pd

from lib.assistant.queries import held_out_needs
from lib.assistant.rrf_readings import WHOLE
from lib.assistant.signals import CATEGORICAL, feature_groups, signals
from lib.evaluation.comparison import per_query_scores
from lib.retrieval.fusion import Fusion, fuse_runs
from lib.retrieval.lambdamart import LambdaMART, out_of_fold, train
from lib.retrieval.stores import bm25t_scores, candidate_pairs, cosine_of_pairs, rank_pairs, relevant_pairs_mask

if TYPE_CHECKING:
    from lib.assistant.rrf_readings import FittedReadings

KEPT = 20  # results a query, for later notebooks


@dataclass(frozen=True)
class Learning:
    """How rankers are trained.

    Attributes:
        cutoffs: values of K; a ranker is trained for the largest.
        seed: of the ranker and of the folds.
        folds: of cross-fitting by persona.
        threads: of the training.
    """

    cutoffs: Sequence[int]
    seed: int
    folds: int
    threads: int = 1


class Fitted(NamedTuple):
    """A ranker, the rankings that may be fused, by name, and the score of every pair: those of its training queries are
    out of fold."""

    ranker: LambdaMART
    training: dict[str, pd.DataFrame]
    evaluation: dict[str, pd.DataFrame]
    scores: np.ndarray


@dataclass(frozen=True)
class RankingTask:
    """The candidates of all queries, with what is known of them.

    Attributes:
        items, opens, queries, gold: the world's frames (see `lib.assistant.world.frames`).
        pairs: the candidates, from `lib.retrieval.stores.candidate_pairs`; all that follows has one row a pair.
        text: text scores by name.
        features: from `lib.assistant.signals.signals`.
        learning: how rankers are trained.
    """

    items: pd.DataFrame
    opens: pd.DataFrame
    queries: pd.DataFrame
    gold: pd.DataFrame
    pairs: pd.DataFrame
    text: Mapping[str, np.ndarray]
    features: pd.DataFrame
    learning: Learning

    @classmethod
    def of_world(
        cls,
        world: Mapping[str, pd.DataFrame],
        vectors: Mapping[str, np.ndarray],
        learning: Learning,
        bm25_b: float = 0.75,
    ) -> RankingTask:
        """The task with the text scores bm25t and semantic.

        Args:
            world: frames items, opens, queries, gold.
            vectors: unit-length embeddings of items and queries, in frame order.
            bm25_b: BM25T's length normalisation.
        """
        items, opens, queries, gold = (world[name] for name in ("items", "opens", "queries", "gold"))
        pairs = candidate_pairs(queries, items, on="persona")
        text = {
            "bm25t": bm25t_scores(pairs, queries, items, within=["persona"], b=bm25_b),
            "semantic": cosine_of_pairs(pairs, vectors["queries"], vectors["items"]),
        }
        features = signals(pairs, queries, items, opens, text)
        return cls(items, opens, queries, gold, pairs, text, features, learning)

    # ---- the data

    @cached_property
    def qrels(self) -> pd.DataFrame:
        """Columns query, item: one row a relevant pair."""
        return self.gold[["query", "relevant"]].explode("relevant").rename(columns={"relevant": "item"})

    @cached_property
    def relevant(self) -> np.ndarray:
        """Whether each pair is relevant."""
        return relevant_pairs_mask(self.pairs, self.qrels)

    @cached_property
    def persona(self) -> np.ndarray:
        """The persona of each pair."""
        return self.pairs["persona"].to_numpy()

    @cached_property
    def evaluation(self) -> np.ndarray:
        """Whether each pair is of an evaluation query."""
        return (self.queries["split"] == "evaluation").to_numpy()[self.pairs["query_row"]]

    @cached_property
    def training(self) -> np.ndarray:
        """Whether each pair is of a training query."""
        return ~self.evaluation

    @cached_property
    def store(self) -> pd.Series:
        """The store (app) of each item, by its id."""
        return self.items.set_index("item")["app"]

    @cached_property
    def groups(self) -> dict[str, list[str]]:
        """The features by group."""
        return feature_groups(self.features)

    def columns_without(self, *groups: str) -> list[str]:
        """The features that are of none of some groups."""
        left_out = {name for group in groups for name in self.groups[group]}
        return [name for name in self.features.columns if name not in left_out]

    def queries_of(self, split: str) -> list[str]:
        """The ids of the training or the evaluation queries."""
        return self.queries["query"][self.queries["split"] == split].tolist()

    @cached_property
    def held_out_needs(self) -> set[str]:
        """The needs that a ranker may be kept from (see `lib.assistant.queries.held_out_needs`)."""
        return held_out_needs(self.gold["need"].unique(), self.learning.seed)

    def features_with(self, opens: pd.DataFrame) -> pd.DataFrame:
        """The features as they would be if the log were another one."""
        return signals(self.pairs, self.queries, self.items, opens, self.text)

    # ---- learning

    def learn(
        self,
        columns: Sequence[str] | None = None,
        rows: np.ndarray | None = None,
        labels: np.ndarray | None = None,
        features: pd.DataFrame | None = None,
        threads: int | None = None,
    ) -> LambdaMART:
        """A ranker.

        Args:
            columns: the features it sees; None: all.
            rows: the pairs it learns from, bools; None: those of the training queries.
            labels: one bool a pair; None: what is relevant.
            features: other ones (see `features_with`).
            threads: other than those of `learning`.
        """
        rows = self.training if rows is None else rows
        labels = self.relevant if labels is None else labels
        features = self.features if features is None else features
        columns = list(features.columns) if columns is None else list(columns)
        how = self.learning
        return train(
            self.pairs[rows],
            features.loc[rows, columns],
            labels[rows],
            self.persona[rows],
            CATEGORICAL,
            max(how.cutoffs),
            how.seed,
            threads=how.threads if threads is None else threads,
        )

    def cross_fit(self, rows: np.ndarray) -> np.ndarray:
        """Scores of some pairs (bools), each by a ranker that saw none of its persona's."""
        how = self.learning
        return out_of_fold(
            self.pairs[rows],
            self.features[rows],
            self.relevant[rows],
            self.persona[rows],
            CATEGORICAL,
            max(how.cutoffs),
            how.seed,
            threads=how.threads,
            folds=how.folds,
        )

    def fit(self, ranker: LambdaMART | None = None) -> Fitted:
        """A ranker of all features, with the rankings of training queries out of fold.

        Args:
            ranker: one that has learned from the training queries; None: learn one.
        """
        ranker = ranker or self.learn()
        scores = np.empty(len(self.pairs))
        scores[self.training] = self.cross_fit(self.training)
        scores[self.evaluation] = ranker.predict(self.features[self.evaluation])
        training, evaluation = (self.rankings(scores[side], side) for side in (self.training, self.evaluation))
        return Fitted(ranker, training, evaluation, scores)

    # ---- ranking

    def rank(self, ranker: LambdaMART, features: pd.DataFrame | None = None) -> pd.DataFrame:
        """A ranker's ranking of the evaluation queries' candidates, seen with other features where they are given."""
        features = self.features if features is None else features
        return rank_pairs(self.pairs[self.evaluation], ranker.predict(features[self.evaluation]))

    def rank_by(self, scores: np.ndarray) -> pd.DataFrame:
        """The ranking of the evaluation queries' candidates by a score of all pairs."""
        return rank_pairs(self.pairs[self.evaluation], scores[self.evaluation])

    def rankings(self, scores: np.ndarray, rows: np.ndarray) -> dict[str, pd.DataFrame]:
        """What may be fused without another ranker: some pairs ranked by a ranker's scores, and by each text score.

        Args:
            scores: one for each chosen pair.
            rows: which pairs, bools.
        """
        by_text = {name: rank_pairs(self.pairs[rows], values[rows]) for name, values in self.text.items()}
        return {WHOLE: rank_pairs(self.pairs[rows], scores), **by_text}

    def score(self, runs: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
        """`lib.evaluation.comparison.per_query_scores` of the evaluation queries."""
        return per_query_scores(runs, self.qrels, self.queries_of("evaluation"), self.learning.cutoffs)

    def rankings_to_keep(
        self, readings: FittedReadings, fusion: Fusion, second: np.ndarray, more: Mapping[str, pd.DataFrame]
    ) -> pd.DataFrame:
        """What later notebooks retrieve context with: the first `KEPT` results of every query.

        Args:
            readings: whose rankings `fusion` fuses.
            second: our second stage's score of each pair, of training queries out of fold.
            more: rankings of the evaluation queries alone, by method.

        Returns:
            columns method (lambdamart, lambdamart_rrf, lambdamart_2, semantic, and those of `more`), query, item, rank,
            score; of training queries those of the learned methods are out of fold.
        """
        sides = (readings.training, readings.evaluation)
        runs = {
            "lambdamart": pd.concat([side[WHOLE] for side in sides]),
            "lambdamart_rrf": pd.concat([fusion.of(side) for side in sides]),
            "lambdamart_2": rank_pairs(self.pairs, second),
            "semantic": rank_pairs(self.pairs, self.text["semantic"]),
            **more,
        }
        kept = [run[run["rank"] <= KEPT].assign(method=method) for method, run in runs.items()]
        return pd.concat(kept, ignore_index=True)[["method", "query", "item", "rank", "score"]]


def lambdamart_runs(rankings: Mapping[str, pd.DataFrame], fusion: Fusion) -> dict[str, pd.DataFrame]:
    """{method: ranking} of LambdaMART, of RRF of the two text rankings, and of LambdaMART-RRF.

    Args:
        rankings: from `RankingTask.rankings`, and those that the fusion needs.
    """
    return {
        "lambdamart": rankings[WHOLE],
        "rrf_text": fuse_runs([rankings["bm25t"], rankings["semantic"]]),
        "lambdamart_rrf": fusion.of(rankings),
    }
