"""Few-shots for Flow-Bench's requests from Flow-Bench's other requests, and how near their flows are to the right one.

Nothing is generated: `copied` is the similarity of the first few-shot's flow, as it stands, to the right flow. An edit
and the request whose flow it edits are of one family, and so are edits of one flow and edits of an edit; a request's
few-shots come from other families. So no few-shot shows the flow that is asked for, not even as the one to be edited.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from lib.evaluation.comparison import compare
from lib.evaluation.inference import Resampling, settled
from lib.retrieval.dense import load_encoder
from lib.workbook.parts import FOLDER, shipped
from lib.workflows.few_shots import jaccard as _jaccard
from lib.workflows.scoring import similarity

SHOTS = 5
MEASURED = (("jaccard", SHOTS), ("copied", 1))
SCORES = ["flow", "family", "method", "metric", "k", "value"]


def tuned_encoder(path: str, part: str, root: Path):
    """An encoder with a shipped adapter of its own, or None, and why (empty where there is one).

    Args:
        path: of the encoder; the adapter must have been trained from these weights, on whatever pairs.
        part: such as tst-100000.
    """
    from lib.retrieval.training import weights_hash

    model = weights_hash(load_encoder(path)) if (root / FOLDER / part).is_dir() else ""
    found = shipped(part, model, None, root)
    return (load_encoder(path, adapter=found.folder) if found.folder else None), found.reason


def families(pairs: pd.DataFrame) -> list[str]:
    """One label a request, the same for an edit, other edits of the same flow, the request for that flow and the edits
    of any of these: a text, the first of the family."""
    links = [(prior or dsl, dsl) for prior, dsl in zip(pairs["prior"], pairs["dsl"], strict=True)]
    texts = list(dict.fromkeys(text for link in links for text in link))
    place = {text: number for number, text in enumerate(texts)}
    ends = np.array([[place[one], place[other]] for one, other in links], dtype=int).reshape(-1, 2).T
    graph = coo_array((np.ones(len(links)), ends), shape=(len(texts), len(texts)))
    _, component = connected_components(graph, directed=False)
    first = {number: text for text, number in reversed(list(zip(texts, component, strict=True)))}
    return [first[component[place[dsl]]] for _, dsl in links]


def shot_scores(pairs: pd.DataFrame, vectors: Mapping[str, np.ndarray]) -> pd.DataFrame:
    """How near few-shots are to the right flow, by who selects them.

    Besides the encoders: `random`, the mean over all that may be shown; `oracle_shots`, those of highest Jaccard
    similarity to the right flow.

    Args:
        pairs: of `lib.workflows.flow_bench.FlowBench`.
        vectors: {method: unit vectors of the requests, one row a request}.

    Returns:
        columns `SCORES`, values 0–100: jaccard of the APIs, mean of `SHOTS` few-shots (k `SHOTS`), and copied (k 1).
    """
    apis, names = pairs["apis"].tolist(), families(pairs)
    jaccard = np.array([[_jaccard(one, other) for other in apis] for one in apis])
    allowed = np.array([[one != other for other in names] for one in names])
    rankings = {method: np.where(allowed, rows @ rows.T, -np.inf) for method, rows in vectors.items()}
    rankings["oracle_shots"] = np.where(allowed, jaccard, -np.inf)
    rows = []
    for method, scores in rankings.items():
        order = np.argsort(-scores, axis=1, kind="stable")[:, :SHOTS]
        for i, shots in enumerate(order):
            shown = [j for j in shots if allowed[i, j]]
            rows.append((i, method, "jaccard", SHOTS, 100 * jaccard[i, shown].mean()))
            rows.append((i, method, "copied", 1, 100 * similarity(apis[shown[0]], apis[i])))
    for i, others in enumerate(allowed):
        rows.append((i, "random", "jaccard", SHOTS, 100 * jaccard[i, others].mean()))
        copies = [similarity(apis[j], apis[i]) for j in np.flatnonzero(others)]
        rows.append((i, "random", "copied", 1, 100 * float(np.mean(copies))))
    scores = pd.DataFrame(rows, columns=["row", *SCORES[2:]])
    flow, family = (np.array(labels, dtype=object)[scores["row"]] for labels in (pairs["pair"], names))
    return scores.assign(flow=flow, family=family)[SCORES]


COMPARED = [("tst", "pretrained"), ("pretrained", "random")]


def shot_differences(scores: pd.DataFrame, samples: int, seed: int) -> pd.DataFrame:
    """Differences of the selectors that there are, of `COMPARED`, on the same requests.

    Args:
        scores: columns `SCORES`, of `shot_scores`.
        samples, seed: of the bootstrap over families.

    Returns:
        columns metric, k, those of `lib.evaluation.comparison.compare` (the unit is a family), settled.
    """
    wide = scores.pivot(index=["flow", "family"], columns=["method", "metric", "k"], values="value")
    over = Resampling(wide.index.get_level_values("family").to_numpy(), samples, seed)
    there = set(scores["method"])
    pairs = [pair for pair in COMPARED if there.issuperset(pair)]
    parts = [compare(wide, pairs, metric, k, over).assign(metric=metric, k=k) for metric, k in MEASURED]
    tests = pd.concat(parts, ignore_index=True)
    return tests.assign(settled=settled(tests))


def own_shot_scores(few_shots: pd.DataFrame, flows: pd.DataFrame) -> pd.DataFrame:
    """The same of this workbook's own test requests of new wordings; every flow is a family.

    Args:
        few_shots: columns pair, rank (from 1), shot, selector.
        flows: columns pair, split, apis.
    """
    asked = flows.loc[flows["split"] == "test", "pair"]
    apis = dict(zip(flows["pair"], flows["apis"].map(list), strict=True))
    shown = few_shots[(few_shots["rank"] <= SHOTS) & few_shots["pair"].isin(asked)]
    right, found = shown["pair"].map(apis), shown["shot"].map(apis)
    near = shown.assign(value=[100 * _jaccard(a, b) for a, b in zip(right, found, strict=True)])
    mean = near.groupby(["pair", "selector"], as_index=False)["value"].mean().assign(metric="jaccard", k=SHOTS)
    first = shown[shown["rank"] == 1]
    copied = [100 * similarity(apis[shot], apis[pair]) for shot, pair in zip(first["shot"], first["pair"], strict=True)]
    both = pd.concat([mean, first.assign(value=copied, metric="copied", k=1)], ignore_index=True)
    both = both.rename(columns={"pair": "flow", "selector": "method"})
    return both.assign(family=both["flow"])[SCORES]
