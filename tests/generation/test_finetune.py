"""LoRA on a tiny random Llama."""

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM

from lib.generation import finetune as module
from lib.generation.finetune import (
    Training,
    add_adapter,
    finetune_language_model,
    log_probabilities,
    pairs_hash,
    plan_epoch,
    plan_passes,
    target_loss,
    train_step,
)
from lib.generation.local import LocalModel

WORDS = ["fox", "dog", "guitar", "music room", "evening", "quick", "lazy", "brown"]
PAIRS = [(f"the {a} and the {b}", f"{b} over {a}") for a in WORDS for b in WORDS]
PROMPTS, TARGETS = [list(side) for side in zip(*PAIRS, strict=True)]
TRAINING = Training(rank=8, learning_rate=1e-2, epochs=2, checkpoint_every=3)
HERE = {"dtype": "float32", "threads": 1}


@pytest.fixture(scope="module")
def trained(tiny, tmp_path_factory):
    """Folder and loss curve of an uninterrupted run, and the model that it saved."""
    folder, kept, save = tmp_path_factory.mktemp("runs") / "adapter", [], module.save_adapter
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "save_adapter", lambda model, *args: kept.append(model) or save(model, *args))
        return folder, finetune_language_model(tiny, PROMPTS, TARGETS, folder, TRAINING, **HERE), kept[0]


@pytest.fixture
def steps(monkeypatch):
    """How many steps were computed."""
    computed, loss = [], module.target_loss
    monkeypatch.setattr(module, "target_loss", lambda *args: computed.append(1) or loss(*args))
    return computed


def test_the_loss_falls(trained):
    curve = trained[1].curve
    assert curve["step"].tolist() == list(range(1, 17))
    assert curve["loss"].tail(3).mean() < 0.6 * curve["loss"].head(3).mean()
    assert curve["seconds"].is_monotonic_increasing


def test_a_saved_adapter_is_the_model_that_was_trained(tiny, trained):
    loaded = LocalModel(tiny, adapter=trained[0], **HERE)
    ids = torch.tensor([loaded.tokenizer(PROMPTS[3])["input_ids"]])
    with torch.no_grad():
        difference = trained[2].eval()(ids).logits - loaded.model(ids).logits
    assert difference.abs().max() < 1e-3


def test_a_finished_run_is_not_repeated(tiny, tmp_path, steps):
    asked = tiny, PROMPTS[:16], TARGETS[:16], tmp_path / "a", Training(rank=2)
    first = finetune_language_model(*asked, **HERE)
    assert (first.rows, len(steps)) == (16, 2)
    again = finetune_language_model(*asked, **HERE)
    assert (again.record, len(steps)) == (first.record, 2)
    weights = tmp_path / "a" / "adapter_model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"x")
    finetune_language_model(*asked, **HERE)
    assert len(steps) == 4


@pytest.mark.slow
def test_a_killed_run_goes_on_and_gives_the_same_adapter(tiny, trained, tmp_path, monkeypatch, steps):
    def killed(*args):
        if len(steps) == 11:
            raise KeyboardInterrupt
        return update(*args)

    update, asked = module.update, (tiny, PROMPTS, TARGETS, tmp_path / "a", TRAINING)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(module, "update", killed)
        finetune_language_model(*asked, **HERE)
    curve = finetune_language_model(*asked, **HERE).curve
    assert len(steps) == 11 + 7, "of 16 steps, nine were in a checkpoint"
    assert curve["loss"].tolist() == trained[1].curve["loss"].tolist()
    (ours, theirs) = ((folder / "adapter_model.safetensors").read_bytes() for folder in (tmp_path / "a", trained[0]))
    assert ours == theirs
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_the_loss_on_targets_equals_the_full_computation(tiny):
    model = AutoModelForCausalLM.from_pretrained(tiny, dtype=torch.float32)
    pairs = [([5, 6, 7], [8, 9, 1]), ([10, 11, 12, 13, 14, 15], [16, 1]), ([20], [21, 22, 23, 24, 1])]
    ids = torch.tensor([[5, 6, 7, 8, 9, 1, 0, 0], [10, 11, 12, 13, 14, 15, 16, 1], [20, 21, 22, 23, 24, 1, 0, 0]])
    mask = (torch.arange(8)[None] < torch.tensor([[6], [8], [6]])).long()
    labels = ids.masked_fill((mask == 0) | (torch.arange(8)[None] < torch.tensor([[3], [6], [1]])), -100)
    full = model(input_ids=ids, attention_mask=mask, labels=labels).loss
    loss = target_loss(model, pairs)
    assert loss.item() == pytest.approx(full.item(), rel=1e-5)
    full.backward()
    expected = {name: weight.grad.clone() for name, weight in model.named_parameters()}
    model.zero_grad()
    loss.backward()
    for name, weight in model.named_parameters():
        torch.testing.assert_close(weight.grad, expected[name], rtol=1e-3, atol=1e-5)


