"""Causal attention for training: on a CPU by plain matrix products, on a GPU by PyTorch's kernel.

PyTorch's kernel is slow on a CPU: of a LoRA step on 8 pairs of 77 tokens in bfloat16 it takes a third, the products a
twentieth. They keep the probabilities for the backward pass, so long batches are left to PyTorch's kernel, which does
not. No mask is built for either: checking whether one is needed makes a GPU wait.
"""

from __future__ import annotations

import torch
from transformers import AttentionInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward

NAME = "causal_products"
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
