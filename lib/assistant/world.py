"""A whole world of personas, queries and labels: simulated, or read from a folder of your own files.

On disk a world is a folder:

    personas.jsonl   one persona a line (`schemas.Persona`)
    queries.jsonl    one query a line: `queries.Query` and the key `split` (training or evaluation)
    gold.jsonl       one label a line (`queries.Gold`)
    toolbox.yaml     the APIs (`toolbox.Toolbox`)

`frames` turns it into the tables the notebooks exchange. What a method may see (items, opens, queries) and what it may
not (gold, provenance) are different tables.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pandas as pd

from lib.assistant.needs import GROUPS, Group, Kind, parse_call
from lib.assistant.personas import (
    Life,
    LivedNeed,
    Provenance,
    add_distractors,
    draw_capacities,
    draw_life,
    furnish,
    live_needs,
    open_lately,
    open_often,
    read_cast,
    write_down,
)
from lib.assistant.plans import ast_match
from lib.assistant.queries import (
    Families,
    Family,
    Gold,
    OtherPlan,
    Query,
    deal_counts,
    label_query,
    normal_text,
    occasion,
    split_phrasings,
    voice,
    voicing_moment,
)
from lib.assistant.schemas import Moment, Person, Persona, WorldKnobs, read_personas
from lib.assistant.toolbox import DEFAULT_API, Toolbox
from lib.workbook.inputs import InputError, read_records, validated

SIDES = ("training", "evaluation")
FILES = ("personas.jsonl", "queries.jsonl", "gold.jsonl", "toolbox.yaml")
# A query about the present day is voiced while some of it is left, and its need's events are so far ahead.
LATE, EARLIER, AHEAD = 18, timedelta(hours=8), timedelta(minutes=45)
UNASKED_NEEDS = (1, 4)  # needs that a persona lives but never asks about: at least 1, fewer than 4
COMPLEX_SHARE, DEFAULT_SHARE = 0.10, 0.05  # of lived needs: those whose plan takes two calls, those that no API serves
Asked = tuple[Group, Kind]


# Of a world's queries, the shares whose call has its text arguments in the query, and in the persona's items (of the
# rest the call takes none), and the share whose call is decided by where the persona keeps the matter, not by the need
# alone. Fixed beforehand. The toolbox has no API without arguments, so a call that takes none is `default()`, or one
# whose only argument is the day on which it is asked for.
WORLDS = {"explicit": (0.85, 0.05, 0.10), "mixed": (0.40, 0.40, 0.50), "hard": (0.00, 0.80, 1.00)}


@dataclass
class World:
    """Personas with their queries.

    Attributes:
        sides: training or evaluation, by query id.
    """

    personas: list[Persona]
    queries: list[Query]
    gold: list[Gold]
    sides: dict[str, str]
    toolbox: Toolbox
    provenance: list[Provenance] = field(default_factory=list)


def group_shares(world: str) -> dict[Group, float]:
    """The share of a world's queries that needs of each group voice.

    Of the kept needs' queries a `DEFAULT_SHARE` takes no argument. `hard` is made of kept needs alone, so its share
    without arguments is `DEFAULT_SHARE` and not 0.2, and the rest falls to the items.
    """
    query, items, by_place = WORLDS[world]
    if not query:
        return {"kept": 1.0, "said": 0.0, "placed": 0.0, "unfilled": 0.0, "unserved": 0.0}
    kept = items / (1 - DEFAULT_SHARE)
    placed, unserved = by_place - kept, DEFAULT_SHARE * (1 - kept)
    unfilled = 1 - kept - query - unserved
    return {"kept": kept, "said": query - placed, "placed": placed, "unfilled": unfilled, "unserved": unserved}


def plan_shares(group: Group, world: str) -> tuple[float, float]:
    """Shares of plans with two calls and of `default()` among a group's lived needs, so that over all groups they are
    `COMPLEX_SHARE` and `DEFAULT_SHARE`."""
    if group == "kept":
        return COMPLEX_SHARE, DEFAULT_SHARE
    shares = group_shares(world)
    complex_share = COMPLEX_SHARE * (1 - shares["kept"]) / shares["said"] if group == "said" else 0.0
    return complex_share, 1.0 if group == "unserved" else 0.0


def deal_asks(total: int, knobs: WorldKnobs, rng: np.random.Generator) -> list[Asked]:
    """Group and kind of each of `total` queries, in their shares as exactly as whole numbers allow, shuffled.

    What says its arguments is not resolved by habit alone: its kinds are `meaning` and `either`, in their ratio.
    """
    shares = group_shares(knobs.world)
    wanted = np.array([shares[group] * total for group in GROUPS])
    counts = np.floor(wanted + 1e-9).astype(int)
    counts[np.argsort(counts - wanted, kind="stable")[: total - counts.sum()]] += 1
    deck: list[Asked] = []
    for group, count in zip(GROUPS, counts.tolist(), strict=True):
        meaning = round(knobs.meaning_share * count)
        habit = min(round(knobs.habit_share * count), count - meaning)
        if group != "kept":
            worded = 1 - knobs.habit_share
            meaning, habit = round(count * (knobs.meaning_share / worded if worded > 0 else 0.5)), 0
        shares_of: dict[Kind, int] = {"meaning": meaning, "habit": habit, "either": count - meaning - habit}
        kinds = [kind for kind, n in shares_of.items() for _ in range(n)]
        order = rng.permutation(count) if group == "kept" else range(count)
        deck += [(group, kinds[i]) for i in order]
    return deck if counts[0] == total else [deck[i] for i in rng.permutation(total)]


def deal_sides(n_personas: int, n_training: int, n_evaluation: int, rng: np.random.Generator) -> np.ndarray:
    """The side of each persona, in the ratio of the queries; at least one persona is on each."""
    n = min(max(1, round(n_personas * n_evaluation / (n_training + n_evaluation))), n_personas - 1)
    return np.array(["evaluation"] * n + ["training"] * (n_personas - n))[rng.permutation(n_personas)]


def simulate(data: str | Path, knobs: WorldKnobs, progress: Callable = iter) -> World:
    """A simulated world from the needs, names and toolbox in the folder `data`; needs of a group that the world has no
    share of are left out.

    Same knobs, same world, whatever the machine: each persona has a generator of its own, seeded by (seed, index).

    Raises:
        InputError: a file of `data` is wrong, or the phrasings are too few for so many different queries.
    """
    cast, shares = read_cast(Path(data)), group_shares(knobs.world)
    needs = [need for need in cast.needs if shares[need.group]]
    rng = np.random.default_rng([knobs.seed, 1])
    sides = deal_sides(knobs.n_personas, knobs.n_training_queries, knobs.n_evaluation_queries, rng)
    counts = np.empty(knobs.n_personas, dtype=int)
    decks: dict[str, list[Asked]] = {}
    for side, queries in zip(SIDES, (knobs.n_training_queries, knobs.n_evaluation_queries), strict=True):
        counts[sides == side] = deal_counts(queries, int((sides == side).sum()), rng)
        decks[side] = deal_asks(queries, knobs, rng)
    capacities = draw_capacities(knobs.n_personas, rng)
    families, said = split_phrasings(needs, knobs.seed), set[str]()
    world = World([], [], [], {}, cast.toolbox)
    for index in progress(range(knobs.n_personas)):
        side, own = str(sides[index]), np.random.default_rng([knobs.seed, 4, index])
        life = draw_life(index, cast._replace(needs=needs), knobs, capacities[index], own)
        asked = [decks[side].pop() for _ in range(counts[index])]
        for query, gold in live_and_ask(life, asked, families[side], said):
            world.queries.append(query)
            world.gold.append(gold)
            world.sides[query.id] = side
        world.personas.append(write_down(life))
        world.provenance += life.provenance
    return world


def live_and_ask(life: Life, asked: list[Asked], families: Families, said: set[str]) -> list[tuple[Query, Gold]]:
    """Let a persona live some needs, fill its apps, and voice one query for each entry of `asked` (group and kind).
    `said` is what queries have said so far, in normal form; it is added to."""
    rng, knobs = life.rng, life.knobs
    for group in reversed(GROUPS):  # the kept needs last: they are many, and some fits whatever room is left
        if count := sum(wanted == group for wanted, _ in asked):
            needs, before = [need for need in life.cast.needs if need.group == group], len(life.lived)
            live_needs(life, needs, count, plan_shares(group, knobs.world))
            for shares in ((0.0, 0.0), (1.0, 0.0), (0.0, 1.0)):
                if len(life.lived) == before:  # at least one, of whatever kind of plan, where any fits
                    live_needs(life, needs, 1, shares)
    askable = list(life.lived)
    live_needs(life, life.cast.needs, int(rng.integers(*UNASKED_NEEDS)), plan_shares("kept", knobs.world))
    if not askable:
        raise InputError(f"persona {life.profile['id']}: no need fits its traits and its number of items")
    plan = assign_needs(askable, asked, families, rng)
    moments = [voicing_moment(kind, lived, life) for lived, kind in plan]
    furnish_needs(life, plan, moments)
    # Each with draws of its own, so that a knob at 0 moves no other. The first two of the four are unused.
    _, _, recent, often = rng.spawn(4)
    add_distractors(life)
    pairs = []
    for number, ((lived, kind), (moment, place)) in enumerate(zip(plan, moments, strict=True)):
        family, text, slots = say_something_new(lived, kind, families, said, life, moment)
        name = f"{life.profile['id']}-q{number}"
        query = Query(id=name, persona=life.profile["id"], text=text, time=moment, place=place)
        pairs.append((query, label_query(query, kind, family, lived, life, slots)))
    # Of some queries what is asked for was also opened lately, or is opened often. Of each such query the same happens
    # to other items, so that recency and frequency are hints and not the answer. More strength only adds queries.
    for (query, gold), own in zip(pairs, recent.spawn(len(pairs)), strict=True):
        if own.random() < knobs.recency_strength:
            open_lately(life, query.time, gold.relevant, own)
    for (_, gold), own in zip(pairs, often.spawn(len(pairs)), strict=True):
        if own.random() < knobs.frequency_strength:
            open_often(life, gold.relevant, own)
    return pairs


def furnish_needs(life: Life, plan: list[tuple[LivedNeed, Kind]], moments: list[Moment]) -> None:
    """Write the items of all lived needs; queries about a day are moved to it in `moments`: hours earlier where it is
    late and the day is today, so that it has events to come."""
    rng = life.rng
    for lived in life.lived:
        asked_at = [number for number, (owner, _) in enumerate(plan) if owner is lived]
        mine = [moments[number][0] for number in asked_at]
        voiced = mine or [voicing_moment("habit", lived, life)[0]]
        happens = occasion(lived, voiced, rng)
        if day := lived.need.day_asked(max(voiced), rng.spawn(1)[0]):
            for number in asked_at:
                moment, place = moments[number]
                late = day == max(voiced).date() and moment.hour >= LATE
                moved = datetime.combine(max(voiced), (moment - EARLIER if late else moment).time())
                moments[number] = moved, place
            lived.day, happens = day, datetime.combine(day, happens.time())
            happens = max([happens, *(moments[number][0] + AHEAD for number in asked_at)])
            happens = happens.replace(minute=happens.minute // 15 * 15)
        furnish(life, lived, happens, bool(mine))


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


def say_something_new(
    lived: LivedNeed, kind: str, families: Families, said: set[str], life: Life, moment: datetime
) -> tuple[Family, str, dict[str, object]]:
    """A phrasing, a text that no query has had before, and the slots that this query alone fills."""
    options = families[lived.need.need, kind]
    for _ in range(300):
        family = options[life.rng.integers(len(options))]
        slots = lived.need.draw_said(moment, life.rng, lived.day)
        text = voice(family, lived, life, slots)
        if normal_text(text) not in said:
            said.add(normal_text(text))
            return family, text, slots
    raise InputError(f"need {lived.need.need}: too few {kind} phrasings for so many different queries")


def frames(world: World) -> dict[str, pd.DataFrame]:
    """The world as tables, keyed by artifact name: items, opens, queries, gold, other_plans (a row for each plan that
    does as well as the gold one), provenance, people, toolbox. Answers and functions are JSON texts."""
    owned = [(persona.id, app, item) for persona in world.personas for app, item in persona.items]
    items = [(name, item.id, app, item.headline, item.text, item.shown) for name, app, item in owned]
    opens = [(item.id, opened.time, opened.place) for _, _, item in owned for opened in item.opens]
    queries = pd.DataFrame([query.model_dump() for query in world.queries])
    queries.insert(2, "split", queries["id"].map(world.sides))
    queries.insert(5, "weekday", pd.to_datetime(queries["time"]).dt.dayofweek)
    gold = pd.DataFrame([entry.model_dump(exclude={"also"}) for entry in world.gold])
    gold.insert(1, "split", gold["query"].map(world.sides))
    others = [(entry.query, *dict(other).values()) for entry in world.gold for other in entry.also]
    known = [(persona.id, *dict(person).values()) for persona in world.personas for person in persona.people]
    tools = [(api.api, api.app, api.text, json.dumps(api.function, ensure_ascii=False)) for api in world.toolbox]
    tables = {
        "items": pd.DataFrame(items, columns=["persona", "item", "app", "title", "text", "shown"]),
        "opens": pd.DataFrame(opens, columns=["item", "time", "place"]).astype({"time": "datetime64[us]"}),
        "queries": queries.rename(columns={"id": "query"}),
        "gold": gold,
        "other_plans": pd.DataFrame(others, columns=["query", "apis", "plan", "answers"]),
        "provenance": pd.DataFrame(world.provenance, columns=Provenance._fields),
        "people": pd.DataFrame(known, columns=["persona", *Person.model_fields]),
        "toolbox": pd.DataFrame(tools, columns=["api", "app", "text", "function"]),
    }
    for name in ("gold", "other_plans"):
        tables[name]["answers"] = [json.dumps(one, ensure_ascii=False) for one in tables[name]["answers"]]
    return tables


def check_trainable(queries: pd.DataFrame, gold: pd.DataFrame, folds: int) -> None:
    """Raises InputError where there is too little to train on: it is cross-validated by persona in `folds`, a control
    takes another evaluation query's context, and some needs are kept from training."""
    found = {
        "training personas": (queries.loc[queries["split"] == "training", "persona"].nunique(), folds + 1),
        "evaluation queries": ((queries["split"] == "evaluation").sum(), 2),
        "needs": (gold["need"].nunique(), 2),
    }
    for what, (n, least) in found.items():
        if n < least:
            raise InputError(f"too little to train on: {n} {what}, at least {least} are needed")


