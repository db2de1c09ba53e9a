"""Notebook 12: what repair without a model did to free answers, and whether the right flows agree."""

from __future__ import annotations

import textwrap

import pandas as pd

from lib.evaluation.inference import percent
from lib.workbook.display import Table, interval, number
from lib.workflows.pages.beyond_repair import MODELS
from lib.workflows.pages.common import TEST_SETS
from lib.workflows.repair_ways import GROUP

KINDS = {
    "name": "made-up name, snapped",
    "key": "made-up key, snapped or dropped",
    "closed": "text that broke off, closed",
    "cut": "text cut after its last whole statement",
    "left": "text left as it is",
}
RIGHT = {
    "name": "the right flow calls it",
    "key": "the right flow has it in this call",
    "closed": "the right API calls",
    "cut": "the right API calls",
}
LONGEST = 240  # characters of an example


def repairs_table(repairs: pd.DataFrame) -> Table:
    """What repair without a model did, counted, and how often rightly.

    Args:
        repairs: of `lib.workflows.repair_costs.repairs`.
    """
    rows = []
    for (model, test_set, kind), part in repairs.groupby([*GROUP, "kind"], sort=False):
        right = int(part["right"].sum())
        share = interval(*percent(right, len(part)), 0) if kind in RIGHT else "–"
        row = (MODELS[model], TEST_SETS[test_set], KINDS[kind], len(part), part["unit"].nunique(), right, share)
        rows.append((list(KINDS).index(kind), *row))
    names = ["order", "model", "requests", "repair", "times", "flows", "right", "right, %"]
    frame = pd.DataFrame(rows, columns=names).sort_values(["model", "requests", "order"], kind="stable")
    caption = (
        "What mending and snapping did to free answers that the checker does not accept. Right: a name that the right "
        "flow calls; a key that it has in a call of this API; a mended text whose API calls are the right ones. 95% "
        "intervals (Wilson)."
    )
    return Table(frame.drop(columns="order").reset_index(drop=True), caption, text_columns=["repair"])


def repairs_in_words(repairs: pd.DataFrame) -> str:
    """How many names and keys were made right."""
    if repairs.empty:
        return "The checker accepts every free answer: there is nothing to repair."
    told = []
    for kind, part in repairs.groupby("kind", sort=False):
        if kind in RIGHT:
            right = int(part["right"].sum())
            told.append(f"{KINDS[kind]}: {right} of {len(part)} right, {interval(*percent(right, len(part)), 0)}%")
    left = int((repairs["kind"] == "left").sum())
    told += [f"{left} texts do not parse and stay"] if left else []
    answers = len(repairs[[*GROUP, "unit"]].drop_duplicates())
    return f"Of {answers} free answers that the checker does not accept: {'; '.join(told)}."


def penalty_in_words(penalties: pd.DataFrame) -> str:
    """How much of what snapping adds is the end of the penalty for a made-up name.

    Args:
        penalties: of `lib.workflows.repair_costs.penalty`.
    """
    told = [
        f"{MODELS[row.model]}, {TEST_SETS[row.test_set]}: {number(row.free, 2)} free, {number(row.lifted, 2)} without "
        f"the penalty, {number(row.snapped, 2)} snapped"
        for row in penalties.itertuples()
    ]
    return (
        "A flow with one made-up name has similarity 0. Were that name only one wrong call, similarity would be, "
        f"before any repair: {'; '.join(told)}."
    )


def examples_table(repairs: pd.DataFrame, asked: pd.DataFrame, each: int = 1) -> Table:
    """The first repairs of each kind, right ones and wrong ones.

    Args:
        asked: by unit: request.
        each: of each kind and outcome.
    """
    shown = repairs.groupby(["kind", "right"], sort=False).head(each)
    shown = shown.sort_values(["kind", "right"], key=lambda part: part.map({name: i for i, name in enumerate(KINDS)})
                              if part.name == "kind" else ~part.astype(bool), kind="stable")  # fmt: skip
    frame = pd.DataFrame(
        {
            "repair": shown["kind"].map(KINDS),
            "request": [_short(asked.loc[unit, "request"]) for unit in shown["unit"]],
            "written": shown["before"].map(_short),
            "repaired": [_short(after) if after else "–" for after in shown["after"]],
            "right": shown["right"].map({True: "yes", False: "no"}),
        }
    ).reset_index(drop=True)
    caption = "What was snapped, what was mended, and whether the right flow agrees: the first of each kind."
    return Table(frame, caption, text_columns=["repair", "request"], code_columns=["written", "repaired"])


def _short(text: str) -> str:
    text = text if len(text) <= LONGEST else f"{text[:LONGEST]}…"
    return "\n".join(textwrap.fill(line, 60) for line in text.split("\n"))
