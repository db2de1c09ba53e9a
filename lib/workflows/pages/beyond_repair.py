"""Notebook 12: repair against constrained decoding, at its own price and at equal cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.ticker import LogLocator, NullFormatter

from lib.workbook.display import Drawing, Table, interval, number
from lib.workflows.ablation import DELTAS, VALUES
from lib.workflows.pages.common import SETTLED, TEST_SETS, error_bars, intervals, settled_deltas
from lib.workflows.repair_costs import BUDGETS, OWN
from lib.workflows.repair_rates import Rates
from lib.workflows.repair_ways import DRAWN, GROUP, HELD

LABELS = {
    "free": "free",
    "snapped": "free, snapped",
    "reasked": "free, asked again",
    "best": "best of {n}",
    "best_snapped": "best of {n}, snapped",
    HELD: "constrained",
}
MODELS = {"finetuned": "fine-tuned model", "in_context": "in-context model"}
METRICS = {"similarity": "similarity", "valid": "valid, %", "executed": "executed right, %"}
DIGITS = {"similarity": 2, "valid": 0, "executed": 0}
COLOURS = {
    "free": "#8a8a8a",
    "snapped": "#2a7f62",
    "reasked": "#7a4fa3",
    "best": "#b3541e",
    "best_snapped": "#c9a227",
    HELD: "#0b5fa5",
}
MARKERS = {"free": "o", "snapped": "s", "reasked": "^", "best": "v", "best_snapped": "D", HELD: "*"}


def way_label(way: str, n: float) -> str:
    """A way's name for readers, such as `best of 8, snapped`; the best of one is a single draw."""
    if way in DRAWN and round(n, 1) == 1:
        return LABELS[way].replace("best of {n}", "one draw")
    return LABELS[way].format(n=f"{n:.0f}" if float(n).is_integer() else number(n, 1))


def repair_table(compared: pd.DataFrame) -> Table:
    """Every way as it is: quality beside tokens and seconds a flow.

    Args:
        compared: of `lib.workflows.repair_costs.compare`.
    """
    rows = compared[compared["budget"] == OWN]
    frame = _quality(rows, ["way"])
    first = rows.drop_duplicates([*GROUP, "way"]).set_index([*GROUP, "way"])
    frame["tokens read"] = first["tokens_in"].round(0).astype(int).tolist()
    frame["tokens written"] = first["tokens_out"].round(0).astype(int).tolist()
    frame["seconds"] = first["seconds"].tolist()
    tests = int(compared["p_value"].notna().sum())
    caption = (
        "Ways to a flow, and what each costs a flow on average; no reading is shared between answers, and seconds are "
        "tokens at the rates measured above. Valid: it "
        "parses, and no name or key is made up. Executed right: on mocked connectors it does what the right flow does. "
        f"Δ: from constrained decoding on the same flows. 95% intervals; {SETTLED}: settled, p of at most .05 after "
        f"Holm's adjustment over {tests} tests and an interval without 0.{_on_fewer(rows)} Under *What a point of "
        "quality costs a workflow* the same model has other values: other requests were drawn there, and kept answers "
        "may have been written in another precision."
    )
    return Table(frame, caption, text_columns=["way"])


def _on_fewer(rows: pd.DataFrame) -> str:
    """What constrained decoding reaches on the flows of ways that have fewer than it, a sentence; empty where none
    has."""
    most = rows.groupby(GROUP)["flows"].transform("max")
    told = []
    for (model, test_set), part in rows[rows["flows"] < most].groupby(GROUP, sort=False):
        once = part.drop_duplicates("metric").set_index("metric")
        held = once["value"] - once["delta"]
        told.append(
            f"{MODELS[model]}, {TEST_SETS[test_set]}, {once['flows'].iloc[0]:.0f} flows: similarity "
            f"{number(held['similarity'], 2)}, executed right {number(held['executed'], 0)}%"
        )
    if not told:
        return ""
    return f" Best of several is drawn for the first flows alone; constrained decoding has on these: {'; '.join(told)}."


