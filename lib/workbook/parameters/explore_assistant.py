"""Parameters of notebook explore_assistant."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from lib.workbook.parameters.base import Parameters


class ExploreAssistant(Parameters):
    notebook: ClassVar[str] = "explore_assistant"

    query: str = Field(default="", description="your own words; empty: an evaluation query")
    persona: str = Field(default="", description="who asks, such as p0004; empty: who asks the evaluation query")
