"""Sizes and shares of the two simulated worlds."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from lib.workbook.parameters.base import Parameters


class WorldKnobs(Parameters):
    """Sizes and strengths of the simulated world of personas."""

    world: Literal["explicit", "mixed", "hard"] = "mixed"
    n_personas: int = Field(default=791, ge=4)
    n_training_queries: int = Field(default=4338, ge=1)
    n_evaluation_queries: int = Field(default=936, ge=1)
    split: Literal["phrasing", "item_template", "need"] = "phrasing"
    meaning_share: float = Field(default=1 / 3, ge=0, le=1)
    habit_share: float = Field(default=1 / 3, ge=0, le=1)
    complex_share: float = Field(default=0.10, ge=0, le=1)
    default_share: float = Field(default=0.05, ge=0, le=1)
    habit_strength: float = Field(default=0.8, ge=0, le=1)
    hour_noise: float = Field(default=1.0, gt=0, le=12)
    hard_distractors: float = Field(default=6.0, ge=0)
    opens_per_item: float = Field(default=8.0, ge=1)
    recency_strength: float = Field(default=0.3, ge=0, le=1)
    frequency_strength: float = Field(default=0.3, ge=0, le=1)

    @model_validator(mode="after")
    def _shares(self) -> WorldKnobs:
        if self.meaning_share + self.habit_share > 1 + 1e-9:
            raise ValueError("meaning_share and habit_share together exceed 1")
        if self.complex_share + self.default_share > 1:
            raise ValueError("complex_share and default_share together exceed 1")
        if self.n_training_queries + self.n_evaluation_queries < self.n_personas:
            raise ValueError("there must be at least one query a persona")
        return self


Shares = Annotated[list[Annotated[float, Field(ge=0)]], Field(min_length=5, max_length=5)]


class FlowKnobs(Parameters):
    """Sizes and shares of the simulated workflows; the defaults are the paper's sizes.

    APIs are drawn by weight, but a `tail_share` of the flows has one drawn evenly, so that none goes unused.
    """

    n_training_pairs: int = Field(default=67_000, ge=1)
    n_test_pairs: int = Field(default=1_000, ge=1)
    n_unseen_pairs: int = Field(default=1_200, ge=0)
    n_test_same_pairs: int = Field(default=1_000, ge=0)
    # Of flows with one to five calls.
    length_shares: Shares = [0.04, 0.52, 0.27, 0.12, 0.05]
    condition_share: float = Field(default=1 / 3, ge=0, le=1)
    tail_share: float = Field(default=0.06, ge=0, le=1)
    api_spread: float = Field(default=0.4, ge=0, le=2)

    @model_validator(mode="after")
    def _flow_shares(self) -> FlowKnobs:
        if sum(self.length_shares[1:]) <= 0:
            raise ValueError("length_shares must allow flows of two calls or more")
        if self.condition_share > sum(self.length_shares[1:]) / sum(self.length_shares):
            raise ValueError("condition_share exceeds the share of flows with two calls or more")
        return self
