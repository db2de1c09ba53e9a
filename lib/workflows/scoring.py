"""How good a generated flow is: the metrics of the workflow paper's section 4.2.

    similarity = LCS(predicted APIs, gold APIs) / the longer of the two,
                 0 for a flow that does not parse or names an API that the catalogue does not have
    % unparsed            over all flows (equation 3)
    % made-up APIs        flows with at least one, over the flows that parse (equation 4)
    % made-up parameters  flows with at least one, over the flows that parse (equation 5)

A made-up parameter leaves the similarity as it is; the keys of a made-up API are not judged.

`executed` is ours and asks more: on mocked connectors (`lib.workflows.execution`) the flow does what the right one
does, with nothing made up. It is not judged where the right flow has a call that can never be reached.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import pandas as pd

from lib.workflows.catalogue import Catalogue
from lib.workflows.execution import declared_types, executed_alike, never_made
from lib.workflows.language import Flow, FlowError, called_apis, parse, validate


def similarity(predicted: Sequence[str], gold: Sequence[str]) -> float:
    """Length of the longest common subsequence over the length of the longer list (equation 2); 1 where both are empty.

    >>> round(similarity(["forms.New", "users.Profile", "teams.Post"], ["forms.New", "teams.Post"]), 3)
    0.667
    """
    row = [0] * (len(gold) + 1)  # the length for what was read of `predicted` and the first j of `gold`
    for item in predicted:
        diagonal = 0
        for j, other in enumerate(gold, start=1):
            diagonal, row[j] = row[j], diagonal + 1 if item == other else max(row[j], row[j - 1])
    longer = max(len(predicted), len(gold))
    return row[-1] / longer if longer else 1.0


class FlowScore(NamedTuple):
    """One generated flow's score. `valid`: it parses and names no made-up API; `made_up_parameters`: (API, key);
    `error`: what the parser said, empty where the flow parses; `executed`: None where the right flow is known by its
    API names alone, or has a call that can never be reached."""

    parsed: bool
    valid: bool
    similarity: float
    made_up_names: tuple[str, ...] = ()
    made_up_parameters: tuple[tuple[str, str], ...] = ()
    error: str = ""
    executed: bool | None = None


def score_flow(
    text: str, gold: str | Sequence[str], catalogue: Catalogue, said: Sequence[Sequence[str]] | None = None
) -> FlowScore:
    """Score a generated flow against the right one: `gold`, its text (which must parse) or the list of its API names.
    `said`: for each call of the right flow, the keys of the arguments that the request says; None: all."""
    return FlowScore(*next(score_flows([text], [gold], catalogue, [said]).itertuples(index=False, name=None)))


def score_flows(
    texts: Iterable[str],
    golds: Iterable[str | Sequence[str]],
    catalogue: Catalogue,
    said: Iterable[Sequence[Sequence[str]] | None] | None = None,
) -> pd.DataFrame:
    """`score_flow` for each text with its gold flow and what its request says (None: all of all): a row each, with the
    fields of `FlowScore` as columns. Raises ValueError where the iterables are not equally long."""
    golds, types = [gold if isinstance(gold, str) else tuple(gold) for gold in golds], declared_types(catalogue)
    # Of each right flow the names of its APIs, and the flow itself; None where no other can be judged by it.
    known: dict[Any, tuple[Sequence[str], Flow | None]] = {gold: (gold, None) for gold in golds}
    for gold in known:
        if isinstance(gold, str):
            right = parse(gold)
            known[gold] = called_apis(right), None if never_made(right, types) else right
    scores = []
    for text, gold, keys in zip(texts, golds, [None] * len(golds) if said is None else said, strict=True):
        names, wanted = known[gold]
        executed = None if wanted is None else False
        try:
            flow = parse(text)
        except FlowError as error:
            scores.append(FlowScore(False, False, 0.0, error=str(error), executed=executed))
            continue
        made_up, unknown, _ = validate(flow, catalogue)
        if wanted is not None and not (made_up or unknown):
            executed = executed_alike(flow, wanted, keys, types)
        value = 0.0 if made_up else similarity(called_apis(flow), names)
        scores.append(FlowScore(True, not made_up, value, made_up, unknown, executed=executed))
    return pd.DataFrame(scores, columns=FlowScore._fields)


METRICS = ("similarity", "unparsed", "made_up_names", "made_up_parameters")  # the published ones
PERCENT = (*METRICS[1:], "valid", "executed", "wrong_at_1", "new_apis_called")


def outcomes(scores: pd.DataFrame) -> pd.DataFrame:
    """`score_flows`, with columns condition and unit besides, as `lib.evaluation.comparison.rates` takes them: columns
    condition, unit, metric, numerator, denominator (0–1).

    Metrics: `METRICS`, of which made-up names and parameters count the flows that parse; `valid` over all flows: those
    that parse and have neither; `executed` over the flows that can be judged; `wrong_at_1`: of those of similarity 1,
    the ones that are not executed right; `new_apis_called`: of those of a column called that is not None.
    """
    parsed = scores["parsed"].astype(float)
    names, parameters = (scores[f"made_up_{what}"].map(len).gt(0) * parsed for what in ("names", "parameters"))
    judged, right = scores["executed"].notna().astype(float), scores["executed"].astype(float).fillna(0.0)
    alike = scores["similarity"].eq(1).astype(float) * judged
    parts = {
        "similarity": (scores["similarity"], 1.0),
        "unparsed": (1.0 - parsed, 1.0),
        "made_up_names": (names, parsed),
        "made_up_parameters": (parameters, parsed),
        "valid": (parsed * (names + parameters == 0), 1.0),
        "executed": (right, judged),
        "wrong_at_1": (alike * (1 - right), alike),
    }
    if "called" in scores and scores["called"].notna().any():
        parts["new_apis_called"] = scores["called"].astype(float).fillna(0.0), scores["called"].notna().astype(float)
    keys = scores[["condition", "unit"]]
    made = [keys.assign(metric=name, numerator=over, denominator=under) for name, (over, under) in parts.items()]
    return pd.concat(made, ignore_index=True)
