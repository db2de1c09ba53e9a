"""How the parts of a request become one text: frames, links, branches, and how people type.

Frames and habits stand in `data/flows/`; every list of frames, and of a catalogue's phrases, is split between training
and test requests. Text is built with a placeholder (a private-use character) for every value and app name, so that
typing manners change the words around a value and never the value. The words of a step stand between two marks
(characters of another private-use plane) until the request is typed: so it is known which stretch says which call.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import yaml

from lib.workbook.artifacts import ROOT
from lib.workflows.apis import API, APP, SLOT, said
from lib.workflows.catalogue import Catalogue
from lib.workflows.language import Reference, Value

FLOWS = ROOT / "data" / "flows"
FRAMES: dict[str, Any] = yaml.safe_load((FLOWS / "frames.yaml").read_text(encoding="utf-8"))
HABITS: dict[str, Any] = yaml.safe_load((FLOWS / "habits.yaml").read_text(encoding="utf-8"))

FIRST_PLACEHOLDER = 0xE000
PLACEHOLDER = re.compile("[\ue000-\uf8ff]")
FIRST_MARK = 0xF0000
MARK = re.compile("[\U000f0000-\U000ffffd]")
FIRST_NAME_WEIGHT = 3.0  # of what people call an app; its other names weigh 1
PLAIN_SHARE = 0.6  # of the frames that begin with the trigger
MERGED_SHARE = 0.35  # of the conditions right after a trigger are said in one clause with it
OPENS_BODY = re.compile("if|check|see|only if|but only|in case")  # go well after "when …,"
QUESTION = re.compile(r"(hi, |hey there! )?(can you|could you|is there a way|how do i)\b", re.IGNORECASE)


# ---------------------------------------------------------------- wordings of training and of test


def split_wordings(wordings: Sequence, seed: int, name: str) -> dict[str, tuple]:
    """A third of the wordings for the test, the others for training, by a shuffle of their own.

    Two wordings give one each; a single one serves both. Training keeps the order of the list.
    """
    order = list(range(len(wordings)))
    random.Random(f"{seed}:{name}").shuffle(order)
    held = set(order[: max(len(wordings) // 3, int(len(wordings) == 2))])
    if not held:
        return {"training": tuple(wordings), "test": tuple(wordings)}
    return {
        "training": tuple(w for i, w in enumerate(wordings) if i not in held),
        "test": tuple(w for i, w in enumerate(wordings) if i in held),
    }


class Wordings:
    """All wordings of a catalogue, split between training and test; the unseen set has the test's frames, and
    `test_same` has training's frames and phrases.

    Attributes:
        values: what people name, by kind.
        connectors: the catalogue's, for what people call them.
        apis: by API, list ("phrases", "terse" or "clauses") and side ("training" or "test"): templates.
        frames: by side, then by name: those of the `sentences` of `data/flows/frames.yaml`, of its `conditions` by
            operator, and of its `flags` by (summary, state).
    """

    def __init__(self, catalogue: Catalogue, values: dict[str, list], seed: int):
        self.values = values
        self.connectors = catalogue.connectors
        self.apis: dict[tuple[str, str, str], tuple[str, ...]] = {}
        for api in catalogue:
            for name, texts in (("phrases", api.phrases), ("terse", api.terse), ("clauses", api.clauses)):
                usable = [text for text in texts if _usable(api, text)]
                # Siblings share phrases, so they must share the split.
                for side, kept in split_wordings(usable, seed, "|".join(texts)).items():
                    self.apis[api.name, name, side] = kept
        self.frames = _split_frames(seed)


def _usable(api: API, text: str) -> bool:
    """Whether people can name a value for every slot of the text."""
    parameters = [api.parameter(slot) for slot in SLOT.findall(text) if slot != APP]
    return all(p.examples or (said(p.kind) and p.kind != "boolean") for p in parameters)


def _split_frames(seed: int) -> dict[str, dict]:
    lists = [(name, name, texts) for name, texts in FRAMES["sentences"].items()]
    lists += [(name, f"condition {name}", texts) for name, texts in FRAMES["conditions"].items()]
    for name, by_state in FRAMES["flags"].items():
        for state, texts in zip((True, False), by_state, strict=True):
            lists.append(((name, state), f"flag {name} {state}", texts))
    sides: dict[str, dict] = {"training": {}, "test": {}}
    for key, seeded_by, texts in lists:
        for side, kept in split_wordings(texts, seed, seeded_by).items():
            sides[side][key] = kept
    return sides


# ---------------------------------------------------------------- a request while it is written


@dataclass(slots=True)
class Draft:
    """What the parts of one request share.

    Attributes:
        rng: the pair's own generator.
        wordings: of the catalogue.
        split: one of `lib.workflows.pairs.SPLITS`.
        terse: whether the request is in telegraph style.
        conditional: whether its flow has an `if`.
        day_layout, clock: how this person writes days and times; an empty layout is the ISO moment itself.
        tokens: text of each placeholder, and whether it is an app's name.
        quoted: values that stand in quotation marks.
        apps: by connector, the name that this request calls it by.
        said_before: by (connector, last part of the key), the value that was said.
        variables: names of outputs that the flow has.
        used: which phrases of which API the request uses.
        referred: outputs that a step has taken up.
        said: of each call, the keys of the arguments that the request says.
        literals: values named in the step at hand, or in the conditions.
        steps: how many calls there are.
        last_connector: of the call before, empty at the start of a branch.
    """

    rng: random.Random
    wordings: Wordings
    split: str
    terse: bool
    conditional: bool
    day_layout: str
    clock: str
    tokens: list[tuple[str, bool]] = field(default_factory=list)
    quoted: list[str] = field(default_factory=list)
    apps: dict[str, str] = field(default_factory=dict)
    said_before: dict[tuple[str, str], Value] = field(default_factory=dict)
    variables: set[str] = field(default_factory=set)
    used: list[tuple[str, str]] = field(default_factory=list)
    referred: set[Reference] = field(default_factory=set)
    said: list[list[str]] = field(default_factory=list)
    literals: set[str] = field(default_factory=set)
    steps: int = 0
    last_connector: str = ""

    @property
    def side(self) -> str:
        """Whose wordings it uses: those of training or those of the test."""
        return "training" if self.split in ("training", "test_same") else "test"

    @property
    def frames(self) -> dict:
        return self.wordings.frames[self.side]

    def pick(self, name: str) -> Any:
        """One of the frames of this name: a template, or several that go together."""
        return self.rng.choice(self.frames[name])

    def token(self, text: str, app: bool = False) -> str:
        """A placeholder for the text."""
        self.tokens.append((text, app))
        return chr(FIRST_PLACEHOLDER + len(self.tokens) - 1)

    def app(self, api: API) -> str:
        """A placeholder for what this request calls the API's app."""
        if api.connector not in self.apps:
            called = self.wordings.connectors[api.connector].called
            weights = [FIRST_NAME_WEIGHT] + [1.0] * (len(called) - 1)
            self.apps[api.connector] = self.rng.choices(called, weights)[0]
        return self.token(self.apps[api.connector], app=True)

    def known(self, api: API, key: str) -> Value | None:
        """The value that an earlier step of the connector has for such a key."""
        return self.said_before.get((api.connector, last_part(key)))


