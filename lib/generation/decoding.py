"""Decoding prompts in batches: each prompt is read without padding, what several begin with once, then all are
continued together.

Batches and shared beginnings are functions of the prompts of a call that are computed: in bfloat16 an answer depends on
the batch it was computed in and on where its prompt was cut.

Grammars are Lark text in llguidance's dialect. llguidance follows a text byte by byte, so that a token may begin or end
anywhere within a terminal. Where a grammar leaves one way to go on, it only allows the tokenizer's own tokens for that.
"""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from llguidance import LLExecutor, LLMatcher, LLTokenizer
from llguidance.hf import from_tokenizer
from llguidance.numpy import allocate_token_bitmask, fill_next_token_bitmask_par
from transformers.cache_utils import Cache, CacheLayerMixin

SHORTEST_PREFIX = 16  # tokens; below it, reading what all prompts share apart costs more than it saves
LEAST_PADDING = 256  # tokens; less is not worth a batch
SHORTEST_GROUP_PREFIX = 256  # below it, batches of prompts of like length save more than groups do
# An answer stops that ends in so many times one cycle of so many tokens at most, of so many in all at least: small
# models say the same line until they are cut off. No right flow comes near it.
REPEATS = {"times": 4, "cycle": 64, "tokens": 48}


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt of a batch: its tokens, where they are cut (see `shared_prefixes`), the grammar of the answer or ""."""

    tokens: list[int]
    cuts: tuple[int, ...] = ()
    grammar: str = ""


class GrammarError(ValueError):
    """A grammar that cannot be compiled or followed."""


def vocabulary(tokenizer, size: int, ends: Iterable[int]) -> LLTokenizer:
    """A fast `transformers` tokenizer as llguidance wants it, which takes about a second; `size` is of the model's
    output, `ends` are the tokens that end an answer: masks have them where the grammar is complete, and only there."""
    return from_tokenizer(tokenizer, n_vocab=size, eos_token=sorted(ends))


class Grammar:
    """A grammar compiled for a vocabulary. Raises GrammarError where the text is none; says the place."""

    def __init__(self, text: str, tokens: LLTokenizer):
        self.tokens = tokens
        self._start = LLMatcher(tokens, text, log_level=0)
        raise_fault(self._start)

    def matcher(self) -> LLMatcher:
        """A matcher at the beginning of a text."""
        return self._start.deep_copy()

    def accepts(self, text: str) -> bool:
        """Whether a text is complete under the grammar."""
        # not the tokenizer's own way, which takes the name of a special token for the token
        ids, matcher = self.tokens.greedy_tokenize(text), self.matcher()
        return matcher.try_consume_tokens(ids) == len(ids) and matcher.is_accepting()


def raise_fault(matcher: LLMatcher) -> None:
    """Matchers never raise: they keep their error and go on."""
    if matcher.is_error():
        raise GrammarError(f"a grammar that cannot be followed: {matcher.get_error().strip()}")


class Constraint:
    """What each row of a batch may say next; without a grammar it may say anything. `threads` compute masks."""

    def __init__(self, grammars: Sequence[Grammar | None], threads: int):
        self.matchers = [grammar.matcher() if grammar else None for grammar in grammars]
        self.executor = LLExecutor(num_threads=threads)

    def __call__(self, logits: torch.Tensor, rows: Sequence[int | None]) -> torch.Tensor:
        """Logits (rows, vocabulary) with -infinity at the tokens that may not come next; `rows` are the rows of the
        batch that they continue, None for finished ones. Raises GrammarError for a grammar too ambiguous to follow."""
        bits = allocate_token_bitmask(*logits.shape)  # all tokens allowed
        under = [(self.matchers[row], i) for i, row in enumerate(rows) if row is not None]
        if wanted := [(matcher, i) for matcher, i in under if matcher]:
            fill_next_token_bitmask_par(self.executor, wanted, bits)
        for matcher, _ in wanted:
            raise_fault(matcher)
        allowed = np.unpackbits(bits.view(np.uint8), axis=1, count=logits.shape[1], bitorder="little").view(bool)
        return logits.masked_fill(~torch.from_numpy(allowed).to(logits.device), float("-inf"))

    def advance(self, row: int, token: int) -> bool:
        """Note the token that a row went on with; returns whether its text is complete and nothing can follow."""
        if not (matcher := self.matchers[row]):
            return False
        matcher.consume_token(token)
        raise_fault(matcher)
        return matcher.is_stopped()


class Columns(CacheLayerMixin):
    """One layer's keys and values (rows, heads, columns, dimensions), written into given tensors of which `length`
    columns are filled; attention gets views of these."""

    keys: torch.Tensor
    values: torch.Tensor

    def __init__(self, keys: torch.Tensor, values: torch.Tensor, length: int):
        super().__init__()
        self.keys, self.values, self.length = keys, values, length
        self.dtype, self.device, self.is_initialized = keys.dtype, keys.device, True

    def lazy_initialization(self, key_states, value_states):
        pass

    def update(self, key_states, value_states, *args, **kwargs):
        start, self.length = self.length, self.length + key_states.shape[2]
        self.keys[:, :, start : self.length] = key_states
        self.values[:, :, start : self.length] = value_states
        return self.keys[:, :, : self.length], self.values[:, :, : self.length]

    def get_mask_sizes(self, query_length):
        return self.length + query_length, 0

    def get_seq_length(self):
        return self.length

    def get_max_length(self):
        return -1


def heads_of(config) -> tuple[int, int]:
    """Key-value heads and dimensions of a head."""
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    return heads, getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads


def bytes_per_token(config, dtype: str) -> int:
    """Bytes of keys and values that one token takes in all layers."""
    return 2 * config.num_hidden_layers * math.prod(heads_of(config)) * (4 if dtype == "float32" else 2)


def empty_columns(model, rows: int, columns: int, filled: int = 0) -> list[Columns]:
    """Buffers (rows, heads, columns, dimensions) of all layers."""
    heads, dimensions = heads_of(model.config)
    shape, like = (2, rows, heads, columns, dimensions), {"dtype": model.dtype, "device": model.device}
    both = [torch.zeros(shape, **like) for _ in range(model.config.num_hidden_layers)]
    return [Columns(keys, values, filled) for keys, values in both]


def read_tokens(model, ids: Sequence[int], layers: list[Columns]):
    """Read one row's tokens into its columns; returns the logits (1, vocabulary) after the last."""
    tokens = torch.tensor([ids], device=model.device)
    return model(tokens, past_key_values=Cache(layers=[*layers]), use_cache=True, logits_to_keep=1).logits[:, -1]


