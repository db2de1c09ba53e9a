"""Tables and figures of notebook 05_lambdamart_rrf."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from lib.assistant.context_scores import REFERENCES, ContextScores, RankerScores
from lib.assistant.pages.common import (
    control_rows,
    intervals,
    kind_cases,
    ranker_name,
    ranking_cases,
    shown_tests,
    with_published,
)
from lib.assistant.ranking_cost import Cost, cost_table
from lib.assistant.sensitivity import COMPARED, SWEEPS
from lib.workbook.display import Drawing, Table, beside_published, interval, label_lines, legend_below, p_text
from lib.workbook.methods import colour, label, marker

BY_KIND = (
    "bm25t", "semantic", "cot", "cot_distilled", "finetuned", "lambdamart", "lambdamart_rrf", "lambdamart_2",
    "lambdamart_2_finetuned",
)  # fmt: skip
LINES = (
    "bm25t", "semantic", "cot", "finetuned", "finetuned_cot", "lambdamart", "lambdamart_rrf", "lambdamart_2",
    "lambdamart_2_finetuned",
)  # fmt: skip
TITLES = {
    "recall": "Recall@K",
    "ndcg": "NDCG@K, standard ideal",
    "ndcg_retrieved": "NDCG@K, ideal of the retrieved, queries without a hit left out",
}
KNOBS = {
    "meaning_share": "share of meaning queries (rest: half habit, half either)",
    "habit_strength": "share of opens that follow the habit",
}


@dataclass(frozen=True)
class TableTwo:
    """What the page is about.

    Attributes:
        scored: the methods on the evaluation queries.
        published: the paper's Table 2, from `lib.assistant.pages.common.printed_values`.
        names: of the methods, with the number of pairs that a fine-tuned one learned from.
        authors: of the chains of thought.
    """

    scored: ContextScores
    published: pd.Series
    names: Mapping[str, str]
    authors: str

    @cached_property
    def summary(self) -> pd.DataFrame:
        """The means with the paper's beside them."""
        summary = self.scored.summary
        return with_published(summary, self.published, summary["kind"] == "all")

    def value(self, method: str, metric: str = "recall", at: int | None = None, kind: str = "all") -> float:
        return self.scored.mean(method, metric, at, kind)["value"]

    def interval(self, method: str, kind: str = "all") -> str:
        return interval(*self.scored.mean(method, kind=kind)[["value", "ci_low", "ci_high"]])

    def printed(self, method: str, metric: str, at: int) -> float:
        return self.published.get((method, metric, at), np.nan)

    def shown(self, methods: Iterable[str]) -> list[str]:
        """Those of the methods that were scored."""
        return [method for method in methods if method in self.scored.methods]


def names_with_pairs(methods: Iterable[str], models: pd.DataFrame) -> dict[str, str]:
    """The methods' names; of a fine-tuned one, with the number of pairs it learned from.

    Args:
        models: columns model, pairs.
    """
    pairs = models.set_index("model")["pairs"]
    return {
        method: f"{label(method)} ({pairs[method]:,} pairs)" if method in pairs else label(method) for method in methods
    }


# ---- by kind of query


def by_kind_figure(two: TableTwo) -> Drawing:
    scored, methods, kinds = two.scored, two.shown(BY_KIND), two.scored.asked.kinds
    figure, axis = plt.subplots(figsize=(9, 4.6))
    for position, method in enumerate(methods):
        part = pd.DataFrame([scored.mean(method, kind=kind) for kind in kinds])
        axis.errorbar(
            np.arange(len(kinds)) + (position - (len(methods) - 1) / 2) * 0.9 / len(methods),
            part["value"],
            yerr=[part["value"] - part["ci_low"], part["ci_high"] - part["value"]],
            marker=marker(method),
            linestyle="none",
            color=colour(method),
            capsize=2,
            markersize=7,
            label=two.names[method] + ("" if method in scored.complete else f", n = {scored.asked.in_cot.sum()}"),
        )
    axis.set(
        xticks=range(len(kinds)),
        xticklabels=[f"{kind}\n(n = {scored.asked.of_kind(kind).sum()})" for kind in kinds],
        ylabel=f"Recall@{scored.k}, % (bars: 95% interval)",
        ylim=(0, 100),
    )
    legend_below(axis, columns=3)
    summary = two.scored.summary
    data = summary[(summary["metric"] == "recall") & (summary["k"] == scored.k) & summary["method"].isin(methods)]
    return Drawing(figure, "context_by_kind", "Recall by kind of query", by_kind_alt(two), data)


