"""Query and document read together, or token by token: a cross-encoder and late interaction, both a sentence encoder
with LoRA (Hu et al. 2022, arXiv:2106.09685), resumable.

- cross (Nogueira and Cho 2019, arXiv:1901.04085): query and document are one text to the encoder; a linear head on the
  mean of its token embeddings gives their score. (There: BERT, all of whose weights are trained, the first token's
  embedding, and the probability of being relevant.) It reads every pair anew, so it reranks what a search finds first.
- late (ColBERT; Khattab and Zaharia 2020, arXiv:2004.12832): each is read by itself; the score is the sum over the
  query's tokens of the highest cosine with any token of the document (MaxSim). (There: a linear map to 128 dimensions,
  marks for query and document, masked tokens that lengthen the query, and documents without punctuation: not here.)
  Documents are read before a query comes, so it searches all of them.

What they learn from is a frame of groups: columns query (a text) and documents (a list of texts, the relevant one
first, then irrelevant ones of the same collection). The loss is the cross-entropy of a softmax over the group.

The frozen encoder computes in bfloat16 where the machine has it, without dropout; adapter, head and loss in float32.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from lib.retrieval import tuning
from lib.retrieval.dense import batch_by_batch, load_encoder
from lib.retrieval.tuning import AdapterTraining, add_adapter, kept_or_trained, plan_rows, read_tokens, take_steps
from lib.workbook.checkpoints import Checkpoints, copy_weights
from lib.workbook.trained import Adapter

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

KINDS = ("cross", "late")
CHUNK = 32  # texts that training reads at a time: a step's, sorted by length, so that little is padded
HEAD_DIGITS = 7  # significant ones of the head's weights on record: a float32 has no more


@dataclass(frozen=True)
class Interaction(AdapterTraining):
    """Settings of a training on groups; `batch_size` counts queries, each with its documents.

    Attributes:
        kind: cross or late, see above.
        head_rate: learning rate of the cross-encoder's head, rising and falling as the other.
    """

    rank: int = 4
    alpha: int = 8
    learning_rate: float = 1e-3
    batch_size: int = 16
    kind: str = "cross"
    head_rate: float = 1e-3

    def __post_init__(self):
        if self.kind not in KINDS:
            raise ValueError(f"kind: must be one of {', '.join(KINDS)}, not {self.kind!r}")


# ---------------------------------------------------------------- rows


def training_groups(
    queries: pd.DataFrame, items: pd.DataFrame, qrels: pd.DataFrame, negatives: pd.DataFrame, number: int, seed: int
) -> pd.DataFrame:
    """Groups to train on: each query once, with one of its relevant documents and some of its negatives, at random.

    Args:
        queries: columns query, text.
        items: columns item, text.
        qrels: columns query, item.
        negatives: from `lib.retrieval.finetune.hardest_negatives`.
        number: negatives a query; fewer where it has no more.
        seed: of the draws.

    Returns:
        columns query, documents (see above), one row for each query that has both, in the order of `queries`.
    """
    text = items.set_index("item")["text"]
    drawn = []
    for frame, many in ((qrels, 1), (negatives, number)):
        pairs = frame.loc[frame["query"].isin(queries["query"]), ["query", "item"]].sort_values(["query", "item"])
        pairs = pairs.sample(frac=1, random_state=seed).groupby("query", sort=False).head(many)
        drawn.append(pairs["item"].map(text).groupby(pairs["query"]).agg(list))
    relevant, irrelevant = (queries["query"].map(texts) for texts in drawn)
    both = (relevant.notna() & irrelevant.notna()).to_numpy()
    documents = (relevant[both] + irrelevant[both]).to_numpy()
    return pd.DataFrame({"query": queries["text"].to_numpy()[both], "documents": documents})


def groups_hash(groups: pd.DataFrame) -> str:
    """SHA-256 over groups in their order."""
    return hashlib.sha256(json.dumps(groups[["query", "documents"]].to_numpy().tolist()).encode()).hexdigest()


# ---------------------------------------------------------------- training


def train_interaction(
    path: str,
    groups: pd.DataFrame,
    output: str | Path,
    settings: Interaction = Interaction(),
    threads: int | None = None,
    progress: bool = False,
) -> dict:
    """Train an adapter, and a cross-encoder's head, and write them to the folder `output`.

    A run that was killed goes on from its last whole checkpoint (beside `output`, removed at the end) and gives the
    same weights; a finished run with the same encoder, groups and settings is not repeated.

    Args:
        path: folder or Hugging Face id of the encoder to start from.
        groups: columns query, documents, see above; each row once. Further columns are ignored.
        output: folder of the adapter: `adapter_model.safetensors`, `adapter_config.json`, `training.json`.
        settings: see `Interaction`.
        threads: CPU threads; None leaves PyTorch's choice.
        progress: show a progress bar over steps.

    Returns:
        the record, as `lib.retrieval.tuning.tune_encoder` has it: rows are queries, and instead of `affine` stands
        `head`, the weights of the cross-encoder's head (a list; empty for late interaction). `CrossEncoder.of` and
        `LateInteraction.of` read both.

    Raises:
        ValueError: there is no group, or one with a single document.
        KeyError: a column is missing.
        ArtifactError: a checkpoint or the adapter cannot be written.
    """
    groups = groups[["query", "documents"]]
    if groups.empty or groups["documents"].str.len().min() < 2:
        raise ValueError("there is nothing to train on: a group has a relevant and an irrelevant document")
    encoder = load_encoder(path, threads)
    return kept_or_trained(
        encoder,
        groups_hash(groups),
        Path(output),
        settings,
        [Path(__file__), Path(tuning.__file__)],
        lambda checkpoints: train(encoder, groups, settings, checkpoints, progress),
    )


def train(encoder, groups: pd.DataFrame, settings: Interaction, checkpoints: Checkpoints, progress: bool = False):
    """As `lib.retrieval.tuning.train`, with the head instead of `affine`."""
    import torch

    learner = _LEARNERS[settings.kind](encoder, groups)
    adapted, weights = add_adapter(encoder, settings)
    masters = {key: weight.detach().float().clone() for key, weight in weights.items()}
    head = torch.zeros(encoder.get_embedding_dimension(), device=encoder.device)
    head.requires_grad_(settings.kind == "cross")
    trained = {**masters, "head": head} if settings.kind == "cross" else masters
    parameters = [{"params": list(masters.values()), "highest": settings.learning_rate}]
    if settings.kind == "cross":
        parameters.append({"params": [head], "highest": settings.head_rate})
    optimizer = torch.optim.AdamW(parameters, weight_decay=0.0, fused=head.is_cuda)
    order = plan_rows(learner.lengths, settings.batch_size, settings.seed)
    batches = [order[start : start + settings.batch_size] for start in range(0, len(order), settings.batch_size)]

    def one_step(batch):
        loss = group_loss(learner.scores(batch, head), learner.sizes[batch])
        loss.backward()
        for key, weight in weights.items():
            masters[key].grad, weight.grad = weight.grad.float(), None
        torch.nn.utils.clip_grad_norm_(trained.values(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        copy_weights(masters, weights)
        return loss.detach()

    curve = take_steps(one_step, batches, trained, weights, optimizer, settings.checkpoint_every, checkpoints, progress)
    return adapted, masters, {
        "curve": [line[:2] for line in curve],
        "rows": len(groups),
        "tokens": learner.tokens,
        "seconds": curve[-1][2],
        "head": [float(f"{value:.{HEAD_DIGITS}g}") for value in head.tolist()] if settings.kind == "cross" else [],
    }  # fmt: skip


def group_loss(scores, sizes: np.ndarray):
    """Cross-entropy of a softmax over each group's documents, the first being right; the mean over groups.

    Args:
        scores: of all documents, group after group.
        sizes: documents of each group.
    """
    import torch

    parts = torch.nn.utils.rnn.pad_sequence(scores.split(sizes.tolist()), batch_first=True, padding_value=-torch.inf)
    return torch.nn.functional.cross_entropy(parts, torch.zeros(len(sizes), dtype=torch.long, device=parts.device))


class _Groups:
    """Groups with their documents one after another: `sizes` of the groups, `first` the place of each one's first."""

    def __init__(self, groups: pd.DataFrame):
        self.sizes = groups["documents"].str.len().to_numpy()
        self.first = np.cumsum(self.sizes) - self.sizes
        self.documents = groups["documents"].explode().tolist()
        self.queries = groups["query"].tolist()

    def places(self, batch: np.ndarray) -> np.ndarray:
        """Of the documents of some groups, group after group."""
        return np.concatenate([np.arange(self.first[i], self.first[i] + self.sizes[i]) for i in batch])


