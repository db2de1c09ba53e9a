"""The workflow paper's trained parts, at its sizes: what each learns from, and its settings.

Names: `nl2dsl-67000` writes flows; `tst-100000` is the encoder tuned on pairs of requests, `tst_affine-100000` the same
with a learned scale, `tst_shuffled-100000` the control; `tst-3000` and the like, of fewer pairs: for learning curves.
`tst-a`, `tst-b`: tuned on flows over one half of the connectors; `in_context-a`, `in_context-b`: taught to read prompts
over that half.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd

from lib.generation.finetune import Training, adapter_for, pairs_hash
from lib.generation.local import fingerprint, load_tokenizer
from lib.generation.models import locate
from lib.retrieval.dense import encode, load_encoder
from lib.retrieval.tuning import Tuning, encoder_for
from lib.workbook.parts import Adapter, adapter_of, shipped
from lib.workflows import in_context, nl2dsl, target_similarity
from lib.workflows.apis import DefinitionForm
from lib.workflows.catalogue import Catalogue
from lib.workflows.in_context import LIMIT, Half
from lib.workflows.in_context_models import SHORT, SHORT_PROMPTS, Source, api_vectors, part_of, prompts_over, reader
from lib.workflows.metaprompt import token_counter
from lib.workflows.pairs import training_hash

WRITER = Training(rank=16, alpha=32, learning_rate=2e-3, epochs=1, batch_size=64)
SMALL_WRITER = Training(rank=16, alpha=32, learning_rate=3e-3, epochs=1, batch_size=4)  # of a few thousand pairs
SELECTOR = Tuning(rank=16, alpha=32, learning_rate=1e-3, batch_size=64)
FEWER = {"tst": (3_000, 12_000, 40_000), "tst_affine": (3_000, 12_000), "nl2dsl": (2_048,)}  # of learning curves
PROMPTS = 7_000  # that an in-context model learns from on a GPU, of up to 3,000 tokens
HALF_PAIRS = 50_000  # scored pairs over one half of the connectors, which has about a quarter of the training flows


@dataclass(frozen=True)
class World:
    """What parts learn from.

    Attributes:
        flows: columns pair, split, request, dsl, apis.
        mined: pairs of training requests, from `lib.workflows.target_similarity.mine_training_pairs`.
        encoder, generator: names of the base models.
        seed: of the samples.
        vectors, catalogue, threshold, form: for the halves: unit vectors of the flows' requests by the encoder; the
            APIs; the cosine above which mined pairs are positive; the form of definitions.
    """

    flows: pd.DataFrame
    mined: pd.DataFrame
    encoder: str
    generator: str
    seed: int
    vectors: np.ndarray | None = None
    catalogue: Catalogue | None = None
    threshold: float = 0.7
    form: DefinitionForm = "described"

    @functools.cached_property
    def source(self) -> Source:
        """What the in-context models learn from."""
        assert self.catalogue is not None
        halves = in_context.halves(self.catalogue, self.flows, self.seed)
        return Source(self.flows, self.catalogue, halves, self.seed, self.form)

    @functools.cached_property
    def half(self) -> np.ndarray:
        """The half that each training flow lies in; empty where it lies in none, or is no training flow."""
        training = self.flows["split"] == "training"
        rows = zip(self.flows["apis"], training, strict=True)
        return np.array([in_context.half_of(apis, self.source.halves) if learned else "" for apis, learned in rows])


@dataclass(frozen=True)
class Part:
    """A trained part.

    Attributes:
        size: rows that it learns from.
        settings: of a language model (`Training`) or of an encoder (`Tuning`).
        rows: for a language model columns prompt, target; for an encoder scored pairs.
        reads: the half that an in-context model learns to read prompts over.
        selector: name of the tuned encoder whose few-shots it reads, too.
    """

    size: int
    settings: Training | Tuning
    rows: Callable[..., pd.DataFrame]
    reads: str = ""
    selector: str = ""


def writer_rows(world: World, size: int) -> pd.DataFrame:
    """Prompts and targets of the model that is fine-tuned on requests and flows."""
    pairs = nl2dsl.sample(world.flows, "training", size, world.seed)
    return pd.DataFrame({"prompt": pairs["request"].map(nl2dsl.prompt), "target": pairs["dsl"].map(nl2dsl.target)})


def selector_rows(world: World, size: int) -> pd.DataFrame:
    """Pairs of requests with the similarity of their flows."""
    training = world.flows[world.flows["split"] == "training"]
    return target_similarity.tuning_rows(world.mined, training, size, 1, world.seed)


def shuffled_rows(world: World, size: int) -> pd.DataFrame:
    """The control: the same pairs, their similarities shuffled."""
    return target_similarity.permuted_targets(selector_rows(world, size), world.seed)


ROWS = {"nl2dsl": writer_rows, "tst": selector_rows, "tst_affine": selector_rows, "tst_shuffled": shuffled_rows}


def name_of(kind: str, size: int) -> str:
    """What a part is called, such as tst-100000."""
    return f"{kind}-{size}"


def half_rows(world: World, size: int, half: str) -> pd.DataFrame:
    """Pairs of requests whose flows lie in one half of the connectors, mined as those of all flows are."""
    assert world.vectors is not None
    own = world.half == half
    flows = world.flows[own].reset_index(drop=True)
    mined, _ = target_similarity.mine_training_pairs(flows, world.vectors[own], size, world.threshold, world.seed)
    return target_similarity.scored_pairs(mined, flows)


def reader_rows(
    world: World, size: int, half: Half, limit: int = LIMIT, adapter: Path | None = None, progress: bool = False
) -> pd.DataFrame:
    """Prompts and targets over one half, their few-shots chosen by the pretrained encoder and by one tuned there.

    Args:
        limit: tokens of a prompt.
        adapter: folder of the tuned encoder; without one, the pretrained encoder chooses all few-shots.
    """
    assert world.vectors is not None
    by = {"pretrained": world.vectors}
    if adapter:
        own, by["tst"] = world.half == half, np.zeros_like(world.vectors)
        tuned = load_encoder(locate(world.encoder), adapter=adapter)
        by["tst"][own] = encode(tuned, world.flows["request"][own].tolist(), progress=progress)
    of_apis = api_vectors(world.source, world.encoder)
    tokenizer, _ = load_tokenizer(locate(world.generator))
    return prompts_over(half, world.source, by, of_apis, size, token_counter(tokenizer), limit, progress)


def mined_from(world: World, name: str) -> str:
    """SHA-256 of what an encoder's part learns from: the training requests and flows, and how pairs are mined of them.

    Not of the scored pairs themselves: which ones are mined depends on the last bits of the pretrained embeddings, and
    those on the processor.

    Args:
        name: of the part.
    """
    of_a_half = name.endswith(tuple(f"-{half}" for half in in_context.HALVES))
    halves = sorted(world.source.halves.items()) if of_a_half else []
    return training_hash(world.flows, [name, world.threshold, world.seed, halves])


def parts(on_gpu: bool = True) -> dict[str, Part]:
    """Every part by its name.

    Args:
        on_gpu: whether one trains them. Elsewhere an in-context model learns from fewer and shorter prompts.
    """
    kinds: dict[str, tuple[int, Training | Tuning]] = {
        "nl2dsl": (67_000, WRITER),
        "tst": (100_000, SELECTOR),
        "tst_affine": (100_000, replace(SELECTOR, loss="affine")),
        "tst_shuffled": (100_000, SELECTOR),
    }
    every = {name_of(kind, size): Part(size, settings, ROWS[kind]) for kind, (size, settings) in kinds.items()}
    for kind, sizes in FEWER.items():
        settings = SMALL_WRITER if kind == "nl2dsl" else kinds[kind][1]
        every |= {name_of(kind, size): Part(size, settings, ROWS[kind]) for size in sizes}
    for half in in_context.HALVES:
        every[f"tst-{half}"] = Part(HALF_PAIRS, SELECTOR, functools.partial(half_rows, half=half))
        rows = functools.partial(reader_rows, half=half)
        every[part_of(half)] = (
            Part(PROMPTS, reader(PROMPTS, 0), rows, half, selector=f"tst-{half}")
            if on_gpu
            else Part(SHORT_PROMPTS, reader(SHORT_PROMPTS, 0), functools.partial(rows, limit=SHORT), half)
        )
    return every


def make(name: str, part: Part, world: World, output: Path, root: Path, **machine) -> tuple[Adapter, str]:
    """The shipped part where it fits, else trained at `output`, from where a training that was killed goes on; and the
    hash of what it learns from.

    Args:
        root: the project's folder.
        machine: threads, progress.

    Raises:
        ValueError: the world has fewer rows than the part learns from.
    """
    if part.reads:
        return make_reader(name, part, world, output, root, **machine)
    rows = part.rows(world, part.size)
    if len(rows) < part.size:
        raise ValueError(f"{name}: this world has {len(rows):,} of the {part.size:,} that the part learns from")
    if isinstance(part.settings, Tuning):
        source = mined_from(world, name)
        known = {"root": root, "pairs": source, **machine}
        return encoder_for(name, locate(world.encoder), rows, output, part.settings, **known), source
    texts = rows["prompt"].tolist(), rows["target"].tolist()
    adapter = adapter_for(name, world.generator, *texts, output, part.settings, root=root, **machine)
    return adapter, pairs_hash(*texts)


def make_reader(name: str, part: Part, world: World, output: Path, root: Path, **machine) -> tuple[Adapter, str]:
    """`make` of an in-context model, whose prompts are written where no shipped part fits that learned from as many;
    the hash is their source's. The encoder of its half is made before."""
    assert isinstance(part.settings, Training)  # of a language model
    made_from = world.source.hash
    found = shipped(name, fingerprint(locate(world.generator)), made_from, root)
    if found.folder and found.record["rows"] >= part.size:
        return adapter_of(found.folder, found.record, from_project=True), made_from
    tuned = None
    if part.selector:
        output_of_tuned = output.with_name(part.selector)
        tuned = make(part.selector, parts()[part.selector], world, output_of_tuned, root, **machine)[0].folder
    rows = part.rows(world, part.size, adapter=tuned, progress=machine.get("progress", False))
    texts = rows["prompt"].tolist(), rows["target"].tolist()
    adapter = adapter_for("", world.generator, *texts, output, replace(part.settings, seed=world.seed), **machine)
    return replace(adapter, reason=found.reason), made_from