def check_plan(entry: Gold | OtherPlan, toolbox: Toolbox, where: str) -> None:
    """Raises InputError unless plan, apis and answers name the same known APIs, and the answers accept the plan."""
    try:
        planned = [api for api, _ in map(parse_call, entry.plan.split("\n"))]
    except ValueError as error:
        raise InputError(f"{where}, plan: {error}") from None
    answered = [api for answer in entry.answers for api in answer]
    for name, apis in (("apis", entry.apis), ("plan", planned), ("answers", answered)):
        if unknown := [api for api in apis if api not in toolbox and api != DEFAULT_API]:
            raise InputError(f"{where}, {name}: no API {unknown[0]!r} in toolbox.yaml")
        if apis != entry.apis:
            raise InputError(f"{where}, {name}: names {apis}, but apis names {entry.apis}")
    functions = [toolbox[api].function for api in entry.apis if api in toolbox]
    if not (match := ast_match(entry.plan, entry.answers, functions)):
        raise InputError(f"{where}, plan: not what answers accept: {match.sentence}")


def read_world(folder: str | Path) -> World:
    """A world from your own files (see the module's text); every reference between them is checked.

    Raises:
        InputError: names the file, the line and the field: a missing file, a wrong field, an unknown persona, item or
            API, a query without label, a persona on both sides.
    """
    folder = Path(folder)
    toolbox = Toolbox.from_yaml(folder / "toolbox.yaml")
    personas = {persona.id: persona for persona in read_personas(folder / "personas.jsonl")}
    queries: dict[str, Query] = {}
    sides: dict[str, str] = {}
    side_of_persona: dict[str, str] = {}
    for number, record in read_records(folder / "queries.jsonl"):
        where, side = f"{folder / 'queries.jsonl'}, line {number}", record.pop("split", None)
        query = validated(Query, record, where)
        if side not in SIDES:
            raise InputError(f"{where}, split: must be training or evaluation, not {side!r}")
        if query.persona not in personas:
            raise InputError(f"{where}, persona: no persona {query.persona!r} in personas.jsonl")
        if query.id in queries:
            raise InputError(f"{where}: query {query.id} appears twice")
        if query.time < personas[query.persona].today:
            raise InputError(f"{where}, time: before the persona's data were collected (today)")
        if side_of_persona.setdefault(query.persona, side) != side:
            raise InputError(f"{where}, split: persona {query.persona} stands on both sides")
        queries[query.id], sides[query.id] = query, side
    gold: dict[str, Gold] = {}
    for number, record in read_records(folder / "gold.jsonl"):
        where = f"{folder / 'gold.jsonl'}, line {number}"
        entry = validated(Gold, record, where)
        if entry.query not in queries or entry.query in gold:
            raise InputError(f"{where}: query {entry.query} is not in queries.jsonl, or labelled twice")
        own = {item.id for _, item in personas[queries[entry.query].persona].items}
        if len(own.intersection(entry.relevant)) < len(entry.relevant):
            raise InputError(f"{where}, relevant: {entry.relevant} are not all different items of that persona")
        labels: list[Gold | OtherPlan] = [entry, *entry.also]
        for label in labels:
            check_plan(label, toolbox, where)
        gold[entry.query] = entry
    if not queries or queries.keys() - gold.keys():
        missing = min(queries.keys() - gold.keys(), default="(there is none)")
        raise InputError(f"{folder / 'gold.jsonl'}: no label for query {missing}")
    return World(list(personas.values()), list(queries.values()), [gold[name] for name in queries], sides, toolbox)
