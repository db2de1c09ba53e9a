"""A world of personas, queries and labels written by a language model, behind the simulator's interface.

The steps are those of the assistant paper's appendix A.1 to A.6, the prompts are our own: personas, the items of each
app, a toolbox where none is given, requests that need items, the tool for each, its arguments, a chain of thought.
Numbers, traits to begin with, what a request is about, when and where it is voiced are drawn, so that a model need not
be good at chance; every text is the model's. Nothing is put in the place of an answer that is wrong to the end.
"""

from __future__ import annotations

import json
import keyword
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, get_origin

import numpy as np
import pandas as pd
import yaml
from pydantic import AfterValidator, BaseModel, Field, FiniteFloat, NaiveDatetime, WithJsonSchema, create_model

from lib.assistant.cot import named_types
from lib.assistant.needs import KINDS, Kind, parse_call
from lib.assistant.personas import FIRST_DAY, WAKING_HOURS, draw_capacities, somewhere
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
from lib.assistant.queries import DAYS_OF_QUERIES, Gold, Query, acceptable, deal_counts, normal_form, print_call
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
from lib.assistant.toolbox import API, DEFAULT_API, AnyAPI, Argument, ArgumentType, Toolbox, signature
from lib.assistant.world import deal_sides, read_world
from lib.generation.structured import Form, Question, Reply, ask
from lib.workbook.artifacts import atomic_folder
from lib.workbook.inputs import InputError, Strict, Text

if TYPE_CHECKING:
    from lib.generation.local import LocalModel
    from lib.generation.remote import RemoteModel

FILES = ("personas.jsonl", "queries.jsonl", "gold.jsonl", "toolbox.yaml")
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
MOST_OPENS = 4
MOST_LISTED = 8  # entries of the lists within a persona, an item or an API
MOST_PEOPLE = 5  # whom a persona knows
MOST_ALSO = 4  # relevant items besides the one that a request is about
LEAST_APPS = 0.5  # share of the apps asked for without which a persona is dropped
APIS_PER_APP = {  # assistant paper, Table 5
    "music": 11, "google": 10, "notes": 9, "mail": 8, "phone_call": 8, "calendar": 7, "reminders": 6,
}  # fmt: skip
HABIT_STRENGTH, HOUR_NOISE = WorldKnobs.habit_strength, WorldKnobs.hour_noise
LINE = 240  # characters of an entry or a person that a prompt shows
# Answers that write are drawn, so that equal circumstances do not give equal data; those that decide are not.
TEMPERATURE = 0.7
TOKENS = {"personas": 500, "items": 40, "toolbox": 1600, "queries": 160, "tools": 40, "plans": 240, "thoughts": 120}
TOKENS_PER_ITEM = 240
COLUMNS = ["step", "asked", "valid_at_once", "repaired", "given_up", "duplicates", "kept"]


# ---------------------------------------------------------------- forms: what answers must be


Short = Annotated[str, Field(min_length=1, max_length=60)]
TYPES: dict[str, Any] = {
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


def part_of(model: type[BaseModel], *names: str) -> dict:
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
    **part_of(
        Persona, "name", "profession", "company", "city", "hobbies", "favorite_music_genre", "favorite_movie_genre",
        "favorite_cuisine", "favorite_sport", "traits", "people",
    ),
)  # fmt: skip


Name = Annotated[str, Field(pattern="^[a-z][a-z0-9_]{0,40}$")]


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


class Items(Strict):
    items: list[Strict]


class Request(Strict):
    text: str
    also: list[str]
    apps: list[App]
    topic: str


class Tool(Strict):
    api: str


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


def items_form(app: str, n: int, today: datetime) -> type[Items]:
    """At most `n` items of an app as its schema has them; ids are given later."""
    past, coming = moments(today, -DAYS_ASKED_FOR, -1), moments(today, 1, DAYS_ASKED_FOR)
    kind = ITEM_TYPES[app]
    fields = part_of(kind, *(name for name in kind.model_fields if name not in ("id", "opens")))
    for name, (annotation, _) in fields.items():
        if annotation is NaiveDatetime:
            fields[name] = (coming if name in AHEAD.get(app, ()) else past, ...)
    opened = create_model("Open", __base__=Strict, time=(past, ...), place=(Place, ...))
    fields["opens"] = (AnnotatedOf[ListOf[opened], Field(max_length=MOST_OPENS)], ...)
    item = create_model(kind.__name__, __base__=Strict, **fields)
    items = AnnotatedOf[ListOf[item], Field(min_length=1, max_length=n)]
    return create_model("Items", __base__=Items, items=(items, ...))


