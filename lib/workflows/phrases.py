"""Phrases for APIs that nobody has written phrases for: several wordings an operation, from its OpenAPI document.

Rules make them from summaries, or descriptions, and parameters: "Creates a ticket" becomes "create a ticket in {app}".
What gives no usable phrase is left out of the flows, and stays in the catalogue.
"""

from __future__ import annotations

import html
import random
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from lib.workbook.inputs import InputError
from lib.workflows.apis import APP, ID, SHARED_IDS, Connector, Field, Operation, said
from lib.workflows.catalogue import Catalogue
from lib.workflows.openapi import first_sentence
from lib.workflows.planning import given_by, needed_by
from lib.workflows.wording import FLOWS

ENGLISH: dict[str, Any] = yaml.safe_load((FLOWS / "english.yaml").read_text(encoding="utf-8"))
WORDS = {name: frozenset(words.split()) for name, words in ENGLISH.items() if isinstance(words, str)}
LIKE = {name: re.compile(pattern, re.IGNORECASE) for name, pattern in ENGLISH["patterns"].items()}
STARTS = Path("data") / "starts.yaml"  # triggers for documents that have none
HELD_OUT_SHARE = 0.1  # of the operations with phrases, for the unseen pairs
MOST_CLAUSES = 8  # parameters that an operation's endings name
MOST_RETURNED = 40  # fields of a response that flows may use
MOST_WORDS = 9  # of what is asked for; longer ones are definitions, no requests
MOST_LABEL_WORDS, MOST_CHOICES = 4, 15
SAME_WORDS = "asked for in the words of another operation"
ID_WORDS = {"id", "ids", "guid", "uuid", "identifier", "key"}
CAMEL = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
SAYABLE_VALUE = re.compile(r"[A-Za-z][\w .+-]{0,29}")
SAYABLE = re.compile(r"[A-Za-z0-9][A-Za-z0-9'’&+. ,-]*")
KINDS_BY_NAME = [(kind, re.compile(rf"\b({words})$")) for kind, words in ENGLISH["kinds"]]


class Unsaid(ValueError):
    """Nobody would ask for an operation in the words of its document; the message is the reason."""


def phrase_catalogue(catalogue: Catalogue, starts: Catalogue, seed: int) -> tuple[Catalogue, pd.DataFrame]:
    """The catalogue with kinds of its fields, phrases, and a share of the operations held out for the unseen pairs; and
    api, summary, reason of the operations that got no phrases.

    Where no trigger of the documents can be asked for, flows begin with those of `starts`. `seed`: of what is held out.
    Raises InputError where fewer than two actions got phrases: no flow could be made, or nothing held out.
    """
    connectors = {c.id: replace(c, called=(app_name(c.name),)) for c in catalogue.connectors.values()}
    apis, reasons = dict(catalogue.apis), {}
    for api in catalogue:
        try:
            apis[api.name] = _phrased(api, connectors[api.connector])
        except Unsaid as error:
            reasons[api.name] = str(error)
    asked = sorted((api for api in apis.values() if api.phrases), key=lambda api: api.operation)
    newest = set({(api.connector, api.phrases[0].lower()): api.name for api in asked}.values())
    askers = Counter((api.connector, text.lower()) for api in asked if api.name in newest
                     for text in {*api.phrases, *api.terse})  # fmt: skip
    for api in asked:  # each phrase asks for one operation
        reasons |= {} if api.name in newest else {api.name: SAME_WORDS}
        kept = [tuple(text for text in texts if api.name in newest and askers[api.connector, text.lower()] == 1)
                for texts in (api.phrases, api.terse)]  # fmt: skip
        apis[api.name] = replace(api, phrases=kept[0], terse=kept[1])
    offered = [api for api in apis.values() if api.phrases]
    triggers, actions = ([api for api in offered if api.trigger is trigger] for trigger in (True, False))
    if len(actions) < 2:
        why = "; ".join(f"{reason}: {count}" for reason, count in Counter(reasons.values()).most_common())
        raise InputError(
            f"{len(actions)} of {len(apis)} operations can be asked for, two actions are needed{why and f' ({why})'}"
        )
    # Of the actions, those first that need no id from another call: each that is held out must fit into some flow.
    given = set().union(*map(given_by, offered))
    free = [api for api in actions if not needed_by(api) & given] or actions
    rng, n = random.Random(seed), max(int(HELD_OUT_SHARE * len(actions)), 1)
    held = rng.sample(free, min(n, len(free))) + rng.sample(triggers, int(HELD_OUT_SHARE * len(triggers)))
    trained = {api.name for api in offered} - {api.name for api in held}
    apis = {name: replace(api, in_training=name in trained) for name, api in apis.items()}
    rows = [(name, apis[name].display_name, reason) for name, reason in reasons.items()]
    if not triggers:
        apis, connectors = apis | starts.apis, connectors | starts.connectors
    left_out = pd.DataFrame(rows, columns=["api", "summary", "reason"])
    return replace(catalogue, apis=apis, connectors=connectors), left_out


