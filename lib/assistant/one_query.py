"""One query at a time, as an assistant would answer it: what can be computed before a query comes is kept for each
persona, every step after it can be timed, and what each method costs follows from the steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from time import perf_counter
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pandas as pd

from lib.assistant.ranking import STORES, WHOLE
from lib.assistant.second_stage import Alike, score_one
from lib.assistant.signals import Log, log_similarities, signals
from lib.retrieval.bm25 import BM25T, tokenize
from lib.retrieval.fusion import Fusion, reciprocal_rank_fusion
from lib.retrieval.lambdamart import LambdaMART
from lib.retrieval.stores import best_first, tie_breakers
from lib.retrieval.training import mapped

Result = TypeVar("Result")
TIMED_QUERIES = 200  # at most
ENOUGH_FOR_P95 = 50  # queries
# The steps of each method without a language model; of one that sees a fine-tuned encoder, but for few features more.
_FEATURES = ("encode", "cosine", "bm25t", "signals")
STEPS = {
    "random": ("sort",),
    "recency": ("sort",),
    "bm25t": ("bm25t", "sort"),
    "semantic": ("encode", "cosine", "sort"),
    "rrf_text": ("encode", "cosine", "bm25t", "fuse_text"),
    "finetuned": ("encode", "cosine", "sort"),  # an encoder of the pretrained one's shape
    "lambdamart": (*_FEATURES, "predict", "sort"),
    "lambdamart_rrf": (*_FEATURES, "predict_fused", "fuse"),
    "lambdamart_2": (*_FEATURES, "predict", "second", "sort"),
    "lambdamart_2_finetuned": (*_FEATURES, "encode", "cosine", "predict", "second", "sort"),  # two encoders
}


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
        self.app = self.items["app"].to_numpy()
        self._states: dict[int, Alike] = {}  # by the number of opens so far
        self._bm25t = BM25T([tokenize(text) for text in self.items["text"]], b=b)

    @cached_property
    def pairs(self) -> pd.DataFrame:
        """The candidate pairs of any one query."""
        n = len(self.items)
        return pd.DataFrame(
            {"item": self.names, "query_row": np.zeros(n, dtype=int), "item_row": np.arange(n)}, index=np.arange(n)
        )

    @cached_property
    def adapted_vectors(self) -> np.ndarray:
        """The items' embeddings after the map, unit-length, (items, dimensions); as they are without one."""
        return self.vectors if self.adapter is None else mapped(self.vectors, self.adapter)

    @cached_property
    def log(self) -> Log:
        """Items and opens as numbers."""
        return Log.of(self.items, self.opens)

    @cached_property
    def _opened(self) -> np.ndarray:
        """When items were opened, in order."""
        return np.sort(self.opens["time"].to_numpy())

    def alike(self, times: pd.Series) -> Alike:
        """How alike the items are at the moment of a query. It changes when an item is opened, not when a query comes,
        and is kept until then.

        Args:
            times: one, the query's.
        """
        earlier = int(np.searchsorted(self._opened, times.to_numpy()[0]))
        if earlier not in self._states:
            rows, ties = np.arange(len(self.items))[None], tie_breakers(self.items["item"])
            log = log_similarities(self.items, self.opens, times)
            self._states[earlier] = Alike(rows, ties, self.vectors @ self.vectors.T, *log)
        return self._states[earlier]

    def before(self, times: pd.Series) -> None:
        """Have ready what items and log alone say before a query comes at that time."""
        _ = self.pairs, self.log, self.adapted_vectors, self.alike(times)

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
            parts = {"": ranking}
            if name == STORES:
                app = dict(zip(self.names, self.app, strict=True))
                parts = {each: [item for item in ranking if app[item] == each] for each in dict.fromkeys(self.app)}
            rankings += parts.values()
            weights += [weight] * len(parts)
        return [item for item, _ in reciprocal_rank_fusion(rankings, fusion.k, weights)]


def index_personas(
    items: pd.DataFrame,
    opens: pd.DataFrame,
    vectors: np.ndarray,
    personas: Sequence[str],
    b: float,
    adapter: np.ndarray | None = None,
) -> dict[str, PersonaIndex]:
    """What is computed before a query comes, by persona.

    Args:
        items, opens: of all personas.
        vectors: unit-length embeddings of `items`, in their order.
        b, adapter: see `PersonaIndex`.
    """
    indexes = {}
    for name in sorted(set(personas)):
        mine = (items["persona"] == name).to_numpy()
        log = opens[opens["item"].isin(items["item"][mine])]
        indexes[name] = PersonaIndex(items[mine], log, vectors[mine], b, adapter)
    return indexes


class Rankers(NamedTuple):
    """All that ranks one query's candidates: LambdaMART of all stores and one a store, what is fused, our second stage
    upon the first."""

    whole: LambdaMART
    stores: Mapping[str, LambdaMART]
    fusion: Fusion
    second: LambdaMART

    def on_one_thread(self) -> Rankers:
        """The same, for a few dozen rows: more threads would wait for each other."""
        stores = {app: replace(ranker, threads=1) for app, ranker in self.stores.items()}
        return Rankers(replace(self.whole, threads=1), stores, self.fusion, replace(self.second, threads=1))

    def fused_scores(self, features: pd.DataFrame, app: np.ndarray) -> dict[str, np.ndarray]:
        """Scores of a query's candidates by the rankers behind the fused rankings.

        Args:
            features: of the candidates, with their text scores.
            app: the store of each.
        """
        scores, values = {}, self.whole.values(features)  # all rankers see the same
        if WHOLE in self.fusion.rankings:
            scores[WHOLE] = self.whole.predict_values(values)
        if STORES in self.fusion.rankings:
            scores[STORES] = np.zeros(len(app))
            for name, ranker in self.stores.items():
                if (app == name).any():
                    scores[STORES][app == name] = ranker.predict_values(values[app == name])
        return scores


