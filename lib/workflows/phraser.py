"""Phrases for APIs that nobody has written phrases for: several wordings an operation, from its OpenAPI document.

A hand-written catalogue says how people ask for each API. Here rules make it from summaries, operation ids and
parameters ("Creates a ticket" → "create a ticket in {app}"), so that requests and flows can be generated for any
documents. What gives no usable phrase is left out of the flows, and stays in the catalogue.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from lib.workbook.inputs import InputError
from lib.workflows.apis import API, APP, ID, SLOT, Connector, Field, meant, said
from lib.workflows.catalogue import Catalogue
from lib.workflows.english import is_plural, third_person, verb_of_participle
from lib.workflows.field_kinds import PEOPLE, identified, label_of, with_kind
from lib.workflows.planning import Exchange
from lib.workflows.summaries import (
    MAKES,
    READS,
    Clause,
    Imperative,
    Unsaid,
    app_names,
    clause,
    imperative,
    is_deprecated,
    without_articles,
)  # fmt: skip

STARTS = Path("data") / "starts.yaml"  # triggers for documents that have none
HELD_OUT_SHARE = 0.1  # of the operations with phrases, for the unseen pairs
MOST_CLAUSES = 8  # parameters that an operation's endings name
LEAST_PHRASES = 3  # below, training and test would share their wordings
SAME_WORDS = "asked for in the words of another operation"
MOST_RETURNED = 40  # fields of a response that flows may use
# Other verbs for a verb, in the order in which they are taken.
SYNONYMS: dict[str, tuple[str, ...]] = {
    "get": ("fetch", "look up", "retrieve"),
    "retrieve": ("get", "fetch", "pull up"),
    "fetch": ("get", "retrieve", "look up"),
    "read": ("get", "look up", "open"),
    "view": ("look at", "pull up", "get"),
    "show": ("get", "pull up", "look at"),
    "list": ("get", "pull up", "fetch"),
    "search": ("look through", "go through"),
    "search for": ("look for", "find", "look up"),
    "find": ("look for", "search for", "look up"),
    "create": ("add", "set up", "make"),
    "insert": ("add",),
    "update": ("change", "edit", "modify"),
    "edit": ("change", "update", "modify"),
    "modify": ("change", "update", "edit"),
    "delete": ("remove", "get rid of"),
    "remove": ("delete", "take away"),
    "send": ("send out",),
    "generate": ("create", "make", "produce"),
    "convert": ("change", "transform"),
    "check": ("verify", "look at"),
    "verify": ("check", "validate"),
    "validate": ("check", "verify"),
    "cancel": ("call off",),
    "start": ("begin", "kick off"),
    "stop": ("end", "halt"),
    "run": ("execute", "carry out"),
    "execute": ("run", "carry out"),
    "duplicate": ("copy", "make a copy of"),
    "copy": ("duplicate", "make a copy of"),
    "schedule": ("plan", "set up"),
    "download": ("get", "save"),
    "detect": ("find", "recognize"),
    "extract": ("pull out", "get"),
    "merge": ("combine", "join"),
    "submit": ("send in",),
    "enable": ("turn on", "switch on"),
    "disable": ("turn off", "switch off"),
    "analyze": ("examine", "look into"),
    "calculate": ("work out", "compute"),
    "save": ("store", "keep"),
    "store": ("save", "keep"),
    "complete": ("finish", "close"),
    "replace": ("swap", "exchange"),
    "associate": ("link", "connect"),
    "void": ("cancel", "annul"),
    "publish": ("post",),
    "rename": ("give a new name to",),
    "summarize": ("sum up",),
}
PLACE = {"from": frozenset("get list fetch retrieve read download extract export pull show delete remove take".split()),
         "with": frozenset("convert generate detect extract analyze translate summarize recognize classify enrich "
                           "calculate merge split encode decode hash compress predict render transform".split()),
         "through": frozenset("send notify email message submit post publish remind invite".split())}  # fmt: skip
CREATED = frozenset("create add submit receive post upload publish open register insert book".split())
TRIGGER_WAYS = ("{c} in {app}", "{app} reports that {c}", "{app} tells us that {c}", "I hear from {app} that {c}",
                "we see in {app} that {c}", "{app} shows that {c}")  # fmt: skip


class Phrased(NamedTuple):
    """A catalogue with phrases.

    Attributes:
        left_out: columns api, summary, reason, of the operations that got none.
        started: whether the triggers are the workbook's, as the documents have none.
    """

    catalogue: Catalogue
    left_out: pd.DataFrame
    started: bool


def phrase_catalogue(catalogue: Catalogue, starts: Catalogue, seed: int) -> Phrased:
    """The catalogue with kinds of its fields, phrases, and a share of the operations held out for the unseen pairs.

    Args:
        catalogue: as `Catalogue.from_openapi` reads it.
        starts: triggers to begin flows with where no operation of the documents is a trigger that can be asked for.
        seed: of what is held out.

    Raises:
        InputError: fewer than two actions got phrases: no flow could be made, or nothing held out.
    """
    connectors = {c.id: replace(c, called=app_names(c.name)) for c in catalogue.connectors.values()}
    texts = " ".join(text for api in catalogue for text in (api.display_name, api.description))
    common = frozenset(re.findall(r"\b[a-z]{3,}\b", texts))
    apis: dict[str, API] = {}
    reasons: dict[str, str] = {}
    for api in catalogue:
        apis[api.name] = api
        try:
            apis[api.name] = _phrased(api, connectors[api.connector], common)
        except Unsaid as error:
            reasons[api.name] = str(error)
    reasons |= _older(apis)
    apis |= {name: replace(apis[name], phrases=(), terse=(), clauses=()) for name in reasons}
    apis = {api.name: api for api in _unambiguous(apis.values())}
    for api in apis.values():
        if api.name not in reasons and (len(api.phrases) < LEAST_PHRASES or not api.terse):
            reasons[api.name] = SAME_WORDS
            apis[api.name] = replace(api, phrases=(), terse=(), clauses=())
    actions = [api.name for api in apis.values() if api.phrases and not api.trigger]
    if len(actions) < 2:
        why = "; ".join(f"{reason}: {count}" for reason, count in Counter(reasons.values()).most_common())
        raise InputError(f"{len(actions)} of {len(apis)} operations can be asked for, two actions are needed ({why})")
    held = _held_out(apis.values(), seed)
    apis = {name: replace(api, in_training=bool(api.phrases) and name not in held) for name, api in apis.items()}
    rows = [(name, apis[name].display_name, reason) for name, reason in reasons.items()]
    left_out = pd.DataFrame(rows, columns=["api", "summary", "reason"])
    started = not any(api.trigger and api.phrases for api in apis.values())
    if started:
        apis, connectors = apis | starts.apis, connectors | starts.connectors
    return Phrased(replace(catalogue, apis=apis, connectors=connectors), left_out, started)


def _phrased(api: API, connector: Connector, common: frozenset[str]) -> API:
    """The API with kinds and phrases; raises Unsaid where it can have none."""
    if api.internal or is_deprecated(api):
        raise Unsaid("internal or deprecated")
    names = frozenset(name.split()[0].lower() for name in connector.called) - common
    if api.trigger:
        happens = clause(api, names, common)
        api = _with_kinds(api, happens.noun)
        return replace(api, phrases=_trigger_phrases(happens), terse=_trigger_terse(happens),
                       clauses=tuple(_endings(api, "")))  # fmt: skip
    asked = imperative(api, names, common)
    api = _with_kinds(api, asked.noun)
    called = _called(api, asked)
    return replace(api, phrases=_action_phrases(asked, called), terse=_action_terse(asked, called),
                   clauses=tuple(_endings(api, asked.verb)))  # fmt: skip


# ---------------------------------------------------------------- kinds


def _with_kinds(api: API, noun: str) -> API:
    """The API whose parameters and returned fields have kinds, `noun` being what it is about."""
    parameters = tuple(with_kind(parameter, noun) for parameter in api.parameters)
    return replace(api, parameters=parameters, returns=tuple(_returned(api.returns, noun)))


def _returned(fields: Iterable[Field], noun: str) -> Iterator[Field]:
    """Fields of a response; those that flows may use have as summary what people call them, each another."""
    taken: set[str] = set()
    for number, field in enumerate(fields):
        field = with_kind(field, noun)
        label = _owned(field)
        usable = field.kind.startswith(ID) or said(field.kind)
        if not label or label in taken or not usable or number >= MOST_RETURNED or field.key.count("/") > 2:
            yield replace(field, kind=field.kind if field.kind.startswith(ID) else "any", summary="")
            continue
        taken.add(label)
        yield replace(field, summary=label if not field.kind.startswith(ID) else f"{label} id")


def _owned(field: Field) -> str:
    """What people call a returned field: a name or title inside another object is that object's."""
    label = label_of(field).lower()
    around = field.key.split("/")[:-1]
    if label in ("name", "title", "email", "display name", "url", "status") and around:
        owner = label_of(replace(field, key=around[-1], summary="")).lower()
        return (
            f"{owner}'s {label}" if owner and owner not in ("body", "data", "item", "fields", "properties") else label
        )
    return label


