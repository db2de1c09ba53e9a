"""Language models on this machine: prompts in, answers out.

Prompts whose answer is not kept are sorted by length and cut into batches. All prompts of a batch are continued
together. Each is read without padding (padding costs a third of the rate), and what prompts begin with in common once.
On a CPU batches are answered side by side, by one core each: several cores on one batch mostly wait for each other. A
GPU answers larger batches, one after the other.
"""

from __future__ import annotations

import functools
import gc
import json
import logging
import os
import time
import warnings
from collections.abc import Mapping, Sequence
from concurrent.futures import as_completed
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tqdm.auto import tqdm

from lib.generation import models
from lib.generation.answers import Answer, Answers, Cost, KeptModel, LanguageModel, encodable
from lib.generation.models import REGISTRY, ModelError
from lib.workbook.artifacts import sha256_of
from lib.workbook.inputs import InputError
from lib.workbook.machine import accelerator, cores, has_bfloat16, packed_layers, return_freed_memory, worker_pool
from lib.workbook.parameters import REMOTE, Parameters, is_remote

if TYPE_CHECKING:
    from lib.generation.decoding import Prompt

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

BATCH_BYTES = 2**29  # of keys and values in one batch on a CPU, which answers one a core
CPU_ROWS = 64  # continued together at most: each step reads all weights, for one row as for many
GPU_ROWS = 256  # continued together at most


