"""A language model in the simulator's place: it writes personas, items, tools, requests, calls and chains of thought.

The steps are those of the assistant paper's appendix A.1 to A.6, the prompts are our own. Numbers, traits to begin
with, what a request is about, when and where it is voiced are drawn, so that a model need not be good at chance; every
text is the model's. Nothing is put in the place of an answer that is wrong to the end.

`write_world` lets a model write a whole world, in the form of one's own files. `trials` asks each step about what the
simulator made, so that a step's n does not depend on what the steps before it lost.
"""

from __future__ import annotations

import json
import keyword
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, Literal, get_origin

import numpy as np
import pandas as pd
import yaml
from pydantic import AfterValidator, BaseModel, Field, FiniteFloat, NaiveDatetime, WithJsonSchema, create_model

from lib.assistant.chains import named_types
from lib.assistant.needs import KINDS, Kind, parse_call
from lib.assistant.personas import FIRST_DAY, WAKING_HOURS, Moment, draw_capacities, somewhere
from lib.assistant.plans import ast_match
from lib.assistant.prompts import (
    CONTEXT_TYPES,
    items_prompt,
    persona_prompt,
    plan_prompt,
    query_prompt,
    thought_prompt,
    tool_prompt,
    toolbox_prompt,
)
from lib.assistant.queries import DAYS_OF_QUERIES, Gold, Query, acceptable, deal_counts, normal_text, print_call
from lib.assistant.schemas import (
    APP_NAMES,
    APPS,
    ITEM_TYPES,
    PLACES,
    TIME_FIELDS,
    App,
    Apps,
    Item,
    Persona,
    Place,
    WorldKnobs,
    by_time,
)
from lib.assistant.toolbox import DEFAULT_API, AnyAPI, Argument, ArgumentType, OwnAPI, Toolbox, signature
from lib.assistant.world import FILES, SIDES, World, deal_sides, read_world, simulate
from lib.generation.answers import INSTRUCT_MODEL, Answers, KeptModel
from lib.generation.local import weights_of
from lib.generation.models import ModelError
from lib.generation.structured import Form, Question, Reply, ask
from lib.workbook.artifacts import atomic_folder
from lib.workbook.inputs import InputError, Strict, Text
from lib.workbook.parameters import Parameters

# Sections of the International Standard Industrial Classification (ISIC, revision 4), in short.
SECTORS = (
    "agriculture, forestry and fishing", "mining", "manufacturing", "energy supply", "water and waste", "construction",
    "trade", "transport", "hotels and restaurants", "information and communication", "finance", "real estate",
    "science and technical services", "office and support services", "public administration", "education",
    "health and social work", "arts, sport and recreation", "repair and personal services", "private households",
    "international organisations",
)  # fmt: skip
LETTERS = "ABCDEFGHIJKLMNOPRSTVWYZ"
DAYS_OF_TODAYS = 21  # over which the personas' data were collected, as in the simulator
AHEAD = {"calendar": ("start", "end"), "reminders": ("due",)}  # times that may lie ahead
DAYS_ASKED_FOR = 15  # of items and opens, before now or after it, as in the paper's example prompt
DAYS_AT_MOST = 365
MOST_OPENS, MOST_LISTED, MOST_PEOPLE = 4, 8, 5  # of an item; entries of a list; whom a persona knows
MOST_ALSO = 4  # relevant items besides the one that a request is about
LEAST_APPS = 0.5  # share of the apps asked for without which a persona is dropped
APIS_PER_APP = {  # assistant paper, Table 5
    "music": 11, "google": 10, "notes": 9, "mail": 8, "phone_call": 8, "calendar": 7, "reminders": 6,
}  # fmt: skip
LINE = 240  # characters of an entry or a person that a prompt shows
# Answers that write are drawn, so that equal circumstances do not give equal data; those that decide are not.
TEMPERATURE, DECIDING = 0.7, ("tools", "plans", "thoughts")
TOKENS = {"personas": 500, "items": 40, "toolbox": 1600, "queries": 160, "tools": 40, "plans": 240, "thoughts": 120}
TOKENS_PER_ITEM = 240

