"""What an operation's summary says: an imperative for an action, a clause in the present tense for a trigger.

Rules alone, no model. Where a summary gives nothing that people could say, the description's first sentence and the
operation id are tried; `Unsaid` tells why none of them will do.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from typing import NamedTuple

from lib.workflows.apis import API
from lib.workflows.english import (
    DETERMINERS,
    MASS,
    NOUNS_TOO,
    PREPOSITIONS,
    article,
    base_form,
    head,
    is_participle,
    is_plural,
    lowered,
    plural,
    singular,
    third_person,
    with_article,
    with_inner_articles,
)  # fmt: skip
from lib.workflows.field_kinds import CAMEL

MOST_WORDS = 9  # of an imperative or a clause; longer ones are definitions, no requests
UNTOLD = ("post", "put", "patch")  # methods that begin ids made from a path: they say too little of what is done
MOST_ID_WORDS = 4  # of an operation id that is read as an imperative
VAGUE = frozenset("string value result response array data resource thing element object".split())
SHAPES = ("array", "string", "object")  # of data that a programmer sends; nobody asks for one, whatever it is for
DEPRECATED = re.compile(r"\b(deprecated|obsolete|legacy|no longer supported)\b", re.IGNORECASE)
TECHNICAL = re.compile(
    r"\b(api|apis|endpoints?|webhooks?|hooks?|schemas?|https?|payloads?|tokens?|oauth|callbacks?|swagger|openapi|"
    r"ping|enums?|static response|operations?|parameters?|jwt|sdk|rest|system|internal|null|dynamic|proxy)\b",
    re.IGNORECASE,
)
LEAD_IN = re.compile(
    r"^(use |using )?((this|the|an?) )?"
    r"(operation|action|method|endpoint|api|resource|call|function|service|trigger)s? "
    r"((which|that) )?((is|was|can be|may be|could be) )?(used (to|for)|to|for|will|allows?( you| users| one)? to|"
    r"lets you|enables( you| users)? to|helps( you)? to|triggers|starts|fires)? ?|"
    r"^(allows|enables|helps|permits)( you| users| one)( to)? |^(allows|helps) to |"
    r"^(lets|let) (you|users) |^(used|use) to |^you can |"
    r"^(in order )?to |^(easily|simply|automatically|quickly) ",
    re.IGNORECASE,
)
SPECIFIED = re.compile(
    r"\b(specified|given|provided|existing|particular|certain|specific|requested|selected|desired|corresponding|"
    r"following|respective|supplied|relevant)\s+",
    re.IGNORECASE,
)
BY_ID = re.compile(
    r"\s+(by|using|with|via|from|for|based on|identified by)\s+(the |an? |its |their |your )?"
    r"((unique|specified|given|\w+)\s+)?(ids?|identifiers?|guids?|uuids?|keys?)( \w+)?$",
    re.IGNORECASE,
)
WITH_WHAT_IS_GIVEN = re.compile(r"\s+(with|by|using|for)( the| a| an)? (given|specified|provided|following) .*$", re.I)
TAIL = re.compile(
    r"\s+(that|which|whose|where|when|in order|so that|denoting|containing|identified|including|as well as|then|"
    r"according|depending|matching|based on|if|such as|e\.g\.|i\.e\.|via|without|available|currently|belonging)\b.*$",
    re.IGNORECASE,
)
TELLING = re.compile(r" (that|which) (is|are|has|have) (?!(available|accessible|associated)\b)(?!.* ids?\b)")
LIST_OF = re.compile(
    r"^(an? |the )?(\w+ )?(list|lists|collection|set|array|page|range)s? (of|with) (?=\w)(all )?(the )?", re.IGNORECASE
)
THINGS = re.compile(
    r"(?<=\w)(?<!\ba)(?<!\ban)(?<!\bthe)(?<!\bof)(?<!\ball)(?<!\bfor) (objects?|resources?|instances?)\b", re.IGNORECASE
)
SAYABLE = re.compile(r"[A-Za-z0-9][A-Za-z0-9'’&+. ,-]*")
PARTICLES = {"up", "out", "off", "on", "in", "down", "back"}
WITH_PARTICLE = {"look", "set", "sign", "turn", "check", "log", "roll", "clean", "fill"}
MEANS = {"return": "get", "provide": "get", "obtain": "get", "display": "show", "give": "get", "append": "add",
         "query": "search", "lookup": "look up", "perform": "run", "initiate": "start"}  # fmt: skip
READS = frozenset("get list fetch retrieve read view show find search download extract export pull look".split())
MAKES = frozenset(
    "create add insert post generate make start upload send draft schedule book register build launch open produce "
    "import append submit publish write print apply provision attach invite place".split()
)
PRONOUNS = {"me", "it", "them", "all", "this", "that", "us", "so"}
CONJUNCTION = re.compile(
    r"\b(?:when(?:ever)?|once|every time|each time|any time|as soon as|after|if|that runs when)\s+(.+)$", re.I
)
STATES = {"is", "are", "has", "have", "was", "were", "becomes", "become", "gets", "get", "appears", "arrives", "occurs",
          "happens", "expires", "fails", "passes", "exceeds", "reaches", "meets", "falls", "rises", "goes", "comes",
          "receive", "receives", "ends", "elapses", "succeeds", "finishes"}  # fmt: skip


NOTHING_HAPPENS = "the trigger's summary says nothing that happens"


OF_DOCUMENTS = re.compile(
    r"\b(swagger|openapi|rest|restful|web ?service|connector|apis?|specification|v\d+(\.\d+)*|\d+\.\d+\S*)(?!\w)",
    re.IGNORECASE,
)  # in titles


class Unsaid(ValueError):
    """Nobody would ask for an operation in the words of its document; the message is the reason."""


class Imperative(NamedTuple):
    """`verb` in the base form and `object` with its articles; `noun`: the object's last word in the singular."""

    verb: str
    object: str
    noun: str


