"""Semantic search: sentence embeddings and cosine similarity."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence

import numpy as np


def load_encoder(path: str, threads: int | None = None):
    """A `SentenceTransformer` on the CPU or, where there is one, the GPU.

    Args:
        path: folder or Hugging Face id (see `lib.generation.models.locate`).
        threads: CPU threads; None leaves PyTorch's choice.
    """
    if os.path.isdir(path):
        os.environ.setdefault("HF_HUB_OFFLINE", "1")
    logging.getLogger("bitsandbytes").setLevel(logging.ERROR)  # it offers to fetch kernels from a hub
    import torch
    from sentence_transformers import SentenceTransformer
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()
    if threads:
        torch.set_num_threads(threads)
    return SentenceTransformer(path)


def encode(encoder, texts: Sequence[str], batch_size: int = 64, progress: bool = False) -> np.ndarray:
    """Unit-length embeddings: float32 array (texts, dimensions), in the order of `texts`.

    Equal texts are encoded once, in sorted order, so that a text's embedding does not depend on where it stood.
    """
    unique = sorted(set(texts))
    row = {text: i for i, text in enumerate(unique)}
    vectors = encoder.encode(
        unique,
        batch_size=batch_size,
        normalize_embeddings=True,
        convert_to_numpy=True,
        show_progress_bar=progress,
    ).astype(np.float32)
    return vectors[[row[text] for text in texts]] if len(texts) else np.empty((0, 0), dtype=np.float32)


def cosine_scores(queries: np.ndarray, documents: np.ndarray) -> np.ndarray:
    """Cosine similarities (queries, documents) of unit-length embeddings."""
    return queries @ documents.T
