"""Phrases for APIs that nobody has written phrases for: several wordings an operation, from its OpenAPI document.

A hand-written catalogue says how people ask for each API. Here rules make it from summaries, operation ids and
parameters ("Creates a ticket" becomes "create a ticket in {app}"), so that requests and flows can be generated for any
documents. What gives no usable phrase is left out of the flows, and stays in the catalogue.
"""

from __future__ import annotations

import hashlib
import html
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import yaml

from lib.workbook.inputs import InputError
from lib.workflows.apis import API, APP, ID, SHARED_IDS, Connector, Field, meant, said
from lib.workflows.catalogue import Catalogue
from lib.workflows.planning import given_by, needed_by
from lib.workflows.wording import FLOWS

ENGLISH: dict[str, Any] = yaml.safe_load((FLOWS / "english.yaml").read_text(encoding="utf-8"))
STARTS = Path("data") / "starts.yaml"  # triggers for documents that have none
HELD_OUT_SHARE = 0.1  # of the operations with phrases, for the unseen pairs
MOST_CLAUSES = 8  # parameters that an operation's endings name
MOST_RETURNED = 40  # fields of a response that flows may use
MOST_WORDS = 9  # of what is asked for; longer ones are definitions, no requests
MOST_LABEL_WORDS, MOST_CHOICES = 4, 15
SAME_WORDS = "asked for in the words of another operation"
ID_WORDS = {"id", "ids", "guid", "uuid", "identifier", "key"}


def _words(name: str) -> frozenset[str]:
    return frozenset(ENGLISH[name].split())


VERBS, NOUN_VERBS, READS, MAKES = map(_words, ("verbs", "noun_verbs", "reads", "makes"))
PARTICIPLES, HAPPENS = _words("participles"), _words("happens")
PREPOSITIONS, DETERMINERS = _words("prepositions"), _words("determiners")
SPOKEN = {"you": "I", "your": "my"}
NO_PLURALS, PLURALS, MASS, NAMES = map(_words, ("no_plurals", "plurals", "mass", "names"))
WRAPPERS, CONTAINERS, PEOPLE = map(_words, ("wrappers", "containers", "people"))
PLUMBING = re.compile(ENGLISH["plumbing"])

CAMEL = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
SAYABLE_VALUE = re.compile(r"[A-Za-z][\w .+-]{0,29}")
SAYABLE = re.compile(r"[A-Za-z0-9][A-Za-z0-9'’&+. ,-]*")
DEPRECATED = re.compile(r"\b(deprecated|obsolete|legacy|no longer supported)\b", re.IGNORECASE)
TECHNICAL = re.compile(
    r"\b(api|apis|endpoints?|webhooks?|hooks?|schemas?|https?|payloads?|tokens?|oauth|callbacks?|swagger|openapi|"
    r"ping|enums?|operations?|parameters?|jwt|sdk|rest|system|internal|null|dynamic|proxy|arrays?|objects?|strings?)\b",
    re.IGNORECASE,
)
LEAD_IN = re.compile(
    r"^((use )?(this|the|an?) (operation|action|method|endpoint|api|call|function|trigger|service) )?"
    r"((which|that|is|can be|used|will|allows?|lets|enables|helps|you|users?|to|for) )*",
    re.IGNORECASE,
)
LIST_OF = re.compile(r"^(an? |the )?(\w+ )?(list|collection|set|array|page)s? of (all )?(the )?(?=\w)", re.IGNORECASE)
SPECIFIED = re.compile(r"\b(specified|given|provided|existing|particular|specific|selected|following)\s+", re.I)
TAIL = re.compile(
    r"\s+(that|which|whose|where|when|in order|so that|identified|including|as well as|then|based on|such as|via|"
    r"(by|using|with|from|for) (the |an? |its )?(\w+ )?(ids?|identifiers?|guids?|keys?)$)\b.*$",
    re.IGNORECASE,
)
HAPPENING = re.compile(r"\b(?:when(?:ever)?|once|every time|each time|as soon as|after|if)\s+(.+)$", re.IGNORECASE)
NOT_IN_NAMES = re.compile(r"\b(swagger|openapi|rest|restful|web ?service|connector|apis?|v?\d+(\.\d+)+)(?!\w)", re.I)
UNSAID_LABEL = re.compile(
    r"\b(api|key|token|hash|header|json|xml|html|account|tenant|endpoint|upn|uri|timeout|string)\b|"
    r"\b(?!cc\b|hr\b)[bcdfghjklmnpqrstvwxz]{2,3}\b|"
    r"^(to|from|in|on|by|is|has|with|number)\b| (as|at|by|for|in|of|on|to)$"
)  # no words, and half a sentence
SET_BY_THE_APP = re.compile(r"\b(creat(ed?|ion)|modified|updated|closed|last)\b(?! name)")  # no request sets it


