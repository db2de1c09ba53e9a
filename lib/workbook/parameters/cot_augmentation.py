"""Parameters of notebook 03_cot_augmentation."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from lib.workbook.parameters.shared import CoTWriters


class CoTAugmentation(CoTWriters):
    notebook: ClassVar[str] = "03_cot_augmentation"

    cot_context_types: Literal["apps", "paper"] = "apps"
    cot_queries: int = Field(default=936, ge=1)
    cot_training_queries: int = Field(default=2338, ge=1)
    shipped_writer_pairs: int = Field(default=2000, ge=0, description="of the shipped distilled writer; 0 takes none")
    distilled_pairs: int = Field(default=480, ge=1, description="learned from here where no shipped writer fits")
    distilled_learning_rate: float = Field(default=3e-3, gt=0, le=0.1)
    distilled_epochs: int = Field(default=1, ge=1, le=20)
    cot_max_tokens: int = Field(default=64, ge=1, le=1024)
