"""Texts close to each other, given nothing but their vectors: the nearest documents of a query, and pairs to train on.

Vectors have unit length, so that their inner product is the cosine.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from tqdm.auto import tqdm

BLOCK = 1024  # rows and columns of the part of the matrix of cosines that is in memory
DECIMALS = 6  # of cosines in float32 that count: the last bit depends on the order of summation
NEAR = 1e-5  # a float32 cosine this close to the threshold is computed again in float64


def nearest(documents: np.ndarray, queries: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """The `k` documents of highest cosine with each query, by exact search in a FAISS index.

    Args:
        documents, queries: unit vectors, float32 (texts, dimensions).
        k: documents a query; all of them where there are fewer.

    Returns:
        indices into `documents` and cosines, each (queries, k), best first. Cosines equal in six decimals are ties,
        and the lower index comes first.
    """
    import faiss

    index = faiss.IndexFlatIP(documents.shape[1])
    index.add(np.ascontiguousarray(documents, dtype=np.float32))
    queries = np.ascontiguousarray(queries, dtype=np.float32)
    k = min(k, len(documents))
    indices, cosines = np.empty((len(queries), k), dtype=np.int64), np.empty((len(queries), k), dtype=np.float32)
    rows, depth = np.arange(len(queries)), 2 * k
    while len(rows) and k:
        depth = min(depth, len(documents))
        found, numbers = index.search(queries[rows], depth)
        rounded = found.round(DECIMALS)
        order = np.lexsort((numbers, -rounded))[:, :k]
        indices[rows] = np.take_along_axis(numbers, order, axis=1)
        cosines[rows] = np.take_along_axis(found, order, axis=1)
        # FAISS says nothing about ties: where they reach the last place searched, search deeper.
        tied = rounded[:, -1] == rounded[:, k - 1] if depth < len(documents) else np.zeros(len(rows), dtype=bool)
        rows, depth = rows[tied], 2 * depth
    return indices, cosines


def mine_pairs(
    vectors: np.ndarray, number: int, threshold: float, seed: int, progress: bool = False, block: int = BLOCK
) -> tuple[pd.DataFrame, int]:
    """Pairs of texts drawn evenly from all unordered pairs: half of them positive, with a cosine above `threshold`.

    Positive and negative pairs are drawn without replacement, each pair of its kind as likely as any other. The draw
    depends on the vectors and the seed, not on `block`. Takes every cosine once, in blocks. Source: the workflow
    paper, section 3.2.2, which leaves the share of positive pairs open.

    Args:
        vectors: unit vectors, float32 (texts, dimensions).
        number: pairs wanted; of an odd number one more is negative. Where there are too few pairs of a kind, all of
            them are taken and as many of the other; where there are none, the other kind stays at its half.
        block: rows and columns of cosines in memory at a time.

    Returns:
        the pairs, columns a, b (row numbers, a < b), cosine, positive (bool), sorted by a, b;
        and how many of all the pairs are positive.

    Raises:
        ValueError: there are fewer than two vectors.
    """
    texts = len(vectors)
    if texts < 2:
        raise ValueError("mining needs at least two vectors")
    vectors = np.ascontiguousarray(vectors, dtype=np.float32)
    above = _positives_per_cell(vectors, threshold, block, progress)
    # A cell is a row within one block of columns; only columns after the row's own number make a pair.
    starts = np.arange(0, texts, block)
    first = np.maximum(starts, np.arange(1, texts + 1)[:, None])
    cells = np.maximum(np.minimum(starts + block, texts) - first, 0)
    totals = {True: int(above.sum()), False: int((cells - above).sum())}
    sizes = {True: min(number // 2, totals[True]), False: min(number - number // 2, totals[False])}
    if sizes[True] and sizes[False]:
        sizes = {True: min(sizes[True], sizes[False]), False: min(sizes[False], sizes[True] + number % 2)}
    rng = np.random.default_rng(seed)
    parts = []
    for positive, counts in ((True, above), (False, cells - above)):
        ranks = np.sort(rng.choice(totals[positive], sizes[positive], replace=False)) if sizes[positive] else ()
        a, b = _pairs_at(vectors, np.asarray(ranks, dtype=np.int64), counts, threshold, positive, block)
        parts.append(pd.DataFrame({"a": a, "b": b, "cosine": _cosines(vectors, a, b), "positive": positive}))
    pairs = pd.concat(parts, ignore_index=True).astype({"positive": bool})
    return pairs.sort_values(["a", "b"], ignore_index=True), totals[True]


def _cosines(vectors: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Of pairs of rows, in float64."""
    return np.einsum("ij,ij->i", vectors[a], vectors[b], dtype=np.float64)


def _above(vectors: np.ndarray, rows: np.ndarray, columns: np.ndarray, threshold: float) -> np.ndarray:
    """Whether the cosine of each row and column is above the threshold, as a matrix of bools that does not depend on
    which other rows and columns are asked for."""
    import torch  # whose product takes less than half the time of NumPy's on some processors

    cosines = (torch.from_numpy(vectors[rows]) @ torch.from_numpy(vectors[columns]).T).numpy()
    above = cosines > threshold + NEAR
    near = (cosines > threshold - NEAR) != above
    if near.any():
        i, j = np.nonzero(near)
        above[i, j] = _cosines(vectors, rows[i], columns[j]) > threshold
    return above


def _positives_per_cell(vectors: np.ndarray, threshold: float, block: int, progress: bool) -> np.ndarray:
    """How many positive pairs each row has with the later texts of each block of columns: (texts, blocks)."""
    numbers = np.arange(len(vectors))
    blocks = [numbers[start : start + block] for start in range(0, len(vectors), block)]
    counts = np.zeros((len(vectors), len(blocks)), dtype=np.int64)
    with tqdm(total=len(blocks) * (len(blocks) + 1) // 2, desc="cosines of all pairs", disable=not progress) as bar:
        for i, rows in enumerate(blocks):
            for j, columns in enumerate(blocks[i:], start=i):
                above = _above(vectors, rows, columns, threshold)
                counts[rows, j] = (np.triu(above, k=1) if i == j else above).sum(axis=1)
                bar.update()
    return counts


def _pairs_at(
    vectors: np.ndarray, ranks: np.ndarray, counts: np.ndarray, threshold: float, positive: bool, block: int
) -> tuple[np.ndarray, np.ndarray]:
    """The pairs of a kind at these places of their row by row enumeration, given how many of them each cell has.

    Only the cells that hold one are computed again.
    """
    ends = np.cumsum(counts)
    cell = np.searchsorted(ends, ranks, side="right")
    place = ranks - (ends[cell] - counts.ravel()[cell])
    a, column_block = np.divmod(cell, counts.shape[1])
    b = np.empty_like(a)
    for number in np.unique(column_block):
        columns = np.arange(number * block, min((number + 1) * block, len(vectors)))
        chosen = np.flatnonzero(column_block == number)
        for picks in np.split(chosen, range(block, len(chosen), block)):
            matching = _above(vectors, a[picks], columns, threshold) == positive
            matching &= columns > a[picks, None]
            seen = np.cumsum(matching, axis=1, dtype=np.int32)
            b[picks] = columns[(seen > place[picks, None]).argmax(axis=1)]
    return a, b
