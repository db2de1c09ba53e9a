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
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from lib.assistant.needs import GROUPS, Group, Kind, parse_call
from lib.assistant.personas import Provenance, draw_capacities, draw_life, read_cast
from lib.assistant.plans import ast_match
from lib.assistant.queries import Asked, Gold, OtherPlan, Query, live_and_ask, split_phrasings
from lib.assistant.schemas import Apps, Person, Persona, WorldKnobs, read_personas
from lib.assistant.toolbox import DEFAULT_API, Toolbox
from lib.workbook.inputs import InputError, read_records, validated

SIDES = ("training", "evaluation")
FILES = ("personas.jsonl", "queries.jsonl", "gold.jsonl", "toolbox.yaml")
COMPLEX_SHARE, DEFAULT_SHARE = 0.10, 0.05  # of lived needs: those whose plan takes two calls, those that no API serves
# Of a world's queries, the shares whose call has its text arguments in the query, and in the persona's items (of the
# rest the call takes none), and the share whose call is decided by where the persona keeps the matter, not by the need
# alone. Fixed beforehand. The toolbox has no API without arguments, so a call that takes none is `default()`, or one
# whose only argument is the day on which it is asked for.
WORLDS = {"explicit": (0.85, 0.05, 0.10), "mixed": (0.40, 0.40, 0.50), "hard": (0.00, 0.80, 1.00)}


@dataclass
class World:
    """Personas with their queries; `sides` are training or evaluation, by query id."""

    personas: list[Persona]
    queries: list[Query]
    gold: list[Gold]
    sides: dict[str, str]
    toolbox: Toolbox
    provenance: list[Provenance] = field(default_factory=list)


def group_shares(world: str) -> dict[Group, tuple[float, float, float]]:
    """Of each group of needs: the share of a world's queries that voice it, and the shares of plans with two calls and
    of `default()` among its lived needs, which over all groups are `COMPLEX_SHARE` and `DEFAULT_SHARE`. `hard` is made
    of kept needs alone, so its share without arguments is `DEFAULT_SHARE` and not 0.2."""
    query, items, by_place = WORLDS[world]
    if not query:
        return dict.fromkeys(GROUPS, (0.0, 0.0, 0.0)) | {"kept": (1.0, COMPLEX_SHARE, DEFAULT_SHARE)}
    kept = items / (1 - DEFAULT_SHARE)
    placed, unserved = by_place - kept, DEFAULT_SHARE * (1 - kept)
    said, unfilled = query - placed, 1 - kept - query - unserved
    return {
        "kept": (kept, COMPLEX_SHARE, DEFAULT_SHARE),
        "said": (said, COMPLEX_SHARE * (1 - kept) / said, 0.0),
        "placed": (placed, 0.0, 0.0),
        "unfilled": (unfilled, 0.0, 0.0),
        "unserved": (unserved, 0.0, 1.0),
    }


def deal_asks(total: int, knobs: WorldKnobs, rng: np.random.Generator) -> list[Asked]:
    """Group and kind of each of `total` queries, in their shares as exactly as whole numbers allow, shuffled. What says
    its arguments is not resolved by habit alone: its kinds are `meaning` and `either`, in their ratio."""
    wanted = np.array([share * total for share, *_ in group_shares(knobs.world).values()])
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


def deal_sides(n_personas: int, n_training: int, n_evaluation: int, rng: np.random.Generator) -> np.ndarray:
    """The side of each persona, in the ratio of the queries; at least one persona is on each."""
    n = min(max(1, round(n_personas * n_evaluation / (n_training + n_evaluation))), n_personas - 1)
    return np.array(["evaluation"] * n + ["training"] * (n_personas - n))[rng.permutation(n_personas)]


def simulate(data: str | Path, knobs: WorldKnobs, progress: Callable = iter, sides: Collection[str] = SIDES) -> World:
    """A simulated world from the needs, names and toolbox in the folder `data`. Same knobs, same world, whatever the
    machine: each persona has a generator of its own, seeded by (seed, index). Of `sides` some will do: phrasings are of
    one side alone, so that personas of the other one change nothing. Raises InputError where a file of `data` is wrong,
    or the phrasings are too few for so many different queries."""
    enough = knobs.n_training_queries + knobs.n_evaluation_queries >= knobs.n_personas
    demand(enough, "there must be at least one query a persona")
    cast, shares = read_cast(Path(data)), group_shares(knobs.world)
    needs = [need for need in cast.needs if shares[need.group][0]]
    plans = {group: (two_calls, default) for group, (_, two_calls, default) in shares.items()}
    rng = np.random.default_rng([knobs.seed, 1])
    sides_of = deal_sides(knobs.n_personas, knobs.n_training_queries, knobs.n_evaluation_queries, rng)
    counts = np.empty(knobs.n_personas, dtype=int)
    decks: dict[str, list[Asked]] = {}
    for side, queries in zip(SIDES, (knobs.n_training_queries, knobs.n_evaluation_queries), strict=True):
        counts[sides_of == side] = deal_counts(queries, int((sides_of == side).sum()), rng)
        decks[side] = deal_asks(queries, knobs, rng)
    capacities = draw_capacities(knobs.n_personas, rng)
    families, said = split_phrasings(needs, knobs.seed), set[str]()
    world = World([], [], [], {}, cast.toolbox)
    for index in progress(range(knobs.n_personas)):
        if sides_of[index] not in sides:
            continue
        side, own = str(sides_of[index]), np.random.default_rng([knobs.seed, 4, index])
        life = draw_life(index, cast._replace(needs=needs), knobs, capacities[index], own)
        asked = [decks[side].pop() for _ in range(counts[index])]
        for query, gold in live_and_ask(life, asked, plans, families[side], said):
            world.queries.append(query)
            world.gold.append(gold)
            world.sides[query.id] = side
        # Items of an app stand in order of the time that they show; the log may go on after the data were collected.
        items = {app: sorted(some, key=lambda item: (item.shown, item.id)) for app, some in life.items.items()}
        last = max((item.opens[-1].time for some in items.values() for item in some), default=life.today)
        log_until = last if last > life.today else None
        people, apps = list(life.people.values()), Apps.model_validate(items)
        world.personas.append(Persona(**life.profile, today=life.today, log_until=log_until, people=people, apps=apps))
        world.provenance += life.provenance
    return world


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
    tools = [(api.api, api.app, api.text, api.function) for api in world.toolbox.values()]
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
    for name, column in (("gold", "answers"), ("other_plans", "answers"), ("toolbox", "function")):
        tables[name][column] = [json.dumps(one, ensure_ascii=False) for one in tables[name][column]]
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
        demand(n >= least, f"too little to train on: {n} {what}, at least {least} are needed")


