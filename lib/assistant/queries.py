"""Under-specified queries and their gold labels.

A query is a need voiced in one of its phrasings. What a method may see is a `Query`: text, time (and so
the weekday) and place. What the answer is stands in a `Gold`, in a file of its own.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import pandas as pd
from pydantic import Field, NaiveDatetime
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from lib.assistant import personas
from lib.assistant.needs import CHOICE, GROUPS, Call, Group, Kind, Need, alternatives, draw_moment, fill_template
from lib.assistant.personas import Life, LivedNeed, draw_moments, next_occurrence
from lib.assistant.schemas import App, Moment, Place
from lib.assistant.toolbox import DEFAULT_API, Toolbox
from lib.retrieval.stores import seeded_order
from lib.workbook.inputs import InputError, Strict, Text

VOICED_AS = {"explicit": ("meaning", "either")}  # kinds of query, by kind of phrasing
EVALUATION_PHRASINGS = 1 / 3  # of each need and kind
NEED_FOLDS = 5  # the first are the held-out needs
HELD_OUT = 1 / 5  # of the needs
DAYS_OF_QUERIES = 7
MOST_RELEVANT = 5  # items of a query
LISTS_A_DAY = "list_events"  # the API whose answer is all events of a day
OPENERS = ("Hey, ", "Hi, ", "Hello, ", "Hey there, ", "Okay, ", "Oh, ", "So, ", "Right, ", "Um, ", "Er, ")
OPENING_WORDS = {opener.split()[0].strip(",") for opener in OPENERS}
# A query about the present day is voiced while some of it is left, and its need's events are so far ahead.
LATE, EARLIER, AHEAD = 18, timedelta(hours=8), timedelta(minutes=45)
UNASKED_NEEDS = (1, 4)  # needs that a persona lives but never asks about: at least 1, fewer than 4
Asked = tuple[Group, Kind]


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


def qrels_of(gold: pd.DataFrame) -> pd.DataFrame:
    """Columns query, item: one row a relevant item, from labels with columns query, relevant (lists of items)."""
    return gold[["query", "relevant"]].explode("relevant").rename(columns={"relevant": "item"})


def held_out_needs(names: Iterable[str], seed: int) -> set[str]:
    """The needs that a ranker may be kept from: about a fifth, at least one. A hash of seed and name decides, so the
    answer for a need does not depend on which others are asked about."""
    hashes = {name: hashlib.sha256(f"{seed}:{name}".encode()).digest()[:8] for name in names}
    place = {name: int.from_bytes(digest, "big") / 2**64 for name, digest in hashes.items()}
    return {name for name, value in place.items() if value < HELD_OUT} or {min(place, key=place.__getitem__)}


def topic_folds(gold: pd.DataFrame, seed: int) -> pd.DataFrame:
    """Topic and fold (0 to 4) by query: for a query on a new topic a method learns from the training queries of other
    folds. Fold 0 is what `held_out_needs` keeps apart where there is one split instead of five; the other needs are
    dealt to the rest of `NEED_FOLDS`."""
    labels = gold.set_index("query")[["need"]].rename(columns={"need": "topic"})
    held_out = held_out_needs(gold["need"].unique(), seed)
    others = [name for name in seeded_order(gold["need"], seed) if name not in held_out]
    folds = dict.fromkeys(held_out, 0) | {name: 1 + place % (NEED_FOLDS - 1) for place, name in enumerate(others)}
    return labels.assign(fold=labels["topic"].map(folds))


def split_phrasings(needs: Sequence[Need], seed: int) -> dict[str, Families]:
    """The phrasings that each side may use: a third of each need and kind are evaluation's. Those that share a surface
    form (such as "Play my usual") are bound together, so that no text of evaluation can occur in training."""
    families = [
        Family(f"{need.need}/{kind}/{number}", need.need, kind, text)
        for need in needs
        for kind, texts in need.voiced.items()
        for number, text in enumerate(texts)
    ]
    first: dict[str, int] = {}  # of each form, the phrasing that has it first
    forms = [(number, map(normal_text, alternatives(family.text))) for number, family in enumerate(families)]
    shared = np.array([(number, first.setdefault(form, number)) for number, some in forms for form in some]).T
    graph = coo_array((np.ones(shared.shape[1]), shared), shape=(len(families), len(families)))
    bound = dict(zip(families, connected_components(graph, directed=False)[1].tolist(), strict=True))
    rng = np.random.default_rng([seed, 2])
    side: dict[int, str] = {}
    cells = defaultdict(list)
    for family in families:
        cells[family.need, family.kind].append(family)
    for cell in cells.values():
        wanted = round(EVALUATION_PHRASINGS * len(cell))
        wanted -= sum(side.get(bound[family]) == "evaluation" for family in cell)
        for index in rng.permutation(len(cell)):
            together = bound[cell[index]]
            if together not in side:
                side[together] = "evaluation" if wanted > 0 else "training"
                wanted -= side[together] == "evaluation"
    split: dict[str, Families] = {"training": defaultdict(list), "evaluation": defaultdict(list)}
    for family in families:
        for kind in VOICED_AS.get(family.kind, (family.kind,)):
            split[side[bound[family]]][family.need, kind].append(family)
    return split


def live_and_ask(
    life: Life, asked: list[Asked], plans: Mapping[Group, tuple[float, float]], families: Families, said: set[str]
) -> list[tuple[Query, Gold]]:
    """Let a persona live some needs, fill its apps, and voice one query for each entry of `asked` (group and kind).
    `plans` are the shares of plans with two calls and of `default()` of each group; `said` is what queries have said so
    far, in normal form, and is added to."""
    rng = life.rng
    for group in reversed(GROUPS):  # the kept needs last: they are many, and some fits whatever room is left
        if count := sum(wanted == group for wanted, _ in asked):
            needs, before = [need for need in life.cast.needs if need.group == group], len(life.lived)
            personas.live_needs(life, needs, count, plans[group])
            for shares in ((0.0, 0.0), (1.0, 0.0), (0.0, 1.0)):
                if len(life.lived) == before:  # at least one, of whatever kind of plan, where any fits
                    personas.live_needs(life, needs, 1, shares)
    askable = list(life.lived)
    personas.live_needs(life, life.cast.needs, int(rng.integers(*UNASKED_NEEDS)), plans["kept"])
    if not askable:
        raise InputError(f"persona {life.profile['id']}: no need fits its traits and its number of items")
    plan = assign_needs(askable, asked, families, rng)
    moments = furnish_needs(life, plan)
    # Each with draws of its own, so that a knob at 0 moves no other. The first two of the four are unused.
    _, _, recent, often = rng.spawn(4)
    personas.add_distractors(life)
    pairs = []
    for number, ((lived, kind), (moment, place)) in enumerate(zip(plan, moments, strict=True)):
        family, text, slots = say_something_new(lived, kind, families, said, life, moment)
        name = f"{life.profile['id']}-q{number}"
        query = Query(id=name, persona=life.profile["id"], text=text, time=moment, place=place)
        pairs.append((query, label_query(query, kind, family, lived, life, slots)))
    # Of some queries what is asked for was also opened lately, or is opened often. Of each such query the same happens
    # to other items, so that recency and frequency are hints and not the answer. More strength only adds queries.
    for strength, rngs in ((life.knobs.recency_strength, recent), (life.knobs.frequency_strength, often)):
        for (query, gold), own in zip(pairs, rngs.spawn(len(pairs)), strict=True):
            if own.random() < strength:
                personas.open_more(life, gold.relevant, own, query.time if rngs is recent else None)
    return pairs


def assign_needs(
    askable: list[LivedNeed], asked: list[Asked], families: Families, rng: np.random.Generator
) -> list[tuple[LivedNeed, Kind]]:
    """A need for each query: every lived need once before any is asked for twice, among those of the group with such a
    phrasing; among all of them where the persona lives none of the group."""
    times = {lived.need.need: 0 for lived in askable}
    plan = []
    for group, kind in asked:
        options = [lived for lived in askable if (lived.need.need, kind) in families]
        options = [lived for lived in options if lived.need.group == group] or options
        least = min(times[lived.need.need] for lived in options)
        options = [lived for lived in options if times[lived.need.need] == least]
        lived = options[rng.integers(len(options))]
        times[lived.need.need] += 1
        plan.append((lived, kind))
    return plan


def furnish_needs(life: Life, plan: list[tuple[LivedNeed, Kind]]) -> list[Moment]:
    """Draw when and where each query is voiced, and write the items of all lived needs.

    A query is voiced in the week after the data were collected: by the need's habit, as its logs; of kind `meaning` at
    any waking moment, or the habit would resolve it, too. The matter takes place half an hour to two hours after the
    last voicing, set back to the quarter-hour, where that follows the habit, else at its next turn. Queries about a day
    are moved to it: hours earlier where it is late and the day is today, so that it has events to come.
    """
    rng, end = life.rng, life.today + timedelta(days=DAYS_OF_QUERIES)
    how = life.today, end, 1, life.places, life.knobs.habit_strength, rng
    moments = [draw_moments(None if kind == "meaning" else lived.slot, *how)[0] for lived, kind in plan]
    for lived in life.lived:
        asked_at = [number for number, (owner, _) in enumerate(plan) if owner is lived]
        last = max([moments[number][0] for number in asked_at] or [draw_moments(lived.slot, *how)[0][0]])
        if last.weekday() in lived.slot.days and abs(last.hour + last.minute / 60 - lived.slot.hour) < 3:
            soon = last + timedelta(minutes=int(rng.integers(30, 121)))
            happens = soon.replace(minute=soon.minute // 15 * 15, second=0)
        else:
            happens = next_occurrence(lived.slot, last)
        [own] = rng.spawn(1)
        if lived.need.same_day:
            days = lived.need.when.get("days", (0, 0))
            day = lived.day = last.date() + timedelta(days=int(own.integers(*days, endpoint=True)))
            for number in asked_at:
                moment, place = moments[number]
                late = day == last.date() and moment.hour >= LATE
                moments[number] = datetime.combine(last, (moment - EARLIER if late else moment).time()), place
            happens = datetime.combine(day, happens.time())
            happens = max([happens, *(moments[number][0] + AHEAD for number in asked_at)])
            happens = happens.replace(minute=happens.minute // 15 * 15)
        personas.furnish(life, lived, happens, bool(asked_at))
    return moments


def say_something_new(
    lived: LivedNeed, kind: str, families: Families, said: set[str], life: Life, moment: datetime
) -> tuple[Family, str, dict[str, object]]:
    """A phrasing, a text that no query has had before, in the persona's way of speaking or typing, and the slots that
    this query alone fills."""
    rng, need, options = life.rng, lived.need, families[lived.need.need, kind]
    for _ in range(300):
        family = options[rng.integers(len(options))]
        slots: dict[str, object] = {}
        if need.group != "kept":
            slots = {name: values[rng.integers(len(values))] for name, values in need.said.items()}
            slots["now"] = SimpleNamespace(date=f"{moment:%Y-%m-%d}")
            if need.when:
                slots["when"] = draw_moment(need.when, moment, rng, lived.day)
        form = CHOICE.sub(lambda match: (forms := match[1].split("|"))[rng.integers(len(forms))], family.text)
        text = " ".join(fill_template(form, life.people | life.facts | lived.facts | lived.variables | slots).split())
        manner = rng.random()
        if manner < 0.3 and text.split()[0].strip(",").capitalize() not in OPENING_WORDS:
            keep_capital = form.startswith(("{", "I ", "I'"))
            text = OPENERS[rng.integers(len(OPENERS))] + (text if keep_capital else text[0].lower() + text[1:])
        typed = 0.3 <= manner < 0.45
        text = text.rstrip(".!?").lower() if typed else text[0].upper() + text[1:]
        if normal_text(text) not in said:
            said.add(normal_text(text))
            return family, text, slots
    raise InputError(f"need {need.need}: too few {kind} phrasings for so many different queries")


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
    """Plan text (one call a line), its APIs, and the answers with their acceptable values. Where the query says the
    arguments, none may be left out, and a person may be named as the query does or in full."""
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


def label_query(
    query: Query, kind: Kind, family: Family, lived: LivedNeed, life: Life, said: dict[str, object]
) -> Gold:
    """Gold labels: they follow from the need, the persona's own items and what the query was meant to say, never from
    matching text. Relevant is what the need left that answers its queries, and where its call lists a day's events, the
    others of that day that are yet to come. Apps to look in are the first call's, those that hold the items, and where
    other people keep it."""
    need, keep, toolbox = lived.need, lived.keep, life.cast.toolbox
    plan, apis, answers = resolve_calls(keep.calls, lived, life, said)
    # Of another plan, this persona must have the items that it names: all but the first may be missing.
    possible = [calls for calls, named in keep.other_calls if all(lived.items[name] for name in named)]
    others = [resolve_calls(calls, lived, life, said) for calls in possible]
    relevant = [item.id for items in lived.items.values() for item in items]
    if lived.day and any(api == LISTS_A_DAY for api, _ in keep.calls):
        events = [event for event in life.items["calendar"] if event.shown.date() == lived.day]
        relevant += [event.id for event in events if event.shown >= query.time]
    apps = [toolbox[apis[0]].app] if apis[0] in toolbox else []
    elsewhere = sorted(need.keeps.items(), key=lambda pair: (-pair[1].weight, pair[0]))
    apps += [template.app for one in (keep, *dict(elsewhere).values()) for template in one.items.values()]
    cots = need.cot if isinstance(need.cot, list) else need.cot["blind" if kind == "habit" else "informed"]
    return Gold(
        query=query.id,
        kind=kind,
        need=need.need,
        phrasing=family.id,
        relevant=list(dict.fromkeys(relevant))[:MOST_RELEVANT],
        apis=apis,
        apps=[app for app in dict.fromkeys(apps) if app][:3],
        plan=plan,
        answers=answers,
        cot=cots[life.rng.integers(len(cots))],
        also=[OtherPlan(apis=apis, plan=plan, answers=answers) for plan, apis, answers in others],
    )
