"""Negative controls: the same data with one link cut. A ranker that still profits from the link has seen it elsewhere.

What a method sees or learns from is changed in copies; evaluation keeps the true labels.

A ranker of labels dealt anew is no random order: what stands out in any signal comes first or last under it, and what
is looked for stands out, so such rankers find more than a random order does, and so do their rankings reversed. What
tells whether the true labels came through is the direction: without them a ranking and its reverse find the same on
average.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pandas as pd

from lib.assistant.context_scores import RankerScores
from lib.evaluation.inference import Resampling, difference_interval, mean_interval
from lib.retrieval.stores import rank_pairs, relevant_pairs_mask

if TYPE_CHECKING:
    from lib.assistant.ranking_task import RankingTask

MARGIN = 4.0  # percentage points of recall: what counts as no difference
# What each control must be worth, and whether it may also be worth less: labels that came through could only add.
HALFWAY = "halfway to its reverse"  # the mean of a ranking's recall and that of the ranking reversed
REFERENCES = {"logs permuted": "lambdamart_no_usage", "labels permuted": HALFWAY}
ONE_SIDED = {"labels permuted"}
LOG_DRAWS = 2  # at most: each needs features of its own


def negative_controls(task: RankingTask, draws: int) -> dict[str, list[pd.DataFrame]]:
    """Rankings of the evaluation queries with one link cut, one for each draw, by control (see `REFERENCES`).

    Args:
        draws: how many permutations of the labels; of the logs as many, at most `LOG_DRAWS`.
    """
    seed = task.learning.seed
    logs = [
        task.features_with(permute_logs(task.items, task.opens, np.random.default_rng([seed, draw])))
        for draw in range(min(draws, LOG_DRAWS))
    ]
    labels = [
        permute_labels(task.pairs, task.relevant, np.random.default_rng([seed, 100 + draw])) for draw in range(draws)
    ]
    return {
        "logs permuted": [task.rank(task.learn(features=features), features) for features in logs],
        "labels permuted": [task.rank(task.learn(labels=dealt)) for dealt in labels],
    }


class Recalls(NamedTuple):
    """Each evaluation query's recall under each draw of a control, (draws, queries) in percent, and that of the same
    rankings reversed."""

    forward: np.ndarray
    backward: np.ndarray


def recall_of_draws(task: RankingTask, controls: Mapping[str, Sequence[pd.DataFrame]], k: int) -> dict[str, Recalls]:
    """Recall at `k` under each control's draws."""

    def recall(runs: Sequence[pd.DataFrame]) -> np.ndarray:
        return np.array([task.score({"run": run})["run", "recall", k].to_numpy() for run in runs])

    return {name: Recalls(recall(runs), recall([reverse(run) for run in runs])) for name, runs in controls.items()}


def reverse(run: pd.DataFrame) -> pd.DataFrame:
    """A ranking of each query's candidates with the last first."""
    queries = run.assign(query_row=pd.factorize(run["query"])[0])
    return rank_pairs(queries, -run["score"].to_numpy())


def weigh_controls(recalls: Mapping[str, Recalls], rankers: RankerScores) -> pd.DataFrame:
    """Whether each control is worth no more than its reference, on all queries and on habit queries.

    A control holds if the interval of its difference lies within ±`MARGIN`; a one-sided one, if it lies below the
    margin.

    Args:
        recalls: by control.
        rankers: with the references.

    Returns:
        columns control, queries (all, habit), recall, backward (of the same rankings reversed), reference,
        reference_recall, difference, ci_low, ci_high, test (one-sided, two-sided), holds, deviation (in a tested
        direction).
    """
    rows = []
    for name, (recall, backward) in recalls.items():
        reference, one_sided = REFERENCES[name], name in ONE_SIDED
        if reference == HALFWAY:
            other = (recall + backward) / 2
        else:
            other = np.broadcast_to(rankers.scores[reference, "recall", rankers.k].to_numpy(), recall.shape)
        for kind in ("all", "habit") if "habit" in rankers.asked.kinds else ("all",):
            here = rankers.asked.of_kind(kind)
            over = rankers.resampling.among(here)
            gap, low, high = gap_of_draws(recall[:, here], other[:, here], over)
            values = [mean_interval(side[:, here].mean(axis=0), over).value for side in (recall, backward, other)]
            rows.append(
                {
                    "control": name,
                    "queries": kind,
                    "recall": values[0],
                    "backward": values[1],
                    "reference": reference,
                    "reference_recall": values[2],
                    "difference": gap,
                    "ci_low": low,
                    "ci_high": high,
                    "test": "one-sided" if one_sided else "two-sided",
                    "holds": within_margin(low, high, one_sided),
                    "deviation": gap if one_sided else abs(gap),
                }
            )
    return pd.DataFrame(rows)


def gap_of_draws(recall: np.ndarray, other: np.ndarray, resampling: Resampling) -> tuple[float, float, float]:
    """Recall minus that of the reference, each query's mean over draws, with its interval.

    Args:
        recall, other: (draws, queries) in percent.
        resampling: of these queries.
    """
    return difference_interval(recall.mean(axis=0), other.mean(axis=0), resampling)


def within_margin(low: float, high: float, one_sided: bool) -> bool:
    """Whether an interval lies within ±`MARGIN`; a one-sided one below it."""
    return bool(high < MARGIN and (one_sided or low > -MARGIN))


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
