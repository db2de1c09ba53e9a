"""Small simulated worlds in which one knob differs: where does each way of retrieving context win?

Within a world everything is cross-fitted by persona, so that all its queries count and none is ranked by a model that
saw its persona.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from lib.assistant.needs import read_needs
from lib.assistant.personas import read_cast
from lib.assistant.signals import CATEGORICAL, signals
from lib.assistant.toolbox import Toolbox
from lib.assistant.world import frames, simulate_from
from lib.evaluation.comparison import per_query_scores
from lib.retrieval.fusion import fuse_runs, rank_per_store
from lib.retrieval.lambdamart import out_of_fold
from lib.retrieval.stores import bm25t_scores, candidate_pairs, cosine_of_pairs, rank_pairs, relevant_pairs_mask
from lib.workbook.parameters.worlds import WorldKnobs


def small_knobs(knobs: WorldKnobs, n_personas: int, **changes: float) -> WorldKnobs:
    """The same world with fewer personas, as many queries each, and some knobs changed."""
    share = n_personas / knobs.n_personas
    sizes = {
        "n_personas": n_personas,
        "n_training_queries": max(n_personas, round(knobs.n_training_queries * share)),
        "n_evaluation_queries": max(1, round(knobs.n_evaluation_queries * share)),
    }
    return WorldKnobs.model_validate({name: getattr(knobs, name) for name in WorldKnobs.model_fields} | sizes | changes)


def simulate_worlds(data: str | Path, worlds: Sequence[WorldKnobs]) -> list[dict[str, pd.DataFrame]]:
    """The frames of each world (see `lib.assistant.world.frames`); files in the folder `data` are read once."""
    data = Path(data)
    toolbox = Toolbox.from_yaml(data / "toolbox.yaml")
    needs, cast = read_needs(data / "needs", toolbox), read_cast(data)
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
    fused: Sequence[str],
    rrf_k: float,
    cutoffs: Sequence[int],
    folds: int,
    seed: int,
    threads: int = 1,
    bm25_b: float = 0.75,
) -> pd.DataFrame:
    """Scores of several methods on every query of a world, one row a query.

    Args:
        world: frames items, opens, queries, gold.
        vectors: unit-length embeddings of items and queries, in frame order.
        fused: the rankings that `lambdamart_rrf` fuses: some of whole, per_store, bm25t, semantic.
        rrf_k: the constant of rank fusion.
        cutoffs: values of K; the largest is what the ranker is trained for.
        folds: of cross-fitting by persona, for LambdaMART.
        seed: of the folds and the ranker.
        threads: of its training.

    Returns:
        as `lib.evaluation.comparison.per_query_scores`: bm25t, semantic, time_match (how often the item was opened at
        such a moment, without learning), lambdamart, lambdamart_rrf.
    """
    queries, items = world["queries"], world["items"]
    pairs = candidate_pairs(queries, items, "persona")
    qrels = world["gold"][["query", "relevant"]].explode("relevant").rename(columns={"relevant": "item"})
    text = {
        "bm25t": bm25t_scores(pairs, queries, items, ["persona"], b=bm25_b),
        "semantic": cosine_of_pairs(pairs, vectors["queries"], vectors["items"]),
    }
    features = signals(pairs, queries, items, world["opens"], text)
    scores = out_of_fold(
        pairs,
        features,
        relevant_pairs_mask(pairs, qrels),
        pairs["persona"].to_numpy(),
        CATEGORICAL,
        max(cutoffs),
        seed,
        threads=threads,
        folds=folds,
    )
    runs = {name: rank_pairs(pairs, values) for name, values in text.items()}
    runs["time_match"] = rank_pairs(pairs, features["moment_count"].to_numpy())
    runs["lambdamart"] = rank_pairs(pairs, scores)
    store = items.set_index("item")["app"]
    parts = runs | {
        "whole": runs["lambdamart"],
        "per_store": rank_per_store(runs["lambdamart"], runs["lambdamart"]["item"].map(store)),
    }
    runs["lambdamart_rrf"] = fuse_runs([parts[name] for name in fused], rrf_k)
    return per_query_scores(runs, qrels, queries["query"].tolist(), cutoffs)
