"""Simulated personas: who they are, what they live through, what their apps hold and when they open it.

The generative model, in order: traits and people → a weekly routine → the needs a persona lives, each with one way of
keeping its items and one habit → items and their usage logs → distractors. Every probability is a field of `WorldKnobs`
or a constant here; nothing is fitted to published results.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, overload

import numpy as np
from pydantic import Field, TypeAdapter
from scipy import stats

from lib.assistant.needs import (
    ROLES,
    TEMPLATE_FIELDS,
    AnyNeed,
    Habit,
    Keep,
    Wording,
    check_slots,
    check_wording,
    slots_of,
)
from lib.assistant.schemas import (
    APPS,
    ITEM_TYPES,
    PLACES,
    TIME_FIELDS,
    App,
    Apps,
    Item,
    Open,
    Person,
    Persona,
    Place,
    WorldKnobs,
    by_time,
)
from lib.workbook.inputs import InputError, Strict, Text, read_yaml

# Context items per persona and app (assistant paper, Table 4). The paper's row order is mail, calendar, google, notes,
# music, reminders, phone call.
ITEMS_PER_APP = {
    "mail": 2.93,
    "calendar": 5.63,
    "google": 9.57,
    "notes": 2.23,
    "music": 4.38,
    "reminders": 4.81,
    "phone_call": 2.34,
}
FIRST_DAY = datetime(2023, 12, 7)  # the day in the paper's example prompt (appendix A.2)
LOG_DAYS = 56  # usage logs reach back eight weeks
STALE_DAYS = 28  # a need gone stale was last served this long ago
COPIES_OF_SUPPORTING_ITEMS = (0.2, 0.5, 0.3)  # none, one or two items of a slot that the plan does not name
WAKING_HOURS = (7.0, 23.0)
TRAIT_SHARES = {"partner": 0.55, "children": 0.4, "pet": 0.4, "car": 0.6}
# Where people are, by hour of day, when they follow no particular habit: weights over PLACES.
WHEREABOUTS: dict[str, dict[Place, float]] = {
    "workday": {"home": 0.15, "work": 0.6, "commute": 0.1, "cafe": 0.1, "store": 0.05},
    "leisure": {
        "home": 0.55,
        "commute": 0.08,
        "gym": 0.07,
        "cafe": 0.08,
        "store": 0.08,
        "outdoors": 0.1,
        "school": 0.04,
    },
}


Names = Annotated[list[Text], Field(min_length=1)]


class People(Strict):
    """`people.yaml`: the lists that names, places and tastes are drawn from."""

    first_names: Annotated[list[Text], Field(min_length=len(ROLES) + 2)]
    last_names: Names
    professions: Names
    companies: Names
    cities: Names
    streets: Names
    gyms: Names
    schools: Names
    clinics: Names
    cafes: Names
    restaurants: Names
    stores: Names
    stations: Names
    hobbies: Annotated[list[Text], Field(min_length=3)]
    music_genres: Names
    movie_genres: Names
    cuisines: Names
    sports: Names


class Cast(Strict):
    """Names to draw from, and by app the background items that nobody asks about."""

    names: People
    background: dict[App, Annotated[list[Wording], Field(min_length=1)]]


def read_cast(folder: str | Path) -> Cast:
    """`people.yaml` and `background/<app>.yaml` of a folder.

    Raises:
        InputError: a file is missing, a list is empty, or a background item has a field its app lacks or an unknown
            slot; names file and record.
    """
    folder = Path(folder)
    names = read_yaml(folder / "people.yaml", TypeAdapter(People))
    background: dict[App, list[Wording]] = {}
    for app in APPS:
        path = folder / "background" / f"{app}.yaml"
        background[app] = read_yaml(path, TypeAdapter(Annotated[list[Wording], Field(min_length=1)]))
        for number, record in enumerate(background[app], start=1):
            wording = {key: value for key, value in record.items() if (app, key) != ("music", "genre")}
            try:
                check_wording(app, wording)
                for value in wording.values():
                    check_slots(slots_of(value))
            except ValueError as error:
                raise InputError(f"{path}, record {number}: {error}") from None
    return Cast(names=names, background=background)


# ---------------------------------------------------------------- time and place


@dataclass(frozen=True)
class Slot:
    """A habit made personal: the weekdays (0 = Monday), the peak hour and the place."""

    days: tuple[int, ...]
    hour: float
    place: Place

    def clashes(self, other: Slot) -> bool:
        return bool(set(self.days) & set(other.days)) and abs(self.hour - other.hour) < 2 and self.place == other.place


def draw_slot(habit: Habit, places: set[Place], rng: np.random.Generator) -> Slot:
    """One persona's version of a habit; a place the persona never goes to becomes home."""
    days = {"daily": range(7), "weekdays": range(5), "weekend": (5, 6), "weekly": (int(rng.integers(7)),)}[habit.days]
    place = habit.places[rng.integers(len(habit.places))]
    return Slot(tuple(days), float(rng.uniform(*habit.hours)), place if place in places else "home")


