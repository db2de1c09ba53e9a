"""Where retrieved context helps tool search and where it misleads, query by query: frames in, frames out.

Arrays over queries follow `ToolTask.evaluated`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from lib.assistant.needs import KINDS
from lib.assistant.schemas import APP_NAMES
from lib.assistant.tool_retrieval import ToolTask, app_run, apps_of_tools, best_rank, first_apps, names_its_app
from lib.assistant.toolbox import DEFAULT_API

CONTEXT = "query_plus_context"
ORACLE = "oracle_context"


def first_gold_app(task: ToolTask) -> np.ndarray:
    """The app of each query's first gold tool; missing where no tool fits."""
    apps = task.gold.merge(task.tools, on="item").drop_duplicates("query").set_index("query")["app"]
    return apps.reindex(task.evaluated["query"]).to_numpy()


def query_groups(task: ToolTask) -> dict[str, np.ndarray]:
    """Which queries can be resolved by what (their kind), and which have their first tool in which app."""
    kind, app_of = task.evaluated["kind"].to_numpy(), first_gold_app(task)
    return {f"resolved by {name}": kind == name for name in KINDS} | {
        f"tool in {shown}": app_of == app for app, shown in APP_NAMES.items()
    }


def _right_apps(task: ToolTask) -> pd.MultiIndex:
    return pd.MultiIndex.from_frame(apps_of_tools(task.right, task.tools)[["query", "app"]])


def names_right_app(task: ToolTask, setting: str = CONTEXT) -> np.ndarray:
    """Whether the first item of each query's context lies in the app of a right tool."""
    wanted = task.evaluated["query"]
    named = first_apps(task.contexts[setting]).reindex(wanted)
    return pd.MultiIndex.from_arrays([wanted, named]).isin(_right_apps(task))


def right_app_reachable(task: ToolTask) -> np.ndarray:
    """Whether some relevant item of each query lies in the app of a right tool."""
    oracle = task.contexts[ORACLE]
    fitting = oracle[pd.MultiIndex.from_frame(oracle[["query", "app"]]).isin(_right_apps(task))]
    return task.evaluated["query"].isin(fitting["query"]).to_numpy()


def first_item_cases(task: ToolTask) -> dict[str, np.ndarray]:
    """The queries that some tool fits, by what the first item of their retrieved context is."""
    first = task.contexts[CONTEXT].query("rank == 1")[["query", "item"]]
    relevant = pd.MultiIndex.from_frame(task.contexts[ORACLE][["query", "item"]])
    helpful = pd.Series(pd.MultiIndex.from_frame(first).isin(relevant), index=first["query"])
    helpful = helpful.reindex(task.evaluated["query"], fill_value=False).to_numpy()
    answerable, named = task.answerable, names_right_app(task)
    return {
        "in the right tool's app": answerable & named,
        "relevant, but in another app": answerable & ~named & helpful,
        "irrelevant, in another app": answerable & ~named & ~helpful,
    }


def gain_by_app(task: ToolTask, scores: pd.DataFrame, k: int) -> pd.DataFrame:
    """What the gain through retrieved context consists of, a row for each app of the right tools (its name as index).

    Args:
        scores: with the settings `right_app` and `query_only`.

    Returns:
        columns first_item (percent of queries whose first item lies in the app), if_named (points of Recall@k that the
        right app's name would give) and spelled (percent of the app's tools whose text has a word of its name).
    """
    app_of = first_gold_app(task)
    first = first_apps(task.contexts[CONTEXT]).reindex(task.evaluated["query"]).to_numpy()
    if_named = scores["right_app", "recall", k] - scores["query_only", "recall", k]
    spelled = pd.Series(100.0 * names_its_app(task.tools)).groupby(task.tools["app"].to_numpy())
    parts = {
        "first_item": pd.Series(100.0 * (first == app_of)).groupby(app_of).mean(),
        "if_named": if_named.groupby(app_of).mean(),
        "spelled": spelled.mean(),
    }
    return pd.DataFrame(parts).reindex([app for app in APP_NAMES if (app_of == app).any()]).rename(index=APP_NAMES)


def spelled_by_app(tools: pd.DataFrame) -> pd.Series:
    """Percent of each app's tools whose text has a word of its name, highest first, indexed by the app's name."""
    spelled = pd.Series(names_its_app(tools))
    return spelled.groupby(tools["app"].map(APP_NAMES)).mean().mul(100).sort_values(ascending=False)


def right_tool_names_its_app(task: ToolTask) -> np.ndarray:
    """Whether the text of one of each query's right tools has a word of its app's name."""
    spelled, right = task.tools["item"][names_its_app(task.tools)], task.right
    return task.evaluated["query"].isin(right.loc[right["item"].isin(spelled), "query"]).to_numpy()


def first_tools(task: ToolTask) -> pd.Series:
    """The first gold tool of every query, of either side; `default` where none fits."""
    first = task.gold.drop_duplicates("query").set_index("query")["item"]
    return task.queries["query"].map(first).fillna(DEFAULT_API)


def ranks_before_and_after(task: ToolTask, runs: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Columns before, after: the best rank of a right tool for the query alone and with retrieved context, indexed by
    query; only queries that some tool fits."""
    ranks = {
        name: best_rank(runs[setting], task.right) for name, setting in (("before", "query_only"), ("after", CONTEXT))
    }
    return pd.DataFrame(ranks).reindex(task.evaluated.loc[task.answerable, "query"])


def drawn_examples(ranks: pd.DataFrame, k: int, seed: int) -> list[str]:
    """Ids of the first three queries whose tool rose by five ranks or more into the first k, and of two whose tool fell
    out of them by as many, in an order drawn with the seed."""
    change = (ranks["before"] - ranks["after"]).sample(frac=1, random_state=seed)
    shuffled = ranks.loc[change.index]
    return [
        *change[(change >= 5) & (shuffled["after"] <= k)].index[:3],
        *change[(change <= -5) & (shuffled["before"] <= k)].index[:2],
    ]


def recall_by_named_apps(task: ToolTask, scores: pd.DataFrame, settings: Sequence[str], k: int) -> pd.DataFrame:
    """Mean Recall@k of each setting by the number of apps in which a query's relevant items lie; column n counts."""
    n_apps = task.contexts[ORACLE].groupby("query")["app"].nunique()
    n_apps = n_apps.reindex(task.evaluated["query"], fill_value=0).to_numpy()
    parts = scores.xs((k, "recall"), axis=1, level=("k", "metric"))[list(settings)].groupby(n_apps).mean()
    parts.insert(0, "n", pd.Series(n_apps).value_counts().reindex(parts.index))
    return parts


def apps_among_first(run: pd.DataFrame, tools: pd.DataFrame, k: int) -> float:
    """In how many apps the first k tools of a query lie, on average."""
    return app_run(run[run["rank"] <= k], tools).groupby("query").size().mean()
