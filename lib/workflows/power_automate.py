"""A flow as Power Automate's definition.

    definition = to_power_automate(parse(text))
    json.dumps(definition)         what Power Automate and Logic Apps call the definition of a workflow

Each call is an action (the first, the trigger) under a name of its own, each `if` a condition; outputs are expressions
such as `@outputs('Get_user')?['body']?['mail']`. Connections are made where it is imported. The paper's language has no
loops, and neither has an export. Source: Microsoft's workflow definition language, schema 2016-06-01.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from lib.workflows.language import (
    TEXT_TESTS,
    And,
    Call,
    Comparison,
    Condition,
    Flow,
    If,
    Not,
    Object,
    Or,
    Reference,
    Statement,
    Value,
)

SCHEMA = "https://schema.management.azure.com/providers/Microsoft.Logic/schemas/2016-06-01/workflowdefinition.json#"
APIS = "/providers/Microsoft.PowerApps/apis/"
# Whether a trigger polls or is called cannot be told from a flow; the definition says that it is called.
TRIGGER_TYPE, ACTION_TYPE = "OpenApiConnectionWebhook", "OpenApiConnection"
TESTS = {"==": "equals", ">": "greater", ">=": "greaterOrEquals", "<": "less", "<=": "lessOrEquals"}
TESTS |= {test: test for test in TEXT_TESTS}
LONGEST_NAME = 80  # characters of an action's name

Sources = dict[str, str | None]  # the expression of each variable, None where branches differ


class ExportError(ValueError):
    """A flow that no definition can say; what is wrong, in plain words."""


def to_power_automate(flow: Flow) -> dict[str, Any]:
    """The definition of a flow, as JSON holds it.

    Raises:
        ExportError: the flow does not begin with an awaited call (its trigger), awaits another one, has a loop, or
            refers to a variable that nothing before it, or more than one branch, has assigned.
    """
    first, *rest = flow.statements or (None,)
    if not isinstance(first, Call) or not first.awaited:
        raise ExportError("a flow begins with its trigger, an awaited call")
    writer = _Writer()
    trigger = {writer.name(first): {"type": TRIGGER_TYPE, "inputs": writer.inputs(first, {})}}
    return {
        "$schema": SCHEMA,
        "contentVersion": "1.0.0.0",
        "parameters": {"$connections": {"type": "Object", "defaultValue": {}}},
        "triggers": trigger,
        "actions": writer.actions(rest, {} if first.variable is None else {first.variable: "triggerOutputs()"}),
    }


class _Writer:
    """Writes actions, each under a name of its own."""

    def __init__(self) -> None:
        self.taken: set[str] = set()

    def name(self, statement: Call | If) -> str:
        wanted = "Condition"
        if isinstance(statement, Call):
            wanted = statement.variable or statement.api.partition(".")[2]
        base = re.sub(r"\W+", "_", wanted)[: LONGEST_NAME - 4] or "step"
        name, number = base, 2
        while name in self.taken:
            name, number = f"{base}_{number}", number + 1
        self.taken.add(name)
        return name

    def inputs(self, call: Call, sources: Sources) -> dict[str, Any]:
        connector, _, operation = call.api.partition(".")
        host = {"apiId": APIS + connector, "connectionName": connector, "operationId": operation}
        return {"host": host, "parameters": {key: _value(value, sources) for key, value in call.parameters.pairs}}

    def actions(self, statements: Iterable[Statement], sources: Sources) -> dict[str, Any]:
        """Actions that run one after the other; adds to `sources` what they assign."""
        made: dict[str, Any] = {}
        for statement in statements:
            after = {list(made)[-1]: ["Succeeded"]} if made else {}
            if isinstance(statement, Call):
                if statement.awaited:
                    raise ExportError(f"{statement.api} is awaited, and a flow has one trigger")
                inputs, name = self.inputs(statement, sources), self.name(statement)
                action: dict[str, Any] = {"type": ACTION_TYPE, "inputs": inputs}
                if statement.variable is not None:
                    sources[statement.variable] = f"outputs('{name}')"
            elif isinstance(statement, If):
                name = self.name(statement)
                action = self.condition(statement, sources)
            else:
                raise ExportError("a loop cannot be exported")
            made[name] = action | {"runAfter": after}
        return made

    def condition(self, statement: If, sources: Sources) -> dict[str, Any]:
        """The first branch, with the others inside its `else`."""
        branch, *others = statement.branches
        yes, no = dict(sources), dict(sources)
        action: dict[str, Any] = {"type": "If", "expression": _test(branch.condition, sources)}
        action["actions"] = self.actions(branch.body, yes)
        rest = (If(tuple(others), statement.otherwise),) if others else statement.otherwise
        if rest:
            action["else"] = {"actions": self.actions(rest, no)}
        for variable in yes.keys() | no.keys():
            ways = {side.get(variable) for side in (yes, no)} - {sources.get(variable)}
            if ways:
                sources[variable] = ways.pop() if len(ways) == 1 and variable not in sources else None
        return action


def _test(condition: Condition, sources: Sources) -> dict[str, Any]:
    match condition:
        case Not(inner):
            return {"not": _test(inner, sources)}
        case And(parts):
            return {"and": [_test(part, sources) for part in parts]}
        case Or(parts):
            return {"or": [_test(part, sources) for part in parts]}
        case Comparison("!=", left, right):
            return {"not": _test(Comparison("==", left, right), sources)}
        case Comparison(operator, left, right):
            return {TESTS[operator]: [_value(left, sources), _value(right, sources)]}
    return {"equals": [_value(condition, sources), True]}


def _value(value: Value, sources: Sources) -> Any:
    match value:
        case Reference(variable, path):
            source = sources.get(variable)
            if source is None:
                raise ExportError(f"{variable} is assigned nowhere before, or otherwise in another branch")
            keys = (f"{key}" if isinstance(key, int) else "'" + key.replace("'", "''") + "'" for key in path)
            return f"@{source}" + "".join(f"?[{key}]" for key in keys)
        case Object(pairs):
            return {key: _value(held, sources) for key, held in pairs}
        case tuple():
            return [_value(held, sources) for held in value]
        case str():
            return re.sub(r"^@|@(?={)", "@@", value)  # else it would be taken for an expression
    return value
