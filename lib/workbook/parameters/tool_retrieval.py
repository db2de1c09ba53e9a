"""Parameters of notebook 06_tool_retrieval."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field, model_validator

from lib.workbook.parameters.base import LocalModelName, Parameters


class ToolRetrieval(Parameters):
    notebook: ClassVar[str] = "06_tool_retrieval"

    encoder: LocalModelName = Field(default="all-MiniLM-L6-v2", min_length=1)
    wording_queries: int = Field(default=600, ge=1)
    toolbox_file: str = Field(default="", description="your own functions; empty: the toolbox of notebook 01")
    queries_file: str = Field(default="", description="your own queries with answers; empty: those of notebook 01")
    bootstrap_samples: int = Field(default=2000, ge=100, le=100_000)

    @model_validator(mode="after")
    def _queries_for_the_toolbox(self) -> ToolRetrieval:
        if self.toolbox_file and not self.queries_file:
            raise ValueError("toolbox_file needs a queries_file: no query of notebook 01 calls your own functions")
        return self
