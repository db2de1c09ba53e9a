"""Notebook 07's part on a larger model that was not tuned: its figure, table and sentences."""

from __future__ import annotations

from collections.abc import Mapping

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from lib.assistant.instruct_planner import EXAMPLES, PREFIX, Compared
from lib.assistant.pages.common import intervals, shown_cell
from lib.assistant.pages.planner import SHORT
from lib.assistant.plan_comparison import summary
from lib.assistant.planner import SETTINGS
from lib.workbook.display import Drawing, Table, legend_below, number

TUNED, UNTUNED = "tuned", "untuned"
LOOKS = {TUNED: ("o", "#0072B2", 0.14), UNTUNED: ("s", "#D55E00", -0.14)}


def values(compared: Compared, published: pd.DataFrame) -> pd.DataFrame:
    """`lib.assistant.plan_comparison.summary` of both on the same queries, with the column model first."""
    scores, frames = compared.scores, []
    of_untuned = scores.columns.get_level_values("method").str.startswith(PREFIX)
    for name, chosen in ((TUNED, ~of_untuned), (UNTUNED, of_untuned)):
        part = scores.loc[:, chosen].rename(columns=lambda text: str(text).removeprefix(PREFIX), level="method")
        part = part.rename(columns=int, level="k")
        frames.append(summary(part, compared.resampling, published).assign(model=name))
    table = pd.concat(frames, ignore_index=True)
    return table[["model", *table.columns.drop("model")]]


def table_3(shown: pd.DataFrame, compared: Compared, names: Mapping[str, str]) -> Table:
    """Both in the settings of Table 3.

    Args:
        shown: see `values`.
        names: of the models, by `TUNED` and `UNTUNED`.
    """
    cells = shown.set_index(["model", "setting", "metric"])
    tests = compared.tests[compared.tests["metric"] == "ast_accuracy"].set_index("setting")
    rows = []
    for setting in SETTINGS:
        row = {"setting": SHORT[setting]}
        for metric, title in (("ast_accuracy", "AST"), ("right_api", "right API"), ("executed", "executed right")):
            row |= {f"{title}, {model}": shown_cell(cells.loc[(model, setting, metric)]) for model in (TUNED, UNTUNED)}
        rows.append(row | _tested(tests.loc[setting]))
    return Table(
        pd.DataFrame(rows),
        f"Percent of {len(compared.scores)} queries, as even by kind as there are, with 95% intervals. Tuned: "
        f"{names[TUNED]} with LoRA. Untuned: {names[UNTUNED]}, with the rules in words and {EXAMPLES} training queries "
        "with their plans. Differences are paired, in points; McNemar's test, Holm over settings and both measures.",
    )


def figure(shown: pd.DataFrame, compared: Compared, names: Mapping[str, str]) -> Drawing:
    """AST accuracy of both, setting by setting; arguments as for `table_3`."""
    data = shown[shown["metric"] == "ast_accuracy"]
    cells, rows = data.set_index(["model", "setting"]), np.arange(len(SETTINGS))[::-1]
    drawn, axis = plt.subplots(figsize=(8, 4.2))
    for model, (marker, colour, shift) in LOOKS.items():
        mine = cells.loc[[(model, setting) for setting in SETTINGS]]
        errors = np.abs(mine[["ci_low", "ci_high"]].to_numpy().T - mine["value"].to_numpy())
        named = f"{names[model]}, {model}"
        axis.errorbar(mine["value"], rows + shift, xerr=errors, fmt=marker, color=colour, capsize=3, label=named)
    axis.set(yticks=rows, yticklabels=list(SHORT.values()), xlim=(0, 100))
    axis.set_xlabel(f"AST accuracy, percent of {len(compared.scores)} queries, with its 95% interval")
    legend_below(axis, 2)
    alt = "AST accuracy by setting: " + "; ".join(
        f"{SHORT[setting]}: tuned {number(cells.loc[(TUNED, setting), 'value'], 1)}%, untuned "
        f"{number(cells.loc[(UNTUNED, setting), 'value'], 1)}%"
        for setting in SETTINGS
    )
    return Drawing(drawn, "planner_instruct", finding(compared, names), f"{alt}.", data)


