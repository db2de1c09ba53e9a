"""A planned flow put into words and into the DSL at once, so that what the request says stands in the parameters.

Text is built with a placeholder (a private-use character) for every value and app name, so that typing manners change
the words around a value and never the value.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cache

from lib.workflows import frames
from lib.workflows.apis import API, APP, ID, SHARED_IDS, SLOT, Field, fits, said
from lib.workflows.catalogue import Catalogue
from lib.workflows.frames import split_wordings
from lib.workflows.language import (
    And,
    Branch,
    Call,
    Comparison,
    Condition,
    Flow,
    If,
    Not,
    Object,
    Or,
    Reference,
    Statement,
    Value,
    variables_used,
)

TRIGGER = "triggerOutputs"
FIRST_PLACEHOLDER = 0xE000
UNSPOKEN_CHOICES = {"any", "all", "none", "auto", "default"}  # nobody asks for the value that changes nothing
DATED = {"date", "datetime"}
FIRST_DAY = datetime(2024, 1, 8)

# How often words for an earlier output fill a slot, where one fits.
REFERENCE_CHANCE = {
    "subject": 0.4, "title": 0.4, "text": 0.45, "query": 0.4, "person_email": 0.4, "person_name": 0.35, "phone": 0.5,
    "company": 0.5, "place": 0.4, "file_name": 0.5, "file_path": 0.6, "url": 0.6, "amount": 0.6, "date": 0.5,
    "datetime": 0.5, "language": 0.3, "tag": 0.15,
}  # fmt: skip
# What a required parameter that the request leaves unsaid is filled with, best first; ids are always filled.
IMPLIED = {
    "subject": ("subject", "title", "file_name"), "title": ("title", "subject", "file_name"),
    "text": ("text",), "file_name": ("file_name",), "file_path": ("file_path",),
    "file_content": ("file_content",), "url": ("url",), "phone": ("phone",), "company": ("company",),
    "amount": ("amount",), "records": ("records",), "record": ("record",),
}  # fmt: skip
# Weight of an output's kind where the parameter is of another kind.
KIND_WEIGHT = {"subject": 3.0, "title": 3.0, "file_name": 2.0, "url": 2.0, "text": 3.0}
# Kinds of value that later steps of one connector share: who said "the Roadmap board" means it from there on.
INHERITED = {"container", "team", "channel", "choice"}
MOMENTS = ("start", "end", "due")  # an output may fill a date only if both speak of the same moment
RANGES = (("start", "end"), ("since", "before"), ("since", "until"), ("after", "before"), ("from", "to"),
          ("from", "until"), ("min", "max"), ("begin", "end"))  # fmt: skip
# Whether people put a value of this kind in quotation marks; 0.05 for all others.
QUOTED = {"text": 0.9, "subject": 0.7, "title": 0.65, "query": 0.6, "tag": 0.4, "container": 0.2, "channel": 0.15,
          "folder": 0.2, "team": 0.1, "file_name": 0.15, "code": 0.3}  # fmt: skip
QUOTES = ('""', '""', '""', "''", "“”")
KEYWORDS = (
    "invoice",
    "urgent",
    "order",
    "contract",
    "complaint",
    "refund",
    "application",
    "report",
    "budget",
    "meeting",
    "question",
    "error",
    "delivery",
    "renewal",
    "approved",
    "confidential",
    "offer",
    "feedback",
    "password",
    "training",
    "cancel",
    "payment",
    "holiday",
    "launch",
    "demo",
    "newsletter",
    "visa",
    "draft",
)
DAY_LAYOUTS = (
    "{day} {month} {year}",
    "{month} {day}, {year}",
    "{iso}",
    "{short} {day} {year}",
    "{day} {short} {year}",
    "",
)
OPENING_HOURS = range(8, 18)
# How people type, with weights in prose and in telegraph style.
MANNERS = {"careful": (0.52, 0.2), "no stop": (0.2, 0.4), "lower": (0.2, 0.3), "hurried": (0.08, 0.1)}
SHORT_FORMS = ((" and ", " & "), ("please", "pls"), (" with ", " w/ "), (" you ", " u "))
DOMAINS = ("contoso.com", "fabrikam.com", "northwind.example", "adatum.example")
ENDINGS_OF_FILES = (".pdf", ".docx", ".xlsx", ".csv", ".zip", ".jpg", ".png", ".pptx", ".txt")
BYTES = (100_000, 500_000, 1_000_000, 5_000_000, 10_000_000, 25_000_000)

# How often conditions test an output of a kind.
TESTED = {"choice": 6, "subject": 5, "title": 3, "text": 2, "person_email": 2.5, "amount": 6, "number": 4, "count": 1.5,
          "boolean": 2, "tag": 3, "container": 1, "person_name": 1.5, "company": 2, "place": 1, "file_name": 4,
          "language": 2, "file_path": 1, "date": 1, "datetime": 1}  # fmt: skip
UNTESTED = {
    "sequence number", "version number", "visibility", "postal code", "partition key", "content type", "media type",
    "file type", "copyright notice", "reference", "ticket number", "request number", "row key", "language code",
    "passcode", "group name", "latitude", "longitude", "first name", "last name", "name in the row", "path",
    "app that wrote the page", "chart markup", "conditions", "new value", "previous value",
}  # fmt: skip
# What such an action returns is what it was told: nothing to test.
MAKERS = re.compile(r"(create|add|update|insert|upload|copy|send|post|set|move)\b", re.IGNORECASE)
MEASURES = {"temperature": (0, 5, 15, 20, 25, 30), "humidity": (20, 30, 40, 60, 80), "wind speed": (10, 20, 30, 50),
            "rating": (1, 2, 3, 4), "highest temperature": (0, 20, 25, 30), "lowest temperature": (0, 5, 10),
            "chance of rain": (10, 25, 50, 80), "confidence": (0.5, 0.7, 0.8, 0.9)}  # fmt: skip
GENERIC = {"name", "title", "status", "link", "description", "summary", "priority"}  # of what?
THINGS = {"message": "message", "file": "file", "item": "item", "task": "task", "card": "card", "row": "row",
          "event": "event", "issue": "issue", "ticket": "ticket", "lead": "lead", "deal": "deal", "contact": "contact",
          "order": "order", "tweet": "tweet", "response": "response", "entry": "entry", "submission": "submission",
          "envelope": "envelope", "page": "page", "post": "post", "video": "video", "todo": "to-do",
          "pull": "pull request", "record": "record", "document": "document", "meeting": "meeting",
          "appointment": "appointment", "project": "project", "comment": "comment"}  # fmt: skip
FRAMES = ("TRIGGER_PLAIN", "TRIGGER_CHATTY", "WISH_FIRST", "ACTION_FIRST", "TELEGRAPH", "STEPS", "TRIGGER_ONLY",
          "JOINS", "IF_LINKS", "IF_STYLES", "ONLY_IFS", "MERGED", "POSTS", "TELEGRAPH_IFS", "ENDINGS")  # fmt: skip
PLAIN_SHARE = 0.6  # of the frames that begin with the trigger
OPENS_BODY = re.compile("if|check|see|only if|but only|in case")  # go well after "when …,"
CALLED = re.compile(r"(called|named|titled|entitled) $")
NAMED_AFTER = "named after "
# Words that go well before "the subject of the email".
PREPOSITIONS = frozenset("to from of with for about on as by at under via than through behalf into".split())
VERBS = frozenset(
    "saying using says reads reading is me them us tell ask notify email mail text tweet invite add let have put "
    "assign give share forward send noting search linking announcing announce mentioning log save show chat".split()
)


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


@dataclass(slots=True)
class Planned:
    """APIs in the order of the flow: the trigger, actions before the condition, branches, actions after it.

    `branches` are the bodies, the last one that of `else` where `has_else`.
    """

    trigger: API
    before: list[API]
    branches: list[list[API]] = field(default_factory=list)
    has_else: bool = False
    after: list[API] = field(default_factory=list)


@dataclass(slots=True)
class Written:
    """A request with its flow. `wordings`: which phrases of which API it uses; `frame`: which frame."""

    request: str
    flow: Flow
    frame: str
    wordings: list[tuple[str, str]]
    quoted: list[str]


@cache
def thing(api: API) -> str:
    """What people call that which a call returns: "email", "card"; empty where its fields do not tell."""
    if any(output.kind == "file_name" for output in api.returns):
        return "file"
    for output in api.returns:
        what = output.kind.removeprefix(ID)
        if output.kind.startswith(ID) and what in THINGS:
            mail = what == "message" and re.search(r"e-?mail", f"{api.display_name} {api.app_name}", re.IGNORECASE)
            return "email" if mail else THINGS[what]
    return ""


@cache
def partner(api: API, key: str) -> tuple[str, bool] | None:
    """The key at the other end of a range and whether `key` is its start; None where `key` is no end of one."""
    for low, high in RANGES:
        for mine, other, starts in ((low, high, True), (high, low, False)):
            for old, new in ((mine, other), (mine.capitalize(), other.capitalize())):
                changed = re.sub(rf"(?<![a-z]){old}(?![a-z])", new, key)
                if changed != key and changed in api.keys:
                    return changed, starts
    return None


def testable(output: Field) -> bool:
    """Whether a condition can test the field."""
    if not output.summary or output.kind not in TESTED or output.summary in UNTESTED:
        return False
    if output.kind == "boolean":
        return output.summary in frames.FLAGS
    if output.kind in DATED:
        return any(moment in output.summary for moment in MOMENTS)
    return output.kind != "choice" or len(output.examples) > 1


class Wordings:
    """All wordings of a catalogue, split between training and test; the unseen set has the test's frames."""

    def __init__(self, catalogue: Catalogue, values: dict[str, list], seed: int):
        self.values = values
        self.connectors = catalogue.connectors
        self.apis: dict[tuple[str, str, str], tuple[str, ...]] = {}
        for api in catalogue:
            for name in ("phrases", "terse", "clauses"):
                usable = [text for text in getattr(api, name) if self._usable(api, text)]
                # Siblings share phrases, so they must share the split.
                parts = split_wordings(usable, seed, "|".join(getattr(api, name)))
                for split, texts in parts.items():
                    self.apis[api.name, name, split] = texts
        self.frames: dict[str, dict] = {"training": {}, "test": {}}
        for name in FRAMES:
            for split, templates in split_wordings(getattr(frames, name), seed, name).items():
                self.frames[split][name] = templates
        for name, wordings in frames.CONDITIONS.items():
            for split, texts in split_wordings(wordings, seed, f"condition {name}").items():
                self.frames[split][name] = texts
        for name, (true, false) in frames.FLAGS.items():
            for state, wordings in ((True, true), (False, false)):
                for split, texts in split_wordings(wordings, seed, f"flag {name} {state}").items():
                    self.frames[split][name, state] = texts

    @staticmethod
    def _usable(api: API, text: str) -> bool:
        kinds = [api.parameter(slot) for slot in SLOT.findall(text) if slot != APP]
        return all(p.examples or (said(p.kind) and p.kind != "boolean") for p in kinds)


