"""LoRA fine-tuning of a language model on pairs of prompt and target (Hu et al. 2022, LoRA, arXiv:2106.09685).

The loss counts target tokens only, and the output layer (a third of a small model's work) is computed for them only.
Weights stay in the data type that the machine computes fastest in, without autocast; the adapter's own weights are
updated in float32, because bfloat16 would round small updates away. Over weights in 4 bits (QLoRA; Dettmers et al.
2023, arXiv:2305.14314) the frozen rest is float32, all computes in bfloat16 under autocast, and each layer is computed
again in the backward pass instead of being kept.

Several GPUs: `finetune_language_model(…, processes=4)` leaves pairs and settings in a file and has `accelerate launch`
run this module with it in four processes, which train one adapter together (see `lib.generation.processes`).
"""

from __future__ import annotations

import hashlib
import json
import logging
import shutil
import sys
import time
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from tqdm.auto import tqdm

from lib.generation import models
from lib.generation.local import (
    check_encodable,
    choose_dtype,
    fingerprint,
    import_torch,
    load_model,
    load_tokenizer,
    tokenize,
)
from lib.generation.processes import add_up, join, launch
from lib.workbook.artifacts import ArtifactError, atomic_folder, atomic_path, remove_leftovers, sha256_of

if TYPE_CHECKING:
    from accelerate import PartialState

log = logging.getLogger(__name__)

RECORD = "training.json"
WINDOW = 32  # batches; sorting by length within so many keeps padding small and the order random enough
CURVE = ["step", "epoch", "loss", "learning_rate", "tokens", "target_tokens", "seconds"]


@dataclass(frozen=True)
class Training:
    """Settings of a training run.

    Attributes:
        rank: rank of the adapter's matrices; they are added to every linear layer but the output layer.
        alpha: the adapter is scaled by alpha / rank.
        learning_rate: of AdamW at its highest: it rises over the first 5% of the steps and falls linearly to zero.
        epochs: passes over the pairs.
        batch_size: pairs a step.
        seed: of the adapter's first weights and the order of the pairs.
        checkpoint_every: steps between checkpoints.
    """

    rank: int = 16
    alpha: int = 32
    learning_rate: float = 5e-4
    epochs: int = 1
    batch_size: int = 8
    seed: int = 0
    checkpoint_every: int = 50


