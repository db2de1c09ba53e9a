"""The cosine of fine-tuned encoders that were trained once more without each fold of needs, for a ranker that sees it.

Cosines of evaluation queries are by an encoder that learned from all training personas, those of training queries by
two that learned from half of the personas each, and not from the query's. So a ranker can be learned and asked where
neither it nor an encoder behind it met a query's need.

Where a ranker is to learn how far to trust the cosine of a new need (`lib.assistant.adapted_cosine`), a training
query's must not come from encoders that met its need either: so more are trained without two folds each.

All that takes two cores an hour, so the cosines are kept with the project, in float16.
"""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from lib.assistant.ranker_ablation import folds_of_pairs
from lib.assistant.ranking_task import RankingTask
from lib.assistant.retrained import FINETUNED, Retraining, without
from lib.retrieval.dense import encode
from lib.retrieval.finetune import folds_of
from lib.retrieval.stores import candidate_pairs, cosine_of_pairs
from lib.workbook.inputs import InputError

FILE = Path("data") / "answers" / "retrained_cosines.npz"
KEY = "key"
TRAINING, EVALUATION = "training", "evaluation"
Cosines = dict[str, np.ndarray]
# What each of several encoders learns from and is asked, by an ending of its name.
Parts = dict[str, tuple[pd.DataFrame, pd.DataFrame]]


def trained(retraining: Retraining, folder: Path, progress: bool = False) -> Cosines:
    """The cosines without each fold, and without two folds each, by encoders that are trained here; what has nothing to
    learn from in one half of the personas is left out.

    Args:
        folder: for the encoders, one folder each; finished ones are not trained again.
        progress: show progress bars.

    Returns:
        {`<without a fold>_training`, `<without a fold>_evaluation`, `<without two>_training`: one value in float16 for
        each pair of `lib.retrieval.stores.candidate_pairs` of these queries; NaN where there is none: of evaluation
        queries about other folds, of training queries about others than the two}.
    """
    queries, asked, found = retraining.learned, retraining.asked, Cosines()
    items = retraining.items[retraining.items["persona"].isin(queries["persona"])].reset_index(drop=True)
    half = folds_of(queries["persona"], 2, retraining.finetuning.seed)
    learned_pairs = candidate_pairs(queries, items, on="persona")
    asked_pairs = candidate_pairs(asked, retraining.items, on="persona")

    def values_of(name: str, parts: Parts, items: pd.DataFrame, pairs: pd.DataFrame):
        """Cosines of the pairs by one encoder a part; None where one has nothing to learn from."""
        values = np.full(len(pairs), np.nan)
        for ending, (learned, asked) in parts.items():
            output = folder / f"{FINETUNED}_{name}{ending}"
            model = retraining.encoder_on(learned, output, progress) if len(learned) else None
            if model is None:
                return None
            values[pairs["query"].isin(asked["query"]).to_numpy()] = _cosines(model, asked, items, progress)
        return values.astype(np.float16)

    def halves(taught: pd.Series, asked: pd.Series) -> Parts:
        """By half of the personas: of the other half what is taught, of this half what is asked."""
        return {
            f"_half_{number}": (queries[taught & (half != number)], queries[asked & (half == number)])
            for number in (0, 1)
        }

    for fold in retraining.folds:
        taught = queries["fold"] != fold
        whole = {"": (queries[taught], asked[asked["fold"] == fold])}
        answered = values_of(without(fold), whole, retraining.items, asked_pairs)
        parts = halves(taught, pd.Series(True, queries.index))
        learned = values_of(without(fold), parts, items, learned_pairs)
        if answered is not None and learned is not None:
            found |= {f"{without(fold)}_{TRAINING}": learned, f"{without(fold)}_{EVALUATION}": answered}
    for both in combinations(retraining.folds, 2):
        about = queries["fold"].isin(both)
        values = values_of(without(*both), halves(~about, about), items, learned_pairs)
        if values is not None:
            found[f"{without(*both)}_{TRAINING}"] = values
    return found


def _cosines(model, queries: pd.DataFrame, items: pd.DataFrame, progress: bool) -> np.ndarray:
    """Of all pairs of these queries, in the order of `candidate_pairs`."""
    owned = items[items["persona"].isin(queries["persona"])]
    asked, known = (encode(model, frame["text"].tolist(), progress=progress) for frame in (queries, owned))
    return cosine_of_pairs(candidate_pairs(queries, owned, on="persona"), asked, known)


# ---------------------------------------------------------------- kept, or trained here