def test_what_a_model_gives_to_an_answer_is_the_product_over_its_tokens(tiny):
    model = LocalModel(tiny, **HERE)
    prompt, answer = model.tokenizer(["the fox", "guitar over dog"], add_special_tokens=False)["input_ids"]
    answer.append(model.tokenizer.eos_token_id)
    chances = model.model(torch.tensor([prompt + answer])).logits[0].detach().log_softmax(-1)[len(prompt) - 1 : -1]
    expected = float(chances.gather(1, torch.tensor(answer)[:, None]).sum())
    assert log_probabilities(model, ["the fox"], ["guitar over dog"]) == pytest.approx(expected, rel=1e-4)


def test_a_batch_in_parts_takes_the_same_step(tiny):
    pairs = [([5, 6, 7], [8, 9, 1]), ([10, 11, 12, 13, 14, 15], [16, 1]), ([20], [21, 1])]
    assert plan_passes([0, 1, 2], [6, 8, 3], tokens=16) == [[1, 0], [2]]
    steps = []
    for parts in ([pairs], [pairs[1::-1], pairs[2:]]):
        model = AutoModelForCausalLM.from_pretrained(tiny, dtype=torch.float32)
        _, weights = add_adapter(model, "tiny", TRAINING)
        masters = {key: weight.detach().clone() for key, weight in weights.items()}
        loss = train_step(model, weights, masters, torch.optim.SGD(masters.values(), lr=1.0), parts)
        steps.append((loss, *masters.values()))
        assert all(torch.equal(weights[key], master) for key, master in masters.items())
    for one, other in zip(*steps, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def test_an_epoch_has_every_pair_once_in_batches_of_like_length():
    lengths = np.random.default_rng(0).integers(1, 200, 1000)
    batches = plan_epoch(lengths, 8, seed=3, epoch=0)
    assert sorted(i for batch in batches for i in batch) == list(range(1000))
    padded = sum(len(batch) * max(lengths[batch]) for batch in batches)
    assert padded < 1.05 * lengths.sum()
    assert batches == plan_epoch(lengths, 8, seed=3, epoch=0)
    assert batches not in (plan_epoch(lengths, 8, seed=3, epoch=1), plan_epoch(lengths, 8, seed=4, epoch=0))


@pytest.mark.parametrize(
    ("prompts", "targets", "message"),
    [
        (["a", "b"], ["c"], "2 prompts and 1 targets"),
        (["a", ""], ["c", "d"], "pair 1"),
        (["fox " * 250], ["dog"], "window of 256"),
        (["fox"], ["\udfff"], "lone surrogate"),
    ],
)
def test_bad_pairs_are_refused(tiny, tmp_path, prompts, targets, message):
    with pytest.raises(ValueError, match=message):
        finetune_language_model(tiny, prompts, targets, tmp_path / "a", **HERE)
    assert list(tmp_path.iterdir()) == []


def test_the_hash_of_pairs():
    """Parts that come with the project are found under it."""
    assert pairs_hash(["a"], ["b"]) == "eb6f2803b231a6f13859ee42385b402d69ee9a96fc8be5b074f20ac3a30d28b2"