def finding(compared: Compared, names: Mapping[str, str]) -> str:
    """Where the untuned model plans better, and where worse; without a full stop."""
    tests = compared.tests[compared.tests["metric"] == "ast_accuracy"].set_index("setting")
    said = {}
    for verb, sign in (("better", 1), ("worse", -1)):
        there = tests[tests["settled"] & (sign * tests["difference"] > 0)]
        changes = zip(there.index, intervals(there, "difference"), strict=True)
        said[verb] = ", ".join(f"{SHORT[setting]} {change}" for setting, change in changes)
    parts = [f"{verb} in {text}" for verb, text in said.items() if text]
    if not parts:
        return f"No setting settles whether {names[UNTUNED]}, untuned, plans better than {names[TUNED]}, tuned"
    return f"{names[UNTUNED]}, untuned, plans " + "; ".join(parts) + f" (points from {names[TUNED]}, tuned)"


def factors_in_words(shown: pd.DataFrame) -> str:
    """Whether it is the API or its arguments, where the untuned model has tools and context."""
    cells = shown.set_index(["model", "setting", "metric"])["value"]
    setting, oracle = "context_tuned_rag", "context_tuned_upper_bound"
    api = [number(cells[model, setting, "right_api"], 1) for model in (UNTUNED, TUNED)]
    arguments = [number(cells[model, oracle, "arguments"], 1) for model in (UNTUNED, TUNED)]
    return (
        f"Among retrieved tools with context the untuned model calls the right API in {api[0]}%, the tuned one in "
        f"{api[1]}%. Given the right tool and context, and that it is called, the arguments are right in "
        f"{arguments[0]}% and {arguments[1]}%."
    )


def in_rows(found: Mapping[str, Compared], published: pd.DataFrame) -> pd.DataFrame:
    """`values` of each world, with the column world first."""
    frames = [values(compared, published).assign(world=world) for world, compared in found.items()]
    table = pd.concat(frames, ignore_index=True)
    return table[["world", *table.columns.drop("world")]]


def worlds_table(found: Mapping[str, Compared], shown: pd.DataFrame, names: Mapping[str, str]) -> Table:
    """Both in each named world.

    Args:
        shown: see `in_rows`.
        names: as for `table_3`.
    """
    cells, rows = shown.set_index(["world", "model", "setting", "metric"]), []
    for world, compared in found.items():
        tests = compared.tests[compared.tests["metric"] == "ast_accuracy"].set_index("setting")
        for setting in SETTINGS:
            both = {
                f"AST, {model}": shown_cell(cells.loc[(world, model, setting, "ast_accuracy")])
                for model in (TUNED, UNTUNED)
            }
            rows.append({"world": world, "setting": SHORT[setting], **both, **_tested(tests.loc[setting])})
    n = ", ".join(f"{world} {len(compared.scores)}" for world, compared in found.items())
    return Table(
        pd.DataFrame(rows),
        f"AST accuracy in percent, with 95% intervals; queries: {n}. Tuned: {names[TUNED]}, which learned in one "
        f"world. Untuned: {names[UNTUNED]}, its examples of that world. Differences are paired, in points; McNemar's "
        "test, Holm over all.",
    )


def worlds_in_words(found: Mapping[str, Compared], names: Mapping[str, str]) -> str:
    """`finding` of each world."""
    return " ".join(f"`{world}`: {finding(compared, names)}." for world, compared in found.items())


def _tested(test: pd.Series) -> dict[str, str]:
    """The cells of a test in a table."""
    return {"untuned − tuned, AST": shown_cell(test, "difference"), "settled": "yes" if test["settled"] else "no"}


LEFT_OUT = (
    "No instruct model stands beside it here: the kept plans are of another world or other prompts, and the profile "
    "names no `instruct_planner`."
)