KEPT_ANSWERS = Path("data") / "answers" / "generator_answers.jsonl"
KEPT_WORLD: dict[str, Any] = {
    "n_personas": 19,
    "n_training_queries": 114,
    "n_evaluation_queries": 38,
}  # that they are about
KEPT_TOKENS = 400  # of an answer at most


# ---------------------------------------------------------------- forms: what answers must be


Short = Annotated[str, Field(min_length=1, max_length=60)]
Name = Annotated[str, Field(pattern="^[a-z][a-z0-9_]{0,40}$")]
TYPE_OF: dict[str, Any] = {
    "string": Text,
    "integer": Annotated[int, Field(ge=-(2**53), le=2**53)],
    "number": FiniteFloat,
    "boolean": bool,
    "array": Annotated[list[Text], Field(min_length=1)],
}
# For types whose parts are known at run time alone, which a type checker cannot follow.
AnnotatedOf: Any = Annotated
ListOf: Any = list
OneOf: Any = Literal


def fields_of(model: type[BaseModel], *names: str) -> dict:
    """Fields of a model for a form, as they are there; lists are short."""
    fields = {}
    for name in names:
        kind = model.model_fields[name].annotation
        most = MOST_PEOPLE if name == "people" else MOST_LISTED
        short = AnnotatedOf[kind, Field(max_length=most)] if get_origin(kind) is list else kind
        fields[name] = (short, model.model_fields[name])
    return fields


Profile = create_model(
    "Profile",
    __base__=Strict,
    **fields_of(
        Persona, "name", "profession", "company", "city", "hobbies", "favorite_music_genre", "favorite_movie_genre",
        "favorite_cuisine", "favorite_sport", "traits", "people",
    ),
)  # fmt: skip


# A docstring of a form would stand in its JSON schema, and so in prompts.
class NamedArgument(Strict):
    name: Name
    description: Text
    type: ArgumentType = "string"
    required: bool = True


class WrittenAPI(Strict):
    api: Name
    description: Text
    arguments: list[NamedArgument] = Field(max_length=MOST_LISTED)


class WrittenAPIs(Strict):
    apis: list[WrittenAPI]


class Thought(Strict):
    thought: Text


def moments(today: datetime, first: int, last: int) -> Any:
    """A local time within a year of `today`, asked for on its days `first` to `last`; not after it where these lie
    before it."""
    latest = today if last < 0 else today + timedelta(days=DAYS_AT_MOST)

    def check(value: datetime) -> datetime:
        if not today - timedelta(days=DAYS_AT_MOST) <= value <= latest:
            raise ValueError(f"must be at most a year before {today:%Y-%m-%d} and not after {latest:%Y-%m-%dT%H:%M:%S}")
        return value

    days = "|".join(f"{today + timedelta(days=day):%Y-%m-%d}" for day in range(first, last + 1))
    schema = {"type": "string", "format": "date-time", "pattern": f"^({days})T([01][0-9]|2[0-3]):[0-5][0-9]:00$"}
    return Annotated[NaiveDatetime, AfterValidator(check), WithJsonSchema(schema)]


def items_form(app: str, n: int, today: datetime) -> Any:
    """At most `n` items of an app as its schema has them; ids are given later."""
    past, coming = moments(today, -DAYS_ASKED_FOR, -1), moments(today, 1, DAYS_ASKED_FOR)
    kind = ITEM_TYPES[app]
    fields = fields_of(kind, *(name for name in kind.model_fields if name not in ("id", "opens")))
    for name, (annotation, _) in fields.items():
        if annotation is NaiveDatetime:
            fields[name] = (coming if name in AHEAD.get(app, ()) else past, ...)
    opened = create_model("Open", __base__=Strict, time=(past, ...), place=(Place, ...))
    fields["opens"] = (AnnotatedOf[ListOf[opened], Field(max_length=MOST_OPENS)], ...)
    item = create_model(kind.__name__, __base__=Strict, **fields)
    items = AnnotatedOf[ListOf[item], Field(min_length=1, max_length=n)]
    return create_model("Items", __base__=Strict, items=(items, ...))


