"""The figures of notebook 07_planner."""

from __future__ import annotations

import textwrap
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from lib.assistant.pages.planner import MEASURED, SHORT, Learned
from lib.assistant.plan_comparison import contrast, sweep_part
from lib.assistant.planner import SETTINGS
from lib.assistant.plans import CAUSES
from lib.workbook.display import Drawing, interval, legend_below, number
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


def loss(learned: Learned) -> Drawing:
    """The loss on the plans' tokens, step by step."""
    curve, each = learned.adapter.curve, learned.steps_a_row
    window, first, last = learned.ends()
    smooth = curve["loss"].rolling(window, min_periods=1).mean()
    figure, axis = plt.subplots(figsize=(8, 3.4))
    axis.plot(curve["step"], curve["loss"], color="#bbbbbb", linewidth=0.8)
    axis.plot(curve["step"], smooth, color=colour("context_tuned_rag"), linewidth=2)
    axis.set(
        xlabel=f"step of {learned.settings['batch_size']} pairs", ylabel="loss on plan tokens, nats", ylim=(0, None)
    )
    finding = (
        f"The planner's loss goes from {first:.2f} to {last:.2f} nats a token (means of the first and last "
        f"{window * each} steps)"
    )
    alt = (
        f"Training loss against step, {curve['step'].iloc[-1]} steps; grey "
        + ("every step" if each == 1 else f"means of {each} steps")
        + f", coloured the moving mean over {window * each} steps."
    )
    data = curve[["step", "loss", "learning_rate", "tokens", "target_tokens"]]
    return Drawing(figure, "planner_loss", finding, alt, data)


def settings(summary: pd.DataFrame, by_template: pd.Series, compared: pd.DataFrame, n: int) -> Drawing:
    """AST accuracy of each setting, with what bounds it.

    Args:
        summary, compared: see `lib.assistant.plan_comparison`.
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
    alt = (
        "Horizontal bars, one a setting: "
        + "; ".join(f"{label(setting)} {number(rows.loc[setting, 'value'], 1)}%" for setting in SETTINGS)
        + ". Marks: right API, answerable, template, published."
    )
    data = summary.merge(by_template.rename("template_ast_accuracy").reset_index(), how="left")
    return Drawing(figure, "planner_settings", settings_finding(rows["value"], by_template, compared), alt, data)


def settings_finding(accuracy: pd.Series, by_template: pd.Series, compared: pd.DataFrame) -> str:
    """What context adds, and what a template does with the right tool and items.

    Args:
        accuracy, by_template: AST accuracy by setting, percent.
    """
    gain = contrast(compared, "context_tuned_rag", "rag")
    best = "context_tuned_upper_bound"
    return (
        f"Context adds {interval(gain['difference'], gain['ci_low'], gain['ci_high'])} points of right plans to "
        f"retrieved tools ({'settled' if gain['settled'] else 'not settled'}); with the right tool and items "
        f"{number(accuracy[best], 1)}% are right, where a fixed template, without a model, gets "
        f"{number(by_template[best], 1)}%"
    )


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
    bars = {
        setting: ", ".join(f"{CAUSES.get(name, 'right')} {number(row[name], 0)}%" for name in occurring)
        for setting, row in shares.iterrows()
    }
    alt = "Stacked bars of causes of failure, one bar a setting: " + "; ".join(
        f"{label(setting)}: {text}" for setting, text in bars.items()
    )
    return Drawing(figure, "planner_failures", failures_finding(shares), alt, rows)


def failures_finding(shares: pd.DataFrame) -> str:
    """The commonest failure with retrieved tools and context, and with the labels' tool and items."""
    worst = {}
    for setting in ("context_tuned_rag", "context_tuned_upper_bound"):
        wrong = shares.loc[setting, list(CAUSES)]
        cause = f"{CAUSES[wrong.idxmax()]} ({number(wrong.max(), 0)}% of plans)"
        worst[setting] = cause if wrong.any() else "none"
    return (
        f"The commonest failure with retrieved tools and context: {worst['context_tuned_rag']}; with the right tool "
        f"and context: {worst['context_tuned_upper_bound']}"
    )


