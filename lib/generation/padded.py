"""Decoding a batch on a GPU: prompts are read side by side, and a step is recorded once and replayed.

Rows begin at the first column and are padded at the end, so that reading needs no mask: a token looks back only. A step
writes each row's token at the row's own column, over what padding left there. Nothing of this needs a GPU, so that it
can be compared with `lib.generation.decoding` on a CPU, where reading prompts one by one is faster.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

import torch
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface
from transformers.cache_utils import Cache, CacheLayerMixin
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import AttentionMaskInterface, sdpa_mask

from lib.generation.batches import Prompt
from lib.generation.constrained import Constraint
from lib.generation.decoding import Answers, Columns, Sampler, clock, empty_columns

log = logging.getLogger(__name__)

NAME = "grouped"
READ_TOKENS = 32_768  # read in one pass at most, padding included; more is no faster
PADDING = 0.25  # of a pass at most
READ_BACK = 8  # steps between two looks at the answers: each look waits for the GPU
WORTH_RECORDING = 16  # steps; a recording costs about as much as a few of them
ALIGNED = 64  # columns are a multiple of it, as fast attention kernels want masks


def grouped_attention(module, query, key, value, attention_mask, scaling=None, dropout=0.0, **kwargs):
    """Attention of one token a row, without repeating keys and values for the query heads that share them.

    The heads of a group become the queries of one head: they look at the same columns, under the same mask.

    Args:
        query: (rows, heads, tokens, dimensions).
        key, value: (rows, key-value heads, columns, dimensions).
        attention_mask: added to scores, (rows, 1, 1, columns), or None for a whole prompt.

    Returns:
        (rows, tokens, heads, dimensions) and no weights.
    """
    rows, heads, tokens, dimensions = query.shape
    if tokens > 1 or attention_mask is None:
        return sdpa_attention_forward(
            module, query, key, value, attention_mask, dropout=dropout, scaling=scaling, **kwargs
        )
    grouped = query.reshape(rows, key.shape[1], -1, dimensions)
    mask = attention_mask.expand(-1, key.shape[1], grouped.shape[2], -1)
    attended = scaled_dot_product_attention(grouped, key, value, attn_mask=mask, scale=scaling)
    return attended.reshape(rows, 1, heads, dimensions), None


def use_grouped(model) -> None:
    """Let a `transformers` model with full attention decode this way."""
    AttentionInterface.register(NAME, grouped_attention)
    AttentionMaskInterface.register(NAME, sdpa_mask)
    model.set_attn_implementation(NAME)


class Slots(CacheLayerMixin):
    """One layer's keys and values while rows are continued: a step writes each row's token at the row's own column.

    Attributes:
        keys, values: (rows, heads, columns, dimensions); attention gets all columns.
        positions: the column of each row, (rows,), shared by all layers.
    """

    keys: torch.Tensor
    values: torch.Tensor

    def __init__(self, keys: torch.Tensor, values: torch.Tensor, positions: torch.Tensor):
        super().__init__()
        self.keys, self.values, self.positions = keys, values, positions
        self.rows = torch.arange(len(keys), device=keys.device)
        self.dtype, self.device, self.is_initialized = keys.dtype, keys.device, True

    def lazy_initialization(self, key_states, value_states):
        pass

    def update(self, key_states, value_states, *args, **kwargs):
        self.keys[self.rows, :, self.positions] = key_states[:, :, 0]
        self.values[self.rows, :, self.positions] = value_states[:, :, 0]
        return self.keys, self.values

    def get_mask_sizes(self, query_length):
        return self.keys.shape[2], 0

    def get_seq_length(self):
        return self.keys.shape[2] - 1

    def get_max_length(self):
        return -1


class Steps:
    """The logits (rows, vocabulary) after the last token of each row; on a GPU recorded as a graph, where that works.

    Attributes:
        recorded: whether a step is replayed.
    """

    def __init__(self, model, layers: Sequence[Columns], steps: int):
        """`layers`: buffers of all rows; `steps`: how many are expected."""
        rows, _, columns, _ = layers[0].keys.shape
        self.model = model
        self.tokens = torch.zeros(rows, dtype=torch.long, device=model.device)
        self.positions = torch.zeros_like(self.tokens)
        self.columns = torch.arange(columns, device=model.device)
        self.cache = Cache(layers=[Slots(layer.keys, layer.values, self.positions) for layer in layers])
        self.graph: torch.cuda.CUDAGraph | None = None
        self.logits: torch.Tensor | None = None
        self.recorded = False
        self._untried = model.device.type == "cuda" and steps >= WORTH_RECORDING

    def __call__(self, tokens: torch.Tensor, positions: torch.Tensor):
        """Logits that the next call overwrites, after `tokens` (rows,) at `positions` (rows,)."""
        self.tokens.copy_(tokens)
        self.positions.copy_(positions)
        if self._untried:
            self._record()
        if self.graph is None:
            return self._forward()
        self.graph.replay()
        return self.logits

    def _forward(self) -> torch.Tensor:
        later = self.columns > self.positions[:, None]
        mask = torch.zeros(later.shape, dtype=self.model.dtype, device=later.device)
        return self.model(
            self.tokens[:, None],
            attention_mask=mask.masked_fill_(later, float("-inf"))[:, None, None],
            position_ids=self.positions[:, None],
            past_key_values=self.cache,
            use_cache=True,
            logits_to_keep=1,
        ).logits[:, -1]

    def _record(self) -> None:
        """A step may be run any number of times: it writes the same at the same place."""
        self._untried = False
        try:
            aside = torch.cuda.Stream()
            aside.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(aside):  # libraries set themselves up in the first steps, which no graph may hold
                for _ in range(2):
                    self._forward()
            torch.cuda.current_stream().wait_stream(aside)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                self.logits = self._forward()
            self.graph, self.recorded = graph, True
        except RuntimeError as error:
            log.warning("a decoding step could not be recorded, so its kernels are launched one by one: %s", error)


class PaddedBatch:
    """One batch of prompts while it is answered; see the module."""

    def __init__(self, model, tokenizer, prompts: Sequence[Prompt]):
        """`prompts`: of like length side by side; what they share is read with each of them."""
        self.model, self.tokenizer, self.prompts = model, tokenizer, prompts
        self.recorded = 0  # graphs

    def run(
        self, max_new_tokens: int, stop: Sequence[str], sampler: Sampler, constraint: Constraint | None = None
    ) -> tuple[list[list[int]], list[bool], list[float]]:
        """As `lib.generation.decoding.Batch.run`."""
        answers = Answers(self.model, self.tokenizer, self.prompts, stop, sampler, constraint)
        width = max(len(prompt.tokens) for prompt in self.prompts)
        layers = empty_columns(self.model, len(self.prompts), -(-(width + max_new_tokens) // ALIGNED) * ALIGNED)
        seconds = self._read_prompts(layers)
        rows = list(range(len(self.prompts)))  # which prompt a row of the buffers belongs to
        # The last token of a prompt is left to the first step, which gives what comes after it.
        tokens = torch.tensor([prompt.tokens[-1] for prompt in self.prompts], device=self.model.device)
        positions = torch.tensor([len(prompt.tokens) - 1 for prompt in self.prompts], device=self.model.device)
        steps = Steps(self.model, layers, max_new_tokens)
        done = 0
        while answers.open and done < max_new_tokens:
            started, waiting = clock(self.model), sorted(answers.open)
            # A grammar must know each token before it says what may follow.
            ahead = 1 if constraint else min(READ_BACK, max_new_tokens - done)
            chosen = []
            for _ in range(ahead):
                logits = steps(tokens, positions)
                if constraint:  # while the GPU is at the step
                    logits = constraint(logits, [row if row in answers.open else None for row in rows])
                tokens, positions = sampler(logits), positions + 1
                chosen.append(tokens)
            done += ahead
            for row, said in zip(rows, torch.stack(chosen, dim=1).tolist(), strict=True):
                for token in said:
                    if row in answers.open:
                        answers.add(row, token)
            spent = (clock(self.model) - started) / len(waiting)
            for row in waiting:
                seconds[row] += spent
            if 2 * len(answers.open) <= len(rows) and answers.open:  # another recording must pay
                keep = torch.tensor([i for i, row in enumerate(rows) if row in answers.open], device=self.model.device)
                rows = [row for row in rows if row in answers.open]
                self.recorded += steps.recorded
                del steps, logits  # and what the recording holds
                for layer in layers:
                    layer.select(keep)
                tokens, positions = tokens[keep], positions[keep]
                steps = Steps(self.model, layers, max_new_tokens - done)
        self.recorded += steps.recorded
        return answers.outputs, answers.ended, seconds

    def _read_prompts(self, layers: Sequence[Columns]) -> list[float]:
        """Fill the columns of all tokens but the last of each prompt; the seconds that each took, by its tokens."""
        seconds = [0.0] * len(self.prompts)
        for start, end in plan_reading([len(prompt.tokens) - 1 for prompt in self.prompts]):
            started = clock(self.model)
            ids = [prompt.tokens[:-1] for prompt in self.prompts[start:end]]
            width = max(map(len, ids))
            if width:
                padded = torch.tensor([row + [0] * (width - len(row)) for row in ids], device=self.model.device)
                views = [Columns(layer.keys[start:end], layer.values[start:end], 0) for layer in layers]
                self.model(padded, past_key_values=Cache(layers=[*views]), use_cache=True, logits_to_keep=1)
            spent, all_tokens = clock(self.model) - started, sum(map(len, ids))
            for row, own in enumerate(ids, start):
                seconds[row] = spent * len(own) / max(all_tokens, 1)
        return seconds


def plan_reading(lengths: Sequence[int]) -> list[tuple[int, int]]:
    """Which neighbouring rows are read in one pass, from and to: with little padding, and `READ_TOKENS` at most."""
    passes: list[tuple[int, int]] = []
    start = 0
    for end in range(1, len(lengths) + 1):
        more = lengths[start : end + 1]
        padded = max(more, default=0) * len(more)
        if end == len(lengths) or padded > READ_TOKENS or padded - sum(more) > PADDING * padded:
            passes.append((start, end))
            start = end
    return passes


def free_bytes() -> int:
    """Bytes that one batch's keys and values may take on the GPU: half of what is free, down to a power of two, so that
    little things beside it do not change which prompts are answered together. 4 GiB where there is no GPU."""
    if not torch.cuda.is_available():
        return 4 * 2**30
    free, _ = torch.cuda.mem_get_info()
    free += torch.cuda.memory_reserved() - torch.cuda.memory_allocated()  # held by PyTorch for what comes next
    return 2 ** ((free // 2).bit_length() - 1)