def equal_cost_table(compared: pd.DataFrame) -> Table:
    """Ways with more than one price at what constrained decoding costs, below constrained decoding itself and snapping;
    `compared` as for `repair_table`."""
    parts = []
    for _, group in compared.groupby(GROUP, sort=False):
        own = group[(group["budget"] == OWN) & group["way"].isin((HELD, "snapped"))]
        bought = {budget: group[group["budget"] == budget] for budget in BUDGETS}
        parts += [one for name, rows in bought.items() if len(rows) for one in (own.assign(budget=name), rows)]
    rows = pd.concat(parts, ignore_index=True)
    frame = _quality(rows, ["budget", "way"])
    first = rows.drop_duplicates([*GROUP, "budget", "way"])
    frame["way"] = [_priced(row.way, row.n) for row in first.itertuples()]
    spent = [getattr(row, f"spent_{row.budget}") for row in first.itertuples()]
    frame.insert(4, "spent, %", [round(one) for one in spent])
    caption = (
        "The same at equal cost: as many samples, or second prompts, as constrained decoding's mean tokens (read and "
        "written) or seconds pay for, drawn at random where a part of the flows gets one more. Spent: of that budget; "
        "above 100%, even the cheapest costs more; below, the dearest costs less. Snapping the free answer costs no "
        "tokens besides; it and constrained decoding are the rows of the table above, on all their flows. One draw is "
        "an answer at a temperature, the free one takes the likeliest token: so it may be worse."
    )
    return Table(frame, caption, text_columns=["way"])


def _quality(rows: pd.DataFrame, keys: Sequence[str]) -> pd.DataFrame:
    """One row for each model, test set and `keys`: who, flows, values and differences as texts."""
    index = [*GROUP, *keys]
    order = list(dict.fromkeys(rows[index].itertuples(index=False, name=None)))
    first = rows.drop_duplicates(index).set_index(index).loc[order]
    frame = first.reset_index()[[*index, "n", "flows"]]
    texts, clear = rows.set_index("metric"), settled_deltas(rows).to_numpy()
    for metric, title in METRICS.items():
        here = texts.index == metric
        part = rows[here].set_index(index)
        values = pd.Series(intervals(rows[here], VALUES, DIGITS[metric]), index=part.index)
        frame[title] = values.loc[order].tolist()
        marks = [f" {SETTLED}" if one else "" for one in clear[here]]
        told = [
            f"{number(row[0], DIGITS[metric], sign=True)} [{number(row[1], DIGITS[metric])}, "
            f"{number(row[2], DIGITS[metric])}]{mark}" if row[0] == row[0] else "–"
            for row, mark in zip(rows.loc[here, DELTAS].to_numpy(), marks, strict=True)
        ]  # fmt: skip
        if metric != "valid":
            frame[f"Δ {metric if metric == 'similarity' else 'executed'}"] = pd.Series(told, part.index)[order].tolist()
    frame["way"] = [way_label(way, n) for way, n in zip(frame["way"], frame["n"], strict=True)]
    frame["model"], frame["test_set"] = frame["model"].map(MODELS), frame["test_set"].map(TEST_SETS)
    frame = frame.drop(columns="n").rename(columns={"test_set": "requests"})
    return frame.replace({"budget": {name: f"equal {name}" for name in BUDGETS}}) if "budget" in frame else frame


def _priced(way: str, n: float) -> str:
    if way == "reasked" and n < 1:
        return f"{n:.0%} of those not valid asked again"
    return way_label(way, n)


