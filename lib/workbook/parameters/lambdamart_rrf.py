"""Parameters of notebook 05_lambdamart_rrf."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from lib.workbook.parameters.shared import CoTWriters


class LambdaMARTRRF(CoTWriters):
    notebook: ClassVar[str] = "05_lambdamart_rrf"

    cot_context_types: Literal["apps", "paper"] = "apps"
    cot_max_tokens: int = Field(default=64, ge=1, le=1024)
    bm25_b: float = Field(default=0.75, ge=0, le=1)
    folds: int = Field(default=5, ge=2, le=20)
    rrf_k: list[Annotated[int, Field(ge=0, le=1000)]] = Field(default=[1, 5, 20, 60], min_length=1, max_length=10)
    control_draws: int = Field(default=10, ge=1, le=100)
    sweep_personas: int = Field(default=60, ge=8)
    cost_queries: int = Field(default=12, ge=2)
