"""What retrieval by clause does to the flows that the in-context model writes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import pandas as pd

from lib.evaluation.inference import holm_adjust, settled
from lib.evaluation.rates import paired_deltas, rates_with_intervals
from lib.workbook.parameters.dsl_ablation import Condition
from lib.workflows.ablation import DELTAS, write_condition
from lib.workflows.ablation_grid import OTHER_HALF
from lib.workflows.apis import DefinitionForm
from lib.workflows.catalogue import Catalogue
from lib.workflows.scoring import PERCENT, executed_outcomes, outcomes

SHOTS = 5
# What prompts show: whose few-shots, whose definitions (SFD; none where empty), and what it is compared with.
WAYS = {
    "nearest": ("nearest", "", ""),
    "set": ("set", "", "nearest"),
    "near_set": ("near_set", "", "nearest"),
    "whole": ("nearest", "whole", ""),
    "clauses": ("nearest", "clauses", "whole"),
}
MEASURED = ("similarity", "valid", "executed")


class Shown(NamedTuple):
    """What may be shown, for each request.

    Attributes:
        shots: {way of choosing few-shots: by pair, positions in the training pairs, best first}.
        definitions: {way of searching: by pair, API names, best first}.
    """

    shots: Mapping[str, pd.Series]
    definitions: Mapping[str, pd.Series]


def prompts_of_ways(
    asked: Mapping[str, pd.DataFrame],
    flows: int,
    shown: Shown,
    training: pd.DataFrame,
    catalogue: Catalogue,
    limit: int,
    count: Callable[[str], int],
    form: DefinitionForm,
) -> pd.DataFrame:
    """The prompts of `WAYS` on the same requests.

    Args:
        asked: {test set: its flows in the order of asking}, columns pair, request, apis, half.
        flows: of each test set: the first that lie in one half of the connectors.
        training: the pairs that few-shots come from, columns request, dsl, apis.
        limit, count, form: as for `lib.workflows.ablation.write_condition`.

    Returns:
        what `write_condition` returns, with columns condition (the way), test_set, half, and model (which of the two
        in-context models may be asked).
    """
    parts = []
    for test_set, requests in asked.items():
        kept = requests[requests["half"] != ""].head(flows)
        for way, (shots, definitions, _) in WAYS.items():
            row = ["tst", SHOTS, "sfd" if definitions else "none", "in_context", "free", flows]
            written = write_condition(
                Condition.model_validate(row),
                kept,
                shown.shots[shots][kept["pair"]].tolist(),
                training,
                catalogue,
                limit,
                count,
                shown.definitions[definitions][kept["pair"]].tolist() if definitions else (),
                form=form,
            )
            models = [f"in_context-{OTHER_HALF[half]}" for half in kept["half"]]
            parts.append(written.assign(condition=way, test_set=test_set, half=kept["half"].tolist(), model=models))
    return pd.concat(parts, ignore_index=True)


def compared(scores: pd.DataFrame, samples: int, seed: int) -> pd.DataFrame:
    """Each way's flows, and those by clause against those by the whole request on the same requests.

    Args:
        scores: scored answers (`lib.workflows.ablation.score`), condition being the way.
        samples, seed: of the bootstrap and the tests.

    Returns:
        one row a test set, way and metric of `MEASURED` (similarity 0–1, the others in percent): value, ci_low,
        ci_high, n, `DELTAS` (NaN where the way is compared with none), p_holm (over all rows), tokens_in (mean of the
        prompts), settled.
    """
    rivals = [(way, against) for way, (_, _, against) in WAYS.items() if against]
    values, deltas = [], []
    for test_set, part in scores.groupby("test_set", sort=False):
        counted = pd.concat([outcomes(part), executed_outcomes(part)])
        counted = counted[counted["metric"].isin(MEASURED)]
        tokens = part.groupby("condition")["tokens_in"].mean()
        found = rates_with_intervals(counted, PERCENT, samples, seed).join(tokens, on="condition")
        values.append(found.assign(test_set=test_set))
        deltas.append(paired_deltas(counted, rivals, PERCENT, samples, seed).assign(test_set=test_set))
    tests = pd.concat(deltas, ignore_index=True)
    tests = tests.assign(p_holm=holm_adjust(tests["p_value"]))
    keys = ["test_set", "condition", "metric"]
    tests = tests.rename(columns={"a": "condition", "ci_low": DELTAS[1], "ci_high": DELTAS[2]})
    table = pd.concat(values, ignore_index=True).merge(tests[[*keys, *DELTAS, "p_holm"]], on=keys, how="left")
    table = table[[*keys, "value", "ci_low", "ci_high", "n", *DELTAS, "p_holm", "tokens_in"]]
    return table.assign(settled=settled(table, *DELTAS[1:]))