def somewhere(moment: datetime, places: set[Place], rng: np.random.Generator) -> Place:
    """A place drawn from where people are at that hour when they follow no habit."""
    at_work = "work" in places and moment.weekday() < 5 and 9 <= moment.hour < 17
    there, probabilities = _whereabouts("workday" if at_work else "leisure", frozenset(places))
    return there[rng.choice(len(there), p=probabilities)]


@functools.cache  # asked some hundred times a persona, and there are few sets of places
def _whereabouts(part: str, places: frozenset[Place]) -> tuple[list[Place], np.ndarray]:
    """The places where people are in that part of the week, and the probability of each."""
    weights = {place: share for place, share in WHEREABOUTS[part].items() if place in places}
    probabilities = np.array(list(weights.values()))
    return list(weights), probabilities / probabilities.sum()


def draw_moments(
    slot: Slot | None,
    first: datetime,
    last: datetime,
    size: int,
    places: set[Place],
    knobs: WorldKnobs,
    rng: np.random.Generator,
) -> list[tuple[datetime, Place]]:
    """`size` moments (time, place) in [first, last), sorted; opens and queries come from this one process.

    A moment follows the habit with probability `habit_strength`: one of its weekdays, its hour with normal noise, its
    place. Otherwise, or without a slot, it is any waking hour of any day, wherever the persona then happens to be.
    """
    midnight = datetime(first.year, first.month, first.day)
    n_days = max(1, (last - midnight).days)
    weekday = (midnight.weekday() + np.arange(n_days)) % 7
    habitual = np.flatnonzero([day in slot.days for day in weekday.tolist()]) if slot else np.array([], dtype=int)
    moments = []
    for _ in range(size):
        for _attempt in range(20):
            habit = slot if len(habitual) > 0 and rng.random() < knobs.habit_strength else None
            if habit:
                day = int(habitual[rng.integers(len(habitual))])
                hour = min(max(rng.normal(habit.hour, knobs.hour_noise), 0.0), 23.98)
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
    for days in range(8):
        day = datetime(after.year, after.month, after.day) + timedelta(days=days)
        moment = day + timedelta(minutes=15 * round(slot.hour * 4))
        if moment >= after and day.weekday() in slot.days:
            return moment
    raise AssertionError("a slot has at least one weekday")


