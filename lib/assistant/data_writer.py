"""A language model in the simulator's place: it writes personas, items, requests, calls and chains of thought.

The steps are those of the assistant paper's appendix A.1, A.2 and A.4 to A.6, the prompts are our own. Numbers, what a
request is about, when and where it is voiced are drawn; every text is the model's. `write_world` lets it write a whole
world; `trials` asks each step about what the simulator made, whatever the steps before it lost.
"""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, Literal, get_origin

import numpy as np
import pandas as pd
from pydantic import AfterValidator, BaseModel, Field, FiniteFloat, NaiveDatetime, WithJsonSchema, create_model

from lib.assistant import prompts
from lib.assistant.needs import KINDS
from lib.assistant.personas import FIRST_DAY, Slot, draw_capacities, draw_moments
from lib.assistant.plans import ast_match
from lib.assistant.queries import DAYS_OF_QUERIES, Gold, Query, acceptable, normal_text, print_call
from lib.assistant.schemas import APP_NAMES, ITEM_TYPES, PLACES, App, Apps, ListOf, Persona, Place, WorldKnobs
from lib.assistant.toolbox import DEFAULT_API, Toolbox, signature
from lib.assistant.world import SIDES, World, deal_sides, read_world, simulate
from lib.generation.answers import INSTRUCT_MODEL, Answers, KeptModel
from lib.generation.local import weights_of
from lib.generation.models import ModelError
from lib.generation.structured import Question, ask
from lib.workbook.artifacts import atomic_folder
from lib.workbook.inputs import InputError, Strict, Text

# Sections of the International Standard Industrial Classification (ISIC, revision 4), in short.
SECTORS = (
    "agriculture, forestry and fishing; mining; manufacturing; energy supply; water and waste; construction; trade; "
    "transport; hotels and restaurants; information and communication; finance; real estate; science and technical "
    "services; office and support services; public administration; education; health and social work; arts, sport and "
    "recreation; repair and personal services; private households; international organisations"
).split("; ")
LETTERS = "ABCDEFGHIJKLMNOPRSTVWYZ"
AHEAD = {"calendar": ("start", "end"), "reminders": ("due",)}  # times that may lie ahead
DAYS_ASKED_FOR = 15  # of items and opens, before now or after it, as in the paper's example prompt
MOST_LISTED, MOST_OPENS, MOST_PEOPLE, MOST_ALSO = 8, 4, 5, 4  # of a list; further relevant items of a request
LINE = 240  # characters of an entry or a person that a prompt shows
# Of each step the longest answer, in tokens, and its temperature: answers that write are drawn, so that equal
# circumstances do not give equal data; those that decide are not.
STEPS = {"personas": (500, 0.7), "items": (40, 0.7), "queries": (160, 0.7), "tools": (40, 0.0), "plans": (240, 0.0),
         "thoughts": (120, 0.0)}  # fmt: skip
TOKENS_PER_ITEM = 240

KEPT_ANSWERS = Path("data") / "answers" / "generator_answers.jsonl"
KEPT_WORLD = WorldKnobs(n_personas=19, n_training_queries=114, n_evaluation_queries=38)  # that they are about

TYPE_OF: dict[str, Any] = {
    "string": Text,
    "integer": Annotated[int, Field(ge=-(2**53), le=2**53)],
    "number": FiniteFloat,
    "boolean": bool,
    "array": Annotated[list[Text], Field(min_length=1)],
}
# For types whose parts are known at run time alone, which a type checker cannot follow.
AnnotatedOf: Any = Annotated
OneOf: Any = Literal


def fields_of(model: type[BaseModel], without: Collection[str]) -> dict[str, Any]:
    """Fields of a model for a form, as they are there; lists are short."""
    fields = {}
    for name, field in model.model_fields.items():
        short = Field(max_length=MOST_PEOPLE if name == "people" else MOST_LISTED)
        kind = AnnotatedOf[field.annotation, short] if get_origin(field.annotation) is list else field.annotation
        fields[name] = (kind, field)
    return {name: fields[name] for name in fields if name not in without}


