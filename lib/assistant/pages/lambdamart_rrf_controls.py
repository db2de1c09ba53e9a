"""Tables, figures and sentences of notebook 05_lambdamart_rrf about what a lucky result would not survive: floors,
negative controls, needs that nobody asked about in training, and other worlds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from lib.assistant.context_scores import RankerScores
from lib.assistant.controls import MARGIN
from lib.assistant.leaks import conditional_entropy_bits, entropy_bits
from lib.assistant.pages.common import control_rows
from lib.assistant.pages.lambdamart_rrf_parts import rankers_table
from lib.assistant.ranker_ablation import QUERY_UNSEEN, TWO_QUERY_UNSEEN, UNLEARNED
from lib.assistant.sweeps import COMPARED, DIFFERENCES, HABIT_KNOBS, SIGNAL_KNOBS, SWEEPS, Sweep
from lib.assistant.unseen_needs import UnseenNeeds
from lib.workbook.display import Drawing, Table, interval, listed, number
from lib.workbook.methods import colour, label, marker

KNOBS = {
    "meaning_share": "share of meaning queries (rest: half habit, half either)",
    "habit_strength": "share of opens that follow the habit",
    "hour_noise": "scatter around the habit's hour, hours",
    "hard_distractors": "stale or lookalike items a persona",
    "recency_strength": "share of queries whose answer\nwas opened in the last 24 hours",
    "frequency_strength": "share of queries whose answer\nis opened often",
    "due_rivals": "share of unneeded events and\nreminders due soon after a query",
}
EDGE = "lambdamart_rrf − semantic"
# What the numerical signals add, without the habitual ones and beside them, and what the due time adds.
TO_TEXT = "lambdamart_without_habitual − lambdamart_no_usage"
TO_HABITS = "lambdamart − lambdamart_without_numerical"
DUE_ADDS = "lambdamart_due − lambdamart"
# What is drawn of each signal: the signal by itself, and rankers without it and with it.
NUMERICAL = ("lambdamart_no_usage", "lambdamart_without_habitual", "lambdamart_without_numerical", "lambdamart")
READ_BY = {
    "recency_strength": ("recency", *NUMERICAL),
    "frequency_strength": ("most_opened", *NUMERICAL),
    "due_rivals": ("due_soon", "lambdamart", "lambdamart_due"),
}


# ---- floors


def api_table(named: float, commonest: float, apis: pd.Series, needs: pd.Series) -> Table:
    """Whether a query's text gives its API away.

    Args:
        named, commonest: from `lib.assistant.leaks.api_from_text_alone`.
        apis, needs: of every query.
    """
    apis, needs = apis.reset_index(drop=True), needs.reset_index(drop=True)
    rows = [
        ("API named by a classifier that sees the query's text alone, % of evaluation queries", named),
        ("API named by always taking the commonest, %", commonest),
        ("H(API), bits", entropy_bits(apis)),
        ("H(API | need), bits: what stays open even if the need is known", conditional_entropy_bits(apis, needs)),
    ]
    return Table(
        pd.DataFrame(rows, columns=["floor", "value"]),
        "Does the text of a query give its API away? First guess of one classifier; notebook 06 shows how many of the "
        "right APIs are among its first ten.",
    )


def floors_table(rankers: RankerScores) -> Table:
    return Table(
        rankers_table(rankers, ["lambdamart", *UNLEARNED, QUERY_UNSEEN, TWO_QUERY_UNSEEN, "random"]),
        f"Recall@{rankers.k} in percent of rankings without learning, or without the query. "
        f"n = {len(rankers.asked.names)}.",
        decimals=1,
    )


# ---- negative controls


def controls_table(controls: pd.DataFrame, k: int, draws: Mapping[str, int], method: str = "lambdamart") -> Table:
    """The controls that `lib.assistant.controls.weigh_controls` weighed.

    Args:
        draws: how many permutations each is the mean of.
        method: whose learning was cut.
    """
    shown = control_rows(controls, f"Recall@{k}")
    shown.insert(shown.shape[1] - 1, "test", controls["test"])
    return Table(
        shown,
        f"Negative controls of {label(method)}, percent, means over draws "
        f"({', '.join(f'{name}: {n}' for name, n in draws.items())}). Halfway: the mean of those rankings and of the "
        "same with the last first. One-sided: it must not exceed the reference by more than the margin, and may fall "
        "below.",
        decimals=1,
    )


def controls_held(controls: pd.DataFrame) -> str:
    """`3 of 4 negative controls hold`: on every group of queries that they were seen on."""
    held = controls.groupby("control")["holds"].all()
    return f"{held.sum()} of {len(held)} negative controls hold"


def what_controls_say(controls: pd.DataFrame, rankers: RankerScores) -> str:
    n, habit = controls["control"].nunique(), "habit" in set(controls["queries"])
    worst = controls.loc[controls["deviation"].idxmax()]
    held = controls_held(controls).replace("negative controls", "controls")
    deviation = (
        f"The largest deviation in a tested direction is {number(worst['deviation'], 1)} points ({worst['control']}, "
        f"{worst['queries']} queries)."
    )
    if not habit:
        return f"{held}. {deviation}"
    shuffled = controls[(controls["control"] == "moments shuffled") & (controls["queries"] == "habit")]["recall"]
    return (
        f"{held} on both groups of queries. The habit queries are part of all queries, so these are {n} controls seen "
        f"on two groups, not {len(controls)} independent tests. {deviation} Habit queries fall from "
        f"{rankers.recall('lambdamart', 'habit'):.0f}% to {shuffled.item():.0f}% once the moments are shuffled."
    )


def what_dealt_labels_find(controls: pd.DataFrame, chance: float) -> str:
    """Why rankers of labels dealt anew are not compared with a random order, in their own numbers.

    Args:
        chance: recall of a random order on all queries.
    """
    row = controls[(controls["control"] == "labels permuted") & (controls["queries"] == "all")].iloc[0]
    return (
        f"Rankers of permuted labels find {number(row['recall'], 1)}%, their rankings reversed "
        f"{number(row['backward'], 1)}%, a random order {number(chance, 1)}%. What stands out in any signal comes "
        "first or last under such a ranker, and what is looked for stands out; labels that came through would show in "
        "the first number alone."
    )


# ---- needs that no training query asks about


def unseen_table(unseen: UnseenNeeds, names: Mapping[str, str]) -> Table:
    """Methods trained without some needs, on queries about these.

    Args:
        names: of the methods.
    """
    at_k = unseen.summary[(unseen.summary["metric"] == "recall") & (unseen.summary["k"] == unseen.k)]
    at_k = at_k.set_index(["method", "kind"])
    rows = []
    for method in unseen.methods:
        change = unseen.changes.loc[method] if method in unseen.changes.index else None
        kinds = [kind for kind in ("all", *unseen.kinds) if (method, kind) in at_k.index]
        rows.append(
            {
                "method": names[method],
                "n": int(at_k.loc[(method, "all"), "n"]),
                **{kind: interval(*at_k.loc[(method, kind), ["value", "ci_low", "ci_high"]]) for kind in kinds},
                "trained with them": np.nan if change is None else change["known"],
                "without − with": "–" if change is None else interval(*change[["difference", "ci_low", "ci_high"]]),
            }
        )
    return Table(
        pd.DataFrame(rows),
        f"Recall@{unseen.k} in percent on the {len(unseen.kind)} evaluation queries of {len(unseen.needs)} needs that "
        "were left out of training, 95% intervals; beside it, the same method trained with them. The difference is "
        "paired, points with 95% intervals. What is fused was chosen on all training queries.",
        decimals=1,
        best={"all": "max"},
        among="n",
    )


def does_it_carry_over(unseen: UnseenNeeds) -> str:
    """Whether what LambdaMART learned carries over to needs it never saw."""
    change = unseen.changes.loc["lambdamart"]
    recall = unseen.scores["lambdamart", "recall", unseen.k].mean()
    return (
        f"On needs it never saw LambdaMART finds {recall:.1f}%, "
        f"{interval(*change[['difference', 'ci_low', 'ci_high']])} points from what it finds when trained with them. "
        + (
            f"All of the interval lies above −{MARGIN:g}: what it learned carries over."
            if change["ci_low"] > -MARGIN
            else "Part of what it learned is about the needs it saw."
            if change["ci_high"] < 0
            else f"A loss of {MARGIN:g} points or more is not excluded."
        )
    )


# ---- other worlds


def edges(sweep: Sweep, swept: pd.DataFrame) -> pd.DataFrame:
    """What LambdaMART-RRF finds more than semantic search, one row a distinct world.

    Args:
        swept: from `sweep.summarise`.

    Returns:
        columns knob, level, world (its name for readers), difference, ci_low, ci_high.
    """
    rows = swept[swept["method"] == EDGE]
    changes = [sweep.settings[key] for key in zip(rows["knob"], rows["level"], strict=True)]
    worlds = [
        f"{knob.replace('_', ' ')} {level:.2g}" if changed else "the default"
        for knob, level, changed in zip(rows["knob"], rows["level"], changes, strict=True)
    ]
    (recall,) = [column for column in swept if column.startswith("recall@")]
    table = rows.rename(columns={recall: "difference"}).assign(world=worlds)
    return table[~pd.Series([str(changed) for changed in changes], index=table.index).duplicated()]


def sweep_figure(swept: pd.DataFrame, edge: pd.DataFrame, k: int) -> Drawing:
    """The knobs of kinds, habits and distractors, a panel each.

    Args:
        swept: from `Sweep.summarise`.
        edge: from `edges`.
    """
    swept, edge = (frame[frame["knob"].isin(HABIT_KNOBS)] for frame in (swept, edge))
    figure, axes = plt.subplots(2, 2, figsize=(9.5, 7), sharey=True)
    for axis, knob in zip(axes.flat, HABIT_KNOBS, strict=True):
        _draw_knob(axis, swept[swept["knob"] == knob], COMPARED, k)
    for axis in axes[:, 0]:
        axis.set_ylabel(f"Recall@{k}, % (bands: 95% interval)")
    figure.legend(
        *axes[0, 0].get_legend_handles_labels(),
        loc="lower center",
        ncol=len(COMPARED),
        bbox_to_anchor=(0.5, -0.04),
        fontsize=9,
    )
    lost = _lost(edge)
    return Drawing(
        figure,
        "sensitivity",
        f"LambdaMART-RRF minus semantic search: the interval lies above 0 in {len(edge) - len(lost)} of {len(edge)} "
        "distinct worlds (not adjusted for their number)" + (f"; not at {'; '.join(lost)}" if lost else ""),
        "Recall of four methods in four panels, one knob of the simulated world each. LambdaMART-RRF minus semantic "
        "search: " + "; ".join(f"{row.knob} {row.level:.2g}: {row.difference:+.0f}" for row in edge.itertuples()),
        swept,
    )


def signals_figure(swept: pd.DataFrame, k: int) -> Drawing:
    """The knobs of one signal each, a panel each: the signal alone, LambdaMART without it and with it.

    Args:
        swept: from `Sweep.summarise`.
    """
    swept = swept[swept["knob"].isin(SIGNAL_KNOBS)]
    figure, axes = plt.subplots(1, 3, figsize=(9.5, 4), sharey=True)
    for axis, (knob, methods) in zip(axes, READ_BY.items(), strict=True):
        _draw_knob(axis, swept[swept["knob"] == knob], methods, k)
    axes[0].set_ylabel(f"Recall@{k}, % (bands: 95% interval)")
    lines = {name: line for axis in axes for line, name in zip(*axis.get_legend_handles_labels(), strict=True)}
    figure.legend(lines.values(), lines, loc="upper center", ncol=3, bbox_to_anchor=(0.5, 0.0), fontsize=9)
    value = swept.set_index(["knob", "level", "method"])[f"recall@{k}"]
    most = {knob: SWEEPS[knob][-1] for knob in READ_BY}
    levels = SWEEPS["recency_strength"]
    adds = {
        name: [number(value["recency_strength", level, name], 1) for level in levels] for name in (TO_TEXT, TO_HABITS)
    }
    due = [number(value["due_rivals", level, DUE_ADDS], 1) for level in (0.0, most["due_rivals"])]
    return Drawing(
        figure,
        "sensitivity_signals",
        f"At recency strength {listed([f'{level:.2g}' for level in levels])}, numerical signals change Recall@{k} by "
        f"{listed(adds[TO_TEXT])} points in a LambdaMART without habitual ones, by {listed(adds[TO_HABITS])} in one "
        f"with them; due times by {due[0]} at due rivals 0, by {due[1]} at {most['due_rivals']:.2g}: intervals in the "
        "table",
        "Recall in three panels, one signal of the simulated world each. The signal alone, without learning: "
        + "; ".join(
            f"{label(methods[0])}, {knob.replace('_', ' ')} 0: {value[knob, 0.0, methods[0]]:.0f}%, "
            f"{most[knob]:.2g}: {value[knob, most[knob], methods[0]]:.0f}%"
            for knob, methods in READ_BY.items()
        ),
        swept,
    )


def _draw_knob(axis: Axes, swept: pd.DataFrame, methods: Sequence[str], k: int) -> None:
    """Recall of some methods at the levels of one knob."""
    (knob,) = swept["knob"].unique()
    for method in methods:
        part = swept[swept["method"] == method]
        axis.plot(part["level"], part[f"recall@{k}"], color=colour(method), marker=marker(method), label=label(method))
        axis.fill_between(part["level"], part["ci_low"], part["ci_high"], color=colour(method), alpha=0.12)
    axis.set_xlabel(KNOBS[knob], fontsize=9)
    axis.set(xticks=SWEEPS[knob], xticklabels=[f"{level:.2g}" for level in SWEEPS[knob]], ylim=(0, 100))


def worlds_won(edge: pd.DataFrame) -> str:
    """In how many of the distinct small worlds LambdaMART-RRF is above semantic search, and in which it is not."""
    lost = _lost(edge)
    return (
        f"LambdaMART-RRF's lead over semantic search has an interval above 0 in {len(edge) - len(lost)} of {len(edge)} "
        "distinct small worlds, each by itself" + (f" (not at {'; '.join(lost)})" if lost else "")
    )


def _lost(edge: pd.DataFrame) -> list[str]:
    """The worlds in which the interval reaches 0."""
    return edge.loc[edge["ci_low"] <= 0, "world"].tolist()


def sweep_table(sweep: Sweep, swept: pd.DataFrame, k: int) -> Table:
    """Differences at every level of the knobs of kinds, habits and distractors."""
    defaults = ", ".join(f"{knob.replace('_', ' ')} {getattr(sweep.base, knob):.2g}" for knob in HABIT_KNOBS)
    return Table(
        _by_setting(swept, HABIT_KNOBS, sorted(" − ".join(pair) for pair in DIFFERENCES), k),
        f"Differences in Recall@{k}, percentage points with 95% intervals, in worlds of {sweep.personas} personas; the "
        f"defaults are {defaults}.",
    )


def signals_table(sweep: Sweep, swept: pd.DataFrame, k: int) -> Table:
    """What each signal finds by itself and what LambdaMART gains from it, at every level of the signal knobs."""
    alone = [methods[0] for methods in READ_BY.values()]
    defaults = ", ".join(f"{knob.replace('_', ' ')} {getattr(sweep.base, knob):.2g}" for knob in SIGNAL_KNOBS)
    return Table(
        _by_setting(swept, SIGNAL_KNOBS, [*alone, TO_TEXT, TO_HABITS, DUE_ADDS, EDGE], k),
        f"Recall@{k} in percent of what reads one signal and learns nothing, and differences in points, with 95% "
        f"intervals, in worlds of {sweep.personas} personas; the defaults are {defaults}.",
    )


def _by_setting(swept: pd.DataFrame, knobs: Sequence[str], names: Iterable[str], k: int) -> pd.DataFrame:
    """Methods and differences with their intervals, a row a level of each knob."""
    rows = swept[swept["knob"].isin(knobs)]
    shown = [interval(*row) for row in rows[[f"recall@{k}", "ci_low", "ci_high"]].to_numpy()]
    wide = rows.assign(shown=shown).pivot(index=["knob", "level"], columns="method", values="shown")
    wide = wide.loc[list(knobs), list(names)]
    wide = wide.rename(columns=lambda name: " − ".join(map(label, name.split(" − ")))).reset_index()
    return wide.assign(knob=wide["knob"].str.replace("_", " "), level=[f"{level:.2g}" for level in wide["level"]])
