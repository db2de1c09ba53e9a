"""Notebook 06's part on tools that are learned to be found: its figure, tables and sentences."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from lib.assistant import training_seeds
from lib.assistant.controls import HALFWAY
from lib.assistant.needs import KINDS
from lib.assistant.pages.common import control_rows
from lib.assistant.pages.tool_retrieval import Results, best_recall, difference_columns, recall_cells
from lib.assistant.pages.tool_retrieval_figures import draw_ceiling, draw_line
from lib.assistant.pages.tool_retrieval_tables import retriever_name, retriever_of, setting_of
from lib.assistant.tool_ranker import weigh_controls
from lib.assistant.tool_retrieval import tool_scores
from lib.evaluation.comparison import compare, ratios, summarise
from lib.evaluation.inference import settled
from lib.workbook.display import Drawing, Table, interval, label_lines
from lib.workbook.methods import colour, label

if TYPE_CHECKING:
    from lib.assistant.shipped_tool_rankers import Again, ShippedRankers, Taken

ALONE, SEMANTIC, CONTEXT = "query_only", "query_plus_semantic_context", "query_plus_context"
SETTINGS = (ALONE, SEMANTIC, CONTEXT)
OURS = tuple(f"{setting}/lambdamart" for setting in SETTINGS)
OURS_UNSEEN = tuple(f"{setting}/lambdamart_unseen" for setting in SETTINGS)
OURS_ALONE, _, OURS_CONTEXT = OURS
CLASSIFIERS = ("query_only/classifier", "query_only/classifier_unseen")


# ---------------------------------------------------------------- how many are found


def panels_figure(results: Results, finding: str) -> Drawing:
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
    means = "; ".join(f"{retriever_name(method)}: {results.mean(method):.0f}%" for method in shown)
    alt = f"Recall of the right tools against K, the paper's search and our ranker. At K = {results.k}: {means}."
    return Drawing(figure, "tool_recall_learned", finding, alt, data.drop(columns=["kind", "sample"]))


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
    caption = (
        f"Recall of the right tools in percent with 95% intervals, n = {results.n}. Needs unseen: five folds of needs, "
        "each query ranked by what has learned from queries of other folds."
    )
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
    caption = (
        f"Paired differences of Recall@{results.k}, percentage points; p over personas and needs, Holm over "
        f"these {len(tests)}. n = {results.n}."
    )
    return Table(pd.DataFrame({"difference": pairs, **difference_columns(tests)}), caption)


# ---------------------------------------------------------------- controls


def names_of_rankers() -> dict[str, str]:
    """What each of `OURS` saw."""
    return {method: label(setting_of(method)) for method in OURS}


def over_seeds(results: Results, runs: Mapping[str, pd.DataFrame]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Recall@K of our ranker over its seeds, and what context adds to it (`lib.evaluation.over_seeds`).

    Args:
        runs: from `lib.assistant.tool_ranker.runs_of_other_seeds`.
    """
    again = tool_scores(runs, results.task, results.scores.index.tolist(), results.cutoffs.all)
    pairs = [(OURS_CONTEXT, OURS_ALONE), (OURS[1], OURS_ALONE), (OURS_CONTEXT, OURS[1])]
    return training_seeds.over_seeds(results.scores, again, results.resampling, results.k, OURS, pairs)


