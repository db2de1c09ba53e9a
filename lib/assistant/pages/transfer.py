"""Tables, figure and sentences of notebook 11: WorkBench, and claims asked of both worlds."""

from __future__ import annotations

import re
import textwrap
from typing import NamedTuple

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.lines import Line2D

from lib.assistant.workbench import NEED_LOGS, TOOLS, WorkBench
from lib.assistant.workbench_plans import SHOWN_TOOLS
from lib.evaluation.inference import Resampling
from lib.evaluation.intervals import mean_interval
from lib.workbook.display import Drawing, Table, interval, number
from lib.workbook.markup import plain
from lib.workbook.methods import label

FIGURE = "transfer"
ALT = (
    "Forest plot of the claims in points, a row a claim and K: the effect in this workbook's worlds and, below it, the "
    "same effect on WorkBench or Flow-Bench, with 95% intervals. The numbers are in tables/transfer.csv."
)
SIDES = {"here": ("this workbook's worlds", "o", "#0072B2"), "there": ("others' data", "s", "#D55E00")}
KNOWN_PLACES = ("random", "oracle_shots", "oracle_context", "query_plus_random_context")  # floors and oracles
SETTLED = ("reproduced", "contradicted")
UNITS = {"points": " points", "percent": "%", "fold": "-fold"}
LINE, ROW, GAP = 0.17, 0.34, 0.16  # inches: a line of a claim, a row of the figure, and what parts two claims
WIDTH = 46  # characters of a claim's line
CLUSTERS = {"template": "templates", "family": "families of requests"}


def workbench_words(bench: WorkBench, context: pd.DataFrame) -> str:
    """What there is to find, and what cannot be asked."""
    asked, tools = context["query"].nunique(), len(bench.tools)
    most = bench.relevant["query"].value_counts().max()
    unasked = ", ".join(label(name) for name in NEED_LOGS)
    return (
        f"Of {len(bench.queries)} requests from {bench.queries['template'].nunique()} templates {asked} have an answer "
        f"that names items, up to {most} each, among {len(bench.items):,}; "
        f"{(bench.queries['n_calls'] > 0).sum()} have an answer that calls a tool. Only the {tools} of "
        f"WorkBench's {TOOLS} tools that some answer calls are searched, since the data name no others: recall is "
        f"flattered. The planner's retrieved tools are {min(SHOWN_TOOLS, tools)} of these {tools}. The data have no "
        f"log of what a user opened: {unasked} cannot be asked."
    )


def scores_table(scores: pd.DataFrame, what: str, cluster: str, rows: list[str]) -> Table:
    """Means with 95% intervals over clusters, a row a method (and sample), a column a metric and cutoff.

    Args:
        scores: long form, columns method, metric, k, value, `cluster` and those of `rows` besides the method.
        what: begins the caption.
    """
    means = scores.groupby([*rows, "metric", "k"], sort=False)[["value", cluster]].apply(_mean, cluster)
    wide = means.reset_index(name="shown")
    wide["column"] = wide["metric"] + "@" + wide["k"].astype(str) + ", %"
    wide = wide.pivot(index=rows, columns="column", values="shown")
    known = list(dict.fromkeys(scores["metric"] + "@" + scores["k"].astype(str) + ", %"))
    frame = wide[known].reindex(list(scores[rows].drop_duplicates().itertuples(index=False, name=None)) if len(rows) > 1
                                else list(dict.fromkeys(scores[rows[0]]))).reset_index()  # fmt: skip
    frame["method"] = frame["method"].map(label)
    return Table(frame, f"{what}, with 95% intervals over {CLUSTERS[cluster]}.")


def _mean(group: pd.DataFrame, cluster: str) -> str:
    values = group["value"].to_numpy()
    low, high = mean_interval(values, Resampling([group[cluster]]))
    return interval(values.mean(), float(low), float(high), 1)


