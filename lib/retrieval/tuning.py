"""LoRA tuning of a sentence encoder on scored pairs (Hu et al. 2022, arXiv:2106.09685), resumable.

Pairs have columns sentence1, sentence2, score (0-1). Two losses:

- squared: squared error between the cosine of the two embeddings and the score (Reimers and Gurevych 2019,
  arXiv:1908.10084);
- affine: squared error between `a · cosine + b` and the score, a and b learned beside the adapter (from 1 and 0). Only
  the order of cosines matters to a search; under the first loss a few pairs teach little but their level.

The frozen encoder computes in bfloat16 where the machine has it, without dropout. The adapter is updated, and pooling
and loss are computed, in float32.
"""

from __future__ import annotations

import functools
import hashlib
import json
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from tqdm.auto import tqdm

from lib.retrieval.dense import has_bfloat16, load_encoder
from lib.workbook.artifacts import ROOT, sha256_of
from lib.workbook.checkpoints import Checkpoints, copy_weights
from lib.workbook.machine import accelerator
from lib.workbook.parts import NONE, Adapter, adapter_of, finished_record, save_adapter, shipped

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

CURVE = ["step", "loss"]
SCORED = ["sentence1", "sentence2"]
LOSSES = ("squared", "affine")
WINDOW = 32  # batches; sorting by length within so many keeps padding small and the order random enough
READ_EVERY = 50  # steps; a loss that is read makes the processor wait for a GPU


@dataclass(frozen=True)
class AdapterTraining:
    """Settings of the training of an encoder's adapter.

    Attributes:
        rank: rank of the adapter's matrices; they are added to every linear layer of the encoder.
        alpha: the adapter is scaled by alpha / rank.
        learning_rate: of AdamW at its highest: it rises over the first 10% of the steps and falls linearly to zero.
        batch_size: rows a step.
        seed: of the adapter's first weights and the order of the rows.
        checkpoint_every: steps between checkpoints.
    """

    rank: int = 16
    alpha: int = 32
    learning_rate: float = 1e-3
    batch_size: int = 64
    seed: int = 0
    checkpoint_every: int = 50


@dataclass(frozen=True)
class Tuning(AdapterTraining):
    """Settings of a tuning on scored pairs.

    Attributes:
        loss: squared or affine, see above.
        affine_rate: learning rate of a and b, rising and falling as the other.
    """

    loss: str = "squared"
    affine_rate: float = 1e-2

    def __post_init__(self):
        if self.loss not in LOSSES:
            raise ValueError(f"loss: must be one of {', '.join(LOSSES)}, not {self.loss!r}")


def tune_encoder(
    path: str,
    rows: pd.DataFrame,
    output: str | Path,
    settings: Tuning = Tuning(),
    threads: int | None = None,
    progress: bool = False,
) -> dict:
    """Train an adapter and write it to the folder `output`, which `load_encoder(path, adapter=output)` reads.

    A run that was killed goes on from its last whole checkpoint (beside `output`, removed at the end) and gives the
    same adapter; a finished run with the same encoder, rows and settings is not repeated.

    Args:
        path: folder or Hugging Face id of the encoder to start from.
        rows: columns sentence1, sentence2, score (0-1), each row once an epoch. Further columns are ignored.
        output: folder of the adapter: `adapter_model.safetensors`, `adapter_config.json`, `training.json`.
        settings: see `Tuning`.
        threads: CPU threads; None leaves PyTorch's choice.
        progress: show a progress bar over steps.

    Returns:
        the record: curve (lists of step, from 1, and mean loss of its batch; `columns` names both), rows, tokens (of
        all texts trained on, padding excluded), seconds (of training, those before a kill too), device, affine ([a,
        b]), settings, bfloat16, and hashes: model, pairs, code, run, sha256 (of the weights).

    Raises:
        ValueError: there is no row.
        KeyError: a column is missing.
        ArtifactError: a checkpoint or the adapter cannot be written.
    """
    if rows.empty:
        raise ValueError("there is nothing to train on: no scored pair")
    rows, output = rows[[*SCORED, "score"]], Path(output)
    encoder = load_encoder(path, threads)
    return kept_or_trained(
        encoder,
        rows_hash(rows),
        output,
        settings,
        [Path(__file__)],
        lambda checkpoints: train(encoder, rows, settings, checkpoints, progress),
    )


