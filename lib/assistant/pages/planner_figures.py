"""The figures of notebook 07_planner."""

from __future__ import annotations

import textwrap
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from lib.assistant.pages.planner import MEASURED, SHORT
from lib.assistant.planner import SETTINGS
from lib.assistant.plans import CAUSES
from lib.workbook.display import Drawing, legend_below
from lib.workbook.forest import forest
from lib.workbook.methods import colour, label

ROWS = np.arange(len(SETTINGS))[::-1]  # one bar a setting, the first on top
# Okabe and Ito's colours and a hatch each, so that causes can be told apart in greyscale.
LOOKS = dict(
    zip(
        ["", *CAUSES],
        [
            ("#009E73", ""),
            ("#000000", "xx"),
            ("#CC79A7", "||"),
            ("#D55E00", "//"),
            ("#56B4E9", ".."),
            ("#E69F00", "oo"),
            ("#999999", "++"),
            ("#F0E442", "--"),
        ],
        strict=True,
    )
)


def _name_rows(axis, xlabel: str) -> None:
    axis.set(
        yticks=ROWS,
        yticklabels=[textwrap.fill(label(setting), 28) for setting in SETTINGS],
        xlabel=xlabel,
        xlim=(0, 100),
    )


def loss(curve: pd.DataFrame, batch_size: int) -> Drawing:
    """The loss on the plans' tokens, step by step (columns step, loss, nats a token)."""
    window = max(1, len(curve) // 10)
    figure, axis = plt.subplots(figsize=(8, 3.4))
    axis.plot(curve["step"], curve["loss"], color="#bbbbbb", linewidth=0.8)
    smooth = curve["loss"].rolling(window, min_periods=1).mean()
    axis.plot(curve["step"], smooth, color=colour("context_tuned_rag"), linewidth=2)
    axis.set(xlabel=f"step of {batch_size} pairs", ylabel="loss on plan tokens, nats", ylim=(0, None))
    alt = "Training loss against step, grey; coloured its moving mean over a tenth of the steps."
    data = curve[["step", "loss", "learning_rate", "tokens", "target_tokens"]]
    return Drawing(figure, "planner_loss", "The planner's loss in training", alt, data)


def settings(summary: pd.DataFrame, by_template: pd.Series, n: int) -> Drawing:
    """AST accuracy of each setting, with what bounds it.

    Args:
        summary: see `lib.assistant.plan_comparison`.
        by_template: AST accuracy of the template, by setting, percent.
        n: queries in each setting.
    """
    values = summary.pivot(index="setting", columns="metric", values="value").loc[list(SETTINGS)]
    rows = summary[summary["metric"] == "ast_accuracy"].set_index("setting").loc[list(SETTINGS)]
    errors = np.abs(rows[["ci_low", "ci_high"]].to_numpy().T - rows["value"].to_numpy())
    figure, axis = plt.subplots(figsize=(9, 4))
    axis.barh(ROWS, rows["value"], height=0.5, color=[colour(setting) for setting in SETTINGS])
    axis.errorbar(rows["value"], ROWS, xerr=errors, fmt="none", ecolor="#333333", capsize=3)
    axis.plot(values["right_api"], ROWS, "D", color="#333333", markersize=6, label="right API")
    wide: dict[str, Any] = {"color": "#000000", "markeredgewidth": 2}
    axis.plot(values["answerable"], ROWS, "|", markersize=20, label="answerable from the prompt", **wide)
    template = by_template.reindex(SETTINGS)
    axis.plot(template, ROWS, "x", markersize=8, label="template, no model (AST accuracy)", **wide)
    axis.plot(
        rows["published"], ROWS, "o", label="published AST accuracy", markerfacecolor="none", markeredgecolor="#777777"
    )
    _name_rows(axis, f"percent of {n} queries; bars: AST accuracy with its 95% interval")
    legend_below(axis, 2)
    alt = "AST accuracy by setting, bars; marks: right API, answerable, template, published."
    data = summary.merge(by_template.rename("template_ast_accuracy").reset_index(), how="left")
    return Drawing(figure, "planner_settings", "Right plans in the settings of Table 3", alt, data)


def failures(shares: pd.DataFrame, rows: pd.DataFrame, n: int) -> Drawing:
    """Why plans fail, a stacked bar a setting.

    Args:
        shares, rows: see `lib.assistant.plan_comparison.failure_shares` and `failure_rows`.
        n: plans of each setting.
    """
    occurring = [name for name in ["", *CAUSES] if shares[name].sum() > 0]
    figure, axis = plt.subplots(figsize=(9, 3.8))
    left = np.zeros(len(SETTINGS))
    for name in occurring:
        fill, hatch = LOOKS[name]
        look: dict[str, Any] = {"color": fill, "hatch": hatch, "edgecolor": "white", "linewidth": 0.5}
        axis.barh(ROWS, shares[name], left=left, height=0.6, label=CAUSES.get(name, "right"), **look)
        left += shares[name].to_numpy()
    _name_rows(axis, f"percent of {n} plans")
    legend_below(axis, 4)
    alt = "Stacked bars of causes of failure, one bar a setting."
    return Drawing(figure, "planner_failures", "Why plans fail", alt, rows)


def differences(compared: pd.DataFrame, n: int) -> Drawing:
    """The settings compared in AST accuracy; the figure's data hold the other measures, too (see
    `lib.assistant.plan_comparison.contrasts`)."""
    pairs = [f"{SHORT[row.a]} − {SHORT[row.b]}" for row in compared.itertuples()]
    every = compared.assign(
        comparison=[f"{MEASURED[name]}: {pair}" for name, pair in zip(compared["metric"], pairs, strict=True)]
    )
    shown = every.assign(comparison=pairs)[compared["metric"] == "ast_accuracy"]
    unit = f"points of AST accuracy, 95% intervals, n = {n}"
    return forest(shown, "planner_tests", "Right plans, one setting against another", unit)._replace(data=every)