class Phrased(NamedTuple):
    """A catalogue with phrases.

    Attributes:
        left_out: columns api, summary, reason, of the operations that got none.
        started: whether the triggers are the workbook's, as the documents have none.
    """

    catalogue: Catalogue
    left_out: pd.DataFrame
    started: bool


class Unsaid(ValueError):
    """Nobody would ask for an operation in the words of its document; the message is the reason."""


# ---------------------------------------------------------------- the whole catalogue


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
    apis, reasons = dict(catalogue.apis), {}
    for api in catalogue:
        try:
            apis[api.name] = _phrased(api, connectors[api.connector])
        except Unsaid as error:
            reasons[api.name] = str(error)
    asked = [api for api in reversed(apis.values()) if api.phrases]
    newest = {(a.connector, a.phrases[0].lower()): a.name for a in sorted(asked, key=_version)}
    reasons |= {api.name: SAME_WORDS for api in asked if api.name not in set(newest.values())}
    apis |= {name: replace(apis[name], phrases=(), terse=(), clauses=()) for name in reasons}
    askers = Counter((api.connector, text.lower()) for api in apis.values() for text in {*api.phrases, *api.terse})
    for api in [api for api in apis.values() if api.phrases]:
        alone = [tuple(text for text in texts if askers[api.connector, text.lower()] == 1)
                 for texts in (api.phrases, api.terse)]  # fmt: skip
        apis[api.name] = replace(api, phrases=alone[0], terse=alone[1])
    actions = [api for api in apis.values() if api.phrases and not api.trigger]
    if len(actions) < 2:
        why = "; ".join(f"{reason}: {count}" for reason, count in Counter(reasons.values()).most_common())
        raise InputError(f"{len(actions)} of {len(apis)} operations can be asked for, two actions are needed ({why})")
    held = _held_out(apis.values(), seed)
    apis = {name: replace(api, in_training=bool(api.phrases) and name not in held) for name, api in apis.items()}
    rows = [(name, apis[name].display_name, reason) for name, reason in reasons.items()]
    started = not any(api.trigger and api.phrases for api in apis.values())
    if started:
        apis, connectors = apis | starts.apis, connectors | starts.connectors
    left_out = pd.DataFrame(rows, columns=["api", "summary", "reason"])
    return Phrased(replace(catalogue, apis=apis, connectors=connectors), left_out, started)


def app_names(title: str) -> tuple[str, ...]:
    """What people call an app: its document's title without what only documents have, and without a maker's name."""
    plain = " ".join(re.sub(r"[\[\](){}|]+", " ", title).split())
    name = re.split(r" [-–—|:] |: ", re.sub(r"[\[({][^\])}]*[\])}]", " ", title))[0]
    name = " ".join(re.sub(r"[\[\](){}|]", " ", NOT_IN_NAMES.sub(" ", name)).split()) or plain or "the app"
    short = re.sub(r"^(Microsoft|Google|Azure|Amazon|AWS|IBM|Apache)\s+(?=[A-Za-z]{3})", "", name)
    return tuple(dict.fromkeys((name, short)))


def _version(api: API) -> int:
    found = re.search(r"[vV](\d+)(?:\.\d+)*\)?$", api.operation) or re.search(r"\([vV](\d+)", api.display_name)
    return int(found[1]) if found else 0


