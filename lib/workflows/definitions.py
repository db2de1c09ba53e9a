"""Which API definitions a prompt shows, and how many of a flow's APIs they cover (workflow paper, section 3.3).

FD: the definitions of all APIs in the chosen few-shots. SFD: those nearest to the request in an index of the API
metadata.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pandas as pd

from lib.retrieval.neighbours import nearest


def few_shot_definitions(shots: Sequence[int], apis: Sequence[Sequence[str]]) -> list[str]:
    """The API names of few-shots, each once, those of the nearest first (FD).

    Args:
        shots: positions in `apis`, nearest first.
        apis: the API names of each training pair in order of its flow, by position.
    """
    return list(dict.fromkeys(name for shot in shots for name in apis[shot]))


def semantic_definitions(requests: np.ndarray, texts: np.ndarray, names: Sequence[str], n: int) -> list[list[str]]:
    """The n APIs nearest to each request by cosine, nearest first (SFD).

    Args:
        requests: vectors of unit length, (requests, dimensions), from the encoder that `texts` come from.
        texts: vectors of unit length of the APIs' `API.text`, (APIs, dimensions).
        names: of these APIs. Equally near ones keep their order.
        n: definitions a request; the workbook takes as many as FD has on average for the same number of shots.

    Raises:
        ValueError: numbers of vectors and names differ.
    """
    if len(texts) != len(names):
        raise ValueError(f"{len(texts)} vectors and {len(names)} names of APIs: there must be as many")
    return np.asarray(names, dtype=object)[nearest(texts, requests, n)[0]].tolist()


COVERAGE = ["pair", "way", "apis", "share", "all_covered", "sibling_share", "definitions", "tokens"]


def gold_coverage(
    pairs: pd.DataFrame, ways: Mapping[str, Sequence[Sequence[str]]], catalogue, count: Callable[[str], int]
) -> pd.DataFrame:
    """How many of the APIs that a flow needs have a definition in its prompt, and what the definitions cost.

    Args:
        pairs: columns pair, apis.
        ways: for each way to choose definitions, the names chosen for each row of `pairs`.
        catalogue: the `Catalogue`; a name that it lacks has no definition.
        count: tokens of a text.

    Returns:
        Long frame, one row a pair and way:
        apis (distinct APIs of the flow);
        share (of them with a definition, 0–1), all_covered (bool);
        sibling_share (0–1, of them without their own definition but with that of another version, V1 for V2);
        definitions (how many), tokens (of all of them).

    Raises:
        ValueError: a way has fewer or more rows than `pairs`.
    """
    rows = []
    for way, chosen in ways.items():
        for pair, apis, names in zip(pairs["pair"], pairs["apis"], chosen, strict=True):
            gold = set(apis)
            shown = [name for name in dict.fromkeys(names) if name in catalogue]
            families = {catalogue[name].family for name in shown}
            missing = gold.difference(shown)
            siblings = sum(name in catalogue and catalogue[name].family in families for name in missing)
            tokens = sum(count("\n" + catalogue[name].definition) for name in shown)
            rows.append([pair, way, len(gold), 1 - len(missing) / len(gold), not missing, siblings / len(gold),
                         len(shown), tokens])  # fmt: skip
    return pd.DataFrame(rows, columns=COVERAGE)
