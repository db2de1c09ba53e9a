"""Methods of context retrieval on needs that no training query asks about, beside the same ones trained with them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from lib.assistant.context_scores import ORDER, ContextScores
from lib.assistant.ranker_ablation import SEEING
from lib.evaluation.comparison import per_query_scores, summarise
from lib.evaluation.inference import Resampling
from lib.evaluation.intervals import difference_interval

UNTRAINED = ("recency", "bm25t", "semantic", "cot", "cot_distilled", "finetuned_cot")  # on these needs
NEVER_TRAINED = ("recency", "bm25t", "semantic", "cot")  # on any need
TEXT_TRAINED = ("finetuned", "cross_encoder", "late_interaction")
WITH_CHAINS = ("cot_distilled", "finetuned_cot")  # as they are, neither writer nor encoder met the held-out needs
TRAINED = (*TEXT_TRAINED, "lambdamart", "lambdamart_rrf", "lambdamart_2", *SEEING)
ON_ALL_NEEDS = (*TRAINED, *WITH_CHAINS)  # what loses something on needs of five folds


@dataclass(frozen=True)
class UnseenNeeds:
    """Scores on the evaluation queries about needs that were left out of training.

    Attributes:
        needs: those that occur among the evaluation queries.
        kinds: of query, in the order in which a page names them.
        kind: of each of these queries.
        scores: one row for each of them, of methods trained without the needs; NaN where a method has no ranking.
        known: the same queries' scores of methods that were trained with the needs.
        k: the cutoff of what is compared.
        resampling: of these queries.
        trained: methods of `known` that were trained with the needs, or most of them.
    """

    needs: set[str]
    kinds: list[str]
    kind: np.ndarray
    scores: pd.DataFrame
    known: pd.DataFrame
    k: int
    resampling: Resampling
    trained: tuple[str, ...] = TRAINED

    @cached_property
    def methods(self) -> list[str]:
        scored = self.scores.columns.get_level_values("method")
        return [method for method in dict.fromkeys((*ORDER, *SEEING)) if method in scored]

    @cached_property
    def summary(self) -> pd.DataFrame:
        """Means with intervals, as `summarise` returns them; the sample is `unseen_needs`."""
        groups = {(name, "unseen_needs"): (self.kind == name) | (name == "all") for name in ("all", *self.kinds)}
        return summarise(self.scores[self.methods], groups, self.resampling)

    @cached_property
    def changes(self) -> pd.DataFrame:
        """What a method that learns loses: one row for each of `trained` that is scored.

        Returns:
            indexed by method: known (mean recall at `k`, trained with the needs), difference, ci_low, ci_high.
        """
        methods = [method for method in self.trained if method in self.methods]
        columns = [(method, "recall", self.k) for method in methods]
        known, fresh = (frame.loc[:, columns].droplevel(["metric", "k"], axis=1) for frame in (self.known, self.scores))
        low, high = difference_interval(fresh.to_numpy(), known.to_numpy(), self.resampling)
        change = (fresh - known).mean()
        return pd.DataFrame({"known": known.mean(), "difference": change, "ci_low": low, "ci_high": high})


def never_told(rankings: Mapping[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
    """{method: its rankings by models that met no query's need}, of notebook 04's methods that have such.

    Args:
        rankings: by name, those as `<method>_unseen_needs`.
    """
    there = [name for name in (*TEXT_TRAINED, *WITH_CHAINS) if f"{name}_unseen_needs" in rankings]
    return {name: rankings[f"{name}_unseen_needs"] for name in there}


def ranked_everywhere(runs: Mapping[str, pd.DataFrame], queries: Collection[str]) -> dict[str, pd.DataFrame]:
    """The rankings of methods that see a trained encoder or writer, where they rank all of the queries."""
    seeing = [name for name in (*TEXT_TRAINED, *WITH_CHAINS, *SEEING) if name in runs]
    return {name: runs[name] for name in seeing if set(queries) <= set(runs[name]["query"])}


def score_unseen(
    scored: ContextScores,
    needs: set[str],
    runs: Mapping[str, pd.DataFrame],
    qrels: pd.DataFrame,
    trained: tuple[str, ...] = TRAINED,
) -> UnseenNeeds:
    """Scores on the evaluation queries about the needs.

    Args:
        scored: the methods that were trained with them, and a random order.
        needs: left out of training.
        runs: rankings by method, of methods trained without them.
        qrels: columns query, item.
        trained: see `UnseenNeeds`.
    """
    asked = scored.asked
    unseen = np.isin(asked.need, list(needs))
    queries = np.array(asked.names)[unseen]
    tables = [scored.scores.loc[unseen, ["random"]]]
    for method, run in runs.items():
        there = queries[np.isin(queries, run["query"].unique())]
        if len(there):
            tables.append(per_query_scores({method: run}, qrels, there.tolist(), scored.cutoffs))
    scores = pd.concat(tables, axis=1).reindex(queries)
    return UnseenNeeds(
        needs & set(asked.need),
        asked.kinds,
        asked.kind[unseen],
        scores,
        scored.scores[unseen],
        scored.k,
        scored.resampling.among(unseen),
        trained,
    )