def soon_after(moment: datetime, rng: np.random.Generator) -> datetime:
    """When something takes place that is asked for just before: half an hour to two hours later, set back to the
    quarter-hour."""
    soon = moment + timedelta(minutes=int(rng.integers(30, 121)))
    return soon.replace(minute=soon.minute // 15 * 15, second=0)


# ---------------------------------------------------------------- people and lives


@dataclass
class LivedNeed:
    """A need in one persona's life: how it is kept, when it comes up, the items it left, and the day that its queries
    are about, where its events are on it."""

    need: AnyNeed
    keep_name: str
    slot: Slot
    variables: dict[str, str]
    copies: dict[str, int]
    facts: dict[str, str] = field(default_factory=dict)
    items: dict[str, list[Item]] = field(default_factory=dict)
    day: date | None = None

    @property
    def keep(self) -> Keep:
        return self.need.keeps[self.keep_name]


@dataclass(frozen=True)
class Provenance:
    """Where an item came from; for analysis and leak tests only, no method may see it."""

    item_id: str
    source: str  # need, unasked, stale, decoy or background
    need: str
    template: str


@dataclass
class Life:
    """A persona before it is written down: its profile, its capacity for items by app, and what was drawn so far."""

    profile: dict[str, Any]
    people: dict[str, Person]
    places: set[Place]
    facts: dict[str, str]
    today: datetime
    capacity: dict[str, int]
    rng: np.random.Generator
    lived: list[LivedNeed] = field(default_factory=list)
    items: dict[str, list[Item]] = field(default_factory=lambda: {app: [] for app in APPS})
    provenance: list[Provenance] = field(default_factory=list)

    def room(self, app: str) -> int:
        return self.capacity[app] - len(self.items[app])

    def add(self, app: str, item: Item, source: str, need: str, template: str) -> None:
        self.items[app].append(item)
        self.provenance.append(Provenance(item.id, source, need, template))


def draw_capacities(n: int, rng: np.random.Generator) -> list[dict[str, int]]:
    """Number of items per persona and app: Poisson with Table 4's means, by systematic sampling of the quantiles, so
    that the averages of a world are close to the means whatever the seed."""
    columns = {}
    for app, mean in ITEMS_PER_APP.items():
        quantiles = (np.arange(n) + rng.random()) / n
        columns[app] = rng.permutation(stats.poisson.ppf(quantiles, mean).astype(int))
    return [{app: int(columns[app][i]) for app in APPS} for i in range(n)]


def draw_life(
    index: int, needs: Sequence[AnyNeed], cast: Cast, capacity: dict[str, int], rng: np.random.Generator
) -> Life:
    """Traits, people, places and facts of one persona."""
    names = cast.names

    def pick(key: str) -> str:
        options = getattr(names, key)
        return options[rng.integers(len(options))]

    age = int(rng.integers(18, 76))
    traits = [
        trait for trait, share in TRAIT_SHARES.items() if rng.random() < share and (trait != "children" or age > 22)
    ]
    traits.append("renter" if rng.random() < (0.75 if age < 35 else 0.4) else "homeowner")
    if age < 30 and rng.random() < 0.35:
        traits.append("student")
    if age < 67 and rng.random() < 0.85:
        traits.append("employed")
    asked = sorted({need.hobby for need in needs if need.hobby})
    weights = np.array([3.0 if hobby in asked else 1.0 for hobby in names.hobbies])
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
        "hobbies": [names.hobbies[i] for i in sorted(chosen)],
        "favorite_music_genre": pick("music_genres"),
        "favorite_movie_genre": pick("movie_genres"),
        "favorite_cuisine": pick("cuisines"),
        "favorite_sport": pick("sports"),
        "traits": traits,
    }
    people = draw_people(name, pick, rng)
    facts = {
        key: pick(f"{key[:-1]}ies" if key.endswith("y") else f"{key}s")
        for key in ("street", "gym", "school", "clinic", "cafe", "restaurant", "store", "station")
    }
    facts |= {
        "office": f"{company} office",
        "company": company,
        "city": profile["city"],
        "profession": profession,
        "cuisine": profile["favorite_cuisine"],
        "music_genre": profile["favorite_music_genre"],
        "movie_genre": profile["favorite_movie_genre"],
        "sport": profile["favorite_sport"],
    }
    places = set(PLACES) - (set() if "employed" in traits else {"work"})
    if not {"student", "children"} & set(traits):
        places -= {"school"}
    today = FIRST_DAY + timedelta(days=int(rng.integers(21)), hours=6)
    return Life(profile, people, places, facts, today, capacity, rng)


def draw_people(name: str, pick, rng: np.random.Generator) -> dict[str, Person]:
    """One person for each role; family shares the surname, first names differ."""
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
    return people


def eligible(need: AnyNeed, profile: dict) -> bool:
    """Whether the persona's traits, hobbies and age allow the need."""
    return (
        (need.trait is None or need.trait in profile["traits"])
        and (need.hobby is None or need.hobby in profile["hobbies"])
        and (need.age is None or need.age[0] <= profile["age"] <= need.age[1])
    )


