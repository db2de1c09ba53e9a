"""A LoRA layer as one operation: y = x·Wᵀ + scale · (x·Aᵀ)·Bᵀ (Hu et al. 2022, equation 3).

peft computes the same in separate steps, each a pass over the whole output that a CPU's memory has to bear. Here the
adapter's part is added by the matrix product itself, in the forward and in the backward pass.
"""

from __future__ import annotations

import functools

import torch
from peft.tuners.lora import Linear


class LoRALinear(torch.autograd.Function):
    """Gradients go to x, A and B; W and the bias are frozen.

    Shapes: x (…, inputs), W (outputs, inputs), bias (outputs,) or None, A (rank, inputs), B (outputs, rank).
    """

    @staticmethod
    def forward(ctx, x, W, bias, A, B, scale):
        rows = x.flatten(0, -2)
        reduced = rows @ A.t()
        ctx.save_for_backward(rows, reduced, W, A, B)
        ctx.scale = scale
        y = torch.nn.functional.linear(rows, W, bias).addmm_(reduced, B.t(), alpha=scale)
        return y.view(*x.shape[:-1], -1)

    @staticmethod
    def backward(ctx, gradient):
        rows, reduced, W, A, B = ctx.saved_tensors
        of_rows = gradient.flatten(0, -2)
        of_reduced = (of_rows @ B).mul_(ctx.scale)
        of_x = None
        if ctx.needs_input_grad[0]:
            of_x = (of_rows @ W).addmm_(of_reduced, A).view(*gradient.shape[:-1], -1)
        return of_x, None, None, of_reduced.t() @ rows, (of_rows.t() @ reduced).mul_(ctx.scale), None


def use_one_operation(adapted, adapter: str = "default") -> None:
    """Let the plain LoRA layers of a peft model without dropout compute this way; others (quantised ones) stay."""
    for layer in adapted.modules():
        if type(layer) is Linear and type(layer.base_layer) is torch.nn.Linear:
            layer.forward = functools.partial(_forward, layer, adapter)  # type: ignore[method-assign]  # a module calls it


def _forward(layer, adapter, x):
    base, a, b = layer.base_layer, layer.lora_A[adapter], layer.lora_B[adapter]
    return LoRALinear.apply(x, base.weight, base.bias, a.weight, b.weight, layer.scaling[adapter])
