"""Notebook 09: whether flows do what the right ones do, and how much of similarity 1 is the right names alone."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from lib.evaluation.comparison import rates
from lib.workbook.cases import case_address
from lib.workbook.display import Table
from lib.workflows.ablation import VALUES, Condition
from lib.workflows.pages.common import TEST_SETS, intervals
from lib.workflows.pages.dsl_ablation import COPIES, Study
from lib.workflows.scoring import executed_outcomes

RATES = ("same_names", "executed", "wrong_at_1")
ROW = ["test_set", "condition", "metric", *VALUES, "n", "counted"]


def executed_rates(study: Study, rows: Sequence[Condition]) -> pd.DataFrame:
    """Of each condition asked, and of what copies: the share of flows with the right API names in order (similarity 1),
    of those executed right, and of similarity 1 the share that is not; percent, 95% intervals.

    Returns:
        `ROW`; a row of `wrong_at_1` that counts no flow has no value.
    """
    names = study.present([*(row.name for row in rows), *COPIES])
    parts = []
    for test_set in study.sets():
        scores = study.scores[(study.scores["test_set"] == test_set) & study.scores["condition"].isin(names)]
        scores = scores.sort_values("condition", key=lambda column: column.map(names.index), kind="stable")
        outcomes = executed_outcomes(scores)
        alike = outcomes[outcomes["metric"] == "wrong_at_1"]
        same = alike.assign(metric="same_names", numerator=alike["denominator"], denominator=1.0)
        found = rates(pd.concat([same, outcomes]), RATES, study.samples, study.seed)
        parts.append(found.assign(test_set=test_set))
    return pd.concat(parts, ignore_index=True)[ROW]


def executed_table(study: Study, rates: pd.DataFrame) -> Table:
    """`executed_rates` for readers."""
    texts = rates.assign(text=intervals(rates, decimals=0))
    texts.loc[texts["counted"] == 0, "text"] = "–"
    wide = texts.pivot(index=["test_set", "condition"], columns="metric", values="text")
    first = rates.drop_duplicates(["test_set", "condition"])
    keys = list(zip(first["test_set"], first["condition"], strict=True))
    wide = wide.loc[keys]
    frame = pd.DataFrame(
        {
            "test set": first["test_set"].map(TEST_SETS).tolist(),
            "condition": first["condition"].map(study.titles).tolist(),
            "flows": first["n"].tolist(),
            "right names, %": wide["same_names"].tolist(),
            "executed right, %": wide["executed"].tolist(),
            "of right names, wrong, %": wide["wrong_at_1"].tolist(),
        }
    )
    addresses = [case_address("flows", set=test_set, condition=name) for test_set, name in keys]
    caption = "Flows with the right API names in order, and flows executed right; 95% intervals."
    return Table(frame, caption, text_columns=["condition"], cases=dict.fromkeys(frame.columns[2:], addresses))