def app_name(title: str) -> str:
    """What people call an app: its document's title without what only documents have."""
    name = re.split(r" [-–—|:] |: ", re.sub(r"[\[({][^\])}]*[\])}]", " ", title))[0]
    texts = (LIKE["not_in_names"].sub(" ", name), title)
    told = (" ".join(re.sub(r"[\[\](){}|]", " ", text).split()) for text in texts)
    return next(filter(None, told), "the app")


def _phrased(api: Operation, connector: Connector) -> Operation:
    """The API with kinds and phrases; raises Unsaid where it can have none."""
    if api.internal or LIKE["unoffered"].search(api.display_name) or LIKE["unoffered"].match(api.description):
        raise Unsaid("internal or deprecated")
    for text in (api.display_name, first_sentence(api.description)):
        if told := (clause if api.trigger else imperative)(_without_app(text, connector.called[0])):
            break
    else:
        raise Unsaid("nothing happens in its summary" if api.trigger else "its summary is no verb with an object")
    verb, spoken = told
    noun = _singular(_noun(spoken)).lower()
    parameters = tuple(with_kind(parameter, noun) for parameter in api.parameters)
    api = replace(api, parameters=parameters, returns=tuple(_returned(api.returns, noun)))
    bare = " ".join(word for word in spoken.split() if word not in ("a", "an", "the", "my"))
    if api.trigger:
        phrases = [way.replace("{c}", spoken) for way in ENGLISH["trigger_ways"]]
        bare = re.sub(r" (is|are) ", " ", bare)
        terse = [f"{bare} in {{app}}", f"{{app}}: {bare}", f"{bare} ({{app}})"]
    else:
        verbs = [verb, *ENGLISH["synonyms"].get(verb, ())]
        phrases = [_placed(other, spoken) for other in verbs]
        phrases += [f"{way} {verb} {spoken}" for way in ENGLISH["action_ways"]]
        terse = [_placed(verb, bare), f"{{app}}: {verb} {bare}", f"{verbs[-1]} {bare} ({{app}})"]
    return replace(api, phrases=tuple(phrases), terse=tuple(terse), clauses=tuple(_endings(api, verb)))


def _without_app(text: str, app: str) -> str:
    """A summary in one line without markup, brackets, version and the app's name, which the frames add."""
    text = re.sub(r"<[^>]*>|[`*\"“”]|\([^)]*\)|\[[^]]*\]|\{[^}]*\}", " ", html.unescape(text))
    text = re.sub(r"[ _-][vV]\d+(\.\d+)*\s*$", "", text.strip()).replace("_", " ")
    text = " ".join(text.replace("/", " or ").replace(" - ", " or ").split()).rstrip(".;:!, ")
    if " " not in text:  # an operation's id
        text = " ".join(word if word.isupper() else word.lower() for word in CAMEL.findall(text))
    placed = rf"\s+(in|from|to|on|for|with|into|of|using|via|by) (your |the |an? )?{re.escape(app)}(?=$|[ ,])"
    return re.sub(placed, "", text, flags=re.IGNORECASE)


def _placed(verb: str, spoken: str) -> str:
    """The verb and its object with what stands before the app's name, and the app."""
    ways = ENGLISH["before_app"].items()
    place = next((word for word, verbs in ways if verb.split()[0] in verbs.split()), "in")
    return f"{verb} {spoken} {'in' if place == 'from' and ' from ' in spoken else place} {{app}}"


def _endings(api: Operation, verb: str) -> Iterator[str]:
    """Endings that name a parameter, three ways each, the required parameters first."""
    offered = [p for p in api.parameters if not p.internal and (p.examples or said(p.kind)) and p.kind != "boolean"]
    reads, labels = verb.split()[0] in WORDS["reads"], {""}
    lasts = Counter(parameter.key.rpartition("/")[2] for parameter in api.parameters)
    for parameter in sorted(offered, key=lambda parameter: not parameter.required):
        last, kind = parameter.key.rpartition("/")[2], parameter.kind
        slot = last if lasts[last] == 1 else parameter.key
        label = (kind == "container" and identified(parameter)) or label_of(parameter)
        unsaid = kind != "query" and LIKE["unsaid_label"].search(label)
        unsaid = unsaid or (not reads and LIKE["set_by_the_app"].search(label))
        if label in labels or len(labels) > MOST_CLAUSES or unsaid or slot == APP or re.search(r"[{}\[\]|\n]", slot):
            continue
        labels.add(label)
        way = kind if kind in ENGLISH["endings"] else "known" if api.trigger or reads else "set"
        be = "are" if _is_plural(label) else "is"
        for text in ENGLISH["endings"][way]:
            yield text.replace("{l}", label).replace("{is}", be).replace("{v}", f"{{{slot}}}")


