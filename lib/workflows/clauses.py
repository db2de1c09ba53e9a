"""A request cut into its clauses, the stretches of it that each say one call, and definitions found by them.

What stands between clauses says no call: "when", "and then", a condition, thanks. Vectors have unit length.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

import numpy as np

_QUOTED = re.compile(r"\"[^\"]*\"|“[^”]*”|(?<!\w)'[^']*'(?!\w)")
# What an action begins with.
VERBS = frozenset(
    "accept add alert announce append apply approve archive ask assign attach book build call cancel change check "
    "clear close collect compose connect convert copy create decide delete disable download draft drop email "
    "enable export extract fetch file fill find finish flag forward generate get give go grant have insert inform "
    "invite issue join keep launch let list load log look mail make mark merge message move note notify open "
    "pause ping place plan post print publish pull push put query raise read record refresh register reject "
    "remind remove rename reply report request resolve respond restore retrieve retweet run save schedule search "
    "send set share show sign start stop store submit subscribe sync tag take tell text track transfer translate "
    "trash tweet unsubscribe update upload validate verify wait warn write".split()
)
_WORD = re.compile(r"\w+")
_WHEN = r"when|whenever|every time|each time|any time|as soon as|once|the moment|after"
_BEFORE_IF = ("but ", "and ", "only ", "just ", "though ", "or ", "else ", "see ", "check ")
_IF = r"(?:if|provided|as long as|in case|only where|only when|just when|whether|on condition)\b"
_NEW = re.compile(  # always a cut
    r"[.;:!?](?=\s|$)|\n|(?<=\s)\(?\d+[.)](?=\s)|\s(?:->|=>|→|>>|>|\||/|-|\+)\s"
    r"|,? ?\b(?:and )?(?:then|finally|lastly|afterwards|after that)\b"
    rf"|(?<=[,;.] )(?:and )?next,?(?=\s)|(?<=\s)(?=(?:{_WHEN})\b)|\b(?:otherwise|else)\b",
    re.IGNORECASE,
)
_CORE = re.compile(rf"\b{_IF}", re.IGNORECASE)  # always a cut, and so are words of `_BEFORE_IF` that lead to it
_JOIN = re.compile(r",(?:\s+and\b|\s+&)?|\band\b|&", re.IGNORECASE)  # a cut before an action
_LEAD = re.compile(  # matches everywhere, mostly nothing
    rf"(?:[\s,;:.!?()*•-]|\d+[.)]|(?:{_WHEN}|on|for every|trigger|action|start|step \d+|first|also|just|please|pls|"
    r"automatically|always|immediately|so|hi|hello|can you|could you|would you please|help me|let's|make sure to|"
    r"remember to|go ahead and|i want to|i'd like (?:you )?to|i need to|we need to|we have to|it should|"
    r"the (?:flow|system) (?:should|has to))(?![\w-]))*",
    re.IGNORECASE,
)
_TRAIL = " \t\n,;:.!?-()"
_CONDITION = re.compile(rf"(?:{'|'.join(_BEFORE_IF)})*{_IF}", re.IGNORECASE)
_FRAME = re.compile(
    r"(?:a |an |the |new |this |i |we |my |build |create |make |set |need |want |please |automate |here |what )*"
    r"(?:thanks?|thank you|please|cheers|flow|workflow|automation|idea|help|yes|so|no|not|see|check|but|only|"
    r"much appreciated|in the end|in (?:any|every|all) other cases?|following|this)(?: \w+){0,4}",
    re.IGNORECASE,
)


def cut_by_rules(request: str) -> list[str]:
    """Cut at full stops, arrows, "then" and before "when", and at commas and "and" where an action follows; conditions
    and courtesies are left out. What is quoted is never cut. The whole request where nothing is left.

    >>> cut_by_rules("When a form is sent, save it and mail Ana the name and date.")
    ['a form is sent', 'save it', 'mail Ana the name and date']
    """
    closed = request.rfind("”") + 1  # beyond it an opening quote would be searched for its end in vain
    quoted = request[:closed] + request[closed:].replace("“", "(")
    plain = list(request)
    for found in _QUOTED.finditer(quoted):
        plain[slice(*found.span())] = "x" * len(found[0])
    text, pieces, start = "".join(plain), [], 0
    for cut_start, cut_end in [*sorted(_cuts(text)), (len(text), len(text))]:
        if cut_start >= start and (start == 0 or not _CONDITION.match(text[start:cut_start].lstrip())):
            begin = next(_LEAD.finditer(text, start, cut_start)).end()  # without what leads into it
            piece = text[begin:cut_start].rstrip(_TRAIL)
            if re.search(r"\w\w", piece) and not _FRAME.fullmatch(piece):
                pieces.append(request[begin : begin + len(piece)])
        start = max(start, cut_end)
    return pieces or [request]


def _cuts(plain: str) -> Iterator[tuple[int, int]]:
    """Where a request is cut: at full stops and the like; before "if", and before each of the words that lead to it,
    as in "but only if"; at commas and "and" where an action follows."""
    yield from (found.span() for found in _NEW.finditer(plain))
    longest = max(map(len, _BEFORE_IF))
    for found in _CORE.finditer(plain):
        start, word = found.start(), " "
        while word:
            if start and plain[start - 1].isspace():
                yield start, start
            before = plain[max(0, start - longest) : start].lower()
            word = next(filter(before.endswith, _BEFORE_IF), "")
            start -= len(word)
    at, action = -1, False
    for found in _JOIN.finditer(plain):
        if found.end() > at:  # else what leads in reaches as far as from the comma before
            at = next(_LEAD.finditer(plain, found.end())).end()
            first = _WORD.match(plain, at)
            action = first is not None and first[0].lower() in VERBS
        if action:
            yield found.span()


def clause_definitions(
    requests: Sequence[str], embed: Callable[[list[str]], np.ndarray], texts: np.ndarray, n: int
) -> np.ndarray:
    """The n APIs of each request by coverage: the nearest of each clause, the surest first, then each one's second, and
    so on (SFD by clause); an API that another clause has brought is passed over.

    Args:
        embed: texts to unit vectors, one row a text.
        texts: unit vectors of the APIs' texts, (APIs, dimensions). Equally near ones keep their order.
        n: definitions a request; all where there are fewer.

    Returns:
        row numbers of APIs, (requests, n).
    """
    parts = [cut_by_rules(request) for request in requests]
    ends, rows = np.cumsum([len(part) for part in parts]), np.empty((len(parts), min(n, len(texts))), dtype=np.int64)
    cosines = np.round(embed([clause for part in parts for clause in part]) @ texts.T, 6)
    for row, scores in enumerate(np.split(cosines, ends)[:-1]):
        best, chosen = np.argsort(-scores, axis=1, kind="stable"), dict[int, None]()
        queues = [iter(best[clause].tolist()) for clause in np.argsort(-scores.max(axis=1), kind="stable")]
        while len(chosen) < rows.shape[1]:
            for queue in queues:
                api = next((one for one in queue if one not in chosen), None)
                chosen |= {} if api is None else {api: None}
        rows[row] = list(chosen)[: rows.shape[1]]
    return rows
