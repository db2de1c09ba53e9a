"""Which examples and definitions a prompt shows, and how good they are before any model reads them.

Few-shots: the training pairs whose requests are nearest, by an encoder as it comes or one that was tuned so that the
cosine of two requests comes close to the similarity of their flows, here the Jaccard similarity of the flows' API names
(TST). Source: the workflow paper, section 3.2.2, after Poesia et al. 2022 (arXiv:2201.11227), who compare syntax trees.
Few-shots are a frame with columns pair (a flow to generate), rank (from 1, the best) and shot (a training pair).

Definitions (section 3.3): of all APIs in the chosen few-shots (FD), or of those nearest to the request in an index of
the API metadata (SFD).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence

import numpy as np
import pandas as pd

from lib.retrieval.bm25 import BM25T, tokenize
from lib.retrieval.stores import hash_of_id
from lib.workflows.catalogue import Catalogue
from lib.workflows.scoring import similarity


def jaccard(left: Iterable[str], right: Iterable[str]) -> float:
    """Share of common names among all of two lists of API names, taken as sets; 1 where both are empty.

    >>> round(jaccard(["forms.New", "teams.Post", "teams.Post"], ["teams.Post", "mail.Send"]), 3)
    0.333
    """
    left, right = set(left), set(right)
    return len(left & right) / len(left | right) if left or right else 1.0


# ---------------------------------------------------------------- pairs to tune on


def balanced_sample(mined: pd.DataFrame, size: int, seed: int) -> pd.DataFrame:
    """At most `size` mined pairs (columns a, b, positive), half of them positive as far as there are any; a smaller
    sample is part of every larger one with the same seed."""
    chance = [hash_of_id(f"{seed}:{a}:{b}") for a, b in zip(mined["a"], mined["b"], strict=True)]
    place = pd.Series(chance, index=mined.index, dtype=np.uint64).groupby(mined["positive"]).rank(method="first")
    return mined[place <= np.where(mined["positive"], size // 2, size - size // 2)]


def scored_pairs(mined: pd.DataFrame, flows: pd.DataFrame) -> pd.DataFrame:
    """What `lib.retrieval.training.tune_encoder` learns from, a row for each mined pair of requests (columns a, b, ids
    of flows, and positive): columns sentence1, sentence2, score (Jaccard similarity of their flows, 0-1), positive.

    Args:
        flows: columns pair, request, apis (list of API names).
    """
    by_id = flows.set_index("pair")
    left, right = (by_id.loc[mined[side].tolist(), ["request", "apis"]] for side in ("a", "b"))
    rows = pd.DataFrame({"sentence1": left["request"].to_numpy(), "sentence2": right["request"].to_numpy()})
    scores = [jaccard(one, other) for one, other in zip(left["apis"], right["apis"], strict=True)]
    return rows.assign(score=scores, positive=mined["positive"].to_numpy())


# ---------------------------------------------------------------- few-shots


def asked_requests(flows: pd.DataFrame, reworded: pd.DataFrame) -> pd.DataFrame:
    """Everything that few-shots are looked up for: flows outside training, then test requests reworded by hand.

    Args:
        flows, reworded: columns pair (a reworded request has its original's) and whatever else.

    Returns:
        the columns of both, sample (test, test_same, unseen or reworded) and original (the test request).
    """
    asked = flows[flows["split"] != "training"]
    asked = asked.assign(original=asked["pair"], sample=asked["split"])
    free = reworded.assign(original=reworded["pair"], pair=reworded["pair"] + " reworded", sample="reworded")
    return pd.concat([asked, free], ignore_index=True)


def ranked_shots(pairs: Sequence[str] | np.ndarray, pool: Sequence[str], indices: np.ndarray) -> pd.DataFrame:
    """Few-shots of `pairs` (ids) out of row numbers (pairs, k) of `pool` (ids of training pairs), best first, such as
    those of `lib.retrieval.neighbours.nearest`."""
    k, shots = indices.shape[1], np.asarray(pool, dtype=object)[indices.ravel()]
    ranks = np.tile(np.arange(1, k + 1), len(pairs))
    return pd.DataFrame({"pair": np.repeat(np.asarray(pairs, dtype=object), k), "rank": ranks, "shot": shots})


def lexical_shots(flows: pd.DataFrame, training: pd.DataFrame, k: int) -> pd.DataFrame:
    """The `k` training pairs whose requests are nearest by their words (BM25T), of equally near ones the first. Both
    frames: columns pair, request."""
    words, k = BM25T([tokenize(text) for text in training["request"]]), min(k, len(training))
    rows = np.empty((len(flows), k), dtype=np.int64)
    for row, text in enumerate(flows["request"]):
        scores = words.get_scores(tokenize(text))
        some = np.flatnonzero(scores >= np.partition(scores, -k)[-k])
        rows[row] = some[np.argsort(-scores[some], kind="stable")[:k]]
    return ranked_shots(flows["pair"], training["pair"], rows)


def random_shots(flows: pd.DataFrame, training: pd.DataFrame, k: int, seed: int) -> pd.DataFrame:
    """`k` training pairs drawn at random for each flow: the floor. Both frames have a column pair."""
    k, rows = min(k, len(training)), range(len(training))
    drawn = [random.Random(f"{seed}:{pair}").sample(rows, k) for pair in flows["pair"]]
    return ranked_shots(flows["pair"], training["pair"], np.array(drawn, dtype=np.int64).reshape(-1, k))


def few_shot_scores(
    shots: pd.DataFrame, flows: pd.DataFrame, training: pd.DataFrame, ks: Sequence[int]
) -> pd.DataFrame:
    """How close the first `k` few-shots of each flow come to the right flow, by their API names alone.

    Args:
        shots: columns pair, rank, shot; a pair's rows by rank.
        flows: columns pair, apis (of the right flow).
        training: columns pair, apis.
        ks: numbers of few-shots; where a flow has fewer, all of its own count.

    Returns:
        columns pair, k, metric, value (0-1), one row a pair, k and metric:
        jaccard: `jaccard` with the right flow, mean of the k;
        lcs: `lib.workflows.scoring.similarity` with the right flow, mean of the k: what copying the first is worth;
        coverage: share of the right flow's distinct APIs that any of the k names.
    """
    gold, names = flows.set_index("pair")["apis"].to_dict(), training.set_index("pair")["apis"].to_dict()
    rows = []
    for pair, part in shots.groupby("pair", sort=False)["shot"]:
        right, shown = gold[pair], [names[shot] for shot in part]
        overlap = [jaccard(one, right) for one in shown]
        lcs = [similarity(one, right) if near else 0.0 for one, near in zip(shown, overlap, strict=True)]
        for k in ks:
            covered = len(set(right) & set().union(*shown[:k])) / len(set(right))
            values = {"jaccard": np.mean(overlap[:k]), "lcs": np.mean(lcs[:k]), "coverage": covered}
            rows += [(pair, k, metric, value) for metric, value in values.items()]
    return pd.DataFrame(rows, columns=["pair", "k", "metric", "value"])


def shot_positions(shots: pd.DataFrame, pool: Sequence[str], k: int) -> pd.Series:
    """The first `k` few-shots of each pair (columns pair, rank, shot; a pair's rows by rank) as positions in the pool,
    the ids of the training pairs; indexed by pair."""
    position = {pair: i for i, pair in enumerate(pool)}
    first = shots[shots["rank"] <= k]
    return first["shot"].map(position).groupby(first["pair"], sort=False).agg(list)


# ---------------------------------------------------------------- definitions


def few_shot_definitions(shots: Sequence[int], apis: Sequence[Sequence[str]]) -> list[str]:
    """The API names of few-shots (positions in `apis`, nearest first), each once, those of the nearest first (FD)."""
    return list(dict.fromkeys(name for shot in shots for name in apis[shot]))


def usual_number(named: Iterable[Sequence[str]]) -> int:
    """How many definitions a prompt has on average, rounded, and at least one: what SFD gets beside FD."""
    return max(1, round(np.mean([len(names) for names in named])))


def definition_coverage(
    pairs: pd.DataFrame, chosen: Sequence[Sequence[str]], catalogue: Catalogue, count: Callable[[str], int]
) -> pd.DataFrame:
    """How many of the APIs that a flow needs have a definition in its prompt, and what the definitions cost.

    Args:
        pairs: columns pair, sample, apis.
        chosen: for each row of `pairs` the names of the APIs defined; one that the catalogue lacks has no definition.
        count: tokens of a text.

    Returns:
        one row a pair: pair, sample; share (of the flow's distinct APIs, those with a definition, 0-1), all_covered
        (bool); definitions (how many), tokens (of all of them).
    """
    rows, lengths = [], {api.name: count("\n" + api.definition_in("described")) for api in catalogue}
    for gold, names in zip(pairs["apis"].map(set), chosen, strict=True):
        shown = [name for name in dict.fromkeys(names) if name in lengths]
        missing = gold.difference(shown)
        rows.append((1 - len(missing) / len(gold), not missing, len(shown), sum(lengths[name] for name in shown)))
    columns = ["share", "all_covered", "definitions", "tokens"]
    return pairs[["pair", "sample"]].reset_index(drop=True).join(pd.DataFrame(rows, columns=columns))
