"""Where the values of a call's arguments stand, and what decides the call: as planned and as generated."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from datetime import datetime

import numpy as np
import pandas as pd

from lib.assistant.named_worlds import WORLDS
from lib.assistant.spoken import is_said

SOURCES = ("query", "items", "none")
SHARES = {  # what each of `world_shares` counts
    ("argument_source", "query"): "the call's arguments stand in the query",
    ("argument_source", "items"): "some must come from the persona's items",
    ("argument_source", "none"): "the call takes none, or only the day",
    ("api_source", "need"): "the need alone decides the call",
    ("api_source", "place"): "where the persona keeps the matter decides the call",
}


def argument_sources(queries: pd.DataFrame, gold: pd.DataFrame) -> pd.Series:
    """Where the arguments of each gold plan stand, as far as the query's text tells; indexed by query.

    `query`: each is said in the query, in words or as a moment ("tomorrow at 7 am"). `items`: some is not, so it must
    come from what the persona keeps. `none`: the plan has no argument but truth values and the day of the query.

    Args:
        queries: columns query, text, time.
        gold: columns query, answers (JSON text).
    """
    asked = gold[["query", "answers"]].merge(queries[["query", "text", "time"]], on="query", validate="one_to_one")
    sources = {}
    for query, answers, text, now in asked.itertuples(index=False):
        said = [
            any(stands_in(way, text, now) for way in ways)
            for ways in arguments_of(answers)
            if ways[0] != f"{now:%Y-%m-%d}"
        ]
        sources[query] = "none" if not said else "query" if all(said) else "items"
    return pd.Series(sources, name="arguments", dtype=object)


def arguments_of(answers: str) -> Iterator[list]:
    """The acceptable values of each argument of an answer (JSON text), without truth values and empty texts."""
    for call in json.loads(answers):
        for arguments in call.values():
            for values in arguments.values():
                ways = [value for value in values if value != "" and not isinstance(value, bool)]
                if ways:
                    yield ways


def stands_in(value: object, text: str, now: datetime) -> bool:
    """Whether a query, voiced at `now`, says a value word for word, without case and punctuation, or as a moment."""
    if isinstance(value, list):
        return all(stands_in(part, text, now) for part in value)
    moment = is_said(str(value), text, now)
    return f" {_words(str(value))} " in f" {_words(text)} " if moment is None else moment


def _words(text: str) -> str:
    return " ".join(re.findall(r"[^\W_]+", text.casefold()))


def world_shares(
    queries: pd.DataFrame, gold: pd.DataFrame, api_sources: Mapping[str, str], world: str = ""
) -> pd.DataFrame:
    """Shares of a world's queries, beside what its name promises.

    Args:
        queries, gold: as `lib.assistant.world.frames` makes them.
        api_sources: what decides the call, by need; empty where nobody knows.
        world: a name of `WORLDS`; empty where the world has none.

    Returns:
        columns knob (`argument_source`, `api_source`), value, here, planned (percent; NaN where unknown).
    """
    found = argument_sources(queries, gold).value_counts(normalize=True)
    decided = gold["need"].map(api_sources) if api_sources else pd.Series(dtype=object)
    by_need = 100 * (decided == "need").mean() if len(decided) else np.nan
    mix = WORLDS.get(world)
    promised = (mix.query, mix.items, mix.none, 1 - mix.by_place, mix.by_place) if mix else (np.nan,) * 5
    rows = [
        *(("argument_source", source, 100 * found.get(source, 0.0)) for source in SOURCES),
        ("api_source", "need", by_need),
        ("api_source", "place", 100 - by_need),
    ]
    table = pd.DataFrame(rows, columns=["knob", "value", "here"])
    return table.assign(planned=100 * np.array(promised))
