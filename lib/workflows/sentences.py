"""How the parts of a request become one text: frames, links, branches, and how people type."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import dataclass, field

from lib.workflows import frames
from lib.workflows.drafts import FIRST_MARK, FIRST_PLACEHOLDER, MARK, Draft

PLAIN_SHARE = 0.6  # of the frames that begin with the trigger
MERGED_SHARE = 0.35  # of the conditions right after a trigger are said in one clause with it
OPENS_BODY = re.compile("if|check|see|only if|but only|in case")  # go well after "when …,"
# How people type, with weights in prose and in telegraph style.
MANNERS = {"careful": (0.52, 0.2), "no stop": (0.2, 0.4), "lower": (0.2, 0.3), "hurried": (0.08, 0.1)}
SHORT_FORMS = ((" and ", " & "), ("please", "pls"), (" with ", " w/ "), (" you ", " u "))
# How often a request is built in which way; see `BUILD`.
BUILD_WEIGHTS = {"trigger": 4.0, "action": 2.6, "wish": 2.2, "telegraph": 1.3, "steps": 0.4}


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
    weights = dict(BUILD_WEIGHTS)
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
    word = draft.rng.choices(frames.WHENS, frames.WHEN_WEIGHTS)[0]
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


def _in_style(style: tuple[str, str, str, str], branches: list[tuple[str, list[str]]], link: str) -> str:
    """Branches in words; `style` as in `IF_STYLES` of `data/flows/frames.yaml`, `link` stands between actions."""
    first, further, otherwise, between = style
    texts = []
    for number, (condition, actions) in enumerate(branches):
        template = otherwise if not condition else further if number else first
        texts.append(template.replace("{c}", condition).replace("{a}", link.join(actions)))
    return sentences(texts, between)


def typed(draft: Draft, text: str) -> tuple[str, dict[int, list[int]]]:
    """The text as somebody types it: with or without capitals and full stop, in a hurry, with thanks.

    Returns:
        the text, without marks; and for each step that was marked where its words begin and end in it.
    """
    rng = draft.rng
    text, steps, places = _unmarked(text)
    if not draft.terse and rng.random() < frames.ENDING_SHARE:
        text += draft.pick("ENDINGS")
    manner = rng.choices(tuple(MANNERS), [weights[draft.terse] for weights in MANNERS.values()])[0]
    if manner in ("careful", "no stop"):
        text = capital(text)
    else:
        text, places = text.lower(), [len(text[:place].lower()) for place in places]
    if manner == "hurried":
        for old, new in SHORT_FORMS:
            if rng.random() < 0.5:
                text, places = _replaced(text, places, old, new)
    question = re.match(r"(hi, |hey there! )?(can you|could you|is there a way|how do i)\b", text, re.IGNORECASE)
    if manner == "careful" and not re.search(r"[.!?]$", text):
        text += "?" if question and ". " not in text else "."
    lower_apps = manner in ("lower", "hurried") and rng.random() < 0.7
    for number, (value, app) in enumerate(draft.tokens):
        said = value.lower() if app and lower_apps else value
        text, places = _replaced(text, places, chr(FIRST_PLACEHOLDER + number), said)
    text = re.sub(r"([.!?])\1+$", r"\1", text)
    stretches: dict[int, list[int]] = {}
    for step, place in zip(steps, places, strict=True):
        stretches.setdefault(step, []).append(min(place, len(text)))
    return text, stretches


def _unmarked(text: str) -> tuple[str, list[int], list[int]]:
    """The text without its marks; of each mark the step, and the place that it had."""
    marks = list(MARK.finditer(text))
    places = [mark.start() - number for number, mark in enumerate(marks)]
    return MARK.sub("", text), [ord(mark[0]) - FIRST_MARK for mark in marks], places


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


def sentences(texts: list[str], between: str) -> str:
    """Texts joined; after a full stop the next begins with a capital."""
    if between != ". ":
        return between.join(texts)
    return ". ".join([texts[0], *map(capital, texts[1:])])
