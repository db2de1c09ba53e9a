"""Negative controls: the same data with one link cut. A ranker that still profits from the link has seen it elsewhere.

What a method sees or learns from is changed in copies; evaluation keeps the true labels.

A ranker of labels dealt anew is no random order: what stands out in any signal comes first or last under it, and what
is looked for stands out, so such rankers find more than a random order does, and so do their rankings reversed. What
tells whether the true labels came through is the direction: without them a ranking and its reverse find the same on
average.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from lib.assistant.ranking import RankingTask
from lib.evaluation.comparison import per_query_scores
from lib.evaluation.inference import Resampling, difference_interval, mean_interval
from lib.retrieval.stores import rank_pairs, relevant_pairs_mask

MARGIN = 4.0  # percentage points of recall: what counts as no difference
HALFWAY = "halfway to its reverse"  # the mean of a ranking's recall and that of the ranking reversed
LOG_DRAWS = 2  # at most: each needs features of its own


def negative_controls(
    task: RankingTask,
    draws: int,
    k: int,
    no_usage: np.ndarray,
    groups: Mapping[str, np.ndarray],
    resampling: Resampling,
) -> pd.DataFrame:
    """Whether a ranker with one link cut is worth no more than its reference: with logs dealt anew among a persona's
    items, than without usage; with labels dealt anew among a query's candidates, than halfway to its reverse.

    Args:
        draws: how many permutations of the labels; of the logs as many, at most `LOG_DRAWS`.
        k: the cutoff of recall.
        no_usage: recall at k, percent, of a ranker without usage signals, one an evaluation query.
        groups: of evaluation queries by name, bools.
        resampling: of the evaluation queries.

    Returns:
        column queries (the group), and those of `weighed`.
    """
    names, logs, dealt = task.queries_of("evaluation"), [], []
    for draw in range(min(draws, LOG_DRAWS)):
        opens = permute_logs(task.items, task.opens, np.random.default_rng([task.seed, draw]))
        features = task.features_with(opens)
        logs.append(task.rank(task.predict(task.learn(features=features), task.evaluation, features)))
    for draw in range(draws):
        labels = permute_labels(task.pairs, task.relevant, np.random.default_rng([task.seed, 100 + draw]))
        dealt.append(task.rank(task.predict(task.learn(labels=labels), task.evaluation)))

    def recall(runs: Sequence[pd.DataFrame]) -> np.ndarray:
        found = per_query_scores({str(i): run for i, run in enumerate(runs)}, task.qrels, names, [k])
        return found.xs("recall", axis=1, level="metric").to_numpy().T

    noise = recall(dealt)
    halfway = (noise + recall([reverse(run) for run in dealt])) / 2
    rows = []
    for name, here in groups.items():
        over = resampling.among(here)
        found = recall(logs)[:, here]
        rows.append(
            {"queries": name} | weighed("logs permuted", found, "without usage", no_usage[None, here], over, False)
        )
        rows.append(
            {"queries": name} | weighed("labels permuted", noise[:, here], HALFWAY, halfway[:, here], over, True)
        )
    return pd.DataFrame(rows).sort_values("control", ascending=False, kind="stable", ignore_index=True)


def weighed(
    control: str, recall: np.ndarray, reference: str, other: np.ndarray, resampling: Resampling, one_sided: bool
) -> dict:
    """A control beside its reference. It holds if the interval of the difference lies within ±`MARGIN`; a one-sided
    one (labels that came through could only add), if it lies below the margin.

    Args:
        recall, other: (draws, queries) in percent, the control's and the reference's.
        resampling: of these queries.

    Returns:
        control, recall, reference, reference_recall, difference, ci_low, ci_high, holds, draws.
    """
    ours, theirs = recall.mean(axis=0), other.mean(axis=0)
    gap, low, high = difference_interval(ours, theirs, resampling)
    return {
        "control": control,
        "recall": mean_interval(ours, resampling).value,
        "reference": reference,
        "reference_recall": mean_interval(theirs, resampling).value,
        "difference": gap,
        "ci_low": low,
        "ci_high": high,
        "holds": bool(high < MARGIN and (one_sided or low > -MARGIN)),
        "draws": len(recall),
    }


def reverse(run: pd.DataFrame) -> pd.DataFrame:
    """A ranking of each query's candidates with the last first."""
    queries = run.assign(query_row=pd.factorize(run["query"])[0])
    return rank_pairs(queries, -run["score"].to_numpy())


def permute_logs(items: pd.DataFrame, opens: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    """Usage logs dealt anew among each persona's items: every log stays whole, only whose it is changes.

    Args:
        items: columns item, persona.
        opens: columns item, time, place, each of an item in `items`.
    """
    persona = items["persona"].to_numpy()
    new_owner = dict(
        zip(
            items["item"].to_numpy()[np.argsort(persona, kind="stable")],
            items["item"].to_numpy()[np.lexsort((rng.random(len(items)), persona))],
            strict=True,
        )
    )
    return opens.assign(item=opens["item"].map(new_owner))


def permute_labels(pairs: pd.DataFrame, relevant: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Labels dealt anew among each query's candidates: as many relevant items a query, but any of them.

    Args:
        pairs: column query.
        relevant: one label a pair.
    """
    query = pd.factorize(pairs["query"])[0]
    permuted = np.empty_like(relevant)
    permuted[np.argsort(query, kind="stable")] = relevant[np.lexsort((rng.random(len(query)), query))]
    return permuted


def relevant_dealt_anew(pairs: pd.DataFrame, qrels: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    """Relevant items dealt anew among each query's candidates (see `permute_labels`), as columns query, item.

    Args:
        pairs: columns query, item.
        qrels: columns query, item, one row a relevant pair.
    """
    return pairs.loc[permute_labels(pairs, relevant_pairs_mask(pairs, qrels), rng), ["query", "item"]]