class LocalModel(LanguageModel):
    """A causal language model with full attention and rotary positions, such as Llama, SmolLM2 or Qwen2.

    Example:
        >>> LocalModel("SmolLM2-135M-Instruct").generate(["What is the capital of France?"], 20, chat=True)
    """

    def __init__(
        self,
        name: str,
        adapter: str | Path | None = None,
        cache: Answers | str | Path | None = None,
        dtype: str | None = None,
        threads: int = 2,
        quantization: str = "none",
    ):
        """`name` is as of `lib.generation.models.locate`, `adapter` the folder of a LoRA adapter; `cache` keeps
        answers, or is a folder for them. `dtype` is "float32" or "bfloat16", by default what the machine computes fast
        in (see `choose_dtype`); `quantization` is "none", or "nf4" for linear layers in 4 bits (see `load_model`). As
        many batches are answered side by side as there are CPU `threads`.

        Raises ModelError where the model or adapter cannot be found, or is of a kind that this class cannot run.
        """
        self.on_gpu = import_torch(threads).cuda.is_available()
        super().__init__(weights_of(name, adapter, quantization), Answers.at(cache))
        self.path, self.adapter, self.quantization = models.locate(name), adapter, quantization
        self.threads, self.keeps = threads, cache is not None
        self._model: Any = None
        self.batch_size = GPU_ROWS if self.on_gpu else CPU_ROWS  # fewer where memory asks for it
        self.tokenizer, self.config = load_tokenizer(self.path)
        self.dtype = dtype or choose_dtype(quantization)

    @property
    def model(self):
        """The `transformers` model, loaded when it is first needed: kept answers do without."""
        if self._model is None:
            from lib.generation.layers import use_attention

            self._model = load_model(self.path, self.dtype, self.adapter, self.quantization)
            use_attention(self._model)
            if not self.on_gpu and self.dtype == "bfloat16" and self.quantization == "none":
                torch = import_torch(self.threads)
                for layer in packed_layers(self._model):  # an embedding that shares the weight keeps it
                    layer.weight = torch.nn.Parameter(torch.empty(0, dtype=torch.bfloat16), requires_grad=False)
            return_freed_memory()  # an adapter was merged in float32
        return self._model

    def unload(self) -> None:
        """Let go of the weights; they are loaded again when they are needed."""
        self._model = None
        gc.collect()
        return_freed_memory()

    def ask(self, asked: Mapping[str, tuple[str, str]], bar: tqdm, **settings: Any) -> dict[str, Answer]:
        """As `LanguageModel.ask`; answers are kept batch by batch."""
        torch = import_torch(self.threads)
        from lib.generation import decoding
        from lib.generation.decoding import Constraint, Grammar, Prefixes, answer_text, stop_tokens, vocabulary

        stop, length = settings["stop"], settings["max_new_tokens"]
        batches, model = self._batches(asked, length, settings["chat"]), self.model  # loaded before workers ask for it
        compiled: dict[str, Grammar | None] = {"": None}
        if texts := {grammar for _, grammar in asked.values()} - {""}:
            ends, _ = stop_tokens(model, self.tokenizer, stop)
            tokens = vocabulary(self.tokenizer, self.config.vocab_size, ends)
            compiled |= {text: Grammar(text, tokens) for text in texts}
        columns = max(cut for batch in batches for row in batch.values() for cut in (0, *row.cuts))
        workers = 1 if self.on_gpu else min(self.threads, cores(), len(batches))
        threads = max(1, min(self.threads, cores()) // workers)
        spare = [Prefixes(columns) for _ in range(workers)]

        def answered(batch: dict[str, Prompt]) -> dict[str, Answer]:
            started, prefixes, rows, answers = time.perf_counter(), spare.pop(), list(batch.values()), {}
            grammars = [compiled[row.grammar] for row in rows]
            constraint = Constraint(grammars, threads) if any(grammars) else None
            drawn = settings["temperature"], f"{settings['seed']} {' '.join(batch)}"
            with torch.inference_mode():
                decoded = decoding.decode(model, self.tokenizer, rows, prefixes, length, stop, *drawn, constraint)
            spare.append(prefixes)
            seconds = float(f"{(time.perf_counter() - started) / len(rows):.4g}")
            for key, row, grammar, (output, whole) in zip(batch, rows, grammars, decoded, strict=True):
                text = encodable(answer_text(self.tokenizer, output, stop))
                finished = bool(whole and (not grammar or grammar.accepts(text)))
                cost = Cost(len(row.tokens), len(output), seconds)
                answers[key] = Answer(text, finished, cost, self.dtype, accelerator())
            return_freed_memory()  # a batch of another size would lie beside what is left of this one
            if self.keeps:
                self.cache.add(answers)
            return answers

        found: dict[str, Answer] = {}
        with worker_pool(workers, threads) as pool:
            for future in as_completed([pool.submit(answered, batch) for batch in batches]):
                found |= future.result()
                bar.update(len(future.result()))
        return found

    def _batches(self, asked: Mapping[str, tuple[str, str]], new_tokens: int, chat: bool) -> list[dict[str, Prompt]]:
        """Prompts by their keys in batches; raises ValueError for one that does not fit into the window."""
        from lib.generation.decoding import Prompt, bytes_per_token, plan_batches, shared_prefixes

        keys, named = list(asked), list(asked.values())
        tokens = token_ids(self.tokenizer, [prompt for prompt, _ in named], chat)
        window = getattr(self.config, "max_position_embeddings", None) or float("inf")
        for (text, _), ids in zip(named, tokens, strict=True):
            if len(ids) + new_tokens > window:
                raise ValueError(
                    f"a prompt of {len(ids)} tokens and an answer of {new_tokens} do not fit into the model's window "
                    f"of {window} tokens; the prompt begins {text[:60]!r}"
                )
        room, cuts = BATCH_BYTES, shared_prefixes(tokens)
        if self.on_gpu:  # half of what is free, as a power of two: what lies beside it does not change the batches
            room = 2 ** ((import_torch(self.threads).cuda.mem_get_info()[0] // 2).bit_length() - 1)
        size = -(-len(asked) // -(-len(asked) // self.batch_size))  # like loads for all cores
        fits = room // bytes_per_token(self.config, self.dtype)
        rows = [Prompt(ids, ends, one[1]) for ids, ends, one in zip(tokens, cuts, named, strict=True)]
        batches = plan_batches(named, tokens, cuts, size, new_tokens, fits)
        return [{keys[row]: rows[row] for row in batch} for batch in batches]


def load_language_model(
    name: str,
    cache: Answers | str | Path | None = None,
    threads: int = 2,
    quantization: str = "none",
    dry_run: bool = False,
    **settings: Any,
) -> Any:
    """The model that a profile names: `remote:NAME` is NAME behind the endpoint of `OPENAI_BASE_URL`, all else a
    `LocalModel`. Settings of the other kind do not matter; `dry_run` counts what an endpoint would be asked."""
    if not is_remote(name):
        return LocalModel(name, cache=cache, threads=threads, quantization=quantization)
    from lib.generation.remote import DryRun, RemoteModel  # their client takes a while to import

    return (DryRun if dry_run else RemoteModel)(name.removeprefix(REMOTE), cache=cache, **settings)


def remote_settings(parameters: Parameters) -> dict[str, Any]:
    """How an endpoint is asked, of a notebook's parameters, as `load_language_model` takes it. Raises InputError where
    there is a limit, but no price."""
    if parameters.spending_limit is not None and parameters.remote_price_in + parameters.remote_price_out <= 0:
        raise InputError("spending_limit needs remote_price_in or remote_price_out: without prices nothing costs")
    return {
        "price_in": parameters.remote_price_in,
        "price_out": parameters.remote_price_out,
        "limit": parameters.spending_limit,
        "dry_run": parameters.dry_run,
    }


def kept_model(
    name: str, answers: Answers, adapter: str | Path | None = None, quantization: str = "none", **machine
) -> KeptModel:
    """A model on this machine (arguments as of `LocalModel`), loaded where one of its answers is not kept."""
    load = functools.partial(LocalModel, name, adapter, answers, quantization=quantization, **machine)
    return KeptModel(answers, weights_of(name, adapter, quantization), load)


def import_torch(threads: int):
    """PyTorch, with `threads` CPU threads, or as many as the process has cores."""
    logging.getLogger("bitsandbytes").setLevel(logging.ERROR)  # it offers to fetch kernels from a hub
    import torch

    torch.set_num_threads(min(threads, cores()))
    return torch


def load_tokenizer(path: str):
    """Tokenizer and configuration of a folder or hub id. Raises ModelError where they cannot be read, or the model's
    attention is not a full one."""
    from transformers import AutoConfig, AutoTokenizer

    try:
        config = AutoConfig.from_pretrained(**models.source(path))
        tokenizer = AutoTokenizer.from_pretrained(**models.source(path))
    except Exception as error:  # whatever a damaged file leads to
        raise ModelError(f"model {path}: tokenizer or configuration cannot be read: {error}") from error
    kinds = getattr(config, "layer_types", None) or []
    if {*kinds} - {"full_attention"} or (not kinds and getattr(config, "sliding_window", None)):
        raise ModelError(f"model {path}: only models with full attention in every layer are supported")
    return tokenizer, config


def load_model(path: str, dtype: str, adapter: str | Path | None = None, quantization: str = "none"):
    """The model in evaluation mode, on the GPU where there is one; an adapter is merged in float32, then rounded.

    Under nf4 the linear layers but the output layer are held in 4-bit NormalFloat, their scales quantised once more,
    and compute in bfloat16 (Dettmers et al. 2023, QLoRA, arXiv:2305.14314); an adapter is not merged, since that would
    round it to 4 bits. Raises ModelError where weights or adapter cannot be read.
    """
    import torch
    from safetensors import SafetensorError
    from transformers import AutoModelForCausalLM, BitsAndBytesConfig
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()
    gc.collect()  # a model that nobody uses any more may still fill the GPU
    merged, wanted = bool(adapter) and quantization == "none", getattr(torch, dtype)
    device = torch.device("cuda", torch.cuda.current_device()) if torch.cuda.is_available() else torch.device("cpu")
    settings: dict[str, Any] = {"dtype": torch.float32 if merged else wanted}
    if quantization == "nf4":
        settings["device_map"] = {"": device}  # quantised as they are read: the whole model never lies there in 16 bits
        how = {"bnb_4bit_quant_type": "nf4", "bnb_4bit_compute_dtype": torch.bfloat16}
        settings["quantization_config"] = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_use_double_quant=True, **how)
    try:
        model: torch.nn.Module = AutoModelForCausalLM.from_pretrained(**models.source(path), **settings)
        if adapter:
            from peft import PeftModel

            with warnings.catch_warnings():
                warnings.simplefilter("ignore", FutureWarning)  # peft asks transformers for a renamed attribute
                adapted = PeftModel.from_pretrained(model, str(adapter), autocast_adapter_dtype=False)  # as in training
                model = adapted.merge_and_unload() if merged else adapted.get_base_model()
    except (OSError, ValueError, KeyError, RuntimeError, SafetensorError) as error:
        raise ModelError(f"model {path}{f' with adapter {adapter}' if adapter else ''}: {error}") from error
    for parameter in model.parameters() if merged else ():  # not `model.to`: the rotary frequencies must stay float32
        parameter.data = parameter.data.to(wanted)
    return (model if quantization == "nf4" else model.to(device)).eval()


def fingerprint(path: str, adapter: str | Path | None = None, quantization: str = "none", base: str = "") -> str:
    """What tells this model from every other: its files' content or, for a hub id, the commit (or `base`); how it is
    quantised; and an adapter's weights and scale, without the record of its training."""
    if quantization not in ("none", "nf4"):
        raise ValueError(f"quantization must be none or nf4, not {quantization!r}")
    if not base and os.path.isdir(path):
        base = models.folder_hash(path)
    elif not base:
        from transformers.utils import cached_file

        hub, _, revision = path.partition("@")
        config = str(cached_file(hub, "config.json", revision=revision or "main"))  # a missing file raises
        base = f"{hub}@{Path(config).parent.name}"
    base += "" if quantization == "none" else f"+{quantization}"
    if not adapter:
        return base
    try:
        settings = json.loads((Path(adapter) / "adapter_config.json").read_text(encoding="utf-8"))
        scale = [settings["r"], settings["lora_alpha"], sorted(settings["target_modules"])]
        return f"{base}+{sha256_of(Path(adapter) / 'adapter_model.safetensors')}+{json.dumps(scale)}"
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ModelError(f"adapter {adapter}: cannot be read: {error}") from error


def weights_of(name: str, adapter: str | Path | None = None, quantization: str = "none") -> str:
    """What answers of a model are kept under: its fingerprint. A registered model in GGUF is told by the published hash
    of its file, so that kept answers are found where it is not on this machine, and whatever it was converted by."""
    known = REGISTRY.get(name)
    if known and known.weights.endswith(".gguf"):
        return fingerprint(name, adapter, quantization, known.files[known.weights])
    return fingerprint(models.locate(name), adapter, quantization)


def choose_dtype(quantization: str = "none") -> str:
    """bfloat16 where the GPU or the processor computes in it, and under nf4, whose layers do anywhere; else float32. A
    timing would choose by how busy the machine is, and answers depend on the choice."""
    return "bfloat16" if quantization == "nf4" or has_bfloat16() else "float32"


def token_ids(tokenizer, prompts: Sequence[str], chat: bool) -> list[list[int]]:
    """Token ids of each prompt, as bare text or as a user's message in the chat template, up to where the model's
    answer begins. Only the template has special tokens: the name of one in a prompt is text, and is tokenised apart, or
    data could end a turn and begin another. Raises ModelError where the model has no chat template."""
    if not chat:
        return tokenizer(list(prompts), split_special_tokens=True)["input_ids"]
    if not tokenizer.chat_template:
        raise ModelError("the model has no chat template: ask it with chat=False")
    plain: dict[str, Any] = {"add_special_tokens": False}
    special = [token.content for token in tokenizer.added_tokens_decoder.values() if token.special]
    mark, tokens = "\ue0000\ue001", []
    for prompt in prompts:
        apart = any(name in prompt for name in special)
        turn = {"role": "user", "content": mark if apart else prompt}
        text = tokenizer.apply_chat_template([turn], tokenize=False, add_generation_prompt=True)
        before, _, after = text.partition(mark) if apart else (text, "", "")
        ids = tokenizer(before, **plain)["input_ids"]
        if apart:
            ids += tokenizer(prompt, split_special_tokens=True, **plain)["input_ids"]
            ids += tokenizer(after, **plain)["input_ids"]
        tokens.append(ids)
    return tokens
