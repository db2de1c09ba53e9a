"""A language model as generator of the assistant's world, tried step by step on what the simulator made.

Each step gets the simulator's persons, items, queries or labels to work on, so that a step's n does not depend on what
the steps before it lost, and the simulator's own text or label stands beside the model's.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from lib.assistant.plans import ast_match
from lib.assistant.prompts import CONTEXT_TYPES
from lib.assistant.queries import print_call
from lib.assistant.schemas import APPS
from lib.assistant.toolbox import DEFAULT_API
from lib.assistant.world import World
from lib.assistant.written_world import (
    TEMPERATURE,
    answer_tokens,
    arguments_of,
    draw_circumstances,
    items_of,
    items_question,
    named_items,
    persona_question,
    plan_question,
    query_question,
    thought_question,
    tool_question,
)
from lib.evaluation.diversity import matched_diversity, words_of
from lib.evaluation.inference import Resampling, percent
from lib.evaluation.intervals import mean_interval
from lib.evaluation.ranking import rank_of
from lib.generation.kept import KeptCalls, weights_of
from lib.generation.structured import Question, Reply, ask
from lib.retrieval.bm25 import content_terms

FILE = Path("data") / "answers" / "generator_answers.jsonl"
MODEL = "Qwen2.5-Coder-1.5B-Instruct"  # whose answers are kept
SMALL = "SmolLM2-135M-Instruct"  # asked where they are not,
FEW = 5  # questions of a step
FIRST = 3  # results among which a request should find its item
DECIDING = ("tools", "plans", "thoughts")  # steps whose answers are not drawn
# Kinds of faults by how the message of `lib.generation.structured` begins; any other breaks the schema.
FAULTS = {"there is no JSON": "no JSON", "the JSON object is cut off": "cut off", "not JSON": "broken JSON"}
DRAWS = 200  # of texts, where one side has more than are compared

# A model's replies by way of answering (freely, under the schema), then by step.
Replies = Mapping[str, Mapping[str, list[Reply[Any]]]]


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


class Answering(NamedTuple):
    """Who answers, its name, and what it is asked."""

    model: Any
    name: str
    asked: dict[str, Trial]


def answering(
    name: str, asked: Mapping[str, Trial], seed: int, root: Path, own: Path, load: Callable[[str], Any]
) -> Answering:
    """The model that is named, and all questions. Where none is named: `MODEL`, if its first answers to all of them are
    kept with the project; else `SMALL`, and `FEW` questions a step.

    Args:
        name: of the model, or empty.
        seed: see `try_out`.
        root: the project's folder.
        own: a folder to keep what is written now.
        load: a model by its name.
    """
    asks = functools.partial(load, MODEL) if name == MODEL else None
    kept = KeptCalls(root / FILE, weights_of(MODEL, MODEL), own / FILE.name, asks)
    if name:
        return Answering(kept if name == MODEL else load(name), name, dict(asked))
    if all(
        kept.has([question.text for question in trial.questions], chat=True, **_settings(step, trial, seed))
        for step, trial in asked.items()
    ):
        return Answering(kept, MODEL, dict(asked))
    few = {
        step: replace(trial, questions=trial.questions[:FEW], about=trial.about[:FEW]) for step, trial in asked.items()
    }
    return Answering(load(SMALL), SMALL, few)


def _settings(step: str, trial: Trial, seed: int) -> dict[str, Any]:
    """How a step's answers are drawn."""
    drawn = 0.0 if step in DECIDING else TEMPERATURE
    return {"max_new_tokens": trial.tokens, "temperature": drawn, "seed": seed}


def try_out(
    model, asked: dict[str, Trial], seed: int, constrained: bool, rounds: int, progress: bool = False
) -> dict[str, list[Reply[Any]]]:
    """A model's replies by step; `rounds` of asking again at most. See `lib.generation.structured.ask`."""
    return {
        step: ask(
            model,
            trial.questions,
            **_settings(step, trial, seed),
            constrained=constrained,
            progress=progress,
            rounds=rounds,
        )
        for step, trial in asked.items()
    }