class _CrossLearner(_Groups):
    def __init__(self, encoder, groups: pd.DataFrame):
        super().__init__(groups)
        self.encoder = encoder
        repeated = np.repeat(np.array(self.queries, dtype=object), self.sizes).tolist()
        self.read = tokenize_pairs(encoder, repeated, self.documents)
        lengths = np.array([len(ids) for ids in self.read[0]])
        self.lengths, self.tokens = np.maximum.reduceat(lengths, self.first), int(lengths.sum())

    def scores(self, batch: np.ndarray, head):
        """Of the documents of some groups, group after group, with a gradient."""
        places = self.places(batch)
        ids, types = self.read
        chosen = [ids[i] for i in places], types and [types[i] for i in places]
        return in_chunks(lambda some: pooled_pairs(self.encoder, _some(chosen, some)) @ head, chosen[0])


class _LateLearner(_Groups):
    def __init__(self, encoder, groups: pd.DataFrame):
        super().__init__(groups)
        self.encoder = encoder
        self.asked, self.read = (tuning.tokenize(encoder, texts) for texts in (self.queries, self.documents))
        lengths = np.array([len(ids) for ids in self.read])
        asked = np.array([len(ids) for ids in self.asked])
        self.lengths, self.tokens = np.maximum.reduceat(lengths, self.first), int(lengths.sum() + asked.sum())

    def scores(self, batch: np.ndarray, head):
        """Of the documents of some groups, group after group, with a gradient; there is no head."""
        import torch

        places, group = self.places(batch), np.repeat(np.arange(len(batch)), self.sizes[batch])
        asked, asked_mask = unit_tokens(self.encoder, [self.asked[i] for i in batch])
        asked = asked * asked_mask[..., None]  # a padded token adds nothing to the sum
        chosen = [self.read[i] for i in places]

        def highest(some: np.ndarray):
            vectors, mask = unit_tokens(self.encoder, [chosen[i] for i in some])
            cosines = asked[torch.from_numpy(group[some])] @ vectors.transpose(1, 2)
            return cosines.masked_fill(~mask[:, None], -1.0).amax(dim=2).mul(asked_mask[group[some]]).sum(dim=1)

        return in_chunks(highest, chosen)


