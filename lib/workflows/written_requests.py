"""Requests that a language model writes back from flows and the definitions of their APIs.

This is how the workflow paper's requests were made (section 4.1): users' flows and API definitions went to GPT-4, which
wrote what a user would have asked for. Prompts are in our own words.
"""

from __future__ import annotations

import random
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pandas as pd

from lib.workflows.language import (
    And,
    Branch,
    Call,
    Comparison,
    For,
    If,
    Not,
    Object,
    Or,
    Reference,
    called_apis,
    parse,
)
from lib.workflows.pairs import normal_form

INSTRUCTION = (
    "Read a workflow and what its APIs do, and write the request with which somebody who knows nothing of APIs would "
    "have asked for it. Say what starts the workflow, every step, every condition, and every name, text and number "
    "that it has as a value. Call apps by the names that people use. Write neither code nor names of APIs or keys. "
    "Answer with one request in one line and nothing else."
)
EXAMPLE = """APIs:
shared_parcels.OnNewParcel: Parcel Desk: When a parcel arrives. Starts when a depot takes in a parcel. Depot.
shared_parcels.LabelParcel: Parcel Desk: Label a parcel. Puts a label on a parcel. Parcel, Label.
shared_whistle.Notify: Whistle: Notify somebody. Sends a short note to a person. Person, Note.
Flow:
triggerOutputs = await shared_parcels.OnNewParcel({"depot": "Harbour"});
if (triggerOutputs?['body']?['weight'] > 20) {
  shared_parcels.LabelParcel({"id": triggerOutputs?['body']?['id'], "body/label": "heavy"});
  shared_whistle.Notify({"person": "Jo", "note": triggerOutputs?['body']?['sender']});
}
Request: When a parcel of more than 20 kg comes in at the Harbour depot, label it "heavy" and whistle Jo its sender."""
# Equal flows need requests that differ: the manner is drawn for each pair.
PEOPLE = (
    "a teacher", "an accountant", "somebody in sales", "the owner of a small shop", "a project manager", "a student",
    "an engineer", "somebody who runs a charity", "an office assistant", "a recruiter", "a doctor's receptionist",
    "somebody in customer support",
)  # fmt: skip
STYLES = (
    "in one plain sentence", "as a polite question", "in telegraph style without articles", "in casual words",
    "in careful, exact words", "as an order to an assistant", "as a wish that begins with I", "as briefly as possible",
)  # fmt: skip
ORDERS = ("with what starts the workflow first", "with what should happen first and what starts it last")

MAX_NEW_TOKENS = 256
STOP = ("\nFlow:", "\nAPIs:", "\nRequest:")
LEAST_WORDS, MOST_WORDS = 3, 120  # the longest simulated request of five calls has about a hundred
MOST_CHARACTERS = 2000
REPAIRS = 2  # times that a refused answer is asked for again

# Why an answer is refused; the text is what the model is told.
REASONS = {
    "empty": "it holds no request",
    "declined": "it talks about the task instead of asking for the workflow",
    "cut off": "it was too long to be finished",
    "several": "it is a list; write one request in one line",
    "length": f"a request has {LEAST_WORDS} to {MOST_WORDS} words and at most {MOST_CHARACTERS} characters",
    "code": "it holds code or mark-up; write plain words",
    "names": "it names APIs, keys or variables as the code spells them; say them in plain words",
    "duplicate": "somebody else has asked in the very same words; use other words",
}


def prompt(dsl: str, catalogue, manner: str, complaint: str = "") -> str:
    """What a model answers with a request.

    Args:
        dsl: the flow's text.
        catalogue: the `Catalogue`; APIs that it lacks are left without definition.
        manner: how the request is to be worded.
        complaint: the answer that was refused before, and why.
    """
    names = dict.fromkeys(called_apis(parse(dsl)))
    lines = [f"{name}: {catalogue[name].text}" for name in names if name in catalogue]
    again = [complaint] if complaint else []
    flow = "\n".join(["APIs:", *lines, "Flow:", dsl])
    return "\n\n".join([INSTRUCTION, EXAMPLE, f"Write the next one {manner}.", *again, f"{flow}\nRequest:"])


def manner_of(pair: str, seed: int) -> str:
    """How the request of a pair is to be worded, by a draw of its own.

    >>> manner_of("training-000001", 7) == manner_of("training-000001", 7)
    True
    """
    rng = random.Random(f"{seed}:{pair}")
    return f"as {rng.choice(PEOPLE)} would: {rng.choice(STYLES)}, {rng.choice(ORDERS)}"


# ---------------------------------------------------------------- answers

