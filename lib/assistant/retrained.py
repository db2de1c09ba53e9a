"""Fine-tuned search, trained once more without each fold of needs (`lib.assistant.queries.folds_of_needs`).

A model without a fold is asked about its needs: so every evaluation query is ranked by a model that no training query
told of its need. The first fold are the held-out needs, whose model notebook 04 has anyway.

That takes two cores half an hour, so what these models rank first is kept with the project, under the hash of all that
it depends on; another world trains them anew where the profile says so.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path

import pandas as pd

from lib.assistant.queries import folds_of_needs, held_out_needs
from lib.generation.models import locate
from lib.retrieval.dense import load_encoder, search
from lib.retrieval.finetune import Finetuning, finetune_encoder, training_rows
from lib.retrieval.tuning import weights_hash
from lib.workbook.inputs import InputError

FILE = Path("data") / "answers" / "retrained.parquet"
FINETUNED = "finetuned"
DEPTH = 10  # items of each ranking that are kept
COLUMNS = ["variant", "query", "item", "rank", "score"]
NO_RANKINGS = pd.DataFrame(columns=COLUMNS).astype({"rank": int, "score": float})


def without(*folds: int) -> str:
    """What a model is called that learned from no need of some folds."""
    return "_".join(["without", *map(str, sorted(folds))])


@dataclass(frozen=True)
class Retraining:
    """Evaluation queries, and what models learn that are asked about them.

    Attributes:
        learned, asked: training and evaluation queries, columns query, persona, text, need, fold.
        items: columns item, persona, text.
        qrels: columns query, item, of training queries.
        negatives: from `lib.retrieval.finetune.hardest_negatives`, of training queries.
        hardest: negatives a query at most.
        finetuning, epochs: of fine-tuned search.
        encoder: name of the encoder that all start from.
    """

    learned: pd.DataFrame
    asked: pd.DataFrame
    items: pd.DataFrame
    qrels: pd.DataFrame
    negatives: pd.DataFrame
    hardest: int
    finetuning: Finetuning
    epochs: int
    encoder: str

    @classmethod
    def of_world(
        cls,
        frames: Mapping[str, pd.DataFrame],
        negatives: pd.DataFrame,
        hardest: int,
        finetuning: Finetuning,
        epochs: int,
        encoder: str,
    ) -> Retraining:
        """From the frames items, queries and gold of notebook 01; of evaluation queries no label is kept."""
        queries, gold = frames["queries"], frames["gold"]
        need = queries["query"].map(gold.set_index("query")["need"])
        fold_of = folds_of_needs(gold["need"], held_out_needs(gold["need"].unique(), finetuning.seed), finetuning.seed)
        about = queries[["query", "persona", "text"]].assign(need=need, fold=need.map(fold_of))
        training = queries["split"] == "training"
        labels = gold[gold["query"].isin(queries.loc[training, "query"])]
        return cls(
            about[training].reset_index(drop=True),
            about[~training].reset_index(drop=True),
            frames["items"][["item", "persona", "text"]],
            labels[["query", "relevant"]].explode("relevant").dropna().rename(columns={"relevant": "item"}),
            negatives,
            hardest,
            finetuning,
            epochs,
            encoder,
        )

    @property
    def folds(self) -> list[int]:
        """The folds in which a query is asked."""
        return sorted(set(self.asked["fold"].tolist()))

    @cached_property
    def key(self) -> str:
        """SHA-256 of what the rankings depend on, the last bits of embeddings aside."""
        digest = hashlib.sha256(weights_hash(load_encoder(locate(self.encoder))).encode())
        digest.update(json.dumps([asdict(self.finetuning), self.epochs, self.hardest], sort_keys=True).encode())
        columns = ["query", "persona", "text", "fold"]
        for frame in (self.learned[columns], self.asked[columns], self.items, self.qrels):
            digest.update(frame.to_json(orient="values").encode())
        return digest.hexdigest()

    def encoder_on(self, queries: pd.DataFrame, output: Path, progress: bool = False):
        """The encoder, fine-tuned on some training queries; None where they hold nothing to learn.

        Args:
            output: folder of the encoder; a finished one is not trained again.
        """
        rows = training_rows(queries, self.items, self.qrels, self.negatives, self.epochs, self.finetuning.seed)
        if rows.empty:
            return None
        return finetune_encoder(locate(self.encoder), rows, output, self.finetuning, progress=progress)[0]


def kept(retraining: Retraining, most: int, root: Path) -> pd.DataFrame | None:
    """The rankings that come with the project, `COLUMNS`; None where they are of another world, or where more than
    `DEPTH` items of a ranking are wanted.

    Args:
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
        same = found[found["key"] == retraining.key]
        return same[COLUMNS].reset_index(drop=True) if len(same) else None
    except (OSError, ValueError, KeyError) as error:
        raise InputError(f"{path}: no kept rankings ({error})") from error


def trained(retraining: Retraining, folder: Path, progress: bool = False) -> pd.DataFrame:
    """The rankings, `COLUMNS`, of the queries of each fold after the first, by models that are trained here without it.

    Args:
        folder: for the models, one folder each.
        progress: show progress bars.
    """
    runs = []
    for fold in retraining.folds:
        if fold:
            learned, asked = retraining.learned, retraining.asked[retraining.asked["fold"] == fold]
            output = folder / f"{FINETUNED}_{without(fold)}"
            model = retraining.encoder_on(learned[learned["fold"] != fold], output, progress)
            if model is not None:
                run = search(model, asked, retraining.items, on="persona", progress=progress)
                runs.append(run.assign(variant=without(fold)))
    return pd.concat(runs, ignore_index=True)[COLUMNS] if runs else NO_RANKINGS


def to_keep(rankings: pd.DataFrame, key: str) -> pd.DataFrame:
    """What `kept` finds under a key again: the first `DEPTH` items of each ranking."""
    first = rankings[rankings["rank"] <= DEPTH].sort_values(["variant", "query", "rank"], ignore_index=True)
    return first[COLUMNS].assign(key=key)


def rankings(
    retraining: Retraining, most: int, train: bool, folder: Path, root: Path, progress: bool = False
) -> pd.DataFrame:
    """`kept` where they fit, else `trained` where that is wanted; else none."""
    found = kept(retraining, most, root)
    if found is not None:
        return found
    return trained(retraining, folder, progress) if train else NO_RANKINGS
