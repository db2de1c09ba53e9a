"""The workflow paper's trained parts: one table of what there is, what each learns from, and its settings.

`nl2dsl-67000` writes flows; `tst-100000` is the encoder tuned on pairs of requests, `tst_shuffled-100000` its control;
`tst-3000` and the like, of fewer pairs, are for learning curves. `tst-a` and `tst-b` are tuned on flows over one half
of the connectors, `in_context-a` and `in_context-b` taught to read prompts over that half. Notebooks take the parts
that fit their world and settings, and train what is missing.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from lib.generation.finetune import Training, adapter_for, pairs_hash
from lib.generation.local import fingerprint, load_tokenizer
from lib.generation.models import locate
from lib.retrieval.dense import encode, load_encoder, weights_hash
from lib.retrieval.training import Tuning, tune_encoder
from lib.workbook.artifacts import ROOT, Workbook
from lib.workbook.parts import NONE, Adapter, Recipe, Shipped, adapter_of, ship_made, shipped
from lib.workflows import few_shots, in_context
from lib.workflows.apis import DefinitionForm
from lib.workflows.catalogue import Catalogue
from lib.workflows.pairs import sample, training_hash
from lib.workflows.prompts import finetuned_prompt, finetuned_target, token_counter

WRITER = Training(rank=16, alpha=32, learning_rate=2e-3, epochs=1, batch_size=64)
SMALL_WRITER = Training(rank=16, alpha=32, learning_rate=3e-3, epochs=1, batch_size=4)  # of a few thousand pairs
FEW = 20_000  # pairs, below which many small steps teach a writer more
SELECTOR = Tuning(rank=16, alpha=32, learning_rate=1e-3, batch_size=64)
READER = Training(rank=24, alpha=48, learning_rate=1e-3, epochs=1, batch_size=16)  # both halves in 30 MB
MANY = 2_000  # prompts; fewer are learned in batches of 4, or there would be few steps
SIZES = {"nl2dsl": (2_048, 67_000), "tst": (3_000, 12_000, 100_000), "tst_shuffled": (100_000,)}
PROMPTS = 7_000  # that an in-context model learns from on a GPU, of up to 3,000 tokens
SHORT_PROMPTS, SHORT = 960, 1_000  # that `make train` learns from without a GPU, of so many tokens at most: an hour
HALF_PAIRS = 50_000  # scored pairs over one half of the connectors, which has about a quarter of the training flows


class Part(NamedTuple):
    """A trained part: its kind, how many rows it learns from, the settings of a language model or of an encoder, and
    the half of the connectors that it learns from (empty: all)."""

    kind: str
    size: int
    settings: Training | Tuning
    half: in_context.HalfOrNone = ""

    @property
    def name(self) -> str:
        """What it is called, such as tst-100000 or in_context-a."""
        return f"{self.kind}-{self.half or self.size}"


def writer_settings(pairs: int, learning_rate: float = 0.0, epochs: int = 1, batch_size: int = 0) -> Training:
    """Those that suit so many pairs, but for what is asked for (not 0)."""
    suits = WRITER if pairs >= FEW else SMALL_WRITER
    rate, size = learning_rate or suits.learning_rate, batch_size or suits.batch_size
    return replace(suits, epochs=epochs, learning_rate=rate, batch_size=size)


def reader_settings(prompts: int, seed: int) -> Training:
    """Those of an in-context model that learns from so many prompts."""
    return replace(READER, seed=seed, batch_size=READER.batch_size if prompts > MANY else 4)


def parts(on_gpu: bool = True) -> list[Part]:
    """Every part, in the order of making.

    Args:
        on_gpu: whether one trains them. Elsewhere an in-context model learns from fewer and shorter prompts.
    """
    prompts = PROMPTS if on_gpu else SHORT_PROMPTS
    return [
        *(
            Part(kind, size, writer_settings(size) if kind == "nl2dsl" else SELECTOR)
            for kind, sizes in SIZES.items()
            for size in sizes
        ),
        *(Part("tst", HALF_PAIRS, SELECTOR, half) for half in in_context.HALVES),
        *(Part("in_context", prompts, reader_settings(prompts, 0), half) for half in in_context.HALVES),
    ]


# ---------------------------------------------------------------- what they learn from


@dataclass(frozen=True)
class World:
    """What parts learn from.

    Attributes:
        flows: columns pair, split, request, dsl, apis.
        mined: pairs of training requests, from `lib.workflows.few_shots.mine_training_pairs`.
        encoder, generator: names of the base models.
        seed: of the samples.
        vectors: unit vectors of the flows' requests by the encoder.
        threshold: cosine above which mined pairs are positive.
        form: of definitions.
        quantization: of the generator.
    """

    flows: pd.DataFrame
    mined: pd.DataFrame
    encoder: str
    generator: str
    seed: int
    vectors: np.ndarray
    catalogue: Catalogue
    threshold: float
    form: DefinitionForm = "described"
    quantization: str = "none"

    @classmethod
    def of(cls, book: Workbook) -> World:
        """From the artifacts of notebook 01, read for notebook 08."""
        told = book.parameters
        return cls(
            book.read("flows"),
            book.read("tst_pairs"),
            told.workflow_encoder,
            told.generator,
            told.seed,
            book.read_arrays("embeddings_requests")["requests"],
            Catalogue.from_lines(book.read_lines("catalogue")),
            book.made_with("tst_pairs.parquet")["tst_threshold"],
            told.definition_form,
            told.quantization,
        )

    @functools.cached_property
    def training(self) -> pd.DataFrame:
        """The training flows."""
        return self.flows[self.flows["split"] == "training"]

    @functools.cached_property
    def halves(self) -> dict[str, in_context.Half]:
        """The connectors in two halves."""
        return in_context.halves(self.catalogue, self.flows, self.seed)

    @functools.cached_property
    def api_vectors(self) -> np.ndarray:
        """Unit vectors of the APIs by the encoder, (APIs, dimensions)."""
        return encode(load_encoder(locate(self.encoder), threads=2), [api.text for api in self.catalogue])

    def lies_in(self, half: str) -> np.ndarray:
        """Whether each flow is a training flow that lies in a half of the connectors."""
        found = [in_context.half_of(apis, self.halves) == half for apis in self.flows["apis"]]
        return np.array(found) & (self.flows["split"] == "training").to_numpy()

    def available(self, part: Part) -> int:
        """How many rows there are at most for a part that learns from all connectors."""
        return part.size if part.half else len(self.training) if part.kind == "nl2dsl" else len(self.mined)


def rows_of(part: Part, world: World, tuned: Path | None = None, progress: bool = False) -> pd.DataFrame:
    """What a part learns from: columns prompt, target for a language model, scored pairs for an encoder.

    Args:
        tuned: adapter of the encoder of the part's half, whose few-shots an in-context model reads, too.
    """
    if part.kind == "nl2dsl":
        pairs = sample(world.flows, "training", part.size, world.seed)
        prompts, targets = pairs["request"].map(finetuned_prompt), pairs["dsl"].map(finetuned_target)
        return pd.DataFrame({"prompt": prompts, "target": targets})
    if part.kind == "in_context":
        return _prompts_to_read(part, world, tuned, in_context.LIMIT if tuned else SHORT, progress)
    if part.half:
        own = world.lies_in(part.half)
        flows = world.flows[own].reset_index(drop=True)
        how = part.size, world.threshold, world.seed
        return few_shots.scored_pairs(few_shots.mine_training_pairs(flows, world.vectors[own], *how)[0], flows)
    rows = few_shots.scored_pairs(few_shots.balanced_sample(world.mined, part.size, world.seed), world.training)
    return few_shots.permuted_targets(rows, world.seed) if part.kind == "tst_shuffled" else rows


def _prompts_to_read(part: Part, world: World, tuned: Path | None, limit: int, progress: bool) -> pd.DataFrame:
    """Prompts over one half of so many tokens at most, their few-shots chosen by the pretrained encoder, and by one
    tuned there where there is one."""
    by = {"pretrained": world.vectors}
    if tuned:
        own, by["tst"] = world.lies_in(part.half), np.zeros_like(world.vectors)
        encoder = load_encoder(locate(world.encoder), adapter=tuned)
        by["tst"][own] = encode(encoder, world.flows["request"][own].tolist(), progress=progress)
    pool = in_context.pool_of(part.half, world.halves, world.flows, by, world.catalogue, world.api_vectors)
    tokenizer, _ = load_tokenizer(locate(world.generator))
    count = token_counter(tokenizer)
    return in_context.training_prompts(pool, part.size, world.seed, count, limit, world.form, progress)


def source_of(part: Part, world: World) -> str:
    """SHA-256 of what a part learns from.

    Of an encoder these are the training requests and flows, and how pairs are mined of them, not the scored pairs
    themselves: which ones are mined depends on the last bits of the pretrained embeddings, and those on the processor.
    Of an in-context model these are training flows, catalogue, halves and form of definitions: its prompts take minutes
    to write.
    """
    if part.kind == "nl2dsl":
        rows = rows_of(part, world)
        return pairs_hash(rows["prompt"].tolist(), rows["target"].tolist())
    if part.kind == "in_context":
        apis = [(api.definition_in("record"), api.in_training) for api in world.catalogue]
        return training_hash(world.flows, [world.seed, world.form, sorted(world.halves.items()), apis])
    halves = sorted(world.halves.items()) if part.half else []
    return training_hash(world.flows, [part.name, world.threshold, world.seed, halves])


# ---------------------------------------------------------------- taken, or trained


def find(part: Part, world: World, root: Path = ROOT) -> Shipped:
    """The shipped part where it was made from this base model, of this world and with these settings, else why not.

    Of an in-context model the settings are those of its prompts' number: one that learned from more is as good.
    """
    if world.available(part) < part.size:
        some = f"this world has {world.available(part):,} of its {part.size:,} pairs"
        return Shipped(None, {}, f"The shipped part {part.name} is not used: {some}.")
    if isinstance(part.settings, Tuning):
        model = weights_hash(load_encoder(locate(world.encoder)))
    else:
        model = fingerprint(locate(world.generator), quantization=world.quantization)
    reads = part.kind == "in_context"
    found = shipped(part.name, model, source_of(part, world), root, None if reads else part.settings)
    if reads and found.folder and found.record["rows"] < part.size:
        return Shipped(None, found.record, f"The shipped part {part.name} learned from fewer prompts.")
    return found


def train(part: Part, world: World, output: Path, root: Path = ROOT, **machine) -> Adapter:
    """An adapter trained at `output`, from where a training that was killed goes on; an equal one that is finished
    there is taken.

    Args:
        machine: threads, progress.
    """
    progress, tuned = machine.get("progress", False), None
    if part.kind == "in_context" and part.size > SHORT_PROMPTS:
        selector = Part("tst", HALF_PAIRS, SELECTOR, part.half)
        tuned = make(selector, world, output.with_name(selector.name), root, **machine).folder
    return _learned(part, rows_of(part, world, tuned, progress), world, output, **machine)


def _learned(part: Part, rows: pd.DataFrame, world: World, output: Path, **machine) -> Adapter:
    if isinstance(part.settings, Tuning):
        return tune_encoder(locate(world.encoder), rows, output, part.settings, **machine)
    settings = replace(part.settings, seed=world.seed) if part.kind == "in_context" else part.settings
    texts = rows["prompt"].tolist(), rows["target"].tolist()
    return adapter_for("", world.generator, *texts, output, settings, quantization=world.quantization, **machine)


def make(part: Part, world: World, output: Path, root: Path = ROOT, **machine) -> Adapter:
    """The shipped part where it fits, else one trained at `output`."""
    found = find(part, world, root)
    if found.folder:
        return adapter_of(found.folder, found.record, from_project=True)
    return replace(train(part, world, output, root, **machine), reason=found.reason)


def runs(
    kind: str,
    world: World,
    settings: Callable[[int], Training | Tuning],
    wanted: int,
    here: int,
    fewer: Sequence[int],
    output: Path,
    root: Path = ROOT,
    **machine,
) -> dict[int, Adapter]:
    """Adapters of one kind by the number of pairs that they learned from, the largest number last.

    Args:
        settings: that are asked for, of so many pairs.
        wanted: pairs of the shipped part; 0 takes none.
        here: pairs that are learned from here where no shipped part fits.
        fewer: other numbers of pairs; those that are not fewer are left out. Where the largest part is a shipped one,
            shipped parts are taken for these, too, where they fit.
        output: folder of what is trained here.
        machine: as for `train`.

    Returns:
        adapters; each says why a shipped part was not taken, where one was looked for in vain.
    """

    def part(size: int) -> Part:
        return Part(kind, size, settings(size))

    found = find(part(wanted), world, root) if wanted else NONE
    most = wanted if found.folder else min(here, world.available(part(here)))
    take = make if found.folder else train
    sizes = [*sorted({size for size in fewer if size < most}), most]
    made = {size: take(part(size), world, output / part(size).name, root, **machine) for size in sizes}
    return made | {most: replace(made[most], reason=found.reason)}


def readers(
    world: World, prompts: int, output: Path, take_shipped: bool = True, root: Path = ROOT, **machine
) -> dict[str, Adapter]:
    """The in-context models of both halves by name: the shipped parts where both fit, whatever number of prompts they
    learned from; else trained here, on few-shots by the pretrained encoder.

    Args:
        prompts: that each learns from where it is trained here.
        output: folder of what is trained here.
        take_shipped: whether shipped parts are wanted.
        machine: as for `train`.

    Raises:
        ValueError: the world is too small for any prompt over one half.
    """
    settings = reader_settings(prompts, world.seed)
    both = [Part("in_context", prompts, settings, half) for half in in_context.HALVES]
    found = [find(part._replace(size=1), world, root) if take_shipped else NONE for part in both]
    if all(one.folder for one in found):
        return {
            part.name: adapter_of(one.folder, one.record, from_project=True)
            for part, one in zip(both, found, strict=True)
            if one.folder
        }
    made = {}
    for part, one in zip(both, found, strict=True):
        rows = _prompts_to_read(part, world, None, in_context.LIMIT, machine.get("progress", False))
        if rows.empty:
            raise ValueError(
                f"this world is too small to teach an in-context model: no prompt over half {part.half} of its "
                "connectors; give untuned_generator a name, and the rows of in_context the generator untuned"
            )
        made[part.name] = replace(_learned(part, rows, world, output / part.name, **machine), reason=one.reason)
    return made


def longest_learned(readers: Mapping[str, Adapter]) -> int:
    """Tokens that the prompts had at most from which in-context models learned."""
    short = all(made.shipped and made.rows == SHORT_PROMPTS for made in readers.values())
    return SHORT if readers and short else in_context.LIMIT


# ---------------------------------------------------------------- `make train`


def ship_part(part: Part, book: Workbook, root: Path = ROOT, **machine) -> str:
    """`make` a part and ship it; see `lib.workbook.parts.Recipe.make`.

    Raises:
        ValueError: the world has fewer rows than the part learns from.
    """
    world, output = World.of(book), book.data / "trained" / part.name
    if (there := world.available(part)) < part.size:
        raise ValueError(f"{part.name}: this world has {there:,} of the {part.size:,} that the part learns from")
    return ship_made(part.name, output, make(part, world, output, root, **machine), source_of(part, world), None, root)


def recipes(on_gpu: bool) -> dict[str, Recipe]:
    """How `make train` makes each part."""
    read = ("flows.parquet", "tst_pairs.parquet", "embeddings_requests.safetensors", "catalogue.jsonl")
    return {
        part.name: Recipe(
            f"{part.size:,} rows, {part.settings}",
            "08_dsl_retrieval",
            {"01_data_gen": read},
            functools.partial(ship_part, part),
        )
        for part in parts(on_gpu)
    }