def marked(text: str, step: int) -> str:
    """The words of a step, the first being 0, between its marks."""
    mark = chr(FIRST_MARK + step)
    return f"{mark}{text}{mark}"


def last_part(key: str) -> str:
    """`subject` of `item/Subject`."""
    return key.rpartition("/")[2].lower()


# ---------------------------------------------------------------- ways of building a request


@dataclass(slots=True)
class Parts:
    """The steps of a flow in words.

    Attributes:
        trigger: its clause.
        before: the actions before the condition, or all of them.
        branches: a condition and its actions each; an empty condition stands for `else`.
        after: the actions after the condition.
    """

    trigger: str
    before: list[str] = field(default_factory=list)
    branches: list[tuple[str, list[str]]] = field(default_factory=list)
    after: list[str] = field(default_factory=list)


def draw_build(rng: random.Random, n_before: int, conditional: bool) -> str:
    """Which way to build the request of a flow, a key of `BUILD`."""
    weights = dict(HABITS["builds"])
    if n_before > 2:
        del weights["action"]  # nobody says when after four actions
    if not n_before and not conditional:
        weights = {"only": 1.0}
    return rng.choices(list(weights), list(weights.values()))[0]


def trigger_first(draft: Draft, parts: Parts) -> tuple[str, str]:
    """The trigger, then what is done: "When …, do …"."""
    text = parts.trigger
    if parts.branches and not parts.before and draft.rng.random() < MERGED_SHARE:
        (condition, actions), *rest = parts.branches
        text = draft.pick("MERGED").replace("{T}", text).replace("{c}", condition)
        body = " and ".join(actions) + _further(draft, rest) + _after(draft, parts)
    else:
        body = _body(draft, parts)
    template = draft.pick("TRIGGER_PLAIN" if draft.rng.random() < PLAIN_SHARE else "TRIGGER_CHATTY")
    return _framed(draft, template, text, body), template