def live_needs(life: Life, candidates: Sequence[AnyNeed], count: int, shares: tuple[float, float]) -> None:
    """Draw `count` needs, each with a keep that still fits the persona's capacity, and a slot of the week.

    The kind of plan (complex, default, simple) is drawn first, the first two by their `shares`; then a need that has
    such a keep; then the keep. A slot that clashes with another need's is redrawn up to ten times: people do one thing
    at a time.
    """
    rng = life.rng
    complex_share, default_share = shares
    taken = {lived.need.need for lived in life.lived}
    used: dict[str, int] = {app: len(life.items[app]) for app in APPS}
    for lived in life.lived:
        for name, template in lived.keep.items.items():
            used[template.app] += lived.copies[name]

    def fits(keep: Keep) -> bool:
        return all(used[app] + wanted <= life.capacity[app] for app, wanted in keep.room.items())

    suited = [need for need in candidates if eligible(need, life.profile)]
    for _ in range(count):
        wish = rng.choice(
            ("complex", "default", "simple"), p=(complex_share, default_share, 1 - complex_share - default_share)
        )
        options = {}
        for need in suited:
            if need.need not in taken:
                keeps = [name for name, keep in need.keeps.items() if keep.kind_of_plan == wish and fits(keep)]
                if keeps:
                    options[need.need] = (need, keeps)
        if not options:
            continue
        need, keeps = options[list(options)[rng.integers(len(options))]]
        weights = np.array([need.keeps[name].weight for name in keeps])
        keep_name = keeps[rng.choice(len(keeps), p=weights / weights.sum())]
        slot = draw_slot(need.habit, life.places, rng)
        for _attempt in range(10):
            if not any(slot.clashes(other.slot) for other in life.lived):
                break
            slot = draw_slot(need.habit, life.places, rng)
        variables = {name: values[rng.integers(len(values))] for name, values in need.vars.items()}
        copies = draw_copies(need.keeps[keep_name], used, life)
        life.lived.append(LivedNeed(need, keep_name, slot, variables, copies))
        taken.add(need.need)


def draw_copies(keep: Keep, used: dict[str, int], life: Life) -> dict[str, int]:
    """How many items of each slot of a keep the persona has, and book their room in `used`.

    The keep's first item and what the plan names are there once. A supporting item may be missing, or be there twice in
    different words (a page found again by another search), where the app has room.
    """
    copies = {
        name: 1 if name in keep.always else int(life.rng.choice(3, p=COPIES_OF_SUPPORTING_ITEMS)) for name in keep.items
    }
    for name, template in keep.items.items():
        copies[name] = max(min(copies[name], life.capacity[template.app] - used[template.app]), 0)
        used[template.app] += copies[name]
    return copies


# ---------------------------------------------------------------- items


def moment_facts(moment: datetime, rng: np.random.Generator) -> dict[str, str]:
    """Values of the slots that belong to one occasion."""
    return {
        "date": f"{moment:%a} {moment.day} {moment:%b}",
        "time": f"{moment:%H:%M}",
        "weekday": f"{moment:%A}",
        "month": f"{moment:%B}",
        "n": str(rng.integers(2, 10)),
        "amount": f"{rng.integers(12, 90)}.{rng.integers(0, 100):02d}",
        "code": "".join("ABCDEFGHJKLMNPQRSTUVWXYZ23456789"[i] for i in rng.integers(0, 32, size=6)),
        "number": str(rng.integers(10**9, 10**10)),
    }


@overload
def fill(value: str, namespace: dict) -> str: ...
@overload
def fill(value: list[str], namespace: dict) -> list[str]: ...
def fill(value: str | list[str], namespace: dict) -> str | list[str]:
    """Fill the slots of a template; `{role.name}` is the full name, as `{role}` is."""
    if isinstance(value, list):
        return [part.format_map(namespace) for part in value]
    return value.format_map(namespace)


def make_item(
    app: str,
    wording: dict,
    namespace: dict,
    moments: list[tuple[datetime, Place]],
    happens: datetime,
    life: Life,
) -> Item:
    """One item of an app: the wording filled in, the app's own fields, and the usage log.

    `happens` is when the matter takes place: start of an event, due time of a reminder. The other apps' timestamps
    follow from the log: a search, song or call shows its last use, a mail or note came before its first.
    """
    filled: dict[str, Any] = {
        key: fill(value, namespace) for key, value in wording.items() if key in TEMPLATE_FIELDS[app]
    }
    sender_role = person_of(wording.get("sender") or wording.get("contact"), life)
    first, last = moments[0][0], moments[-1][0]
    before = timedelta(hours=int(life.rng.integers(1, 72)))
    shown = {
        "mail": first - before,
        "notes": first - before,
        "google": last,
        "music": last,
        "phone_call": last,
        "calendar": happens,
        "reminders": happens,
    }[app]
    filled[TIME_FIELDS[app]] = shown
    if app == "calendar":
        filled["end"] = shown + timedelta(minutes=int(life.rng.choice([30, 45, 60, 90])))
    if app == "mail":
        slug = "".join(character for character in filled["sender"].lower() if character.isalnum())
        filled["address"] = sender_role.email if sender_role else f"contact@{slug}.example"
    if app == "phone_call":
        filled["number"] = sender_role.phone if sender_role else f"+1 555 {life.rng.integers(10**7):07d}"
    identifier = f"{life.profile['id']}-{life.rng.integers(16**8):08x}"
    opens = [Open.model_construct(time=moment, place=place) for moment, place in moments]
    return ITEM_TYPES[app](id=identifier, opens=opens, **filled)


