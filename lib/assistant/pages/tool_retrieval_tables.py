"""The tables of notebook 06, in the order of its page."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from lib.assistant.pages.tool_retrieval import (
    FLOORS,
    MAIN,
    UNTOUCHED,
    Results,
    best_recall,
    difference_columns,
    named,
    recall_cells,
    settings_table,
)
from lib.assistant.schemas import APP_NAMES
from lib.assistant.tool_search import WordingTrial, option_name
from lib.evaluation.inference import Resampling, mean_interval
from lib.workbook.display import Table, interval
from lib.workbook.methods import label

RETRIEVERS = {
    "semantic": "semantic search",
    "bm25t": "BM25T",
    "rrf": "RRF of both",
    "random": "random order",
    "frequency": "commonest tools",
    "classifier": "classifier",
    "frequency_unseen": "commonest tools, needs unseen",
    "classifier_unseen": "classifier, needs unseen",
    "lambdamart": "LambdaMART",
    "lambdamart_unseen": "LambdaMART, needs unseen",
}


# ---------------------------------------------------------------- what is searched, and with which words


def toolbox(tools: pd.DataFrame) -> Table:
    """A row an app: how many tools it has, and the first one's text."""
    by_app = tools.groupby(tools["app"].map(APP_NAMES).fillna("–"), sort=False)
    frame = by_app.agg(tools=("item", "size"), example=("text", "first")).rename_axis("app").reset_index()
    caption = f"The {len(tools)} tools and the first text of each app, as search sees it."
    return Table(frame, caption, text_columns=["example"])


def context_found(found: pd.DataFrame, n_training: int) -> Table:
    """A row a ranking of context.

    Args:
        found: percent by method; a column a cutoff and `app`, how often the first item lies in the right tool's app.
        n_training: number of training queries.
    """

    def shown(column):
        return "first item in the right tool's app" if column == "app" else f"Recall@{column}"

    return Table(
        found.rename(index=label, columns=shown).rename_axis("ranking of context").reset_index(),
        f"Relevant context found for the {n_training:,} training queries, percent.",
        decimals=1,
        best=best_recall([at for at in found if at != "app"]),
    )


def wordings(trial: WordingTrial) -> Table:
    """A row a wording and number of items, and one for the query alone."""
    rows = trial.recall.loc[[*map(option_name, trial.words), "query_only"]]
    shown = rows.rename(columns=lambda at: at if at == "mean" else f"Recall@{at}")
    added = [part.fillna("").str.split().str.len().mean() for part in trial.words.values()]
    shown.insert(0, "wording", [*(wording for wording, _ in trial.words), "query alone"])
    shown.insert(1, "items", [*(str(n) for _, n in trial.words), "–"])
    shown.insert(2, "words added", [*added, 0.0])
    caption = (
        f"Recall of the right tools in percent on {len(trial.queries)} training queries, by how context is worded."
    )
    return Table(shown, caption, decimals=1, best={"mean": "max"})


# ---------------------------------------------------------------- how many are found


def recall(results: Results) -> Table:
    """A row a setting of semantic search."""
    caption = f"Recall of the right tools in percent with 95% intervals, n = {results.n}."
    return settings_table(results, [*MAIN, *FLOORS], caption)


def times_as_many(results: Results, ratios: Mapping[str, pd.DataFrame]) -> Table:
    """A row a kind of context: the ratio of recalls at the cutoffs shown."""
    rows = []
    for name, part in ratios.items():
        shown = part.set_index("k").loc[list(results.cutoffs.shown), ["ratio", "ci_low", "ci_high"]]
        cells = {f"K = {at}": interval(value, low, high, 2) for at, value, low, high in shown.itertuples()}
        rows.append({"gain over the query alone": label(name), **cells})
    caption = "How many times as many right tools are found, with 95% intervals; published: 1.5, without a K."
    return Table(pd.DataFrame(rows), caption)


def apps_found(results: Results) -> Table:
    """A row a setting: the share of a query's apps among those of the first K tools."""
    caption = f"Share of a query's apps (up to three) among those of the first K tools, percent; n = {results.n}."
    return settings_table(results, [*MAIN, *FLOORS, *UNTOUCHED], caption, "app_recall")


