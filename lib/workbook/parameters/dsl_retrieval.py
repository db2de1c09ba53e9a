"""Parameters of notebook 08_dsl_retrieval."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field, field_validator

from lib.workbook.parameters.base import LocalModelName
from lib.workbook.parameters.shared import TunedModel


class DSLRetrieval(TunedModel):
    notebook: ClassVar[str] = "08_dsl_retrieval"

    workflow_encoder: LocalModelName = Field(default="all-MiniLM-L6-v2", min_length=1)
    shipped_tst_pairs: int = Field(default=100_000, ge=0, description="of the shipped encoders; 0 takes none")
    tst_training_pairs: int = Field(default=3_000, ge=2, description="tuned on here where no shipped encoder fits")
    tst_learning_rate: float = Field(default=1e-3, gt=0, le=0.1)
    tst_epochs: int = Field(default=1, ge=1, le=20)
    tst_batch_size: int = Field(default=64, ge=2, le=1024)
    tst_curve: list[Annotated[int, Field(ge=2)]] = Field(default=[3_000, 12_000], max_length=10)
    tst_curve_pool: int = Field(default=2_500, ge=20)
    tst_curve_requests: int = Field(default=300, ge=1, description="of each test set")
    searched_whole: list[Literal["tst", "tst_affine"]] = Field(
        default=["tst"], description="encoders that search all training requests; tst is one of them"
    )
    shots: list[Annotated[int, Field(ge=1, le=100)]] = Field(default=[5, 20], min_length=1, max_length=10)
    definition_form: Literal["compact", "described", "record"] = "described"
    generator: LocalModelName = Field(default="SmolLM2-135M-Instruct", min_length=1)
    shipped_dsl_pairs: int = Field(default=67_000, ge=0, description="of the shipped models; 0 takes none")
    dsl_training_pairs: int = Field(default=512, ge=1, description="learned from here where no shipped model fits")
    dsl_learning_rate: float = Field(default=0.0, ge=0, le=0.1, description="0: what suits the number of pairs")
    dsl_epochs: int = Field(default=1, ge=1, le=20)
    dsl_batch_size: int = Field(default=0, ge=0, le=1024, description="0: what suits the number of pairs")
    dsl_curve: list[Annotated[int, Field(ge=1)]] = Field(default=[2_048], max_length=10)
    dsl_flows: int = Field(default=32, ge=2, description="of each test set")
    dsl_max_tokens: int = Field(default=256, ge=1, le=4096)
    bootstrap_samples: int = Field(default=2000, ge=100, le=100_000)

    @field_validator("searched_whole")
    @classmethod
    def _with_the_papers(cls, kinds: list[str]) -> list[str]:
        if "tst" not in kinds or len(set(kinds)) < len(kinds):
            raise ValueError("must name tst, the paper's, and no encoder twice")
        return kinds
