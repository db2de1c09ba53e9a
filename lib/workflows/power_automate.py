"""A flow as Power Automate's definition, and back.

    definition = to_power_automate(parse(text))
    json.dumps(definition)         what Power Automate and Logic Apps call the definition of a workflow

Each call is an action (the first, the trigger) under a name of its own, each `if` a condition, each loop an
"Apply to each"; outputs are expressions such as `@outputs('Get_user')?['body']?['mail']`. Connections are made where it
is imported. Source: Microsoft's workflow definition language, schema 2016-06-01.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from lib.workflows.language import (
    RESERVED,
    TEXT_TESTS,
    And,
    Branch,
    Call,
    Comparison,
    Condition,
    Flow,
    For,
    If,
    Not,
    Object,
    Operand,
    Or,
    Reference,
    Statement,
    Value,
    assigned_in,
)

SCHEMA = "https://schema.management.azure.com/providers/Microsoft.Logic/schemas/2016-06-01/workflowdefinition.json#"
APIS = "/providers/Microsoft.PowerApps/apis/"
# Whether a trigger polls or is called cannot be told from a flow; the definition says that it is called.
TRIGGER_TYPE, ACTION_TYPE = "OpenApiConnectionWebhook", "OpenApiConnection"
TESTS = {"==": "equals", ">": "greater", ">=": "greaterOrEquals", "<": "less", "<=": "lessOrEquals"}
TESTS |= {test: test for test in TEXT_TESTS}
OPERATORS = {name: test for test, name in TESTS.items()}
LONGEST_NAME = 80  # characters of an action's name
EXPRESSION = re.compile(
    r"@(?P<source>triggerOutputs\(\)|(?:outputs|items)\('(?P<name>[^']+)'\))(?P<path>(?:\?\[(?:'(?:[^']|'')*'|\d+)\])*)"
)
KEY = re.compile(r"\?\[(?:'((?:[^']|'')*)'|(\d+))\]")


class ExportError(ValueError):
    """A flow that no definition can say, or a definition that is none of a flow; what is wrong, in plain words."""


# ---------------------------------------------------------------- to a definition


def to_power_automate(flow: Flow) -> dict[str, Any]:
    """The definition of a flow, as JSON holds it.

    Raises:
        ExportError: the flow does not begin with an awaited call (its trigger), awaits another one, or refers to a
            variable that nothing before it, or more than one branch, or a loop in another round, has assigned.
    """
    first, *rest = flow.statements or (None,)
    if not isinstance(first, Call) or not first.awaited:
        raise ExportError("a flow begins with its trigger, an awaited call")
    writer = _Writer()
    sources: dict[str, str | None] = {} if first.variable is None else {first.variable: "triggerOutputs()"}
    trigger = {writer.name(first): {"type": TRIGGER_TYPE, "inputs": writer.inputs(first, {})}}
    return {
        "$schema": SCHEMA,
        "contentVersion": "1.0.0.0",
        "parameters": {"$connections": {"type": "Object", "defaultValue": {}}},
        "triggers": trigger,
        "actions": writer.actions(rest, sources),
    }


class _Writer:
    """Names actions; `sources` hold the expression of each variable, None where branches differ."""

    def __init__(self) -> None:
        self.taken: set[str] = set()

    def name(self, call: Call) -> str:
        return self.unique(call.variable or call.api.partition(".")[2])

    def unique(self, wanted: str) -> str:
        base = re.sub(r"\W+", "_", wanted)[: LONGEST_NAME - 4] or "step"
        name, number = base, 2
        while name in self.taken:
            name, number = f"{base}_{number}", number + 1
        self.taken.add(name)
        return name

    def inputs(self, call: Call, sources: Mapping[str, str | None]) -> dict[str, Any]:
        connector, _, operation = call.api.partition(".")
        host = {"apiId": APIS + connector, "connectionName": connector, "operationId": operation}
        parameters = {key: self.value(value, sources) for key, value in call.parameters.pairs}
        return {"host": host, "parameters": parameters}

    def actions(self, statements: Iterable[Statement], sources: dict[str, str | None]) -> dict[str, Any]:
        """Actions that run one after the other; adds to `sources` what they assign."""
        made: dict[str, Any] = {}
        for statement in statements:
            after = {list(made)[-1]: ["Succeeded"]} if made else {}
            name, action = self.action(statement, sources)
            made[name] = action | {"runAfter": after}
        return made

    def action(self, statement: Statement, sources: dict[str, str | None]) -> tuple[str, dict[str, Any]]:
        if isinstance(statement, Call):
            if statement.awaited:
                raise ExportError(f"{statement.api} is awaited, and a flow has one trigger")
            inputs, name = self.inputs(statement, sources), self.name(statement)
            if statement.variable is not None:
                sources[statement.variable] = f"outputs('{name}')"
            return name, {"type": ACTION_TYPE, "inputs": inputs}
        if isinstance(statement, For):
            items, name = self.value(statement.items, sources), self.unique("Apply_to_each")
            assigned = set(assigned_in(statement.body))
            # In its second round a loop would read what its first one assigned, and what comes after reads the last.
            inside = sources | dict.fromkeys(assigned) | {statement.variable: f"items('{name}')"}
            actions = self.actions(statement.body, inside)
            sources |= dict.fromkeys(assigned | {statement.variable})
            return name, {"type": "Foreach", "foreach": items, "actions": actions}
        return self.condition(statement, sources)

    def condition(self, statement: If, sources: dict[str, str | None]) -> tuple[str, dict[str, Any]]:
        """The first branch, with the others inside its `else`."""
        branch, *others = statement.branches
        name, before = self.unique("Condition"), dict(sources)
        action: dict[str, Any] = {"type": "If", "expression": self.test(branch.condition, sources)}
        yes, no = dict(before), dict(before)
        action["actions"] = self.actions(branch.body, yes)
        rest = (If(tuple(others), statement.otherwise),) if others else statement.otherwise
        if rest:
            action["else"] = {"actions": self.actions(rest, no)}
        for variable in yes.keys() | no.keys():
            ways = {side.get(variable) for side in (yes, no)} - {before.get(variable)}
            if ways:
                sources[variable] = ways.pop() if len(ways) == 1 and variable not in before else None
        return name, action

    def test(self, condition: Condition, sources: Mapping[str, str | None]) -> dict[str, Any]:
        match condition:
            case Not(inner):
                return {"not": self.test(inner, sources)}
            case And(parts):
                return {"and": [self.test(part, sources) for part in parts]}
            case Or(parts):
                return {"or": [self.test(part, sources) for part in parts]}
            case Comparison("!=", left, right):
                return {"not": self.test(Comparison("==", left, right), sources)}
            case Comparison(operator, left, right):
                return {TESTS[operator]: [self.value(left, sources), self.value(right, sources)]}
        return {"equals": [self.value(condition, sources), True]}

    def value(self, value: Value, sources: Mapping[str, str | None]) -> Any:
        match value:
            case Reference(variable, path):
                source = sources.get(variable)
                if source is None:
                    raise ExportError(f"{variable} is assigned nowhere before, or otherwise in another branch or round")
                return f"@{source}" + "".join(_key(key) for key in path)
            case Object(pairs):
                return {key: self.value(held, sources) for key, held in pairs}
            case tuple():
                return [self.value(held, sources) for held in value]
            case str():
                return re.sub(r"^@|@(?={)", "@@", value)  # else it would be taken for an expression
        return value


def _key(key: str | int) -> str:
    return f"?[{key}]" if isinstance(key, int) else "?['" + key.replace("'", "''") + "']"


# ---------------------------------------------------------------- and back


def from_power_automate(definition: Mapping[str, Any]) -> Flow:
    """The flow that a definition of `to_power_automate` says. Variables have the actions' names, or ones like them that
    a flow may have; an `else if` is read as an `if` in the `else`.

    Raises:
        ExportError: it has no trigger or several, or an action or an expression of another kind.
    """
    triggers = list(definition.get("triggers", {}).values())
    if len(triggers) != 1:
        raise ExportError(f"a flow has one trigger, not {len(triggers)}")
    try:
        trigger = _call(triggers[0], "triggerOutputs", awaited=True)
        return Flow((trigger, *_statements(definition.get("actions", {}))))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        if isinstance(error, ExportError):
            raise
        raise ExportError(f"something that is no call, condition or loop: {type(error).__name__}: {error}") from error


def _statements(actions: Mapping[str, Any]) -> tuple[Statement, ...]:
    """The actions in the order in which they run."""
    for name, action in actions.items():
        if any(outcomes != ["Succeeded"] for outcomes in action.get("runAfter", {}).values()):
            raise ExportError(f"{name} runs after something else than a success")
    after = {(list(action.get("runAfter", {})) or [""])[0]: name for name, action in actions.items()}
    made: list[Statement] = []
    following = after.get("")
    while following is not None:
        made.append(_statement(following, actions[following]))
        following = after.get(following)
    if len(made) != len(actions):
        raise ExportError("actions that do not run one after the other")
    return tuple(made)


def _statement(name: str, action: Mapping[str, Any]) -> Statement:
    match action["type"]:
        case "OpenApiConnection":
            return _call(action, name)
        case "Foreach":
            items = _read(action["foreach"])
            if not isinstance(items, Reference):
                raise ExportError(f"{name} goes through something that is no output")
            return For(_variable(name), items, _statements(action["actions"]))
        case "If":
            branch = Branch(_condition(action["expression"]), _statements(action["actions"]))
            return If((branch,), _statements(action.get("else", {}).get("actions", {})))
    raise ExportError(f"{name} is of the type {action['type']}")


def _call(action: Mapping[str, Any], variable: str, awaited: bool = False) -> Call:
    host = action["inputs"]["host"]
    connector = host["apiId"].removeprefix(APIS)
    pairs = tuple((key, _read(value)) for key, value in action["inputs"]["parameters"].items())
    return Call(f"{connector}.{host['operationId']}", Object(pairs), _variable(variable), awaited)


def _variable(name: str) -> str:
    """An action's name as a variable: without signs that none has, and no reserved word or number at its beginning."""
    plain = re.sub(r"[^A-Za-z0-9_-]", "_", name)
    return plain if plain not in RESERVED and re.match("[A-Za-z_]", plain) else f"step_{plain}"


