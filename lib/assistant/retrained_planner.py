"""The planner trained once more: with further seeds, from a larger base model, and from another ranker's tools.

All but the last learn from the planner's own pairs, and all are asked its own prompts. Their adapters would not fit
into the project, so their plans are kept with it (`lib.generation.kept`), under the prompt and a hash of base model,
lesson and settings: two cores train a small planner in an hour and the larger one in longer. Elsewhere
they are trained where the profile says so.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from lib.assistant.instruct_planner import MAX_TOKENS, MODEL, Planned, each_world, judged
from lib.assistant.kept_plans import KEPT, kept_or_some
from lib.assistant.plan_comparison import per_query
from lib.assistant.planner import SETTINGS, TAUGHT, Material
from lib.assistant.planner_worlds import STEPS
from lib.assistant.trained_parts import PlannerLesson
from lib.evaluation.over_seeds import SEEDS, over_seeds
from lib.generation.finetune import Training, adapter_for
from lib.generation.kept import Keeper, Kept, weights_of
from lib.generation.local import LocalModel

FILE = Path("data") / "answers" / "retrained_plans.jsonl"
# As Hu et al. (2022) and Dettmers et al. (2023) train models of billions; that of the small planner, six times higher,
# was chosen for it alone.
LARGER_RATE = 5e-4
LARGER_EPOCHS = 1  # pass over the pairs; more were not tried


class Again(NamedTuple):
    """How a planner is trained once more.

    Attributes:
        name: `seed_1`, …, or `larger`; of its folder, too.
        model: name of the base model.
        settings: of the training.
        max_tokens: of a plan.
        most: evaluation queries whose plans are kept.
    """

    name: str
    model: str
    settings: Training
    max_tokens: int
    most: int


def with_seeds(model: str, settings: Training, max_tokens: int) -> list[Again]:
    """The planner with further seeds."""
    seeds = range(1, SEEDS + 1)
    return [
        Again(f"seed_{number}", model, replace(settings, seed=settings.seed + number), max_tokens, KEPT)
        for number in seeds
    ]


def from_larger(settings: Training, model: str = "") -> Again:
    """A larger base model (empty: `MODEL`) in the planner's place."""
    settings = replace(settings, learning_rate=LARGER_RATE, epochs=LARGER_EPOCHS)
    return Again("larger", model or MODEL, settings, MAX_TOKENS, KEPT)


@dataclass(frozen=True)
class Retraining:
    """What planners are trained from once more, and where.

    Attributes:
        lesson: of the planner.
        size: training queries that it learns from, at most.
        here: whether a planner is trained whose plans are not kept.
        root: the project's folder.
        folder: of the profile's data.
        machine: threads, quantization.
        processes: that train together, one a GPU.
        progress: show progress bars.
    """

    lesson: PlannerLesson
    size: int
    here: bool
    root: Path
    folder: Path
    machine: Mapping[str, Any] = field(default_factory=dict)
    processes: int = 1
    progress: bool = False

    @cached_property
    def pairs(self) -> tuple[list[str], list[str]]:
        """Prompts and targets."""
        found, _ = self.lesson.pairs(self.lesson.queries(self.size))
        return found["prompt"].tolist(), found["target"].tolist()

    @cached_property
    def source(self) -> str:
        """SHA-256 of the lesson."""
        return self.lesson.source(self.size)

    def key(self, again: Again) -> str:
        """SHA-256 of what a planner comes from: base model, lesson and settings of training."""
        quantization = self.machine.get("quantization", "none")
        model = weights_of(again.model, MODEL, quantization)
        settings = {name: value for name, value in asdict(again.settings).items() if name != "checkpoint_every"}
        content = [model, quantization, self.source, settings]
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()

    def model(self, again: Again) -> LocalModel:
        """The planner, trained here, or earlier by an equal run."""
        output = self.folder / "runs" / f"planner_{again.name}"
        training = {"progress": self.progress, "processes": self.processes, **self.machine}
        adapter = adapter_for("", again.model, *self.pairs, output, again.settings, **training)
        return LocalModel(again.model, adapter=adapter.folder, cache=self.folder / "answers", **self.machine)


def planned(prompts: pd.DataFrame, kinds: pd.Series, again: Again, how: Retraining, queries: int) -> Planned | None:
    """A planner's plans: kept ones, or written now where it is trained here; None where neither is there.

    Args:
        prompts: columns query, setting, tools, prompt: those of Table 3.
        kinds: of the queries, by query.
        queries: that it is asked, at least.
    """
    kept = Kept.read(how.root / FILE, how.key(again), again.max_tokens)
    shown = kept_or_some(prompts, kinds, kept, queries, again.most, how.lesson.seed)
    model = None
    if None in kept.found(shown["prompt"]):
        if not how.here:
            return None
        model = how.model(again)
    keeper = Keeper(model, kept, how.folder / FILE.name)
    plans = shown.assign(text=keeper.generate(shown["prompt"].tolist(), how.progress))
    if model:
        model.unload()  # several planners are asked one after the other
    return Planned(plans, keeper, again.model)


def taught_by_ranker(
    prompts: pd.DataFrame, how: Retraining, model: str, settings: Training, max_tokens: int, queries: int
) -> list[pd.DataFrame]:
    """The plans, judged, of the planner that learned from the learned ranker's tools; none where there are none.

    Args:
        prompts: of `lib.assistant.planner.RANKED_BY_OURS`.
        how: with the lesson of the planner that learned from search.
        model, settings, max_tokens: of that planner.
        queries: that it is asked, at least.
    """
    material = how.lesson.material
    again = Again("tools_by_ranker", model, settings, max_tokens, KEPT)
    kinds = material.gold.set_index("query")["kind"]
    found = planned(prompts, kinds, again, replace(how, lesson=how.lesson.by_ranker()), queries)
    if found is None:
        return []
    return [judged(found.plans.assign(setting=found.plans["setting"].map(TAUGHT)), material)]


def planned_in_worlds(
    materials: Mapping[str, Material], prompts: pd.DataFrame, again: Again, how: Retraining, queries: int
) -> dict[str, Planned]:
    """`planned` in each named world, where its plans are there; the planner learned in the default one.

    Args:
        materials, prompts: see `lib.assistant.instruct_planner.each_world`.
    """
    return each_world(materials, prompts, functools.partial(planned, again=again, how=how, queries=queries))


# ---------------------------------------------------------------- over seeds


def accuracy_over_seeds(
    plans: Sequence[pd.DataFrame], queries: pd.DataFrame, gold: pd.DataFrame, samples: int, seed: int
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """AST accuracy of each setting of Table 3 over the planners' seeds, and of each against the one below it
    (`lib.evaluation.over_seeds`), on the queries that all of them planned.

    Args:
        plans: judged plans (`lib.assistant.planner.score_plans`), one frame a seed.
        queries, gold, samples, seed: as for `lib.assistant.plan_comparison.per_query`.
    """
    scored = [per_query(part, queries, gold, samples, seed) for part in plans]
    first, resampling = scored[0]
    common = functools.reduce(pd.Index.intersection, [scores.index for scores, _ in scored])
    of_settings = {
        setting: np.column_stack([scores.loc[common, (setting, "ast_accuracy", 1)] for scores, _ in scored])
        for setting in SETTINGS
    }
    return over_seeds(of_settings, STEPS, resampling.among(first.index.isin(common)))


LEFT_OUT = (
    "No planner was trained with further seeds here: the kept plans are of another world or other prompts, and the "
    "profile does not say `retrain_planner`."
)
