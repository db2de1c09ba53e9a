"""Fine-tuning a sentence encoder: on queries and relevant documents, or on pairs of sentences with a score.

Queries and documents (columns query, positive, negative): with hard negatives of the same collection, which is what a
query is searched in (a persona with all its stores). The loss is a softmax over documents: a query's relevant one
against an irrelevant one of its own collection and the documents of the batch's other queries
(`MultipleNegativesRankingLoss`; Oord et al. 2018, arXiv:1807.03748). Some of these others may answer the same question
for somebody else; no label that a real system has would tell.

Scored pairs (columns sentence1, sentence2, score): the loss is the squared error between the cosine of the two
embeddings and the score (`CosineSimilarityLoss`; Reimers and Gurevych 2019, arXiv:1908.10084).
"""

from __future__ import annotations

import hashlib
import json
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from lib.retrieval.dense import load_encoder
from lib.retrieval.stores import rank_pairs, relevant_pairs_mask, seeded_order
from lib.retrieval.tuning import hash_of, plan_rows
from lib.workbook.artifacts import atomic_folder, sha256_of
from lib.workbook.machine import has_bfloat16

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

RECORD = "finetuning.json"
CURVE = ["step", "loss"]
RANKED, SCORED = ["query", "positive", "negative"], ["sentence1", "sentence2"]


@dataclass(frozen=True)
class Finetuning:
    """Settings of a fine-tuning.

    Attributes:
        learning_rate: of AdamW at its highest: it rises over the first 10% of the steps and falls linearly to zero.
        batch_size: rows (a query with its documents, or a scored pair) a step.
        scale: cosines are multiplied by it before the softmax; scored pairs have none.
        seed: of dropout and the order of the rows.
    """

    learning_rate: float = 2e-4
    batch_size: int = 32
    scale: float = 20.0
    seed: int = 0


@dataclass(frozen=True)
class Finished:
    """What a fine-tuning left on record.

    Attributes:
        curve: columns step (from 1) and loss (mean over the batch; nats, or for scored pairs squared error).
        rows: rows trained on.
        tokens: of all texts trained on, padding excluded.
        seconds: of training, loading excluded.
    """

    curve: pd.DataFrame
    rows: int
    tokens: int
    seconds: float


# ---------------------------------------------------------------- rows


def hardest_negatives(pairs: pd.DataFrame, scores: np.ndarray, qrels: pd.DataFrame, number: int) -> pd.DataFrame:
    """The documents of each query's own collection that score highest without being relevant.

    Args:
        pairs: candidates, from `lib.retrieval.stores.candidate_pairs`.
        scores: one a pair, such as the cosine of an encoder that was not fine-tuned.
        qrels: columns query, item: what is relevant.
        number: negatives a query at most.

    Returns:
        columns query, rank (from 1), item; a query without any irrelevant candidate has no row.
    """
    irrelevant = ~relevant_pairs_mask(pairs, qrels)
    ranked = rank_pairs(pairs[irrelevant].reset_index(drop=True), np.asarray(scores)[irrelevant])
    return ranked.loc[ranked["rank"] <= number, ["query", "rank", "item"]].reset_index(drop=True)


def training_rows(
    queries: pd.DataFrame, items: pd.DataFrame, qrels: pd.DataFrame, negatives: pd.DataFrame, epochs: int, seed: int
) -> pd.DataFrame:
    """Texts to train on: each query once an epoch, with one of its relevant documents and one of its negatives.

    Both are drawn at random; in the next epoch comes another of each, as long as there are any.

    Args:
        queries: columns query, text.
        items: columns item, text.
        qrels: columns query, item.
        negatives: from `hardest_negatives`. A draw from the hardest few teaches more than always the hardest, which is
            often an item of the same matter.
        epochs: rows a query.
        seed: of the draws.

    Returns:
        columns query, positive, negative (texts), `epochs` rows for each query that has both.
    """
    text = items.set_index("item")["text"]
    rows = queries[["query", "text"]].merge(pd.DataFrame({"epoch": np.arange(epochs)}), how="cross")
    for name, frame in (("positive", qrels), ("negative", negatives)):
        drawn = frame[["query", "item"]].sort_values(["query", "item"]).sample(frac=1, random_state=seed)
        drawn["turn"] = drawn.groupby("query").cumcount()
        rows = rows.merge(drawn.groupby("query").size().rename("turns").reset_index(), on="query")
        rows["turn"] = rows["epoch"] % rows.pop("turns")
        rows = rows.merge(drawn.rename(columns={"item": name}), on=["query", "turn"]).drop(columns="turn")
    return pd.DataFrame(
        {"query": rows["text"], "positive": rows["positive"].map(text), "negative": rows["negative"].map(text)}
    )


