"""What two readers said of a sample of queries: can each be understood, and are its labels right?

A reader saw what a method sees and first answered blind. Only then came a proposal, which was the label or, in a sixth
of the cases, wrong on purpose.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd
from pydantic import ValidationError
from sklearn.metrics import cohen_kappa_score

from lib.evaluation.inference import percent
from lib.workbook.inputs import InputError, Strict, describe_error, read_records

FOLDER = Path("data") / "readings"
Foil = Literal["other", "api", "argument", "items"]
QUESTIONS = {
    "understood": "before the label is shown: the query has one best reading",
    "clear": "the query is natural and can be understood",
    "items_right": "the label's items have to do with it, the best among them",
    "api_right": "the label's call does what is asked",
    "arguments_right": "the label's arguments are right",
    "another": "another call would serve as well",
}
Answer = Literal["yes", "no"]
Graded = Literal["yes", "partly", "no"]


class Reading(Strict):
    """What a reader said of a query.

    Attributes:
        reader: who.
        query: its id.
        label: of the query and its label (`label_hashes`): a reading is of no other.
        proposed: `label`, or the kind of foil that was proposed.
        understood, items, plan: answered blind; items by id, the best first.
        items_right, api_right, arguments_right, another, clear: judged of the proposal.
        note: why.
    """

    reader: str
    query: str
    label: str
    proposed: Literal["label"] | Foil
    understood: Graded
    items: list[str]
    plan: str
    items_right: Graded
    api_right: Answer
    arguments_right: Answer
    another: Answer
    clear: Answer
    note: str = ""


def label_hashes(queries: pd.DataFrame, gold: pd.DataFrame) -> pd.Series:
    """A hash of what was asked and of its label, by query: whether a reading is still of this one.

    Args:
        queries: columns query, text, time, place.
        gold: columns query, relevant, plan.
    """
    rows = queries[["query", "text", "time", "place"]].merge(gold[["query", "relevant", "plan"]], on="query")
    hashes = [
        hashlib.sha256(json.dumps([text, time.isoformat(), place, sorted(relevant), plan]).encode()).hexdigest()[:16]
        for text, time, place, relevant, plan in rows.drop(columns="query").itertuples(index=False)
    ]
    return pd.Series(hashes, index=pd.Index(rows["query"], name="query"))


def read_readings(paths: Sequence[Path]) -> pd.DataFrame:
    """The readings of several files of JSON lines, a column for each field of `Reading`.

    Raises:
        InputError: a file cannot be read or a line is wrong; names file, line and field.
    """
    rows = []
    for path in paths:
        for number, record in read_records(path):
            try:
                rows.append(Reading.model_validate(record).model_dump())
            except ValidationError as error:
                raise InputError(f"{path}, line {number}: {describe_error(error)}") from error
    frame = pd.DataFrame(rows, columns=list(Reading.model_fields))
    if twice := frame[frame.duplicated(["reader", "query"])]["query"].tolist():
        raise InputError(f"a reader judged query {twice[0]} twice")
    return frame


def of_this_world(readings: pd.DataFrame, queries: pd.DataFrame, gold: pd.DataFrame) -> pd.DataFrame:
    """The readings of queries that are still asked, and labelled, as they were when they were read."""
    now = label_hashes(queries, gold)
    return readings[readings["query"].map(now) == readings["label"]]


def judgements(readings: pd.DataFrame) -> pd.DataFrame:
    """What readers said of the labels, a row a question and reader, and how far two readers agree, a row a question.

    Args:
        readings: see `read_readings`; foils are left out.

    Returns:
        columns question, reader (a name, or `agreement`), percent (of `yes`, or of the queries on which both said the
        same) with its interval (Wilson; ci_low, ci_high), kappa (Cohen's; in rows of agreement, NaN where both always
        gave one same answer), n (queries).
    """
    labels, rows = readings[readings["proposed"] == "label"], []
    for question in QUESTIONS:
        said = labels.pivot(index="query", columns="reader", values=question)
        for reader in said:
            given = said[reader].dropna()
            rows.append((question, reader, *percent((given == "yes").sum(), len(given)), np.nan, len(given)))
        both = said.dropna()
        if said.shape[1] == 2 and len(both):
            first, second = (both[reader] for reader in said)
            same = percent((first == second).sum(), len(both))
            constant = len(set(first) | set(second)) == 1
            kappa = np.nan if constant else float(cohen_kappa_score(first, second))
            rows.append((question, "agreement", *same, kappa, len(both)))
    return pd.DataFrame(rows, columns=["question", "reader", "percent", "ci_low", "ci_high", "kappa", "n"])