def sweeps(sweep: pd.DataFrame, points: pd.DataFrame, n_tools: int, n_items: int) -> Drawing:
    """Accuracy against the number of tools, the number of items, and the length of the prompt.

    Args:
        sweep, points: see `lib.assistant.plan_comparison.sweep_points`.
        n_tools, n_items: the numbers that the planner was trained on.
    """
    n = len(sweep_part(sweep, "items", n_items))
    figure, axes = plt.subplots(1, 3, figsize=(11, 3.8), sharey=True)
    for axis, varied, trained in ((axes[0], "tools", n_tools), (axes[1], "items", n_items)):
        _draw_numbers(axis, points[points["varied"] == varied])
        axis.axvline(trained, color="#bbbbbb", linestyle=":", zorder=0)
        axis.set(xlabel=f"{varied} shown (dotted: as in training)")
    highest = points[["ast_accuracy_high", "right_api_high"]].max(axis=None)
    axes[0].set(ylabel=f"percent of {n} queries", ylim=(0, max(25, 5 + highest)))
    _draw_lengths(axes[2], points)
    axes[0].set_title("retrieved tools", fontsize=10)
    axes[1].set_title("the right tool", fontsize=10)
    legend_below(axes[0], 2)
    legend_below(axes[2], 2)
    alt = "Accuracy against the number of tools, the number of items and the length of the prompt: " + "; ".join(
        f"{row['varied']} {row['number']}: {number(row['ast_accuracy'], 1)}%" for _, row in points.iterrows()
    )
    return Drawing(figure, "planner_sweeps", sweeps_finding(sweep, points, n_items), alt, points)


def _errors(points: pd.DataFrame, metric: str) -> np.ndarray:
    return np.abs(points[[f"{metric}_low", f"{metric}_high"]].to_numpy().T - points[metric].to_numpy())


def _draw_numbers(axis, points: pd.DataFrame) -> None:
    looks = {
        "right_api": ("right API", "--", "#555555"),
        "ast_accuracy": ("AST accuracy", "-", colour("context_tuned_rag")),
    }
    for metric, (name, style, paint) in looks.items():
        look = {"linestyle": style, "marker": "o", "capsize": 3, "color": paint, "label": name}
        axis.errorbar(points["number"], points[metric], yerr=_errors(points, metric), **look)
    axis.set(xticks=points["number"].tolist())


def _draw_lengths(axis, points: pd.DataFrame) -> None:
    looks = {"items": ("o", "none", "items with their texts"), "titles": ("D", None, "titles alone")}
    for varied, (mark, face, name) in looks.items():
        part = points[points["varied"] == varied]
        look = {"fmt": mark, "capsize": 3, "color": colour("context_tuned_upper_bound"), "markerfacecolor": face}
        axis.errorbar(part["tokens"], part["ast_accuracy"], yerr=_errors(part, "ast_accuracy"), label=name, **look)
    axis.set(xlabel="mean tokens of a prompt (right tool)")


def sweeps_finding(sweep: pd.DataFrame, points: pd.DataFrame, n_items: int) -> str:
    """What reducing items to their titles saves, and what it changes."""
    whole, titles = (sweep_part(sweep, varied, n_items)["ast_accuracy"] for varied in ("items", "titles"))
    full, short = (
        points[(points["varied"] == varied) & (points["number"] == n_items)].iloc[0]["tokens"]
        for varied in ("items", "titles")
    )
    change = titles - whole
    return (
        f"With the right tool, titles alone take {number(short, 0)} tokens instead of {number(full, 0)}; "
        f"{int((change > 0).sum())} of {len(change)} plans become right by it, {int((change < 0).sum())} wrong"
    )


def differences(compared: pd.DataFrame, n: int) -> Drawing:
    """The settings compared in AST accuracy; the figure's data hold the other measures, too (see
    `lib.assistant.plan_comparison.contrasts`)."""
    pairs = [f"{SHORT[row.a]} − {SHORT[row.b]}" for row in compared.itertuples()]
    every = compared.assign(
        comparison=[f"{MEASURED[name]}: {pair}" for name, pair in zip(compared["metric"], pairs, strict=True)]
    )
    shown = every.assign(comparison=pairs)[compared["metric"] == "ast_accuracy"]
    unit = f"points of AST accuracy, 95% intervals, n = {n}"
    return forest(shown, "planner_tests", differences_finding(shown), unit)._replace(data=every)


def differences_finding(compared: pd.DataFrame) -> str:
    """The page's question, answered: what context adds to retrieved tools and to the right one.

    Args:
        compared: as `differences`, of AST accuracy alone.
    """
    beside = {
        ("context_tuned_rag", "rag"): "retrieved tools",
        ("context_tuned_upper_bound", "upper_bound"): "the right tool",
    }
    said = [
        f"{interval(row.difference, row.ci_low, row.ci_high)} points with {beside[row.a, row.b]} "
        f"({'settled' if row.settled else 'not settled'})"
        for row in compared.itertuples()
        if (row.a, row.b) in beside
    ]
    return f"Does context make more plans right? It changes AST accuracy by {' and '.join(said)}"