def finetune_language_model(
    name: str,
    prompts: Sequence[str],
    targets: Sequence[str],
    output: str | Path,
    training: Training = Training(),
    chat: bool = False,
    dtype: str | None = None,
    threads: int = 2,
    progress: bool = False,
    quantization: str = "none",
    processes: int = 1,
) -> pd.DataFrame:
    """Train an adapter and write it to the folder `output`, which `LocalModel(name, adapter=output)` reads.

    A run that was killed goes on from its last whole checkpoint (beside `output`, removed at the end) and gives the
    same adapter; a finished run with the same model, pairs and settings is not repeated.

    Args:
        name: the model, as `lib.generation.models.locate` knows it.
        prompts: texts, (n,).
        targets: what the model is to answer, (n,); its end token is added.
        output: folder of the adapter: `adapter_model.safetensors` (float32), `adapter_config.json`, `training.json`.
        training: settings.
        chat: whether prompts are put into the model's chat template, as in `LocalModel.generate`.
        dtype: "float32" or "bfloat16"; None takes the faster one here.
        threads: CPU threads.
        progress: show a progress bar over steps.
        quantization: "none", or "nf4" for a model in 4 bits (see `lib.generation.local.load_model`).
        processes: how many train together, one a GPU. The adapter differs from that of one process by rounding alone,
            and a run that one number of processes began or finished is the same run for another.

    Returns:
        The loss curve, one row a step: step (from 1), epoch (from 1), loss (mean over the batch's target tokens, nats),
        learning_rate, tokens (prompts and targets, padding excluded) and target_tokens of the batch, seconds of
        computation (as first measured, where the run was resumed or is not repeated).

    Raises:
        ValueError: numbers of prompts and targets differ or are zero, a prompt or target is empty or holds a lone
            surrogate, or a pair does not fit into the model's window.
        ModelError: the model cannot be found or read.
        RuntimeError: one of several processes failed.
        ArtifactError: a checkpoint or the adapter cannot be written.
    """
    torch = import_torch(threads)
    path, output = models.locate(name), Path(output)
    tokenizer, config = load_tokenizer(path)
    dtype = dtype or choose_dtype(quantization)
    pairs = tokenize_pairs(tokenizer, prompts, targets, chat, getattr(config, "max_position_embeddings", None))
    content = {
        "model": fingerprint(path, quantization=quantization),
        "dtype": dtype,
        "settings": {key: value for key, value in asdict(training).items() if key != "checkpoint_every"},
        "pairs": hashlib.sha256(json.dumps(pairs).encode()).hexdigest(),
        "code": [sha256_of(Path(__file__).with_name(name)) for name in ("finetune.py", "attention.py", "lora.py")],
    }
    run = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
    finished = finished_curve(output, run)
    if finished is not None:
        return finished
    if processes > 1:
        job = output.absolute().with_name(f"{output.name}.job.json")
        settings = {
            "name": name,
            "prompts": list(prompts),
            "targets": list(targets),
            "output": str(output.absolute()),
            "training": asdict(training),
            "chat": chat,
            "dtype": dtype,
            "quantization": quantization,
            "threads": max(1, threads // processes),
        }
        launch("lib.generation.finetune", job, settings, processes)
        curve = finished_curve(output, run)
        if curve is None:
            raise RuntimeError(
                f"{output}: no finished adapter, although its training ended without an error (see {job})"
            )
        return curve

    group = join()
    model = load_model(path, dtype, quantization=quantization)
    if quantization == "nf4":
        prepare_quantised(model)
    adapted, weights = add_adapter(model, name, training)
    masters = {key: weight.detach().float().clone() for key, weight in weights.items()}
    optimizer = torch.optim.AdamW(masters.values(), lr=training.learning_rate, weight_decay=0.0)
    batches = [
        (epoch, batch)
        for epoch in range(training.epochs)
        for batch in plan_epoch([len(p) + len(t) for p, t in pairs], training.batch_size, training.seed, epoch)
    ]
    rates = learning_rates(len(batches), training.learning_rate)
    checkpoints = Checkpoints(output.with_name(f".{output.name}.checkpoints"), run)
    curve = checkpoints.restore(masters, optimizer)
    copy_weights(masters, weights)
    model.train()
    steps = range(len(curve), len(batches))
    for step in tqdm(steps, disable=not progress, unit="step", desc="training", initial=len(curve), total=len(batches)):
        started = time.perf_counter()
        epoch, batch = batches[step]
        tokens = sum(len(pairs[i][0]) + len(pairs[i][1]) for i in batch)
        target_tokens = sum(len(pairs[i][1]) for i in batch)
        mine = batch[group.process_index :: group.num_processes]
        ids, labels = collate([pairs[i] for i in mine], model.device)
        share = sum(len(pairs[i][1]) for i in mine) / target_tokens
        optimizer.param_groups[0]["lr"] = rates[step]
        loss = train_step(model, weights, masters, optimizer, ids, labels, share, group)
        seconds = time.perf_counter() - started
        curve.append([step + 1, epoch + 1, loss, rates[step], tokens, target_tokens, seconds])
        if (step + 1) % training.checkpoint_every == 0 and step + 1 < len(batches) and group.is_main_process:
            checkpoints.save(masters, optimizer, curve)
    if group.is_main_process:
        save_adapter(adapted, masters, output, {"run": run, **content, "curve": curve})
        checkpoints.remove()
    return pd.DataFrame(curve, columns=CURVE)


# ---------------------------------------------------------------- pairs and batches


def tokenize_pairs(
    tokenizer, prompts: Sequence[str], targets: Sequence[str], chat: bool, window: int | None
) -> list[tuple[list[int], list[int]]]:
    """Token ids of each prompt, as in generation, and of its target with the end token.

    Raises as `finetune_language_model` does.
    """
    if len(prompts) != len(targets) or not len(prompts):
        raise ValueError(f"{len(prompts)} prompts and {len(targets)} targets: there must be as many, and at least one")
    check_encodable(prompts, "a prompt")
    check_encodable(targets, "a target")
    end = [tokenizer.eos_token_id] if tokenizer.eos_token_id is not None else []
    answers = tokenizer(list(targets), add_special_tokens=False)["input_ids"]
    pairs = list(zip(tokenize(tokenizer, list(prompts), chat), [ids + end for ids in answers], strict=True))
    for i, (prompt, target) in enumerate(pairs):
        if not prompt or not target[: len(target) - len(end)]:
            raise ValueError(f"pair {i}: its prompt or target is empty")
        if window and len(prompt) + len(target) > window:
            raise ValueError(f"pair {i}: {len(prompt) + len(target)} tokens do not fit into the window of {window}")
    return pairs


def plan_epoch(lengths: Sequence[int], batch_size: int, seed: int, epoch: int) -> list[list[int]]:
    """Batches of row numbers: shuffled, sorted by length within windows of 32 batches, the batches shuffled again."""
    generator = np.random.default_rng([seed, epoch])
    order = generator.permutation(len(lengths))
    batches = []
    for start in range(0, len(order), WINDOW * batch_size):
        window = order[start : start + WINDOW * batch_size]
        window = window[np.argsort(np.asarray(lengths)[window], kind="stable")]
        batches += [window[i : i + batch_size].tolist() for i in range(0, len(window), batch_size)]
    return [batches[i] for i in generator.permutation(len(batches))]


def learning_rates(steps: int, highest: float) -> list[float]:
    """The rate of each step: linearly up over the first 5% of the steps, then linearly down to zero."""
    rise = max(1, steps // 20)
    return [highest * min((step + 1) / rise, (steps - step) / max(1, steps - rise + 1)) for step in range(steps)]


def collate(pairs: Sequence[tuple[list[int], list[int]]], device):
    """Token ids and labels, both (pairs, longest); labels are -100 but for targets.

    Padding stands at the end, where causal attention keeps it from every real token: no mask is needed.
    """
    import torch

    longest = max((len(prompt) + len(target) for prompt, target in pairs), default=0)
    ids = torch.zeros((len(pairs), longest), dtype=torch.long)
    labels = torch.full((len(pairs), longest), -100)
    for row, (prompt, target) in enumerate(pairs):
        end = len(prompt) + len(target)
        ids[row, :end] = torch.tensor(prompt + target)
        labels[row, len(prompt) : end] = torch.tensor(target)
    return ids.to(device), labels.to(device)


# ---------------------------------------------------------------- model


def target_loss(model, ids, labels):
    """Mean cross-entropy (nats, a float32 scalar) over the labelled tokens, the output layer computed for them only.

    Args:
        model: a `transformers` causal language model whose logits are its output embeddings applied to the decoder's
            last states.
        ids: token ids, (rows, tokens), padded at the end.
        labels: (rows, tokens); -100 where a token does not count.
    """
    import torch

    states = model.get_decoder()(input_ids=ids, use_cache=False).last_hidden_state[:, :-1]
    counted = labels[:, 1:] != -100
    logits = model.get_output_embeddings()(states[counted])
    return torch.nn.functional.cross_entropy(logits.float(), labels[:, 1:][counted])


def prepare_quantised(model) -> None:
    """Freeze a model in 4 bits, its other weights in float32, and let it compute its layers again in the backward
    pass."""
    from peft import prepare_model_for_kbit_training

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # peft asks transformers for a renamed method
        prepare_model_for_kbit_training(model, gradient_checkpointing_kwargs={"use_reentrant": False})


def add_adapter(model, name: str, training: Training):
    """The model with a seeded adapter in place, and the adapter's trainable weights by name."""
    import torch
    from peft import LoraConfig, get_peft_model

    from lib.generation.attention import use_products
    from lib.generation.lora import use_one_operation

    torch.manual_seed(training.seed)
    config = LoraConfig(
        r=training.rank,
        lora_alpha=training.alpha,
        lora_dropout=0.0,
        target_modules="all-linear",
        task_type="CAUSAL_LM",
    )
    model.name_or_path = name  # the adapter names its model, not a folder of this machine
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # peft asks transformers for a renamed attribute
        adapted = get_peft_model(model, config, autocast_adapter_dtype=False)
    use_one_operation(adapted)
    if model.device.type == "cpu":
        use_products(model)
    return adapted, {key: weight for key, weight in adapted.named_parameters() if weight.requires_grad}


def train_step(
    model, weights: dict, masters: dict, optimizer, ids, labels, share: float = 1.0, group: PartialState | None = None
) -> float:
    """One step of `optimizer`, which holds the float32 `masters` of the adapter's `weights`; gradients are clipped to a
    norm of 1. Returns the loss before the step.

    Args:
        ids, labels: of this process's pairs, see `collate`; there may be none.
        share: of the batch's target tokens that these pairs have.
        group: the processes that share the batch; their gradients and losses are added up.
    """
    import torch

    loss = torch.zeros((), device=ids.device)
    if len(ids):
        quantised = getattr(model, "is_loaded_in_4bit", False)
        with torch.autocast(ids.device.type, dtype=torch.bfloat16, enabled=quantised):
            loss = target_loss(model, ids, labels) * share
        loss.backward()
        loss = loss.detach()
    for key, weight in weights.items():
        masters[key].grad = torch.zeros_like(masters[key]) if weight.grad is None else weight.grad.float()
        weight.grad = None
    if group:
        add_up([loss, *(master.grad for master in masters.values())], group)
    torch.nn.utils.clip_grad_norm_(masters.values(), 1.0)
    optimizer.step()
    copy_weights(masters, weights)
    return loss.item()


def copy_weights(masters: dict, weights: dict) -> None:
    """Round the float32 weights into the model."""
    import torch

    with torch.no_grad():
        for key, weight in weights.items():
            weight.copy_(masters[key])


def save_adapter(adapted, masters: dict, output: Path, record: dict) -> None:
    """Write the adapter in float32, in peft's format, and the record of its training; whole or not at all."""
    from peft import get_peft_model_state_dict
    from safetensors.torch import save_file

    state = get_peft_model_state_dict(adapted, state_dict=dict(masters), save_embedding_layers=False)
    with atomic_folder(output) as fresh:
        weights = fresh / "adapter_model.safetensors"
        with atomic_path(weights) as temporary:
            save_file({key: value.contiguous().cpu() for key, value in state.items()}, temporary)
        config = adapted.peft_config["default"]
        config.inference_mode = True
        config.target_modules = sorted(config.target_modules)  # a set, written in an order of its own
        config.save_pretrained(fresh)
        record = {**record, "sha256": sha256_of(weights)}
        (fresh / RECORD).write_text(json.dumps(record) + "\n", encoding="utf-8")


def finished_curve(output: Path, run: str) -> pd.DataFrame | None:
    """The loss curve of a finished run, or None if `output` is missing, damaged or of another run."""
    try:
        record = json.loads((output / RECORD).read_text(encoding="utf-8"))
        weights = output / "adapter_model.safetensors"
        if (
            record["run"] == run
            and record["sha256"] == sha256_of(weights)
            and (output / "adapter_config.json").exists()
        ):
            return pd.DataFrame(record["curve"], columns=CURVE)
    except (OSError, ValueError, KeyError, TypeError):
        pass
    return None


# ---------------------------------------------------------------- checkpoints


class Checkpoints:
    """The last two checkpoints of a run, `<step>.safetensors`, with a checksum over all they hold.

    A checkpoint has the adapter, both moments of AdamW, PyTorch's random state, and the loss curve up to its step.
    """

    def __init__(self, folder: Path, run: str):
        self.folder, self.run = folder, run

    def save(self, masters: dict, optimizer, curve: list) -> None:
        """Write a checkpoint and drop all but the last two. Raises ArtifactError if it cannot be written."""
        import torch
        from safetensors import SafetensorError
        from safetensors.torch import save_file

        tensors = {f"adapter.{key}": value.detach() for key, value in masters.items()}
        for key, value in masters.items():
            for moment in ("exp_avg", "exp_avg_sq"):
                tensors[f"{moment}.{key}"] = optimizer.state[value][moment]
        tensors["random"] = torch.get_rng_state()
        tensors = {key: value.cpu().contiguous() for key, value in tensors.items()}
        note = json.dumps({"run": self.run, "curve": curve})
        path = self.folder / f"{len(curve):08d}.safetensors"
        with atomic_path(path) as temporary:
            try:
                save_file(tensors, temporary, metadata={"note": note, "sha256": checksum(tensors, note)})
            except SafetensorError as error:
                raise ArtifactError(f"{path}: cannot be written: {error}") from error
        for old in self._paths()[:-2]:
            old.unlink(missing_ok=True)

    def restore(self, masters: dict, optimizer) -> list:
        """Load the last whole checkpoint of this run; returns its loss curve, empty if there is none."""
        import torch

        remove_leftovers(self.folder)
        for path in reversed(self._paths()):
            try:
                tensors, curve = self._read(path)
                for key, value in masters.items():
                    if tensors[f"adapter.{key}"].shape != value.shape:
                        raise ValueError(f"{key} has another shape")
            except Exception as error:  # whatever a damaged file leads to: it is not believed
                log.warning("checkpoint %s is not used: %s", path.name, error)
                continue
            with torch.no_grad():
                for key, value in masters.items():
                    value.copy_(tensors[f"adapter.{key}"])
                    optimizer.state[value] = {
                        "step": torch.tensor(float(len(curve))),
                        "exp_avg": tensors[f"exp_avg.{key}"].to(value.device),
                        "exp_avg_sq": tensors[f"exp_avg_sq.{key}"].to(value.device),
                    }
            torch.set_rng_state(tensors["random"])
            return curve
        return []

    def remove(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    def _paths(self) -> list[Path]:
        return sorted(self.folder.glob("[0-9]*.safetensors"))

    def _read(self, path: Path):
        from safetensors import safe_open

        with safe_open(path, framework="pt") as file:
            note, expected = file.metadata()["note"], file.metadata()["sha256"]
            tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118 (not a dict)
        if checksum(tensors, note) != expected:
            raise ValueError("its checksum is wrong")
        content = json.loads(note)
        if content["run"] != self.run:
            raise ValueError("it belongs to another run")
        return tensors, content["curve"]


def checksum(tensors: dict, note: str) -> str:
    """SHA-256 over a note and the names, types, shapes and bytes of tensors."""
    digest = hashlib.sha256(note.encode())
    for key in sorted(tensors):
        value = tensors[key]
        digest.update(f"{key} {value.dtype} {tuple(value.shape)}".encode())
        digest.update(value.numpy().tobytes())
    return digest.hexdigest()


# ---------------------------------------------------------------- several processes


def main(job: Path) -> None:
    """One of the processes that train what `finetune_language_model` left in the file `job`."""
    settings = json.loads(job.read_text(encoding="utf-8"))
    settings["training"] = Training(**settings["training"])
    group = join()
    try:
        finetune_language_model(**settings, progress=group.is_main_process)
        group.wait_for_everyone()
    finally:
        group.destroy_process_group()


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: accelerate launch --multi_gpu --num_processes N -m lib.generation.finetune FILE.job.json")
    main(Path(sys.argv[1]))