def query_form(others: Sequence[str]) -> Any:
    """A request; `others` are the numbers of the entries that it may need besides the one it is about."""
    also = ListOf[OneOf[tuple(others)]] if others else list[str]
    return create_model(
        "Request",
        __base__=Strict,
        text=(Annotated[Text, Field(max_length=200)], ...),
        also=(AnnotatedOf[also, Field(max_length=MOST_ALSO if others else 0)], ...),
        apps=(Annotated[list[App], Field(min_length=1, max_length=3)], ...),
        topic=(Short, ...),
    )


def arguments_form(api: AnyAPI) -> type[Strict]:
    """The arguments of a call. Their names are aliases, since they may be ones that models use themselves."""
    fields: dict[str, Any] = {}
    for number, (name, argument) in enumerate(api.arguments.items()):
        default: dict[str, Any] = {} if argument.required else {"default": None}
        described = Field(alias=name, description=argument.description, **default)
        fields[f"argument_{number}"] = (TYPE_OF[argument.type], described)
    return create_model("Arguments", __base__=Strict, **fields)


def arguments_of(answer: BaseModel) -> dict[str, object]:
    """What an answer of `arguments_form` gives, by the arguments' own names."""
    return answer.model_dump(by_alias=True, exclude_unset=True)


# ---------------------------------------------------------------- questions: a step's prompt, form and check


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


def entry_line(item: Item, app: str, label: str = "-") -> str:
    """An item in a prompt: app, time, text."""
    text = item.text if len(item.text) <= LINE else f"{item.text[:LINE]} …"
    return f"{label} ({APP_NAMES[app]}, {getattr(item, TIME_FIELDS[app]):%Y-%m-%d %H:%M}): {text}"


def items_of(persona: Persona) -> dict[str, tuple[Item, str]]:
    """A persona's items with their apps, by id."""
    return {item.id: (item, app) for app in APPS for item in getattr(persona.apps, app)}


def entry_labels(persona: Persona) -> dict[str, str]:
    """Ids of a persona's items by what a prompt calls them: an id of ours would take many tokens."""
    return {f"e{number}": name for number, name in enumerate(items_of(persona), start=1)}


def entry_lines(persona: Persona, ids: Sequence[str]) -> list[str]:
    """Items in a prompt, and who is named in them: their addresses and numbers are values of arguments."""
    items = items_of(persona)
    lines = [entry_line(*items[name]) for name in ids]
    said = " ".join(lines)
    contacts = [f"- contact {p.name}: {p.email}, {p.phone}"[:LINE] for p in persona.people if p.name in said]
    return lines + contacts


def persona_question(age: int, sector: str, initials: str) -> Question[Strict]:
    return Question(persona_prompt(age, sector, initials), Profile)


def items_question(persona: Persona, app: str, n: int) -> Question[Any]:
    now, days = f"{persona.today:%A %Y-%m-%dT%H:%M:%S}", timedelta(days=DAYS_ASKED_FOR)
    span = (persona.today, persona.today + days) if app in AHEAD else (persona.today - days, persona.today)
    prompt = items_prompt(persona_line(persona), app, n, now, *(f"{day:%Y-%m-%d}" for day in span))
    return Question(prompt, items_form(app, n, persona.today))


def query_question(persona: Persona, about: str, kind: str, moment: datetime, place: str) -> Question[Any]:
    """About the item with the id `about`, voiced at a moment and place."""
    items, names = items_of(persona), entry_labels(persona)
    lines = [entry_line(*items[name], label) for label, name in names.items()]
    called = next(label for label, name in names.items() if name == about)
    when = f"{moment:%A %Y-%m-%d %H:%M} at this place: {place}"
    copied = normal_text(items[about][0].headline)

    def check(answer: Any) -> None:
        if not all(any(map(str.isalnum, text)) for text in (answer.text, answer.topic)):
            raise ValueError("text and topic must have words")
        if normal_text(answer.text) == copied:
            raise ValueError("text: must be what the person says, not a copy of the entry")

    prompt = query_prompt(persona_line(persona), lines, called, kind, when)
    return Question(prompt, query_form([label for label in names if label != called]), check)


def tool_question(query: Query, persona: Persona, relevant: Sequence[str], toolbox: Toolbox) -> Question[Any]:
    tools = [f"- {signature(api.function)}: {api.description}" for api in toolbox]
    when = f"{query.time:%A %Y-%m-%d %H:%M}, {query.place}"
    form = create_model("Tool", __base__=Strict, api=(OneOf[(*toolbox.apis, DEFAULT_API)], ...))
    return Question(tool_prompt(tools, query.text, when, entry_lines(persona, relevant)), form)


