"""One query at a time, as an assistant would answer it: what can be computed before a query comes is kept for each
persona, and every step after it can be timed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from time import perf_counter
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import pandas as pd

from lib.assistant.rrf_readings import STORES
from lib.assistant.signals import Log, log_similarities, signals
from lib.retrieval.adapter import mapped
from lib.retrieval.bm25 import BM25T, tokenize
from lib.retrieval.fusion import reciprocal_rank_fusion
from lib.retrieval.stores import best_first, tie_breakers

if TYPE_CHECKING:
    from lib.assistant.rrf_readings import FusedRankers
    from lib.assistant.second_stage import SecondStage
    from lib.retrieval.fusion import Fusion
    from lib.retrieval.lambdamart import LambdaMART

Result = TypeVar("Result")


class PersonaIndex:
    """The stores of one persona, ready to be searched.

    Args:
        items: columns item, app, text: the persona's items.
        opens: columns item, time, place: their log.
        vectors: unit-length embeddings of the items, (items, dimensions).
        b: BM25T's length normalisation.
        adapter: a map of embeddings, (dimensions, dimensions), behind the fine-tuned cosine; None: there is none.
    """

    def __init__(
        self,
        items: pd.DataFrame,
        opens: pd.DataFrame,
        vectors: np.ndarray,
        b: float = 0.75,
        adapter: np.ndarray | None = None,
    ):
        order = np.argsort(items["item"].to_numpy(), kind="stable")
        self.items = items.iloc[order].reset_index(drop=True)
        self.opens = opens.reset_index(drop=True)
        self.vectors = vectors[order]
        self.adapter = adapter
        self.names = self.items["item"].tolist()
        self.store = dict(zip(self.names, self.items["app"], strict=True))
        self._logs: dict[int, tuple[np.ndarray, np.ndarray]] = {}  # by the number of opens so far
        self._bm25t = BM25T([tokenize(text) for text in self.items["text"]], b=b)

    @cached_property
    def pairs(self) -> pd.DataFrame:
        """The candidate pairs of any one query."""
        n = len(self.items)
        return pd.DataFrame(
            {"item": self.names, "query_row": np.zeros(n, dtype=int), "item_row": np.arange(n)}, index=np.arange(n)
        )

    @cached_property
    def text_similarity(self) -> np.ndarray:
        """Cosines between the items, (items, items)."""
        return self.vectors @ self.vectors.T

    @cached_property
    def adapted_vectors(self) -> np.ndarray:
        """The items' embeddings after the map, unit-length, (items, dimensions); as they are without one."""
        return self.vectors if self.adapter is None else mapped(self.vectors, self.adapter)

    @cached_property
    def ties(self) -> np.ndarray:
        """What breaks ties between the items, (items,)."""
        return tie_breakers(self.items["item"])

    @cached_property
    def log(self) -> Log:
        """Items and opens as numbers."""
        return Log.of(self.items, self.opens)

    @cached_property
    def _opened(self) -> np.ndarray:
        """When items were opened, in order."""
        return np.sort(self.opens["time"].to_numpy())

    def log_similarity(self, times: pd.Series) -> tuple[np.ndarray, np.ndarray]:
        """How alike the items' logs are at the moment of a query (`lib.assistant.signals.log_similarities`). It changes
        when an item is opened, not when a query comes, and is kept until then.

        Args:
            times: one, the query's.
        """
        earlier = int(np.searchsorted(self._opened, times.to_numpy()[0]))
        if earlier not in self._logs:
            self._logs[earlier] = log_similarities(self.items, self.opens, times)
        return self._logs[earlier]

    def before(self, times: pd.Series) -> None:
        """Have ready what items and log alone say before a query comes at that time (see `log_similarity`)."""
        _ = self.pairs, self.log, self.text_similarity, self.adapted_vectors, self.ties, self.log_similarity(times)

    def bm25t(self, text: str) -> np.ndarray:
        """BM25T scores of the items, (items,)."""
        return self._bm25t.get_scores(tokenize(text))

    def semantic(self, vector: np.ndarray) -> np.ndarray:
        """Cosine similarities of the items with a query's unit-length embedding, (items,)."""
        return self.vectors @ vector

    def adapted(self, vector: np.ndarray) -> np.ndarray:
        """Cosine similarities after the map, (items,): one product with the map and one with the mapped items.

        Raises:
            ValueError: there is no map.
        """
        if self.adapter is None:
            raise ValueError("the index has no map for a fine-tuned cosine")
        return self.adapted_vectors @ mapped(vector[None], self.adapter)[0]

    def signals(self, query: pd.DataFrame, text_scores: Mapping[str, np.ndarray]) -> pd.DataFrame:
        """Features of the items for a query, given as a frame of one row with time and place."""
        return signals(self.pairs, query, self.items, self.opens, text_scores, self.log)

    def fuse(self, fusion: Fusion, scores: Mapping[str, np.ndarray]) -> list[str]:
        """Item ids by RRF of the rankings by some scores; those of `STORES` rank each store by itself."""
        rankings: list[list[str]] = []
        weights: list[float] = []
        for name, weight in zip(fusion.rankings, fusion.weights or (1.0,) * len(fusion.rankings), strict=True):
            ranking = best_first(self.names, scores[name])
            parts = self._by_store(ranking) if name == STORES else [ranking]
            rankings += parts
            weights += [weight] * len(parts)
        return [item for item, _ in reciprocal_rank_fusion(rankings, fusion.k, weights)]

    def _by_store(self, ranking: Sequence[str]) -> list[list[str]]:
        per_store: dict[str, list[str]] = {}
        for item in ranking:
            per_store.setdefault(self.store[item], []).append(item)
        return [*per_store.values()]