def kept(retraining: Retraining, root: Path) -> Cosines | None:
    """The cosines that come with the project; None where they are of another world.

    Raises:
        InputError: the file cannot be read.
    """
    path = root / FILE
    if not path.exists():
        return None
    try:
        with np.load(path) as file:
            same = str(file[KEY]) == retraining.key
            return {name: file[name] for name in file.files if name != KEY} if same else None
    except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
        raise InputError(f"{path}: no kept cosines ({error})") from error


def keep(cosines: Cosines, key: str, path: Path) -> None:
    """Write what `kept` finds again under the key of a `Retraining`."""
    arrays: dict[str, Any] = {**cosines, KEY: np.array(key)}
    np.savez_compressed(path, **arrays)


def cosines(retraining: Retraining, train: bool, folder: Path, root: Path, progress: bool = False) -> Cosines:
    """`kept` where they fit, else `trained` where that is wanted; else none."""
    found = kept(retraining, root)
    if found is None:
        found = trained(retraining, folder, progress) if train else {}
    return found


# ---------------------------------------------------------------- for a ranker


@dataclass(frozen=True)
class EncoderCosines:
    """The cosine of each pair of a ranking task by fine-tuned encoders that met more or fewer needs. Those of training
    pairs are by encoders that did not meet the persona.

    Attributes:
        task: the pairs.
        met: of encoders that learned from all needs.
        arrays: as `trained` returns them, of the same queries and items. What is read of them raises ValueError where a
            pair has no cosine that it must have.
    """

    task: RankingTask
    met: np.ndarray
    arrays: Mapping[str, np.ndarray]

    @cached_property
    def folds(self) -> list[int]:
        """The folds of needs without which encoders were trained."""
        return sorted({int(name.split("_")[1]) for name in self.arrays if name.startswith("without")})

    @cached_property
    def without(self) -> dict[int, np.ndarray]:
        """{fold: cosines by encoders that learned from no need of the fold}; 0 of evaluation pairs about others."""
        return {fold: self._both_sides(without(fold), self._fold == fold) for fold in self.folds}

    @cached_property
    def cross_fitted(self) -> np.ndarray | None:
        """As `met`, but those of training pairs are by encoders that did not meet the query's need either, so that a
        ranker learns how far to trust the cosine where a need is new; None where there are none of a training need."""
        pairs = [f"{without(*both)}_{TRAINING}" for both in combinations(self.folds, 2)]
        met = set(self._fold[self.task.training])
        if not pairs or not set(pairs) <= set(self.arrays) or not met <= set(self.folds):
            return None
        values, (*_, before, last) = self.met.copy(), self.folds
        for number in self.folds:
            here = self.task.training & (self._fold == number)
            values[here] = self._learned(without(number, before if number == last else last), here)[here]
        return values

    @cached_property
    def cross_fitted_without(self) -> dict[int, np.ndarray]:
        """The same by fold, where no encoder behind a cosine, of training or of evaluation, met a need of the fold; 0
        of evaluation pairs about others and of training pairs about the fold's. Empty where `cross_fitted` is None."""
        found = {}
        for fold in self.folds if self.cross_fitted is not None else ():
            found[fold] = np.where(self.task.evaluation, self.without[fold], 0.0)
            for other in self.folds:
                here = self.task.training & (self._fold == other)
                if other != fold:
                    found[fold][here] = self._learned(without(fold, other), here)[here]
        return found

    @cached_property
    def _fold(self) -> np.ndarray:
        """The fold of needs of each pair."""
        return folds_of_pairs(self.task)

    def _learned(self, name: str, needed: np.ndarray) -> np.ndarray:
        """Of training pairs, 0 of evaluation pairs and of training pairs without one."""
        return self._placed(f"{name}_{TRAINING}", self.task.training, needed)

    def _both_sides(self, name: str, asked: np.ndarray) -> np.ndarray:
        """Of all training pairs, of the evaluation pairs asked about, and 0 of evaluation pairs without one."""
        training, evaluation = self.task.training, self.task.evaluation
        return self._learned(name, training) + self._placed(f"{name}_{EVALUATION}", evaluation, evaluation & asked)

    def _placed(self, name: str, rows: np.ndarray, needed: np.ndarray) -> np.ndarray:
        """An array where its pairs stand, 0 of all others.

        Args:
            rows: the pairs that the array is of, bools.
            needed: those that must have a value, bools: a 0 in its place would pass for a cosine.

        Raises:
            ValueError: one of these is NaN.
        """
        values = np.zeros(len(rows))
        values[rows] = self.arrays[name].astype(float)
        if missing := int((np.isnan(values) & needed).sum()):
            raise ValueError(f"{name}: {missing} of {int(needed.sum())} pairs have no cosine")
        return np.nan_to_num(values)
