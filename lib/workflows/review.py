"""The review file: people judge test pairs, as the workflow paper's judges did (section 4.1).

JSON lines, a pair a line. A judge sets `decision` to keep, fix or drop and, to fix a pair, writes `request_fixed` or
`dsl_fixed` or both; an empty decision is none yet. `data/README.md` shows an example.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, Literal

import pandas as pd
from pydantic import StringConstraints

from lib.workbook.inputs import InputError, Strict, Text, read_records, validated
from lib.workflows.catalogue import Catalogue
from lib.workflows.language import FlowError, called_apis, parse, validate
from lib.workflows.pairs import normal_form, pair_of, sample

NOTHING = {"decision": "", "request_fixed": "", "dsl_fixed": ""}
Fixed = Annotated[str, StringConstraints(strip_whitespace=True)]


class Judged(Strict):
    """A line of the review file."""

    id: Text
    request: str
    dsl: str
    decision: Literal["", "keep", "fix", "drop"] = ""
    request_fixed: Fixed = ""
    dsl_fixed: Fixed = ""


def review_lines(pairs: pd.DataFrame, seed: int) -> list[str]:
    """The test pairs in a seeded order, a JSON text each, with nothing decided.

    Whoever judges the first n of them has judged a random sample.

    Args:
        pairs: columns pair, split, request, dsl.
        seed: of the order.
    """
    asked = sample(pairs, "test", len(pairs), seed)[["pair", "request", "dsl"]]
    records = asked.rename(columns={"pair": "id"}).to_dict("records")
    return [json.dumps(record | NOTHING, ensure_ascii=False) for record in records]


def is_judged(path: str | Path) -> bool:
    """Whether somebody has worked on a review file: it decides something, or is no longer one that can be read."""
    try:
        return any(str(record.get(field) or "").strip() for _, record in read_records(path) for field in NOTHING)
    except InputError:
        return Path(path).exists()


def read_review(path: str | Path) -> dict[str, Judged]:
    """What people decided, by where it stands (file and line).

    Raises:
        InputError: the file cannot be read or has no lines, a field is wrong, or a pair is there twice; names file,
            line and field.
    """
    found: dict[str, Judged] = {}
    for number, record in read_records(path):
        where = f"{path}, line {number}"
        judged = validated(Judged, record, where)
        if (judged.decision == "fix") != bool(judged.request_fixed or judged.dsl_fixed):
            raise InputError(f"{where}: decision: fix and a request_fixed or a dsl_fixed go together")
        if any(judged.id == other.id for other in found.values()):
            raise InputError(f"{where}: id: {judged.id!r} is there twice")
        found[where] = judged
    if not found:
        raise InputError(f"{path}: holds no test pair")
    return found


def apply_review(
    pairs: pd.DataFrame, review: dict[str, Judged], catalogue: Catalogue
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The pairs as people want them: test pairs dropped and fixed.

    Args:
        pairs: as `lib.workflows.generating.generate` or `lib.workflows.pairs.read_pairs` returns them; the same that
            the file was written from.
        review: as `read_review` returns it.
        catalogue: what a fixed flow may call.

    Returns:
        The pairs in their order; and decision, pairs: how many test pairs were kept, fixed and dropped, are still
        undecided, and not in the file.

    Raises:
        InputError: a line's pair is no test pair or has another request or flow by now; a fixed flow does not parse,
            calls nothing, is not of the catalogue, or uses an API held out of training; a fixed request is another
            pair's; or no test pair is left. Names file, line and field.
    """
    known = pairs[pairs["split"] == "test"].set_index("pair")
    changes: dict[str, dict[str, Any]] = {}
    for where, line in review.items():
        if line.id not in known.index:
            raise InputError(f"{where}: id: {line.id!r} is no test pair: the file was written for other pairs")
        for field in ("request", "dsl"):
            if getattr(line, field) != (now := known.loc[line.id, field]):
                raise InputError(f"{where}: {field}: has changed since the file was written; it is now {now!r}")
        if line.dsl_fixed:
            changes[line.id] = _with_flow(line, known.loc[line.id, "apis"], where, catalogue)
        elif line.request_fixed:
            changes[line.id] = {"request": line.request_fixed}
    dropped = {line.id for line in review.values() if line.decision == "drop"}
    if dropped == set(known.index):
        raise InputError(f"{next(iter(review)).rpartition(', ')[0]}: decision: every test pair is dropped")
    kept = [row | changes.get(row["pair"], {}) for row in pairs.to_dict("records") if row["pair"] not in dropped]
    result = pd.DataFrame(kept, columns=pairs.columns)
    forms = result["request"].map(normal_form)
    for where, line in review.items():
        if line.request_fixed and (forms == normal_form(line.request_fixed)).sum() > 1:
            raise InputError(f"{where}: request_fixed: another pair has this request already")
    found = pd.Series([line.decision or "undecided" for line in review.values()]).value_counts()
    found["not in the file"] = len(known) - len(review)
    found = found.reindex(["keep", "fix", "drop", "undecided", "not in the file"], fill_value=0)
    return result, found.rename_axis("decision").reset_index(name="pairs")


def _with_flow(line: Judged, before: list[str], where: str, catalogue: Catalogue) -> dict[str, Any]:
    """A test pair with its fixed flow, and all that follows from it."""
    try:
        flow = parse(line.dsl_fixed)
    except FlowError as error:
        raise InputError(f"{where}: dsl_fixed: {error}") from error
    report, apis = validate(flow, catalogue), called_apis(flow)
    held = [api for api in apis if api in catalogue and not catalogue[api].in_training and api not in before]
    for strange in (report.made_up_names, report.made_up_parameters, report.unassigned, held):
        if strange:
            raise InputError(f"{where}: dsl_fixed: {strange[0]!r} is not in the catalogue, held out, or has no value")
    if not apis:
        raise InputError(f"{where}: dsl_fixed: calls no API")
    return pair_of(line.id, "test", line.request_fixed or line.request, flow)