def transfer_table(transfer: pd.DataFrame) -> Table:
    """Each claim here and there, its effects at its first cutoff; of several methods each side's weakest."""
    cutoffs = transfer.groupby("claim", sort=False)["k"].agg(", ".join)
    transfer = by_claim(transfer)
    named = zip(*([label(name) for name in transfer[f"{side}_method"]] for side in SIDES), strict=True)
    frame = pd.DataFrame(
        {
            "claim": [plain(text) for text in transfer["statement"]],
            "method": [here if here == there else f"{here} here, {there} there" for here, there in named],
            "K": cutoffs[transfer["claim"]].to_numpy(),
            **{
                f"{side}{what}": values
                for side in SIDES
                for what, values in (
                    ("", [_effect(row, side) for row in transfer.to_dict("records")]),
                    (": verdict", transfer[f"{side}_overall"]),
                )
            },
            "n here, there": [f"{a:,}, {b:,}" for a, b in transfer[["here_n", "there_n"]].to_numpy()],
            "claims here, there": [f"{a}, {b}" for a, b in transfer[["here_tests", "there_tests"]].to_numpy()],
        }
    )
    caption = (
        "Effects here and there at the first K, with 95% intervals (points; percent below a level, fold for ratios). "
        "The verdict is of the whole claim, at all its K, with Holm's adjustment over the claims asked of the same "
        "data. Of a claim about several methods, each side's weakest. The figure has every K of the claims in points; "
        "tables/transfer.csv has every K of all claims. The margin is what counts here; the index judges against "
        "published effects, so its verdict may differ. Underpowered: so few queries could not show the effect. "
        "Undecided: clear by itself, not after Holm's adjustment. Equivalent: no effect as large as the margin."
    )
    return Table(frame, caption)


def _effect(row: dict, side: str) -> str:
    digits = 2 if row["unit"] == "fold" else 1
    return interval(row[f"{side}_effect"], row[f"{side}_ci_low"], row[f"{side}_ci_high"], digits)


def order_table(orders: pd.DataFrame, methods: dict[str, list[str]]) -> Table:
    """Kendall's tau of the methods' order by family."""
    frame = pd.DataFrame(
        {
            "order of": orders["family"],
            "methods": [", ".join(label(name) for name in methods.get(key, [])) for key in orders["family"]],
            "pairs": orders["pairs"],
            "Kendall's tau": [_tau(row) for row in orders.to_dict("records")],
        }
    )
    caption = (
        "Agreement of the methods' order here and there, without floors and oracles, whose places are known; 95% "
        "intervals by bootstrap over clusters of queries on both sides. None stands where all draws agree, as they may "
        "for a single pair."
    )
    return Table(frame, caption)


def _tau(row: dict) -> str:
    """Kendall's tau, with its interval where that is more than a point."""
    tau, low, high = (row[name] for name in ("tau", "ci_low", "ci_high"))
    return number(tau, 2) if low == high else interval(tau, low, high, 2)


def transfer_drawing(transfer: pd.DataFrame) -> Drawing:
    """Effects here and there side by side, of the claims in points, at every K."""
    drawn = transfer[transfer["unit"] == "points"]
    titles = {
        name: textwrap.fill(_short(rows["statement"].iloc[0]), WIDTH)
        for name, rows in drawn.groupby("claim", sort=False)
    }
    heights = {
        name: max(LINE * (titles[name].count("\n") + 1), ROW * len(rows)) + GAP
        for name, rows in drawn.groupby("claim", sort=False)
    }
    figure, axis = plt.subplots(figsize=(10, 1.2 + sum(heights.values())))
    ticks: dict[float, str] = {}
    top = 0.0
    for name, rows in drawn.groupby("claim", sort=False):
        middle = top + heights[name] / 2
        places = middle + ROW * (np.arange(len(rows)) - (len(rows) - 1) / 2)
        for (side, (_, marker, colour)), shift in zip(SIDES.items(), (-0.07, 0.07), strict=True):
            _draw(axis, rows, side, places + shift, marker, colour)
        ticks |= dict(zip(places, "K = " + rows["k"].astype(str), strict=True))
        _name(axis, titles[name], middle)
        top += heights[name]
        axis.axhline(top, color="#d0d0d0", linewidth=0.8)
    axis.axvline(0, color="#444444", linewidth=1)
    axis.grid(axis="y", visible=False)
    axis.set(xlabel="effect, points, with its 95% interval", ylim=(top, 0))
    axis.set_yticks(list(ticks), list(ticks.values()))
    _legend(figure)
    return Drawing(figure, FIGURE, held_words(transfer).rstrip("."), ALT, transfer)


