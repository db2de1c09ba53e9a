"""Under-specified queries and their gold labels.

A query is a need voiced in one of its phrasings. What a method may see is a `Query`: text, time (and so
the weekday) and place. What the answer is stands in a `Gold`, in a file of its own.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import pandas as pd
from pydantic import Field, NaiveDatetime

from lib.assistant.needs import Call, Kind, Need, alternatives, expand, fill_template
from lib.assistant.personas import Life, LivedNeed, draw_moments, next_occurrence
from lib.assistant.schemas import App, Moment, Place
from lib.assistant.toolbox import DEFAULT_API, Toolbox
from lib.retrieval.stores import seeded_order
from lib.workbook.inputs import Strict, Text

VOICED_AS = {"explicit": ("meaning", "either")}  # kinds of query, by kind of phrasing
EVALUATION_PHRASINGS = 1 / 3  # of each need and kind
NEED_FOLDS = 5  # the first are the held-out needs
HELD_OUT = 1 / 5  # of the needs
DAYS_OF_QUERIES = 7
MOST_RELEVANT = 5  # items of a query
LISTS_A_DAY = "list_events"  # the API whose answer is all events of a day
OPENERS = ("Hey, ", "Hi, ", "Hello, ", "Hey there, ", "Okay, ", "Oh, ", "So, ", "Right, ", "Um, ", "Er, ")
OPENING_WORDS = {opener.split()[0].strip(",") for opener in OPENERS}


class Query(Strict):
    """What a method may see of a query."""

    id: Text
    persona: Text
    text: Text
    time: NaiveDatetime
    place: Place


class OtherPlan(Strict):
    """A plan that does as well as the gold one, with its APIs and its answers in the Berkeley format."""

    apis: list[str] = Field(min_length=1)
    plan: Text
    answers: list[dict[str, dict[str, list]]]


class Gold(Strict):
    """The labels of a query; `relevant` are item ids, `apps` the ranked top three, `answers` the Berkeley format."""

    query: Text
    kind: Kind
    need: Text
    phrasing: Text
    relevant: list[str] = Field(min_length=1, max_length=MOST_RELEVANT)
    apis: list[str] = Field(min_length=1)
    apps: list[App] = Field(min_length=1, max_length=3)
    plan: Text
    answers: list[dict[str, dict[str, list]]]
    cot: str = ""
    also: list[OtherPlan] = []


class Family(NamedTuple):
    """One phrasing with all its surface forms."""

    id: str
    need: str
    kind: str
    text: str


Families = dict[tuple[str, str], list[Family]]  # phrasings by need and kind of query


def normal_text(text: str) -> str:
    """Lower case, single spaces, no punctuation at the end: two phrasings with one normal form are the same."""
    return " ".join(text.lower().split()).rstrip(".?! ")


def families_of(needs: Sequence[Need]) -> list[Family]:
    return [
        Family(f"{need.need}/{kind}/{number}", need.need, kind, text)
        for need in needs
        for kind, texts in need.voiced.items()
        for number, text in enumerate(texts)
    ]


def qrels_of(gold: pd.DataFrame) -> pd.DataFrame:
    """Columns query, item: one row a relevant item, from labels with columns query, relevant (lists of items)."""
    return gold[["query", "relevant"]].explode("relevant").rename(columns={"relevant": "item"})


def held_out_needs(names: Iterable[str], seed: int) -> set[str]:
    """The needs that a ranker may be kept from: about a fifth, at least one.

    A hash of seed and name decides, so the answer for a need does not depend on which others are asked about.
    """
    hashes = {name: hashlib.sha256(f"{seed}:{name}".encode()).digest()[:8] for name in names}
    place = {name: int.from_bytes(digest, "big") / 2**64 for name, digest in hashes.items()}
    return {name for name, value in place.items() if value < HELD_OUT} or {min(place, key=place.__getitem__)}


def folds_of_needs(needs: Iterable[str], held_out: Collection[str], seed: int) -> dict[str, int]:
    """The fold of each need: those of `held_out_needs` are fold 0, the others are dealt to the rest of `NEED_FOLDS`."""
    others = [name for name in seeded_order(needs, seed) if name not in held_out]
    return dict.fromkeys(held_out, 0) | {name: 1 + place % (NEED_FOLDS - 1) for place, name in enumerate(others)}


def split_phrasings(needs: Sequence[Need], seed: int) -> dict[str, Families]:
    """The phrasings that each side may use: a third of each need and kind are evaluation's, as far as forms allow.

    Phrasings that share a surface form (short deictic sentences such as "Play my usual" serve several needs) are bound
    together, so that no text of the evaluation side can occur in training.
    """
    families = families_of(needs)
    bound = {family.id: family.id for family in families}

    def root(name: str) -> str:
        while bound[name] != name:
            name = bound[name]
        return name

    first: dict[str, str] = {}  # of each form, the phrasing that has it first
    for family in families:
        for form in map(normal_text, alternatives(family.text)):
            bound[root(family.id)] = root(first.setdefault(form, family.id))
    rng = np.random.default_rng([seed, 2])
    side: dict[str, str] = {}
    cells = defaultdict(list)
    for family in families:
        cells[family.need, family.kind].append(family)
    for cell in cells.values():
        wanted = round(EVALUATION_PHRASINGS * len(cell))
        wanted -= sum(side.get(root(family.id)) == "evaluation" for family in cell)
        for index in rng.permutation(len(cell)):
            name = root(cell[index].id)
            if name not in side:
                side[name] = "evaluation" if wanted > 0 else "training"
                wanted -= side[name] == "evaluation"
    split: dict[str, Families] = {"training": defaultdict(list), "evaluation": defaultdict(list)}
    for family in families:
        for kind in VOICED_AS.get(family.kind, (family.kind,)):
            split[side[root(family.id)]][family.need, kind].append(family)
    return split


def deal_counts(total: int, people: int, rng: np.random.Generator) -> list[int]:
    """`total` queries dealt to `people`, each within two of the mean and at least one."""
    mean = total / people
    low, high = max(1, int(mean) - 2), int(np.ceil(mean)) + 2
    counts = rng.integers(low, high + 1, size=people)
    while counts.sum() != total:
        step = 1 if counts.sum() < total else -1
        movable = np.flatnonzero((counts < high) if step > 0 else (counts > low))
        counts[movable[rng.integers(len(movable))]] += step
    return counts.tolist()


def voicing_moment(kind: str, lived: LivedNeed, life: Life) -> Moment:
    """When and where a query is voiced, in the week after the data were collected.

    Queries of kind `habit` and `either` come from the need's habit, by the process that also writes the logs. A query
    of kind `meaning` comes at any waking moment: were it voiced at the habit's hour, the habit would resolve it too.
    """
    slot, end = None if kind == "meaning" else lived.slot, life.today + timedelta(days=DAYS_OF_QUERIES)
    return draw_moments(slot, life.today, end, 1, life.places, life.knobs.habit_strength, life.rng)[0]


def occasion(lived: LivedNeed, moments: list[datetime], rng: np.random.Generator) -> datetime:
    """When the matter takes place: half an hour to two hours after the last voicing, set back to the quarter-hour,
    where that follows the habit, else at its next turn."""
    last = max(moments)
    if last.weekday() in lived.slot.days and abs(last.hour + last.minute / 60 - lived.slot.hour) < 3:
        soon = last + timedelta(minutes=int(rng.integers(30, 121)))
        return soon.replace(minute=soon.minute // 15 * 15, second=0)
    return next_occurrence(lived.slot, last)


def voice(family: Family, lived: LivedNeed, life: Life, said: dict[str, object]) -> str:
    """One utterance: a surface form with its slots filled (`said`: those that this query alone fills), in the persona's
    way of speaking or typing."""
    rng = life.rng
    form = expand(family.text, lambda options: options[rng.integers(len(options))])
    text = " ".join(fill_template(form, life.people | life.facts | lived.facts | lived.variables | said).split())
    manner = rng.random()
    if manner < 0.3 and text.split()[0].strip(",").capitalize() not in OPENING_WORDS:
        keep_capital = form.startswith(("{", "I ", "I'"))
        text = OPENERS[rng.integers(len(OPENERS))] + (text if keep_capital else text[0].lower() + text[1:])
    elif 0.3 <= manner < 0.45:
        return text.rstrip(".!?").lower()
    return text[0].upper() + text[1:]


def print_call(api: str, arguments: dict[str, object]) -> str:
    """Canonical text of a call: `api(name="value", count=3)`, Python literals with strings in double quotes."""

    def literal(value: object) -> str:
        if isinstance(value, list):
            return f"[{', '.join(map(literal, value))}]"
        return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)

    return f"{api}({', '.join(f'{name}={literal(value)}' for name, value in arguments.items())})"


def acceptable(api: str, arguments: dict[str, object], toolbox: Toolbox) -> dict[str, dict[str, list]]:
    """One call as an answer of the Berkeley format: "" says that an argument may be left out."""
    optional = set() if api == DEFAULT_API else {n for n, a in toolbox[api].arguments.items() if not a.required}
    return {api: {name: [value, ""] if name in optional else [value] for name, value in arguments.items()}}


def resolve_calls(
    calls: list[Call], lived: LivedNeed, life: Life, said: dict[str, object]
) -> tuple[str, list[str], list[dict]]:
    """Plan text (one call a line), its APIs, and the answers with their acceptable values; slots are filled from items,
    people, facts and what the query says. Where the query says the arguments, none may be left out, and a person may be
    named as the query does or in full."""
    views = {  # as plans see an item, its moments are YYYY-MM-DD HH:MM
        name: SimpleNamespace(**{key: f"{v:%Y-%m-%d %H:%M}" if isinstance(v, datetime) else v for key, v in items[0]})
        for name, items in lived.items.items()
        if items
    }
    namespace = life.people | life.facts | lived.facts | lived.variables | views | said
    lines, answers, toolbox = [], [], life.cast.toolbox
    for api, templates in calls:
        values = {}
        for name, value in templates.items():
            forms = [value]
            if said and ".first}" in str(value):  # a first name also in full, or as an address
                texts = value if isinstance(value, list) else [value]
                for part in ("name", "email") if name == "to" else ("name",):
                    others = [str(text).replace(".first}", f".{part}}}") for text in texts]
                    forms.append(others if isinstance(value, list) else others[0])
            values[name] = [fill_template(form, namespace) for form in forms]
            if toolbox[api].arguments[name].type == "integer":
                values[name] = [int(str(value)) for value in values[name]]
        arguments = {name: ways[0] for name, ways in values.items()}
        lines.append(print_call(api, arguments))
        answers.append({api: values} if said else acceptable(api, arguments, toolbox))
    return "\n".join(lines), [api for api, _ in calls], answers


def rank_apps(lived: LivedNeed, toolbox: Toolbox, first_api: str) -> list[App]:
    """Up to three apps to look in: the first call's, those that hold the items, and where other people keep it."""
    ranked = [toolbox[first_api].app] if first_api in toolbox else []
    others = sorted(lived.need.keeps.items(), key=lambda pair: (-pair[1].weight, pair[0]))
    ranked += [template.app for keep in (lived.keep, *dict(others).values()) for template in keep.items.values()]
    return [app for app in dict.fromkeys(ranked) if app][:3]


