"""4-bit weights (NF4) and LoRA on them: a tiny random Llama, its layers as wide as a CPU's 4-bit kernels need them."""

import pytest
import torch
from bitsandbytes.functional import dequantize_4bit
from bitsandbytes.nn import Params4bit
from safetensors.torch import load_file

from lib.generation.finetune import (
    Training,
    add_adapter,
    collate,
    finetune_language_model,
    prepare_quantised,
    tokenize_pairs,
)
from lib.generation.local import LocalModel, load_model, load_tokenizer

pytestmark = pytest.mark.slow

WORDS = ["fox", "dog", "guitar", "music room", "evening", "quick", "lazy", "brown"]
PAIRS = [(f"the {a} and the {b}", f"{b} over {a}") for a in WORDS for b in WORDS]
PROMPTS, TARGETS = [list(side) for side in zip(*PAIRS, strict=True)]
TRAINING = Training(rank=8, learning_rate=1e-2, epochs=2, checkpoint_every=3)
NF4 = {"quantization": "nf4", "threads": 1}


@pytest.fixture(scope="module")
def trained(wide, tmp_path_factory):
    """Folder and loss curve of an uninterrupted run."""
    folder = tmp_path_factory.mktemp("runs") / "adapter"
    return folder, finetune_language_model(wide, PROMPTS, TARGETS, folder, TRAINING, **NF4)


def linear_layers(model):
    return {name: layer for name, layer in model.named_modules() if name.endswith("_proj")}


def batch_of(path, rows=slice(0, 8)):
    pairs = tokenize_pairs(load_tokenizer(path)[0], PROMPTS[rows], TARGETS[rows], False, None)
    return collate(pairs, "cpu")


def prepared(path):
    """A quantised model with an adapter, ready to be trained, and the adapter's weights."""
    model = load_model(path, "bfloat16", quantization="nf4")
    prepare_quantised(model)
    _, weights = add_adapter(model, "wide", TRAINING)
    return model.train(), weights


def test_linear_layers_are_held_in_four_bits(wide):
    model, plain = load_model(wide, "bfloat16", quantization="nf4"), load_model(wide, "float32")
    exact = plain.state_dict()
    layers = linear_layers(model)
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
    answers = quantised.generate(PROMPTS[:6], max_new_tokens=8)
    assert answers == LocalModel(wide, **NF4).generate(PROMPTS[:6], max_new_tokens=8)
    assert answers != plain.generate(PROMPTS[:6], max_new_tokens=8)
    assert sum(layer.weight.numel() for layer in linear_layers(quantised.model).values()) * 2 == sum(
        layer.weight.numel() for layer in linear_layers(load_model(wide, "bfloat16")).values()
    )


def test_a_saved_adapter_is_the_model_that_was_trained(wide, trained):
    folder, _ = trained
    model, weights = prepared(wide)
    saved = load_file(folder / "adapter_model.safetensors")
    with torch.no_grad():
        for key, weight in weights.items():
            weight.copy_(saved[key.replace(".default", "")])
    ids, _ = batch_of(wide)
    loaded = load_model(wide, "bfloat16", folder, "nf4")
    for name, parameter in loaded.named_parameters():  # those not in 4 bits, as while training
        if parameter.dtype == torch.bfloat16 and "lora" not in name:
            parameter.data = parameter.data.float()
    model.set_attn_implementation("sdpa")  # in 16 bits another order of summation is another model
    with torch.no_grad():
        expected, logits = model.eval()(ids).logits, loaded(ids).logits
    torch.testing.assert_close(logits, expected, rtol=1e-3, atol=1e-3)


def test_there_is_no_other_quantization(wide):
    with pytest.raises(ValueError, match="none or nf4"):
        LocalModel(wide, quantization="int3", threads=1)