_LEARNERS: dict[str, Callable[[Any, pd.DataFrame], Any]] = {"cross": _CrossLearner, "late": _LateLearner}


def in_chunks(score: Callable[[np.ndarray], Any], texts: Sequence[list[int]]):
    """Scores of tokenised texts in their order, computed `CHUNK` texts of nearly equal length at a time.

    Args:
        score: from positions to one score each.
    """
    import torch

    order = np.argsort([len(ids) for ids in texts], kind="stable")
    parts = [score(order[start : start + CHUNK]) for start in range(0, len(order), CHUNK)]
    return torch.cat(parts)[torch.from_numpy(np.argsort(order))]


# ---------------------------------------------------------------- the cross-encoder


Pairs = tuple[list[list[int]], "list[list[int]] | None"]  # token ids of each pair, and which text each token is of


def tokenize_pairs(encoder, queries: Sequence[str], documents: Sequence[str]) -> Pairs:
    """Token ids of each pair as the encoder reads the two as one text, its window included, and types where its
    tokenizer has any."""
    read = encoder.tokenizer(list(queries), list(documents), truncation=True, max_length=encoder.max_seq_length)
    return read["input_ids"], read.get("token_type_ids")


def _some(read: Pairs, chosen: np.ndarray) -> Pairs:
    ids, types = read
    return [ids[i] for i in chosen], types and [types[i] for i in chosen]


