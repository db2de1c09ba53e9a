"""Parameters of notebook 10_generators."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from lib.workbook.parameters.base import LanguageModelName, LocalModelName
from lib.workbook.parameters.shared import RemoteKnobs
from lib.workbook.parameters.worlds import FlowKnobs, WorldKnobs

DISTRACTORS = 200  # flows that search may take for the right one


class Generators(RemoteKnobs):
    notebook: ClassVar[str] = "10_generators"

    encoder: LocalModelName = Field(default="all-MiniLM-L6-v2", min_length=1)
    compared_writer: LanguageModelName = Field(
        default="", description="in the simulator's place; empty: a larger model's kept answers, or SmolLM2"
    )
    compared_personas: int = Field(default=4, ge=1, le=100)
    compared_items: int = Field(default=3, ge=1, le=20)
    compared_queries: int = Field(default=60, ge=1, le=1000)
    compared_repairs: int = Field(default=1, ge=0, le=5)
    compared_max_tokens: int = Field(default=400, ge=8, le=4096)
    compared_flows: int = Field(default=60, ge=1, le=1000)

    crossed_writer: LocalModelName = Field(
        default="", description="a local model that says the simulator's queries anew; empty: kept answers are shown"
    )
    crossed_personas: int = Field(default=240, ge=6, le=2000, description="of the small world whose queries it says")
    crossed_queries: int = Field(default=40, ge=2, description="of training, and of evaluation, that a new one says")
    bootstrap_samples: int = Field(default=2000, ge=100, le=100_000)

    @property
    def crossed_world(self) -> WorldKnobs:
        """The simulated world whose queries are said anew: two thirds of them in training."""
        return WorldKnobs(
            profile=self.profile,
            seed=self.seed,
            n_personas=self.crossed_personas,
            n_training_queries=4 * self.crossed_personas,
            n_evaluation_queries=2 * self.crossed_personas,
        )

    @property
    def world(self) -> WorldKnobs:
        """The simulated world that the model is tried out on: no larger than the questions need."""
        size = max(4, self.compared_personas + self.compared_queries // 4)
        return WorldKnobs(
            profile=self.profile,
            seed=self.seed,
            n_personas=size,
            n_training_queries=6 * size,
            n_evaluation_queries=2 * size,
        )

    @property
    def flows(self) -> FlowKnobs:
        """Simulated flows: requests are written for the first test pairs, the others are there to be confused with."""
        pairs = DISTRACTORS + self.compared_flows
        return FlowKnobs(
            profile=self.profile,
            seed=self.seed,
            n_training_pairs=1,
            n_test_pairs=pairs,
            n_unseen_pairs=0,
            n_test_same_pairs=0,
        )
