"""Where retrieved context helps tool search and where it misleads, query by query: frames in, frames out.

Arrays over queries follow `ToolTask.evaluated`.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from lib.assistant.needs import KINDS
from lib.assistant.schemas import APP_NAMES
from lib.assistant.tool_retrieval import ToolTask, best_rank

CONTEXT = "query_plus_context"


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
