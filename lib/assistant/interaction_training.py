"""The cross-encoder and late interaction of notebook 04: which queries each learns from, which comes with the project,
and how it ranks.

A reader is one of `READERS`: `cross_encoder` reranks the first `DEPTH` items that the pretrained semantic search finds,
`late_interaction` searches all of the persona's; those in `_unseen` never met the held-out needs. All learn from
training queries alone: a relevant item of each, and irrelevant ones of the same persona that the pretrained encoder
ranks high. The part of a reader that comes with the project is `<reader>-<training queries>`.

Learning rates were compared on training personas alone: 672 queries of 150, judged by recall at 3 on 197 queries of 90
others in phrasings kept out. Cross-encoder: 1e-3 (head 1e-3 and 1e-2), 3e-3 (1e-2; with seven negatives 3e-2), 1e-2;
late interaction: 1e-3, 3e-3, 5e-3 with seven negatives, 1e-2. The highest of each learned nothing.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd

from lib.assistant.controls import rows_of_other_personas
from lib.assistant.queries import held_out_needs
from lib.generation.models import locate
from lib.retrieval.dense import load_encoder
from lib.retrieval.finetune import hardest_negatives, nested_sample
from lib.retrieval.interaction import (
    CrossEncoder,
    Interaction,
    LateInteraction,
    first_results,
    late_scores,
    rerank,
    train_interaction,
    training_groups,
)
from lib.retrieval.stores import candidate_pairs, cosine_of_pairs, rank_pairs
from lib.retrieval.tuning import weights_hash
from lib.workbook.artifacts import ROOT, Workbook, copy_folder
from lib.workbook.parameters.base import Parameters
from lib.workbook.parameters.finetuned_search import FinetunedSearch
from lib.workbook.trained import NONE, RECORD, Adapter, Shipped, adapter_of, shipped

CROSS, LATE, UNSEEN = "cross_encoder", "late_interaction", "_unseen"
READERS = (CROSS, LATE, CROSS + UNSEEN, LATE + UNSEEN)
SIZE = 4_338
DEPTH = 20  # results of the pretrained search that the cross-encoder reranks
CONTROL_QUERIES = 200  # at most
NEGATIVES = 4  # a query, drawn from its hardest
SETTINGS = {
    CROSS: Interaction(kind="cross", learning_rate=3e-3, head_rate=1e-2),
    LATE: Interaction(kind="late", learning_rate=3e-3),
}


def settings_of(reader: str, seed: int) -> Interaction:
    """A reader's settings; they do not depend on the needs it meets."""
    return replace(SETTINGS[reader.removesuffix(UNSEEN)], seed=seed)


def name_of(reader: str, size: int) -> str:
    """What a reader's part is called."""
    return f"{reader}-{size}"


def method_of(reader: str) -> str:
    """What a reader's rankings are called."""
    return reader.replace(UNSEEN, "_unseen_needs")


# ---------------------------------------------------------------- what they learn from


@dataclass(frozen=True)
class Lesson:
    """What readers learn from: of training personas alone.

    Attributes:
        queries: columns query, persona, text, need.
        items: columns item, persona, text.
        qrels: columns query, item.
        negatives: from `lib.retrieval.finetune.hardest_negatives`.
        hardest: negatives a query at most.
        seed: of the held-out needs and the draws.
        held_out: needs that the readers in `_unseen` never meet.
    """

    queries: pd.DataFrame
    items: pd.DataFrame
    qrels: pd.DataFrame
    negatives: pd.DataFrame
    hardest: int
    seed: int
    held_out: frozenset[str]

    @classmethod
    def of_world(
        cls,
        queries: pd.DataFrame,
        items: pd.DataFrame,
        gold: pd.DataFrame,
        vectors: Mapping[str, np.ndarray],
        hardest: int,
        seed: int,
    ) -> Lesson:
        """From the frames of notebook 01, of which evaluation queries and their labels are left out here.

        Args:
            vectors: of notebook 02: `queries` and `items`, the pretrained encoder's, in the order of the frames.
        """
        training = (queries["split"] == "training").to_numpy()
        owned = items["persona"].isin(queries.loc[training, "persona"]).to_numpy()
        labels = gold[gold["query"].isin(queries.loc[training, "query"])].set_index("query")
        asked = queries.loc[training, ["query", "persona", "text"]].reset_index(drop=True)
        mine = items.loc[owned, ["item", "persona", "text"]].reset_index(drop=True)
        qrels = labels["relevant"].explode().dropna().rename("item").reset_index()
        pairs = candidate_pairs(asked, mine, on="persona")
        cosines = cosine_of_pairs(pairs, vectors["queries"][training], vectors["items"][owned])
        return cls(
            asked.assign(need=asked["query"].map(labels["need"])),
            mine,
            qrels,
            hardest_negatives(pairs, cosines, qrels, hardest),
            hardest,
            seed,
            frozenset(held_out_needs(gold["need"].unique(), seed)),
        )

    def queries_of(self, reader: str, size: int) -> pd.DataFrame:
        """The queries that a reader may learn from, out of at most so many."""
        chosen = nested_sample(self.queries, size, "persona", self.seed)
        return chosen[~chosen["need"].isin(self.held_out)] if reader.endswith(UNSEEN) else chosen

    def groups(self, reader: str, size: int) -> pd.DataFrame:
        """What a reader learns from them: see `lib.retrieval.interaction.training_groups`."""
        chosen = self.queries_of(reader, size)
        return training_groups(chosen, self.items, self.qrels, self.negatives, NEGATIVES, self.seed)

    def source(self, reader: str, size: int) -> str:
        """SHA-256 of what these groups are made from.

        Not of the groups: which items are the hardest depends on the last bits of embeddings, and these on the
        processor.
        """
        chosen = self.queries_of(reader, size)
        items = self.items[self.items["persona"].isin(chosen["persona"])]
        qrels = self.qrels[self.qrels["query"].isin(chosen["query"])]
        how = [size, NEGATIVES, self.hardest, self.seed]
        digest = hashlib.sha256(json.dumps(how).encode())
        for frame in (chosen[["query", "persona", "text"]], items[["item", "persona", "text"]], qrels):
            digest.update(frame.to_json(orient="values").encode())
        return digest.hexdigest()


