"""Small simulated worlds in which one knob differs: where does each way of retrieving context win?

Within a world everything is cross-fitted by persona, so that all its queries count and none is ranked by a model that
saw its persona.

Three knobs give a signal that the default world lacks: recency, frequency and rivals among what is due. In their worlds
each signal is also read by itself, and LambdaMART learns without groups of signals, and with the due time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from lib.assistant.personas import read_cast
from lib.assistant.ranking_task import Learning, RankingTask
from lib.assistant.rrf_readings import cross_fit, needed
from lib.assistant.signals import DUE, DUE_WITHIN, hours_until_due, opens_before
from lib.assistant.toolbox import Toolbox
from lib.assistant.world import frames, read_all_needs, simulate_from
from lib.evaluation.comparison import per_query_scores
from lib.retrieval.fusion import Fusion
from lib.retrieval.stores import rank_pairs
from lib.workbook.parameters.worlds import WorldKnobs

# Read without learning: what was opened last, what most often, and what is due soonest, the rest last.
UNLEARNED = ("recency", "most_opened", "due_soon")
# Groups of features that a LambdaMART does without. Habitual features are sums and shares of opens, so that they know
# part of the frequency: what numerical ones add is seen without habits, too.
LEFT_OUT = {
    "lambdamart_without_numerical": ("numerical",),
    "lambdamart_without_habitual": ("habitual",),
    "lambdamart_no_usage": ("numerical", "habitual"),
}


def simulate_worlds(data: str | Path, worlds: Sequence[WorldKnobs]) -> list[dict[str, pd.DataFrame]]:
    """The frames of each world (see `lib.assistant.world.frames`); files in the folder `data` are read once."""
    data = Path(data)
    toolbox = Toolbox.from_yaml(data / "toolbox.yaml")
    needs, cast = read_all_needs(data, toolbox), read_cast(data)
    return [frames(simulate_from(needs, cast, toolbox, knobs)) for knobs in worlds]


def embed_worlds(
    worlds: Sequence[Mapping[str, pd.DataFrame]], encode: Callable[[list[str]], np.ndarray]
) -> list[dict[str, np.ndarray]]:
    """Embeddings of each world's items and queries, in frame order; a text that occurs in several is encoded once."""
    texts = [text for world in worlds for name in ("items", "queries") for text in world[name]["text"]]
    unique = sorted(set(texts))
    vectors = encode(unique)
    row = {text: number for number, text in enumerate(unique)}
    return [
        {name: vectors[[row[text] for text in world[name]["text"]]] for name in ("items", "queries")}
        for world in worlds
    ]


def cross_fitted_scores(
    world: Mapping[str, pd.DataFrame],
    vectors: Mapping[str, np.ndarray],
    fusion: Fusion,
    learning: Learning,
    bm25_b: float = 0.75,
    signals: bool = False,
) -> pd.DataFrame:
    """Scores of several methods on every query of a world, one row a query.

    Args:
        world: frames items, opens, queries, gold.
        vectors: unit-length embeddings of items and queries, in frame order.
        fusion: what `lambdamart_rrf` fuses.
        learning: how LambdaMART is trained.
        bm25_b: BM25T's length normalisation.
        signals: score those of `signal_runs`, too: four cross-fits more.

    Returns:
        as `lib.evaluation.comparison.per_query_scores`: bm25t, semantic, time_match (how often the item was opened at
        such a moment, without learning), lambdamart, lambdamart_rrf.
    """
    task = RankingTask.of_world(world, vectors, learning, bm25_b)
    every_pair = np.ones(len(task.pairs), dtype=bool)
    rankings = task.rankings(task.cross_fit(every_pair), every_pair)
    rankings |= cross_fit(task, needed(fusion.rankings), every_pair)
    runs = {
        "bm25t": rankings["bm25t"],
        "semantic": rankings["semantic"],
        "time_match": rank_pairs(task.pairs, task.features["moment_count"].to_numpy()),
        "lambdamart": rankings["whole"],
        "lambdamart_rrf": fusion.of(rankings),
    } | (signal_runs(task) if signals else {})
    return per_query_scores(runs, task.qrels, task.queries["query"].tolist(), learning.cutoffs)


def signal_runs(task: RankingTask) -> dict[str, pd.DataFrame]:
    """Rankings of all queries that show what single signals are worth: `UNLEARNED`, and cross-fitted those of
    `LEFT_OUT` and lambdamart_due, which also sees the due time."""
    every_pair = np.ones(len(task.pairs), dtype=bool)
    due = hours_until_due(task.pairs, task.queries, task.items)
    count, last = opens_before(task.pairs, task.queries, task.items, task.opens)
    unlearned = zip(UNLEARNED, (last, count.astype(float), -np.nan_to_num(due, nan=DUE_WITHIN + 1.0)), strict=True)
    informed = replace(task, features=task.features.assign(**{DUE: due}))
    learned = {name: task.cross_fit(every_pair, task.columns_without(*groups)) for name, groups in LEFT_OUT.items()}
    scores = dict(unlearned) | learned | {"lambdamart_due": informed.cross_fit(every_pair)}
    return {name: rank_pairs(task.pairs, values) for name, values in scores.items()}
