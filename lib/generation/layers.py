"""What a transformer's layers do where PyTorch's own way is slow on a CPU: attention, LoRA, products in bfloat16.

Training on short texts: of a LoRA step on 8 pairs of 77 tokens in bfloat16, PyTorch's attention kernel takes a third,
plain products a twentieth; they keep the probabilities for the backward pass, so long batches are left to the kernel.
Reading on from a beginning that was read before: the kernel needs a mask, and computes the scores of future tokens,
too; block by block they are left out, and 6,000 tokens are read in three fifths of the time.
"""

from __future__ import annotations

import functools

import torch
from peft.tuners.lora import Linear
from torch.nn.functional import linear, scaled_dot_product_attention
from transformers import AttentionInterface
from transformers.integrations.sdpa_attention import repeat_kv, sdpa_attention_forward

NAME = "causal_blocks"
BLOCK = 256  # tokens after a cut that look back together
KEPT_BYTES = 2 * 2**30  # of probabilities in all layers


def use_attention(model) -> None:
    """Let a `transformers` model with full attention attend this way. Batches must be padded at the end only, or be
    given a whole mask, one value for each row and column: `transformers` makes none under this name."""
    AttentionInterface.register(NAME, _attend)
    model.set_attn_implementation(NAME)


def _attend(module, query, key, value, attention_mask, scaling=None, dropout=0.0, **kwargs):
    (rows, heads, tokens, dimensions), columns = query.shape, key.shape[2]
    scale = dimensions**-0.5 if scaling is None else scaling
    kept = rows * heads * tokens**2 * query.element_size() * module.config.num_hidden_layers
    if attention_mask is None and not dropout and 1 < tokens < columns:
        attended = attention_in_blocks(query, key, value, scale)
    elif module.training and not (query.is_cuda or dropout or kept > KEPT_BYTES):
        attended = causal_attention(query, key, value, scale)
    else:
        return sdpa_attention_forward(
            module, query, key, value, attention_mask, dropout=dropout, scaling=scaling, **kwargs
        )
    return attended.transpose(1, 2).contiguous(), None


def causal_attention(query, key, value, scaling: float):
    """softmax(scaling · query · keyᵀ) · value, each token looking at itself and those before it, (rows, heads, tokens,
    dimensions); each of the key-value heads serves as many query heads as follow one another."""
    rows, heads, tokens, _ = query.shape
    future = torch.full((tokens, tokens), float("-inf"), dtype=query.dtype, device=query.device).triu_(1)
    scores = (query * scaling).reshape(rows, key.shape[1], -1, query.shape[3]) @ key.transpose(2, 3)
    probabilities = torch.softmax(scores.view(rows, heads, tokens, tokens) + future, dim=-1)
    return (probabilities.view(rows, key.shape[1], -1, tokens) @ value).view(query.shape)


def attention_in_blocks(query, key, value, scaling: float):
    """As `causal_attention`; `key` and `value` may have columns before those of `query`, which all tokens look at."""
    tokens, before = query.shape[2], key.shape[2] - query.shape[2]
    key, value = (repeat_kv(states, query.shape[1] // key.shape[1]) for states in (key, value))
    past, attended = torch.ones(min(BLOCK, tokens), key.shape[2], dtype=torch.bool, device=query.device), []
    for start in range(0, tokens, BLOCK):
        end = min(start + BLOCK, tokens)
        seen, known = past[: end - start, : before + end].tril(before + start), slice(0, before + end)
        block = query[:, :, start:end], key[:, :, known], value[:, :, known]
        attended.append(scaled_dot_product_attention(*block, seen, scale=scaling))
    return torch.cat(attended, dim=2)


class LoRALinear(torch.autograd.Function):
    """A LoRA layer as one operation, y = x·Wᵀ + scale · (x·Aᵀ)·Bᵀ (Hu et al. 2022, equation 3): the adapter's part is
    added by the matrix product itself, in the backward pass too. Gradients go to x, A and B; W and the bias are frozen.

    Shapes: x (…, inputs), W (outputs, inputs), bias (outputs,) or None, A (rank, inputs), B (outputs, rank).
    """

    @staticmethod
    def forward(ctx, x, W, bias, A, B, scale):
        rows = x.flatten(0, -2)
        reduced = rows @ A.t()
        ctx.save_for_backward(rows, reduced, W, A, B)
        ctx.scale = scale
        return linear(rows, W, bias).addmm_(reduced, B.t(), alpha=scale).view(*x.shape[:-1], -1)

    @staticmethod
    def backward(ctx, gradient):
        rows, reduced, W, A, B = ctx.saved_tensors
        of_rows, of_x = gradient.flatten(0, -2), None
        of_reduced = (of_rows @ B).mul_(ctx.scale)
        if ctx.needs_input_grad[0]:
            of_x = (of_rows @ W).addmm_(of_reduced, A).view(*gradient.shape[:-1], -1)
        return of_x, None, None, of_reduced.t() @ rows, (of_rows.t() @ reduced).mul_(ctx.scale), None


def use_one_operation(adapted) -> None:
    """Let the plain LoRA layers of a peft model without dropout compute this way; others (quantised ones) stay."""

    def forward(layer, x):
        base, a, b = layer.base_layer, layer.lora_A["default"], layer.lora_B["default"]
        return LoRALinear.apply(x, base.weight, base.bias, a.weight, b.weight, layer.scaling["default"])

    for layer in adapted.modules():
        if type(layer) is Linear and type(layer.base_layer) is torch.nn.Linear:
            layer.forward = functools.partial(forward, layer)  # a module calls it


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
