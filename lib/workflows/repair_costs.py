"""Repair against constrained decoding: quality beside cost, and quality at equal cost.

Definition of equal cost. The budget is what constrained decoding (`catalogue`) costs a request on average, in tokens
(read and written, each answer with its whole prompt) or in seconds. A way with more than one price spends it whole:

    best, best_snapped   n or n + 1 samples, drawn so that the mean cost is the budget, n being the most that fit
    reasked              a share of the flows that are not valid is asked about again, drawn so that the mean cost is it

Their quality is the expected one over these draws: linear between the two prices. A budget below the lowest price
leaves the cheapest (one sample, the free answer), and one above the highest the dearest; the share spent says so.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

from lib.evaluation.inference import holm_adjust, wilson_interval
from lib.evaluation.rates import paired_deltas, rates_with_intervals
from lib.workflows.language import called_apis, calls, parse
from lib.workflows.repair import Snapper, mend, parses, problem_of
from lib.workflows.repair_ways import ALONE, COSTS, DRAWN, GROUP, HELD, QUALITY
from lib.workflows.scoring import similarity

OWN = "own"  # what a way costs when it is used as it is
BUDGETS = ("tokens", "seconds")
PERCENT = QUALITY[1:]
REPAIR = [
    *GROUP, "budget", "way", "n", "metric", "value", "ci_low", "ci_high", "flows",
    "delta", "delta_ci_low", "delta_ci_high", "p_value", "p_holm", "shared", *COSTS, "spent_tokens", "spent_seconds",
]  # fmt: skip


def at_budget(ways: pd.DataFrame, measure: str) -> pd.DataFrame:
    """What ways with more than one price reach for what constrained decoding costs (see the module).

    Args:
        ways: of `lib.workflows.repair_ways.ways`, of one model and test set.
        measure: `tokens` or `seconds`.

    Returns:
        one row for each way and unit: way, n (samples a flow on average; of `reasked` the share of its second prompts
        that are asked), unit, `QUALITY`, `COSTS`.
    """
    most = int(ways["n"].max())
    prices = {"reasked": [("free", 1), ("reasked", 1)]} | {way: [(way, n + 1) for n in range(most)] for way in DRAWN}
    held = ways[ways["way"] == HELD].set_index("unit")[measure]
    parts = []
    for way, steps in prices.items():
        members = [_of(ways, name, n) for name, n in steps]
        members = [one for one in members if len(one)]
        if not members:
            continue
        costs = [one[measure].mean() for one in members]
        place = float(np.interp(held[members[0].index].mean(), costs, range(len(costs))))
        low = int(place)
        high = min(low + 1, len(members) - 1)
        mixed = members[low] + (place - low) * (members[high] - members[low])
        parts.append(mixed.reset_index().assign(way=way, n=place if way == "reasked" else place + 1))
    columns = ["way", "n", "unit", *QUALITY, *COSTS]
    return pd.concat(parts, ignore_index=True)[columns] if parts else pd.DataFrame(columns=columns)


def _of(ways: pd.DataFrame, way: str, n: int) -> pd.DataFrame:
    return ways[(ways["way"] == way) & (ways["n"] == n)].set_index("unit")[[*QUALITY, *COSTS]].astype(float)


def compare(ways: pd.DataFrame, samples: int, seed: int) -> pd.DataFrame:
    """Every way beside constrained decoding: as it is (of the samples: all), and at equal cost.

    Args:
        ways: of `lib.workflows.repair_ways.ways`.
        samples, seed: of the bootstrap and the tests.

    Returns:
        `REPAIR`, one row for each model, test set, budget (`own`, `tokens`, `seconds`), way and metric (of `QUALITY`;
        similarity 0–1, the others in percent, with Wilson's interval). Differences are those from constrained decoding
        on the shared flows; p_holm is over all rows; n as in `at_budget`; costs are means a flow, and those spent are
        in percent of constrained decoding's on the same flows.
    """
    parts = []
    for (model, test_set), part in ways.groupby(GROUP, sort=False):
        parts.append(_compared(part, samples, seed).assign(model=model, test_set=test_set))
    table = pd.concat(parts, ignore_index=True)
    tested = table["p_value"].notna()
    table["p_holm"] = np.nan
    table.loc[tested, "p_holm"] = holm_adjust(table.loc[tested, "p_value"])
    return table[REPAIR]


def _compared(ways: pd.DataFrame, samples: int, seed: int) -> pd.DataFrame:
    flows = pd.concat(list(_conditions(ways)), ignore_index=True)
    flows["condition"] = flows["budget"] + " " + flows["way"]
    against = f"{OWN} {HELD}"
    outcomes = flows.melt(["condition", "unit"], list(QUALITY), "metric", "numerator").assign(denominator=1.0)
    values = _with_wilson(rates_with_intervals(outcomes, PERCENT, samples, seed))
    rivals = [(name, against) for name in dict.fromkeys(flows["condition"]) if name != against]
    deltas = paired_deltas(outcomes, rivals, PERCENT, samples, seed).drop(columns=["b", "p_holm", "counted_both"])
    names = {"a": "condition", "ci_low": "delta_ci_low", "ci_high": "delta_ci_high", "n": "shared"}
    table = values.drop(columns="counted").rename(columns={"n": "flows"})
    table = table.merge(deltas.rename(columns=names), on=["condition", "metric"], how="left")
    costs = flows.groupby("condition", sort=False)[["n", *COSTS]].mean()
    held = flows[flows["condition"] == against].set_index("unit")
    for measure in BUDGETS:
        beside = flows["unit"].map(held[measure]).groupby(flows["condition"]).mean()
        costs[f"spent_{measure}"] = 100 * costs[measure] / beside
    kinds = flows.drop_duplicates("condition").set_index("condition")[["budget", "way"]]
    return table.join(costs, on="condition").join(kinds, on="condition")


def _with_wilson(values: pd.DataFrame) -> pd.DataFrame:
    """Shares with Wilson's interval: an expected share, of draws between two prices, spreads no more than a rate, and a
    bootstrap shows no spread where hardly a flow is a hit."""
    share = values["metric"].isin(PERCENT)
    n = values.loc[share, "n"]
    low, high = wilson_interval(values.loc[share, "value"] / 100 * n, n)
    values.loc[share, ["ci_low", "ci_high"]] = 100 * np.column_stack([low, high])
    return values


def _conditions(ways: pd.DataFrame) -> Iterator[pd.DataFrame]:
    most = ways["n"].max()
    yield ways[ways["way"].isin(ALONE) | (ways["way"].isin(DRAWN) & (ways["n"] == most))].assign(budget=OWN)
    for measure in BUDGETS:
        yield at_budget(ways, measure).assign(budget=measure)


def curve(ways: pd.DataFrame, samples: int, seed: int) -> pd.DataFrame:
    """The quality and cost of the best of n, n = 1 … all samples, beside the other ways on the same flows.

    Args:
        samples, seed: of the bootstrap.

    Returns:
        one row for each model, test set, way, n and metric (of `QUALITY`): value, ci_low, ci_high (95%; similarity 0–1,
        the others in percent), flows, `COSTS` (means a flow).
    """
    parts = []
    for (model, test_set), part in ways.groupby(GROUP, sort=False):
        drawn = set(part.loc[part["way"].isin(DRAWN), "unit"])
        flows = part[part["unit"].isin(drawn)] if drawn else part
        flows = flows.assign(condition=flows["way"] + " " + flows["n"].astype(str))
        outcomes = flows.melt(["condition", "unit"], list(QUALITY), "metric", "numerator").assign(denominator=1.0)
        found = rates_with_intervals(outcomes, PERCENT, samples, seed)
        by_condition = flows.groupby("condition", sort=False)
        found = found.join(by_condition[["way", "n"]].first(), on="condition", rsuffix="_drawn")
        found = found.join(by_condition[list(COSTS)].mean(), on="condition")
        found = found.drop(columns=["condition", "counted"]).rename(columns={"n": "flows", "n_drawn": "n"})
        parts.append(found.assign(model=model, test_set=test_set))
    table = pd.concat(parts, ignore_index=True)
    return table[[*GROUP, "way", "n", "metric", "value", "ci_low", "ci_high", "flows", *COSTS]]


# ---------------------------------------------------------------- what was repaired, and whether rightly


def repairs(answers: pd.DataFrame, asked: pd.DataFrame, catalogue) -> pd.DataFrame:
    """Each thing that repair without a model did to a free answer, and whether the right flow agrees.

    Args:
        answers: of `lib.workflows.repair_asking.ask_all`.
        asked: by unit: dsl (the right flow).

    Returns:
        one row a repair: model, test_set, unit, kind (`name`, `key`: snapped; `closed`, `cut`: mended; `left`: a text
        that does not parse and stayed), api, before, after, right. A name is right where the right flow calls it, a key
        where the right flow has it in a call of this API, a mended text where its API calls are those of the right flow
        (similarity 1); what was left is not right.
    """
    snapper = Snapper(catalogue)
    rows: list[tuple] = []
    columns = [*GROUP, "unit", "text"]
    for model, test_set, unit, text in answers.loc[answers["way"] == "free", columns].itertuples(index=False):
        if not problem_of(text, catalogue):
            continue
        gold = parse(asked.loc[unit, "dsl"])
        wanted = [call.api for call in calls(gold)]
        keys = {(call.api, key) for call in calls(gold) for key in call.keys}
        mended, done = mend(text)
        if done:
            right = similarity([call.api for call in calls(parse(mended))], wanted) == 1
            rows.append((model, test_set, unit, done, "", text, mended, right))
        elif not parses(text):
            rows.append((model, test_set, unit, "left", "", text, "", False))
        for snap in snapper.repair(text).snaps:
            right = snap.after in wanted if snap.kind == "name" else (snap.api, snap.after) in keys
            rows.append((model, test_set, unit, snap.kind, snap.api, snap.before, snap.after, right))
    return pd.DataFrame(rows, columns=[*GROUP, "unit", "kind", "api", "before", "after", "right"])


def penalty(ways: pd.DataFrame, asked: pd.DataFrame) -> pd.DataFrame:
    """How much of what snapping adds to similarity is the end of a penalty: a flow with one made-up name has similarity
    0, however many of its other calls are right.

    Returns:
        one row for each model and test set: flows; mean similarity of free answers, of the same with made-up names
        counted as wrong calls and not against the whole flow (lifted), and of snapped ones.
    """
    rows = []
    for (model, test_set), part in ways.groupby(GROUP, sort=False):
        free, snapped = (part[part["way"] == way] for way in ("free", "snapped"))
        lifted = [
            similarity(called_apis(parse(text)), called_apis(parse(gold))) if parses(text) else 0.0
            for text, gold in zip(free["text"], free["unit"].map(asked["dsl"]), strict=True)
        ]
        means = free["similarity"].mean(), float(np.mean(lifted)), snapped["similarity"].mean()
        rows.append((model, test_set, len(free), *means))
    return pd.DataFrame(rows, columns=[*GROUP, "flows", "free", "lifted", "snapped"])