def pooled_pairs(encoder, read: Pairs):
    """The mean token embedding of each pair: float32 (pairs, dimensions)."""
    features = read_tokens(encoder, *read)
    mask = features["attention_mask"][..., None].float()
    return (features["token_embeddings"] * mask).sum(dim=1) / mask.sum(dim=1)


@dataclass(frozen=True)
class CrossEncoder:
    """A trained cross-encoder.

    Attributes:
        encoder: with the adapter merged into it.
        head: float32 (dimensions,).
    """

    encoder: SentenceTransformer
    head: np.ndarray

    @classmethod
    def of(cls, path: str, adapter: Adapter, threads: int | None = None) -> CrossEncoder:
        """That of an adapter and its record; `path` is of the encoder that it was trained from."""
        return cls(load_encoder(path, threads, adapter.folder), np.array(adapter.record["head"], dtype=np.float32))

    def scores(
        self, queries: Sequence[str], documents: Sequence[str], progress: bool = False, bfloat16: bool = False
    ) -> np.ndarray:
        """How well each document answers the query of the same place: float64 (pairs,), any real number.

        Args:
            progress, bfloat16: see `lib.retrieval.dense.batch_by_batch`.
        """
        import torch

        if not len(queries):
            return np.empty(0)
        read = tokenize_pairs(self.encoder, queries, documents)
        head = torch.from_numpy(self.head).to(self.encoder.device)

        def score(batch: np.ndarray) -> np.ndarray:
            with torch.inference_mode():
                return (pooled_pairs(self.encoder, _some(read, batch)) * head).sum(dim=1).cpu().numpy()

        lengths = [len(ids) for ids in read[0]]
        order, found = batch_by_batch(self.encoder, score, lengths, progress=progress, bfloat16=bfloat16)
        return np.concatenate(found)[np.argsort(order)].astype(float)


def first_results(run: pd.DataFrame, queries: pd.DataFrame, items: pd.DataFrame, depth: int) -> pd.DataFrame:
    """The first `depth` results of each query with their texts: columns query, item, rank, asked, text.

    Args:
        run: from `lib.retrieval.stores.rank_pairs`.
        queries: columns query, text.
        items: columns item, text.
    """
    first = run.loc[run["rank"] <= depth, ["query", "item", "rank"]].reset_index(drop=True)
    asked, text = queries.set_index("query")["text"], items.set_index("item")["text"]
    return first.assign(asked=first["query"].map(asked), text=first["item"].map(text))


def rerank(run: pd.DataFrame, first: pd.DataFrame, scores: np.ndarray) -> pd.DataFrame:
    """A ranking whose first results are put in the order of new scores; the rest follow in their old order.

    Args:
        run: columns query, item, rank, each query's rows together.
        first: from `first_results` of this ranking.
        scores: one a row of `first`; between equals the old order stays.

    Returns:
        columns query, item, rank (from 1), score, as `lib.retrieval.stores.rank_pairs` returns them. The score of a
        result behind the first ones is the lowest of these minus how many places it is behind them.

    Raises:
        ValueError: a score is not finite, or there is not one a row.
    """
    scores = np.asarray(scores, dtype=float)
    if scores.shape != (len(first),) or not np.isfinite(scores).all():
        raise ValueError("rerank needs one finite score a row")
    new = first[["query", "item"]].assign(score=scores)
    ranked = run[["query", "item", "rank"]].merge(new, on=["query", "item"], how="left", sort=False)
    lowest = ranked["query"].map(new.groupby("query")["score"].min()).astype(float)
    depth = ranked["query"].map(first.groupby("query")["rank"].max()).astype(float)
    ranked["score"] = ranked["score"].fillna(lowest - (ranked["rank"] - depth))
    place = pd.factorize(ranked["query"])[0]
    ranked = ranked.iloc[np.lexsort((ranked["rank"], -ranked["score"], place))].reset_index(drop=True)
    ranked["rank"] = ranked.groupby("query", sort=False).cumcount() + 1
    return ranked