def query_form(others: Sequence[str]) -> type[Request]:
    """A request; `others` are the numbers of the entries that it may need besides the one it is about."""
    also = ListOf[OneOf[tuple(others)]] if others else list[str]
    return create_model(
        "Request",
        __base__=Request,
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
        fields[f"argument_{number}"] = (
            TYPES[argument.type],
            Field(alias=name, description=argument.description, **default),
        )
    return create_model("Arguments", __base__=Strict, **fields)


# ---------------------------------------------------------------- questions: a step's prompt, form and check


def describe(persona: Persona) -> str:
    """A persona in a prompt's words."""
    work = persona.profession + (f" at {persona.company}" if persona.company else "")
    tastes = [
        f"{name}: {value}"
        for name, value in (
            ("hobbies", ", ".join(persona.hobbies)),
            ("music", persona.favorite_music_genre),
            ("movies", persona.favorite_movie_genre),
            ("cuisine", persona.favorite_cuisine),
            ("sport", persona.favorite_sport),
            ("life", ", ".join(persona.traits)),
            ("knows", ", ".join(f"{person.name} ({person.role})" for person in persona.people[:6])),
        )
        if value
    ]
    head = f"{persona.name}, {persona.age}, {work}" + (f", {persona.city}" if persona.city else "")
    return "; ".join(part[:LINE] for part in (head, *tastes)) + "."


def entry_line(item: Item, app: str, label: str = "-") -> str:
    """An item in a prompt: app, time, text."""
    text = item.text if len(item.text) <= LINE else f"{item.text[:LINE]} …"
    return f"{label} ({APP_NAMES[app]}, {getattr(item, TIME_FIELDS[app]):%Y-%m-%d %H:%M}): {text}"


def items_of(persona: Persona) -> dict[str, tuple[Item, str]]:
    """A persona's items with their apps, by id."""
    return {item.id: (item, app) for app in APPS for item in getattr(persona.apps, app)}


def numbered(persona: Persona) -> dict[str, str]:
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


def items_question(persona: Persona, app: str, n: int) -> Question[Items]:
    now, days = f"{persona.today:%A %Y-%m-%dT%H:%M:%S}", timedelta(days=DAYS_ASKED_FOR)
    span = (persona.today, persona.today + days) if app in AHEAD else (persona.today - days, persona.today)
    prompt = items_prompt(describe(persona), app, n, now, *(f"{day:%Y-%m-%d}" for day in span))
    return Question(prompt, items_form(app, n, persona.today))


def query_question(persona: Persona, about: str, kind: str, moment: datetime, place: str) -> Question[Request]:
    """About the item with the id `about`, voiced at a moment and place."""
    items, names = items_of(persona), numbered(persona)
    lines = [entry_line(*items[name], label) for label, name in names.items()]
    called = next(label for label, name in names.items() if name == about)
    when = f"{moment:%A %Y-%m-%d %H:%M} at this place: {place}"
    copied = normal_form(items[about][0].headline)

    def check(answer: Request) -> None:
        if not (has_words(answer.text) and has_words(answer.topic)):
            raise ValueError("text and topic must have words")
        if normal_form(answer.text) == copied:
            raise ValueError("text: must be what the person says, not a copy of the entry")

    return Question(
        query_prompt(describe(persona), lines, called, kind, when),
        query_form([label for label in names if label != called]),
        check,
    )


def tool_question(query: Query, persona: Persona, relevant: Sequence[str], toolbox: Toolbox) -> Question[Tool]:
    tools = [f"- {signature(api.function)}: {api.description}" for api in toolbox]
    when = f"{query.time:%A %Y-%m-%d %H:%M}, {query.place}"
    form = create_model("Tool", __base__=Tool, api=(OneOf[(*toolbox.apis, DEFAULT_API)], ...))
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
    form = create_model(
        "APIs", __base__=WrittenAPIs, apis=(Annotated[list[WrittenAPI], Field(min_length=1, max_length=n)], ...)
    )

    def check(answer: WrittenAPIs) -> None:
        for record in answer.apis:
            names = [record.api, *(argument.name for argument in record.arguments)]
            if len(set(names[1:])) < len(names[1:]):
                raise ValueError(f"{record.api}: two arguments have one name")
            if bad := [name for name in names if keyword.iskeyword(name) or name == DEFAULT_API]:
                raise ValueError(f"{record.api}: {bad[0]} is reserved: take another name")

    return Question(toolbox_prompt(app, n), form, check)


def has_words(text: str) -> bool:
    return any(character.isalnum() for character in text)


def arguments_of(answer: BaseModel) -> dict[str, object]:
    """What an answer of `arguments_form` gives, by the arguments' own names."""
    return answer.model_dump(by_alias=True, exclude_unset=True)


def named_items(answer: Items, prefix: str, app: str) -> list[Item]:
    """The items of an answer of `items_form`, with ids."""
    return [
        ITEM_TYPES[app].model_validate({"id": f"{prefix}-{app}-{number}", **written.model_dump()})
        for number, written in enumerate(answer.items)
    ]


# ---------------------------------------------------------------- what is asked


class AskedStep(NamedTuple):
    """How many questions a step asks, and how many tokens an answer may have."""

    questions: int
    tokens: int


def answer_tokens(step: str, n_items: int = 0) -> int:
    """How many tokens an answer of a step may have; one of the step `items` holds `n_items` at most."""
    return TOKENS[step] + (TOKENS_PER_ITEM * n_items if step == "items" else 0)


def apps_to_fill(personas: Iterable[int], capacities: Sequence[dict[str, int]]) -> list[tuple[int, str, int]]:
    """The questions of the step `items`: persona, app, number of items.

    Args:
        personas: their numbers.
        capacities: number of items of each persona's apps; an app without any is not asked for.
    """
    return [(index, app, capacities[index][app]) for index in personas for app in APPS if capacities[index][app]]


def toolbox_questions() -> list[Question[WrittenAPIs]]:
    return [toolbox_question(app) for app in APPS]


def asked_at_most(
    n_personas: int, n_queries: int, capacities: Sequence[dict[str, int]], with_toolbox: bool
) -> dict[str, AskedStep]:
    """What `write_world` asks in each step where every answer is of use and every query calls a tool; else later steps
    ask less. Questions that are asked again come on top.

    Args:
        n_queries: of both sides together.
        capacities: number of items of each persona's apps.
        with_toolbox: whether the model writes the toolbox, too.
    """
    filled = apps_to_fill(range(n_personas), capacities)
    questions = {
        "personas": n_personas,
        "items": len(filled),
        "toolbox": len(toolbox_questions()) if with_toolbox else 0,
        **dict.fromkeys(("queries", "tools", "plans", "thoughts"), n_queries),
    }
    most = max((n for _, _, n in filled), default=0)
    return {step: AskedStep(n, answer_tokens(step, most)) for step, n in questions.items()}


# ---------------------------------------------------------------- the world


class Writer:
    """Asks a model step by step and counts what came of it, one row of `rows` a step."""

    def __init__(self, model: LocalModel | RemoteModel, seed: int, constrained: bool, progress: bool):
        self.model, self.seed, self.constrained, self.progress = model, seed, constrained, progress
        self.rows: list[dict] = []

    def ask(
        self, step: str, questions: Sequence[Question[Form]], n_items: int = 0, drawn: bool = True
    ) -> list[Reply[Form]]:
        replies = ask(
            self.model,
            questions,
            max_new_tokens=answer_tokens(step, n_items),
            temperature=TEMPERATURE if drawn else 0.0,
            seed=self.seed,
            constrained=self.constrained,
            progress=self.progress,
        )
        self.rows.append(count(step, replies))
        return replies

    def note(self, duplicates: int, kept: int) -> None:
        """What became of the last step's valid answers."""
        self.rows[-1] |= {"duplicates": duplicates, "kept": kept}


def count(step: str, replies: Sequence[Reply]) -> dict:
    """A row of counts: one that valid answers go into as they are keeps all of them."""
    valid = [reply for reply in replies if reply.value is not None]
    at_once = sum(not reply.errors for reply in valid)
    return {
        "step": step,
        "asked": len(replies),
        "valid_at_once": at_once,
        "repaired": len(valid) - at_once,
        "given_up": len(replies) - len(valid),
        "duplicates": 0,
        "kept": len(valid),
    }


def write_world(
    model: LocalModel | RemoteModel,
    folder: str | Path,
    toolbox: Toolbox | None,
    n_personas: int,
    n_training_queries: int,
    n_evaluation_queries: int,
    seed: int,
    constrained: bool = False,
    progress: bool = False,
) -> pd.DataFrame:
    """Let a language model write the folder that `lib.assistant.world.read_world` reads.

    Answers come from the model's cache where they are there, so a run that was stopped goes on where it was. What the
    model does not get right after being told what is wrong is left out and counted, so that a world may have fewer
    personas and queries than asked for. Files are written last and together: an error leaves the folder as it was.

    Args:
        model: a language model (`lib.generation.load.load_language_model`).
        folder: gets `personas.jsonl`, `queries.jsonl`, `gold.jsonl` and `toolbox.yaml`; an earlier world in it is
            replaced.
        toolbox: the APIs to plan with; None lets the model write them too (appendix A.3).
        n_personas: of both sides together; a persona is on one side only.
        n_training_queries: asked for on the training side.
        n_evaluation_queries: asked for on the evaluation side.
        seed: of what is drawn, and of the model's own draws.
        constrained: put each answer under its JSON schema as a grammar; local models only.
        progress: show progress bars.

    Returns:
        One row a step: step, asked, valid_at_once, repaired (valid after being told what was wrong) and given_up count
        answers, of which one holds all items of a persona's app; duplicates and kept count what was in them: personas,
        items, APIs, queries. Two more rows, `whole personas` and `whole queries`, have what was asked for in all and
        what the world has.

    Raises:
        InputError: nothing is left of one side, with the counts, or the folder holds something else than a world.
        ModelError: the model cannot be asked; what it has answered is in its cache.
        ValueError: a number makes no sense, or a remote model is to be constrained.
    """
    if n_personas < 2 or min(n_training_queries, n_evaluation_queries) < 1:
        raise ValueError("a world needs two personas or more, and a query or more on each side")
    folder = Path(folder)
    if folder.exists() and (others := sorted({path.name for path in folder.iterdir()} - set(FILES))):
        raise InputError(f"{folder}: holds {others[0]}, which belongs to no written world")
    rng = np.random.default_rng([seed, 11])
    writer = Writer(model, seed, constrained, progress)
    sides = deal_sides(n_personas, n_training_queries, n_evaluation_queries, rng)
    personas = write_personas(writer, draw_circumstances(n_personas, rng))
    write_items(writer, personas, draw_capacities(n_personas, rng))
    if toolbox is None:
        toolbox = write_toolbox(writer)
    wanted: dict[int, int] = {}
    for side, n in (("training", n_training_queries), ("evaluation", n_evaluation_queries)):
        left = [index for index in personas if sides[index] == side]
        if not left:
            raise nothing_left(side, writer)
        wanted |= dict(zip(left, deal_queries(n, len(left), rng), strict=True))
    drafts = write_queries(writer, personas, wanted)
    drafts = write_plans(writer, drafts, toolbox)
    write_thoughts(writer, drafts)
    for side in ("training", "evaluation"):
        if not any(sides[draft.index] == side for draft in drafts):
            raise nothing_left(side, writer)
    asking = {draft.index for draft in drafts}
    nothing = dict.fromkeys(COLUMNS[2:], 0)
    writer.rows += [
        nothing | {"step": "whole personas", "asked": n_personas, "kept": len(asking)},
        nothing | {"step": "whole queries", "asked": n_training_queries + n_evaluation_queries, "kept": len(drafts)},
    ]
    save(folder, [personas[index] for index in sorted(asking)], drafts, sides, toolbox)
    return pd.DataFrame(writer.rows, columns=COLUMNS)


def nothing_left(side: str, writer: Writer) -> InputError:
    counts = "; ".join(
        f"{row['step']}: {row['valid_at_once'] + row['repaired']} of {row['asked']}" for row in writer.rows
    )
    return InputError(f"nothing of the {side} side is left of what the model wrote; valid answers by step: {counts}")


def deal_queries(n: int, people: int, rng: np.random.Generator) -> list[int]:
    """How many of `n` queries each persona asks; where there are fewer queries than personas, the last ask none."""
    return deal_counts(n, people, rng) if n >= people else [1] * n + [0] * (people - n)


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
    replies = writer.ask("personas", [persona_question(*one) for one in circumstances])
    kept: dict[str, tuple[int, Persona]] = {}
    for index, (reply, (age, _, _)) in enumerate(zip(replies, circumstances, strict=True)):
        if reply.value is not None:
            days = int(np.random.default_rng([writer.seed, 12, index]).integers(DAYS_OF_TODAYS))
            today = FIRST_DAY + timedelta(days=days, hours=6)
            profile = reply.value.model_dump()
            persona = Persona(id=f"w{index:04d}", age=age, today=today, apps=Apps(), **profile)
            kept.setdefault(normal_form(persona.name), (index, persona))
    writer.note(sum(reply.value is not None for reply in replies) - len(kept), len(kept))
    return dict(kept.values())


def write_items(writer: Writer, personas: dict[int, Persona], capacities: Sequence[dict[str, int]]) -> None:
    """Fill the apps of the personas, no item twice; a persona that has got too few of its apps is taken out."""
    asked = apps_to_fill(personas, capacities)
    most = max((n for _, _, n in asked), default=0)
    questions = [items_question(personas[index], app, n) for index, app, n in asked]
    replies = writer.ask("items", questions, most)
    written = kept = 0
    for (index, app, _), reply in zip(asked, replies, strict=True):
        if reply.value is not None:
            items: dict[str, Item] = {}
            for item in named_items(reply.value, personas[index].id, app):
                items.setdefault(normal_form(item.text), item)
            setattr(personas[index].apps, app, by_time(items.values(), app))
            written += len(reply.value.items)
            kept += len(items)
    writer.note(written - kept, kept)
    wanted = Counter(index for index, _, _ in asked)
    for index in list(personas):
        got = sum(bool(getattr(personas[index].apps, app)) for app in APPS)
        if not got or got < LEAST_APPS * wanted[index]:
            del personas[index]


def write_toolbox(writer: Writer) -> Toolbox:
    """A toolbox of the model's own; of two APIs with one name the first is kept."""
    replies = writer.ask("toolbox", toolbox_questions())
    apis: dict[str, API] = {}
    written = 0
    for app, reply in zip(APPS, replies, strict=True):
        for record in reply.value.apis if reply.value is not None else []:
            written += 1
            arguments = {part.name: Argument(**part.model_dump(exclude={"name"})) for part in record.arguments}
            apis.setdefault(
                record.api, API(api=record.api, app=app, description=record.description, arguments=arguments)
            )
    writer.note(written - len(apis), len(apis))
    if not apis:
        raise InputError("the model wrote no usable API")
    return Toolbox(list(apis.values()))


@dataclass
class Draft:
    """A query on its way through the steps; `index` is its persona's number."""

    index: int
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


def write_queries(writer: Writer, personas: dict[int, Persona], wanted: dict[int, int]) -> list[Draft]:
    """Requests about the personas' items, as many of each persona as wanted; no two with one text."""
    drawn = []
    for index, persona in personas.items():
        rng = np.random.default_rng([writer.seed, 13, index])
        items = list(items_of(persona).values())
        order = rng.permutation(len(items))
        for number in range(wanted[index]):
            item = items[order[number % len(items)]][0]
            kind = KINDS[rng.integers(len(KINDS))] if item.opens else "meaning"  # no habit without opens
            drawn.append((index, number, item, kind, *voicing(item, kind, persona.today, rng)))
    questions = [
        query_question(personas[index], item.id, kind, moment, place) for index, _, item, kind, moment, place in drawn
    ]
    drafts: dict[str, Draft] = {}
    replies = writer.ask("queries", questions)
    for (index, number, item, kind, moment, place), reply in zip(drawn, replies, strict=True):
        if reply.value is not None:
            persona, answer = personas[index], reply.value
            query = Query(id=f"{persona.id}-q{number}", persona=persona.id, text=answer.text, time=moment, place=place)
            relevant = list(dict.fromkeys([item.id, *(numbered(persona)[label] for label in answer.also)]))
            apps = list(dict.fromkeys(answer.apps))
            draft = Draft(index, persona, query, kind, normal_form(answer.topic), relevant, apps)
            drafts.setdefault(normal_form(answer.text), draft)
    writer.note(sum(reply.value is not None for reply in replies) - len(drafts), len(drafts))
    return list(drafts.values())


def voicing(item: Item, kind: str, today: datetime, rng: np.random.Generator) -> tuple[datetime, Place]:
    """When and where a request about an item is voiced, in the week after `today`: where these are to give it away, at
    the place of one of its opens, the same weekday, and its hour with the simulator's default noise; else, and where
    the habit is broken as often as the simulator breaks it, at a waking hour anywhere."""
    if kind != "meaning" and item.opens and rng.random() < HABIT_STRENGTH:
        opened = item.opens[rng.integers(len(item.opens))]
        weeks = math.ceil((today - opened.time) / timedelta(days=7))
        moment = opened.time + timedelta(days=7 * weeks, hours=float(rng.normal(0, HOUR_NOISE)))
        return max(moment, today + timedelta(minutes=1)).replace(second=0, microsecond=0), opened.place
    midnight = today.replace(hour=0, minute=0) + timedelta(days=1 + int(rng.integers(DAYS_OF_QUERIES)))
    moment = midnight + timedelta(minutes=int(60 * rng.uniform(*WAKING_HOURS)))
    return moment, somewhere(moment, set(PLACES), rng)


def write_plans(writer: Writer, drafts: Sequence[Draft], toolbox: Toolbox) -> list[Draft]:
    """The tool of each query and its arguments; queries without either are left out."""
    which = [tool_question(draft.query, draft.persona, draft.relevant, toolbox) for draft in drafts]
    replies = writer.ask("tools", which, drawn=False)
    chosen = []
    for draft, reply in zip(drafts, replies, strict=True):
        if reply.value is not None:
            draft.api = reply.value.api
            chosen.append(draft)
    calling = [draft for draft in chosen if draft.api != DEFAULT_API]
    questions = [plan_question(draft.query, draft.persona, draft.relevant, toolbox[draft.api]) for draft in calling]
    lost = set()
    for draft, plan in zip(calling, writer.ask("plans", questions, drawn=False), strict=True):
        if plan.value is None:
            lost.add(draft.query.id)
        else:
            draft.arguments = arguments_of(plan.value)
    return [draft for draft in chosen if draft.query.id not in lost]


def write_thoughts(writer: Writer, drafts: Sequence[Draft]) -> None:
    """The chain of thought of each query; it may be missing, as in a world of one's own files."""
    replies = writer.ask("thoughts", [thought_question(draft.query) for draft in drafts], drawn=False)
    for draft, reply in zip(drafts, replies, strict=True):
        if reply.value is not None:
            draft.thought = reply.value.thought


def save(
    folder: Path, personas: Sequence[Persona], drafts: Sequence[Draft], sides: np.ndarray, toolbox: Toolbox
) -> None:
    """The folder of a world, read back before it takes the place of an earlier one."""
    queries = [draft.query.model_dump(mode="json") | {"split": str(sides[draft.index])} for draft in drafts]
    records = {
        "personas.jsonl": [persona.model_dump(mode="json") for persona in personas],
        "queries.jsonl": queries,
        "gold.jsonl": [draft.gold(toolbox).model_dump(mode="json", exclude={"also"}) for draft in drafts],
    }
    with atomic_folder(folder) as fresh:
        for name, lines in records.items():
            text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
            (fresh / name).write_text(text, encoding="utf-8", newline="\n")
        apis = [api.model_dump(mode="json", exclude_none=True) for api in toolbox]
        (fresh / "toolbox.yaml").write_text(yaml.safe_dump(apis, allow_unicode=True, sort_keys=False), encoding="utf-8")
        read_world(fresh)
