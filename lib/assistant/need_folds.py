"""Trained text search on needs that no training query told it of, over all evaluation queries: fine-tuned search, the
cross-encoder and late interaction, each trained once more without each fold of needs (`lib.assistant.queries.
folds_of_needs`).

The first fold are the held-out needs, whose models notebook 04 has anyway. The others take two cores most of half an
hour, so what their models rank first is kept with the project, under the hash of all that it depends on; another world
trains them anew where the profile says so.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd

from lib.assistant.interaction_training import CROSS, LATE, SIZE, UNSEEN, Lesson, rank_with, reader_for, settings_of
from lib.assistant.queries import folds_of_needs
from lib.generation.models import locate
from lib.retrieval.dense import load_encoder, search
from lib.retrieval.finetune import Finetuning, finetune_encoder, training_rows
from lib.retrieval.tuning import weights_hash
from lib.workbook.inputs import InputError
from lib.workbook.parameters.finetuned_search import FinetunedSearch

FILE = Path("data") / "answers" / "need_folds.parquet"
FINETUNED = "finetuned"
METHODS = (FINETUNED, CROSS, LATE)
DEPTH = 10  # items of each ranking that are kept
COLUMNS = ["method", "query", "item", "rank", "score"]


@dataclass(frozen=True)
class NeedFolds:
    """Evaluation queries by the fold of their need, and what models learn that never met it.

    Attributes:
        lesson: what all learn from (`lib.assistant.interaction_training`).
        queries: evaluation queries, columns query, persona, text.
        items: columns item, persona, text.
        first: the pretrained search's ranking of these queries.
        need: of each of them.
        fold_of: of each need, training's included.
        finetuning, epochs: of fine-tuned search.
    """

    lesson: Lesson
    queries: pd.DataFrame
    items: pd.DataFrame
    first: pd.DataFrame
    need: np.ndarray
    fold_of: Mapping[str, int]
    finetuning: Finetuning
    epochs: int

    @classmethod
    def of_world(
        cls,
        lesson: Lesson,
        queries: pd.DataFrame,
        items: pd.DataFrame,
        first: pd.DataFrame,
        gold: pd.DataFrame,
        finetuning: Finetuning,
        epochs: int,
    ) -> NeedFolds:
        """From the frames of notebook 01.

        Args:
            gold: columns query, need, of all queries.
        """
        need = queries["query"].map(gold.set_index("query")["need"]).to_numpy()
        fold_of = folds_of_needs(gold["need"], lesson.held_out, lesson.seed)
        return cls(lesson, queries, items, first, need, fold_of, finetuning, epochs)

    @property
    def numbers(self) -> list[int]:
        """The folds after the first in which a query is asked."""
        return sorted({self.fold_of[need] for need in self.need} - {0})

    def asked(self, number: int) -> pd.DataFrame:
        """The evaluation queries of a fold."""
        return self.queries[np.array([self.fold_of[need] == number for need in self.need])]

    def lesson_without(self, number: int) -> Lesson:
        """What models learn that must not meet a fold's needs: they are its held-out ones."""
        return replace(self.lesson, held_out=frozenset(need for need, fold in self.fold_of.items() if fold == number))

    def key(self, encoder: str) -> str:
        """SHA-256 of what the rankings of the shipped size depend on, the last bits of embeddings aside.

        Args:
            encoder: name of the encoder that all start from.
        """
        digest = hashlib.sha256(weights_hash(load_encoder(locate(encoder))).encode())
        how = [asdict(self.finetuning), self.epochs, *(asdict(settings_of(name, 0)) for name in (CROSS, LATE))]
        digest.update(json.dumps(how, sort_keys=True).encode())
        digest.update(json.dumps([[self.lesson.seed, number] for number in self.numbers]).encode())
        for number in self.numbers:
            digest.update(self.lesson_without(number).source(CROSS + UNSEEN, SIZE).encode())
        asked = self.queries.assign(fold=[self.fold_of[need] for need in self.need])
        owned = self.items[self.items["persona"].isin(asked["persona"])]
        for frame in (asked[["query", "persona", "text", "fold"]], owned[["item", "persona", "text"]]):
            digest.update(frame.to_json(orient="values").encode())
        return digest.hexdigest()