def plan_question(query: Query, persona: Persona, relevant: Sequence[str], api: AnyAPI) -> Question[Strict]:
    when = f"{query.time:%A %Y-%m-%d %H:%M}, {query.place}"
    tool = f"{signature(api.function)}: {api.description}"

    def check(answer: BaseModel) -> None:
        arguments = arguments_of(answer)
        if parse_call(print_call(api.api, arguments)) != (api.api, arguments):
            raise ValueError("the arguments cannot be written as a call")

    return Question(plan_prompt(tool, query.text, when, entry_lines(persona, relevant)), arguments_form(api), check)


def thought_question(query: Query) -> Question[Thought]:
    types = CONTEXT_TYPES["apps"]

    def check(answer: Thought) -> None:
        named = named_types(answer.thought)
        if not named or not set(named) <= set(types):
            raise ValueError(f"thought: must name one or more of {', '.join(types)}, and no other context type")

    return Question(thought_prompt(query.text, types), Thought, check)


def toolbox_question(app: str) -> Question[WrittenAPIs]:
    n = APIS_PER_APP[app]
    apis = Annotated[list[WrittenAPI], Field(min_length=1, max_length=n)]

    def check(answer: WrittenAPIs) -> None:
        for record in answer.apis:
            names = [record.api, *(argument.name for argument in record.arguments)]
            if len(set(names[1:])) < len(names[1:]):
                raise ValueError(f"{record.api}: two arguments have one name")
            if bad := [name for name in names if keyword.iskeyword(name) or name == DEFAULT_API]:
                raise ValueError(f"{record.api}: {bad[0]} is reserved: take another name")

    return Question(toolbox_prompt(app, n), create_model("APIs", __base__=WrittenAPIs, apis=(apis, ...)), check)


def draw_settings(step: str, seed: int, n_items: int = 0) -> dict[str, Any]:
    """How a step's answers are drawn; one of the step `items` holds `n_items` at most."""
    tokens = TOKENS[step] + (TOKENS_PER_ITEM * n_items if step == "items" else 0)
    return {"max_new_tokens": tokens, "temperature": 0.0 if step in DECIDING else TEMPERATURE, "seed": seed}


# ---------------------------------------------------------------- a whole world


class Writer:
    """Asks a model step by step and counts what came of it, one row of `rows` a step."""

    def __init__(self, model: Any, seed: int, progress: bool):
        self.model, self.seed, self.progress = model, seed, progress
        self.rows: list[dict[str, Any]] = []

    def ask(self, step: str, questions: Sequence[Question[Form]], n_items: int = 0) -> list[Form | None]:
        """The valid answers, None where there is none."""
        settings = draw_settings(step, self.seed, n_items)
        replies = ask(self.model, questions, progress=self.progress, **settings)
        valid = [reply for reply in replies if reply.value is not None]
        at_once = sum(not reply.errors for reply in valid)
        self.rows.append({"step": step, "asked": len(replies), "at_once": at_once, "valid": len(valid)})
        self.keep(len(valid))
        return [reply.value for reply in replies]

    def keep(self, n: int) -> None:
        """How many things of the last step's answers the world keeps: none twice."""
        self.rows[-1]["kept"] = n


@dataclass
class WrittenQuery:
    """A query on its way through the steps."""

    side: str
    persona: Persona
    query: Query
    kind: Kind
    topic: str
    relevant: list[str]
    apps: list[App]
    api: str = DEFAULT_API
    arguments: dict[str, object] = field(default_factory=dict)
    thought: str = ""

    def gold(self, toolbox: Toolbox) -> Gold:
        return Gold(
            query=self.query.id,
            kind=self.kind,
            need=self.topic,
            phrasing=self.query.id,
            relevant=self.relevant,
            apis=[self.api],
            apps=self.apps,
            plan=print_call(self.api, self.arguments),
            answers=[acceptable(self.api, self.arguments, toolbox)],
            cot=self.thought,
        )