def kept_or_trained(
    encoder,
    pairs: str,
    output: Path,
    settings: AdapterTraining,
    code: Sequence[Path],
    training: Callable[[Checkpoints], tuple[Any, dict, dict]],
) -> dict:
    """The record of a finished run at `output`, else of one that is trained and written there.

    Args:
        encoder: before its training.
        pairs: hash of what it learns from.
        code: files that decide what comes out.
        training: from checkpoints to the adapted module, the adapter's float32 weights by name, and what the record is
            to say: see `train`.
    """
    content = {
        "model": weights_hash(encoder),
        "pairs": pairs,
        "settings": {key: value for key, value in asdict(settings).items() if key != "checkpoint_every"},
        "bfloat16": has_bfloat16(),
        "code": [sha256_of(path) for path in code],
    }
    run = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
    record = finished_record(output, run)
    if record is None:
        checkpoints = Checkpoints(output.with_name(f".{output.name}.checkpoints"), run)
        adapted, masters, result = training(checkpoints)
        record = {"run": run, **content, **result, "columns": CURVE, "device": accelerator()}
        record = save_adapter(adapted, masters, output, record)
        checkpoints.remove()
    return record


def encoder_for(
    part: str,
    path: str,
    rows: pd.DataFrame,
    output: str | Path,
    settings: Tuning = Tuning(),
    threads: int | None = None,
    progress: bool = False,
    root: Path = ROOT,
    pairs: str = "",
) -> Adapter:
    """The shipped part where it was trained from this encoder on these rows with these settings, else one trained here.

    Args:
        part: name of the shipped part, such as tst-100000; empty: none is wanted.
        path, rows, output, settings, threads, progress: see `tune_encoder`.
        root: the project's folder.
        pairs: hash that the shipped part's record must have; empty: that of the rows.

    Returns:
        the adapter, for `load_encoder(path, threads, adapter.folder)`.

    Raises:
        As `tune_encoder`.
    """
    known = pairs or rows_hash(rows)
    found = shipped(part, weights_hash(load_encoder(path, threads)), known, root, settings) if part else NONE
    if found.folder:
        return adapter_of(found.folder, found.record, from_project=True)
    record = tune_encoder(path, rows, output, settings, threads, progress)
    return adapter_of(Path(output), record, found.reason)


# ---------------------------------------------------------------- training


def train(encoder, rows: pd.DataFrame, settings: Tuning, checkpoints: Checkpoints, progress: bool = False):
    """Train an adapter of `encoder`; returns the adapted module, the adapter's float32 weights by name, and the
    record's curve, rows, tokens, seconds and affine."""
    import torch

    tokens = {side: tokenize(encoder, rows[side]) for side in SCORED}
    lengths = np.array([[len(ids) for ids in tokens[side]] for side in SCORED])
    scores = torch.tensor(rows["score"].to_numpy(dtype=np.float32), device=encoder.device)
    adapted, weights = add_adapter(encoder, settings)
    masters = {key: weight.detach().float().clone() for key, weight in weights.items()}
    affine = torch.tensor([1.0, 0.0], device=encoder.device)
    optimizer = make_optimizer(masters, affine, settings)
    order = plan_rows(lengths.max(axis=0), settings.batch_size, settings.seed)
    batches = [order[start : start + settings.batch_size] for start in range(0, len(order), settings.batch_size)]

    def one_step(batch):
        sides = [[tokens[side][i] for i in batch] for side in SCORED]
        return train_step(encoder, weights, masters, affine, optimizer, sides, scores[batch], settings.loss)

    trained = {**masters, "affine": affine}
    curve = take_steps(one_step, batches, trained, weights, optimizer, settings.checkpoint_every, checkpoints, progress)
    result = {"curve": [line[:2] for line in curve], "rows": len(rows), "tokens": int(lengths.sum())}
    return adapted, masters, {**result, "seconds": curve[-1][2], "affine": affine.tolist()}


