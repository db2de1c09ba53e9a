"""Notebook 09: rows beside a baseline, the paper's Tables 1 to 4 rebuilt, and their figure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from lib.workbook.display import Drawing, Table, number
from lib.workbook.methods import colour
from lib.workflows.ablation import DELTAS, contract
from lib.workflows.pages.common import (
    METRIC,
    SETTLED,
    TEST_SETS,
    condition_cases,
    error_bars,
    metric_intervals,
    settled_deltas,
    wide_by_set,
)
from lib.workflows.pages.dsl_ablation import BESIDE, FINETUNED, LONGER, Study
from lib.workflows.scoring import METRICS

MARKS = f" Δ: on the flows in brackets. {SETTLED} beside 0; {LONGER} prompts mostly longer than the model learned from."


def compared_table(study: Study, compared: pd.DataFrame, caption: str) -> Table:
    """Rows with their values and differences, a group of columns a test set: what `Study.compare` returned, where there
    is one with a column published_delta."""
    table = wide_by_set(compared, "condition", compared_cells(compared), flows_of(compared))
    table.insert(0, ("", "condition"), table.index.map(study.titles))
    frame, cases = table.reset_index(drop=True), condition_cases(compared)
    return Table(frame, caption + MARKS, text_columns=[("", "condition")], cases=cases)


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
    """For each row its condition's flows, and in brackets those shared with the baseline."""
    sizes = zip(compared["n"], compared["shared"], strict=True)
    return [f"{n:.0f}" + (f" ({shared:.0f})" if shared == shared else "") for n, shared in sizes]


class Rebuilt(NamedTuple):
    """A table of the paper, rebuilt: its rows beside the baseline, the report's columns, and what a page shows; without
    a table where no two of its rows are asked."""

    compared: pd.DataFrame
    contract: pd.DataFrame
    table: Table | None


NAMES = {1: "dsl_shots", 2: "dsl_definitions_5", 3: "dsl_definitions_20", 4: "dsl_semantic_definitions"}  # in tables/
PAPERS_TABLES = {  # number: the rows, and what they are compared with; None is the fine-tuned model
    1: ([("pretrained", 20, "none"), ("tst", 5, "none"), ("tst", 20, "none")], ("pretrained", 5, "none")),
    2: ([("pretrained", 5, "fd"), ("tst", 5, "none"), ("tst", 5, "fd")], ("pretrained", 5, "none")),
    3: ([("pretrained", 20, "fd"), ("tst", 20, "none"), ("tst", 20, "fd")], ("pretrained", 20, "none")),
    4: ([("tst", 20, "fd"), ("tst", 20, "sfd"), ("tst", 20, "fd_sfd")], None),
}


def rebuilt(study: Study, published: pd.DataFrame, number: int) -> Rebuilt:
    """Table `number` of the paper: its rows against its baseline, of the generator that stands for GPT-4, then of those
    that stand beside it; `published` has the printed differences."""
    found = [_against(study, number, generator) for generator in (study.writers.reader, *BESIDE)]
    parts = [part for part in found if part is not None]
    if not parts:
        none = study.compare([FINETUNED], FINETUNED).iloc[:0]
        none = none.assign(table=number, published_delta=np.nan, writer="", baseline="")
        return Rebuilt(none, contract(none, study.rows).assign(published_delta=np.nan), None)
    compared = pd.concat(parts, ignore_index=True)
    compared = compared.drop_duplicates(["test_set", "condition", "metric"], ignore_index=True)
    table = contract(compared, study.rows, published[published["table"] == number])
    compared = compared.assign(published_delta=table["published_delta"], table=number)
    baselines = " and, of its own, ".join(study.titles[name] for name in compared["baseline"].unique())
    caption = f"Table {number} of the paper, rebuilt. Differences from: {baselines}."
    return Rebuilt(compared, table, compared_table(study, compared, caption))


def _against(study: Study, number: int, generator: str) -> pd.DataFrame | None:
    rows, base = PAPERS_TABLES[number]
    names = study.present(study.name(*row, generator=generator) for row in rows)
    baseline = FINETUNED if base is None else study.name(*base, generator=generator)
    if not names or not study.present([baseline]):
        return None
    return study.compare([baseline, *names], baseline).assign(baseline=baseline, writer=generator)


def at_a_glance(study: Study, tables: Sequence[Rebuilt]) -> pd.DataFrame:
    """The rows of all tables that have a difference, of the generator that stands for GPT-4, with a column name: how
    the figure calls them."""
    everything = pd.concat([one.compared for one in tables], ignore_index=True).dropna(subset=["delta"])
    everything = everything[everything["writer"] == study.writers.reader]
    short = everything["condition"].map(study.titles).str.replace("pretrained encoder", "pretrained")
    names = "Table " + everything["table"].astype(str) + ": " + short.str.replace(" few-shots", "")
    return everything.assign(name=names)


GLANCE_ALT = (
    "Four panels, one a metric, with the rows of Tables 1 to 4: our difference from the table's baseline on each test "
    "set with its 95% interval, and the published one as a diamond."
)


def glance_drawing(everything: pd.DataFrame) -> Drawing:
    """A panel a metric: our differences on each test set with their intervals, and the published ones."""
    names = list(dict.fromkeys(everything["name"]))[::-1]
    figure, axes = plt.subplots(2, 2, figsize=(11, 7.6), sharey=True)
    for axis, metric in zip(axes.flat, METRICS, strict=True):
        _glance_panel(axis, everything[everything["metric"] == metric], names, metric)
    for axis in axes[:, 1]:
        axis.tick_params(labelleft=False)
    figure.supxlabel("difference from the table's baseline (Table 4: from the fine-tuned model)", fontsize=10)
    figure.legend(*axes[1][0].get_legend_handles_labels(), loc="upper center", bbox_to_anchor=(0.5, 0), ncol=3)
    title = "Tables 1 to 4: our differences and the published ones"
    return Drawing(figure, "dsl_ablation", title, GLANCE_ALT, everything)


SET_STYLE = {
    "test": ("rag", "o", 0.14),
    "test_same": ("context_tuned_rag", "s", -0.14),
}  # method's colour, marker, aside


def _glance_panel(axis: Axes, part: pd.DataFrame, names: Sequence[str], metric: str) -> None:
    axis.axvline(0, color="#333333", linewidth=0.8)
    for test_set, rows in part.groupby("test_set", sort=False):
        method, marker, aside = SET_STYLE[test_set]
        rows = rows.set_index("name").reindex(names)
        bars = error_bars(rows, DELTAS)
        axis.errorbar(rows["delta"], np.arange(len(names)) + aside, xerr=bars, fmt=marker, color=colour(method),
                      capsize=2, markersize=4, label=f"ours, {TEST_SETS[test_set]}")  # fmt: skip
    printed = part.drop_duplicates("name").set_index("name").reindex(names)["published_delta"]
    axis.plot(
        printed, np.arange(len(names)), "D", markersize=5, mfc="none", color=colour("published"), label="published"
    )
    better = "right" if metric == "similarity" else "left"
    axis.set(title=f"{METRIC[metric]} ({better} is better)", yticks=np.arange(len(names)), yticklabels=names)