# ---------------------------------------------------------------- what it costs


def milliseconds(step: Callable[..., Result], *arguments, **named) -> tuple[float, Result]:
    """How long a call took, and what it returned."""
    started = perf_counter()
    result = step(*arguments, **named)
    return 1000 * (perf_counter() - started), result


def time_steps(
    index: PersonaIndex, query: pd.DataFrame, encode: Callable[[str], np.ndarray], rankers: Rankers
) -> dict[str, float]:
    """Milliseconds of each step of ranking one query's context.

    Args:
        index: the persona's.
        query: one row: text, time, weekday, place.
        encode: a text's unit-length embedding.

    Returns:
        {step: ms}: encode, cosine, bm25t, signals, predict, sort (of one score, instead of fusion), predict_fused (by
        all rankers that are fused), fuse, fuse_text (of the two text rankings, instead), second (features, the
        fine-tuned cosine among them, and prediction of the second stage).
    """
    text = query["text"].iloc[0]
    took: dict[str, float] = {}
    took["encode"], vector = milliseconds(encode, text)
    took["cosine"], cosine = milliseconds(index.semantic, vector)
    took["bm25t"], lexical = milliseconds(index.bm25t, text)
    scores = {"bm25t": lexical, "semantic": cosine}
    took["signals"], features = milliseconds(index.signals, query, scores)
    took["predict"], first = milliseconds(rankers.whole.predict, features)
    took["sort"], _ = milliseconds(best_first, index.names, first)
    took["predict_fused"], fused = milliseconds(rankers.fused_scores, features, index.app)
    took["fuse"], _ = milliseconds(index.fuse, rankers.fusion, scores | fused)
    took["fuse_text"], _ = milliseconds(index.fuse, Fusion(("bm25t", "semantic"), 60), scores)
    took["second"], _ = milliseconds(
        lambda: score_one(rankers.second, index.alike(query["time"]), index.adapted(vector), features, first)
    )
    return took


def time_queries(
    indexes: Mapping[str, PersonaIndex],
    queries: pd.DataFrame,
    encode: Callable[[str], np.ndarray],
    rankers: Rankers,
) -> pd.DataFrame:
    """`time_steps` of each query: one row a query, one column a step, in milliseconds."""
    alone, asked = rankers.on_one_thread(), [queries.iloc[[row]].reset_index(drop=True) for row in range(len(queries))]
    for query in asked:
        indexes[query["persona"].iloc[0]].before(query["time"])
    rows = [time_steps(indexes[query["persona"].iloc[0]], query, encode, alone) for query in (asked[0], *asked)]
    return pd.DataFrame(rows[1:])  # the first call of anything is slow


def ranking_costs(steps: pd.DataFrame, tokens: float) -> list[dict[str, Any]]:
    """A row of `cost_row` for each method of `STEPS`.

    Args:
        steps: from `time_queries`.
        tokens: that the encoder reads of one query.
    """
    return [
        cost_row(method, steps[list(names)].sum(axis=1), tokens * names.count("encode"), 0.0)
        for method, names in STEPS.items()
    ]


def chain_cost(
    method: str,
    model,
    texts: Sequence[str],
    prompts: Sequence[str],
    settings: Mapping[str, Any],
    usage: pd.Series,
    embed: Callable[[str], Any],
    search: float,
    tokens: float,
    remote: bool,
) -> dict[str, Any]:
    """The row of `cost_row` of search with a chain of thought, each written anew.

    Args:
        model: the writer, which answers `prompts` about `texts` with these settings of `generate`.
        usage: prompts, tokens_in, tokens_out of all that it wrote: whence the tokens of one query.
        embed: computes the embedding of a text.
        search: milliseconds of search without encoding.
        tokens: that the encoder reads of one query.
        remote: whether the writer is behind an endpoint. It may have made us wait and ask again: the time is that of
            the request that brought the answer.
    """
    model.generate(list(prompts[:1]), **settings)  # loads the model
    times = []
    for text, prompt in zip(texts, prompts, strict=True):
        took, answers = milliseconds(model.generate, [prompt], **settings)
        took = 1000 * model.costs[0].seconds if remote else took
        times.append(took + milliseconds(embed, f"{text} {answers[0]}")[0] + search)
    read, written = usage["tokens_in"] / usage["prompts"], usage["tokens_out"] / usage["prompts"]
    return cost_row(method, pd.Series(times), read + tokens + written, written)


def cost_row(method: str, times: pd.Series, tokens_in: float, tokens_out: float) -> dict[str, Any]:
    """Columns method, p50_ms, p95_ms (NaN for fewer than `ENOUGH_FOR_P95` queries), tokens_in, tokens_out; `times` are
    milliseconds of single queries."""
    p95 = times.quantile(0.95) if len(times) >= ENOUGH_FOR_P95 else np.nan
    return {
        "method": method,
        "p50_ms": times.quantile(0.5),
        "p95_ms": p95,
        "tokens_in": tokens_in,
        "tokens_out": tokens_out,
    }
