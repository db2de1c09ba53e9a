"""Chains of thought (CoT) of the shipped writers that are kept with the project.

The writers of notebook 03 answer all evaluation queries and, for notebook 04, all training queries of other personas
than those that the distilled one learned from. That is minutes on two cores; kept under weights, settings and prompt
(`lib.generation.kept`), a report at the paper's size has them at once. Notebook 05 times one query anew.
"""

from __future__ import annotations

from pathlib import Path

from lib.generation.kept import KeptCalls
from lib.generation.local import LocalModel, fingerprint
from lib.generation.models import locate
from lib.workbook.artifacts import Workbook

FILE = Path("data") / "answers" / "chains.jsonl"


def writer(name: str, book: Workbook, adapter: Path | None = None) -> KeptCalls:
    """A model on this machine that writes what is not kept; it is loaded when that is asked for.

    Args:
        name: see `lib.generation.models.locate`.
        book: of notebook 03; what is written now is kept in its data.
        adapter: folder of a LoRA adapter.
    """
    answers = book.data / "answers"

    def load() -> LocalModel:
        return LocalModel(name, adapter=adapter, cache=answers)

    return KeptCalls(book.root / FILE, fingerprint(locate(name), adapter), answers / FILE.name, load)