def kept(folds: NeedFolds, encoder: str, most: int, root: Path) -> pd.DataFrame | None:
    """The rankings that come with the project, `COLUMNS`, of the folds after the first; None where they are of another
    world, or where more than `DEPTH` items of a ranking are wanted.

    Args:
        encoder: name of the encoder that all start from.
        most: items of a ranking that are wanted.
        root: the project's folder.

    Raises:
        InputError: the file cannot be read.
    """
    path = root / FILE
    if most > DEPTH or not path.exists():
        return None
    try:
        found = pd.read_parquet(path)
        same = found[found["key"] == folds.key(encoder)]
        return same[COLUMNS].reset_index(drop=True) if len(same) else None
    except (OSError, ValueError, KeyError) as error:
        raise InputError(f"{path}: no kept rankings ({error})") from error


def trained(folds: NeedFolds, encoder: str, folder: Path, size: int, progress: bool = False) -> pd.DataFrame:
    """The rankings, `COLUMNS`, of the folds after the first, by models that are trained here; a fold whose models have
    nothing to learn from is left out.

    Args:
        encoder: name of the encoder to start from.
        folder: for the models, one folder each.
        size: training queries of each reader.
        progress: show progress bars.
    """
    runs = []
    for number in folds.numbers:
        lesson, asked = folds.lesson_without(number), folds.asked(number)
        learned = lesson.queries[~lesson.queries["need"].isin(lesson.held_out)]
        rows = training_rows(learned, lesson.items, lesson.qrels, lesson.negatives, folds.epochs, lesson.seed)
        if rows.empty:
            continue
        output = folder / f"{FINETUNED}_without_{number}"
        model, _ = finetune_encoder(locate(encoder), rows, output, folds.finetuning, progress=progress)
        runs.append(search(model, asked, folds.items, on="persona", progress=progress).assign(method=FINETUNED))
        for reader in (CROSS, LATE):
            if not lesson.groups(reader + UNSEEN, size).empty:
                output = folder / f"{reader}_without_{number}"
                adapter = reader_for(reader + UNSEEN, lesson, encoder, output, 0, size, progress=progress)
                ranking = rank_with(reader, adapter, encoder, folds.first, asked, folds.items, progress)
                runs.append(ranking.assign(method=reader))
    return pd.concat(runs, ignore_index=True)[COLUMNS] if runs else pd.DataFrame(columns=COLUMNS)


def to_keep(rankings: pd.DataFrame, key: str) -> pd.DataFrame:
    """What `kept` finds under a key again: the first `DEPTH` items of each ranking."""
    first = rankings[rankings["rank"] <= DEPTH].sort_values(["method", "query", "rank"], ignore_index=True)
    return first[COLUMNS].assign(key=key)


def rankings(
    folds: NeedFolds, encoder: str, most: int, parameters: FinetunedSearch, folder: Path, root: Path, progress: bool
) -> tuple[pd.DataFrame, bool]:
    """`kept` where they fit and shipped parts are wanted, else `trained` where the profile trains them; else none. And
    whether they were kept.

    Args:
        encoder, most, folder, root, progress: as there.
        parameters: of notebook 04.
    """
    found = kept(folds, encoder, most, root) if parameters.shipped_interaction_queries == SIZE else None
    if found is not None:
        return found, True
    if parameters.train_need_folds:
        return trained(folds, encoder, folder, parameters.interaction_training_queries, progress), False
    return pd.DataFrame(columns=COLUMNS), False


def with_other_folds(runs: Mapping[str, pd.DataFrame], others: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """{`<method>_unseen_needs`: rankings of all evaluation queries, each by a model that never met its need}, of the
    methods that have them.

    Args:
        runs: rankings by name; those of the first fold are `<method>_unseen_needs`.
        others: of the other folds, `COLUMNS`.
    """
    joined = {}
    for method, rows in others.groupby("method"):
        name = f"{method}{UNSEEN}_needs"
        first = [runs[name]] if name in runs else []
        joined[name] = pd.concat([*first, rows.drop(columns="method")], ignore_index=True)
    return joined
