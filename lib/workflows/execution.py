"""Flows that run: what a flow does on mocked connectors, and whether two flows do the same.

A call returns a record of its own: `triggerOutputs?['body']?['subject']` is the subject that the first call of this API
returned, whatever the variable's name. Values that conditions test are drawn from the texts and numbers that they are
tested against, so that each condition is once true and once false; a list that is looped over has none, one and two
items, inside four loops one. Where a catalogue is given, a value has the type that the response schema of its API
declares. A choice of all of these is a world. Two flows are executed alike if in every world they make the same calls
in the same order with the same arguments, of those that the request says.

    parse('x = await a.New(); if (x?["n"] > 5) { b.Post({"text": x?["t"]}); }')   worlds: n is 4, 5 or 6

Source: ours; the workflow paper compares names of APIs alone.
"""

from __future__ import annotations

import functools
import itertools
import math
import operator
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from lib.workflows import language

MOST_WORLDS = 4096  # of all choices; where there are more, some of them
DRAWN = 512  # of these at random
ROUNDS = 20  # of looking for values that only another world tests
ITEMS = (1, 0, 2)  # of a list that a loop goes through; one first, so that what is in it is seen
DEEPEST = 4  # loops inside each other whose lists have so many items: each level doubles calls and lists
LARGE = 1e15  # numbers from here on have none between them that a float can tell apart
TRUE, FALSE = ("boolean", True), ("boolean", False)  # equal to no literal of another type: `true` is not 1
SURROUNDED = {"contains": "\0{}\0", "startsWith": "{}\0", "endsWith": "\0{}"}
ORDERED = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}


class Content(NamedTuple):
    """A value that a mocked connector returned: of which call, counted among those of its API, and where in it."""

    api: str
    number: int
    path: tuple[str | int, ...] = ()


class Items(NamedTuple):
    """How many items a list has that a loop goes through; apart from its value, which a condition may test."""

    content: Content


Types = Callable[[Content], str]  # JSON's type of a content: string, number, integer, boolean, array or object; or ""
Place = tuple[int, ...]  # of a call in the flow: numbers of statements and branches from the outside in
World = Mapping[Content | Items, Any]  # what is tested, and of what is looped over the number of items
Test = tuple[str, Any, bool]  # the sign, what is compared with, and whether that stands on the left


class Made(NamedTuple):
    """A call that was made: its API, its arguments by key, and where it stands in the flow."""

    api: str
    arguments: Mapping[str, Any]
    place: Place


def declared_types(catalogue) -> Types:
    """What the response schemas of a catalogue declare; "" where they do not say."""

    def type_of(content: Content) -> str:
        below = content.path[1:] if content.path[:1] == ("body",) else content.path
        key = "/".join(map(str, below))
        fields = getattr(catalogue[content.api], "returns", ()) if content.api in catalogue else ()
        return next((field.type for field in fields if field.key == key), "")

    return type_of