def person_of(value: str | None, life: Life) -> Person | None:
    """The person a wording's sender or contact names as `{role}`, if it is one."""
    slots = slots_of(value) if value else []
    return life.people.get(slots[0].partition(".")[0]) if len(slots) == 1 else None


def allowed_wordings(count: int, key: str, side: str, knobs: WorldKnobs) -> list[int]:
    """Which of a template's wordings a persona of `side` may use.

    Under `split: item_template` one wording in three (at least one) is kept for evaluation personas, chosen by a hash
    of the template's name and the seed; otherwise all may be used.
    """
    if knobs.split != "item_template" or count < 2:
        return list(range(count))
    held = max(1, count // 3)
    start = int(hashlib.sha256(f"{knobs.seed}:{key}".encode()).hexdigest(), 16)
    evaluation = {(start + offset) % count for offset in range(held)}
    return sorted(evaluation) if side == "evaluation" else [i for i in range(count) if i not in evaluation]


def draw_log(life: Life, slot: Slot, until: datetime, knobs: WorldKnobs) -> list[tuple[datetime, Place]]:
    """The opens of one item, from eight weeks ago to `until`: one process for every item, whatever its role.

    Their number is Poisson around a gamma-distributed rate, at least one.
    """
    rate = life.rng.gamma(2.0, (knobs.opens_per_item - 1) / 2) if knobs.opens_per_item > 1 else 0.0
    size = 1 + int(life.rng.poisson(rate))
    return draw_moments(slot, life.today - timedelta(days=LOG_DAYS), until, size, life.places, knobs, life.rng)


@dataclass(frozen=True)
class Scene:
    """What a side's personas draw their items from."""

    side: str
    needs: Sequence[AnyNeed]
    cast: Cast
    knobs: WorldKnobs


def furnish(life: Life, lived: LivedNeed, happens: datetime, asked: bool, scene: Scene) -> None:
    """Write the items of a lived need into the persona's apps, with logs that follow its habit up to today."""
    lived.facts = moment_facts(happens, life.rng)
    namespace = life.people | life.facts | lived.facts | lived.variables
    for slot_name, template in lived.keep.items.items():
        key = f"{lived.need.need}/{lived.keep_name}/{slot_name}"
        options = allowed_wordings(len(template.wordings), key, scene.side, scene.knobs)
        chosen = life.rng.permutation(options)[: lived.copies[slot_name]]
        lived.items[slot_name] = []
        for number in chosen:
            moments = draw_log(life, lived.slot, life.today, scene.knobs)
            item = make_item(template.app, template.wordings[number], namespace, moments, happens, life)
            lived.items[slot_name].append(item)
            life.add(template.app, item, "need" if asked else "unasked", lived.need.need, f"{key}/{number}")


def any_slot(life: Life, scene: Scene) -> Slot:
    """A habit of any need, made this persona's."""
    return draw_slot(scene.needs[int(life.rng.integers(len(scene.needs)))].habit, life.places, life.rng)


def add_distractors(life: Life, scene: Scene) -> None:
    """Fill the apps up to their capacity: first hard distractors (needs gone stale, lookalikes), then background.

    Neither the number of opens nor their regularity tells a distractor from a relevant item; only a stale item's log
    ends early.
    """
    rng = life.rng
    sources = [lived for lived in life.lived for _ in range(2)]
    for index in rng.permutation(len(sources))[: rng.poisson(scene.knobs.hard_distractors)]:
        (add_stale if rng.random() < 0.5 else add_decoy)(life, sources[index], scene)
    for app in APPS:
        while life.room(app) > 0:
            add_background(life, app, scene)


def add_stale(life: Life, lived: LivedNeed, scene: Scene) -> None:
    """An item of the same need from an occasion that is over; its log follows the same habit but ended weeks ago.

    Its wording differs from the current items' where there is another, or only the log would tell them apart.
    """
    rng = life.rng
    slots = [(name, template) for name, template in lived.keep.items.items() if life.room(template.app) > 0]
    if not slots:
        return
    name, template = slots[rng.integers(len(slots))]
    key = f"{lived.need.need}/{lived.keep_name}/{name}"
    options = allowed_wordings(len(template.wordings), key, scene.side, scene.knobs)
    number = pick_unused(life, key, options)
    last = life.today - timedelta(days=STALE_DAYS)
    happens = next_occurrence(lived.slot, last - timedelta(days=8))
    moments = draw_log(life, lived.slot, last, scene.knobs)
    variables = {name: values[rng.integers(len(values))] for name, values in lived.need.vars.items()}
    namespace = life.people | life.facts | moment_facts(happens, rng) | variables
    item = make_item(template.app, template.wordings[number], namespace, moments, happens, life)
    life.add(template.app, item, "stale", lived.need.need, f"{key}/{number}")


def add_decoy(life: Life, lived: LivedNeed, scene: Scene) -> None:
    """A lookalike of a lived need: somebody else's matter or a neighbouring topic."""
    key = f"{lived.need.need}/decoys"
    decoys = [(decoy, str(decoy["app"])) for decoy in lived.need.decoys]
    used = {entry.template for entry in life.provenance}
    options = [
        number
        for number in allowed_wordings(len(decoys), key, scene.side, scene.knobs)
        if life.room(decoys[number][1]) > 0 and f"{key}/{number}" not in used
    ]
    if options:
        number = options[life.rng.integers(len(options))]
        decoy, app = decoys[number]
        item = make_unneeded(life, decoy, app, lived.variables, scene)
        life.add(app, item, "decoy", lived.need.need, f"{key}/{number}")


def add_background(life: Life, app: App, scene: Scene) -> None:
    """An item that nobody asks about; songs lean to the persona's favourite genre."""
    key, wordings = f"background/{app}", scene.cast.background[app]
    pool = allowed_wordings(len(wordings), key, scene.side, scene.knobs)
    if app == "music" and life.rng.random() < 0.6:
        liked = [number for number in pool if wordings[number].get("genre") == life.profile["favorite_music_genre"]]
        pool = liked or pool
    number = pick_unused(life, key, pool)
    item = make_unneeded(life, wordings[number], app, {}, scene)
    life.add(app, item, "background", "", f"{key}/{number}")


def pick_unused(life: Life, key: str, options: list[int]) -> int:
    """One of the numbered wordings of a template, if possible one that the persona has not got yet."""
    used = {entry.template for entry in life.provenance}
    fresh = [number for number in options if f"{key}/{number}" not in used] or options
    return fresh[life.rng.integers(len(fresh))]


def make_unneeded(life: Life, wording: dict, app: str, variables: dict[str, str], scene: Scene) -> Item:
    """An item no query of this persona asks for. Its habit is drawn from those of all needs, its log like any other's:
    distractors are used as regularly as what is looked for; events and reminders are due when a habit comes round."""
    slot = any_slot(life, scene)
    moments = draw_log(life, slot, life.today, scene.knobs)
    happens = next_occurrence(slot, life.today + timedelta(days=int(life.rng.integers(7))))
    namespace = life.people | life.facts | moment_facts(happens, life.rng) | variables
    return make_item(app, wording, namespace, moments, happens, life)


def write_down(life: Life) -> Persona:
    """The finished persona; items of an app stand in order of the time they show, the opens of an item in order."""
    stores = {app: by_time(life.items[app], app) for app in APPS}
    last = max((item.opens[-1].time for items in stores.values() for item in items if item.opens), default=life.today)
    people = [Person(**person.model_dump()) for person in life.people.values()]
    log_until = last if last > life.today else None
    apps = Apps.model_validate(stores)
    return Persona(**life.profile, today=life.today, log_until=log_until, people=people, apps=apps)
