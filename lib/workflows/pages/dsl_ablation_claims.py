"""Notebook 09: the published tables read closely, and the paper's claims."""

from __future__ import annotations

import pandas as pd

from lib.evaluation.forensics import chained, level_bounds
from lib.workbook.display import Table
from lib.workbook.methods import label
from lib.workflows.ablation import CONDITION
from lib.workflows.pages.common import METRIC
from lib.workflows.scoring import METRICS

ROW = CONDITION[:3]


def _ordered(values: pd.DataFrame) -> pd.DataFrame:
    """Published rows, one a condition and a column a metric, by few-shots and selector."""
    wide = values.pivot(index=ROW, columns="metric", values="value")[list(METRICS)].reset_index()
    return wide.sort_values(["shots", "selector"], kind="stable", ignore_index=True)


def printed_name(selector: str, shots: int, definitions: str) -> str:
    """A published row's name."""
    parts = [
        label("finetuned_dsl" if selector == "finetuned" else selector),
        f"{shots} few-shots" if shots else "",
        "" if definitions == "none" else label(definitions),
    ]
    return ", ".join(part for part in parts if part)


def _named(rows: pd.DataFrame) -> pd.DataFrame:
    """The same with the names in front, instead of `ROW`."""
    names = [printed_name(*row) for row in rows[ROW].itertuples(index=False)]
    table = rows.drop(columns=ROW).rename_axis(columns=None)
    table.insert(0, "", names)
    return table


def scale_table(published: pd.DataFrame) -> Table:
    """All published rows on one scale."""
    caption = "All published rows on one scale: differences from the pretrained encoder with 5 few-shots."
    return Table(_named(_ordered(chained(published))).rename(columns=METRIC), caption)


def bounds_table(published: pd.DataFrame) -> Table:
    """What the differences say about the values that the paper leaves out."""
    columns = {metric: f"{METRIC[metric]}, at {'most' if metric == 'similarity' else 'least'}" for metric in METRICS}
    caption = "Bounds of the values that the paper leaves out: no rate is below 0."
    return Table(_named(_ordered(level_bounds(published))).rename(columns=columns), caption)
