"""Notebook 05's part on training seeds."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from lib.assistant.pages.common import intervals
from lib.workbook.display import Table, number
from lib.workbook.methods import label


def table(values: pd.DataFrame, names: Mapping[str, str], k: int) -> Table:
    """Each method over its seeds (see `lib.assistant.training_seeds.over_seeds`)."""
    frame = _cells(values).assign(method=[names.get(name, label(name)) for name in values["of"]])
    return Table(
        frame[["method", "mean over seeds", "standard deviation", "lowest", "highest"]],
        f"Recall@{k} in percent of {values['n'].max()} evaluation queries over {values['seeds'].max()} training seeds. "
        "The interval (95%) allows for other queries and for other seeds.",
        decimals=1,
    )


def changes_table(changes: pd.DataFrame, k: int) -> Table:
    """Differences over the seeds."""
    names = [f"{label(a)} − {label(b)}" for a, b in changes["of"]]
    frame = _cells(changes).assign(difference=names)
    return Table(
        frame[["difference", "mean over seeds", "standard deviation", "lowest", "highest"]],
        f"Differences in Recall@{k}, points, seed by seed; intervals as above.",
        decimals=1,
        text_columns=["difference"],
    )


def _cells(rows: pd.DataFrame) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "mean over seeds": intervals(rows),
            "standard deviation": rows["spread"].to_numpy(),
            "lowest": rows["lowest"].to_numpy(),
            "highest": rows["highest"].to_numpy(),
        }
    )


def in_words(values: pd.DataFrame, changes: pd.DataFrame) -> str:
    """How much the seed moves a method, and whether it turns an order of two."""
    if values.empty:
        return "No method was trained with further seeds."
    most = values.loc[values["spread"].idxmax()]
    turned = changes[(changes["lowest"] < 0) & (changes["highest"] > 0)]
    clear = changes[(changes["ci_low"] > 0) | (changes["ci_high"] < 0)]
    orders = (
        "No seed turns the order of two of these methods."
        if turned.empty
        else f"The order turns with the seed for {_pairs(turned)}."
    )
    sure = f"Seeds allowed for, clear of zero: {_pairs(clear)}." if len(clear) else "No difference is clear of zero."
    return (
        f"The seed moves {label(most['of'])} most, by a standard deviation of {number(most['spread'], 1)} points. "
        f"{orders} {sure}"
    )


def _pairs(rows: pd.DataFrame) -> str:
    return "; ".join(
        f"{label(a)} − {label(b)} {shown}" for (a, b), shown in zip(rows["of"], intervals(rows), strict=True)
    )
