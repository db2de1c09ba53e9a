"""One step of a flow in words and as a call, made together: what the words say stands in the parameters."""

from __future__ import annotations

import re
from collections.abc import Sequence

from lib.workflows.apis import API, APP, ID, SHARED_IDS, SLOT, Field
from lib.workflows.drafts import PLACEHOLDER, Draft, last_part
from lib.workflows.frames import SYNONYMS
from lib.workflows.language import Call, Object, Reference, Value
from lib.workflows.outputs import REFERENCE_CHANCE, UNTESTED, Output, candidates, describe, is_new, same_moment
from lib.workflows.values import DATED, literal, partner, speak

TRIGGER = "triggerOutputs"
# What a required parameter that the request leaves unsaid is filled with, best first; ids are always filled.
IMPLIED = {
    "subject": ("subject", "title", "file_name"), "title": ("title", "subject", "file_name"),
    "text": ("text",), "file_name": ("file_name",), "file_path": ("file_path",),
    "file_content": ("file_content",), "url": ("url",), "phone": ("phone",), "company": ("company",),
    "amount": ("amount",), "records": ("records",), "record": ("record",),
}  # fmt: skip
# Kinds of value that later steps of one connector share: who said "the Roadmap board" means it from there on.
INHERITED = {"container", "team", "channel", "choice"}
CALLED = re.compile(r"(called|named|titled|entitled) $")
NAMED_AFTER = "named after "
# Words that go well before "the subject of the email".
PREPOSITIONS = frozenset("to from of with for about on as by at under via than through behalf into".split())
VERBS = frozenset(
    "saying using says reads reading is me them us tell ask notify email mail text tweet invite add let have put "
    "assign give share forward send noting search linking announcing announce mentioning log save show chat".split()
)


class Unsayable(ValueError):
    """A plan that cannot be put into words: nothing to test unambiguously, or a phrase whose slots nothing fills."""


def step(draft: Draft, api: API, visible: Sequence[Output]) -> tuple[str, Call, list[Output]]:
    """Words and call of one step, and what it returns.

    Raises:
        Unsayable: no phrase can be filled.
    """
    values: dict[str, Value] = {}
    draft.literals = set()
    text = _phrase(draft, api, values, visible)
    text += _clauses(draft, api, values, visible)
    draft.said.append([p.key for p in api.parameters if p.key in values])
    for parameter in api.parameters:
        if parameter.required and parameter.key not in values:
            value = implied(draft, api, parameter, values, visible)
            if value is not None:
                values[parameter.key] = value
    for parameter in api.parameters:
        value = values.get(parameter.key)
        if value is not None and not isinstance(value, Reference) and parameter.kind in INHERITED:
            draft.said_before.setdefault((api.connector, last_part(parameter.key)), value)
    variable = TRIGGER if api.trigger else _variable(draft, api)
    pairs = tuple((p.key, values[p.key]) for p in api.parameters if p.key in values)
    call = Call(api.name, Object(pairs), variable, awaited=api.trigger)
    outputs = [Output(draft.steps, api, variable, output) for output in api.returns]
    draft.steps += 1
    draft.last_connector = api.connector
    return text, call, outputs


def _variable(draft: Draft, api: API) -> str:
    """A new name for what the call returns."""
    base = name = f"outputs_{api.operation}"
    number = 2
    while name in draft.variables:
        name, number = f"{base}_{number}", number + 1
    draft.variables.add(name)
    return name


def _phrase(draft: Draft, api: API, values: dict[str, Value], visible: Sequence[Output]) -> str:
    name = "terse" if draft.terse else "phrases"
    texts = list(draft.wordings.apis[api.name, name, draft.side])
    if draft.split == "unseen" and not api.in_training:  # never seen in training, whatever the wording
        texts = [*draft.wordings.apis[api.name, name, "training"], *texts]
    draft.rng.shuffle(texts)
    for template in sorted(texts, key=lambda text: _repeats(draft, api, text)):
        filled = put(draft, api, template, values, visible)
        if filled is not None:
            draft.used.append((api.name, template))
            return filled
    raise Unsayable(f"{api.name}: no phrase can be filled")


def _parameters(api: API, template: str) -> list[Field]:
    return [api.parameter(slot) for slot in SLOT.findall(template) if slot != APP]


def _repeats(draft: Draft, api: API, template: str) -> bool:
    """Whether a phrase has a slot for what has been said before; now and then that does no harm."""
    said_before = any(draft.known(api, parameter.key) is not None for parameter in _parameters(api, template))
    return said_before and draft.rng.random() < 0.7


def _clauses(draft: Draft, api: API, values: dict[str, Value], visible: Sequence[Output]) -> str:
    """Endings that name further parameters, each with a space before it; often none."""
    texts = list(draft.wordings.apis[api.name, "clauses", draft.side])
    if draft.split == "unseen" and not api.in_training:
        texts += draft.wordings.apis[api.name, "clauses", "training"]
    draft.rng.shuffle(texts)
    most = 1 if draft.terse or api.trigger else draft.rng.choice((1, 2, 2, 3))
    said = ""
    for template in texts:
        if not most:
            break
        parameters = _parameters(api, template)
        if any(parameter.key in values for parameter in parameters):
            continue
        if draft.rng.random() >= _clause_chance(draft, api, parameters, visible):
            continue
        words = put(draft, api, template, values, visible)
        if words is not None:
            draft.used.append((api.name, template))
            said += f" {words}"
            most -= 1
    return said


