"""Attention, LoRA and packed layers: values and gradients of the libraries' own."""

import pytest
import torch
from peft import LoraConfig, get_peft_model

from lib.generation import layers as module
from lib.generation.layers import attention_in_blocks, causal_attention, pack, use_one_operation


def gradients(output, *inputs):
    weights = torch.linspace(-1, 1, output.numel(), dtype=output.dtype).view_as(output)
    return torch.autograd.grad((output * weights).sum(), inputs)


def test_attention_equals_pytorchs():
    torch.manual_seed(0)
    heads, groups, tokens = 6, 2, 33
    query = torch.randn(2, heads, tokens, 8, dtype=torch.float64, requires_grad=True)
    key, value = (torch.randn(2, groups, tokens, 8, dtype=torch.float64, requires_grad=True) for _ in range(2))
    ours = causal_attention(query, key, value, 0.3)
    theirs = torch.nn.functional.scaled_dot_product_attention(
        query, key, value, is_causal=True, scale=0.3, enable_gqa=True
    )
    torch.testing.assert_close(ours, theirs)
    for a, b in zip(gradients(ours, query, key, value), gradients(theirs, query, key, value), strict=True):
        torch.testing.assert_close(a, b)


def test_blocks_look_at_what_pytorchs_mask_shows(monkeypatch):
    monkeypatch.setattr(module, "BLOCK", 8)
    torch.manual_seed(0)
    heads, groups, tokens, before = 6, 2, 33, 5
    query = torch.randn(2, heads, tokens, 4, dtype=torch.float64)
    key, value = (torch.randn(2, groups, before + tokens, 4, dtype=torch.float64) for _ in range(2))
    mask = torch.ones(tokens, before + tokens, dtype=torch.bool).tril(before)
    expected = torch.nn.functional.scaled_dot_product_attention(query, key, value, mask, scale=0.3, enable_gqa=True)
    torch.testing.assert_close(attention_in_blocks(query, key, value, 0.3), expected)


def test_a_lora_layer_equals_pefts():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.Linear(5, 4, bias=False)).double()
    config = LoraConfig(r=3, lora_alpha=5, target_modules="all-linear", init_lora_weights=False)
    adapted = get_peft_model(model, config, autocast_adapter_dtype=False).double()
    weights = [weight for weight in adapted.parameters() if weight.requires_grad]
    assert len(weights) == 4
    x = torch.randn(2, 7, 6, dtype=torch.float64, requires_grad=True)
    theirs = adapted(x)
    expected = gradients(theirs, x, *weights)
    use_one_operation(adapted)
    ours = adapted(x)
    assert "LoRALinear" in type(ours.grad_fn).__name__
    torch.testing.assert_close(ours, theirs)
    for a, b in zip(gradients(ours, x, *weights), expected, strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.skipif(not torch.ops.mkldnn._is_mkldnn_bf16_supported(), reason="needs a processor that has bfloat16")
@pytest.mark.parametrize("shape", [(1, 48), (3, 50, 48)])
def test_packed_layers_give_the_same_products(shape):
    torch.manual_seed(0)
    inner = torch.nn.Sequential(torch.nn.Linear(96, 33, bias=False))
    model = torch.nn.Sequential(torch.nn.Linear(48, 96), torch.nn.GELU(), inner).eval().to(torch.bfloat16)
    inputs = torch.randn(shape, dtype=torch.bfloat16)
    with torch.inference_mode():
        expected = model(inputs)
        assert len(pack(model)) == 2
        assert torch.equal(model(inputs), expected)