def write(plan: Planned, wordings: Wordings, split: str, rng: random.Random) -> Written:
    """The request and the flow of a plan."""
    return _Writer(wordings, split, rng).write(plan)


class _Writer:
    def __init__(self, wordings: Wordings, split: str, rng: random.Random):
        self.wordings, self.split, self.rng = wordings, split, rng
        self.frames = wordings.frames["training" if split == "training" else "test"]
        self.tokens: list[tuple[str, bool]] = []  # text of each placeholder, whether it is an app's name
        self.quoted: list[str] = []
        self.apps: dict[str, str] = {}
        self.said_before: dict[tuple[str, str], Value] = {}  # (connector, last part of key): literal
        self.variables: set[str] = set()
        self.used: list[tuple[str, str]] = []
        self.referred: set[Reference] = set()
        self.steps = 0
        self.literals: set[str] = set()
        self.last_connector = ""
        self.terse = self.has_if = False
        self.day_layout = rng.choice(DAY_LAYOUTS)
        self.clock = rng.choice(("at {hour24}", "at {plain}", "at {twelve}", "{hour24}"))

    # ------------------------------------------------------------ placeholders and values

    def token(self, text: str, app: bool = False) -> str:
        self.tokens.append((text, app))
        return chr(FIRST_PLACEHOLDER + len(self.tokens) - 1)

    def app(self, api: API) -> str:
        if api.connector not in self.apps:
            called = self.wordings.connectors[api.connector].called
            weights = [3.0] + [1.0] * (len(called) - 1)
            self.apps[api.connector] = self.rng.choices(called, weights)[0]
        return self.token(self.apps[api.connector], app=True)

    def literal(self, api: API, parameter: Field, call: dict[str, Value]) -> Value | None:
        """A value that people would name, in order where its range's other end has one."""
        kind, rng = parameter.kind, self.rng
        end = partner(api, parameter.key)
        other = call.get(end[0]) if end else None
        if kind in DATED:
            return self.moment(kind, other, bool(end and end[1]))
        pool = list(parameter.examples) or list(self.wordings.values.get(kind, ()))
        if kind == "choice":
            pool = [value for value in pool if str(value).lower() not in UNSPOKEN_CHOICES]
        if kind == "person_email" and not parameter.examples and rng.random() < 0.5:
            first, last = rng.choice(self.wordings.values["person_name"]).lower().split()
            pool = [f"{rng.choice((first, f'{first}.{last}', f'{first[0]}.{last}'))}@{rng.choice(DOMAINS)}"]
        if other is not None and isinstance(other, int | float):
            pool = [value for value in pool if (value < other if end[1] else value > other)]
        elif len(pool) > 1:
            pool = [value for value in pool if str(value) not in self.literals] or pool
        if not pool:
            return None
        value = rng.choice(pool)
        self.literals.add(str(value))
        return value

    def moment(self, kind: str, other: Value, starts: bool) -> str:
        rng = self.rng
        layout = "%Y-%m-%d" if kind == "date" else "%Y-%m-%dT%H:%M:%SZ"
        if isinstance(other, str):
            step = timedelta(days=rng.randint(1, 10)) if kind == "date" else timedelta(minutes=30 * rng.randint(1, 6))
            return (datetime.strptime(other, layout) + (-step if starts else step)).strftime(layout)
        day = FIRST_DAY + timedelta(days=rng.randrange(900))
        return (day + timedelta(hours=rng.choice(OPENING_HOURS), minutes=rng.choice((0, 0, 0, 30)))).strftime(layout)

    def speak(self, value: Value, kind: str) -> str:
        """The value as people write it, as a placeholder."""
        rng = self.rng
        if kind in DATED:
            return self.token(self.spoken_moment(str(value)))
        if not isinstance(value, str):
            return self.token(str(value))
        chance = QUOTED.get(kind, 0.05)
        if kind == "text" and re.search(r"[,.!?]|\s\S+\s\S+\s", value):
            chance = 1.0
        if self.terse:
            chance *= 0.8
        if rng.random() < chance:
            self.quoted.append(value)
            marks = rng.choice(QUOTES)
            if "'" in value and marks == "''":
                marks = '""'
            return self.token(marks[0] + value + marks[1])
        if kind == "choice" and re.fullmatch(r"[A-Z][a-z]+( [a-z]+)*", value) and rng.random() < 0.7:
            return self.token(value.lower())
        return self.token(value)

    def spoken_moment(self, value: str) -> str:
        moment = datetime.fromisoformat(value.removesuffix("Z"))
        if self.day_layout == "":
            return value
        day = self.day_layout.format(
            day=moment.day, month=f"{moment:%B}", short=f"{moment:%b}", year=moment.year, iso=f"{moment:%Y-%m-%d}"
        )
        if "T" not in value:
            return day
        hour = (moment.hour - 1) % 12 + 1
        twelve = f"{hour}:{moment:%M} {moment:%p}" if moment.minute else f"{hour} {moment:%p}".lower()
        return f"{day} " + self.clock.format(
            twelve=twelve, hour24=f"{moment:%H:%M}", plain=f"{moment.hour}:{moment:%M}"
        )

    # ------------------------------------------------------------ words for outputs

    def describe(self, output: Output, visible: Sequence[Output], possessive: bool = False) -> str | None:
        """Words for an earlier output; None where another one would be meant as well."""
        summary, noun = output.field.summary, thing(output.api)
        rivals = [o for o in visible if o.field.summary == summary and o.variable != output.variable]
        plain = re.search(r" (of|in|to|who|that) |'s", summary) or (noun and re.search(rf"\b{noun}\b", summary))
        if rivals:
            if plain or not noun or any(thing(o.api) == noun for o in rivals):
                return None
            return self.rng.choice((f"the {summary} of the {noun}", f"the {noun}'s {summary}"))
        if plain or not noun:
            return f"the {summary}"
        forms, weights = [f"the {summary}", f"the {summary} of the {noun}", f"the {noun}'s {summary}"], [4.0, 2.0, 1.5]
        if summary in GENERIC:
            weights[0] = 0.7
        if possessive and output.step == 0 and self.steps <= 1:
            forms.append(f"its {summary}")
            weights.append(1.5)
        return self.rng.choices(forms, weights)[0]

    def candidates(self, api: API, parameter: Field, visible: Sequence[Output]) -> list[tuple[Output, float]]:
        kind = parameter.kind
        if kind not in REFERENCE_CHANCE or (parameter.examples and kind in ("tag", "text", "file_name")):
            return []  # such a parameter names something that is there already
        if partner(api, parameter.key):
            return []  # nobody knows whether it comes before the other end
        found = []
        for output in visible:
            source = output.field
            if not source.summary or not fits(source.kind, kind, output.api.connector == api.connector):
                continue
            if source.summary in UNTESTED or source.kind in ("boolean", "count", "number"):
                continue
            if (kind in DATED and not _same_moment(parameter, source)) or kind == "file_name" != source.kind:
                continue
            if source.kind in DATED and kind not in DATED:
                continue
            weight = 6.0 if source.kind == kind else KIND_WEIGHT.get(source.kind, 0.6)
            if kind == "title" and source.kind in ("person_name", "company"):
                weight = 0.3
            if output.step and output.reference not in self.referred:
                weight *= 3.0  # what a step looked up is there to be used
            if output.reference in self.referred:
                weight *= 0.3
            found.append((output, weight))
        return found

    def fill(
        self, api: API, parameter: Field, call: dict[str, Value], visible: Sequence[Output], spoken: str = ""
    ) -> str | None:
        """Words for a slot, its value goes into the call; None where no value is to be had.

        `spoken`: the words before the slot; words for an output do not go well after all of them.
        """
        last = parameter.key.rpartition("/")[2].lower()
        known = self.said_before.get((api.connector, last))
        if known is not None and parameter.kind in INHERITED and parameter.kind != "choice":
            call[parameter.key] = known
            return self.speak(known, parameter.kind)
        chance = REFERENCE_CHANCE.get(parameter.kind, 0.0)
        if self.terse:
            chance *= 0.3
        lead = _lead(spoken)
        found = self.candidates(api, parameter, visible) if chance and lead is not None else []
        if any(output.step and output.reference not in self.referred for output, _ in found):
            chance = max(chance, 0.75)
        if found and self.rng.random() < chance:
            output = self.rng.choices([o for o, _ in found], [w for _, w in found])[0]
            words = self.describe(output, visible)
            if words and set(spoken.split()[-3:]) & set(output.field.summary.split()) - {"of", "in"}:
                words = None  # "with a link to the link"
            if words and output.reference not in call.values():
                call[parameter.key] = output.reference
                self.referred.add(output.reference)
                return lead + words
        value = self.literal(api, parameter, call)
        if value is None:
            return None
        call[parameter.key] = value
        return self.speak(value, parameter.kind)

    # ------------------------------------------------------------ one call

    def call(self, api: API, visible: Sequence[Output]) -> tuple[str, Call, list[Output]]:
        """Words and call of one step, and what it returns."""
        values: dict[str, Value] = {}
        self.literals = set()
        text = self.phrase(api, values, visible)
        text = self.add_clauses(api, text, values, visible)
        for parameter in api.parameters:
            if parameter.required and parameter.key not in values:
                value = self.implied(api, parameter, values, visible)
                if value is not None:
                    values[parameter.key] = value
        for parameter in api.parameters:
            value = values.get(parameter.key)
            if value is not None and not isinstance(value, Reference) and parameter.kind in INHERITED:
                self.said_before.setdefault((api.connector, parameter.key.rpartition("/")[2].lower()), value)
        variable = TRIGGER if api.trigger else self.name(api)
        pairs = tuple((p.key, values[p.key]) for p in api.parameters if p.key in values)
        call = Call(api.name, Object(pairs), variable, awaited=api.trigger)
        outputs = [Output(self.steps, api, variable, output) for output in api.returns]
        self.steps += 1
        self.last_connector = api.connector
        return text, call, outputs

    def name(self, api: API) -> str:
        base = name = f"outputs_{api.operation}"
        number = 2
        while name in self.variables:
            name, number = f"{base}_{number}", number + 1
        self.variables.add(name)
        return name

    def phrase(self, api: API, values: dict[str, Value], visible: Sequence[Output]) -> str:
        side = "training" if self.split == "training" else "test"
        name = "terse" if self.terse else "phrases"
        texts = self.wordings.apis[api.name, name, side]
        if self.split == "unseen" and not api.in_training:  # never seen in training, whatever the wording
            texts = self.wordings.apis[api.name, name, "training"] + texts
        texts = list(texts)
        self.rng.shuffle(texts)
        for template in sorted(texts, key=lambda text: self.repeats(api, text)):
            filled = self.put(api, template, values, visible)
            if filled is not None:
                self.used.append((api.name, template))
                return filled
        raise Unsayable(f"{api.name}: no phrase can be filled")

    def repeats(self, api: API, template: str) -> bool:
        """Whether a phrase has a slot for what has been said before; now and then that does no harm."""
        keys = [api.parameter(slot).key for slot in SLOT.findall(template) if slot != APP]
        said_before = any((api.connector, key.rpartition("/")[2].lower()) in self.said_before for key in keys)
        return said_before and self.rng.random() < 0.7

    def put(self, api: API, template: str, values: dict[str, Value], visible: Sequence[Output]) -> str | None:
        """The template with its slots filled; None, and `values` as before, where a slot cannot be."""
        if self.rng.random() < 0.2:
            template = self.vary(template)
        if api.connector == self.last_connector and self.rng.random() < 0.4 and template.count(" ") > 3:
            template = re.sub(r" (in|on|from) \{app\}$", "", template)
        parts, at, fresh = [], 0, dict(values)
        for match in SLOT.finditer(template):
            parts.append(template[at : match.start()])
            at = match.end()
            if match[1] == APP:
                parts.append(self.app(api))
                continue
            words = self.fill(api, api.parameter(match[1]), fresh, visible, "".join(parts))
            if words is None:
                return None
            if words.startswith(NAMED_AFTER):
                parts[-1] = CALLED.sub("", parts[-1])
            parts.append(words)
        parts.append(template[at:])
        values.update(fresh)
        return "".join(parts)

    def vary(self, template: str) -> str:
        found = [(old, new) for old, new in frames.SYNONYMS
                 if (template.startswith(old) if old[0] != " " and old.endswith(" ") else old in template)]  # fmt: skip
        if not found:
            return template
        old, new = self.rng.choice(found)
        return template.replace(old, self.rng.choice(new), 1)

    def add_clauses(self, api: API, text: str, values: dict[str, Value], visible: Sequence[Output]) -> str:
        side = "training" if self.split == "training" else "test"
        texts = list(self.wordings.apis[api.name, "clauses", side])
        if self.split == "unseen" and not api.in_training:
            texts += self.wordings.apis[api.name, "clauses", "training"]
        self.rng.shuffle(texts)
        required = {p.key for p in api.parameters if p.required}
        most = 1 if self.terse or api.trigger else self.rng.choice((1, 2, 2, 3))
        needed = 0.2 if self.terse else 0.55
        for template in texts:
            if not most:
                break
            parameters = [api.parameter(slot) for slot in SLOT.findall(template) if slot != APP]
            keys = [parameter.key for parameter in parameters]
            if any(key in values for key in keys):
                continue
            chance = needed if required & set(keys) else 0.12
            known = [(api.connector, key.rpartition("/")[2].lower()) in self.said_before for key in keys]
            if any(known):
                chance *= 0.2
            offers = [output for parameter in parameters for output, _ in self.candidates(api, parameter, visible)]
            if any(output.step and output.reference not in self.referred for output in offers):
                chance = max(chance, 0.6)
            if self.rng.random() >= chance:
                continue
            words = self.put(api, template, values, visible)
            if words is not None:
                self.used.append((api.name, template))
                text += f" {words}"
                most -= 1
        return text

    def implied(self, api: API, parameter: Field, values: dict[str, Value], visible: Sequence[Output]) -> Value | None:
        """What fills a required parameter that the request leaves unsaid; None: the flow leaves it out, too."""
        kind = parameter.kind
        known = self.said_before.get((api.connector, parameter.key.rpartition("/")[2].lower()))
        if known is not None and kind in INHERITED:
            return known
        if kind == "choice":
            return parameter.examples[0] if parameter.examples else None
        if kind.startswith(ID):
            same = [o for o in visible if o.field.kind == kind
                    and (o.api.connector == api.connector or kind in SHARED_IDS)]  # fmt: skip
            return same[-1].reference if same else None
        if kind in DATED:
            same = [o for o in visible if o.field.kind in DATED and _same_moment(parameter, o.field)]
            return same[0].reference if same and not partner(api, parameter.key) else None
        taken = {value for value in values.values() if isinstance(value, Reference)}
        for source in IMPLIED.get(kind, ()):
            for output in visible:
                fresh = output.field.summary not in UNTESTED and output.reference not in taken
                if output.field.kind == source and fresh:
                    return output.reference
        return None

    # ------------------------------------------------------------ conditions

    def test(self, visible: Sequence[Output], skip: set[str], like: Output | None = None,
             bound: float | None = None) -> tuple[Condition, str, Output, float | None] | None:  # fmt: skip
        """A condition in DSL and words, the output it tests, and for a number the bound (the next one lies below)."""
        found = [
            o
            for o in visible
            if testable(o.field) and o.field.summary not in skip and not MAKERS.match(o.api.display_name)
        ]
        if like is not None and (like.field.kind == "choice" or bound is not None) and self.rng.random() < 0.85:
            found = [like]
        found = [(o, TESTED[o.field.kind] * (3.0 if o.step else 1.0)) for o in found]
        self.rng.shuffle(found)
        while found:
            index = self.rng.choices(range(len(found)), [weight for _, weight in found])[0]
            output, _ = found.pop(index)
            words = self.describe(output, visible, possessive=True)
            if words:
                made = self.compare(output, words, bound if like is not None and output == like else None)
                if made:
                    return *made[:2], output, made[2]
        return None

    def compare(self, output: Output, words: str, bound: float | None) -> tuple[Condition, str, float | None] | None:
        kind, rng, ref, field_ = output.field.kind, self.rng, output.reference, output.field
        values, limit = self.wordings.values, None
        if kind == "boolean":
            state = rng.random() < 0.7
            text = rng.choice(self.frames[field_.summary, state]).replace("{n}", thing(output.api) or "item")
            return Comparison("==", ref, state), text, None
        if kind in ("text", "person_email", "tag", "place", "date", "datetime", "company") and rng.random() < 0.04:
            return Comparison("==", ref, None), self.say("empty", words, "", field_), None
        if kind in ("amount", "number", "count"):
            size = re.search(r"\bsize\b", field_.summary)
            pool = BYTES if size else (field_.examples or MEASURES.get(field_.summary) or values[kind])
            pool = sorted(v for v in pool if bound is None or v < bound)
            if not pool:
                return None
            limit = rng.choice(pool[len(pool) // 3 :] if bound is None else pool)
            operator = ">" if bound is not None else rng.choices((">", "<", ">=", "<="), (6, 2, 2, 1))[0]
            if self.terse and operator in (">=", "<="):
                operator = operator[0]
            text = self.say(operator, words, self.token(f"{limit:,} bytes" if size else str(limit)), field_)
            return Comparison(operator, ref, limit), text, limit if operator in (">", ">=") else None
        if kind in DATED:
            operator = rng.choice(("before", "after"))
            value = self.moment(kind, None, False)
            condition = Comparison("<" if operator == "before" else ">", ref, value)
            return condition, self.say(operator, words, self.speak(value, kind), field_), None
        if kind in ("choice", "language", "container", "company", "person_name", "place"):
            pool = [v for v in (field_.examples or values[kind]) if str(v) not in self.literals]
            if not pool:
                return None
            value = rng.choice(pool)
            self.literals.add(str(value))
            operator = "==" if rng.random() < 0.85 else "!="
            return Comparison(operator, ref, value), self.say(operator, words, self.speak(value, kind), field_), None
        if kind == "person_email":
            if rng.random() < 0.3:
                value = "@" + rng.choice(DOMAINS)
                operator = rng.choice(("endsWith", "contains"))
            else:
                value, operator = rng.choice(values["person_email"]), "=="
            if operator == "==" and re.search(r"attendees|recipients|signers", field_.summary):
                operator = "contains"
            return Comparison(operator, ref, value), self.say(operator, words, self.speak(value, kind), field_), None
        if kind in ("file_name", "file_path") and rng.random() < 0.5:
            value, operator = rng.choice(ENDINGS_OF_FILES), "endsWith"
        elif kind == "tag":
            value, operator = rng.choice(values["tag"]), "contains"
        else:
            value = rng.choice(KEYWORDS)
            exact = 0 if kind == "text" else 1.5
            operator = rng.choices(("contains", "lacks", "startsWith", "=="), (8, 1, 1, exact))[0]
        value_words = self.speak(value, "file_name" if operator == "endsWith" else "query")
        text = self.say(operator, words, value_words, field_)
        if operator == "lacks":
            return Not(Comparison("contains", ref, value)), text, None
        return Comparison(operator, ref, value), text, None

    def say(self, operator: str, words: str, value: str, tested: Field) -> str:
        choices = self.frames[operator]
        if self.terse and operator == "==" and self.rng.random() < 0.5:
            choices = ("{f} = {v}",)
        if self.terse:
            words = words.removeprefix("the ").removeprefix("its ")
        text = self.rng.choice(choices).replace("{f}", words).replace("{v}", value)
        if re.search(r"(?<![su'])s$", tested.summary.split(" of ")[0]) and tested.summary not in ("status", "address"):
            text = _plural(text, words)
        return text

    def condition(
        self, visible: Sequence[Output], skip: set[str], like: Output | None = None, bound: float | None = None
    ) -> tuple[Condition, str, Output, float | None] | None:
        """What `test` gives, now and then joined with a second test."""
        made = self.test(visible, skip, like, bound)
        if made and like is None and self.rng.random() < 0.08:
            second = self.test(visible, skip | {made[2].field.summary})
            if second:
                joined = self.rng.random() < 0.7
                condition = (And if joined else Or)((made[0], second[0]))
                return condition, f"{made[1]} {'and' if joined else 'or'} {second[1]}", made[2], None
        return made

    # ------------------------------------------------------------ the whole

    def write(self, plan: Planned) -> Written:
        rng = self.rng
        has_if = bool(plan.branches)
        kinds = {"trigger": 4.0, "action": 2.6, "wish": 2.2, "telegraph": 1.3, "steps": 0.4}
        if len(plan.before) > 2:
            del kinds["action"]  # nobody says when after four actions
        if not plan.before and not has_if:
            kinds = {"only": 1.0}
        kind = rng.choices(list(kinds), list(kinds.values()))[0]
        self.terse, self.has_if = kind == "telegraph", has_if
        skip = set()
        text, trigger, visible = self.call(plan.trigger, [])
        named = dict(trigger.parameters.pairs)
        for parameter in plan.trigger.parameters:
            if parameter.key in named:
                skip |= {parameter.summary.lower(), parameter.key.rpartition("/")[2].lower()}
                skip.add(str(named[parameter.key]))  # such as the measure that a trigger watches
        skip |= {o.field.summary for o in visible if o.field.key.rpartition("/")[2].lower() in skip
                 or any(o.field.kind == "subject" and "subject" in word for word in skip)}  # fmt: skip
        statements: list = [trigger]
        before: list[str] = []
        for api in plan.before:
            words, call, outputs = self.call(api, visible)
            before.append(words)
            statements.append(call)
            visible = visible + outputs
        conditional = self.branches(plan, visible, skip) if has_if else None
        after: list[str] = []
        if conditional:
            statements.append(conditional[1])
            for api in plan.after:
                words, call, _ = self.call(api, visible)
                after.append(words)
                statements.append(call)
        parts = conditional[0] if conditional else []
        request, frame = getattr(self, f"_{kind}")(text, before, parts, after)
        return Written(self.typed(request), _without_unused(Flow(tuple(statements))), frame, self.used, self.quoted)

    def branches(self, plan: Planned, visible: list[Output], skip: set[str]) -> tuple[list[tuple[str, list[str]]], If]:
        """Words as (condition, actions) for each branch, with an empty condition for `else`; and the statement."""
        words, branches, otherwise = [], [], ()
        like = bound = None
        self.literals = set()
        tests = []
        for _ in range(len(plan.branches) - plan.has_else):
            made = self.condition(visible, skip, like, bound)
            if made is None or made[0] in [condition for condition, *_ in tests]:
                made = self.condition(visible, set())
            if made is None:
                raise Unsayable(f"{plan.trigger.name}: nothing to test")
            tests.append(made)
            like, bound = made[2], made[3]
        names = set(self.variables)
        for number, body in enumerate(plan.branches):
            self.variables = set(names)
            seen, texts, calls = visible, [], []
            self.last_connector = ""
            for api in body:
                text, call, outputs = self.call(api, seen)
                texts.append(text)
                calls.append(call)
                seen = seen + outputs
            names |= self.variables
            if number < len(tests):
                words.append((tests[number][1], texts))
                branches.append(Branch(tests[number][0], tuple(calls)))
            else:
                words.append(("", texts))
                otherwise = tuple(calls)
        self.variables = names
        return words, If(tuple(branches), otherwise)

    def pick(self, name: str) -> str | tuple[str, ...]:
        return self.rng.choice(self.frames[name])

    def joined(self, texts: list[str]) -> str:
        if len(texts) == 1:
            return texts[0]
        two, middle, last = self.pick("JOINS")
        if len(texts) == 2:
            return two.join(texts)
        return middle.join(texts[:-1]) + last + texts[-1]

    def conditional(self, parts: list[tuple[str, list[str]]], opens: bool = False) -> str:
        """The condition in words; where it `opens` the body it must follow well on "when …,"."""
        styles = self.frames["IF_STYLES"]
        if opens:
            styles = [style for style in styles if OPENS_BODY.match(style[0])] or styles
        first, further, otherwise, between = self.rng.choice(styles)
        texts = []
        for number, (condition, actions) in enumerate(parts):
            template = otherwise if not condition else further if number else first
            texts.append(template.replace("{c}", condition).replace("{a}", " and ".join(actions)))
        return _sentences(texts, between)

    def body(self, before: list[str], parts: list, after: list[str]) -> str:
        text = self.joined(before) if before else ""
        if parts:
            conditional = self.conditional(parts, opens=not text)
            link = self.pick("IF_LINKS") if text else ""
            if link.endswith(". "):
                conditional = _capital(conditional)
            text += link + conditional
        if after:
            text += self.pick("POSTS") + " and ".join(after)
        return text

    def when(self, capital: bool) -> str:
        word = self.rng.choices(frames.WHENS, frames.WHEN_WEIGHTS)[0]
        if word == "if" and self.has_if:
            word = "when"  # "if" is for the condition
        return word.capitalize() if capital else word

    def framed(self, template: str, trigger: str, body: str) -> str:
        text = template.replace("{When}", self.when(True)).replace("{when}", self.when(False))
        return text.replace("{T}", trigger).replace("{B}", body)

    def _trigger(self, text: str, before: list[str], parts: list, after: list[str]) -> tuple[str, str]:
        if parts and not before and self.rng.random() < 0.35:  # the first condition belongs to the trigger's clause
            (condition, actions), *rest = parts
            text = self.pick("MERGED").replace("{T}", text).replace("{c}", condition)
            body = " and ".join(actions) + self.rest(rest) + self.post(after)
        else:
            body = self.body(before, parts, after)
        template = self.pick("TRIGGER_PLAIN" if self.rng.random() < PLAIN_SHARE else "TRIGGER_CHATTY")
        return self.framed(template, text, body), template

    def rest(self, parts: list) -> str:
        """The further branches of a condition whose first one has been said."""
        if not parts:
            return ""
        styles = [style for style in self.frames["IF_STYLES"] if style[3] == ". "] or self.frames["IF_STYLES"]
        _, further, otherwise, between = self.rng.choice(styles)
        texts = [(further if condition else otherwise).replace("{c}", condition).replace("{a}", " and ".join(actions))
                 for condition, actions in parts]  # fmt: skip
        text = _sentences(texts, between)
        return between + (_capital(text) if between == ". " else text)

    def post(self, after: list[str]) -> str:
        return self.pick("POSTS") + " and ".join(after) if after else ""

    def _wish(self, text: str, before: list[str], parts: list, after: list[str]) -> tuple[str, str]:
        if parts and not before:
            return self._trigger(text, before, parts, after)
        template = self.pick("WISH_FIRST")
        return self.framed(template, text, self.body(before, parts, after)), template

    def _action(self, text: str, before: list[str], parts: list, after: list[str]) -> tuple[str, str]:
        template = self.pick("ACTION_FIRST")
        if before:
            body = self.framed(template, text, " and ".join(before))
            if parts:
                body += ". " + _capital(self.conditional(parts))
        else:
            (condition, actions), *rest = parts
            body = self.framed(template, text, " and ".join(actions))
            body += self.pick("ONLY_IFS").replace("{c}", condition) + self.rest(rest)
        return body + self.post(after), template

    def _telegraph(self, text: str, before: list[str], parts: list, after: list[str]) -> tuple[str, str]:
        opening, arrow = self.pick("TELEGRAPH")
        pieces = list(before)
        if parts:
            first, further, otherwise, between = self.pick("TELEGRAPH_IFS")
            texts = [(otherwise if not condition else further if number else first)
                     .replace("{c}", condition).replace("{a}", " + ".join(actions))
                     for number, (condition, actions) in enumerate(parts)]  # fmt: skip
            pieces.append(between.join(texts))
        if after:
            pieces.append("always: " + " + ".join(after))
        return opening.replace("{t}", text) + arrow.join(pieces), opening

    def _steps(self, text: str, before: list[str], parts: list, after: list[str]) -> tuple[str, str]:
        opening, mark, between = self.pick("STEPS")
        pieces = list(before) + ([self.conditional(parts)] if parts else []) + [f"in any case {a}" for a in after]
        start = self.framed(opening, text, "").replace("{n0}", "1")
        numbered = [mark.replace("{n}", str(number)) + piece for number, piece in enumerate(pieces, start=2)]
        return start + " " + between.join(numbered), opening

    def _only(self, text: str, before: list[str], parts: list, after: list[str]) -> tuple[str, str]:
        template = self.pick("TRIGGER_ONLY")
        return self.framed(template, text, ""), template

    def typed(self, text: str) -> str:
        """The text as somebody types it: with or without capitals and full stop, in a hurry, with thanks."""
        rng = self.rng
        if not self.terse and rng.random() < frames.ENDING_SHARE:
            text += self.pick("ENDINGS")
        manner = rng.choices(tuple(MANNERS), [weights[self.terse] for weights in MANNERS.values()])[0]
        text = _capital(text) if manner in ("careful", "no stop") else text.lower()
        if manner == "hurried":
            for old, new in SHORT_FORMS:
                if rng.random() < 0.5:
                    text = text.replace(old, new)
        question = re.match(r"(hi, |hey there! )?(can you|could you|is there a way|how do i)\b", text, re.IGNORECASE)
        if manner == "careful" and not re.search(r"[.!?]$", text):
            text += "?" if question and ". " not in text else "."
        lower_apps = manner in ("lower", "hurried") and rng.random() < 0.7
        for number, (value, app) in enumerate(self.tokens):
            text = text.replace(chr(FIRST_PLACEHOLDER + number), value.lower() if app and lower_apps else value)
        return re.sub(r"([.!?])\1+$", r"\1", text)


def _lead(spoken: str) -> str | None:
    """What has to stand between the words before a slot and words for an output; None: they do not go together."""
    words = re.sub("[\ue000-\uf8ff]", "x", spoken).rstrip(" ").split(" ")
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


class Unsayable(ValueError):
    """A plan that cannot be put into words: nothing to test unambiguously, or a phrase whose slots nothing fills."""


def _without_unused(flow: Flow) -> Flow:
    """The flow with names only for outputs that it uses, and the trigger's: a shorter shot."""
    used = {TRIGGER, *variables_used(flow)}

    def bare(statement: Statement) -> Statement:
        if isinstance(statement, Call):
            return statement if statement.variable in used else replace(statement, variable=None)
        branches = tuple(Branch(branch.condition, tuple(map(bare, branch.body))) for branch in statement.branches)
        return If(branches, tuple(map(bare, statement.otherwise)))

    return Flow(tuple(map(bare, flow.statements)))


def _same_moment(parameter: Field, source: Field) -> bool:
    words = f"{parameter.key} {parameter.summary}".lower()
    return any(moment in words and moment in source.summary.lower() for moment in MOMENTS)


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _sentences(texts: list[str], between: str) -> str:
    """Texts joined; after a full stop the next begins with a capital."""
    if between != ". ":
        return between.join(texts)
    return ". ".join([texts[0], *map(_capital, texts[1:])])


PLURAL = (("contains", "contain"), ("includes", "include"), ("mentions", "mention"), ("has", "have"), ("is", "are"),
          ("isn't", "aren't"), ("does", "do"), ("doesn't", "don't"), ("equals", "equal"), ("matches", "match"),
          ("differs", "differ"), ("starts", "start"), ("begins", "begin"), ("ends", "end"))  # fmt: skip


def _plural(text: str, words: str) -> str:
    for singular, plural in PLURAL:
        text = re.sub(rf"({re.escape(words)}) {singular}(?= |$)", rf"\1 {plural}", text)
    return text
