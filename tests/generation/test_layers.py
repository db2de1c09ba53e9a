"""Attention: values and gradients of the libraries' own."""

import pytest
import torch

from lib.generation import layers as module
from lib.generation.layers import attention_in_blocks, causal_attention


@pytest.mark.parametrize(("heads", "groups", "tokens"), [(4, 2, 7), (6, 1, 33)])
def test_attention_in_training_equals_pytorchs(heads, groups, tokens):
    torch.manual_seed(0)
    query = torch.randn(2, heads, tokens, 8, dtype=torch.float64, requires_grad=True)
    key, value = (torch.randn(2, groups, tokens, 8, dtype=torch.float64, requires_grad=True) for _ in range(2))
    how = {"is_causal": True, "scale": 0.3, "enable_gqa": True}
    ours = causal_attention(query, key, value, 0.3)
    theirs = torch.nn.functional.scaled_dot_product_attention(query, key, value, **how)
    torch.testing.assert_close(ours, theirs)
    weights = torch.linspace(-1, 1, ours.numel(), dtype=ours.dtype).view_as(ours)
    pairs = [torch.autograd.grad((output * weights).sum(), (query, key, value)) for output in (ours, theirs)]
    torch.testing.assert_close(*pairs)


def test_blocks_look_at_what_pytorchs_mask_shows(monkeypatch):
    monkeypatch.setattr(module, "BLOCK", 8)
    torch.manual_seed(0)
    heads, groups, tokens, before = 6, 2, 33, 5
    query = torch.randn(2, heads, tokens, 4, dtype=torch.float64)
    key, value = (torch.randn(2, groups, before + tokens, 4, dtype=torch.float64) for _ in range(2))
    mask = torch.ones(tokens, before + tokens, dtype=torch.bool).tril(before)
    expected = torch.nn.functional.scaled_dot_product_attention(query, key, value, mask, scale=0.3, enable_gqa=True)
    torch.testing.assert_close(attention_in_blocks(query, key, value, 0.3), expected)
