"""Language models on this machine: prompts in, answers out.

Prompts are sorted by length and cut into batches before any look-up in the cache, so that a batch never depends on what
is cached. A prompt is read without padding (padding costs a third of the rate); all prompts of a batch are continued
together. The tokens that all prompts begin with are read once.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tqdm.auto import tqdm

from lib.generation import models
from lib.generation.cache import AnswerCache, batch_key
from lib.generation.models import ModelError
from lib.workbook.artifacts import atomic_path, sha256_of
from lib.workbook.machine import processor

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

BATCH_BYTES = 2 * 2**30  # of keys and values in one batch
SHORTEST_PREFIX = 16  # below it, reading the prefix apart costs more than it saves
DTYPES = ("float32", "bfloat16")


@dataclass
class Usage:
    """What the answers of one call cost when they were computed, whether now or before (cached).

    Attributes:
        prompts: distinct prompts.
        tokens_in: tokens of the prompts; a shared prefix counts for every prompt.
        tokens_out: tokens generated, the token that ended an answer included.
        seconds: of computation, loading the model excluded.
        cached: distinct prompts whose answer came from the cache.
    """

    prompts: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    seconds: float = 0.0
    cached: int = 0


class LocalModel:
    """A causal language model with full attention and rotary positions, such as Llama, SmolLM2 or Qwen2.

    Example:
        >>> model = LocalModel("SmolLM2-135M-Instruct", cache="data/generated/quick/answers")
        >>> model.generate(["What is the capital of France?"], max_new_tokens=20, chat=True)

    Attributes:
        usage: what the last call of `generate` cost.
    """

    def __init__(
        self,
        name: str,
        adapter: str | Path | None = None,
        cache: str | Path | None = None,
        dtype: str | None = None,
        batch_size: int = 32,
        threads: int = 2,
    ):
        """
        Args:
            name: registered name, folder or Hugging Face id (see `lib.generation.models.locate`).
            adapter: folder of a LoRA adapter (see `lib.generation.finetune`), merged into the weights.
            cache: folder that keeps answers; None keeps none.
            dtype: "float32" or "bfloat16"; None takes the faster one here (see `choose_dtype`).
            batch_size: prompts that are continued together at most; fewer where their keys and values would take
                more than 2 GiB.
            threads: CPU threads.

        Raises:
            ModelError: the model or adapter cannot be found, or is of a kind that this class cannot run.
        """
        import_torch(threads)
        self.path = models.locate(name)
        self.adapter = adapter
        self.threads = threads
        self.batch_size = batch_size
        self.cache = AnswerCache(cache) if cache is not None else None
        self.tokenizer, self.config = load_tokenizer(self.path)
        self.dtype = dtype or choose_dtype(self.path, threads)
        self.fingerprint = fingerprint(self.path, self.config, adapter)
        self.usage = Usage()
        self._model = None

    @property
    def model(self):
        """The `transformers` model, loaded when it is first needed: answers from the cache do without."""
        if self._model is None:
            self._model = load_model(self.path, self.dtype, self.adapter)
        return self._model

    def generate(
        self,
        prompts: Sequence[str],
        max_new_tokens: int = 128,
        stop: Sequence[str] = (),
        chat: bool = False,
        temperature: float = 0.0,
        seed: int = 0,
        progress: bool = False,
    ) -> list[str]:
        """Answers in the order of `prompts`; equal prompts get equal answers.

        Args:
            prompts: texts that the model continues.
            max_new_tokens: length of an answer at most.
            stop: texts that end an answer, and are not part of it. One that is a special token of the vocabulary ends
                the answer as a token. The model's own end tokens always do.
            chat: whether a prompt is a user's message, put into the model's chat template, rather than bare text.
            temperature: 0 takes the likeliest token (greedy); else tokens are drawn from softmax(logits / temperature).
            seed: of the draws.
            progress: show a progress bar over distinct prompts.

        Raises:
            TypeError: `prompts` is one text or holds something else than texts.
            ValueError: a prompt is empty or does not fit into the model's window, or a setting makes no sense.
            ModelError: the model has no chat template, or cannot be loaded.
            ArtifactError: an answer cannot be written to the cache.
        """
        torch = import_torch(self.threads)
        from lib.generation.decoding import Batch, Sampler, answer_text, bytes_per_token, read_prefix

        if isinstance(prompts, str) or not all(isinstance(prompt, str) for prompt in prompts):
            raise TypeError("prompts must be a list of texts")
        if max_new_tokens < 1 or temperature < 0 or isinstance(stop, str) or not all(stop):
            raise ValueError("max_new_tokens must be 1 or more, temperature 0 or more, stop a list of non-empty texts")
        distinct = list(dict.fromkeys(prompts))
        tokens = tokenize(self.tokenizer, distinct, chat)
        check_lengths(distinct, tokens, max_new_tokens, self.config)
        prefix = shared_prefix(tokens)
        settings = {
            "max_new_tokens": max_new_tokens,
            "stop": list(stop),
            "chat": chat,
            "prefix": prefix,  # where a prompt is cut changes how bfloat16 rounds
            "draws": [temperature, seed] if temperature else None,
        }
        batches = plan_batches(
            distinct, tokens, self.batch_size, max_new_tokens, BATCH_BYTES // bytes_per_token(self.config, self.dtype)
        )
        answers: dict[str, str] = {}
        self.usage = Usage(prompts=len(distinct))
        prefix_cache = None
        with tqdm(total=len(distinct), disable=not progress, unit="prompt", desc="generating") as bar:
            for batch in batches:
                texts = [distinct[i] for i in batch]
                key = batch_key(texts, self.fingerprint, self.dtype, settings)
                entry = self.cache.load(key) if self.cache else None
                if entry is None:
                    model = self.model
                    started = time.perf_counter()
                    with torch.inference_mode():
                        if prefix and prefix_cache is None:
                            prefix_cache = read_prefix(model, tokens[batch[0]][:prefix])
                        sampler = Sampler(temperature, f"{seed} {key}")
                        rows = Batch(model, self.tokenizer, [tokens[i] for i in batch], prefix_cache, prefix)
                        outputs = rows.run(max_new_tokens, stop, sampler)
                    entry = {
                        "answers": [answer_text(self.tokenizer, output, stop) for output in outputs],
                        "tokens_in": sum(len(tokens[i]) for i in batch),
                        "tokens_out": sum(len(output) for output in outputs),
                        "seconds": time.perf_counter() - started,
                    }
                    if self.cache:
                        self.cache.store(key, entry)
                else:
                    self.usage.cached += len(batch)
                answers.update(zip(texts, entry["answers"], strict=True))
                self.usage.tokens_in += entry["tokens_in"]
                self.usage.tokens_out += entry["tokens_out"]
                self.usage.seconds += entry["seconds"]
                bar.update(len(batch))
        return [answers[prompt] for prompt in prompts]


# ---------------------------------------------------------------- loading


def import_torch(threads: int):
    """PyTorch, with `threads` CPU threads."""
    logging.getLogger("bitsandbytes").setLevel(logging.ERROR)  # it offers to fetch kernels from a hub
    import torch

    torch.set_num_threads(threads)
    return torch


def load_tokenizer(path: str):
    """Tokenizer and configuration of a folder or hub id.

    Raises:
        ModelError: they cannot be read, or the model's attention is not a full one.
    """
    from transformers import AutoConfig, AutoTokenizer

    try:
        config = AutoConfig.from_pretrained(path, local_files_only=os.path.isdir(path))
        tokenizer = AutoTokenizer.from_pretrained(path, local_files_only=os.path.isdir(path))
    except (OSError, ValueError, KeyError) as error:
        raise ModelError(f"model {path}: tokenizer or configuration cannot be read: {error}") from error
    layer_types = getattr(config, "layer_types", None) or []
    windowed = any(kind != "full_attention" for kind in layer_types)
    if windowed or (not layer_types and getattr(config, "sliding_window", None)):
        raise ModelError(f"model {path}: only models with full attention in every layer are supported")
    return tokenizer, config


def load_model(path: str, dtype: str, adapter: str | Path | None = None):
    """The model in evaluation mode, on the GPU where there is one; an adapter is merged in float32, then rounded.

    Raises:
        ModelError: weights or adapter cannot be read.
    """
    import torch
    from safetensors import SafetensorError
    from transformers import AutoModelForCausalLM
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()
    wanted = getattr(torch, dtype)
    try:
        model = AutoModelForCausalLM.from_pretrained(
            path, dtype=torch.float32 if adapter else wanted, local_files_only=os.path.isdir(path)
        )
        if adapter:
            from peft import PeftModel

            with warnings.catch_warnings():
                warnings.simplefilter("ignore", FutureWarning)  # peft asks transformers for a renamed attribute
                model = PeftModel.from_pretrained(model, str(adapter)).merge_and_unload()
            for parameter in model.parameters():  # not `model.to`: the rotary frequencies must stay float32
                parameter.data = parameter.data.to(wanted)
    except (OSError, ValueError, KeyError, RuntimeError, SafetensorError) as error:
        raise ModelError(f"model {path}{f' with adapter {adapter}' if adapter else ''}: {error}") from error
    return model.to("cuda" if torch.cuda.is_available() else "cpu").eval()


def fingerprint(path: str, config, adapter: str | Path | None = None) -> str:
    """What tells this model from every other: its files' content or, for a hub id, the commit; and an adapter's weights
    and scale, without the record of its training."""
    base = models.fingerprint(path) if os.path.isdir(path) else f"{path}@{getattr(config, '_commit_hash', None)}"
    if not adapter:
        return base
    try:
        settings = json.loads((Path(adapter) / "adapter_config.json").read_text(encoding="utf-8"))
        scale = [settings["r"], settings["lora_alpha"], sorted(settings["target_modules"])]
        weights = sha256_of(Path(adapter) / "adapter_model.safetensors")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ModelError(f"adapter {adapter}: cannot be read: {error}") from error
    return f"{base}+{weights}+{json.dumps(scale)}"


def choose_dtype(path: str, threads: int = 2) -> str:
    """The data type that this machine computes a model fastest in, measured once and kept.

    One layer of the model's shape reads 256 tokens in float32 and in bfloat16, alternately, the best of five each;
    bfloat16 must be at least 1.2 times as fast, since it is less exact. The choice is kept in `.dtype.json`, with the
    processor it holds for, in the model's folder where that can be written, else with the fetched models.

    Args:
        path: folder or hub id.
        threads: CPU threads of the measurement.
    """
    torch = import_torch(threads)
    _, config = load_tokenizer(path)
    beside = Path(path) if os.path.isdir(path) and os.access(path, os.W_OK) else models.CACHE / Path(path).name
    beside.mkdir(parents=True, exist_ok=True)
    kept = beside / ".dtype.json"
    machine = torch.cuda.get_device_name() if torch.cuda.is_available() else processor()
    with open(beside / ".dtype.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two processes must not choose differently
        try:
            choices = json.loads(kept.read_text(encoding="utf-8"))
            if choices[machine]["dtype"] in DTYPES:
                return choices[machine]["dtype"]
        except (OSError, ValueError, KeyError, TypeError):
            pass
        seconds = _time_dtypes(config)
        dtype = "bfloat16" if seconds["float32"] > 1.2 * seconds["bfloat16"] else "float32"
        with atomic_path(kept) as temporary:
            choice = {"dtype": dtype, "milliseconds": {name: round(1000 * s, 3) for name, s in seconds.items()}}
            temporary.write_text(json.dumps({machine: choice}, indent=1) + "\n", encoding="utf-8")
    return dtype


def _time_dtypes(config) -> dict[str, float]:
    """Seconds that one layer takes over 256 tokens in each data type."""
    import copy

    import torch
    from transformers import AutoModel

    small = copy.deepcopy(config)
    small.num_hidden_layers, small.vocab_size = 1, 256
    small.pad_token_id = small.bos_token_id = small.eos_token_id = None
    if getattr(small, "layer_types", None):
        small.layer_types = small.layer_types[:1]
    device = "cuda" if torch.cuda.is_available() else "cpu"
    with torch.random.fork_rng():
        layers = {name: AutoModel.from_config(small, dtype=getattr(torch, name)).to(device).eval() for name in DTYPES}
    ids = torch.arange(256, device=device)[None] % 256
    best = dict.fromkeys(DTYPES, float("inf"))
    with torch.inference_mode():
        for _ in range(5):
            for name, layer in layers.items():
                started = time.perf_counter()
                layer(ids)
                if device == "cuda":
                    torch.cuda.synchronize()
                best[name] = min(best[name], time.perf_counter() - started)
    return best


# ---------------------------------------------------------------- prompts and batches


def tokenize(tokenizer, prompts: Sequence[str], chat: bool) -> list[list[int]]:
    """Token ids of each prompt, as bare text or as a user's message in the chat template.

    Raises:
        ModelError: `chat` is asked of a model without a chat template.
    """
    if not prompts:
        return []
    if not chat:
        return tokenizer(list(prompts))["input_ids"]
    if not tokenizer.chat_template:
        raise ModelError("the model has no chat template: ask it with chat=False")
    texts = [
        tokenizer.apply_chat_template([{"role": "user", "content": prompt}], tokenize=False, add_generation_prompt=True)
        for prompt in prompts
    ]
    return tokenizer(texts, add_special_tokens=False)["input_ids"]


def check_lengths(prompts: Sequence[str], tokens: Sequence[Sequence[int]], new_tokens: int, config) -> None:
    """Raises ValueError for a prompt without tokens, or one that does not fit into the window with its answer."""
    window = getattr(config, "max_position_embeddings", None) or float("inf")
    for prompt, ids in zip(prompts, tokens, strict=True):
        if not ids:
            raise ValueError("a prompt is empty")
        if len(ids) + new_tokens > window:
            raise ValueError(
                f"a prompt of {len(ids)} tokens and an answer of {new_tokens} do not fit into the model's window of "
                f"{window} tokens; the prompt begins {prompt[:60]!r}"
            )


def shared_prefix(tokens: Sequence[Sequence[int]]) -> int:
    """How many tokens all prompts begin with; each keeps one of its own, and prefixes not worth the work count 0."""
    if len(tokens) < 2:
        return 0
    first, last = min(tokens), max(tokens)  # the two that differ earliest, in lexicographic order
    limit = min(len(ids) for ids in tokens) - 1
    length = next((i for i in range(limit) if first[i] != last[i]), limit)
    return length if length >= SHORTEST_PREFIX else 0


def plan_batches(
    prompts: Sequence[str],
    tokens: Sequence[Sequence[int]],
    batch_size: int,
    new_tokens: int,
    tokens_per_batch: int,
) -> list[list[int]]:
    """Batches of row numbers, longest prompts first; a function of the prompts alone, not of their order.

    Args:
        prompts: distinct texts, (n,).
        tokens: token ids of each.
        batch_size: rows of a batch at most.
        new_tokens: answer tokens that each row needs room for.
        tokens_per_batch: rows times tokens of the longest row at most; a batch has at least one row.
    """
    batches: list[list[int]] = []
    for i in sorted(range(len(prompts)), key=lambda i: (-len(tokens[i]), prompts[i])):
        longest = len(tokens[batches[-1][0]]) + new_tokens if batches else 0
        full = not batches or len(batches[-1]) == batch_size or (len(batches[-1]) + 1) * longest > tokens_per_batch
        if full:
            batches.append([])
        batches[-1].append(i)
    return batches
