"""Reading prompts side by side and continuing them by one step for all: the same answers as one by one."""

import numpy as np
import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from lib.generation import padded
from lib.generation.constrained import unpack_on_cpu, unpack_on_gpu
from lib.generation.decoding import REPEATS
from lib.generation.local import LocalModel
from lib.generation.padded import PaddedBatch, grouped_attention, plan_reading

PROMPTS = [
    "the fox",
    "a lazy dog plays guitar every evening and then",
    "music",
    "t",
    "jumps over the quick brown room in the",
    "zebra, 42!",
    "every every every evening the dog and the fox play in the lazy music room over and over",
    "every every every evening the dog and the fox play in the lazy music room over and under",
]
WORDS = 'start: word (" " word){0,3}\nword: "fox" | "dog" | "guitar" | "é"'


def load(folder, side_by_side, **settings):
    model = LocalModel(folder, **{"dtype": "float32", "threads": 1} | settings)
    model.padded, model.batch_size = side_by_side, settings.get("batch_size", 4)
    return model


def both(tiny, **asked):
    """What the two ways say: answers, whether they are finished, their tokens."""
    for side_by_side in (False, True):
        model = load(tiny, side_by_side)
        answers = model.generate(PROMPTS, **asked)
        yield answers, model.finished, [(cost.tokens_in, cost.tokens_out) for cost in model.costs]


@pytest.mark.parametrize(
    "asked",
    [
        {"max_new_tokens": 40},
        {"max_new_tokens": 1},
        {"max_new_tokens": 13, "stop": ["q", "no such text"]},
        {"max_new_tokens": 30, "grammars": WORDS},
        {"max_new_tokens": 30, "grammars": [WORDS, None] * 4},
        {"max_new_tokens": 140},
    ],
    ids=str,
)
@pytest.mark.parametrize("read_back", [1, 8])
def test_answers_are_those_of_prompts_read_one_by_one(tiny, monkeypatch, asked, read_back):
    monkeypatch.setattr(padded, "READ_BACK", read_back)
    one_by_one, side_by_side = both(tiny, **asked)
    assert side_by_side == one_by_one
    assert len({tokens for _, tokens in one_by_one[2]}) > 1 or asked["max_new_tokens"] == 1


def test_repetitions_are_stopped_at_the_same_token(tiny, monkeypatch):
    free = next(both(tiny, max_new_tokens=100))
    for name, value in {"times": 2, "tokens": 2}.items():
        monkeypatch.setitem(REPEATS, name, value)
    one_by_one, side_by_side = both(tiny, max_new_tokens=100)
    assert side_by_side == one_by_one != free


def test_draws_are_seeded(tiny):
    model = load(tiny, True)
    draw = {"max_new_tokens": 8, "temperature": 1.5}
    assert model.generate(PROMPTS, seed=1, **draw) == model.generate(PROMPTS, seed=1, **draw)
    assert model.generate(PROMPTS, seed=1, **draw) != model.generate(PROMPTS, seed=2, **draw)


def test_the_ways_have_keys_of_their_own(tiny, tmp_path):
    for side_by_side in (False, True, True):
        load(tiny, side_by_side, cache=tmp_path).generate(["music"], max_new_tokens=2)
    assert len(list(tmp_path.rglob("*.json"))) == 2


def test_prompts_of_like_length_are_read_in_one_pass(tiny, monkeypatch):
    monkeypatch.setattr(padded, "READ_TOKENS", 60)
    model = load(tiny, True, batch_size=32)
    shapes = []
    forward = model.model.forward
    monkeypatch.setattr(
        model.model, "forward", lambda ids, **more: shapes.append(tuple(ids.shape)) or forward(ids, **more)
    )
    model.generate(PROMPTS, max_new_tokens=1)
    lengths = sorted((len(model.tokenizer(prompt)["input_ids"]) - 1 for prompt in PROMPTS), reverse=True)
    passes = shapes[:-1]
    assert shapes[-1] == (len(PROMPTS), 1)
    assert len(passes) < len(PROMPTS) - 1
    assert sum(rows * width for rows, width in passes) < 1.34 * sum(lengths)
    assert all(rows == 1 or rows * width <= 60 for rows, width in passes)


