"""Plans: API calls as text, parsed without evaluating anything, and judged against gold answers.

A plan is one or several calls with keyword arguments, `api(name="value", count=3)`, one a line, separated by `;`, or
in a list as the prompts of the Berkeley function-calling leaderboard ask for them: `[a(x=1), b(y=2)]`.
"""

from __future__ import annotations

import ast
import itertools
import keyword
import math
import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from pydantic import TypeAdapter, ValidationError
from scipy.optimize import linear_sum_assignment

from lib.assistant.toolbox import json_types
from lib.workbook.inputs import SURROGATE, InputError, describe_error, one_line, parse_json

MAX_CHARACTERS = 20_000  # ast.parse takes at most 50 ms for a text of this length, whatever it says
MAX_DEPTH = 32  # of lists and dicts in a value
MAX_INTEGER_BITS = 1024  # as far as floats reach
MAY_BE_LEFT_OUT = ""
# Why a plan fails, in a reader's words, in the order in which causes are looked for.
CAUSES: dict[str, str] = {
    "unparsed": "unparsed",
    "wrong_number_of_calls": "one call too many or too few",
    "wrong_api": "wrong API",
    "missing_argument": "argument missing",
    "extra_argument": "argument too many",
    "wrong_type": "argument of wrong type",
    "wrong_value": "argument with wrong value",
}

PlannedCall = tuple[str, dict[str, object]]
GoldAnswers = list[dict[str, dict[str, list]]]
_ANSWERS = TypeAdapter(GoldAnswers)


class PlanError(ValueError):
    """A text that is no plan."""


@dataclass(frozen=True)
class Match:
    """Whether a plan is right: true in a condition if it is; otherwise `category` (of `CAUSES`) and `sentence` say why
    not."""

    category: str | None = None
    sentence: str = ""

    def __bool__(self) -> bool:
        return self.category is None


class RightPlan(NamedTuple):
    """A plan that serves a query: the names of its APIs, one a call, its text, its answers in the Berkeley format."""

    apis: Sequence[str]
    plan: str
    answers: str


# ---------------------------------------------------------------- parsing


def parse_plan(text: str) -> list[PlannedCall]:
    """The calls of a plan as (API, {argument: value}), in order.

    Values are texts, finite numbers, True, False, None, and lists and dicts (with texts as keys) of them; a tuple is
    read as a list. Names of APIs and arguments need not be Python's: `sign-in`, `admin/list`, `from`, `$top`. As the
    Berkeley leaderboard's decoding does, fences of code are passed over. JSON's `true`, `false` and `null` are names,
    not literals, hence no plan (the leaderboard reads them as the texts "true", "false" and "null", which are no
    booleans either), and so are unquoted texts. Nothing is ever evaluated.

    Raises:
        PlanError: the text is anything else, longer than `MAX_CHARACTERS` or nested deeper than `MAX_DEPTH`.
    """
    if len(text) > MAX_CHARACTERS:
        raise PlanError(f"{len(text):,} characters, more than {MAX_CHARACTERS:,}")
    # A text in triple quotes keeps its indentation.
    lines = "\n".join(line.strip() for line in text.split("\n")) if not _TRIPLE.search(text) else text.strip()
    try:
        return _calls(lines, {})
    except PlanError as error:
        spelled: dict[str, str] = {}
        unfenced = _FENCE.sub(lambda match: match[1] or "", lines)
        respelled = _NAME.sub(lambda match: _as_python(match, spelled), unfenced.strip("` \n"))
        if respelled == lines:
            raise
        try:
            return _calls(respelled, spelled)
        except PlanError:
            raise error from None


_TRIPLE = re.compile("\"{3}|'{3}")
_STRING = r'"(?:\\.|[^"\\\n])*(?:"|\\?$)|\'(?:\\.|[^\'\\\n])*(?:\'|\\?$)'
_LONG = r'(?s:"{3}.*?"{3}|\'{3}.*?\'{3})'
# A line of its own; texts are consumed whole.
_FENCE = re.compile(rf"({_LONG}|{_STRING})|^[ \t]*```[^`(\n]*$", re.MULTILINE)
_WORD = r"[^\s()\[\]{},;='\"]++"
# A name before a parenthesis or an equals sign. Texts and other words are consumed whole: the scan takes linear time.
_NAME = re.compile(rf"{_LONG}|{_STRING}|(?P<name>{_WORD})(?=\s*+(?:\(|(?P<argument>=)(?!=)))|{_WORD}", re.MULTILINE)
_API = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*")