def write_world(
    model: Any,
    folder: str | Path,
    toolbox: Toolbox | None,
    n_personas: int,
    n_training_queries: int,
    n_evaluation_queries: int,
    seed: int,
    progress: bool = False,
) -> pd.DataFrame:
    """Let a language model write the folder that `lib.assistant.world.read_world` reads.

    Answers come from the model's cache where they are there, so a run that was stopped goes on where it was. What the
    model does not get right after being told what is wrong is left out and counted, so that a world may have fewer
    personas and queries than asked for. Files are written last and together: an error leaves the folder as it was.

    Args:
        model: has the `generate` of `lib.generation.local.LocalModel`.
        folder: gets the files of a world; an earlier one in it is replaced.
        toolbox: the APIs to plan with; None lets the model write them too (appendix A.3).
        n_personas: of both sides together; a persona is on one side only.
        seed: of what is drawn, and of the model's own draws.

    Returns:
        One row a step: step, asked, at_once and valid (answers; the rest of the valid ones after being told what was
        wrong), kept (personas, items, APIs, queries that the world has of them).

    Raises:
        InputError: nothing is left of one side, with the counts, or the folder holds something else than a world.
        ModelError: the model cannot be asked; what it has answered is in its cache.
        ValueError: a number makes no sense.
    """
    if n_personas < 2 or min(n_training_queries, n_evaluation_queries) < 1:
        raise ValueError("a world needs two personas or more, and a query or more on each side")
    folder = Path(folder)
    if folder.exists() and (others := sorted({path.name for path in folder.iterdir()} - set(FILES))):
        raise InputError(f"{folder}: holds {others[0]}, which belongs to no written world")
    rng, writer = np.random.default_rng([seed, 11]), Writer(model, seed, progress)
    sides = deal_sides(n_personas, n_training_queries, n_evaluation_queries, rng)
    personas = write_personas(writer, draw_circumstances(n_personas, rng))
    write_items(writer, personas, draw_capacities(n_personas, rng))
    toolbox = toolbox or write_toolbox(writer)
    wanted: dict[int, int] = {}
    for side, n in zip(SIDES, (n_training_queries, n_evaluation_queries), strict=True):
        wanted |= deal_queries(n, [index for index in personas if sides[index] == side], rng)
    drafts = write_queries(writer, personas, wanted, sides)
    drafts = write_labels(writer, drafts, toolbox)
    for side in SIDES:
        if side not in {draft.side for draft in drafts}:
            counts = "; ".join(f"{row['step']}: {row['valid']} of {row['asked']}" for row in writer.rows)
            raise InputError(f"nothing of the {side} side is left of what the model wrote; valid answers: {counts}")
    save(folder, drafts, toolbox)
    return pd.DataFrame(writer.rows)


def deal_queries(n: int, people: Sequence[int], rng: np.random.Generator) -> dict[int, int]:
    """How many of `n` queries each persona asks; where there are fewer queries than personas, the last ask none."""
    counts = deal_counts(n, len(people), rng) if n >= len(people) > 0 else [1] * n + [0] * (len(people) - n)
    return dict(zip(people, counts, strict=False))


def draw_circumstances(n: int, rng: np.random.Generator) -> list[tuple[int, str, str]]:
    """Age, sector and initials of each persona; all different as long as there are any."""
    kinds = rng.permutation(len(SECTORS) * len(LETTERS) ** 2)
    drawn = []
    for index in range(n):
        letters, sector = divmod(int(kinds[index % len(kinds)]), len(SECTORS))
        first, last = divmod(letters, len(LETTERS))
        drawn.append((int(rng.integers(18, 76)), SECTORS[sector], f"{LETTERS[first]}. {LETTERS[last]}."))
    return drawn


def write_personas(writer: Writer, circumstances: Sequence[tuple[int, str, str]]) -> dict[int, Persona]:
    """Personas without items, by their number; of two with one name the first is kept."""
    answers = writer.ask("personas", [persona_question(*one) for one in circumstances])
    kept: dict[str, tuple[int, Persona]] = {}
    for index, (profile, (age, _, _)) in enumerate(zip(answers, circumstances, strict=True)):
        if profile is not None:
            days = int(np.random.default_rng([writer.seed, 12, index]).integers(DAYS_OF_TODAYS))
            today = FIRST_DAY + timedelta(days=days, hours=6)
            persona = Persona(id=f"w{index:04d}", age=age, today=today, apps=Apps(), **profile.model_dump())
            kept.setdefault(normal_text(persona.name), (index, persona))
    writer.keep(len(kept))
    return dict(kept.values())