def imperative(text: str) -> tuple[str, str] | None:
    """Verb in the base form, and object with its article; None where the text does not begin with a verb and an object.
    Raises Unsaid where nobody would say it.

    >>> imperative("Creates a new ticket with the given title")
    ('create', 'a new ticket with the title')
    """
    first, _, rest = text.partition(" ")
    word, follows = first.lower(), rest.partition(" ")[0].lower()
    endings = (("", ""), ("ies", "y"), ("es", ""), ("s", ""), ("ing", ""), ("ing", "e"))
    stems = (word[: len(word) - len(end)] + instead for end, instead in endings if word.endswith(end))
    verb = next((stem for stem in stems if stem in WORDS["verbs"]), "")
    if not verb or (verb == word and verb in WORDS["noun_verbs"] and follows not in WORDS["determiners"]):
        return None
    verb, spoken = ENGLISH["said_as"].get(verb, verb), _spoken(rest)
    if verb in WORDS["reads"] and LIKE["list_of"].match(spoken):
        verb, spoken = "list", LIKE["list_of"].sub("", spoken)
    if verb == "search":
        verb, spoken = "search for", spoken.removeprefix("for ").removeprefix("all ")
    if spoken in ("", "me", "all", "it", "them") or spoken.split()[0] in WORDS["prepositions"]:
        return None
    makes = verb in WORDS["makes"]
    if not makes and verb != "search for":
        spoken = re.sub(r"^an? (?!new |list |copy )", "the ", spoken)
    if verb not in ("list", "search for", "find") or not _is_plural(_noun(spoken)):
        spoken = _with_article(spoken, makes)
    return verb, _sayable(f"{verb} {spoken}").removeprefix(f"{verb} ")


def clause(text: str) -> tuple[str, str] | None:
    """What happens when a trigger fires, as its verb and a clause in the present tense; None where nothing happens.
    Raises Unsaid where nobody would say it.

    >>> clause("When a new ticket is created")
    ('is', 'a new ticket is created')
    """
    found = LIKE["happening"].search(text)
    words = _spoken(re.split(r"[.;,]\s", found[1] if found else text)[0]).split()
    for place, verb in enumerate(words[1:], start=1):
        subject, rest = _with_article(" ".join(words[:place]), indefinite=True), words[place + 1 :]
        participle = verb in WORDS["participles"] or (verb.endswith("ed") and len(verb) > 4)
        if verb not in WORDS["happens"] and participle and (not rest or rest[0] in WORDS["prepositions"]):
            verb, rest = "are" if _is_plural(_noun(subject)) else "is", words[place:]  # "closed tickets" is a thing
        if verb in WORDS["happens"]:
            told = rest or verb not in ("is", "are", "has")
            return (verb, _sayable(" ".join([subject, verb, *rest]))) if told else None
    return None


def _sayable(text: str) -> str:
    if LIKE["technical"].search(text):
        raise Unsaid("a programmer's words")
    if not SAYABLE.fullmatch(text) or len(text.split()) > MOST_WORDS:
        raise Unsaid(f"signs that nobody says, or more than {MOST_WORDS} words")
    return text


def _is_plural(noun: str) -> bool:
    word = noun.lower()
    ends = word.endswith("s") and not re.search("(ss|us|is|'s)$", word)
    return word in WORDS["plurals"] or (ends and word not in WORDS["no_plurals"])


def _singular(noun: str) -> str:
    if not _is_plural(noun) or noun.lower() in WORDS["plurals"]:
        return noun
    ending = re.search(r"(?<=[^aeiou])ies$|(?<=ss|sh|ch)es$|(?<=x)es$|s$", noun)
    return noun[: ending.start()] + ("y" if ending[0] == "ies" else "") if ending else noun


def _noun(phrase: str) -> str:
    """The last word of a noun phrase before its first preposition or verb."""
    words = phrase.split()
    ends = (i for i, word in enumerate(words) if i and word.lower() in WORDS["prepositions"] | WORDS["happens"])
    return words[next(ends, len(words)) - 1].removesuffix("'s")


def _with_article(phrase: str, indefinite: bool) -> str:
    """A noun phrase with `the`, or with `a` where it can be counted and is singular; as it is where it has one."""
    phrase = re.sub(r"^an? ", "", phrase) if indefinite else phrase
    first = phrase.partition(" ")[0]
    if not first or first in WORDS["determiners"] | WORDS["prepositions"] or first[0].isdigit() or "'s" in first:
        return phrase
    if not indefinite:
        return f"the {phrase}"
    noun = _noun(phrase)
    if _is_plural(noun) or noun.lower() in WORDS["mass"]:
        return phrase
    vowel = re.match(r"(?!uni|us[aeu]|eu|one\b|url)[aeiou]|hour|[AEFHILMNORSX](?=[A-Z0-9])", phrase)
    return f"{'an' if vowel else 'a'} {phrase}"


