"""A language model as generator of the assistant's world, tried step by step on what the simulator made.

Each step gets the simulator's persons, items, queries or labels to work on, so that a step's n does not depend on what
the steps before it lost, and the simulator's own text or label stands beside the model's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from lib.assistant.personas import draw_capacities
from lib.assistant.plans import ast_match
from lib.assistant.queries import print_call
from lib.assistant.schemas import APPS, WorldKnobs
from lib.assistant.toolbox import DEFAULT_API
from lib.assistant.world import World, simulate
from lib.assistant.written_world import (
    TEMPERATURE,
    answer_tokens,
    arguments_of,
    asked_at_most,
    draw_circumstances,
    items_question,
    persona_question,
    plan_question,
    query_question,
    thought_question,
    tool_question,
    toolbox_questions,
)
from lib.generation.answers import Answers, KeptModel
from lib.generation.local import weights_of
from lib.generation.models import ModelError
from lib.generation.structured import Question, Reply, ask
from lib.workbook.parameters import Parameters

if TYPE_CHECKING:
    from lib.generation.remote import DryRun

FILE = Path("data") / "answers" / "generator_answers.jsonl"
MODEL = "Qwen2.5-Coder-1.5B-Instruct"  # whose answers are kept
# The questions that they answer (`trials`), and the world that these are of.
KEPT = {"n_personas": 4, "n_items": 3, "n_queries": 60, "max_tokens": 400}
KEPT_WORLD = {"n_personas": 19, "n_training_queries": 114, "n_evaluation_queries": 38}
REHEARSED = 12  # personas whose prompts stand for those of all
DECIDING = ("tools", "plans", "thoughts")  # steps whose answers are not drawn


@dataclass(frozen=True)
class Trial:
    """The questions of a step; `about` has a row for each."""

    questions: list[Question[Any]]
    about: pd.DataFrame
    tokens: int


def trials(world: World, n_personas: int, n_items: int, n_queries: int, max_tokens: int, seed: int) -> dict[str, Trial]:
    """What to ask in each step.

    Args:
        world: a simulated one.
        n_personas: personas whose apps are to be filled, one question an app.
        n_items: items of an app asked for at most; never more than the persona has there.
        n_queries: questions of each other step. Queries are those that one call of one tool serves; fewer where the
            world has no more.
        max_tokens: of an answer; some steps take fewer.
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
    queries = pd.DataFrame(
        [(q.id, q.persona, q.text, g.kind, g.relevant[0], g.apis[0]) for q, g in pairs],
        columns=["query", "persona", "text", "kind", "item", "api"],
    )
    circumstances = draw_circumstances(n_queries, rng)
    apps = [
        (name, app, min(n_items, len(getattr(personas[name].apps, app))))
        for name in list(personas)[:n_personas]
        for app in APPS
        if getattr(personas[name].apps, app)
    ]
    filled = pd.DataFrame(apps, columns=["persona", "app", "n"])
    questions: dict[str, list[Question[Any]]] = {
        "personas": [persona_question(*one) for one in circumstances],
        "items": [items_question(personas[name], app, n) for name, app, n in apps],
        "queries": [query_question(personas[q.persona], g.relevant[0], g.kind, q.time, q.place) for q, g in pairs],
        "tools": [tool_question(q, personas[q.persona], g.relevant, world.toolbox) for q, g in pairs],
        "plans": [plan_question(q, personas[q.persona], g.relevant, world.toolbox[g.apis[0]]) for q, g in pairs],
        "thoughts": [thought_question(q) for q, _ in pairs],
    }
    about = {"personas": pd.DataFrame(circumstances, columns=["age", "sector", "initials"]), "items": filled}
    return {
        step: Trial(asked, about.get(step, queries), min(answer_tokens(step, n_items), max_tokens))
        for step, asked in questions.items()
    }


def rehearse(model: DryRun, world: World, knobs: Parameters) -> None:
    """Count what `lib.assistant.written_world.write_world` would ask at most, by what it would ask about a simulated
    world of the same size."""
    capacities = draw_capacities(knobs.n_personas, np.random.default_rng(knobs.seed))
    n_queries = knobs.n_training_queries + knobs.n_evaluation_queries
    asked = asked_at_most(knobs.n_personas, n_queries, capacities, knobs.written_toolbox)
    most, longest = max(max(apps.values()) for apps in capacities), max(step.tokens for step in asked.values())
    steps = trials(world, REHEARSED, most, 2 * REHEARSED, longest, knobs.seed)
    prompts = {step: [question.text for question in trial.questions] for step, trial in steps.items()}
    prompts["toolbox"] = [question.text for question in toolbox_questions()]
    for step, one in asked.items():
        model.expect(prompts[step], one.questions, one.tokens)


def kept_trials(root: Path, seed: int) -> pd.DataFrame:
    """What became of `MODEL`'s kept answers about a small simulated world, given freely and under the schema, a wrong
    one asked for again once: `outcomes` with a column way; without rows where an answer is not kept.

    Args:
        root: the project's folder.
        seed: of the world and of the answers that are drawn.
    """
    world = simulate(root / "data", WorldKnobs(seed=seed, **KEPT_WORLD))
    asked = trials(world, **KEPT, seed=seed)
    kept, parts = KeptModel(Answers(root / FILE), weights_of(MODEL)), []
    try:
        for way, constrained in (("free", False), ("under the schema", True)):
            replies = {
                step: ask(kept, trial.questions, **_settings(step, trial, seed), constrained=constrained, rounds=1)
                for step, trial in asked.items()
            }
            parts.append(outcomes(asked, replies, world).assign(way=way))
    except ModelError:
        return pd.DataFrame(columns=["step", "way", "at_once", "valid", "right"])
    return pd.concat(parts, ignore_index=True)


def _settings(step: str, trial: Trial, seed: int) -> dict[str, Any]:
    """How a step's answers are drawn."""
    drawn = 0.0 if step in DECIDING else TEMPERATURE
    return {"max_new_tokens": trial.tokens, "temperature": drawn, "seed": seed}


def outcomes(asked: Mapping[str, Trial], replies: Mapping[str, list[Reply[Any]]], world: World) -> pd.DataFrame:
    """One row a question: step, at_once and valid (0 or 1), right (whether a tool or plan is the simulator's; NaN for
    other steps; 0 where there is no valid answer)."""
    gold = {entry.query: entry for entry in world.gold}
    rows = []
    for step, trial in asked.items():
        for reply, about in zip(replies[step], trial.about.itertuples(), strict=True):
            right = float("nan")
            if step in ("tools", "plans"):
                right = 0.0
                if reply.value is not None and step == "tools":
                    right = float(reply.value.api == about.api)
                elif reply.value is not None:
                    call = print_call(about.api, arguments_of(reply.value))
                    right = float(bool(ast_match(call, gold[about.query].answers, world.toolbox.functions)))
            rows.append((step, not reply.errors, reply.value is not None, right))
    frame = pd.DataFrame(rows, columns=["step", "at_once", "valid", "right"])
    return frame.astype({"at_once": int, "valid": int})
