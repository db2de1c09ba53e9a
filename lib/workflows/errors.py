"""What is wrong with a generated flow: syntax, made-up names, wrong calls, made-up parameter keys.

The errors of names and calls are what the longest common subsequence leaves over: their number is
(1 - LCS / longer) * longer, the very calls that similarity loses (section 4.2 of the workflow paper).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

import pandas as pd

from lib.workflows.apis import API
from lib.workflows.catalogue import Catalogue
from lib.workflows.language import FlowError, called_apis, parse, validate
from lib.workflows.scoring import similarity

# Group -> kind -> label, in the order in which errors are listed.
GROUPS: dict[str, dict[str, str]] = {
    "syntax": {  # the first that fits, one a flow: what does not parse says nothing else
        "cut": "not finished (token limit, or repeating itself)",
        "no_call": "no call in the text",
        "quote": "string not closed",
        "bracket": "bracket or brace missing, or one too many",
        "other_syntax": "other syntax error",
    },
    "names": {  # one a call to an API that does not exist
        "made_up_version": "version that does not exist",
        "misplaced_operation": "operation of another connector",
        "made_up_operation": "invented operation",
        "made_up_connector": "invented connector",
    },
    "calls": {  # one a call of an existing API, or a call that is not there
        "other_version": "other version of a wanted API",
        "repeated": "wanted API once too often",
        "other_api": "other API of a wanted connector",
        "other_connector": "API of an unwanted connector",
        "missing": "too few calls",
        "order": "right call in the wrong place",
    },
    "parameters": {  # one a key of a call
        "misplaced_key": "key of another API of the connector",
        "made_up_key": "invented key",
    },
}
KINDS: dict[str, str] = {kind: label for kinds in GROUPS.values() for kind, label in kinds.items()}
COLUMNS = ["condition", "unit", "kind", "count"]

_CALL = re.compile(r"""\w(?:\.\s*[A-Za-z_][\w-]*|\["[^"\n]*"\]|\['[^'\n]*'\])\(""")
# An apostrophe between letters belongs to prose around a flow: no string of the language opens after a letter.
_PIECE = re.compile(r""""(?:\\.|[^"\\\n])*"|(?<=[A-Za-z])'(?=[A-Za-z])|'(?:\\.|[^'\\\n])*'|(?P<mark>["'()\[\]{}])""")
_CLOSING = {")": "(", "]": "[", "}": "{"}


def flow_errors(text: str, gold: str, catalogue: Catalogue, finished: bool = True) -> tuple[str, ...]:
    """The kinds of the errors of a generated flow, in the order of `KINDS`, a kind as often as it occurs.

    Calls are compared as multisets, so that a call more than the gold has is wrong and a call in the wrong place is of
    kind "order". A wrong call, of an API that exists or not, stands in for a wanted one; "missing" are the wanted calls
    for which none is left. No error: the gold's APIs in its order, with keys that they have. Values, conditions and
    variables are not judged.

    Args:
        text: what the model wrote.
        gold: the right flow.
        finished: whether the text ended by itself; else one that does not parse is of kind "cut".

    Raises:
        FlowError: the gold does not parse.
    """
    wanted = called_apis(parse(gold))
    try:
        flow = parse(text)
    except FlowError:
        return (_syntax_error(text) if finished else "cut",)
    called, report = called_apis(flow), validate(flow, catalogue)
    kinds = [_name_error(name, catalogue) for name in report.made_up_names]
    kinds += _call_errors(called, wanted, catalogue)
    kinds += [_key_error(name, key, catalogue) for name, key in report.made_up_parameters]
    return tuple(sorted(kinds, key=list(KINDS).index))


def _syntax_error(text: str) -> str:
    if not isinstance(text, str) or not _CALL.search(text):
        return "no_call"
    opened: list[str] = []
    balanced = True
    for piece in _PIECE.finditer(text):
        mark = piece["mark"]
        if mark in ('"', "'"):  # what follows may be inside a string or not: brackets are no longer known
            return "quote"
        if mark in _CLOSING:
            balanced &= bool(opened) and opened.pop() == _CLOSING[mark]
        elif mark:
            opened.append(mark)
    return "other_syntax" if balanced and not opened else "bracket"


def _family(name: str) -> str:
    connector, _, operation = name.partition(".")
    return API(connector, operation, display_name="", app_name="").family


def _connector(name: str) -> str:
    return name.partition(".")[0]


def _name_error(name: str, catalogue: Catalogue) -> str:
    connector, _, operation = name.partition(".")
    if connector not in catalogue.connectors:
        return "made_up_connector"
    if _family(name) in {api.family for api in catalogue if api.connector == connector}:
        return "made_up_version"
    return "misplaced_operation" if any(api.operation == operation for api in catalogue) else "made_up_operation"


def _call_errors(called: Sequence[str], wanted: Sequence[str], catalogue: Catalogue) -> list[str]:
    surplus = (Counter(called) - Counter(wanted)).elements()
    families, connectors = {_family(name) for name in wanted}, {_connector(name) for name in wanted}
    kinds = []
    for name in surplus:
        if name not in catalogue:  # an error of names
            continue
        if name in wanted:
            kinds.append("repeated")
        elif _family(name) in families:
            kinds.append("other_version")
        else:
            kinds.append("other_api" if _connector(name) in connectors else "other_connector")
    in_order = round(similarity(called, wanted) * max(len(called), len(wanted)))
    shared = (Counter(called) & Counter(wanted)).total()
    return kinds + ["missing"] * (len(wanted) - len(called)) + ["order"] * (shared - in_order)


def _key_error(name: str, key: str, catalogue: Catalogue) -> str:
    siblings = (api for api in catalogue if api.connector == _connector(name))
    return "misplaced_key" if any(key in api.keys for api in siblings) else "made_up_key"


def error_table(frame: pd.DataFrame, catalogue: Catalogue) -> pd.DataFrame:
    """The errors of generated flows, counted.

    Args:
        frame: one row a flow: condition, unit, text, dsl (the right flow), finished (bool).

    Returns:
        one row a flow and kind that occurs in it, in the order of the flows and of `KINDS`: condition, unit, kind,
        count (times in this flow, 1 or more). A flow without errors has no row.

    Raises:
        FlowError: a right flow does not parse.
    """
    flows = zip(*(frame[name] for name in ("condition", "unit", "text", "dsl", "finished")), strict=True)
    rows = [
        (condition, unit, kind, count)
        for condition, unit, text, gold, finished in flows
        for kind, count in Counter(flow_errors(text, gold, catalogue, finished)).items()
    ]
    return pd.DataFrame(rows, columns=COLUMNS)
