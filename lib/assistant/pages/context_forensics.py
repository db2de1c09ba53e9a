"""What notebook 02_context_baselines shows of the assistant paper's Table 2: can it be what its caption says?

`percent` is everywhere the published table as `common.printed_values` gives it, `names` the rows' printed names.
"""

from __future__ import annotations

from collections.abc import Mapping

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from lib.evaluation.forensics import ndcg_upper_bound
from lib.workbook.display import Drawing, Table

PRINTED_K = (3, 5, 10)  # the cutoffs of Table 2
LAST_DIGIT = 0.005  # half of a printed percentage's last digit
PUBLISHED, POSSIBLE = "published NDCG", "possible under binary relevance"
MOST, MOST_GRADED = "largest possible, binary relevance", "largest possible, graded gains"


def ndcg_bounds(percent: pd.Series) -> pd.DataFrame:
    """The largest NDCG that each published row's recalls allow, beside the printed one.

    Returns:
        columns row, K, and in percent `PUBLISHED`, `MOST`, `MOST_OR_ZERO`; `POSSIBLE` is yes or NO.
    """
    methods = percent.index.get_level_values("method").unique()
    recalls = {method: {k: percent[method, "recall", k] / 100 for k in PRINTED_K} for method in methods}
    reference = recalls["lambdamart_rrf"]
    rows = [
        {
            "row": method,
            "K": k,
            PUBLISHED: percent[method, "ndcg", k],
            MOST: 100 * ndcg_upper_bound(recall, k, reference),
            MOST_GRADED: 100 * ndcg_upper_bound(recall, k, reference, "graded"),
        }
        for method, recall in recalls.items()
        for k in PRINTED_K
    ]
    bounds = pd.DataFrame(rows)
    return bounds.assign(**{POSSIBLE: np.where(bounds[PUBLISHED] <= bounds[MOST] + LAST_DIGIT, "yes", "NO")})


def bounds_table(bounds: pd.DataFrame, names: Mapping[str, str]) -> Table:
    """`ndcg_bounds` with the rows' printed names."""
    return Table(
        bounds.assign(row=bounds["row"].map(names)),
        "Published NDCG@K beside the largest that the published recalls, as means over queries, allow, percent.",
        decimals=1,
    )


def bounds_drawing(bounds: pd.DataFrame, names: Mapping[str, str]) -> Drawing:
    """Published NDCG as points on bars that reach to the largest possible one."""
    figure, axis = plt.subplots(figsize=(9, 3.9))
    rows = bounds["row"].unique()
    place = np.arange(len(bounds)) + np.repeat(np.arange(len(rows)), len(PRINTED_K)) * 0.8
    axis.bar(place, bounds[MOST], color="#cfe3f1", label="largest possible (binary relevance)")
    styles: dict[str, dict] = {
        "yes": {"color": "#000000", "marker": "D", "label": "published"},
        "NO": {"color": "#D55E00", "marker": "X", "s": 70, "label": "published, impossible"},
    }
    for answer, style in styles.items():
        drawn = (bounds[POSSIBLE] == answer).to_numpy()
        axis.scatter(place[drawn], bounds[PUBLISHED][drawn], zorder=3, **style)
    axis.set(xticks=place, xticklabels=[f"@{k}" for k in bounds["K"]], ylabel="NDCG@K, %", ylim=(0, 105))
    axis.tick_params(axis="x", labelsize=8)
    for group, row in enumerate(rows):
        middle = place[group * len(PRINTED_K) + 1]
        axis.text(middle, -14, names[row].replace(" ", "\n", 1), ha="center", va="top", fontsize=8.5)
    axis.legend(loc="upper center", bbox_to_anchor=(0.5, -0.27), ncol=3, fontsize=9)
    return Drawing(figure, "ndcg_bounds", "Published NDCG on the largest possible", bounds_alt(bounds, names), bounds)


def bounds_alt(bounds: pd.DataFrame, names: Mapping[str, str]) -> str:
    """Which published values are impossible."""
    impossible = bounds[bounds[POSSIBLE] == "NO"]
    return (
        "Bars: largest possible NDCG for each row and K of the published table. Diamonds: published values; crosses: "
        "published values above their bar, which are impossible: "
        f"{', '.join(f'{names[row.row]} at {row.K}' for row in impossible.itertuples())}."
    )
