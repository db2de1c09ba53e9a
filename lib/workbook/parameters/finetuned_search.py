"""Parameters of notebook 04_finetuned_search."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from lib.workbook.parameters.shared import ContextRetrieval


class FinetunedSearch(ContextRetrieval):
    notebook: ClassVar[str] = "04_finetuned_search"

    finetune_epochs: int = Field(default=1, ge=1, le=20)
    finetune_batch_size: int = Field(default=32, ge=2, le=1024)
    finetune_learning_rate: float = Field(default=2e-4, gt=0, le=0.1)
    hard_negatives: int = Field(default=8, ge=1, le=100)
    learning_curve: list[Annotated[int, Field(ge=1)]] = Field(default=[500], min_length=1, max_length=10)
    retrain_text_search: bool = Field(
        default=False, description="without each fold of needs, where no kept rankings fit"
    )
    retrain_encoders: bool = Field(
        default=False, description="fine-tuned ones for notebook 05's ranker likewise, where no kept cosines fit"
    )
