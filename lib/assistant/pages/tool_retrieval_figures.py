"""The figures of notebook 06: recall against K, the ratio of recalls, and the gain by group."""

from __future__ import annotations

from collections.abc import Mapping

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from lib.assistant.pages.tool_retrieval import (
    FLOORS,
    MAIN,
    PUBLISHED_RATIO,
    UNTOUCHED,
    Results,
    named,
    pair_figure,
    style_of,
)
from lib.assistant.tool_retrieval import ceiling
from lib.evaluation.inference import settled
from lib.workbook.display import Drawing, label_lines, legend_below
from lib.workbook.methods import colour, label, marker

BANDED = ("query_only", "query_plus_context", "oracle_context")
INK = "#333333"


def recall_figure(results: Results) -> Drawing:
    """Recall against K: searches solid, references that read no tool's text and useless context dotted."""
    figure, axis = plt.subplots(figsize=(9, 5))
    cutoffs = results.cutoffs.all
    ends: dict[str, tuple[float, float, str]] = {}
    for method in [*UNTOUCHED, *FLOORS, *MAIN]:
        part, style = results.value.loc[(method, "recall")], style_of(method)
        draw_line(axis, part, style, strong=method in MAIN)
        if method in BANDED:
            axis.fill_between(part.index, part["ci_low"], part["ci_high"], color=colour(style), alpha=0.15)
        ends[named(method)] = (cutoffs[-1], part["value"].iloc[-1], colour(style))
    ends["best possible"] = draw_ceiling(axis, results)
    axis.set_ylabel("Recall@K of the right tools, %\n(bands: 95% interval, of three solid lines)")
    label_lines(axis, ends, gap=4)
    shown = [*MAIN, *FLOORS, *UNTOUCHED]
    data = results.summary[(results.summary["metric"] == "recall") & results.summary["method"].isin(shown)]
    alt = "Recall of the right tools against K, by what is searched with."
    return Drawing(
        figure, "tool_recall", "Right tools found, by what is searched with", alt, data.drop(columns=["kind", "sample"])
    )


def draw_line(axis, part: pd.DataFrame, style: str, strong: bool) -> None:
    """One method's means over K (the index of `part`), solid or dotted, in its colour and with its marker."""
    look = {"linewidth": 2, "linestyle": "-"} if strong else {"linewidth": 1, "linestyle": ":"}
    axis.plot(part.index, part["value"], color=colour(style), marker=marker(style), **look)


def draw_ceiling(axis, results: Results) -> tuple[float, float, str]:
    """The best possible recall as a dashed line, and the axes' range; returns the line's end for `label_lines`."""
    cutoffs = results.cutoffs.all
    best_possible = ceiling(results.task.shortest, results.scores.index, cutoffs)
    axis.plot(cutoffs, best_possible, color=INK, linestyle="--", linewidth=1)
    axis.set(xlabel="K (tools retrieved)", xticks=cutoffs, ylim=(0, 100))
    return cutoffs[-1], best_possible[-1], INK


def ratio_figure(ratios: Mapping[str, pd.DataFrame]) -> Drawing:
    """How many times as many right tools are found with context as without, against K.

    Args:
        ratios: for each of three settings what `lib.evaluation.comparison.ratios` gives.
    """
    figure, axis = plt.subplots(figsize=(8.5, 4.2))
    for place, (method, part) in enumerate(ratios.items()):
        axis.errorbar(
            part["k"] + (place - 1) * 0.16,
            part["ratio"],
            yerr=[part["ratio"] - part["ci_low"], part["ci_high"] - part["ratio"]],
            color=colour(method),
            marker=marker(method),
            linestyle="none",
            capsize=2,
            markersize=7,
            label=label(method),
        )
    retrieved = ratios["query_plus_context"]
    cutoffs = retrieved["k"].tolist()
    axis.axhline(1, color=INK, linewidth=1)
    axis.axhline(PUBLISHED_RATIO, color="#000000", linestyle="--", linewidth=1)
    end = (cutoffs[-1] + 0.6, PUBLISHED_RATIO)
    axis.annotate("published: 1.5", end, fontsize=9, va="center", annotation_clip=False)
    axis.set(xlabel="K (tools retrieved)", xticks=cutoffs, ylabel="ratio of recalls, log scale\n(bars: 95% interval)")
    axis.set_xlim(cutoffs[0] - 0.5, cutoffs[-1] + 0.5)
    axis.set(yscale="log", yticks=[0.5, 1, 1.5, 2, 3], yticklabels=["0.5", "1", "1.5", "2", "3"])
    axis.minorticks_off()
    legend_below(axis, columns=3)
    alt = "Ratio of recall with context to recall of the query alone, against K."
    data = pd.concat([part.assign(setting=name) for name, part in ratios.items()])
    return Drawing(figure, "tool_gain", "Right tools with context over without", alt, data)


def group_figure(parted: pd.DataFrame, k: int) -> Drawing:
    """The change of recall through retrieved context by group of queries; filled where it is settled.

    Args:
        parted: from `lib.evaluation.comparison.compare_in_groups`.
    """
    figure, axis = plt.subplots(figsize=(8.5, 4.4))
    # A gap lies below the kinds of query.
    height = np.arange(len(parted))[::-1] + parted["group"].str.startswith("resolved").to_numpy()
    firm = settled(parted).to_numpy()
    for chosen, face in ((firm, colour("query_plus_context")), (~firm, "white")):
        part = parted[chosen]
        axis.errorbar(
            part["difference"],
            height[chosen],
            xerr=[part["difference"] - part["ci_low"], part["ci_high"] - part["difference"]],
            fmt="o",
            color=colour("query_plus_context"),
            markerfacecolor=face,
            capsize=3,
            markersize=7,
        )
    axis.axvline(0, color=INK, linewidth=1)
    axis.set(
        yticks=height,
        yticklabels=[f"{row.group} (n = {row.n})" for row in parted.itertuples()],
        xlabel=f"Recall@{k} with retrieved context minus query alone, points\n(bars: 95% interval; filled: beside 0)",
    )
    alt = f"Change of Recall@{k} through retrieved context by group of queries."
    return Drawing(figure, "tool_gain_by_group", "What context changes, by group of queries", alt, parted)


# ---------------------------------------------------------------- paired tests


def differences(results: Results, tests: pd.DataFrame) -> Drawing:
    """A line a paired test between settings."""
    return pair_figure(tests, results, "tool_retrieval_tests")
