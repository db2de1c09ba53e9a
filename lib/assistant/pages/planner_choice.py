"""The planner's settings, tried on training personas: on page 07."""

from __future__ import annotations

import numpy as np
import pandas as pd

from lib.assistant.pages.planner import SHORT
from lib.assistant.planner_choice import Trials, better
from lib.generation.kept import where_from
from lib.workbook.display import Table, interval

COLUMNS = {"rate": "learning rate", "epochs": "passes", "tools": "tools", "items": "items"}
ENDS = ["difference", "difference_low", "difference_high"]


def table(trials: Trials) -> Table:
    """A row a candidate, the one in use first."""
    rows = trials.compared
    columns = {name: rows[column] for column, name in COLUMNS.items()}
    columns |= {name: rows[setting] for setting, name in SHORT.items()}
    columns["mean of the five"] = [interval(*row) for row in rows[["mean", "ci_low", "ci_high"]].to_numpy()]
    columns["against the first"] = ["", *(interval(*row) for row in rows[ENDS].to_numpy()[1:])]
    columns["learning rate"] = [f"{rate:.2g}" for rate in rows["rate"]]
    return Table(
        pd.DataFrame(columns),
        f"AST accuracy in percent of {rows['n'].iloc[0]} queries of a fifth of the training personas, by planners that "
        "learned from the others. The first row is in use; each other one differs in one setting. Intervals (95%) are "
        "not adjusted for their number.",
        decimals=1,
        text_columns=["learning rate"],
    )


def in_words(trials: Trials) -> str:
    """Whether the settings in use stay."""
    above, below = better(trials.compared), trials.compared["difference_high"] < 0
    if len(above):
        best = above.iloc[0]
        named = ", ".join(f"{name} {best[column]:.2g}" for column, name in COLUMNS.items())
        gain = interval(*best[ENDS])
        said = (
            f"One trial is better than the settings in use, its interval above 0 ({named}): {gain} points."
            if len(above) == 1
            else f"{len(above)} trials are better than the settings in use, intervals above 0, the best ({named}) by "
            f"{gain} points."
        )
        said += " The planner of this page has those of the first row."
    else:
        said = "No other setting is better with an interval above 0, so those in use stay."
    others = len(trials.compared) - 1
    worse = f" {int(np.sum(below))} of {others} are worse with an interval below 0." if below.any() else ""
    return f"{said}{worse} {where_from(trials.keepers[0], 'plans', 'the planner in use')}"
