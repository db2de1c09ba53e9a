"""One request at a time, as somebody who builds a workflow product would try it: few-shots, definitions, the flow that
a model writes, what the catalogue says of it, and how it differs from the flow that is wanted.

What notebooks 01 and 08 left for it is read first (`read_saved`); encoders and models are loaded when they are first
needed (`open_writer`), since that takes longer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from lib.generation.models import load_or_say_how
from lib.retrieval.neighbours import nearest
from lib.workbook.artifacts import Workbook
from lib.workbook.machine import cores
from lib.workbook.parameters import Parameters
from lib.workflows.ablation import Condition, ask, write_condition
from lib.workflows.catalogue import Catalogue
from lib.workflows.few_shots import few_shot_definitions
from lib.workflows.language import FlowError, Report, parse, validate
from lib.workflows.prompts import token_counter

SAMPLE = 500  # training requests whose nearest other one is looked up
UNUSUAL = 1  # per cent of them: a request farther from all training requests than these is unlike them

# The files that the explorer needs, by the notebook that writes them.
NEEDED = {
    "01_data_gen": ("flows.parquet", "catalogue.jsonl", "embeddings_requests.safetensors", "tst_pairs.parquet"),
    "08_dsl_retrieval": ("dsl_training_pairs.parquet", "embeddings_requests_tst.safetensors"),
}


@dataclass(frozen=True)
class Saved:
    """What earlier notebooks left for the explorer.

    Attributes:
        training: pairs to choose few-shots from; columns pair, request, dsl, apis.
        tests: pairs whose requests may be asked, the same columns and split (test, unseen).
        catalogue: what a flow may call.
        selectors: encoders that few-shots can be chosen with: `tst` is missing where no pair was mined to tune it.
        encoder: name of the pretrained one.
        learned: how many pairs the fine-tuned model learned from.
        tuned: parameters of notebook 08.
    """

    training: pd.DataFrame
    tests: pd.DataFrame
    catalogue: Catalogue
    selectors: tuple[str, ...]
    encoder: str
    learned: int
    tuned: Parameters


def read_saved(book: Workbook) -> Saved:
    """What the explorer needs of the artifacts of a profile; neither vectors nor models are loaded.

    Raises:
        ArtifactError: files are missing (names them and the notebooks that write them), damaged, or of another version
            of the workbook.
    """
    book.require(NEEDED)
    learned, mined = len(book.read("dsl_training_pairs")), len(book.read("tst_pairs"))
    trained = [adapter_of(learned) + "/training.json", *["encoders/tst/adapter_config.json"] * (mined > 0)]
    book.require({"08_dsl_retrieval": trained})
    flows = book.read("flows")
    is_training = flows["split"] == "training"
    return Saved(
        training=flows[is_training].reset_index(drop=True),
        tests=flows[~is_training].reset_index(drop=True),
        catalogue=Catalogue.from_lines(book.read_lines("catalogue")),
        selectors=("tst", "pretrained") if mined else ("pretrained",),
        encoder=book.made_with("embeddings_requests.safetensors")["workflow_encoder"],
        learned=learned,
        tuned=book.parameters_of("dsl_training_pairs.parquet"),
    )


def adapter_of(learned: int) -> str:
    """The adapter's folder among the artifacts."""
    return f"adapters/nl2dsl_{learned}"


class Selector(NamedTuple):
    """What few-shots are chosen with.

    Attributes:
        vectors: unit-length embeddings of the training requests, (pairs, dimensions).
        encode: texts to unit-length embeddings.
    """

    vectors: np.ndarray
    encode: Callable[[list[str]], np.ndarray]


def open_writer(book: Workbook, saved: Saved) -> FlowWriter:
    """The writer on a profile's artifacts. Answers are kept nowhere."""
    return FlowWriter(
        saved.training,
        saved.catalogue,
        partial(load_selector, book, saved),
        partial(load_model, book, saved),
        saved.tuned.dsl_max_tokens,
    )


def load_selector(book: Workbook, saved: Saved, name: str) -> Selector:
    """An encoder with the vectors of the training requests.

    Raises:
        ModelError: the encoder is missing; says how to get it.
        ArtifactError: the vectors are damaged.
    """
    from lib.retrieval.dense import encode, load_encoder, query_encoder

    if name == "tst":
        vectors = book.read_arrays("embeddings_requests_tst")["training"]
    else:
        vectors = book.read_arrays("embeddings_requests")["requests"]
        vectors = vectors[(book.read("flows")["split"] == "training").to_numpy()]
    adapter = book.data / "encoders" / "tst" if name == "tst" else None
    encoder = load_or_say_how(saved.encoder, partial(load_encoder, adapter=adapter))
    return Selector(vectors, partial(encode, query_encoder(encoder)))


def load_model(book: Workbook, saved: Saved, generator: str):
    """The language model as it comes (`untuned`), or with the adapter of notebook 08 (`finetuned`).

    Raises:
        ModelError: it is missing; says how to get it.
    """
    from lib.generation.local import LocalModel

    adapter = book.data / adapter_of(saved.learned) if generator == "finetuned" else None

    def load(path: str) -> LocalModel:
        model = LocalModel(path, adapter=adapter, threads=cores(), quantization=saved.tuned.quantization)
        _ = model.model  # its weights are read when they are first asked for
        return model

    return load_or_say_how(saved.tuned.generator, load)


