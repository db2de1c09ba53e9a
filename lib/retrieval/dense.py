"""Semantic search: sentence embeddings and cosine similarity."""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import tempfile
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file
from tqdm.auto import tqdm

from lib.retrieval.stores import candidate_pairs, cosine_of_pairs, rank_pairs
from lib.workbook.artifacts import atomic_path
from lib.workbook.machine import accelerator, cores, worker_pool


def load_encoder(path: str, threads: int | None = None, adapter: str | Path | None = None):
    """A `SentenceTransformer` in float32, on the CPU or, where there is one, the GPU, from a folder or by its Hugging
    Face id (see `lib.generation.models.locate`), with the LoRA adapter of a folder merged into its weights; without
    `threads`, PyTorch chooses their number."""
    logging.getLogger("bitsandbytes").setLevel(logging.ERROR)  # it offers to fetch kernels from a hub
    import torch
    from sentence_transformers import SentenceTransformer
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()
    if threads:
        torch.set_num_threads(min(threads, cores()))
    own = os.path.isdir(path)
    hub, _, revision = (path, "", "") if own else path.partition("@")
    # float32 whatever the files hold: T5 encoders come in float16, in which a CPU is slow and training is lost
    settings = {"dtype": torch.float32}
    encoder = SentenceTransformer(hub, revision=revision or None, local_files_only=own, model_kwargs=settings)
    if adapter:
        from peft import PeftModel

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # peft asks transformers for a renamed attribute
            adapted = PeftModel.from_pretrained(cast(Any, encoder[0].auto_model), str(adapter))
        encoder[0].auto_model = adapted.merge_and_unload()
    return encoder


def encode(
    encoder, texts: Sequence[str], batch_size: int = 32, progress: bool = False, keep: Path | None = None
) -> np.ndarray:
    """Unit-length embeddings: float32 array (texts, dimensions), in the order of `texts`.

    Equal texts are encoded once, in an order of their own, so that a text's embedding does not depend on where it
    stood. On a CPU, batches are computed side by side, each by one thread: which texts share a batch, and so the last
    bits, do not depend on the number of cores.

    Always in float32: in bfloat16, which some processors have, one prompt in six shows its five few-shots otherwise.

    Args:
        keep: a file that keeps them for the next run, which takes them from it where encoder, texts, batch size,
            libraries and processor are the same; 1.5 KB a text of MiniLM.
    """
    if not len(texts):
        return np.empty((0, 0), dtype=np.float32)
    unique, vectors = sorted(set(texts)), None
    if keep:
        key = _key(encoder, unique, batch_size)
        with contextlib.suppress(OSError, SafetensorError), safe_open(keep, framework="numpy") as file:
            vectors = file.get_tensor("vectors") if (file.metadata() or {}).get("key") == key else None
    if vectors is None:
        vectors = _computed(encoder, unique, batch_size, progress)
        if keep:
            with atomic_path(keep) as temporary:
                save_file({"vectors": vectors}, temporary, metadata={"key": key})
    row = {text: i for i, text in enumerate(unique)}
    return vectors[[row[text] for text in texts]]


def onnx_encoder(encoder) -> Callable[[str], np.ndarray]:
    """What embeds one text, (dimensions,), as `encode` does but for the last bits: the encoder in ONNX Runtime, on one
    thread of the processor, in less than half of PyTorch's time. Its export takes a few seconds."""
    import onnxruntime
    import torch

    class Exported(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder = encoder

        def forward(self, *inputs):
            read = self.encoder(dict(zip(names, inputs, strict=True)))
            return torch.nn.functional.normalize(read["sentence_embedding"][0], dim=0)

    names, some = ["input_ids", "attention_mask"], encoder.preprocess(["a text of a few words"])
    how: dict[str, Any] = {"input_names": names, "dynamic_axes": {name: {1: "tokens"} for name in names}}
    example = tuple(some[name].to(encoder.device) for name in names)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of tracing: what it takes for constant is so for one text
        path = f"{folder}/encoder.onnx"
        torch.onnx.export(Exported().eval(), example, path, dynamo=False, **how)  # the other exporter needs onnxscript
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])

    def embed(text: str) -> np.ndarray:
        read = encoder.preprocess([text])
        return session.run(None, {name: read[name].numpy() for name in names})[0]

    return embed


