"""Are phrases made from OpenAPI documents any good? A sample of them, and what a reader said of it."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import pandas as pd
from pydantic import ValidationError

from lib.evaluation.inference import percent
from lib.workbook.inputs import InputError, Strict, describe_error, read_records
from lib.workflows.apis import APP, SLOT
from lib.workflows.catalogue import Catalogue

FILE = Path("data") / "readings" / "phrases.jsonl"
N_SAMPLED = 50
FRESH = 2  # the sample that was read after the rules were last changed


class PhraseReading(Strict):
    """What a reader said of one phrase beside its operation's summary.

    Attributes:
        sample: 1: what was bad in it showed which rules to mend, phrases are as they were before; 2: of other
            operations, read when the rules were done.
        api: the operation's full name.
        summary: what its document says.
        phrase: with the app's name; other slots are as in the phrase.
        good: a person could say it, and whoever hears it would take it for this operation.
        note: why not.
    """

    sample: Literal[1, 2]
    api: str
    summary: str
    phrase: str
    good: Literal["yes", "no"]
    note: str = ""


class Goodness(NamedTuple):
    """Good phrases among those read, their share and its 95% interval (Wilson), in percent."""

    good: int
    read: int
    share: float
    low: float
    high: float


def sample_phrases(
    catalogue: Catalogue, n: int = N_SAMPLED, sample: int = FRESH, without: Collection[str] = ()
) -> pd.DataFrame:
    """One phrase each of `n` operations, every second one with an ending where there is any.

    `sample` is the seed; `without`: full names of operations that are not drawn, as they were read before.

    What is drawn depends on names alone (SHA-256): rules that change give the same operations other phrases, and an
    operation that gains or loses its phrases moves one place.

    Returns:
        api, summary, phrase.
    """
    offered = [api for api in catalogue if api.phrases and api.name not in without]
    phrased = sorted(offered, key=lambda api: _number(f"{sample}:{api.name}"))[:n]
    rows = []
    for api in phrased:
        texts = (*api.phrases, *api.terse)
        drawn = f"{sample}:{api.name}"
        text = texts[_number(f"{drawn} phrase") % len(texts)]
        if api.clauses and not set(SLOT.findall(text)) - {APP} and _number(f"{drawn} ending") % 2:
            text += " " + api.clauses[_number(f"{drawn} which") % len(api.clauses)]
        called = catalogue.connectors[api.connector].called[0]
        rows.append((api.name, api.display_name, text.replace(f"{{{APP}}}", called)))
    return pd.DataFrame(rows, columns=["api", "summary", "phrase"])


def _number(name: str) -> int:
    return int(hashlib.sha256(f"phrases:{name}".encode()).hexdigest(), 16)


def read_phrase_readings(path: str | Path) -> list[PhraseReading]:
    """What a reader said, from JSON lines.

    Raises:
        InputError: a record has a wrong field, or an operation is there twice; names file, line and field.
    """
    readings: dict[str, PhraseReading] = {}
    for number, record in read_records(path):
        where = f"{path}, line {number}"
        try:
            reading = PhraseReading.model_validate(record)
        except ValidationError as error:
            raise InputError(f"{where}: {describe_error(error)}") from error
        if reading.api in readings:
            raise InputError(f"{where}: api: {reading.api!r} is there twice")
        readings[reading.api] = reading
    return list(readings.values())


def goodness(readings: Sequence[PhraseReading]) -> Goodness:
    """The share of good phrases; NaN between 0 and 100 where none was read."""
    good = sum(reading.good == "yes" for reading in readings)
    share, low, high = percent(good, len(readings))
    return Goodness(good, len(readings), float(share), float(low), float(high))


def connectors_read(readings: Iterable[PhraseReading]) -> int:
    """From how many connectors the phrases are."""
    return len({reading.api.partition(".")[0] for reading in readings})
