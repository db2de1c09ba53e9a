"""One request to a flow, as somebody who builds a workflow product would try it: few-shots, the flow, its faults."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from lib.generation.models import locate
from lib.retrieval.bm25 import BM25T, tokenize
from lib.retrieval.neighbours import nearest
from lib.workbook.artifacts import Workbook
from lib.workbook.inputs import did_you_mean
from lib.workbook.machine import cores
from lib.workflows.ablation import HELD, ask_model
from lib.workflows.catalogue import Catalogue
from lib.workflows.grammars import flow_grammar
from lib.workflows.language import FlowError, parse, validate
from lib.workflows.prompts import PARTS, STOPS, flow_prompts, metaprompt_parts, token_counter

CANDIDATES = 500  # pairs most alike in words, of which the nearest are few-shots: to encode all takes minutes


class Written(NamedTuple):
    """A flow, and what was retrieved for its request: the few-shots (columns pair, request, dsl, apis, cosine, shown:
    whether the prompt had it; nearest first), names of the APIs whose definitions the prompt had, the flow's text, and
    whether it ended by itself."""

    few_shots: pd.DataFrame
    definitions: list[str]
    text: str
    finished: bool


@dataclass(frozen=True)
class FlowWriter:
    """Retrieval and both language models, ready for any request."""

    training: pd.DataFrame  # pairs to choose few-shots from; columns pair, request, dsl, apis
    catalogue: Catalogue
    lexical: BM25T  # of their requests
    encode: Callable[[list[str]], np.ndarray]  # texts to unit vectors
    load: Callable[[str], Any]  # gives the model of a role: `finetuned` reads the request alone, `untuned` all
    max_tokens: int  # of a flow

    def write(self, request: str, generator: str = "finetuned", shots: int = 5, decoding: str = "free") -> Written:
        """The flow for a request, by the `finetuned` or `untuned` model with so many few-shots retrieved, `free` or
        held to the `catalogue`. Raises ValueError where the request alone is too long for the model."""
        model, tuned = self.load(generator), generator == "finetuned"
        some = np.argsort(-self.lexical.get_scores(tokenize(request)), kind="stable")[:CANDIDATES]
        vectors = self.encode([request, *self.training["request"].iloc[some]])
        rows, cosines = nearest(vectors[1:], vectors[:1], max(shots, 1))
        near = some[rows[0][:shots]]
        prompts = flow_prompts(
            [request],
            [[] if tuned else near.tolist()],
            self.training,
            self.catalogue,
            model.config.max_position_embeddings - self.max_tokens,
            token_counter(model.tokenizer),
            few_shot=not tuned,
            parts=PARTS.get(generator, metaprompt_parts),
        )
        prompts["grammar"] = flow_grammar(self.catalogue, STOPS[generator]) if decoding == HELD else None
        made = ask_model(prompts, model, generator, self.max_tokens).iloc[0]
        found = self.training.iloc[near].assign(cosine=cosines[0][:shots], shown=np.arange(len(near)) < made["shots"])
        return Written(found, made["definitions"], made["text"], bool(made["finished"]))


def open_writer(book: Workbook) -> FlowWriter:
    """The writer on a profile's artifacts, with the tuned encoder where there is one. Answers are kept nowhere; a model
    is loaded when it is first asked. Raises ArtifactError where files are missing or damaged, ModelError where a model
    is missing; both say how to get them."""
    from lib.generation.local import LocalModel
    from lib.retrieval.dense import encode, load_encoder

    pairs = "dsl_training_pairs"
    book.require({"01_data_gen": ("flows.parquet", "catalogue.jsonl"), "08_dsl_retrieval": (f"{pairs}.parquet",)})
    adapter = f"adapters/nl2dsl_{len(book.read(pairs))}"
    book.require({"08_dsl_retrieval": (f"{adapter}/training.json",)})
    told, flows = book.parameters_of(f"{pairs}.parquet"), book.read("flows")
    training = flows[flows["split"] == "training"].reset_index(drop=True)
    name, folder = book.parameters_of("flows.parquet").workflow_encoder, book.data / "encoders" / "tst"
    tuned = (folder / "adapter_config.json").exists()
    encoder = load_encoder(locate(name), adapter=folder if tuned else None)

    learned = {"finetuned": book.data / adapter}
    load = functools.cache(lambda generator: LocalModel(
        told.generator, adapter=learned.get(generator), threads=cores(), quantization=told.quantization))  # fmt: skip
    catalogue, lexical = Catalogue.from_lines(book.read_lines("catalogue")), BM25T(training["request"], 0.75, tokenize)
    return FlowWriter(training, catalogue, lexical, functools.partial(encode, encoder), load, told.dsl_max_tokens)


def checks(text: str, catalogue: Catalogue) -> pd.DataFrame:
    """What the catalogue says of a flow, a row a check: columns check, found."""
    try:
        names, keys, unassigned = validate(parse(text), catalogue)
    except FlowError as error:
        return pd.DataFrame({"check": ["does not parse"], "found": [str(error)]})
    found = {
        "made-up names": [name + did_you_mean(name, catalogue.apis) for name in names],
        "made-up keys": [f"{key} of {api}" for api, key in keys],
        "variables used before they are assigned": unassigned,
    }
    return pd.DataFrame({"check": list(found), "found": [", ".join(texts) or "none" for texts in found.values()]})