def _held_out(apis: Iterable[API], seed: int) -> set[str]:
    """A tenth of the triggers and of the actions with phrases, one action at least.

    Actions that need no id from another call come first: each that is held out must fit into some flow.
    """
    offered = [api for api in apis if api.phrases]
    actions = [api for api in offered if not api.trigger]
    given = set().union(*map(given_by, offered))
    free = [api.name for api in actions if not needed_by(api) & given] or [api.name for api in actions]
    triggers = [api.name for api in offered if api.trigger]

    def order(name: str) -> str:
        return hashlib.sha256(f"held out:{seed}:{name}".encode()).hexdigest()

    held = sorted(free, key=order)[: max(int(HELD_OUT_SHARE * len(actions)), 1)]
    return {*held, *sorted(triggers, key=order)[: int(HELD_OUT_SHARE * len(triggers))]}


def _phrased(api: API, connector: Connector) -> API:
    """The API with kinds and phrases; raises Unsaid where it can have none."""
    if api.internal or DEPRECATED.search(api.display_name) or DEPRECATED.match(api.description):
        raise Unsaid("internal or deprecated")
    told: tuple[str, str] | None = None
    reason = "nothing happens in its texts" if api.trigger else "neither its texts nor its id have a verb and an object"
    for text in _texts(api):
        text = _without_app(text, connector.called)
        try:
            told = clause(text) if api.trigger else imperative(text, api.operation)
        except Unsaid as error:
            reason = str(error)
        if told:
            break
    if not told:
        raise Unsaid(reason)
    verb, spoken = told
    noun = _singular(_noun(spoken)).lower()
    parameters = tuple(with_kind(parameter, noun) for parameter in api.parameters)
    api = replace(api, parameters=parameters, returns=tuple(_returned(api.returns, noun)))
    phrases, terse = _trigger_ways(verb, spoken) if api.trigger else _action_ways(verb, spoken)
    return replace(api, phrases=phrases, terse=terse, clauses=tuple(_endings(api, verb)))


# ---------------------------------------------------------------- what a text asks for


def _texts(api: API) -> Iterator[str]:
    """Texts that may say what is asked for, best first: summary, first sentence of the description, operation id."""
    title, sentence = api.display_name, re.split(r"(?<=[a-z)])[.;!]\s|\n|: ", f"{html.unescape(api.description)} ")[0]
    told = [_singular(word) for word in title.lower().split()]
    of_a_path = told[:1] in (["post"], ["put"], ["patch"]) or len({*told}) < len(told) or "id" in told  # GetPlansPlan
    of_an_id = re.sub(r"[\W_]", "", title).lower() == re.sub(r"[\W_]", "", api.operation).lower()
    yield from (title, sentence) if len(told) > 1 and not (of_an_id and of_a_path) else (sentence, title)
    words = [word.lower() for word in CAMEL.findall(re.sub(r"[_-]?[vV]\d+$", "", api.operation))]
    if not api.trigger and len(words) > 1:
        yield " ".join(words)
        yield f"{words[-1]} {' '.join(words[:-1])}"  # "boxes list"


def _without_app(text: str, called: Iterable[str]) -> str:
    """A text in one line without markup, brackets, version, lead-in and the app's name, which the frames add."""
    text = re.sub(r"<[^>]*>|[`*\"“”]|\([^)]*\)|\[[^]]*\]|\{[^}]*\}", " ", html.unescape(text))
    text = re.sub(r"[ _-][vV]\d+(\.\d+)*\s*$", "", text.strip()).replace("_", " ").replace("/", " or ")
    text = re.sub(r"^[\w ]{3,15}: ", "", " ".join(text.replace(" - ", " or ").split())).rstrip(".;:!, ")
    if " " not in text:
        text = " ".join(word if word.isupper() else word.lower() for word in CAMEL.findall(text))
    for name in called:
        placed = rf"\s+(in|from|to|on|for|with|into|of|using|via|by) (your |the |an? )?{re.escape(name)}(?=$|[ ,])"
        text = re.sub(placed, "", text, flags=re.IGNORECASE)
    return LEAD_IN.sub("", text) or text