Profile = create_model("Profile", __base__=Strict, **fields_of(Persona, ("id", "age", "today", "log_until", "apps")))


class Thought(Strict):  # a docstring of a form would stand in its JSON schema, and so in prompts
    thought: Text


def moments(today: datetime, first: int, last: int) -> Any:
    """A time within a year of `today`, asked for on its days `first` to `last`; not after it where these are past."""
    a_year = timedelta(days=365)
    latest = today if last < 0 else today + a_year

    def check(value: datetime) -> datetime:
        if not today - a_year <= value <= latest:
            raise ValueError(f"must be at most a year before {today:%Y-%m-%d} and not after {latest:%Y-%m-%dT%H:%M:%S}")
        return value

    days = "|".join(f"{today + timedelta(days=day):%Y-%m-%d}" for day in range(first, last + 1))
    schema = {"type": "string", "format": "date-time", "pattern": f"^({days})T([01][0-9]|2[0-3]):[0-5][0-9]:00$"}
    return AnnotatedOf[NaiveDatetime, AfterValidator(check), WithJsonSchema(schema)]


def persona_line(persona: Persona) -> str:
    """A persona in a prompt's words."""
    work = persona.profession + (f" at {persona.company}" if persona.company else "")
    tastes = {
        "hobbies": ", ".join(persona.hobbies),
        "music": persona.favorite_music_genre,
        "movies": persona.favorite_movie_genre,
        "cuisine": persona.favorite_cuisine,
        "sport": persona.favorite_sport,
        "life": ", ".join(persona.traits),
        "knows": ", ".join(f"{person.name} ({person.role})" for person in persona.people[:6]),
    }
    head = f"{persona.name}, {persona.age}, {work}" + (f", {persona.city}" if persona.city else "")
    parts = [head, *(f"{name}: {value}" for name, value in tastes.items() if value)]
    return "; ".join(part[:LINE] for part in parts) + "."


def entry_lines(persona: Persona, ids: Sequence[str] | None = None) -> list[str]:
    """A persona's items in a prompt, called e1, e2, …; of some `ids`, without a name, and who is named in them, since
    addresses and numbers are values of arguments."""
    lines = {}
    for number, (app, item) in enumerate(persona.items, start=1):
        text = item.text if len(item.text) <= LINE else f"{item.text[:LINE]} …"
        label = f"e{number}" if ids is None else "-"
        lines[item.id] = f"{label} ({APP_NAMES[app]}, {item.shown:%Y-%m-%d %H:%M}): {text}"
    if ids is None:
        return list(lines.values())
    shown = [lines[name] for name in ids]
    said = " ".join(shown)
    return shown + [f"- contact {p.name}: {p.email}, {p.phone}"[:LINE] for p in persona.people if p.name in said]


def items_question(persona: Persona, app: App, n: int) -> Question[Any]:
    """At most `n` items of an app as its schema has them; ids are given later."""
    today, days, kind = persona.today, timedelta(days=DAYS_ASKED_FOR), ITEM_TYPES[app]
    past, coming = moments(today, -DAYS_ASKED_FOR, -1), moments(today, 1, DAYS_ASKED_FOR)
    fields = fields_of(kind, ("id", "opens"))
    for name, (annotation, _) in fields.items():
        if annotation is NaiveDatetime:
            fields[name] = (coming if name in AHEAD.get(app, ()) else past, ...)
    opened = create_model("Open", __base__=Strict, time=(past, ...), place=(Place, ...))
    fields["opens"] = (AnnotatedOf[ListOf[opened], Field(max_length=MOST_OPENS)], ...)
    item = create_model(kind.__name__, __base__=Strict, **fields)
    items = AnnotatedOf[ListOf[item], Field(min_length=1, max_length=n)]
    first, last = (today, today + days) if app in AHEAD else (today - days, today)
    span = f"{today:%A %Y-%m-%dT%H:%M:%S}", f"{first:%Y-%m-%d}", f"{last:%Y-%m-%d}"
    form = create_model("Items", __base__=Strict, items=(items, ...))
    return Question(prompts.items_prompt(persona_line(persona), app, n, *span), form)


