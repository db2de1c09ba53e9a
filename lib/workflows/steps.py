"""One step of a flow in words and as a call, made together: what the words say stands in the parameters.

A slot of a phrase is filled with a value that people name (a moment, a text in quotation marks, an end of a range) or
with words for what an earlier call returned.
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache

from lib.workflows.apis import APP, ID, SHARED_IDS, SLOT, Field, Operation, fits, free_name
from lib.workflows.language import Call, Object, Reference, Value
from lib.workflows.wording import FRAMES, HABITS, PLACEHOLDER, Draft, last_part

TRIGGER = "triggerOutputs"
DATED = {"date", "datetime"}
FIRST_DAY, DAYS = datetime(2024, 1, 8), 900
OPENING_HOURS = range(8, 18)
DAY_FORMAT, MOMENT_FORMAT = "%Y-%m-%d", "%Y-%m-%dT%H:%M:%SZ"
MOMENTS = ("start", "end", "due")  # an output may fill a date only if both speak of the same moment
# Kinds of value that later steps of one connector share: who said "the Roadmap board" means it from there on.
INHERITED = {"container", "team", "channel", "choice"}
CALLED = re.compile(r"(called|named|titled|entitled) $")
AS_IT_IS = re.compile(r"\b(with|and) (the |an? )?(?!the |an? )\w+( \w+)?$")  # "with the title", which is then set
NAMED_AFTER = "named after "
DOMAINS: list[str] = HABITS["domains"]
UNTESTED = frozenset(HABITS["untested"])
LEADS = frozenset(HABITS["prepositions"] + HABITS["verbs"])  # what they stand before may be words for an output


class Unsayable(ValueError):
    """A plan that cannot be put into words: nothing to test unambiguously, or a phrase whose slots nothing fills."""


@cache
def partner(api: Operation, key: str) -> tuple[str, bool] | None:
    """The key at the other end of a range and whether `key` is its start; None where `key` is no end of one."""
    for low, high in HABITS["ranges"]:
        for mine, other, starts in ((low, high, True), (high, low, False)):
            for old, new in ((mine, other), (mine.capitalize(), other.capitalize())):
                changed = re.sub(rf"(?<![a-z]){old}(?![a-z])", new, key)
                if changed != key and changed in api.keys:
                    return changed, starts
    return None


def literal(draft: Draft, api: Operation, parameter: Field, call: dict[str, Value]) -> Value | None:
    """A value that people would name, in order where its range's other end is in the call; None where there is none."""
    kind, rng, values = parameter.kind, draft.rng, draft.wordings.values
    end = partner(api, parameter.key)
    other = call.get(end[0]) if end else None
    if kind in DATED:
        return moment(rng, kind, other, bool(end and end[1]))
    pool = list(parameter.examples) or list(values.get(kind, ()))
    if kind == "choice":
        pool = [value for value in pool if str(value).lower() not in HABITS["unspoken_choices"]]
    if kind == "person_email" and not parameter.examples and rng.random() < 0.5:
        first, last = rng.choice(values["person_name"]).lower().split()
        pool = [f"{rng.choice((first, f'{first}.{last}', f'{first[0]}.{last}'))}@{rng.choice(DOMAINS)}"]
    if end and isinstance(other, int | float):
        pool = [value for value in pool if (value < other if end[1] else value > other)]
    elif len(pool) > 1:
        pool = [value for value in pool if str(value) not in draft.literals] or pool
    if not pool:
        return None
    value = rng.choice(pool)
    draft.literals.add(str(value))
    return value


def moment(rng: random.Random, kind: str, other: Value = None, starts: bool = False) -> str:
    """A date, or a date and time in UTC; before the moment `other` where it `starts` their range, else after it."""
    layout = DAY_FORMAT if kind == "date" else MOMENT_FORMAT
    if isinstance(other, str):
        step = timedelta(days=rng.randint(1, 10)) if kind == "date" else timedelta(minutes=30 * rng.randint(1, 6))
        return (datetime.strptime(other, layout) + (-step if starts else step)).strftime(layout)
    day = FIRST_DAY + timedelta(days=rng.randrange(DAYS))
    return (day + timedelta(hours=rng.choice(OPENING_HOURS), minutes=rng.choice((0, 0, 0, 30)))).strftime(layout)


