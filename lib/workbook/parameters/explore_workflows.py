"""Parameters of notebook explore_workflows."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from lib.workbook.parameters.base import Parameters


class ExploreWorkflows(Parameters):
    notebook: ClassVar[str] = "explore_workflows"

    request: str = Field(default="", description="your own; empty: a test request")
