"""The workflow paper's trained parts: one table of what there is, what each learns from, and its settings.

`nl2dsl-67000` writes flows; `tst-100000` is the encoder tuned on pairs of requests, `tst_shuffled-100000` its control;
`tst-3000` and the like, of fewer pairs, are for learning curves. `in_context-a` and `in_context-b` read prompts over
one half of the connectors. Notebooks take the parts that fit their world and settings, and train what is missing.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from lib.generation.finetune import Training, finetune_language_model, pairs_hash
from lib.generation.local import fingerprint, load_tokenizer
from lib.generation.models import locate
from lib.retrieval.neighbours import mine_pairs
from lib.retrieval.training import Tuning, tune_encoder
from lib.workbook.artifacts import ROOT, Workbook
from lib.workbook.parts import NONE, Adapter, Recipe, Shipped, adapter_of, ship_made, shipped
from lib.workflows import few_shots, in_context
from lib.workflows.catalogue import Catalogue
from lib.workflows.pairs import request_vectors, sample, training_hash
from lib.workflows.prompts import END, finetuned_prompt, token_counter
from lib.workflows.search import Search, ship_lists

WRITER = Training(rank=16, alpha=32, learning_rate=2e-3, epochs=1, batch_size=64)
SMALL_WRITER = Training(rank=16, alpha=32, learning_rate=3e-3, epochs=1, batch_size=4)  # of a few thousand pairs
FEW = 20_000  # pairs, below which many small steps teach a writer more
SELECTOR = Tuning(rank=16, alpha=32, learning_rate=1e-3, batch_size=64)
READER = Training(rank=24, alpha=48, learning_rate=1e-3, epochs=1, batch_size=16)  # both halves in 30 MB
MANY = 2_000  # prompts; fewer are learned in batches of 4, or there would be few steps
SIZES = {"nl2dsl": (2_048, 67_000), "tst": (3_000, 12_000, 100_000), "tst_shuffled": (100_000,)}
SHORT_PROMPTS, SHORT = 960, 1_000  # that a shipped in-context model learns from, of so many tokens at most: an hour
FORM = "described"  # of the definitions that in-context models read
MINED, THRESHOLD = 100_000, 0.7  # pairs of training requests that are mined; cosine above which one is positive


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


def part_of(kind: str, size: int, learning_rate: float = 0.0) -> Part:
    """A part that learns from all connectors; a writer at this learning rate, or at what suits so many pairs (0)."""
    if kind != "nl2dsl":
        return Part(kind, size, SELECTOR)
    suits = WRITER if size >= FEW else SMALL_WRITER
    return Part(kind, size, replace(suits, learning_rate=learning_rate or suits.learning_rate))


def reader_parts(prompts: int, seed: int = 0) -> list[Part]:
    """The in-context models of both halves, that learn from so many prompts each."""
    settings = replace(READER, seed=seed, batch_size=READER.batch_size if prompts > MANY else 4)
    return [Part("in_context", prompts, settings, half) for half in in_context.HALVES]


# Every part, in the order of making.
ALL_PARTS = [*(part_of(kind, n) for kind, sizes in SIZES.items() for n in sizes), *reader_parts(SHORT_PROMPTS)]


# ---------------------------------------------------------------- what they learn from


@dataclass(frozen=True)
class FlowWorld:
    """What parts learn from."""

    flows: pd.DataFrame  # columns pair, split, request, dsl, apis
    search: Search  # by the pretrained encoder
    generator: str  # the base model
    seed: int  # of the samples
    catalogue: Catalogue
    quantization: str = "none"

    @classmethod
    def of(cls, book: Workbook, progress: bool = False) -> FlowWorld:
        """From the artifacts of notebook 01, read for a later one."""
        told, catalogue = book.parameters, Catalogue.from_lines(book.read_lines("catalogue"))
        search = Search(told.workflow_encoder, book.data, root=book.root, progress=progress)
        return cls(book.read("flows"), search, told.generator, told.seed, catalogue, told.quantization)

    @functools.cached_property
    def training(self) -> pd.DataFrame:
        """The training flows."""
        return self.flows[self.flows["split"] == "training"].reset_index(drop=True)

    @functools.cached_property
    def vectors(self) -> np.ndarray:
        """Unit vectors of the flows' requests by the pretrained encoder: of 67,000 this takes ten minutes."""
        return request_vectors(self.search.model, self.flows, self.search.progress, self.search.data / "embedded")

    @functools.cached_property
    def mined(self) -> pd.DataFrame:
        """Pairs of training requests that encoders learn from, columns a, b (ids of flows), cosine, positive, as
        `lib.retrieval.neighbours.mine_pairs` draws them; none of fewer than two requests."""
        trained, ids = (self.flows["split"] == "training").to_numpy(), self.training["pair"].to_numpy()
        if len(ids) < 2:
            return pd.DataFrame({"a": [], "b": [], "cosine": [], "positive": []})
        mined, _ = mine_pairs(self.vectors[trained], MINED, THRESHOLD, self.seed, self.search.progress)
        return mined.assign(a=ids[mined["a"]], b=ids[mined["b"]])

    @functools.cached_property
    def halves(self) -> dict[str, in_context.Half]:
        """The connectors in two halves."""
        return in_context.halves(self.catalogue, self.flows)

    def nearest(self, among: np.ndarray, asked: np.ndarray, k: int) -> np.ndarray:
        """Places in `among` (row numbers of flows) of the `k` nearest requests of each flow in `asked`, best first."""
        documents, queries = (self.flows["request"].to_numpy()[rows] for rows in (among, asked))
        return self.search.nearest(documents, queries, k, lambda: (self.vectors[among], self.vectors[asked]))[0]


