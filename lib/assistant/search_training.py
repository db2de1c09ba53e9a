"""What each fine-tuned encoder of search learns from, and which queries it is asked.

Fine-tuned search is trained once more without each fold of topics (`lib.assistant.queries.folds_of_needs`), so that
every evaluation query is also ranked by a model that met no query of its topic. And a ranker that sees a fine-tuned
cosine must learn how far to trust it on a new topic (`lib.assistant.second_stage`): so encoders are trained on half of
the training personas without two folds each. That takes two cores an hour and a half, so rankings and cosines are kept
with the project, under the hash of all that they depend on.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from lib.assistant.chains import augment
from lib.assistant.queries import folds_of_needs, held_out_needs, qrels_of
from lib.generation.models import locate
from lib.retrieval.dense import load_encoder, search, weights_hash
from lib.retrieval.stores import candidate_pairs, cosine_of_pairs, folds_of, nested_sample
from lib.retrieval.training import Finetuning, finetune_encoder, hardest_negatives, training_rows
from lib.workbook.artifacts import atomic_path

HARDEST = 8  # wrong items of the persona that a query's negatives are drawn from
RANKINGS, COSINES = Path("data/answers/retrained.parquet"), Path("data/answers/retrained_cosines.npz")
KEPT_DEPTH = 10  # items of each ranking that are kept
ROW = ["variant", "query", "item", "rank", "score"]  # columns of rankings


# ---------------------------------------------------------------- what is trained in notebook 04


def encoder_sets(
    learned: pd.DataFrame, asked: pd.DataFrame, cot: pd.DataFrame, sizes: Sequence[int], seed: int
) -> dict[str, tuple[pd.DataFrame, pd.DataFrame]]:
    """The queries that each encoder learns from and those that it is asked, by its name; none of them is empty.

    `finetuned` gets all; `half_0` those of half of the personas; `first_<size>` nested samples;
    `finetuned_unseen_needs` those of other topics than the held-out ones, which it is asked about; `finetuned_cot`
    those of them that have a chain, with it appended, and `finetuned_subset` the same without it; `permuted` those of
    the largest nested sample.

    Args:
        learned, asked: training and evaluation queries, columns query, persona, text, fold (0: held-out topics).
        cot: chains of thought, columns query, split, writer, text; for evaluation those of the writer that also wrote
            for training are taken.
        sizes: of the nested samples; one of half of the queries or more is left out.
    """
    sizes = [size for size in sorted(set(sizes)) if size < len(learned) / 2]
    firsts = {f"first_{size}": (nested_sample(learned, size, "persona", seed), asked) for size in sizes}
    old, subset, with_chain = learned[learned["fold"] != 0], [], []
    writer = max(cot.loc[cot["split"] == "training", "writer"], default=cot["writer"].max())
    chains = cot[cot["writer"] == writer].set_index("query")["text"]
    for part in (old, asked):
        subset.append(part[part["query"].isin(chains.index)])
        with_chain.append(subset[-1].assign(text=augment(subset[-1]["text"], chains[subset[-1]["query"]])))
    sets = {
        "finetuned": (learned, asked),
        "half_0": (learned[folds_of(learned["persona"], 2, seed) != 0], asked),
        **firsts,
        "finetuned_unseen_needs": (old, asked[asked["fold"] == 0]),
        "finetuned_subset": tuple(subset),
        "finetuned_cot": tuple(with_chain),
        "permuted": firsts[f"first_{sizes[-1]}"] if sizes else (learned, asked),
    }
    return {name: (taught, found) for name, (taught, found) in sets.items() if len(taught) and len(found)}


# ---------------------------------------------------------------- without folds of topics


@dataclass(frozen=True)
class FoldTraining:
    """Queries, and what encoders learn that are asked about new topics."""

    learned: pd.DataFrame  # training queries, columns query, persona, text, need, fold
    asked: pd.DataFrame  # evaluation queries, likewise
    items: pd.DataFrame  # columns item, persona, text
    qrels: pd.DataFrame  # columns query, item, of training queries
    negatives: pd.DataFrame  # of training queries, from `lib.retrieval.training.hardest_negatives`
    finetuning: Finetuning  # of fine-tuned search, as is `epochs`
    epochs: int
    encoder: str  # name of the encoder that all start from

    @classmethod
    def of_world(
        cls,
        frames: Mapping[str, pd.DataFrame],
        vectors: Mapping[str, np.ndarray],
        finetuning: Finetuning,
        epochs: int,
        encoder: str,
    ) -> FoldTraining:
        """From the frames items, queries and gold of notebook 01 and the pretrained embeddings of items and queries; of
        evaluation queries no label is kept."""
        queries, gold = frames["queries"], frames["gold"]
        need = queries["query"].map(gold.set_index("query")["need"])
        fold_of = folds_of_needs(gold["need"], held_out_needs(gold["need"].unique(), finetuning.seed), finetuning.seed)
        about = queries[["query", "persona", "text"]].assign(need=need, fold=need.map(fold_of))
        training = (queries["split"] == "training").to_numpy()
        learned = about[training].reset_index(drop=True)
        items, labels = frames["items"][["item", "persona", "text"]], gold[gold["query"].isin(learned["query"])]
        qrels = qrels_of(labels).dropna()
        pairs = candidate_pairs(learned, items, on="persona")
        cosines = cosine_of_pairs(pairs, vectors["queries"][training], vectors["items"])
        negatives = hardest_negatives(pairs, cosines, qrels, HARDEST)
        asked = about[~training].reset_index(drop=True)
        return cls(learned, asked, items, qrels, negatives, finetuning, epochs, encoder)

    @property
    def folds(self) -> list[int]:
        """The folds in which a query is asked."""
        return sorted(set(self.asked["fold"].tolist()))

    @cached_property
    def key(self) -> str:
        """SHA-256 of what the rankings depend on, the last bits of embeddings aside."""
        digest = hashlib.sha256(weights_hash(load_encoder(locate(self.encoder))).encode())
        digest.update(json.dumps([asdict(self.finetuning), self.epochs, HARDEST], sort_keys=True).encode())
        columns = ["query", "persona", "text", "fold"]
        for frame in (self.learned[columns], self.asked[columns], self.items, self.qrels):
            digest.update(frame.to_json(orient="values").encode())
        return digest.hexdigest()

    def encoder_on(self, queries: pd.DataFrame, output: Path, progress: bool = False):
        """The encoder, fine-tuned on some training queries; None where they hold nothing to learn. One that is finished
        in the folder `output` is not trained again."""
        rows = training_rows(queries, self.items, self.qrels, self.negatives, self.epochs, self.finetuning.seed)
        if rows.empty:
            return None
        return finetune_encoder(locate(self.encoder), rows, output, self.finetuning, progress)[0]


def train_fold_rankings(lessons: FoldTraining, folder: Path, progress: bool = False) -> pd.DataFrame:
    """Rankings, `ROW`, of the queries of each fold after the first, by models that are trained in `folder` without it;
    the first are the held-out topics, whose model notebook 04 has anyway."""
    runs = [pd.DataFrame(columns=ROW).astype({"rank": int, "score": float})]
    for fold in [fold for fold in lessons.folds if fold]:
        learned, asked = lessons.learned, lessons.asked[lessons.asked["fold"] == fold]
        model = lessons.encoder_on(learned[learned["fold"] != fold], folder / f"finetuned_without_{fold}", progress)
        if model is not None:
            run = search(model, asked, lessons.items, on="persona", progress=progress)
            runs.append(run.assign(variant=f"without_{fold}"))
    return pd.concat(runs, ignore_index=True)[ROW]


def train_fold_cosines(lessons: FoldTraining, folder: Path, progress: bool = False) -> dict[str, np.ndarray]:
    """Cosines by encoders that are trained in `folder` without one fold, and on half of the training personas without
    two; what has nothing to learn from is left out.

    Returns:
        {`without_<fold>_evaluation`, `without_<fold>_<fold>_training`: one value in float16 for each pair of
        `lib.retrieval.stores.candidate_pairs` of these queries; NaN for queries about other folds}.
    """
    learned, asked, found = lessons.learned, lessons.asked, {}
    half = folds_of(learned["persona"], 2, lessons.finetuning.seed)
    parts = {f"without_{fold}": [("", learned["fold"] != fold, asked["fold"] == fold)] for fold in lessons.folds}
    for one, other in combinations(lessons.folds, 2):
        about = learned["fold"].isin((one, other))
        sides = [(f"_half_{side}", ~about & (half != side), about & (half == side)) for side in (0, 1)]
        parts[f"without_{one}_{other}"] = sides
    for name, runs in parts.items():
        side, queries = ("evaluation", asked) if len(runs) == 1 else ("training", learned)
        ranked = []
        for ending, taught, chosen in runs:
            model = lessons.encoder_on(learned[taught], folder / f"finetuned_{name}{ending}", progress)
            if model is not None:
                ranked.append(search(model, queries[chosen], lessons.items, on="persona", progress=progress))
        if len(ranked) == len(runs):
            pairs = candidate_pairs(queries, lessons.items, on="persona")[["query", "item"]]
            scores = pairs.merge(pd.concat(ranked), on=["query", "item"], how="left")["score"]
            found[f"{name}_{side}"] = scores.to_numpy(dtype=np.float16)
    return found


# ---------------------------------------------------------------- kept with the project


def kept_rankings(lessons: FoldTraining, root: Path) -> pd.DataFrame | None:
    """The first `KEPT_DEPTH` items of each ranking of `train_fold_rankings` that come with the project; None where they
    are of another world."""
    if not (root / RANKINGS).exists():
        return None
    found = pd.read_parquet(root / RANKINGS)
    same = found[found["key"] == lessons.key]
    return same[ROW].reset_index(drop=True) if len(same) else None


def kept_cosines(lessons: FoldTraining, root: Path) -> dict[str, np.ndarray] | None:
    """`train_fold_cosines` as it comes with the project; None where it is of another world."""
    if not (root / COSINES).exists():
        return None
    with np.load(root / COSINES) as file:
        same = str(file["key"]) == lessons.key
        return {name: file[name] for name in file.files if name != "key"} if same else None


def keep(lessons: FoldTraining, rankings: pd.DataFrame, cosines: Mapping[str, np.ndarray], root: Path) -> None:
    """Put rankings and cosines where `kept_rankings` and `kept_cosines` find them."""
    first = rankings[rankings["rank"] <= KEPT_DEPTH].sort_values(["variant", "query", "rank"], ignore_index=True)
    with atomic_path(root / RANKINGS) as temporary:
        first[ROW].assign(key=lessons.key).to_parquet(temporary, index=False, compression="zstd")
    arrays: dict[str, Any] = {**cosines, "key": np.array(lessons.key)}
    with atomic_path(root / COSINES) as temporary, open(temporary, "wb") as file:
        np.savez_compressed(file, **arrays)
