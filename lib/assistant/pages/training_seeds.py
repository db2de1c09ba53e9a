"""What a further seed of training changes: on pages 05 and 07."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from lib.assistant.pages.common import intervals, ranker_name
from lib.workbook.display import Table, number


def table(values: pd.DataFrame, names: Mapping[str, str], what: str, row: str = "method") -> Table:
    """Each method, or each setting, over the seeds (see `lib.evaluation.over_seeds`).

    Args:
        names: other names than `lib.workbook.methods.label`'s.
        what: is measured, in percent.
        row: what a row is.
    """
    frame = _cells(values).assign(**{row: [ranker_name(name, names) for name in values["of"]]})
    return Table(
        frame[[row, "mean over seeds", "standard deviation", "lowest", "highest"]],
        f"{what} in percent of {values['n'].max()} evaluation queries over {values['seeds'].max()} training seeds. "
        "The interval (95%) allows for other queries and for other seeds.",
        decimals=1,
    )


def changes_table(changes: pd.DataFrame, names: Mapping[str, str], what: str) -> Table:
    """Differences over the seeds; arguments as for `table`."""
    frame = _cells(changes).assign(difference=_pair_names(changes, names))
    return Table(
        frame[["difference", "mean over seeds", "standard deviation", "lowest", "highest"]],
        f"Differences in {what}, points, seed by seed; intervals as above.",
        decimals=1,
        text_columns=["difference"],
    )


def _pair_names(rows: pd.DataFrame, names: Mapping[str, str]) -> list[str]:
    return [" − ".join(ranker_name(name, names) for name in pair) for pair in rows["of"]]


def _cells(rows: pd.DataFrame) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "mean over seeds": intervals(rows),
            "standard deviation": rows["spread"].to_numpy(),
            "lowest": rows["lowest"].to_numpy(),
            "highest": rows["highest"].to_numpy(),
        }
    )


def in_words(values: pd.DataFrame, changes: pd.DataFrame, names: Mapping[str, str], rows: str = "methods") -> str:
    """How much the seed moves a method, and whether it turns an order of two; arguments as for `table`."""
    if values.empty:
        return "No method was trained with further seeds."
    most = values.loc[values["spread"].idxmax()]
    turned = changes[(changes["lowest"] < 0) & (changes["highest"] > 0)]
    clear = changes[(changes["ci_low"] > 0) | (changes["ci_high"] < 0)]
    orders = (
        "No seed turns the sign of one of these differences."
        if turned.empty
        else f"The sign turns with the seed for {_pairs(turned, names)}."
    )
    sure = (
        f"Seeds allowed for, clear of zero: {_pairs(clear, names)}."
        if len(clear)
        else "No difference is clear of zero."
    )
    return (
        f"{orders} {sure} The seed moves {ranker_name(most['of'], names)} most, by a standard deviation of "
        f"{number(most['spread'], 1)} points."
    )


def _pairs(rows: pd.DataFrame, names: Mapping[str, str]) -> str:
    return "; ".join(f"{name} {shown}" for name, shown in zip(_pair_names(rows, names), intervals(rows), strict=True))