class Clause(NamedTuple):
    """`subject` with its article, `verb` (`is`, or a third person) and what follows; `noun` as in `Imperative`."""

    subject: str
    verb: str
    rest: str
    noun: str

    @property
    def text(self) -> str:
        return f"{self.subject} {self.verb} {self.rest}".strip()


def imperative(api: API, names: frozenset[str], common: frozenset[str]) -> Imperative:
    """What people say to ask for an action. `names`: of apps, in lower case; they keep their
    capitals. `common`: ordinary words, which do not.

    Raises:
        Unsaid: the document gives nothing that people could say.
    """
    reason = ""
    for text in _texts(api):
        try:
            found = _imperative(text, api, names, common)
        except Unsaid as error:
            reason = reason or str(error)
            continue
        if found:
            return found
    raise Unsaid(reason or "neither summary nor operation id has a verb")


def clause(api: API, names: frozenset[str], common: frozenset[str]) -> Clause:
    """What people say happens when a trigger fires; arguments and errors as those of `imperative`."""
    reason = ""
    for text in (api.display_name, _first_sentence(api.description)):
        try:
            found = _clause(_without_app(_tidy(text), api.app_name), names, common)
        except Unsaid as error:
            reason = reason or str(error)
            continue
        if found:
            return found
    raise Unsaid(reason or NOTHING_HAPPENS)


def is_deprecated(api: API) -> bool:
    return bool(DEPRECATED.search(api.display_name) or DEPRECATED.match(api.description))


def app_names(title: str) -> tuple[str, ...]:
    """What people call an app: its document's title without what only documents have, and without a maker's name."""
    name = re.sub(r"[\[(][^])]*[\])]", " ", title)
    name = re.split(r" [-–—|:] |: ", name)[0]
    name = OF_DOCUMENTS.sub(" ", name)
    name = " ".join(name.replace("{", " ").replace("}", " ").split()) or " ".join(title.split())
    if re.search(r"[{}\[\]|]", name):
        name = re.sub(r"[{}\[\]|]+", " ", name).strip() or "the app"
    short = re.sub(r"^(Microsoft|Google|Azure|Amazon|AWS|IBM|Apache)\s+(?=\w)", "", name)
    return (name,) if short == name or not re.match(r"[A-Za-z]{3}", short) else (name, short)


# ---------------------------------------------------------------- texts


