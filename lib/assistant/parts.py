"""The assistant paper's trained parts: what each learns from, its settings, and whether a shipped one fits a world.

Rankers come with the project so that later notebooks show the same context and tools on every processor: the splits of
LambdaMART's trees often gain nearly the same, and the last bits of an embedding, which processors differ in, decide
among them. Noise of 2e-7 on the cosines gives other first three items for one query in six.

Names: `cot_writer-2000` writes chains of thought (CoT), `planner-4338` plans. The number is of training queries, from
which those of the held-out needs are left out, and for the writer those without an expert's CoT.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from lib.assistant.chains import taught_and_asked
from lib.assistant.planners import PLANNER, SHIPPED_PAIRS, planner_settings, read_planner_lesson, shipped_planner
from lib.assistant.prompts import distilled_cot_prompt
from lib.assistant.queries import held_out_needs
from lib.assistant.ranking import Kept, RankingTask
from lib.assistant.search_training import SearchLessons, encoder_sets, find, other_encoders, ranker_sets
from lib.assistant.tools import ship_tool_lists
from lib.generation.finetune import Training, finetune_language_model, pairs_hash
from lib.generation.local import fingerprint
from lib.generation.models import locate
from lib.retrieval.lambdamart import hash_of, how_trained
from lib.retrieval.training import Finetuning
from lib.workbook.artifacts import ROOT, Workbook
from lib.workbook.parameters import Parameters
from lib.workbook.parts import NONE, Adapter, Recipe, Shipped, adapter_of, ship_made, shipped

WRITER = "cot_writer"
SIZES = {WRITER: 2_000, PLANNER: SHIPPED_PAIRS}
WRITING = Training(learning_rate=3e-3, batch_size=4)  # small batches: more steps from few pairs
TOOL_LISTS = "tool_lists"  # the lists that notebook 06 finds
SEARCH, CONTEXT = "search", "context"  # what fine-tuned encoders find, and the orders of all rankers of context
ORDERS, OWN_ORDERS = Path("data/answers/context.npz"), Path("embedded/context.npz")  # of the project, of a run


def writer_pairs(learned: pd.DataFrame) -> pd.DataFrame:
    """What a writer learns: columns prompt, target."""
    return pd.DataFrame({"prompt": learned["text"].map(distilled_cot_prompt), "target": learned["cot"]})


def taught_queries(
    parameters: Parameters, training: pd.DataFrame, unseen: Collection[str], root: Path = ROOT
) -> tuple[pd.DataFrame, pd.DataFrame, Shipped]:
    """The training queries (columns query, persona, need, kind, text, cot) that the distilled writer learns from, none
    about a need of `unseen`, those that it writes for (other personas'), and the writer of so many pairs that comes
    with the project, where it fits this world."""
    size, asking = parameters.distilled_pairs, parameters.cot_training_queries
    learned, asked = taught_and_asked(training, unseen, size, asking, parameters.seed)
    if learned.empty:
        return learned, asked, NONE
    model = fingerprint(locate(parameters.distilled_writer or parameters.writer))
    pairs, settings = writer_pairs(learned), replace(WRITING, seed=parameters.seed)
    source = pairs_hash(pairs["prompt"].tolist(), pairs["target"].tolist())
    return learned, asked, shipped(f"{WRITER}-{size}", model, source, root, settings)


def make_writer(book: Workbook, root: Path = ROOT, **machine) -> str:
    """The writer of chains of thought that notebook 03 looks for. Raises ValueError where no training query has an
    expert's CoT."""
    parameters, gold = book.parameters, book.read("gold")
    training = book.read("queries").merge(gold.drop(columns="split"), on="query").query("split == 'training'")
    unseen = held_out_needs(gold["need"].unique(), parameters.seed)
    learned, _, found = taught_queries(parameters, training, unseen, root)
    if learned.empty:
        raise ValueError(f"{WRITER}: no training query of this world has an expert's CoT")
    name, pairs = f"{WRITER}-{parameters.distilled_pairs}", writer_pairs(learned)
    model, output = parameters.distilled_writer or parameters.writer, book.data / "trained" / name
    made = taken_or_trained(found, model, pairs, output, replace(WRITING, seed=parameters.seed), **machine)
    source = pairs_hash(pairs["prompt"].tolist(), pairs["target"].tolist())
    return ship_made(name, output, made, source, {}, root)


def make_planner(book: Workbook, root: Path = ROOT, size: int = SIZES[PLANNER], **machine) -> str:
    """The planner. Raises ValueError where the world has too few training queries."""
    parameters, lesson = book.parameters, read_planner_lesson(book)
    training = int((lesson.material.queries["split"] == "training").sum())
    if training < size:
        raise ValueError(f"{PLANNER}-{size}: this world has {training:,} training queries")
    name, found = f"{PLANNER}-{size}", shipped_planner(parameters, lesson, root, size)
    output, pairs = book.data / "trained" / name, lesson.pairs(lesson.queries(size))
    machine["quantization"] = parameters.quantization
    made = taken_or_trained(found, parameters.planner, pairs, output, planner_settings(parameters), **machine)
    return ship_made(name, output, made, lesson.source(size), {}, root)


def taken_or_trained(
    found: Shipped, model: str, pairs: pd.DataFrame | None, output: Path, settings: Training, **machine
) -> Adapter:
    """The shipped part that was found, else an adapter trained here, or by an equal run that was killed or finished, on
    pairs of prompt and target (None will do where a part was found); `machine`: quantization, threads, progress."""
    if found.folder:
        return adapter_of(found.folder, found.record, from_project=True)
    assert pairs is not None
    texts = pairs["prompt"].tolist(), pairs["target"].tolist()
    return replace(finetune_language_model(model, *texts, output, settings, **machine), reason=found.reason)


def kept_for(
    task: RankingTask, encoder: str, bm25_b: float, retrained: Mapping[str, np.ndarray], root: Path, data: Path
) -> Kept:
    """Where rankers of context and the orders that they give are kept: with the project or, in `data`, with the run;
    `retrained` are cosines by fine-tuned encoders that rankers see. Of features the key has the names alone: their last
    bits are the processor's."""
    cosines = {name: hashlib.sha256(values.tobytes()).hexdigest() for name, values in retrained.items()}
    settings = [encoder, bm25_b, task.seed, task.cutoff, task.folds, how_trained(), list(task.features), cosines]
    labels = task.gold[["query", "need", "relevant"]]
    key = hash_of(
        settings, [task.queries, task.items, task.opens, labels.assign(relevant=labels["relevant"].map(list))]
    )
    return Kept(task, key, root / ORDERS, data / OWN_ORDERS)


def ship_orders(book: Workbook, root: Path = ROOT, **_) -> str:
    """The orders that notebook 05 computed, in the place of those that come with the project."""
    own = book.data / OWN_ORDERS
    if not own.exists():
        return ""
    shutil.move(own, root / ORDERS)
    return "those of notebook 05"


def make_search(book: Workbook, root: Path = ROOT, progress: bool = False, **_) -> str:
    """What the encoders of notebook 04 find, those behind a cosine of notebook 05, and other pretrained ones."""
    parameters = book.parameters
    settings = Finetuning(parameters.finetune_learning_rate, seed=parameters.seed)
    frames = {name: book.read(name) for name in ("items", "queries", "gold")}
    how = settings, parameters.finetune_epochs, parameters.encoder
    lessons = SearchLessons.of_world(frames, book.read_arrays("embeddings_pretrained"), *how)
    sets = encoder_sets(lessons, book.read("cot"), parameters.learning_curve) | ranker_sets(lessons)
    each = [find(lessons, name, sets[name], root, book.data / "encoders", progress, keep=True) for name in sets]
    fresh = sum(found is not None and not found.kept for found in each)
    asked = frames["queries"][frames["queries"]["split"] == "evaluation"]
    other_encoders(asked, frames["items"], root, keep=True)
    return f"by {fresh} encoders" if fresh else ""


def assistant_recipes() -> dict[str, Recipe]:
    """How `make train` makes each part, with the files that it is made from, by the notebook that writes them; the
    writer before the planner, some of whose prompts have its chains of thought."""
    written: dict[str, tuple[str, ...]] = {"01_data_gen": ("queries.parquet", "gold.parquet")}
    chains = {"03_cot_augmentation": ("cot.parquet",)}
    world = {"01_data_gen": ("items.parquet", "opens.parquet", *written["01_data_gen"])}
    context = world | {"02_context_baselines": ("embeddings_pretrained.safetensors",)}
    searched = {"04_finetuned_search": ("retrained_cosines.safetensors",)}
    shown = {
        "01_data_gen": ("other_plans.parquet", "people.parquet", "toolbox.parquet", *world["01_data_gen"]),
        **chains,
        "06_tool_retrieval": ("tool_rankings.parquet", "retrieved_context.parquet"),
    }
    own = {"06_tool_retrieval": (f"{TOOL_LISTS}.safetensors",)}
    learned = {name: f"of {size:,} training queries" for name, size in SIZES.items()}
    return {
        f"{WRITER}-{SIZES[WRITER]}": Recipe(learned[WRITER], "03_cot_augmentation", written, make_writer),
        f"{PLANNER}-{SIZES[PLANNER]}": Recipe(learned[PLANNER], "07_planner", shown, make_planner),
        SEARCH: Recipe("of training queries", "04_finetuned_search", context | chains, make_search),
        CONTEXT: Recipe("of notebook 05's", "05_lambdamart_rrf", context | searched, ship_orders),
        TOOL_LISTS: Recipe("of notebook 06's", "06_tool_retrieval", own, ship_tool_lists),
    }