# ---------------------------------------------------------------- phrases


def _preposition(verb: str, spoken: str) -> str:
    """What stands before the app's name after a verb and its object."""
    first = verb.split()[0]
    found = next((word for word, verbs in PLACE.items() if first in verbs), "in")
    if verb in ("look up", "go through"):
        return "in"
    return "in" if found == "from" and re.search(r"\b(from|in|on)\b", spoken) else found


def _action_phrases(asked: Imperative, called: str) -> tuple[str, ...]:
    """Ways of asking for an action, each with the app's name and at most one slot."""
    verbs = (asked.verb, *SYNONYMS.get(asked.verb, ()))
    spoken = [f"{verb} {asked.object}" for verb in verbs]
    placed = [f"{verb} {asked.object} {_preposition(verb, asked.object)} {{{APP}}}" for verb in verbs]
    ways = [placed[0], f"use {{{APP}}} to {spoken[0]}", *placed[1:]]
    if asked.verb.split()[0] in READS and asked.verb != "download":
        ways += [f"ask {{{APP}}} for {asked.object}", f"go to {{{APP}}} and {spoken[0]}"]
    else:
        ways += [f"have {{{APP}}} {spoken[0]}", f"go to {{{APP}}} and {spoken[0]}", f"let {{{APP}}} {spoken[0]}"]
    ways += [f"use {{{APP}}} to {text}" for text in spoken[1:2]]
    if called:
        ways += [f"{verb} {called} {_preposition(verb, called)} {{{APP}}}" for verb in verbs[:2]]
    return tuple(dict.fromkeys([*ways, spoken[0]]))


