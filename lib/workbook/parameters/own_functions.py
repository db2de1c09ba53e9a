"""Parameters of notebook own_functions."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field, model_validator

from lib.workbook.parameters.base import LocalModelName, Parameters, ProfileName


class OwnFunctions(Parameters):
    notebook: ClassVar[str] = "own_functions"

    # A profile of its own: what it writes must not mix with the report of the papers.
    profile: ProfileName = Field(default="own", description="names the folders of data and report")
    encoder: LocalModelName = Field(default="all-MiniLM-L6-v2", min_length=1)
    toolbox_file: str = Field(default="", description="your own functions; empty: those in queries_file")
    queries_file: str = Field(default="", description="your own queries with answers; empty: the example")
    bootstrap_samples: int = Field(default=2000, ge=100, le=100_000)

    @model_validator(mode="after")
    def _queries_for_the_toolbox(self) -> OwnFunctions:
        if self.toolbox_file and not self.queries_file:
            raise ValueError("toolbox_file needs a queries_file: no query of the example calls your own functions")
        return self
