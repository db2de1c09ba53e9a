"""LoRA fine-tuning of a language model on pairs of prompt and target (Hu et al. 2022, LoRA, arXiv:2106.09685).

The loss counts target tokens only, and the output layer (a third of a small model's work) is computed for them only.
Weights stay in the data type that the machine computes fastest in, without autocast; the adapter's own weights are
updated in float32, because bfloat16 would round small updates away. Over weights in 4 bits (QLoRA; Dettmers et al.
2023, arXiv:2305.14314) all computes in bfloat16 under autocast.
"""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from tqdm.auto import tqdm

from lib.generation import models
from lib.generation.answers import check_encodable
from lib.generation.local import choose_dtype, fingerprint, import_torch, load_model, load_tokenizer, token_ids
from lib.workbook.machine import accelerator
from lib.workbook.parts import Adapter, adapter_of, finished_record, save_adapter
from lib.workbook.training import Checkpoints, code_hashes, take_steps, update

WINDOW = 32  # batches; sorting by length within so many keeps padding small and the order random enough
PASS_TOKENS = 1_024  # that a CPU computes at once: what is kept for the backward pass takes a megabyte a token and more
Pair = tuple[list[int], list[int]]  # token ids of a prompt and its target


@dataclass(frozen=True)
class Training:
    """Settings of a training run. Matrices are added to every linear layer but the output layer."""

    rank: int = 16  # of these matrices
    alpha: int = 32  # their product is scaled by alpha / rank
    learning_rate: float = 5e-4  # of AdamW at its highest: it rises over 5% of the steps and falls linearly to zero
    epochs: int = 1
    batch_size: int = 8  # pairs a step
    seed: int = 0  # of the adapter's first weights and the order of the pairs
    checkpoint_every: int = 50  # steps


def finetune_language_model(
    name: str,
    prompts: Sequence[str],
    targets: Sequence[str],
    output: str | Path,
    training: Training = Training(),
    dtype: str | None = None,
    threads: int = 2,
    progress: bool = False,
    quantization: str = "none",
) -> Adapter:
    """Train an adapter and write it to the folder `output`, which `LocalModel(name, adapter=output)` reads.

    A run that was killed goes on from its last whole checkpoint (beside `output`, removed at the end) and gives the
    same adapter; a finished run with the same model, pairs and settings is not repeated.

    `name`, `dtype`, `threads` and `quantization` are as of `LocalModel`; the end token is added to each of the (n,)
    targets. The adapter's curve has a row a step: step from 1, loss (mean over the batch's target tokens in nats),
    seconds since the beginning.

    Raises ValueError where numbers of prompts and targets differ or are zero, one is empty or holds a lone surrogate,
    or a pair does not fit into the model's window; ModelError and ArtifactError where files cannot be read or written.
    """
    torch = import_torch(threads)
    path, output, dtype = models.locate(name), Path(output), dtype or choose_dtype(quantization)
    tokenizer, config = load_tokenizer(path)
    pairs = tokenize_pairs(tokenizer, prompts, targets, getattr(config, "max_position_embeddings", None))
    lengths = [len(prompt) + len(target) for prompt, target in pairs]
    content = {
        "model": fingerprint(path, quantization=quantization),
        "dtype": dtype,
        "settings": {key: value for key, value in asdict(training).items() if key != "checkpoint_every"},
        "tokenised": hashlib.sha256(json.dumps(pairs).encode()).hexdigest(),
        "code": code_hashes(__file__),
    }
    run = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
    if record := finished_record(output, run):
        return adapter_of(output, record)
    model = load_model(path, dtype, quantization=quantization)
    adapted, weights = add_adapter(model, name, training)
    masters = {key: weight.detach().float().clone() for key, weight in weights.items()}
    groups = [{"params": list(masters.values()), "highest": training.learning_rate}]
    on_gpu = model.device.type == "cuda"
    optimizer = torch.optim.AdamW(groups, lr=training.learning_rate, weight_decay=0.0, fused=on_gpu)

    def one_step(batch: list[int]):
        parts = [batch] if on_gpu else plan_passes(batch, lengths, PASS_TOKENS)
        return train_step(model, weights, masters, optimizer, [[pairs[i] for i in rows] for rows in parts])

    model.train()
    epochs = [plan_epoch(lengths, training.batch_size, training.seed, epoch) for epoch in range(training.epochs)]
    checkpoints = Checkpoints(output.with_name(f".{output.name}.checkpoints"), run)
    how = progress, masters, weights, checkpoints, training.checkpoint_every
    curve = take_steps(one_step, [batch for epoch in epochs for batch in epoch], optimizer, learning_rate, *how)
    rows, tokens = len(pairs) * training.epochs, sum(lengths) * training.epochs
    record = {"run": run, **content, "rows": rows, "tokens": tokens, "seconds": curve[-1][2], "device": accelerator()}
    record = save_adapter(adapted, masters, output, {**record, "columns": ["step", "loss", "seconds"], "curve": curve})
    checkpoints.remove()
    return adapter_of(output, record)