def _as_python(match: re.Match, spelled: dict[str, str]) -> str:
    """A name that Python would not take as another one, under which it is kept in `spelled`."""
    name = match["name"]
    parts = [name] if match["argument"] else (name or "").split(".")
    if (
        not name
        or not re.search(r"[^\W\d]", name)
        or all(part.isidentifier() and not keyword.iskeyword(part) for part in parts)
    ):
        return match[0]
    spelled[f"name_{len(spelled)}_"] = name
    return f"name_{len(spelled) - 1}_"


def _calls(text: str, spelled: dict[str, str]) -> list[PlannedCall]:
    """The calls of a text in Python's grammar; `spelled`: names that stand for others."""
    calls: list[PlannedCall] = []
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # odd escapes in a model's texts are no matter of ours
            statements = ast.parse(text).body
        nodes = [statement.value if isinstance(statement, ast.Expr) else statement for statement in statements]
        listed = [node.elts if isinstance(node, ast.List | ast.Tuple) else [node] for node in nodes]
        for node in itertools.chain(*listed):
            if not isinstance(node, ast.Call):
                raise PlanError(f"{type(node).__name__} is no call")
            name = ast.unparse(node.func)
            if not _API.fullmatch(name):
                raise PlanError(f"{one_line(repr(name), 100)} is no name of an API")
            if node.args:
                raise PlanError(f"{name}: arguments must be named")
            arguments: dict[str, object] = {}
            for word in node.keywords:
                argument = spelled.get(word.arg or "", word.arg)
                if argument is None or argument in arguments:
                    raise PlanError(f"{name}: {'star argument' if argument is None else f'{argument} is given twice'}")
                arguments[argument] = _value(ast.literal_eval(word.value))
            calls.append((spelled.get(name, name), arguments))
    except PlanError:
        raise
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError) as error:
        raise PlanError(f"{one_line(repr(text), 100)} does not parse") from error
    if not calls:
        raise PlanError("no call")
    return calls


def _value(literal: object, depth: int = 0) -> object:
    """A literal as JSON could say it, lists for tuples."""
    if depth > MAX_DEPTH:
        raise PlanError(f"nested deeper than {MAX_DEPTH}")
    if isinstance(literal, list | tuple):
        return [_value(part, depth + 1) for part in literal]
    if isinstance(literal, dict) and all(isinstance(key, str) for key in literal):
        return {_value(key): _value(part, depth + 1) for key, part in literal.items()}
    if not isinstance(literal, str | bool | int | float | None):
        raise PlanError(f"a {type(literal).__name__} is no value of an argument")
    if isinstance(literal, str) and SURROGATE.search(literal):
        raise PlanError("half a surrogate pair is no character")
    if literal in (math.inf, -math.inf) or (isinstance(literal, int) and literal.bit_length() > MAX_INTEGER_BITS):
        raise PlanError("number out of range")
    return literal


# Quoted texts and words are consumed whole, also those that call nothing, so that the scan takes linear time.
_CALLED = re.compile(
    rf"{_STRING}|(?:\d+\.|[.-])*+(?P<name>(?=[\d./:$@-]*+[^\W\d])[\w./:$@-]++)(?=\()|[\w./:$@-]++'?", re.MULTILINE
)


def api_names(text: str) -> list[str]:
    """Names of the APIs that a text calls, in order, also where it is truncated or does not parse.

    In a text that does not parse, a call is a name directly before an opening parenthesis, outside quoted texts, among
    the first `MAX_CHARACTERS` characters.
    """
    try:
        return [name for name, _ in parse_plan(text)]
    except PlanError:
        return [match["name"] for match in _CALLED.finditer(text[:MAX_CHARACTERS]) if match["name"]]


# ---------------------------------------------------------------- comparing


def ast_match(predicted: str, answers: str | GoldAnswers, functions: Sequence[dict]) -> Match:
    """Whether a plan is right, by the rules of the Berkeley function-calling leaderboard.

    The same API; every required argument; no argument that the function or the answer lacks; others may be left out
    where the answer says so. Types are strict (a bool is no integer), except that an integer will do for a float; a
    type that the answer itself has is always right. Texts are compared without case, spaces and `, . / - _ * ^`, and
    single quotes as double ones; lists in order; dicts by key. Calls may come in any order: they are matched so that as
    many as possible are right.

    Deviations from the leaderboard's code: the best matching instead of a greedy one; nested values are compared like
    outer ones, at any depth, and integers will do for floats inside lists too; True is never equal to 1.

    Args:
        predicted: the plan's text.
        answers: `[{api: {argument: [acceptable values]}}]`, one record a call, as list or as JSON text; "" among the
            values says that the argument may be left out. The values of a dict are lists of acceptable values as well.
        functions: OpenAI-style definitions. An API without one, such as `default`, is judged by its answer alone.

    Returns:
        A match; where it is false, the reason of the first call that is wrong under the best matching.

    Raises:
        InputError: `answers` has another format.
    """
    try:
        records = _ANSWERS.validate_python(parse_json(answers) if isinstance(answers, str) else answers)
    except ValidationError as error:
        raise InputError(f"answers: {describe_error(error)}") from error
    except ValueError as error:
        raise InputError(f"answers: not JSON: {error}") from error
    gold = [call for record in records for call in record.items()]
    try:
        calls = parse_plan(predicted)
    except PlanError as error:
        return Match("unparsed", str(error))
    if len(calls) != len(gold):
        return Match("wrong_number_of_calls", f"{len(calls)} instead of {len(gold)}")
    parameters: dict[str, dict] = {}
    for function in functions:
        parameters.setdefault(function["name"], function.get("parameters") or {})
    results = [[_match_call(call, answer, parameters.get(answer[0])) for answer in gold] for call in calls]
    # One wrong call more costs more than any number of calls with another API.
    wrong = 1 + len(calls)
    costs = [[0 if result else wrong + (result.category == "wrong_api") for result in row] for row in results]
    pairs = zip(*linear_sum_assignment(np.array(costs)), strict=True)
    return next((results[i][j] for i, j in pairs if not results[i][j]), Match())


