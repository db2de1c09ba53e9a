"""A request cut into its clauses: the stretches of it that each say one call.

Two cutters, `cut_by_rules` and `learn_cutter(…).cut`, give spans: (start, end) of characters, in order, apart from each
other. What stands between them says no call: "when", "and then", a condition, thanks.
"""

from __future__ import annotations

import itertools
import random
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

Span = tuple[int, int]
Cut = Callable[[str], list[Span]]

# ---------------------------------------------------------------- rules

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
_WHEN = r"when|whenever|every time|each time|any time|as soon as|once|the moment|after"
_IF = (
    r"(?:but |and |only |just |though |or |else |see |check )*"
    r"(?:if|provided|as long as|in case|only where|only when|just when|whether|on condition)"
)
_NEW = re.compile(  # always a cut
    r"[.;:!?](?=\s|$)|\n|(?<=\s)\(?\d+[.)](?=\s)|\s(?:->|=>|→|>>|>|\||/|-|\+)\s"
    r"|,? ?\b(?:and )?(?:then|finally|lastly|afterwards|after that)\b"
    rf"|(?<=[,;.] )(?:and )?next,?(?=\s)|(?<=\s)(?=(?:{_WHEN})\b)|(?<=\s)(?={_IF}\b)|\b(?:otherwise|else)\b",
    re.IGNORECASE,
)
_JOIN = re.compile(r",(?:\s+and\b|\s+&)?|\band\b|&", re.IGNORECASE)  # a cut before an action
_LEAD = re.compile(
    rf"(?:[\s,;:.!?()*•-]|\d+[.)]|(?:{_WHEN}|on|for every|trigger|action|start|step \d+|first|also|just|please|pls|"
    r"automatically|always|immediately|so|hi|hello|can you|could you|would you please|help me|let's|make sure to|"
    r"remember to|go ahead and|i want to|i'd like (?:you )?to|i need to|we need to|we have to|it should|"
    r"the (?:flow|system) (?:should|has to))(?![\w-]))+",
    re.IGNORECASE,
)
_TRAIL = " \t\n,;:.!?-()"
_CONDITION = re.compile(rf"(?:{_IF})\b", re.IGNORECASE)
_FRAME = re.compile(
    r"(?:a |an |the |new |this |i |we |my |build |create |make |set |need |want |please |automate |here |what )*"
    r"(?:thanks?|thank you|please|cheers|flow|workflow|automation|idea|help|yes|so|no|not|see|check|but|only|"
    r"much appreciated|in the end|in (?:any|every|all) other cases?|following|this)(?: \w+){0,4}",
    re.IGNORECASE,
)


def cut_by_rules(request: str) -> list[Span]:
    """Cut at full stops, arrows, "then" and before "when", and at commas and "and" where an action follows; conditions
    and courtesies are left out. What is quoted is never cut. The whole request where nothing is left.

    >>> request = "When a form is sent, save it and mail Ana the name and date."
    >>> clause_texts(request, cut_by_rules(request))
    ['a form is sent', 'save it', 'mail Ana the name and date']
    """
    plain = _QUOTED.sub(lambda found: "x" * len(found[0]), request)
    cuts = [found.span() for found in _NEW.finditer(plain)]
    for found in _JOIN.finditer(plain):
        word = re.match(r"\w+", plain[_after_lead(plain, found.end(), len(plain)) :])
        if word and word[0].lower() in VERBS:
            cuts.append(found.span())
    spans, start = [], 0
    for cut_start, cut_end in [*sorted(cuts), (len(plain), len(plain))]:
        if cut_start >= start:
            spans.append((start, cut_start))
        start = max(start, cut_end)
    return [span for part in spans if (span := _stripped(plain, *part))] or [(0, len(request))]


def _after_lead(plain: str, start: int, end: int) -> int:
    lead = _LEAD.match(plain, start, end)
    return lead.end() if lead else start


def _stripped(plain: str, start: int, end: int) -> Span | None:
    """The piece without what leads into it; None where it says no call."""
    if _CONDITION.match(plain[start:end].lstrip()) and start:
        return None
    start = _after_lead(plain, start, end)
    piece = plain[start:end].rstrip(_TRAIL)
    if not re.search(r"\w\w", piece) or _FRAME.fullmatch(piece):
        return None
    return start, start + len(piece)


def clause_texts(request: str, spans: Iterable[Sequence[int]]) -> list[str]:
    """The clauses themselves."""
    return [request[start:end] for start, end in spans]