def pairs_hash(prompts: Sequence[str], targets: Sequence[str]) -> str:
    """SHA-256 over prompts and targets in their order, and that no chat template is put around them."""
    return hashlib.sha256(json.dumps([False, list(prompts), list(targets)]).encode()).hexdigest()


def tokenize_pairs(tokenizer, prompts: Sequence[str], targets: Sequence[str], window: int | None) -> list[Pair]:
    """Token ids of each prompt, as in generation, and of its target with the end token. Raises as
    `finetune_language_model` does."""
    if len(prompts) != len(targets) or not len(prompts):
        raise ValueError(f"{len(prompts)} prompts and {len(targets)} targets: there must be as many, and at least one")
    check_encodable([*prompts, *targets])
    end = [tokenizer.eos_token_id] if tokenizer.eos_token_id is not None else []
    answers = tokenizer(list(targets), add_special_tokens=False, split_special_tokens=True)["input_ids"]
    pairs = list(zip(token_ids(tokenizer, prompts, chat=False), [ids + end for ids in answers], strict=True))
    for i, (prompt, target) in enumerate(pairs):
        if not prompt or not target[: len(target) - len(end)]:
            raise ValueError(f"pair {i}: its prompt or target is empty")
        if window and len(prompt) + len(target) > window:
            raise ValueError(f"pair {i}: {len(prompt) + len(target)} tokens do not fit into the window of {window}")
    return pairs


