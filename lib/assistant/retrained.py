"""Trained text search, trained once more: fine-tuned search, the cross-encoder and late interaction, each without every
fold of needs (`lib.assistant.queries.folds_of_needs`), and with other seeds.

Without a fold, models are asked about its needs: so every evaluation query is ranked by models that no training query
told of its need. The first fold are the held-out needs, whose models notebook 04 has anyway. With another seed, models
learn from the same queries, drawn negatives, order and first weights aside.

All that takes two cores most of an hour, so what these models rank first is kept with the project, under the hash of
all that it depends on; another world trains them anew where the profile says so.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from lib.assistant.interaction_training import CROSS, LATE, SIZE, UNSEEN, Lesson, rank_with, reader_for, settings_of
from lib.assistant.queries import folds_of_needs
from lib.evaluation.over_seeds import SEEDS
from lib.generation.models import locate
from lib.retrieval.dense import load_encoder, search
from lib.retrieval.finetune import Finetuning, finetune_encoder, training_rows
from lib.retrieval.tuning import weights_hash
from lib.workbook.inputs import InputError
from lib.workbook.parameters.finetuned_search import FinetunedSearch

FILE = Path("data") / "answers" / "retrained.parquet"
FINETUNED = "finetuned"
METHODS = (FINETUNED, CROSS, LATE)
DEPTH = 10  # items of each ranking that are kept
WITHOUT, SEED = "without", "seed"  # kinds of variants
COLUMNS = ["variant", "method", "query", "item", "rank", "score"]
NO_RANKINGS = pd.DataFrame(columns=COLUMNS).astype({"rank": int, "score": float})


class Variant(NamedTuple):
    """How models are trained once more: without the needs of a fold, or with a seed so much higher."""

    kind: str
    number: int

    @property
    def name(self) -> str:
        return f"{self.kind}_{self.number}"


@dataclass(frozen=True)
class Retraining:
    """Evaluation queries, and what models learn that are asked about them.

    Attributes:
        lesson: what all learn from (`lib.assistant.interaction_training`).
        queries: evaluation queries, columns query, persona, text.
        items: columns item, persona, text.
        first: the pretrained search's ranking of these queries.
        need: of each of them.
        fold_of: of each need, training's included.
        finetuning, epochs: of fine-tuned search.
        encoder: name of the encoder that all start from.
    """

    lesson: Lesson
    queries: pd.DataFrame
    items: pd.DataFrame
    first: pd.DataFrame
    need: np.ndarray
    fold_of: Mapping[str, int]
    finetuning: Finetuning
    epochs: int
    encoder: str

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
        encoder: str,
    ) -> Retraining:
        """From the frames of notebook 01.

        Args:
            gold: columns query, need, of all queries.
        """
        need = queries["query"].map(gold.set_index("query")["need"]).to_numpy()
        fold_of = folds_of_needs(gold["need"], lesson.held_out, lesson.seed)
        return cls(lesson, queries, items, first, need, fold_of, finetuning, epochs, encoder)

    @property
    def folds(self) -> list[int]:
        """The folds after the first in which a query is asked."""
        return sorted({self.fold_of[need] for need in self.need} - {0})

    @property
    def variants(self) -> list[Variant]:
        """One a fold after the first, then one a further seed."""
        seeds = [Variant(SEED, number + 1) for number in range(SEEDS)]
        return [*(Variant(WITHOUT, number) for number in self.folds), *seeds]

    def asked(self, variant: Variant) -> pd.DataFrame:
        """The evaluation queries that its models are asked: of a fold, or all."""
        inside = [variant.kind == SEED or self.fold_of[need] == variant.number for need in self.need]
        return self.queries[np.array(inside, dtype=bool)]

    def lesson_of(self, variant: Variant) -> Lesson:
        """What its models learn: a fold's needs are held out, or all is drawn with another seed."""
        if variant.kind == SEED:
            return replace(self.lesson, seed=self.lesson.seed + variant.number)
        without = frozenset(need for need, fold in self.fold_of.items() if fold == variant.number)
        return replace(self.lesson, held_out=without)

    def taught(self, variant: Variant) -> pd.DataFrame:
        """The training queries that its models learn from."""
        lesson = self.lesson_of(variant)
        held_out = lesson.held_out if variant.kind == WITHOUT else frozenset()
        return lesson.queries[~lesson.queries["need"].isin(held_out)]

    @cached_property
    def key(self) -> str:
        """SHA-256 of what the rankings of the shipped size depend on, the last bits of embeddings aside."""
        digest = hashlib.sha256(weights_hash(load_encoder(locate(self.encoder))).encode())
        how = [asdict(self.finetuning), self.epochs, *(asdict(settings_of(name, 0)) for name in (CROSS, LATE))]
        digest.update(json.dumps(how, sort_keys=True).encode())
        for variant in self.variants:
            digest.update(f"{variant.name} {self.lesson_of(variant).source(reader_of(CROSS, variant), SIZE)}".encode())
        asked = self.queries.assign(fold=[self.fold_of[need] for need in self.need])
        owned = self.items[self.items["persona"].isin(asked["persona"])]
        for frame in (asked[["query", "persona", "text", "fold"]], owned[["item", "persona", "text"]]):
            digest.update(frame.to_json(orient="values").encode())
        return digest.hexdigest()


