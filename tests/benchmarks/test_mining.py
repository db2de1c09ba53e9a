"""Mining of pairs from all pairs of 67,000 texts beside `sentence_transformers.util`, both from vectors at hand; no
time is asserted.

The two do not give the same: ours is an even draw of pairs above and below a threshold, theirs the closest pairs. Both
need every cosine once at least.
"""

import os

import numpy as np
import pytest
import torch
from sentence_transformers.util import paraphrase_mining_embeddings

from lib.retrieval.neighbours import mine_pairs

TEXTS, DIMENSIONS, TOPICS, PAIRS, THRESHOLD, THREADS = 67_000, 384, 2000, 100_000, 0.7, 2
GROUP = f"mining of pairs from {TEXTS:,} texts"


@pytest.fixture(scope="module")
def vectors():
    """Unit vectors in clusters: about one pair in 2,000 has a cosine above the threshold."""
    torch.set_num_threads(min(THREADS, os.cpu_count() or 1))
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(TOPICS, DIMENSIONS)).astype(np.float32)
    vectors = centres[rng.integers(TOPICS, size=TEXTS)]
    vectors += 0.55 * rng.normal(size=vectors.shape).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


@pytest.mark.benchmark(group=GROUP)
def test_mine_pairs(benchmark, rate, vectors):
    pairs, positives = benchmark.pedantic(mine_pairs, args=(vectors, PAIRS, THRESHOLD, 0), rounds=1)
    rate("mine_pairs", TEXTS * (TEXTS - 1) / 2, "pairs")
    assert len(pairs) == PAIRS
    assert positives > PAIRS


@pytest.mark.benchmark(group=GROUP)
def test_paraphrase_mining(benchmark, rate, vectors):
    pairs = benchmark.pedantic(
        paraphrase_mining_embeddings, args=(torch.from_numpy(vectors),), kwargs={"max_pairs": PAIRS}, rounds=1
    )
    rate("sentence_transformers.util.paraphrase_mining_embeddings", TEXTS * (TEXTS - 1) / 2, "pairs")
    assert len(pairs) > 0
