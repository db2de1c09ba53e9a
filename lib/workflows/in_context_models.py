"""The two in-context models: shipped ones where they fit this world, else trained here on fewer prompts.

What a half learns from is known by its source: the world's training flows, its catalogue and the seed. The shipped
parts have the source's hash on record in place of that of the prompts, which take minutes to write.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from lib.generation.finetune import Training, adapter_for
from lib.generation.local import fingerprint
from lib.generation.models import locate
from lib.retrieval import dense
from lib.workbook.artifacts import ROOT
from lib.workbook.parts import NONE, RECORD, Adapter, adapter_of, shipped
from lib.workflows.apis import DefinitionForm
from lib.workflows.catalogue import Catalogue
from lib.workflows.in_context import HALVES, LIMIT, Half, pool_of, training_prompts
from lib.workflows.pairs import training_hash

READER = Training(rank=24, alpha=48, learning_rate=1e-3, epochs=1, batch_size=16)  # both halves in 30 MB
SHORT_PROMPTS, SHORT = 960, 1_000  # that `make train` learns from without a GPU, of so many tokens at most: an hour
MANY = 2_000  # prompts; fewer are learned in batches of 4, or there would be few steps


@dataclass(frozen=True)
class Source:
    """What the in-context models of a world learn from.

    Attributes:
        flows: columns pair, split, request, dsl, apis.
        catalogue: the whole one.
        halves: of `lib.workflows.in_context.halves`.
        seed: of halves and prompts.
        form: of definitions.
    """

    flows: pd.DataFrame
    catalogue: Catalogue
    halves: Mapping[str, Half]
    seed: int
    form: DefinitionForm

    @property
    def hash(self) -> str:
        """SHA-256 over training pairs, catalogue, halves, seed and form of definitions."""
        apis = [(api.definition_in("record"), api.in_training) for api in self.catalogue]
        return training_hash(self.flows, [self.seed, self.form, sorted(self.halves.items()), apis])


def reader(prompts: int, seed: int) -> Training:
    """Settings of a training on so many prompts."""
    return replace(READER, seed=seed, batch_size=READER.batch_size if prompts > MANY else 4)


def part_of(half: Half) -> str:
    """The name of a half's model: the one that learned from it."""
    return f"in_context-{half}"


def longest_learned(readers: Mapping[str, Adapter]) -> int:
    """Tokens that the prompts had at most from which in-context models learned."""
    short = all(made.shipped and made.rows == SHORT_PROMPTS for made in readers.values())
    return SHORT if readers and short else LIMIT


def adapter_in(folder: Path) -> Adapter:
    """An adapter that notebook 08 put into a folder, trained by it or shipped."""
    record = json.loads((folder / RECORD).read_text(encoding="utf-8"))
    return adapter_of(folder, record, from_project="part" in record)


def in_context_models(
    source: Source,
    name: str,
    vectors: np.ndarray,
    encoder: str,
    prompts: int,
    output: Path,
    count: Callable[[str], int],
    take_shipped: bool = True,
    root: Path = ROOT,
    quantization: str = "none",
    threads: int = 2,
    progress: bool = False,
) -> dict[str, Adapter]:
    """{name of the model: its adapter} of both halves: the shipped parts where base model and source are the same, else
    trained here, or finished here earlier, on few-shots and definitions by the pretrained encoder.

    Args:
        name: of the base model.
        vectors: of the flows' requests by the encoder, (flows, dimensions).
        encoder: its name; it encodes the APIs where a model is trained here.
        prompts: that a model learns from where it is trained here.
        output: folder of what is trained here.
        count: tokens of a text.
        take_shipped: whether shipped parts are wanted.
        root: the project's folder.

    Raises:
        ValueError: the world is too small for any prompt over one half.
    """
    parts = {half: part_of(half) for half in HALVES}
    found = dict.fromkeys(HALVES, NONE)
    if take_shipped:
        model, made_from = fingerprint(locate(name), quantization=quantization), source.hash
        found = {half: shipped(part, model, made_from, root) for half, part in parts.items()}
    if all(one.folder for one in found.values()):
        return {
            parts[half]: adapter_of(one.folder, one.record, from_project=True)
            for half, one in found.items()
            if one.folder
        }
    of_apis = api_vectors(source, encoder, threads)
    machine: dict[str, Any] = {"quantization": quantization, "threads": threads, "progress": progress}
    made = {}
    for half, part in parts.items():
        rows = prompts_over(half, source, {"pretrained": vectors}, of_apis, prompts, count, progress=progress)
        if rows.empty:
            raise ValueError(
                f"this world is too small to teach an in-context model: no prompt over half {half} of its connectors; "
                "give untuned_generator a name, and the rows of in_context the generator untuned"
            )
        texts = rows["prompt"].tolist(), rows["target"].tolist()
        adapter = adapter_for("", name, *texts, output / part, reader(prompts, source.seed), **machine)
        made[part] = replace(adapter, reason=found[half].reason)
    return made


def api_vectors(source: Source, encoder: str, threads: int = 2) -> np.ndarray:
    """Unit vectors of the source's APIs by the pretrained encoder, (APIs, dimensions)."""
    texts = [api.text for api in source.catalogue]
    return dense.encode(dense.load_encoder(locate(encoder), threads), texts)


def prompts_over(
    half: Half,
    source: Source,
    vectors: Mapping[str, np.ndarray],
    of_apis: np.ndarray,
    n: int,
    count: Callable[[str], int],
    limit: int = LIMIT,
    progress: bool = False,
) -> pd.DataFrame:
    """`lib.workflows.in_context.training_prompts` over one half of the source's connectors.

    Args:
        vectors: of the flows' requests by selector, as for `lib.workflows.in_context.pool_of`.
        of_apis: of `api_vectors`.
        n, count, limit: of prompts and their tokens.
    """
    pool = pool_of(half, source.halves, source.flows, vectors, source.catalogue, of_apis)
    return training_prompts(pool, n, source.seed, count, limit, source.form, progress)