def speak(draft: Draft, value: Value, kind: str) -> str:
    """The value as people write it, as a placeholder."""
    rng = draft.rng
    if kind in DATED:
        return draft.token(spoken_moment(str(value), draft.day_layout, draft.clock))
    if not isinstance(value, str):
        return draft.token(str(value))
    long = kind == "text" and re.search(r"[,.!?]|\s\S+\s\S+\s", value)
    chance = 1.0 if long else HABITS["quoted"].get(kind, 0.05)
    if rng.random() < chance * (0.8 if draft.terse else 1.0):
        marks = rng.choice(HABITS["quotes"])
        marks = '""' if "'" in value and marks == "''" else marks
        return draft.token(marks[0] + value + marks[1])
    if kind == "choice" and re.fullmatch(r"[A-Z][a-z]+( [a-z]+)*", value) and rng.random() < 0.7:
        return draft.token(value.lower())
    return draft.token(value)


def spoken_moment(value: str, day_layout: str, clock: str) -> str:
    """A moment as somebody writes it who writes days by `day_layout` and times by `clock`."""
    if day_layout == "":
        return value
    at = datetime.fromisoformat(value.removesuffix("Z"))
    day = day_layout.format(day=at.day, month=f"{at:%B}", short=f"{at:%b}", year=at.year, iso=f"{at:%Y-%m-%d}")
    if "T" not in value:
        return day
    hour = (at.hour - 1) % 12 + 1
    twelve = f"{hour}:{at:%M} {at:%p}" if at.minute else f"{hour} {at:%p}".lower()
    return f"{day} " + clock.format(twelve=twelve, hour24=f"{at:%H:%M}", plain=f"{at.hour}:{at:%M}")


@dataclass(frozen=True, slots=True)
class Output:
    """A field that a call returned, as later steps see it. `step` counts calls, the trigger is 0."""

    step: int
    api: Operation
    variable: str
    field: Field

    @property
    def reference(self) -> Reference:
        return Reference(self.variable, ("body", *self.field.key.split("/")))

    def is_new(self, draft: Draft) -> bool:
        """Whether an action, not the trigger, returned it and no step has taken it up."""
        return bool(self.step) and self.reference not in draft.referred


@cache
def thing(api: Operation) -> str:
    """What people call that which a call returns: "email", "card"; empty where its fields do not tell."""
    if any(output.kind == "file_name" for output in api.returns):
        return "file"
    for output in api.returns:
        what = output.kind.removeprefix(ID)
        if output.kind.startswith(ID) and what in HABITS["things"]:
            mail = what == "message" and re.search(r"e-?mail", f"{api.display_name} {api.app_name}", re.IGNORECASE)
            return "email" if mail else HABITS["things"][what]
    return ""


def same_moment(parameter: Field, source: Field) -> bool:
    """Whether both dates are a start, an end or a due date."""
    words = f"{parameter.key} {parameter.summary}".lower()
    return any(moment in words and moment in source.summary.lower() for moment in MOMENTS)


def candidates(draft: Draft, api: Operation, parameter: Field) -> dict[Output, float]:
    """Earlier outputs that may fill the parameter, with their weights."""
    kind = parameter.kind
    is_there = parameter.examples and kind in ("tag", "text", "file_name")  # it names something that is there already
    if kind not in HABITS["reference_chance"] or is_there or partner(api, parameter.key):
        return {}  # of a range, nobody knows whether an output comes before the other end
    found = {}
    for output in draft.visible:
        source = output.field
        if not source.summary or source.summary in UNTESTED or source.kind in ("boolean", "count", "number"):
            continue
        if not fits(source.kind, kind, output.api.connector == api.connector):
            continue
        other = source.kind in DATED or (kind == "file_name" and source.kind != kind)
        if other if kind not in DATED else not same_moment(parameter, source):
            continue
        weight = 6.0 if source.kind == kind else HABITS["kind_weight"].get(source.kind, 0.6)
        if kind == "title" and source.kind in ("person_name", "company"):
            weight = 0.3
        if output.is_new(draft):
            weight *= 3.0  # what a step looked up is there to be used
        found[output] = weight * (0.3 if output.reference in draft.referred else 1.0)
    return found


