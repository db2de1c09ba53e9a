"""A flow as Power Automate's definition.

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
    TEXT_TESTS,
    And,
    Call,
    Comparison,
    Condition,
    Flow,
    For,
    If,
    Not,
    Object,
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
LONGEST_NAME = 80  # characters of an action's name


class ExportError(ValueError):
    """A flow that no definition can say; what is wrong, in plain words."""


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
