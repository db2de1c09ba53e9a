"""How the parts of a request become one text: frames, links, branches, and how people type.

Frames and habits stand in `data/flows/`; every list of frames, and of a catalogue's phrases, is split between training
and test requests. Text is built with a placeholder (a private-use character) for every value and app name, so that
typing manners change the words around a value and never the value.
"""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import yaml

from lib.workbook.artifacts import ROOT
from lib.workflows.apis import Operation, said
from lib.workflows.catalogue import Catalogue
from lib.workflows.language import Reference, Value

FLOWS = ROOT / "data" / "flows"
FRAMES: dict[str, Any] = yaml.safe_load((FLOWS / "frames.yaml").read_text(encoding="utf-8"))
HABITS: dict[str, Any] = yaml.safe_load((FLOWS / "habits.yaml").read_text(encoding="utf-8"))

FIRST_PLACEHOLDER = 0xE000
PLACEHOLDER = re.compile("[\ue000-\uf8ff]")
FIRST_NAME_WEIGHT = 3.0  # of what people call an app; its other names weigh 1
PLAIN_SHARE = 0.6  # of the frames that begin with the trigger
MERGED_SHARE = 0.35  # of the conditions right after a trigger are said in one clause with it
OPENS_BODY = re.compile("if|check|see|only if|but only|in case")  # go well after "when …,"
# Whose wordings each split has.
SIDES = {"training": "training", "test": "test", "unseen": "test", "test_same": "training"}
QUESTION = re.compile(r"(hi, |hey there! )?(can you|could you|is there a way|how do i)\b", re.IGNORECASE)