def repair_drawing(curve: pd.DataFrame, metric: str = "similarity") -> Drawing:
    """Quality against tokens and against seconds, a row of panels for each model and test set; the best of n as a line.

    Args:
        curve: of `lib.workflows.repair_costs.curve`.
    """
    rows = curve[curve["metric"] == metric]
    groups = list(dict.fromkeys(rows[GROUP].itertuples(index=False, name=None)))
    figure, axes = plt.subplots(len(groups), 2, figsize=(10, 0.8 + 2.7 * len(groups)), squeeze=False, sharey="row")
    for line, (model, test_set) in zip(axes, groups, strict=True):
        part = rows[(rows["model"] == model) & (rows["test_set"] == test_set)]
        for axis, measure in zip(line, BUDGETS, strict=True):
            for way, points in part.groupby("way", sort=False):
                axis.errorbar(
                    points[measure], points["value"], error_bars(points, VALUES), fmt=MARKERS[way], color=COLOURS[way],
                    markersize=10 if way == HELD else 6, elinewidth=0.8, label=LABELS[way].format(n="n"),
                    linestyle="-" if way in DRAWN else "",
                )  # fmt: skip
            axis.set_xscale("log")
            axis.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axis.xaxis.set_major_formatter("{x:,g}")
            axis.xaxis.set_minor_formatter(NullFormatter())
            axis.set_xlabel("tokens a flow, read and written" if measure == "tokens" else "seconds a flow")
        line[0].set_ylabel(METRICS[metric])
        flows = int(part["flows"].iloc[0])
        line[0].set_title(f"{MODELS[model]}, {TEST_SETS[test_set]}, {flows} flows", fontsize=10, loc="left")
    known: dict[str, Any] = {}
    for axis in axes.flat:
        handles, said = axis.get_legend_handles_labels()
        known |= dict(zip(said, handles, strict=True))
    figure.legend(known.values(), known, loc="upper center", bbox_to_anchor=(0.5, 0.0), ncol=3, fontsize=9)
    told = [
        f"{MODELS[row.model]}, {TEST_SETS[row.test_set]}, {way_label(row.way, row.n)}: "
        f"{interval(row.value, row.ci_low, row.ci_high, DIGITS[metric])} for {row.tokens:,.0f} tokens"
        for row in rows[(rows["n"] == rows["n"].max()) | ~rows["way"].isin(DRAWN)].itertuples()
    ]
    alt = f"{METRICS[metric].capitalize()} against tokens and seconds a flow, by way. {'; '.join(told[:12])}."
    return Drawing(figure, f"dsl_repair_{metric}", curve_finding(rows), alt, rows)


def curve_finding(rows: pd.DataFrame) -> str:
    """What the first and the last of the samples bring, and for how many times the tokens of constrained decoding.

    Args:
        rows: of `curve`, of one metric.
    """
    metric = rows["metric"].iloc[0]
    parts = []
    for (model, test_set), part in rows.groupby(GROUP, sort=False):
        best = part[part["way"] == "best"].sort_values("n")
        held = part[part["way"] == HELD].iloc[0]
        if len(best):
            last, digits = best.iloc[-1], DIGITS[metric]
            parts.append(
                f"{MODELS[model]}, {TEST_SETS[test_set]}: {number(last['value'], digits)} against "
                f"{number(held['value'], digits)} for {last['tokens'] / held['tokens']:.1f} times the tokens"
            )
    if not parts:
        return f"{METRICS[metric].capitalize()} and cost of repair and constrained decoding"
    n = int(rows["n"].max())
    return f"Best of {n} against constrained decoding, {METRICS[metric]}: {'; '.join(parts)}"


# ---------------------------------------------------------------- in words


def kept_in_words(answers: pd.DataFrame) -> str:
    """How many answers were kept with the project, and how many were written for this report.

    Args:
        answers: of `lib.workflows.repair_kept.kept_or_asked`.
    """
    kept = answers["dtype"].notna() if "dtype" in answers else pd.Series(False, answers.index)
    now = f"{int((~kept).sum()):,} were written for this report"
    if not kept.any():
        return f"Of the answers {now}."
    said = " and ".join(sorted(answers.loc[kept, "dtype"].unique()))
    return f"{int(kept.sum()):,} answers were written once, in {said}, and are kept with the project; {now}."


def rates_in_words(rates: Mapping[str, Rates]) -> str:
    """What a token takes each model, free and under the grammar."""
    told = []
    for model, rate in rates.items():
        reading, writing = (1000 * one for one in rate[:2])
        value, low, high = (100 * end for end in rate.more)
        told.append(
            f"the {MODELS[model]} reads a token in {number(reading, 1)} ms and writes one in {number(writing, 1)} ms, "
            f"which the grammar changes by {interval(value, low, high)}% ({rate.prompts} requests)"
        )
    return (
        f"Asked alone and in turn for a free and a constrained answer, {'; '.join(told)}. Seconds below are tokens at "
        "these rates, those of one user who waits: no way gains by the moment at which it was asked. In batches the "
        "rates would be others."
    )