def _texts(api: API) -> Iterator[str]:
    """Texts that may hold an imperative, best first."""
    texts = [api.display_name, _first_sentence(api.description)]
    if " " in api.display_name.strip():
        yield from texts
    else:
        yield texts[1]
        yield from texts[: len(CAMEL.findall(api.display_name)) <= MOST_ID_WORDS]
    words = [word.lower() for word in CAMEL.findall(re.sub(r"[_-]?[vV]\d+$", "", api.operation))]
    words = [word for word in words if not re.fullmatch(r"flow|v|\d+", word)]
    words = words[:-1] if words and words[-1] in ("get", "post", "put", "patch") and len(words) > 2 else words
    if len(words) > 1 and not base_form(words[0]) and base_form(words[-1]):
        words = [words[-1], *words[:-2], singular(words[-2]) if words[-1] not in ("list", "search") else words[-2]]
    verb = base_form(words[0]) if words else None
    title = _tidy(api.display_name)
    told = {singular(word) for word in title.lower().split()} < {singular(word) for word in words[1:]}
    if verb and verb not in UNTOLD and title and not told and verb not in map(base_form, title.split()):
        yield f"{verb} {title}"
    if verb and verb not in UNTOLD and 1 < len(words) <= MOST_ID_WORDS:
        yield " ".join(words)


def _first_sentence(text: str) -> str:
    plain = re.sub(r"<[^>]*>", " ", html.unescape(text))
    return re.split(r"(?<=[a-z)])[.;!]\s|\n|\. |: | [-–—] ", plain.strip() + " ")[0]


def _tidy(text: str) -> str:
    """The text without markup, brackets, version, lead-in and full stop, and with spaces in camel case."""
    text = re.sub(r"<[^>]*>|[`*\"“”]", " ", html.unescape(text))
    text = re.sub(r"(?<=[a-z])\((s|es)\)", r"\1", text)
    text = re.sub(r"\([^)]*\)|\[[^]]*\]|\{[^}]*\}", " ", text)
    text = re.sub(r"^[A-Z][\w ]{2,14}:\s+(?=[A-Z])|\b(\(?preview\)?|beta)\s*$", " ", text, flags=re.IGNORECASE)
    text = re.sub(r"[ _-][vV]\d+(\.\d+)*\s*$", "", text.strip()).replace("_", " ").replace("/", " or ")
    text = re.sub(r"(?<=[a-z]) - (?=[A-Z])|(?<=[a-z])-(?=[A-Z][a-z])", " or ", text)  # "Request - Incident" names both
    text = re.sub(r"(?<=[A-Za-z]) - (?=[A-Za-z])", " ", text)
    text = re.sub(r"\b([A-Z]{2,})-s\b", r"\1s", text)
    text = " ".join(text.split()).rstrip(".;:!, ")
    if " " not in text and re.search(r"[a-z][A-Z]", text):
        text = " ".join(word if word.isupper() else word.lower() for word in CAMEL.findall(text))
    shorter = LEAD_IN.sub("", text)
    return shorter if shorter else text


def _without_app(text: str, title: str) -> str:
    """The text without the app's name, which the frames add: `tasks in Planner` as `tasks`."""
    for name in sorted({*app_names(title), *(f"{n}.com" for n in app_names(title))}, key=len, reverse=True):
        found = rf"(?<!\w){re.escape(name)}(?:'s)?(?!\w)"
        text = re.sub(rf"\s+(in|from|to|on|for|with|into|of|using|via|by|within|at) (my |your |the |an? )?{found}"
                      rf"( (account|workspace|instance|service|connector|database|platform|data))?(?=$|[ ,])", "", text,
                      flags=re.IGNORECASE)  # fmt: skip
        text = re.sub(rf"{found} (?=\w)(?!(in|from|to|on|for|with|is|are|has)\b)", "", text, flags=re.IGNORECASE)
    return " ".join(text.split())


def _spoken(text: str, names: frozenset[str], common: frozenset[str]) -> str:
    """The words of a noun phrase as people say them."""
    text = WITH_WHAT_IS_GIVEN.sub("", text)
    text = SPECIFIED.sub("", text)
    text = BY_ID.sub("", text)
    text = THINGS.sub("", text)
    for yours, mine in ((r"your", "my"), (r"yours", "mine"), (r"signed in user's", "my"), (r"’", "'")):
        text = re.sub(rf"\b{yours}\b" if yours.isalpha() else yours, mine, text, flags=re.IGNORECASE)
    return lowered(" ".join(text.split()), names, common).strip(" ,.")