def nested_sample(queries: pd.DataFrame, size: int, on: str, seed: int) -> pd.DataFrame:
    """At most `size` queries of whole collections; a smaller sample is part of every larger one with the same seed.

    Args:
        queries: columns query and `on`, the collection.
    """
    place = queries[on].map({name: i for i, name in enumerate(seeded_order(queries[on], seed))})
    return queries.assign(place=place).sort_values(["place", "query"]).head(size).drop(columns="place").sort_index()


def folds_of(collections: pd.Series, folds: int, seed: int) -> np.ndarray:
    """Fold (from 0) of each row: whole collections dealt in turn, in an order that the seed and their names decide."""
    place = {name: i % folds for i, name in enumerate(seeded_order(collections, seed))}
    return collections.map(place).to_numpy(dtype=int)


# ---------------------------------------------------------------- training


def finetune_encoder(
    path: str,
    rows: pd.DataFrame,
    output: str | Path,
    settings: Finetuning = Finetuning(),
    threads: int | None = None,
    progress: bool = False,
) -> tuple[SentenceTransformer, Finished]:
    """Fine-tune an encoder and write it to the folder `output`, which `lib.retrieval.dense.load_encoder` reads.

    A finished run with the same encoder, rows and settings is not repeated; a folder that is damaged or of another run
    is trained anew. bfloat16 is used where the processor computes it (see `lib.workbook.machine.has_bfloat16`).

    Args:
        path: folder or Hugging Face id of the encoder to start from.
        rows: with a column score (0-1) scored pairs, columns sentence1, sentence2, score; otherwise columns query,
            positive, negative, see `training_rows`. Further columns are ignored.
        output: folder to write; whole or not at all.
        settings: see `Finetuning`.
        threads: CPU threads; None leaves PyTorch's choice.
        progress: show a progress bar.

    Returns:
        the fine-tuned encoder and the record of its training.

    Raises:
        ValueError: there is no row.
        KeyError: a column is missing.
        ArtifactError: the folder cannot be written.
    """
    if rows.empty:
        raise ValueError(
            "there is nothing to train on: no scored pair, or no query with both a relevant and an irrelevant document"
        )
    rows = rows[[*SCORED, "score"] if "score" in rows else RANKED]
    output = Path(output)
    encoder = load_encoder(path, threads)
    content = {
        "encoder": fingerprint(encoder),
        "rows": hashlib.sha256(rows.to_json(orient="split").encode()).hexdigest(),
        "settings": asdict(settings),
        "bfloat16": has_bfloat16(),
        "code": sha256_of(Path(__file__)),
    }
    run = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
    finished = read_finished(output, run)
    if finished is None:
        record = train(encoder, rows, settings, progress)
        save(encoder, output, {"run": run, **content, **record})
        finished = finished_of(record)
    # Read back in any case: the trainer leaves its encoder wrapped to compute in bfloat16.
    return load_encoder(str(output), threads), finished