class Prefixes:
    """Keys and values of the beginnings that prompts share, the longest of so many `columns`, each part read once. One
    buffer (1, heads, columns, dimensions) a layer holds what the last prompt shared with others; what the next one has
    in common with that stays."""

    def __init__(self, columns: int):
        self.columns, self.layers = columns, list[Columns]()
        self.ids, self.cuts = list[int](), tuple[int, ...]()

    def read(self, model, ids: list[int], cuts: tuple[int, ...]) -> list[tuple]:
        """Keys and values of each layer for `ids[:cuts[-1]]`; what lies between two cuts is read in one pass, so that
        they do not depend on what was read before."""
        self.layers = self.layers or empty_columns(model, 1, self.columns)
        known = parts = 0
        for cut, held in zip(cuts, self.cuts, strict=False):
            if cut != held or ids[known:cut] != self.ids[known:cut]:
                break
            known, parts = cut, parts + 1
        for cut in cuts[parts:]:
            views = [Columns(layer.keys[:, :, :cut], layer.values[:, :, :cut], known) for layer in self.layers]
            read_tokens(model, ids[known:cut], views)
            known = cut
        self.ids, self.cuts = ids, cuts
        return [(layer.keys[:, :, :known], layer.values[:, :, :known]) for layer in self.layers]


