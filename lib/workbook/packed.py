"""Linear layers of a model that only answers, in the order in memory in which a processor multiplies them.

A step of decoding multiplies all weights with a few rows, an encoder with a few hundred. Weights in the order of their
file are brought into the processor's own order each time, which takes a step as long as the products, and under
autocast they are rounded each time as well.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator


def pack(model, for_good: bool = False, dtype: str = "bfloat16") -> list:
    """Let the linear layers of a model multiply with weights that are rounded and ordered once, without gradients: in
    bfloat16 the same products to the last bit, in float32 to a few units of it. Returns those layers: none where the
    model is not on a CPU, or on one that does not multiply in bfloat16 where that is asked for.

    Args:
        for_good: let go of the layers' own weights, which would take the memory a second time.
        dtype: bfloat16 or float32.
    """
    import torch

    rounded = getattr(torch, dtype)
    able = torch.backends.mkldnn.is_available() and (dtype == "float32" or torch.ops.mkldnn._is_mkldnn_bf16_supported())
    if not able:
        return []
    layers = [
        layer for layer in model.modules() if type(layer) is torch.nn.Linear and layer.weight.device.type == "cpu"
    ]
    product = torch.ops.mkldnn._linear_pointwise
    for layer in layers:
        weight = torch.ops.mkldnn._reorder_linear_weight(layer.weight.detach().to(rounded))
        bias = None if layer.bias is None else layer.bias.detach().to(rounded)
        vars(layer)["forward"] = functools.partial(_product, product, weight, bias)
        if for_good:  # an embedding that shares the weight keeps it
            layer.weight = torch.nn.Parameter(torch.empty(0, dtype=weight.dtype), requires_grad=False)
    return layers


def _product(product, weight, bias, inputs):
    return product(inputs.to(weight.dtype), weight, bias, "none", [], "")


@contextlib.contextmanager
def packed(model) -> Iterator[None]:
    """Pack a model while it computes under autocast to bfloat16; then its layers are as they were."""
    layers = pack(model)
    try:
        yield
    finally:
        for layer in layers:
            del layer.forward
