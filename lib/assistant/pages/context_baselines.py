"""What notebook 02_context_baselines shows of its own rankings; see `context_forensics` for the published table."""

from __future__ import annotations

import matplotlib.pyplot as plt
import pandas as pd

from lib.assistant.pages.common import (
    Scored,
    dots_by_kind,
    intervals,
    kind_cases,
    recall_lines,
    shown_tests,
    values_by_kind,
)
from lib.workbook.display import Drawing, Table, legend_below
from lib.workbook.methods import label

TEXT_METHODS = ("bm25t", "semantic")
DRAWN = ("random", "recency", *TEXT_METHODS)
FAMILY = (
    ("semantic", "bm25t"),
    ("semantic", "random"),
    ("semantic", "recency"),
    ("bm25t", "random"),
    ("bm25t", "recency"),
    ("recency", "random"),
    ("bm25t", "bm25t_per_store"),
)


def with_expected_random(table: pd.DataFrame, floor: pd.DataFrame) -> pd.DataFrame:
    """Scores whose one shuffle is replaced by what a random order scores on average; columns in their order.

    Args:
        table: from `per_query_scores`, with a method `random`.
        floor: from `random_order_scores`, rows in the same order.
    """
    methods = table.columns.get_level_values("method").unique().tolist()
    return table.drop(columns="random", level="method").join(floor.set_index(table.index))[methods]


def over_all_queries(retrieval: pd.DataFrame) -> pd.DataFrame:
    """The rows about all queries."""
    return retrieval[(retrieval["kind"] == "all") & (retrieval["sample"] == "all")]


def recall_by_kind(retrieval: pd.DataFrame, k: int) -> pd.DataFrame:
    """The rows about one kind of query each: Recall at k."""
    chosen = (retrieval["sample"] == "all") & (retrieval["kind"] != "all")
    return retrieval[chosen & (retrieval["metric"] == "recall") & (retrieval["k"] == k)]


def recall_drawing(retrieval: pd.DataFrame, k: int) -> Drawing:
    """Recall against K of the floors and the two methods."""
    rows = over_all_queries(retrieval)
    rows = rows[rows["metric"] == "recall"]
    figure, axis = plt.subplots(figsize=(8, 4.2))
    recall_lines(axis, rows, DRAWN, gap=4.5)
    percent = rows.set_index(["method", "k"])["value"].map("{:.0f}%".format)
    each = "; ".join(
        f"{label(method)}: " + ", ".join(f"{value} at {at}" for at, value in percent[method].items())
        for method in DRAWN
    )
    alt = f"Recall against K with 95% intervals. {each}. Dotted: the published rows."
    data = over_all_queries(retrieval)
    data = data[data["metric"] == "recall"].drop(columns="metric").set_index(["method", "k"]).reset_index()
    return Drawing(figure, "recall_baselines", "Recall against K, dotted: published", alt, data)


def kinds_drawing(rows: pd.DataFrame, scored: Scored) -> Drawing:
    """Recall by kind of query of the floors and the two methods.

    Args:
        rows: from `recall_by_kind`.
    """
    cells, k = rows.set_index(["method", "kind"]), scored.k
    figure, axis = plt.subplots(figsize=(8, 3.8))
    dots_by_kind(axis, cells, DRAWN, scored.counts, k)
    legend_below(axis, columns=len(DRAWN))
    alt = f"Recall at {k} by kind of query with 95% intervals. {values_by_kind(cells, DRAWN, scored.counts)}"
    return Drawing(figure, "recall_by_kind", "Recall by kind of query", alt, rows)


def kinds_table(rows: pd.DataFrame, scored: Scored) -> Table:
    """Recall by kind of query of all methods.

    Args:
        rows: from `recall_by_kind`.
    """
    methods = scored.table.columns.get_level_values("method").unique()
    shown = rows.assign(recall=intervals(rows)).pivot(index="method", columns="kind", values="recall")
    return Table(
        shown.loc[methods, list(scored.counts)].rename(index=label).rename_axis("method").reset_index(),
        f"Recall@{scored.k} in percent by kind of query, 95% intervals.",
        best=dict.fromkeys(scored.counts, "max"),
        cases=kind_cases(methods, scored.counts, scored.k),
    )


def tests_table(tests: pd.DataFrame, k: int, n: int) -> Table:
    """The paired comparisons of `FAMILY`."""
    shown = shown_tests(tests, difference="difference, points")[["comparison", "difference, points", "p"]]
    return Table(shown, f"Differences in Recall@{k}, paired by query; n = {n}.")