def wish(draft: Draft, parts: Parts) -> tuple[str, str]:
    """The trigger, then an action, never a condition: "When …, I want to …"."""
    if parts.branches and not parts.before:
        return trigger_first(draft, parts)
    template = draft.pick("WISH_FIRST")
    return _framed(draft, template, parts.trigger, _body(draft, parts)), template


def action_first(draft: Draft, parts: Parts) -> tuple[str, str]:
    """An action, the trigger, then the rest: "Do … when …, but only if …"."""
    template = draft.pick("ACTION_FIRST")
    if parts.before:
        text = _framed(draft, template, parts.trigger, " and ".join(parts.before))
        if parts.branches:
            text += ". " + capital(_branches(draft, parts))
    else:
        (condition, actions), *rest = parts.branches
        text = _framed(draft, template, parts.trigger, " and ".join(actions))
        text += draft.pick("ONLY_IFS").replace("{c}", condition) + _further(draft, rest)
    return text + _after(draft, parts), template


def telegraph(draft: Draft, parts: Parts) -> tuple[str, str]:
    """Telegraph style: "new email -> post in Teams"."""
    opening, arrow = draft.pick("TELEGRAPH")
    pieces = list(parts.before)
    if parts.branches:
        pieces.append(_in_style(draft.pick("TELEGRAPH_IFS"), parts.branches, " + "))
    if parts.after:
        pieces.append("always: " + " + ".join(parts.after))
    return opening.replace("{t}", parts.trigger) + arrow.join(pieces), opening


def numbered(draft: Draft, parts: Parts) -> tuple[str, str]:
    """One step after the other: "1. When … 2. … 3. …"."""
    opening, mark, between = draft.pick("STEPS")
    conditional = [_branches(draft, parts)] if parts.branches else []
    pieces = [*parts.before, *conditional, *(f"in any case {action}" for action in parts.after)]
    start = _framed(draft, opening, parts.trigger, "").replace("{n0}", "1")
    lines = [mark.replace("{n}", str(number)) + piece for number, piece in enumerate(pieces, start=2)]
    return start + " " + between.join(lines), opening


def trigger_only(draft: Draft, parts: Parts) -> tuple[str, str]:
    """Nothing but a trigger: "Start a flow when …"."""
    template = draft.pick("TRIGGER_ONLY")
    return _framed(draft, template, parts.trigger, ""), template


# Ways of building a request; each gives its text and the frame that it begins with.
BUILD: dict[str, Callable[[Draft, Parts], tuple[str, str]]] = {
    "trigger": trigger_first,
    "action": action_first,
    "wish": wish,
    "telegraph": telegraph,
    "steps": numbered,
    "only": trigger_only,
}


def _framed(draft: Draft, template: str, trigger: str, body: str) -> str:
    upper, lower = _when(draft).capitalize(), _when(draft)
    text = template.replace("{When}", upper).replace("{when}", lower)
    return text.replace("{T}", trigger).replace("{B}", body)


def _when(draft: Draft) -> str:
    whens = FRAMES["whens"]
    word = draft.rng.choices(list(whens), list(whens.values()))[0]
    return "when" if word == "if" and draft.conditional else word  # "if" is for the condition


def _body(draft: Draft, parts: Parts) -> str:
    """All that follows the trigger."""
    text = _joined(draft, parts.before) if parts.before else ""
    if parts.branches:
        conditional = _branches(draft, parts, opens=not text)
        link = draft.pick("IF_LINKS") if text else ""
        text += link + (capital(conditional) if link.endswith(". ") else conditional)
    return text + _after(draft, parts)


