"""What a notebook spent at an endpoint, as the model that it asked recorded it (`lib.generation.remote`)."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd

from lib.workbook.display import Table
from lib.workbook.markup import plain

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


def spending_in_words(path: Path) -> str:
    """The record as a paragraph for readers (Markdown); empty where there is none."""
    spent = read_spending(path)
    if spent is None:
        return ""
    asked = (
        f"This run sent {spent['calls']:,} requests to {plain(spent['model'])}, {spent['retries']:,} of them repeated: "
        f"{spent['tokens_in']:,} tokens read and {spent['tokens_out']:,} written in the answers that came"
    )
    refused = refused_in_words(spent["reasons"])
    if not (spent["cost"] or spent["cost_lost"] or spent["cost_cached"]):
        return f"{asked}.{refused}"
    lost = spent["cost_lost"]
    return (
        f"{asked}, for {money(spent['cost'])}. "
        + (f"At most {money(lost)} more may be charged for requests that brought no readable answer. " if lost else "")
        + f"Answers that were kept from before saved {money(spent['cost_cached'])}.{refused}"
    )


def refused_in_words(reasons: list[dict[str, str]]) -> str:
    """How many prompts the endpoint refused for good; empty where it refused none."""
    if not reasons:
        return ""
    prompts = "1 prompt was" if len(reasons) == 1 else f"{len(reasons):,} prompts were"
    return f" {prompts} refused for good and counted as answered with nothing; `run.json` names them with the reasons."


def money(amount: float) -> str:
    """An amount in the currency of the profile's prices: two decimals, more where it is below one."""
    return f"{amount:,.2f}" if amount >= 1 or not amount else f"{amount:.3g}"
