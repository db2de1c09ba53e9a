"""The workflow DSL: text to AST and back, and what a flow says that a catalogue does not know.

    triggerOutputs = await shared_office365.OnNewEmailV3();
    if (triggerOutputs?['body']?['subject'] == "invoice") {
      teams_msg = shared_teams.PostMessageToConversation({"message": "Start the approval"});
    }

`parse(print_flow(flow)) == flow` for every flow within the bounds below, and `print_flow(parse(text))` is the canonical
text: `f({})` becomes `f()`, `x['a']` becomes `x?['a']`, strings take double quotes and keys of outputs single ones,
superfluous brackets go. The grammar is in grammar.lark.
Source: the workflow paper, Figure 1, section 4.2 and appendix A.1. Loops over a list are ours, for benchmarks that
have them: `for (issue of issues) { … }`.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple, cast

from lark import Lark, Token, UnexpectedCharacters, UnexpectedToken

from lib.workflows.apis import Operation
from lib.workflows.catalogue import Catalogue

MAX_CHARACTERS = 40_000  # far above any flow of five calls, and the worst such text parses in less than a second
MAX_NESTING = 32  # brackets open at once; the tree is walked by recursion, so its depth must be bounded
MAX_DIGITS = 40

RESERVED = frozenset({"await", "if", "else", "true", "false", "null", "contains", "startsWith", "endsWith"})
TEXT_TESTS = ("contains", "startsWith", "endsWith")


class FlowError(ValueError):
    """A text that is no flow: where (line and column, counted from 1) and what is wrong, in plain words."""

    def __init__(self, line: int, column: int, problem: str):
        super().__init__(line, column, problem)
        self.line, self.column, self.problem = line, column, problem

    def __str__(self) -> str:
        return f"line {self.line}, column {self.column}: {self.problem}"


# ---------------------------------------------------------------- the tree


@dataclass(frozen=True, slots=True)
class Reference:
    """Outputs of an earlier call or a part of them: `triggerOutputs?['body']?['subject']`."""

    variable: str
    path: tuple[str | int, ...] = ()


@dataclass(frozen=True, slots=True)
class Object:
    """Keys and values in order of text; a key may stand twice, as JSON allows it."""

    pairs: tuple[tuple[str, Value], ...] = ()


Operand = Reference | str | int | float | bool | None
Value = Operand | Object | tuple["Value", ...]


@dataclass(frozen=True, slots=True)
class Call:
    """One API call; `api` is `connector.Operation`, `variable` the name that its outputs get."""

    api: str
    parameters: Object = Object()
    variable: str | None = None
    awaited: bool = False

    @property
    def keys(self) -> tuple[str, ...]:
        """The parameter keys, each once. What stands inside an object that is a value is a value, not a key."""
        return tuple(dict.fromkeys(key for key, _ in self.parameters.pairs))


@dataclass(frozen=True, slots=True)
class Comparison:
    """`left operator right`, or `operator(left, right)` for the tests of `TEXT_TESTS`."""

    operator: str
    left: Operand
    right: Operand


@dataclass(frozen=True, slots=True)
class Not:
    condition: Condition


@dataclass(frozen=True, slots=True)
class And:  # two or more, joined by `&&`
    conditions: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Or:  # two or more, joined by `||`
    conditions: tuple[Condition, ...]


Condition = Comparison | Not | And | Or | Operand


@dataclass(frozen=True, slots=True)
class Branch:
    condition: Condition
    body: tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class If:
    """`if` and its `else if`s as branches, then the body of `else` (empty: there is none)."""

    branches: tuple[Branch, ...]
    otherwise: tuple[Statement, ...] = ()


@dataclass(frozen=True, slots=True)
class For:
    """`for (variable of items) { … }`: the body for each item of a list, which `variable` names in turn."""

    variable: str
    items: Reference
    body: tuple[Statement, ...]


Statement = Call | If | For


@dataclass(frozen=True, slots=True)
class Flow:
    """One or more statements."""

    statements: tuple[Statement, ...]


# ---------------------------------------------------------------- text to tree

ESCAPES = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_ESCAPE = re.compile(r"((?:\\u[0-9A-Fa-f]{4})+)|\\(.)")
_SURROGATE = re.compile("[\ud800-\udfff]")
# A string that is not closed runs to the end of its line, so that this takes linear time on any text.
_STRING_OR_BRACKET = re.compile(r""""[^"\\\n]*(?:\\.[^"\\\n]*)*"?|'[^'\\\n]*(?:\\.[^'\\\n]*)*'?|[\[({]|[\])}]""")


def _text(token: Token) -> str:
    def character(found: re.Match) -> str:
        units, one = found.groups()  # units of UTF-16, of which two may make one character
        return bytes.fromhex(units.replace("\\u", "")).decode("utf-16-be") if units else ESCAPES.get(one, one)

    try:
        return _ESCAPE.sub(character, token[1:-1])
    except UnicodeDecodeError:
        raise FlowError(token.line or 1, token.column or 1, "a string with half a surrogate pair") from None


def _name(token: Token) -> str:
    if token in RESERVED:
        raise FlowError(token.line or 1, token.column or 1, f"'{token}' is a reserved word, not a name")
    return str(token)


def _number(token: Token) -> int | float:
    whole = token.lstrip("-").isdigit()
    if len(token) > MAX_DIGITS or not (whole or math.isfinite(float(token))):
        problem = f"a number that is too large or longer than {MAX_DIGITS} characters"
        raise FlowError(token.line or 1, token.column or 1, problem)
    return int(token) if whole else float(token)


# What each rule of the grammar makes of its parts, while Lark parses; there is no other tree.
_MADE: dict[str, Callable] = {
    "start": lambda *statements: Flow(statements),
    "branches": lambda *parts: If(tuple(map(Branch, parts[:-1:2], parts[1::2])), parts[-1] or ()),
    "loop": lambda _, variable, items, body: For(_name(variable), items, body),
    "block": lambda *statements: statements,
    "call": lambda variable, awaited, api, parameters: Call(
        api, parameters or Object(), variable and _name(variable), awaited is not None
    ),
    "api": lambda connector, name: f"{_name(connector)}.{name if name.type == 'NAME' else _text(name)}",
    "or_": lambda *conditions: Or(conditions),
    "and_": lambda *conditions: And(conditions),
    "negation": Not,
    "comparison": lambda left, operator, right: Comparison(str(operator), left, right),
    "text_comparison": Comparison,
    "text_test": str,
    "object": lambda *pairs: Object(pairs),
    "pair": lambda key, value: (_text(key), value),
    "array": lambda *values: values,
    "reference": lambda variable, *path: Reference(
        _name(variable), tuple(int(key) if key.type == "INDEX" else _text(key) for key in path)
    ),
    "string": _text,
    "number": _number,
    "true": lambda: True,
    "false": lambda: False,
    "null": lambda: None,
}


_PARSER = Lark(
    Path(__file__).with_name("grammar.lark").read_text(encoding="utf-8"),
    parser="lalr",
    transformer=SimpleNamespace(**{rule: lambda parts, make=make: make(*parts) for rule, make in _MADE.items()}),
)


def _beyond_bounds(text: str) -> tuple[int, str] | None:
    """Where a text is no flow whatever the grammar says, and why."""
    if len(text) > MAX_CHARACTERS:
        return MAX_CHARACTERS, f"a text of {len(text):,} characters; a flow has at most {MAX_CHARACTERS:,}"
    if surrogate := _SURROGATE.search(text):
        return surrogate.start(), "half a surrogate pair, which is no character"
    depth = 0
    for piece in _STRING_OR_BRACKET.finditer(text):
        depth += (piece[0] in "[({") - (piece[0] in "])}")
        if depth > MAX_NESTING:
            return piece.start(), f"more than {MAX_NESTING} brackets are open"
    return None


def parse(text: str) -> Flow:
    """The flow that a text says. Raises FlowError for every text that is none, whatever is wrong with it.

    >>> parse("x = await shared_forms.OnNewResponse();").statements[0].api
    'shared_forms.OnNewResponse'
    """
    if not isinstance(text, str):
        raise FlowError(1, 1, f"a flow is text, not {type(text).__name__}")
    fault = _beyond_bounds(text)
    if not fault:
        try:
            return cast(Flow, _PARSER.parse(text))  # the transformer makes one of the tree
        except UnexpectedToken as error:
            if error.token.type != "$END":
                raise FlowError(error.line, error.column, f"{error.token[:30]!r} cannot stand here") from None
            fault = len(text), "the text ends before the flow does"
        except UnexpectedCharacters as error:
            problem = f"{error.char!a} cannot stand here"
            if error.char in "\"'" and "STRING" in error.interactive_parser.accepts():
                problem = "a string that is not closed on its line, or has a control character or an unknown escape"
            raise FlowError(error.line, error.column, problem) from None
    position, problem = fault
    raise FlowError(text.count("\n", 0, position) + 1, position - text.rfind("\n", 0, position), problem)


# ---------------------------------------------------------------- tree to text

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_PLAIN_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?(e[+-]?[0-9]+)?")


def print_flow(flow: Flow) -> str:
    """The canonical text of a flow: a statement a line, blocks indented by two spaces. Raises ValueError for a name, a
    string or a number that no text can say, such as half a surrogate pair or infinity."""
    return "\n".join(_lines(flow.statements))


def _lines(statements: tuple[Statement, ...]) -> Iterator[str]:
    """Statements as lines: a call is one, a block those that open and close it and what stands between, indented."""
    for statement in statements:
        if isinstance(statement, Call):
            connector, dot, operation = statement.api.partition(".")
            if not dot:
                raise ValueError(f"an API is named connector.Operation, not {statement.api!r}")
            access = f".{operation}" if _NAME.fullmatch(operation) else f"[{_printed(operation)}]"
            assignment = f"{_printed_name(statement.variable)} = " if statement.variable is not None else ""
            parameters = _printed(statement.parameters) if statement.parameters.pairs else ""
            yield f"{assignment}{'await ' * statement.awaited}{_printed_name(connector)}{access}({parameters});"
            continue
        if isinstance(statement, For):
            openings = [f"for ({_printed_name(statement.variable)} of {_printed(statement.items)})"]
        else:
            openings = [f"if ({_printed(branch.condition)})" for branch in statement.branches]
            openings = [openings[0], *(f"}} else {opening}" for opening in openings[1:]), "} else"]
        for opening, body in zip(openings, bodies(statement), strict=True):
            if body or opening != "} else":
                yield f"{opening} {{"
                yield from (f"  {line}" for line in _lines(body))
        yield "}"


def _printed(node: Value | Condition, *bracketed: type) -> str:
    """A value, or a condition, in brackets where it is one of those `bracketed`."""
    if isinstance(node, bracketed):
        return f"({_printed(node)})"
    match node:
        case str():
            if _SURROGATE.search(node):
                raise ValueError(f"half a surrogate pair in {node!r}")
            return json.dumps(node, ensure_ascii=False)
        case Reference(variable, path):
            text = _printed_name(variable)
            for key in path:
                if isinstance(key, int) and not 0 <= key < 10**9:
                    raise ValueError(f"an index has one to nine digits, unlike {key}")
                said = _printed(key)
                single = "'" + said[1:-1].replace('\\"', '"').replace("'", "\\'") + "'"
                text += f"?[{single if isinstance(key, str) else said}]"
            return text
        case Object(pairs):
            return "{" + ", ".join(f"{_printed(key)}: {_printed(held)}" for key, held in pairs) + "}"
        case tuple():
            return "[" + ", ".join(map(_printed, node)) + "]"
        case None | bool():
            return json.dumps(node)
        case int() | float() if len(repr(node)) <= MAX_DIGITS and _PLAIN_NUMBER.fullmatch(repr(node)):
            return repr(node)
        case Comparison(operator, left, right) if operator in TEXT_TESTS:
            return f"{operator}({_printed(left)}, {_printed(right)})"
        case Comparison(operator, left, right):
            return f"{_printed(left)} {operator} {_printed(right)}"
        case Not(inner):
            bare = isinstance(inner, Comparison) and inner.operator in TEXT_TESTS
            return "!" + (_printed(inner) if bare else _printed(inner, Not, And, Or, Comparison))
        case And(conditions):
            return " && ".join(_printed(term, And, Or) for term in conditions)
        case Or(conditions):
            return " || ".join(_printed(term, Or) for term in conditions)
    raise ValueError(f"a flow holds no {type(node).__name__} such as {node!r:.60}")


def _printed_name(name: str) -> str:
    if name in RESERVED or not _NAME.fullmatch(name):
        raise ValueError(f"{name!r} is no name: a letter or _, then letters, digits, _ and -, and no reserved word")
    return name


# ---------------------------------------------------------------- what a flow says


def bodies(statement: Statement) -> list[tuple[Statement, ...]]:
    """What stands inside a statement: a loop's body, or that of each branch and of `else`."""
    match statement:
        case For(_, _, body):
            return [body]
        case If(branches, otherwise):
            return [*(branch.body for branch in branches), otherwise]
    return []


def nodes(node: Any) -> Iterator:
    """A node of a tree and all below it, in order of text."""
    yield node
    for part in node if isinstance(node, tuple) else [getattr(node, name) for name in getattr(node, "__slots__", ())]:
        yield from nodes(part)


def rewritten(node: Any, change: Callable[[Any], Any]) -> Any:
    """A tree with each of its nodes changed, the inner ones first."""
    if isinstance(node, tuple):
        return tuple(rewritten(one, change) for one in node)
    parts = {name: rewritten(getattr(node, name), change) for name in getattr(node, "__slots__", ())}
    return change(replace(node, **parts) if parts else node)


def calls(flow: Flow) -> Iterator[Call]:
    """All calls in order of text, the trigger's included, those of every branch too, those of a loop once."""
    return (node for node in nodes(flow) if isinstance(node, Call))


def called_apis(flow: Flow) -> list[str]:
    """Names of the APIs called, in order of text: the sequence that similarity compares (appendix A.1)."""
    return [call.api for call in calls(flow)]


def _uses(statements: tuple[Statement, ...], assigned: set[str]) -> Iterator[tuple[str, bool]]:
    """(variable, whether a path to this use assigns it) for every use; adds to `assigned` what these statements do.

    A branch does not see what its siblings assign; after an `if`, what any of its branches assigned counts, and after a
    loop what its body assigned. The loop's own variable is known in its body only.
    """

    def used(part: Any) -> Iterator[tuple[str, bool]]:
        return ((node.variable, node.variable in assigned) for node in nodes(part) if isinstance(node, Reference))

    for statement in statements:
        if isinstance(statement, Call):
            yield from used(statement.parameters)
            assigned |= {*filter(None, [statement.variable])}
        elif isinstance(statement, For):
            yield from used(statement.items)
            yield from _uses(statement.body, assigned | {statement.variable})
            assigned |= {*filter(None, (one.variable for one in nodes(statement.body) if isinstance(one, Call | For)))}
        else:
            after: set[str] = set()
            branches = [(branch.condition, branch.body) for branch in statement.branches]
            for condition, body in [*branches, (None, statement.otherwise)]:
                yield from used(condition)
                within = set(assigned)
                yield from _uses(body, within)
                after |= within
            assigned |= after


# ---------------------------------------------------------------- validation

# Where an API's schema is only known at run time, keys below these are legal without being declared.
DYNAMIC_PREFIXES = ("body/", "item/")


class Report(NamedTuple):
    """What a flow says that a catalogue does not know, in order of text. `made_up_parameters` are (API, key), once for
    each call; the keys of a made-up API cannot be judged and are left out. `unassigned` are variables with a use that
    no path through the flow leads to after an assignment."""

    made_up_names: tuple[str, ...]
    made_up_parameters: tuple[tuple[str, str], ...]
    unassigned: tuple[str, ...]


def made_up_keys(call: Call, api: Operation) -> list[str]:
    """The keys of a call that an API does not have, declared or dynamic."""
    return [key for key in call.keys if key not in api.keys and not (api.dynamic and key.startswith(DYNAMIC_PREFIXES))]


def validate(flow: Flow, catalogue: Catalogue) -> Report:
    """Check a flow's API names and parameter keys against a catalogue, and its variables against their assignments.
    Raises TypeError where `catalogue` is none: in a path or an empty dict every API would be made up."""
    if not isinstance(catalogue, Catalogue):
        raise TypeError(f"catalogue must be a Catalogue, as Catalogue.load reads it, not {type(catalogue).__name__}")
    names = [call.api for call in calls(flow) if call.api not in catalogue]
    known = [call for call in calls(flow) if call.api in catalogue]
    keys = [(call.api, key) for call in known for key in made_up_keys(call, catalogue[call.api])]
    unassigned = dict.fromkeys(name for name, known in _uses(flow.statements, set()) if not known)
    return Report(tuple(names), tuple(keys), tuple(unassigned))
