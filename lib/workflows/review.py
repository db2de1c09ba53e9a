"""The review file: people judge test pairs, as the workflow paper's judges did (section 4.1).

JSON lines, a pair a line. A judge sets `decision` to keep, fix or drop and, to fix a pair, writes `request_fixed` or
`dsl_fixed` or both; an empty decision is none yet. `data/README.md` shows an example.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Annotated, Literal

import pandas as pd
from pydantic import BeforeValidator, ValidationError, model_validator

from lib.workbook.inputs import InputError, Strict, Text, describe_error, read_records
from lib.workflows.catalogue import Catalogue
from lib.workflows.language import FlowError, called_apis, parse, print_flow, validate
from lib.workflows.pairs import normal_form, pair_of, sample

OUTCOMES = ("keep", "fix", "drop", "undecided", "not in the file")

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
        fixed = bool(self.request_fixed or self.dsl_fixed)
        if self.decision == "fix" and not fixed:
            raise ValueError("decision: fix needs a request_fixed or a dsl_fixed")
        if fixed and self.decision != "fix":
            field = "request_fixed" if self.request_fixed else "dsl_fixed"
            raise ValueError(f"{field}: is there, but decision is {self.decision or 'empty'}, not fix")
        return self


def review_lines(pairs: pd.DataFrame, seed: int) -> list[str]:
    """The test pairs in a seeded order, a JSON text each, with nothing decided.

    Whoever judges the first n of them has judged a random sample.

    Args:
        pairs: columns pair, split, request, dsl.
        seed: of the order.
    """
    asked = sample(pairs, "test", len(pairs), seed)
    nothing = {"decision": "", "request_fixed": "", "dsl_fixed": ""}
    return [
        json.dumps({"id": pair, "request": request, "dsl": dsl} | nothing, ensure_ascii=False)
        for pair, request, dsl in zip(asked["pair"], asked["request"], asked["dsl"], strict=True)
    ]


def is_judged(path: str | Path) -> bool:
    """Whether somebody has worked on a review file: it decides something, or is no longer one that can be read."""
    try:
        return any(
            str(record.get(field) or "").strip()
            for _, record in read_records(path)
            for field in ("decision", "request_fixed", "dsl_fixed")
        )
    except InputError:
        return Path(path).exists()


def read_review(path: str | Path) -> pd.DataFrame:
    """What people decided, a row a line: where (file and line), and the fields of `Judged`; `dsl_fixed` is canonical.

    Raises:
        InputError: the file cannot be read or has no lines, a field is wrong, a fixed flow does not parse or calls
            nothing, or a pair is there twice; names file, line and field.
    """
    rows: list[list[str]] = []
    lines: dict[str, int] = {}
    for number, record in read_records(path):
        where = f"{path}, line {number}"
        try:
            judged = Judged.model_validate(record)
            if judged.dsl_fixed:
                flow = parse(judged.dsl_fixed)
                judged.dsl_fixed = print_flow(flow)
        except ValidationError as error:
            raise InputError(f"{where}: {_problem(error)}") from error
        except FlowError as error:
            raise InputError(f"{where}: dsl_fixed: {error}") from error
        if judged.dsl_fixed and not called_apis(flow):
            raise InputError(f"{where}: dsl_fixed: calls no API")
        if judged.id in lines:
            raise InputError(f"{where}: id: {judged.id!r} is also in line {lines[judged.id]}")
        lines[judged.id] = number
        rows.append([where, *judged.model_dump().values()])
    if not rows:
        raise InputError(f"{path}: holds no test pair")
    return pd.DataFrame(rows, columns=["where", *Judged.model_fields])


def _problem(error: ValidationError) -> str:
    """A pydantic error in words; one of the whole record begins with its field already."""
    return describe_error(error).removeprefix("record: ").removeprefix("Value error, ")


def apply_review(pairs: pd.DataFrame, review: pd.DataFrame, catalogue: Catalogue) -> tuple[pd.DataFrame, pd.DataFrame]:
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
        InputError: a line's pair is no test pair or has another request or flow by now; a fixed flow calls an API or
            has a key that the catalogue lacks, one held out of training, or a variable without value; a fixed request
            is another pair's; or no test pair is left. Names file, line and field.
    """
    tests = pairs[pairs["split"] == "test"]
    known = {pair: (request, dsl, apis) for pair, request, dsl, apis in
             zip(tests["pair"], tests["request"], tests["dsl"], tests["apis"], strict=True)}  # fmt: skip
    for line in review.itertuples():
        if line.id not in known:
            raise InputError(f"{line.where}: id: {line.id!r} is no test pair: the file was written for other pairs")
        request, dsl, apis = known[line.id]
        for field, now in (("request", request), ("dsl", dsl)):
            if getattr(line, field) != now:
                raise InputError(f"{line.where}: {field}: has changed since the file was written; it is now {now!r}")
        if line.dsl_fixed:
            _check_flow(line.where, line.dsl_fixed, apis, catalogue)
    dropped = set(review.loc[review["decision"] == "drop", "id"])
    if dropped == set(known):
        raise InputError(f"{review['where'].iloc[0].rpartition(', ')[0]}: decision: every test pair is dropped")
    fixed = review[review["decision"] == "fix"]
    result = _with_fixes(pairs[~pairs["pair"].isin(dropped)], fixed)
    _check_requests(result, fixed)
    found = Counter(review["decision"].replace("", "undecided"))
    found["not in the file"] = len(known) - len(review)
    return result, pd.DataFrame({"decision": OUTCOMES, "pairs": [found[outcome] for outcome in OUTCOMES]})


