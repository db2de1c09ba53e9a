"""Notebook 06's part on tools that are learned to be found: its figure and tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from lib.assistant.controls import HALFWAY
from lib.assistant.needs import KINDS
from lib.assistant.pages.common import control_rows
from lib.assistant.pages.tool_retrieval import Results, best_recall, difference_columns, recall_cells
from lib.assistant.pages.tool_retrieval_figures import draw_ceiling, draw_line
from lib.assistant.pages.tool_retrieval_tables import retriever_name, retriever_of, setting_of
from lib.assistant.tool_ranker import weigh_controls
from lib.evaluation.comparison import compare, ratios, summarise
from lib.workbook.display import Drawing, Table, interval, label_lines
from lib.workbook.methods import colour, label

if TYPE_CHECKING:
    pass

ALONE, SEMANTIC, CONTEXT = "query_only", "query_plus_semantic_context", "query_plus_context"
SETTINGS = (ALONE, SEMANTIC, CONTEXT)
OURS = tuple(f"{setting}/lambdamart" for setting in SETTINGS)
OURS_UNSEEN = tuple(f"{setting}/lambdamart_unseen" for setting in SETTINGS)
OURS_ALONE, _, OURS_CONTEXT = OURS
CLASSIFIERS = ("query_only/classifier", "query_only/classifier_unseen")


# ---------------------------------------------------------------- how many are found


def panels_figure(results: Results) -> Drawing:
    """Recall against K by the paper's search and by our ranker, with and without retrieved context; needs that were
    not learned from are dotted."""
    figure, axes = plt.subplots(1, 2, figsize=(12, 4.8), sharey=True)
    drawn = {
        "search, as in the paper": [ALONE, CONTEXT],
        "our ranker": [OURS_ALONE, OURS_CONTEXT, f"{ALONE}/lambdamart_unseen", f"{CONTEXT}/lambdamart_unseen"],
    }
    for axis, (title, methods) in zip(axes, drawn.items(), strict=True):
        ends: dict[str, tuple[float, float, str]] = {}
        for method in methods:
            part, setting, unseen = results.value.loc[(method, "recall")], setting_of(method), "unseen" in method
            draw_line(axis, part, setting, strong=not unseen)
            if not unseen:
                axis.fill_between(part.index, part["ci_low"], part["ci_high"], color=colour(setting), alpha=0.15)
            name = label(setting) + (", needs unseen" if unseen else "")
            ends[name] = (results.cutoffs.all[-1], part["value"].iloc[-1], colour(setting))
        ends["best possible"] = draw_ceiling(axis, results)
        axis.set_title(title, fontsize=11)
        label_lines(axis, ends, gap=5)
    axes[0].set_ylabel("Recall@K of the right tools, %\n(bands: 95% interval)")
    figure.subplots_adjust(wspace=0.6)
    shown = [method for methods in drawn.values() for method in methods]
    data = results.summary[(results.summary["metric"] == "recall") & results.summary["method"].isin(shown)]
    alt = "Recall of the right tools against K, the paper's search beside our ranker."
    title = "Right tools found by search and by our ranker"
    return Drawing(figure, "tool_recall_learned", title, alt, data.drop(columns=["kind", "sample"]))


def times_as_many(results: Results) -> dict[str, pd.DataFrame]:
    """Ratios of recalls (see `lib.evaluation.comparison.ratios`), by what is over what."""
    over = {
        "our ranker with context : the paper's search by the query alone": (OURS_CONTEXT, ALONE),
        "our ranker with context : our ranker by the query alone": (OURS_CONTEXT, OURS_ALONE),
        "our ranker with context : the paper's search with context": (OURS_CONTEXT, CONTEXT),
        "the same, needs unseen : our ranker by the query alone, needs unseen": (OURS_UNSEEN[2], OURS_UNSEEN[0]),
    }
    return {
        name: ratios(results.scores, a, b, "recall", results.cutoffs.all, results.resampling)
        for name, (a, b) in over.items()
    }


def ratio_cells(part: pd.DataFrame, cutoffs: Sequence[int]) -> dict[str, str]:
    shown = part.set_index("k").loc[list(cutoffs), ["ratio", "ci_low", "ci_high"]]
    return {f"K = {at}": interval(value, low, high, 2) for at, value, low, high in shown.itertuples()}


def ratio_table(results: Results, over: Mapping[str, pd.DataFrame]) -> Table:
    """A row a ratio (see `times_as_many`)."""
    rows = [{"recall of : recall of": name, **ratio_cells(part, results.cutoffs.shown)} for name, part in over.items()]
    caption = f"How many times as many right tools are found, with 95% intervals. n = {results.n}."
    return Table(pd.DataFrame(rows), caption)


def recall_table(results: Results) -> Table:
    """A row a search or ranker and what it saw."""
    methods = [ALONE, CONTEXT, *CLASSIFIERS[:1], *OURS, *CLASSIFIERS[1:], *OURS_UNSEEN]
    rows = [
        {"ranked by": retriever_of(method), "with": label(setting_of(method)), **recall_cells(results, method)}
        for method in methods
    ]
    caption = f"Recall of the right tools in percent with 95% intervals, n = {results.n}; needs unseen: by five folds."
    return Table(pd.DataFrame(rows), caption, best=best_recall(results.cutoffs.shown))


def kind_table(results: Results) -> Table:
    """A row a kind of query: Recall@K of search and ranker, with and without context."""
    methods = [ALONE, CONTEXT, OURS_ALONE, OURS_CONTEXT, OURS_UNSEEN[0], OURS_UNSEEN[2]]
    kinds = results.task.evaluated["kind"].to_numpy()
    groups: dict[tuple[str, str], np.ndarray] = {(kind, "all"): kinds == kind for kind in KINDS}
    scores = results.scores[[(method, "recall", results.k) for method in methods]]
    found = summarise(scores, groups, results.resampling).set_index(["kind", "method"])
    rows = []
    for kind in found.index.get_level_values("kind").unique():
        part = found.loc[kind]
        cells = {retriever_name(name): interval(*part.loc[name, ["value", "ci_low", "ci_high"]]) for name in methods}
        rows.append({"resolved by": kind, "n": part["n"].iloc[0], **cells})
    caption = f"Recall@{results.k} of the right tools in percent with 95% intervals, by what can resolve the query."
    return Table(pd.DataFrame(rows), caption)


def paired_tests(results: Results) -> pd.DataFrame:
    """What context adds to the ranker, and the ranker to the classifier and to the paper's search."""
    pairs = [
        (OURS_CONTEXT, OURS_ALONE),
        (OURS_CONTEXT, CONTEXT),
        (OURS_CONTEXT, CLASSIFIERS[0]),
        (OURS_ALONE, CLASSIFIERS[0]),
        (OURS_UNSEEN[2], OURS_UNSEEN[0]),
        (OURS_UNSEEN[1], OURS_UNSEEN[0]),
        (OURS_UNSEEN[2], CLASSIFIERS[1]),
    ]
    return compare(results.scores, pairs, "recall", results.k, results.resampling)


