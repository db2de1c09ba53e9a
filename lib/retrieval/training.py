"""Training text encoders: all weights, a LoRA adapter, or a linear map upon a frozen encoder.

What differs is what is trained, and the loss of a batch:

- all weights, on queries and documents: a softmax over a query's relevant document, an irrelevant one of the collection
  that it searches, and the documents of the batch's other queries (Oord et al. 2018, arXiv:1807.03748). Some of these
  others may answer the same question for somebody else; no label that a real system has would tell.
- a LoRA adapter (Hu et al. 2022, arXiv:2106.09685), on scored pairs: squared error between the cosine of the two
  embeddings and the score (Reimers and Gurevych 2019, arXiv:1908.10084).
- a linear map that queries and documents both go through, in seconds: a softmax over a query's whole collection.
"""

from __future__ import annotations

import functools
import hashlib
import json
import math
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from lib.retrieval.dense import load_encoder, weights_hash
from lib.retrieval.stores import cosine_of_pairs, rank_pairs, relevant_pairs_mask, seeded_order
from lib.workbook.artifacts import atomic_folder
from lib.workbook.machine import accelerator, has_bfloat16
from lib.workbook.parts import Adapter, adapter_of, finished_record, save_adapter
from lib.workbook.training import Checkpoints, code_hashes, take_steps, update

RECORD = "finetuning.json"
RANKED, SCORED = ["query", "positive", "negative"], ["sentence1", "sentence2"]
CHECKPOINT_EVERY = 50  # steps of the training of an adapter
WINDOW = 32  # batches; sorting by length within so many keeps padding small and the order random enough
MAP_EPOCHS, MAP_RATE = 2, 3e-3  # of a map: times that each query is seen, and Adam's learning rate at its highest


@dataclass(frozen=True)
class Finetuning:
    """Settings of the training of all weights."""

    learning_rate: float = 2e-4  # of AdamW at its highest
    batch_size: int = 32  # rows a step
    scale: float = 20.0  # cosines are multiplied by it before the softmax
    seed: int = 0  # of dropout and the order of the rows


@dataclass(frozen=True)
class Tuning:
    """Settings of the training of a LoRA adapter, which is added to every linear layer of the encoder."""

    rank: int = 16  # of its matrices
    alpha: int = 32  # it is scaled by alpha / rank
    learning_rate: float = 1e-3  # of AdamW at its highest
    batch_size: int = 64  # rows a step
    seed: int = 0  # of its first weights and the order of the rows