def query_question(persona: Persona, about: str, kind: str, moment: datetime, place: str) -> Question[Any]:
    """A request about the item with the id `about`; `also` names other entries that it needs."""
    labels = {item.id: f"e{number}" for number, (_, item) in enumerate(persona.items, start=1)}
    others = [label for name, label in labels.items() if name != about]
    also = ListOf[OneOf[tuple(others)]] if others else list[str]
    form = create_model(
        "Request",
        __base__=Strict,
        text=(Annotated[Text, Field(max_length=200)], ...),
        also=(AnnotatedOf[also, Field(max_length=MOST_ALSO if others else 0)], ...),
        apps=(Annotated[list[App], Field(min_length=1, max_length=3)], ...),
        topic=(Annotated[str, Field(min_length=1, max_length=60)], ...),
    )

    def check(answer: Any) -> None:
        if not all(any(map(str.isalnum, text)) for text in (answer.text, answer.topic)):
            raise ValueError("text and topic must have words")
        if normal_text(answer.text) in {normal_text(item.headline) for _, item in persona.items if item.id == about}:
            raise ValueError("text: must be what the person says, not a copy of the entry")

    when = f"{moment:%A %Y-%m-%d %H:%M} at this place: {place}"
    prompt = prompts.query_prompt(persona_line(persona), entry_lines(persona), labels[about], kind, when)
    return Question(prompt, form, check)


def call_question(
    query: Query, persona: Persona, relevant: Sequence[str], toolbox: Toolbox, api: str = ""
) -> Question[Any]:
    """Which tool serves a request, or with what arguments a named one; aliases, since pydantic may use such names."""
    tools = [f"{signature(one.function)}: {one.description}" for one in ([toolbox[api]] if api else toolbox.values())]
    lines = tools if api else [f"- {tool}" for tool in tools]
    when = f"{query.time:%A %Y-%m-%d %H:%M}, {query.place}"
    prompt = prompts.call_prompt(lines, query.text, when, entry_lines(persona, relevant), bool(api))
    if not api:
        return Question(prompt, create_model("Tool", __base__=Strict, api=(OneOf[(*toolbox, DEFAULT_API)], ...)))
    fields: dict[str, Any] = {}
    for number, (name, argument) in enumerate(toolbox[api].arguments.items()):
        default: dict[str, Any] = {} if argument.required else {"default": None}
        described = Field(alias=name, description=argument.description, **default)
        fields[f"argument_{number}"] = (TYPE_OF[argument.type], described)
    return Question(prompt, create_model("Arguments", __base__=Strict, **fields))


def thought_question(query: Query) -> Question[Thought]:
    """The expert's chain of thought of a training query: `cot_prompt` for an answer as JSON."""
    types = prompts.CONTEXT_TYPES["apps"]

    def check(answer: Thought) -> None:
        every = {name for names in prompts.CONTEXT_TYPES.values() for name in names}
        named = {name for name in every if re.search(rf"\b{name}\b", answer.thought.replace("Phone Call", "PhoneCall"))}
        if not named or not named <= set(types):
            raise ValueError(f"thought: must name one or more of {', '.join(types)}, and no other context type")

    return Question(prompts.cot_prompt(query.text, types).rpartition("\n\n")[0], Thought, check)


def draw_circumstances(n: int, rng: np.random.Generator) -> list[tuple[int, str, str]]:
    """Age, sector and initials of each persona; all different as long as there are any."""
    kinds = rng.permutation(len(SECTORS) * len(LETTERS) ** 2)
    drawn = []
    for index in range(n):
        letters, sector = divmod(int(kinds[index % len(kinds)]), len(SECTORS))
        first, last = divmod(letters, len(LETTERS))
        drawn.append((int(rng.integers(18, 76)), SECTORS[sector], f"{LETTERS[first]}. {LETTERS[last]}."))
    return drawn