def _key(encoder, texts: Sequence[str], batch_size: int) -> str:
    """SHA-256 of all that the bits of embeddings depend on."""
    import sentence_transformers
    import torch

    made_by = [torch.__version__, sentence_transformers.__version__, accelerator(), batch_size]
    made_by += [encoder.max_seq_length, repr(encoder)]  # its modules, such as how tokens are pooled
    return weights_hash(encoder, json.dumps([*made_by, list(texts)]))


def _computed(encoder, texts: list[str], batch_size: int, progress: bool) -> np.ndarray:
    """Embeddings of distinct texts, at least one, in batches of nearly equal length."""
    import torch

    def embed(batch: np.ndarray) -> np.ndarray:
        how = {"normalize_embeddings": True, "convert_to_numpy": True, "show_progress_bar": False}
        return encoder.encode([texts[i] for i in batch], batch_size=len(batch), **how).astype(np.float32)

    on_gpu = torch.cuda.is_available()
    batches = _batches(_token_lengths(encoder, texts), 8 * batch_size if on_gpu else batch_size)
    with worker_pool(1 if on_gpu else cores(), torch.get_num_threads() if on_gpu else 1) as pool:
        found = list(tqdm(pool.map(embed, batches), total=len(batches), disable=not progress, unit="batch"))
    return np.concatenate(found)[np.argsort(np.concatenate(batches))]


def _token_lengths(encoder, texts: Sequence[str], chunk: int = 4096) -> list[int]:
    """How many tokens the encoder reads of each text; characters where it has no tokenizer of `transformers`."""
    from transformers import PreTrainedTokenizerBase

    tokenizer = getattr(encoder, "tokenizer", None)
    if not isinstance(tokenizer, PreTrainedTokenizerBase):
        return [len(text) for text in texts]
    cut = {"truncation": True, "max_length": encoder.max_seq_length} if encoder.max_seq_length else {}
    chunks = (list(texts[start : start + chunk]) for start in range(0, len(texts), chunk))
    return [len(ids) for part in chunks for ids in tokenizer(part, return_attention_mask=False, **cut)["input_ids"]]


def _batches(lengths: Sequence[int], size: int) -> list[np.ndarray]:
    """Positions of texts of nearly equal length, so that little is padded; the longest first. Fewer than a batch are
    cut in two where the length falls to half of the longest: a request of sixty words and its clauses would mostly be
    padding."""
    order, cuts = np.argsort(-np.asarray(lengths), kind="stable"), [*range(size, len(lengths), size)]
    if 1 < len(order) <= size:
        cuts = [int(np.searchsorted(-np.asarray(lengths)[order], -max(lengths) / 2))]
    return [part for part in np.split(order, cuts) if len(part)]


def weights_hash(encoder, heading: str = "") -> str:
    """SHA-256 over a heading, else the encoder's window, and the names and values of its weights."""
    digest = hashlib.sha256((heading or f"{encoder.max_seq_length}").encode())
    for name, value in sorted(encoder.state_dict().items()):
        digest.update(f"{name} {value.dtype} {tuple(value.shape)}".encode())
        digest.update(value.detach().cpu().float().numpy().tobytes())
    return digest.hexdigest()


def search(
    encoder, queries: pd.DataFrame, documents: pd.DataFrame, on: str = "", progress: bool = False
) -> pd.DataFrame:
    """Rank (see `lib.retrieval.stores.rank_pairs`) every query's own collection by cosine, encoding only what the
    queries' collections hold; columns query, text and `on`, the collection, and item, text and `on`. Without `on` every
    query searches all documents."""
    documents = documents[documents[on].isin(queries[on])] if on else documents
    vectors = [encode(encoder, part["text"].tolist(), progress=progress) for part in (queries, documents)]
    pairs = candidate_pairs(queries, documents, on)
    return rank_pairs(pairs, cosine_of_pairs(pairs, *vectors))
