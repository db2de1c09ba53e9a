"""Small simulated worlds in which one knob differs: where does each way of retrieving context win?

Within a world everything is cross-fitted by persona, so that all its queries count and none is ranked by a model that
saw its persona.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from lib.assistant.personas import read_cast
from lib.assistant.ranking_task import Learning, RankingTask
from lib.assistant.rrf_readings import cross_fit, needed
from lib.assistant.toolbox import Toolbox
from lib.assistant.world import frames, read_all_needs, simulate_from
from lib.evaluation.comparison import per_query_scores
from lib.retrieval.fusion import Fusion
from lib.retrieval.stores import rank_pairs
from lib.workbook.parameters.worlds import WorldKnobs


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
) -> pd.DataFrame:
    """Scores of several methods on every query of a world, one row a query.

    Args:
        world: frames items, opens, queries, gold.
        vectors: unit-length embeddings of items and queries, in frame order.
        fusion: what `lambdamart_rrf` fuses.
        learning: how LambdaMART is trained.
        bm25_b: BM25T's length normalisation.

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
    }
    return per_query_scores(runs, task.qrels, task.queries["query"].tolist(), learning.cutoffs)
