"""What ranking one query's context costs: milliseconds of every method, and tokens that a neural model reads or
writes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from lib.assistant.cot import ONE_PARAGRAPH, AskedChains
from lib.assistant.persona_index import PersonaIndex, milliseconds, time_stages
from lib.assistant.prompts import distilled_cot_prompt
from lib.assistant.ranker_ablation import TWO_CROSS_FITTED
from lib.workbook.parameters import Parameters, is_remote

if TYPE_CHECKING:
    from lib.assistant.rrf_readings import FusedRankers
    from lib.assistant.second_stage import SecondStage
    from lib.retrieval.lambdamart import LambdaMART

TIMED_QUERIES = 200  # at most
ENOUGH_FOR_P95 = 50  # queries


class Cost(NamedTuple):
    """What a method costs: milliseconds of each timed query, and tokens read and written for one query."""

    times: pd.Series
    tokens_in: float
    tokens_out: float


class ChainWriter(NamedTuple):
    """A language model that writes chains of thought: its prompts, the settings it is asked with, and whether it is
    behind an endpoint."""

    model: Any
    prompts: list[str]
    settings: dict[str, Any]
    remote: bool = False


def asked_to_time(parameters: Parameters, evaluation: int) -> AskedChains:
    """What notebook 05 asks the zero-shot writer for.

    Args:
        evaluation: evaluation queries that there are, or that are timed (`sample_to_time`).
    """
    queries = min(parameters.cost_queries, TIMED_QUERIES, evaluation)
    return AskedChains("evaluation", "cot", parameters.cot_context_types, queries)


def chain_writers(
    parameters: Parameters, texts: Sequence[str], adapter: Path | None, answers: Path, record: Path
) -> dict[str, ChainWriter]:
    """The writers of chains of thought about some queries, by method.

    Args:
        parameters: which models they are, and what they are asked.
        texts: the queries.
        adapter: of the distilled writer; None where there is none.
        answers: where answers of an endpoint are kept; a model on this machine is timed anew.
        record: where what was spent at an endpoint is written.
    """
    from lib.generation.load import load_language_model, remote_settings
    from lib.generation.local import LocalModel

    remote, asked = is_remote(parameters.writer), asked_to_time(parameters, len(texts))
    zero_shot = load_language_model(
        parameters.writer, answers if remote else None, record=record, **remote_settings(parameters)
    )
    writers = {asked.writer: ChainWriter(zero_shot, asked.prompts(texts), ONE_PARAGRAPH, remote)}
    if adapter is not None:
        learner = LocalModel(parameters.distilled_writer or parameters.writer, adapter=adapter)
        writers["cot_distilled"] = ChainWriter(learner, [distilled_cot_prompt(text) for text in texts], {})
    return writers


def sample_to_time(queries: pd.DataFrame, seed: int) -> pd.DataFrame:
    """Evaluation queries to time."""
    asked = queries[queries["split"] != "training"]
    return asked.sample(min(TIMED_QUERIES, len(asked)), random_state=seed).reset_index(drop=True)


def index_personas(
    items: pd.DataFrame,
    opens: pd.DataFrame,
    vectors: np.ndarray,
    personas: Sequence[str],
    b: float,
    adapter: np.ndarray | None = None,
) -> dict[str, PersonaIndex]:
    """What is computed before a query comes, by persona.

    Args:
        items, opens: of all personas.
        vectors: unit-length embeddings of `items`, in their order.
        b: BM25T's length normalisation.
        adapter: behind the fine-tuned cosine (see `PersonaIndex`).
    """
    vector_of = pd.Series(list(vectors), index=items["item"])
    indexes = {}
    for name, mine in items[items["persona"].isin(personas)].groupby("persona"):
        own = np.stack(vector_of[mine["item"]].to_list())
        indexes[name] = PersonaIndex(mine, opens[opens["item"].isin(mine["item"])], own, b, adapter)
    return indexes


def time_queries(
    indexes: Mapping[str, PersonaIndex],
    queries: pd.DataFrame,
    encode: Callable[[str], np.ndarray],
    ranker: LambdaMART,
    fused: FusedRankers,
    second: SecondStage,
) -> pd.DataFrame:
    """`lib.assistant.persona_index.time_stages` of each query: one row a query, one column a stage, in milliseconds."""
    # A few dozen rows: more threads would wait for each other.
    alone, fused = replace(ranker, threads=1), fused.on_one_thread()
    second = replace(second, ranker=replace(second.ranker, threads=1))
    asked = [queries.iloc[[row]].reset_index(drop=True) for row in range(len(queries))]
    for query in asked:
        indexes[query["persona"].iloc[0]].before(query["time"])

    def timed(row: int) -> dict[str, float]:
        query = asked[row]
        return time_stages(indexes[query["persona"].iloc[0]], query, encode, alone, fused, second)

    timed(0)  # the first call of anything is slow
    return pd.DataFrame([timed(row) for row in range(len(queries))])


def ranking_costs(stages: pd.DataFrame, tokens: float) -> dict[str, Cost]:
    """The cost of each method without a language model; of what sees a fine-tuned encoder, but for its few features
    more.

    Args:
        stages: from `time_queries`.
        tokens: that the encoder reads of one query.
    """
    features = ["encode", "cosine", "bm25t", "signals"]
    of_stages = {
        "random": ["sort"],
        "recency": ["sort"],
        "bm25t": ["bm25t", "sort"],
        "semantic": ["encode", "cosine", "sort"],
        "rrf_text": ["encode", "cosine", "bm25t", "fuse_text"],
        "lambdamart": [*features, "predict", "sort"],
        "lambdamart_rrf": [*features, "predict_fused", "fuse"],
        "lambdamart_2": [*features, "predict", "second", "sort"],
        "finetuned": ["encode", "cosine", "sort"],  # an encoder of the pretrained one's shape
        TWO_CROSS_FITTED: [*features, "encode", "cosine", "predict", "second", "sort"],  # two encoders
    }
    return {
        method: Cost(stages[names].sum(axis=1), tokens * names.count("encode"), 0.0)
        for method, names in of_stages.items()
    }


def cost_of_chains(
    writer: ChainWriter,
    texts: Sequence[str],
    usage: pd.Series,
    encode: Callable[[str], np.ndarray],
    search: float,
    tokens: float,
    max_new_tokens: int,
) -> Cost:
    """The cost of search with a chain of thought, each written anew.

    Args:
        writer: whose prompts are those of `texts`.
        texts: the queries.
        usage: prompts, tokens_in, tokens_out of all that it wrote: whence the tokens of one query.
        encode: the embedding of a text.
        search: milliseconds of search without encoding.
        tokens: that the encoder reads of one query.
        max_new_tokens: of a chain of thought.
    """
    writer.model.generate(writer.prompts[:1], max_new_tokens=max_new_tokens, **writer.settings)  # loads the model
    times = []
    for text, prompt in zip(texts, writer.prompts, strict=True):
        took, answers = milliseconds(writer.model.generate, [prompt], max_new_tokens=max_new_tokens, **writer.settings)
        # An endpoint may have made us wait and ask again: the time is that of the request that brought the answer.
        took = 1000 * writer.model.costs[0].seconds if writer.remote else took
        times.append(took + milliseconds(encode, f"{text} {answers[0]}")[0] + search)
    read, written = usage["tokens_in"] / usage["prompts"], usage["tokens_out"] / usage["prompts"]
    return Cost(pd.Series(times), read + tokens + written, written)


def cost_table(costs: Mapping[str, Cost]) -> pd.DataFrame:
    """Columns method, p50_ms, p95_ms (NaN for fewer than `ENOUGH_FOR_P95` queries), tokens_in, tokens_out."""
    rows = [
        (
            method,
            cost.times.quantile(0.5),
            cost.times.quantile(0.95) if len(cost.times) >= ENOUGH_FOR_P95 else np.nan,
            cost.tokens_in,
            cost.tokens_out,
        )
        for method, cost in costs.items()
    ]
    return pd.DataFrame(rows, columns=["method", "p50_ms", "p95_ms", "tokens_in", "tokens_out"])
