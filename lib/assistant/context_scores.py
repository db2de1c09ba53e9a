"""How well methods of context retrieval, and variants of the ranker, do on the evaluation queries: scores, and their
means by kind of query and sample."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from lib.assistant.needs import KINDS
from lib.evaluation.comparison import compare, per_query_scores, random_order_scores, summarise
from lib.evaluation.inference import Resampling

ORDER = (
    "random", "recency", "bm25t", "semantic", "cot", "cot_distilled", "finetuned", "finetuned_cot", "lambdamart",
    "rrf_text", "lambdamart_rrf", "lambdamart_2", "lambdamart_2_finetuned",
)  # fmt: skip
SEARCHES = ("recency", "bm25t", "semantic", "finetuned")  # on all queries, by earlier notebooks
HELPED = ("cot", "cot_distilled", "finetuned_cot", "finetuned_subset")  # on the queries with chains of thought
REFERENCES = ("cot_expert",)  # on the same queries, made from labels: rows of Table 2, never methods
ON_SAMPLE = (*HELPED, *REFERENCES)


@dataclass(frozen=True)
class EvaluationQueries:
    """The evaluation queries: one entry each in every attribute.

    Attributes:
        names: their ids.
        persona, need, kind: of each.
        n_relevant: how many items are relevant to each.
        in_cot: whether it is of the sample that has chains of thought.
    """

    names: list[str]
    persona: np.ndarray
    need: np.ndarray
    kind: np.ndarray
    n_relevant: np.ndarray
    in_cot: np.ndarray

    @classmethod
    def of_world(cls, queries: pd.DataFrame, gold: pd.DataFrame, with_chains: Collection[str]) -> EvaluationQueries:
        """Those of a world's frames; `with_chains` are the ids of the queries that have chains of thought."""
        names = queries["query"][queries["split"] == "evaluation"].tolist()
        labels = gold.set_index("query").loc[names]
        return cls(
            names,
            queries.set_index("query")["persona"].loc[names].to_numpy(),
            labels["need"].to_numpy(),
            labels["kind"].astype(str).to_numpy(),
            labels["relevant"].str.len().to_numpy(),
            np.isin(names, list(with_chains)),
        )

    @cached_property
    def kinds(self) -> list[str]:
        """The kinds of query that occur."""
        return [name for name in KINDS if (self.kind == name).any()]

    @property
    def everyone(self) -> np.ndarray:
        return np.ones(len(self.names), dtype=bool)

    def of_kind(self, kind: str) -> np.ndarray:
        """Which queries are of a kind; all of them for `all`."""
        return (self.kind == kind) | (kind == "all")

    def by_kind(self, sample: str, chosen: np.ndarray) -> dict[tuple[str, str], np.ndarray]:
        """The groups of `lib.evaluation.comparison.summarise`: of the chosen queries all, and each kind."""
        return {(kind, sample): chosen & self.of_kind(kind) for kind in ("all", *self.kinds)}

    def resampling(self, samples: int, seed: int) -> Resampling:
        """Topics are the unit: the data's needs."""
        return Resampling(self.need, samples, seed)


@dataclass(frozen=True)
class ContextScores:
    """Methods of context retrieval, scored.

    Attributes:
        asked: the evaluation queries.
        scores: as `per_query_scores` returns them, one row for each of these.
        partial: methods with scores on the sample that has chains of thought alone.
        cutoffs: values of K.
        resampling: of the queries.
    """

    asked: EvaluationQueries
    scores: pd.DataFrame
    partial: Collection[str]
    cutoffs: Sequence[int]
    resampling: Resampling

    @property
    def k(self) -> int:
        """The cutoff that is reported where one must do."""
        return self.cutoffs[0]

    @cached_property
    def methods(self) -> list[str]:
        """Those of Table 2 and the floors, in the order in which a page names them."""
        scored = self.scores.columns.get_level_values("method")
        return [method for method in ORDER if method in scored]

    @cached_property
    def references(self) -> list[str]:
        """Those of `REFERENCES` that are scored: in `summary`, and in nothing that names a best method."""
        scored = self.scores.columns.get_level_values("method")
        return [name for name in REFERENCES if name in scored]

    @cached_property
    def complete(self) -> list[str]:
        """The methods that have scores on every query."""
        return [method for method in self.methods if method not in self.partial or self.asked.in_cot.all()]

    @cached_property
    def samples(self) -> dict[str, tuple[np.ndarray, list[str]]]:
        """{sample: its queries as bools, the methods compared on it}: all, and the CoT sample where it is another."""
        in_cot = self.asked.in_cot
        with_chains = {"cot": (in_cot, self.methods)} if in_cot.any() and not in_cot.all() else {}
        return {"all": (self.asked.everyone, self.complete)} | with_chains

    @cached_property
    def summary(self) -> pd.DataFrame:
        """Means with intervals (see `summarise`): of complete methods on all queries, of all methods and of references
        on the CoT sample."""
        on_all = self.asked.by_kind("all", self.asked.everyone)
        in_cot = self.asked.by_kind("cot", self.asked.in_cot)
        parts = [summarise(self.scores[self.complete], on_all, self.resampling)]
        if self.asked.in_cot.any():
            parts.append(summarise(self.scores[[*self.methods, *self.references]], in_cot, self.resampling))
        return pd.concat(parts, ignore_index=True)

    @cached_property
    def _means(self) -> pd.DataFrame:
        return self.summary.set_index(["sample", "kind", "method", "metric", "k"])

    def mean(self, method: str, metric: str = "recall", at: int | None = None, kind: str = "all") -> pd.Series:
        """The row of `summary` for a method, on all queries if it has scores there, else on the CoT sample.

        Args:
            at: K; None is the first.
        """
        sample = "all" if method in self.complete else "cot"
        return self._means.loc[(sample, kind, method, metric, self.k if at is None else at)]


