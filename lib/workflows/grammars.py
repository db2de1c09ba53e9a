"""Grammars of flows for constrained decoding: what a language model may write, in llguidance's dialect of Lark.

A text that such a grammar accepts parses. One bound of the parser no grammar can express: a text may have
`language.MAX_CHARACTERS` at most, which several hundred tokens cannot exceed.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Sequence
from pathlib import Path

from lib.workflows.catalogue import Catalogue
from lib.workflows.language import DYNAMIC_PREFIXES, Call, Flow, print_flow

MOST_PAIRS = 20  # parameters of a call whose keys may repeat
ONCE = 56  # keys of an API that may not
DEEPEST = 6  # blocks inside each other, in a grammar with loops
_quoted = functools.partial(json.dumps, ensure_ascii=False)


def flow_grammar(
    catalogue: Catalogue, stop: Sequence[str] = (), loops: bool = False, fence: tuple[str, str] | None = None
) -> str:
    """The grammar of one flow.

    Args:
        catalogue: what a flow may call: these APIs, each with its declared keys only (a dynamic one also with keys
            below `language.DYNAMIC_PREFIXES`), so that `validate` finds no made-up name or key.
        stop: texts that may follow the flow, on its last line or the next: those that end an answer. A line break that
            precedes one may also stand alone: it is left when the stop text is cut off.
        loops: whether a flow may have loops, which the paper's language lacks; blocks then nest up to `DEEPEST` deep,
            without them twice.
        fence: texts before and after the flow, of an answer that is one code block; it takes no stop texts.
    """
    start = [f"start: {_quoted(fence[0])} lines {_quoted(fence[1])}"] if fence else ["start: lines"]
    if stop:
        start = ["start: lines ending?", f'ending: "\\n" | "\\n"? ({" | ".join(map(_quoted, stop))})']
    here = Path(__file__)
    blocks = _blocks(DEEPEST) if loops else here.with_name("blocks.lark").read_text(encoding="utf-8")
    rest = here.with_name("bounded.lark").read_text(encoding="utf-8")
    return "\n".join([*start, *_known_apis(catalogue), blocks + rest])


def _blocks(deepest: int) -> str:
    """The rules of blocks.lark with loops, for as many levels; the innermost block holds calls only."""
    rules = []
    for level in range(deepest + 1):
        here, pad = level or "", "  " * level
        if level == deepest:
            rules.append(f'lines{here}: "{pad}" call ("\\n{pad}" call){{0,3}}')
            break
        indent, most = (f'"{pad}" ', 3) if level else ("", 7)
        ends = f'lines{level + 1} "\\n{pad}}}"'
        rules += [
            f'lines{here}: {indent}line{here} ("\\n{pad}" line{here}){{0,{most}}}',
            f"line{here}: call | if{here} | for{here}",
            f'if{here}: "if (" condition ") {{\\n" {ends} (" else if (" condition ") {{\\n" {ends}){{0,2}}'
            f' (" else {{\\n" {ends})?',
            f'for{here}: "for (" NAME " of " reference ") {{\\n" {ends}',
        ]
    return "\n".join([*rules, "", ""])


def _known_apis(catalogue: Catalogue) -> list[str]:
    """A rule for each connector, and for each set of keys, which APIs that declare the same ones share."""
    if not catalogue.apis:
        raise ValueError("a flow needs an API to call")
    connectors: dict[str, list[str]] = {}
    declared: dict[tuple[frozenset[str], bool], str] = {}
    for name in sorted(catalogue.apis):
        api = catalogue[name]
        parameters = declared.setdefault((api.keys, api.dynamic), f"parameters_{len(declared)}")
        printed = print_flow(Flow((Call(name),))).removesuffix("();")
        head = len(name.partition(".")[0]) + 1  # the connector and what follows it, a full stop or a bracket
        connectors.setdefault(printed[:head], []).append(f"{_quoted(printed[head:])} {parameters}")
    rules = ["api: " + " | ".join(f"connector_{i}" for i in range(len(connectors)))]
    for i, (connector, operations) in enumerate(connectors.items()):
        rules.append(f"connector_{i}: {_quoted(connector)} ({' | '.join(operations)})")
    for (keys, dynamic), parameters in declared.items():
        rules += _parameters(parameters, sorted(keys), dynamic)
    prefixes = "|".join(DYNAMIC_PREFIXES).replace("/", r"\/")
    return [*rules, rf'UNDECLARED: /"({prefixes})[^"\\\x00-\x1F]{{1,80}}"/']


def _parameters(rule: str, keys: list[str], dynamic: bool) -> list[str]:
    """The parameters of a call: each of the first keys once, since a key that may repeat is repeated by small models.

    A rule may carry 64 bits. Each of these keys has one, set when it was said; the rest count all other keys: those
    beyond the first, and those that a dynamic API does not declare.
    """
    if not keys and not dynamic:
        return [f'{rule}: "()"']
    others = f"[{ONCE}:64]"
    count = f"incr({others}) %if lt({others}, {MOST_PAIRS})"
    pairs = []
    for i, key in enumerate(keys):
        then = f"set_bit({i}) %if bit_clear({i})" if i < ONCE else count
        pairs.append(f"{_quoted(_quoted(key) + ': ')} value more_{rule}::{then}")  # in the flow it is a string too
    if dynamic:
        pairs.append(f'UNDECLARED ": " value more_{rule}::{count}')
    unsaid = f"not(is_ones([0:{min(len(keys), ONCE)}]))" if keys else "not(true)"
    room = f"lt({others}, {MOST_PAIRS})" if dynamic or len(keys) > ONCE else "not(true)"
    return [
        f'{rule}: "()" | "({{" pair_of_{rule}::0 "}})"',
        f"pair_of_{rule}::_: {' | '.join(pairs)}",
        f'more_{rule}::_: "" | ", " pair_of_{rule}::_ %if or({unsaid}, {room})',
    ]
