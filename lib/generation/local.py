"""Language models on this machine: prompts in, answers out.

Prompts whose answer is kept are not asked (see `lib.generation.answers`); the others are sorted by length and cut into
batches. All prompts of a batch are continued together. Each is read without padding (padding costs a third of the
rate), and what prompts begin with in common once. On a CPU batches are answered side by side, by one core each: several
cores on one batch mostly wait for each other. A GPU answers larger batches, one after the other.
"""

from __future__ import annotations

import functools
import gc
import json
import logging
import os
import threading
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, as_completed
from pathlib import Path
from typing import Any

from tqdm.auto import tqdm

from lib.generation import models
from lib.generation.answers import LONE_SURROGATE, Answer, Answers, Cost, KeptModel, Usage, encodable, key_of
from lib.generation.batches import Prompt, plan_batches, shared_prefixes
from lib.generation.models import ModelError
from lib.generation.registry import REGISTRY
from lib.workbook.artifacts import sha256_of
from lib.workbook.machine import accelerator, cores, has_bfloat16, return_freed_memory, worker_pool

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

BATCH_BYTES = 2**29  # of keys and values in one batch on a CPU, which answers one a core
CPU_ROWS = 64  # continued together at most: each step reads all weights, for one row as for many
GPU_ROWS = 256  # continued together at most


