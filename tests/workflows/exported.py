"""Reads back what `to_power_automate` writes, so that a flow and its export can be run side by side."""

import re

from lib.workflows.language import RESERVED, And, Branch, Call, Comparison, Flow, If, Not, Object, Or, Reference
from lib.workflows.power_automate import ACTION_TYPE, APIS, TESTS

OPERATORS = {name: test for test, name in TESTS.items()}
EXPRESSION = re.compile(
    r"@(?P<source>triggerOutputs\(\)|outputs\('(?P<name>[^']+)'\))(?P<path>(?:\?\[(?:'(?:[^']|'')*'|\d+)\])*)"
)
KEY = re.compile(r"\?\[(?:'((?:[^']|'')*)'|(\d+))\]")


def read_back(definition):
    """The flow that a definition says. Variables have the actions' names, or ones like them that a flow may have; an
    `else if` is read as an `if` in the `else`."""
    (trigger,) = definition["triggers"].values()
    return Flow((_call(trigger, "triggerOutputs", awaited=True), *_statements(definition["actions"])))


def _statements(actions):
    """The actions in the order in which they run: each after the success of one other."""
    assert all(outcomes == ["Succeeded"] for action in actions.values() for outcomes in action["runAfter"].values())
    after = {(list(action["runAfter"]) or [""])[0]: name for name, action in actions.items()}
    made, following = [], after.get("")
    while following is not None:
        made.append(_statement(following, actions[following]))
        following = after.get(following)
    assert len(made) == len(actions)
    return tuple(made)


def _statement(name, action):
    if action["type"] == ACTION_TYPE:
        return _call(action, name)
    assert action["type"] == "If"
    branch = Branch(_condition(action["expression"]), _statements(action["actions"]))
    return If((branch,), _statements(action.get("else", {}).get("actions", {})))


def _call(action, variable, awaited=False):
    host = action["inputs"]["host"]
    pairs = tuple((key, _read(value)) for key, value in action["inputs"]["parameters"].items())
    name = f"{host['apiId'].removeprefix(APIS)}.{host['operationId']}"
    return Call(name, Object(pairs), _variable(variable), awaited)


def _variable(name):
    """An action's name as a variable: without signs that none has, and no reserved word or number at its beginning."""
    plain = re.sub(r"[^A-Za-z0-9_-]", "_", name)
    return plain if plain not in RESERVED and re.match("[A-Za-z_]", plain) else f"step_{plain}"


def _condition(expression):
    ((name, parts),) = expression.items()
    if name == "not":
        return Not(_condition(parts))
    if name in ("and", "or"):
        return (And if name == "and" else Or)(tuple(map(_condition, parts)))
    return Comparison(OPERATORS[name], *map(_read, parts))


def _read(value):
    if isinstance(value, dict):
        return Object(tuple((key, _read(held)) for key, held in value.items()))
    if isinstance(value, list):
        return tuple(map(_read, value))
    if not isinstance(value, str):
        return value
    if value.startswith("@") and not value.startswith("@@"):
        found = EXPRESSION.fullmatch(value)
        path = tuple(int(number) if number else key.replace("''", "'") for key, number in KEY.findall(found["path"]))
        return Reference(_variable(found["name"] or "triggerOutputs"), path)
    assert not re.search(r"(?<!@)@{", value), "an expression inside a text"
    return re.sub(r"^@@|@@(?={)", "@", value)