def relevant_items(lived: LivedNeed, life: Life, moment: datetime) -> list[str]:
    """Ids of what the need left that answers its queries, and where its call lists a day's events, of the others on
    that day, too, that are yet to come at `moment`; as far as `Gold` has room."""
    own = [item.id for items in lived.items.values() for item in items]
    if lived.day is None or not any(api == LISTS_A_DAY for api, _ in lived.keep.calls):
        return own
    events = [item for item in life.items["calendar"] if item.shown.date() == lived.day and item.shown >= moment]
    return list(dict.fromkeys([*own, *(item.id for item in events)]))[:MOST_RELEVANT]


def label_query(
    query: Query, kind: Kind, family: Family, lived: LivedNeed, life: Life, said: dict[str, object]
) -> Gold:
    """Gold labels: they follow from the need, the persona's own items and what the query was meant to say, never from
    matching text."""
    plan, apis, answers = resolve_calls(lived.keep.calls, lived, life, said)
    # Of another plan, this persona must have the items that it names: all but the first may be missing.
    possible = [calls for calls in lived.keep.other_calls if all(lived.items[name] for name in lived.keep.named(calls))]
    others = [resolve_calls(calls, lived, life, said) for calls in possible]
    cots = lived.need.thoughts(kind)
    return Gold(
        query=query.id,
        kind=kind,
        need=lived.need.need,
        phrasing=family.id,
        relevant=relevant_items(lived, life, query.time),
        apis=apis,
        apps=rank_apps(lived, life.cast.toolbox, apis[0]),
        plan=plan,
        answers=answers,
        cot=cots[life.rng.integers(len(cots))],
        also=[OtherPlan(apis=apis, plan=plan, answers=answers) for plan, apis, answers in others],
    )