def add_adapter(model, name: str, training: Training):
    """The model with a seeded adapter in place, and the adapter's trainable weights by name. A model in 4 bits is
    frozen, its other weights in float32, and computes its layers again in the backward pass."""
    import torch
    from peft import LoraConfig, get_peft_model, prepare_model_for_kbit_training

    from lib.generation.layers import use_attention

    how = {"r": training.rank, "lora_alpha": training.alpha, "target_modules": "all-linear", "task_type": "CAUSAL_LM"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # peft asks transformers for renamed attributes
        if getattr(model, "is_loaded_in_4bit", False):
            prepare_model_for_kbit_training(model, gradient_checkpointing_kwargs={"use_reentrant": False})
        torch.manual_seed(training.seed)
        model.name_or_path = name  # the adapter names its model, not a folder of this machine
        adapted = get_peft_model(model, LoraConfig(**how), autocast_adapter_dtype=False)
    use_attention(model)
    return adapted, {key: weight for key, weight in adapted.named_parameters() if weight.requires_grad}


def plan_epoch(lengths: Sequence[int], batch_size: int, seed: int, epoch: int) -> list[list[int]]:
    """Batches of row numbers: shuffled, sorted by length within windows of 32 batches, the batches shuffled again."""
    generator, tokens, window = np.random.default_rng([seed, epoch]), np.asarray(lengths), WINDOW * batch_size
    order = generator.permutation(len(tokens))
    parts = np.split(order, range(window, len(order), window))
    parts = [part[np.argsort(tokens[part], kind="stable")] for part in parts]
    batches = [part[i : i + batch_size].tolist() for part in parts for i in range(0, len(part), batch_size)]
    return [batches[i] for i in generator.permutation(len(batches))]


def plan_passes(batch: Sequence[int], lengths: Sequence[int], tokens: int) -> list[list[int]]:
    """Rows of a batch that are computed at once: like lengths, so many tokens at most, padding included, or one row."""
    passes: list[list[int]] = []
    for row in sorted(batch, key=lambda i: -lengths[i]):
        if not passes or (len(passes[-1]) + 1) * lengths[passes[-1][0]] > tokens:
            passes.append([])
        passes[-1].append(row)
    return passes


def learning_rate(step: int, steps: int, highest: float) -> float:
    """The rate of a step: linearly up over the first 5% of the steps, then linearly down to zero."""
    rise = max(1, steps // 20)
    return highest * min((step + 1) / rise, (steps - step) / max(1, steps - rise + 1))


def train_step(model, weights: dict, masters: dict, optimizer, parts: Sequence[Sequence[Pair]]):
    """One step of `optimizer`, which holds the float32 `masters` of the adapter's `weights`, on a batch of pairs in
    parts that are computed one after the other, their gradients added up in float32. Returns the loss before the step
    (mean over the batch's target tokens), a tensor that a GPU may still be computing."""
    import torch

    loss = torch.zeros((), device=model.device)
    for master in masters.values():
        master.grad = torch.zeros_like(master)
    targets = [sum(len(target) for _, target in part) for part in parts]
    quantised = getattr(model, "is_loaded_in_4bit", False)
    for pairs, count in zip(parts, targets, strict=True):
        with torch.autocast(model.device.type, dtype=torch.bfloat16, enabled=quantised):
            part = target_loss(model, pairs) * (count / sum(targets))
        part.backward()
        loss = loss + part.detach()
        for key, weight in weights.items():
            if weight.grad is not None:
                masters[key].grad += weight.grad.float()
                weight.grad = None
    update(optimizer, masters, weights)
    return loss


def target_loss(model, pairs: Sequence[Pair]):
    """Mean cross-entropy (nats, a float32 scalar) over the target tokens of pairs, the output layer computed for them
    only: the logits of `model`, a causal one of `transformers`, must be its output embeddings applied to the decoder's
    last states. Padding stands at the end, where causal attention keeps it from every real token: there is no mask."""
    import torch

    longest = max(len(prompt) + len(target) for prompt, target in pairs)
    ids = torch.zeros(len(pairs), longest, dtype=torch.long)
    following = torch.full_like(ids, -100)  # the token of the target that comes after each place, on the CPU
    for row, (prompt, target) in enumerate(pairs):
        end = len(prompt) + len(target)
        ids[row, :end] = torch.tensor(prompt + target)
        following[row, len(prompt) - 1 : end - 1] = torch.tensor(target)
    places = (following.flatten() != -100).nonzero().squeeze(1)  # a GPU would have to be waited for
    states = model.get_decoder()(input_ids=ids.to(model.device), use_cache=False).last_hidden_state
    logits = model.get_output_embeddings()(states.flatten(0, 1)[places.to(model.device)])
    return torch.nn.functional.cross_entropy(logits.float(), following.flatten()[places].to(model.device))


def log_probabilities(model, prompts: Sequence[str], answers: Sequence[str], progress: bool = False) -> np.ndarray:
    """What a `LocalModel` gives to each of (n,) answers and to its end there, after its prompt: natural logarithms,
    (n,) float32, read off one pass over both (teacher forcing)."""
    import torch

    asked, end = token_ids(model.tokenizer, prompts, chat=False), [model.tokenizer.eos_token_id]
    told = model.tokenizer(list(answers), add_special_tokens=False, split_special_tokens=True)["input_ids"]
    pairs = [(ids, [*one, *end]) for ids, one in zip(asked, told, strict=True)]
    with torch.inference_mode():
        losses = [float(target_loss(model.model, [pair])) for pair in tqdm(pairs, disable=not progress, unit="answer")]
    return np.array([-loss * len(pair[1]) for loss, pair in zip(losses, pairs, strict=True)], dtype=np.float32)