_LABEL = re.compile(
    r"[\s*#>]*(?:(?:sure|certainly|of course)\b[,!. ]*)?"
    r"(?:here(?:['’]s| is)\s+(?:the|a|one|my|your)\s+(?:[\w-]+\s+){0,3}(?:request|prompt|answer)\b[^:\n]{0,40}"
    r"|(?:the\s+|user(?:['’]s)?\s+)?(?:request|prompt|answer))[*\s]*:[*\s]*",
    re.IGNORECASE,
)
_DECLINED = re.compile(
    r"(i'?m sorry|sorry,|as an ai\b|i can ?not\b|i can't (help|do|write|provide|assist))", re.IGNORECASE
)
_LISTED = re.compile(r"[ \t]*(?:[-*•]|\d+[.)])[ \t]")
_CODE = re.compile(
    r"```|\bshared_\w|triggerOutputs|=\s*await\b|\bawait\s+\w+\.|\?\[|\(\{|\}\)|\{\s*\"|&&|\|\||"
    r"\b(?:else\s+)?if\s*\([^)]*[=<>?]|\w\(\)|</?[A-Za-z!][^<>]*>"
)
_CODE_LIKE = re.compile(r"[a-z][A-Z]|[_/$@]|[A-Za-z]\d")
_QUOTES = {'"': '"', "“": "”", "'": "'", "‘": "’", "`": "`", "«": "»"}


def read_answer(answer: str, finished: bool, dsl: str, catalogue) -> tuple[str, str]:
    """The request in a model's answer, and why it is refused: a key of `REASONS`, or "" where it is not.

    What stands around a request is taken off: a label, an introduction, quotes around the whole, and what follows a
    blank line. Control characters go.

    Args:
        answer: whatever the model wrote.
        finished: whether it ended by itself.
        dsl: the flow that it read.
        catalogue: the `Catalogue` of its definitions.
    """
    paragraphs = [part.strip() for part in re.split(r"\n\s*\n", _printable(answer).strip())]
    if len(paragraphs) > 1 and paragraphs[0].endswith(":"):
        del paragraphs[0]
    text, ended = paragraphs[0], finished or len(paragraphs) > 1
    label = _LABEL.match(text)
    text = re.split(r"\n(?=(?:Request|Flow|APIs):)", text[label.end() if label else 0 :])[0]
    request = _unquoted(" ".join(text.split()).strip("*# "))
    return request, _refused(request, text, ended, dsl, catalogue)


def _printable(text: str) -> str:
    """Without control, format and unassigned characters and halves of surrogate pairs, but for line breaks."""
    lines = re.sub(r"\r\n?|[\v\f\x85\u2028\u2029]", "\n", text).replace("\t", " ")
    return "".join(c for c in lines if c == "\n" or unicodedata.category(c)[0] != "C")


def _unquoted(request: str) -> str:
    """Without quotes around the whole; quotes around its first and last words stay."""
    if len(request) > 1 and _QUOTES.get(request[0]) == request[-1]:
        inner = request[1:-1]
        if not {request[0], request[-1]} & set(inner):
            return inner.strip()
    return request


def _refused(request: str, text: str, ended: bool, dsl: str, catalogue) -> str:
    words = len(normal_form(request).split())
    if not words:
        return "empty"
    if _DECLINED.match(request):
        return "declined"
    if not ended:
        return "cut off"
    if sum(bool(_LISTED.match(line)) for line in text.split("\n")) > 1:
        return "several"
    if not LEAST_WORDS <= words <= MOST_WORDS or len(request) > MOST_CHARACTERS:
        return "length"
    plain = request
    for value in sorted(spoken_values(dsl), key=len, reverse=True):
        if _CODE.search(value) or _CODE_LIKE.search(value):  # an address, say: whoever asks may well name it
            plain = plain.replace(value, " ")
    if _CODE.search(plain):
        return "code"
    names = sorted(code_names(dsl, catalogue), key=len, reverse=True)
    if names and re.search(rf"(?<![\w/])(?:{'|'.join(map(re.escape, names))})(?![\w/])", plain):
        return "names"
    return ""


def code_names(dsl: str, catalogue) -> set[str]:
    """What a flow calls things that nobody would say: APIs, connectors, keys of parameters and outputs, variables.

    Names that look like words (Create, Title) are left out, and those that the definitions use as words (OneDrive).
    """
    flow = parse(dsl)
    names = set(called_apis(flow)) | {name for kind, name in _texts(flow.statements) if kind == "name"}
    names |= {part for api in called_apis(flow) for part in api.split(".", 1)}
    names |= {name.rsplit("/", 1)[-1] for name in names}
    said = " ".join(catalogue[name].text for name in called_apis(flow) if name in catalogue)
    return {name for name in names if _CODE_LIKE.search(name) and name not in said}


def spoken_values(dsl: str) -> set[str]:
    """The texts that stand as values in a flow's parameters and conditions."""
    return {text for kind, text in _texts(parse(dsl).statements) if kind == "value" and text.strip()}


