"""Notebook 09 beyond the paper's tables: the number of few-shots, grammars."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from lib.workbook.display import Drawing, Table
from lib.workbook.methods import colour
from lib.workflows.ablation import DELTAS, Condition, contract, free_counterparts, sweep_rows
from lib.workflows.pages.common import (
    METRIC,
    SETTLED,
    TEST_SETS,
    error_bars,
    metric_intervals,
    settled_deltas,
    wide_by_set,
)
from lib.workflows.pages.dsl_ablation import Study


class Sweep(NamedTuple):
    """Conditions that differ in the number of few-shots alone, fewest first.

    Attributes:
        compared: each against five few-shots.
        curve: the same on the flows of each test set that all of them have, with columns shots, tokens_in and seconds
            (means of an answer).
        steps: each number against the one before it, with a column step.
    """

    compared: pd.DataFrame
    curve: pd.DataFrame
    steps: pd.DataFrame


def sweep(study: Study, rows: Sequence[Condition], cost: pd.DataFrame) -> Sweep:
    """`cost`: of `lib.workflows.ablation.cost_of`."""
    swept = sweep_rows(rows, study.writers.reader)
    names, five = [row.name for row in swept], study.name("pretrained", 5)
    curve = study.on_shared(names).compare(names, five).join(cost[["tokens_in", "seconds"]], on="condition")
    pairs = {(b.name, a.name): f"{a.shots} to {b.shots}" for a, b in itertools.pairwise(swept)}
    steps = study.compare_pairs(list(pairs))
    steps = steps.assign(step=[pairs[pair] for pair in zip(steps["condition"], steps["against"], strict=True)])
    shots = curve["condition"].map({row.name: row.shots for row in swept})
    return Sweep(study.compare(names, five), curve.assign(shots=shots), steps)


def sweep_drawing(study: Study, swept: Sweep) -> Drawing:
    """Similarity, failure rates and cost against the number of few-shots, on the flows that all have."""
    figure, axes = plt.subplots(1, 3, figsize=(11, 4))
    first = study.sets()[0]
    similar = swept.curve[swept.curve["metric"] == "similarity"]
    for (test_set, part), (method, aside) in zip(
        similar.groupby("test_set", sort=False), (("pretrained", 0.0), ("tst", 0.3)), strict=False
    ):
        _sweep_line(axes[0], part, TEST_SETS[test_set], colour(method), aside)
    of_first = swept.curve[swept.curve["test_set"] == first]
    for metric, color, aside in (
        ("unparsed", "#8A8D91", -0.3),
        ("made_up_names", "#D1570A", 0.0),
        ("made_up_parameters", "#7B5EA7", 0.3),
    ):
        _sweep_line(axes[1], of_first[of_first["metric"] == metric], METRIC[metric], color, aside)
    _cost_panel(axes[2], of_first[of_first["metric"] == "similarity"])
    axes[0].set(xlabel="few-shots", ylabel="similarity (the same flows)", ylim=(0, 1))
    axes[1].set(xlabel="few-shots", ylabel=f"flows, % ({TEST_SETS[first]}, the same)", ylim=(0, 100))
    for axis in axes[:2]:
        axis.legend(fontsize=8)
    alt = (
        "Three panels: similarity on each test set against the number of few-shots, the three failure rates against it "
        "(bars: 95% intervals), all on the flows that every number has, and seconds an answer against tokens of the "
        "prompt."
    )
    return Drawing(figure, "dsl_sweep", "Similarity, failures and cost by the number of few-shots", alt, swept.curve)


def _sweep_line(axis: Axes, part: pd.DataFrame, name: str, color: str, aside: float) -> None:
    at = part["shots"] + aside
    axis.errorbar(at, part["value"], yerr=error_bars(part), color=color, marker="o", capsize=2, label=name)


def _cost_panel(axis: Axes, once: pd.DataFrame) -> None:
    axis.plot(once["tokens_in"], once["seconds"], marker="o", color=colour("pretrained"))
    for row in once.itertuples():
        offset = (4, -11 if row.shots else 5)
        axis.annotate(f"{row.shots}", (row.tokens_in, row.seconds), offset, textcoords="offset points", fontsize=8)
    axis.set(
        xlabel="tokens of the prompt (number: few-shots)", ylabel="seconds an answer", ylim=(0, None), xlim=(0, None)
    )


def steps_table(steps: pd.DataFrame) -> Table:
    """What each step in the number of few-shots changes."""
    marks = np.where(settled_deltas(steps), f" {SETTLED}", "")
    texts = [text + mark for text, mark in zip(metric_intervals(steps, DELTAS), marks, strict=True)]
    frame = wide_by_set(steps, "step", texts, [f"{n:.0f}" for n in steps["shared"]])
    frame.insert(0, ("", "few-shots"), frame.index)
    caption = f"What each step in the number of few-shots changes, on the flows that both have; {SETTLED} beside 0."
    return Table(frame.reset_index(drop=True), caption)


def constrained(study: Study, rows: Sequence[Condition]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Rows under a grammar, each against the same prompts decoded freely.

    Returns:
        the differences; and the same after the free rows, which have none (NaN), as a table shows
        them. Both are empty where the profile has no such row.
    """
    free_of = free_counterparts(rows)
    pairs = [(name, free) for name, free in free_of.items() if len(study.present([name, free])) == 2]
    if not pairs:
        return pd.DataFrame(), pd.DataFrame()
    tested = study.compare_pairs(pairs)
    free = study.present(dict.fromkeys(free_of.values()))
    levels = study.compare(free, free[0]).assign(**dict.fromkeys([*DELTAS, "p_value", "shared"], np.nan))
    return tested, pd.concat([levels, tested], ignore_index=True)


def beyond_contract(study: Study, parts: Mapping[str, pd.DataFrame], own: Mapping[str, str]) -> pd.DataFrame:
    """The columns of the report's `dsl_beyond.csv`.

    Args:
        parts: {experiment: differences}; those with a column against name the other row in their experiment.
        own: {condition: its experiment} of conditions that have one of their own.
    """
    tables = []
    for name, part in parts.items():
        rivals = [f"{name}, against {study.titles[rival]}" for rival in part["against"]] if "against" in part else []
        experiments = rivals or [own.get(condition, name) for condition in part["condition"]]
        table = contract(part, study.rows)
        table.insert(0, "experiment", experiments)
        tables.append(table)
    return pd.concat(tables)
