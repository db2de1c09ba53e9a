"""The cosine of fine-tuned encoders that were trained once more, for a ranker that also sees it: without each fold of
needs, and with other seeds.

It is to a variant (`lib.assistant.retrained`) what the embeddings of notebook 04 are to the workbook's own training,
cross-fitted by persona: cosines of evaluation queries are by an encoder that learned from all training personas, those
of training queries by two that learned from half of the personas each, and not from the query's. So a ranker can be
learned and asked where neither it nor an encoder behind it met a query's need.

Twenty encoders take two cores half an hour, so the cosines are kept with the project, in float16.
"""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from lib.assistant.ranking_task import RankingTask
from lib.assistant.retrained import FINETUNED, SEED, WITHOUT, Retraining, Variant, finetuned_on
from lib.retrieval.dense import encode
from lib.retrieval.finetune import folds_of
from lib.retrieval.stores import candidate_pairs, cosine_of_pairs
from lib.workbook.inputs import InputError
from lib.workbook.parameters.finetuned_search import FinetunedSearch

FILE = Path("data") / "answers" / "retrained_cosines.npz"
KEY = "key"
TRAINING, EVALUATION = "training", "evaluation"
Cosines = dict[str, np.ndarray]


def variants_of(retraining: Retraining) -> list[Variant]:
    """One a fold in which a query is asked, the first among them, then one a further seed."""
    first = Variant(WITHOUT, 0)
    return [*([first] if len(retraining.asked(first)) else []), *retraining.variants]


def trained(retraining: Retraining, folder: Path, progress: bool = False) -> Cosines:
    """The cosines of all variants, by encoders that are trained here; a variant that has nothing to learn from in one
    half of the personas is left out.

    Args:
        folder: for the encoders, one folder each; finished ones are not trained again.
        progress: show progress bars.

    Returns:
        {`<variant>_training`, `<variant>_evaluation`: one value in float16 for each pair of
        `lib.retrieval.stores.candidate_pairs` of these queries; NaN where the variant says nothing of it}.
    """
    lesson, found = retraining.lesson, Cosines()
    half = pd.Series(folds_of(lesson.queries["persona"], 2, lesson.seed), lesson.queries["persona"].to_numpy())
    half = half[~half.index.duplicated()]
    learned_pairs = candidate_pairs(lesson.queries, lesson.items, on="persona")
    asked_pairs = candidate_pairs(retraining.queries, retraining.items, on="persona")
    for variant in variants_of(retraining):
        taught = retraining.taught(variant)
        side = taught["persona"].map(half)
        parts = {EVALUATION: (taught, retraining.asked(variant))}
        parts |= {f"half_{number}": (taught[side != number], taught[side == number]) for number in (0, 1)}
        if any(learned.empty for learned, _ in parts.values()):
            continue
        values = {TRAINING: np.full(len(learned_pairs), np.nan), EVALUATION: np.full(len(asked_pairs), np.nan)}
        for part, (learned, asked) in parts.items():
            ending = "" if part == EVALUATION else f"_{part}"
            model = finetuned_on(retraining, variant, learned, folder / f"{FINETUNED}_{variant.name}{ending}", progress)
            if model is None:
                break
            here, pairs, items = (
                (EVALUATION, asked_pairs, retraining.items)
                if part == EVALUATION
                else (TRAINING, learned_pairs, lesson.items)
            )
            rows = pairs["query"].isin(asked["query"]).to_numpy()
            values[here][rows] = _cosines(model, asked, items, progress)
        else:
            found |= {f"{variant.name}_{side}": each.astype(np.float16) for side, each in values.items()}
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


def cosines(
    retraining: Retraining, parameters: FinetunedSearch, folder: Path, root: Path, progress: bool
) -> tuple[Cosines, bool]:
    """`kept` where they fit and shipped parts are wanted, else `trained` where the profile trains them; else none. And
    whether they were kept.

    Args:
        parameters: of notebook 04.
        folder, root, progress: as there.
    """
    found = kept(retraining, root) if parameters.shipped_interaction_queries else None
    if found is not None:
        return found, True
    return (trained(retraining, folder, progress) if parameters.retrain_text_search else {}), False


# ---------------------------------------------------------------- for a ranker


def of_all_pairs(task: RankingTask, cosines: Mapping[str, np.ndarray]) -> dict[Variant, np.ndarray]:
    """The cosine of each pair of a ranking task by variant, 0 where it says nothing.

    Args:
        cosines: as `trained` returns them, of the same queries and items.
    """
    found = {}
    for name in sorted(cosines):
        variant, _, side = name.rpartition("_")
        if side == TRAINING:
            values = np.zeros(len(task.pairs))
            values[task.training] = np.nan_to_num(cosines[name].astype(float))
            values[task.evaluation] = np.nan_to_num(cosines[f"{variant}_{EVALUATION}"].astype(float))
            kind, _, number = variant.rpartition("_")
            found[Variant(kind, int(number))] = values
    return found


def by_fold(cosines: Mapping[Variant, np.ndarray]) -> dict[int, np.ndarray]:
    """Those without a fold's needs, by fold."""
    return {variant.number: values for variant, values in cosines.items() if variant.kind == WITHOUT}


def by_seed(cosines: Mapping[Variant, np.ndarray]) -> dict[int, np.ndarray]:
    """Those of a further seed, by how much higher it is."""
    return {variant.number: values for variant, values in cosines.items() if variant.kind == SEED}
