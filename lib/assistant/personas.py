"""Simulated personas: who they are, what they live through, what their apps hold and when they open it.

The generative model, in order: traits and people → a weekly routine → the needs a persona lives, each with one way of
keeping its items and one habit → items and their usage logs → distractors → opens beside the habits. Every probability
is a field of `WorldKnobs` or a constant here; nothing is fitted to published results.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
from pydantic import Field, TypeAdapter
from scipy import stats

from lib.assistant.needs import ROLES, Habit, Keep, Need, Texts, Wording, fill_template, read_needs, slots_of
from lib.assistant.schemas import APPS, ITEM_TYPES, PLACES, App, Item, Moment, Person, Place, WorldKnobs
from lib.assistant.toolbox import Toolbox
from lib.workbook.inputs import read_yaml

# Context items per persona and app (assistant paper, Table 4, in its order).
ITEMS_PER_APP = {
    "mail": 2.93, "calendar": 5.63, "google": 9.57, "notes": 2.23, "music": 4.38, "reminders": 4.81, "phone_call": 2.34,
}  # fmt: skip
FIRST_DAY = datetime(2023, 12, 7)  # the day in the paper's example prompt (appendix A.2)
LOG_DAYS = 56  # usage logs reach back eight weeks
STALE_DAYS = 28  # a need gone stale was last served this long ago
OPENS_PER_ITEM = 8.0  # uses of an item in its log, on average
HARD_DISTRACTORS = 6.0  # stale or lookalike items a persona, on average
HOUR_NOISE = 1.0  # hours, standard deviation around the habit's hour
COPIES_OF_SUPPORTING_ITEMS = (0.2, 0.5, 0.3)  # none, one or two items of a slot that the plan does not name
WAKING_HOURS = (7.0, 23.0)
RIVALS = 3  # items that are opened as lately, or as often, as the answer to a query
RECENT = timedelta(hours=24)
TIMES_AS_OFTEN = 2.0  # opens that are added, in units of `OPENS_PER_ITEM`
CODE = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789"  # without letters that look like digits
TRAIT_SHARES = {"partner": 0.55, "children": 0.4, "pet": 0.4, "car": 0.6}
# Where people are, by hour of day, when they follow no particular habit: weights over PLACES.
WHEREABOUTS: dict[str, dict[Place, float]] = {
    "workday": {"home": 0.15, "work": 0.6, "commute": 0.1, "cafe": 0.1, "store": 0.05},
    "leisure": {
        "home": 0.55, "commute": 0.08, "gym": 0.07, "cafe": 0.08, "store": 0.08, "outdoors": 0.1, "school": 0.04,
    },
}  # fmt: skip
# What a persona has one of, drawn from the lists of `people.yaml` of the same name with an s.
HAUNTS = ("street", "gym", "school", "clinic", "cafe", "restaurant", "store", "station")
TASTES = ("music_genre", "movie_genre", "cuisine", "sport")


class Cast(NamedTuple):
    """What worlds are made of."""

    needs: list[Need]
    names: dict[str, list[str]]  # lists that names, places and tastes are drawn from
    background: dict[App, list[Wording]]  # items that nobody asks for
    toolbox: Toolbox


@functools.cache
def read_cast(folder: Path) -> Cast:
    """The files of a folder, read once. Raises InputError where one is wrong or missing."""
    wordings = TypeAdapter(Annotated[list[Wording], Field(min_length=1)])
    background = {app: read_yaml(folder / "background" / f"{app}.yaml", wordings) for app in APPS}
    names = read_yaml(folder / "people.yaml", TypeAdapter(dict[str, Texts]))
    return Cast(read_needs(folder / "needs"), names, background, Toolbox.from_yaml(folder / "toolbox.yaml"))


class Slot(NamedTuple):
    """A habit made personal: the weekdays (0 = Monday), the peak hour and the place."""

    days: tuple[int, ...]
    hour: float
    place: Place


def draw_slot(habit: Habit, places: set[Place], rng: np.random.Generator) -> Slot:
    """One persona's version of a habit; a place the persona never goes to becomes home."""
    days = {"daily": range(7), "weekdays": range(5), "weekend": (5, 6), "weekly": (int(rng.integers(7)),)}[habit.days]
    place = habit.places[rng.integers(len(habit.places))]
    return Slot(tuple(days), float(rng.uniform(*habit.hours)), place if place in places else "home")