# ---------------------------------------------------------------- shipped, or trained here


def reader_for(
    reader: str,
    lesson: Lesson,
    encoder: str,
    output: Path,
    wanted: int,
    size: int,
    threads: int | None = None,
    progress: bool = False,
    root: Path = ROOT,
) -> Adapter:
    """A reader at `output`: the shipped one where it fits this world, else one that is trained here.

    Args:
        encoder: name of the encoder to start from.
        wanted: training queries of the shipped part; 0 wants none.
        size: training queries that one is trained on here.
        threads, progress: of the training, see `lib.retrieval.interaction.train_interaction`.
        root: the project's folder.

    Raises:
        ValueError: it has nothing to learn from.
    """
    path, found = locate(encoder), NONE
    if wanted:
        found = shipped_reader(reader, lesson, path, wanted, root)
    if found.folder:
        copy_folder(found.folder, output)
        return replace(adapter_of(found.folder, found.record, from_project=True), folder=output)
    groups, settings = lesson.groups(reader, size), settings_of(reader, lesson.seed)
    record = train_interaction(path, groups, output, settings, threads, progress)
    return adapter_of(output, record, found.reason)


def shipped_reader(reader: str, lesson: Lesson, path: str, size: int, root: Path = ROOT) -> Shipped:
    """The part of a reader, if it learned this lesson from the encoder at `path`."""
    return shipped(name_of(reader, size), weights_hash(load_encoder(path)), lesson.source(reader, size), root)


def all_readers(
    lesson: Lesson,
    encoder: str,
    folder: Path,
    wanted: int,
    size: int,
    progress: bool = False,
    root: Path = ROOT,
) -> dict[str, Adapter]:
    """`reader_for` of every reader that has something to learn from, in a folder of its name; where one has nothing, an
    empty record takes the place of a former world's."""
    adapters = {}
    for reader in READERS:
        if len(lesson.groups(reader, size)):
            adapters[reader] = reader_for(reader, lesson, encoder, folder / reader, wanted, size, None, progress, root)
        else:
            (folder / reader).mkdir(parents=True, exist_ok=True)
            (folder / reader / RECORD).write_text("{}\n", encoding="utf-8")
    return adapters


def kept_reader(folder: Path) -> Adapter:
    """The reader that notebook 04 left in a folder. Raises OSError or KeyError where there is none."""
    return adapter_of(folder, json.loads((folder / RECORD).read_text(encoding="utf-8")))


@dataclass(frozen=True)
class Part:
    """A reader that comes with the project: as `lib.assistant.trained_parts.Part` for `make train`."""

    reader: str
    size: int
    settings: Interaction
    parameters: type[Parameters]
    needs: Mapping[str, tuple[str, ...]]


def parts() -> dict[str, Part]:
    """The part of every reader by its name."""
    needs = {
        "01_data_gen": ("items.parquet", "queries.parquet", "gold.parquet"),
        "02_context_baselines": ("embeddings_pretrained.safetensors",),
    }
    return {
        name_of(reader, SIZE): Part(reader, SIZE, settings_of(reader, 0), FinetunedSearch, needs) for reader in READERS
    }


