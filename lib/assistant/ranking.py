"""Ranking the context of every query: the candidates, what a ranker sees of them, LambdaMART, and what RRF fuses.

The paper ranks with LambdaMART and re-ranks by RRF; it does not say which rankings are fused. Here one LambdaMART of
all stores and one a store (each learns from its own store's items) give rankings that differ, fused with each other,
with text rankings or without, weighted or not. A store holds one context type here (`lib.assistant.schemas.APP_NAMES`),
so that one LambdaMART a context type is one a store.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, product
from pathlib import Path

import numpy as np
import pandas as pd

from lib.assistant.queries import qrels_of, topic_folds
from lib.assistant.signals import CATEGORICAL, rank_within, signals
from lib.retrieval.fusion import Fusion, rank_per_store, scaled_within
from lib.retrieval.lambdamart import LambdaMART, train
from lib.retrieval.stores import (
    bm25t_scores,
    candidate_pairs,
    cosine_of_pairs,
    folds_of,
    rank_pairs,
    relevant_pairs_mask,
)
from lib.workbook.parts import keep_arrays, kept_arrays

WHOLE = "lambdamart"  # the ranking by one LambdaMART of all stores
STORES = "lambdamart store by store"  # ranks start anew in each store
READINGS = ((WHOLE,), (STORES,), (WHOLE, STORES))
WEIGHTS = (2.0, 4.0)  # of LambdaMART's ranking, or of the one of all stores beside others; the rest weigh 1
CONSTANTS = (1, 5, 20, 60)  # of rank fusion
STORE_FOLDS = 3  # at most: there are many rankers
SHARES = np.linspace(0.05, 1, 20)  # of the cosine in a hybrid of text scores, up to the cosine alone


@dataclass(eq=False)
class RankingTask:
    """Every query with every item of its persona: a row a pair in `pairs`, in `features` and in each array.

    Methods take `rows`, bools, one a pair, and `features`: others than the task's, or some of them.
    """

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
    qrels: pd.DataFrame = field(init=False)  # columns query, item: one row a relevant pair
    relevant: np.ndarray = field(init=False)  # whether each pair is relevant
    persona: np.ndarray = field(init=False)
    store: np.ndarray = field(init=False)  # app of the pair's item
    training: np.ndarray = field(init=False)  # whether each pair is of a training query
    evaluation: np.ndarray = field(init=False)  # the others
    topic_fold: np.ndarray = field(init=False)  # of the pair's query, see `lib.assistant.queries.topic_folds`

    def __post_init__(self) -> None:
        self.qrels = qrels_of(self.gold)
        self.relevant = relevant_pairs_mask(self.pairs, self.qrels)
        self.persona = self.pairs["persona"].to_numpy()
        self.store = self.items["app"].to_numpy()[self.pairs["item_row"]]
        self.training = (self.queries["split"] == "training").to_numpy()[self.pairs["query_row"]]
        self.evaluation = ~self.training
        self.topic_fold = self.pairs["query"].map(topic_folds(self.gold, self.seed)["fold"]).to_numpy()

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

    def queries_of(self, split: str) -> list[str]:
        """The ids of the training or the evaluation queries."""
        return self.queries["query"][self.queries["split"] == split].tolist()

    def learn(
        self,
        rows: np.ndarray | None = None,
        features: pd.DataFrame | None = None,
        labels: np.ndarray | None = None,
        threads: int = 0,
    ) -> LambdaMART:
        """A ranker that learns from some pairs, else those of the training queries, and their labels (bools, one a
        pair), else what is relevant."""
        rows = self.training if rows is None else rows
        features = self.features if features is None else features
        labels = self.relevant if labels is None else labels
        lessons = self.pairs[rows], features[rows], labels[rows], self.persona[rows]
        codes = [name for name in CATEGORICAL if name in features]
        return train(*lessons, codes, self.cutoff, self.seed, threads or self.threads)

    def predict(self, ranker: LambdaMART, rows: np.ndarray, features: pd.DataFrame | None = None) -> np.ndarray:
        """A ranker's score of some pairs; 0 of all others."""
        scores = np.zeros(len(self.pairs))
        if rows.any():
            scores[rows] = ranker.predict((self.features if features is None else features)[rows])
        return scores

    def cross_fit(
        self, rows: np.ndarray, features: pd.DataFrame | None = None, folds: int = 0, by_store: bool = False
    ) -> np.ndarray:
        """A score of some pairs, each by a ranker that saw none of its persona's, not even to stop early, or by one a
        store (`by_store`, over `STORE_FOLDS` at most); 0 of all others. Raises ValueError for more folds than personas.
        """
        folds = min(self.folds, STORE_FOLDS) if by_store else folds or self.folds
        if not 2 <= folds <= len(set(self.persona[rows])):
            raise ValueError(f"{folds} folds of {len(set(self.persona[rows]))} personas")
        fold, scores = np.full(len(rows), folds), np.zeros(len(rows))
        fold[rows] = folds_of(pd.Series(self.persona[rows]), folds, self.seed + 1)
        for number in range(folds):
            taught, asked = rows & (fold != number), fold == number
            if by_store:
                scores += learn_by_store(self, taught, asked)[1]
            else:
                scores += self.predict(self.learn(taught, features), asked, features)
        return scores

    def fit(
        self, ranker: LambdaMART | None = None, features: pd.DataFrame | None = None, folds: int = 0
    ) -> tuple[LambdaMART, np.ndarray]:
        """A ranker (one that has learned from the training queries, or a new one), and a score of every pair; those of
        training queries are out of fold by persona."""
        ranker = ranker or self.learn(features=features)
        out_of_fold = self.cross_fit(self.training, features, folds)
        return ranker, out_of_fold + self.predict(ranker, self.evaluation, features)

    def rank(self, scores: np.ndarray, rows: np.ndarray | None = None) -> pd.DataFrame:
        """The ranking of some pairs (None: of the evaluation queries) by a score of all pairs."""
        rows = self.evaluation if rows is None else rows
        return rank_pairs(self.pairs[rows], scores[rows])


