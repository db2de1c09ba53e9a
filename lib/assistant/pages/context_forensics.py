"""What notebook 02_context_baselines shows of the assistant paper's Table 2: can it be what its caption says?

`percent` is everywhere the published table as `common.printed_values` gives it, `names` the rows' printed names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from lib.evaluation.comparison import per_query_scores
from lib.evaluation.forensics import cut_to_recall, is_share_of, ndcg_upper_bound, random_recall
from lib.workbook.display import Drawing, Table, number
from lib.workbook.markup import plain
from lib.workbook.methods import label

PRINTED_K = (3, 5, 10)  # the cutoffs of Table 2
N_PUBLISHED = 936  # evaluation queries of the paper
CLAIMED_RATIO = 3.5  # the abstract's improvement in Recall@K
LAST_DIGIT = 0.005  # half of a printed percentage's last digit
PUBLISHED, POSSIBLE = "published NDCG", "possible under the standard ideal"
MOST, MOST_OR_ZERO = "largest possible, standard ideal", "largest possible, retrieved ideal, no-hit queries 0"


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
            MOST_OR_ZERO: 100 * ndcg_upper_bound(recall, k, reference, "retrieved_or_zero"),
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
        "Published NDCG@K beside the largest value that the published recalls allow, percent.",
        decimals=1,
    )


def bounds_drawing(bounds: pd.DataFrame, names: Mapping[str, str]) -> Drawing:
    """Published NDCG as points on bars that reach to the largest possible one."""
    figure, axis = plt.subplots(figsize=(9, 3.9))
    rows = bounds["row"].unique()
    place = np.arange(len(bounds)) + np.repeat(np.arange(len(rows)), len(PRINTED_K)) * 0.8
    axis.bar(place, bounds[MOST], color="#cfe3f1", label="largest possible (standard ideal)")
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
    return Drawing(figure, "ndcg_bounds", bounds_finding(bounds), bounds_alt(bounds, names), bounds)


def bounds_finding(bounds: pd.DataFrame) -> str:
    """How many published values are impossible under the standard definition, and by how much."""
    beyond = bounds[bounds[POSSIBLE] == "NO"]
    said = f"{len(beyond)} of the {len(bounds)} published NDCG values are no standard NDCG beside the published recalls"
    if beyond.empty:
        return said
    excess = beyond[PUBLISHED] - beyond[MOST]
    return f"{said}: {excess.min():.1f} to {excess.max():.1f} points above the largest possible"


def bounds_alt(bounds: pd.DataFrame, names: Mapping[str, str]) -> str:
    """Which published values are impossible."""
    impossible = bounds[bounds[POSSIBLE] == "NO"]
    return (
        "Bars: largest possible NDCG for each row and K of the published table. Diamonds: published values; crosses: "
        "published values above their bar, which are impossible: "
        f"{', '.join(f'{names[row.row]} at {row.K}' for row in impossible.itertuples())}."
    )


def no_hit_queries(bounds: pd.DataFrame, names: Mapping[str, str]) -> str:
    """Whether counting queries without a hit as 0 could explain the published values."""
    beyond = bounds[bounds[PUBLISHED] > bounds[MOST_OR_ZERO] + LAST_DIGIT]
    each = ", ".join(
        f"{plain(names[row])} at K = {k} ({printed:.1f} printed, {most:.1f} possible)"
        for row, k, printed, most in beyond[["row", "K", PUBLISHED, MOST_OR_ZERO]].itertuples(index=False)
    )
    said = (
        "With the ideal of the retrieved list a query without a hit has no NDCG. Counting it 0 bounds the mean by the "
        "share of queries with a hit (column “retrieved ideal, no-hit queries 0”), which is still too low for "
        f"{each or 'no row'}. "
    )
    if beyond.empty:
        return said
    return (
        f"{said}Of the three definitions only the last, the ideal of the retrieved list with no-hit queries left out, "
        "remains for all rows."
    )


def items_per_persona(dataset: pd.DataFrame) -> float:
    """Items of one persona that the paper's Table 4 adds up to.

    Args:
        dataset: columns quantity, published: `data/published/assistant_dataset.csv`.
    """
    return dataset.set_index("quantity")["published"].filter(like="items per persona").sum()


def chance_of(n_items: float) -> dict[int, float]:
    """Expected recall of a random order of `n_items`, percent, at each K of Table 2."""
    return {k: 100 * random_recall(np.array([n_items]), k) for k in PRINTED_K}


def below_chance(n_items: float, percent: pd.Series) -> pd.Series:
    """Recall@10 of the published rows that are below a random order of `n_items`, by method."""
    recall = percent.xs("recall", level="metric").xs(10, level="k")
    return recall[recall < chance_of(n_items)[10]]


def chance_in_words(n_items: float, percent: pd.Series, names: Mapping[str, str], own: pd.Series) -> str:
    """Which published rows are below a random order at K = 10.

    Args:
        n_items: from `items_per_persona`.
        own: our random order's recall by K, percent.
    """
    low = [f"{plain(names[method])} ({value:.1f}%)" for method, value in below_chance(n_items, percent).items()]
    ours = f"{own[10]:.1f}%" if 10 in own.index else "not measured"
    said = (
        f"Table 4 adds up to {n_items:.1f} items a persona. A random order of them has an expected Recall@10 of "
        f"**{chance_of(n_items)[10]:.1f}%** (our random row: {ours}), "
    )
    if not low:
        return f"{said}above none of the published rows."
    return (
        f"{said}above the published rows {' and '.join(low)}. "
        "If the stores hold just the items of Table 4, full rankings would then be worse than chance; short result "
        "lists are the likelier reading."
    )


def short_lists(
    runs: Mapping[str, pd.DataFrame], qrels: pd.DataFrame, queries: Sequence, percent: pd.Series
) -> pd.DataFrame:
    """Rankings cut at one score threshold a method, where Recall@10 is the published one, and scored.

    Args:
        runs: ranking of each method: columns query, item, rank, score.
        qrels: columns query, item.
        queries: query ids.

    Returns:
        columns method, K, results a query, and in percent recall and NDCG under three definitions beside the published.
    """
    rows = []
    for method, run in runs.items():
        short, _ = cut_to_recall(run, qrels, queries, 10, percent[method, "recall", 10] / 100)
        scores = per_query_scores({method: short}, qrels, queries, PRINTED_K)[method]
        length = short.groupby("query").size().reindex(queries, fill_value=0).mean()
        rows += [
            {
                "method": method,
                "K": k,
                "results a query": length,
                "recall": scores["recall", k].mean(),
                "published recall": percent[method, "recall", k],
                "NDCG standard": scores["ndcg", k].mean(),
                "NDCG retrieved": scores["ndcg_retrieved", k].mean(),
                "NDCG retrieved, no-hit 0": scores["ndcg_retrieved", k].fillna(0).mean(),
                PUBLISHED: percent[method, "ndcg", k],
            }
            for k in PRINTED_K
        ]
    return pd.DataFrame(rows)


def short_lists_table(lists: pd.DataFrame) -> Table:
    """`short_lists` for readers."""
    return Table(
        lists.assign(method=lists["method"].map(label)),
        "Our rankings cut at a score threshold, percent; published values beside.",
        decimals=1,
    )


def pattern_reproduced(lists: pd.DataFrame) -> str:
    """Whether short lists under the retrieved ideal change with K as the published rows do, and at which level.

    Args:
        lists: from `short_lists`.
    """
    ours, printed, recall, printed_recall = (
        lists.pivot(index="method", columns="K", values=column).pipe(lambda wide: wide[10] - wide[3])
        for column in ("NDCG retrieved", PUBLISHED, "recall", "published recall")
    )
    falls = " and ".join(
        f"{_signed(ours[method])} points ({label(method)}; published {_signed(printed[method])})"
        for method in ours.index
    )
    rises = " and ".join(
        f"{recall[method]:.1f} points ({label(method)}; published {printed_recall[method]:.1f})"
        for method in recall.index
    )
    distance = lists["NDCG retrieved"] - lists[PUBLISHED]
    close = distance.abs().max() <= 10
    levels = " and ".join(
        f"{_signed(mean)} points ({label(method)})" for method, mean in distance.groupby(lists["method"]).mean().items()
    )
    return (
        "Under the retrieved ideal with no-hit queries left out, our cut rankings change from K = 3 to K = 10 by "
        f"{falls}: the published fall {'is' if (ours < 0).all() else 'is not'} reproduced in direction. "
        f"Their recall rises by {rises}. "
        f"The level is {'' if close else 'not '}reproduced: ours lies {levels} from the printed one on average. "
        + (
            "So short lists under this definition could be how the published values arose."
            if close and (ours < 0).all()
            else "So how the published values arose stays open."
        )
    )


def _signed(points: float) -> str:
    return number(points, 1, sign=True)


def statements_table(percent: pd.Series, planner: pd.DataFrame, names: Mapping[str, str]) -> Table:
    """Statements of the paper beside what its own tables give.

    Args:
        planner: columns setting, metric, value: `data/published/planner.csv`.
    """
    recall = percent.xs("recall", level="metric")
    ratios = {
        (method, k): value / recall["semantic", k]
        for (method, k), value in recall.items()
        if method not in ("bm25t", "semantic")
    }
    best = ", ".join(f"{ratios['lambdamart_rrf', k]:.2f} (K = {k})" for k in PRINTED_K)
    near = [f"{names[method]} at K = {k}" for (method, k), ratio in ratios.items() if round(ratio, 1) == CLAIMED_RATIO]
    accuracy = planner[planner["metric"] == "ast_accuracy"].set_index("setting")["value"]
    tuned, rag = accuracy["context_tuned_rag"], accuracy["rag"]
    counts = [is_share_of(entry, N_PUBLISHED) for entry in planner["value"]]
    rows = {
        f"“{CLAIMED_RATIO}-fold improvement in Recall@K for context retrieval”": (
            f"Over Semantic Search, LambdaMART-RRF gives {best}. Ratios that round to {CLAIMED_RATIO}: "
            f"{'; '.join(near) or 'none'}. The paper does not say which is meant."
        ),
        "“11.6% increase in LLM-based planner accuracy”": (
            f"{tuned - rag:.2f} points; {100 * (tuned / rag - 1):.1f}% is the relative increase"
        ),
        f"Evaluation on {N_PUBLISHED} queries": (
            f"{sum(counts)} of the {len(counts)} percentages of Table 3 are a count over {N_PUBLISHED}, so the others "
            f"cannot be rates over {N_PUBLISHED} queries"
        ),
    }
    columns = ["claim", "recomputed from the published tables"]
    frame = pd.DataFrame(rows.items(), columns=columns)
    return Table(frame, "Published statements against published numbers.", text_columns=columns)


def finding(bounds: pd.DataFrame, n_items: float, percent: pd.Series, names: Mapping[str, str]) -> str:
    """How much of the published table cannot be what it says.

    Args:
        bounds: from `ndcg_bounds`.
        n_items: from `items_per_persona`.
    """
    low = " and ".join(plain(names[method]) for method in below_chance(n_items, percent).index)
    said = (
        "With binary relevance, the standard definition and recall averaged over queries, "
        f"{(bounds[POSSIBLE] == 'NO').sum()} of the {len(bounds)} NDCG values of the paper's Table 2 exceed what its "
        "own recalls allow."
    )
    if not low:
        return said
    return (
        f"{said} Separately, its {low} rows lie below the Recall@10 of a random order, {chance_of(n_items)[10]:.0f}%, "
        "if the stores hold just the items of its Table 4."
    )


FINDING_ALT = "Published NDCG values beside the largest values that the published recalls allow."