def app_differences(tests: pd.DataFrame) -> Table:
    """A row a cutoff (see `lib.evaluation.comparison.compare`, with a column k)."""
    caption = "App recall with retrieved context minus that of the query alone, percentage points."
    return Table(pd.DataFrame({"K": tests["k"], **difference_columns(tests)}), caption)


# ---------------------------------------------------------------- who gains, and through what


def groups(results: Results, parted: pd.DataFrame) -> Table:
    """A row a group of queries (see `lib.evaluation.comparison.compare_in_groups`)."""
    frame = {
        "queries": parted["group"],
        "n": parted["n"],
        "query alone": parted["b"],
        "with context": parted["a"],
        **difference_columns(parted),
    }
    caption = f"Recall@{results.k} in percent by kind of query and by app of the right tool, difference in points."
    return Table(pd.DataFrame(frame), caption, decimals=1)


def examples(results: Results, ranks: pd.DataFrame, picked: list[str], words: pd.Series) -> Table:
    """A row a query: how its tool's rank changed.

    Args:
        ranks: columns before, after, indexed by query.
        picked: ids of the queries.
        words: what is said of their retrieved context.
    """
    texts = results.task.evaluated.set_index("query")["text"]
    needed, served = (rows.groupby("query")["item"].agg(", ".join) for rows in (results.task.gold, results.task.right))
    frame = {
        "query": texts[picked].tolist(),
        "context in words": words.reindex(picked).tolist(),
        "tool it needs": needed.reindex(picked).fillna(served[picked]).tolist(),  # for `default()`, what does as well
        "rank alone": ranks.loc[picked, "before"].tolist(),
        "rank with context": ranks.loc[picked, "after"].tolist(),
    }
    caption = f"Drawn queries whose tool rose into the first {results.k}, or fell out of them."
    return Table(pd.DataFrame(frame), caption, text_columns=["query"])


# ---------------------------------------------------------------- other retrievers, the planner, the claims


def setting_of(run: str) -> str:
    return run.partition("/")[0]


def retriever_of(run: str) -> str:
    return RETRIEVERS[run.partition("/")[2] or "semantic"]


def retriever_name(run: str) -> str:
    """The retriever of a run and what it searched with."""
    return f"{retriever_of(run)}, {label(setting_of(run))}"


def retrievers(results: Results) -> Table:
    """A row a retriever and what it searched with, by setting."""
    methods = results.value.index.get_level_values("method").unique()
    rows = []
    for name in methods:
        setting, _, retriever = name.partition("/")
        if retriever or name in ("query_only", "query_plus_context", "oracle_context"):
            searched = {"retriever": retriever_of(name), "searched with": _searched_with(setting)}
            rows.append(searched | recall_cells(results, name))
    order = {_searched_with(name): place for place, name in enumerate(MAIN)}
    frame = pd.DataFrame(rows).sort_values(
        "searched with", key=lambda part: part.map(order), kind="stable", ignore_index=True
    )
    caption = f"Recall of the right tools in percent with 95% intervals, n = {results.n}."
    return Table(frame, caption, best=best_recall(results.cutoffs.shown))


def _searched_with(setting: str) -> str:
    return label(setting).removeprefix("query + ")


def shown_to_the_planner(whole: pd.DataFrame, resampling: Resampling, depth: int) -> Table:
    """A row a setting: how often all right tools are shown.

    Args:
        whole: from `lib.assistant.tool_retrieval.share_found_whole`.
        resampling: of its queries.
        depth: number of tools shown.
    """
    cells = [interval(*row) for row in zip(*mean_interval(whole.to_numpy(float), resampling), strict=True)]
    caption = f"Queries whose right tools are all among the first {depth}, of {len(whole)} that some tool fits."
    frame = pd.DataFrame({"shown to the planner": [named(name) for name in whole], "all tools shown, %": cells})
    return Table(frame, caption, best={"all tools shown, %": "max"})