def _action_terse(asked: Imperative, called: str) -> tuple[str, ...]:
    bare = without_articles(asked.object)
    verbs = (asked.verb, *SYNONYMS.get(asked.verb, ()))
    place = _preposition(asked.verb, asked.object)
    ways = [f"{asked.verb} {bare} {place} {{{APP}}}", f"{{{APP}}}: {asked.verb} {bare}"]
    ways += (
        [f"{verbs[1]} {bare} {_preposition(verbs[1], bare)} {{{APP}}}"]
        if len(verbs) > 1
        else [f"{asked.verb} {bare} ({{{APP}}})"]
    )
    ways += [f"{asked.verb} {without_articles(called)} {place} {{{APP}}}"] if called else []
    return tuple(ways)


def _called(api: API, asked: Imperative) -> str:
    """The object with a slot for its name, `a task called {title} in the plan`; empty where it has none to be given."""
    if asked.verb.split()[0] not in MAKES or not re.match(r"an? ", asked.object):
        return ""
    titles = [p for p in api.parameters if p.kind in ("title", "subject") and not p.internal and _slot(api, p)]
    titles = [p for p in titles if label_of(p).lower() in ("title", "name", "subject", f"{asked.noun} name")
              or label_of(p).lower() == f"{asked.noun} title"]  # fmt: skip
    if not titles:
        return ""
    words = asked.object.split()
    place = next((i for i, word in enumerate(words) if word.lower().strip("'s") == asked.noun), None)
    if place is None:
        return ""
    return " ".join([*words[: place + 1], "called", f"{{{_slot(api, titles[0])}}}", *words[place + 1 :]])