def _mended(text: str) -> str:
    """The text with `a` and `an` as the words after them sound, and without those before a plural."""

    def said(found: re.Match) -> str:
        words = found[2].split()
        noun = words[head(words)].lower()
        return "" if is_plural(noun) and noun not in ("criteria", "data", "media") else f"{article(found[2])} "

    return re.sub(r"\b(an?) (?=(\w.*))", said, text)


def _checked(text: str) -> str:
    """The text; raises Unsaid where nobody would say it."""
    if TECHNICAL.search(text):
        raise Unsaid("a programmer's words")
    if not SAYABLE.fullmatch(text):
        raise Unsaid("signs that nobody says")
    if len(text.split()) > MOST_WORDS:
        raise Unsaid(f"more than {MOST_WORDS} words")
    return text


# ---------------------------------------------------------------- actions


def _imperative(text: str, api: API, names: frozenset[str], common: frozenset[str]) -> Imperative | None:
    """The imperative of a text; None where it does not begin with a verb and an object."""
    words = re.sub(r"\ball or (?=search)", "", _without_app(_tidy(text), api.app_name)).split()
    if len(words) > 2 and words[1].lower() == "search":
        words = words[1:]  # "get all or search entities"
    if len(words) < 2:
        return None
    verb = base_form(words[0].strip(","))
    if verb is None and words[1].lower() in ("a", "an", "the", "all", "your") and re.fullmatch(r"[A-Za-z]+", words[0]):
        verb = words[0].lower()  # an unknown verb: nothing else stands before an article
    if verb is None or (words[0].lower() == verb and verb in NOUNS_TOO and not _is_verb_here(verb, words, api)):
        return None
    verb, rest = _whole_verb(verb, words[1:])
    verb = MEANS.get(verb, verb)
    spoken = _spoken(" ".join([words[0], *rest]), names, common).partition(" ")[2]
    phrase = TAIL.sub("", f" {spoken}").strip(" ,.")
    phrase = spoken if TELLING.match(spoken, len(phrase)) else phrase
    if verb in READS and verb != "list" and (listed := _listed(phrase)):
        verb, phrase = "list", listed
    phrase = re.sub(r"^(of|by) ", "", phrase)
    if phrase.lower() in PRONOUNS or not phrase or (phrase.split()[0].lower() in PREPOSITIONS and verb != "search"):
        return None
    if verb == "search" and not re.match(r"for\b|the\b|an?\b", phrase) and is_plural(_noun(phrase)):
        phrase = f"for {phrase}"
    phrase = re.sub(r"^for all (the )?", "for ", phrase) if verb == "search" else phrase  # what it finds, are some
    if phrase.startswith("for "):
        verb, phrase = f"{verb} for", phrase[4:]
    if verb == "list" and re.match(r"(the|an?) ", phrase) is None and not is_plural(_noun(phrase)):
        verb = "get"  # "list item details"
    first = verb.split()[0]
    plural_reader = is_plural(_noun(phrase)) and first in ("list", "search", "find")
    definite = first not in MAKES and verb != "search for"
    if definite and (known := re.match(r"an? (?!new |list |copy )", phrase)):
        phrase = f"the {phrase[known.end() :]}"
    phrase = phrase if plural_reader else with_article(phrase, definite)
    phrase = _mended(with_inner_articles(phrase))
    _checked(f"{verb} {phrase}")
    noun = singular(_noun(phrase)).lower()
    if noun in SHAPES or re.search(r" of (an?|the) objects?$", phrase) or (noun in VAGUE and len(phrase.split()) < 3):
        raise Unsaid("says too little")
    return Imperative(verb, phrase, noun)


def _listed(phrase: str) -> str:
    """What is listed, of `a list of assets`, `the assets list` and `list assets`; empty where nothing is."""
    of = LIST_OF.sub("", phrase)
    if of and of != phrase:
        return of
    named = re.fullmatch(r"(?:the )?(.+) list", phrase) or re.fullmatch(r"(?:the )?list (\w+s\b.*)", phrase)
    if not named:
        return ""
    words = named[1].split()
    if phrase.endswith(" list") and not is_plural(words[-1]) and words[-1].lower() not in MASS:
        words[-1] = plural(words[-1])
    return " ".join(words)


