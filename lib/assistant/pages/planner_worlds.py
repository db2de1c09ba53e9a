"""Notebook 07's part on the three named worlds: its figure and tables."""

from __future__ import annotations

from typing import NamedTuple

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.patches import Patch

from lib.assistant.pages.planner import OURS, SHORT
from lib.assistant.planner import ALONE_BY_RANKER, BY_RANKER
from lib.assistant.planner_worlds import BY_OURS, BY_SEARCH, CONTEXT_TUNED, PAPERS_STEPS, PLANNED, TUNED_BY_RANKER
from lib.workbook.display import Drawing, Table, interval, p_text
from lib.workbook.methods import colour

NAMES = SHORT | {
    BY_SEARCH: "RAG, context by search",
    ALONE_BY_RANKER: OURS[ALONE_BY_RANKER],
    BY_RANKER: "RAG, context by search, tools by our ranker",
    CONTEXT_TUNED: "context-tuned RAG",
    TUNED_BY_RANKER: "context-tuned RAG, tools by our ranker",
}
HATCH = "///"
CALLED = {"right_api": "p_tool", "arguments": "p_arguments"}  # what the written table calls these measures
BARE, ORACLE = "lower_bound", "upper_bound"


class WorldsFound(NamedTuple):
    """What `lib.assistant.planner_worlds` found: its summaries and steps."""

    summary: pd.DataFrame
    steps: pd.DataFrame

    @property
    def worlds(self) -> list[str]:
        return self.summary["world"].unique().tolist()

    def row(self, world: str, setting: str, metric: str = "ast_accuracy") -> pd.Series:
        """Of the summaries."""
        return self.summary.set_index(["world", "setting", "metric"]).loc[(world, setting, metric)]

    def cell(self, world: str, setting: str, metric: str = "ast_accuracy") -> str:
        """The value with its interval."""
        return interval(*self.row(world, setting, metric)[["value", "ci_low", "ci_high"]])

    def published(self, setting: str, metric: str = "ast_accuracy") -> float:
        """NaN where the paper has no such value."""
        return float(self.row(self.worlds[0], setting, metric)["published"])

    def published_step(self, a: str, b: str) -> float:
        """The published difference of two settings; NaN where the paper does not compare them."""
        return self.published(a) - self.published(b) if (a, b) in PAPERS_STEPS else float("nan")


def in_rows(summary: pd.DataFrame) -> pd.DataFrame:
    """As `tables/planner_worlds.csv` has it: world, setting, metric (with p_tool, the share of plans whose APIs are
    right, and p_arguments, the share of right ones among those), value in percent, ci_low, ci_high, n_topics, n,
    over_queries, published."""
    numbers = ["value", "ci_low", "ci_high", "n_topics", "n", "over_queries", "published"]
    return summary.assign(metric=summary["metric"].replace(CALLED))[["world", "setting", "metric", *numbers]]


def table_3(found: WorldsFound) -> Table:
    """A row a world and setting, with the published values."""
    rows = [
        {
            "world": world,
            "setting": NAMES[setting],
            "AST accuracy, ours": found.cell(world, setting),
            "AST accuracy, paper": found.published(setting),
            "answerable": found.row(world, setting, "answerable")["value"],
            "n": int(found.row(world, setting)["n"]),
        }
        for world in found.worlds
        for setting in PLANNED
    ]
    caption = "Table 3 in each world, percent with 95% intervals; published values are of the paper's world."
    return Table(pd.DataFrame(rows), caption, decimals=1)


def parts_table(found: WorldsFound) -> Table:
    """P(tool right) and P(arguments right | tool right), a row a world and setting."""
    rows = [
        {
            "world": world,
            "setting": NAMES[setting],
            "P(tool), ours": found.cell(world, setting, "right_api"),
            "P(tool), paper": found.published(setting, "right_api"),
            "P(arguments | tool), ours": found.cell(world, setting, "arguments"),
            "P(arguments | tool), paper": found.published(setting, "arguments"),
            "plans with the right tool": int(found.row(world, setting, "arguments")["n"]),
        }
        for world in found.worlds
        for setting in PLANNED
    ]
    caption = "AST accuracy as the product of two probabilities, percent with 95% intervals."
    return Table(pd.DataFrame(rows), caption, decimals=1)


def steps_table(found: WorldsFound) -> Table:
    """What each setting adds to the one below it, and our ranker's tools to cosine's."""
    frame = pd.DataFrame(
        {
            "world": found.steps["world"],
            "setting": found.steps["a"].map(NAMES),
            "against": found.steps["b"].map(NAMES),
            "difference, points": [
                interval(*row) for row in found.steps[["difference", "ci_low", "ci_high"]].to_numpy()
            ],
            "published": [found.published_step(a, b) for a, b in found.steps[["a", "b"]].to_numpy()],
            "p": [p_text(p, 3) for p in found.steps["p_value"]],
            "n": found.steps["n"],
        }
    )
    caption = "AST accuracy of neighbouring settings, and of our ranker's tools against cosine's, paired."
    return Table(frame, caption)


def panels_figure(found: WorldsFound) -> Drawing:
    """AST accuracy of the settings, a panel a world: ours with intervals, P(tool right), published values as marks.
    Where our ranker found the tools, bars are hatched."""
    rows = np.arange(len(PLANNED))[::-1]
    figure, axes = plt.subplots(
        1, len(found.worlds), figsize=(3.2 + 3.3 * len(found.worlds), 5.0), sharey=True, squeeze=False
    )
    for axis, world in zip(axes[0], found.worlds, strict=True):
        ours = pd.DataFrame([found.row(world, setting) for setting in PLANNED])
        tools = [found.row(world, setting, "right_api")["value"] for setting in PLANNED]
        value = ours["value"].to_numpy()
        reach = np.abs(ours[["ci_low", "ci_high"]].to_numpy().T - value)
        paints = [colour(setting.partition("/")[0]) for setting in PLANNED]
        hatches = [HATCH if setting in BY_OURS.values() else "" for setting in PLANNED]
        axis.barh(rows, value, height=0.6, color=paints, hatch=hatches, edgecolor="white", linewidth=0)
        axis.errorbar(value, rows, xerr=reach, fmt="none", ecolor="#333333", capsize=3)
        axis.plot(tools, rows, "D", color="#333333", markersize=5, label="right API (P(tool right))")
        published = [found.published(setting) for setting in PLANNED]
        axis.plot(
            published, rows, "o", markerfacecolor="none", markeredgecolor="#777777", label="published AST accuracy"
        )
        axis.set(yticks=rows, yticklabels=[NAMES[setting] for setting in PLANNED], xlim=(0, 103))
        axis.set_title(f"{world} (n = {int(ours['n'].max()):,})", fontsize=11, loc="left")
    axes[0][len(found.worlds) // 2].set_xlabel("percent of queries; bars: AST accuracy with its 95% interval")
    marks, _ = axes[0][0].get_legend_handles_labels()
    ours = Patch(facecolor="#888888", edgecolor="white", hatch=HATCH, linewidth=0, label="tools by our ranker")
    figure.legend(handles=[*marks, ours], loc="upper center", bbox_to_anchor=(0.5, 0.0), ncol=3, fontsize=9)
    alt = "AST accuracy by setting, bars, a panel a world; marks: right API, published."
    return Drawing(figure, "planner_worlds", "Right plans in three worlds", alt, in_rows(found.summary))