class LocalModel:
    """A causal language model with full attention and rotary positions, such as Llama, SmolLM2 or Qwen2.

    Example:
        >>> model = LocalModel("SmolLM2-135M-Instruct", cache="data/generated/quick/answers")
        >>> model.generate(["What is the capital of France?"], max_new_tokens=20, chat=True)

    Attributes:
        usage: what the last call of `generate` cost.
        finished: for each of its prompts, whether the answer ended by itself rather than at `max_new_tokens`; under a
            grammar, whether it is complete.
        costs: for each of its prompts, what the answer cost.
        weights: what its answers are kept under (see `weights_of`).
    """

    def __init__(
        self,
        name: str,
        adapter: str | Path | None = None,
        cache: Answers | str | Path | None = None,
        dtype: str | None = None,
        batch_size: int = CPU_ROWS,
        threads: int = 2,
        quantization: str = "none",
    ):
        """
        Args:
            name: registered name, folder or Hugging Face id (see `lib.generation.models.locate`).
            adapter: folder of a LoRA adapter (see `lib.generation.finetune`), merged into the weights unless they are
                quantised.
            cache: keeps answers, or a folder for them; None keeps none.
            dtype: "float32" or "bfloat16"; None takes what the machine computes fast in (see `choose_dtype`).
            batch_size: prompts that a CPU continues together at most, fewer where their keys and values would take more
                than half a GiB; a GPU takes 256, fewer where they would fill more than half of its free memory.
            threads: CPU threads; as many batches are answered side by side.
            quantization: "none", or "nf4" for linear layers in 4 bits (see `load_model`).

        Raises:
            ModelError: the model or adapter cannot be found, or is of a kind that this class cannot run.
            ValueError: there is no such quantization.
        """
        torch = import_torch(threads)
        self.path = models.locate(name)
        self.adapter = adapter
        self.threads = threads
        self.on_gpu = torch.cuda.is_available()
        self.batch_size = GPU_ROWS if self.on_gpu else batch_size
        self.cache = Answers.at(cache)
        self.tokenizer, self.config = load_tokenizer(self.path)
        self.dtype = dtype or choose_dtype(quantization)
        self.quantization = quantization
        self.fingerprint = fingerprint(self.path, adapter, quantization)
        self.weights = weights_of(name, adapter, quantization)
        self.usage = Usage()
        self.finished: list[bool] = []
        self.costs: list[Cost] = []
        self._vocabularies: dict = {}
        self._model = None

    @property
    def model(self):
        """The `transformers` model, loaded when it is first needed: kept answers do without."""
        if self._model is None:
            self._model = load_model(self.path, self.dtype, self.adapter, self.quantization)
            from lib.generation.attention import use_blocks

            use_blocks(self._model)
            if not self.on_gpu and self.dtype == "bfloat16" and self.quantization == "none":
                pack(self._model)
            return_freed_memory()  # an adapter was merged in float32
        return self._model

    def has(
        self,
        prompts: Sequence[str],
        max_new_tokens: int = 128,
        grammars: Sequence[str | None] | None = None,
        **settings: Any,
    ) -> list[bool]:
        """Whether the answer to each prompt is kept; arguments as of `generate`, one answer a prompt."""
        if not self.cache:
            return [False] * len(prompts)
        return KeptModel(self.cache, self.weights).has(prompts, max_new_tokens, grammars=grammars, **settings)

    def unload(self) -> None:
        """Let go of the weights; they are loaded again when they are needed."""
        self._model = None
        gc.collect()
        return_freed_memory()

    def generate(
        self,
        prompts: Sequence[str],
        max_new_tokens: int = 128,
        stop: Sequence[str] = (),
        chat: bool = False,
        temperature: float = 0.0,
        seed: int = 0,
        progress: bool = False,
        grammars: str | Sequence[str | None] | None = None,
    ) -> list[str]:
        """Answers in the order of `prompts`; equal prompts under equal grammars get equal answers.

        Args:
            prompts: texts that the model continues.
            max_new_tokens: length of an answer at most. A greedy answer without a grammar also stops, unfinished, where
                it does nothing but repeat itself (see `lib.generation.decoding.REPEATS`).
            stop: texts that end an answer, and are not part of it. One that is a special token of the vocabulary ends
                the answer as a token. The model's own end tokens always do.
            chat: whether a prompt is a user's message, put into the model's chat template, rather than bare text.
            temperature: 0 takes the likeliest token (greedy); else tokens are drawn from softmax(logits / temperature).
            seed: of the draws.
            progress: show a progress bar over distinct prompts.
            grammars: what answers may be (see `lib.generation.constrained`), for all prompts or for each; None leaves
                them free. A token that ends an answer is only taken where the grammar is complete; a stop text must be
                allowed by the grammar itself.

        Raises:
            TypeError: `prompts` is one text or holds something else than texts.
            ValueError: a prompt is empty or does not fit into the model's window, a text holds a lone surrogate, or a
                setting makes no sense.
            GrammarError: a grammar cannot be compiled.
            ModelError: the model has no chat template, or cannot be loaded.
            ArtifactError: an answer cannot be kept.
        """
        from lib.generation.decoding import bytes_per_token

        check_arguments(prompts, max_new_tokens, stop, temperature)
        if grammars is None or isinstance(grammars, str):
            grammars = [grammars] * len(prompts)
        if len(grammars) != len(prompts):
            raise ValueError(f"{len(prompts)} prompts need as many grammars, not {len(grammars)}")
        check_encodable([grammar for grammar in grammars if grammar], "a grammar")
        asked = [(prompt, grammar or "") for prompt, grammar in zip(prompts, grammars, strict=True)]
        distinct = list(dict.fromkeys(asked))
        keys = [
            key_of(self.weights, prompt, max_new_tokens, grammar, stop, chat, temperature, seed)
            for prompt, grammar in distinct
        ]
        found = self.cache.get(keys) if self.cache else [None] * len(keys)
        answers = {one: answer for one, answer in zip(distinct, found, strict=True) if answer}
        self.usage = Usage(
            len(distinct), seconds=sum(one.cost.seconds for one in answers.values()), cached=len(answers)
        )
        left = [i for i, answer in enumerate(found) if answer is None]
        texts = [distinct[i][0] for i in left]
        tokens = self._tokens(texts, chat)
        check_lengths(texts, tokens, max_new_tokens, self.config)
        cuts = shared_prefixes(tokens)
        room = (free_bytes() if self.on_gpu else BATCH_BYTES) // bytes_per_token(self.config, self.dtype)
        size = -(-len(left) // -(-len(left) // self.batch_size)) if left else 1  # like loads for all cores
        rows = [Prompt(ids, ends, distinct[i][1]) for i, ids, ends in zip(left, tokens, cuts, strict=True)]
        batches = plan_batches([distinct[i] for i in left], tokens, cuts, size, max_new_tokens, room)
        work = [([keys[left[row]] for row in batch], [rows[row] for row in batch]) for batch in batches]
        draws = temperature, seed
        with tqdm(
            total=len(distinct), initial=len(answers), disable=not progress, unit="prompt", desc="generating"
        ) as bar:
            for number, fresh, seconds in self._computed(work, max_new_tokens, stop, draws) if work else ():
                answers |= zip([distinct[left[row]] for row in batches[number]], fresh, strict=True)
                self.usage.seconds += seconds
                bar.update(len(fresh))
        self.usage.tokens_in = sum(answers[one].cost.tokens_in for one in distinct)
        self.usage.tokens_out = sum(answers[one].cost.tokens_out for one in distinct)
        self.finished = [answers[one].finished for one in asked]
        self.costs = [answers[one].cost for one in asked]
        return [answers[one].text for one in asked]

    def _tokens(self, prompts: Sequence[str], chat: bool) -> list[list[int]]:
        return tokenize(self.tokenizer, prompts, chat)

    def _computed(
        self,
        work: Sequence[tuple[list[str], list[Prompt]]],
        max_new_tokens: int,
        stop: Sequence[str],
        draws: tuple[float, int],
    ) -> Iterator[tuple[int, list[Answer], float]]:
        """The answers of batches, as they are there and kept: the batch's number, its answers, its seconds.

        Args:
            work: keys and prompts of each batch.
            draws: temperature and seed.
        """
        import_torch(self.threads)
        from lib.generation.decoding import Prefixes, Sampler

        _ = self.model  # loaded before workers ask for it
        columns = max(cut for _, rows in work for row in rows for cut in (0, *row.cuts))
        workers = 1 if self.on_gpu else min(self.threads, cores(), len(work))
        threads = max(1, min(self.threads, cores()) // workers)
        spare = [Prefixes(columns) for _ in range(workers)]
        cancelled = threading.Event()

        def answered(number: int) -> tuple[list[Answer], float]:
            keys, rows = work[number]
            started, prefixes = time.perf_counter(), spare.pop()
            try:
                sampler = Sampler(draws[0], f"{draws[1]} {' '.join(keys)}")
                answers = self._answer(rows, prefixes, max_new_tokens, stop, sampler, threads, cancelled)
            finally:
                spare.append(prefixes)
            seconds = time.perf_counter() - started
            return_freed_memory()  # a batch of another size would lie beside what is left of this one
            if self.cache:
                self.cache.add(dict(zip(keys, answers, strict=True)))
            return answers, seconds

        if workers == 1:
            for number in range(len(work)):
                yield number, *answered(number)
            return
        longest = sorted(range(len(work)), key=lambda number: -sum(len(row.tokens) for row in work[number][1]))
        with worker_pool(workers, threads) as pool:
            running: dict[Future, int] = {pool.submit(answered, number): number for number in longest}
            try:
                for future in as_completed(running):
                    yield running[future], *future.result()
            except BaseException:
                cancelled.set()
                raise

    def _answer(
        self,
        rows: list[Prompt],
        prefixes,
        max_new_tokens: int,
        stop: Sequence[str],
        sampler,
        threads: int,
        cancelled: threading.Event,
    ) -> list[Answer]:
        """The answers of a batch."""
        import torch

        from lib.generation.constrained import Constraint, Grammar, vocabulary
        from lib.generation.decoding import Batch, answer_text, stop_tokens

        model = self.model
        compiled: dict[str, Grammar | None] = {"": None}
        ends, _ = stop_tokens(model, self.tokenizer, stop)
        for text in dict.fromkeys(row.grammar for row in rows if row.grammar):
            if ends not in self._vocabularies:
                self._vocabularies[ends] = vocabulary(self.tokenizer, self.config.vocab_size, ends)
            compiled[text] = Grammar(text, self._vocabularies[ends])
        grammars = [compiled[row.grammar] for row in rows]
        constraint = Constraint(grammars, threads) if any(grammars) else None
        with torch.inference_mode():
            batch = Batch(model, self.tokenizer, rows, prefixes, cancelled)
            outputs, ended, seconds = batch.run(max_new_tokens, stop, sampler, constraint)
        answers = []
        for row, grammar, output, whole, spent in zip(rows, grammars, outputs, ended, seconds, strict=True):
            text = encodable(answer_text(self.tokenizer, output, stop))
            finished = bool(whole and (not grammar or grammar.accepts(text)))
            cost = Cost(len(row.tokens), len(output), float(f"{spent:.4g}"))
            answers.append(Answer(text, finished, cost, self.dtype, accelerator()))
        return answers


class Conversations(LocalModel):
    """A model whose prompts are whole conversations, each as JSON (see `conversation`)."""

    def _tokens(self, prompts: Sequence[str], chat: bool) -> list[list[int]]:
        return [conversation_tokens(self.tokenizer, json.loads(prompt)) for prompt in prompts]


# ---------------------------------------------------------------- loading


def import_torch(threads: int):
    """PyTorch, with `threads` CPU threads, or as many as the process has cores."""
    logging.getLogger("bitsandbytes").setLevel(logging.ERROR)  # it offers to fetch kernels from a hub
    import torch

    torch.set_num_threads(min(threads, cores()))
    return torch


def free_bytes() -> int:
    """Bytes that one batch's keys and values may take on the GPU: half of what is free, down to a power of two, so that
    little things beside it do not change which prompts are answered together."""
    import torch

    free, _ = torch.cuda.mem_get_info()
    free += torch.cuda.memory_reserved() - torch.cuda.memory_allocated()  # held by PyTorch for what comes next
    return 2 ** ((free // 2).bit_length() - 1)


def load_tokenizer(path: str):
    """Tokenizer and configuration of a folder or hub id.

    Raises:
        ModelError: they cannot be read, or the model's attention is not a full one.
    """
    from transformers import AutoConfig, AutoTokenizer

    try:
        config = AutoConfig.from_pretrained(**models.source(path))
        tokenizer = AutoTokenizer.from_pretrained(**models.source(path))
    except Exception as error:  # whatever a damaged file leads to
        raise ModelError(f"model {path}: tokenizer or configuration cannot be read: {error}") from error
    layer_types = getattr(config, "layer_types", None) or []
    windowed = any(kind != "full_attention" for kind in layer_types)
    if windowed or (not layer_types and getattr(config, "sliding_window", None)):
        raise ModelError(f"model {path}: only models with full attention in every layer are supported")
    return tokenizer, config


def load_model(path: str, dtype: str, adapter: str | Path | None = None, quantization: str = "none"):
    """The model in evaluation mode, on the GPU where there is one; an adapter is merged in float32, then rounded.

    Under nf4 the linear layers but the output layer are held in 4-bit NormalFloat, their scales quantised once more,
    and compute in bfloat16 (Dettmers et al. 2023, QLoRA, arXiv:2305.14314); all else is of type `dtype`. An adapter is
    then not merged, since that would round it to 4 bits: its layers add their part to those of the model.

    Raises:
        ModelError: weights or adapter cannot be read.
    """
    import torch
    from safetensors import SafetensorError
    from transformers import AutoModelForCausalLM, BitsAndBytesConfig
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()
    if torch.cuda.is_available():
        gc.collect()  # a model that nobody uses any more may still fill the GPU
    wanted = getattr(torch, dtype)
    device = torch.device("cuda", torch.cuda.current_device()) if torch.cuda.is_available() else torch.device("cpu")
    settings: dict[str, Any] = {"dtype": torch.float32 if adapter and quantization == "none" else wanted}
    if quantization == "nf4":
        settings["device_map"] = {"": device}  # quantised as they are read: the whole model never lies there in 16 bits
        settings["quantization_config"] = BitsAndBytesConfig(
            load_in_4bit=True,
            bnb_4bit_quant_type="nf4",
            bnb_4bit_use_double_quant=True,
            bnb_4bit_compute_dtype=torch.bfloat16,
        )
    try:
        model: torch.nn.Module = AutoModelForCausalLM.from_pretrained(**models.source(path), **settings)
        if adapter:
            from peft import PeftModel

            with warnings.catch_warnings():
                warnings.simplefilter("ignore", FutureWarning)  # peft asks transformers for a renamed attribute
                adapted = PeftModel.from_pretrained(model, str(adapter), autocast_adapter_dtype=False)  # as in training
                model = adapted.merge_and_unload() if quantization == "none" else adapted.get_base_model()
        if adapter and quantization == "none":
            for parameter in model.parameters():  # not `model.to`: the rotary frequencies must stay float32
                parameter.data = parameter.data.to(wanted)
    except (OSError, ValueError, KeyError, RuntimeError, SafetensorError) as error:
        raise ModelError(f"model {path}{f' with adapter {adapter}' if adapter else ''}: {error}") from error
    return (model if quantization == "nf4" else model.to(device)).eval()


def pack(model) -> list:
    """Let the linear layers of a model that only answers multiply with weights in the order in memory in which the
    processor multiplies them: the same products in bfloat16 to the last bit. In the order of their file they would be
    reordered at each step of decoding, which takes as long as the products. Returns those layers: none where the model
    is not on a CPU, or on one that does not multiply in bfloat16. Their own weights are let go of."""
    import torch

    if not (torch.backends.mkldnn.is_available() and torch.ops.mkldnn._is_mkldnn_bf16_supported()):
        return []
    layers = [
        layer for layer in model.modules() if type(layer) is torch.nn.Linear and layer.weight.device.type == "cpu"
    ]
    product = torch.ops.mkldnn._linear_pointwise
    for layer in layers:
        weight = torch.ops.mkldnn._reorder_linear_weight(layer.weight.detach().to(torch.bfloat16))
        bias = None if layer.bias is None else layer.bias.detach().to(torch.bfloat16)
        vars(layer)["forward"] = functools.partial(_product, product, weight, bias)
        # an embedding that shares the weight keeps it
        layer.weight = torch.nn.Parameter(torch.empty(0, dtype=weight.dtype), requires_grad=False)
    return layers


def _product(product, weight, bias, inputs):
    return product(inputs.to(weight.dtype), weight, bias, "none", [], "")


def fingerprint(path: str, adapter: str | Path | None = None, quantization: str = "none") -> str:
    """What tells this model from every other: its files' content or, for a hub id, the commit; how it is quantised; and
    an adapter's weights and scale, without the record of its training."""
    if os.path.isdir(path):
        base = models.folder_hash(path)
    else:
        from transformers.utils import cached_file

        hub, _, revision = path.partition("@")
        config = cached_file(hub, "config.json", revision=revision or "main")
        assert config is not None  # a missing file raises
        base = f"{hub}@{Path(config).parent.name}"
    return _told_apart(base, adapter, quantization)


def _told_apart(base: str, adapter: str | Path | None, quantization: str) -> str:
    """A model's fingerprint, from that of its unquantised weights."""
    if quantization not in ("none", "nf4"):
        raise ValueError(f"quantization must be none or nf4, not {quantization!r}")
    base += "" if quantization == "none" else f"+{quantization}"
    if not adapter:
        return base
    try:
        settings = json.loads((Path(adapter) / "adapter_config.json").read_text(encoding="utf-8"))
        scale = [settings["r"], settings["lora_alpha"], sorted(settings["target_modules"])]
        weights = sha256_of(Path(adapter) / "adapter_model.safetensors")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ModelError(f"adapter {adapter}: cannot be read: {error}") from error
    return f"{base}+{weights}+{json.dumps(scale)}"


def weights_of(name: str, adapter: str | Path | None = None, quantization: str = "none") -> str:
    """What answers of a model are kept under: its fingerprint. A registered model in GGUF is told by the published hash
    of its file, so that kept answers are found where it is not on this machine, and whatever it was converted by."""
    if name not in REGISTRY or not REGISTRY[name].weights.endswith(".gguf"):
        return fingerprint(models.locate(name), adapter, quantization)
    return _told_apart(REGISTRY[name].files[REGISTRY[name].weights], adapter, quantization)


def choose_dtype(quantization: str = "none") -> str:
    """bfloat16 where the GPU or the processor computes in it, and under nf4, whose layers do anywhere; else float32.

    A timing would choose by how busy the machine is, and answers depend on the choice.
    """
    return "bfloat16" if quantization == "nf4" or has_bfloat16() else "float32"


# ---------------------------------------------------------------- prompts and batches


def check_arguments(prompts: Sequence[str], max_new_tokens: int, stop: Sequence[str], temperature: float) -> None:
    """Raises TypeError and ValueError as `generate` does for arguments that no model takes."""
    if isinstance(prompts, str) or not all(isinstance(prompt, str) for prompt in prompts):
        raise TypeError("prompts must be a list of texts")
    if max_new_tokens < 1 or temperature < 0 or isinstance(stop, str) or not all(stop):
        raise ValueError("max_new_tokens must be 1 or more, temperature 0 or more, stop a list of non-empty texts")
    check_encodable(prompts, "a prompt")
    check_encodable(stop, "a stop text")


def check_encodable(texts: Sequence[str], what: str) -> None:
    """Raises ValueError for a text that has no UTF-8; `what` names it."""
    for text in texts:
        if LONE_SURROGATE.search(text):
            raise ValueError(f"{what} holds a lone surrogate, half a character; it begins {text[:60]!r}")


def tokenize(tokenizer, prompts: Sequence[str], chat: bool) -> list[list[int]]:
    """Token ids of each prompt, as bare text or as a user's message in the chat template.

    Raises:
        ModelError: `chat` is asked of a model without a chat template.
    """
    if not prompts:
        return []
    if not chat:
        return tokenizer(list(prompts), split_special_tokens=True)["input_ids"]
    return [conversation_tokens(tokenizer, [{"role": "user", "content": prompt}]) for prompt in prompts]


def conversation_tokens(tokenizer, turns: Sequence[Mapping[str, str]]) -> list[int]:
    """Token ids of a `conversation`. Only the template has special tokens: the name of one in what a turn says is text,
    and is tokenised apart, or data could end a turn and begin another."""
    special = [token.content for token in tokenizer.added_tokens_decoder.values() if token.special]
    if not any(name in turn["content"] for turn in turns for name in special):
        return tokenizer(conversation(tokenizer, turns), add_special_tokens=False)["input_ids"]
    marks = [f"\ue000{number}\ue001" for number in range(len(turns))]
    rest = conversation(tokenizer, [{**turn, "content": mark} for turn, mark in zip(turns, marks, strict=True)])
    ids: list[int] = []
    for turn, mark in zip(turns, marks, strict=True):
        before, _, rest = rest.partition(mark)
        ids += tokenizer(before, add_special_tokens=False)["input_ids"]
        ids += tokenizer(turn["content"], add_special_tokens=False, split_special_tokens=True)["input_ids"]
    return ids + tokenizer(rest, add_special_tokens=False)["input_ids"]


def conversation(tokenizer, turns: Sequence[Mapping[str, str]]) -> str:
    """Turns of a conversation in the chat template, up to where the model's answer begins.

    Args:
        turns: role (system, user, assistant) and content of each.

    Raises:
        ModelError: the model has no chat template.
    """
    if not tokenizer.chat_template:
        raise ModelError("the model has no chat template: ask it with chat=False")
    return tokenizer.apply_chat_template(list(turns), tokenize=False, add_generation_prompt=True)


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
