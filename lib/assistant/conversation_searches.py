"""The trained searches of notebook 04 among follow-ups and hops: as they are after training in the workbook's main
world, asked the query alone and the query behind the turn before.

A world of some hundred queries is too small to train them anew. What they have met of it in the main world is counted
(`met_before`): with other people, for `lib.assistant.conversation` draws its world with another seed. The cross-encoder
is left out: to read the first 20 results of these queries takes it longer than both searches together.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import partial
from pathlib import Path

import pandas as pd

from lib.assistant.conversation import KINDS, TRAINED_BEFORE, kinds_of, turns_of, with_turn_before
from lib.assistant.interaction_training import LATE, kept_reader, rank_late
from lib.retrieval.dense import load_encoder, search

TOLD = " behind the turn before"  # ends the id of a query that is asked so
Search = Callable[[pd.DataFrame], pd.DataFrame]  # of queries: columns query, persona, text


def trained_before(
    methods: Collection[str], data: Path, encoder: str, world: Mapping[str, pd.DataFrame]
) -> dict[str, pd.DataFrame]:
    """The rankings of all queries by fine-tuned search and by late interaction, and by each with the turn before.

    Args:
        methods: those of notebook 04; what is not among them was not trained.
        data: where notebook 04 left both.
        encoder: name of the encoder that they were trained from.
        world: frames items, queries and, where there are follow-ups, turns.

    Returns:
        {method of `TRAINED_BEFORE`, and the one with the turn before: columns query, item, rank, score}.
    """
    runs: dict[str, pd.DataFrame] = {}
    for method in TRAINED_BEFORE:
        if method in methods:
            runs |= alone_and_told(method, search_of(method, data, encoder, world["items"]), world)
    return runs


def search_of(method: str, data: Path, encoder: str, items: pd.DataFrame) -> Search:
    """One of `TRAINED_BEFORE` over some items; see `trained_before`. Raises OSError or KeyError where there is none."""
    if method == LATE:
        return partial(rank_late, kept_reader(data / "adapters" / method), encoder, items=items)
    return partial(search, load_encoder(str(data / "encoders" / method)), documents=items, on="persona")


def alone_and_told(method: str, ranked: Search, world: Mapping[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
    """The rankings by a search that is asked the query alone, and by the same search where it is asked the query behind
    the turn before: without one, a query is ranked as alone. Both are asked at once, so that items are read once."""
    queries, turns = world["queries"], turns_of(world)
    told = queries.assign(text=with_turn_before(queries, turns), query=queries["query"] + TOLD)
    told = told[queries["query"].isin(turns["query"])]
    run = ranked(pd.concat([queries, told], ignore_index=True))
    is_told = run["query"].str.endswith(TOLD)
    alone, behind = run[~is_told], run[is_told].assign(query=lambda rows: rows["query"].str.removesuffix(TOLD))
    rest = alone[~alone["query"].isin(behind["query"])]
    return {method: alone, TRAINED_BEFORE[method]: pd.concat([rest, behind], ignore_index=True)}


def met_before(world: Mapping[str, pd.DataFrame], queries: pd.DataFrame, gold: pd.DataFrame) -> pd.DataFrame:
    """How much of a world the training queries of another asked.

    Args:
        world: frame gold.
        queries: of the other world: columns query, split.
        gold: of the other world: columns query, need, phrasing.

    Returns:
        indexed by kind (`KINDS`, those that occur): needs and phrasings, percent of the queries whose need, or
        phrasing, is also that of a training query.
    """
    learned = gold[gold["query"].isin(queries.loc[queries["split"] == "training", "query"])]
    labels = world["gold"]
    shares = {f"{name}s": 100.0 * labels[name].isin(set(learned[name])) for name in ("need", "phrasing")}
    found = pd.DataFrame(shares).groupby(kinds_of(labels)).mean()
    return found.reindex([kind for kind in KINDS if kind in found.index])