def outcomes(asked: dict[str, Trial], replies: dict[str, list[Reply[Any]]], world: World) -> pd.DataFrame:
    """One row a question: step, persona (whom it is about; a new one each where personas are asked for), at_once and
    valid (0 or 1), right (whether a tool or plan is the simulator's; NaN for other steps; 0 where there is no valid
    answer), fault (of the first answer: of `FAULTS`, schema, or nothing)."""
    gold = {entry.query: entry for entry in world.gold}
    rows = []
    for step, trial in asked.items():
        for reply, about in zip(replies[step], trial.about.itertuples(), strict=True):
            persona, right = getattr(about, "persona", str(about.Index)), float("nan")
            if step in ("tools", "plans"):
                right = 0.0
                if reply.value is not None and step == "tools":
                    right = float(reply.value.api == about.api)
                elif reply.value is not None:
                    call = print_call(about.api, arguments_of(reply.value))
                    right = float(bool(ast_match(call, gold[about.query].answers, world.toolbox.functions)))
            fault = fault_of(reply.errors[0]) if reply.errors else ""
            rows.append((step, persona, not reply.errors, reply.value is not None, right, fault))
    frame = pd.DataFrame(rows, columns=["step", "persona", "at_once", "valid", "right", "fault"])
    return frame.astype({"at_once": int, "valid": int})


def fault_of(error: str) -> str:
    return next((name for start, name in FAULTS.items() if error.startswith(start)), "schema")


def usable_rates(outcomes: pd.DataFrame) -> pd.DataFrame:
    """How many answers of each step are usable.

    Args:
        outcomes: columns step, way, persona, at_once, valid; a row a question.

    Returns:
        step, way, n, at_once, valid (how many), and of the latter two `_rate`, `_low`, `_high`: percent with its 95%
        interval over personas; personas (how many).
    """
    return _rates(outcomes, ("at_once", "valid"))


def right_counts(outcomes: pd.DataFrame) -> pd.DataFrame:
    """step, way, n, right (how many agree with the simulator's labels), right_rate, right_low, right_high (percent with
    its 95% interval over personas), personas (how many); a row for each step that has labels."""
    return _rates(outcomes.dropna(subset="right"), ("right",))