def write_items(writer: Writer, personas: dict[int, Persona], capacities: Sequence[dict[str, int]]) -> None:
    """Fill the apps of the personas, no item twice; a persona that has got too few of its apps is taken out."""
    asked = [(index, app, capacities[index][app]) for index in personas for app in APPS if capacities[index][app]]
    most = max((n for _, _, n in asked), default=0)
    answers = writer.ask("items", [items_question(personas[index], app, n) for index, app, n in asked], most)
    for (index, app, _), answer in zip(asked, answers, strict=True):
        items: dict[str, Item] = {}
        for number, written in enumerate(answer.items if answer else []):
            named = {"id": f"{personas[index].id}-{app}-{number}", **written.model_dump()}
            item = ITEM_TYPES[app].model_validate(named)
            items.setdefault(normal_text(item.text), item)
        setattr(personas[index].apps, app, by_time(items.values(), app))
    writer.keep(sum(len(items_of(persona)) for persona in personas.values()))
    for index in list(personas):
        wanted = sum(capacities[index][app] > 0 for app in APPS)
        got = sum(bool(getattr(personas[index].apps, app)) for app in APPS)
        if not got or got < LEAST_APPS * wanted:
            del personas[index]


def write_toolbox(writer: Writer) -> Toolbox:
    """A toolbox of the model's own; of two APIs with one name the first is kept."""
    apis: dict[str, OwnAPI] = {}
    for app, answer in zip(APPS, writer.ask("toolbox", [toolbox_question(app) for app in APPS]), strict=True):
        for record in answer.apis if answer else []:
            arguments = {part.name: Argument(**part.model_dump(exclude={"name"})) for part in record.arguments}
            api = OwnAPI(api=record.api, app=app, description=record.description, arguments=arguments)
            apis.setdefault(record.api, api)
    writer.keep(len(apis))
    if not apis:
        raise InputError("the model wrote no usable API")
    return Toolbox(list(apis.values()))


def write_queries(
    writer: Writer, personas: dict[int, Persona], wanted: dict[int, int], sides: Sequence[str] | np.ndarray
) -> list[WrittenQuery]:
    """Requests about the personas' items, as many of each persona as wanted; no two with one text."""
    drawn = []
    for index, persona in personas.items():
        rng = np.random.default_rng([writer.seed, 13, index])
        items = list(items_of(persona).values())
        order = rng.permutation(len(items))
        for number in range(wanted.get(index, 0)):
            item = items[order[number % len(items)]][0]
            kind = KINDS[rng.integers(len(KINDS))] if item.opens else "meaning"  # no habit without opens
            drawn.append((index, number, item.id, kind, *voicing(item, kind, persona.today, rng)))
    answers = writer.ask("queries", [query_question(personas[index], *rest) for index, _, *rest in drawn])
    drafts: dict[str, WrittenQuery] = {}
    for (index, number, about, kind, moment, place), answer in zip(drawn, answers, strict=True):
        if answer is not None:
            persona = personas[index]
            query = Query(id=f"{persona.id}-q{number}", persona=persona.id, text=answer.text, time=moment, place=place)
            relevant = list(dict.fromkeys([about, *(entry_labels(persona)[label] for label in answer.also)]))
            apps, topic = list(dict.fromkeys(answer.apps)), normal_text(answer.topic)
            draft = WrittenQuery(str(sides[index]), persona, query, kind, topic, relevant, apps)
            drafts.setdefault(normal_text(answer.text), draft)
    writer.keep(len(drafts))
    return list(drafts.values())