def imperative(text: str, operation: str = "") -> tuple[str, str] | None:
    """Verb in the base form, and object with its article; None where the text does not begin with a verb and an object.

    Raises:
        Unsaid: nobody would say it.

    >>> imperative("Creates a new ticket with the given title")
    ('create', 'a new ticket with the title')
    """
    words = text.split()
    if len(words) < 2:
        return None
    first, follows = words[0].strip(",").lower(), words[1].lower()
    verb = base_form(first) or (first if follows in ("a", "an", "the", "all") and first.isalpha() else "")
    named = operation.lower().startswith(first) and follows not in PREPOSITIONS
    if not verb or (verb == first and verb in NOUN_VERBS and follows not in DETERMINERS and not named):
        return None
    if follows in ("and", "or") and len(words) > 3 and (second := base_form(words[2])):
        verb, words = f"{verb} {follows} {second}", words[2:]
    elif follows in ("up", "out", "off", "down"):
        verb, words = f"{verb} {follows}", words[1:]
    verb = ENGLISH["said_as"].get(verb, verb)
    spoken = _spoken(" ".join(words[1:]))
    if verb in READS and verb != "list" and LIST_OF.match(spoken):
        verb, spoken = "list", LIST_OF.sub("", spoken)
    if verb == "search" or spoken.startswith("for "):
        verb, spoken = f"{verb} for", spoken.removeprefix("for ").removeprefix("all ")
    spoken = spoken.removeprefix("of ")
    if spoken in ("", "me", "all") or spoken.split()[0] in PREPOSITIONS:
        return None
    if verb.split()[0] not in MAKES and verb != "search for":
        spoken = re.sub(r"^an? (?!new |list |copy )", "the ", spoken)
    if verb not in ("list", "search for", "find") or not _is_plural(_noun(spoken)):
        spoken = _with_article(spoken, verb.split()[0] in MAKES)
    _check_sayable(f"{verb} {spoken}")
    return verb, spoken


def clause(text: str) -> tuple[str, str] | None:
    """What happens when a trigger fires, as its verb and a clause in the present tense; the verb is empty where a thing
    is there and no more is said of it. None where nothing happens in the text.

    Raises:
        Unsaid: nobody would say it.

    >>> clause("When a new ticket is created")
    ('is', 'a new ticket is created')
    """
    found = HAPPENING.search(text)
    words = _spoken(re.split(r"[.;,]\s| so that ", found[1] if found else text)[0]).split()
    words = words[1:] if words[:1] == ["on"] else words
    place = next((i for i, word in enumerate(words) if i and _is_verb(word, words[i + 1 : i + 2])), 0)
    if not place:
        thing = re.fullmatch(r"(?:an? )?(?:new|incoming) (.+)", " ".join(words))
        return ("", _check_sayable(thing[1])) if thing else None
    subject = _with_article(" ".join(words[:place]), indefinite=True)
    verb, rest = words[place], words[place + 1 :]
    if verb not in HAPPENS and (verb in PARTICIPLES or verb.endswith("ed")):
        verb, rest = "are" if _is_plural(_noun(subject)) else "is", words[place:]
    if not rest and verb in ("is", "are", "has"):
        return None
    return verb, _check_sayable(" ".join([subject, verb, *rest]))


def _is_verb(word: str, after: list[str]) -> bool:
    """Whether the word is a clause's verb: a form of `be` or the like, one before an article, or a participle before a
    preposition or the end."""
    participle = word in PARTICIPLES or (word.endswith("ed") and len(word) > 4)
    takes = word.endswith("s") and after[:1] in (["a"], ["an"], ["the"])
    return word in HAPPENS or takes or (participle and not {*after} - PREPOSITIONS)


def _check_sayable(text: str) -> str:
    if TECHNICAL.search(text):
        raise Unsaid("a programmer's words")
    if not SAYABLE.fullmatch(text) or len(text.split()) > MOST_WORDS:
        raise Unsaid(f"signs that nobody says, or more than {MOST_WORDS} words")
    return text


