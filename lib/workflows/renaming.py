"""New names for the connectors, operations and keys of a prompt, so that a model can only copy them.

A name keeps its shape: `shared_gmail.SendEmailV2` may become `shared_larch.PonduGraniteV2`, its key `emailMessage/To`
`graniteBorel/Tasim`. Words are exchanged, not names, so that what shares a word still does: versions of an operation,
keys below one object, and the variable `outputs_SendEmailV2`. What a request or a description says stays as it is.
"""

from __future__ import annotations

import random
import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple

from lib.workflows.apis import API
from lib.workflows.language import And, Branch, Call, Comparison, Flow, For, If, Not, Object, Or, Reference

# A run of capitals, or a word with or without a capital; the V of a version and other signs stay as they are.
WORD = re.compile(r"(?![Vv][0-9])(?:[A-Z]+(?![a-z])|[A-Z]?[a-z]+)")
ODD = re.compile(r"[a-z][A-Z]|[^A-Za-z ]")  # in a name that is no word of a sentence
NAME = re.compile(r"[\w$@/-]+(?:\.[\w$@/-]+)*")  # what may be a name in a sentence
FRAME = frozenset({"shared", "body", "item", "outputs", "trigger"})  # the form of names, the same in all connectors
TRIGGER = "triggerOutputs"
# Short words of nature, most of them one token, and syllables for the others: names come in both sorts, too.
NOUNS = (
    "acorn alder amber antler badger bamboo basalt beaver beech birch bison boulder bramble breeze brook canyon cedar "
    "cliff clover cobalt comet copper coral cotton crane creek crest cricket crow cypress dawn delta desert dew dune "
    "eagle ember falcon fern fjord flint forest fossil fox frost garnet geyser glacier glen granite grove gull harbor "
    "hawk hazel heath heron hollow ivory ivy jade jasper juniper kelp lagoon larch lark lava lemon lichen lily linden "
    "lotus lynx magma mango maple marble marsh meadow mist moss moth nectar oak oasis olive onyx opal orchid otter owl "
    "palm panda pearl pebble pine plum pond poppy prairie quartz quill rabbit rapid raven reef ridge river robin "
    "rock sage salmon sand sapphire shell shore silver slate snow sparrow spruce stone storm swan thistle thorn tiger "
    "timber topaz trout tulip tundra turtle valley violet walnut wave willow wolf wren zebra"
).split()
ONSETS, VOWELS, ENDS = "b d f g k l m n p r s t v z br dr gr pl sk st tr".split(), "aeiou", ("", *"lmnrsk")


def words(name: str) -> list[str]:
    """The words of a name, in small letters.

    >>> words("emailMessage/To_V2")
    ['email', 'message', 'to']
    """
    return [word.lower() for word in WORD.findall(name)]


def flow_names(flow: Flow) -> set[str]:
    """Names in a flow: connectors, operations, parameter keys, and fields of outputs below their body."""
    found = flow_fields(flow)
    for node in _nodes(flow.statements):
        match node:
            case Call(api):
                found.update(api.split(".", 1))
            case Object(pairs):
                found.update(key for key, _ in pairs)
    return found


def flow_fields(flow: Flow) -> set[str]:
    """The fields of outputs that a flow refers to: `user` and `login` of `x?['body']?['user']?['login']`."""
    paths = (node.path for node in _nodes(flow.statements) if isinstance(node, Reference))
    return {
        key for path in paths for place, key in enumerate(path) if isinstance(key, str) and (place or key != "body")
    }


def _nodes(node) -> Iterator:
    """A node of a flow and all below it."""
    yield node
    match node:
        case Call(parameters=parameters):
            yield from _nodes(parameters)
        case Object(pairs):
            for _, value in pairs:
                yield from _nodes(value)
        case If(branches, otherwise):
            yield from _nodes((*branches, *otherwise))
        case Branch(condition, body):
            yield from _nodes((condition, *body))
        case For(items=items, body=body):
            yield from _nodes((items, *body))
        case Comparison(_, left, right):
            yield from _nodes((left, right))
        case Not(condition):
            yield from _nodes(condition)
        case And(parts) | Or(parts):
            yield from _nodes(parts)
        case tuple():
            for part in node:
                yield from _nodes(part)


def api_names(api: API) -> set[str]:
    """Names that a definition shows: the connector's, the operation's, parameter keys, and fields that are returned."""
    return {api.connector, api.operation, *(one.key for one in (*api.parameters, *api.returns))}


def catalogue_names(apis: Iterable[API]) -> set[str]:
    """All names of some APIs; those of a field `user/login` that is returned are itself, `user` and `login`."""
    found: set[str] = set()
    for api in apis:
        found |= api_names(api)
        found.update(part for output in api.returns for part in output.key.split("/"))
    return found