def train(encoder, rows: pd.DataFrame, settings: Finetuning, progress: bool = False) -> dict:
    """Fine-tune `encoder` in place; returns the record behind `Finished`: curve, rows, tokens, seconds."""
    import torch
    from datasets import Dataset
    from sentence_transformers import SentenceTransformerTrainer, SentenceTransformerTrainingArguments
    from sentence_transformers.base.sampler import DefaultBatchSampler
    from sentence_transformers.sentence_transformer.losses import CosineSimilarityLoss, MultipleNegativesRankingLoss
    from torch.utils.data import SequentialSampler
    from transformers import PrinterCallback

    encoder.model_card_data.widget = [{}]  # or the trainer draws examples for a card nobody writes, with a progress bar
    scored = "score" in rows
    lengths = np.column_stack([token_counts(encoder, rows[column]) for column in (SCORED if scored else RANKED)])
    loss = CosineSimilarityLoss(encoder) if scored else MultipleNegativesRankingLoss(encoder, scale=settings.scale)
    rows = rows.iloc[plan_rows(lengths.max(axis=1), settings.batch_size, settings.seed)]
    with tempfile.TemporaryDirectory() as scratch:  # the trainer wants a folder; it keeps no checkpoint there
        arguments = SentenceTransformerTrainingArguments(
            output_dir=scratch,
            per_device_train_batch_size=settings.batch_size,
            num_train_epochs=1,
            learning_rate=settings.learning_rate,
            warmup_steps=0.1,  # below 1: a share of all steps
            bf16=has_bfloat16(),
            use_cpu=not torch.cuda.is_available(),
            seed=settings.seed,
            batch_sampler=lambda dataset, batch_size, drop_last, **_: DefaultBatchSampler(
                SequentialSampler(dataset), batch_size=batch_size, drop_last=drop_last
            ),
            logging_steps=1,
            save_strategy="no",
            report_to="none",
            disable_tqdm=not progress,
            dataloader_pin_memory=False,
        )
        arguments._n_gpu = min(1, arguments.n_gpu)  # several would each get a batch: fewer, larger steps than asked for
        trainer = SentenceTransformerTrainer(
            model=encoder,
            args=arguments,
            train_dataset=Dataset.from_pandas(rows, preserve_index=False),
            loss=loss,
        )
        trainer.remove_callback(PrinterCallback)
        started = time.perf_counter()
        trainer.train()
        seconds = time.perf_counter() - started
    curve = [[entry["step"], entry["loss"]] for entry in trainer.state.log_history if "loss" in entry]
    return {"curve": curve, "rows": len(rows), "tokens": int(lengths.sum()), "seconds": seconds}


def token_counts(encoder, texts) -> np.ndarray:
    """Tokens of each text as the encoder reads it, its window included."""
    ids = encoder.tokenizer(list(texts), truncation=True, max_length=encoder.max_seq_length)["input_ids"]
    return np.array([len(tokens) for tokens in ids])


# ---------------------------------------------------------------- on disk


def fingerprint(encoder) -> str:
    """SHA-256 over an encoder's modules and their settings, and the names and values of its weights."""
    return hash_of(encoder, f"{encoder} {encoder.max_seq_length}")


def files_of(folder: Path) -> dict[str, str]:
    """SHA-256 of every file below `folder` but the record."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != RECORD)
    return {path.relative_to(folder).as_posix(): sha256_of(path) for path in paths}


def save(encoder, output: Path, record: dict) -> None:
    """Write the encoder and the record of its training. Raises ArtifactError if that is not possible."""
    with atomic_folder(output) as fresh:
        encoder.save_pretrained(str(fresh), create_model_card=False)
        record = {**record, "files": files_of(fresh)}
        (fresh / RECORD).write_text(json.dumps(record) + "\n", encoding="utf-8")


def finished_of(record: dict) -> Finished:
    curve = pd.DataFrame(record["curve"], columns=CURVE)
    return Finished(curve, record["rows"], record["tokens"], record["seconds"])


def read_finished(output: Path, run: str) -> Finished | None:
    """The record of a finished run, or None if `output` is missing, damaged or of another run."""
    try:
        record = json.loads((output / RECORD).read_text(encoding="utf-8"))
        if record["run"] != run or record["files"] != files_of(output):
            return None
        return finished_of(record)
    except (OSError, ValueError, KeyError, TypeError):
        return None