class GrowingAnswers:
    """The answers of a batch while they grow: `outputs`, the token ids of each, the ending one included; the rows that
    are `open`; of each row, whether it `ended` by itself."""

    def __init__(self, model, tokenizer, prompts: Sequence[Prompt], stop: Sequence[str], temperature: float, seed: str):
        self.tokenizer, self.temperature = tokenizer, temperature
        self.generator = torch.Generator()
        self.generator.manual_seed(int.from_bytes(hashlib.sha256(seed.encode()).digest()[:7]))
        self.ends, self.texts = stop_tokens(model, tokenizer, stop)
        self.tail = max((4 * len(text.encode()) + 8 for text in self.texts), default=0)
        # Draws may leave a cycle, and a grammar bounds what repeats and then goes on.
        self.endless = [not temperature and not prompt.grammar for prompt in prompts]
        self.outputs: list[list[int]] = [[] for _ in prompts]
        self.open, self.ended = set(range(len(prompts))), [False] * len(prompts)

    def choose(self, logits: torch.Tensor) -> torch.Tensor:
        """The next token of each row: the likeliest, or a seeded draw."""
        if not self.temperature:
            return logits.argmax(dim=-1)
        probabilities = torch.softmax(logits.float().cpu() / self.temperature, dim=-1)
        return torch.multinomial(probabilities, 1, generator=self.generator)[:, 0].to(logits.device)

    def add(self, row: int, token: int, constraint: Constraint | None) -> None:
        """Append a token to an open row; the row is closed where its answer ends, or repeats itself endlessly."""
        output = self.outputs[row]
        output.append(token)
        end = self.tokenizer.decode(output[-self.tail :], skip_special_tokens=True) if self.tail else ""
        stopped = token in self.ends or any(text in end for text in self.texts)
        self.ended[row] = stopped or bool(constraint and constraint.advance(row, token))
        if self.ended[row] or (self.endless[row] and repeats(output)):
            self.open.discard(row)


