"""Causal attention on a CPU: for training by plain matrix products, for reading long prompts block by block.

PyTorch's kernel, to which training on a GPU is left, is slow on a CPU: of a LoRA step on 8 pairs of 77 tokens in
bfloat16 it takes a third, the products a twentieth. They keep the probabilities for the backward pass, so long batches
are left to PyTorch's kernel, which does not. No mask is built for either: checking whether one is needed makes a GPU
wait.

What follows on a beginning that was read before needs a mask, and under one the kernel computes the scores of future
tokens, too. Block by block they are left out: 6,000 tokens in bfloat16 are read in three fifths of the time.
"""

from __future__ import annotations

import torch
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface
from transformers.integrations.sdpa_attention import repeat_kv, sdpa_attention_forward

from lib.generation.batches import BLOCK

NAME = "causal_products"
READING = "causal_blocks"
KEPT_BYTES = 2 * 2**30  # of probabilities in all layers


def causal_attention(query, key, value, scaling: float):
    """softmax(scaling · query · keyᵀ) · value, each token looking at itself and those before it.

    Args:
        query: (rows, heads, tokens, dimensions).
        key, value: (rows, key-value heads, tokens, dimensions); each serves as many query heads as follow one another.
        scaling: 1 / √dimensions, as a rule.

    Returns:
        as `query`.
    """
    rows, heads, tokens, dimensions = query.shape
    groups = key.shape[1]
    future = torch.full((tokens, tokens), float("-inf"), dtype=query.dtype, device=query.device).triu_(1)
    scores = (query * scaling).reshape(rows, groups, -1, dimensions) @ key.transpose(2, 3)
    probabilities = torch.softmax(scores.view(rows, heads, tokens, tokens) + future, dim=-1)
    return (probabilities.view(rows, groups, -1, tokens) @ value).view(query.shape)


def _forward(module, query, key, value, attention_mask, scaling=None, dropout=0.0, **kwargs):
    rows, heads, tokens, dimensions = query.shape
    kept = rows * heads * tokens**2 * query.element_size() * module.config.num_hidden_layers
    if query.is_cuda or kept > KEPT_BYTES or dropout:
        return sdpa_attention_forward(module, query, key, value, None, dropout=dropout, scaling=scaling, **kwargs)
    attended = causal_attention(query, key, value, dimensions**-0.5 if scaling is None else scaling)
    return attended.transpose(1, 2).contiguous(), None


def use_products(model) -> None:
    """Let a `transformers` model with full attention train this way; its batches must be padded at the end only."""
    AttentionInterface.register(NAME, _forward)  # and no mask under this name: `transformers` makes none then
    model.set_attn_implementation(NAME)


def attention_in_blocks(query, key, value, scaling: float):
    """softmax(scaling · query · keyᵀ) · value, each token looking at itself and those before it.

    Args:
        query: (rows, heads, tokens, dimensions): the last tokens.
        key, value: (rows, key-value heads, columns, dimensions): all tokens, at least as many as of `query`.
        scaling: 1 / √dimensions, as a rule.

    Returns:
        as `query`.
    """
    tokens, before = query.shape[2], key.shape[2] - query.shape[2]
    key, value = (repeat_kv(states, query.shape[1] // key.shape[1]) for states in (key, value))
    past = torch.ones(min(BLOCK, tokens), before + tokens, dtype=torch.bool, device=query.device)
    attended = []
    for start in range(0, tokens, BLOCK):
        end = min(start + BLOCK, tokens)
        seen = past[: end - start, : before + end].tril(before + start)
        attended.append(
            scaled_dot_product_attention(
                query[:, :, start:end], key[:, :, : before + end], value[:, :, : before + end], seen, scale=scaling
            )
        )
    return torch.cat(attended, dim=2)


def _read(module, query, key, value, attention_mask, scaling=None, dropout=0.0, **kwargs):
    tokens = query.shape[2]
    if attention_mask is not None or tokens == 1 or tokens == key.shape[2] or dropout:
        return sdpa_attention_forward(
            module, query, key, value, attention_mask, dropout=dropout, scaling=scaling, **kwargs
        )
    attended = attention_in_blocks(query, key, value, query.shape[3] ** -0.5 if scaling is None else scaling)
    return attended.transpose(1, 2).contiguous(), None


def use_blocks(model) -> None:
    """Let a `transformers` model with full attention read prompts this way; masks of other steps must be given whole,
    one value for each row and column."""
    AttentionInterface.register(READING, _read)  # and no mask under this name: `transformers` makes none then
    model.set_attn_implementation(READING)