def by_kind_alt(two: TableTwo) -> str:
    """What the figure by kind shows, for those who cannot see it."""
    methods = two.shown(BY_KIND)
    return f"Recall at {two.scored.k} by kind of query with 95% intervals. " + "; ".join(
        f"{kind}: " + ", ".join(f"{label(method)} {two.value(method, kind=kind):.0f}%" for method in methods)
        for kind in two.scored.asked.kinds
    )


def by_kind_table(two: TableTwo) -> Table:
    scored, kinds = two.scored, two.scored.asked.kinds
    n, in_cot = len(scored.asked.names), scored.asked.in_cot.sum()
    rows = [
        {
            "method": two.names[method],
            "queries": "all" if method in scored.complete else "CoT sample",
            **{kind: two.interval(method, kind) for kind in kinds},
            "all kinds": two.interval(method),
        }
        for method in scored.methods
    ]
    frame, sampled = pd.DataFrame(rows), in_cot < n
    return Table(
        frame if sampled else frame.drop(columns="queries"),
        f"Recall@{scored.k} in percent by kind of query, 95% intervals, topics resampled; "
        f"{n} queries{f', {in_cot} in the CoT sample' if sampled else ''}.",
        best=dict.fromkeys([*kinds, "all kinds"], "max"),
        among="queries" if sampled else None,
        cases=kind_cases(scored.methods, kinds, scored.k) | ranking_cases(scored.methods, [scored.k], "all kinds"),
    )


# ---- Table 2


def table_two(two: TableTwo) -> list[Table]:
    """Ours beside published: for each sample, a table of each metric; references in parentheses, which no star gets."""
    tables = []
    for sample, (chosen, _) in two.scored.samples.items():
        which = "all" if sample == "all" else "CoT sample,"
        # Where all queries have chains of thought, references have rows of the sample `cot` alone.
        here = two.summary["sample"] == sample
        here |= (sample == "all") & (chosen == two.scored.asked.in_cot).all() & _is_reference(two.summary["method"])
        for metric, title in TITLES.items():
            rows = two.summary[here & (two.summary["kind"] == "all") & (two.summary["metric"] == metric)]
            starred = metric != "ndcg_retrieved"
            caption = (
                f"{title}, percent with 95% intervals; {which} {chosen.sum()} evaluation queries. "
                f"Chains of thought by {two.authors}. Paper: its Table 2, on its own data and with its own models."
                + ("" if starred else " No star: each method has its own queries here.")
            )
            if _is_reference(rows["method"]).any():
                caption += " In parentheses: made from labels, a reference and no method."
            best = {f"@{k}, ours": "max" for k in two.scored.cutoffs if starred}
            filters = {} if sample == "all" else {"sample": "cot"}
            cases = ranking_cases(rows["method"].unique(), two.scored.cutoffs, **filters)
            frame = _in_parentheses(beside_published(rows, two.names), two)
            tables.append(Table(frame, caption, best=best, cases=cases))
    return tables


def _is_reference(methods: pd.Series) -> pd.Series:
    return methods.isin(REFERENCES)


