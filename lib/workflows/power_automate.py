"""A flow as Power Automate's definition, and back.

    definition = to_power_automate(parse(text))          in JSON what Power Automate and Logic Apps call a definition
    flow = from_power_automate(definition)

Each call is an action (the first, the trigger) under a name of its own, each `if` a condition; outputs are expressions
such as `@outputs('Get_user')?['body']?['mail']`. Connections are made where it is imported. The paper's language has no
loops, and neither has an export. Source: Microsoft's workflow definition language, schema 2016-06-01.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Annotated, Any, Literal

from pydantic import AliasPath, BaseModel, Field, StringConstraints, ValidationError

from lib.workbook.inputs import describe_error
from lib.workflows import language
from lib.workflows.apis import free_name

SCHEMA = "https://schema.management.azure.com/providers/Microsoft.Logic/schemas/2016-06-01/workflowdefinition.json#"
APIS = "/providers/Microsoft.PowerApps/apis/"
# Whether a trigger polls or is called cannot be told from a flow; the definition says that it is called.
TRIGGER_TYPE, ACTION_TYPE = "OpenApiConnectionWebhook", "OpenApiConnection"
TESTS = {"==": "equals", ">": "greater", ">=": "greaterOrEquals", "<": "less", "<=": "lessOrEquals"}
TESTS |= {test: test for test in language.TEXT_TESTS}
LONGEST_NAME = 80  # characters of an action's name

Sources = dict[str, str | None]  # the expression of each variable, None where branches differ


class ExportError(ValueError):
    """A flow that no definition can say, or a definition that no flow can; what is wrong, in plain words."""


# ---------------------------------------------------------------- a flow as a definition


def to_power_automate(flow: language.Flow) -> dict[str, Any]:
    """The definition of a flow, as JSON holds it. Raises ExportError where the flow does not begin with an awaited call
    (its trigger), awaits another one, has a loop, or refers to a variable that nothing before it, or more than one
    branch, has assigned."""
    taken: set[str] = set()

    def name(statement: language.Call | language.If) -> str:
        wanted = "Condition"
        if isinstance(statement, language.Call):
            wanted = statement.variable or statement.api.partition(".")[2]
        called = free_name(re.sub(r"\W+", "_", wanted)[: LONGEST_NAME - 4] or "step", taken)
        taken.add(called)
        return called

    def actions(statements: Iterable[language.Statement], sources: Sources) -> dict[str, Any]:
        """Actions that run one after the other; adds to `sources` what they assign."""
        made: dict[str, Any] = {}
        for statement in statements:
            after = {list(made)[-1]: ["Succeeded"]} if made else {}
            if isinstance(statement, language.For):
                raise ExportError("a loop cannot be exported")
            if isinstance(statement, language.If):
                called = name(statement)
                action = condition(statement, sources)
            elif statement.awaited:
                raise ExportError(f"{statement.api} is awaited, and a flow has one trigger")
            else:
                action = {"type": ACTION_TYPE, "inputs": _inputs(statement, sources)}
                called = name(statement)
                if statement.variable is not None:
                    sources[statement.variable] = f"outputs('{called}')"
            made[called] = action | {"runAfter": after}
        return made

    def condition(statement: language.If, sources: Sources) -> dict[str, Any]:
        """The first branch, with the others inside its `else`."""
        branch, *others = statement.branches
        yes, no = dict(sources), dict(sources)
        action = {"type": "If", "expression": _test(branch.condition, sources), "actions": actions(branch.body, yes)}
        rest = (language.If(tuple(others), statement.otherwise),) if others else statement.otherwise
        if rest:
            action["else"] = {"actions": actions(rest, no)}
        for variable in yes.keys() | no.keys():
            ways = {side.get(variable) for side in (yes, no)} - {sources.get(variable)}
            if ways:
                sources[variable] = ways.pop() if len(ways) == 1 and variable not in sources else None
        return action

    first, *rest = flow.statements or (None,)
    if not isinstance(first, language.Call) or not first.awaited:
        raise ExportError("a flow begins with its trigger, an awaited call")
    return {
        "$schema": SCHEMA,
        "contentVersion": "1.0.0.0",
        "parameters": {"$connections": {"type": "Object", "defaultValue": {}}},
        "triggers": {name(first): {"type": TRIGGER_TYPE, "inputs": _inputs(first, {})}},
        "actions": actions(rest, {} if first.variable is None else {first.variable: "triggerOutputs()"}),
    }


def _inputs(call: language.Call, sources: Sources) -> dict[str, Any]:
    connector, _, operation = call.api.partition(".")
    host = {"apiId": APIS + connector, "connectionName": connector, "operationId": operation}
    return {"host": host, "parameters": {key: _value(value, sources) for key, value in call.parameters.pairs}}


def _test(condition: language.Condition, sources: Sources) -> dict[str, Any]:
    match condition:
        case language.Not(inner):
            return {"not": _test(inner, sources)}
        case language.And(parts):
            return {"and": [_test(part, sources) for part in parts]}
        case language.Or(parts):
            return {"or": [_test(part, sources) for part in parts]}
        case language.Comparison("!=", left, right):
            return {"not": _test(language.Comparison("==", left, right), sources)}
        case language.Comparison(operator, left, right):
            return {TESTS[operator]: [_value(left, sources), _value(right, sources)]}
    return {"equals": [_value(condition, sources), True]}


def _value(value: language.Value, sources: Sources) -> Any:
    match value:
        case language.Reference(variable, path):
            source = sources.get(variable)
            if source is None:
                raise ExportError(f"{variable} is assigned nowhere before, or otherwise in another branch")
            keys = (f"{key}" if isinstance(key, int) else "'" + key.replace("'", "''") + "'" for key in path)
            return f"@{source}" + "".join(f"?[{key}]" for key in keys)
        case language.Object(pairs):
            return {key: _value(held, sources) for key, held in pairs}
        case tuple():
            return [_value(held, sources) for held in value]
        case str():
            return re.sub(r"^@|@(?={)", "@@", value)  # else it would be taken for an expression
    return value


# ---------------------------------------------------------------- a definition as a flow

OPERATORS = {name: test for test, name in TESTS.items()}
EXPRESSION = re.compile(
    r"@(trigger)?(outputs|body)\((?:'([^']+)')?\)((?:\??\[(?:'(?:[^']|'')*'|\d+)\])*)", re.IGNORECASE
)
KEY = re.compile(r"\[(?:'((?:[^']|'')*)'|(\d+))\]")


_RunAfter = dict[str, list[Annotated[str, StringConstraints(to_lower=True)]]]


class _Call(BaseModel):
    type: Literal["OpenApiConnection", "OpenApiConnectionWebhook", "OpenApiConnectionNotification"]
    connector: str = Field(validation_alias=AliasPath("inputs", "host", "apiId"))
    operation: str = Field(validation_alias=AliasPath("inputs", "host", "operationId"))
    parameters: dict[str, Any] = Field({}, validation_alias=AliasPath("inputs", "parameters"))
    runAfter: _RunAfter = {}


class _If(BaseModel):
    type: Literal["If"]
    expression: dict[str, Any]
    actions: _Actions = {}
    otherwise: _Actions = Field({}, validation_alias=AliasPath("else", "actions"))
    runAfter: _RunAfter = {}


_Actions = dict[str, Annotated[_Call | _If, Field(discriminator="type")]]
_Variables = dict[str, str]  # of the actions before, by their names; the trigger's name is empty


class _Definition(BaseModel):
    triggers: dict[str, _Call] = Field(min_length=1, max_length=1)
    actions: _Actions


def from_power_automate(definition: Any) -> language.Flow:
    """The flow that a definition says, as JSON holds it. Variables are called as the actions are, or nearly so; an
    `else if` is an `if` in the `else`.

    Raises:
        ExportError: it has what no flow can say, such as a schedule as trigger, a loop, actions that run side by side
            or after a failure, or expressions other than outputs; names the action or the expression.
    """
    try:
        read, variables = _Definition.model_validate(definition), _Variables()
        ((_, trigger),) = read.triggers.items()
        flow = language.Flow((*_statements({"": trigger}, variables), *_statements(read.actions, variables)))
        language.parse(language.print_flow(flow))
    except ValidationError as error:
        raise ExportError(describe_error(error)) from error
    except (ValueError, RecursionError) as error:
        raise ExportError(str(error)) from error
    return flow


def _statements(actions: _Actions, variables: _Variables) -> Iterator[language.Statement]:
    """The actions in the order in which they run: each after the success of one other."""
    waiting, before = dict(actions), dict[str, list[str]]()
    while waiting:
        ready = [name for name, action in waiting.items() if action.runAfter == before]
        if len(ready) != 1:
            raise ExportError(f"{' and '.join(ready or waiting)}: a flow's actions run one after another's success")
        (name,) = ready
        before, action = {name: ["succeeded"]}, waiting.pop(name)
        if isinstance(action, _If):
            test = _condition(action.expression, variables)
            branch = language.Branch(test, (*_statements(action.actions, variables),))
            yield language.If((branch,), (*_statements(action.otherwise, variables),))
            continue
        pairs = tuple((key, _said(value, variables)) for key, value in action.parameters.items())
        plain = re.sub(r"\W", "_", name, flags=re.ASCII) or "triggerOutputs"
        plain = f"step_{plain}" if plain in language.RESERVED or plain[0].isdigit() else plain
        variables[name] = free_name(plain, variables.values())
        api = f"{action.connector.rpartition('/')[2]}.{action.operation}"
        yield language.Call(api, language.Object(pairs), variables[name], not name)


def _condition(expression: Any, variables: _Variables) -> language.Condition:
    match [*expression.items()] if isinstance(expression, dict) else expression:
        case [("not", inner)]:
            return language.Not(_condition(inner, variables))
        case [("and" | "or", [part])]:
            return _condition(part, variables)
        case [("and" | "or" as both, [_, *_] as parts)]:
            conditions = tuple(_condition(part, variables) for part in parts)
            return language.And(conditions) if both == "and" else language.Or(conditions)
        case [(test, [left, right])] if test in OPERATORS:
            return language.Comparison(OPERATORS[test], _said(left, variables), _said(right, variables))
    raise ExportError(f"no flow has a condition such as {expression!r:.80}")


def _said(value: Any, variables: _Variables) -> Any:
    """A value, outputs as references."""
    match value:
        case dict():
            return language.Object(tuple((key, _said(held, variables)) for key, held in value.items()))
        case list():
            return tuple(_said(held, variables) for held in value)
        case str() if not re.search("^@(?!@)|(?<!@)@{", value):
            return re.sub("^@@|@@(?={)", "@", value)
        case str():
            found = EXPRESSION.fullmatch(value)
            name = found and (found[3] or "")
            if not found or bool(found[1]) == bool(name) or name not in variables:
                raise ExportError(f"no flow has an expression such as {value!r:.80}, unless of an action before it")
            path = [int(number) if number else key.replace("''", "'") for key, number in KEY.findall(found[4])]
            return language.Reference(variables[name], (*["body"] * (found[2].lower() == "body"), *path))
    return value