def _match_call(call: PlannedCall, answer: tuple[str, dict[str, list]], parameters: dict | None) -> Match:
    (name, arguments), (gold_name, gold) = call, answer
    if name != gold_name:
        return Match("wrong_api", f"{name} instead of {gold_name}")
    properties = gold if parameters is None else parameters.get("properties") or {}
    for argument in (parameters or {}).get("required") or []:
        if argument not in arguments:
            return Match("missing_argument", f"{name} needs {argument}")
    for argument, value in arguments.items():
        if argument not in properties or argument not in gold:
            return Match("extra_argument", f"{name} has no {argument}" + " here" * (argument in properties))
        schema = {} if parameters is None else properties[argument]
        if problem := _compare_any(value, gold[argument], schema):
            given, wanted = (one_line(repr(one), 100) for one in (value, gold[argument]))
            return Match(problem, f"{name}({argument}) is {given}, expected one of {wanted}")
    for argument, acceptable in gold.items():
        if argument not in arguments and MAY_BE_LEFT_OUT not in acceptable:
            return Match("missing_argument", f"{name} needs {argument} here")
    return Match()


def _compare_any(value: Any, acceptable: Sequence, schema: object) -> str | None:
    """What is wrong with a value, compared to those that are acceptable; None where it is one of them."""
    problems = [_compare(value, answer, schema if isinstance(schema, dict) else {}) for answer in acceptable]
    if None in problems:
        return None
    return "wrong_type" if problems and set(problems) == {"wrong_type"} else "wrong_value"


def _compare(value: Any, answer: Any, schema: dict) -> str | None:
    kind, wanted = (_KINDS.get(type(one), type(one)) for one in (value, answer))
    # An answer's type will do, strictly, except that an integer does for a float.
    alike = kind == wanted and (kind != "number" or type(value) is type(answer) or type(value) is int)
    named = any(_TYPE_CHECKS[name](value) for name in json_types(schema.get("type")) if name in _TYPE_CHECKS)
    if not named and (answer == MAY_BE_LEFT_OUT or not alike):
        return "wrong_type"
    if kind != wanted:
        return "wrong_value"
    if kind == "list":
        problems = [_compare_any(one, [other], schema.get("items")) for one, other in zip(value, answer, strict=False)]
        return "wrong_value" if len(value) != len(answer) else next(filter(None, problems), None)
    if kind == "dict":
        acceptable = {key: given if isinstance(given, list | tuple) else [given] for key, given in answer.items()}
        needed = {key for key, options in acceptable.items() if MAY_BE_LEFT_OUT not in options}
        if not needed <= set(value) <= set(acceptable):
            return "wrong_value"
        given_as = schema.get("properties")
        properties: dict[str, Any] = given_as if isinstance(given_as, dict) else {}
        problems = [_compare_any(part, acceptable[key], properties.get(key)) for key, part in value.items()]
        return next(filter(None, problems), None)
    same = standard_text(value) == standard_text(answer) if kind == "text" else value == answer
    return None if same else "wrong_value"


def standard_text(text: str) -> str:
    """A text as the leaderboard's `standardize_string` has it."""
    return re.sub(r"[ ,./\-_*^]", "", text).lower().replace("'", '"')


_KINDS = {int: "number", float: "number", str: "text", list: "list", tuple: "list", dict: "dict"}
_TYPE_CHECKS = {
    "string": lambda value: isinstance(value, str),
    "integer": lambda value: type(value) is int,
    "number": lambda value: type(value) in (int, float),
    "boolean": lambda value: isinstance(value, bool),
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
    "null": lambda value: value is None,
}
