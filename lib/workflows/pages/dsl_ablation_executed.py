"""Notebook 09: whether flows do what the right ones do, and how much of similarity 1 is the right names alone."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib.pyplot as plt
import pandas as pd

from lib.evaluation.rates import rates_with_intervals
from lib.workbook.cases import case_address
from lib.workbook.display import Drawing, Table, interval
from lib.workbook.parameters.dsl_ablation import Condition
from lib.workflows.ablation import VALUES
from lib.workflows.pages.common import TEST_SETS, intervals
from lib.workflows.pages.dsl_ablation import COPIES, Study
from lib.workflows.scoring import executed_outcomes

RATES = ("same_names", "executed", "wrong_at_1")
LABELS = {"same_names": "same API names in the same order", "executed": "executed right"}
COLOURS = {"same_names": "#8a8a8a", "executed": "#0b5fa5"}
ROW = ["test_set", "condition", "metric", *VALUES, "n", "counted"]


def executed_rates(study: Study, rows: Sequence[Condition]) -> pd.DataFrame:
    """Of each condition asked, and of what copies: the share of flows with the right API names in order (similarity 1),
    of those executed right, and of similarity 1 the share that is not; percent, 95% intervals.

    Returns:
        `ROW`; a row of `wrong_at_1` that counts no flow has no value.
    """
    names = study.present([*(row.name for row in rows), *COPIES])
    parts = []
    for test_set in study.sets():
        scores = study.scores[(study.scores["test_set"] == test_set) & study.scores["condition"].isin(names)]
        outcomes = executed_outcomes(scores)
        alike = outcomes[outcomes["metric"] == "wrong_at_1"]
        same = alike.assign(metric="same_names", numerator=alike["denominator"], denominator=1.0)
        found = rates_with_intervals(pd.concat([same, outcomes]), RATES, study.samples, study.seed)
        parts.append(found.assign(test_set=test_set))
    place = {name: i for i, name in enumerate(names)}
    order = ["test_set", "condition"]
    table = pd.concat(parts, ignore_index=True)
    keys = {"test_set": {name: i for i, name in enumerate(study.sets())}, "condition": place}
    return table.sort_values(order, key=lambda part: part.map(keys[part.name]), kind="stable", ignore_index=True)[ROW]


def executed_table(study: Study, rates: pd.DataFrame) -> Table:
    """`executed_rates` for readers, beside similarity."""
    texts = rates.assign(text=intervals(rates, decimals=0))
    texts.loc[texts["counted"] == 0, "text"] = "–"
    wide = texts.pivot(index=["test_set", "condition"], columns="metric", values="text")
    keys = list(dict.fromkeys(zip(rates["test_set"], rates["condition"], strict=True)))
    wide = wide.loc[keys]
    means = study.scores.groupby(["test_set", "condition"])["similarity"].mean()
    counts = rates[rates["metric"] == "executed"].set_index(["test_set", "condition"])["n"]
    frame = pd.DataFrame(
        {
            "test set": [TEST_SETS[test_set] for test_set, _ in keys],
            "condition": [study.titles[name] for _, name in keys],
            "flows": [int(counts[key]) for key in keys],
            "similarity": [round(means[key], 2) for key in keys],
            "right names, %": wide["same_names"].tolist(),
            "executed right, %": wide["executed"].tolist(),
            "of right names, wrong, %": wide["wrong_at_1"].tolist(),
        }
    )
    addresses = [case_address("flows", set=test_set, condition=name) for test_set, name in keys]
    caption = (
        "Flows that are executed right: run on mocked connectors they make the calls of the right flow, with the "
        "arguments that the request says, whichever way its conditions turn out, and make nothing up. Right names: "
        "similarity 1. 95% intervals (Wilson)."
    )
    return Table(frame, caption, text_columns=["condition"], cases=dict.fromkeys(frame.columns[2:], addresses))


def executed_drawing(study: Study, rates: pd.DataFrame) -> Drawing:
    """Right names and executed right, a panel a test set."""
    sets = list(dict.fromkeys(rates["test_set"]))
    names = list(dict.fromkeys(rates["condition"]))
    figure, axes = plt.subplots(
        1, len(sets), figsize=(10, 1.4 + 0.3 * len(names)), sharey=True, sharex=True, squeeze=False
    )
    drawn = rates[rates["metric"].isin(LABELS)]
    for axis, test_set in zip(axes[0], sets, strict=True):
        for (metric, said), shift in zip(LABELS.items(), (-0.13, 0.13), strict=True):
            part = drawn[(drawn["test_set"] == test_set) & (drawn["metric"] == metric)]
            place = part["condition"].map(names.index) + shift
            errors = [part["value"] - part["ci_low"], part["ci_high"] - part["value"]]
            axis.errorbar(part["value"], place, xerr=errors, fmt="o", markersize=5, color=COLOURS[metric], label=said)
        axis.set_title(TEST_SETS[test_set], fontsize=10, loc="left")
        axis.set_xlabel("% of flows (95% interval)")
    axes[0][0].set_yticks(range(len(names)), [study.titles[name] for name in names])
    axes[0][0].set_ylim(len(names) - 0.5, -0.5)
    handles, said = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, said, loc="upper center", bbox_to_anchor=(0.5, 0.0), ncol=2, fontsize=9)
    told = [
        f"{study.titles[row.condition]}, {TEST_SETS[row.test_set]}: {interval(row.value, row.ci_low, row.ci_high, 0)}%"
        for row in rates[rates["metric"] == "executed"].head(10).itertuples()
    ]
    alt = f"Share of flows with the right API names and share executed right, by condition. Right: {'; '.join(told)}."
    return Drawing(figure, "dsl_executed", executed_finding(rates), alt, drawn)


def executed_finding(rates: pd.DataFrame) -> str:
    """How much of similarity 1 is not executed right, over all conditions."""
    counted = rates[(rates["metric"] == "wrong_at_1") & (rates["counted"] > 0)]
    same = counted["counted"].sum()
    wrong = (counted["value"] * counted["counted"] / 100).sum()
    if not same:
        return "No flow has the right API names in order"
    return f"{wrong / same:.0%} of the {same:,.0f} flows with the right API names do something else when they run"


def executed_in_words(study: Study, rates: pd.DataFrame) -> str:
    """The same for models and for copied flows apart, and the condition with most flows executed right."""
    copied = rates["condition"].isin(COPIES)
    parts = [
        f"{who}: {_lower(executed_finding(rates[chosen]))}"
        for who, chosen in (("Models", ~copied), ("Copied flows", copied))
        if chosen.any()
    ]
    best = []
    for test_set in dict.fromkeys(rates["test_set"]):
        part = rates[(rates["test_set"] == test_set) & (rates["metric"] == "executed") & ~copied]
        if len(part):
            row = part.loc[part["value"].idxmax()]
            numbers = interval(row["value"], row["ci_low"], row["ci_high"], 0)
            best.append(f"{TEST_SETS[test_set]} {study.titles[row['condition']]} with {numbers}% of {row['n']:.0f}")
    return f"{'. '.join(parts)}. Most are executed right on {'; on '.join(best)}." if best else f"{'. '.join(parts)}."


def _lower(text: str) -> str:
    return text[0].lower() + text[1:]