def milliseconds(step: Callable[..., Result], *arguments, **named) -> tuple[float, Result]:
    """How long a call took, and what it returned."""
    started = perf_counter()
    result = step(*arguments, **named)
    return 1000 * (perf_counter() - started), result


def time_stages(
    index: PersonaIndex,
    query: pd.DataFrame,
    encode: Callable[[str], np.ndarray],
    ranker: LambdaMART,
    fused: FusedRankers,
    second: SecondStage,
) -> dict[str, float]:
    """Milliseconds of each stage of ranking one query's context.

    Args:
        index: the persona's.
        query: one row: text, time, weekday, place.
        encode: a text's unit-length embedding.
        ranker: on the features of `signals` with the text scores bm25t and semantic.
        fused: LambdaMART-RRF.
        second: our second stage upon the ranker.

    Returns:
        {stage: ms}: encode, cosine, bm25t, signals, predict, sort (of one score, instead of fusion), predict_fused (by
        all rankers that are fused), fuse, fuse_text (of the two text rankings, instead), second (features,
        the fine-tuned cosine among them, and prediction of the second stage).
    """
    text = query["text"].iloc[0]
    took: dict[str, float] = {}
    scores: dict[str, np.ndarray] = {}
    took["encode"], vector = milliseconds(encode, text)
    took["cosine"], scores["semantic"] = milliseconds(index.semantic, vector)
    took["bm25t"], scores["bm25t"] = milliseconds(index.bm25t, text)
    text_scores = {"bm25t": scores["bm25t"], "semantic": scores["semantic"]}
    took["signals"], features = milliseconds(index.signals, query, text_scores)
    took["predict"], predicted = milliseconds(ranker.predict, features)
    took["sort"], _ = milliseconds(best_first, index.names, predicted)
    took["predict_fused"], by_rankers = milliseconds(fused.scores, features, index.items["app"].to_numpy())
    took["fuse"], _ = milliseconds(index.fuse, fused.fusion, scores | by_rankers)
    took["fuse_text"], _ = milliseconds(
        lambda: reciprocal_rank_fusion([best_first(index.names, score) for score in text_scores.values()])
    )
    took["second"], _ = milliseconds(second.of_one, index, query, vector, features, predicted)
    return took