def repair_in_words(compared: pd.DataFrame) -> str:
    """For each model and test set: constrained decoding's quality, what differs from it settled, and what snapping
    leaves open."""
    parts = []
    for (model, test_set), part in compared[compared["budget"] == OWN].groupby(GROUP, sort=False):
        who = f"*{MODELS[model]}, {TEST_SETS[test_set]}*"
        held, snapped = (_values(part, way) for way in (HELD, "snapped"))
        text = (
            f"{who}: constrained decoding {held['similarity']}, executed right {held['executed']}%; snapping the free "
            f"answer {snapped['similarity']} and {snapped['executed']}%, for {_seconds(part)} of its seconds. "
            f"{_settled_in_words(part)}."
        )
        parts.append(text)
    return " ".join(parts)


def equal_cost_in_words(compared: pd.DataFrame) -> str:
    """How many samples the budget pays for, and which ways are then better or worse than constrained decoding."""
    parts = []
    for (model, test_set), part in compared[compared["budget"].isin(BUDGETS)].groupby(GROUP, sort=False):
        drawn = part[(part["way"] == "best") & (part["metric"] == "similarity")].set_index("budget")
        pays = " and ".join(f"{number(drawn.loc[one, 'n'], 1)} samples at equal {one}" for one in drawn.index)
        pays = f"constrained decoding's budget pays for {pays}; " if pays else "at constrained decoding's budget "
        parts.append(f"*{MODELS[model]}, {TEST_SETS[test_set]}*: {pays}{_lower(_settled_in_words(part))}.")
    return " ".join(parts)


def finding(compared: pd.DataFrame) -> str:
    """Free, snapped and constrained answers of the row with the most flows: similarity, and executed right."""
    own = compared[compared["budget"] == OWN]
    model, test_set = own.sort_values("flows", ascending=False, kind="stable")[GROUP].iloc[0]
    part = own[(own["model"] == model) & (own["test_set"] == test_set)]
    of_way = part[part["metric"] == "similarity"].set_index("way")
    told = [
        f"{said} {intervals(of_way.loc[[way]], VALUES, DIGITS['similarity'])[0]}"
        for way, said in (("free", "free"), ("snapped", "snapped to the catalogue"), (HELD, "under its grammar"))
    ]
    ran = part[part["metric"] == "executed"].set_index("way")
    right = [f"{intervals(ran.loc[[way]], VALUES, 0)[0]}%" for way in ("free", "snapped", HELD) if way in ran.index]
    flows = int(part["flows"].max())
    return (
        f"Similarity of the {MODELS[model]}'s flows, {TEST_SETS[test_set]} (n = {flows:,}): {', '.join(told)}"
        f"{'; executed right, in this order, ' + ', '.join(right) if right else ''}."
    )


def _values(part: pd.DataFrame, way: str) -> dict[str, str]:
    rows = part[part["way"] == way]
    return {
        metric: interval(value, low, high, DIGITS[metric])
        for metric, value, low, high in rows[["metric", *VALUES]].itertuples(index=False)
    }


def _seconds(part: pd.DataFrame) -> str:
    return f"{part.loc[part['way'] == 'snapped', 'spent_seconds'].iloc[0]:.0f}%"


def _settled_in_words(part: pd.DataFrame) -> str:
    """Which differences from constrained decoding are settled."""
    clear = part[settled_deltas(part).to_numpy() & part["p_value"].notna().to_numpy()]
    tests = int(part["p_value"].notna().sum())
    if clear.empty:
        return f"None of {tests} differences from it is settled"
    told = []
    for row in clear.itertuples():
        at = "" if row.budget == OWN else f" at equal {row.budget}"
        low, high = sorted((abs(row.delta_ci_low), abs(row.delta_ci_high)))
        how = f"{'above' if row.delta > 0 else 'below'} it in {METRICS[row.metric].split(',')[0]} by"
        told.append(f"{_priced(row.way, row.n)}{at} {how} {interval(abs(row.delta), low, high, DIGITS[row.metric])}")
    return f"{len(clear)} of {tests} differences from it are settled: {'; '.join(told)}"


def _lower(text: str) -> str:
    return text[0].lower() + text[1:]
