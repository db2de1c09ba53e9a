"""What an `if` tests, in the DSL and in words."""

from __future__ import annotations

import re
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


def condition(draft: Draft, skip: set[str], before: Tested | None = None) -> Tested | None:
    """What `single` gives, now and then joined with a second test."""
    made = single(draft, skip, before)
    if made and before is None and draft.rng.random() < 0.08:
        second = single(draft, skip | {made.output.field.summary})
        if second:
            joined = draft.rng.random() < 0.7
            both = (And if joined else Or)((made.condition, second.condition))
            return Tested(both, f"{made.words} {'and' if joined else 'or'} {second.words}", made.output)
    return made


def single(draft: Draft, skip: set[str], before: Tested | None = None) -> Tested | None:
    """A test of one output, none whose summary is to `skip`; None where none can be tested and described.

    `before`: the test of the branch before, whose output a further branch mostly tests again.
    """
    found = [o for o in draft.visible if is_testable(o.field) and not MAKERS.match(o.api.display_name)
             and o.field.summary not in skip]  # fmt: skip
    if before and (before.output.field.kind == "choice" or before.bound is not None) and draft.rng.random() < 0.85:
        found = [before.output]
    weighted = [(o, HABITS["tested"][o.field.kind] * (3.0 if o.step else 1.0)) for o in found]
    draft.rng.shuffle(weighted)
    while weighted:
        index = draft.rng.choices(range(len(weighted)), [weight for _, weight in weighted])[0]
        output, _ = weighted.pop(index)
        words = describe(draft, output, possessive=True)
        bound = before.bound if before and output == before.output else None
        if words and (made := compared(draft, output, words, bound)):
            return made
    return None


def compared(draft: Draft, output: Output, words: str, bound: float | None) -> Tested | None:
    """A test of the output, which `words` describe; None where no value is left to compare it with.

    `bound`: numbers are to lie below it.
    """
    rng, tested = draft.rng, output.field
    kind, left = tested.kind, output.reference
    if kind in HABITS["may_be_empty"] and rng.random() < 0.04:
        return Tested(Comparison("==", left, None), in_words(draft, "empty", words, "", tested), output)
    if kind == "boolean":
        state = rng.random() < 0.7
        text = rng.choice(draft.frames[tested.summary, state]).replace("{n}", thing(output.api) or "item")
        return Tested(Comparison("==", left, state), text, output)
    if kind in ("amount", "number", "count"):
        size = re.search(r"\bsize\b", tested.summary)
        measured = tested.examples or HABITS["measures"].get(tested.summary) or draft.wordings.values[kind]
        pool = sorted(value for value in (HABITS["bytes"] if size else measured) if bound is None or value < bound)
        if not pool:
            return None
        limit = rng.choice(pool[len(pool) // 3 :] if bound is None else pool)
        operator = ">" if bound is not None else rng.choices((">", "<", ">=", "<="), (6, 2, 2, 1))[0]
        operator = operator[0] if draft.terse else operator
        text = in_words(draft, operator, words, draft.token(f"{limit:,} bytes" if size else str(limit)), tested)
        return Tested(Comparison(operator, left, limit), text, output, limit if operator in (">", ">=") else None)
    if kind in DATED:
        operator, value = rng.choice(("before", "after")), moment(rng, kind)
        text = in_words(draft, operator, words, speak(draft, value, kind), tested)
        return Tested(Comparison("<" if operator == "before" else ">", left, value), text, output)
    drawn = _drawn(draft, tested)
    if drawn is None:
        return None
    operator, wanted, spoken_as = drawn
    text = in_words(draft, operator, words, speak(draft, wanted, spoken_as), tested)
    made = Not(Comparison("contains", left, wanted)) if operator == "lacks" else Comparison(operator, left, wanted)
    return Tested(made, text, output)


def _drawn(draft: Draft, tested: Field) -> tuple[str, Operand, str] | None:
    """For an output whose value is a text: operator, value, and the kind that this is spoken like."""
    rng, kind = draft.rng, tested.kind
    if kind == "tag":
        return "contains", rng.choice(draft.wordings.values["tag"]), "query"
    if kind == "person_email":
        if rng.random() < 0.3:
            value = "@" + rng.choice(DOMAINS)
            return rng.choice(("endsWith", "contains")), value, kind
        several = re.search(r"attendees|recipients|signers", tested.summary)
        return "contains" if several else "==", rng.choice(draft.wordings.values[kind]), kind
    if kind in ("file_name", "file_path") and rng.random() < 0.5:
        return "endsWith", rng.choice(HABITS["endings_of_files"]), "file_name"
    if kind in ("subject", "title", "text", "file_name", "file_path"):
        value = rng.choice(HABITS["keywords"])
        exact = 0 if kind == "text" else 1.5
        return rng.choices(("contains", "lacks", "startsWith", "=="), (8, 1, 1, exact))[0], value, "query"
    pool = [v for v in (tested.examples or draft.wordings.values[kind]) if str(v) not in draft.literals]
    if not pool:
        return None
    value = rng.choice(pool)
    draft.literals.add(str(value))
    return "==" if rng.random() < 0.85 else "!=", value, kind


def in_words(draft: Draft, operator: str, words: str, value: str, tested: Field) -> str:
    """A comparison in words: the output's (`words`), the operator's and the value's."""
    choices = draft.frames[operator]
    if draft.terse and operator == "==" and draft.rng.random() < 0.5:
        choices = ("{f} = {v}",)
    if draft.terse:
        words = words.removeprefix("the ").removeprefix("its ")
    text = draft.rng.choice(choices).replace("{f}", words).replace("{v}", value)
    if re.search(r"(?<![su'])s$", tested.summary.split(" of ")[0]) and tested.summary not in ("status", "address"):
        for singular, many in HABITS["plural_verbs"].items():
            text = re.sub(rf"({re.escape(words)}) {singular}(?= |$)", rf"\1 {many}", text)
    return text
