"""Plans carried out in the simulated world: which items do their calls give back?"""

from __future__ import annotations

import numpy as np
import pandas as pd

from lib.assistant.planner import Desk, right_plans
from lib.assistant.plans import (
    MAY_BE_LEFT_OUT,
    Call,
    PlanError,
    RightPlan,
    ast_match,
    gold_calls,
    parse_plan,
    standard_text,
)
from lib.assistant.queries import print_call

# They give back items as they are and change nothing. What shows something else (directions, a price, an attachment),
# plays, sends, creates or deletes is not among them: to reach its item is not yet to do what it does.
READS = frozenset(
    "open_note search_notes read_mail search_mail find_event find_reminder open_page search_history".split()
)


def executed_right(desk: Desk, plans: pd.DataFrame, queries: pd.DataFrame, gold: pd.DataFrame) -> np.ndarray:
    """Whether each plan, carried out, does what a right one does: 0 or 100 each.

    That is every right plan (AST match), and one whose calls are as many and serve a right plan's one by one, in its
    order. A call serves another if it is right by itself, or if both read (`READS`), give back the very same items,
    relevant ones alone, and what it says beside their title is acceptable to the other, argument by argument. So
    `search_mail` serves `read_mail` where it finds that mail; no reading serves a call that acts, and nothing but
    `default()` serves `default()`.

    Args:
        plans: columns query, text, ast_accuracy.
        queries: columns query, persona.
        gold: see `lib.assistant.planner.right_plans`; and relevant.
    """
    right, persona = right_plans(gold), queries.set_index("query")["persona"]
    relevant = gold.set_index("query")["relevant"]
    found = [
        matched > 0
        or any(_serves(desk, persona[query], text, plan, frozenset(relevant[query])) for plan in right[query])
        for query, text, matched in zip(plans["query"], plans["text"], plans["ast_accuracy"], strict=True)
    ]
    return 100.0 * np.array(found, dtype=float)


def readings(plans: pd.DataFrame, gold: pd.DataFrame) -> pd.DataFrame:
    """What `executed_right` could find beyond AST accuracy: only among readings may another call do the same.

    Args:
        plans: columns query, text.
        gold: columns query, apis.

    Returns:
        bools, one row a plan: wanted (the query's gold plan reads and does nothing else), wanted_and_read (and so does
        this one, whatever it gives back).
    """
    apis = gold.set_index("query")["apis"]
    wanted = np.array([READS.issuperset(apis[query]) for query in plans["query"]], dtype=bool)
    return pd.DataFrame(
        {"wanted": wanted, "wanted_and_read": wanted & [_only_reads(text) for text in plans["text"]]}, plans.index
    )


def _only_reads(text: str) -> bool:
    try:
        return READS.issuperset(api for api, _ in parse_plan(text))
    except PlanError:
        return False


def read_items(desk: Desk, persona: str, call: Call) -> frozenset[str]:
    """The persona's items that a reading call gives back: those of the API's app that one argument names by their whole
    title and whose texts hold all other arguments. None where the API does not read, or does not take these arguments.
    """
    api, arguments = call
    own = desk.items_of.get(persona)
    if api not in READS or own is None or not _takes(desk, api, arguments):
        return frozenset()
    values = [standard_text(value) for value in arguments.values() if isinstance(value, str)]
    if len(values) < len(arguments) or not all(values):
        return frozenset()
    here = own[own["app"] == desk.app_of.get(api)]
    titles, texts = here["title"].map(standard_text), here["text"].map(standard_text)
    holds = np.array([all(value in text for value in values) for text in texts], dtype=bool)
    return frozenset(here["item"][titles.isin(values).to_numpy() & holds])


def _takes(desk: Desk, api: str, arguments: dict) -> bool:
    parameters = next((f.get("parameters") or {} for f in desk.functions if f["name"] == api), None)
    return parameters is not None and set(parameters.get("required") or []) <= set(arguments) <= set(
        parameters.get("properties") or {}
    )


def _serves(desk: Desk, persona: str, text: str, plan: RightPlan, relevant: frozenset[str]) -> bool:
    try:
        calls = parse_plan(text)
    except PlanError:
        return False
    wanted = gold_calls(plan.answers)
    if len(calls) != len(wanted):
        return False
    return all(_call_serves(desk, persona, *pair, relevant) for pair in zip(calls, wanted, strict=True))


def _call_serves(
    desk: Desk, persona: str, call: Call, wanted: tuple[str, dict[str, list]], relevant: frozenset[str]
) -> bool:
    api, acceptable = wanted
    if ast_match(print_call(*call), [{api: acceptable}], desk.functions):
        return True
    first = {name: next((v for v in values if v != MAY_BE_LEFT_OUT), None) for name, values in acceptable.items()}
    target = read_items(desk, persona, (api, {name: value for name, value in first.items() if value is not None}))
    if not target or not target <= relevant or read_items(desk, persona, call) != target:
        return False
    titles = {standard_text(desk.items.loc[item, "title"]) for item in target}
    return all(
        standard_text(str(value)) in titles
        or standard_text(str(value)) in {standard_text(v) for v in acceptable.get(name, []) if isinstance(v, str)}
        for name, value in call[1].items()
    )
