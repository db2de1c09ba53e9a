"""The workflow paper's trained parts, at its sizes: what each learns from, and its settings.

Names: `nl2dsl-67000` writes flows; `tst-100000` is the encoder tuned on pairs of requests, `tst_affine-100000` the same
with a learned scale, `tst_shuffled-100000` the control; `tst-3000` and the like, of fewer pairs: for learning curves.
`tst-a`, `tst-b`: tuned on flows over one half of the connectors; `in_context-a`, `in_context-b`: taught to read prompts
over that half. Notebook 08 takes those that fit its world and settings, and trains what is missing (`Trainer`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from lib.generation.finetune import Training, adapter_for, pairs_hash
from lib.generation.local import fingerprint, load_tokenizer
from lib.generation.models import locate
from lib.retrieval.dense import encode, load_encoder
from lib.retrieval.training import Tuning, encoder_for, weights_hash
from lib.workbook.artifacts import ROOT, Workbook
from lib.workbook.machine import cores
from lib.workbook.parameters import Parameters
from lib.workbook.parts import FOLDER, Adapter, Recipe, adapter_of, ship_made, shipped
from lib.workflows import few_shots, in_context
from lib.workflows.apis import DefinitionForm
from lib.workflows.catalogue import Catalogue
from lib.workflows.in_context import (
    LIMIT,
    SHORT,
    SHORT_PROMPTS,
    Half,
    Source,
    api_vectors,
    part_of,
    prompts_over,
    reader,
)
from lib.workflows.pairs import sample, training_hash
from lib.workflows.prompts import finetuned_prompt, finetuned_target, token_counter

WRITER = Training(rank=16, alpha=32, learning_rate=2e-3, epochs=1, batch_size=64)
SMALL_WRITER = Training(rank=16, alpha=32, learning_rate=3e-3, epochs=1, batch_size=4)  # of a few thousand pairs
FEW = 20_000  # pairs, below which many small steps teach a writer more
SELECTOR = Tuning(rank=16, alpha=32, learning_rate=1e-3, batch_size=64)
FEWER = {"tst": (3_000, 12_000, 40_000), "tst_affine": (3_000, 12_000), "nl2dsl": (2_048,)}  # of learning curves
PROMPTS = 7_000  # that an in-context model learns from on a GPU, of up to 3,000 tokens
HALF_PAIRS = 50_000  # scored pairs over one half of the connectors, which has about a quarter of the training flows


@dataclass(frozen=True)
class World:
    """What parts learn from.

    Attributes:
        flows: columns pair, split, request, dsl, apis.
        mined: pairs of training requests, from `lib.workflows.few_shots.mine_training_pairs`.
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
    pairs = sample(world.flows, "training", size, world.seed)
    return pd.DataFrame(
        {"prompt": pairs["request"].map(finetuned_prompt), "target": pairs["dsl"].map(finetuned_target)}
    )


def writer_settings(pairs: int, learning_rate: float = 0.0, epochs: int = 1, batch_size: int = 0) -> Training:
    """Those that suit so many pairs, but for what is asked for (not 0)."""
    suits = WRITER if pairs >= FEW else SMALL_WRITER
    rate, size = learning_rate or suits.learning_rate, batch_size or suits.batch_size
    return replace(suits, epochs=epochs, learning_rate=rate, batch_size=size)


def selector_rows(world: World, size: int) -> pd.DataFrame:
    """Pairs of requests with the similarity of their flows."""
    training = world.flows[world.flows["split"] == "training"]
    return few_shots.tuning_rows(world.mined, training, size, 1, world.seed)


def shuffled_rows(world: World, size: int) -> pd.DataFrame:
    """The control: the same pairs, their similarities shuffled."""
    return few_shots.permuted_targets(selector_rows(world, size), world.seed)


ROWS = {"nl2dsl": writer_rows, "tst": selector_rows, "tst_affine": selector_rows, "tst_shuffled": shuffled_rows}


def name_of(kind: str, size: int) -> str:
    """What a part is called, such as tst-100000."""
    return f"{kind}-{size}"