def _is_verb_here(verb: str, words: list[str], api: API) -> bool:
    """Whether a word that may be a noun opens an imperative: an article follows, or the operation id begins with it."""
    follows = words[1].lower()
    if follows in DETERMINERS or follows in ("to", "for", "me"):
        return True
    named = [word.lower() for word in CAMEL.findall(api.operation)]
    return follows not in PREPOSITIONS and bool(named) and named[0] == verb and not is_participle(words[-1])


def _whole_verb(verb: str, rest: list[str]) -> tuple[str, list[str]]:
    """The verb with its particle, or with a second verb joined by `and` or `or`; and what is left."""
    if rest and rest[0].lower() in PARTICLES and verb in WITH_PARTICLE:
        return f"{verb} {rest[0].lower()}", rest[1:]
    if len(rest) > 2 and rest[0].lower() in ("and", "or", "or/and") and (second := base_form(rest[1])):
        return f"{verb} {rest[0].lower()} {second}", rest[2:]
    return verb, rest


def _noun(phrase: str) -> str:
    words = phrase.split()
    return words[head(words)].removesuffix("'s")


# ---------------------------------------------------------------- triggers


def _clause(text: str, names: frozenset[str], common: frozenset[str]) -> Clause | None:
    """The clause of a text; None where nothing happens in it."""
    found = CONJUNCTION.search(text)
    said = found[1] if found else re.sub(r"^on (?=\w)", "", text, flags=re.IGNORECASE)
    said = re.split(r"\.\s|;| so that | in order | then ", said)[0]
    said = re.sub(r",(?! \w+ed\b| \w+ed or).*$", "", said)
    said = re.sub(r"\byou\b", "I", _spoken(said, names | {"i"}, common))
    if "for the first time" not in said:
        said = re.sub(r"\s+for an?( \w+)?$", "", said)
    words = said.split()
    if not words:
        return None
    if words[0].endswith("ing") and (verb := base_form(words[0])) and len(words) > 1:
        return _happening("somebody", third_person(verb), " ".join(words[1:]), words[-1])
    place = next((i for i, word in enumerate(words) if i and _is_verb(words, i)), None)
    if place is None:
        new = re.fullmatch(r"(?:an? )?(?:new|incoming) (.+)", said)
        if not new or (found and len(words) > 5):
            return None
        return _happening("there", "is", f"a new {new[1]}", _noun(new[1]))
    subject = _mended(with_article(" ".join(words[:place]), definite=False))
    verb, rest = words[place], words[place + 1 :]
    if is_participle(verb) and verb not in STATES:
        verb, rest = ("are" if is_plural(_noun(subject)) else "is"), words[place:]
    return _happening(subject, verb, " ".join(rest), _noun(subject))


def _is_verb(words: list[str], place: int) -> bool:
    """Whether the word is the clause's verb: a form of `be` or the like, a third person, or a participle at the end."""
    word = words[place].lower()
    if word in STATES:
        return True
    if word.endswith("s") and base_form(word) and not is_plural_here(words, place):
        return True
    return is_participle(word) and (place == len(words) - 1 or words[place + 1].lower() in PREPOSITIONS)


def is_plural_here(words: list[str], place: int) -> bool:
    """Whether a word that may be a third person is a noun: an article or adjective before it, a verb after it."""
    after = words[place + 1].lower() if place + 1 < len(words) else ""
    before = words[place - 1].lower()
    return after in STATES or is_participle(after) or before in DETERMINERS | {"new"}


def _happening(subject: str, verb: str, rest: str, noun: str) -> Clause:
    rest = _mended(with_inner_articles(TAIL.sub("", f" {rest}").strip()))
    if verb in ("is", "are") and not rest:
        raise Unsaid(NOTHING_HAPPENS)
    made = Clause(subject, verb, rest, singular(noun).lower())
    if noun.lower() in ("event", "trigger") and len(subject.split()) < 3 and not rest:
        raise Unsaid(NOTHING_HAPPENS)
    _checked(made.text)
    return made


def without_articles(text: str) -> str:
    """The text in telegraph style."""
    return " ".join(word for word in text.split() if word.lower() not in ("a", "an", "the", "my"))
