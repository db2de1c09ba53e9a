"""LoRA training beside what its matrix products alone would take; no time is asserted.

Three rows for each length of pairs: training steps; the matrix products of a step at the model's own shapes and nothing
else; as many operations in large square products. All are given as tokens trained a second, so that the ratio of two
rows is the share of that ceiling.
"""

from collections import Counter

import pytest
import torch

from lib.generation.finetune import Training, add_adapter, train_step
from lib.generation.local import import_torch, load_model

SQUARE, THREADS = 2048, 2
TRAINING = Training()
LENGTHS = [(35, 42), (258, 42)]  # tokens of prompt and target: a chain of thought, a plan
lengths = pytest.mark.parametrize(("prompt", "target"), LENGTHS)


def operations(counts: Counter) -> int:
    return sum(2 * batch * m * k * n * times for (batch, m, k, n), times in counts.items())


@pytest.mark.benchmark(group="LoRA training")
@lengths
def test_training(benchmark, rate, language_model, prompt, target):
    import_torch(THREADS)
    model = load_model(language_model, "bfloat16")
    _, weights = add_adapter(model, "model", TRAINING)
    masters = {key: weight.detach().float().clone() for key, weight in weights.items()}
    optimizer = torch.optim.AdamW(masters.values(), lr=TRAINING.learning_rate, weight_decay=0.0)
    ids = torch.randint(1000, 40_000, (TRAINING.batch_size, prompt + target)).tolist()
    batch = [(row[:prompt], row[prompt:]) for row in ids]
    benchmark.group = f"LoRA training, pairs of {prompt + target} tokens"
    model.train()
    loss = benchmark.pedantic(train_step, args=(model, weights, masters, optimizer, [batch]), rounds=3, warmup_rounds=1)
    rate("training steps", TRAINING.batch_size * (prompt + target), "tokens")
    assert loss > 0
