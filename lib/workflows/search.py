"""Search among requests and APIs by one encoder. What it finds for the test requests comes with the project.

To find few-shots, 67,000 requests have to be encoded by each encoder, ten minutes of two cores. The lists found are
small: `data/answers/few_shots.npz` keeps them by a hash of the encoder's weights and of all texts searched and asked.
What is not there is computed, and kept beside the run's embeddings, from where `make train` puts it into that file.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from lib.generation.models import locate
from lib.retrieval.dense import encode, load_encoder, weights_hash
from lib.retrieval.neighbours import nearest
from lib.workbook.artifacts import ROOT, Workbook, sha256_of
from lib.workbook.machine import cores
from lib.workbook.parts import WEIGHTS, add_arrays, kept_arrays
from lib.workflows.clauses import clause_definitions
from lib.workflows.pairs import request_vectors

SHIPPED = Path("data") / "answers" / "few_shots.npz"
OWN = Path("embedded") / "few_shots.npz"  # below a run's artifacts
DEPTH = 20  # few-shots a request that are found at least, as many as the paper shows at most
AUDITED, OTHERS = 5, 50  # queries that are computed again, each among so many texts at least
_base_hash = functools.cache(lambda encoder: weights_hash(load_encoder(locate(encoder))))


@dataclass
class Search:
    """Search by one encoder, which is loaded when it is first needed."""

    encoder: str  # its name
    data: Path  # folder of the run's artifacts
    adapter: Path | None = None  # folder of a LoRA adapter of it
    root: Path = ROOT
    progress: bool = False
    audited: int = 0  # lists of the project that were computed again
    agreed: int = 0  # of which so many came out the same

    @functools.cached_property
    def model(self):
        """The encoder."""
        return load_encoder(locate(self.encoder), cores(), self.adapter)

    @functools.cached_property
    def base(self) -> str:
        """SHA-256 of the encoder without adapter."""
        return _base_hash(self.encoder) if self.adapter else weights_hash(self.model)

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        """Unit vectors of texts."""
        return encode(self.model, list(texts), progress=self.progress)

    def nearest(
        self, documents: Sequence[str], queries: Sequence[str], k: int, vectors: Callable[[], tuple] | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """The `k` nearest documents of each query, best first: row numbers (queries, k or as many as there are), and
        the cosine of the first (queries,); see `lib.retrieval.neighbours.nearest`. `vectors` gives those of documents
        and queries, where they are known."""

        def find(documents, queries, whole=False):
            known = vectors() if whole and vectors else (self.embed(documents), self.embed(queries))
            rows, cosines = nearest(*known, k)
            return rows, cosines[:, 0]

        return self._taken("nearest", documents, queries, k, find)

    def by_clause(self, documents: Sequence[str], queries: Sequence[str], k: int) -> np.ndarray:
        """The `k` documents that each query's clauses find in turn, see `lib.workflows.clauses.clause_definitions`."""
        found = self._taken("clauses", documents, queries, k, lambda documents, queries, whole=False: (
            clause_definitions(queries, self.embed, self.embed(documents), k), np.zeros(len(queries))))  # fmt: skip
        return found[0]

    def _taken(self, how: str, documents, queries, k: int, find: Callable) -> tuple[np.ndarray, np.ndarray]:
        """Lists that come with the project, some computed again among what they hold and other documents; else those of
        an earlier run, else those found now (`find`, told whether among the whole)."""
        documents, queries, k = list(documents), list(queries), min(k, len(documents))
        if not (k and queries):
            return np.empty((len(queries), k), dtype=np.int64), np.zeros(len(queries))
        known = self.base, sha256_of(self.adapter / WEIGHTS) if self.adapter else ""
        key = hashlib.sha256(json.dumps([how, *known, documents, queries]).encode()).hexdigest()
        for path in (self.root / SHIPPED, self.data / OWN):
            kept = kept_arrays(path, key)
            if kept and kept[""].shape[1] >= k:
                rows = kept[""][:, :k].astype(np.int64)
                if path == self.root / SHIPPED:
                    rng = np.random.default_rng(int(key[:8], 16))
                    some = rng.permutation(len(queries))[:AUDITED]
                    among = np.union1d(rows[some], rng.permutation(len(documents))[:OTHERS])
                    again, _ = find([documents[row] for row in among], [queries[row] for row in some])
                    self.audited += len(some)
                    self.agreed += int((among[again] == rows[some]).all(axis=1).sum())
                return rows, kept["cosine"]
        rows, cosines = find(documents, queries, whole=True)
        add_arrays(self.data / OWN, {key: rows.astype(np.uint32), f"{key} cosine": cosines.astype(np.float32)})
        return rows, cosines


def near_training(search: Search, pairs: pd.DataFrame, asked: pd.DataFrame, k: int = DEPTH):
    """The training requests nearest to all that few-shots are looked up for, as `Search.nearest` returns them.

    `pairs`: columns pair, split, request; `asked`: of `lib.workflows.few_shots.asked_requests` of these pairs.
    """
    trained = (pairs["split"] == "training").to_numpy()
    documents, queries = pairs["request"][trained].tolist(), asked["request"].tolist()

    def vectors() -> tuple[np.ndarray, np.ndarray]:
        every = request_vectors(search.model, pairs, search.progress, search.data / "embedded")
        rest = queries[(~trained).sum() :]
        return every[trained], np.vstack([every[~trained], search.embed(rest)] if rest else [every[~trained]])

    return search.nearest(documents, queries, max(k, DEPTH), None if search.adapter else vectors)


def ship_lists(book: Workbook, root: Path = ROOT, **_) -> str:
    """Put the lists that a run has found beside those that come with the project; see `lib.workbook.parts.Recipe`."""
    found = kept_arrays(book.data / OWN)
    return f"{len(found) // 2} sets of lists" if add_arrays(root / SHIPPED, found) else ""