def _condition(expression: Mapping[str, Any]) -> Condition:
    ((name, parts),) = expression.items()
    if name == "not":
        return Not(_condition(parts))
    if name in ("and", "or"):
        return (And if name == "and" else Or)(tuple(map(_condition, parts)))
    if name not in OPERATORS:
        raise ExportError(f"a test of the kind {name}")
    left, right = map(_operand, parts)
    return Comparison(OPERATORS[name], left, right)


def _operand(value: Any) -> Operand:
    read = _read(value)
    if isinstance(read, Object | tuple):
        raise ExportError("a test of an object or a list")
    return read


def _read(value: Any) -> Value:
    if isinstance(value, Mapping):
        return Object(tuple((key, _read(held)) for key, held in value.items()))
    if isinstance(value, list):
        return tuple(map(_read, value))
    if not isinstance(value, str):
        return value
    if value.startswith("@") and not value.startswith("@@"):
        found = EXPRESSION.fullmatch(value)
        if not found:
            raise ExportError(f"an expression of another kind: {value[:60]}")
        path = tuple(int(number) if number else key.replace("''", "'") for key, number in KEY.findall(found["path"]))
        return Reference(_variable(found["name"] or "triggerOutputs"), path)
    if re.search(r"(?<!@)@{", value):
        raise ExportError(f"an expression inside a text: {value[:60]}")
    return re.sub(r"^@@|@@(?={)", "@", value)
