"""Steps of LoRA training; no time is asserted."""

import pytest
import torch

from lib.generation.finetune import Training, add_adapter, train_step
from lib.generation.local import import_torch, load_model

TRAINING = Training()


@pytest.mark.benchmark(group="LoRA training")
@pytest.mark.parametrize(("prompt", "target"), [(35, 42), (258, 42)], ids=["a chain of thought", "a plan"])
def test_training(benchmark, language_model, prompt, target):
    import_torch(2)
    model = load_model(language_model, "bfloat16")
    _, weights = add_adapter(model, "model", TRAINING)
    masters = {key: weight.detach().float().clone() for key, weight in weights.items()}
    optimizer = torch.optim.AdamW(masters.values(), lr=TRAINING.learning_rate, weight_decay=0.0)
    ids = torch.randint(1000, 40_000, (TRAINING.batch_size, prompt + target)).tolist()
    batch = [(row[:prompt], row[prompt:]) for row in ids]
    model.train()
    loss = benchmark.pedantic(train_step, args=(model, weights, masters, optimizer, [batch]), rounds=3, warmup_rounds=1)
    benchmark.extra_info.update(tokens=TRAINING.batch_size * (prompt + target))
    assert loss > 0
