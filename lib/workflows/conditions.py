"""What an `if` tests, in the DSL and in words."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from lib.workflows import frames
from lib.workflows.apis import Field
from lib.workflows.drafts import Draft
from lib.workflows.language import And, Comparison, Condition, Not, Or
from lib.workflows.outputs import MOMENTS, UNTESTED, Output, describe, thing
from lib.workflows.values import DATED, DOMAINS, moment, speak

# How often conditions test an output of a kind.
TESTED = {"choice": 6, "subject": 5, "title": 3, "text": 2, "person_email": 2.5, "amount": 6, "number": 4, "count": 1.5,
          "boolean": 2, "tag": 3, "container": 1, "person_name": 1.5, "company": 2, "place": 1, "file_name": 4,
          "language": 2, "file_path": 1, "date": 1, "datetime": 1}  # fmt: skip
# What such an action returns is what it was told: nothing to test.
MAKERS = re.compile(r"(create|add|update|insert|upload|copy|send|post|set|move)\b", re.IGNORECASE)
MAY_BE_EMPTY = {"text", "person_email", "tag", "place", "date", "datetime", "company"}
MEASURES = {"temperature": (0, 5, 15, 20, 25, 30), "humidity": (20, 30, 40, 60, 80), "wind speed": (10, 20, 30, 50),
            "rating": (1, 2, 3, 4), "highest temperature": (0, 20, 25, 30), "lowest temperature": (0, 5, 10),
            "chance of rain": (10, 25, 50, 80), "confidence": (0.5, 0.7, 0.8, 0.9)}  # fmt: skip
BYTES = (100_000, 500_000, 1_000_000, 5_000_000, 10_000_000, 25_000_000)
ENDINGS_OF_FILES = (".pdf", ".docx", ".xlsx", ".csv", ".zip", ".jpg", ".png", ".pptx", ".txt")
KEYWORDS = (
    "invoice", "urgent", "order", "contract", "complaint", "refund", "application", "report", "budget", "meeting",
    "question", "error", "delivery", "renewal", "approved", "confidential", "offer", "feedback", "password", "training",
    "cancel", "payment", "holiday", "launch", "demo", "newsletter", "visa", "draft",
)  # fmt: skip
PLURAL = (("contains", "contain"), ("includes", "include"), ("mentions", "mention"), ("has", "have"), ("is", "are"),
          ("isn't", "aren't"), ("does", "do"), ("doesn't", "don't"), ("equals", "equal"), ("matches", "match"),
          ("differs", "differ"), ("starts", "start"), ("begins", "begin"), ("ends", "end"))  # fmt: skip


class Tested(NamedTuple):
    """A condition in DSL and words, the output that it tests, and of `>` the number: the next branch's lies below."""

    condition: Condition
    words: str
    output: Output
    bound: float | None = None


def is_testable(output: Field) -> bool:
    """Whether a condition can test the field."""
    if not output.summary or output.kind not in TESTED or output.summary in UNTESTED:
        return False
    if output.kind == "boolean":
        return output.summary in frames.FLAGS
    if output.kind in DATED:
        return any(moment in output.summary for moment in MOMENTS)
    return output.kind != "choice" or len(output.examples) > 1


def condition(draft: Draft, visible: Sequence[Output], skip: set[str], before: Tested | None = None) -> Tested | None:
    """What `single` gives, now and then joined with a second test."""
    made = single(draft, visible, skip, before)
    if made and before is None and draft.rng.random() < 0.08:
        second = single(draft, visible, skip | {made.output.field.summary})
        if second:
            joined = draft.rng.random() < 0.7
            both = (And if joined else Or)((made.condition, second.condition))
            return Tested(both, f"{made.words} {'and' if joined else 'or'} {second.words}", made.output)
    return made


def single(draft: Draft, visible: Sequence[Output], skip: set[str], before: Tested | None = None) -> Tested | None:
    """A test of one output; None where none can be tested and described.

    Args:
        draft: of the request.
        visible: what earlier calls returned.
        skip: summaries of outputs that are not to be tested.
        before: the test of the branch before, whose output a further branch mostly tests again.
    """
    found = [o for o in visible if is_testable(o.field) and not MAKERS.match(o.api.display_name)]
    found = [o for o in found if o.field.summary not in skip]
    if before and (before.output.field.kind == "choice" or before.bound is not None) and draft.rng.random() < 0.85:
        found = [before.output]
    weighted = [(o, TESTED[o.field.kind] * (3.0 if o.step else 1.0)) for o in found]
    draft.rng.shuffle(weighted)
    while weighted:
        index = draft.rng.choices(range(len(weighted)), [weight for _, weight in weighted])[0]
        output, _ = weighted.pop(index)
        words = describe(draft, output, visible, possessive=True)
        if words:
            made = compare(draft, output, words, before.bound if before and output == before.output else None)
            if made:
                return made
    return None


def compare(draft: Draft, output: Output, words: str, bound: float | None = None) -> Tested | None:
    """A test of the output, which `words` describe; None where no value is left to compare it with.

    `bound`: numbers are to lie below it.
    """
    if output.field.kind in MAY_BE_EMPTY and draft.rng.random() < 0.04:
        return Tested(Comparison("==", output.reference, None), say(draft, "empty", words, "", output.field), output)
    return COMPARE[output.field.kind](draft, output, words, bound)