def _clause_chance(draft: Draft, api: API, parameters: list[Field], visible: Sequence[Output]) -> float:
    chance = (0.2 if draft.terse else 0.55) if any(parameter.required for parameter in parameters) else 0.12
    if any(draft.known(api, parameter.key) is not None for parameter in parameters):
        chance *= 0.2
    offers = [output for parameter in parameters for output, _ in candidates(draft, api, parameter, visible)]
    return max(chance, 0.6) if any(is_new(draft, output) for output in offers) else chance


def put(draft: Draft, api: API, template: str, values: dict[str, Value], visible: Sequence[Output]) -> str | None:
    """The template with its slots filled; None, and `values` as before, where a slot cannot be."""
    if draft.rng.random() < 0.2:
        template = _vary(draft, template)
    if api.connector == draft.last_connector and draft.rng.random() < 0.4 and template.count(" ") > 3:
        template = re.sub(r" (in|on|from) \{app\}$", "", template)
    parts, at, fresh = [], 0, dict(values)
    for match in SLOT.finditer(template):
        parts.append(template[at : match.start()])
        at = match.end()
        if match[1] == APP:
            parts.append(draft.app(api))
            continue
        words = fill(draft, api, api.parameter(match[1]), fresh, visible, "".join(parts))
        if words is None:
            return None
        if words.startswith(NAMED_AFTER):
            parts[-1] = CALLED.sub("", parts[-1])
        parts.append(words)
    parts.append(template[at:])
    values.update(fresh)
    return "".join(parts)


def _vary(draft: Draft, template: str) -> str:
    """The template with one word replaced by a synonym, where it has one."""
    found = [(old, new) for old, new in SYNONYMS
             if (template.startswith(old) if old[0] != " " and old.endswith(" ") else old in template)]  # fmt: skip
    if not found:
        return template
    old, new = draft.rng.choice(found)
    return template.replace(old, draft.rng.choice(new), 1)


def fill(
    draft: Draft, api: API, parameter: Field, call: dict[str, Value], visible: Sequence[Output], spoken: str = ""
) -> str | None:
    """Words for a slot, its value goes into the call; None where no value is to be had.

    `spoken`: the words before the slot; words for an output do not go well after all of them.
    """
    known = draft.known(api, parameter.key)
    if known is not None and parameter.kind in INHERITED and parameter.kind != "choice":
        call[parameter.key] = known
        return speak(draft, known, parameter.kind)
    words = _refer(draft, api, parameter, call, visible, spoken)
    if words is not None:
        return words
    value = literal(draft, api, parameter, call)
    if value is None:
        return None
    call[parameter.key] = value
    return speak(draft, value, parameter.kind)


def _refer(
    draft: Draft, api: API, parameter: Field, call: dict[str, Value], visible: Sequence[Output], spoken: str
) -> str | None:
    """Words for an earlier output that goes into the call; None where there is none that fits, or by chance."""
    chance = REFERENCE_CHANCE.get(parameter.kind, 0.0)
    if draft.terse:
        chance *= 0.3
    lead = lead_in(spoken)
    found = candidates(draft, api, parameter, visible) if chance and lead is not None else []
    if any(is_new(draft, output) for output, _ in found):
        chance = max(chance, 0.75)
    if not found or lead is None or draft.rng.random() >= chance:
        return None
    output = draft.rng.choices([o for o, _ in found], [w for _, w in found])[0]
    words = describe(draft, output, visible)
    if words and set(spoken.split()[-3:]) & set(output.field.summary.split()) - {"of", "in"}:
        words = None  # "with a link to the link"
    if not words or output.reference in call.values():
        return None
    call[parameter.key] = output.reference
    draft.referred.add(output.reference)
    return lead + words


def lead_in(spoken: str) -> str | None:
    """What has to stand between the words before a slot and words for an output; None: they do not go together."""
    words = PLACEHOLDER.sub("x", spoken).rstrip(" ").split(" ")
    if CALLED.search(spoken):
        return NAMED_AFTER
    if (
        re.search(r"\b(with|and) (the |an? )?(?!the |an? )\w+( \w+)?$", " ".join(words))
        and words[-1] not in PREPOSITIONS
    ):
        return "set to "
    if len(words) == 1 or words[-1] in PREPOSITIONS | VERBS:
        return ""
    return None


def implied(
    draft: Draft, api: API, parameter: Field, values: dict[str, Value], visible: Sequence[Output]
) -> Value | None:
    """What fills a required parameter that the request leaves unsaid; None: the flow leaves it out, too."""
    kind = parameter.kind
    known = draft.known(api, parameter.key)
    if known is not None and kind in INHERITED:
        return known
    if kind == "choice":
        return parameter.examples[0] if parameter.examples else None
    if kind.startswith(ID):
        same = [o for o in visible if o.field.kind == kind
                and (o.api.connector == api.connector or kind in SHARED_IDS)]  # fmt: skip
        return same[-1].reference if same else None
    if kind in DATED:
        same = [o for o in visible if o.field.kind in DATED and same_moment(parameter, o.field)]
        return same[0].reference if same and not partner(api, parameter.key) else None
    taken = {value for value in values.values() if isinstance(value, Reference)}
    for source in IMPLIED.get(kind, ()):
        for output in visible:
            fresh = output.field.summary not in UNTESTED and output.reference not in taken
            if output.field.kind == source and fresh:
                return output.reference
    return None