def voicing(item: Item, kind: str, today: datetime, rng: np.random.Generator) -> Moment:
    """When and where a request about an item is voiced, in the week after `today`: where these are to give it away, at
    the place of one of its opens, the same weekday, and its hour with the simulator's default noise; else, and where
    the habit is broken as often as the simulator breaks it, at a waking hour anywhere."""
    if kind != "meaning" and item.opens and rng.random() < WorldKnobs.habit_strength:
        opened = item.opens[rng.integers(len(item.opens))]
        weeks = math.ceil((today - opened.time) / timedelta(days=7))
        moment = opened.time + timedelta(days=7 * weeks, hours=float(rng.normal(0, WorldKnobs.hour_noise)))
        return max(moment, today + timedelta(minutes=1)).replace(second=0, microsecond=0), opened.place
    midnight = today.replace(hour=0, minute=0) + timedelta(days=1 + int(rng.integers(DAYS_OF_QUERIES)))
    moment = midnight + timedelta(minutes=int(60 * rng.uniform(*WAKING_HOURS)))
    return moment, somewhere(moment, set(PLACES), rng)


def write_labels(writer: Writer, drafts: Sequence[WrittenQuery], toolbox: Toolbox) -> list[WrittenQuery]:
    """The tool of each query and its arguments, without which a query is left out, and its chain of thought, which may
    be missing, as in a world of one's own files."""
    which = [tool_question(draft.query, draft.persona, draft.relevant, toolbox) for draft in drafts]
    for draft, tool in zip(drafts, writer.ask("tools", which), strict=True):
        draft.api = tool.api if tool else ""
    calling = [draft for draft in drafts if draft.api in toolbox]
    how = [plan_question(draft.query, draft.persona, draft.relevant, toolbox[draft.api]) for draft in calling]
    for draft, plan in zip(calling, writer.ask("plans", how), strict=True):
        draft.arguments, draft.api = (arguments_of(plan), draft.api) if plan else ({}, "")
    drafts = [draft for draft in drafts if draft.api]
    thoughts = writer.ask("thoughts", [thought_question(draft.query) for draft in drafts])
    for draft, answer in zip(drafts, thoughts, strict=True):
        draft.thought = answer.thought if answer else ""
    return drafts


def save(folder: Path, drafts: Sequence[WrittenQuery], toolbox: Toolbox) -> None:
    """The folder of a world, read back before it takes the place of an earlier one."""
    personas = {draft.persona.id: draft.persona for draft in drafts}
    records = {
        "personas": [personas[name].model_dump(mode="json") for name in sorted(personas)],
        "queries": [draft.query.model_dump(mode="json") | {"split": draft.side} for draft in drafts],
        "gold": [draft.gold(toolbox).model_dump(mode="json", exclude={"also"}) for draft in drafts],
    }
    apis = [api.model_dump(mode="json", exclude_none=True) for api in toolbox]
    with atomic_folder(folder) as fresh:
        for name, lines in records.items():
            text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
            (fresh / f"{name}.jsonl").write_text(text, encoding="utf-8", newline="\n")
        (fresh / "toolbox.yaml").write_text(yaml.safe_dump(apis, allow_unicode=True, sort_keys=False), encoding="utf-8")
        read_world(fresh)


# ---------------------------------------------------------------- step by step, about what the simulator made


@dataclass(frozen=True)
class Trial:
    """The questions of a step, how they are asked, and the query that each is about, where it is about one."""

    questions: list[Question[Any]]
    settings: dict[str, Any]
    queries: list[str]


def trials(world: World, n_personas: int, n_items: int, n_queries: int, seed: int) -> dict[str, Trial]:
    """What to ask in each step about a simulated world.

    Args:
        n_personas: personas whose apps are to be filled, one question an app.
        n_items: items of an app asked for at most; never more than the persona has there.
        n_queries: questions of each other step. Queries are those that one call of one tool serves; fewer where the
            world has no more.
        seed: of what is drawn.
    """
    rng = np.random.default_rng([seed, 14])
    order = rng.permutation(len(world.personas))
    personas = {world.personas[i].id: world.personas[i] for i in order}
    place = {name: number for number, name in enumerate(personas)}
    pairs = [
        (query, gold)
        for query, gold in zip(world.queries, world.gold, strict=True)
        if len(gold.apis) == 1 and gold.apis[0] != DEFAULT_API
    ]
    # Queries of one persona stand together: what their prompts begin with in common is read once.
    pairs = sorted(pairs, key=lambda pair: place[pair[0].persona])[:n_queries]
    named = [(query, personas[query.persona], gold) for query, gold in pairs]
    apps = [
        (personas[name], app, min(n_items, len(getattr(personas[name].apps, app))))
        for name in list(personas)[:n_personas]
        for app in APPS
        if getattr(personas[name].apps, app)
    ]
    questions: dict[str, list[Question[Any]]] = {
        "personas": [persona_question(*one) for one in draw_circumstances(n_queries, rng)],
        "items": [items_question(*one) for one in apps],
        "queries": [query_question(p, g.relevant[0], g.kind, q.time, q.place) for q, p, g in named],
        "tools": [tool_question(q, p, g.relevant, world.toolbox) for q, p, g in named],
        "plans": [plan_question(q, p, g.relevant, world.toolbox[g.apis[0]]) for q, p, g in named],
        "thoughts": [thought_question(q) for q, _, _ in named],
    }
    asked = [query.id for query, _ in pairs]
    return {step: Trial(some, draw_settings(step, seed, n_items), asked) for step, some in questions.items()}