@pytest.mark.parametrize(
    ("lengths", "expected"),
    [
        ([], []),
        ([5], [(0, 1)]),
        ([0], [(0, 1)]),
        ([100, 90, 80], [(0, 3)]),
        ([100, 90, 30], [(0, 2), (2, 3)]),
        ([30_000, 20_000, 15_000, 15_000], [(0, 1), (1, 2), (2, 4)]),
        ([40_000, 10], [(0, 1), (1, 2)]),
    ],
)
def test_plan_of_reading(lengths, expected):
    assert plan_reading(lengths) == expected


def test_heads_that_share_keys_attend_as_if_each_had_its_own():
    torch.manual_seed(0)
    query = torch.randn(3, 1, 6, 8).transpose(1, 2)
    key, value = torch.randn(2, 3, 2, 20, 8)
    mask = torch.zeros(3, 1, 1, 20).masked_fill_(
        torch.arange(20) > torch.tensor([[[[4]]], [[[11]]], [[[19]]]]), -torch.inf
    )
    attended, _ = grouped_attention(torch.nn.Module(), query, key, value, mask, scaling=0.3)
    own = [part.repeat_interleave(3, dim=1) for part in (key, value)]
    expected = scaled_dot_product_attention(query, *own, attn_mask=mask, scale=0.3).transpose(1, 2)
    torch.testing.assert_close(attended, expected)


@pytest.mark.parametrize("size", [64, 70, 300])
def test_masks_are_unpacked_alike(size):
    bits = np.random.default_rng(0).integers(-(2**31), 2**31, (5, -(-size // 32)), dtype=np.int32)
    logits = torch.zeros(5, size)
    allowed = unpack_on_cpu(bits, logits)
    assert allowed.shape == logits.shape
    assert 0 < allowed.sum() < allowed.numel()
    assert torch.equal(unpack_on_gpu(bits, logits), allowed)


# ---------------------------------------------------------------- on a GPU


@pytest.mark.gpu
@pytest.mark.parametrize("asked", [{"max_new_tokens": 40}, {"max_new_tokens": 30, "grammars": WORDS}], ids=str)
def test_a_gpu_says_what_a_cpu_says(tiny, monkeypatch, asked):
    model = LocalModel(tiny, dtype="float32", threads=1)
    assert (model.padded, model.batch_size, model.model.device.type) == (True, 256, "cuda")
    answers = model.generate(PROMPTS, **asked)
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert load(tiny, False).generate(PROMPTS, **asked) == answers


@pytest.mark.gpu
def test_steps_are_recorded_and_replayed(tiny, monkeypatch):
    recorded = []
    run = PaddedBatch.run

    def noted(self, *args):
        outputs = run(self, *args)
        recorded.append(self.recorded)
        return outputs

    monkeypatch.setattr(PaddedBatch, "run", noted)
    model = LocalModel(tiny, dtype="float32", threads=1)
    answers = model.generate(PROMPTS, max_new_tokens=40)
    assert recorded[0] >= 1
    monkeypatch.setattr(padded, "WORTH_RECORDING", 10**9)
    assert model.generate(PROMPTS, max_new_tokens=40) == answers
    assert recorded[1] == 0


@pytest.mark.gpu
def test_a_step_that_cannot_be_recorded_is_run(tiny, monkeypatch, caplog):
    answers = LocalModel(tiny, dtype="float32", threads=1).generate(PROMPTS, max_new_tokens=40)

    def refuse(*args, **kwargs):
        raise RuntimeError("not today")

    monkeypatch.setattr("torch.cuda.graph", refuse)
    assert LocalModel(tiny, dtype="float32", threads=1).generate(PROMPTS, max_new_tokens=40) == answers
    assert "not today" in caplog.text
