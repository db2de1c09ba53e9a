"""4-bit weights (NF4) and LoRA on them: a tiny random Llama, its layers as wide as a CPU's 4-bit kernels need them."""

import warnings

import pytest
import torch
from bitsandbytes.functional import dequantize_4bit
from bitsandbytes.nn import Params4bit
from peft import PeftModel
from safetensors.torch import load_file

from lib.generation.finetune import (
    Checkpoints,
    Training,
    add_adapter,
    collate,
    finetune_language_model,
    prepare_quantised,
    target_loss,
    tokenize_pairs,
    train_step,
)
from lib.generation.local import LocalModel, load_model, load_tokenizer

pytestmark = pytest.mark.slow

WORDS = ["fox", "dog", "guitar", "music room", "evening", "quick", "lazy", "brown"]
PAIRS = [(f"the {a} and the {b}", f"{b} over {a}") for a in WORDS for b in WORDS]
PROMPTS, TARGETS = [list(side) for side in zip(*PAIRS, strict=True)]
TRAINING = Training(rank=8, learning_rate=1e-2, epochs=2, checkpoint_every=3)
NF4 = {"quantization": "nf4", "threads": 1}


class Killed(BaseException):
    pass


@pytest.fixture(scope="module")
def trained(wide, tmp_path_factory):
    """Folder and loss curve of an uninterrupted run."""
    folder = tmp_path_factory.mktemp("runs") / "adapter"
    return folder, finetune_language_model(wide, PROMPTS, TARGETS, folder, TRAINING, **NF4)


def linear_layers(model):
    return {name: layer for name, layer in model.named_modules() if name.endswith("_proj")}


def weights_of(model):
    return {name: value.detach().clone() for name, value in model.named_parameters()}


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


def test_answers_of_both_are_kept_apart(wide, tmp_path):
    plain = LocalModel(wide, dtype="bfloat16", threads=1, cache=tmp_path)
    answers = plain.generate(PROMPTS[:3], max_new_tokens=8)
    quantised = LocalModel(wide, **NF4, cache=tmp_path)
    quantised.generate(PROMPTS[:3], max_new_tokens=8)
    assert quantised.usage.cached == 0
    assert plain.generate(PROMPTS[:3], max_new_tokens=8) == answers
    assert plain.usage.cached == 3


def test_a_step_lowers_the_loss_and_changes_the_adapter_alone(wide):
    model, weights = prepared(wide)
    masters = {key: weight.detach().float() for key, weight in weights.items()}
    optimizer = torch.optim.AdamW(masters.values(), lr=5e-3, weight_decay=0.0)
    before, names = weights_of(model), {key.removeprefix("base_model.model.") for key in weights}
    assert before.keys() > names
    ids, labels = batch_of(wide)
    first = train_step(model, weights, masters, optimizer, [(ids, labels, 1.0)])
    second = train_step(model, weights, masters, optimizer, [(ids, labels, 1.0)])
    assert train_step(model, weights, masters, optimizer, [(ids, labels, 1.0)]) < second < first
    changed = {name for name, value in weights_of(model).items() if not torch.equal(value, before[name])}
    assert changed == names
    others = {value.dtype for name, value in before.items() if "_proj." not in name}
    assert others == {torch.float32}


def test_gradients_with_checkpointing_equal_those_without(wide):
    ids, labels = batch_of(wide)
    gradients = {}
    for checkpointing in (True, False):
        model, weights = prepared(wide)
        with torch.no_grad():
            for key in weights:
                weights[key].add_(0.01 * torch.randn(weights[key].shape, generator=torch.Generator().manual_seed(1)))
        assert model.is_activation_checkpointing
        if not checkpointing:
            model.activation_checkpointing_disable()
        runs = []
        for layer in model.model.layers:
            layer.mlp.register_forward_pre_hook(lambda *_, runs=runs: runs.append(1))
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = target_loss(model, ids, labels)
        loss.backward()
        assert len(runs) == (6 if checkpointing else 3)  # layers; all of them again in the backward pass
        gradients[checkpointing] = {key: weight.grad for key, weight in weights.items()}
    for key, gradient in gradients[False].items():
        assert gradient.abs().max() > 0
        torch.testing.assert_close(gradients[True][key], gradient, rtol=1e-4, atol=1e-6)