def _check_flow(where: str, dsl: str, before: list[str], catalogue: Catalogue) -> None:
    flow = parse(dsl)
    report = validate(flow, catalogue)
    problem = ""
    if report.made_up_names:
        problem = f"{report.made_up_names[0]} is no API of the catalogue"
    elif report.made_up_parameters:
        problem = "{} has no parameter {!r}".format(*report.made_up_parameters[0])
    elif report.unassigned:
        problem = f"{report.unassigned[0]} is used before it has a value"
    else:
        held = [api for api in called_apis(flow) if not catalogue[api].in_training and api not in before]
        if held:
            problem = f"{held[0]} is held out of training and test"
    if problem:
        raise InputError(f"{where}: dsl_fixed: {problem}")


def _with_fixes(pairs: pd.DataFrame, fixed: pd.DataFrame) -> pd.DataFrame:
    """The pairs with fixed requests and flows, and all that follows from them."""
    changes: dict[str, dict] = {}
    for line in fixed.itertuples():
        change = pair_of(line.id, "test", line.request_fixed or line.request, parse(line.dsl_fixed or line.dsl))
        changes[line.id] = change | {"unknown": []}
        if not line.dsl_fixed:  # what a flow calls, and what was said of it, stays as it was
            del changes[line.id]["said"], changes[line.id]["unknown"]
    names = pairs["pair"].tolist()
    columns = [column for column in pairs if any(column in change for change in changes.values())]
    new = {
        column: [changes.get(name, {}).get(column, value) for name, value in zip(names, pairs[column], strict=True)]
        for column in columns
    }
    return pairs.assign(**new)


def _check_requests(pairs: pd.DataFrame, fixed: pd.DataFrame) -> None:
    """Raises InputError where a fixed request is another pair's."""
    asked = pairs["request"].map(normal_form)
    for line in fixed[fixed["request_fixed"] != ""].itertuples():
        form = normal_form(line.request_fixed)
        if not form:
            raise InputError(f"{line.where}: request_fixed: holds no word")
        others = pairs.loc[(asked == form) & (pairs["pair"] != line.id), ["pair", "split"]]
        if len(others):
            other = others.iloc[0]
            raise InputError(
                f"{line.where}: request_fixed: {other['split']} pair {other['pair']!r} has this request already"
            )
