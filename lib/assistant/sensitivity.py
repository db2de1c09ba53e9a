"""Small simulated worlds in which one knob differs: where does each way of retrieving context win?

Within a world everything is cross-fitted by persona, so that all its queries count and none is ranked by a model that
saw its persona.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from lib.assistant.needs import read_needs
from lib.assistant.personas import read_cast
from lib.assistant.ranking_task import Learning, RankingTask
from lib.assistant.rrf_readings import cross_fit, needed
from lib.assistant.schemas import WorldKnobs
from lib.assistant.toolbox import Toolbox
from lib.assistant.world import frames, simulate_from
from lib.evaluation.comparison import per_query_scores
from lib.evaluation.inference import Resampling, difference_interval, mean_interval
from lib.retrieval.fusion import Fusion

# The levels of each knob that is turned, one at a time.
SWEEPS = {"meaning_share": (0.0, 1 / 3, 2 / 3, 1.0), "habit_strength": (0.0, 0.4, 0.8, 1.0)}
COMPARED = ("semantic", "lambdamart", "lambdamart_rrf")
EDGE = "lambdamart_rrf − semantic"


def small_knobs(knobs: WorldKnobs, n_personas: int, **changes: float) -> WorldKnobs:
    """The same world with fewer personas, as many queries each, and some knobs changed."""
    share = n_personas / knobs.n_personas
    sizes = {
        "n_personas": n_personas,
        "n_training_queries": max(n_personas, round(knobs.n_training_queries * share)),
        "n_evaluation_queries": max(1, round(knobs.n_evaluation_queries * share)),
    }
    return replace(knobs, **sizes, **changes)


def swept_knobs(base: WorldKnobs, n_personas: int) -> dict[tuple[str, float], WorldKnobs]:
    """The knobs of a small world for each level of each of `SWEEPS`. Where the share of meaning queries changes, habit
    and either queries share the rest."""
    return {
        (knob, level): small_knobs(
            base, n_personas, **{knob: level}, **({"habit_share": (1 - level) / 2} if knob == "meaning_share" else {})
        )
        for knob, levels in SWEEPS.items()
        for level in levels
    }


def simulate_worlds(data: str | Path, worlds: Sequence[WorldKnobs]) -> list[dict[str, pd.DataFrame]]:
    """The frames of each world (see `lib.assistant.world.frames`); files in the folder `data` are read once."""
    data = Path(data)
    toolbox = Toolbox.from_yaml(data / "toolbox.yaml")
    needs, cast = read_needs(data / "needs"), read_cast(data)
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
    """Scores of `COMPARED` on every query of a world, one row a query.

    Args:
        world: frames items, opens, queries, gold.
        vectors: unit-length embeddings of items and queries, in frame order.
        fusion: what `lambdamart_rrf` fuses.
        learning: how LambdaMART is trained.
        bm25_b: BM25T's length normalisation.

    Returns:
        as `lib.evaluation.comparison.per_query_scores`.
    """
    task = RankingTask.of_world(world, vectors, learning, bm25_b)
    every_pair = np.ones(len(task.pairs), dtype=bool)
    rankings = task.rankings(task.cross_fit(every_pair), every_pair)
    rankings |= cross_fit(task, needed(fusion.rankings), every_pair)
    runs = {
        "semantic": rankings["semantic"],
        "lambdamart": rankings["whole"],
        "lambdamart_rrf": fusion.of(rankings),
    }
    return per_query_scores(runs, task.qrels, task.queries["query"].tolist(), learning.cutoffs)


def recall_in(world: Mapping[str, pd.DataFrame], scores: pd.DataFrame, k: int) -> pd.DataFrame:
    """Recall at K in a world, in percent, of `COMPARED` and of `EDGE`.

    Args:
        world: its frames.
        scores: from `cross_fitted_scores`.

    Returns:
        columns method, recall@K, ci_low, ci_high, n_topics, n.
    """
    recall = pd.DataFrame({method: scores[method, "recall", k] for method in COMPARED})
    needs = world["gold"].set_index("query").loc[recall.index, "need"]
    over = Resampling(needs.to_numpy())
    better, worse = EDGE.split(" − ")
    edge = difference_interval(recall[better].to_numpy(), recall[worse].to_numpy(), over)
    rows = [*zip(COMPARED, *mean_interval(recall.to_numpy(), over), strict=True), (EDGE, *edge)]
    table = pd.DataFrame(rows, columns=["method", f"recall@{k}", "ci_low", "ci_high"])
    return table.assign(n_topics=needs.nunique(), n=len(recall))