def _rates(outcomes: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
    """By step and way: n, how many have each of `names`, their rates with intervals over personas, and personas.

    Answers about one persona are alike, so intervals are over personas. The bootstrap's of a few is too narrow: none is
    narrower than Wilson's, which takes answers as independent.
    """
    rows = []
    for (step, way), part in outcomes.groupby(["step", "way"], sort=False):
        row = {"step": step, "way": way, "n": len(part)} | {name: int(part[name].sum()) for name in names}
        for name in names:
            values = 100 * part[name].to_numpy(dtype=float)
            low, high = mean_interval(values, Resampling([part["persona"].to_numpy()]))
            rate, least, most = map(float, percent(row[name], len(part)))
            row |= {f"{name}_rate": rate, f"{name}_low": min(low, least), f"{name}_high": max(high, most)}
        rows.append(row | {"personas": part["persona"].nunique()})
    return pd.DataFrame(rows)


class RefusedThoughts(NamedTuple):
    """Of the chains of thought that were never usable, by their first answers: `refused`, how many; `no_json`, those
    without a JSON object; `other_case`, those with one that write a context type's name in another letter case."""

    refused: int
    no_json: int
    other_case: int


def refused_thoughts(replies: Replies) -> RefusedThoughts:
    """Why chains of thought are refused, all ways together."""
    types = CONTEXT_TYPES["apps"]
    named = re.compile(rf"\b({'|'.join(types)})\b", re.IGNORECASE)
    refused = [reply for by_step in replies.values() for reply in by_step["thoughts"] if reply.value is None]
    in_json = [reply.answers[0] for reply in refused if fault_of(reply.errors[0]) != "no JSON"]
    cased = sum(any(name not in types for name in named.findall(answer)) for answer in in_json)
    return RefusedThoughts(len(refused), len(refused) - len(in_json), cased)


def items_diversity(items: Trial, replies: Replies, simulated: pd.DataFrame, seed: int) -> pd.DataFrame:
    """The diversity of written and of simulated items, app by app, as `matched_diversity` returns it; way, and answers
    and personas (how many the written items come from).

    Args:
        items: the trial of the step.
        simulated: as `simulated_items` returns them.
        seed: of the draws.
    """
    cells = ["persona", "app"]
    found = {way: written_items(items, by_step["items"]) for way, by_step in replies.items()}
    parts = [
        matched_diversity(written, simulated, cells, DRAWS, seed).assign(
            way=way, answers=len(written.drop_duplicates(cells)), personas=written["persona"].nunique()
        )
        for way, written in found.items()
    ]
    return pd.concat(parts, ignore_index=True)


def written_items(trial: Trial, replies: Sequence[Reply[Any]]) -> pd.DataFrame:
    """The valid items, copies included: persona, app, title, text."""
    rows = [
        (about.persona, about.app, item.headline, item.text)
        for reply, about in zip(replies, trial.about.itertuples(), strict=True)
        if reply.value is not None
        for item in named_items(reply.value, about.persona, about.app)
    ]
    return pd.DataFrame(rows, columns=["persona", "app", "title", "text"])


def simulated_items(world: World) -> pd.DataFrame:
    """All items of a world: persona, item, app, title, text."""
    rows = [
        (persona.id, item.id, app, item.headline, item.text)
        for persona in world.personas
        for item, app in items_of(persona).values()
    ]
    return pd.DataFrame(rows, columns=["persona", "item", "app", "title", "text"])


def written_queries(trial: Trial, replies: Sequence[Reply[Any]]) -> pd.DataFrame:
    """The valid requests beside the simulated queries: columns of `trial.about`, and written."""
    texts = [None if reply.value is None else reply.value.text for reply in replies]
    return trial.about.assign(written=texts).dropna(subset="written").reset_index(drop=True)


def rank_in_persona(
    vectors: np.ndarray, queries: pd.DataFrame, item_vectors: np.ndarray, items: pd.DataFrame
) -> np.ndarray:
    """Rank of each query's item among its persona's items by cosine (queries,).

    Args:
        vectors: unit length (queries, dimensions).
        queries: columns persona, item.
        item_vectors: unit length (items, dimensions).
        items: columns persona, item.
    """
    scores = vectors @ item_vectors.T
    own = queries["persona"].to_numpy()[:, None] == items["persona"].to_numpy()[None, :]
    column = pd.Series(range(len(items)), index=items["item"])
    return rank_of(np.where(own, scores, -np.inf), column[queries["item"]].to_numpy())


def shared_words(requests: Iterable[str], texts: Iterable[str]) -> float:
    """Content words of requests that stand in the text that each is about, percent: the mean over requests that have
    any; NaN where none has."""
    shares = []
    for request, text in zip(requests, texts, strict=True):
        inside, words = set(content_terms(text)), content_terms(request)
        shares += [100 * sum(word in inside for word in words) / len(words)] if words else []
    return float(np.mean(shares)) if shares else float("nan")


def requests_in_numbers(
    requests: Sequence[str], queries: pd.DataFrame, items: pd.DataFrame, ranks: np.ndarray
) -> dict[str, float]:
    """What requests are like: requests (how many), words (mean), shared (content words that stand in the item, percent;
    mean over requests that have any), found (how many rank their item among the first `FIRST`), chance (percent that a
    random order would).

    Args:
        requests: texts.
        queries: columns persona, item; a row a request.
        items: columns persona, item, text.
        ranks: of each request's item among its persona's (`rank_in_persona`).
    """
    text_of = items.set_index("item")["text"]
    sizes = queries["persona"].map(items.groupby("persona").size())
    return {
        "requests": len(queries),
        "words": float(np.mean([len(words_of(request)) for request in requests])),
        "shared": shared_words(requests, text_of[queries["item"]]),
        "found": int((ranks <= FIRST).sum()),
        "chance": float(100 * (FIRST / sizes).clip(upper=1).mean()),
    }


def requests_beside_simulated(
    queries: Trial, replies: Replies, items: pd.DataFrame, embed: Callable[[list[str]], np.ndarray]
) -> pd.DataFrame:
    """What the model's requests are like, and the simulator's about the same items.

    Args:
        queries: the trial of the step.
        items: all that the personas have, as `simulated_items` returns them.
        embed: texts to unit vectors (texts, dimensions).

    Returns:
        way, side (ours, theirs), and what `requests_in_numbers` counts; no row for a way without a usable request.
    """
    vectors, rows = embed(items["text"].tolist()), []
    for way, by_step in replies.items():
        both = written_queries(queries, by_step["queries"])
        for side, texts in (("ours", both["written"]), ("theirs", both["text"])) if len(both) else ():
            ranks = rank_in_persona(embed(texts.tolist()), both, vectors, items)
            rows.append({"way": way, "side": side, **requests_in_numbers(texts, both, items, ranks)})
    return pd.DataFrame(rows, columns=["way", "side", "requests", "words", "shared", "found", "chance"])
