"""Ways of putting a workflow into words that do not depend on its APIs: frames, links, conditions, references.

They stand in `data/flows/frames.yaml`; every list is split between training and test requests by `split_wordings`.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import yaml

from lib.workbook.artifacts import ROOT


def _as_tuples(value: Any) -> Any:
    return tuple(map(_as_tuples, value)) if isinstance(value, list) else value


_WRITTEN = yaml.safe_load((ROOT / "data" / "flows" / "frames.yaml").read_text(encoding="utf-8"))
WHENS, WHEN_WEIGHTS = tuple(_WRITTEN["whens"]), tuple(_WRITTEN["whens"].values())
ENDING_SHARE: float = _WRITTEN["ending_share"]
SYNONYMS: tuple[tuple[str, tuple[str, ...]], ...] = _as_tuples(_WRITTEN["synonyms"])
SENTENCES: dict[str, tuple] = {name: _as_tuples(texts) for name, texts in _WRITTEN["sentences"].items()}
CONDITIONS: dict[str, tuple[str, ...]] = {name: _as_tuples(texts) for name, texts in _WRITTEN["conditions"].items()}
# What a yes-or-no output is called when it is true and when it is not.
FLAGS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    name: _as_tuples(texts) for name, texts in _WRITTEN["flags"].items()
}


def split_wordings(wordings: Sequence, seed: int, name: str) -> dict[str, tuple]:
    """A third of the wordings for the test, the others for training, by a shuffle of their own.

    Two wordings give one each; a single one serves both. Training keeps the order of the list.
    """
    order = list(range(len(wordings)))
    random.Random(f"{seed}:{name}").shuffle(order)
    held = set(order[: max(len(wordings) // 3, int(len(wordings) == 2))])
    if not held:
        return {"training": tuple(wordings), "test": tuple(wordings)}
    return {
        "training": tuple(w for i, w in enumerate(wordings) if i not in held),
        "test": tuple(w for i, w in enumerate(wordings) if i in held),
    }
