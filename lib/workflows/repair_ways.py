"""The ways to a flow that are compared with constrained decoding, and what each costs.

    free          the likeliest answer
    snapped       the same, mended and snapped to the catalogue (see `lib.workflows.repair`)
    reasked       the same; where the checker has something against it, a second prompt says what
    best          of n samples one, by validity and then by agreement
    best_snapped  the same, mended and snapped
    catalogue     constrained decoding: the likeliest answer under the grammar with the catalogue's names and keys

A model is asked for each way apart: answered in one batch, free answers would pay for the masks of the others.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from lib.generation.local import CPU_ROWS, LocalModel
from lib.workbook.parameters.dsl_ablation import Condition
from lib.workflows.ablation import STOPS, answer, score, write_condition
from lib.workflows.ablation_grid import OTHER_HALF
from lib.workflows.apis import DefinitionForm
from lib.workflows.catalogue import Catalogue
from lib.workflows.grammars import flow_grammar
from lib.workflows.metaprompt import flow_of
from lib.workflows.repair import Snapper, agreement, asked_again, choose, problem_of, second_prompt

HELD = "catalogue"  # the way that the others are compared with
ALONE = ("free", "snapped", "reasked", HELD)
DRAWN = ("best", "best_snapped")
QUALITY = ("similarity", "valid", "executed")
COSTS = ("tokens_in", "tokens_out", "tokens", "seconds")
GROUP = ["model", "test_set"]
COST = ["tokens_in", "tokens_out", "seconds"]
SHOTS = 5  # of the in-context model


class Asking(NamedTuple):
    """How a model is asked.

    Attributes:
        max_new_tokens: of an answer.
        temperature: of samples; fixed before any answer was seen.
        samples: drawn for each request.
        seed: of the draws.
        room: tokens that a prompt may have at most.
        count: tokens of a text.
    """

    max_new_tokens: int
    temperature: float
    samples: int
    seed: int
    room: int
    count: Callable[[str], int]


class Row(NamedTuple):
    """Whom a test set is asked of: generator (`finetuned`, or `in_context` with few-shots and FD), test set, flows (the
    first ones of its order), and for how many of these samples are drawn."""

    generator: str
    test_set: str
    flows: int
    sampled: int


def first_prompts(
    row: Row,
    requests: pd.DataFrame,
    shots: Sequence[Sequence[int]],
    training: pd.DataFrame,
    catalogue: Catalogue,
    room: int,
    count: Callable[[str], int],
    form: DefinitionForm,
) -> pd.DataFrame:
    """The first prompts of a row: of the fine-tuned model the request, of the in-context model five few-shots by the
    pretrained encoder with the definitions of their APIs.

    Args:
        requests: of the test set in the order of asking, columns pair, request, apis, half.
        shots: for each request positions in `training`, nearest first; not read for the fine-tuned model.
        training, catalogue, room, count, form: as for `lib.workflows.ablation.write_condition`.

    Returns:
        what `write_condition` returns, and test_set, request, sampled (bool), model: the generator, of the in-context
        model which of its two.
    """
    reads = row.generator == "in_context"
    kept = (requests["half"] != "").to_numpy() if reads else np.ones(len(requests), dtype=bool)
    places = np.flatnonzero(kept)[: row.flows]
    requests = requests.iloc[places]
    what = [SHOTS, "fd"] if reads else [0, "none"]
    condition = Condition.model_validate(["pretrained", *what, row.generator, "free", max(1, row.flows)])
    near = [list(shots[place]) for place in places] if reads else [[] for _ in places]
    prompts = write_condition(condition, requests, near, training, catalogue, room, count, form=form)
    halves = [f"in_context-{OTHER_HALF[half]}" for half in requests["half"]] if reads else row.generator
    sampled = np.arange(len(prompts)) < row.sampled
    return prompts.assign(test_set=row.test_set, request=requests["request"].tolist(), sampled=sampled, model=halves)


def ask(
    prompts: pd.DataFrame,
    generator: str,
    model: LocalModel,
    catalogue: Catalogue,
    asking: Asking,
    progress: bool = False,
) -> pd.DataFrame:
    """All answers of a model: free, under the catalogue's grammar, a second one where the first is not valid, samples.

    On a CPU each call has as many batches as the model has threads, so that one core answers each and seconds are
    compared like with like; batches of second prompts have fewer rows, and samples have the rows of the others.

    Args:
        prompts: of `first_prompts`, of one model.
        generator: `finetuned` or `in_context`.

    Returns:
        one row an answer: test_set, unit, way (free, catalogue, second, sample), draw (0 but for samples), text,
        finished, tokens_in, tokens_out, seconds. A second prompt that does not fit is not asked.
    """
    stop = STOPS[generator]
    model.batch_size = _rows(len(prompts), model)
    first = _answered(prompts.assign(grammar=None), "free", model, stop, asking, progress)
    grammar = flow_grammar(catalogue, stop=stop)
    held = _answered(prompts.assign(grammar=grammar), HELD, model, stop, asking, progress)
    chosen = prompts[prompts["sampled"]]
    drawn = [_drawn(chosen, model, stop, asking, progress)] if len(chosen) else []
    again = second_prompts(prompts, first["text"].tolist(), generator, catalogue, asking)
    model.batch_size = _rows(len(again), model)
    second = [_answered(again, "second", model, stop, asking, progress)] if len(again) else []
    return pd.concat([first, held, *second, *drawn], ignore_index=True)


def _rows(n: int, model: LocalModel) -> int:
    return model.batch_size if model.padded else max(1, min(CPU_ROWS, -(-n // model.threads)))


def _answered(prompts: pd.DataFrame, way: str, model, stop: Sequence[str], asking: Asking, progress: bool):
    found = answer(prompts, model, stop, asking.max_new_tokens, progress)
    return found[["test_set", "unit", "text", "finished", *COST]].assign(way=way, draw=0)


def _drawn(prompts: pd.DataFrame, model: LocalModel, stop: Sequence[str], asking: Asking, progress: bool):
    answers = model.generate(
        prompts["prompt"].tolist(),
        max_new_tokens=asking.max_new_tokens,
        stop=stop,
        temperature=asking.temperature,
        seed=asking.seed,
        samples=asking.samples,
        progress=progress,
    )
    costs = pd.DataFrame([(one.tokens_in, one.tokens_out, one.seconds) for one in model.costs], columns=COST)
    return costs.assign(
        test_set=np.repeat(prompts["test_set"].to_numpy(), asking.samples),
        unit=np.repeat(prompts["unit"].to_numpy(), asking.samples),
        way="sample",
        draw=np.tile(np.arange(asking.samples), len(prompts)),
        text=list(map(flow_of, answers)),
        finished=model.finished,
    )


def second_prompts(
    prompts: pd.DataFrame, texts: Sequence[str], generator: str, catalogue: Catalogue, asking: Asking
) -> pd.DataFrame:
    """The second prompts of flows that are not valid, where they fit.

    Args:
        prompts: as for `ask`.
        texts: the first flow of each.

    Returns:
        the rows of `prompts` that are asked again, with their second prompt and grammar (None).
    """
    problems = [problem_of(text, catalogue) for text in texts]
    again = [
        second_prompt(prompt, generator, request, text, problem)
        for prompt, request, text, problem in zip(prompts["prompt"], prompts["request"], texts, problems, strict=True)
    ]
    fit = [bool(problem) and asking.count(one) <= asking.room for one, problem in zip(again, problems, strict=True)]
    return prompts.assign(prompt=again, grammar=None)[fit]


# ---------------------------------------------------------------- from answers to ways


def ways(answers: pd.DataFrame, asked: pd.DataFrame, catalogue: Catalogue) -> pd.DataFrame:
    """What each way makes of the answers: its flow's quality and its cost, for each request.

    No reading is shared: each answer costs its whole prompt, each second round both. What repair costs without a model
    is measured and added to the seconds. The quality of the best of n < all samples is the mean over every choice of n
    of them, kept in the order of drawing; its cost is n times the mean of the request's samples.

    Args:
        answers: of `ask`, with the column model.
        asked: as for `lib.workflows.ablation.score`.

    Returns:
        one row for each model, test_set, way, n (samples; 1 where none are drawn) and unit: `QUALITY` (0–1), `COSTS`,
        and text (None where n leaves several).
    """
    snapper = Snapper(catalogue)
    parts = []
    for (model, test_set), part in answers.groupby(GROUP, sort=False):
        alone = _alone(part, snapper)
        drawn = part[part["way"] == "sample"]
        single = _scored(alone, asked, catalogue).assign(n=1)
        curves = [_curves(drawn, snapper, asked, catalogue)] if len(drawn) else []
        parts.append(pd.concat([single, *curves], ignore_index=True).assign(model=model, test_set=test_set))
    found = pd.concat(parts, ignore_index=True)
    found["tokens"] = found["tokens_in"] + found["tokens_out"]
    return found[[*GROUP, "way", "n", "unit", *QUALITY, *COSTS, "text"]]


def _alone(answers: pd.DataFrame, snapper: Snapper) -> pd.DataFrame:
    """The flows of `ALONE`, with their costs."""
    free = answers[answers["way"] == "free"].set_index("unit")
    held = answers[answers["way"] == HELD].set_index("unit")
    second = answers[answers["way"] == "second"].set_index("unit")
    mended, spent = _snapped(free["text"], snapper)
    snapped = free.assign(text=mended, seconds=free["seconds"] + spent)
    asked = free.copy()
    asked.loc[second.index, COST] += second[COST]
    asked.loc[second.index, "text"] = [
        asked_again(text, second.loc[unit, "text"], snapper.catalogue)
        for unit, text in free.loc[second.index, "text"].items()
    ]
    made = dict(zip(ALONE, (free, snapped, asked, held), strict=True))
    return pd.concat([part.reset_index().assign(way=way) for way, part in made.items()], ignore_index=True)


def _snapped(texts: pd.Series, snapper: Snapper) -> tuple[list[str], list[float]]:
    mended, seconds = [], []
    for text in texts:
        started = time.perf_counter()
        mended.append(snapper.repair(text).text)
        seconds.append(time.perf_counter() - started)
    return mended, seconds


def _scored(flows: pd.DataFrame, asked: pd.DataFrame, catalogue: Catalogue) -> pd.DataFrame:
    scores = score(flows.drop(columns=["valid"], errors="ignore"), asked, catalogue)
    valid = scores["parsed"] & ~scores["made_up_names"].map(bool) & ~scores["made_up_parameters"].map(bool)
    return scores.assign(valid=valid).astype(dict.fromkeys(QUALITY, float))


def _curves(drawn: pd.DataFrame, snapper: Snapper, asked: pd.DataFrame, catalogue: Catalogue) -> pd.DataFrame:
    drawn = drawn.sort_values(["unit", "draw"], kind="stable", ignore_index=True)
    mended, spent = _snapped(drawn["text"], snapper)
    raw = _scored(drawn, asked, catalogue)
    after = _scored(drawn.assign(text=mended, seconds=drawn["seconds"] + spent), asked, catalogue)
    rows = []
    for unit, places in raw.groupby("unit", sort=False).indices.items():
        alike, valid = agreement(raw["text"].iloc[places].tolist()), raw["valid"].to_numpy()[places] > 0
        for n in range(1, len(places) + 1):
            chosen = [choose(valid, alike, among) for among in itertools.combinations(range(len(places)), n)]
            for way, source in zip(DRAWN, (raw, after), strict=True):
                quality = source[list(QUALITY)].to_numpy()[places][chosen].mean(axis=0)
                cost = n * raw[COST].to_numpy(float)[places].mean(axis=0)
                cost[2] += float(np.mean(np.array(spent)[places])) if way == "best_snapped" else 0.0
                text = source["text"].iloc[places[chosen[0]]] if n == len(places) else None
                rows.append((way, n, unit, *quality, *cost, text))
    return pd.DataFrame(rows, columns=["way", "n", "unit", *QUALITY, *COST, "text"])
