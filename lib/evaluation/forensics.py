"""What published tables can and cannot be, from their own numbers.

Table 2 of the assistant paper: the largest NDCG that its recalls allow. Two assumptions are made, that recall is
averaged over queries and that relevance is binary. With graded gains NDCG@K has no other bound than the share of
queries with a hit: then five of the six cells of text and semantic search are possible, and only BM25's NDCG@3 is too
large.

Tables 1-4 of the workflow paper: `data/published/workflow_ablation.csv` holds differences from each table's own
baseline, columns table, selector, shots, definitions, metric, delta. All functions named `published` take that frame.
Similarity runs from 0 to 1, the three failure rates are percentages.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from itertools import product
from typing import Literal

import numpy as np
import pandas as pd
from scipy.optimize import linprog
from scipy.sparse import coo_array, csr_array, vstack

from lib.evaluation.ranking import discounts

MAX_RELEVANT = 40
ROUNDING = 5e-5  # published percentages have two decimals

CONDITION = ["selector", "shots", "definitions"]
# Baselines of the ablation's tables: Tables 1 and 2, Table 3, Table 4. The last is not a row of any other table.
BASELINE = ("pretrained", 5, "none")
BASELINE_3 = ("pretrained", 20, "none")
FINETUNED = ("finetuned", 0, "none")
SHARED_WITH_4 = ("tst", 20, "fd")  # the row that Tables 3 and 4 both have
SOURCES = {1: "Table 1", 2: "Table 2", 3: "Tables 1, 3", 4: "Tables 1, 3, 4"}
LAST_DIGIT = 0.01  # printed numbers have two decimals, so sums and differences of three are off by this much


@cache
def _outcomes(cutoffs: tuple[int, ...], max_relevant: int) -> np.ndarray:
    """All (relevant, hits@k1, hits@k2, …) a query can have: int array (outcomes, 1 + cutoffs)."""
    steps = np.diff((0, *cutoffs))
    return np.array(
        [
            (relevant, *hits)
            for relevant in range(1, max_relevant + 1)
            for hits in product(*(range(min(relevant, k) + 1) for k in cutoffs))
            if all(0 <= after - before <= step for before, after, step in zip((0, *hits), hits, steps, strict=False))
        ]
    )


def ndcg_upper_bound(
    recall: Mapping[int, float],
    k: int,
    reference: Mapping[int, float],
    gains: Literal["binary", "graded"] = "binary",
    max_relevant: int = MAX_RELEVANT,
) -> float:
    """The largest mean NDCG@k a method can have, given its mean recalls and those of another on the same queries.

    A linear program over the joint distribution of how many items are relevant and how many of them each method finds
    by each cutoff; the two methods meet in the number of relevant items. Recalls hold within their rounding.

    Args:
        recall: the method's mean recall by cutoff, 0 to 1; `k` is one of the cutoffs.
        reference: mean recall by cutoff of the method that constrains the number of relevant items.
        gains: `binary`, each relevant item gains the same; `graded`, one hit may gain nearly all that there is, so that
            a query's NDCG is bounded by whether it has a hit.
        max_relevant: largest number of relevant items considered.

    Raises:
        ValueError: k is no cutoff of `recall`, or no distribution has such recalls.
    """
    cutoffs = tuple(sorted(recall))
    if k not in cutoffs or tuple(sorted(reference)) != cutoffs:
        raise ValueError("both methods need recalls at the same cutoffs, k among them")
    outcomes = _outcomes(cutoffs, max_relevant)
    relevant, size = outcomes[:, 0], len(outcomes)
    if gains == "binary":
        gain = np.concatenate([[0.0], np.cumsum(discounts(max(cutoffs)))])
        found = np.column_stack([np.zeros(size, dtype=int), outcomes[:, 1:]])
        best = np.zeros(size)  # hits between two cutoffs stand right behind the first of them
        for i, (before, cutoff) in enumerate(zip((0, *cutoffs), cutoffs, strict=False)):
            if cutoff <= k:
                best += gain[before + found[:, i + 1] - found[:, i]] - gain[before]
        value = best / gain[np.minimum(relevant, k)]
    else:
        value = (outcomes[:, 1 + cutoffs.index(k)] > 0).astype(float)
    # Variables: the method's outcome probabilities, then the reference's.
    share = outcomes[:, 1:].T / relevant
    upper, bounds_of = [], []
    for i, cutoff in enumerate(cutoffs):
        for offset, target in ((0, recall[cutoff]), (size, reference[cutoff])):
            row = np.zeros(2 * size)
            row[offset : offset + size] = share[i]
            upper += [row, -row]
            bounds_of += [target + ROUNDING, -(target - ROUNDING)]
    same = coo_array(
        (np.r_[np.ones(size), -np.ones(size)], (np.r_[relevant, relevant] - 1, np.arange(2 * size))),
        shape=(max_relevant, 2 * size),
    ).tocsr()
    total = np.r_[np.ones(size), np.zeros(size)]
    solved = linprog(
        -np.r_[value, np.zeros(size)],
        A_ub=csr_array(np.array(upper)),
        b_ub=bounds_of,
        A_eq=vstack([same, csr_array(total[None, :])]).tocsr(),
        b_eq=np.r_[np.zeros(max_relevant), 1.0],
        bounds=(0, None),
        method="highs",
    )
    if not solved.success:
        raise ValueError(f"no distribution of relevant items has these recalls: {solved.message}")
    return float(-solved.fun)


def _on_one_scale(published: pd.DataFrame) -> pd.DataFrame:
    """The printed cells with two more columns: their table's `baseline`, and their `value`, where `BASELINE` is 0."""
    cells = published.set_index(["table", *CONDITION, "metric"], verify_integrity=True)["delta"].sort_index()
    of_3 = cells.loc[(1, *BASELINE_3)]
    finetuned = of_3 + cells.loc[(3, *SHARED_WITH_4)] - cells.loc[(4, *SHARED_WITH_4)]
    zero = pd.Series(0.0, of_3.index)
    baselines = pd.concat({1: zero, 2: zero, 3: of_3, 4: finetuned}, names=["table"]).round(2)
    rows = published.join(baselines.rename("baseline"), on=["table", "metric"])
    return rows.assign(value=(rows["baseline"] + rows["delta"]).round(2))


