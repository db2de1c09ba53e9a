"""A larger model tuned in the planner's place: it learns from the planner's own pairs and is asked its own prompts.

Its adapter would not fit into the project, so its plans are kept with it (`lib.generation.answers`), under a hash of
base model, lesson and settings in the place of weights. Elsewhere it is trained where the profile says so.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from lib.assistant.instruct_planner import MAX_TOKENS, MODEL, Planned, each_world
from lib.assistant.planner import Material, prompts_asked
from lib.assistant.planner_training import PlannerLesson
from lib.generation.answers import Answers, KeptModel
from lib.generation.finetune import Training, adapter_for
from lib.generation.local import LocalModel, weights_of

FILE = Path("data") / "answers" / "retrained_plans.jsonl"
# As Hu et al. (2022) and Dettmers et al. (2023) train models of billions; that of the small planner, six times higher,
# was chosen for it alone.
LARGER_RATE = 5e-4
LARGER_EPOCHS = 1  # pass over the pairs; more were not tried


class Again(NamedTuple):
    """How a planner is trained once more.

    Attributes:
        name: of its folder.
        model: name of the base model.
        settings: of the training.
        max_tokens: of a plan.
    """

    name: str
    model: str
    settings: Training
    max_tokens: int


def from_larger(settings: Training, model: str = "") -> Again:
    """A larger base model (empty: `MODEL`) in the planner's place."""
    settings = replace(settings, learning_rate=LARGER_RATE, epochs=LARGER_EPOCHS)
    return Again("larger", model or MODEL, settings, MAX_TOKENS)


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
        model = weights_of(again.model)
        settings = {name: value for name, value in asdict(again.settings).items() if name != "checkpoint_every"}
        content = [model, quantization, self.source, settings]
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()

    def model(self, again: Again, answers: Answers) -> LocalModel:
        """The planner, trained here, or earlier by an equal run; its answers are kept under what it comes from."""
        output = self.folder / "runs" / f"planner_{again.name}"
        training = {"progress": self.progress, "processes": self.processes, **self.machine}
        adapter = adapter_for("", again.model, *self.pairs, output, again.settings, **training)
        model = LocalModel(again.model, adapter=adapter.folder, cache=answers, **self.machine)
        model.weights = self.key(again)
        return model


def planned(prompts: pd.DataFrame, kinds: pd.Series, again: Again, how: Retraining, queries: int) -> Planned | None:
    """A planner's plans: kept ones, or written now where it is trained here; None where neither is there.

    Args:
        prompts: columns query, setting, tools, prompt: those of Table 3.
        kinds: of the queries, by query.
        queries: that it is asked, at least.
    """
    answers = Answers(how.root / FILE, how.folder / "answers" / FILE.name)
    model = KeptModel(answers, how.key(again), (lambda: how.model(again, answers)) if how.here else None)

    def prompts_of(asked: pd.DataFrame) -> pd.DataFrame:
        return prompts[prompts["query"].isin(asked["query"])]

    def kept(shown: pd.DataFrame) -> list[bool]:
        return model.has(shown["prompt"].tolist(), again.max_tokens)

    shown = prompts_asked(prompts[["query"]].drop_duplicates(), kinds, prompts_of, kept, queries, how.lesson.seed)
    if not how.here and not all(kept(shown)):
        return None
    texts = model.generate(shown["prompt"].tolist(), again.max_tokens, progress=how.progress)
    model.unload()
    return Planned(shown.assign(text=texts), model, again.model)


def planned_in_worlds(
    materials: Mapping[str, Material], prompts: pd.DataFrame, again: Again, how: Retraining, queries: int
) -> dict[str, Planned]:
    """`planned` in each named world, where its plans are there; the planner learned in the default one.

    Args:
        materials, prompts: see `lib.assistant.instruct_planner.each_world`.
    """
    return each_world(materials, prompts, functools.partial(planned, again=again, how=how, queries=queries))