def split_wordings(wordings: Sequence, seed: int, name: str) -> dict[str, tuple]:
    """A third of the wordings for the test, the others for training, by a shuffle of their own. Two wordings give one
    each; a single one serves both. Training keeps the order of the list."""
    order = list(range(len(wordings)))
    random.Random(f"{seed}:{name}").shuffle(order)
    held = set(order[: max(len(wordings) // 3, int(len(wordings) == 2))])
    test = tuple(w for i, w in enumerate(wordings) if i in held or not held)
    return {"training": tuple(w for i, w in enumerate(wordings) if i not in held), "test": test}


class Wordings:
    """All wordings of a catalogue, split between training and test; the unseen set has the test's frames, and
    `test_same` has training's frames and phrases.

    Attributes:
        values: what people name, by kind.
        connectors: the catalogue's, for what people call them.
        apis: by API, list ("phrases", "terse" or "clauses") and split: templates for whose slots people name values.
        frames: by split, then by name, by operator of a condition, or by (summary, state) of a flag.
    """

    def __init__(self, catalogue: Catalogue, values: dict[str, list], seed: int):
        self.values, self.connectors = values, catalogue.connectors
        self.apis: dict[tuple[str, str, str], tuple[str, ...]] = {}
        for api in catalogue:
            for name in ("phrases", "terse", "clauses"):
                texts = getattr(api, name)
                sayable = [all(p.examples or (said(p.kind) and p.kind != "boolean") for p in api.slots(text))
                           for text in texts]  # fmt: skip
                # Siblings share phrases, so they must share the split.
                split = split_wordings(list(itertools.compress(texts, sayable)), seed, "|".join(texts))
                self.apis |= {(api.name, name, one): split[side] for one, side in SIDES.items()}
        lists = [(name, name, texts) for name, texts in FRAMES["sentences"].items()]
        lists += [(name, f"condition {name}", texts) for name, texts in FRAMES["conditions"].items()]
        for name, by_state in FRAMES["flags"].items():
            states = zip((True, False), by_state, strict=True)
            lists += [((name, state), f"flag {name} {state}", texts) for state, texts in states]
        self.frames: dict[str, dict] = {one: {} for one in SIDES}
        for key, seeded_by, texts in lists:
            kept = split_wordings(texts, seed, seeded_by)
            for one, side in SIDES.items():
                self.frames[one][key] = kept[side]


@dataclass(slots=True)
class Draft:
    """What the parts of one request share."""

    rng: random.Random  # the pair's own
    wordings: Wordings
    split: str  # one of `lib.workflows.pairs.SPLITS`
    terse: bool  # whether the request is in telegraph style
    conditional: bool  # whether its flow has an `if`
    day_layout: str  # how this person writes days; an empty one is the ISO moment itself
    clock: str  # how this person writes times
    tokens: list[tuple[str, bool]] = field(default_factory=list)  # text of each placeholder; is it an app's name?
    apps: dict[str, str] = field(default_factory=dict)  # by connector, the name that this request calls it by
    said_before: dict[tuple[str, str], Value] = field(default_factory=dict)  # by connector and last part of the key
    visible: list[Any] = field(default_factory=list)  # outputs of earlier calls that the step at hand can take up
    variables: set[str] = field(default_factory=set)  # names of outputs that the flow has
    referred: set[Reference] = field(default_factory=set)  # outputs that a step has taken up
    said: list[list[str]] = field(default_factory=list)  # of each call, the keys that the request says
    literals: set[str] = field(default_factory=set)  # values named in the step at hand, or in the conditions
    steps: int = 0  # how many calls there are
    last_connector: str = ""  # of the call before, empty at the start of a branch

    @property
    def frames(self) -> dict:
        return self.wordings.frames[self.split]

    def pick(self, name: str) -> Any:
        return self.rng.choice(self.frames[name])

    def token(self, text: str, app: bool = False) -> str:
        """A placeholder for the text."""
        self.tokens.append((text, app))
        return chr(FIRST_PLACEHOLDER + len(self.tokens) - 1)

    def app(self, api: Operation) -> str:
        """A placeholder for what this request calls the API's app."""
        if api.connector not in self.apps:
            called = self.wordings.connectors[api.connector].called
            weights = [FIRST_NAME_WEIGHT] + [1.0] * (len(called) - 1)
            self.apps[api.connector] = self.rng.choices(called, weights)[0]
        return self.token(self.apps[api.connector], app=True)

    def known(self, api: Operation, key: str) -> Value | None:
        """The value that an earlier step of the connector has for such a key."""
        return self.said_before.get((api.connector, last_part(key)))


def last_part(key: str) -> str:
    """`subject` of `item/Subject`."""
    return key.rpartition("/")[2].lower()


Branches = Sequence[tuple[str, list[str]]]  # a condition and its actions each; an empty one stands for `else`


def composed(
    draft: Draft, build: str, trigger: str, before: Sequence[str], branches: Branches = (), after: Sequence[str] = ()
) -> str:
    """The text of a request, from words for its trigger and for the actions before, in and after a condition.

    `build`: "trigger" ("When …, do …"), "wish" ("When …, I want to …"), "action" ("Do … when …, but only if …"),
    "telegraph" ("new email -> post in Teams"), "steps" ("1. When … 2. … 3. …") or "only" (a trigger alone).
    """
    pick, at_once = draft.pick, bool(branches) and not before  # the condition follows the trigger
    if build == "telegraph":
        opening, arrow = pick("TELEGRAPH")
        pieces = [*before]
        if branches:
            pieces.append(_in_style(pick("TELEGRAPH_IFS"), branches, " + "))
        if after:
            pieces.append("always: " + " + ".join(after))
        return opening.replace("{t}", trigger) + arrow.join(pieces)
    if build == "steps":
        opening, mark, between = pick("STEPS")
        conditional = [_in_style(pick("IF_STYLES"), branches)] if branches else []
        pieces = [*before, *conditional, *(f"in any case {action}" for action in after)]
        start = _framed(draft, opening, trigger).replace("{n0}", "1")
        lines = [mark.replace("{n}", str(number)) + piece for number, piece in enumerate(pieces, start=2)]
        return start + " " + between.join(lines)
    if build == "only":
        return _framed(draft, pick("TRIGGER_ONLY"), trigger)
    if build == "action":
        template = pick("ACTION_FIRST")
        text = _framed(draft, template, trigger, " and ".join(before or branches[0][1]))
        if at_once:
            text += pick("ONLY_IFS").replace("{c}", branches[0][0]) + _further(draft, branches[1:])
        elif branches:
            text += ". " + capital(_in_style(pick("IF_STYLES"), branches))
        return text + _after(draft, after)
    if build == "wish" and not at_once:  # nobody wishes for a condition
        return _framed(draft, pick("WISH_FIRST"), trigger, _body(draft, before, branches) + _after(draft, after))
    if at_once and draft.rng.random() < MERGED_SHARE:
        trigger = pick("MERGED").replace("{T}", trigger).replace("{c}", branches[0][0])
        body = " and ".join(branches[0][1]) + _further(draft, branches[1:])
    else:
        body = _body(draft, before, branches)
    body += _after(draft, after)
    template = pick("TRIGGER_PLAIN" if draft.rng.random() < PLAIN_SHARE else "TRIGGER_CHATTY")
    return _framed(draft, template, trigger, body)


def _framed(draft: Draft, template: str, trigger: str, body: str = "") -> str:
    whens = FRAMES["whens"]
    for slot in ("{When}", "{when}"):
        word = draft.rng.choices(list(whens), list(whens.values()))[0]
        word = "when" if word == "if" and draft.conditional else word  # "if" is for the condition
        template = template.replace(slot, word.capitalize() if slot == "{When}" else word)
    return template.replace("{T}", trigger).replace("{B}", body)


def _body(draft: Draft, before: Sequence[str], branches: Branches) -> str:
    """What follows the trigger, up to the end of the condition."""
    text = "".join(before[:1])
    if len(before) > 1:
        two, middle, last = draft.pick("JOINS")
        *first, end = before
        text = middle.join(first) + (last if first[1:] else two) + end
    if branches:
        styles = draft.frames["IF_STYLES"]
        opening = [style for style in styles if OPENS_BODY.match(style[0])]
        conditional = _in_style(draft.rng.choice(styles if text or not opening else opening), branches)
        link = draft.pick("IF_LINKS") if text else ""
        text += link + (capital(conditional) if link.endswith(". ") else conditional)
    return text


def _after(draft: Draft, actions: Sequence[str]) -> str:
    return draft.pick("POSTS") + " and ".join(actions) if actions else ""


def _further(draft: Draft, branches: Branches) -> str:
    """The further branches of a condition whose first one has been said."""
    if not branches:
        return ""
    styles = draft.frames["IF_STYLES"]
    styles = [style for style in styles if style[3] == ". "] or styles
    _, further, otherwise, between = draft.rng.choice(styles)
    text = _in_style((further, further, otherwise, between), branches)
    return between + (capital(text) if between == ". " else text)


def _in_style(style: Sequence[str], branches: Branches, link: str = " and ") -> str:
    """Branches in words; `style` as in `IF_STYLES` of `data/flows/frames.yaml`, `link` stands between actions."""
    first, further, otherwise, between = style
    texts = []
    for number, (condition, actions) in enumerate(branches):
        template = otherwise if not condition else further if number else first
        text = template.replace("{c}", condition).replace("{a}", link.join(actions))
        texts.append(capital(text) if number and between == ". " else text)
    return between.join(texts)


def typed(draft: Draft, text: str) -> str:
    """The text as somebody types it: with or without capitals and full stop, in a hurry, with thanks."""
    rng, manners = draft.rng, HABITS["manners"]
    if not draft.terse and rng.random() < FRAMES["ending_share"]:
        text += draft.pick("ENDINGS")
    manner = rng.choices(list(manners), [weights[draft.terse] for weights in manners.values()])[0]
    text = capital(text) if manner in ("careful", "no stop") else text.lower()
    if manner == "hurried":
        for old, new in HABITS["short_forms"]:
            if rng.random() < 0.5:
                text = text.replace(old, new)
    if manner == "careful" and not re.search(r"[.!?]$", text):
        text += "?" if QUESTION.match(text) and ". " not in text else "."
    lower_apps = manner in ("lower", "hurried") and rng.random() < 0.7
    for number, (value, app) in enumerate(draft.tokens):
        text = text.replace(chr(FIRST_PLACEHOLDER + number), value.lower() if app and lower_apps else value)
    return re.sub(r"([.!?])\1+$", r"\1", text)


def capital(text: str) -> str:
    return text[:1].upper() + text[1:]