def _texts(node: Any) -> Iterator[tuple[str, str]]:
    """("value", text) for every text that is a value in a part of a flow, ("name", text) for keys and variables."""
    match node:
        case str():
            yield "value", node
        case Reference(variable, path):
            yield from (("name", str(name)) for name in (variable, *path))
        case Object(pairs):
            for key, value in pairs:
                yield "name", key
                yield from _texts(value)
        case Call(_, parameters, variable):
            yield from (("name", name) for name in (variable,) if name)
            yield from _texts(parameters)
        case Comparison(_, left, right):
            yield from _texts((left, right))
        case Not(condition):
            yield from _texts(condition)
        case And(parts) | Or(parts) | tuple(parts):
            for part in parts:
                yield from _texts(part)
        case Branch(condition, body):
            yield from _texts((condition, *body))
        case For(variable, items, body):
            yield "name", variable
            yield from _texts((items, *body))
        case If(branches, otherwise):
            yield from _texts((*branches, *otherwise))


# ---------------------------------------------------------------- all flows


def write_requests(
    model, pairs: pd.DataFrame, catalogue, seed: int, progress: bool = False
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The pairs with requests that a language model wrote in place of their own.

    An answer that is refused is asked for again, up to two times, with the reason. A written request is no other
    pair's, written or as it was before, not even in its normal form; so none of the test is one of training. Of equal
    answers the first pair's counts, in the order of `pairs`; the result depends on nothing but the answers.

    A pair that never gets a usable answer keeps its own wording and is marked. Leaving it out would bend the sample:
    long flows and flows that recur are refused more often than others, and a test set without them would be easier.

    Args:
        model: `.generate(prompts, max_new_tokens, stop, chat, progress)` and `.finished`, as a `LocalModel` or a
            `RemoteModel` has them.
        pairs: as `lib.workflows.generating.generate` or `lib.workflows.pairs.read_pairs` returns them.
        catalogue: the `Catalogue` with the definitions.
        seed: of the manner in which each request is to be worded.
        progress: show progress bars.

    Returns:
        The pairs in their order, and counts.

        The pairs have one more column, `written`: whether the model wrote the request. What is known of the old wording
        (frame, wordings, quoted) is emptied where it did.

        Counts have one row a split, in the order of `pairs`: split, pairs, at_once, repaired, kept (their own wording),
        answers, and of these how many were refused, a column for each of `REASONS`.
    """
    own = [normal_form(request) for request in pairs["request"]]
    taken = Counter(own)
    splits, names, flows = (pairs[column].tolist() for column in ("split", "pair", "dsl"))
    written: dict[int, str] = {}
    complaints = dict.fromkeys(range(len(pairs)), "")
    tally: Counter[tuple[str, str]] = Counter()
    for attempt in range(1 + REPAIRS):
        waiting = [row for row in complaints if row not in written]
        if not waiting:
            break
        prompts = [prompt(flows[row], catalogue, manner_of(names[row], seed), complaints[row]) for row in waiting]
        answers = model.generate(prompts, max_new_tokens=MAX_NEW_TOKENS, stop=STOP, chat=True, progress=progress)
        for row, answer, finished in zip(waiting, answers, model.finished, strict=True):
            request, reason = read_answer(answer, finished, flows[row], catalogue)
            form = normal_form(request)
            if not reason and taken[form] > (form == own[row]):
                reason = "duplicate"
            tally[splits[row], reason or ("repaired" if attempt else "at_once")] += 1
            if reason:
                complaints[row] = _complaint(request, reason)
            else:
                written[row] = request
                taken[form] += 1
    return _replaced(pairs, written), _counts(splits, tally)


def _complaint(request: str, reason: str) -> str:
    """What the model is told about an answer that was refused."""
    shown = request if len(request) <= 300 else f"{request[:300]}…"
    return f"An earlier answer was refused: {REASONS[reason]}. It was: {shown}"


def _replaced(pairs: pd.DataFrame, written: dict[int, str]) -> pd.DataFrame:
    """The pairs with the requests written for rows of them, marked; what was known of the old wording goes."""
    result = pairs.assign(written=[row in written for row in range(len(pairs))])
    result["request"] = [written.get(row, request) for row, request in enumerate(pairs["request"])]
    for column, nothing in (("frame", ""), ("wordings", []), ("quoted", []), ("clauses", [])):
        if column not in result:
            continue
        result[column] = [nothing if row in written else value for row, value in enumerate(pairs[column])]
    return result


def _counts(splits: list[str], tally: Counter) -> pd.DataFrame:
    rows = []
    for split, total in Counter(splits).items():
        at_once, repaired = tally[split, "at_once"], tally[split, "repaired"]
        refused = [tally[split, reason] for reason in REASONS]
        rows.append(
            [split, total, at_once, repaired, total - at_once - repaired, at_once + repaired + sum(refused), *refused]
        )
    return pd.DataFrame(rows, columns=["split", "pairs", "at_once", "repaired", "kept", "answers", *REASONS])