def describe(draft: Draft, output: Output, possessive: bool = False) -> str | None:
    """Words for an earlier output; None where another one would be meant as well.

    `possessive`: "its subject" is possible, too, of the trigger's outputs and before any action.
    """
    summary, noun = output.field.summary, thing(output.api)
    rivals = [o for o in draft.visible if o.field.summary == summary and o.variable != output.variable]
    plain = re.search(r" (of|in|to|who|that) |'s", summary) or (noun and re.search(rf"\b{noun}\b", summary))
    if rivals:
        if plain or not noun or any(thing(o.api) == noun for o in rivals):
            return None
        return draft.rng.choice((f"the {summary} of the {noun}", f"the {noun}'s {summary}"))
    if plain or not noun:
        return f"the {summary}"
    forms, weights = [f"the {summary}", f"the {summary} of the {noun}", f"the {noun}'s {summary}"], [4.0, 2.0, 1.5]
    if summary in HABITS["generic"]:
        weights[0] = 0.7
    if possessive and output.step == 0 and draft.steps <= 1:
        forms.append(f"its {summary}")
        weights.append(1.5)
    return draft.rng.choices(forms, weights)[0]


def step(draft: Draft, api: Operation) -> tuple[str, Call]:
    """Words and call of one step, whose outputs are visible from then on. Raises Unsayable where no phrase can be
    filled."""
    values: dict[str, Value] = {}
    draft.literals = set()
    text = _words(draft, api, values)
    draft.said.append([p.key for p in api.parameters if p.key in values])
    for parameter in (p for p in api.parameters if p.required and p.key not in values):
        value = implied(draft, api, parameter, values)
        if value is not None:
            values[parameter.key] = value
    for parameter in (p for p in api.parameters if p.kind in INHERITED):
        value = values.get(parameter.key)
        if value is not None and not isinstance(value, Reference):
            draft.said_before.setdefault((api.connector, last_part(parameter.key)), value)
    variable = free_name(TRIGGER if api.trigger else f"outputs_{api.operation}", draft.variables)
    draft.variables.add(variable)
    pairs = tuple((p.key, values[p.key]) for p in api.parameters if p.key in values)
    draft.visible = draft.visible + [Output(draft.steps, api, variable, output) for output in api.returns]
    draft.steps += 1
    draft.last_connector = api.connector
    return text, Call(api.name, Object(pairs), variable, awaited=api.trigger)


def _texts(draft: Draft, api: Operation, name: str) -> list[str]:
    """The API's templates of this name, shuffled; one never seen in training has those of both sides."""
    texts = list(draft.wordings.apis[api.name, name, draft.split])
    if draft.split == "unseen" and not api.in_training:
        others = draft.wordings.apis[api.name, name, "training"]
        texts = [*texts, *others] if name == "clauses" else [*others, *texts]
    draft.rng.shuffle(texts)
    return texts


def _words(draft: Draft, api: Operation, values: dict[str, Value]) -> str:
    """A phrase, and often endings that name further parameters, each with a space before it; what they say goes into
    `values`. Raises Unsayable where no phrase can be filled."""
    texts = _texts(draft, api, "terse" if draft.terse else "phrases")
    known = [any(draft.known(api, slot.key) is not None for slot in api.slots(text)) for text in texts]
    late = [has_slot and draft.rng.random() < 0.7 for has_slot in known]  # now and then it does no harm
    ordered = [text for _, text in sorted(zip(late, texts, strict=True), key=lambda one: one[0])]
    filled = (put(draft, api, text, values) for text in ordered)
    said = next((words for words in filled if words is not None), None)
    if said is None:
        raise Unsayable(f"{api.name}: no phrase can be filled")
    clauses = _texts(draft, api, "clauses")
    most = 1 if draft.terse or api.trigger else draft.rng.choice((1, 2, 2, 3))
    for template in clauses:
        parameters = api.slots(template)
        if not most or any(parameter.key in values for parameter in parameters):
            continue
        chance = (0.2 if draft.terse else 0.55) if any(parameter.required for parameter in parameters) else 0.12
        if any(draft.known(api, parameter.key) is not None for parameter in parameters):
            chance *= 0.2
        offers = (output for parameter in parameters for output in candidates(draft, api, parameter))
        if any(output.is_new(draft) for output in offers):
            chance = max(chance, 0.6)
        if draft.rng.random() < chance and (words := put(draft, api, template, values)) is not None:
            said += f" {words}"
            most -= 1
    return said


