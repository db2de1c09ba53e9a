"""A linear map on top of a frozen sentence encoder, learned in seconds from queries and relevant documents.

Queries and documents go through the same map. It starts as the identity; the loss is a softmax over the candidates of a
query's own collection, scaled cosines against the relevant ones (as in `lib.retrieval.finetune`, Oord et al. 2018,
arXiv:1807.03748, but with the whole collection in place of one negative and the batch). The encoder stays as it is, so
that embeddings are computed once for any number of maps.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from lib.retrieval.stores import cosine_of_pairs, seeded_order


@dataclass(frozen=True)
class Adapting:
    """Settings of a map's training.

    On the world `mixed` two epochs at this rate do as well as four at two thirds of it, in less than half of the time
    (training personas that a map did not learn from, needs that it did: Recall@3 75.6 and 76.3%).

    Attributes:
        epochs: times that each query is seen.
        collections: whose queries make one step.
        learning_rate: of Adam at its highest: it rises over the first tenth of the steps and falls linearly to zero.
        scale: cosines are multiplied by it before the softmax.
        seed: of the order of the collections.
    """

    epochs: int = 2
    collections: int = 8
    learning_rate: float = 3e-3
    scale: float = 20.0
    seed: int = 0


def fit_adapter(
    pairs: pd.DataFrame,
    relevant: np.ndarray,
    collections: np.ndarray,
    query_vectors: np.ndarray,
    document_vectors: np.ndarray,
    settings: Adapting,
) -> np.ndarray:
    """A map, (dimensions, dimensions); the identity where there are no pairs.

    Args:
        pairs: columns query_row, item_row: all candidates of each query (see `lib.retrieval.stores.candidate_pairs`).
        relevant: one bool a pair.
        collections: whose documents are searched, one a pair.
        query_vectors, document_vectors: unit-length.
    """
    import torch
    from torch.nn.functional import normalize

    size = query_vectors.shape[1]
    adapter = torch.eye(size, requires_grad=True)
    if not len(pairs):
        return adapter.detach().numpy()
    optimiser = torch.optim.Adam([adapter], lr=settings.learning_rate)
    rows_of = pd.Series(np.arange(len(pairs))).groupby(np.asarray(collections)).indices
    names = seeded_order(collections, settings.seed)
    steps = -(-len(names) // settings.collections)
    rng, total = np.random.default_rng(settings.seed), steps * settings.epochs
    for step in range(total):
        if step % steps == 0:
            names = [names[place] for place in rng.permutation(len(names))]
        first = settings.collections * (step % steps)
        rows = np.concatenate([rows_of[name] for name in names[first : first + settings.collections]])
        asked, query = np.unique(pairs["query_row"].to_numpy()[rows], return_inverse=True)
        there, item = np.unique(pairs["item_row"].to_numpy()[rows], return_inverse=True)
        left, right = (
            normalize(torch.as_tensor(vectors, dtype=torch.float32) @ adapter, dim=1)
            for vectors in (query_vectors[asked], document_vectors[there])
        )
        # Documents of other collections are no candidates: their logits stay far below all others.
        logits = torch.full((len(asked), len(there)), -1e4)
        logits[query, item] = settings.scale * (left @ right.T)[query, item]
        wanted = torch.zeros_like(logits)
        wanted[query, item] = torch.as_tensor(relevant[rows], dtype=torch.float32)
        wanted = wanted / wanted.sum(dim=1, keepdim=True).clamp(min=1)
        loss = -(wanted * torch.log_softmax(logits, dim=1)).sum(dim=1).mean()
        for group in optimiser.param_groups:
            group["lr"] = settings.learning_rate * min(1, 10 * (step + 1) / total) * (1 - step / total)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return adapter.detach().numpy()


def mapped(vectors: np.ndarray, adapter: np.ndarray) -> np.ndarray:
    """Vectors after the map, unit-length."""
    moved = vectors @ adapter
    return moved / np.maximum(np.linalg.norm(moved, axis=1, keepdims=True), 1e-12)


def adapted_cosines(
    pairs: pd.DataFrame, query_vectors: np.ndarray, document_vectors: np.ndarray, adapter: np.ndarray
) -> np.ndarray:
    """The cosine of each pair after the map."""
    moved = []
    for column, vectors in (("query_row", query_vectors), ("item_row", document_vectors)):
        rows, place = np.unique(pairs[column].to_numpy(), return_inverse=True)
        moved.append((place, mapped(vectors[rows], adapter)))
    (query, left), (item, right) = moved
    return cosine_of_pairs(pd.DataFrame({"query_row": query, "item_row": item}), left, right)
