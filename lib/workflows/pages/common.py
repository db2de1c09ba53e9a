"""What the pages of notebooks 08 and 09 share: the metrics' names, numbers with their intervals, groups of requests."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd

from lib.evaluation.inference import settled
from lib.workbook.cases import case_address
from lib.workbook.display import interval, p_text
from lib.workflows.ablation import DELTAS
from lib.workflows.scoring import PERCENT

VALUES = ["value", "ci_low", "ci_high"]
METRIC = {
    "similarity": "similarity",
    "executed": "executed right, %",
    "unparsed": "unparsed, %",
    "made_up_names": "made-up names, %",
    "made_up_parameters": "made-up parameters, %",
    "valid": "valid, %",
}
DIGITS = {metric: 0 if metric in PERCENT else 2 for metric in METRIC}
TEST_SETS = {"test": "new wordings", "test_same": "known wordings", "unseen": "APIs held out of training"}
SETTLED = "●"  # after a difference whose interval lies beside 0


def intervals(table: pd.DataFrame, columns: Sequence[str] = VALUES, decimals: int = 2) -> list[str]:
    """`0.42 [0.31, 0.53]` for each row; `columns` names the value and the ends of its interval."""
    return [interval(value, low, high, decimals) for value, low, high in table[list(columns)].to_numpy()]


def metric_intervals(table: pd.DataFrame, columns: Sequence[str] = VALUES) -> list[str]:
    """As `intervals`, each row with its metric's decimals (column metric)."""
    numbers = table[list(columns)].to_numpy()
    rows = zip(table["metric"], numbers, strict=True)
    return [interval(value, low, high, DIGITS[metric]) for metric, (value, low, high) in rows]


def p_values(values: Iterable[float], decimals: int = 3) -> list[str]:
    return [p_text(p, decimals) for p in values]


def settled_deltas(compared: pd.DataFrame) -> pd.Series:
    """`lib.evaluation.inference.settled` of `DELTAS`."""
    return settled(compared, *DELTAS[1:])


def wide_by_metric(table: pd.DataFrame, rows: str, texts: Sequence[str]) -> pd.DataFrame:
    """Texts as a table for readers: one row for each value of the column `rows`, in order of appearance, and one column
    a metric."""
    wide = table.assign(text=list(texts)).pivot(index=rows, columns="metric", values="text")
    known = [metric for metric in METRIC if metric in wide]
    return wide.loc[list(dict.fromkeys(table[rows])), known].rename(columns=METRIC)


def wide_by_set(table: pd.DataFrame, rows: str, texts: Sequence[str], flows: Sequence[str]) -> pd.DataFrame:
    """Texts as a table for readers: one row for each value of the column `rows`, in order of appearance, and for each
    test set a group of columns: the flows, then one a metric.

    Args:
        texts, flows: of each row of `table`.
    """
    table, order = table.assign(text=list(texts), flows=list(flows)), list(dict.fromkeys(table[rows]))
    columns = {}
    for test_set, part in table.groupby("test_set", sort=False):
        wide = part.pivot(index=rows, columns="metric", values="text").reindex(order)
        columns[TEST_SETS[test_set], "flows"] = part.groupby(rows)["flows"].first().reindex(order)
        columns |= {(TEST_SETS[test_set], METRIC[metric]): wide[metric] for metric in METRIC if metric in wide}
    return pd.DataFrame(columns, index=pd.Index(order, name=rows))


def condition_cases(table: pd.DataFrame, rows: str = "condition") -> dict[tuple[str, str], list[str]]:
    """The addresses of the flows behind the numbers of `wide_by_set`, where its rows are conditions."""
    order = list(dict.fromkeys(table[rows]))
    found: dict[tuple[str, str], list[str]] = {}
    for test_set, part in table.groupby("test_set", sort=False):
        own = set(part[rows])
        addresses = [case_address("flows", set=test_set, condition=name) if name in own else "" for name in order]
        names = [METRIC[metric] for metric in METRIC if metric in set(part["metric"])]
        found |= {(TEST_SETS[test_set], name): addresses for name in ("flows", *names)}
    return found


def error_bars(table: pd.DataFrame, columns: Sequence[str] = VALUES) -> np.ndarray:
    """How far the interval reaches below and above each value, (2, rows), as matplotlib's `errorbar` takes it."""
    value, *ends = (table[column].to_numpy(float) for column in columns)
    return np.abs(np.array(ends) - value)