# ---------------------------------------------------------------- as much English as that needs


def base_form(word: str) -> str:
    """The base form of a known verb in its base form, third person or -ing form; '' for any other word."""
    word = word.lower()
    endings = (("", ""), ("ies", "y"), ("es", ""), ("s", ""), ("ing", ""), ("ing", "e"))
    stems = (word[: len(word) - len(end)] + instead for end, instead in endings if word.endswith(end))
    return next((stem for stem in stems if stem in VERBS), "")


def _is_plural(noun: str) -> bool:
    word = noun.lower()
    return word in PLURALS or (word.endswith("s") and not re.search("(ss|us|is|'s)$", word) and word not in NO_PLURALS)


def _singular(noun: str) -> str:
    if not _is_plural(noun) or noun.lower() in PLURALS:
        return noun
    ending = re.search(r"(?<=[^aeiou])ies$|(?<=ss|sh|ch)es$|(?<=x)es$|s$", noun)
    return noun[: ending.start()] + ("y" if ending[0] == "ies" else "") if ending else noun


def _noun(phrase: str) -> str:
    """The last word of a noun phrase before its first preposition or verb."""
    words = phrase.split()
    ends = (i for i, word in enumerate(words) if i and word.lower() in PREPOSITIONS | HAPPENS)
    return words[next(ends, len(words)) - 1].removesuffix("'s")


def _with_article(phrase: str, indefinite: bool) -> str:
    """A noun phrase with `the`, or with `a` where it can be counted and is singular; as it is where it has one."""
    words = re.sub(r"^an? ", "", phrase).split() if indefinite else phrase.split()
    phrase = " ".join(words)
    if not words or words[0] in DETERMINERS | PREPOSITIONS or re.match(r"\d", words[0]) or "'s" in words[0]:
        return phrase
    if not indefinite:
        return f"the {phrase}"
    noun = _noun(phrase)
    if _is_plural(noun) or noun.lower() in MASS:
        return phrase
    vowel = re.match(r"(?!uni|us[aeu]|eu|one\b|url)[aeiou]|hour|[AEFHILMNORSX](?=[A-Z0-9])", phrase)
    return f"{'an' if vowel else 'a'} {phrase}"


def _spoken(text: str) -> str:
    """A text as people say it: without the capitals that only a title has, and without what only documents specify.

    Acronyms, names and words of mixed case keep their capitals.
    """
    kept = []
    for word in TAIL.sub("", f" {SPECIFIED.sub('', text)}").split():
        mixed = re.search(r"[a-z][A-Z]|\d|[A-Z]{2}", word) and not re.fullmatch(r"[A-Z]{5,}", word)
        kept.append(word if mixed or word.lower() in NAMES else SPOKEN.get(word.lower(), word.lower()))
    return re.sub(r"\ba (?=[aeio])", "an ", " ".join(kept).strip(" ,."))


# ---------------------------------------------------------------- kinds of fields


def words_of(name: str) -> str:
    """A key's words in lower case: `item/dueDateTime` as `due date time`, `rfc_number` as `rfc number`."""
    return " ".join(CAMEL.findall(name.rpartition("/")[2])).lower()


def label_of(field: Field) -> str:
    """What people call a field, in lower case and without `id`; empty where neither summary nor key gives a short
    name."""
    for text in (field.summary, field.key.rpartition("/")[2]):
        text = re.sub(r"\([^)]*\)|\[[^]]*\]|[*:.?]+$", " ", text).replace("_", " ").replace("/", " ")
        words = text.split() if " " in text.strip() else CAMEL.findall(text)
        words = [word.lower() for word in words if word.lower() not in {*ID_WORDS, "the", "a", "an", "your", "new"}]
        if words and len(words) <= MOST_LABEL_WORDS and all(re.fullmatch(r"[a-z][a-z'-]*", word) for word in words):
            return " ".join(words)
    return ""


