"""One step of a flow in words and as a call, made together: what the words say stands in the parameters.

A slot of a phrase is filled with a value that people name (a moment, a text in quotation marks, an end of a range) or
with words for what an earlier call returned.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache

from lib.workflows.apis import API, APP, ID, SHARED_IDS, SLOT, Field, fits
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
NAMED_AFTER = "named after "
DOMAINS: list[str] = HABITS["domains"]
UNTESTED = frozenset(HABITS["untested"])
LEADS = frozenset(HABITS["prepositions"] + HABITS["verbs"])  # what they stand before may be words for an output


class Unsayable(ValueError):
    """A plan that cannot be put into words: nothing to test unambiguously, or a phrase whose slots nothing fills."""


# ---------------------------------------------------------------- values that people name


@cache
def partner(api: API, key: str) -> tuple[str, bool] | None:
    """The key at the other end of a range and whether `key` is its start; None where `key` is no end of one."""
    for low, high in HABITS["ranges"]:
        for mine, other, starts in ((low, high, True), (high, low, False)):
            for old, new in ((mine, other), (mine.capitalize(), other.capitalize())):
                changed = re.sub(rf"(?<![a-z]){old}(?![a-z])", new, key)
                if changed != key and changed in api.keys:
                    return changed, starts
    return None


def literal(draft: Draft, api: API, parameter: Field, call: dict[str, Value]) -> Value | None:
    """A value that people would name, in order where its range's other end is in the call; None where there is none."""
    kind, rng = parameter.kind, draft.rng
    end = partner(api, parameter.key)
    other = call.get(end[0]) if end else None
    if kind in DATED:
        return moment(rng, kind, other, bool(end and end[1]))
    pool = list(parameter.examples) or list(draft.wordings.values.get(kind, ()))
    if kind == "choice":
        pool = [value for value in pool if str(value).lower() not in HABITS["unspoken_choices"]]
    if kind == "person_email" and not parameter.examples and rng.random() < 0.5:
        pool = [address(rng, rng.choice(draft.wordings.values["person_name"]))]
    if end and isinstance(other, int | float):
        pool = [value for value in pool if (value < other if end[1] else value > other)]
    elif len(pool) > 1:
        pool = [value for value in pool if str(value) not in draft.literals] or pool
    if not pool:
        return None
    value = rng.choice(pool)
    draft.literals.add(str(value))
    return value


def address(rng: random.Random, name: str) -> str:
    """An email address for a first and a last name."""
    first, last = name.lower().split()
    return f"{rng.choice((first, f'{first}.{last}', f'{first[0]}.{last}'))}@{rng.choice(DOMAINS)}"


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
    chance = HABITS["quoted"].get(kind, 0.05)
    if kind == "text" and re.search(r"[,.!?]|\s\S+\s\S+\s", value):
        chance = 1.0
    if draft.terse:
        chance *= 0.8
    if rng.random() < chance:
        draft.quoted.append(value)
        marks = rng.choice(HABITS["quotes"])
        if "'" in value and marks == "''":
            marks = '""'
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


# ---------------------------------------------------------------- what earlier calls returned


@dataclass(frozen=True, slots=True)
class Output:
    """A field that a call returned, as later steps see it. `step` counts calls, the trigger is 0."""

    step: int
    api: API
    variable: str
    field: Field

    @property
    def reference(self) -> Reference:
        return Reference(self.variable, ("body", *self.field.key.split("/")))


@cache
def thing(api: API) -> str:
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


def is_new(draft: Draft, output: Output) -> bool:
    """Whether an action, not the trigger, returned it and no step has taken it up."""
    return bool(output.step) and output.reference not in draft.referred


def candidates(draft: Draft, api: API, parameter: Field, visible: Sequence[Output]) -> list[tuple[Output, float]]:
    """Earlier outputs that may fill the parameter, with their weights."""
    kind = parameter.kind
    if kind not in HABITS["reference_chance"] or (parameter.examples and kind in ("tag", "text", "file_name")):
        return []  # such a parameter names something that is there already
    if partner(api, parameter.key):
        return []  # nobody knows whether it comes before the other end
    return [(output, _weight(draft, kind, output)) for output in visible if _may_fill(api, parameter, output)]


def _may_fill(api: API, parameter: Field, output: Output) -> bool:
    kind, source = parameter.kind, output.field
    if not source.summary or not fits(source.kind, kind, output.api.connector == api.connector):
        return False
    if source.summary in UNTESTED or source.kind in ("boolean", "count", "number"):
        return False
    if kind in DATED:
        return same_moment(parameter, source)
    return source.kind not in DATED and (kind != "file_name" or source.kind == "file_name")


def _weight(draft: Draft, kind: str, output: Output) -> float:
    source = output.field.kind
    weight = 6.0 if source == kind else HABITS["kind_weight"].get(source, 0.6)
    if kind == "title" and source in ("person_name", "company"):
        weight = 0.3
    if is_new(draft, output):
        weight *= 3.0  # what a step looked up is there to be used
    if output.reference in draft.referred:
        weight *= 0.3
    return weight


def describe(draft: Draft, output: Output, visible: Sequence[Output], possessive: bool = False) -> str | None:
    """Words for an earlier output; None where another one would be meant as well.

    `possessive`: "its subject" is possible, too, of the trigger's outputs and before any action.
    """
    summary, noun = output.field.summary, thing(output.api)
    rivals = [o for o in visible if o.field.summary == summary and o.variable != output.variable]
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


# ---------------------------------------------------------------- words and call


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
    found = [(old, new) for old, new in FRAMES["synonyms"]
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
    chance = HABITS["reference_chance"].get(parameter.kind, 0.0)
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
        and words[-1] not in HABITS["prepositions"]
    ):
        return "set to "
    if len(words) == 1 or words[-1] in LEADS:
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
    for source in HABITS["implied"].get(kind, ()):
        for output in visible:
            fresh = output.field.summary not in UNTESTED and output.reference not in taken
            if output.field.kind == source and fresh:
                return output.reference
    return None
