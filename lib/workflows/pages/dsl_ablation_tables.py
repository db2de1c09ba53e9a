"""Notebook 09: rows beside a baseline, the paper's Tables 1 to 4 rebuilt, and their figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from lib.evaluation.inference import LEVEL
from lib.workbook.display import Drawing, Table, number
from lib.workbook.markup import plain
from lib.workbook.methods import colour
from lib.workflows.ablation import DELTAS, contract
from lib.workflows.pages.common import (
    METRIC,
    SETTLED,
    change,
    error_bars,
    metric_intervals,
    settled_deltas,
    wide_by_metric,
    without_unit,
)
from lib.workflows.pages.dsl_ablation import Study, Writers
from lib.workflows.scoring import METRICS
from lib.workflows.target_similarity import jaccard

MARKS = (
    " Flows: tested, and in brackets those that the other row has too, on which the difference Δ is taken; the value "
    "of a row is over all of its own. After a difference: on how many flows it is tested, where fewer count in both "
    f"rows. {SETTLED} settled."
)


def compared_table(study: Study, compared: pd.DataFrame, caption: str) -> Table:
    """Rows with their values and differences: what `Study.compare` returned, where there is one with a column
    published_delta."""
    table = wide_by_metric(compared, "condition", compared_cells(compared))
    table.insert(0, "flows", flows_of(compared))
    table.insert(0, "condition", table.index.map(study.titles))
    return Table(table.reset_index(drop=True), caption + MARKS, text_columns=["condition"])


def compared_cells(compared: pd.DataFrame) -> list[str]:
    """What stands in a cell: the value, and of how many where not of all; its difference; the published one."""
    parsed = np.where(compared["counted"] == compared["n"], "", " of " + compared["counted"].map("{:.0f}".format))
    printed = compared.get("published_delta", pd.Series(np.nan, compared.index))
    beside = ["" if value != value else f"\npublished Δ {number(value, 2)}" for value in printed]
    parts = metric_intervals(compared), parsed, _differences(compared), beside
    return ["".join(one) for one in zip(*parts, strict=True)]


def _differences(compared: pd.DataFrame) -> list[str]:
    marks = np.where(settled_deltas(compared), f" {SETTLED}", "")
    counted = zip(compared["counted_both"], compared["shared"], strict=True)
    fewer = [f" of {n:.0f}" if n < shared else "" for n, shared in counted]
    texts = metric_intervals(compared, DELTAS)
    return ["" if text == "–" else f"\nΔ {text}{n}{mark}" for text, n, mark in zip(texts, fewer, marks, strict=True)]


def flows_of(compared: pd.DataFrame) -> list[str]:
    """For each condition its flows, and in brackets those shared with the baseline."""
    sizes = compared.drop_duplicates("condition")
    return [f"{row.n:.0f}" + (f" ({row.shared:.0f})" if row.shared == row.shared else "") for row in sizes.itertuples()]


def changes(study: Study, compared: pd.DataFrame) -> str:
    """Which differences of a table are settled, and how many could not be."""
    texts = [
        f"{study.titles[row.condition]}: {without_unit(row.metric)} {change(row)}"
        for row in compared[settled_deltas(compared)].itertuples()
    ]
    tested = compared.dropna(subset=["delta"])
    return (
        f"**{len(texts)} of {len(tested)} differences are settled**"
        + (f" ({'; '.join(texts)})" if texts else "")
        + too_few(tested)
    )


def too_few(tested: pd.DataFrame) -> str:
    """A sentence's end: how many of the differences no outcome could settle."""
    smallest_p = 2.0 ** (1 - tested["counted_both"])  # of the exchanges of so many flows
    hopeless = (smallest_p * len(tested) > LEVEL).sum()
    return f"; {hopeless} could not be, whatever the outcome: too few flows count in both rows. " if hopeless else ". "


class Rebuilt(NamedTuple):
    """A table of the paper, rebuilt: its rows beside the baseline, the report's columns, and what a page shows."""

    compared: pd.DataFrame
    contract: pd.DataFrame
    table: Table
    words: str


def rebuilt(study: Study, published: pd.DataFrame, number: int, conditions: Sequence[str], baseline: str) -> Rebuilt:
    """Table `number` of the paper: its conditions against its baseline; `published` has the printed differences."""
    compared = study.compare([baseline, *conditions], baseline)
    table = contract(compared, study.rows, published[published["table"] == number])
    compared = compared.assign(published_delta=table["published_delta"], table=number, baseline=baseline)
    caption = (
        f"Table {number} of the paper, rebuilt. Differences from: {study.titles[baseline]}. {study.writers.untuned} "
        f"writes the flows of all rows with few-shots{study.writers.also_tuned}."
    )
    words = changes(study, compared) + with_published(compared)
    return Rebuilt(compared, table, compared_table(study, compared, caption), words)


