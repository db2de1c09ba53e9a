"""Shorter prompts: definitions without what their keys mean, few-shots without their values, each skeleton once.

    "whole"                as notebook 09 writes it: few-shots with FD in the form of the profile
    "compact definitions"  name, purpose and keys of an API, no description of a key
    "values elided"        every text that a few-shot's call is given is `"..."`; outputs, conditions and keys stay
    "skeletons once"       a few-shot that calls the same APIs in the same order as a nearer one is left out
    "all three"            these together

What a way leaves out is chosen by the prompt's own text; no right flow is read.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import pandas as pd

from lib.workbook.parameters.dsl_ablation import Condition
from lib.workflows.ablation import write_condition
from lib.workflows.apis import DefinitionForm
from lib.workflows.catalogue import Catalogue
from lib.workflows.in_context import OTHER
from lib.workflows.language import Call, Flow, For, If, Object, Statement, Value, parse, print_flow
from lib.workflows.metaprompt import flow_prompts

ELIDED = "..."


class Way(NamedTuple):
    """What a way of compressing does to a prompt.

    Attributes:
        compact: definitions without descriptions of keys.
        elided: texts that calls are given are left out of few-shots.
        once: few-shots whose calls a nearer one has are left out.
    """

    compact: bool = False
    elided: bool = False
    once: bool = False


WHOLE = "whole"
WAYS = {
    WHOLE: Way(),
    "compact definitions": Way(compact=True),
    "values elided": Way(elided=True),
    "skeletons once": Way(once=True),
    "all three": Way(True, True, True),
}


@functools.cache
def elide(dsl: str) -> str:
    """A flow whose calls are given `"..."` for every text; references, numbers, conditions and keys stay.
    Kept once made: the same few-shots are nearest to many requests.

    >>> elide('a.Post({"to": "me@b.c", "n": 3});')
    'a.Post({"to": "...", "n": 3});'

    Raises:
        FlowError: it does not parse.
    """
    return print_flow(Flow(_elided(parse(dsl).statements)))


def _elided(statements: Iterable[Statement]) -> tuple[Statement, ...]:
    return tuple(map(_without_values, statements))


def _without_values(statement: Statement) -> Statement:
    if isinstance(statement, Call):
        parameters = _without_texts(statement.parameters)
        assert isinstance(parameters, Object)
        return replace(statement, parameters=parameters)
    if isinstance(statement, For):
        return replace(statement, body=_elided(statement.body))
    assert isinstance(statement, If)
    branches = tuple(replace(branch, body=_elided(branch.body)) for branch in statement.branches)
    return replace(statement, branches=branches, otherwise=_elided(statement.otherwise))


def _without_texts(value: Value) -> Value:
    if isinstance(value, Object):
        return Object(tuple((key, _without_texts(held)) for key, held in value.pairs))
    if isinstance(value, tuple):
        return tuple(map(_without_texts, value))
    return ELIDED if isinstance(value, str) else value


def first_of_each(near: Sequence[int], apis: Sequence[Sequence[str]]) -> list[int]:
    """The few-shots without those that call the same APIs in the same order as a nearer one.

    Args:
        near: positions in `apis`, nearest first.
    """
    first: dict[tuple[str, ...], int] = {}
    for shot in near:
        first.setdefault(tuple(apis[shot]), shot)
    return list(first.values())


class Compressed(NamedTuple):
    """Few-shots as a way shows them: of each request the positions, nearest first, and the training pairs that these
    are of, with the flows as shown."""

    shots: list[list[int]]
    training: pd.DataFrame


def compress(way: Way, near: Sequence[Sequence[int]], training: pd.DataFrame) -> Compressed:
    """What a way makes of few-shots.

    Args:
        near: for each request positions in `training` of all few-shots to show, nearest first.
        training: columns request, dsl, apis.
    """
    apis = training["apis"].tolist()
    shots = [first_of_each(one, apis) if way.once else list(one) for one in near]
    if not way.elided:
        return Compressed(shots, training)
    used = sorted({shot for one in shots for shot in one})
    flows = training["dsl"].to_numpy(object).copy()
    for shot in used:
        flows[shot] = elide(flows[shot])
    return Compressed(shots, training.assign(dsl=flows))


def form_of(way: Way, form: DefinitionForm) -> DefinitionForm:
    return "compact" if way.compact else form


def prompt_lengths(
    asked: pd.DataFrame,
    near: pd.Series,
    numbers: Sequence[int],
    training: pd.DataFrame,
    catalogue: Catalogue,
    limit: int,
    count: Callable[[str], int],
    form: DefinitionForm,
    ways: Mapping[str, Way] = WAYS,
) -> pd.DataFrame:
    """Tokens of real prompts with FD, by way and number of few-shots.

    Args:
        asked: columns pair, request.
        near: few-shots by pair, as positions in `training`, nearest first.
        numbers: of few-shots.
        limit, count: as for `lib.workflows.metaprompt.fit`.
        form: of definitions, where a way has them whole.

    Returns:
        one row a request, way and number: pair, shots (asked for), way, tokens, shown (few-shots), dropped (few-shots
        that did not fit), definitions (number).
    """
    parts = []
    for number in numbers:
        first = [near[pair][:number] for pair in asked["pair"]]
        for name, way in ways.items():
            few = compress(way, first, training)
            prompts = flow_prompts(
                asked["request"].tolist(),
                few.shots,
                few.training,
                catalogue,
                limit,
                count,
                few_shot=True,
                form=form_of(way, form),
            )
            sizes = prompts[["tokens", "dropped"]].assign(shown=prompts["shots"])
            sizes["definitions"] = prompts["definitions"].map(len)
            parts.append(sizes.assign(pair=asked["pair"].to_numpy(), shots=number, way=name))
    return pd.concat(parts, ignore_index=True)


def prompts_of_ways(
    condition: Condition,
    asked: pd.DataFrame,
    near: pd.Series,
    training: pd.DataFrame,
    catalogue: Catalogue,
    limit: int,
    count: Callable[[str], int],
    form: DefinitionForm,
    ways: Mapping[str, Way] = WAYS,
) -> pd.DataFrame:
    """The prompts of one condition, compressed in several ways, for the in-context model.

    Args:
        condition: of notebook 09; its few-shots and definitions are compressed.
        asked: columns pair, request, apis, half (not empty: the half of the flow's connectors).
        near, limit, count, form: as for `prompt_lengths`.

    Returns:
        what `lib.workflows.ablation.write_condition` returns, with columns condition (the way), test_set (`test`),
        half, and model (which of the two in-context models may be asked).
    """
    first = [near[pair][: condition.shots] for pair in asked["pair"]]
    parts = []
    for name, way in ways.items():
        few = compress(way, first, training)
        written = write_condition(
            condition, asked, few.shots, few.training, catalogue, limit, count, form=form_of(way, form)
        )
        parts.append(written.assign(condition=name, half=asked["half"].to_numpy()))
    models = [f"in_context-{OTHER[half]}" for half in asked["half"]]
    return pd.concat(parts, ignore_index=True).assign(test_set="test", model=models * len(ways))
