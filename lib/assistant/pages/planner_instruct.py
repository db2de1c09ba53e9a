"""Notebook 07's part on a larger model, untuned and tuned: its figure and tables."""

from __future__ import annotations

from collections.abc import Mapping

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from lib.assistant.instruct_planner import LARGER, PREFIXES, TUNED, UNTUNED, Compared
from lib.assistant.pages.common import intervals, shown_cell
from lib.assistant.pages.planner import MEASURED, SHORT
from lib.assistant.pages.planner_worlds import NAMES
from lib.assistant.plan_comparison import summary
from lib.assistant.planner import SETTINGS
from lib.workbook.display import Drawing, Table, legend_below

LOOKS = {TUNED: ("o", "#0072B2"), UNTUNED: ("s", "#D55E00"), LARGER: ("D", "#009E73")}
WHOLE = "context_tuned_upper_bound"  # the setting in which nothing has to be found
SHOWN = ("ast_accuracy", "right_api", "arguments")


def values(compared: Compared, published: pd.DataFrame) -> pd.DataFrame:
    """`lib.assistant.plan_comparison.summary` of each model on the same queries, with the column model first."""
    frames = [
        summary(compared.scores_of(name), compared.resampling, published).assign(model=name) for name in compared.models
    ]
    table = pd.concat(frames, ignore_index=True)
    return table[["model", *table.columns.drop("model")]]


def table_3(shown: pd.DataFrame, compared: Compared, names: Mapping[str, str]) -> Table:
    """All in the settings of Table 3.

    Args:
        shown: see `values`.
        names: of the base models, by `TUNED`, `UNTUNED` and `LARGER`.
    """
    cells = shown.set_index(["model", "setting", "metric"])
    rows = [
        {"setting": SHORT[setting], "model": f"{names[model]}, {_way(model)}"}
        | {MEASURED[metric]: shown_cell(cells.loc[(model, setting, metric)]) for metric in SHOWN}
        for setting in SETTINGS
        for model in compared.models
    ]
    return Table(
        pd.DataFrame(rows), f"Three planners in the settings of Table 3, percent of {len(compared.scores)} queries."
    )


def _way(model: str) -> str:
    return "untuned" if model == UNTUNED else "tuned"


def tests_table(compared: Compared, names: Mapping[str, str]) -> Table:
    """Each two models, setting by setting; arguments as for `table_3`."""
    columns = {"setting": [SHORT[setting] for setting in SETTINGS]}
    for model, against in compared.pairs:
        changes = _changes(compared.accuracy(model, against))
        columns[_minus(model, against, names)] = changes.loc[list(SETTINGS)].tolist()
    return Table(
        pd.DataFrame(columns),
        "Differences in AST accuracy, points, paired by query, with 95% intervals.",
    )


def _changes(tests: pd.DataFrame) -> pd.Series:
    """Differences with their intervals, by setting."""
    return pd.Series(intervals(tests, "difference"), tests.index)


def _minus(model: str, against: str, names: Mapping[str, str]) -> str:
    return " − ".join(f"{names[name]}, {_way(name)}" for name in (model, against))


def figure(shown: pd.DataFrame, compared: Compared, names: Mapping[str, str]) -> Drawing:
    """AST accuracy of all, setting by setting; arguments as for `table_3`."""
    data = shown[shown["metric"] == "ast_accuracy"]
    cells, rows = data.set_index(["model", "setting"]), np.arange(len(SETTINGS))[::-1]
    drawn, axis = plt.subplots(figsize=(8, 4.4))
    shifts = np.linspace(0.2, -0.2, len(compared.models))
    for model, shift in zip(compared.models, shifts, strict=True):
        marker, colour = LOOKS[model]
        mine = cells.loc[[(model, setting) for setting in SETTINGS]]
        errors = np.abs(mine[["ci_low", "ci_high"]].to_numpy().T - mine["value"].to_numpy())
        named = f"{names[model]}, {_way(model)}"
        axis.errorbar(mine["value"], rows + shift, xerr=errors, fmt=marker, color=colour, capsize=3, label=named)
    printed = data.drop_duplicates("setting").set_index("setting")["published"].reindex(list(SETTINGS))
    axis.plot(printed, rows, "|", color="black", markersize=16, label="published, a 7B model in the paper's world")
    axis.set(yticks=rows, yticklabels=list(SHORT.values()), xlim=(0, 100))
    axis.set_xlabel(f"AST accuracy, percent of {len(compared.scores)} queries, with its 95% interval")
    legend_below(axis, 2)
    return Drawing(
        drawn, "planner_instruct", "Right plans by three planners", "AST accuracy by setting and planner.", data
    )


def needs_table(found: pd.DataFrame, names: Mapping[str, str]) -> Table:
    """Each model on the needs that the tuned planners learned and on those kept from them.

    Args:
        found: from `lib.assistant.plan_comparison.by_needs`.
        names: as for `table_3`.
    """
    right = found[found["metric"] == "ast_accuracy"].set_index(["model", "needs", "setting"])
    rows = []
    for model in found["model"].unique():
        for needs in ("learned", "held out"):
            row: dict[str, object] = {"model": f"{names[model]}, {_way(model)}", "needs": needs}
            there = [setting for setting in SETTINGS if (model, needs, setting) in right.index]
            row["n"] = int(right.loc[(model, needs, there[0]), "n"]) if there else 0
            cells = {setting: shown_cell(right.loc[(model, needs, setting)]) for setting in there}
            rows.append(row | {SHORT[setting]: cells.get(setting, "–") for setting in SETTINGS})
    return Table(
        pd.DataFrame(rows),
        "AST accuracy in percent, with 95% intervals, on needs that the tuned planners learned and on those held out.",
        text_columns=["model", "needs"],
    )


def in_rows(found: Mapping[str, Compared], published: pd.DataFrame) -> pd.DataFrame:
    """`values` of each world, with the column world first."""
    frames = [values(compared, published).assign(world=world) for world, compared in found.items()]
    table = pd.concat(frames, ignore_index=True)
    return table[["world", *table.columns.drop("world")]]


def worlds_table(found: Mapping[str, Compared], shown: pd.DataFrame, names: Mapping[str, str]) -> Table:
    """All in each named world.

    Args:
        shown: see `in_rows`.
        names: as for `table_3`.
    """
    models = [model for model in PREFIXES if any(model in compared.models for compared in found.values())]
    shown = shown[shown["metric"] == "ast_accuracy"].set_index(["world", "model", "setting"])
    cells, rows = pd.Series([shown_cell(row) for _, row in shown.iterrows()], shown.index), []
    for world, compared in found.items():
        tests = {model: _changes(compared.accuracy(model)) for model in compared.models if model != TUNED}
        for setting in SETTINGS:
            row = {"world": world, "setting": NAMES[setting]}
            row |= {f"AST, {model}": cells.get((world, model, setting), "–") for model in models}
            row |= {f"{model} − {TUNED}": tests[model][setting] if model in tests else "–" for model in models[1:]}
            rows.append(row)
    n = ", ".join(f"{world} {len(compared.scores)}" for world, compared in found.items())
    return Table(pd.DataFrame(rows), f"AST accuracy of three planners in each world, percent; queries: {n}.")
