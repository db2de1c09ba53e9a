"""The wordings of a catalogue, split between training and test requests."""

from __future__ import annotations

from lib.workflows import frames
from lib.workflows.apis import API, APP, SLOT, said
from lib.workflows.catalogue import Catalogue
from lib.workflows.frames import split_wordings


class Wordings:
    """All wordings of a catalogue, split between training and test; the unseen set has the test's frames, and
    `test_same` has training's frames and phrases.

    Attributes:
        values: what people name, by kind.
        connectors: the catalogue's, for what people call them.
        apis: by API, list ("phrases", "terse" or "clauses") and side ("training" or "test"): templates.
        frames: by side, then by name: those of `frames.SENTENCES`, of `frames.CONDITIONS` by operator, and of
            `frames.FLAGS` by (summary, state).
    """

    def __init__(self, catalogue: Catalogue, values: dict[str, list], seed: int):
        self.values = values
        self.connectors = catalogue.connectors
        self.apis: dict[tuple[str, str, str], tuple[str, ...]] = {}
        for api in catalogue:
            for name, texts in (("phrases", api.phrases), ("terse", api.terse), ("clauses", api.clauses)):
                usable = [text for text in texts if _usable(api, text)]
                # Siblings share phrases, so they must share the split.
                for side, kept in split_wordings(usable, seed, "|".join(texts)).items():
                    self.apis[api.name, name, side] = kept
        self.frames = _split_frames(seed)


def _usable(api: API, text: str) -> bool:
    """Whether people can name a value for every slot of the text."""
    parameters = [api.parameter(slot) for slot in SLOT.findall(text) if slot != APP]
    return all(p.examples or (said(p.kind) and p.kind != "boolean") for p in parameters)


def _split_frames(seed: int) -> dict[str, dict]:
    sides: dict[str, dict] = {"training": {}, "test": {}}
    lists: list[tuple[object, str, tuple]] = [(name, name, templates) for name, templates in frames.SENTENCES.items()]
    lists += [(name, f"condition {name}", wordings) for name, wordings in frames.CONDITIONS.items()]
    for name, by_state in frames.FLAGS.items():
        for state, wordings in zip((True, False), by_state, strict=True):
            lists.append(((name, state), f"flag {name} {state}", wordings))
    for key, seeded_by, wordings in lists:
        for side, texts in split_wordings(wordings, seed, seeded_by).items():
            sides[side][key] = texts
    return sides