def put(draft: Draft, api: Operation, template: str, values: dict[str, Value]) -> str | None:
    """The template with its slots filled; None, and `values` as before, where a slot cannot be."""
    if draft.rng.random() < 0.2:
        found = [(old, new) for old, new in FRAMES["synonyms"]
                 if (template.startswith(old) if old[0] != " " and old.endswith(" ") else old in template)]  # fmt: skip
        if found:
            old, new = draft.rng.choice(found)
            template = template.replace(old, draft.rng.choice(new), 1)
    if api.connector == draft.last_connector and draft.rng.random() < 0.4 and template.count(" ") > 3:
        template = re.sub(r" (in|on|from) \{app\}$", "", template)
    text, at, fresh = "", 0, dict(values)
    for match in SLOT.finditer(template):
        text += template[at : match.start()]
        at = match.end()
        if match[1] == APP:
            text += draft.app(api)
            continue
        words = fill(draft, api, api.by_slot[match[1]], fresh, text)
        if words is None:
            return None
        text = (CALLED.sub("", text) if words.startswith(NAMED_AFTER) else text) + words
    values.update(fresh)
    return text + template[at:]


def fill(draft: Draft, api: Operation, parameter: Field, call: dict[str, Value], spoken: str) -> str | None:
    """Words for a slot after the words `spoken`, its value goes into the call; None where no value is to be had.

    An earlier output fills it by chance, where one fits and words for it go well after those before the slot.
    """
    value, kind = draft.known(api, parameter.key), parameter.kind
    if value is None or kind not in INHERITED or kind == "choice":
        chance = HABITS["reference_chance"].get(kind, 0.0) * (0.3 if draft.terse else 1.0)
        words = PLACEHOLDER.sub("x", spoken).rstrip(" ").split(" ")
        lead = "" if len(words) == 1 or words[-1] in LEADS else None  # what goes before words for an output
        if CALLED.search(spoken):
            lead = NAMED_AFTER
        elif words[-1] not in HABITS["prepositions"] and AS_IT_IS.search(" ".join(words)):
            lead = "set to "
        found = candidates(draft, api, parameter) if chance and lead is not None else {}
        if any(output.is_new(draft) for output in found):
            chance = max(chance, 0.75)
        if found and draft.rng.random() < chance:
            output = draft.rng.choices(list(found), list(found.values()))[0]
            described = describe(draft, output)
            repeated = set(spoken.split()[-3:]) & set(output.field.summary.split()) - {"of", "in"}
            if described and not repeated and output.reference not in call.values():  # no "link to the link"
                call[parameter.key] = output.reference
                draft.referred.add(output.reference)
                return f"{lead}{described}"
        value = literal(draft, api, parameter, call)
        if value is None:
            return None
    call[parameter.key] = value
    return speak(draft, value, kind)


def implied(draft: Draft, api: Operation, parameter: Field, values: dict[str, Value]) -> Value | None:
    """What fills a required parameter that the request leaves unsaid; None: the flow leaves it out, too."""
    kind, known, visible = parameter.kind, draft.known(api, parameter.key), draft.visible
    if known is not None and kind in INHERITED:
        return known
    if kind == "choice":
        return parameter.examples[0] if parameter.examples else None
    if kind.startswith(ID):
        here = [o for o in visible if kind in SHARED_IDS or o.api.connector == api.connector]
        return next((o.reference for o in reversed(here) if o.field.kind == kind), None)
    if kind in DATED:
        same = (o.reference for o in visible if o.field.kind in DATED and same_moment(parameter, o.field))
        return None if partner(api, parameter.key) else next(same, None)
    taken = {value for value in values.values() if isinstance(value, Reference)}
    fresh = [o for o in visible if o.field.summary not in UNTESTED and o.reference not in taken]
    sources = HABITS["implied"].get(kind, ())
    return next((o.reference for source in sources for o in fresh if o.field.kind == source), None)
