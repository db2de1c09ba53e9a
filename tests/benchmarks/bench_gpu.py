"""Tokens a second that a GPU reads, writes and trains on, beside the matrix products it computes in the same run.

python tests/benchmarks/bench_gpu.py [MODEL]      on a CPU with small sizes, which only shows that it works

The ceiling of reading and training is what the products of a model's weights alone would take: two operations a weight
and token forward, as many backward through frozen weights. That of decoding is reading weights, keys and values from
memory once a step.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from lib.generation.decoding import REPEATS, bytes_per_token
from lib.generation.finetune import Training, finetune_language_model
from lib.generation.local import LocalModel, import_torch
from lib.workbook.machine import processor

SIZES = {  # of a GPU, of a CPU
    "square": (8192, 1024),  # of the matrices
    "prompt": (1000, 100),  # tokens
    "rows": (256, 8),
    "answer": (256, 24),  # tokens
    "pairs": (2048, 32),
    "pair": (170, 40),  # tokens
    "batch": (64, 8),  # pairs a step
}


def best_seconds(work, synchronise, rounds: int = 5) -> float:
    work()
    best = float("inf")
    for _ in range(rounds):
        synchronise()
        started = time.perf_counter()
        work()
        synchronise()
        best = min(best, time.perf_counter() - started)
    return best


def texts(model: LocalModel, count: int, tokens: int) -> list[str]:
    """Texts of about so many tokens: words that are one token each."""
    decoded = [model.tokenizer.decode([i]) for i in range(1000, 6000)]
    words = [word for word in decoded if word[0] == " " and word[1:].isalpha()]
    generator = random.Random(0)
    return ["".join(generator.choices(words, k=tokens)) for _ in range(count)]


def ceilings(torch, device: str, square: int, dtype) -> tuple[float, float]:
    """Operations a second of a matrix product, bytes a second of a copy (read and written)."""

    def synchronise():
        if device == "cuda":
            torch.cuda.synchronize()

    left, right = torch.randn(2, square, square, device=device).to(dtype)
    products = 2 * square**3 / best_seconds(lambda: left @ right, synchronise)
    source = torch.zeros(square * square * 4, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    return products, 2 * source.numel() / best_seconds(lambda: target.copy_(source), synchronise)


def rates_of_answers(model: LocalModel, size: dict[str, int]) -> tuple[float, float]:
    """Tokens a second read; tokens a second written when prompts are read."""
    prompts = texts(model, size["rows"], size["prompt"])
    model.model.generation_config.eos_token_id, model.tokenizer.eos_token = -1, None  # answers of full length
    REPEATS["times"] = 10**9
    model.generate(prompts[:2], max_new_tokens=2)
    model.generate(prompts, max_new_tokens=1)
    read = model.usage
    model.generate(prompts, max_new_tokens=size["answer"])
    written = model.usage
    return read.tokens_in / read.seconds, (written.tokens_out - read.tokens_out) / (written.seconds - read.seconds)


def rate_of_training(name: str, model: LocalModel, size: dict[str, int]) -> float:
    """Tokens a second, the first quarter of the steps left out: kernels are chosen or compiled in them."""
    prompts, targets = (texts(model, size["pairs"], size["pair"] // 2) for _ in range(2))
    training = Training(batch_size=size["batch"], checkpoint_every=10**9)
    with tempfile.TemporaryDirectory() as folder:
        curve = finetune_language_model(name, prompts, targets, Path(folder) / "adapter", training, dtype=model.dtype)
    steady = curve.iloc[len(curve) // 4 :]
    return steady["tokens"].sum() / steady["seconds"].sum()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="?", default="SmolLM2-135M-Instruct")
    name = parser.parse_args().model
    torch = import_torch(2)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    size = {what: of_cpu if device == "cpu" else of_gpu for what, (of_gpu, of_cpu) in SIZES.items()}
    model = LocalModel(name)
    products, copied = ceilings(torch, device, size["square"], getattr(torch, model.dtype))
    weights = sum(weight.numel() for weight in model.model.parameters())
    embedded = model.config.vocab_size * model.config.hidden_size
    inner = weights - embedded * (1 if model.config.tie_word_embeddings else 2)
    columns = size["prompt"] + size["answer"] / 2
    moved = model.model.get_memory_footprint() + size["rows"] * columns * bytes_per_token(model.config, model.dtype)
    read, written = rates_of_answers(model, size)
    rows = {
        "reading": (read, products / (2 * inner)),
        "decoding": (written, size["rows"] * copied / moved),
        "LoRA training": (rate_of_training(name, model, size), products / (4 * inner)),
    }
    machine = torch.cuda.get_device_name() if device == "cuda" else processor()
    print(f"{machine}, torch {torch.__version__}, {model.dtype}, {size}")
    print(f"products {products / 1e12:.2f} TFLOP/s, copies {copied / 1e9:.0f} GB/s")
    for what, (rate, ceiling) in rows.items():
        print(f"{what:14} {rate:12,.0f} tokens/s   ceiling {ceiling:12,.0f}   {rate / ceiling:6.1%}")


if __name__ == "__main__":
    main()