def _trigger_phrases(happens: Clause) -> tuple[str, ...]:
    """Ways of saying that a trigger fires, as clauses without conjunction."""
    text = happens.text
    ways = [way.replace("{c}", text) for way in TRIGGER_WAYS]
    if happens.subject == "there":
        new = happens.rest.removeprefix("a new ")
        ways = [f"there is a new {new} in {{{APP}}}", f"a new {new} comes in through {{{APP}}}",
                f"{{{APP}}} has a new {new}", f"a new {new} turns up in {{{APP}}}", f"I get a new {new} in {{{APP}}}",
                f"{{{APP}}} reports a new {new}"]  # fmt: skip
    done, _, rest = happens.rest.partition(" ")
    verb = verb_of_participle(done) if happens.verb in ("is", "are") else None
    if verb and not re.search(r"\b(by|or|and|to)\b|,", rest):
        more = [f"somebody {third_person(verb)} {happens.subject} {rest}".strip() + f" in {{{APP}}}"]
        if happens.verb == "is":
            more.append(f"{happens.subject} gets {happens.rest} in {{{APP}}}")
        if verb in CREATED and happens.subject.split()[0] in ("a", "an"):
            new = happens.subject.split(" ", 1)[1].removeprefix("new ")
            more.append(f"there is a new {new} {rest}".strip() + f" in {{{APP}}}")
        ways = [ways[0], *more, *ways[1:5]]
    return tuple(dict.fromkeys([*ways, text] if happens.subject != "there" else ways))


def _trigger_terse(happens: Clause) -> tuple[str, ...]:
    if happens.subject == "there":
        new = without_articles(happens.rest)
        return f"{new} in {{{APP}}}", f"{{{APP}}}: {new}", f"{new} ({{{APP}}})"
    rest = happens.rest if happens.verb in ("is", "are") else f"{happens.verb} {happens.rest}".strip()
    bare = without_articles(f"{happens.subject} {rest}")
    return f"{bare} in {{{APP}}}", f"{{{APP}}}: {bare}", f"{bare} ({{{APP}}})"


# ---------------------------------------------------------------- slots


def _slot(api: API, parameter: Field) -> str:
    """How a phrase names a parameter: the last part of its key where that is one parameter's, else the key."""
    if re.search(r"[{}\[\]|\n]", parameter.key):
        return ""
    keys = [other.key for other in api.parameters]
    last = parameter.key.rpartition("/")[2]
    if last != APP and len(meant(last, keys)) == 1 and meant(last, keys)[0] == parameter.key:
        return last
    return parameter.key if parameter.key != APP else ""


def _endings(api: API, verb: str) -> Iterator[str]:
    """Endings that name a parameter, several ways each, the required parameters first. `verb`: empty of a trigger."""
    offered = [p for p in api.parameters if not p.internal and (p.examples or said(p.kind)) and p.kind != "boolean"]
    named = 0
    labels: set[str] = set()
    for parameter in sorted(offered, key=lambda parameter: not parameter.required):
        slot = _slot(api, parameter)
        label = re.sub(r"\bdate[ -]time$", "time", label_of(parameter).lower())
        if parameter.kind == "container":
            label = identified(parameter) or label
        unsaid = parameter.kind != "query" and TECHNICAL_LABEL.search(label)
        unsaid = unsaid or (verb not in READS and SET_BY_THE_APP.search(label))
        if not slot or not label or label in labels or named == MOST_CLAUSES or unsaid:
            continue
        labels.add(label)
        named += 1
        yield from _ways_to_name(parameter, label, f"{{{slot}}}", verb)


TECHNICAL_LABEL = re.compile(
    r"\b(api|key|token|hash|header|json|xml|html|url encoded|uid|account|tenant|endpoint|upn|uri|timeout|string)\b|"
    r"\b(?!cc\b|hr\b|pc\b|pr\b|tv\b)[bcdfghjklmnpqrstvwxz]{2,3}\b(?<!sms)(?<!bcc)(?<!pdf)|"
    r"\b(?!update|candidate|validate|downtime|overtime|runtime|lifetime)[a-z]{4,}(date|only|time)\b|"
    r" (as|at|by|for|from|in|of|on|to|with)$"
)  # no words, words written together, and half a sentence
SET_BY_THE_APP = re.compile(
    r"\b(create|created|creation|modified|updated|closed|assigned)( by| at| on)?( date| time)|"
    r"\b(last|first|next)\b(?! name)"
)  # what happened when: no request sets it