@dataclass(frozen=True)
class Written:
    """A flow, and what was retrieved for its request.

    Attributes:
        condition: how it was asked, as a row of notebook 09's ablation.
        few_shots: columns cosine, request, dsl, apis, shown (whether the prompt had it), nearest first.
        definitions: names of the APIs in these few-shots (FD); those that the prompt had, where the model reads any.
        text: the flow.
        finished: whether it ended by itself.
        tokens_in, tokens_out: of the prompt and of the answer.
        nearest: cosine of the request with the training request nearest to it.
        usual: `usual_cosine` of the training requests, by the same encoder.
    """

    condition: Condition
    few_shots: pd.DataFrame
    definitions: list[str]
    text: str
    finished: bool
    tokens_in: int
    tokens_out: int
    nearest: float
    usual: float


def usual_cosine(vectors: np.ndarray) -> float:
    """The cosine with the nearest other request that all but `UNUSUAL` per cent of the training requests reach; over
    `SAMPLE` of them, always the same ones. Below every cosine where there is no other.

    Args:
        vectors: unit-length embeddings of the training requests, (pairs, dimensions).
    """
    if len(vectors) < 2:
        return -1.0
    rows = np.random.default_rng(0).choice(len(vectors), min(SAMPLE, len(vectors)), replace=False)
    _, cosines = nearest(vectors, vectors[rows], 2)  # the nearest is the request itself
    return float(np.percentile(cosines[:, 1], UNUSUAL))


class FlowWriter:
    """Retrieval and both language models, ready for any request.

    Args:
        training: pairs to choose few-shots from; columns request, dsl, apis.
        catalogue: for definitions and grammars.
        load_selector: gives the `Selector` of a name (`pretrained`, `tst`).
        load_model: gives the model of a role (`untuned`, `finetuned`), a `lib.generation.local.LocalModel`.
        max_tokens: of a flow.
    """

    def __init__(
        self,
        training: pd.DataFrame,
        catalogue: Catalogue,
        load_selector: Callable[[str], Selector],
        load_model: Callable[[str], Any],
        max_tokens: int,
    ):
        self.training, self.catalogue, self.max_tokens = training, catalogue, max_tokens
        self.load_selector, self.load_model = load_selector, load_model
        self.selectors: dict[str, Selector] = {}
        self.usual: dict[str, float] = {}  # `usual_cosine` by selector
        self.models: dict[str, tuple[Any, Callable[[str], int]]] = {}  # each with what counts a text's tokens

    def prepare(self, selector: str, generator: str) -> None:
        """Load what is not there yet. Raises as `load_selector` and `load_model` do."""
        if selector not in self.selectors:
            self.selectors[selector] = self.load_selector(selector)
            self.usual[selector] = usual_cosine(self.selectors[selector].vectors)
        if generator not in self.models:
            model = self.load_model(generator)
            self.models[generator] = model, token_counter(model.tokenizer)

    def is_prepared(self, selector: str, generator: str) -> bool:
        return selector in self.selectors and generator in self.models

    def retrieve(self, request: str, selector: str, k: int) -> pd.DataFrame:
        """The k training pairs nearest to a request, nearest first: `training` with a column cosine."""
        vectors, encode = self.selectors[selector]
        found, cosines = nearest(vectors, encode([request]), k)
        return self.training.iloc[found[0]].assign(cosine=cosines[0])

    def write(self, request: str, selector: str, shots: int, fd: bool, generator: str, decoding: str) -> Written:
        """The flow for a request.

        Args:
            selector, shots: whose few-shots are retrieved, and how many.
            fd: whether their definitions are.
            generator: the fine-tuned model reads the request alone, whatever is retrieved.
            decoding: as in `Condition`.

        Raises:
            ValueError: the request alone is too long for the model.
        """
        self.prepare(selector, generator)
        model, count = self.models[generator]
        found = self.retrieve(request, selector, max(shots, 1))
        few_shots = found.head(shots)
        reads = generator == "untuned"
        shown = len(few_shots) * reads
        defined = "fd" if fd and shown else "none"
        condition = Condition(selector, shown, defined, generator, decoding)
        asked = pd.DataFrame({"pair": ["typed"], "request": [request], "apis": [[]]})
        room = model.config.max_position_embeddings - self.max_tokens
        near = few_shots.index.tolist()
        try:
            prompts = write_condition(condition, asked, [near], self.training, self.catalogue, room, count)
        except ValueError as error:
            raise ValueError(f"The request is too long for the model: {error}") from error
        answer = ask(prompts, model, generator, self.max_tokens).iloc[0]
        would_show = few_shot_definitions(near, self.training["apis"]) if fd else []
        return Written(
            condition,
            few_shots.assign(shown=np.arange(len(near)) < answer["shots"]).reset_index(drop=True),
            answer["definitions"] if reads else [name for name in would_show if name in self.catalogue],
            answer["text"],
            bool(answer["finished"]),
            int(answer["tokens_in"]),
            int(answer["tokens_out"]),
            float(found["cosine"].iloc[0]),
            self.usual[selector],
        )


def check(text: str, catalogue: Catalogue) -> FlowError | Report:
    """What the catalogue says of a flow, or where it does not parse."""
    try:
        return validate(parse(text), catalogue)
    except FlowError as error:
        return error
