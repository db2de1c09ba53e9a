"""What an `if` tests, in the DSL and in words."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from lib.workflows.apis import Field
from lib.workflows.language import And, Comparison, Condition, Not, Operand, Or
from lib.workflows.steps import DATED, DOMAINS, MOMENTS, UNTESTED, Output, describe, moment, speak, thing
from lib.workflows.wording import FRAMES, HABITS, Draft

# What such an action returns is what it was told: nothing to test.
MAKERS = re.compile(r"(create|add|update|insert|upload|copy|send|post|set|move)\b", re.IGNORECASE)


class Tested(NamedTuple):
    """A condition in DSL and words, the output that it tests, and of `>` the number: the next branch's lies below."""

    condition: Condition
    words: str
    output: Output
    bound: float | None = None


def is_testable(output: Field) -> bool:
    """Whether a condition can test the field."""
    if not output.summary or output.kind not in HABITS["tested"] or output.summary in UNTESTED:
        return False
    if output.kind == "boolean":
        return output.summary in FRAMES["flags"]
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
    weighted = [(o, HABITS["tested"][o.field.kind] * (3.0 if o.step else 1.0)) for o in found]
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
    kind = output.field.kind
    if kind in HABITS["may_be_empty"] and draft.rng.random() < 0.04:
        return Tested(Comparison("==", output.reference, None), say(draft, "empty", words, "", output.field), output)
    if kind == "boolean":
        return _flag(draft, output)
    if kind in ("amount", "number", "count"):
        return _number(draft, output, words, bound)
    if kind in DATED:
        return _date(draft, output, words)
    drawn = DRAWN[kind](draft, output.field)
    if drawn is None:
        return None
    operator, value, spoken_as = drawn
    text = say(draft, operator, words, speak(draft, value, spoken_as), output.field)
    if operator == "lacks":
        return Tested(Not(Comparison("contains", output.reference, value)), text, output)
    return Tested(Comparison(operator, output.reference, value), text, output)


def _flag(draft: Draft, output: Output) -> Tested:
    state = draft.rng.random() < 0.7
    text = draft.rng.choice(draft.frames[output.field.summary, state]).replace("{n}", thing(output.api) or "item")
    return Tested(Comparison("==", output.reference, state), text, output)


def _number(draft: Draft, output: Output, words: str, bound: float | None) -> Tested | None:
    rng, tested = draft.rng, output.field
    size = re.search(r"\bsize\b", tested.summary)
    measured = tested.examples or HABITS["measures"].get(tested.summary) or draft.wordings.values[tested.kind]
    pool = sorted(value for value in (HABITS["bytes"] if size else measured) if bound is None or value < bound)
    if not pool:
        return None
    limit = rng.choice(pool[len(pool) // 3 :] if bound is None else pool)
    operator = ">" if bound is not None else rng.choices((">", "<", ">=", "<="), (6, 2, 2, 1))[0]
    if draft.terse and operator in (">=", "<="):
        operator = operator[0]
    text = say(draft, operator, words, draft.token(f"{limit:,} bytes" if size else str(limit)), tested)
    test = Comparison(operator, output.reference, limit)
    return Tested(test, text, output, limit if operator in (">", ">=") else None)


def _date(draft: Draft, output: Output, words: str) -> Tested:
    kind = output.field.kind
    operator = draft.rng.choice(("before", "after"))
    value = moment(draft.rng, kind)
    text = say(draft, operator, words, speak(draft, value, kind), output.field)
    return Tested(Comparison("<" if operator == "before" else ">", output.reference, value), text, output)


Drawn = tuple[str, Operand, str]  # operator, value, and the kind that it is spoken like


def _choice(draft: Draft, tested: Field) -> Drawn | None:
    pool = [v for v in (tested.examples or draft.wordings.values[tested.kind]) if str(v) not in draft.literals]
    if not pool:
        return None
    value = draft.rng.choice(pool)
    draft.literals.add(str(value))
    return "==" if draft.rng.random() < 0.85 else "!=", value, tested.kind


def _address(draft: Draft, tested: Field) -> Drawn:
    if draft.rng.random() < 0.3:
        value = "@" + draft.rng.choice(DOMAINS)
        return draft.rng.choice(("endsWith", "contains")), value, "person_email"
    several = re.search(r"attendees|recipients|signers", tested.summary)
    value = draft.rng.choice(draft.wordings.values["person_email"])
    return "contains" if several else "==", value, "person_email"


def _file(draft: Draft, tested: Field) -> Drawn:
    if draft.rng.random() < 0.5:
        return "endsWith", draft.rng.choice(HABITS["endings_of_files"]), "file_name"
    return _keyword(draft, tested)


def _tag(draft: Draft, tested: Field) -> Drawn:
    return "contains", draft.rng.choice(draft.wordings.values["tag"]), "query"


def _keyword(draft: Draft, tested: Field) -> Drawn:
    value = draft.rng.choice(HABITS["keywords"])
    exact = 0 if tested.kind == "text" else 1.5
    operator = draft.rng.choices(("contains", "lacks", "startsWith", "=="), (8, 1, 1, exact))[0]
    return operator, value, "query"


# How a test of an output of a kind is drawn, where its value is a text.
DRAWN: dict[str, Callable[[Draft, Field], Drawn | None]] = {
    **dict.fromkeys(("choice", "language", "container", "company", "person_name", "place"), _choice),
    **dict.fromkeys(("file_name", "file_path"), _file),
    **dict.fromkeys(("subject", "title", "text"), _keyword),
    "person_email": _address,
    "tag": _tag,
}


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
    for singular, many in HABITS["plural_verbs"].items():
        text = re.sub(rf"({re.escape(words)}) {singular}(?= |$)", rf"\1 {many}", text)
    return text