def _flag(draft: Draft, output: Output, words: str, bound: float | None) -> Tested:
    state = draft.rng.random() < 0.7
    text = draft.rng.choice(draft.frames[output.field.summary, state]).replace("{n}", thing(output.api) or "item")
    return Tested(Comparison("==", output.reference, state), text, output)


def _number(draft: Draft, output: Output, words: str, bound: float | None) -> Tested | None:
    rng, tested = draft.rng, output.field
    size = re.search(r"\bsize\b", tested.summary)
    pool = BYTES if size else (tested.examples or MEASURES.get(tested.summary) or draft.wordings.values[tested.kind])
    pool = sorted(value for value in pool if bound is None or value < bound)
    if not pool:
        return None
    limit = rng.choice(pool[len(pool) // 3 :] if bound is None else pool)
    operator = ">" if bound is not None else rng.choices((">", "<", ">=", "<="), (6, 2, 2, 1))[0]
    if draft.terse and operator in (">=", "<="):
        operator = operator[0]
    text = say(draft, operator, words, draft.token(f"{limit:,} bytes" if size else str(limit)), tested)
    return Tested(
        Comparison(operator, output.reference, limit), text, output, limit if operator in (">", ">=") else None
    )


def _date(draft: Draft, output: Output, words: str, bound: float | None) -> Tested:
    kind = output.field.kind
    operator = draft.rng.choice(("before", "after"))
    value = moment(draft.rng, kind)
    text = say(draft, operator, words, speak(draft, value, kind), output.field)
    return Tested(Comparison("<" if operator == "before" else ">", output.reference, value), text, output)


def _choice(draft: Draft, output: Output, words: str, bound: float | None) -> Tested | None:
    tested = output.field
    pool = [v for v in (tested.examples or draft.wordings.values[tested.kind]) if str(v) not in draft.literals]
    if not pool:
        return None
    value = draft.rng.choice(pool)
    draft.literals.add(str(value))
    operator = "==" if draft.rng.random() < 0.85 else "!="
    return _said(draft, output, words, operator, value, tested.kind)


def _address(draft: Draft, output: Output, words: str, bound: float | None) -> Tested:
    if draft.rng.random() < 0.3:
        value = "@" + draft.rng.choice(DOMAINS)
        operator = draft.rng.choice(("endsWith", "contains"))
    else:
        value, operator = draft.rng.choice(draft.wordings.values["person_email"]), "=="
    if operator == "==" and re.search(r"attendees|recipients|signers", output.field.summary):
        operator = "contains"
    return _said(draft, output, words, operator, value, "person_email")


def _file(draft: Draft, output: Output, words: str, bound: float | None) -> Tested:
    if draft.rng.random() < 0.5:
        return _said(draft, output, words, "endsWith", draft.rng.choice(ENDINGS_OF_FILES), "file_name")
    return _keyword(draft, output, words, bound)


def _tag(draft: Draft, output: Output, words: str, bound: float | None) -> Tested:
    return _said(draft, output, words, "contains", draft.rng.choice(draft.wordings.values["tag"]), "query")


def _keyword(draft: Draft, output: Output, words: str, bound: float | None) -> Tested:
    value = draft.rng.choice(KEYWORDS)
    exact = 0 if output.field.kind == "text" else 1.5
    operator = draft.rng.choices(("contains", "lacks", "startsWith", "=="), (8, 1, 1, exact))[0]
    return _said(draft, output, words, operator, value, "query")


# How outputs of a kind are tested; the kinds are those of `TESTED`.
COMPARE: dict[str, Callable[[Draft, Output, str, float | None], Tested | None]] = {
    "boolean": _flag,
    "amount": _number,
    "number": _number,
    "count": _number,
    "date": _date,
    "datetime": _date,
    "choice": _choice,
    "language": _choice,
    "container": _choice,
    "company": _choice,
    "person_name": _choice,
    "place": _choice,
    "person_email": _address,
    "file_name": _file,
    "file_path": _file,
    "tag": _tag,
    "subject": _keyword,
    "title": _keyword,
    "text": _keyword,
}


def _said(draft: Draft, output: Output, words: str, operator: str, value: str, spoken_as: str) -> Tested:
    """A comparison with a value that is spoken like one of the kind `spoken_as`."""
    text = say(draft, operator, words, speak(draft, value, spoken_as), output.field)
    if operator == "lacks":
        return Tested(Not(Comparison("contains", output.reference, value)), text, output)
    return Tested(Comparison(operator, output.reference, value), text, output)


def say(draft: Draft, operator: str, words: str, value: str, tested: Field) -> str:
    """A comparison in words: the output's (`words`), the operator's and the value's."""
    choices = draft.frames[operator]
    if draft.terse and operator == "==" and draft.rng.random() < 0.5:
        choices = ("{f} = {v}",)
    if draft.terse:
        words = words.removeprefix("the ").removeprefix("its ")
    text = draft.rng.choice(choices).replace("{f}", words).replace("{v}", value)
    if re.search(r"(?<![su'])s$", tested.summary.split(" of ")[0]) and tested.summary not in ("status", "address"):
        text = plural(text, words)
    return text


def plural(text: str, words: str) -> str:
    """The text with the verb after `words` in the plural."""
    for singular, many in PLURAL:
        text = re.sub(rf"({re.escape(words)}) {singular}(?= |$)", rf"\1 {many}", text)
    return text
