"""Differences with their 95% intervals, one below the other: a forest plot in place of a table of differences."""

from __future__ import annotations

import textwrap
from collections.abc import Hashable, Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from lib.workbook.display import INK, Drawing, number

SETTLED, OPEN, PUBLISHED = "#1f77b4", "#8a8a8a", "#c8642a"
LABEL = 36  # characters of a label's line; longer labels are wrapped
LINE, GAP = 0.17, 0.13  # inches: a line of a label, and what parts two rows


def forest(
    rows: pd.DataFrame,
    name: str,
    finding: str,
    unit: str,
    *,
    label: Hashable = "comparison",
    panel: Hashable | None = None,
    decimals: int = 1,
) -> Drawing:
    """One line a comparison: its difference, its 95% interval, and both as numbers at the right.

    A filled mark is a settled difference, a hollow one an open one, a cross the published difference. Settled are those
    that the caller calls so.

    Args:
        rows: columns `label` (what is compared), difference, ci_low, ci_high, settled (bool), and if the paper has one,
            published; in the order drawn. Other columns (p, n) go into the figure's CSV only.
        name: file name of the figure.
        finding: its title.
        unit: of the differences, for the axis.
        panel: a column that parts the rows into panels side by side, which share their labels' order.
        decimals: of the numbers at the right.
    Raises:
        ValueError: there are no rows.
    """
    if rows.empty:
        raise ValueError("a forest plot needs at least one row")
    panels = list(dict.fromkeys(rows[panel])) if panel is not None else [None]
    labels = {text: textwrap.fill(str(text).replace(" = ", "\u00a0=\u00a0"), LABEL) for text in rows[label]}
    heights = np.array([GAP + LINE * (text.count("\n") + 1) for text in labels.values()])
    places = dict(zip(labels, heights.cumsum() - heights / 2, strict=True))
    height = 1.15 + heights.sum()
    figure, axes = plt.subplots(
        1,
        len(panels),
        figsize=(10 if len(panels) == 1 else 4.6 * len(panels) + 1.5, height),
        sharey=True,
        squeeze=False,
    )
    for axis, part in zip(axes[0], panels, strict=True):
        shown = rows if part is None else rows[rows[panel] == part]
        _draw(axis, shown, places, label, decimals)
        axis.set_xlabel(unit)
        if part is not None:
            axis.set_title(str(part), fontsize=10, loc="left")
    axes[0][0].set_yticks(list(places.values()), list(labels.values()))
    axes[0][0].set_ylim(heights.sum(), 0)
    keys = [
        Line2D([], [], marker="o", color=SETTLED, label="settled"),
        Line2D([], [], marker="o", color=OPEN, markerfacecolor="white", label="not settled"),
    ]
    if "published" in rows and rows["published"].notna().any():
        keys.append(Line2D([], [], marker="x", color=PUBLISHED, linestyle="", label="published"))
    figure.legend(handles=keys, loc="lower right", ncol=len(keys), fontsize=9, bbox_to_anchor=(0.99, -0.3 / height))
    alt = f"Forest plot of {len(rows)} differences, {unit}, with 95% intervals; the numbers stand at the right."
    return Drawing(figure, name, finding, alt, rows)


def forest_of_tests(tests: pd.DataFrame, comparisons: Sequence[str], name: str, unit: str) -> Drawing:
    """Paired tests as a forest plot.

    Args:
        tests: columns difference, ci_low, ci_high, settled (bool); others go into the figure's CSV.
        comparisons: what each row compares, for readers; all different.
        name, unit: as in `forest`.
    """
    return forest(tests.assign(comparison=list(comparisons)), name, "Differences with 95% intervals", unit)


def _draw(axis: Axes, rows: pd.DataFrame, places: Mapping[Hashable, float], label: Hashable, decimals: int) -> None:
    """The rows of a panel; `places`: inches from the top of the axis to each label."""
    axis.axvline(0, color=INK, linewidth=1)
    axis.grid(axis="y", visible=False)
    for _, row in rows.iterrows():
        place = places[row[label]]
        if row["difference"] != row["difference"]:
            continue
        color = SETTLED if row["settled"] else OPEN
        axis.plot([row["ci_low"], row["ci_high"]], [place, place], color=color, linewidth=2)
        face = color if row["settled"] else "white"
        axis.plot(row["difference"], place, marker="o", markersize=6, color=color, markerfacecolor=face)
        if "published" in row and row["published"] == row["published"]:
            axis.plot(row["published"], place, marker="x", markersize=7, color=PUBLISHED)
        low, high = number(row["ci_low"], decimals), number(row["ci_high"], decimals)
        axis.annotate(
            f"{number(row['difference'], decimals, sign=True)} [{low}, {high}]",
            (1.01, place),
            xycoords=("axes fraction", "data"),
            va="center",
            fontsize=9,
            annotation_clip=False,
        )
