"""The page of notebook own_functions: somebody's own functions, searched for queries of their own."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping

import matplotlib.pyplot as plt
import pandas as pd

from lib.assistant.pages.tool_retrieval import Results, best_recall, pair_table, recall_cells
from lib.assistant.pages.tool_retrieval_figures import draw_ceiling, draw_line
from lib.assistant.tool_retrieval import ToolTask, best_rank
from lib.workbook.display import Drawing, Table, label_lines
from lib.workbook.methods import colour, label

EXAMPLE_QUERIES = "data/examples/queries.jsonl"
EXAMPLE_FUNCTIONS = "data/examples/functions.jsonl"
RUNS = {"query_only": "semantic", "query_only/bm25t": "bm25t", "query_only/rrf": "rrf", "query_only/random": "random"}
TESTS = [
    ("query_only", "query_only/random"),
    ("query_only/bm25t", "query_only"),
    ("query_only/rrf", "query_only"),
]
DRAWN = ("query_only/random", "query_only/bm25t", "query_only")
SHOWN_ROWS = 8


def retriever(run: str) -> str:
    """A run's retriever for readers: all search with the query alone."""
    return label(RUNS[run])


# ---------------------------------------------------------------- what was read


def functions_table(tools: pd.DataFrame) -> Table:
    """The first functions, each with the beginning of its text."""
    first = tools.head(SHOWN_ROWS)
    texts = [textwrap.shorten(text, 200, placeholder=" …") for text in first["text"]]
    caption = f"The first {len(first)} of {len(tools)} functions, and how the text that search sees begins."
    return Table(pd.DataFrame({"function": first["item"], "text": texts}), caption, text_columns=["text"])


def queries_table(task: ToolTask) -> Table:
    """The first queries and the functions that answer them."""
    first = task.evaluated.head(SHOWN_ROWS)
    caption = f"The first {len(first)} of {len(task.evaluated)} queries, and the functions that answer them."
    frame = {"query": first["text"], "functions": functions_needed(task, first["query"])}
    return Table(pd.DataFrame(frame), caption, text_columns=["query"])


def functions_needed(task: ToolTask, queries: pd.Series) -> list[str]:
    """The gold functions of each query; a dash where none fits."""
    needed = task.gold.groupby("query")["item"].agg(", ".join)
    return needed.reindex(queries).fillna("–").tolist()


# ---------------------------------------------------------------- how many are found


def recall_figure(results: Results) -> Drawing:
    """Recall against K: semantic search and BM25T, a random order dotted."""
    figure, axis = plt.subplots(figsize=(9, 5))
    ends = {}
    for run in DRAWN:
        part, style = results.value.loc[(run, "recall")], RUNS[run]
        draw_line(axis, part, style, strong=run != "query_only/random")
        ends[label(style)] = (part.index[-1], part["value"].iloc[-1], colour(style))
    semantic = results.value.loc[("query_only", "recall")]
    axis.fill_between(semantic.index, semantic["ci_low"], semantic["ci_high"], color=colour("semantic"), alpha=0.15)
    ends["best possible"] = draw_ceiling(axis, results)
    axis.set_ylabel("Recall@K of the right functions, %\n(band: 95% interval of semantic search)")
    label_lines(axis, ends, gap=4)
    alt = "Recall of the right functions against K, by search."
    data = results.summary[results.summary["method"].isin(DRAWN)].drop(columns=["kind", "sample"])
    return Drawing(figure, "own_functions", "Right functions found, by search", alt, data)


def recall_table(results: Results) -> Table:
    """A row a search, the random order last."""
    rows = [{"search": retriever(run), **recall_cells(results, run)} for run in RUNS]
    caption = f"Recall of the right functions, percent: {results.n} queries, {len(results.task.tools)} functions."
    return Table(pd.DataFrame(rows), caption, best=best_recall(results.cutoffs.shown))


def differences_table(results: Results, tests: pd.DataFrame) -> Table:
    """A row a paired test of `TESTS`."""
    caption = f"Paired differences of Recall@{results.k}, percentage points, n = {results.n}."
    return pair_table(tests, caption, retriever)


# ---------------------------------------------------------------- what is missed


def missed(results: Results, runs: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """The queries whose right function semantic search does not put among the first k, worst first.

    Returns:
        columns query (its text), needs, rank (of the first right function), bm25t (its rank there), first (what
        semantic search puts first).
    """
    task, semantic = results.task, runs["query_only"]
    ranks = best_rank(semantic, task.gold)
    ids = ranks[ranks > results.k].sort_values(ascending=False, kind="stable").index
    first = semantic[semantic["rank"] == 1].set_index("query")["item"]
    return pd.DataFrame(
        {
            "query": task.evaluated.set_index("query")["text"].reindex(ids).tolist(),
            "needs": functions_needed(task, ids),
            "rank": ranks[ids].tolist(),
            "bm25t": best_rank(runs["query_only/bm25t"], task.gold).reindex(ids).tolist(),
            "first": first.reindex(ids).tolist(),
        }
    )


def missed_table(misses: pd.DataFrame, k: int) -> Table:
    """The worst misses, at most eight."""
    columns = {
        "needs": "function it needs",
        "rank": "its rank",
        "bm25t": "its rank by BM25T",
        "first": "ranked first instead",
    }
    caption = f"Queries whose right function is not among the first {k} of semantic search: the worst of {len(misses)}."
    return Table(misses.head(SHOWN_ROWS).rename(columns=columns), caption, text_columns=["query"])