def trial_outcomes(asked: Mapping[str, Trial], replies: Mapping[str, list[Reply[Any]]], world: World) -> pd.DataFrame:
    """One row a question: step, at_once and valid (0 or 1), right (whether a tool or plan is the simulator's; NaN for
    other steps; 0 where there is no valid answer)."""
    gold = {entry.query: entry for entry in world.gold}
    rows = []
    for step, trial in asked.items():
        for number, reply in enumerate(replies[step]):
            right = float("nan")
            if step in ("tools", "plans"):
                label = gold[trial.queries[number]]
                if reply.value is None:
                    right = 0.0
                elif step == "tools":
                    right = float(reply.value.api == label.apis[0])
                else:
                    call = print_call(label.apis[0], arguments_of(reply.value))
                    right = float(bool(ast_match(call, label.answers, world.toolbox.functions)))
            rows.append((step, int(not reply.errors), int(reply.value is not None), right))
    return pd.DataFrame(rows, columns=["step", "at_once", "valid", "right"])


def kept_trials(root: Path, seed: int) -> pd.DataFrame:
    """What became of `INSTRUCT_MODEL`'s kept answers about a small simulated world, given freely and under the schema,
    a wrong one asked for again once: `trial_outcomes` with a column way; without rows where an answer is not kept.

    Args:
        root: the project's folder.
        seed: of the world and of the answers that are drawn.
    """
    world = simulate(root / "data", WorldKnobs(seed=seed, **KEPT_WORLD))
    asked = trials(world, n_personas=4, n_items=3, n_queries=60, seed=seed)
    kept, parts = KeptModel(Answers(root / KEPT_ANSWERS), weights_of(INSTRUCT_MODEL)), []
    try:
        for way, constrained in (("free", False), ("under the schema", True)):
            replies = {}
            for step, trial in asked.items():
                settings = trial.settings | {"max_new_tokens": min(trial.settings["max_new_tokens"], KEPT_TOKENS)}
                replies[step] = ask(kept, trial.questions, **settings, constrained=constrained, rounds=1)
            parts.append(trial_outcomes(asked, replies, world).assign(way=way))
    except ModelError:
        return pd.DataFrame(columns=["step", "way", "at_once", "valid", "right"])
    return pd.concat(parts, ignore_index=True)


def rehearse(model: Any, world: World, parameters: Parameters) -> None:
    """Count what `write_world` would ask at most, by what it would ask about a simulated world of the same size.

    Args:
        model: a `lib.generation.remote.DryRun`.
    """
    n_personas, n_queries = len(world.personas), len(world.queries)
    capacities = draw_capacities(n_personas, np.random.default_rng(parameters.seed))
    filled = [n for apps in capacities for n in apps.values() if n]
    asked = trials(world, n_personas=12, n_items=max(filled), n_queries=24, seed=parameters.seed)
    if parameters.written_toolbox:
        asked["toolbox"] = Trial([toolbox_question(app) for app in APPS], draw_settings("toolbox", parameters.seed), [])
    n = {"personas": n_personas, "items": len(filled), "toolbox": len(APPS)}
    for step, trial in asked.items():
        prompts = [question.text for question in trial.questions]
        model.expect(prompts, n.get(step, n_queries), trial.settings["max_new_tokens"])
