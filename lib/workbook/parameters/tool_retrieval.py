"""Parameters of notebook 06_tool_retrieval."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from lib.workbook.parameters.base import LocalModelName, Parameters


class ToolRetrieval(Parameters):
    notebook: ClassVar[str] = "06_tool_retrieval"

    encoder: LocalModelName = Field(default="all-MiniLM-L6-v2", min_length=1)
    tool_wording: Literal["paper", "terse"] = "paper"
    wording_queries: int = Field(default=600, ge=1)
    control_draws: int = Field(default=10, ge=1, le=100)
    tool_worlds_training: int = Field(default=1000, ge=1)
    bootstrap_samples: int = Field(default=2000, ge=100, le=100_000)