def with_published(compared: pd.DataFrame) -> str:
    """How often our interval holds the published difference, and how often that says something."""
    beside = compared.dropna(subset=["published_delta", "delta", "delta_ci_low"])
    inside = beside["published_delta"].between(beside["delta_ci_low"], beside["delta_ci_high"])
    also = beside.loc[inside, "delta_ci_low"] * beside.loc[inside, "delta_ci_high"] <= 0
    return (
        f"Our interval holds the published difference for {inside.sum()} of {len(beside)}; for {also.sum()} of these "
        f"it holds 0 as well, so it tells the two apart in {inside.sum() - also.sum()}."
    )


def tuning_in_words(tuned: int, near: Mapping[str, pd.Series], asked: pd.DataFrame, apis: Sequence) -> str:
    """What TST's few-shots have in common with the right flows, before any model reads them.

    Args:
        tuned: pairs that TST's encoder was tuned on, at most.
        near: {selector: few-shots by pair, as positions in `apis`}.
        asked: the test requests, columns pair, apis.
        apis: of each training pair.
    """
    tst, pretrained = (number(_mean_jaccard(near[name], asked, apis), 2) for name in ("tst", "pretrained"))
    return (
        f"TST's encoder was tuned on at most {tuned:,} pairs of requests, the paper's on 100,000. Before any model "
        f"reads them, its five few-shots have a mean Jaccard similarity of {tst} with the right flow, those of the "
        f"pretrained encoder {pretrained} (notebook 08, over all test requests)."
    )


def _mean_jaccard(near: pd.Series, asked: pd.DataFrame, apis: Sequence) -> float:
    shown = zip(near[asked["pair"].tolist()], asked["apis"], strict=True)
    return np.mean([np.mean([jaccard(apis[shot], wanted) for shot in shots[:5]]) for shots, wanted in shown])


def at_a_glance(study: Study, tables: Sequence[Rebuilt]) -> pd.DataFrame:
    """The rows of all tables that have a difference, with a column name: how the figure calls them."""
    everything = pd.concat([one.compared for one in tables], ignore_index=True).dropna(subset=["delta"])
    short = everything["condition"].map(study.titles).str.replace("pretrained encoder", "pretrained")
    names = "Table " + everything["table"].astype(str) + ": " + short.str.replace(" few-shots", "")
    return everything.assign(name=names)


def verdict(everything: pd.DataFrame) -> str:
    """How our differences agree with the published ones, a comparison printed in two tables counted once."""
    once = everything.drop_duplicates(["condition", "metric", "baseline"])
    inside = once["published_delta"].between(once["delta_ci_low"], once["delta_ci_high"])
    undecided = inside & (once["delta_ci_low"] * once["delta_ci_high"] <= 0)
    opposite = (once["delta"] * once["published_delta"] < 0) & settled_deltas(once)
    return (
        f"our 95% intervals hold {inside.sum()} of {len(once)} published differences, but {undecided.sum()} of these "
        f"intervals hold 0 as well; {opposite.sum()} of our differences are settled the other way"
    )


def glance_drawing(everything: pd.DataFrame) -> Drawing:
    """A panel a metric: our differences with their intervals, and the published ones."""
    names = list(dict.fromkeys(everything["name"]))[::-1]
    figure, axes = plt.subplots(2, 2, figsize=(11, 7.6), sharey=True)
    for axis, metric in zip(axes.flat, METRICS, strict=True):
        part = everything[everything["metric"] == metric].set_index("name").reindex(names)
        _glance_panel(axis, part, metric)
    for axis in axes[:, 1]:
        axis.tick_params(labelleft=False)
    axes[1][0].legend(loc="upper center", bbox_to_anchor=(0.4, -0.12), ncol=2)
    said = verdict(everything)
    alt = (
        f"Four panels, one a metric, with {len(names)} rows of Tables 1 to 4: our difference from the table's baseline "
        "with its 95% interval, and the published one as a diamond."
    )
    return Drawing(figure, "dsl_ablation", said[0].upper() + said[1:], alt, everything)


def _glance_panel(axis: Axes, part: pd.DataFrame, metric: str) -> None:
    y = np.arange(len(part))
    bars = error_bars(part, DELTAS)
    axis.axvline(0, color="#333333", linewidth=0.8)
    axis.errorbar(part["delta"], y, xerr=bars, fmt="o", color=colour("rag"), capsize=2, label="ours, 95% interval")
    axis.plot(part["published_delta"], y, "D", markersize=5, mfc="none", color=colour("published"), label="published")
    better = "right" if metric == "similarity" else "left"
    axis.set(title=f"{METRIC[metric]} ({better} is better)", yticks=y, yticklabels=part.index)


def highlight(writers: Writers, everything: pd.DataFrame, short: str) -> tuple[str, str, str]:
    """The page's finding: text, figure, alt text.

    Args:
        everything: of `at_a_glance`.
        short: of `lib.workflows.pages.dsl_ablation.in_short`.
    """
    text = (
        f"Tables 1 to 4 of the workflow paper with {plain(writers.names)} as the writer{'' if writers.one else 's'}: "
        f"{verdict(everything)}. {short}"
    )
    alt = (
        f"Four panels, one a metric: for {everything['name'].nunique()} rows of Tables 1 to 4 our difference from the "
        "table's baseline with its 95% interval, and the published one."
    )
    return text, "dsl_ablation", alt
