"""Parameters of notebook 07_planner."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from lib.workbook.parameters.base import LocalModelName
from lib.workbook.parameters.shared import TunedModel


class PlannerTuning(TunedModel):
    notebook: ClassVar[str] = "07_planner"

    planner: LocalModelName = Field(default="SmolLM2-135M-Instruct", min_length=1)
    shipped_planner_pairs: int = Field(default=4_338, ge=0, description="of the shipped planner; 0 takes none")
    planner_pairs: int = Field(default=780, ge=1, description="learned from here where no shipped planner fits")
    planner_learning_rate: float = Field(default=3e-3, gt=0, le=0.1)
    planner_epochs: int = Field(default=2, ge=1, le=20)
    planner_batch_size: int = Field(default=8, ge=1, le=1024)
    planner_queries: int = Field(default=102, ge=1)
    planner_worlds_queries: int = Field(
        default=60, ge=0, description="evaluation queries of each named world; 0 leaves them out"
    )
    instruct_planner: LocalModelName = Field(
        default="", description="an instruct model that plans untuned; empty: its kept plans are shown"
    )
    instruct_planner_queries: int = Field(default=30, ge=1, description="evaluation queries that it is asked, at least")
    retrain_planner: bool = Field(default=False, description="train the larger planner where its plans are not kept")
    shown_tools: int = Field(default=10, ge=1, le=50)
    shown_items: int = Field(default=3, ge=1, le=20)
    planner_max_tokens: int = Field(default=64, ge=1, le=1024)
    bootstrap_samples: int = Field(default=2000, ge=100, le=100_000)
