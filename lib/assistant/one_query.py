"""One query at a time, as an assistant would answer it: what can be computed before a query comes is kept for each
persona, every step after it can be timed, and what each method costs follows from the steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from time import perf_counter
from typing import Any

import numpy as np
import pandas as pd

from lib.assistant.ranking import STORES, WHOLE
from lib.assistant.second_stage import Alike, second_features
from lib.assistant.signals import Log, log_similarities, signals
from lib.retrieval.bm25 import BM25T, tokenize
from lib.retrieval.fusion import Fusion, reciprocal_rank_fusion
from lib.retrieval.lambdamart import LambdaMART
from lib.retrieval.stores import best_first, tie_breakers

ENOUGH_FOR_P95 = 50  # queries
# The steps of each method without a language model. LambdaMART-RRF is taken to fuse one ranker and one a store.
_FEATURES = ("encode", "cosine", "bm25t", "signals")
STEPS = {
    "random": ("sort",),
    "recency": ("sort",),
    "bm25t": ("bm25t", "sort"),
    "semantic": ("encode", "cosine", "sort"),
    "rrf_text": ("encode", "cosine", "bm25t", "fuse_text"),
    "finetuned": ("encode", "cosine", "sort"),  # an encoder of the pretrained one's shape
    "lambdamart": (*_FEATURES, "predict", "sort"),
    "lambdamart_rrf": (*_FEATURES, "predict", "by_store", "fuse"),
    "lambdamart_2": (*_FEATURES, "predict", "second", "sort"),  # a map takes a hundredth of a millisecond
    "lambdamart_2_finetuned": (*_FEATURES, "encode", "cosine", "predict", "second", "sort"),  # two encoders
}


class PersonaIndex:
    """The stores of one persona, ready to be searched, from items (columns item, app, text), their log (columns item,
    time, place), unit-length embeddings of the items, (items, dimensions), and BM25T's length normalisation."""

    def __init__(self, items: pd.DataFrame, opens: pd.DataFrame, vectors: np.ndarray, b: float = 0.75):
        order = np.argsort(items["item"].to_numpy(), kind="stable")
        self.items, self.vectors = items.iloc[order].reset_index(drop=True), vectors[order]
        self.opens = opens.reset_index(drop=True)
        self.names, self.app = self.items["item"].tolist(), self.items["app"].to_numpy()
        self.log, row = Log.of(self.items, self.opens), np.arange(len(items))
        self.pairs = pd.DataFrame({"item": self.names, "query_row": 0, "item_row": row}, index=row)
        self._bm25t = BM25T([tokenize(text) for text in self.items["text"]], b=b)

    def bm25t(self, text: str) -> np.ndarray:
        """BM25T scores of the items, (items,)."""
        return self._bm25t.get_scores(tokenize(text))

    def alike(self, query: pd.DataFrame) -> Alike:
        """How alike the items are at a query's time: it changes when an item is opened, not when a query comes."""
        log = log_similarities(self.items, self.opens, query)
        rows, ties = np.arange(len(self.items))[None], tie_breakers(self.items["item"])
        return Alike(rows, ties, self.vectors @ self.vectors.T, *log)

    def second(
        self, ranker: LambdaMART, alike: Alike, cosine: np.ndarray, features: pd.DataFrame, first: np.ndarray
    ) -> np.ndarray:
        """A second stage's scores of the items, (items,), from `alike` of the query's time, the fine-tuned cosine, and
        the first stage's features and scores."""
        found = second_features(features, cosine, first, np.zeros(len(first), dtype=int), [alike])
        return ranker.predict(np.column_stack([found[name] for name in ranker.columns]))

    def by_store(self, rankers: Mapping[str, LambdaMART], features: pd.DataFrame) -> np.ndarray:
        """Scores of the items by their stores' rankers, (items,); 0 where a store has none."""
        scores, values = np.zeros(len(self.app)), features.to_numpy(dtype=float)  # all rankers see the same
        for app in rankers.keys() & set(self.app):
            scores[self.app == app] = rankers[app].predict(values[self.app == app])
        return scores

    def fuse(self, fusion: Fusion, scores: Mapping[str, np.ndarray]) -> list[str]:
        """Item ids by RRF of the rankings by some scores; those of `STORES` rank each store by itself."""
        rankings, weights = [], []
        for name, weight in zip(fusion.rankings, fusion.weights or (1.0,) * len(fusion.rankings), strict=True):
            parts = [best_first(self.names, scores[name])]
            if name == STORES:
                app = dict(zip(self.names, self.app, strict=True))
                parts = [[item for item in parts[0] if app[item] == each] for each in dict.fromkeys(self.app)]
            rankings += parts
            weights += [weight] * len(parts)
        return [item for item, _ in reciprocal_rank_fusion(rankings, fusion.k, weights)]


