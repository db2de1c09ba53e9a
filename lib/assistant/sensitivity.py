"""Several simulated worlds: small ones in which one knob differs, and the embeddings of several."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from lib.assistant.schemas import WorldKnobs

# The levels of each knob that is turned, one at a time.
SWEEPS = {"meaning_share": (0.0, 1 / 3, 2 / 3, 1.0), "habit_strength": (0.0, 0.4, 0.8, 1.0)}


def swept_knobs(base: WorldKnobs, n_personas: int) -> dict[tuple[str, float], WorldKnobs]:
    """The knobs of a smaller world, with as many queries a persona, for each level of each of `SWEEPS`. Where the share
    of meaning queries changes, habit and either queries share the rest."""
    share, found = n_personas / base.n_personas, {}
    small = replace(
        base,
        n_personas=n_personas,
        n_training_queries=max(n_personas, round(base.n_training_queries * share)),
        n_evaluation_queries=max(1, round(base.n_evaluation_queries * share)),
    )
    for knob, levels in SWEEPS.items():
        for level in levels:
            changes: dict[str, Any] = {knob: level}
            if knob == "meaning_share":
                changes["habit_share"] = (1 - level) / 2
            found[knob, level] = replace(small, **changes)
    return found


def embed_worlds(
    worlds: Mapping[Any, Mapping[str, pd.DataFrame]],
    encode: Callable[[list[str]], np.ndarray],
    known: Mapping[str, np.ndarray] | None = None,
) -> dict[Any, dict[str, np.ndarray]]:
    """Embeddings of each world's items and queries, in frame order; a text that occurs in several is encoded once.

    Args:
        known: texts that need not be encoded, with their embeddings; all others are encoded at once.
    """
    found, names = dict(known or {}), ("items", "queries")
    texts = {text for tables in worlds.values() for name in names for text in tables[name]["text"]}
    fresh = sorted(texts - found.keys())
    found |= zip(fresh, encode(fresh), strict=True)
    return {
        world: {name: np.stack([found[text] for text in tables[name]["text"]]) for name in names}
        for world, tables in worlds.items()
    }