def somewhere(moment: datetime, places: set[Place], rng: np.random.Generator) -> Place:
    """A place drawn from where people are at that hour when they follow no habit."""
    at_work = "work" in places and moment.weekday() < 5 and 9 <= moment.hour < 17
    shares = WHEREABOUTS["workday" if at_work else "leisure"]
    there = [place for place in shares if place in places]
    weights = np.array([shares[place] for place in there])
    return there[rng.choice(len(there), p=weights / weights.sum())]


def draw_moments(
    slot: Slot | None,
    first: datetime,
    last: datetime,
    size: int,
    places: set[Place],
    habit_strength: float,
    rng: np.random.Generator,
) -> list[Moment]:
    """`size` moments (time, place) in [first, last), sorted; opens and queries come from this one process. A moment
    follows the habit with probability `habit_strength`: one of its weekdays, its hour with normal noise, its place.
    Otherwise, or without a slot, it is any waking hour of any day, wherever the persona then happens to be."""
    midnight = datetime(first.year, first.month, first.day)
    n_days = max(1, (last - midnight).days)
    weekday = (midnight.weekday() + np.arange(n_days)) % 7
    habitual = np.flatnonzero(np.isin(weekday, slot.days)) if slot else np.array([], dtype=int)
    moments = []
    for _ in range(size):
        for _attempt in range(20):
            habit = slot if len(habitual) > 0 and rng.random() < habit_strength else None
            if habit:
                day = int(habitual[rng.integers(len(habitual))])
                hour = min(max(rng.normal(habit.hour, HOUR_NOISE), 0.0), 23.98)
            else:
                day = int(rng.integers(n_days))
                hour = float(rng.uniform(*WAKING_HOURS))
            moment = midnight + timedelta(days=day, minutes=int(hour * 60))
            if first <= moment < last:
                break
        else:
            moment = first + timedelta(minutes=int(rng.integers(max(1, (last - first) // timedelta(minutes=1)))))
        moments.append((moment, habit.place if habit else somewhere(moment, places, rng)))
    return sorted(moments)


def next_occurrence(slot: Slot, after: datetime) -> datetime:
    """The habit's first quarter-hour at or after `after`, on one of its days."""
    midnight = datetime(after.year, after.month, after.day)
    days = (midnight + timedelta(days=ahead) for ahead in range(8))
    turns = [day + timedelta(minutes=15 * round(slot.hour * 4)) for day in days if day.weekday() in slot.days]
    return next(turn for turn in turns if turn >= after)


@dataclass
class LivedNeed:
    """A need in one persona's life: how it is kept, when it comes up, the items it left, the day it is asked about."""

    need: Need
    keep_name: str
    keep: Keep
    slot: Slot
    variables: dict[str, str]
    copies: dict[str, int]
    facts: dict[str, str] = field(default_factory=dict)
    items: dict[str, list[Item]] = field(default_factory=dict)
    day: date | None = None


class Provenance(NamedTuple):
    """Where an item came from; for analysis and leak tests only, no method may see it."""

    item: str
    source: str  # need, unasked, stale, decoy or background
    need: str
    template: str


@dataclass
class Life:
    """A persona before it is written down: what it is drawn from, and what was drawn so far."""

    cast: Cast
    knobs: WorldKnobs
    rng: np.random.Generator
    capacity: dict[str, int]  # items, by app
    profile: dict[str, Any]
    people: dict[str, Person]
    places: set[Place]
    facts: dict[str, str]
    today: datetime
    lived: list[LivedNeed] = field(default_factory=list)
    planned: Counter[str] = field(default_factory=Counter)  # items of lived needs, by app
    items: dict[str, list[Item]] = field(default_factory=lambda: {app: [] for app in APPS})
    provenance: list[Provenance] = field(default_factory=list)

    def log(self, slot: Slot, until: datetime) -> list[Moment]:
        """The opens of one item, whatever its role, from eight weeks ago to `until`: Poisson around a gamma-distributed
        rate, at least one."""
        size = 1 + int(self.rng.poisson(self.rng.gamma(2.0, (OPENS_PER_ITEM - 1) / 2)))
        first = self.today - timedelta(days=LOG_DAYS)
        return draw_moments(slot, first, until, size, self.places, self.knobs.habit_strength, self.rng)

    def pick_unused(self, key: str, options: Sequence[int]) -> int:
        """One of the numbered wordings of a template, if possible one that the persona has not got yet."""
        used = {entry.template for entry in self.provenance}
        fresh = [number for number in options if f"{key}/{number}" not in used] or options
        return fresh[int(self.rng.integers(len(fresh)))]


def draw_capacities(n: int, rng: np.random.Generator) -> list[dict[App, int]]:
    """Items per persona and app: Poisson with Table 4's means, by systematic sampling, so that averages are close."""
    columns = {
        app: rng.permutation(stats.poisson.ppf((np.arange(n) + rng.random()) / n, mean).astype(int)).tolist()
        for app, mean in ITEMS_PER_APP.items()
    }
    return [{app: columns[app][i] for app in APPS} for i in range(n)]


def draw_life(index: int, cast: Cast, knobs: WorldKnobs, capacity: dict[str, int], rng: np.random.Generator) -> Life:
    """Traits, one person for each role (family shares the surname), places and facts of a persona."""
    names = cast.names

    def pick(key: str) -> str:
        return names[key][rng.integers(len(names[key]))]

    age = int(rng.integers(18, 76))
    traits = [trait for trait, share in TRAIT_SHARES.items() if rng.random() < share]
    if age <= 22 and "children" in traits:
        traits.remove("children")
    traits.append("renter" if rng.random() < (0.75 if age < 35 else 0.4) else "homeowner")
    if age < 30 and rng.random() < 0.35:
        traits.append("student")
    if age < 67 and rng.random() < 0.85:
        traits.append("employed")
    asked = {need.hobby for need in cast.needs}
    weights = np.array([3.0 if hobby in asked else 1.0 for hobby in names["hobbies"]])
    chosen = rng.choice(len(weights), size=3, replace=False, p=weights / weights.sum())
    name = f"{pick('first_names')} {pick('last_names')}"
    company = pick("companies")
    profession = pick("professions") if "employed" in traits else ("Student" if "student" in traits else "Retired")
    if profession == "Retired" and age < 60:
        profession = "Between jobs"
    profile: dict[str, Any] = {
        "id": f"p{index:04d}",
        "name": name,
        "age": age,
        "profession": profession,
        "company": company if "employed" in traits else "",
        "city": pick("cities"),
        "hobbies": [names["hobbies"][i] for i in sorted(chosen)],
        **{f"favorite_{taste}": pick(f"{taste}s") for taste in TASTES},
        "traits": traits,
    }
    people, used = {}, {name.split()[0]}
    for role in ROLES:
        first = pick("first_names")
        while first in used:
            first = pick("first_names")
        used.add(first)
        last = name.split()[-1] if role in ("partner", "child", "parent", "sibling") else pick("last_names")
        full = f"Dr. {first} {last}" if role in ("doctor", "dentist", "vet") else f"{first} {last}"
        address = f"{first}.{last}@mail.example".lower().replace(" ", "").replace("'", "")
        people[role] = Person(role=role, name=full, email=address, phone=f"+1 555 {rng.integers(10**7):07d}")
    facts = {haunt: pick(f"{haunt}s") for haunt in HAUNTS}
    facts |= {"office": f"{company} office", "company": company, "city": profile["city"], "profession": profession}
    facts |= {taste: profile[f"favorite_{taste}"] for taste in TASTES}
    places = set(PLACES) - (set() if "employed" in traits else {"work"})
    if not {"student", "children"} & set(traits):
        places -= {"school"}
    today = FIRST_DAY + timedelta(days=int(rng.integers(21)), hours=6)
    return Life(cast, knobs, rng, capacity, profile, people, places, facts, today)


def live_needs(life: Life, candidates: Sequence[Need], count: int, shares: tuple[float, float]) -> None:
    """Draw `count` needs that the persona's traits, hobbies and age allow, a keep that still fits, and a time of week.

    The kind of plan (complex, default, simple) is drawn first, the first two by their `shares`, then a need that has
    such a keep, then the keep. A slot that clashes with another need's is redrawn up to ten times. The keep's first
    item and what the plan names are there once; a supporting item may be missing, or be there twice in other words.
    """
    rng, profile, used = life.rng, life.profile, life.planned
    suited = [
        need
        for need in candidates
        if (need.trait is None or need.trait in profile["traits"])
        and (need.hobby is None or need.hobby in profile["hobbies"])
        and (need.age is None or need.age[0] <= profile["age"] <= need.age[1])
    ]
    for _ in range(count):
        wish = rng.choice(("complex", "default", "simple"), p=(*shares, 1 - sum(shares)))
        taken, options = {lived.need.need for lived in life.lived}, []
        for need in suited:
            keeps = [
                name
                for name, keep in need.keeps.items()
                if keep.kind_of_plan == wish
                and all(used[app] + wanted <= life.capacity[app] for app, wanted in keep.room.items())
            ]
            if keeps and need.need not in taken:
                options.append((need, keeps))
        if not options:
            continue
        need, keeps = options[rng.integers(len(options))]
        weights = np.array([need.keeps[name].weight for name in keeps])
        name = keeps[rng.choice(len(keeps), p=weights / weights.sum())]
        keep = need.keeps[name]
        for _attempt in range(11):
            slot = draw_slot(need.habit, life.places, rng)
            near = [
                one.slot for one in life.lived if one.slot.place == slot.place and abs(one.slot.hour - slot.hour) < 2
            ]
            if set(slot.days).isdisjoint(day for one in near for day in one.days):
                break
        variables = {name: values[rng.integers(len(values))] for name, values in need.vars.items()}
        copies = {
            item: 1 if item in keep.always else int(rng.choice(3, p=COPIES_OF_SUPPORTING_ITEMS)) for item in keep.items
        }
        for item, template in keep.items.items():
            copies[item] = max(min(copies[item], life.capacity[template.app] - used[template.app]), 0)
            used[template.app] += copies[item]
        life.lived.append(LivedNeed(need, name, keep, slot, variables, copies))


def moment_facts(moment: datetime, rng: np.random.Generator) -> dict[str, str]:
    """Values of the slots that belong to one occasion."""
    return {
        "date": f"{moment:%a} {moment.day} {moment:%b}",
        "time": f"{moment:%H:%M}",
        "weekday": f"{moment:%A}",
        "month": f"{moment:%B}",
        "n": str(rng.integers(2, 10)),
        "amount": f"{rng.integers(12, 90)}.{rng.integers(0, 100):02d}",
        "code": "".join(CODE[i] for i in rng.integers(0, len(CODE), size=6)),
        "number": str(rng.integers(10**9, 10**10)),
    }


def add_item(
    life: Life,
    app: str,
    wording: Wording,
    namespace: dict,
    moments: list[Moment],
    happens: datetime,
    origin: Sequence[str],
) -> Item:
    """One item more in an app; `origin` is its source, need and template, and `happens` when the matter takes place:
    start of an event, due time of a reminder. The other apps' timestamps follow from the log: a search, song or call
    shows its last use, a mail or note came before its first."""
    filled: dict[str, Any] = {
        key: fill_template(value, namespace) for key, value in wording.items() if key not in ("app", "genre")
    }
    first, last = moments[0][0], moments[-1][0]
    before = timedelta(hours=int(life.rng.integers(1, 72)))
    shown = {"mail": first - before, "notes": first - before, "calendar": happens, "reminders": happens}.get(app, last)
    filled[ITEM_TYPES[app].time_field] = shown
    slots = slots_of(wording.get("sender") or wording.get("contact") or "")
    person = life.people.get(slots[0].partition(".")[0]) if len(slots) == 1 else None
    if app == "calendar":
        filled["end"] = shown + timedelta(minutes=int(life.rng.choice([30, 45, 60, 90])))
    if app == "mail":
        slug = "".join(character for character in filled["sender"].lower() if character.isalnum())
        filled["address"] = person.email if person else f"contact@{slug}.example"
    if app == "phone_call":
        filled["number"] = person.phone if person else f"+1 555 {life.rng.integers(10**7):07d}"
    item = ITEM_TYPES[app](id=f"{life.profile['id']}-{life.rng.integers(16**8):08x}", **filled)
    item.add_opens(moments)
    life.items[app].append(item)
    life.provenance.append(Provenance(item.id, *origin))
    return item


def furnish(life: Life, lived: LivedNeed, happens: datetime, asked: bool) -> None:
    """Write the items of a lived need into the persona's apps, with logs that follow its habit up to today."""
    lived.facts = moment_facts(happens, life.rng)
    namespace = life.people | life.facts | lived.facts | lived.variables
    for name, template in lived.keep.items.items():
        lived.items[name] = []
        for number in life.rng.permutation(len(template.wordings))[: lived.copies[name]]:
            moments = life.log(lived.slot, life.today)
            origin = ("need" if asked else "unasked", lived.need.need)
            key = f"{lived.need.need}/{lived.keep_name}/{name}/{number}"
            item = add_item(life, template.app, template.wordings[number], namespace, moments, happens, (*origin, key))
            lived.items[name].append(item)


def add_distractors(life: Life) -> None:
    """Fill the apps up to their capacity: first hard distractors (needs gone stale, and lookalikes: somebody else's
    matter or a neighbouring topic), then background. Neither the number of opens nor their regularity tells one from a
    relevant item; only a stale item's log, of the same habit, ended weeks ago: so its wording differs from the current
    items' where there is another. Background songs lean to the persona's favourite genre."""
    rng = life.rng
    sources = [lived for lived in life.lived for _ in range(2)]
    for index in rng.permutation(len(sources))[: rng.poisson(HARD_DISTRACTORS)]:
        lived, room = sources[index], {app for app, some in life.items.items() if len(some) < life.capacity[app]}
        if rng.random() < 0.5:  # of the same need, from an occasion that is over
            if slots := [(name, one) for name, one in lived.keep.items.items() if one.app in room]:
                name, template = slots[rng.integers(len(slots))]
                key = f"{lived.need.need}/{lived.keep_name}/{name}"
                number = life.pick_unused(key, range(len(template.wordings)))
                last = life.today - timedelta(days=STALE_DAYS)
                happens = next_occurrence(lived.slot, last - timedelta(days=8))
                moments = life.log(lived.slot, last)
                variables = {name: values[rng.integers(len(values))] for name, values in lived.need.vars.items()}
                namespace = life.people | life.facts | moment_facts(happens, rng) | variables
                origin = ("stale", lived.need.need, f"{key}/{number}")
                add_item(life, template.app, template.wordings[number], namespace, moments, happens, origin)
            continue
        key, used = f"{lived.need.need}/decoys", {entry.template for entry in life.provenance}
        decoys = [(f"{key}/{number}", decoy, str(decoy["app"])) for number, decoy in enumerate(lived.need.decoys)]
        if options := [decoy for decoy in decoys if decoy[2] in room and decoy[0] not in used]:
            template, decoy, app = options[rng.integers(len(options))]
            add_unneeded(life, app, decoy, lived.variables, ("decoy", lived.need.need, template))
    for app, wordings in life.cast.background.items():
        while len(life.items[app]) < life.capacity[app]:
            pool: Sequence[int] = range(len(wordings))
            if app == "music" and rng.random() < 0.6:
                genre = life.profile["favorite_music_genre"]
                pool = [number for number in pool if wordings[number].get("genre") == genre] or pool
            number = life.pick_unused(f"background/{app}", pool)
            add_unneeded(life, app, wordings[number], {}, ("background", "", f"background/{app}/{number}"))


def add_unneeded(life: Life, app: str, wording: Wording, variables: dict[str, str], origin: Sequence[str]) -> None:
    """An item no query of this persona asks for, used as regularly as what is looked for: its habit is drawn from those
    of all needs, its log like any other's; events and reminders are due when the habit comes round."""
    slot = draw_slot(life.cast.needs[int(life.rng.integers(len(life.cast.needs)))].habit, life.places, life.rng)
    moments = life.log(slot, life.today)
    happens = next_occurrence(slot, life.today + timedelta(days=int(life.rng.integers(7))))
    namespace = life.people | life.facts | moment_facts(happens, life.rng) | variables
    add_item(life, app, wording, namespace, moments, happens, origin)


def open_more(life: Life, relevant: Sequence[str], rng: np.random.Generator, asked: datetime | None = None) -> None:
    """Open the items of a query, and `RIVALS` others that are not stale: once each in the `RECENT` hours before it was
    `asked`, since the data were collected; without a time, a Poisson number of times in the log's eight weeks. What a
    text says of its item's use stays true: a mail or note came before its first open, a search, song or call shows its
    last."""
    stale = {entry.item for entry in life.provenance if entry.source == "stale"}
    items = [(app, item) for app in APPS for item in life.items[app]]
    others = [one for one in items if one[1].id not in stale.union(relevant)]
    rivals = [others[number] for number in rng.permutation(len(others))[:RIVALS]]
    for app, item in [one for one in items if one[1].id in relevant] + rivals:
        if asked:
            before = np.arange(1, min(RECENT, asked - life.today) // timedelta(minutes=1) + 1)
            minute = (asked.hour * 60 + asked.minute - before) % (24 * 60)
            awake = before[(minute >= WAKING_HOURS[0] * 60) & (minute < WAKING_HOURS[1] * 60)]
            if len(awake):
                opened = asked - timedelta(minutes=int(awake[rng.integers(len(awake))]))
                item.add_opens([(opened, somewhere(opened, life.places, rng))])
            continue
        size = int(rng.poisson(TIMES_AS_OFTEN * OPENS_PER_ITEM))
        first = item.opens[0].time if app in ("mail", "notes") else life.today - timedelta(days=LOG_DAYS)
        last = min(item.shown, life.today) if app in ("google", "music", "phone_call") else life.today
        if first < last:
            item.add_opens(draw_moments(None, first, last, size, life.places, 0.0, rng))