def _in_parentheses(frame: pd.DataFrame, two: TableTwo) -> pd.DataFrame:
    """A table of `beside_published` with our values of references in parentheses."""
    rows = frame["method"].isin([label(name) for name in two.scored.references])
    ours = [f"@{k}, ours" for k in two.scored.cutoffs]
    return frame.assign(**{name: frame[name].where(~rows, "(" + frame[name] + ")") for name in ours})


def recall_figure(two: TableTwo) -> Drawing:
    scored = two.scored
    figure, axes = plt.subplots(1, 2, figsize=(11, 4.6), sharey=True)
    for axis, source in zip(axes, ("ours", "published"), strict=True):
        ends = _recall_lines(axis, two, source)
        axis.set(xlabel="K", xticks=scored.cutoffs, title=source, ylim=(0, 102))
        label_lines(axis, ends, gap=5.5)
    axes[0].set_ylabel("Recall@K, % (bands: 95% interval)")
    return Drawing(
        figure,
        "table_two_recall",
        "Recall against K, ours and published",
        f"Recall against K, ours left and published right. Ours at {scored.k}: "
        + ", ".join(f"{label(method)} {two.value(method):.0f}%" for method in two.shown(LINES)),
        two.summary[(two.summary["kind"] == "all") & (two.summary["metric"] == "recall")],
    )


def _recall_lines(axis, two: TableTwo, source: str) -> dict[str, tuple[float, float, str]]:
    """Draw the lines of a panel, ours or published; their names and ends."""
    scored, ours = two.scored, source == "ours"
    ends: dict[str, tuple[float, float, str]] = {}
    for method in two.shown(LINES):
        if not ours and np.isnan(two.printed(method, "recall", scored.k)):
            continue
        points = pd.DataFrame([scored.mean(method, at=k) for k in scored.cutoffs])
        heights = points["value"].tolist() if ours else [two.printed(method, "recall", k) for k in scored.cutoffs]
        axis.plot(scored.cutoffs, heights, color=colour(method), marker=marker(method), linestyle="-" if ours else ":")
        if ours:
            axis.fill_between(scored.cutoffs, points["ci_low"], points["ci_high"], color=colour(method), alpha=0.12)
        ends[two.names[method] if ours else label(method)] = (scored.cutoffs[-1], heights[-1], colour(method))
    return ends


def tests_table(tests: pd.DataFrame, k: int, n: int) -> Table:
    """Paired comparisons from `lib.evaluation.comparison.compare`."""
    shown = shown_tests(tests, difference="difference, points")
    return Table(
        shown[["comparison", "difference, points", "p"]],
        f"Differences in Recall@{k}, paired by query; n = {n}.",
    )


# ---- what each part is worth


def rankers_table(rankers: RankerScores, names: Sequence[str], caption: str, against: str = "lambdamart") -> Table:
    """Recall of rankers by kind of query, and paired differences to one of them."""
    tests, rows = rankers.tests(names, against), rankers.by_kind(names)
    rows[f"minus {ranker_name(against)}"] = intervals(tests, "difference")
    rows["p"] = [p_text(p) for p in tests["p_value"]]
    shown = rows.rename(index=ranker_name).rename_axis("ranker").reset_index()
    return Table(shown, f"Recall@{rankers.k}, percent. {caption}", decimals=1, best={"all": "max"})


