"""Notebook 07's part on a larger model, untuned and tuned: its figure, tables and sentences."""

from __future__ import annotations

from collections.abc import Mapping

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from lib.assistant.instruct_planner import EXAMPLES, LARGER, PREFIXES, TUNED, UNTUNED, Compared, Planned
from lib.assistant.pages.common import intervals, shown_cell
from lib.assistant.pages.planner import MEASURED, SHORT
from lib.assistant.pages.planner_worlds import NAMES, counted
from lib.assistant.plan_comparison import summary
from lib.assistant.planner import SETTINGS
from lib.assistant.planner_worlds import STEPS, steps
from lib.generation.kept import where_from
from lib.workbook.display import Drawing, Table, interval, legend_below, number

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
    ways = {
        UNTUNED: f" Untuned: with the rules in words and {EXAMPLES} training queries with their plans.",
        LARGER: f" {names[LARGER]} was tuned on the same pairs, in one pass.",
    }
    said = "".join(text for model, text in ways.items() if model in compared.models)
    return Table(
        pd.DataFrame(rows),
        f"Percent of {len(compared.scores)} queries with 95% intervals. Tuned: with LoRA.{said}",
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
        "Differences in AST accuracy, points, paired by query, with 95% intervals. Open: not settled, Holm "
        "over settings, models and two measures.",
    )


def _changes(tests: pd.DataFrame) -> pd.Series:
    """Differences with their intervals, by setting; what is not settled is called open."""
    changes = zip(intervals(tests, "difference"), tests["settled"], strict=True)
    return pd.Series([f"{change}{'' if sure else ' (open)'}" for change, sure in changes], tests.index)


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
    alt = "AST accuracy by setting: " + "; ".join(
        f"{SHORT[setting]}: "
        + ", ".join(f"{model} {number(cells.loc[(model, setting), 'value'], 1)}%" for model in compared.models)
        for setting in SETTINGS
    )
    best = "; ".join(
        f"{names[model]}, {_way(model)}, {number(cells.loc[(model, WHOLE), 'value'], 0)}%" for model in compared.models
    )
    return Drawing(drawn, "planner_instruct", f"Plans right with the right tool and context: {best}", f"{alt}.", data)


def findings(compared: Compared, names: Mapping[str, str], settings: Mapping[str, str] = SHORT) -> str:
    """`finding` of each larger model, as sentences."""
    return " ".join(f"{finding(compared, names, model, settings)}." for model in compared.models if model != TUNED)


def finding(
    compared: Compared, names: Mapping[str, str], model: str = UNTUNED, settings: Mapping[str, str] = SHORT
) -> str:
    """Where the larger model plans better than the planner, and where worse; without a full stop.

    Args:
        settings: what they are called.
    """
    tests = compared.accuracy(model)
    named = f"{names[model]}, {_way(model)}"
    said = {}
    for verb, sign in (("better", 1), ("worse", -1)):
        there = tests[tests["settled"] & (sign * tests["difference"] > 0)]
        changes = zip(there.index, intervals(there, "difference"), strict=True)
        said[verb] = ", ".join(f"{settings[setting]} {change}" for setting, change in changes)
    parts = [f"{verb} in {text}" for verb, text in said.items() if text]
    if not parts:
        return f"No setting settles whether {named}, plans better than {names[TUNED]}, tuned"
    return f"{named}, plans " + "; ".join(parts) + f" (points from {names[TUNED]}, tuned)"


def factors_in_words(shown: pd.DataFrame) -> str:
    """Whether it is the API or its arguments, where the models have tools and context."""
    cells = shown.set_index(["model", "setting", "metric"])["value"]
    models = [name for name in PREFIXES if name in set(shown["model"])]
    of_setting = {"right_api": "context_tuned_rag", "arguments": WHOLE}
    api, arguments = (
        ", ".join(f"{model} {number(cells[model, setting, metric], 1)}%" for model in models)
        for metric, setting in of_setting.items()
    )
    return (
        f"Among retrieved tools with context the right API is called in: {api}. Given the right tool and context, and "
        f"that it is called, its arguments are right in: {arguments}."
        + (f" {_untuned_with_tools(cells)}" if UNTUNED in models else "")
    )