def read_lesson(book: Workbook) -> Lesson:
    """From the artifacts of notebooks 01 and 02, read for notebook 04."""
    parameters = book.parameters
    assert isinstance(parameters, FinetunedSearch)
    queries, items, gold = (book.read(name) for name in ("queries", "items", "gold"))
    vectors = book.read_arrays("embeddings_pretrained")
    return Lesson.of_world(queries, items, gold, vectors, parameters.hard_negatives, parameters.seed)


def make(name: str, part: Part, book: Workbook, output: Path, root: Path, **machine) -> tuple[Adapter, str, dict]:
    """As `lib.assistant.trained_parts.make`.

    Raises:
        ValueError: the world has fewer training queries than the part learns from.
    """
    lesson, parameters = read_lesson(book), book.parameters
    assert isinstance(parameters, FinetunedSearch)
    if len(lesson.queries) < part.size:
        raise ValueError(f"{name}: this world has {len(lesson.queries):,} of the {part.size:,} training queries")
    source = lesson.source(part.reader, part.size)
    found = shipped_reader(part.reader, lesson, locate(parameters.encoder), part.size, root)
    if found.folder:
        return adapter_of(found.folder, found.record, from_project=True), source, {}
    made = reader_for(part.reader, lesson, parameters.encoder, output, 0, part.size, root=root, **machine)
    return made, source, {}


# ---------------------------------------------------------------- rankings


def rank_with(
    reader: str,
    adapter: Adapter,
    encoder: str,
    first: pd.DataFrame,
    queries: pd.DataFrame,
    items: pd.DataFrame,
    progress: bool = False,
) -> pd.DataFrame:
    """The ranking of each query's own persona's items by a reader, computed in bfloat16 where the processor has it.

    Args:
        encoder: name of the encoder that it was trained from.
        first: the pretrained search's ranking of these queries, or of more.
        queries: columns query, persona, text.
        items: columns item, persona, text.

    Returns:
        columns query, item, rank, score; without a row where there is no query.
    """
    how = {"progress": progress, "bfloat16": True}
    first = first[first["query"].isin(queries["query"])]
    items = items[items["persona"].isin(queries["persona"])]
    if reader.startswith(CROSS):
        results = first_results(first, queries, items, DEPTH)
        model = CrossEncoder.of(locate(encoder), adapter)
        return rerank(first, results, model.scores(results["asked"].tolist(), results["text"].tolist(), **how))
    return rank_late(adapter, encoder, queries, items, progress)


def rank_late(
    adapter: Adapter, encoder: str, queries: pd.DataFrame, items: pd.DataFrame, progress: bool = False
) -> pd.DataFrame:
    """As `rank_with`, by late interaction, which needs no other search before it."""
    late = LateInteraction.of(locate(encoder), adapter)
    pairs = candidate_pairs(queries, items, on="persona")
    tokens = [late.tokens(frame["text"].tolist(), progress=progress, bfloat16=True) for frame in (queries, items)]
    return rank_pairs(pairs, late_scores(pairs, *tokens))


def rank_for_others(
    adapters: Mapping[str, Adapter],
    encoder: str,
    queries: pd.DataFrame,
    items: pd.DataFrame,
    vectors: Mapping[str, np.ndarray],
    seed: int,
    progress: bool = False,
) -> dict[str, pd.DataFrame]:
    """A control: rankings of a persona's items for what another persona asked, for at most `CONTROL_QUERIES` queries.

    Args:
        adapters: by reader; those in `_unseen` are not asked.
        encoder: name of the encoder that they were trained from.
        queries: columns query, persona, text.
        items: columns item, persona, text.
        vectors: `queries` and `items`: the pretrained encoder's embeddings, in the order of the frames.
        seed: of the draws.

    Returns:
        {reader with `_swapped`: see `rank_with`}, under the ids of the queries whose places the others' take.
    """
    rng = np.random.default_rng(seed)
    others = rows_of_other_personas(queries["persona"].tolist(), rng)
    drawn = np.sort(rng.choice(len(queries), min(CONTROL_QUERIES, len(queries)), replace=False))
    asked = queries.iloc[drawn].assign(text=queries["text"].to_numpy()[others[drawn]]).reset_index(drop=True)
    pairs = candidate_pairs(asked, items, on="persona")
    first = rank_pairs(pairs, cosine_of_pairs(pairs, vectors["queries"][others[drawn]], vectors["items"]))
    return {
        f"{reader}_swapped": rank_with(reader, adapters[reader], encoder, first, asked, items, progress)
        for reader in (CROSS, LATE)
        if reader in adapters
    }


def share_in_shortlist(first: pd.DataFrame, qrels: pd.DataFrame) -> float:
    """The share of relevant items among the first `DEPTH` results, 0 to 1; NaN where no query has one.

    Args:
        first: columns query, item, rank.
        qrels: columns query, item.
    """
    wanted = qrels[qrels["query"].isin(first["query"])].merge(first, on=["query", "item"], how="left")
    return float((wanted["rank"] <= DEPTH).mean())
