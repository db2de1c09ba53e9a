"""The review file: people judge test pairs, as the workflow paper's judges did (section 4.1).

JSON lines, a pair a line. A judge sets `decision` to keep, fix or drop and, to fix a pair, writes `request_fixed` or
`dsl_fixed` or both; an empty decision is none yet. `data/README.md` shows an example.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Annotated, Any, Literal

import pandas as pd
from pydantic import BeforeValidator, ValidationError, model_validator

from lib.workbook.inputs import InputError, Strict, Text, describe_error, read_records
from lib.workflows.catalogue import Catalogue
from lib.workflows.language import FlowError, called_apis, parse, validate
from lib.workflows.pairs import normal_form, pair_of, sample

OUTCOMES = ("keep", "fix", "drop", "undecided", "not in the file")
NOTHING = {"decision": "", "request_fixed": "", "dsl_fixed": ""}

Decision = Annotated[
    Literal["", "keep", "fix", "drop"],
    BeforeValidator(lambda value: value.strip().lower() if isinstance(value, str) else value),
]
Fixed = Annotated[str, BeforeValidator(lambda value: value.strip() if isinstance(value, str) else value)]


class Judged(Strict):
    """A line of the review file."""

    id: Text
    request: str
    dsl: str
    decision: Decision = ""
    request_fixed: Fixed = ""
    dsl_fixed: Fixed = ""

    @model_validator(mode="after")
    def _fixed_where_it_says_so(self) -> Judged:
        field = "request_fixed" if self.request_fixed else "dsl_fixed" if self.dsl_fixed else ""
        if self.decision == "fix" and not field:
            raise ValueError("decision: fix needs a request_fixed or a dsl_fixed")
        if field and self.decision != "fix":
            raise ValueError(f"{field}: is there, but decision is {self.decision or 'empty'}, not fix")
        return self


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
    lines: dict[str, int] = {}
    for number, record in read_records(path):
        where = f"{path}, line {number}"
        try:
            judged = Judged.model_validate(record)
        except ValidationError as error:
            problem = describe_error(error).removeprefix("record: ").removeprefix("Value error, ")
            raise InputError(f"{where}: {problem}") from error
        if judged.id in lines:
            raise InputError(f"{where}: id: {judged.id!r} is also in line {lines[judged.id]}")
        lines[judged.id], found[where] = number, judged
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
        The pairs in their order, and decision, pairs: how many test pairs were kept, fixed and dropped, are still
        undecided, and are not in the file.

        What is known of an old wording (frame, wordings, quoted) is emptied where a pair was fixed.

    Raises:
        InputError: a line's pair is no test pair or has another request or flow by now; a fixed flow does not parse,
            calls nothing, calls an API or has a key that the catalogue lacks, one held out of training, or a variable
            without value; a fixed request is another pair's; or no test pair is left. Names file, line and field.
    """
    known = pairs[pairs["split"] == "test"].set_index("pair")
    changes: dict[str, dict[str, Any]] = {}
    for where, line in review.items():
        if line.id not in known.index:
            raise InputError(f"{where}: id: {line.id!r} is no test pair: the file was written for other pairs")
        now = known.loc[line.id]
        for field in ("request", "dsl"):
            if getattr(line, field) != now[field]:
                raise InputError(f"{where}: {field}: has changed since the file was written; it is now {now[field]!r}")
        if line.decision == "fix":
            changes[line.id] = _changed(line, now["apis"], where, catalogue)
    dropped = {line.id for line in review.values() if line.decision == "drop"}
    if dropped == set(known.index):
        raise InputError(f"{next(iter(review)).rpartition(', ')[0]}: decision: every test pair is dropped")
    result = pairs[~pairs["pair"].isin(dropped)]
    for column in {column for change in changes.values() for column in change} & set(pairs):
        kept = zip(result["pair"], result[column], strict=True)
        result = result.assign(**{column: [changes.get(name, {}).get(column, value) for name, value in kept]})
    _check_requests(result, review)
    found: Counter[str] = Counter(line.decision or "undecided" for line in review.values())
    found["not in the file"] = len(known) - len(review)
    return result, pd.DataFrame({"decision": OUTCOMES, "pairs": [found[outcome] for outcome in OUTCOMES]})


def _changed(line: Judged, before: list[str], where: str, catalogue: Catalogue) -> dict[str, Any]:
    """What a fixed request or flow changes, and all that follows from it."""
    try:
        flow = parse(line.dsl_fixed or line.dsl)
    except FlowError as error:
        raise InputError(f"{where}: dsl_fixed: {error}") from error
    report, apis = validate(flow, catalogue), called_apis(flow)
    held = [api for api in apis if api in catalogue and not catalogue[api].in_training and api not in before]
    problems = [
        *["calls no API"] * (not apis),
        *(f"{name} is no API of the catalogue" for name in report.made_up_names),
        *("{} has no parameter {!r}".format(*made_up) for made_up in report.made_up_parameters),
        *(f"{name} is used before it has a value" for name in report.unassigned),
        *(f"{name} is held out of training and test" for name in held),
    ]
    if line.dsl_fixed and problems:
        raise InputError(f"{where}: dsl_fixed: {problems[0]}")
    change = pair_of(line.id, "test", line.request_fixed or line.request, flow)
    if not line.dsl_fixed:  # what a flow calls, and what was said of it, stays as it was
        return {name: value for name, value in change.items() if name != "said"}
    return change | {"unknown": []}


def _check_requests(pairs: pd.DataFrame, review: dict[str, Judged]) -> None:
    """Raises InputError where a fixed request is another pair's."""
    asked = pairs["request"].map(normal_form)
    for where, line in review.items():
        form = normal_form(line.request_fixed)
        if line.request_fixed and not form:
            raise InputError(f"{where}: request_fixed: holds no word")
        others = pairs.loc[(asked == form) & (pairs["pair"] != line.id), ["pair", "split"]]
        if line.request_fixed and len(others):
            split, other = others["split"].iloc[0], others["pair"].iloc[0]
            raise InputError(f"{where}: request_fixed: {split} pair {other!r} has this request already")
