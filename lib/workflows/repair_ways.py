"""The ways to a flow that are compared with constrained decoding, and what each costs.

free          the likeliest answer
snapped       the same, mended and snapped to the catalogue (see `lib.workflows.repair`)
reasked       the same; where the checker has something against it, a second prompt says what
best          of n samples one, by validity and then by agreement
best_snapped  the same, mended and snapped
catalogue     constrained decoding: the likeliest answer under the grammar with the catalogue's names and keys
"""

from __future__ import annotations

import itertools
import time

import numpy as np
import pandas as pd

from lib.workflows.ablation import score
from lib.workflows.catalogue import Catalogue
from lib.workflows.repair import Snapper, agreement, asked_again, choose

HELD = "catalogue"  # the way that the others are compared with
ALONE = ("free", "snapped", "reasked", HELD)
DRAWN = ("best", "best_snapped")
QUALITY = ("similarity", "valid", "executed")
COST = ["tokens_in", "tokens_out", "seconds"]
COSTS = ("tokens_in", "tokens_out", "tokens", "seconds")
GROUP = ["model", "test_set"]


def ways(answers: pd.DataFrame, asked: pd.DataFrame, catalogue: Catalogue) -> pd.DataFrame:
    """What each way makes of the answers: its flow's quality and its cost, for each request.

    No reading is shared: each answer costs its whole prompt, each second round both. What repair costs without a model
    is measured and added to the seconds. The quality of the best of n < all samples is the mean over every choice of n
    of them, kept in the order of drawing; its cost is n times the mean of the request's samples.

    Args:
        answers: of `lib.workflows.repair_asking.ask_all`, with seconds at like rates (`lib.workflows.repair_rates`).
        asked: as for `lib.workflows.ablation.score`.

    Returns:
        one row for each model, test_set, way, n (samples; 1 where none are drawn) and unit: `QUALITY` (0–1), `COSTS`,
        and text (None where n leaves several).
    """
    snapper = Snapper(catalogue)
    parts = []
    for (model, test_set), part in answers.groupby(GROUP, sort=False):
        alone = _alone(part, snapper)
        drawn = part[part["way"] == "sample"]
        single = _scored(alone, asked, catalogue).assign(n=1)
        curves = [_curves(drawn, snapper, asked, catalogue)] if len(drawn) else []
        parts.append(pd.concat([single, *curves], ignore_index=True).assign(model=model, test_set=test_set))
    found = pd.concat(parts, ignore_index=True)
    found["tokens"] = found["tokens_in"] + found["tokens_out"]
    return found[[*GROUP, "way", "n", "unit", *QUALITY, *COSTS, "text"]]


def _alone(answers: pd.DataFrame, snapper: Snapper) -> pd.DataFrame:
    """The flows of `ALONE`, with their costs."""
    free = answers[answers["way"] == "free"].set_index("unit")
    held = answers[answers["way"] == HELD].set_index("unit")
    second = answers[answers["way"] == "second"].set_index("unit")
    mended, spent = _snapped(free["text"], snapper)
    snapped = free.assign(text=mended, seconds=free["seconds"] + spent)
    asked = free.copy()
    asked.loc[second.index, COST] += second[COST]
    asked.loc[second.index, "text"] = [
        asked_again(text, second.loc[unit, "text"], snapper.catalogue)
        for unit, text in free.loc[second.index, "text"].items()
    ]
    made = dict(zip(ALONE, (free, snapped, asked, held), strict=True))
    return pd.concat([part.reset_index().assign(way=way) for way, part in made.items()], ignore_index=True)


def _snapped(texts: pd.Series, snapper: Snapper) -> tuple[list[str], list[float]]:
    mended, seconds = [], []
    for text in texts:
        started = time.perf_counter()
        mended.append(snapper.repair(text).text)
        seconds.append(time.perf_counter() - started)
    return mended, seconds


def _scored(flows: pd.DataFrame, asked: pd.DataFrame, catalogue: Catalogue) -> pd.DataFrame:
    scores = score(flows.drop(columns=["valid"], errors="ignore"), asked, catalogue)
    valid = scores["parsed"] & ~scores["made_up_names"].map(bool) & ~scores["made_up_parameters"].map(bool)
    return scores.assign(valid=valid).astype(dict.fromkeys(QUALITY, float))


def _curves(drawn: pd.DataFrame, snapper: Snapper, asked: pd.DataFrame, catalogue: Catalogue) -> pd.DataFrame:
    drawn = drawn.sort_values(["unit", "draw"], kind="stable", ignore_index=True)
    mended, spent = _snapped(drawn["text"], snapper)
    raw = _scored(drawn, asked, catalogue)
    after = _scored(drawn.assign(text=mended, seconds=drawn["seconds"] + spent), asked, catalogue)
    rows = []
    for unit, places in raw.groupby("unit", sort=False).indices.items():
        alike, valid = agreement(raw["text"].iloc[places].tolist()), raw["valid"].to_numpy()[places] > 0
        for n in range(1, len(places) + 1):
            chosen = [choose(valid, alike, among) for among in itertools.combinations(range(len(places)), n)]
            for way, source in zip(DRAWN, (raw, after), strict=True):
                quality = source[list(QUALITY)].to_numpy()[places][chosen].mean(axis=0)
                cost = n * raw[COST].to_numpy(float)[places].mean(axis=0)
                cost[2] += float(np.mean(np.array(spent)[places])) if way == "best_snapped" else 0.0
                text = source["text"].iloc[places[chosen[0]]] if n == len(places) else None
                rows.append((way, n, unit, *quality, *cost, text))
    return pd.DataFrame(rows, columns=["way", "n", "unit", *QUALITY, *COST, "text"])
