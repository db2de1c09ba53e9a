"""What notebook 06's page and that of own functions are about, and the pieces that several of their tables share."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pandas as pd

from lib.assistant.tool_retrieval import ToolTask
from lib.evaluation.comparison import summarise
from lib.evaluation.inference import Resampling, settled
from lib.workbook.display import Drawing, Table, interval, p_text
from lib.workbook.forest import forest_of_tests
from lib.workbook.methods import label

MAIN = ("query_only", "query_plus_semantic_context", "query_plus_context", "oracle_context")
FLOORS = ("query_plus_random_context", "query_plus_other_context")
UNTOUCHED = ("query_only/random", "query_only/frequency", "query_only/classifier")  # no tool's text is read
PUBLISHED_RATIO = 1.5  # of recalls with and without context; the abstract names no K


class Cutoffs(NamedTuple):
    """Numbers of tools at which recall is measured: all of them, those in tables, and the one that stands for all."""

    all: list[int]
    shown: list[int]
    k: int


def cutoffs_of(n_tools: int) -> Cutoffs:
    """1 to 10, or to the number of tools where there are fewer; the last but one shown stands for all."""
    shown = [at for at in (1, 3, 5, 10) if at <= n_tools]
    return Cutoffs(list(range(1, min(10, n_tools) + 1)), shown, shown[-2] if len(shown) > 1 else shown[-1])


@dataclass(frozen=True)
class Results:
    """Tool retrieval, scored.

    Attributes:
        task: what was asked.
        scores: percent, one row an evaluated query (see `lib.assistant.tool_search.scores_beside_chance`).
        cutoffs: of the scores.
        resampling: of the evaluated queries.
    """

    task: ToolTask
    scores: pd.DataFrame
    cutoffs: Cutoffs
    resampling: Resampling

    @property
    def k(self) -> int:
        return self.cutoffs.k

    @property
    def n(self) -> int:
        return len(self.scores)

    @cached_property
    def summary(self) -> pd.DataFrame:
        """Mean and 95% interval of every column of the scores (see `lib.evaluation.comparison.summarise`)."""
        return summarise(self.scores, {("all", "all"): np.ones(self.n, dtype=bool)}, self.resampling)

    @cached_property
    def value(self) -> pd.DataFrame:
        """The summary by method, metric and K."""
        return self.summary.set_index(["method", "metric", "k"]).sort_index()

    def interval(self, method: str, at: int | None = None, metric: str = "recall") -> str:
        return interval(*self.value.loc[(method, metric, at or self.k), ["value", "ci_low", "ci_high"]])

    def mean(self, method: str, at: int | None = None, metric: str = "recall") -> float:
        return self.value.loc[(method, metric, at or self.k), "value"]


def named(method: str) -> str:
    """A run's name for readers: its retriever's where another than semantic search ranks, else its setting's."""
    return label(method.partition("/")[2] or method)


def style_of(method: str) -> str:
    """The method whose colour and marker a run is drawn with."""
    return method.partition("/")[2] or method


def best_recall(cutoffs: Sequence[int]) -> dict[str, str]:
    """What `show_table` takes to mark the highest recall at each cutoff."""
    return {f"Recall@{at}": "max" for at in cutoffs}


def recall_cells(results: Results, method: str, metric: str = "recall") -> dict[str, str]:
    """A table's cells of one run: its recall with interval at each cutoff shown."""
    return {f"Recall@{at}": results.interval(method, at, metric) for at in results.cutoffs.shown}


def settings_table(results: Results, settings: Sequence[str], caption: str, metric: str = "recall") -> Table:
    """A row a setting: its recall at the cutoffs shown, with 95% intervals."""
    rows = [{"searched with": named(name), **recall_cells(results, name, metric)} for name in settings]
    return Table(pd.DataFrame(rows), caption, best=best_recall(results.cutoffs.shown))


def difference_columns(tests: pd.DataFrame) -> dict[str, Sequence[str]]:
    """Columns of paired tests for readers: the difference with its interval, and p."""
    points = [interval(*row) for row in tests[["difference", "ci_low", "ci_high"]].to_numpy()]
    return {"points": points, "p": [p_text(p) for p in tests["p_value"]]}


def pair_table(tests: pd.DataFrame, caption: str, name: Callable[[str], str] = named) -> Table:
    """A row a paired test (see `lib.evaluation.comparison.compare`).

    Args:
        name: a run's name for readers.
    """
    return Table(pd.DataFrame({"difference": _pairs(tests, name), **difference_columns(tests)}), caption)


def _pairs(tests: pd.DataFrame, name: Callable[[str], str]) -> list[str]:
    return [f"{name(row.a)} − {name(row.b)}" for row in tests.itertuples()]


def pair_figure(tests: pd.DataFrame, results: Results, figure: str, name: Callable[[str], str] = named) -> Drawing:
    """A line a paired test in Recall at `results.k` (see `lib.evaluation.comparison.compare`).

    Args:
        figure: its file name.
        name: a run's name for readers.
    """
    unit = f"points of Recall@{results.k}, 95% intervals, n = {results.n}"
    return forest_of_tests(tests.assign(settled=settled(tests)), _pairs(tests, name), figure, unit)


def published_columns(results: Results) -> pd.DataFrame:
    """The summary as `tables/tool_retrieval.csv` has it: setting, retriever, target, k, recall, ci_low, ci_high,
    n_topics, n."""
    summary = results.summary
    table = summary.assign(
        setting=summary["method"].str.split("/").str[0],
        retriever=summary["method"].str.partition("/")[2].replace("", "semantic"),
        target=summary["metric"].map({"recall": "api", "app_recall": "app"}),
        recall=summary["value"],
    )
    return table[["setting", "retriever", "target", "k", "recall", "ci_low", "ci_high", "n_topics", "n"]]


def scores_in_rows(results: Results, settings: Collection[str]) -> pd.DataFrame:
    """Scores of some runs, a row a score.

    Returns:
        columns query, persona, need, kind, method (the setting), metric, k, value.
    """
    kept = results.scores[[name for name in results.scores.columns if name[0] in settings]]
    long = kept.melt(ignore_index=False).reset_index()
    about = ["query", "persona", "need", "kind"]
    return results.task.evaluated[about].merge(long, on="query")[[*about, "method", "metric", "k", "value"]]
