"""Tables and figure of notebook 11: WorkBench, and claims asked of both worlds."""

from __future__ import annotations

import re
import textwrap

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.lines import Line2D

from lib.evaluation.claims import HOLDS, REVERSED
from lib.evaluation.inference import Resampling, mean_interval
from lib.workbook.display import Drawing, Table, interval
from lib.workbook.markup import plain
from lib.workbook.methods import label

ALT = (
    "Forest plot of the claims in points, a row a claim and K: the effect in this workbook's worlds and, below it, the "
    "same effect on WorkBench or Flow-Bench, with 95% intervals. The numbers are in tables/transfer.csv."
)
SIDES = {"here": ("this workbook's worlds", "o", "#0072B2"), "there": ("others' data", "s", "#D55E00")}
LINE, ROW, GAP = 0.17, 0.34, 0.16  # inches: a line of a claim, a row of the figure, and what parts two claims
WIDTH = 46  # characters of a claim's line
CLUSTERS = {"template": "templates", "family": "families of requests"}


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
    return interval(*mean_interval(group["value"].to_numpy(), Resampling(group[cluster].to_numpy())), 1)


def transfer_table(transfer: pd.DataFrame) -> Table:
    """Each claim here and there, a row a K."""
    rows = transfer.to_dict("records")
    frame = pd.DataFrame(
        {
            "claim": [plain(text) for text in transfer["statement"]],
            "K": transfer["k"],
            "here": [_effect(row, "here") for row in rows],
            "here: word": transfer["here_word"],
            "there": [_effect(row, "there") for row in rows],
            "there: word": transfer["there_word"],
            "n here, there": [f"{a:,}, {b:,}" for a, b in transfer[["here_n", "there_n"]].to_numpy()],
        }
    )
    return Table(frame, "Each claim in this workbook's worlds and on others' data.", text_columns=["claim"])


def _effect(row: dict, side: str) -> str:
    digits = 2 if row["unit"] == "fold" else 1
    return interval(row[f"{side}_effect"], row[f"{side}_ci_low"], row[f"{side}_ci_high"], digits)


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
    return Drawing(figure, "transfer", "Effects here and on others' data", ALT, transfer)


def _draw(axis, rows: pd.DataFrame, side: str, places: np.ndarray, marker: str, colour: str) -> None:
    """One side's effects at these places; filled where the interval lies beside 0."""
    settled = rows[f"{side}_word"].isin([HOLDS, REVERSED])
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
    keys.append(Line2D([], [], marker="o", color="#666666", markerfacecolor="white", label="hollow: not clear"))
    height = figure.get_size_inches()[1]
    figure.legend(handles=keys, loc="lower right", ncol=len(keys), fontsize=9, bbox_to_anchor=(0.99, -0.3 / height))


def _short(statement: str) -> str:
    """A statement without what stands in brackets, and without its full stop."""
    return re.sub(r" \([^)]*\)", "", statement).rstrip(".")