def by_method(*rankings: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """{method: its ranking} of frames with a column `method`."""
    return {method: part for source in rankings for method, part in source.groupby("method", sort=False)}


def score_methods(
    asked: EvaluationQueries,
    runs: Mapping[str, pd.DataFrame],
    helped: Mapping[str, pd.DataFrame],
    n_candidates: Sequence[int],
    qrels: pd.DataFrame,
    cutoffs: Sequence[int],
    resampling: Resampling,
) -> ContextScores:
    """Scores of methods on all evaluation queries or on those with chains of thought, and of a random order.

    Args:
        runs, helped: rankings by method: of all queries, and of those with chains of thought.
        n_candidates: how many candidates each query has.
        qrels: columns query, item.
    """
    table = per_query_scores(runs, qrels, asked.names, cutoffs)
    floor = random_order_scores(n_candidates, asked.n_relevant, cutoffs, seed=resampling.seed)
    table = floor.set_index(table.index).join(table)
    if helped:
        table = table.join(per_query_scores(helped, qrels, np.array(asked.names)[asked.in_cot].tolist(), cutoffs))
    return ContextScores(asked, table, tuple(helped), cutoffs, resampling)


def long_form(scores: pd.DataFrame, asked: EvaluationQueries) -> pd.DataFrame:
    """One row for each (query, method, metric, k): columns query, persona, need, kind, in_cot_sample, method, metric,
    k, value."""
    about = pd.DataFrame(
        {
            "query": asked.names,
            "persona": asked.persona,
            "need": asked.need,
            "kind": asked.kind,
            "in_cot_sample": asked.in_cot,
        }
    )
    long = scores.melt(ignore_index=False).reset_index()
    return about.merge(long, on="query")[[*about.columns, "method", "metric", "k", "value"]]


# ---- variants of the ranker


@dataclass(frozen=True)
class RankerScores:
    """Rankers side by side on the evaluation queries.

    Attributes:
        asked: the evaluation queries.
        scores: as `per_query_scores` returns them.
        means: of these, as `summarise` returns them, by kind.
        k: the cutoff of what is compared.
        resampling: of the queries.
    """

    asked: EvaluationQueries
    scores: pd.DataFrame
    means: pd.DataFrame
    k: int
    resampling: Resampling

    @classmethod
    def beside_methods(cls, scored: ContextScores, methods: Sequence[str], rankers: pd.DataFrame) -> RankerScores:
        """Some of the methods that are scored, then rankers' scores."""
        scores = scored.scores[list(methods)].join(rankers)
        means = means_by_kind(scores, scored.asked, scored.resampling)
        return cls(scored.asked, scores, means, scored.k, scored.resampling)

    def recall(self, ranker: str, kind: str = "all") -> float:
        """Recall at `k` on the queries of a kind, in percent."""
        return self.by_kind([ranker]).loc[ranker, kind]

    def tests(self, rankers: Sequence[str], against: str) -> pd.DataFrame:
        """`compare` of each ranker with one of them, indexed by ranker; NaN for that one itself."""
        family = [(name, against) for name in rankers if name != against]
        tests = compare(self.scores, family, "recall", self.k, self.resampling)
        return tests.set_index("a").reindex(list(rankers))

    def by_kind(self, rankers: Sequence[str]) -> pd.DataFrame:
        """Mean recall at `k`: one row a ranker, a column for each kind of query and for all."""
        rows = self.means[(self.means["metric"] == "recall") & (self.means["k"] == self.k)]
        return rows.pivot(index="method", columns="kind", values="value").loc[list(rankers), [*self.asked.kinds, "all"]]


def means_by_kind(scores: pd.DataFrame, asked: EvaluationQueries, resampling: Resampling) -> pd.DataFrame:
    """`summarise` of scores on all evaluation queries and on each kind."""
    return summarise(scores, asked.by_kind("all", asked.everyone), resampling)