def milliseconds(step: Callable, *arguments, **named) -> tuple[float, Any]:
    """How long a call took, and what it returned."""
    started = perf_counter()
    result = step(*arguments, **named)
    return 1000 * (perf_counter() - started), result


def time_queries(
    index_of: Mapping[str, PersonaIndex],
    queries: pd.DataFrame,
    encode: Callable[[str], np.ndarray],
    rankers: Mapping[str, LambdaMART],
    fusion: Fusion,
) -> pd.DataFrame:
    """Milliseconds of each step of ranking the context of each query (columns persona, text, time, weekday, place): one
    row a query, one column a step of `STEPS`; `rankers` are from `lib.assistant.second_stage.learned_scores`."""
    # For a few dozen rows more threads would wait for each other.
    stores, rows = {name: replace(ranker, threads=1) for name, ranker in rankers.items()}, []
    whole, second = stores.pop(WHOLE), stores.pop("lambdamart_2")
    for row in [0, *range(len(queries))]:  # the first call of anything is slow
        query = queries.iloc[[row]].reset_index(drop=True)
        index, text = index_of[query["persona"].iloc[0]], query["text"].iloc[0]
        took: dict[str, float] = {}
        alike = index.alike(query)

        took["encode"], vector = milliseconds(encode, text)
        took["cosine"], cosine = milliseconds(np.matmul, index.vectors, vector)
        took["bm25t"], lexical = milliseconds(index.bm25t, text)
        scores = {"bm25t": lexical, "semantic": cosine}
        usage = index.pairs, query, index.items, index.opens, scores, index.log
        took["signals"], features = milliseconds(signals, *usage)
        took["predict"], first = milliseconds(whole.predict, features)
        took["sort"], _ = milliseconds(best_first, index.names, first)
        took["by_store"], by_store = milliseconds(index.by_store, stores, features)
        took["fuse"], _ = milliseconds(index.fuse, fusion, scores | {WHOLE: first, STORES: by_store})
        took["fuse_text"], _ = milliseconds(index.fuse, Fusion(("bm25t", "semantic"), 60), scores)
        took["second"], _ = milliseconds(index.second, second, alike, cosine, features, first)
        rows.append(took)
    return pd.DataFrame(rows[1:])


def chain_times(
    model, texts: Sequence[str], prompts: Sequence[str], encode: Callable[[str], Any], recorded: bool, **settings
) -> list[float]:
    """Milliseconds of writing a chain of thought anew, as an answer to each of `prompts` about `texts` with these
    settings of `generate`, and of embedding it with its query, one query after the other. Where they are `recorded`, an
    answer's own seconds count: of kept ones, and of an endpoint, which may have made us wait and ask again."""
    model.generate(list(prompts[:1]), **settings)  # loads the model
    times = []
    for text, prompt in zip(texts, prompts, strict=True):
        took, answers = milliseconds(model.generate, [prompt], **settings)
        took = 1000 * model.costs[0].seconds if recorded else took
        times.append(took + milliseconds(encode, f"{text} {answers[0]}")[0])
    return times


def context_costs(steps: pd.DataFrame, chains: pd.DataFrame) -> pd.DataFrame:
    """Columns method, p50_ms, p95_ms (NaN for fewer than `ENOUGH_FOR_P95` queries) of each method of `STEPS`, from
    `time_queries`, and of search with a chain of thought by each writer, fine-tuned by the last, from columns writer,
    ms (of `chain_times`)."""
    times = {method: steps[list(names)].sum(axis=1) for method, names in STEPS.items()}
    for writer, part in chains.groupby("writer", sort=False):
        times[writer] = times["finetuned_cot"] = part["ms"] + steps[["cosine", "sort"]].sum(axis=1).median()
    rows = [(method, took.quantile(0.5), took.quantile(0.95) if len(took) >= ENOUGH_FOR_P95 else np.nan)
            for method, took in times.items()]  # fmt: skip
    return pd.DataFrame(rows, columns=["method", "p50_ms", "p95_ms"])