def _joined(draft: Draft, texts: list[str]) -> str:
    if len(texts) == 1:
        return texts[0]
    two, middle, last = draft.pick("JOINS")
    if len(texts) == 2:
        return two.join(texts)
    return middle.join(texts[:-1]) + last + texts[-1]


def _after(draft: Draft, parts: Parts) -> str:
    return draft.pick("POSTS") + " and ".join(parts.after) if parts.after else ""


def _branches(draft: Draft, parts: Parts, opens: bool = False) -> str:
    """All branches in words; where they `open` what follows "when …," they must go well after it."""
    styles = draft.frames["IF_STYLES"]
    if opens:
        styles = [style for style in styles if OPENS_BODY.match(style[0])] or styles
    return _in_style(draft.rng.choice(styles), parts.branches, " and ")


def _further(draft: Draft, branches: list[tuple[str, list[str]]]) -> str:
    """The further branches of a condition whose first one has been said."""
    if not branches:
        return ""
    styles = [style for style in draft.frames["IF_STYLES"] if style[3] == ". "] or draft.frames["IF_STYLES"]
    _, further, otherwise, between = draft.rng.choice(styles)
    text = _in_style((further, further, otherwise, between), branches, " and ")
    return between + (capital(text) if between == ". " else text)


def _in_style(style: Sequence[str], branches: list[tuple[str, list[str]]], link: str) -> str:
    """Branches in words; `style` as in `IF_STYLES` of `data/flows/frames.yaml`, `link` stands between actions."""
    first, further, otherwise, between = style
    texts = []
    for number, (condition, actions) in enumerate(branches):
        template = otherwise if not condition else further if number else first
        texts.append(template.replace("{c}", condition).replace("{a}", link.join(actions)))
    if between == ". ":
        texts[1:] = map(capital, texts[1:])
    return between.join(texts)


# ---------------------------------------------------------------- typing


def typed(draft: Draft, text: str) -> tuple[str, dict[int, list[int]]]:
    """The text as somebody types it: with or without capitals and full stop, in a hurry, with thanks.

    Returns:
        the text, without marks; and for each step that was marked where its words begin and end in it.
    """
    rng, manners = draft.rng, HABITS["manners"]
    marks = list(MARK.finditer(text))
    steps, places = [ord(mark[0]) - FIRST_MARK for mark in marks], [mark.start() - n for n, mark in enumerate(marks)]
    text = MARK.sub("", text)
    if not draft.terse and rng.random() < FRAMES["ending_share"]:
        text += draft.pick("ENDINGS")
    manner = rng.choices(list(manners), [weights[draft.terse] for weights in manners.values()])[0]
    if manner in ("careful", "no stop"):
        text = capital(text)
    else:
        text, places = text.lower(), [len(text[:place].lower()) for place in places]
    if manner == "hurried":
        for old, new in HABITS["short_forms"]:
            if rng.random() < 0.5:
                text, places = _replaced(text, places, old, new)
    if manner == "careful" and not re.search(r"[.!?]$", text):
        text += "?" if QUESTION.match(text) and ". " not in text else "."
    lower_apps = manner in ("lower", "hurried") and rng.random() < 0.7
    for number, (value, app) in enumerate(draft.tokens):
        spelled = value.lower() if app and lower_apps else value
        text, places = _replaced(text, places, chr(FIRST_PLACEHOLDER + number), spelled)
    text = re.sub(r"([.!?])\1+$", r"\1", text)
    stretches: dict[int, list[int]] = {}
    for step, place in zip(steps, places, strict=True):
        stretches.setdefault(step, []).append(min(place, len(text)))
    return text, stretches


def _replaced(text: str, places: list[int], old: str, new: str) -> tuple[str, list[int]]:
    """`str.replace`, and where places in the text are then; one inside of `old` keeps its distance from the nearer
    end."""
    starts = [found.start() for found in re.finditer(re.escape(old), text)]
    grown = len(new) - len(old)
    moved = [place + grown * sum(2 * (place - start) > len(old) for start in starts) for place in places]
    return text.replace(old, new), moved


def capital(text: str) -> str:
    """The text with a capital at its start; marks stand before it."""
    mark = MARK.match(text)
    start = mark.end() if mark else 0
    return text[:start] + text[start : start + 1].upper() + text[start + 1 :]
