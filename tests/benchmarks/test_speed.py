"""How fast the workbook's own loops are beside others of the same task, as ratios of one run; no time is asserted.

Ways are called in turn, again and again, and medians are compared: what else the machine does slows all of them alike.
A model that is not here skips its test; llama.cpp stands beside where somebody installed `xllamacpp`.
"""

import importlib
import importlib.util
from functools import partial
from pathlib import Path
from time import perf_counter, process_time

import bm25s
import numpy as np
import pytest
import torch
from rank_bm25 import BM25Plus

from lib.generation.finetune import Training, add_adapter, tokenize_pairs, train_step
from lib.generation.local import LocalModel, choose_dtype, load_model, load_tokenizer
from lib.generation.models import ModelError, locate
from lib.generation.tiny import texts
from lib.retrieval.bm25 import BM25T
from lib.retrieval.dense import encode, load_encoder, onnx_encoder
from lib.workbook.machine import cores

LINES = [line.strip() for text in texts() for line in text.splitlines() if 4 < len(line.split()) < 40]
ENCODER, LEARNER = "all-MiniLM-L6-v2", "SmolLM2-135M-Instruct"


@pytest.fixture
def side_by_side(benchmark, capsys):
    """Prints medians of ways to do one task `times` times, and their ratios to the first way's."""

    def compare(ways, times, unit, rounds):
        took = {name: [] for name in ways}

        def in_turn():
            for name, way in ways.items():
                started, busy = perf_counter(), process_time()
                way()
                took[name].append((perf_counter() - started, process_time() - busy))

        benchmark.pedantic(in_turn, rounds=rounds, warmup_rounds=1)
        medians = {name: np.median(seconds[1:], axis=0) for name, seconds in took.items()}
        first = next(iter(medians.values()))
        benchmark.extra_info.update({name: [*seconds, *seconds / first] for name, seconds in medians.items()})
        with capsys.disabled():
            for name, (wall, busy) in medians.items():
                ratios = f"{wall:8.3f} s ×{wall / first[0]:5.2f}   CPU {busy:8.3f} s ×{busy / first[1]:5.2f}"
                print(f"\n{name:22}{ratios} {times / wall:9.1f} {unit}", end="")

    return compare


def here(model):
    """The model's folder; the test is skipped where there is none."""
    try:
        return locate(model)
    except ModelError as error:
        pytest.skip(str(error))


def test_bm25(side_by_side):
    """Index and search, over Zipfian words: documents of 5 to 40, queries of 3 to 8."""
    rng, words = np.random.default_rng(0), np.array([f"w{i}" for i in range(4000)])
    chances = 1 / np.arange(1, len(words) + 1)
    draw = partial(rng.choice, words, p=chances / chances.sum())
    corpus = [draw(size=rng.integers(5, 41)).tolist() for _ in range(3000)]
    queries = [draw(size=rng.integers(3, 9)).tolist() for _ in range(100)]

    def search(index):
        assert all(np.isfinite(index.get_scores(query)).all() for query in queries)

    def search_bm25s():
        index = bm25s.BM25(method="bm25+")
        index.index(corpus, show_progress=False)
        search(index)

    ways = {"BM25T": lambda: search(BM25T(corpus)), "rank_bm25": lambda: search(BM25Plus(corpus))}
    side_by_side(ways | {"bm25s": search_bm25s}, len(queries), "queries/s", 5)


def test_encoding(side_by_side):
    encoder, some = load_encoder(here(ENCODER)), sorted(set(LINES))[:256]
    theirs = partial(encoder.encode, some, normalize_embeddings=True, show_progress_bar=False)
    side_by_side({"encode": lambda: encode(encoder, some), "sentence-transformers": theirs}, len(some), "texts/s", 5)


def test_one_query(side_by_side):
    encoder = load_encoder(here(ENCODER))
    some = [line for line in LINES if len(line.split()) < 12][:10]
    ways = {
        "onnx_encoder": onnx_encoder(encoder),
        "encode": lambda text: encode(encoder, [text]),
        "sentence-transformers": partial(encoder.encode, normalize_embeddings=True, show_progress_bar=False),
    }
    ways = {name: lambda way=way: [way(text) for text in some] for name, way in ways.items()}
    side_by_side(ways, len(some), "queries/s", 20)


def test_decoding(side_by_side):
    """Eight answers of the same weights, continued together."""
    folder, prompts, tokens = here(LEARNER), [f"Tell a story: {line}" for line in LINES[:8]], 32
    ours = LocalModel(LEARNER, threads=cores())
    ways = {"LocalModel": lambda: ours.generate(prompts, tokens)}
    if importlib.util.find_spec("xllamacpp"):
        xllamacpp = importlib.import_module("xllamacpp")
        how = xllamacpp.CommonParams()
        how.model.path, how.n_parallel, how.n_ctx = str(next(Path(folder).parent.glob("*.gguf"))), 8, 8 * 256
        how.cpuparams.n_threads = how.cpuparams_batch.n_threads = cores()
        server, asked = xllamacpp.Server(how), {"max_tokens": tokens, "temperature": 0, "cache_prompt": False}
        ways["llama.cpp"] = lambda: server.handle_completions(asked | {"prompt": prompts})
    side_by_side(ways, len(prompts), "answers/s", 2)


def test_lora_step(side_by_side):
    """Beside the products with its linear layers' weights alone, forwards and backwards."""
    path, settings, dtype = here(LEARNER), Training(), choose_dtype("none")
    torch.set_num_threads(cores())
    model, (tokenizer, _) = load_model(path, dtype), load_tokenizer(path)
    frozen = [layer.weight.detach() for layer in model.model.modules() if isinstance(layer, torch.nn.Linear)]
    weights = add_adapter(model.train(), LEARNER, settings)[1]
    masters = {name: weight.detach().float().clone() for name, weight in weights.items()}
    optimizer = torch.optim.AdamW(masters.values(), lr=settings.learning_rate)
    pairs = tokenize_pairs(tokenizer, [" ".join(LINES[i : i + 4]) for i in range(8)], LINES[100:108], None)
    rows = len(pairs) * max(len(prompt) + len(target) for prompt, target in pairs)

    def products():
        for weight in frozen:
            torch.ones(rows, weight.shape[1], dtype=weight.dtype) @ weight.T @ weight

    step = partial(train_step, model, weights, masters, optimizer, [pairs])
    side_by_side({"LoRA step": step, "matrix products": products}, rows, "tokens/s", 5)
