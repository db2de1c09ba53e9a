"""The ranker of context that comes with the project, so that later notebooks show the same context on every processor.

LambdaMART grows its trees from splits that often gain nearly the same, and the last bits of an embedding, which differ
between processors, decide among them. In `quick`, noise of 2e-7 on the cosines gives another ranker, with other first
three items for one query in six, and so other prompts for the planner. A ranker that is only read gives the same ones.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from lib.assistant.ranking_task import Learning, RankingTask
from lib.retrieval.lambdamart import LambdaMART
from lib.retrieval.ranker_files import hash_of_lesson, how_trained, read_rankers, write_rankers
from lib.workbook.artifacts import ROOT, Workbook
from lib.workbook.machine import processor
from lib.workbook.parameters.lambdamart_rrf import LambdaMARTRRF

FILE = Path("data") / "trained" / "lambdamart.json.xz"
NAME = "lambdamart"  # of the part, for `make train`
NEEDED = {
    "01_data_gen": ("items.parquet", "opens.parquet", "queries.parquet", "gold.parquet"),
    "02_context_baselines": ("embeddings_pretrained.safetensors",),
}


class Taken(NamedTuple):
    """A ranker, and where it is from.

    Attributes:
        ranker: see `lib.retrieval.lambdamart`.
        device: the processor that it was trained on.
        shipped: whether it came with the project.
        reason: why the shipped one is not taken, a sentence; empty where it is.
    """

    ranker: LambdaMART
    device: str
    shipped: bool
    reason: str


def learned_from(task: RankingTask, encoder: str, bm25_b: float) -> str:
    """SHA-256 of what the ranker of a task learns from: queries, items, opens and labels of the training personas, the
    names of the features, the encoder, and how it learns. Not of the features: their last bits are the processor's.

    Args:
        encoder: its name.
        bm25_b: of the score bm25t.
    """
    how = task.learning
    settings = [encoder, bm25_b, how.seed, max(how.cutoffs), how_trained(), list(task.features.columns)]
    asked = task.queries[task.queries["split"] == "training"]
    labels = task.gold[task.gold["query"].isin(asked["query"])][["query", "relevant"]]
    items = task.items[task.items["persona"].isin(asked["persona"])]
    opens = task.opens[task.opens["item"].isin(items["item"])]
    return hash_of_lesson(settings, [asked, items, opens, labels.assign(relevant=labels["relevant"].map(list))])


def ranker_for(task: RankingTask, encoder: str, bm25_b: float, root: Path = ROOT) -> Taken:
    """The shipped ranker where it learned from this very task; else one that is trained here.

    Args:
        root: the project's folder.
    """
    found = next(iter(read_rankers(root / FILE)), None)
    if found is None:
        reason = "No ranker is shipped." if not (root / FILE).exists() else "The shipped ranker is damaged."
    elif found["learned_from"] != learned_from(task, encoder, bm25_b):
        reason = "The shipped ranker is not used: it learned from other queries or items than these."
    else:
        ranker = LambdaMART.from_text(found["model"], task.learning.threads)
        return Taken(ranker, found["device"], True, "")
    return Taken(task.learn(), processor(), False, reason)


def ship_ranker(ranker: LambdaMART, task: RankingTask, encoder: str, bm25_b: float, root: Path = ROOT) -> Path:
    """Put a task's ranker among the trained parts."""
    record = {
        "learned_from": learned_from(task, encoder, bm25_b),
        "queries": len(task.queries_of("training")),
        "device": processor(),
        "model": ranker.text,
    }
    write_rankers(root / FILE, [record])
    return root / FILE


def train_and_ship(book: Workbook, threads: int, root: Path = ROOT) -> bool:
    """Train the ranker of notebook 05's world and ship it, unless the shipped one fits. Returns whether it was trained.

    Args:
        book: of notebook 05.
        root: the project's folder.
    """
    parameters = book.parameters
    assert isinstance(parameters, LambdaMARTRRF)
    learning = Learning(parameters.cutoffs, parameters.seed, parameters.folds, threads)
    frames = {name: book.read(name) for name in ("items", "opens", "queries", "gold")}
    task = RankingTask.of_world(frames, book.read_arrays("embeddings_pretrained"), learning, parameters.bm25_b)
    taken = ranker_for(task, parameters.encoder, parameters.bm25_b, root)
    if not taken.shipped:
        ship_ranker(taken.ranker, task, parameters.encoder, parameters.bm25_b, root)
    return not taken.shipped
