"""Repair beside constrained decoding: the answers that they are compared on, and what each way makes of them.

free       the likeliest answer
snapped    the same, mended and snapped to the catalogue (see `lib.workflows.repair`)
reasked    the same; where the checker has something against it, a second prompt says what
catalogue  constrained decoding: the likeliest answer under the grammar with the catalogue's names and keys
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from lib.evaluation.comparison import rate_differences, rates
from lib.generation.answers import whole_units
from lib.generation.local import LocalModel
from lib.workflows.ablation import STOPS, Condition, answer, kept_by, score, write_condition
from lib.workflows.ablation_grid import OTHER_HALF, shots_by_selector
from lib.workflows.apis import DefinitionForm
from lib.workflows.catalogue import Catalogue
from lib.workflows.grammars import flow_grammar
from lib.workflows.repair import Snapper, asked_again, problem_of, second_prompt
from lib.workflows.scoring import PERCENT, nothing_made_up

KEPT = 200  # flows of a row, at most, whose answers come with the project
HELD = "catalogue"  # the way that the others are compared with
WAYS = ("free", "snapped", "reasked", HELD)
QUALITY = ("similarity", "valid", "executed")
COST = ["tokens_in", "tokens_out"]
GROUP = ["model", "test_set"]
IN_CONTEXT, FINETUNED = (
    Condition.model_validate(["pretrained", shots, definitions, generator, "free", 1])
    for shots, definitions, generator in ((5, "fd", "in_context"), (0, "none", "finetuned"))
)


class Asking(NamedTuple):
    """How a model is asked.

    Attributes:
        max_new_tokens: of an answer.
        room: tokens that a prompt may have at most.
        count: tokens of a text.
    """

    max_new_tokens: int
    room: int
    count: Callable[[str], int]


class Row(NamedTuple):
    """Whom a test set is asked of: generator (`finetuned`, or `in_context` with few-shots and FD), test set, and flows
    (the first ones of its order)."""

    generator: str
    test_set: str
    flows: int


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
        what `write_condition` returns, and test_set, request, model: the generator, of the in-context model which of
        its two.
    """
    reads = row.generator == "in_context"
    kept = (requests["half"] != "").to_numpy() if reads else np.ones(len(requests), dtype=bool)
    places = np.flatnonzero(kept)[: row.flows]
    requests = requests.iloc[places]
    condition = IN_CONTEXT if reads else FINETUNED
    near = [list(shots[place]) for place in places] if reads else [[] for _ in places]
    prompts = write_condition(condition, requests, near, training, catalogue, room, count, form=form)
    halves = [f"in_context-{OTHER_HALF[half]}" for half in requests["half"]] if reads else row.generator
    return prompts.assign(test_set=row.test_set, request=requests["request"].tolist(), model=halves)


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


def prompts_asked(
    rows: Sequence[Row],
    write: Callable[[Sequence[Row]], pd.DataFrame],
    models: Mapping[str, LocalModel],
    catalogue: Catalogue,
    asking: Asking,
) -> pd.DataFrame:
    """The first prompts of each row: of all of its first `KEPT` flows whose answers are kept, free and constrained,
    where these are as many as it asks for; else of so many.

    Args:
        write: the first prompts of rows (see `all_first_prompts`).
        models: see `ask_all`.
    """
    parts = []
    for row in rows:
        prompts = write([row._replace(flows=max(row.flows, KEPT))])
        held = prompts.assign(grammar=flow_grammar(catalogue, stop=STOPS[row.generator]))
        both = pd.concat([prompts.assign(grammar=None), held], ignore_index=True)
        units = whole_units(both["unit"], kept_by(both, models, asking.max_new_tokens))
        chosen = units if len(units) >= row.flows else prompts["unit"].tolist()[: row.flows]
        parts.append(prompts[prompts["unit"].isin(chosen)])
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
    """All answers of a model: free, under the catalogue's grammar, and a second one where the first is not valid.

    Args:
        prompts: of `first_prompts`, of one model.
        generator: `finetuned` or `in_context`.

    Returns:
        one row an answer: test_set, unit, way (free, catalogue, second), text, finished, tokens_in, tokens_out,
        seconds. A second prompt that does not fit is not asked.
    """
    stop, grammar = STOPS[generator], flow_grammar(catalogue, stop=STOPS[generator])

    def answered(asked: pd.DataFrame, way: str) -> pd.DataFrame:
        found = answer(asked, model, stop, asking.max_new_tokens, progress)
        return found[["test_set", "unit", "text", "finished", *COST, "seconds"]].assign(way=way)

    first = answered(prompts.assign(grammar=None), "free")
    held = answered(prompts.assign(grammar=grammar), HELD)
    again = second_prompts(prompts, first["text"].tolist(), generator, catalogue, asking)
    second = [answered(again, "second")] if len(again) else []
    return pd.concat([first, held, *second], ignore_index=True)


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