def _spoken(text: str) -> str:
    """A text as people say it: without the capitals that only a title has, and without what only documents specify.

    Acronyms, names and words of mixed case keep their capitals.
    """
    kept = []
    for word in LIKE["tail"].sub("", f" {LIKE['specified'].sub('', text)}").split():
        mixed = re.search(r"[a-z][A-Z]|\d|[A-Z]{2}", word) and not re.fullmatch(r"[A-Z]{5,}", word)
        plain = {"you": "I", "your": "my"}.get(word.lower(), word.lower())
        kept.append(word if mixed or plain in WORDS["names"] else plain)
    spoken = re.sub(r"\ba (?=[aeio])", "an ", " ".join(kept).strip(" ,."))
    return re.sub(r"\ban (?=[b-df-gj-np-tv-z])", "a ", spoken)


def _key_words(name: str) -> str:
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
    words = _key_words(field.key).split()
    if not words or words[-1] not in ID_WORDS or field.type not in ("string", "integer", "number"):
        return ""
    if named := [word for word in words if word not in {*ID_WORDS, "or", "by", "object", "unique"}]:
        return named[-1]
    around = [part for part in map(_key_words, field.key.split("/")[:-1]) if part not in WORDS["wrappers"]]
    return _singular(around[-1].rpartition(" ")[2]) if around else label_of(field).rpartition(" ")[2] or noun


def with_kind(field: Field, noun: str = "") -> Field:
    """The field with its kind: what values people name for it, which earlier output may fill it, how it is tested.

    `noun`: what the operation is about, which a bare `id` identifies. A `choice` has its values in the document, a
    `container` is chosen from a list, by a name that people know.
    """
    name, of, label = _key_words(field.key), identified(field, noun), label_of(field)
    by_type, by_format = ENGLISH["by_type"], ENGLISH["by_format"]
    plumbing = LIKE["plumbing"].fullmatch(name) or LIKE["plumbing"].fullmatch(label)
    values = [value for value in dict.fromkeys(field.examples)
              if SAYABLE_VALUE.fullmatch(str(value)) or type(value) in (int, float)][:MOST_CHOICES]  # fmt: skip
    chosen = of or label.rpartition(" ")[2]
    if field.kind == "choice":
        usable = len(values) > 1 and not plumbing
        return replace(field, kind="choice" if usable else "any", examples=tuple(values) if usable else ())
    if field.kind == "container" and chosen in WORDS["people"]:
        return replace(field, kind="person_name")
    if field.kind == "container" and chosen in WORDS["containers"]:
        return replace(field, kind=chosen if chosen in ("team", "channel", "folder") else "container")
    if of and not plumbing:
        kind = ID + (re.sub(r"[^a-z]", "_", _singular(of)).strip("_") or "record")
        # A foreign API's users and groups are not those of the directory that all connectors share.
        return replace(field, kind=kind.replace(ID, f"{ID}own_") if kind in SHARED_IDS else kind, examples=())
    kind = next((kind for text in (name, label) for kind, words in KINDS_BY_NAME if words.search(text)), "any")
    if plumbing and field.type not in ("array", "object", "boolean"):
        kind = "any"
    elif field.type in by_type or field.format in by_format:
        kind = by_type.get(field.type) or by_format[field.format]
    elif field.type == "number":
        kind = "amount" if kind == "amount" else "number"
    elif LIKE["moment"].search(name) or LIKE["moment"].search(label):
        kind = "datetime" if "time" in f"{name} {label}" or name.endswith(" at") else "date"
    elif kind == "amount":  # which is a number
        kind = "any"
    shown = values if kind == "any" and field.type == "string" and not plumbing else []
    return replace(field, kind=kind, examples=tuple(value for value in shown if isinstance(value, str)))


def _returned(fields: Sequence[Field], noun: str) -> Iterator[Field]:
    """Fields of a response; those that flows may use have as summary what people call them, each another."""
    taken = {""}
    for field in fields[:MOST_RETURNED]:
        field = with_kind(field, noun)
        label, identifies = label_of(field), field.kind.startswith(ID)
        if label in taken or not (identifies or said(field.kind)) or field.key.count("/") > 2:
            yield replace(field, kind=field.kind if identifies else "any", summary="")
            continue
        taken.add(label)
        yield replace(field, summary=f"{label} id" if identifies else label)
    yield from (replace(field, summary="") for field in fields[MOST_RETURNED:])
