"""List prices of language models, and what so many tokens would cost at them."""

from __future__ import annotations

import csv
import io
from datetime import date
from pathlib import Path

import numpy as np
import pandas as pd
from pydantic import Field, ValidationError

from lib.workbook.inputs import InputError, Strict, Text, describe_error, read_text

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


def dollars(tokens_in: pd.Series | np.ndarray, tokens_out: pd.Series | np.ndarray, price: Price) -> np.ndarray:
    """What `REQUESTS` requests would cost in US dollars at a list price: whoever read and wrote the tokens, and however
    the model of this price would cut the text.

    Args:
        tokens_in, tokens_out: (n,) read and written for one request.
    """
    read, written = np.asarray(tokens_in, float), np.asarray(tokens_out, float)
    return REQUESTS * (read * price.input + written * price.output) / 1e6