def test_the_loss_falls(trained):
    _, curve = trained
    assert curve["loss"].tail(3).mean() < 0.7 * curve["loss"].head(3).mean()


def test_an_adapter_that_was_saved_is_read_onto_the_quantised_model_and_answers(wide, trained):
    folder, _ = trained
    adapted = LocalModel(wide, adapter=folder, **NF4)
    answers = adapted.generate(PROMPTS[:6], max_new_tokens=8)
    assert answers == LocalModel(wide, adapter=folder, **NF4).generate(PROMPTS[:6], max_new_tokens=8)
    assert answers != LocalModel(wide, **NF4).generate(PROMPTS[:6], max_new_tokens=8)
    # greedy answers of the model as it was trained: the same layers, read in one pass, without our decoding
    ids = torch.tensor([adapted.tokenizer(PROMPTS[0])["input_ids"]])
    with torch.no_grad():
        expected = adapted.model.generate(ids, max_new_tokens=8, do_sample=False)[0, ids.shape[1] :]
    assert adapted.tokenizer.decode(expected, skip_special_tokens=True) == answers[0]


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


def test_an_adapter_is_not_merged_since_that_rounds_it(wide, trained):
    folder, _ = trained
    ids, _ = batch_of(wide)
    unmerged = load_model(wide, "float32", folder, "nf4")
    layers = linear_layers(unmerged)
    assert all(isinstance(layer.base_layer.weight, Params4bit) for layer in layers.values())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # peft warns of the very rounding
        merged = PeftModel.from_pretrained(load_model(wide, "float32", None, "nf4"), str(folder)).merge_and_unload()
    exact = load_model(wide, "float32", None, "nf4")
    saved = load_file(folder / "adapter_model.safetensors")
    with torch.no_grad():
        for name, layer in linear_layers(exact).items():  # the sum itself, in float32
            weight = dequantize_4bit(layer.weight.data, layer.weight.quant_state).float()
            prefix = f"base_model.model.{name}"
            weight += 4 * saved[f"{prefix}.lora_B.weight"] @ saved[f"{prefix}.lora_A.weight"]
            plain = torch.nn.Linear(weight.shape[1], weight.shape[0], bias=False)
            plain.weight.data = weight
            exact.set_submodule(name, plain)
        wanted = exact(ids).logits
        rounding, merging = ((model(ids).logits - wanted).norm() for model in (unmerged, merged))
    assert 3 * rounding < merging


def test_a_resumed_run_gives_the_same_bytes(wide, trained, tmp_path, monkeypatch):
    folder, curve = trained
    save, count = Checkpoints.save, []

    def then_die(self, *args):
        save(self, *args)
        count.append(1)
        if len(count) == 3:
            raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(Checkpoints, "save", then_die)
        with pytest.raises(Killed):
            finetune_language_model(wide, PROMPTS, TARGETS, tmp_path / "adapter", TRAINING, **NF4)
    resumed = finetune_language_model(wide, PROMPTS, TARGETS, tmp_path / "adapter", TRAINING, **NF4)
    assert resumed["loss"].tolist() == curve["loss"].tolist()
    name = "adapter_model.safetensors"
    assert (tmp_path / "adapter" / name).read_bytes() == (folder / name).read_bytes()


def test_a_run_on_other_weights_is_another_run(wide, trained, tmp_path, monkeypatch):
    folder, curve = trained
    steps = []
    monkeypatch.setattr("lib.generation.finetune.train_step", lambda *args: steps.append(1) or train_step(*args))
    again = finetune_language_model(wide, PROMPTS, TARGETS, folder, TRAINING, **NF4)
    assert not steps
    assert again["loss"].tolist() == curve["loss"].tolist()
    plain = finetune_language_model(wide, PROMPTS, TARGETS, tmp_path / "a", TRAINING, dtype="bfloat16", threads=1)
    assert len(steps) == len(plain)
    assert plain["loss"].tolist() != curve["loss"].tolist()


def test_there_is_no_other_quantization(wide):
    with pytest.raises(ValueError, match="none or nf4"):
        LocalModel(wide, quantization="int3", threads=1)