class Known(NamedTuple):
    """What no new name may hold, and what no text of a prompt may.

    Attributes:
        words: of all names of a catalogue; no invented word is one of them.
        odd: the names that are no words of a sentence, such as emailMessage/To.
    """

    words: frozenset[str]
    odd: frozenset[str]

    @classmethod
    def of(cls, apis: Iterable[API]) -> Known:
        """What a catalogue's APIs know."""
        names = catalogue_names(apis)
        return cls(frozenset(word for name in names for word in words(name)), frozenset(filter(ODD.search, names)))


class Renaming:
    """One prompt's new names; the same name always becomes the same other one, two names two others.

    Args:
        names: all that the prompt holds: those of its flows and of its definitions.
        known: of the catalogue.
        kept: the share of words that stay (0-1). At least one word of each name is exchanged.
        rng: of the draws.
    """

    def __init__(self, names: Collection[str], known: Known, kept: float, rng: random.Random):
        self._rng, self._used, self._odd = rng, set(known.words), known.odd
        parts = {name: words(name) for name in sorted(names)}
        self._kept = {word for word in sorted(set().union(*parts.values())) if rng.random() < kept} | FRAME
        for found in parts.values():
            if found and self._kept.issuperset(found):
                self._kept.remove(rng.choice([word for word in found if word not in FRAME] or found))
        self._new: dict[str, str] = {}

    def name(self, name: str) -> str:
        """The new name for one of the names given."""
        return WORD.sub(self._word, name) if WORD.search(name) else self._invented(name)

    def _word(self, found: re.Match) -> str:
        word = found[0]
        if word.lower() in self._kept:
            return word
        new = self._invented(word.lower())
        if len(word) > 1 and word.isupper():
            return new.upper()
        return new.capitalize() if word[0].isupper() else new

    def _invented(self, word: str) -> str:
        while word not in self._new:
            new = self._rng.choice(NOUNS) if self._rng.random() < 0.5 else self._syllable() + self._syllable()
            if new not in self._used:
                self._used.add(new)
                self._new[word] = new
        return self._new[word]

    def _syllable(self) -> str:
        return self._rng.choice(ONSETS) + self._rng.choice(VOWELS) + self._rng.choice(ENDS)

    def full(self, api: str) -> str:
        """The new name of `connector.Operation`."""
        return ".".join(map(self.name, api.split(".", 1)))

    def text(self, text: str) -> str:
        """A text in which odd names of the catalogue are exchanged."""
        return NAME.sub(lambda found: self._mentioned(found[0]) if found[0] in self._odd else found[0], text)

    def _mentioned(self, name: str) -> str:
        new = self.name(name)
        return self._invented(name) if new == name else new  # it is none of the prompt's names

    def api(self, api: API) -> API:
        """An API that its definition shows under new names."""
        parameters, returns = (
            tuple(
                replace(
                    one, key=self.name(one.key), summary=self.text(one.summary), description=self.text(one.description)
                )
                for one in fields
            )
            for fields in (api.parameters, api.returns)
        )
        return replace(
            api,
            connector=self.name(api.connector),
            operation=self.name(api.operation),
            description=self.text(api.description),
            parameters=parameters,
            returns=returns,
        )

    def flow(self, flow: Flow) -> Flow:
        """A flow with new names; what its arguments say stays."""
        return Flow(self._renamed(flow.statements))

    def _renamed(self, node):
        match node:
            case Call(api, parameters, variable, awaited):
                return Call(self.full(api), self._renamed(parameters), self._variable(variable), awaited)
            case Reference(variable, path):
                return Reference(self._variable(variable), tuple(map(self._field, range(len(path)), path)))
            case Object(pairs):
                return Object(tuple((self.name(key), self._renamed(value)) for key, value in pairs))
            case If(branches, otherwise):
                return If(self._renamed(branches), self._renamed(otherwise))
            case Branch(condition, body):
                return Branch(self._renamed(condition), self._renamed(body))
            case For(variable, items, body):
                return For(self._variable(variable), self._renamed(items), self._renamed(body))
            case Comparison(operator, left, right):
                return Comparison(operator, self._renamed(left), self._renamed(right))
            case Not(condition):
                return Not(self._renamed(condition))
            case And(parts):
                return And(self._renamed(parts))
            case Or(parts):
                return Or(self._renamed(parts))
            case tuple():
                return tuple(map(self._renamed, node))
        return node

    def _variable(self, variable: str | None) -> str | None:
        return variable if variable is None or variable == TRIGGER else self.name(variable)

    def _field(self, place: int, key: str | int) -> str | int:
        return key if isinstance(key, int) or (not place and key == "body") else self.name(key)