def take_steps(
    one_step: Callable[[np.ndarray], Any],
    batches: Sequence[np.ndarray],
    trained: dict,
    weights: dict,
    optimizer,
    checkpoint_every: int,
    checkpoints: Checkpoints,
    progress: bool = False,
) -> list[list[float]]:
    """Train, from the last whole checkpoint on; the learning rate rises over the first 10% of the steps and falls
    linearly to zero.

    Args:
        one_step: takes a step on the rows of a batch; returns its loss, which nothing has read yet.
        trained: float32 tensors that the optimizer updates, those of the adapter's `weights` among them, by name.
        optimizer: each of its groups has its highest learning rate as `highest`.

    Returns:
        the curve: step (from 1), loss, seconds since the beginning.
    """
    import torch

    curve = checkpoints.restore(trained, optimizer)
    waiting: list = []
    copy_weights(trained, weights)
    started = time.perf_counter() - (curve[-1][2] if curve else 0.0)
    steps = range(len(curve), len(batches))
    for step in tqdm(steps, disable=not progress, unit="step", desc="training", initial=len(curve), total=len(batches)):
        share = min(1, (step + 1) / max(1, len(batches) // 10), (len(batches) - step) / len(batches) / 0.9)
        for group in optimizer.param_groups:
            group["lr"] = group["highest"] * share
        waiting.append(one_step(batches[step]))
        last, due = step + 1 == len(batches), (step + 1) % checkpoint_every == 0
        if last or due or len(waiting) == READ_EVERY:
            losses, seconds = torch.stack(waiting).tolist(), time.perf_counter() - started
            curve += [[len(curve) + i, loss, seconds] for i, loss in enumerate(losses, 1)]
            waiting.clear()
        if due and not last:
            checkpoints.save(trained, optimizer, curve)
    return curve


def tokenize(encoder, texts) -> list[list[int]]:
    """Token ids of each text as the encoder reads it, its window included; equal texts are read once."""
    unique = list(dict.fromkeys(texts))
    ids = encoder.tokenizer(unique, truncation=True, max_length=encoder.max_seq_length)["input_ids"]
    known = dict(zip(unique, ids, strict=True))
    return [known[text] for text in texts]


def plan_rows(lengths: np.ndarray, batch_size: int, seed: int) -> np.ndarray:
    """An order of rows in which each batch holds rows of similar length: shuffled, sorted by length within windows of
    32 batches, the full batches shuffled again."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(lengths))
    window = WINDOW * batch_size
    parts = [order[start : start + window] for start in range(0, len(order), window)]
    order = np.concatenate([part[np.argsort(lengths[part], kind="stable")] for part in parts]) if parts else order
    full = len(order) // batch_size * batch_size
    batches = rng.permutation(order[:full].reshape(-1, batch_size))
    return np.concatenate([batches.ravel(), order[full:]])


def add_adapter(encoder, settings: AdapterTraining):
    """The encoder's transformer with a seeded adapter in place, and the adapter's trainable weights by name."""
    import torch
    from peft import LoraConfig, get_peft_model

    torch.manual_seed(settings.seed)
    config = LoraConfig(
        r=settings.rank,
        lora_alpha=settings.alpha,
        lora_dropout=0.0,
        target_modules="all-linear",
        exclude_modules=r".*pooler.*",  # a sentence's vector does not pass through it
    )
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
    use_two_operations(adapted)
    return adapted, {key: weight for key, weight in adapted.named_parameters() if weight.requires_grad}


def use_two_operations(adapted) -> None:
    """Let plain LoRA layers compute y = x·Wᵀ + scale · (x·Aᵀ)·Bᵀ with the sum inside a product; peft adds in passes of
    their own."""
    import torch
    from peft.tuners.lora import Linear

    for layer in adapted.modules():
        if type(layer) is Linear and type(layer.base_layer) is torch.nn.Linear:
            layer.forward = functools.partial(_forward, layer)  # type: ignore[method-assign]  # a module calls it


def _forward(layer, x):
    a, b = layer.lora_A["default"].weight, layer.lora_B["default"].weight
    rows = x.flatten(0, -2)
    y = layer.base_layer(rows).addmm_(rows @ a.t(), b.t(), alpha=layer.scaling["default"])
    return y.view(*x.shape[:-1], -1)


def make_optimizer(masters: dict, affine, settings: Tuning):
    """AdamW over the adapter and the two numbers of the affine loss, each with its highest rate as `highest`."""
    import torch

    groups = [
        {"params": list(masters.values()), "highest": settings.learning_rate},
        {"params": [affine], "highest": settings.affine_rate},
    ]
    return torch.optim.AdamW(groups, weight_decay=0.0, fused=affine.is_cuda)


def train_step(encoder, weights: dict, masters: dict, affine, optimizer, sides, scores, loss: str):
    """One step of `optimizer`, which holds the float32 `masters` of the adapter's `weights`, and `affine`; gradients of
    the adapter are clipped to a norm of 1. Returns the loss before the step, which nothing has read yet."""
    import torch

    affine.requires_grad_(loss == "affine")
    cosines = torch.nn.functional.cosine_similarity(*(embed(encoder, ids) for ids in sides))
    error = (affine[0] * cosines + affine[1] - scores).square().mean()
    error.backward()
    for key, weight in weights.items():
        masters[key].grad, weight.grad = weight.grad.float(), None
    if loss == "squared":
        affine.grad = torch.zeros_like(affine)
    torch.nn.utils.clip_grad_norm_(masters.values(), 1.0)
    optimizer.step()
    affine.grad = None
    copy_weights(masters, weights)
    return error.detach()


def embed(encoder, texts: list[list[int]]):
    """Embeddings of tokenised texts: float32 (texts, dimensions), with a gradient."""
    features = read_tokens(encoder, texts)
    for module in list(encoder)[1:]:
        features = module(features)
    return features["sentence_embedding"]


def read_tokens(encoder, texts: Sequence[list[int]], types: Sequence[list[int]] | None = None) -> dict:
    """What an encoder's transformer makes of tokenised texts: `token_embeddings`, float32 (texts, tokens, dimensions),
    and `attention_mask`, 0 where a text is padded.

    Args:
        types: of each token which of two texts it is of, 0 or 1; None where there is one text, or the tokenizer does
            not say.
    """
    import torch

    longest = max(map(len, texts))
    padding = encoder.tokenizer.pad_token_id or 0
    mask = torch.arange(longest) < torch.tensor([len(text) for text in texts])[:, None]
    features = {"input_ids": _padded(texts, longest, padding), "attention_mask": mask.long()}
    if types is not None:
        features["token_type_ids"] = _padded(types, longest, 0)
    features = encoder[0]({key: value.to(encoder.device, non_blocking=True) for key, value in features.items()})
    features["token_embeddings"] = features["token_embeddings"].float()
    return features


def _padded(rows: Sequence[list[int]], length: int, padding: int):
    import torch

    return torch.tensor([row + [padding] * (length - len(row)) for row in rows])


# ---------------------------------------------------------------- on disk


def weights_hash(encoder: SentenceTransformer) -> str:
    """SHA-256 over the names and values of an encoder's weights and its window."""
    return hash_of(encoder, f"{encoder.max_seq_length}")


def hash_of(encoder: SentenceTransformer, heading: str) -> str:
    """SHA-256 over a heading and the names and values of an encoder's weights."""
    digest = hashlib.sha256(heading.encode())
    for name, value in sorted(encoder.state_dict().items()):
        digest.update(f"{name} {value.dtype} {tuple(value.shape)}".encode())
        digest.update(value.detach().cpu().float().numpy().tobytes())
    return digest.hexdigest()


def rows_hash(rows: pd.DataFrame) -> str:
    """SHA-256 over scored pairs in their order."""
    lines = rows[[*SCORED, "score"]].itertuples(index=False)
    return hashlib.sha256(json.dumps([[one, other, float(score)] for one, other, score in lines]).encode()).hexdigest()
