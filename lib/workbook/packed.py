"""Linear layers of a model that only answers, in the order in memory in which a processor multiplies them.

A step of decoding multiplies all weights with a few rows, an encoder with a few hundred. Weights in the order of their
file are brought into the processor's own order each time, which takes a step as long as the products, and under
autocast they are rounded each time as well.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator


def pack(model, for_good: bool = False) -> list:
    """Let the linear layers of a model multiply in bfloat16 with weights that are rounded and ordered once: the same
    products to the last bit, without gradients. Returns those layers: none where the model is not on a CPU, or on one
    that does not multiply in bfloat16.

    Args:
        for_good: let go of the layers' own weights, which would take the memory a second time.
    """
    import torch

    if not torch.backends.mkldnn.is_available() or not torch.ops.mkldnn._is_mkldnn_bf16_supported():
        return []
    layers = [
        layer for layer in model.modules() if type(layer) is torch.nn.Linear and layer.weight.device.type == "cpu"
    ]
    product = torch.ops.mkldnn._linear_pointwise
    for layer in layers:
        weight = torch.ops.mkldnn._reorder_linear_weight(layer.weight.detach().bfloat16())
        bias = None if layer.bias is None else layer.bias.detach().bfloat16()
        vars(layer)["forward"] = functools.partial(_product, product, weight, bias)
        if for_good:  # an embedding that shares the weight keeps it
            layer.weight = torch.nn.Parameter(torch.empty(0, dtype=weight.dtype), requires_grad=False)
    return layers


def _product(product, weight, bias, inputs):
    return product(inputs.bfloat16(), weight, bias, "none", [], "")


@contextlib.contextmanager
def packed(model) -> Iterator[None]:
    """Pack a model while it computes under autocast to bfloat16; then its layers are as they were."""
    layers = pack(model)
    try:
        yield
    finally:
        for layer in layers:
            del layer.forward
