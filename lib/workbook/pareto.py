"""Quality against cost in small panels: every condition as a point, the Pareto front as a line."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, NullFormatter
from matplotlib.transforms import Bbox

from lib.workbook.display import Drawing, label_points, set_title

LINE = "#999999"
ROOM = 4.0  # times the least cost at which an axis begins
NAMES = 12.0  # times the most cost at which it ends: names stand there
LETTERS = 22  # of a line of a name


class Axis(NamedTuple):
    """A cost that a panel has on its x axis: in words with its unit, and from which value on its scale is logarithmic
    (below, it is linear: many conditions cost nothing)."""

    words: str
    linear: float = 0.0


COSTS = {
    "seconds": Axis("seconds a request", 1e-4),
    "tokens": Axis("tokens read and written a request", 5),
    "dollars": Axis("US dollars for 1,000 requests", 0.05),
}

DRAWN = ("seconds", "dollars")  # where tokens are in the table: money is tokens, weighted


def pareto_drawing(
    points: pd.DataFrame,
    name: str,
    finding: str,
    rows: Mapping[str, str],
    alt: str,
    costs: Sequence[str] = tuple(COSTS),
) -> Drawing:
    """A row of panels for each question, a panel for each cost; the names of what lies on a front stand beside it, and
    numbers beside what the legend cannot tell apart by colour and marker.

    Args:
        points: columns row (a key of `rows`), name (for readers), value, ci_low, ci_high, colour, marker, group (what
            these two mean), and for each of `costs` its value (NaN where it was not measured) and `front_<cost>` (bool,
            see `lib.evaluation.pareto.with_fronts`).
        name, finding, alt: of the figure.
        rows: {key: the quality with its unit, for the y axis}.

    Raises:
        ValueError: there are no points.
    """
    if points.empty:
        raise ValueError("a figure of quality against cost needs at least one point")
    present = [row for row in rows if (points["row"] == row).any()]
    size = (4.5 * len(costs), 3.7 * len(present) + 0.5)
    figure, axes = plt.subplots(len(present), len(costs), figsize=size, squeeze=False)
    for line, row in zip(axes, present, strict=True):
        part = points[points["row"] == row]
        for axis, cost in zip(line, costs, strict=True):
            _panel(axis, part.dropna(subset=[cost, "value"]), cost)
        line[0].set_ylabel(rows[row])
    numbers = _numbers(points[points["row"].isin(present)], costs)
    set_title(figure, finding)
    _legend(figure, points, numbers)
    for line, row in zip(axes, present, strict=True):
        for axis, cost in zip(line, costs, strict=True):
            _name(axis, points[points["row"] == row].dropna(subset=[cost, "value"]), cost, numbers)
    return Drawing(figure, name, finding, alt, points)


def _numbers(points: pd.DataFrame, costs: Sequence[str]) -> dict[str, int]:
    """Numbers from 1 of the names that share colour and marker with another and are on no front, cheapest first."""
    cheapest = points.sort_values(list(costs), kind="stable")
    names = cheapest.groupby(["group", "colour", "marker"])["name"].nunique().rename("names")
    shared = cheapest.join(names, on=["group", "colour", "marker"])
    on = shared[[f"front_{cost}" for cost in costs]].astype(bool).any(axis=1).groupby(shared["name"]).transform("any")
    wanted = shared.loc[~on & (shared["names"] > 1), "name"]
    return {name: number for number, name in enumerate(dict.fromkeys(wanted), start=1)}


def _legend(figure: Figure, points: pd.DataFrame, numbers: Mapping[str, int]) -> None:
    """Below the panels, where it covers no data: what colours and markers mean, then what the numbers do."""
    once = points.drop_duplicates(["group", "colour", "marker"])
    marks = [
        Line2D([], [], color=one.colour, marker=one.marker, linestyle="none", label=one.group)
        for one in once.itertuples()
    ]
    colour = points.drop_duplicates("name").set_index("name")["colour"]
    marks += [
        Line2D([], [], color=colour[name], marker=f"${number}$", markersize=8, linestyle="none", label=name)
        for name, number in numbers.items()
    ]
    columns = 3 if numbers else 4
    figure.legend(handles=marks, loc="upper center", bbox_to_anchor=(0.5, 0.0), ncol=columns, fontsize=8)


def _panel(axis: Axes, part: pd.DataFrame, cost: str) -> None:
    axis.set_xlabel(COSTS[cost].words)
    if part.empty:
        axis.text(0.5, 0.5, "not measured", transform=axis.transAxes, ha="center", color=LINE)
        axis.set(xticks=[], yticks=[])
        return
    for point in part.itertuples():
        errors = [[max(point.value - point.ci_low, 0)], [max(point.ci_high - point.value, 0)]]
        axis.errorbar(getattr(point, cost), point.value, yerr=errors, marker=point.marker, color=point.colour,
                      linestyle="none", capsize=2, markersize=7, alpha=0.9)  # fmt: skip
    front = part[part[f"front_{cost}"]].sort_values([cost, "value"])
    axis.plot(front[cost], front["value"], color=LINE, linewidth=1.2, zorder=0)
    least, most = part[cost].min(), part[cost].max()
    if least > 0:
        axis.set(xscale="log", xlim=(least / ROOM, most * NAMES))
        axis.xaxis.set_major_formatter("{x:g}")
        axis.xaxis.set_minor_formatter(NullFormatter())
        if most < 10 * least:  # else no number may stand on the axis
            axis.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    else:
        linear = COSTS[cost].linear
        axis.set_xscale("symlog", linthresh=linear)
        axis.xaxis.set_major_formatter(lambda x, _: "" if 0 < x < linear else f"{x:,g}")  # beside 0 there is no room
        axis.set_xlim(-COSTS[cost].linear / 3, max(most, COSTS[cost].linear) * NAMES)
    highest = np.nanmax(part["ci_high"])
    axis.set_ylim(0, highest * 1.25)
    if highest <= 100:  # names have room above, but no percentage is there
        axis.set_yticks([tick for tick in axis.get_yticks() if 0 <= tick <= 100])


def _name(axis: Axes, part: pd.DataFrame, cost: str, numbers: Mapping[str, int]) -> None:
    """Write the names of what lies on the front, and the numbers of the others, beside all that is drawn."""
    on = part[f"front_{cost}"].astype(bool)
    points = {
        textwrap.fill(row.name, LETTERS): (getattr(row, cost), row.value, row.colour)
        for row in part[on].sort_values("value", ascending=False).itertuples(index=False)
    }
    numbered = part["name"].isin(list(numbers))
    for row in part[numbered].itertuples(index=False):
        points[str(numbers[row.name])] = (getattr(row, cost), row.value, row.colour)
    bars = [Bbox([[x, low], [x, high]]) for x, low, high in part[[cost, "ci_low", "ci_high"]].to_numpy(float)]
    label_points(axis, points, bars, part.loc[~on & ~numbered, [cost, "value"]].to_numpy(float).tolist())