Step = Callable[..., list[Any]]  # (its name, questions, n_items) to the valid answers, None where there is none
Draft = tuple[Persona, Query, dict[str, Any]]  # a query on its way through the steps, with the fields of its label


def write_world(
    model: Any, folder: str | Path, toolbox_file: str | Path, knobs: WorldKnobs, progress: bool = False
) -> pd.DataFrame:
    """Let a language model write the folder that `lib.assistant.world.read_world` reads.

    The model has the `generate` of `lib.generation.local.LocalModel`, and a cache: a stopped run goes on where it was.
    What it does not get right after being told what is wrong is left out and counted: a row a step, columns step,
    asked, valid (answers). Files are written last and together, in the place of an earlier world: an error leaves the
    folder as it was. Raises InputError, with the counts, where nothing is left, ModelError where it cannot be asked.
    """
    rows: list[dict[str, Any]] = []

    def step(name: str, questions: Sequence[Question], n_items: int = 0) -> list[Any]:
        tokens, temperature = STEPS[name]
        how: dict[str, Any] = {"temperature": temperature, "seed": knobs.seed, "progress": progress}
        answers = ask(model, questions, max_new_tokens=tokens + TOKENS_PER_ITEM * n_items, **how)
        rows.append({"step": name, "asked": len(answers), "valid": sum(answer is not None for answer in answers)})
        return answers

    rng, sizes = np.random.default_rng([knobs.seed, 11]), (knobs.n_training_queries, knobs.n_evaluation_queries)
    sides, personas = deal_sides(knobs.n_personas, *sizes, rng).tolist(), write_personas(step, knobs.n_personas, rng)
    split = {persona.id: sides[index] for index, persona in personas.items()}
    asking: list[Persona] = []
    for side, n in zip(SIDES, sizes, strict=True):
        people = [persona for persona in personas.values() if split[persona.id] == side]
        asking += [people[number % len(people)] for number in range(n if people else 0)]
    drafts = write_queries(step, asking, Toolbox.from_yaml(toolbox_file), knobs, rng)
    if not drafts:
        counts = "; ".join(f"{row['step']}: {row['valid']} of {row['asked']}" for row in rows)
        raise InputError(f"nothing is left of what the model wrote; valid answers: {counts}")
    written = {persona.id: persona.model_dump(mode="json", exclude_none=True) for persona, _, _ in drafts}
    records = {
        "personas": list(written.values()),
        "queries": [query.model_dump(mode="json") | {"split": split[query.persona]} for _, query, _ in drafts],
        "gold": [Gold(**labels).model_dump(mode="json") for _, _, labels in drafts],
    }
    with atomic_folder(Path(folder)) as fresh:
        for name, lines in records.items():
            text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
            (fresh / f"{name}.jsonl").write_text(text, encoding="utf-8", newline="\n")
        shutil.copy(toolbox_file, fresh / "toolbox.yaml")
        read_world(fresh)
    return pd.DataFrame(rows)


def write_personas(step: Step, n: int, rng: np.random.Generator) -> dict[int, Persona]:
    """At most `n` personas that have items, by their number."""
    circumstances, days, capacities = draw_circumstances(n, rng), rng.integers(21, size=n), draw_capacities(n, rng)
    personas = {}
    profiles = step("personas", [Question(prompts.persona_prompt(*one), Profile) for one in circumstances])
    for index, profile in enumerate(profiles):
        if profile is not None:
            today = FIRST_DAY + timedelta(days=int(days[index]), hours=6)
            about = profile.model_dump() | {"id": f"w{index:04d}", "age": circumstances[index][0]}
            personas[index] = Persona(today=today, apps=Apps(), **about)
    asked = [(p, app, n) for index, p in personas.items() for app, n in capacities[index].items() if n]
    questions = [items_question(persona, app, n) for persona, app, n in asked]
    answers = step("items", questions, max((n for *_, n in asked), default=0))
    for (persona, app, _), answer in zip(asked, answers, strict=True):
        written = enumerate(answer.items if answer else [])
        items = [ITEM_TYPES[app](id=f"{persona.id}-{app}-{n}", **item.model_dump()) for n, item in written]
        setattr(persona.apps, app, sorted(items, key=lambda item: (item.shown, item.id)))
    return {index: persona for index, persona in personas.items() if persona.items}