def _draw(axis, rows: pd.DataFrame, side: str, places: np.ndarray, marker: str, colour: str) -> None:
    """One side's effects at these places; filled where the verdict at this K is settled."""
    settled = rows[f"{side}_verdict"].isin(SETTLED)
    ends = rows[[f"{side}_ci_low", f"{side}_ci_high"]].to_numpy(dtype=float).T
    axis.hlines(places, *ends, color=colour, linewidth=2)
    for place, effect, filled in zip(places, rows[f"{side}_effect"], settled, strict=True):
        face = colour if filled else "white"
        axis.plot(effect, place, marker=marker, color=colour, markerfacecolor=face, markersize=6)


def _name(axis, title: str, place: float) -> None:
    """A claim's words left of the rows' labels."""
    at = {"xycoords": ("axes fraction", "data"), "textcoords": "offset points", "annotation_clip": False}
    axis.annotate(title, (0, place), (-52, 0), ha="right", va="center", fontsize=9, **at)


def _legend(figure) -> None:
    """Which mark is whose, and that hollow ones are open; below the axes."""
    keys = [
        Line2D([], [], marker=marker, color=colour, label=said, markersize=6) for said, marker, colour in SIDES.values()
    ]
    keys.append(Line2D([], [], marker="o", color="#666666", markerfacecolor="white", label="hollow: open at this K"))
    height = figure.get_size_inches()[1]
    figure.legend(handles=keys, loc="lower right", ncol=len(keys), fontsize=9, bbox_to_anchor=(0.99, -0.3 / height))


def _short(statement: str) -> str:
    """A statement without what stands in brackets, and without its full stop."""
    return re.sub(r" \([^)]*\)", "", statement).rstrip(".")


# ---------------------------------------------------------------- whole claims, counted


def held_words(transfer: pd.DataFrame) -> str:
    """How many claims that are reproduced here hold there, by the verdicts of whole claims."""
    there = by_claim(transfer).query("here_overall == 'reproduced'")["there_overall"]
    held, turned = (int((there == verdict).sum()) for verdict in SETTLED)
    return (
        f"Of {len(there)} claims that are reproduced here, others' data reproduce {held} and contradict {turned}; "
        f"{len(there) - held - turned} stay open there."
    )


def by_claim(transfer: pd.DataFrame) -> pd.DataFrame:
    """One row a claim, its first cutoff: a claim is one test, however many cutoffs it has."""
    return transfer.drop_duplicates("claim")


class Directions(NamedTuple):
    """Of the claims in points: `same`, those whose effects have one sign, here and there, at every K; `below` of these,
    where that sign is a minus; `claims` in all."""

    same: int
    below: int
    claims: int


def directions(transfer: pd.DataFrame) -> Directions:
    """How many claims have effects of the same sign in both worlds."""
    drawn = transfer[transfer["unit"] == "points"]
    signs = np.sign(drawn[["here_effect", "there_effect"]].to_numpy(dtype=float))
    above, below = (pd.Series((signs == sign).all(axis=1)).groupby(drawn["claim"].to_numpy()).all() for sign in (1, -1))
    return Directions(int(above.sum() + below.sum()), int(below.sum()), drawn["claim"].nunique())