def topics_figure(known: pd.DataFrame, new: pd.DataFrame, methods: Sequence[str], k: int) -> Drawing:
    """Two dots and a line a method: on topics that training met, and on topics that it did not.

    Args:
        known, new: columns method, value, ci_low, ci_high.
    """
    sides = {"known topics": known.set_index("method"), "new topics": new.set_index("method")}
    figure, axis = plt.subplots(figsize=(9, 0.55 * len(methods) + 1))
    for row, method in enumerate(reversed(methods)):
        values = [side.loc[method, "value"] for side in sides.values()]
        axis.plot(values, [row, row], color=colour(method), linewidth=2, zorder=0)
        for (name, side), face, shift in zip(sides.items(), (colour(method), "white"), (0.12, -0.12), strict=True):
            value, low, high = side.loc[method, ["value", "ci_low", "ci_high"]]
            axis.plot([low, high], [row + shift] * 2, color=colour(method), linewidth=0.8)
            axis.plot(
                value,
                row,
                "o",
                color=colour(method),
                markerfacecolor=face,
                label=name if not row else None,
                markersize=8,
            )
    axis.set(
        yticks=range(len(methods)),
        yticklabels=[label(method) for method in reversed(methods)],
        xlabel=f"Recall@{k}, % (thin lines: 95% intervals)",
        xlim=(0, 100),
    )
    legend_below(axis, columns=2)
    each = "; ".join(
        f"{label(method)} {known.loc[method, 'value']:.0f} and {new.loc[method, 'value']:.0f}%"
        for known, new in [sides.values()]
        for method in methods
    )
    data = pd.concat([side.loc[list(methods)].assign(topics=name).reset_index() for name, side in sides.items()])
    alt = f"Recall at {k} on known and on new topics. {each}"
    return Drawing(figure, "new_topics", "Recall on known (filled) and on new topics", alt, data)


def controls_table(controls: pd.DataFrame, k: int) -> Table:
    """The controls that `lib.assistant.controls.weigh_controls` weighed."""
    return Table(
        control_rows(controls, f"Recall@{k}"),
        "Negative controls of LambdaMART, percent, means over draws. Halfway: the mean of a ranking and its reverse.",
        decimals=1,
    )


def sweep_figure(swept: pd.DataFrame, k: int) -> Drawing:
    """The knobs, a panel each.

    Args:
        swept: columns knob, level and those of `lib.assistant.sensitivity.recall_in`.
    """
    figure, axes = plt.subplots(1, len(SWEEPS), figsize=(9.5, 4), sharey=True)
    for axis, (knob, levels) in zip(axes, SWEEPS.items(), strict=True):
        for method in COMPARED:
            part = swept[(swept["knob"] == knob) & (swept["method"] == method)]
            axis.plot(part["level"], part[f"recall@{k}"], color=colour(method), marker=marker(method))
            axis.fill_between(part["level"], part["ci_low"], part["ci_high"], color=colour(method), alpha=0.12)
        axis.set_xlabel(KNOBS[knob], fontsize=9)
        axis.set(xticks=levels, xticklabels=[f"{level:.2g}" for level in levels], ylim=(0, 100))
    axes[0].set_ylabel(f"Recall@{k}, % (bands: 95% interval)")
    figure.legend(axes[0].lines, map(label, COMPARED), loc="upper center", ncol=3, bbox_to_anchor=(0.5, 0.0))
    each = "; ".join(
        f"{row.knob} {row.level:.2g}: {label(row.method)} {value:.0f}%"
        for row, value in zip(swept.itertuples(), swept[f"recall@{k}"], strict=True)
        if row.method in COMPARED
    )
    return Drawing(figure, "sensitivity", "Recall in small worlds, one knob at a time", f"Recall. {each}", swept)


def costs_table(two: TableTwo, costs: Mapping[str, Cost]) -> Table:
    """What ranking one query's context takes, by method."""
    table = cost_table({method: costs[method] for method in two.scored.methods})
    shown = table.assign(
        method=[two.names[method] for method in table["method"]],
        timed=[len(costs[method].times) for method in table["method"]],
        recall=[two.interval(method) for method in table["method"]],
    )
    columns = {
        "timed": "queries timed",
        "p50_ms": "median, ms",
        "p95_ms": "95th percentile, ms",
        "tokens_in": "tokens read",
        "tokens_out": "tokens written",
        "recall": f"Recall@{two.scored.k}, %",
    }
    return Table(
        shown.rename(columns=columns),
        f"Cost of ranking one query's context, on this machine. Chains of thought by {two.authors}.",
    )