def write_queries(
    step: Step, asking: Sequence[Persona], toolbox: Toolbox, knobs: WorldKnobs, rng: np.random.Generator
) -> list[Draft]:
    """Requests, each about an item of the persona that asks it, voiced in the week after `today`: where time and place
    are to give the item away, by the habit that one of its opens shows, else at any waking moment. With the tool of
    each and its arguments, without which it is left out, and its chain of thought, which may be missing, as in a world
    of one's own files."""
    drawn, drafts = [], []
    for persona in asking:
        _, item = persona.items[rng.integers(len(persona.items))]
        kind = KINDS[rng.integers(len(KINDS))] if item.opens else "meaning"
        slot: Slot | None = None
        if kind != "meaning":
            time, place = dict(item.opens[rng.integers(len(item.opens))]).values()
            slot = Slot((time.weekday(),), time.hour + time.minute / 60, place)
        end = persona.today + timedelta(days=DAYS_OF_QUERIES)
        [moment] = draw_moments(slot, persona.today, end, 1, set(PLACES), knobs.habit_strength, rng)
        drawn.append((persona, item.id, kind, *moment))
    answers = step("queries", [query_question(*one) for one in drawn])
    for number, ((persona, about, kind, time, place), answer) in enumerate(zip(drawn, answers, strict=True)):
        if answer:
            name, ids = f"{persona.id}-q{number}", [item.id for _, item in persona.items]
            query = Query(id=name, persona=persona.id, text=answer.text, time=time, place=place)
            relevant = list(dict.fromkeys([about, *(ids[int(label[1:]) - 1] for label in answer.also)]))
            labels: dict[str, Any] = {"query": name, "kind": kind, "need": normal_text(answer.topic), "phrasing": name}
            drafts.append((persona, query, labels | {"relevant": relevant, "apps": list(dict.fromkeys(answer.apps))}))
    tools = step("tools", [call_question(q, p, labels["relevant"], toolbox) for p, q, labels in drafts])
    chosen = [(*draft, tool.api) for draft, tool in zip(drafts, tools, strict=True) if tool]
    calling = [one for one in chosen if one[-1] in toolbox]
    plans = step("plans", [call_question(q, p, labels["relevant"], toolbox, api) for p, q, labels, api in calling])
    arguments = {one[1].id: plan for one, plan in zip(calling, plans, strict=True)}
    labelled = [draft for draft in chosen if draft[-1] == DEFAULT_API or arguments[draft[1].id]]
    thoughts = step("thoughts", [thought_question(query) for _, query, *_ in labelled])
    for (_, query, labels, api), thought in zip(labelled, thoughts, strict=True):
        given = {} if api == DEFAULT_API else arguments[query.id].model_dump(by_alias=True, exclude_unset=True)
        labels |= {"apis": [api], "plan": print_call(api, given), "answers": [acceptable(api, given, toolbox)]}
        labels["cot"] = thought.thought if thought else ""
    return [(persona, query, labels) for persona, query, labels, _ in labelled]