class Run:
    """What a flow does in a world: `made`, the calls in order; `tested`, the contents that conditions tested, and how;
    `looped`, those that loops went through. A value that the world does not have is none that equals any constant, and
    a list without a number has one item."""

    def __init__(self, flow: language.Flow, world: World):
        self.made: list[Made] = []
        self.tested: dict[Content, list[Test]] = {}
        self.looped: list[Content] = []
        self._world, self._depth = world, 0
        self._variables: dict[str, Content] = {}
        self._called: Counter[str] = Counter()
        self._do(flow.statements, ())

    def _do(self, statements: Iterable[language.Statement], place: Place) -> None:
        """Run statements one after the other; `place`: of the block that they stand in."""
        for number, statement in enumerate(statements):
            here = (*place, number)
            if isinstance(statement, language.Call):
                arguments = {key: self._value(value) for key, value in statement.parameters.pairs}
                self.made.append(Made(statement.api, arguments, here))
                self._called[statement.api] += 1
                if statement.variable is not None:
                    self._variables[statement.variable] = Content(statement.api, self._called[statement.api])
            elif isinstance(statement, language.For):
                items = self._value(statement.items)
                if not isinstance(items, Content):
                    continue
                if self._depth < DEEPEST:
                    self.looped.append(items)
                self._depth += 1
                for item in range(self._world.get(Items(items), 1)):
                    self._variables[statement.variable] = items._replace(path=(*items.path, item))
                    self._do(statement.body, (*here, 0))
                self._depth -= 1
            else:
                holds = (at for at, one in enumerate(statement.branches) if self._holds(one.condition))
                chosen = next(holds, len(statement.branches))
                self._do(language.bodies(statement)[chosen], (*here, chosen))

    def _value(self, value: language.Value) -> Any:
        """What a value is in this world: literals, `Content`s, and what is made of them."""
        match value:
            case language.Reference(variable, path):
                if variable not in self._variables:
                    return "unassigned", variable
                parts = [part for key in path for part in (key.split("/") if isinstance(key, str) else [key])]
                base = self._variables[variable]
                return base._replace(path=(*base.path, *parts))
            case language.Object(pairs):
                return {key: self._value(held) for key, held in pairs}
            case tuple():
                return [self._value(held) for held in value]
            case bool():
                return TRUE if value else FALSE
        return value

    def _holds(self, condition: language.Condition) -> bool:
        """Whether a condition is true in this world; what it tests is noted."""
        match condition:
            case language.Not(inner):
                return not self._holds(inner)
            case language.And(conditions):
                return all(map(self._holds, conditions))
            case language.Or(conditions):
                return any(map(self._holds, conditions))
            case language.Comparison(sign, left, right):
                sides = self._value(left), self._value(right)
            case _:
                sign, sides = "==", (self._value(condition), TRUE)
        for turned, side in enumerate(sides):
            if isinstance(side, Content):
                self.tested.setdefault(side, []).append((sign, sides[1 - turned], bool(turned)))
        return _compare(sign, *(self._world.get(one, one) if isinstance(one, Content) else one for one in sides))


def _compare(sign: str, left: Any, right: Any) -> bool:
    if sign in ("==", "!="):
        return (left == right) == (sign == "==")
    numbers, texts = (all(isinstance(side, kind) for side in (left, right)) for kind in (int | float, str))
    if sign in ORDERED:
        return (numbers or texts) and ORDERED[sign](left, right)
    if not texts:
        return False
    small, large = right.casefold(), left.casefold()
    return small in large if sign == "contains" else getattr(large, sign.lower())(small)


# ---------------------------------------------------------------- worlds


def worlds(flows: Sequence[language.Flow], types: Types | None = None) -> Iterator[World]:
    """The worlds in which the flows can differ: for each value that any of them tests, one on each side of each
    constant, and for each list that one loops over, none, one and two items; all of the declared types. What is tested
    only behind a condition is found by looking again in the worlds found so far."""
    type_of = types or (lambda content: "")
    values: dict[Content | Items, list[Any]] = {}
    tested: dict[Content, list[Test]] = {}
    looped: dict[Content, None] = {}
    for _ in range(ROUNDS):
        before = sum(map(len, values.values()))
        for world, flow in itertools.product(_choices(values, tested), flows):
            ran = Run(flow, world)
            looped |= dict.fromkeys(ran.looped)
            for content, tests in ran.tested.items():
                known = tested.setdefault(content, [])
                known += [test for test in tests if test not in known]
        values = {content: _of_type(_domain(content, tests), type_of(content)) for content, tests in tested.items()}
        values |= {Items(content): list(ITEMS) if type_of(content) in ("", "array") else [0] for content in looped}
        if sum(map(len, values.values())) == before:
            break
    yield from _choices(values, tested)


def _choices(
    values: Mapping[Content | Items, Sequence[Any]], tested: Mapping[Content, Sequence[Test]]
) -> Iterator[World]:
    """All worlds, or where they are too many: one in which most tests hold and one in which fewest do, each also with
    one value changed; and some at random."""
    if math.prod(map(len, values.values())) <= MOST_WORLDS:
        yield from (dict(zip(values, chosen, strict=True)) for chosen in itertools.product(*values.values()))
        return

    def held(content: Content | Items, option: Any) -> int:
        tests = tested.get(content, ()) if isinstance(content, Content) else ()
        return sum(_compare(sign, *((other, option) if turned else (option, other))) for sign, other, turned in tests)

    for pick in (max, min):
        base = {content: pick(options, key=functools.partial(held, content)) for content, options in values.items()}
        yield base
        for content, options in values.items():
            yield from (base | {content: option} for option in options if option != base[content])
    draw = random.Random(len(values))
    for _ in range(DRAWN):
        yield {content: draw.choice(options) for content, options in values.items()}