def rows_of(part: Part, world: FlowWorld, limit: int = SHORT) -> pd.DataFrame:
    """What a part learns from: columns prompt, target for a language model, scored pairs for an encoder. An in-context
    model's prompts have `limit` tokens at most; their few-shots are chosen by the pretrained encoder."""
    if part.kind == "nl2dsl":
        pairs = sample(world.flows, "training", part.size, world.seed)
        return pd.DataFrame({"prompt": pairs["request"].map(finetuned_prompt), "target": pairs["dsl"] + f"\n{END}"})
    if part.kind == "in_context":
        of_apis = world.search.embed([api.text for api in world.catalogue])
        pool = in_context.pool_of(part.half, world.halves, world.flows, world.vectors, world.catalogue, of_apis)
        count = token_counter(load_tokenizer(locate(world.generator))[0])
        return in_context.training_prompts(pool, part.size, world.seed, count, limit, world.search.progress)
    rows = few_shots.scored_pairs(few_shots.balanced_sample(world.mined, part.size, world.seed), world.training)
    if part.kind == "tst_shuffled":
        # The control: scores are shuffled among the positive pairs and among the negative ones. What an encoder still
        # gains from them owes nothing to the flows of the single pairs.
        rows["score"] = rows.groupby("positive")["score"].transform(np.random.default_rng(world.seed).permutation)
    return rows


def source_of(part: Part, world: FlowWorld) -> str:
    """SHA-256 of what a part learns from; of an encoder the training pairs and how they are mined (which ones are mined
    depends on the last bits of embeddings, and those on the processor), of an in-context model training pairs,
    catalogue, halves and form of definitions (its prompts take minutes to write)."""
    if part.kind == "nl2dsl":
        rows = rows_of(part, world)
        return pairs_hash(rows["prompt"].tolist(), rows["target"].tolist())
    if part.kind == "in_context":
        apis = [(api.definition_in("record"), api.in_training) for api in world.catalogue]
        return training_hash(world.flows, [world.seed, FORM, sorted(world.halves.items()), apis])
    return training_hash(world.flows, [part.name, THRESHOLD, world.seed, []])


# ---------------------------------------------------------------- taken, or trained


def shipped_part(part: Part, world: FlowWorld) -> Shipped:
    """The shipped part where it was made from this base model, of this world and with these settings, else why not. An
    in-context model may have learned from any number of prompts."""
    if isinstance(part.settings, Tuning):
        model = world.search.base
    else:
        model = fingerprint(locate(world.generator), quantization=world.quantization)
    settings = None if part.kind == "in_context" else part.settings
    return shipped(part.name, model, source_of(part, world), world.search.root, settings)