def trials(
    world: World, n_personas: int, n_items: int, n_queries: int, seed: int
) -> tuple[dict[str, list[Question[Any]]], list[Gold]]:
    """What to ask in each step about a simulated world, and the labels of the queries that it is about: at most
    `n_queries` of those that one call of one tool serves. Apps of `n_personas` are to be filled, by at most `n_items`.
    """
    rng = np.random.default_rng([seed, 14])
    personas = {world.personas[i].id: world.personas[i] for i in rng.permutation(len(world.personas))}
    place = {name: number for number, name in enumerate(personas)}
    served = [
        (query, personas[query.persona], gold)
        for query, gold in zip(world.queries, world.gold, strict=True)
        if len(gold.apis) == 1 and gold.apis[0] != DEFAULT_API
    ]
    # Queries of one persona stand together: what their prompts begin with in common is read once.
    served = sorted(served, key=lambda one: place[one[1].id])[:n_queries]
    questions: dict[str, list[Question[Any]]] = {
        "personas": [Question(prompts.persona_prompt(*one), Profile) for one in draw_circumstances(n_queries, rng)],
        "items": [
            items_question(persona, app, min(n_items, n))
            for persona in list(personas.values())[:n_personas]
            for app, n in Counter(app for app, _ in persona.items).items()
        ],
        "queries": [query_question(p, g.relevant[0], g.kind, q.time, q.place) for q, p, g in served],
        "tools": [call_question(q, p, g.relevant, world.toolbox) for q, p, g in served],
        "plans": [call_question(q, p, g.relevant, world.toolbox, g.apis[0]) for q, p, g in served],
        "thoughts": [thought_question(q) for q, _, _ in served],
    }
    return questions, [gold for _, _, gold in served]


def is_right(step: str, answer: Any, gold: Gold, toolbox: Toolbox) -> bool:
    """Whether a tool, or the arguments of the right tool, are the simulator's."""
    if answer is None or step == "tools":
        return answer is not None and answer.api == gold.apis[0]
    call = print_call(gold.apis[0], answer.model_dump(by_alias=True, exclude_unset=True))
    return bool(ast_match(call, gold.answers, [toolbox[gold.apis[0]].function]))


def kept_trials(root: Path, seed: int) -> pd.DataFrame:
    """What became of `INSTRUCT_MODEL`'s kept answers about a small simulated world, given freely and under the schema,
    a wrong one asked for again once: columns step, way, valid (0 or 1), right (NaN but of a tool or plan); no row where
    an answer is not kept."""
    world = simulate(root / "data", replace(KEPT_WORLD, seed=seed))
    asked, labels = trials(world, n_personas=4, n_items=3, n_queries=60, seed=seed)
    kept, rows = KeptModel(Answers(root / KEPT_ANSWERS), weights_of(INSTRUCT_MODEL)), []
    try:
        for way, constrained in (("free", False), ("under the schema", True)):
            for step, questions in asked.items():
                tokens, temperature = STEPS[step]
                tokens = 400 if step == "items" else min(tokens, 400)  # of a kept answer
                settings = {"max_new_tokens": tokens, "temperature": temperature, "seed": seed}
                answers = ask(kept, questions, **settings, constrained=constrained, rounds=1)
                right = [np.nan] * len(answers)
                if step in ("tools", "plans"):
                    right = [float(is_right(step, *pair, world.toolbox)) for pair in zip(answers, labels, strict=True)]
                rows += [(step, way, int(a is not None), ok) for a, ok in zip(answers, right, strict=True)]
    except ModelError:
        rows = []
    return pd.DataFrame(rows, columns=["step", "way", "valid", "right"])


def rehearse(model: Any, world: World, seed: int) -> None:
    """Let a `lib.generation.remote.DryRun` count what `write_world` would ask, by a simulated world of its size."""
    filled = [n for persona in world.personas for n in Counter(app for app, _ in persona.items).values()]
    asked, _ = trials(world, n_personas=12, n_items=max(filled), n_queries=24, seed=seed)
    n = {"personas": len(world.personas), "items": len(filled)}
    for step, questions in asked.items():
        tokens = STEPS[step][0] + TOKENS_PER_ITEM * max(filled) * (step == "items")
        model.expect([question.text for question in questions], n.get(step, len(world.queries)), tokens)
