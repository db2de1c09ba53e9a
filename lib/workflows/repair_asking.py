"""The answers that repair and constrained decoding are compared on: free, constrained, second ones, and samples.

A model is asked for each apart: answered in one batch, free answers would pay for the masks of constrained ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
import pandas as pd

from lib.generation.local import CPU_ROWS, LocalModel
from lib.workbook.parameters.dsl_ablation import Condition
from lib.workflows.ablation import STOPS, answer, write_condition
from lib.workflows.ablation_grid import OTHER_HALF, shots_by_selector
from lib.workflows.apis import DefinitionForm
from lib.workflows.catalogue import Catalogue
from lib.workflows.grammars import flow_grammar
from lib.workflows.metaprompt import flow_of
from lib.workflows.repair import problem_of, second_prompt
from lib.workflows.repair_ways import COST, HELD

IN_CONTEXT, FINETUNED = (
    Condition.model_validate(["pretrained", shots, definitions, generator, "free", 1])
    for shots, definitions, generator in ((5, "fd", "in_context"), (0, "none", "finetuned"))
)


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
    condition = IN_CONTEXT if reads else FINETUNED
    near = [list(shots[place]) for place in places] if reads else [[] for _ in places]
    prompts = write_condition(condition, requests, near, training, catalogue, room, count, form=form)
    halves = [f"in_context-{OTHER_HALF[half]}" for half in requests["half"]] if reads else row.generator
    sampled = np.arange(len(prompts)) < row.sampled
    return prompts.assign(test_set=row.test_set, request=requests["request"].tolist(), sampled=sampled, model=halves)


def all_first_prompts(
    rows: Sequence[Row],
    order: Mapping[str, pd.DataFrame],
    few_shots: pd.DataFrame,
    training: pd.DataFrame,
    catalogue: Catalogue,
    room: int,
    count: Callable[[str], int],
    form: DefinitionForm,
) -> pd.DataFrame:
    """`first_prompts` of every row whose test set there is.

    Args:
        order: {test set: its flows in the order of asking} (see `lib.workflows.ablation_grid.order_of_asking`).
        few_shots: as for `lib.workflows.ablation_grid.shots_by_selector`; they have the pairs of the in-context rows.
        training, catalogue, room, count, form: as for `first_prompts`.
    """
    near = shots_by_selector(few_shots, training, [IN_CONTEXT])["pretrained"]
    parts = []
    for row in rows:
        if row.test_set in order:
            requests = order[row.test_set]
            shots = near[requests["pair"]].tolist() if row.generator == "in_context" else []
            parts.append(first_prompts(row, requests, shots, training, catalogue, room, count, form))
    return pd.concat(parts, ignore_index=True)


def ask_all(
    prompts: pd.DataFrame,
    models: Mapping[str, LocalModel],
    catalogue: Catalogue,
    asking: Asking,
    progress: bool = False,
) -> pd.DataFrame:
    """`ask` of each model of the prompts.

    Args:
        prompts: of `all_first_prompts`.
        models: by name: `finetuned`, and the two in-context models such as `in_context-a`.

    Returns:
        the same with the column model: the generator.
    """
    parts = []
    for name, part in prompts.groupby("model", sort=False):
        generator = str(name).split("-")[0]
        answers = ask(part.reset_index(drop=True), generator, models[str(name)], catalogue, asking, progress)
        parts.append(answers.assign(model=generator))
    return pd.concat(parts, ignore_index=True)


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
    stop, grammar = STOPS[generator], flow_grammar(catalogue, stop=STOPS[generator])
    with _rows_for(len(prompts), model):
        first = _answered(prompts.assign(grammar=None), "free", model, stop, asking, progress)
        held = _answered(prompts.assign(grammar=grammar), HELD, model, stop, asking, progress)
        chosen = prompts[prompts["sampled"]]
        drawn = [_drawn(chosen, model, stop, asking, progress)] if len(chosen) else []
    again = second_prompts(prompts, first["text"].tolist(), generator, catalogue, asking)
    with _rows_for(len(again), model):
        second = [_answered(again, "second", model, stop, asking, progress)] if len(again) else []
    return pd.concat([first, held, *second, *drawn], ignore_index=True)


@contextmanager
def _rows_for(n: int, model: LocalModel) -> Iterator[None]:
    """A model that answers n prompts in batches of this module's size, and later ones in its own again: in bfloat16 an
    answer may depend on its batch."""
    before = model.batch_size
    if not model.padded:
        model.batch_size = max(1, min(CPU_ROWS, -(-n // model.threads)))
    try:
        yield
    finally:
        model.batch_size = before


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
    return prompts.assign(prompt=again, grammar=None)[np.array(fit, dtype=bool)]
