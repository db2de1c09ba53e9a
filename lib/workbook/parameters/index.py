"""Parameters of the notebook index, the front page."""

from __future__ import annotations

from typing import ClassVar

from lib.workbook.parameters.base import Parameters


class Index(Parameters):
    notebook: ClassVar[str] = "index"
