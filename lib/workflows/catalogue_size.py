"""Does a larger catalogue hide the APIs that a request wants, and how long does a search over it take?"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Sequence

import numpy as np
import pandas as pd

from lib.retrieval.stores import hash_of_id
from lib.workflows.apis import API
from lib.workflows.catalogue import Catalogue
from lib.workflows.clause_retrieval import Asked, Embed, clause_definitions, coverages
from lib.workflows.clauses import Cut, clause_texts
from lib.workflows.definitions import semantic_definitions

SIZES = (2_000, 4_000, 8_000)  # of the grown catalogue, between its own and the largest
ELSEWHERE = "elsewhere"  # what the connector of a distractor begins with that is made from the catalogue's own


def distractors(catalogue: Catalogue, own: Iterable[API], number: int, seed: int) -> pd.DataFrame:
    """Operations that no request of ours wants, in the order in which they join the catalogue.

    First those of a folder of one's own; where they do not suffice, operations of the catalogue under the names of its
    other connectors, each with the connector's name in place of its own one: "Send an email" of Outlook offered by
    Jira. Such a text lies very near to that of the right API, so that recall among them is a lower bound of recall
    among as many different operations; it is never counted as right.

    Args:
        own: operations of an `openapi_folder`, none where there is none.
        number: wanted.
        seed: of the order.

    Returns:
        columns api (name), text (`API.text`), made (bool: from the catalogue's own). No text is one of the catalogue's
        or there twice; fewer rows than wanted where there are no more.
    """
    taken = {api.text for api in catalogue}
    rows: dict[str, tuple[str, bool]] = {}
    for api in own:
        rows.setdefault(api.text, (api.name, False))
    rng = random.Random(seed)
    ours = [api for api in catalogue if not api.internal]
    names = sorted({api.app_name for api in ours})
    borrowed = [(api, app) for api in ours for app in names if app != api.app_name]
    rng.shuffle(borrowed)
    for api, app in borrowed:
        if len(rows) >= number + len(taken & rows.keys()):
            break
        text = f"{app}: {api.display_name}{api.text[len(api.app_name) + len(api.display_name) + 2 :]}"
        rows.setdefault(text.replace(api.app_name, app), (f"{ELSEWHERE}_{app}.{api.name}", True))
    kept = [(name, text, made) for text, (name, made) in rows.items() if text not in taken]
    kept.sort(key=lambda row: (row[2], hash_of_id(f"{seed}:{row[0]}")))
    return pd.DataFrame(kept[:number], columns=["api", "text", "made"])


def recall_by_size(
    asked: Asked,
    wanted: pd.DataFrame,
    texts: np.ndarray,
    names: Sequence[str],
    more: np.ndarray,
    more_names: Sequence[str],
    sizes: Sequence[int],
    n: int,
    weight: float,
) -> pd.DataFrame:
    """The share of the wanted APIs among n definitions, found by the whole request and by its clauses.

    Args:
        asked: of the requests.
        wanted: one row each, columns pair, sample and apis.
        texts, names: of the catalogue's own APIs.
        more, more_names: of the distractors; the first so many join.
        sizes: of the whole catalogue; its own size comes first, and those beyond the last distractor are left out.
        n, weight: as for `lib.workflows.clause_retrieval.clause_definitions`.

    Returns:
        columns size, way (whole or clauses), pair, sample, share (0–1).
    """
    parts = []
    for size in [len(names), *(one for one in sizes if len(names) < one <= len(names) + len(more))]:
        vectors = np.vstack([texts, more[: size - len(names)]])
        all_names = [*names, *more_names[: size - len(names)]]
        found = {
            "whole": semantic_definitions(asked.whole, vectors, all_names, n),
            "clauses": clause_definitions(asked, vectors, all_names, n, weight),
        }
        for way, definitions in found.items():
            shares = coverages(wanted["apis"].tolist(), definitions)
            parts.append(wanted[["pair", "sample"]].assign(size=size, way=way, share=shares))
    return pd.concat(parts, ignore_index=True)[["size", "way", "pair", "sample", "share"]]


def time_searches(
    requests: Sequence[str],
    cut: Cut,
    embed: Embed,
    texts: np.ndarray,
    names: Sequence[str],
    n: int,
    weight: float,
    clock: Callable[[], float] = time.perf_counter,
) -> pd.DataFrame:
    """What one request after the other takes: cut, encoded with its clauses, and searched for.

    The first request is done once before, so that nothing is loaded while the clock runs.

    Returns:
        one row a request, in milliseconds: cut, encode, search, all.
    """
    rows = []
    for request in [requests[0], *requests]:
        began = clock()
        parts = clause_texts(request, cut(request))
        cut_at = clock()
        vectors = embed([request, *parts])
        encoded = clock()
        asked = Asked(vectors[:1], vectors[1:], np.array([len(parts)]))
        clause_definitions(asked, texts, names, n, weight)
        done = clock()
        rows.append((cut_at - began, encoded - cut_at, done - encoded, done - began))
    return 1000 * pd.DataFrame(rows[1:], columns=["cut", "encode", "search", "all"])


def percentiles(times: pd.DataFrame) -> pd.DataFrame:
    """p50 and p95 of `time_searches`: columns step, p50_ms, p95_ms, n (requests)."""
    table = times.quantile([0.5, 0.95]).T.set_axis(["p50_ms", "p95_ms"], axis=1)
    return table.rename_axis("step").reset_index().assign(n=len(times))
