"""The rankers of tools that come with the project, so that a planner is shown the same tools on every processor.

Learned anew where a processor has other instructions (AVX2 in the place of AVX-512), the ranker with retrieved context
orders the first ten tools otherwise for 96% of the queries of `quick`, for the reason that
`lib.assistant.shipped_ranker` says. As many prompts of the planner are other ones, and the plans that are kept with the
project do not fit them. A ranker that is only read gives all queries the same ten in the same order there.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from lib.assistant import tool_ranker
from lib.assistant.tool_ranker import PlanLessons, known_needs_ranker
from lib.retrieval.lambdamart import LambdaMART
from lib.retrieval.ranker_files import hash_of_lesson, how_trained, read_rankers, write_rankers
from lib.workbook.artifacts import ROOT, Workbook
from lib.workbook.machine import processor

FILE = Path("data") / "trained" / "tool_rankers.jsonl.xz"
NAME = "tool_rankers"  # of the part, for `make train`, and of notebook 06's artifact
NEEDED = {"06_tool_retrieval": (f"{NAME}.jsonl",)}


class Source(NamedTuple):
    """Where the context that a ranker sees is from.

    Attributes:
        method: that retrieved it.
        encoder: of all texts.
        frames: what the method learned or retrieved from, of the training personas alone.
    """

    method: str
    encoder: str
    frames: Sequence[pd.DataFrame] = ()

    @classmethod
    def of_world(cls, method: str, encoder: str, world: Mapping[str, pd.DataFrame]) -> Source:
        """With the training queries, their labels, and these personas' items and log.

        Args:
            world: frames queries, gold, items and, where the method reads the log, opens.
        """
        queries, items = world["queries"], world["items"]
        asked = queries.loc[queries["split"] == "training", ["query", "persona", "time", "place"]]
        asked = asked.assign(relevant=asked["query"].map(world["gold"].set_index("query")["relevant"]).map(list))
        items = items[items["persona"].isin(asked["persona"])]
        opens = [world["opens"][world["opens"]["item"].isin(items["item"])]] if "opens" in world else []
        return cls(method, encoder, [asked, items, *opens])


class Taken(NamedTuple):
    """A ranker, and where it is from.

    Attributes:
        ranker: None where there was no query to learn from.
        learned_from: see the function of this name.
        device: the processor that it was trained on.
        shipped: whether it came with the project.
    """

    ranker: LambdaMART | None
    learned_from: str
    device: str
    shipped: bool


@dataclass(frozen=True)
class ShippedRankers:
    """The rankers that come with the project.

    Attributes:
        records: entries learned_from, device and model (its text), by what each learned from.
        reason: why there are none, a sentence; empty where there are some.
    """

    records: Mapping[str, Mapping[str, str]]
    reason: str = ""

    @classmethod
    def of_project(cls, root: Path = ROOT) -> ShippedRankers:
        """Those in the project's folder; none where their file is missing or damaged."""
        if not (root / FILE).exists():
            return cls({}, "No rankers of tools are shipped.")
        found = {record["learned_from"]: record for record in read_rankers(root / FILE)}
        return cls(found, "" if found else "The shipped rankers of tools are damaged.")

    def take(self, lessons: PlanLessons, context: pd.DataFrame | None, source: Source) -> Taken:
        """The ranker that learned from this very task; else one that is trained here.

        Args:
            lessons: from `lib.assistant.tool_ranker.lessons_of_training`.
            context: from `lib.assistant.tool_ranker.context_features`; None for the query alone.
            source: of the context.
        """
        key = learned_from(lessons, context, source)
        if key in self.records:
            record = self.records[key]
            return Taken(LambdaMART.from_text(record["model"], lessons.ranking.threads), key, record["device"], True)
        return Taken(known_needs_ranker(lessons, context), key, processor(), False)


NONE_SHIPPED = ShippedRankers({})


def learned_from(lessons: PlanLessons, context: pd.DataFrame | None, source: Source) -> str:
    """SHA-256 of what a ranker learns from: training queries, their plans, the tools, what context is retrieved from,
    the names of the features, and how it learns. Not of the features: their last bits are the processor's.

    Args:
        lessons, context, source: as of `ShippedRankers.take`.
    """
    ranking = lessons.ranking
    task, training = ranking.task, ranking.training
    folds = [tool_ranker.FOLDS, ranking.kept_apart, tool_ranker.CATEGORICAL, tool_ranker.RISING]
    seen = [] if context is None else [source.method, list(context.columns)]
    settings = [source.encoder, ranking.seed, ranking.cutoff, how_trained(), folds, list(ranking.fixed.columns), seen]
    asked = task.queries.loc[training, ["query", "text", "persona", "need"]]
    asked = asked.assign(phrasing=ranking.units("phrasing")[training])
    plans = task.gold.loc[task.gold["query"].isin(asked["query"]), ["query", "item"]]
    frames = [asked, plans, task.tools[["item", "app", "text"]]]
    return hash_of_lesson(settings, [*frames, *(source.frames if context is not None else ())])


def lines(rankers: Iterable[Taken]) -> list[str]:
    """The records of rankers, one JSON text each, as notebook 06 writes them."""
    return [
        json.dumps({"learned_from": one.learned_from, "device": one.device, "model": one.ranker.text_to_rank})
        for one in rankers
        if one.ranker is not None
    ]


def ship(book: Workbook, root: Path = ROOT) -> bool:
    """Put the rankers that notebook 06 trained here beside those that come with the project. Returns whether there were
    any.

    Args:
        book: whose folder has the notebook's artifacts.
        root: the project's folder.
    """
    there = ShippedRankers.of_project(root).records
    found = {record["learned_from"]: record for record in map(json.loads, book.read_lines(NAME))}
    if found.keys() <= there.keys():
        return False
    write_rankers(root / FILE, {**found, **there}.values())
    return True