def repeats(output: Sequence[int]) -> bool:
    """Whether an answer ends in one cycle of tokens, said again and again."""
    least, shortest, longest = REPEATS["times"], REPEATS["tokens"], REPEATS["cycle"]
    for cycle in range(1, min(longest, len(output) // least) + 1):
        if output[-1] == output[-1 - cycle]:  # most cycles fail here
            tokens = max(least * cycle, shortest)
            if len(output) >= tokens and output[cycle - tokens :] == output[-tokens:-cycle]:
                return True
    return False


def decode(
    model,
    tokenizer,
    prompts: Sequence[Prompt],
    prefixes: Prefixes,
    max_new_tokens: int,
    stop: Sequence[str],
    temperature: float,
    seed: str,
    constraint: Constraint | None,
) -> list[tuple[list[int], bool]]:
    """Of each prompt of a batch the token ids of its answer, the ending token included, and whether it ended by itself.

    Keys and values lie in buffers of the final size. Prompts end at the same column, so that a step writes one column
    for all rows; a mask hides the empty columns before short prompts.
    """
    device, answers = model.device, GrowingAnswers(model, tokenizer, prompts, stop, temperature, seed)
    width = max(len(prompt.tokens) for prompt in prompts)
    layers, logits = empty_columns(model, len(prompts), width + max_new_tokens, width), list[torch.Tensor]()
    for row, prompt in enumerate(prompts):
        start, prefix = width - len(prompt.tokens), prompt.cuts[-1] if prompt.cuts else 0
        place = slice(row, row + 1), slice(None), slice(start, None)
        views = [Columns(layer.keys[place], layer.values[place], prefix) for layer in layers]
        for view, (keys, values) in zip(views, prefixes.read(model, prompt.tokens, prompt.cuts), strict=True):
            view.keys[:, :, :prefix], view.values[:, :, :prefix] = keys, values
        logits.append(read_tokens(model, prompt.tokens[prefix:], views))
    following, cache = torch.cat(logits), Cache(layers=[*layers])

    lengths = torch.tensor([len(prompt.tokens) for prompt in prompts], device=device)
    empty = torch.arange(width + max_new_tokens, device=device)[None] < (width - lengths)[:, None]
    mask = torch.zeros(empty.shape, dtype=model.dtype, device=device).masked_fill_(empty, float("-inf"))[:, None, None]
    rows = list(range(len(prompts)))  # which prompt a row of the buffers belongs to
    for step in range(max_new_tokens):
        if constraint:
            following = constraint(following, [row if row in answers.open else None for row in rows])
        chosen = answers.choose(following)
        for row, token in zip(rows, chosen.tolist(), strict=True):
            if row in answers.open:
                answers.add(row, token, constraint)
        if not answers.open or step + 1 == max_new_tokens:
            break
        if 4 * len(answers.open) <= 3 * len(rows):  # finished rows cost as much as others; so does moving the rest
            keep = torch.tensor([i for i, row in enumerate(rows) if row in answers.open], device=device)
            rows = [row for row in rows if row in answers.open]
            for layer in layers:
                layer.keys, layer.values = layer.keys[keep], layer.values[keep]
            mask, lengths, chosen = mask[keep], lengths[keep], chosen[keep]
        seen = {"attention_mask": mask[..., : width + step + 1], "position_ids": (lengths + step)[:, None]}
        read = model(chosen[:, None], **seen, past_key_values=cache, use_cache=True, logits_to_keep=1)
        following = read.logits[:, -1]
    return list(zip(answers.outputs, answers.ended, strict=True))


def stop_tokens(model, tokenizer, stop: Sequence[str]) -> tuple[frozenset[int], list[str]]:
    """Ids that end an answer (the model's own, and special tokens named in `stop`), and the texts that do."""
    own = getattr(model.generation_config, "eos_token_id", None)
    own = own if isinstance(own, list) else [own]
    special = {token.content: i for i, token in tokenizer.added_tokens_decoder.items() if token.special}
    ids = [*own, tokenizer.eos_token_id, *(special[text] for text in stop if text in special)]
    return frozenset(i for i in ids if i is not None), [text for text in stop if text not in special]


def answer_text(tokenizer, output: list[int], stop: Sequence[str]) -> str:
    """The answer's text, cut before the earliest stop text."""
    text = tokenizer.decode(output, skip_special_tokens=True)
    return text[: min([len(text), *(text.find(end) for end in stop if end in text)])]


def shared_prefixes(tokens: Sequence[list[int]]) -> list[tuple[int, ...]]:
    """Where each prompt is cut: the lengths of its beginnings that are read once for several prompts, shortest first:
    what all begin with, what groups of them share beyond, and so on. Each keeps at least one token of its own."""
    order = sorted(range(len(tokens)), key=lambda i: tokens[i])
    common = []
    for left, right in itertools.pairwise([tokens[i] for i in order]):
        limit = min(len(left), len(right)) - 1
        common.append(next((i for i in range(limit) if left[i] != right[i]), limit))
    cuts: list[tuple[int, ...]] = [()] * len(tokens)
    groups = [(0, len(order), SHORTEST_PREFIX)]  # neighbours in lexicographic order, from and to
    while groups:
        start, stop, shortest = groups.pop()
        if stop - start < 2:
            continue
        shared, known = min(common[start : stop - 1]), cuts[order[start]]
        if shared - sum(known[-1:]) >= shortest:
            # What follows on a cut is read at two thirds of the rate, so groups read a short beginning again.
            known = tuple(cut for cut in known if cut >= SHORTEST_GROUP_PREFIX)
            for i in order[start:stop]:
                cuts[i] = (*known, shared)
        edges = [start, *(i + 1 for i in range(start, stop - 1) if common[i] == shared), stop]
        groups += [(left, right, SHORTEST_GROUP_PREFIX) for left, right in itertools.pairwise(edges)]
    return cuts


def plan_batches(
    names: Sequence[tuple[str, ...]],
    tokens: Sequence[Sequence[int]],
    cuts: Sequence[tuple[int, ...]],
    batch_size: int,
    new_tokens: int,
    tokens_per_batch: int,
) -> list[list[int]]:
    """Batches of row numbers, longest prompts first, prompts with a shared beginning side by side. They do not depend
    on the order of the prompts. A row takes the room of the longest one of its batch, so one that is less than half as
    long (and by more than a few tokens) begins the next batch. `names` tell each of the (n,) prompts from every other;
    `tokens_per_batch` bounds rows times the longest with its `new_tokens`, but one row there is.
    """
    rank = [(-len(ids), name) for ids, name in zip(tokens, names, strict=True)]
    first: dict[tuple[int, ...], tuple] = {}  # of the prompts with a beginning, the one that comes first
    beginnings = [[tuple(ids[:cut]) for cut in ends] for ids, ends in zip(tokens, cuts, strict=True)]
    for i, shared in enumerate(beginnings):
        for beginning in shared:
            first[beginning] = min(first.get(beginning, rank[i]), rank[i])
    batches, longest = list[list[int]](), 0
    for i in sorted(range(len(names)), key=lambda i: [*(first[beginning] for beginning in beginnings[i]), rank[i]]):
        own, rows = len(tokens[i]) + new_tokens, len(batches[-1]) if batches else batch_size
        longest = max(longest, own)
        full = rows == batch_size or (rows + 1) * longest > tokens_per_batch
        if full or longest - own > max(own, LEAST_PADDING):
            batches.append([])
            longest = own
        batches[-1].append(i)
    return batches