# ---------------------------------------------------------------- learned

TOKEN = re.compile(r"->|=>|>>|\w+(?:['’@.:/+_-]+\w+)*|[^\w\s]")
OUTSIDE, BEGINS, INSIDE = range(3)
FEWEST = 5  # training requests that have a word; a rarer one is told by its form alone
REACH = 4  # words on either side that are looked at
# Of the words that a training request has, this share is hidden, so that the cutter learns to do without those that it
# will not know. Chosen of 0, .15, .3 and .5 on training requests whose frames the cutter had not seen: 70% of them are
# cut exactly right with it, 62% without.
HIDDEN = 0.15


@dataclass(frozen=True)
class LearnedCutter:
    """Of `learn_cutter`."""

    words: frozenset[str]
    vectorizer: Any
    model: Any

    def cut(self, request: str) -> list[Span]:
        """The clauses of the likeliest labels; the whole request where none begins."""
        tokens = list(TOKEN.finditer(request))
        if not tokens:
            return [(0, len(request))]
        features = self.vectorizer.transform(_features(request, tokens, self.words))
        labels = _likeliest(self.model.predict_log_proba(features))
        return _spans(tokens, labels) or [(0, len(request))]


def learn_cutter(requests: Sequence[str], clauses: Sequence[Sequence[Sequence[int]]], seed: int) -> LearnedCutter:
    """A cutter that labels each word as the first of a clause, a further one, or none, by logistic regression over the
    words around it, and takes the likeliest row of labels in which a clause begins before it goes on (Viterbi).

    Args:
        requests: training requests; cutting them learns nothing of any test request.
        clauses: spans of each, in any order.
        seed: of the words that are hidden.

    Raises:
        ValueError: no clause in any request.
    """
    from sklearn.feature_extraction import DictVectorizer
    from sklearn.linear_model import LogisticRegression

    tokens = [list(TOKEN.finditer(request)) for request in requests]
    seen = Counter(word for row in tokens for word in {token[0].lower() for token in row})
    words = frozenset(word for word, count in seen.items() if count >= FEWEST)
    labels = [_labels(row, spans) for row, spans in zip(tokens, clauses, strict=True)]
    if not any(BEGINS in row for row in labels):
        raise ValueError("no request has a clause to learn from")
    rng, order = random.Random(seed), sorted(words)
    vectorizer = DictVectorizer(dtype=np.float32)
    features = vectorizer.fit_transform(
        features
        for request, row in zip(requests, tokens, strict=True)
        for features in _features(request, row, frozenset(word for word in order if rng.random() >= HIDDEN))
    )
    model = LogisticRegression(max_iter=300, tol=1e-3)
    model.fit(features, np.concatenate(labels))
    return LearnedCutter(words, vectorizer, model)


def _labels(tokens: Sequence[re.Match], spans: Iterable[Sequence[int]]) -> np.ndarray:
    labels = np.zeros(len(tokens), dtype=np.int64)
    starts = np.array([token.start() for token in tokens])
    for start, end in spans:
        inside = np.flatnonzero((starts >= start) & (starts < end))
        labels[inside] = INSIDE
        labels[inside[:1]] = BEGINS
    return labels


def _features(request: str, tokens: Sequence[re.Match], words: frozenset[str]) -> Iterator[dict[str, float]]:
    """Of each word: itself and those around it, pairs of neighbours, its form, and whether it stands in quotes."""
    quoted = np.zeros(len(request) + 1, dtype=bool)
    for found in _QUOTED.finditer(request):
        quoted[found.start() + 1 : found.end()] = True
    said = []
    for token in tokens:
        word = token[0].lower()
        said.append("“”" if quoted[token.start()] else word if word in words else _form(token[0]))
    padded = ["<"] * REACH + said + [">"] * REACH
    for place, token in enumerate(tokens):
        around = padded[place : place + 2 * REACH + 1]
        yield {
            **{f"{offset - REACH}={word}": 1.0 for offset, word in enumerate(around)},
            **{f"{i}&{i + 1}={around[i + REACH]} {around[i + REACH + 1]}": 1.0 for i in (-3, -2, -1, 0, 1)},
            f"verb={token[0].lower() in VERBS}": 1.0,
            f"verb next={place + 1 < len(tokens) and tokens[place + 1][0].lower() in VERBS}": 1.0,
            f"ending={token[0][-2:].lower()}": 1.0,
            f"from the start={min(place, 6)}": 1.0,
        }