def _untuned_with_tools(cells: pd.Series) -> str:
    """What a list of tools gives a model that has not learned the toolbox: right APIs, indexed as in `values`."""
    bare, shown = (cells[UNTUNED, setting, "right_api"] for setting in ("lower_bound", "rag"))
    return (
        f"By retrieved tools alone, a model that learned no toolbox goes from {number(bare, 1)} to {number(shown, 1)}% "
        "right APIs."
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


def needs_in_words(found: pd.DataFrame, names: Mapping[str, str]) -> str:
    """What each model makes of needs held out, with retrieved tools and context and with the right ones."""
    right = found[(found["metric"] == "ast_accuracy") & (found["needs"] == "held out")].set_index(["model", "setting"])
    if right.empty:
        return ""
    said = [
        f"{names[model]}, {_way(model)}, {shown_cell(right.loc[(model, 'context_tuned_rag')])}% with retrieved tools "
        f"and context and {shown_cell(right.loc[(model, WHOLE)])}% with the right ones"
        for model in found["model"].unique()
        if (model, WHOLE) in right.index
    ]
    return f"On needs held out, right are: {'; '.join(said)}."


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
    ways = {
        UNTUNED: " Untuned: {}, its examples of that world.",
        LARGER: " Larger tuned: {}, which learned in the same world.",
    }
    said = "".join(text.format(names[model]) for model, text in ways.items() if model in models)
    return Table(
        pd.DataFrame(rows),
        f"AST accuracy in percent, with 95% intervals; queries: {n}. Tuned: {names[TUNED]}, which learned in one "
        f"world.{said} Differences are paired, in points; open: not settled, Holm over all.",
    )


def worlds_in_words(found: Mapping[str, Compared], names: Mapping[str, str]) -> str:
    """`findings` of each world."""
    return " ".join(f"`{world}`: {findings(compared, names, NAMES)}" for world, compared in found.items())


def order_of_settings(found: Mapping[str, Compared], names: Mapping[str, str]) -> str:
    """In which worlds the larger tuned model's settings stand in the published order: step by step, settled or not."""
    scored = {
        world: (compared.scores_of(LARGER), compared.resampling)
        for world, compared in found.items()
        if LARGER in compared.models
    }
    if not scored:
        return ""
    said = []
    for world, part in steps(scored, STEPS).groupby("world", sort=False):
        scores = scored[str(world)][0]
        means = [scores[setting, "ast_accuracy", 1].mean() for setting in SETTINGS]
        firm = part[part["settled"]]
        down = firm[firm["ci_high"] < 0]
        rise = counted(len(firm) - len(down), len(STEPS), down[["a", "b"]].to_numpy().tolist())
        each = ", ".join(
            f"{NAMES[row.a]} {interval(row.difference, row.ci_low, row.ci_high)}" + ("" if row.settled else " (open)")
            for row in part.itertuples()
        )
        said.append(
            f"in `{world}` {', '.join(number(mean, 0) for mean in means)}%, {rise}; steps up, in points: {each}"
        )
    return f"Table 3 by {names[LARGER]}, tuned: {'. And '.join(said)}."


def kept_in_words(others: Mapping[str, Planned]) -> str:
    """Where the plans of the models beside the planner are from (`lib.generation.kept.where_from`)."""
    return " ".join(
        where_from(found.keeper, "plans", f"{found.model}, {_way(name)},") for name, found in others.items()
    )


LEFT_OUT = (
    "No instruct model stands beside it here: the kept plans are of another world or other prompts, and the profile "
    "names no `instruct_planner`."
)