def demand(right: bool, message: str) -> None:
    """Raises InputError with the message unless something is right."""
    if not right:
        raise InputError(message)


def check_plan(entry: Gold | OtherPlan, toolbox: Toolbox, where: str) -> None:
    """Raises InputError unless plan, apis and answers name the same known APIs, and the answers accept the plan."""
    try:
        planned = [api for api, _ in map(parse_call, entry.plan.split("\n"))]
    except ValueError as error:
        raise InputError(f"{where}, plan: {error}") from None
    answered = [api for answer in entry.answers for api in answer]
    for name, apis in (("apis", entry.apis), ("plan", planned), ("answers", answered)):
        unknown = [api for api in apis if api not in toolbox and api != DEFAULT_API]
        demand(not unknown, f"{where}, {name}: no API {', '.join(unknown)} in toolbox.yaml")
        demand(apis == entry.apis, f"{where}, {name}: names {apis}, but apis names {entry.apis}")
    match = ast_match(entry.plan, entry.answers, [toolbox[api].function for api in entry.apis if api in toolbox])
    demand(bool(match), f"{where}, plan: not what answers accept: {match.sentence}")


def read_world(folder: str | Path) -> World:
    """A world from your own files (see the module's text). Every reference between them is checked; InputError names
    the file, the line and the field."""
    folder = Path(folder)
    toolbox = Toolbox.from_yaml(folder / "toolbox.yaml")
    personas = {persona.id: persona for persona in read_personas(folder / "personas.jsonl")}
    queries: dict[str, Query] = {}
    sides: dict[str, str] = {}
    side_of_persona: dict[str, str] = {}
    for number, record in read_records(folder / "queries.jsonl"):
        where, side = f"{folder / 'queries.jsonl'}, line {number}", record.pop("split", None)
        query = validated(Query, record, where)
        demand(side in SIDES, f"{where}, split: must be training or evaluation, not {side!r}")
        demand(query.persona in personas, f"{where}, persona: no persona {query.persona!r} in personas.jsonl")
        demand(query.id not in queries, f"{where}: query {query.id} appears twice")
        early = query.time < personas[query.persona].today
        demand(not early, f"{where}, time: before the persona's data were collected (today)")
        one_side = side_of_persona.setdefault(query.persona, side) == side
        demand(one_side, f"{where}, split: persona {query.persona} stands on both sides")
        queries[query.id], sides[query.id] = query, side
    gold: dict[str, Gold] = {}
    for number, record in read_records(folder / "gold.jsonl"):
        where = f"{folder / 'gold.jsonl'}, line {number}"
        entry = validated(Gold, record, where)
        new = entry.query in queries and entry.query not in gold
        demand(new, f"{where}: query {entry.query} is not in queries.jsonl, or labelled twice")
        own = {item.id for _, item in personas[queries[entry.query].persona].items}
        known = len(own.intersection(entry.relevant)) == len(entry.relevant)
        demand(known, f"{where}, relevant: {entry.relevant} are not all different items of that persona")
        labels: list[Gold | OtherPlan] = [entry, *entry.also]
        for label in labels:
            check_plan(label, toolbox, where)
        gold[entry.query] = entry
    missing = min(queries.keys() - gold.keys(), default="(there is none)")
    demand(bool(queries) and queries.keys() == gold.keys(), f"{folder / 'gold.jsonl'}: no label for query {missing}")
    return World(list(personas.values()), list(queries.values()), [gold[name] for name in queries], sides, toolbox)


def embed_worlds(
    worlds: Mapping[Any, Mapping[str, pd.DataFrame]],
    encode: Callable[[list[str]], np.ndarray],
    known: Mapping[str, np.ndarray] | None = None,
) -> dict[Any, dict[str, np.ndarray]]:
    """Embeddings of the items and queries of several worlds' frames, in their order; a text that occurs in several is
    encoded once, and one that is `known` with its embedding not at all."""
    found, names = dict(known or {}), ("items", "queries")
    texts = {text for tables in worlds.values() for name in names for text in tables[name]["text"]}
    fresh = sorted(texts - found.keys())
    found |= zip(fresh, encode(fresh), strict=True)
    return {
        world: {name: np.stack([found[text] for text in tables[name]["text"]]) for name in names}
        for world, tables in worlds.items()
    }
