"""What a profile's models behind endpoints would be asked: calls, tokens and cost at most, before anything is asked.

python -m lib.report.planned_calls paper

Numbers of calls are the profile's. Prompts are written by the functions that the notebooks use, but for a small
simulated world, and their mean length stands for that of the prompts to come: an estimate. It asks nobody, and needs
neither a key nor a network.
"""

from __future__ import annotations

import functools
import itertools
import json
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat
import numpy as np
import pandas as pd

from lib.assistant.cot import AskedChains, asked_of_zero_shot, taught_and_asked
from lib.assistant.generators import trials
from lib.assistant.personas import draw_capacities
from lib.assistant.queries import held_out_needs
from lib.assistant.ranking_cost import asked_to_time
from lib.assistant.world import World, frames, read_world, simulate
from lib.assistant.written_world import asked_at_most, toolbox_questions
from lib.generation.cache import AnswerCache
from lib.generation.remote import estimate_tokens
from lib.report.record import executed_path
from lib.retrieval.bm25 import BM25T, tokenize
from lib.workbook.artifacts import ROOT
from lib.workbook.inputs import InputError
from lib.workbook.parameters.base import REMOTE, ProfileError, is_remote, select
from lib.workbook.parameters.cot_augmentation import CoTAugmentation
from lib.workbook.parameters.data_gen import DataGen
from lib.workbook.parameters.dsl_ablation import MAY_STAND_BESIDE_SFD, DSLAblation
from lib.workbook.parameters.lambdamart_rrf import LambdaMARTRRF
from lib.workbook.parameters.shared import RemoteKnobs
from lib.workbook.profiles import NOTEBOOKS, read_profile
from lib.workbook.spending import money
from lib.workflows.ablation_grid import (
    Materials,
    Unseen,
    asked_conditions,
    definitions_beside,
    ways_of_adding,
    write_prompts,
)
from lib.workflows.catalogue import Catalogue, read_catalogue
from lib.workflows.generating import generate
from lib.workflows.pair_checks import read_values
from lib.workflows.pairs import read_pairs
from lib.workflows.phraser import STARTS, phrase_catalogue

SAMPLE_PERSONAS = 12
SAMPLE_PAIRS = {"n_training_pairs": 2000, "n_test_pairs": 40, "n_unseen_pairs": 0, "n_test_same_pairs": 0}
SAMPLE_PROMPTS = 12  # of each condition


@dataclass(frozen=True)
class Calls:
    """What a notebook would ask a model for one purpose.

    Attributes:
        notebook, model, purpose: whose, of whom and for what.
        calls: prompts, repeated requests and questions that are asked again left out; negative where answers are there.
        tokens_in: of the prompts, estimated.
        tokens_out: of the answers, each as long as it may be.
    """

    notebook: str
    model: str
    purpose: str
    calls: int
    tokens_in: int
    tokens_out: int

    def cost(self, parameters: RemoteKnobs) -> float:
        prices = parameters.remote_price_in, parameters.remote_price_out
        return (self.tokens_in * prices[0] + self.tokens_out * prices[1]) / 1e6


class Sample:
    """A small world like the profile's own, made when it is first needed, or the data that the profile names."""

    def __init__(self, values: dict[str, Any], root: Path = ROOT):
        self.root = root
        self.values = values
        self.knobs = DataGen.model_validate(select(values, DataGen))

    @functools.cached_property
    def world(self) -> World:
        if self.knobs.world_folder:
            return read_world(self.root / self.knobs.world_folder)
        sizes = {"n_personas": SAMPLE_PERSONAS, "n_training_queries": 96, "n_evaluation_queries": 48}
        return simulate(self.root / "data", self.knobs.model_copy(update=sizes))

    @property
    def queries(self) -> tuple[int, int]:
        """How many training and evaluation queries the profile has."""
        if self.knobs.world_folder:
            sides = list(self.world.sides.values())
            return sides.count("training"), sides.count("evaluation")
        return self.knobs.n_training_queries, self.knobs.n_evaluation_queries

    @functools.cached_property
    def catalogue(self) -> Catalogue:
        catalogue = read_catalogue(self.root, self.knobs.openapi_folder)
        if not self.knobs.openapi_folder or self.knobs.pairs_file:
            return catalogue
        return phrase_catalogue(catalogue, Catalogue.load(self.root / STARTS), self.knobs.seed).catalogue

    @functools.cached_property
    def every_pair(self) -> pd.DataFrame:
        if self.knobs.pairs_file:
            return read_pairs(self.root / self.knobs.pairs_file, self.catalogue)
        values = read_values(self.root / "data" / "values.yaml")
        return generate(self.catalogue, values, self.knobs.model_copy(update=SAMPLE_PAIRS))

    def n_pairs(self, split: str) -> int:
        if self.knobs.pairs_file:
            return int((self.every_pair["split"] == split).sum())
        return getattr(self.knobs, f"n_{split}_pairs")

    def pairs(self, split: str) -> pd.DataFrame:
        part = self.every_pair[self.every_pair["split"] == split]
        return part.head(SAMPLE_PAIRS["n_training_pairs"]).reset_index(drop=True)

    @functools.cached_property
    def asked(self) -> pd.DataFrame:
        """Requests to write flows for."""
        return self.pairs("test").head(SAMPLE_PROMPTS)

    @functools.cached_property
    def near(self) -> list[list[int]]:
        """For each of them the training pairs whose requests are nearest, by BM25T instead of an encoder."""
        index = BM25T([tokenize(request) for request in self.pairs("training")["request"]])
        scores = [index.get_scores(tokenize(request)) for request in self.asked["request"]]
        return [np.argsort(-row, kind="stable")[:100].tolist() for row in scores]