def identified(field: Field, noun: str = "") -> str:
    """What a field identifies, as `envelope`; empty where it is no id. `noun`: what the bare key `id` is of."""
    words = words_of(field.key).split()
    if not words or words[-1] not in ID_WORDS or field.type not in ("string", "integer", "number"):
        return ""
    if named := [word for word in words if word not in {*ID_WORDS, "or", "by", "object", "unique"}]:
        return named[-1]
    around = [part for part in field.key.split("/")[:-1] if words_of(part) not in WRAPPERS]
    return _singular(words_of(around[-1]).rpartition(" ")[2]) if around else label_of(field).rpartition(" ")[2] or noun


def with_kind(field: Field, noun: str = "") -> Field:
    """The field with its kind: what values people name for it, which earlier output may fill it, how it is tested.

    `noun`: what the operation is about, which a bare `id` identifies. A `choice` has its values in the document, a
    `container` is chosen from a list, by a name that people know.
    """
    name, of, label = words_of(field.key), identified(field, noun), label_of(field)
    plumbing = PLUMBING.fullmatch(name) or PLUMBING.fullmatch(label)
    sayable = list(dict.fromkeys(value for value in field.examples if _sayable(value)))[:MOST_CHOICES]
    chosen = of or label.rpartition(" ")[2]
    if field.kind == "choice":
        if {str(value).lower() for value in field.examples} <= {"true", "false"}:
            return replace(field, kind="boolean", examples=())
        usable = len(sayable) > 1 and not plumbing
        return replace(field, kind="choice" if usable else "any", examples=tuple(sayable) if usable else ())
    if field.kind == "container" and chosen in PEOPLE:
        return replace(field, kind="person_name")
    if field.kind == "container" and chosen in CONTAINERS:
        return replace(field, kind=chosen if chosen in ("team", "channel", "folder") else "container")
    if of and not plumbing:
        kind = ID + (re.sub(r"[^a-z]", "_", _singular(of)).strip("_") or "record")
        # A foreign API's users and groups are not those of the directory that all connectors share.
        return replace(field, kind=kind.replace(ID, f"{ID}own_") if kind in SHARED_IDS else kind, examples=())
    kind = "any" if plumbing and field.type not in ("array", "object", "boolean") else _kind(field, name, label)
    shown = kind == "any" and field.type == "string" and not plumbing
    return replace(field, kind=kind, examples=tuple(v for v in sayable if isinstance(v, str)) if shown else ())


def _sayable(value: Any) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number or (isinstance(value, str) and bool(SAYABLE_VALUE.fullmatch(value)))


BY_TYPE = {"array": "records", "object": "record", "boolean": "boolean", "integer": "count"}
BY_FORMAT = {"binary": "file_content", "byte": "file_content", "email": "person_email", "uri": "url", "url": "url",
             "date": "date", "date-time": "datetime"}  # fmt: skip
MOMENT = re.compile(r"\b(date|time|day|deadline|timestamp|(created|updated|modified|due) (at|on))$")


def _kind(field: Field, name: str, label: str) -> str:
    if field.type in BY_TYPE or field.format in BY_FORMAT:
        return BY_TYPE.get(field.type) or BY_FORMAT[field.format]
    named = next((kind for text in (name, label) for kind, words in ENGLISH["kinds"]
                  if re.search(rf"\b({words})$", text)), "")  # fmt: skip
    if field.type == "number":
        return "amount" if named == "amount" else "number"
    if MOMENT.search(name) or MOMENT.search(label):
        return "datetime" if "time" in f"{name} {label}" or name.endswith(" at") else "date"
    return named if named and named != "amount" else "any"  # an amount is a number


def _returned(fields: Iterable[Field], noun: str) -> Iterator[Field]:
    """Fields of a response; those that flows may use have as summary what people call them, each another."""
    taken: set[str] = set()
    for number, field in enumerate(fields):
        field = with_kind(field, noun)
        label, identifies = label_of(field), field.kind.startswith(ID)
        around = [part for part in field.key.split("/")[:-1] if words_of(part) not in WRAPPERS]
        if label in ("name", "title", "email", "display name", "url", "status") and around:
            label = f"{words_of(around[-1])}'s {label}"
        usable = (identifies or said(field.kind)) and field.key.count("/") < 3 and number < MOST_RETURNED
        if not label or label in taken or not usable:
            yield replace(field, kind=field.kind if identifies else "any", summary="")
            continue
        taken.add(label)
        yield replace(field, summary=f"{label} id" if identifies else label)