def paired_table(results: Results, tests: pd.DataFrame) -> Table:
    """A row a paired test (see `paired_tests`)."""
    pairs = [f"{retriever_name(row.a)} − {retriever_name(row.b)}" for row in tests.itertuples()]
    caption = f"Paired differences of Recall@{results.k}, percentage points, n = {results.n}."
    return Table(pd.DataFrame({"difference": pairs, **difference_columns(tests)}), caption)


# ---------------------------------------------------------------- controls


def weighed(results: Results, other: pd.DataFrame, dealt: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """The controls of `lib.assistant.tool_ranker.control_runs`, weighed (see `weigh_controls` there)."""
    alone = OURS_ALONE, results.scores[OURS_ALONE, "recall", results.k].to_numpy()
    return weigh_controls(results.task, other, dealt, alone, results.k, results.resampling)


def control_table(results: Results, controls: pd.DataFrame) -> Table:
    """A row a control (see `weighed`)."""
    caption = f"The ranker with one link cut, Recall@{results.k} in percent, n = {results.n}."
    return Table(rows_of_controls(controls, f"Recall@{results.k}"), caption, decimals=1)


def rows_of_controls(controls: pd.DataFrame, recall: str) -> pd.DataFrame:
    """`lib.assistant.pages.common.control_rows` of controls that are about all queries, references by their names."""
    shown = control_rows(controls.assign(queries="all"), recall).drop(columns="queries")
    shown["compared with"] = [name if name == HALFWAY else retriever_name(name) for name in controls["reference"]]
    return shown