def chained(published: pd.DataFrame) -> pd.DataFrame:
    """All conditions of the workflow paper's Tables 1-4 on one scale, on which the baseline of Tables 1 and 2 is 0.

    Table 3's baseline is a row of Table 1. Table 4's, the fine-tuned model, follows from the row TST + FD, which Tables
    3 and 4 share. Where a condition is printed twice, the table with the lower number counts: it needs fewer links.
    `conflicts` has what the other one says.

    Returns:
        columns selector, shots, definitions, metric, value, source (the tables it comes from). The fine-tuned model has
        the selector `finetuned`, 0 shots and no definitions.

    Raises:
        ValueError: a cell is there twice.
        KeyError: a row that links two tables is missing.
    """
    rows = _on_one_scale(published).sort_values("table", kind="stable")
    rows = rows.assign(source=rows["table"].map(SOURCES))
    baselines = rows[rows["table"].isin([1, 4])].drop_duplicates(["table", "metric"])
    baselines = baselines.assign(value=baselines["baseline"])
    first, last = (
        baselines[baselines["table"] == table].assign(**dict(zip(CONDITION, condition, strict=True)))
        for table, condition in ((1, BASELINE), (4, FINETUNED))
    )
    scale = pd.concat([first, rows, last])[[*CONDITION, "metric", "value", "source"]]
    return scale.drop_duplicates([*CONDITION, "metric"], ignore_index=True)


def conflicts(published: pd.DataFrame, tolerance: float = LAST_DIGIT) -> pd.DataFrame:
    """Cells of the workflow paper's Tables 1-4 that differ by more than `tolerance` from what an earlier table gives.
    The row that links Tables 3 and 4 is left out: the fine-tuned model's values come from it.

    Returns:
        columns table, selector, shots, definitions, metric, printed, follows (what `chained` has, from the table's own
        baseline), difference (printed - follows), source (the tables that `follows` comes from).
    """
    rows = _on_one_scale(published)
    links = (rows["table"] == 4) & (rows[CONDITION] == list(SHARED_WITH_4)).all(axis=1)
    rows = rows[~links].merge(chained(published), on=[*CONDITION, "metric"], suffixes=("", "_chained"))
    rows = rows[rows["source"] != rows["table"].map(SOURCES)].rename(columns={"delta": "printed"})
    rows["follows"] = (rows["value_chained"] - rows["baseline"]).round(2)
    rows["difference"] = (rows["printed"] - rows["follows"]).round(2)
    rows = rows[rows["difference"].abs() > tolerance]
    return rows[["table", *CONDITION, "metric", "printed", "follows", "difference", "source"]].reset_index(drop=True)


def level_bounds(published: pd.DataFrame) -> pd.DataFrame:
    """What the deltas of the workflow paper's Tables 1-4 say about the values that they leave out, within rounding.

    No rate is below 0, so each condition's is at least its distance from the lowest one. Flows that do not parse or
    have a made-up name count as similarity 0 (section 4.2.1), so no condition's similarity exceeds its share of other
    flows, and the tightest such bound carries over to the rest. It holds whether made-up names are counted over the
    flows that parse (equation 4) or over all flows (the sentence before it).

    Returns:
        columns selector, shots, definitions, metric, bound (`at least` for rates, `at most` for similarity), value.
    """
    values = chained(published).pivot(index=CONDITION, columns="metric", values="value")
    rates = values.drop(columns="similarity")
    least = rates - rates.min()
    usable = (1 - least["unparsed"] / 100) * (1 - least["made_up_names"] / 100)
    most = values[["similarity"]] + (usable - values["similarity"]).min()
    parts = [
        part.melt(ignore_index=False).assign(bound=bound) for part, bound in ((least, "at least"), (most, "at most"))
    ]
    return pd.concat(parts).round(3).reset_index()[[*CONDITION, "metric", "bound", "value"]]
