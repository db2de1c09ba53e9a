"""Parameters of notebook 02_context_baselines."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from lib.workbook.parameters.shared import ContextRetrieval


class ContextBaselines(ContextRetrieval):
    notebook: ClassVar[str] = "02_context_baselines"

    bm25_b: float = Field(default=0.75, ge=0, le=1)
