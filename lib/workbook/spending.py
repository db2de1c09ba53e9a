"""What a notebook spent at an endpoint, as the model that it asked recorded it (`lib.generation.remote`)."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd

from lib.workbook.display import Table

COUNTERS = ("calls", "retries", "refused", "tokens_in", "tokens_out", "cost", "cost_lost", "cost_cached")


def read_spending(path: Path) -> dict | None:
    """`COUNTERS`, the name of the model that was asked, and in `reasons` which prompts have no answer and why; None
    where nothing was recorded."""
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        return {name: record[name] for name in ("model", *COUNTERS, "reasons")}
    except (OSError, ValueError, KeyError, TypeError):
        return None


def spending_table(path: Path) -> Table:
    """The record for readers; without a row where there is none."""
    spent = read_spending(path)
    rows = [{name.replace("_", " "): spent[name] for name in ("model", *COUNTERS)}] if spent else []
    return Table(pd.DataFrame(rows), "What this run asked a model behind an endpoint, at the profile's prices.")


def money(amount: float) -> str:
    """An amount in the currency of the profile's prices: two decimals, more where it is below one."""
    return f"{amount:,.2f}" if amount >= 1 or not amount else f"{amount:.3g}"
