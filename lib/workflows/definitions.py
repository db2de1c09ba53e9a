"""Which API definitions a prompt shows, and how many of a flow's APIs they cover (workflow paper, section 3.3).

FD: the definitions of all APIs in the chosen few-shots. SFD: those nearest to the request in an index of the API
metadata.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from lib.evaluation.inference import Resampling, mean_interval
from lib.retrieval.neighbours import nearest
from lib.workflows.apis import DefinitionForm


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


def usual_number(named: Iterable[Sequence[str]]) -> int:
    """How many definitions a prompt has on average, rounded, and at least one: what SFD gets beside FD."""
    return max(1, round(np.mean([len(names) for names in named])))


Way = tuple[str, str, int]  # kind of definitions, whose few-shots they go with (none for SFD alone), how many of these


def ways_to_define(
    few_shot: Mapping[tuple[str, int], Sequence[Sequence[str]]], semantic: Mapping[int, Sequence[Sequence[str]]]
) -> dict[Way, Sequence[Sequence[str]]]:
    """The API names that FD, SFD and both bring to each request.

    Args:
        few_shot: names of FD, by selector and number of few-shots.
        semantic: names of SFD, by number of few-shots.
    """
    ways = {("fd", *key): names for key, names in few_shot.items()}
    ways |= {("sfd", "", k): names for k, names in semantic.items()}
    for (selector, k), names in few_shot.items():
        ways["fd_sfd", selector, k] = [[*one, *other] for one, other in zip(names, semantic[k], strict=True)]
    return ways


COVERAGE = ["pair", "way", "apis", "share", "all_covered", "sibling_share", "definitions", "tokens"]


def gold_coverage(
    pairs: pd.DataFrame,
    ways: Mapping[Any, Sequence[Sequence[str]]],
    catalogue,
    count: Callable[[str], int],
    form: DefinitionForm = "compact",
) -> pd.DataFrame:
    """How many of the APIs that a flow needs have a definition in its prompt, and what the definitions cost.

    Args:
        pairs: columns pair, apis.
        ways: for each way to choose definitions, the names chosen for each row of `pairs`.
        catalogue: the `Catalogue`; a name that it lacks has no definition.
        count: tokens of a text.
        form: of the definitions.

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
            tokens = sum(count("\n" + catalogue[name].definition_in(form)) for name in shown)
            rows.append([pair, way, len(gold), 1 - len(missing) / len(gold), not missing, siblings / len(gold),
                         len(shown), tokens])  # fmt: skip
    return pd.DataFrame(rows, columns=COVERAGE)


SAMPLES, KINDS = ("test", "test_same", "reworded", "unseen"), ("fd", "sfd", "fd_sfd")
SHARES = ["share", "ci_low", "ci_high", "all_covered", "sibling_share"]
SUMMARY = ["sample", "kind", "selector", "shots", *SHARES, "definitions", "tokens", "n"]


def coverage_summary(coverage: pd.DataFrame, samples: int, seed: int) -> pd.DataFrame:
    """Means of `gold_coverage` over the requests of a sample.

    Args:
        coverage: of `gold_coverage`, each way a `Way`; with a column sample, one of `SAMPLES`.
        samples, seed: of the bootstrap.

    Returns:
        `SUMMARY` (n: requests), one row a sample and way, sorted by sample, shots, kind and selector (other kinds than
        `KINDS` come last). Shares in
        percent; ci_low and ci_high are the 95% interval of the share.
    """
    groups = coverage.groupby(["sample", "way"], sort=False)
    summary = groups[["share", "all_covered", "sibling_share", "definitions", "tokens"]].mean()
    summary["n"] = groups.size()
    summary[["ci_low", "ci_high"]] = [
        mean_interval(part["share"].to_numpy(float), Resampling(part["pair"].to_numpy(), samples, seed), 1.0)[1:]
        for _, part in groups
    ]
    summary[SHARES] *= 100
    summary = summary.reset_index()
    summary[["kind", "selector", "shots"]] = pd.DataFrame(summary.pop("way").tolist(), index=summary.index)
    summary["sample"] = pd.Categorical(summary["sample"], SAMPLES)
    others = sorted({*summary["kind"]} - {*KINDS})
    summary["kind"] = pd.Categorical(summary["kind"], [*KINDS, *others])
    return summary.sort_values(["sample", "shots", "kind", "selector"], ignore_index=True)
