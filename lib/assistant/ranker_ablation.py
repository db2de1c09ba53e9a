"""What LambdaMART's ranking of context lives off: rankers that see less, that learn on one kind of query or on fewer
needs, and rankings without learning."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pandas as pd

if TYPE_CHECKING:
    from lib.assistant.ranking_task import RankingTask
    from lib.retrieval.lambdamart import LambdaMART

TEXT_ALONE = "text alone"
QUERY_UNSEEN = "items alone (query unseen)"
UNLEARNED = {
    "frequency × time match, not learned": "moment_count",
    "share of opens at such a moment, not learned": "moment_share",
}


def without_usage(task: RankingTask) -> pd.DataFrame:
    """The ranking of a LambdaMART without the features of the usage log, numerical and habitual."""
    return task.rank(task.learn(task.groups["categorical"] + task.groups["text"]))


def reduced_rankers(task: RankingTask) -> dict[str, pd.DataFrame]:
    """Rankings of rankers that see less, and of two that learn nothing: without each group of features
    (`without <group>`), `TEXT_ALONE`, `QUERY_UNSEEN` and `UNLEARNED`."""
    columns = {
        f"without {group}": [name for name in task.features.columns if name not in left_out]
        for group, left_out in task.groups.items()
    }
    columns |= {TEXT_ALONE: task.groups["text"], QUERY_UNSEEN: [*task.groups["numerical"], "app"]}
    learned = {name: task.rank(task.learn(seen)) for name, seen in columns.items()}
    return learned | {
        name: task.rank_by(task.features[column].fillna(0).to_numpy()) for name, column in UNLEARNED.items()
    }


def told_the_kind(task: RankingTask, kinds: Sequence[str], ranker: LambdaMART) -> dict[str, pd.DataFrame]:
    """{"told: <kind>": ranking by a LambdaMART that learned on the training queries of that kind alone}.

    `ranker`, which learned on all, stands in where one persona at most asks such queries.
    """
    kind_of_pair = task.pairs["query"].map(task.gold.set_index("query")["kind"].astype(str)).to_numpy()
    runs = {}
    for kind in kinds:
        rows = task.training & (kind_of_pair == kind)
        runs[f"told: {kind}"] = task.rank(task.learn(rows=rows) if len(set(task.persona[rows])) > 1 else ranker)
    return runs


def without_held_out_needs(task: RankingTask) -> dict[str, pd.DataFrame]:
    """The evaluation rankings (see `RankingTask.rankings`) of a LambdaMART that no training query told of the needs
    that are held out."""
    about = task.pairs["query"].map(task.gold.set_index("query")["need"]).isin(task.held_out_needs).to_numpy()
    return task.evaluation_rankings(task.learn(rows=task.training & ~about))
