"""LoRA training beside what its matrix products alone would take; no time is asserted.

Three rows for each length of pairs: training steps; the matrix products of a step at the model's own shapes and nothing
else; as many operations in large square products. All are given as tokens trained a second, so that the ratio of two
rows is the share of that ceiling.
"""

from collections import Counter

import pytest
import torch
from transformers import AutoConfig

from lib.generation.finetune import Training, add_adapter, collate, train_step
from lib.generation.local import import_torch, load_model

SQUARE, THREADS = 2048, 2
TRAINING = Training()
LENGTHS = [(35, 42), (258, 42)]  # tokens of prompt and target: a chain of thought, a plan
lengths = pytest.mark.parametrize(("prompt", "target"), LENGTHS)


def products_of_step(config, prompt: int, target: int) -> Counter:
    """How often a step takes the product of (batch, m, k) and (batch, k, n), by (batch, m, k, n).

    Forward and backward through a Llama's frozen layers, which get no gradient of their own; forward, backward and
    weights' gradients of the adapter; attention, half of it, since a token looks back only; the output layer for target
    tokens only.
    """
    rows, rank, hidden, inner = TRAINING.batch_size, TRAINING.rank, config.hidden_size, config.intermediate_size
    length, dimensions = prompt + target, hidden // config.num_attention_heads
    tokens, narrow = rows * length, dimensions * config.num_key_value_heads
    counts = Counter()
    linear = [(hidden, hidden), (hidden, narrow), (hidden, narrow), (hidden, hidden)]
    linear += [(hidden, inner), (hidden, inner), (inner, hidden)]
    for inputs, outputs in linear:
        counts[1, tokens, inputs, outputs] += 1
        counts[1, tokens, outputs, inputs] += 1
        for a, b in ((inputs, rank), (rank, outputs)):
            counts[1, tokens, a, b] += 1
            counts[1, tokens, b, a] += 1
            counts[1, a, tokens, b] += 1
    attention = rows * config.num_attention_heads
    counts[attention, length // 2, dimensions, length] += 3
    counts[attention, length // 2, length, dimensions] += 3
    counts = Counter({shape: times * config.num_hidden_layers for shape, times in counts.items()})
    for outputs in (hidden, narrow, narrow):  # nothing learns below the first layer's queries, keys and values
        counts[1, tokens, outputs, hidden] -= 1
        counts[1, tokens, rank, hidden] -= 1
    counts[1, rows * target, hidden, config.vocab_size] += 1
    counts[1, rows * target, config.vocab_size, hidden] += 1
    return counts


def operations(counts: Counter) -> int:
    return sum(2 * batch * m * k * n * times for (batch, m, k, n), times in counts.items())


def multiply(factors):
    for left, right, times in factors:
        for _ in range(times):
            left @ right


@pytest.mark.benchmark(group="LoRA training")
@lengths
def test_training(benchmark, rate, language_model, prompt, target):
    import_torch(THREADS)
    model = load_model(language_model, "bfloat16")
    _, weights = add_adapter(model, "model", TRAINING)
    masters = {key: weight.detach().float().clone() for key, weight in weights.items()}
    optimizer = torch.optim.AdamW(masters.values(), lr=TRAINING.learning_rate, weight_decay=0.0)
    ids = torch.randint(1000, 40_000, (TRAINING.batch_size, prompt + target)).tolist()
    batch = collate([(row[:prompt], row[prompt:]) for row in ids], model.device)
    benchmark.group = f"LoRA training, pairs of {prompt + target} tokens"
    model.train()
    loss = benchmark.pedantic(
        train_step, args=(model, weights, masters, optimizer, [(*batch, 1.0)]), rounds=3, warmup_rounds=1
    )
    rate("training steps", TRAINING.batch_size * (prompt + target), "tokens")
    assert loss > 0


@pytest.mark.benchmark(group="LoRA training")
@lengths
def test_products_of_a_step(benchmark, rate, language_model, prompt, target):
    import_torch(THREADS)
    counts = products_of_step(AutoConfig.from_pretrained(language_model), prompt, target)
    factors = [
        (torch.randn(batch, m, k).bfloat16(), torch.randn(batch, k, n).bfloat16(), times)
        for (batch, m, k, n), times in counts.items()
    ]
    benchmark.group = f"LoRA training, pairs of {prompt + target} tokens"
    benchmark.pedantic(multiply, args=(factors,), rounds=3, warmup_rounds=1)
    rate("the matrix products of a step alone, its own shapes", TRAINING.batch_size * (prompt + target), "tokens")


@pytest.mark.benchmark(group="LoRA training")
@lengths
def test_square_products(benchmark, rate, language_model, prompt, target):
    import_torch(THREADS)
    counts = products_of_step(AutoConfig.from_pretrained(language_model), prompt, target)
    steps = 10 * 2 * SQUARE**3 / operations(counts)
    square = torch.randn(SQUARE, SQUARE).bfloat16()
    benchmark.group = f"LoRA training, pairs of {prompt + target} tokens"
    benchmark.pedantic(multiply, args=([(square, square, 10)],), rounds=3, warmup_rounds=1)
    rate(
        f"as many operations in products of {SQUARE} × {SQUARE}",
        steps * TRAINING.batch_size * (prompt + target),
        "tokens",
    )