def ways(answers: pd.DataFrame, asked: pd.DataFrame, catalogue: Catalogue) -> pd.DataFrame:
    """What each of `WAYS` makes of the answers: its flow's quality and its tokens, for each request.

    No reading is shared: each answer costs its whole prompt, each second round both.

    Args:
        answers: of `ask_all`.
        asked: as for `lib.workflows.ablation.score`.

    Returns:
        one row for each model, test_set, way and unit: `QUALITY` (0–1), `COST`, text.
    """
    snapper, parts = Snapper(catalogue), []
    for (model, test_set), part in answers.groupby(GROUP, sort=False):
        free, held, second = (part[part["way"] == way].set_index("unit") for way in ("free", HELD, "second"))
        snapped = free.assign(text=[snapper.repair(text).text for text in free["text"]])
        reasked = free.copy()
        reasked.loc[second.index, COST] += second[COST]
        reasked.loc[second.index, "text"] = [
            asked_again(text, second.loc[unit, "text"], catalogue)
            for unit, text in free.loc[second.index, "text"].items()
        ]
        for way, flows in zip(WAYS, (free, snapped, reasked, held), strict=True):
            parts.append(flows.reset_index().assign(way=way, model=model, test_set=test_set))
    scores = score(pd.concat(parts, ignore_index=True), asked, catalogue)
    scores = scores.assign(valid=nothing_made_up(scores)).astype(dict.fromkeys(QUALITY, float))
    return scores[[*GROUP, "way", "unit", *QUALITY, *COST, "text"]]


def compare(made: pd.DataFrame, samples: int, seed: int) -> pd.DataFrame:
    """Every way beside constrained decoding.

    Args:
        made: of `ways`.
        samples, seed: of the bootstrap and the tests.

    Returns:
        one row for each model, test set, way and metric (of `QUALITY`; similarity 0–1, the others in percent): value,
        ci_low, ci_high, n (flows), delta, delta_ci_low, delta_ci_high (from constrained decoding), p_value,
        `COST` (means a flow).
    """
    parts = []
    for (model, test_set), part in made.groupby(GROUP, sort=False):
        flows = part.rename(columns={"way": "condition"})
        outcomes = flows.melt(["condition", "unit"], list(QUALITY), "metric", "numerator").assign(denominator=1.0)
        values = rates(outcomes, PERCENT, samples, seed).drop(columns="counted")
        rivals = [(way, HELD) for way in WAYS if way != HELD]
        deltas = rate_differences(outcomes, rivals, PERCENT, samples, seed)
        names = {"a": "condition", "ci_low": "delta_ci_low", "ci_high": "delta_ci_high"}
        deltas = deltas.drop(columns=["b", "n", "counted_both"]).rename(columns=names)
        table = values.merge(deltas, on=["condition", "metric"], how="left")
        table = table.join(flows.groupby("condition", sort=False)[COST].mean(), on="condition")
        parts.append(table.rename(columns={"condition": "way"}).assign(model=model, test_set=test_set))
    table = pd.concat(parts, ignore_index=True)
    return table[[*GROUP, *(name for name in table if name not in GROUP)]]
