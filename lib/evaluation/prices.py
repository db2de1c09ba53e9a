"""List prices of language models, and what so many tokens would cost at them."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from datetime import date
from pathlib import Path

import numpy as np
import pandas as pd
from pydantic import Field, ValidationError

from lib.evaluation.pareto import with_fronts
from lib.workbook.inputs import InputError, Strict, Text, describe_error, did_you_mean, read_text

COSTS = ("seconds", "tokens", "dollars")
REQUESTS = 1000  # amounts are of so many requests
COLUMNS = ["model", "input", "output", "since", "source"]


class Price(Strict):
    """A model's list price.

    Attributes:
        input, output: US dollars for a million tokens read and written.
        since: the first day of this price.
        source: where it is published, and what was seen there.
    """

    model: Text
    input: float = Field(ge=0, allow_inf_nan=False)
    output: float = Field(ge=0, allow_inf_nan=False)
    since: date
    source: Text


def read_prices(path: str | Path) -> dict[str, Price]:
    """The prices of `data/prices.csv` by model, in the file's order; lines that begin with # are remarks.

    Raises:
        InputError: the file cannot be read, has other columns, no price, a model twice, or a value that is none; names
            the file, the record and the field.
    """
    lines = [line for line in read_text(path).splitlines() if line.strip() and not line.startswith("#")]
    reader = csv.DictReader(io.StringIO("\n".join(lines)), restkey="more")
    if reader.fieldnames != COLUMNS:
        raise InputError(f"{path}: columns: must be {', '.join(COLUMNS)}")
    prices: dict[str, Price] = {}
    for number, row in enumerate(reader, start=1):
        try:
            price = Price.model_validate(row)
        except ValidationError as error:
            raise InputError(f"{path}: record {number}: {describe_error(error)}") from error
        if price.model in prices:
            raise InputError(f"{path}: record {number}: model: {price.model} stands twice")
        prices[price.model] = price
    if not prices:
        raise InputError(f"{path}: has no price")
    return prices


def price_of(model: str, prices: Mapping[str, Price]) -> Price:
    """The price of a model; InputError names those there are where it has none."""
    if model not in prices:
        there = ", ".join(prices)
        raise InputError(f"data/prices.csv has no model {model!r}{did_you_mean(model, prices)} (there are: {there})")
    return prices[model]


def dollars(tokens_in: pd.Series | np.ndarray, tokens_out: pd.Series | np.ndarray, price: Price) -> np.ndarray:
    """What `REQUESTS` requests would cost in US dollars at a list price: whoever read and wrote the tokens, and however
    the model of this price would cut the text.

    Args:
        tokens_in, tokens_out: (n,) read and written for one request.
    """
    read, written = np.asarray(tokens_in, float), np.asarray(tokens_out, float)
    return REQUESTS * (read * price.input + written * price.output) / 1e6


def with_costs(
    points: pd.DataFrame,
    price: Price,
    apart: pd.Series | None = None,
    shared: Mapping[str, pd.DataFrame] | None = None,
) -> pd.DataFrame:
    """Points with tokens, dollars (for `REQUESTS` requests) and the fronts of their row.

    Args:
        points: columns row, value, seconds, tokens_in, tokens_out; with `shared` condition, too.
        apart: bool, which points are on no front and keep no other off.
        shared: of a row whose conditions were not all asked the same requests, by condition (see
            `lib.evaluation.pareto.shared_quality`): they are compared two and two on what both were asked.

    Returns:
        `points` by row, with tokens, dollars, and `front_<cost>` (see `lib.evaluation.pareto.with_fronts`) for each of
        `COSTS`, by costs of two significant digits, as they are printed: a hundredth of a token puts nothing ahead.
    """
    table = points.assign(
        tokens=points["tokens_in"] + points["tokens_out"],
        dollars=dollars(points["tokens_in"], points["tokens_out"], price),
    )
    table["compared"] = table["value"] if apart is None else table["value"].mask(apart)
    parts = []
    for row, part in table.groupby("row", sort=False):
        quality: str | np.ndarray = "compared"
        if shared and row in shared:
            names = part["condition"].tolist()
            quality = shared[str(row)].loc[names, names].to_numpy()
        fronts = with_fronts(part.assign(**{cost: part[cost].map(_rounded) for cost in COSTS}), COSTS, quality)
        parts.append(fronts.assign(**{cost: part[cost] for cost in COSTS}))
    return pd.concat(parts, ignore_index=True).drop(columns="compared")


def _rounded(cost: float) -> float:
    """To two significant digits."""
    return float(f"{cost:.2g}")


def cost_columns(points: pd.DataFrame, prices: Mapping[str, Price], decimals: int = 0) -> pd.DataFrame:
    """What readers see of the costs of points: seconds, tokens, a column of money a price, and the fronts.

    Args:
        points: of `with_costs`.
        decimals: of tokens.
    """
    shown = {
        "seconds": [_short(value) for value in points["seconds"]],
        "tokens read": points["tokens_in"].round(decimals),
        "tokens written": points["tokens_out"].round(decimals),
    }
    for name, price in prices.items():
        amounts = dollars(points["tokens_in"], points["tokens_out"], price)
        shown[f"US dollars, {name}"] = [_short(value) for value in amounts]
    flags = zip(*(points[f"front_{cost}"] for cost in COSTS), strict=True)
    shown["on the front of"] = [", ".join(cost for cost, on in zip(COSTS, row, strict=True) if on) for row in flags]
    return pd.DataFrame(shown, index=points.index)


def _short(value: float) -> str:
    """Two significant digits, whole numbers from ten on."""
    if np.isnan(value):
        return "–"
    return f"{value:.2g}" if 0 < value < 10 else f"{value:,.0f}"