def weighed(results: Results, other: pd.DataFrame, dealt: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """The controls of `lib.assistant.tool_ranker.control_runs`, weighed (see `weigh_controls` there)."""
    alone = OURS_ALONE, results.scores[OURS_ALONE, "recall", results.k].to_numpy()
    return weigh_controls(results.task, other, dealt, alone, results.k, results.resampling)


def control_table(results: Results, controls: pd.DataFrame) -> Table:
    """A row a control (see `weighed`)."""
    caption = (
        f"The ranker with one link cut, percent, n = {results.n}; labels are permuted in {draws_of(controls)}. "
        "Halfway: the mean of those rankings and of the same with the last first, which find alike where no label came "
        "through. A control may find less than its reference, and not more by more than the margin."
    )
    return Table(rows_of_controls(controls, f"Recall@{results.k}"), caption, decimals=1)


def rows_of_controls(controls: pd.DataFrame, recall: str) -> pd.DataFrame:
    """`lib.assistant.pages.common.control_rows` of controls that are about all queries, references by their names."""
    shown = control_rows(controls.assign(queries="all"), recall).drop(columns="queries")
    shown["compared with"] = [name if name == HALFWAY else retriever_name(name) for name in controls["reference"]]
    return shown


def draws_of(controls: pd.DataFrame) -> str:
    """In how many draws labels are permuted."""
    draws = controls["draws"].max()
    return f"{draws} draw{'s' if draws > 1 else ''}"


def controls_hold(controls: pd.DataFrame) -> str:
    """Whether a ranker with one link cut finds more than what it must not exceed."""
    said = {
        True: "the control holds",
        False: "that it finds no more is not shown, and what the ranker gains cannot be put down to that link",
    }
    other, dealt = (
        f"{row.recall:.1f}%, {interval(row.difference, row.ci_low, row.ci_high)} points against {reference}: "
        f"{said[row.holds]}"
        for row, reference in zip(
            controls.itertuples(), ("no context", "halfway to the same rankings reversed"), strict=True
        )
    )
    return (
        f"With another query's context, in training and evaluation, the ranker finds {other}. With training labels "
        f"permuted within queries it finds {dealt}."
    )


# ---------------------------------------------------------------- sentences


def finding(results: Results, over: Mapping[str, pd.DataFrame]) -> str:
    """The figure's title: recall with and without context, by search and by the ranker."""
    first, second, *_ = over.values()
    by = {name: ratio_cells(part, [results.k])[f"K = {results.k}"] for name, part in (("all", first), ("own", second))}
    return (
        f"With retrieved context our ranker has {results.mean(OURS_CONTEXT):.0f}% of the right tools among the first "
        f"{results.k}: {by['all']} times as many as the paper's search by the query alone "
        f"({results.mean(ALONE):.0f}%), {by['own']} times as many as itself without context "
        f"({results.mean(OURS_ALONE):.0f}%)"
    )


def what_adds(results: Results, tests: pd.DataFrame) -> str:
    """What context and the ranker add, known needs and unseen ones (see `paired_tests`)."""
    by, firm = tests.set_index(["a", "b"]), settled(tests).to_numpy()

    def said(a: str, b: str) -> str:
        place = by.index.get_loc((a, b))
        row = tests.iloc[place]
        points = interval(row["difference"], row["ci_low"], row["ci_high"])
        return f"{points} points ({'settled' if firm[place] else 'not settled'})"

    return (
        f"The classifier of queries alone finds {results.interval(CLASSIFIERS[0])}% at K = {results.k}. The ranker "
        f"adds {said(OURS_ALONE, CLASSIFIERS[0])} to it by the query alone and "
        f"{said(OURS_CONTEXT, CLASSIFIERS[0])} with retrieved context; context itself adds "
        f"{said(OURS_CONTEXT, OURS_ALONE)}. On needs that none of the ranker's parts has learned from, context adds "
        f"{said(OURS_UNSEEN[2], OURS_UNSEEN[0])}. Its ranking by notebook 05 had met the needs; context by semantic "
        f"search, which has met none, adds {said(OURS_UNSEEN[1], OURS_UNSEEN[0])}."
    )


def where_rankers_are_from(taken: Iterable[Taken], again: Again | None, shipped: ShippedRankers) -> str:
    """Whether the rankers came with the project, and what training one of them here would change.

    Args:
        again: of the ranker with retrieved context.
    """
    taken = list(taken)
    if again is None or not all(one.shipped for one in taken):
        reason = shipped.reason or "Those that come with the project learned from other queries, items or tools."
        return f"The rankers were trained here. {reason}"
    return (
        f"The {len(taken)} rankers that learned from all training queries came with the project, trained on "
        f"{taken[0].device}: as notebook 05's, each processor would learn others, and show the planner other tools. "
        f"Trained here once more, the one with retrieved context finds {again.here:.1f}% instead of "
        f"{again.shipped:.1f}% (Recall@{again.k}, evaluation queries), and its first {again.shown} tools are others or "
        f"in another order for {again.others:.1f}% of them."
    )


def answer(results: Results) -> str:
    """The ranker's part of what the page found."""
    return (
        f"A LambdaMART over tools that learned from training plans finds **{results.interval(OURS_CONTEXT)}%** with "
        f"retrieved context and {results.interval(OURS_ALONE)}% without; on needs it has not learned from, "
        f"{results.interval(OURS_UNSEEN[2])}% and {results.interval(OURS_UNSEEN[0])}%."
    )