def _form(word: str) -> str:
    """What kind of word a rare one is."""
    if "@" in word or "/" in word:
        return "<address>"
    if word[:1].isdigit():
        return "<number>"
    return "<Name>" if word[:1].isupper() else "<word>"


def _likeliest(chances: np.ndarray) -> np.ndarray:
    """The likeliest labels without one inside a clause right after one outside; `chances`: logarithms, (words, 3)."""
    best = chances[0].copy()
    best[INSIDE] = -np.inf
    came = np.zeros(chances.shape, dtype=np.int64)
    for place in range(1, len(chances)):
        reached = np.repeat(best[:, None], 3, axis=1)
        reached[OUTSIDE, INSIDE] = -np.inf
        came[place] = reached.argmax(axis=0)
        best = reached.max(axis=0) + chances[place]
    labels = np.empty(len(chances), dtype=np.int64)
    labels[-1] = best.argmax()
    for place in range(len(chances) - 1, 0, -1):
        labels[place - 1] = came[place, labels[place]]
    return labels


def _spans(tokens: Sequence[re.Match], labels: np.ndarray) -> list[Span]:
    spans: list[Span] = []
    for token, label in zip(tokens, labels, strict=True):
        if label == BEGINS:
            spans.append(token.span())
        elif label == INSIDE:
            spans[-1] = (spans[-1][0], token.end())
    return spans


# ---------------------------------------------------------------- how good

CUT_SCORES = ["pair", "right", "found", "wanted", "exact", "same_count", "clauses", "calls"]


def cut_scores(pairs: pd.DataFrame, cut: Cut) -> pd.DataFrame:
    """How a cutter cuts requests.

    A boundary is what lies between two clauses. A boundary found is right if it lies between two neighbouring clauses
    that are wanted, white space and punctuation aside: it takes no word of either. Of several within the same one, one
    counts as right. Where the clauses are not known, only their number is judged: by that of the calls.

    Args:
        pairs: columns pair, request, n_calls, clauses (spans in any order; empty where they are not known).

    Returns:
        one row a pair: pair; right, found and wanted (boundaries; NaN where clauses are not known); exact (all of them
        right and none besides; NaN likewise); same_count (as many clauses as calls); clauses, calls (how many).
    """
    rows = []
    for pair in pairs.itertuples():
        spans = cut(pair.request)
        row: list[Any] = [pair.pair, *[np.nan] * 4]
        if len(pair.clauses):
            wanted = _boundaries(pair.request, sorted(map(tuple, pair.clauses)))
            found = _boundaries(pair.request, spans)
            right = sum(any(a <= start and end <= b for start, end in found) for a, b in wanted)
            row[1:] = [right, len(found), len(wanted), right == len(found) == len(wanted)]
        rows.append([*row, len(spans) == pair.n_calls, len(spans), pair.n_calls])
    frame = pd.DataFrame(rows, columns=CUT_SCORES)
    return frame.astype(dict.fromkeys(CUT_SCORES[1:], float))


def best_cutter(held: pd.DataFrame, cutters: Mapping[str, Cut]) -> str:
    """The cutter that cuts most requests exactly as their clauses are known; of equals the first. Where no clauses are
    known, the one that finds as many as there are calls most often.

    Args:
        held: pairs on which constants are chosen, columns as for `cut_scores`.
        cutters: by name, at least one.
    """
    found = {name: cut_scores(held, cutter)[["exact", "same_count"]].mean() for name, cutter in cutters.items()}
    judge = "same_count" if any(means.isna()["exact"] for means in found.values()) else "exact"
    return max(found, key=lambda name: found[name][judge])


def _boundaries(request: str, spans: Sequence[Sequence[int]]) -> list[Span]:
    """Between each two spans: the words there, from the end of the last word before to the first one after, as places
    among words."""
    words = [found.span() for found in re.finditer(r"\w+", request)]
    ends = np.array([end for _, end in words])
    starts = np.array([start for start, _ in words])
    return [(int((ends <= one[1]).sum()), int((starts < other[0]).sum())) for one, other in itertools.pairwise(spans)]


def held_aside(training: pd.DataFrame, learned: int, held: int, seed: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Training pairs that a cutter learns from, and others on which constants are chosen; none is in both.

    Args:
        training: training pairs with clauses.
        learned, held: how many; where there are too few, the share of each is kept.
    """
    size = min(len(training), learned + held)
    drawn = training.sample(size, random_state=seed)
    first = round(size * learned / (learned + held))
    return drawn.head(first), drawn.iloc[first:]