def rise_and_fall(step: int, steps: int, highest: float) -> float:
    """A learning rate that rises over the first 10% of the steps and falls linearly to zero."""
    return highest * min(1, (step + 1) / max(1, steps // 10), (steps - step) / steps / 0.9)


def rise_from_zero(step: int, steps: int, highest: float) -> float:
    """The same, from a rate of 0 in the first step: the schedule of transformers' trainer."""
    warm = math.ceil(0.1 * steps)
    return highest * (step / warm if step < warm else (steps - step) / max(1, steps - warm))


def like_length_batches(lengths: np.ndarray, batch_size: int, seed: int) -> list[np.ndarray]:
    """Batches of row numbers of similar length: shuffled, sorted by length within windows of 32 batches, the full
    batches shuffled again; what is left over comes last. `lengths` are tokens, (rows, texts)."""
    rng, longest = np.random.default_rng(seed), lengths.max(axis=1)
    order, window = rng.permutation(len(lengths)), WINDOW * batch_size
    parts = np.split(order, range(window, len(order), window))
    order = np.concatenate([part[np.argsort(longest[part], kind="stable")] for part in parts])
    full = len(order) // batch_size * batch_size
    rest = [order[full:]] if full < len(order) else []
    return [*rng.permutation(order[:full].reshape(-1, batch_size)), *rest]


def record_of(curve: list[list[float]], lengths: np.ndarray) -> dict:
    """What a record says of a training: curve, rows, tokens, seconds."""
    seconds, tokens = curve[-1][2], int(lengths.sum())
    return {"curve": [line[:2] for line in curve], "rows": len(lengths), "tokens": tokens, "seconds": seconds}


def encoder_tokens(encoder, texts) -> list[list[int]]:
    """Token ids of each text as the encoder reads it, its window included; equal texts are read once."""
    place, unique = pd.factorize(texts)
    ids = encoder.tokenizer(unique.tolist(), truncation=True, max_length=encoder.max_seq_length)["input_ids"]
    return [ids[number] for number in place]


def known_by(settings: Finetuning | Tuning, **content: str) -> dict[str, Any]:
    """What a training is known by, and the SHA-256 of all that as `run`."""
    known = {**content, "settings": asdict(settings), "bfloat16": has_bfloat16(), "code": code_hashes(__file__)}
    return {"run": hashlib.sha256(json.dumps(known, sort_keys=True).encode()).hexdigest(), **known}


def hardest_negatives(pairs: pd.DataFrame, scores: np.ndarray, qrels: pd.DataFrame, number: int) -> pd.DataFrame:
    """The candidates of each query that score highest (one score a pair) without being relevant (not in `qrels`,
    columns query, item), at most `number`: columns query, rank (from 1), item."""
    irrelevant = ~relevant_pairs_mask(pairs, qrels)
    ranked = rank_pairs(pairs[irrelevant].reset_index(drop=True), np.asarray(scores)[irrelevant])
    return ranked.loc[ranked["rank"] <= number, ["query", "rank", "item"]].reset_index(drop=True)


def training_rows(
    queries: pd.DataFrame, items: pd.DataFrame, qrels: pd.DataFrame, negatives: pd.DataFrame, epochs: int, seed: int
) -> pd.DataFrame:
    """Texts to train on: each query once an epoch, with one of its relevant documents and one of its negatives, drawn
    at random; in the next epoch comes another of each, as long as there are any. Columns query, positive, negative
    (texts), `epochs` rows for each query that has both.

    `negatives` are from `hardest_negatives`: a draw from the hardest few teaches more than always the hardest, which is
    often an item of the same matter.
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


def finetune_encoder(
    path: str, rows: pd.DataFrame, output: str | Path, settings: Finetuning = Finetuning(), progress: bool = False
) -> tuple[Any, dict]:
    """Fine-tune all weights of an encoder on `training_rows` and write it to the folder `output`, unless a finished run
    with the same encoder, rows and settings did. bfloat16 is used where the processor computes it.

    Returns the encoder, and the record of its training: curve (lists of step, from 1, and loss, nats), rows, tokens (of
    all texts trained on, padding excluded), seconds. Raises ValueError where there is no row, KeyError where a column
    is missing, ArtifactError where the folder cannot be written.
    """
    if rows.empty:
        raise ValueError("there is nothing to train on: no query with both a relevant and an irrelevant document")
    rows, output = rows[RANKED], Path(output)
    encoder = load_encoder(path)
    weights = weights_hash(encoder, f"{encoder} {encoder.max_seq_length}")
    source = hashlib.sha256(rows.to_json(orient="split").encode()).hexdigest()
    known = known_by(settings, encoder=weights, rows=source)
    try:
        record = json.loads((output / RECORD).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        record = {}
    if record.get("run") != known["run"]:
        record = known | train_whole(encoder, rows, settings, progress)
        with atomic_folder(output) as fresh:
            encoder.save_pretrained(str(fresh), create_model_card=False)
            (fresh / RECORD).write_text(json.dumps(record) + "\n", encoding="utf-8")
    return load_encoder(str(output)), record


def train_whole(encoder, rows: pd.DataFrame, settings: Finetuning, progress: bool = False) -> dict:
    """Fine-tune `encoder` in place, with its dropout; returns the record's curve, rows, tokens, seconds."""
    import torch

    lengths = np.column_stack([[len(ids) for ids in encoder_tokens(encoder, rows[column])] for column in RANKED])
    texts = {column: rows[column].to_numpy() for column in RANKED}
    trained = [weight for weight in encoder.parameters() if weight.requires_grad]
    group = {"params": trained, "highest": settings.learning_rate}
    optimizer = torch.optim.AdamW([group], weight_decay=0.0, fused=True)
    encoder.train()
    torch.manual_seed(settings.seed)
    torch.empty((), dtype=torch.int64).random_()  # a data loader takes one number: earlier runs had one

    def embed(batch: list[str]):
        features = encoder.preprocess(batch)
        features |= {name: each.to(encoder.device) for name, each in features.items() if isinstance(each, torch.Tensor)}
        with torch.autocast(encoder.device.type, torch.bfloat16, enabled=has_bfloat16()):
            return encoder(features)["sentence_embedding"].float()

    def one_step(batch: np.ndarray):
        queries = embed(texts["query"][batch].tolist())
        documents = embed([*texts["positive"][batch], *texts["negative"][batch]])
        loss = softmax_loss(queries, documents, settings.scale)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    batches = like_length_batches(lengths, settings.batch_size, settings.seed)
    curve = take_steps(one_step, batches, optimizer, rise_from_zero, progress)
    encoder.eval()
    return record_of(curve, lengths)


def softmax_loss(queries, documents, scale: float):
    """Cross-entropy of each query's relevant document among all documents, by scaled cosines of embeddings; the
    relevant document of each query comes first, in their order."""
    import torch
    from torch.nn.functional import normalize

    logits = torch.mm(normalize(queries, dim=-1), normalize(documents, dim=-1).T) * scale
    return -(logits.diagonal() - torch.logsumexp(logits, dim=1)).mean()


def tune_encoder(
    path: str,
    rows: pd.DataFrame,
    output: str | Path,
    settings: Tuning = Tuning(),
    threads: int | None = None,
    progress: bool = False,
) -> Adapter:
    """Train an adapter on `rows` (columns sentence1, sentence2, score from 0 to 1) and write it to the folder `output`,
    which `load_encoder(path, adapter=output)` reads.

    A run that was killed goes on from its last whole checkpoint (beside `output`, removed at the end) and gives the
    same adapter; a finished run with the same encoder, rows and settings is not repeated. The frozen encoder computes
    in bfloat16 where the machine has it, without dropout; adapter, pooling and loss are in float32. Raises ValueError
    where there is no row, KeyError where a column is missing, ArtifactError where nothing can be written.
    """
    if rows.empty:
        raise ValueError("there is nothing to train on: no scored pair")
    rows, output = rows[[*SCORED, "score"]], Path(output)
    encoder = load_encoder(path, threads)
    lines = [[one, other, float(score)] for one, other, score in rows.itertuples(index=False)]
    pairs = hashlib.sha256(json.dumps(lines).encode()).hexdigest()
    known = known_by(settings, model=weights_hash(encoder), pairs=pairs)
    record = finished_record(output, known["run"])
    if record is None:
        checkpoints = Checkpoints(output.with_name(f".{output.name}.checkpoints"), known["run"])
        adapted, masters, result = tune_adapter(encoder, rows, settings, checkpoints, progress)
        about = {"columns": ["step", "loss"], "device": accelerator()}
        record = save_adapter(adapted, masters, output, known | result | about)
        checkpoints.remove()
    return adapter_of(output, record)


def tune_adapter(encoder, rows: pd.DataFrame, settings: Tuning, checkpoints: Checkpoints, progress: bool = False):
    """Train an adapter of `encoder`; returns the adapted module, the adapter's float32 weights by name, and
    `record_of`."""
    import torch

    tokens = {side: encoder_tokens(encoder, rows[side]) for side in SCORED}
    lengths = np.array([[len(ids) for ids in tokens[side]] for side in SCORED]).T
    scores = torch.tensor(rows["score"].to_numpy(dtype=np.float32), device=encoder.device)
    adapted, weights = with_adapter(encoder, settings)
    masters = {key: weight.detach().float().clone() for key, weight in weights.items()}
    group = {"params": list(masters.values()), "highest": settings.learning_rate}
    optimizer = torch.optim.AdamW([group], weight_decay=0.0, fused=encoder.device.type == "cuda")

    def one_step(batch: np.ndarray):
        sides = (embed_tokens(encoder, [tokens[side][i] for i in batch]) for side in SCORED)
        error = (torch.nn.functional.cosine_similarity(*sides) - scores[batch]).square().mean()
        error.backward()
        for key, weight in weights.items():
            masters[key].grad, weight.grad = weight.grad.float(), None
        update(optimizer, masters, weights)
        return error.detach()

    batches = like_length_batches(lengths, settings.batch_size, settings.seed)
    kept = masters, weights, checkpoints, CHECKPOINT_EVERY
    curve = take_steps(one_step, batches, optimizer, rise_and_fall, progress, *kept)
    return adapted, masters, record_of(curve, lengths)


def with_adapter(encoder, settings: Tuning):
    """The encoder's transformer with a seeded adapter in place, and the adapter's trainable weights by name."""
    import torch
    from peft import LoraConfig, get_peft_model
    from peft.tuners.lora import Linear

    torch.manual_seed(settings.seed)
    layers = {"target_modules": "all-linear", "exclude_modules": r".*pooler.*"}  # no sentence's vector passes that
    config = LoraConfig(r=settings.rank, lora_alpha=settings.alpha, lora_dropout=0.0, **layers)
    transformer = encoder[0].auto_model
    if has_bfloat16():
        transformer.to(torch.bfloat16)
    if encoder.device.type == "cpu":
        transformer.set_attn_implementation("eager")  # plain products: going back through PyTorch's kernel is slow
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # peft asks transformers for a renamed attribute
        adapted = get_peft_model(transformer, config, autocast_adapter_dtype=False)
    adapted.peft_config["default"].base_model_name_or_path = None  # a folder of this machine
    encoder.eval()  # no dropout
    for layer in adapted.modules():
        if type(layer) is Linear and type(layer.base_layer) is torch.nn.Linear:
            layer.forward = functools.partial(_two_operations, layer)  # a module calls it
    return adapted, {key: weight for key, weight in adapted.named_parameters() if weight.requires_grad}


def _two_operations(layer, x):
    """A plain LoRA layer, y = x·Wᵀ + scale · (x·Aᵀ)·Bᵀ with the sum inside a product; peft adds in passes of their
    own."""
    a, b = layer.lora_A["default"].weight, layer.lora_B["default"].weight
    rows = x.flatten(0, -2)
    y = layer.base_layer(rows).addmm_(rows @ a.t(), b.t(), alpha=layer.scaling["default"])
    return y.view(*x.shape[:-1], -1)


def embed_tokens(encoder, texts: Sequence[list[int]]):
    """Embeddings of tokenised texts: float32 (texts, dimensions), with a gradient."""
    import torch

    longest, padding = max(map(len, texts)), encoder.tokenizer.pad_token_id or 0
    ids = torch.tensor([text + [padding] * (longest - len(text)) for text in texts])
    mask = torch.arange(longest) < torch.tensor([len(text) for text in texts])[:, None]
    features = {"input_ids": ids, "attention_mask": mask.long()}
    features = encoder[0]({key: value.to(encoder.device, non_blocking=True) for key, value in features.items()})
    features["token_embeddings"] = features["token_embeddings"].float()
    for module in list(encoder)[1:]:
        features = module(features)
    return features["sentence_embedding"]


def fit_map(
    pairs: pd.DataFrame,
    relevant: np.ndarray,
    collections: np.ndarray,
    query_vectors: np.ndarray,
    document_vectors: np.ndarray,
    seed: int,
) -> np.ndarray:
    """A linear map that moves queries towards relevant documents, (dimensions, dimensions). It starts as the identity,
    and stays so where there are no pairs; a step takes the queries of eight collections.

    Args:
        pairs: columns query_row, item_row: all candidates of each query (see `lib.retrieval.stores.candidate_pairs`).
        relevant, collections: whether it is relevant, and whose documents are searched, one a pair.
        query_vectors, document_vectors: unit-length.
        seed: of the order of the collections.
    """
    import torch
    from torch.nn.functional import normalize

    mapping = torch.eye(query_vectors.shape[1], requires_grad=True)
    query_row, item_row = pairs["query_row"].to_numpy(), pairs["item_row"].to_numpy()
    rows_of = pd.Series(np.arange(len(pairs))).groupby(np.asarray(collections)).indices
    names, rng, batches = seeded_order(collections, seed), np.random.default_rng(seed), []
    for _ in range(MAP_EPOCHS):
        names = [names[place] for place in rng.permutation(len(names))]
        parts = [names[first : first + 8] for first in range(0, len(names), 8)]
        batches += [np.concatenate([rows_of[name] for name in part]) for part in parts]
    optimizer = torch.optim.Adam([{"params": [mapping], "highest": MAP_RATE}])

    def one_step(rows: np.ndarray):
        asked, query = np.unique(query_row[rows], return_inverse=True)
        there, item = np.unique(item_row[rows], return_inverse=True)
        left, right = (
            normalize(torch.as_tensor(vectors, dtype=torch.float32) @ mapping, dim=1)
            for vectors in (query_vectors[asked], document_vectors[there])
        )
        # Documents of other collections are no candidates: their logits stay far below all others.
        logits = torch.full((len(asked), len(there)), -1e4)
        logits[query, item] = 20 * (left @ right.T)[query, item]
        wanted = torch.zeros_like(logits)
        wanted[query, item] = torch.as_tensor(relevant[rows], dtype=torch.float32)
        wanted = wanted / wanted.sum(dim=1, keepdim=True).clamp(min=1)
        loss = -(wanted * torch.log_softmax(logits, dim=1)).sum(dim=1).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    take_steps(one_step, batches, optimizer, lambda at, n, highest: highest * min(1, 10 * (at + 1) / n) * (1 - at / n))
    return mapping.detach().numpy()


def mapped_cosines(
    pairs: pd.DataFrame, query_vectors: np.ndarray, document_vectors: np.ndarray, mapping: np.ndarray
) -> np.ndarray:
    """The cosine of each pair after the map."""
    places, moved = {}, []
    for name, vectors in (("query_row", query_vectors), ("item_row", document_vectors)):
        rows, places[name] = np.unique(pairs[name].to_numpy(), return_inverse=True)
        moved.append(vectors[rows] @ mapping)
        moved[-1] /= np.maximum(np.linalg.norm(moved[-1], axis=1, keepdims=True), 1e-12)
    return cosine_of_pairs(pd.DataFrame(places), *moved)
