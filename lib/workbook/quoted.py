"""Numbers that README and the front page quote: where each stands in a report's tables, and how it is written there.

`data/quoted.yaml` has them by name. What they mean is said by hand, on the front page of a report that has these very
values.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pandas as pd
from pydantic import TypeAdapter

from lib.workbook.display import interval, number
from lib.workbook.inputs import Strict, read_yaml


class Quoted(Strict):
    """A number of a result table.

    Attributes:
        where: what the columns of its row say; `max` is the highest that is there.
        columns: the value, and the ends of its interval where it is quoted with one.
    """

    table: str
    where: dict[str, str | int]
    columns: list[str] = ["value", "ci_low", "ci_high"]
    decimals: int = 1
    text: str


def read_quoted(path: str | Path) -> dict[str, Quoted]:
    """The quoted numbers of a file by name. Raises InputError, which names the field, where one is wrong."""
    return read_yaml(path, TypeAdapter(dict[str, Quoted]))


def found_in(folder: Path, quoted: Mapping[str, Quoted]) -> dict[str, str]:
    """What a folder of result tables has in place of each number, written alike; a dash where it has no such row."""
    tables = {path.stem: pd.read_csv(path) for path in folder.glob("*.csv")}
    texts = {}
    for name, one in quoted.items():
        rows = tables.get(one.table, pd.DataFrame()).reindex(columns=[*one.where, *one.columns])
        for column, wanted in one.where.items():
            rows = rows[rows[column].astype(str) == str(rows[column].max() if wanted == "max" else wanted)]
        value, *ends = rows[one.columns].iloc[0].tolist() if len(rows) else [float("nan")]
        texts[name] = interval(value, *ends, decimals=one.decimals) if ends else number(value, one.decimals)
    return texts