def _ways_to_name(parameter: Field, label: str, slot: str, verb: str) -> tuple[str, ...]:
    if parameter.kind == "container":
        return f"for the {label} {slot}", f"for the {slot} {label}", f"with {slot} as the {label}"
    if parameter.kind == "person_email" and label in ("to", "recipient", "recipients", "to email", "email to"):
        return f"to {slot}", f"addressed to {slot}", f"with {slot} as the recipient"
    if parameter.kind == "person_name" and label in PEOPLE:
        return f"for {slot}", f"with {slot} as the {label}", f"with the {label} {slot}"
    if parameter.kind in ("date", "datetime") and label.split()[0] == "due":
        return f"due on {slot}", f"with the due date {slot}", f"that is due on {slot}"
    if parameter.kind == "query":
        return f"matching {slot}", f"that match {slot}", f"about {slot}"
    if label.split()[0] in ("to", "from", "in", "on", "by", "is", "has", "with", "number"):
        return ()
    known = f"where the {label} {'are' if is_plural(label) else 'is'} {slot}"
    if not verb:
        return f"for the {label} {slot}", f"with {slot} as the {label}", known
    last = known if verb.split()[0] in READS else f"and set the {label} to {slot}"
    return f"with the {label} {slot}", f"with {slot} as the {label}", last


# ---------------------------------------------------------------- the whole catalogue


def _older(apis: dict[str, API]) -> dict[str, str]:
    """Why operations of a connector that are asked for in the words of another are left out: the newest one stays."""
    groups: dict[tuple[str, str], list[API]] = {}
    for api in apis.values():
        if api.phrases:
            groups.setdefault((api.connector, api.phrases[0].lower()), []).append(api)
    reasons: dict[str, str] = {}
    for group in groups.values():
        newest = max(group, key=_version)
        same = "an older form of another operation"
        reasons |= {api.name: same if api.family == newest.family else SAME_WORDS
                    for api in group if api is not newest}  # fmt: skip
    return reasons


def _version(api: API) -> int:
    """The number of its version; 0 without one."""
    found = re.search(r"[vV](\d+)(?:\.\d+)*\)?$", api.operation) or re.search(r"\([vV](\d+)", api.display_name)
    return int(found[1]) if found else 0


def _unambiguous(apis: Iterable[API]) -> Iterator[API]:
    """The APIs without phrases that would ask for another one as well."""
    apis = list(apis)
    askers = Counter((_asked_of(api, text), text.lower()) for api in apis for text in {*api.phrases, *api.terse})
    for api in apis:
        phrases, terse = (tuple(text for text in texts if askers[_asked_of(api, text), text.lower()] == 1)
                          for texts in (api.phrases, api.terse))  # fmt: skip
        yield replace(api, phrases=phrases, terse=terse)


def _asked_of(api: API, text: str) -> str:
    """Whose operations a phrase may mean: its app's where it names the app, else those of all."""
    return api.connector if APP in SLOT.findall(text) else ""


def _held_out(apis: Iterable[API], seed: int) -> set[str]:
    """A tenth of the triggers and of the actions with phrases, one action at least.

    Actions that need no id from another call come first: each that is held out must fit into some flow.
    """
    offered = [api for api in apis if api.phrases]
    actions = [api for api in offered if not api.trigger]
    needed = Exchange(offered, actions).needs.sum(axis=1)
    free = [api.name for api, needs in zip(actions, needed, strict=True) if not needs] or [api.name for api in actions]
    triggers = [api.name for api in offered if api.trigger]

    def order(name: str) -> str:
        return hashlib.sha256(f"held out:{seed}:{name}".encode()).hexdigest()

    held = sorted(free, key=order)[: max(int(HELD_OUT_SHARE * len(actions)), 1)]
    return {*held, *sorted(triggers, key=order)[: int(HELD_OUT_SHARE * len(triggers))]}