# ---------------------------------------------------------------- ways of asking


def _placed(verb: str, spoken: str) -> str:
    """The verb and its object with what stands before the app's name, and the app."""
    ways = ENGLISH["before_app"].items()
    place = next((word for word, verbs in ways if verb.split()[0] in verbs.split()), "in")
    return f"{verb} {spoken} {'in' if place == 'from' and ' from ' in spoken else place} {{app}}"


def _bare(text: str) -> str:
    """The text in telegraph style."""
    return " ".join(word for word in text.split() if word not in ("a", "an", "the", "my"))


def _action_ways(verb: str, spoken: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Ways of asking for an action, in sentences and in telegraph style; each names the app but for the last one."""
    verbs = [verb, *ENGLISH["synonyms"].get(verb, ())]
    placed = [_placed(verb, spoken) for verb in verbs]
    ways = [placed[0], f"use {{app}} to {verb} {spoken}", *placed[1:], f"go to {{app}} and {verb} {spoken}"]
    if verb.split()[0] in READS:
        ways.append(f"ask {{app}} for {spoken}")
    else:
        ways += [f"have {{app}} {verb} {spoken}", f"let {{app}} {verb} {spoken}"]
    bare = _bare(spoken)
    return tuple(ways), (_placed(verb, bare), f"{{app}}: {verb} {bare}", f"{verbs[-1]} {bare} ({{app}})")


def _trigger_ways(verb: str, spoken: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Ways of saying that a trigger fires, as clauses without conjunction; and in telegraph style."""
    ways = ENGLISH["trigger_ways"] if verb else ENGLISH["arrival_ways"]
    bare = _bare(re.sub(r" (is|are) ", " ", spoken)) if verb else f"new {spoken}"
    phrases = tuple(way.replace("{c}", spoken).replace("{n}", spoken) for way in ways)
    return phrases, (f"{bare} in {{app}}", f"{{app}}: {bare}", f"{bare} ({{app}})")


def _endings(api: API, verb: str) -> Iterator[str]:
    """Endings that name a parameter, three ways each, the required parameters first."""
    offered = [p for p in api.parameters if not p.internal and (p.examples or said(p.kind)) and p.kind != "boolean"]
    labels: set[str] = set()
    for parameter in sorted(offered, key=lambda parameter: not parameter.required):
        slot, label = _slot(api, parameter), label_of(parameter)
        if parameter.kind == "container":
            label = identified(parameter) or label
        unsaid = parameter.kind != "query" and UNSAID_LABEL.search(label)
        unsaid = unsaid or (verb not in READS and SET_BY_THE_APP.search(label))
        if not slot or not label or label in labels or len(labels) == MOST_CLAUSES or unsaid:
            continue
        labels.add(label)
        value = f"{{{slot}}}"
        if parameter.kind == "query":
            yield from (f"matching {value}", f"that match {value}", f"about {value}")
        elif parameter.kind == "container":
            yield from (f"for the {label} {value}", f"for the {value} {label}", f"with {value} as the {label}")
        else:
            known = f"where the {label} {'are' if _is_plural(label) else 'is'} {value}"
            last = known if api.trigger or verb.split()[0] in READS else f"and set the {label} to {value}"
            yield from (f"with the {label} {value}", f"with {value} as the {label}", last)


def _slot(api: API, parameter: Field) -> str:
    """How a phrase names a parameter: the last part of its key where that is one parameter's, else the key."""
    last = parameter.key.rpartition("/")[2]
    if re.search(r"[{}\[\]|\n]", parameter.key) or APP in (last, parameter.key):
        return ""
    return last if meant(last, [other.key for other in api.parameters]) == [parameter.key] else parameter.key