def learn_by_store(
    task: RankingTask, taught: np.ndarray, asked: np.ndarray
) -> tuple[dict[str, LambdaMART], np.ndarray]:
    """A ranker a store, which learns from some of its pairs (`taught`, bools), and their scores of others (`asked`). A
    store that fewer than two personas teach has no ranker; its pairs score 0, as all that nobody asks about."""
    rankers, scores = {}, np.zeros(len(asked))
    for app in sorted(set(task.store)):
        here = task.store == app
        if len(set(task.persona[taught & here])) > 1:
            # On the few pairs of a store, two threads take four times as long as one.
            rankers[app] = task.learn(taught & here, threads=1)
            scores += task.predict(rankers[app], asked & here)
    return rankers, scores


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
    chosen = [some for number in range(len(texts) + 1) for some in combinations(texts, number)]
    found = []
    for names in (lambdamarts + some for lambdamarts, some in product(READINGS, chosen)):
        weights = [(), *((weight, *[1.0] * (len(names) - 1)) for weight in WEIGHTS if len(names) > 1)]
        if names != (WHOLE,):  # one ranking a store is many, and can be fused by itself
            found += [Fusion(names, k, each) for each in weights for k in CONSTANTS]
    return found


def hybrid(task: RankingTask, cutoffs: Sequence[int]) -> tuple[dict[str, np.ndarray], dict[str, float]]:
    """BM25T's score and the cosine, each scaled within the query from 0, the lowest, to 1, and combined: share · cosine
    + (1 - share) · BM25T (Bruch, Gai and Ingber, 2023, "An Analysis of Fusion Functions for Hybrid Retrieval": one
    weight that few labels teach, and better than RRF, which forgets scores).

    The share is that of highest recall, the mean over training queries and cutoffs. Nothing else is learned, so that
    this is the cross-validated recall, too.

    Returns:
        A score of each pair under `known`, and under `new` with shares that no query of its fold of topics has chosen;
        and the shares: `known`, and `new <fold>`.
    """
    query, rows = task.pairs["query_row"].to_numpy(), task.training
    words, meaning = (scaled_within(query, task.text[name]) for name in ("bm25t", "semantic"))
    n_relevant = np.maximum(np.bincount(query, task.relevant), 1)
    recalls = np.zeros((len(SHARES), len(n_relevant)))
    for found, share in zip(recalls, SHARES, strict=True):
        rank = rank_within(query[rows], np.round(share * meaning + (1 - share) * words, 9)[rows])
        for cutoff in cutoffs:
            found += np.bincount(query[rows], task.relevant[rows] & (rank <= cutoff), len(found)) / n_relevant

    def best(taught: np.ndarray) -> float:
        """The share that some pairs' queries choose."""
        return float(SHARES[np.round(recalls[:, np.unique(query[taught])].mean(axis=1), 9).argmax()])

    shares, of_pair = {"known": best(rows)}, np.zeros(len(query))
    for fold in np.unique(task.topic_fold):
        shares[f"new {fold}"] = of_pair[task.topic_fold == fold] = best(rows & (task.topic_fold != fold))
    weights = {"known": np.full(len(query), shares["known"]), "new": of_pair}
    return {topics: share * meaning + (1 - share) * words for topics, share in weights.items()}, shares


class Kept:
    """Arrays that many rankers were trained for, by group and name: those of the first file with this key (SHA-256 of
    all that they depend on). What none has is computed, and written to the last one; `shipped`: the first has the key.
    """

    def __init__(self, task: RankingTask, key: str, *paths: Path):
        self.query, self.threads = task.pairs["query_row"].to_numpy(), task.threads
        self.key, self.own, self.shipped = key, paths[-1], False
        self.arrays: dict[str, np.ndarray] = {}
        for path in paths[::-1]:
            if found := kept_arrays(path, key):
                self.arrays |= found
                self.shipped = path == paths[0] != self.own

    def take(self, group: str, compute: Callable[[], Mapping[str, np.ndarray]]) -> dict[str, np.ndarray]:
        """The arrays of a group by name."""
        group = f"{group}/"
        if not any(name.startswith(group) for name in self.arrays):
            self.arrays |= {group + name: values for name, values in compute().items()}
            keep_arrays(self.own, self.arrays, self.key)
        found = {name: values for name, values in self.arrays.items() if name.startswith(group)}
        return {name.removeprefix(group): values for name, values in found.items()}

    def scores(self, group: str, compute: Callable[[], Mapping[str, np.ndarray]]) -> dict[str, np.ndarray]:
        """Scores of all pairs by name that rank them as those that `compute` gives: minus the rank within the query,
        ties included (nine decimals count), which takes two bytes."""
        orders = self.take(
            group,
            lambda: {
                name: rank_within(self.query, np.round(scores, 9)).astype(np.uint16)
                for name, scores in compute().items()
            },
        )
        return {name: -ranks.astype(float) for name, ranks in orders.items()}

    def rankers(self, group: str, learn: Callable[[], Mapping[str, LambdaMART]]) -> dict[str, LambdaMART]:
        """Rankers by name, as the bytes of their texts."""
        texts = self.take(
            group, lambda: {name: np.frombuffer(one.text.encode(), np.uint8) for name, one in learn().items()}
        )
        return {name: LambdaMART.from_text(text.tobytes().decode(), self.threads) for name, text in texts.items()}
