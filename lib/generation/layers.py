"""What a transformer's layers do where PyTorch's own way is slow: reading on, products in bfloat16 on a CPU."""

from __future__ import annotations

import functools

import torch
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface
from transformers.integrations.sdpa_attention import repeat_kv, sdpa_attention_forward

NAME = "causal_blocks"
BLOCK = 256  # tokens after a cut that look back together


def use_attention(model) -> None:
    """Let a `transformers` model with full attention read on from what was read before block by block: PyTorch's kernel
    needs a mask, and computes the scores of future tokens, too; without them, 6,000 tokens are read in three fifths of
    the time. Batches must be given a whole mask: `transformers` makes none under this name."""

    def attend(module, query, key, value, attention_mask, scaling=None, **kwargs):
        if attention_mask is not None or not 1 < query.shape[2] < key.shape[2]:
            return sdpa_attention_forward(module, query, key, value, attention_mask, scaling=scaling, **kwargs)
        scale = query.shape[3] ** -0.5 if scaling is None else scaling
        return attention_in_blocks(query, key, value, scale).transpose(1, 2).contiguous(), None

    AttentionInterface.register(NAME, attend)
    model.set_attn_implementation(NAME)


def attention_in_blocks(query, key, value, scaling: float):
    """softmax(scaling · query · keyᵀ) · value, (rows, heads, tokens, dimensions), each token looking at itself and at
    those before it; `key` and `value` have columns before those of `query`, which all tokens look at, and fewer heads,
    each of which serves as many query heads as follow one another."""
    tokens, before = query.shape[2], key.shape[2] - query.shape[2]
    key, value = (repeat_kv(states, query.shape[1] // key.shape[1]) for states in (key, value))
    past, attended = torch.ones(min(BLOCK, tokens), key.shape[2], dtype=torch.bool, device=query.device), []
    for start in range(0, tokens, BLOCK):
        end = min(start + BLOCK, tokens)
        seen, known = past[: end - start, : before + end].tril(before + start), slice(0, before + end)
        block = query[:, :, start:end], key[:, :, known], value[:, :, known]
        attended.append(scaled_dot_product_attention(*block, seen, scale=scaling))
    return torch.cat(attended, dim=2)


def pack(model) -> list:
    """Let the linear layers of a model that only answers multiply with weights in the order in memory in which the
    processor multiplies them: the same products in bfloat16 to the last bit, in half the time of decoding. Returns
    those layers, whose own weights are let go of: none where the processor does not multiply in bfloat16."""
    if not (torch.backends.mkldnn.is_available() and torch.ops.mkldnn._is_mkldnn_bf16_supported()):
        return []

    def forward(weight, bias, inputs):
        return torch.ops.mkldnn._linear_pointwise(inputs.to(weight.dtype), weight, bias, "none", [], "")

    layers = [layer for layer in model.modules() if type(layer) is torch.nn.Linear and not layer.weight.is_cuda]
    for layer in layers:
        weight = torch.ops.mkldnn._reorder_linear_weight(layer.weight.detach().to(torch.bfloat16))
        bias = None if layer.bias is None else layer.bias.detach().to(torch.bfloat16)
        vars(layer)["forward"] = functools.partial(forward, weight, bias)
        # an embedding that shares the weight keeps it
        layer.weight = torch.nn.Parameter(torch.empty(0, dtype=weight.dtype), requires_grad=False)
    return layers
