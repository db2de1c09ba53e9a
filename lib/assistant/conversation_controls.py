"""What could make the results of `lib.assistant.conversation` look better than they are: one link cut at a time.

A hop is to be found through the item between. So the two stages learn anew in worlds in which it is hidden, and in
which the item that answers names somebody else's person or place. A follow-up is to be found through the turn before;
so it is given another's. And a ranking by length alone shows whether the relevant items stand out by that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from lib.assistant.conversation import WITH_HISTORY, Learner, kinds_of, resampling_of, turns_of, with_turn_before
from lib.assistant.ranking_task import RankingTask
from lib.evaluation.comparison import compare, per_query_scores
from lib.evaluation.inference import holm_adjust
from lib.evaluation.intervals import mean_interval
from lib.retrieval.stores import cosine_of_pairs, rank_pairs

# Controls of hops and of follow-ups: the method, and what was done to it.
OF_HOPS = ("item between hidden", "answer names another")
OF_FOLLOW_UPS = ("another's turn before",)
LENGTHS = ("longest first", "shortest first")
REFERENCES = {"hop": ("lambdamart_2", (*OF_HOPS, *LENGTHS)), "follow-up": (WITH_HISTORY, (*OF_FOLLOW_UPS, *LENGTHS))}


def part_of_hop(world: Mapping[str, pd.DataFrame], part: str) -> np.ndarray:
    """Which items of a world a hop wrote as its `part`, `via` or `to`: bools in frame order."""
    template = world["provenance"].set_index("item")["template"].reindex(world["items"]["item"])
    hops = {row.need for row in world["gold"].itertuples() if row.phrasing.split("/")[1] == "hop"}
    split = [str(name).split("/") for name in template]
    return np.array([len(names) > 2 and names[0] in hops and names[2] == part for names in split])


def cut_worlds(
    world: Mapping[str, pd.DataFrame], vectors: Mapping[str, np.ndarray], rng: np.random.Generator
) -> dict[str, tuple[dict[str, pd.DataFrame], dict[str, np.ndarray]]]:
    """World and embeddings with one link of each hop cut, by `OF_HOPS`.

    Where the answer names another, it has the words, and so the length, of the same need's in another persona's life;
    its log stays.

    Args:
        world: frames items, opens, gold, provenance.
        vectors: unit-length embeddings, among them of items, in frame order.
    """
    items, opens = world["items"], world["opens"]
    via, to = part_of_hop(world, "via"), part_of_hop(world, "to")
    shown = items[~via].reset_index(drop=True)
    hidden = {"items": shown, "opens": opens[opens["item"].isin(shown["item"])].reset_index(drop=True)}
    rows = np.arange(len(items))
    need = world["provenance"].set_index("item")["need"].reindex(items["item"]).to_numpy()
    for name in sorted(set(need[to])):
        these = rng.permutation(np.flatnonzero(to & (need == name)))
        rows[these] = np.roll(these, 1)
    renamed = items.assign(text=items["text"].to_numpy()[rows], title=items["title"].to_numpy()[rows])
    worlds = (hidden, {"items": renamed})
    arrays = (vectors["items"][~via], vectors["items"][rows])
    return {
        name: ({**world, **cut}, {**vectors, "items": those})
        for name, cut, those in zip(OF_HOPS, worlds, arrays, strict=True)
    }


def turns_of_others(world: Mapping[str, pd.DataFrame], rng: np.random.Generator) -> pd.DataFrame:
    """The turns before, each given to a follow-up of another need, as far as there are enough."""
    turns = turns_of(world)
    need = world["gold"].set_index("query")["need"].reindex(turns["query"]).to_numpy()
    rows: list[int] = []
    for own in need:
        others = np.flatnonzero(need != own)
        rows.append(others[rng.integers(len(others))] if len(others) else len(rows))
    return turns.assign(text=turns["text"].to_numpy()[rows], plan=turns["plan"].to_numpy()[rows])


def score_controls(
    world: Mapping[str, pd.DataFrame],
    vectors: Mapping[str, np.ndarray],
    encode: Callable[[list[str]], np.ndarray],
    learner: Learner,
) -> pd.DataFrame:
    """Scores of every control on every query, one row a query, as `lib.evaluation.comparison.per_query_scores`.

    Args:
        world, vectors: as `lib.assistant.conversation.score_conversation` takes them, with the frame provenance.
    """
    seed = learner.learning.seed
    runs = {}
    for name, (cut, arrays) in cut_worlds(world, vectors, np.random.default_rng([seed, 500])).items():
        task, _, second = learner.cross_fitted(cut, arrays)
        runs[name] = rank_pairs(task.pairs, second)
    task = RankingTask.of_world(world, vectors, learner.learning, learner.bm25_b)
    strange = turns_of_others(world, np.random.default_rng([seed, 501]))
    told = encode(with_turn_before(task.queries, strange))
    runs[OF_FOLLOW_UPS[0]] = rank_pairs(task.pairs, cosine_of_pairs(task.pairs, told, vectors["items"]))
    length = task.items["text"].str.len().to_numpy(dtype=float)[task.pairs["item_row"].to_numpy()]
    runs |= {name: rank_pairs(task.pairs, sign * length) for name, sign in zip(LENGTHS, (1, -1), strict=True)}
    return per_query_scores(runs, task.qrels, task.queries["query"].tolist(), learner.learning.cutoffs)


def weigh_links(
    world: Mapping[str, pd.DataFrame], scores: pd.DataFrame, controls: pd.DataFrame, k: int, seed: int
) -> pd.DataFrame:
    """Mean recall at K of every control beside that of the method whose link it cuts, on the queries it is about.

    Args:
        world: frames queries and gold.
        scores, controls: from `lib.assistant.conversation.score_conversation` and from `score_controls`.
        k: K.
        seed: of the tests.

    Returns:
        columns kind, control, method, metric (recall@K), value in percent, ci_low, ci_high, n, whole (the method's
        own), difference (control − method, in points), difference_low, difference_high, p_holm: Holm over all rows.
    """
    both, everything = scores.join(controls), resampling_of(world, scores, seed)
    kinds, parts = kinds_of(world["gold"].set_index("query").loc[scores.index]), []
    for kind, (method, names) in REFERENCES.items():
        chosen = kinds == kind
        if not chosen.any():
            continue
        part, over = both[chosen], everything.among(chosen)
        values = np.column_stack([part[name, "recall", k] for name in names])
        low, high = mean_interval(values, over)
        tests = compare(part, [(name, method) for name in names], "recall", k, over)
        columns: dict[str, Any] = {"kind": kind, "control": names, "method": method, "metric": f"recall@{k}"}
        columns |= {"value": values.mean(axis=0), "ci_low": low, "ci_high": high, "n": int(chosen.sum())}
        columns |= {"whole": part[method, "recall", k].mean(), "difference": tests["difference"]}
        columns |= {"difference_low": tests["ci_low"], "difference_high": tests["ci_high"], "p_value": tests["p_value"]}
        parts.append(pd.DataFrame(columns))
    found = pd.concat(parts, ignore_index=True)
    return found.assign(p_holm=holm_adjust(found["p_value"])).drop(columns="p_value")