def half_rows(world: World, size: int, half: str) -> pd.DataFrame:
    """Pairs of requests whose flows lie in one half of the connectors, mined as those of all flows are."""
    assert world.vectors is not None
    own = world.half == half
    flows = world.flows[own].reset_index(drop=True)
    mined, _ = few_shots.mine_training_pairs(flows, world.vectors[own], size, world.threshold, world.seed)
    return few_shots.scored_pairs(mined, flows)


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
        for size in sizes:
            settings = writer_settings(size) if kind == "nl2dsl" else kinds[kind][1]
            every[name_of(kind, size)] = Part(size, settings, ROWS[kind])
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


def world_of(book: Workbook) -> World:
    """What parts learn from, from the artifacts of notebook 01, read for notebook 08."""
    parameters = book.parameters
    return World(
        book.read("flows"),
        book.read("tst_pairs"),
        parameters.workflow_encoder,
        parameters.generator,
        parameters.seed,
        book.read_arrays("embeddings_requests")["requests"],
        Catalogue.from_lines(book.read_lines("catalogue")),
        book.made_with("tst_pairs.parquet")["tst_threshold"],
        parameters.definition_form,
    )


def ship_part(name: str, part: Part, book: Workbook, root: Path = ROOT, **machine) -> str:
    """`make` a part and ship it; see `lib.workbook.parts.Recipe.make`."""
    output = book.data / "trained" / name
    return ship_made(name, output, *make(name, part, world_of(book), output, root, **machine), None, root)


def recipes(on_gpu: bool) -> dict[str, Recipe]:
    """How `make train` makes each part."""
    needs = {
        "01_data_gen": ("flows.parquet", "tst_pairs.parquet", "embeddings_requests.safetensors", "catalogue.jsonl")
    }
    return {
        name: Recipe(
            f"{part.size:,} rows, {part.settings}", "08_dsl_retrieval", needs, functools.partial(ship_part, name, part)
        )
        for name, part in parts(on_gpu).items()
    }


# ---------------------------------------------------------------- what notebook 08 takes and trains


class Run(NamedTuple):
    """A training run: what of, and on how many pairs."""

    kind: str  # nl2dsl, tst, tst_affine or tst_shuffled
    pairs: int

    @property
    def part(self) -> str:
        """What it is called where it is shipped, or as a folder."""
        return name_of(*self)


