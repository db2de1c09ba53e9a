"""LambdaMART: gradient-boosted trees on the gradient of NDCG (Burges, 2010, "From RankNet to LambdaRank to LambdaMART:
An Overview").

One model ranks the candidates of every query over all stores at once: one group a query. LightGBM's gradient depends on
the order of a group's rows where scores tie, as they all do before the first tree, so rows are put in an order that
follows from their ids alone; neither the given order nor the labels can show in a prediction.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast
from urllib.parse import quote, unquote

import lightgbm as lgb
import numpy as np
import pandas as pd

from lib.retrieval.stores import seeded_order, tie_breakers

HELD_OUT_EVERY = 7  # one training collection in seven is for early stopping
MAX_TREES = 600
LEAVES = 15
PATIENCE = 40  # trees without a better held-out NDCG before training stops
MOST_ITEMS = 10_000  # that LightGBM ranks for a query
# Small trees with a random part of the features each: a few thousand queries with two relevant items are little data.
TREES = {
    "learning_rate": 0.05,
    "min_data_in_leaf": 100,
    "feature_fraction": 0.5,
    "lambda_l2": 5.0,
    "cat_smooth": 50.0,
}


@dataclass(frozen=True)
class LambdaMART:
    """A trained ranker; `threads` are used in prediction."""

    booster: lgb.Booster
    threads: int = 1

    @cached_property
    def columns(self) -> list[str]:
        """The features it was trained on."""
        return [unquote(name) for name in self.booster.feature_name()]

    def predict(self, features: pd.DataFrame | np.ndarray) -> np.ndarray:
        """One score a row; only differences within a query mean anything.

        Args:
            features: those it was trained on, among others; an array has the `columns` alone, in their order.

        Raises:
            KeyError: a feature the model was trained on is missing.
        """
        if isinstance(features, pd.DataFrame):
            place = {str(name): number for number, name in enumerate(features.columns)}
            features = features.to_numpy(dtype=float)[:, [place[name] for name in self.columns]]
        return cast(np.ndarray, self.booster.predict(features, num_threads=self.threads))

    @property
    def text(self) -> str:
        """The model as LightGBM text."""
        return self.booster.model_to_string()

    @classmethod
    def from_text(cls, text: str, threads: int = 1) -> LambdaMART:
        """A model from its `text`."""
        return cls(lgb.Booster(model_str=text), threads)


def train(
    pairs: pd.DataFrame,
    features: pd.DataFrame,
    relevant: np.ndarray,
    collections: Sequence[str] | np.ndarray,
    categorical: Sequence[str],
    cutoff: int,
    seed: int,
    threads: int,
    rising: Sequence[str] = (),
) -> LambdaMART:
    """Train on some collections and stop early on others: no query of a held-out one has a sibling in training.

    Args:
        pairs: columns query, item: the candidates (see `lib.retrieval.stores.candidate_pairs`), in any order.
        features: one row a pair, in the same order; NaN is missing.
        relevant, collections: one a pair, true or false, and whose items are searched (the persona).
        categorical: columns of `features` that hold category codes, integers from 0.
        cutoff: the largest K of interest.
        seed, threads: the same of both, the same model.
        rising: columns of `features` that may raise a score as they grow, and never lower it.

    Raises:
        ValueError: lengths differ, labels are others, there are fewer than two collections, a query has more than
            `MOST_ITEMS` items, columns share a name or have none, one named is not there, or a category is to rise.
    """
    relevant, collections = np.asarray(relevant), np.asarray(collections, dtype=object)
    if not len(pairs) == len(features) == len(relevant) == len(collections):
        raise ValueError("pairs, features, relevant and collections need the same length")
    if not np.isin(relevant, (0, 1)).all():
        raise ValueError(f"relevant must be true or false, 1 or 0, not {relevant[~np.isin(relevant, (0, 1))][0]!r}")
    sizes = pairs["query"].value_counts()
    if sizes.max() > MOST_ITEMS:
        raise ValueError(f"{sizes.index[0]} has {sizes.max()} items: LambdaMART ranks at most {MOST_ITEMS} for a query")
    columns = {str(name) for name in features}
    if len(columns) < features.shape[1] or "" in columns:
        raise ValueError("each column of features needs a name of its own")
    if lacking := {*rising, *categorical} - set(features):
        raise ValueError(f"features have no column {min(lacking, key=str)}")
    if both := set(rising) & set(categorical):  # LightGBM would end the process
        raise ValueError(f"{min(both)} is categorical: it cannot rise")
    held_out = pd.Index(collections).isin(seeded_order(collections, seed)[::HELD_OUT_EVERY])
    if held_out.all():
        raise ValueError("training needs at least two collections: one of them to stop early on")
    parameters = TREES | {
        "num_leaves": LEAVES,
        "objective": "lambdarank",
        "metric": "ndcg",
        "eval_at": [cutoff],
        # Pairs below this rank teach nothing; LightGBM's advice is a little more than the largest K.
        "lambdarank_truncation_level": cutoff + 5,
        "deterministic": True,
        "force_row_wise": True,
        "num_threads": threads,
        "seed": seed,
        "verbosity": -1,
    }
    if rising:
        parameters["monotone_constraints"] = [int(name in rising) for name in features.columns]
    order = np.lexsort((tie_breakers(pairs["item"]), tie_breakers(pairs["query"])))
    values, queries = features.to_numpy(dtype=float), pairs["query"].to_numpy()

    def dataset(rows: np.ndarray, reference: lgb.Dataset | None = None) -> lgb.Dataset:
        query = queries[rows]
        starts = np.flatnonzero(np.r_[True, query[1:] != query[:-1]])
        return lgb.Dataset(
            values[rows],
            label=relevant[rows].astype(np.int32),
            group=np.diff(np.r_[starts, len(rows)]),
            feature_name=[quote(str(name), safe="") for name in features],  # it takes neither spaces nor brackets
            categorical_feature=[number for number, name in enumerate(features) if name in categorical],
            params=parameters,
            reference=reference,
        )

    training = dataset(order[~held_out[order]])
    booster = lgb.train(
        parameters,
        training,
        num_boost_round=MAX_TREES,
        valid_sets=[dataset(order[held_out[order]], training)],
        callbacks=[lgb.early_stopping(PATIENCE, verbose=False)],
    )
    best = booster.model_to_string(num_iteration=booster.best_iteration)
    return LambdaMART.from_text(best, threads)


def hash_of(settings: Sequence, frames: Iterable[pd.DataFrame]) -> str:
    """SHA-256 of what a ranker learns from: settings that JSON can hold, and data."""
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode())
    for frame in frames:
        digest.update(frame.to_csv(index=False).encode())
    return digest.hexdigest()


def how_trained() -> dict[str, Any]:
    """The settings of `train` that no caller chooses."""
    return {name: globals()[name] for name in ("TREES", "LEAVES", "MAX_TREES", "PATIENCE", "HELD_OUT_EVERY")}
