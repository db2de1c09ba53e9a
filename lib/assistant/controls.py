"""Negative controls: the same data with one link cut. A ranker that still profits from the link has seen it elsewhere.

Each function returns changed copies of what a method sees or learns from; evaluation keeps the true labels.
"""

from __future__ import annotations

import numpy as np
import pandas as pd


def permute_logs(items: pd.DataFrame, opens: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    """Usage logs dealt anew among each persona's items: every log stays whole, only whose it is changes.

    Args:
        items: columns item, persona.
        opens: columns item, time, place, each of an item in `items`.
    """
    persona = items["persona"].to_numpy()
    new_owner = dict(
        zip(
            items["item"].to_numpy()[np.argsort(persona, kind="stable")],
            items["item"].to_numpy()[np.lexsort((rng.random(len(items)), persona))],
            strict=True,
        )
    )
    return opens.assign(item=opens["item"].map(new_owner))


def permute_labels(pairs: pd.DataFrame, relevant: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Labels dealt anew among each query's candidates: as many relevant items a query, but any of them.

    Args:
        pairs: column query.
        relevant: one label a pair.
    """
    query = pd.factorize(pairs["query"])[0]
    permuted = np.empty_like(relevant)
    permuted[np.argsort(query, kind="stable")] = relevant[np.lexsort((rng.random(len(query)), query))]
    return permuted


def shuffle_moments(queries: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    """Time of day, weekday and place of the queries dealt anew among all of them, the three together.

    A query moves forward, by less than a week, to its new weekday and minute, so that every open still precedes it.

    Args:
        queries: columns time, weekday (0 = Monday), place.
    """
    other = queries.iloc[rng.permutation(len(queries))]
    shift = (_minute_of_week(other) - _minute_of_week(queries)) % (7 * 24 * 60)
    time = queries["time"] + pd.to_timedelta(shift, unit="min")
    return queries.assign(time=time, weekday=other["weekday"].to_numpy(), place=other["place"].to_numpy())


def _minute_of_week(queries: pd.DataFrame) -> np.ndarray:
    time = queries["time"].dt
    return ((queries["weekday"] * 24 + time.hour) * 60 + time.minute).to_numpy()
