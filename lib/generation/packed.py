"""Linear layers of a model that only answers, in the order in memory in which a processor multiplies them.

A step of decoding multiplies all weights with a few rows. Weights in the order of their file are brought into the
processor's own order at every step, which takes as long as the products.
"""

from __future__ import annotations

import torch


class PackedLinear(torch.nn.Module):
    """A linear layer without gradients: the same products, to the last bit, with weights that are ordered once."""

    def __init__(self, linear: torch.nn.Linear):
        super().__init__()
        self.bias = linear.bias
        self.packed = torch.ops.mkldnn._reorder_linear_weight(linear.weight.detach())

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return torch.ops.mkldnn._linear_pointwise(inputs, self.packed, self.bias, "none", [], "")


def pack(model: torch.nn.Module) -> None:
    """Pack the linear layers in bfloat16 of a model on a CPU that multiplies in it; leave any other as it is."""
    if not torch.backends.mkldnn.is_available() or not torch.ops.mkldnn._is_mkldnn_bf16_supported():
        return
    for module in list(model.modules()):
        for name, layer in list(module.named_children()):
            if type(layer) is torch.nn.Linear and layer.weight.dtype == torch.bfloat16 and not layer.weight.is_cuda:
                setattr(module, name, PackedLinear(layer))