def take_or_train(
    part: Part, world: FlowWorld, output: Path, take: bool = True, limit: int = SHORT, least: int = 1, **machine
) -> Adapter:
    """The shipped part where it fits and is wanted, else one trained at `output`, from where a training that was killed
    goes on; an equal one that is finished there is taken. `limit`: as for `rows_of`; `machine`: threads, progress.
    Raises ValueError where the world has fewer rows to learn from than the `least`."""
    found = shipped_part(part, world) if take else NONE
    if found.folder:
        return adapter_of(found.folder, found.record, from_project=True)
    rows = rows_of(part, world, limit)
    if len(rows) < least:
        raise ValueError(f"this world is too small for {part.name}: it has {len(rows):,} rows to learn from")
    if isinstance(part.settings, Tuning):
        made = tune_encoder(locate(world.search.encoder), rows, output, part.settings, **machine)
    else:
        settings = replace(part.settings, seed=world.seed) if part.kind == "in_context" else part.settings
        how = rows["prompt"].tolist(), rows["target"].tolist(), output, settings
        made = finetune_language_model(world.generator, *how, quantization=world.quantization, **machine)
    return replace(made, reason=found.reason)


def learning_curve(
    part: Callable[[int], Part], world: FlowWorld, sizes: Sequence[int], here: int, output: Path, **machine
) -> dict[int, Adapter]:
    """Parts of one kind (`part` gives that of a size) by the number of pairs that they learned from, the largest last:
    of these sizes where the largest is shipped and fits, else trained in the folder `output` on no more than `here`
    pairs each, or on all where there are fewer. `machine`: as for `take_or_train`."""
    largest = part(max(sizes))
    if not shipped_part(largest, world).folder:
        here = min(here, len(world.training if largest.kind == "nl2dsl" else world.mined))
        sizes = [min(size, here) for size in sizes]
    chosen = sorted({*sizes} - {0})
    return {n: take_or_train(part(n), world, output / part(n).name, **machine) for n in chosen}


def readers(world: FlowWorld, prompts: int, output: Path, **machine) -> dict[str, Adapter]:
    """The in-context models of both halves by name: the shipped ones where both fit, whatever number of prompts they
    learned from; else trained in the folder `output` on so many prompts each. Raises ValueError where the world is too
    small for any prompt over one half."""
    both = reader_parts(prompts, world.seed)
    how = {"take": all(shipped_part(part, world).folder for part in both), "limit": in_context.LIMIT, **machine}
    return {part.name: take_or_train(part, world, output / part.name, **how) for part in both}


# ---------------------------------------------------------------- `make train`


def ship_part(part: Part, book: Workbook, root: Path = ROOT, progress: bool = False, **machine) -> str:
    """Train a part where no shipped one fits, and ship it; see `lib.workbook.parts.Recipe.make`. Raises ValueError
    where the world has fewer rows than the part learns from."""
    world, output = FlowWorld.of(book, progress), book.data / "trained" / part.name
    made = take_or_train(part, world, output, least=part.size, progress=progress, **machine)
    return ship_made(part.name, output, made, source_of(part, world), None, root)


def flow_recipes() -> dict[str, Recipe]:
    """How `make train` makes each part, and the lists of few-shots that come with the project."""
    world, found = {"01_data_gen": ("flows.parquet", "catalogue.jsonl")}, dict[str, Recipe]()
    for part in ALL_PARTS:
        about = f"{part.size:,} rows, {part.settings}", "09_dsl_ablation" if part.half else "08_dsl_retrieval"
        found[part.name] = Recipe(*about, world, functools.partial(ship_part, part))
    lists = {"08_dsl_retrieval": ("few_shots.parquet",), "09_dsl_ablation": ("ablation_scores.parquet",)}
    return found | {"few_shots": Recipe("that notebooks 01, 08 and 09 found", "10_transfer", lists, ship_lists)}