def _domain(content: Content, tests: Sequence[Test]) -> list[Any]:
    """Values on both sides of each test of a content: the constants and what lies beside and between them, a text that
    has two of those searched for, parts of one that is searched, and one value that is none of them, of the constants'
    type where they have one."""
    constants = [constant for _, constant, _ in tests]
    if all(constant in (TRUE, FALSE) for constant in constants):
        return [TRUE, FALSE]
    numbers = sorted({constant for constant in constants if isinstance(constant, int | float)})
    only_numbers = all(isinstance(constant, int | float) for constant in constants)
    found: list[Any] = [numbers[-1] + 2 if only_numbers else f"\0{content}"]
    found += [(low + high) / 2 for low, high in itertools.pairwise(numbers) if -LARGE < low < high < LARGE]
    searched = []
    for sign, constant, turned in tests:
        match constant:
            case Content():
                # The same for both sides: equal, part of, before and after, less, more.
                found += ["x", "xy", "yx", 0, 1, 2]
            case int() | float():
                found += [constant - 1, constant, constant + 1]
            case str() if sign in language.TEXT_TESTS and turned:
                found += [constant, constant[:-1], constant[1:], ""]
            case str() if sign in language.TEXT_TESTS:
                found += [constant, SURROUNDED[sign].format(constant)]
                searched.append((sign, constant))
            case str() if sign in ORDERED:
                found += [constant, "", f"{constant}~"]
            case _:
                found += [TRUE, FALSE] if constant in (TRUE, FALSE) else [constant]
    for (a, first), (b, second) in itertools.permutations(searched, 2):
        if a != "endsWith" and b != "startsWith":
            found.append(f"{first}\0{second}")
    if len(searched) > 2:  # one text in which all hold
        order = ("startsWith", "contains", "endsWith")
        found.append("\0".join(text for test in order for kind, text in searched if kind == test))
    return list(dict.fromkeys(found))


def _of_type(values: Sequence[Any], kind: str) -> list[Any]:
    """The values that have a declared type, or one that has it; and nothing (None), where a test asks for it."""
    numbers = [value for value in values if isinstance(value, int | float)]
    match kind:
        case "boolean":
            found: list[Any] = [TRUE, FALSE]
        case "string":
            found = [value for value in values if isinstance(value, str)] or ["\0"]
        case "number":
            found = numbers or [0]
        case "integer":
            found = [value for value in numbers if float(value).is_integer()] or numbers or [0]
        case _:
            return list(values)
    return found + [value for value in values if value is None]


# ---------------------------------------------------------------- alike


def executed_alike(
    flow: language.Flow, gold: language.Flow, said: Sequence[Sequence[str]] | None = None, types: Types | None = None
) -> bool:
    """Whether a flow does what the right one does in every world (see the module). `said`: for each call of the right
    flow, in order of text, the keys of the arguments that the request says (None: all); others may differ or be
    absent."""
    placed = dict(_placed(gold.statements, ()))
    if said is not None and len(said) != len(placed):
        raise ValueError(f"the flow has {len(placed)} calls, and there are {len(said)} lists of said arguments")
    keys = dict(zip(placed, [call.keys for call in placed.values()] if said is None else said, strict=True))
    for world in worlds([gold, flow], types):
        made, right = Run(flow, world).made, Run(gold, world).made
        if [one.api for one in made] != [one.api for one in right]:
            return False
        for one, other in zip(made, right, strict=True):
            if any(one.arguments.get(key, ...) != other.arguments.get(key, ...) for key in keys[other.place]):
                return False
    return True


def _placed(statements: Iterable[language.Statement], place: Place) -> Iterator[tuple[Place, language.Call]]:
    """All calls in order of text, with their places."""
    for number, statement in enumerate(statements):
        here = (*place, number)
        if isinstance(statement, language.Call):
            yield here, statement
        for part, body in enumerate(language.bodies(statement)):
            yield from _placed(body, (*here, part))


def never_made(flow: language.Flow, types: Types | None = None) -> list[language.Call]:
    """Calls that the flow makes in no world, such as behind `else if (x == "b")` after `if (x != "a")`."""
    made = {one.place for world in worlds([flow], types) for one in Run(flow, world).made}
    return [call for place, call in _placed(flow.statements, ()) if place not in made]