def expected(prompts: Sequence[str], calls: int, max_new_tokens: int) -> tuple[int, int, int]:
    """Calls, tokens in and tokens out of `calls` prompts that are as long as these on average."""
    mean = np.mean([estimate_tokens(prompt) for prompt in prompts]) if len(prompts) else 0
    return calls, round(mean * calls), max_new_tokens * calls


# ---------------------------------------------------------------- one function a notebook: (model, purpose, expected)

Planned = Iterable[tuple[str, str, tuple[int, int, int]]]


def data_gen(parameters: DataGen, sample: Sample) -> Planned:
    """Notebook 01: a world step by step, each step asked for all that the profile wants."""
    if is_remote(parameters.data_writer):
        n_queries = parameters.n_training_queries + parameters.n_evaluation_queries
        capacities = draw_capacities(parameters.n_personas, np.random.default_rng(parameters.seed))
        asked = asked_at_most(parameters.n_personas, n_queries, capacities, parameters.written_toolbox)
        most, longest = max(max(apps.values()) for apps in capacities), max(step.tokens for step in asked.values())
        steps = trials(sample.world, SAMPLE_PERSONAS, most, 24, longest, parameters.seed)
        questions = {step: trial.questions for step, trial in steps.items()}
        if parameters.written_toolbox:
            questions["toolbox"] = toolbox_questions()
        for step, some in questions.items():
            prompts = [question.text for question in some]
            yield parameters.data_writer, step, expected(prompts, asked[step].questions, asked[step].tokens)


def asked_in_03(parameters: CoTAugmentation, sample: Sample) -> list[AskedChains]:
    """What the zero-shot writer is asked; a simulated world's experts have a CoT for every query."""
    world = frames(sample.world)
    every = world["queries"].merge(world["gold"].drop(columns="split"), on="query")
    learned, written_for = taught_and_asked(
        every[every["split"] == "training"],
        held_out_needs(every["need"].unique(), parameters.seed),
        parameters.distilled_pairs,
        parameters.cot_training_queries,
        parameters.seed,
    )
    return asked_of_zero_shot(parameters, sample.queries[1], len(learned), len(written_for))


def chain_prompts(asked: Iterable[AskedChains], sample: Sample) -> list[str]:
    return [prompt for one in asked for prompt in one.prompts([query.text for query in sample.world.queries])]


def cot_augmentation(parameters: CoTAugmentation, sample: Sample) -> Planned:
    """Notebook 03: CoTs for evaluation queries, and for training queries where no expert's can be learned from."""
    if not is_remote(parameters.writer):
        return
    asked = asked_in_03(parameters, sample)
    for split, purpose in (("evaluation", "chains of thought"), ("training", "the same for training")):
        if part := [one for one in asked if one.split == split]:
            calls = sum(one.queries for one in part)
            yield parameters.writer, purpose, expected(chain_prompts(part, sample), calls, parameters.cot_max_tokens)