@dataclass(frozen=True)
class Trainer:
    """Takes shipped parts, and trains here what is missing.

    Attributes:
        world: what is learned from.
        output: folder of what is trained here.
        settings: that are asked for, by kind, of so many pairs.
        epochs: passes over scored pairs.
        machine: threads, progress, and for a language model quantization.
        root: the project's folder.
        made: rows that were made already: plain and affine tuning learn from the same.
    """

    world: World
    output: Path
    settings: Mapping[str, Callable[[int], Training | Tuning]]
    epochs: int
    machine: dict
    root: Path = ROOT
    made: dict = field(default_factory=dict, repr=False, compare=False)

    def runs(self, kind: str, shipped_pairs: int, pairs: int, fewer: Sequence[int] = ()) -> dict[Run, Adapter]:
        """The runs of one kind: fewer pairs first, the largest number last.

        Args:
            shipped_pairs: of the shipped parts; 0 takes none.
            pairs: trained on here where no shipped part fits.
            fewer: other numbers of pairs, whose shipped parts are taken where they fit and the largest is one; the
                rest is trained here. Those that are not fewer are left out.

        Returns:
            adapters; each says why a shipped part was not taken, where one was looked for in vain.
        """
        found, refused = self.shipped(kind, shipped_pairs) if shipped_pairs else (None, "")
        most = shipped_pairs if found else min(pairs, self.available(kind))
        runs: dict[Run, Adapter] = {}
        for size in sorted({size for size in fewer if size < most}):
            small, reason = self.shipped(kind, size, expected=False) if found else (None, "")
            runs[Run(kind, size)] = small or replace(self.trained(Run(kind, size)), reason=reason)
        runs[Run(kind, most)] = found or replace(self.trained(Run(kind, most)), reason=refused)
        return runs

    def shipped(self, kind: str, pairs: int, expected: bool = True) -> tuple[Adapter | None, str]:
        """The shipped part where it fits, else why not.

        Args:
            expected: whether a missing part is worth a word, too.
        """
        run = Run(kind, pairs)
        if self.available(kind) < pairs:
            some = f"this world has {self.available(kind):,} of its {pairs:,} pairs"
            return None, f"The shipped part {run.part} is not used: {some}."
        asked = asdict(self.settings[kind](pairs)) | ({} if kind == "nl2dsl" else {"epochs": self.epochs})
        part = shipped(run.part, *self.hashes(kind, pairs), self.root, asked)
        if part.folder:
            return adapter_of(part.folder, part.record, from_project=True), ""
        return None, part.reason if expected or (self.root / FOLDER / run.part).is_dir() else ""

    def available(self, kind: str) -> int:
        """How many pairs this world has to learn from."""
        return int((self.world.flows["split"] == "training").sum()) if kind == "nl2dsl" else len(self.world.mined)

    def rows(self, kind: str, pairs: int) -> pd.DataFrame:
        """What a run learns from in one epoch."""
        made_by = ROWS[kind]
        if (made_by, pairs) not in self.made:
            self.made[made_by, pairs] = made_by(self.world, pairs)
        return self.made[made_by, pairs]

    def hashes(self, kind: str, pairs: int) -> tuple[str, str]:
        """Of the base model and of the training pairs, as a shipped part has them on record."""
        if kind != "nl2dsl":
            encoder = load_encoder(locate(self.world.encoder))
            return weights_hash(encoder), mined_from(self.world, name_of(kind, pairs))
        rows = self.rows(kind, pairs)
        model = fingerprint(locate(self.world.generator), quantization=self.machine.get("quantization", "none"))
        return model, pairs_hash(rows["prompt"].tolist(), rows["target"].tolist())

    def trained(self, run: Run) -> Adapter:
        """An adapter trained here, or earlier by an equal run."""
        rows, settings = self.rows(run.kind, run.pairs), self.settings[run.kind](run.pairs)
        output = self.output / run.part
        if run.kind == "nl2dsl":
            assert isinstance(settings, Training)
            texts = rows["prompt"].tolist(), rows["target"].tolist()
            return adapter_for("", self.world.generator, *texts, output, settings, **self.machine)
        assert isinstance(settings, Tuning)
        rows = pd.concat([rows] * self.epochs, ignore_index=True)
        own = {name: self.machine[name] for name in ("threads", "progress") if name in self.machine}
        return encoder_for("", locate(self.world.encoder), rows, output, settings, **own)


def runs_frame(runs: dict[Run, Adapter]) -> pd.DataFrame:
    """The records of training runs: columns name (the kind), pairs, curve, tokens, seconds, device, shipped,
    reason, folder."""
    wanted = ("curve", "tokens", "seconds", "device", "shipped", "reason", "folder")
    rows = [
        {"name": run.kind, "pairs": run.pairs, **{key: getattr(made, key) for key in wanted}}
        for run, made in runs.items()
    ]
    return pd.DataFrame(rows)


def trainer_of(
    parameters: Parameters,
    flows: pd.DataFrame,
    mined: pd.DataFrame,
    threshold: float,
    output: Path,
    progress: bool = False,
) -> Trainer:
    """The trainer of a profile: its settings, on its flows and mined pairs (see `World`, `threshold` too); `output` as
    for `Trainer`."""
    plain = Tuning(learning_rate=parameters.tst_learning_rate, batch_size=parameters.tst_batch_size)
    rate, size = parameters.dsl_learning_rate, parameters.dsl_batch_size
    settings: dict[str, Callable[[int], Training | Tuning]] = {
        "tst": lambda _: plain,
        "tst_affine": lambda _: replace(plain, loss="affine"),
        "tst_shuffled": lambda _: plain,
        "nl2dsl": functools.partial(writer_settings, learning_rate=rate, epochs=parameters.dsl_epochs, batch_size=size),
    }
    return Trainer(
        World(flows, mined, parameters.workflow_encoder, parameters.generator, parameters.seed, threshold=threshold),
        output,
        settings,
        parameters.tst_epochs,
        {
            "threads": cores(),
            "progress": progress,
            "quantization": parameters.quantization,
        },
    )