# ---------------------------------------------------------------- late interaction


def unit_tokens(encoder, texts: Sequence[list[int]]):
    """Unit-length token embeddings of tokenised texts, float32 (texts, tokens, dimensions), and which of the tokens are
    no padding, bools (texts, tokens)."""
    import torch

    features = read_tokens(encoder, texts)
    return torch.nn.functional.normalize(features["token_embeddings"], dim=2), features["attention_mask"].bool()


@dataclass(frozen=True)
class LateInteraction:
    """A trained encoder for late interaction, its adapter merged into it."""

    encoder: SentenceTransformer

    @classmethod
    def of(cls, path: str, adapter: Adapter, threads: int | None = None) -> LateInteraction:
        """That of an adapter; `path` is of the encoder that it was trained from."""
        return cls(load_encoder(path, threads, adapter.folder))

    def tokens(self, texts: Sequence[str], progress: bool = False, bfloat16: bool = False) -> list[np.ndarray]:
        """Unit-length token embeddings of each text, float32 (tokens, dimensions); equal texts are read once.

        Args:
            progress, bfloat16: see `lib.retrieval.dense.batch_by_batch`.
        """
        import torch

        if not len(texts):
            return []
        unique = sorted(set(texts))
        read = tuning.tokenize(self.encoder, unique)

        def embed(batch: np.ndarray) -> list[np.ndarray]:
            with torch.inference_mode():
                vectors, mask = unit_tokens(self.encoder, [read[i] for i in batch])
            lengths = mask.sum(dim=1).tolist()
            return [text[:length] for text, length in zip(vectors.cpu().numpy(), lengths, strict=True)]

        lengths = [len(ids) for ids in read]
        order, found = batch_by_batch(self.encoder, embed, lengths, progress=progress, bfloat16=bfloat16)
        parts = [vectors for batch in found for vectors in batch]
        known = {unique[place]: vectors for place, vectors in zip(order, parts, strict=True)}
        return [known[text] for text in texts]


def max_sim(query: np.ndarray, documents: np.ndarray, first: np.ndarray) -> np.ndarray:
    """The sum over a query's tokens of the highest cosine with any token of a document (Khattab and Zaharia, §3.3).

    Args:
        query: unit-length rows (tokens, dimensions).
        documents: those of all documents, one after another; none is without a token.
        first: the row at which each document begins.

    Returns:
        one score a document, between minus and plus the number of the query's tokens.
    """
    return np.maximum.reduceat(query @ documents.T, first, axis=1).sum(axis=0)


def beginnings(documents: Sequence[np.ndarray]) -> np.ndarray:
    """The row at which each document begins where they stand one after another, as `max_sim` takes it."""
    lengths = np.array([len(vectors) for vectors in documents], dtype=int)
    return np.cumsum(lengths) - lengths


def late_scores(pairs: pd.DataFrame, queries: Sequence[np.ndarray], documents: Sequence[np.ndarray]) -> np.ndarray:
    """`max_sim` of each pair.

    Args:
        pairs: from `lib.retrieval.stores.candidate_pairs`.
        queries, documents: from `LateInteraction.tokens`, in the order of the frames that `pairs` was made from.
    """
    scores = np.zeros(len(pairs))
    item_rows = pairs["item_row"].to_numpy()
    for query_row, places in pd.Series(np.arange(len(pairs))).groupby(pairs["query_row"].to_numpy()).indices.items():
        own = [documents[row] for row in item_rows[places]]
        scores[places] = max_sim(queries[query_row], np.concatenate(own), beginnings(own))
    return scores