def lambdamart_rrf(parameters: LambdaMARTRRF, sample: Sample) -> Planned:
    """Notebook 05: what one CoT takes; nothing new where notebook 03 has asked for all evaluation queries."""
    if not is_remote(parameters.writer):
        return
    evaluation = sample.queries[1]
    asked = asked_to_time(parameters, evaluation)
    before = asked_in_03(CoTAugmentation.model_validate(select(sample.values, CoTAugmentation)), sample)
    calls = 0 if asked._replace(queries=evaluation) in before else asked.queries  # else it may have asked for others
    yield (
        parameters.writer,
        "the time of one",
        expected(chain_prompts([asked], sample), calls, parameters.cot_max_tokens),
    )


def dsl_ablation(parameters: DSLAblation, sample: Sample) -> Planned:
    """Notebook 09: the rows of the untuned generator, and what it is asked about APIs held out of training."""
    if not is_remote(parameters.untuned_generator):
        return
    flows = {name: there for name in parameters.test_sets if (there := sample.n_pairs(name))}
    unseen = min(sample.n_pairs("unseen") // 3, parameters.unseen_flows)
    ways = ways_of_adding(parameters.new_shots)
    asked = asked_conditions(parameters.rows, flows, ways, unseen, parameters.reader, grammars=False)
    materials, sums = flow_materials(parameters, sample), np.zeros(3, dtype=int)
    for one in asked:
        if one.condition.generator == "untuned":
            every = one._replace(condition=one.condition.model_copy(update={"flows": SAMPLE_PROMPTS}))
            prompts = write_prompts([every], materials)["prompt"].tolist()
            sums += expected(prompts, one.condition.flows, parameters.dsl_max_tokens)
    calls, tokens_in, tokens_out = sums.tolist()
    yield parameters.untuned_generator, "flows", (calls, tokens_in, tokens_out)


def flow_materials(parameters: DSLAblation, sample: Sample) -> Materials:
    """What the notebook writes prompts from, of the sample: every selector's few-shots are the nearest by words, none
    is added for APIs held out of training, and SFD's definitions are drawn."""
    training, asked = sample.pairs("training"), sample.asked.assign(half="")
    pairs = asked["pair"].tolist()
    near = dict.fromkeys((*MAY_STAND_BESIDE_SFD, "oracle_shots"), pd.Series(sample.near, index=pairs))
    searched = {name: near[name] for name in MAY_STAND_BESIDE_SFD}
    beside = definitions_beside(parameters.ablation, searched, pairs, training["apis"].tolist())
    rng, names = np.random.default_rng(parameters.seed), [api.name for api in sample.catalogue]
    most = min(max(beside.values()), len(names))
    semantic = pd.Series([rng.choice(names, most, replace=False).tolist() for _ in pairs], index=pairs)
    ways = ways_of_adding(parameters.new_shots)
    unseen = Unseen(asked, (), dict.fromkeys((n for n, _ in ways), training), dict.fromkeys(ways, sample.near))
    room = parameters.prompt_window - parameters.dsl_max_tokens, estimate_tokens
    return Materials(
        training,
        sample.catalogue,
        dict.fromkeys(parameters.test_sets, asked),
        near,
        semantic,
        beside,
        {"untuned": room},
        unseen,
        parameters.seed,
        parameters.definition_form,
    )


PLANNERS: dict[str, Callable[..., Planned]] = {
    "01_data_gen": data_gen,
    "03_cot_augmentation": cot_augmentation,
    "05_lambdamart_rrf": lambdamart_rrf,
    "09_dsl_ablation": dsl_ablation,
}


# ---------------------------------------------------------------- the whole profile


def planned_calls(values: dict[str, Any], root: Path = ROOT) -> dict[str, list[Calls]]:
    """What each notebook that asks an endpoint would ask it; a last entry takes off what is in the cache.

    Args:
        values: a profile's (`lib.workbook.profiles.read_profile`).
        root: of the project.
    """
    sample, found = Sample(values, root), {}
    for notebook, planner in PLANNERS.items():
        parameters = NOTEBOOKS[notebook].model_validate(select(values, NOTEBOOKS[notebook]))
        rows = [
            Calls(notebook, model.removeprefix(REMOTE), purpose, *numbers)
            for model, purpose, numbers in planner(parameters, sample)
        ]
        if rows:
            there = answered(notebook, values, root)
            most = [sum(getattr(row, name) for row in rows) for name in ("calls", "tokens_in", "tokens_out")]
            saved = [-min(one, limit) for one, limit in zip(there, most, strict=True)]
            found[notebook] = rows + [Calls(notebook, rows[0].model, "answered already", *saved)] * any(saved)
    return found


def answered(notebook: str, values: dict[str, Any], root: Path) -> tuple[int, int, int]:
    """Calls, tokens in and tokens out that the cache saves, as far as the notebook's last run tells.

    Nothing where it or a notebook before it would now run with other parameters than when it was last executed: what
    it will ask is not known then.
    """
    data = root / "data" / "generated" / values["profile"]
    names = list(NOTEBOOKS)
    if not all(same_parameters(name, values, root) for name in names[: names.index(notebook) + 1] if name in PLANNERS):
        return 0, 0, 0
    try:
        asked = json.loads((data / f"{notebook}.spending.json").read_text(encoding="utf-8"))["asked"]
        cache = AnswerCache(data / "answers")
        there = [tokens for key, tokens in asked.items() if cache.load(key) is not None]
        return len(there), sum(read for read, _ in there), sum(written for _, written in there)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return 0, 0, 0


def same_parameters(notebook: str, values: dict[str, Any], root: Path) -> bool:
    """Whether a notebook was last executed with these values, those of `RemoteKnobs` alone left out of account."""
    free = {name for name in RemoteKnobs.model_fields if name not in ("profile", "seed")}
    try:
        executed = nbformat.read(executed_path(notebook, values["profile"], root), as_version=4)
        before = executed.metadata["papermill"]["parameters"]
    except (OSError, ValueError, AttributeError, KeyError, TypeError, nbformat.ValidationError):
        return False
    now = select(values, NOTEBOOKS[notebook])
    return {k: v for k, v in before.items() if k not in free} == {k: v for k, v in now.items() if k not in free}


def report(found: dict[str, list[Calls]], values: dict[str, Any]) -> str:
    """The plan as plain text; empty where no endpoint is asked."""
    if not found:
        return ""
    parameters = RemoteKnobs.model_validate(select(values, RemoteKnobs))
    priced = parameters.remote_price_in + parameters.remote_price_out > 0
    rows: list[tuple[str, ...]] = [("notebook", "model", "for", "calls", "tokens in", "tokens out", "cost")]
    costs = {notebook: sum(row.cost(parameters) for row in part) for notebook, part in found.items()}
    for row in itertools.chain(*found.values()):
        numbers = [f"{number:,}" for number in (row.calls, row.tokens_in, row.tokens_out)]
        rows.append((row.notebook, row.model, row.purpose, *numbers, amount(row.cost(parameters)) if priced else "–"))
    every = list(itertools.chain(*found.values()))
    sums = [f"{sum(getattr(row, name) for row in every):,}" for name in ("calls", "tokens_in", "tokens_out")]
    rows.append(("together", "", "", *sums, amount(sum(costs.values())) if priced else "–"))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    notes = [
        f"Models behind an endpoint that profile {values['profile']} would ask. Nothing is asked now. Tokens in are",
        "estimates from prompts for a small simulated world, a token for every three characters; tokens out and",
        "cost are what they may be at most, each answer as long as allowed. Requests repeated after a fault, and",
        "questions asked again because an answer was no good, come on top.",
        "",
        *("  ".join(map(justify, row, widths, range(len(row)))).rstrip() for row in rows),
        "",
    ]
    limit = parameters.spending_limit
    if not priced:
        notes.append("The profile has no prices: set remote_price_in and remote_price_out for a cost.")
    elif limit is None:
        notes.append("The profile has no spending_limit.")
    else:
        # answers that are kept count, too
        gross = {name: sum(row.cost(parameters) for row in part if row.calls > 0) for name, part in found.items()}
        over = [notebook for notebook, cost in gross.items() if cost > limit]
        stopping = f"; these may stop there: {', '.join(over)}" if over else "; without such requests none may reach it"
        notes.append(f"spending_limit is {limit:g} for each notebook{stopping}.")
    return "\n".join(notes)


def justify(cell: str, width: int, column: int) -> str:
    """Names left, numbers right."""
    return cell.ljust(width) if column < 3 else cell.rjust(width)


def amount(cost: float) -> str:
    return f"-{money(-cost)}" if cost < 0 else money(cost)


def main(arguments: list[str]) -> int:
    if len(arguments) != 1:
        print("usage: python -m lib.report.planned_calls PROFILE", file=sys.stderr)
        return 2
    path = ROOT / "notebooks" / "profiles" / f"{arguments[0]}.yaml"
    try:
        values = read_profile(Path(os.path.relpath(path)))
        text = report(planned_calls(values), values)
    except (ProfileError, InputError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    if text:
        print(text, end="\n\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