def reader_of(reader: str, variant: Variant) -> str:
    """Which of `lib.assistant.interaction_training.READERS` learns as the variant's reader does."""
    return reader + UNSEEN if variant.kind == WITHOUT else reader


# ---------------------------------------------------------------- kept, or trained here


def kept(retraining: Retraining, most: int, root: Path) -> pd.DataFrame | None:
    """The rankings that come with the project, `COLUMNS`; None where they are of another world, or where more than
    `DEPTH` items of a ranking are wanted.

    Args:
        most: items of a ranking that are wanted.
        root: the project's folder.

    Raises:
        InputError: the file cannot be read.
    """
    return kept_under(retraining.key, most, root)


def kept_under(key: str, most: int, root: Path) -> pd.DataFrame | None:
    """`kept`, under the key of what the rankings depend on."""
    path = root / FILE
    if most > DEPTH or not path.exists():
        return None
    try:
        found = pd.read_parquet(path)
        same = found[found["key"] == key]
        return same[COLUMNS].reset_index(drop=True) if len(same) else None
    except (OSError, ValueError, KeyError) as error:
        raise InputError(f"{path}: no kept rankings ({error})") from error


def trained(retraining: Retraining, folder: Path, size: int, progress: bool = False) -> pd.DataFrame:
    """The rankings, `COLUMNS`, of all variants, by models that are trained here; one that has nothing to learn from is
    left out.

    Args:
        folder: for the models, one folder each.
        size: training queries of each reader.
        progress: show progress bars.
    """
    runs, encoder = [], retraining.encoder
    for variant in retraining.variants:
        lesson, asked = retraining.lesson_of(variant), retraining.asked(variant)
        output = folder / f"{FINETUNED}_{variant.name}"
        model = finetuned_on(retraining, variant, retraining.taught(variant), output, progress)
        if model is None:
            continue
        found = {FINETUNED: search(model, asked, retraining.items, on="persona", progress=progress)}
        for reader in (CROSS, LATE):
            learner = reader_of(reader, variant)
            if not lesson.groups(learner, size).empty:
                output = folder / f"{reader}_{variant.name}"
                adapter = reader_for(learner, lesson, encoder, output, 0, size, progress=progress)
                shown = retraining.first, asked, retraining.items, progress
                found[reader] = rank_with(reader, adapter, encoder, *shown)
        runs += [run.assign(variant=variant.name, method=method) for method, run in found.items()]
    return pd.concat(runs, ignore_index=True)[COLUMNS] if runs else NO_RANKINGS


def finetuned_on(retraining: Retraining, variant: Variant, learned: pd.DataFrame, output: Path, progress: bool = False):
    """The encoder, fine-tuned as the variant is on some of the queries that it may learn from; None where they hold
    nothing to learn.

    Args:
        output: folder of the encoder; a finished one is not trained again.
        progress: show a progress bar.
    """
    lesson = retraining.lesson_of(variant)
    rows = training_rows(learned, lesson.items, lesson.qrels, lesson.negatives, retraining.epochs, lesson.seed)
    if rows.empty:
        return None
    how = replace(retraining.finetuning, seed=lesson.seed)
    return finetune_encoder(locate(retraining.encoder), rows, output, how, progress=progress)[0]


def to_keep(rankings: pd.DataFrame, key: str) -> pd.DataFrame:
    """What `kept` finds under a key again: the first `DEPTH` items of each ranking."""
    first = rankings[rankings["rank"] <= DEPTH].sort_values(["variant", "method", "query", "rank"], ignore_index=True)
    return first[COLUMNS].assign(key=key)


def rankings(
    retraining: Retraining, most: int, parameters: FinetunedSearch, folder: Path, root: Path, progress: bool
) -> tuple[pd.DataFrame, bool]:
    """`kept` where they fit and shipped parts are wanted, else `trained` where the profile trains them; else none. And
    whether they were kept.

    Args:
        most, folder, root, progress: as there.
        parameters: of notebook 04.
    """
    found = kept(retraining, most, root) if parameters.shipped_interaction_queries == SIZE else None
    if found is not None:
        return found, True
    if parameters.retrain_text_search:
        return trained(retraining, folder, parameters.interaction_training_queries, progress), False
    return NO_RANKINGS, False


def never_told(runs: Mapping[str, pd.DataFrame], retrained: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """{`<method>_unseen_needs`: rankings of all evaluation queries, each by a model that never met its need}, of the
    methods that have them.

    Args:
        runs: rankings by name; those of the first fold are `<method>_unseen_needs`.
        retrained: `COLUMNS`.
    """
    joined = {}
    rest = retrained[retrained["variant"].str.startswith(WITHOUT)]
    for method, rows in rest.groupby("method"):
        name = f"{method}{UNSEEN}_needs"
        first = [runs[name]] if name in runs else []
        joined[name] = pd.concat([*first, rows.drop(columns=["variant", "method"])], ignore_index=True)
    return joined


def of_other_seeds(retrained: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """{`<method>/<seed>`: rankings of all evaluation queries by models of a further seed, counted from 1}."""
    rest = retrained[retrained["variant"].str.startswith(SEED)]
    return {
        f"{method}/{variant.removeprefix(SEED + '_')}": rows.drop(columns=["variant", "method"])
        for (method, variant), rows in rest.groupby(["method", "variant"])
    }
