"""4-bit weights (NF4) and LoRA on them: a tiny random Llama, its layers as wide as a CPU's 4-bit kernels need them."""

import pytest
import torch

from lib.generation.local import LocalModel, load_model

pytestmark = pytest.mark.slow

PROMPTS = [f"the {word} and the dog" for word in ("fox", "guitar", "evening")]
NF4 = {"quantization": "nf4", "threads": 1}


def test_linear_layers_are_held_in_four_bits(wide):
    from bitsandbytes.functional import dequantize_4bit  # a second, which every worker would take
    from bitsandbytes.nn import Params4bit

    model, plain = load_model(wide, "bfloat16", quantization="nf4"), load_model(wide, "float32")
    exact = plain.state_dict()
    layers = {name: layer for name, layer in model.named_modules() if name.endswith("_proj")}
    assert len(layers) == 3 * 7
    for name, layer in layers.items():
        weight, state, before = layer.weight, layer.weight.quant_state, exact[f"{name}.weight"]
        assert isinstance(weight, Params4bit)
        assert (state.quant_type, state.nested, layer.compute_dtype) == ("nf4", True, torch.bfloat16)
        assert weight.numel() * weight.element_size() == before.numel() / 2
        after = dequantize_4bit(weight.data, state).float()
        assert 0.02 < (after - before).norm() / before.norm() < 0.2
        assert len(after.unique()) <= 16 * before.numel() / 64  # sixteen values in every block of 64
    assert {type(model.lm_head.weight), type(model.model.embed_tokens.weight)} == {torch.nn.Parameter}
    assert model.lm_head.weight.dtype == model.dtype == torch.bfloat16


def test_answers_come_from_the_quantised_weights(wide):
    plain, quantised = LocalModel(wide, dtype="bfloat16", threads=1), LocalModel(wide, **NF4)
    assert quantised.dtype == "bfloat16"
    answers = quantised.generate(PROMPTS, max_new_tokens=8)
    assert answers == LocalModel(wide, **NF4).generate(PROMPTS, max_new_tokens=8)
    assert answers != plain.generate(PROMPTS, max_new_tokens=8)