def directions_words(transfer: pd.DataFrame) -> str:
    """Signs, which say nothing of what is settled, and whether they are the claimed ones."""
    same, below, of = directions(transfer)
    against = f", {below} of them below zero on both sides, against the claim" if below else ""
    return f"{same} of {of} claims in points have effects of the same sign here and there at every K{against}."


def contradicted_words(transfer: pd.DataFrame) -> str:
    """The claims that others' data contradict and that are not reproduced here; empty where there are none."""
    found = transfer[(transfer["there_overall"] == "contradicted") & (transfer["here_overall"] != "reproduced")]
    told = [_both(_telling(rows), "; ") for _, rows in found.groupby("claim", sort=False)]
    return f"Contradicted there and not reproduced here: {'; '.join(told)}." if told else ""


def _telling(rows: pd.DataFrame) -> dict:
    """The cutoff of a claim with the verdict there of the whole claim, the first one where several have it."""
    alike = rows[rows["there_verdict"] == rows["there_overall"]]
    return (alike if len(alike) else rows).iloc[0].to_dict()


def _both(row: dict, between: str = ", ") -> str:
    """A claim and its effects on both sides at one cutoff."""
    here, there = (f"{_effect(row, side)}{UNITS[row['unit']]} {side}" for side in SIDES)
    return f"“{plain(_short(row['statement']))}” at K = {row['k']} ({there}{between}{here})"


def order_words(orders: pd.DataFrame) -> str:
    """How far both worlds order methods alike; empty where no family has two methods."""
    if orders.empty:
        return ""
    row = orders.iloc[-1].to_dict()
    pairs = "1 pair" if row["pairs"] == 1 else f"{row['pairs']} pairs"
    return f"Order of methods, without floors and oracles: Kendall's tau {_tau(row)} over {pairs}."


def finding(transfer: pd.DataFrame, orders: pd.DataFrame) -> str:
    """For the top of the page and the index."""
    parts = [held_words(transfer), contradicted_words(transfer), directions_words(transfer), order_words(orders)]
    return " ".join(filter(None, parts))


def turned_words(transfer: pd.DataFrame) -> str:
    """The claims that hold on one side and not on the other, by the verdicts of whole claims."""
    settled = {"reproduced": 1, "contradicted": -1}
    turned = transfer[transfer["here_overall"].map(settled) * transfer["there_overall"].map(settled) < 0]
    if turned.empty:
        said = "No claim is reproduced on one side and contradicted on the other."
    else:
        parts = [_both(_telling(rows)) for _, rows in turned.groupby("claim", sort=False)]
        said = f"Reproduced on one side and contradicted on the other: {'; '.join(parts)}."
    return f"{said} {contradicted_words(transfer)}".strip()


def explained_words(bench: WorkBench, runs: dict[str, pd.DataFrame]) -> str:
    """A request that one search answers with the first item and another misses, and how far down that one finds it."""
    ranks = {
        name: runs[name].merge(bench.relevant, on=["query", "item"]).groupby("query")["rank"].min()
        for name in ("bm25t", "semantic")
    }
    table = pd.DataFrame(ranks).dropna()
    ahead = "bm25t" if (table["bm25t"] < table["semantic"]).sum() * 2 >= len(table) else "semantic"
    behind = "semantic" if ahead == "bm25t" else "bm25t"
    best = table[table[ahead] == table[ahead].min()]
    query = best[behind].idxmax()
    text = bench.queries.set_index("query").loc[query, "text"]
    title = bench.items.set_index("item").loc[bench.relevant.set_index("query")["item"].loc[[query]].iloc[0], "title"]
    wins = (table[ahead] < table[behind]).sum()
    return (
        f"{label(ahead)} has its first relevant item higher than {label(behind)} for {wins} of {len(table)} requests. "
        f"Where they differ most, “{plain(text)}” asks for “{plain(title)}”: place {number(best.loc[query, ahead], 0)} "
        f"by {label(ahead)}, {number(best.loc[query, behind], 0)} by {label(behind)}."
    )
