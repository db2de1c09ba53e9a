"""Parameters of notebook explore_assistant."""

from __future__ import annotations

from typing import ClassVar

from lib.workbook.parameters.base import Parameters


class ExploreAssistant(Parameters):
    notebook: ClassVar[str] = "explore_assistant"
