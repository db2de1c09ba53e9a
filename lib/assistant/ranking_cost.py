"""What ranking one query's context costs: milliseconds of every method, and tokens that a neural model reads or
writes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from lib.assistant.cot import ONE_PARAGRAPH, AskedChains
from lib.assistant.interaction_training import CROSS, DEPTH, LATE, kept_reader
from lib.assistant.persona_index import PersonaIndex, milliseconds, time_stages
from lib.assistant.prompts import distilled_cot_prompt
from lib.assistant.ranker_ablation import CROSS_FITTED, TWO_CROSS_FITTED, WITH_FINETUNED
from lib.evaluation.pareto import on_front
from lib.retrieval.interaction import CrossEncoder, LateInteraction, beginnings, max_sim, tokenize_pairs
from lib.retrieval.tuning import tokenize
from lib.workbook.parameters.base import is_remote

if TYPE_CHECKING:
    from lib.assistant.rrf_readings import FusedRankers
    from lib.assistant.second_stage import SecondStage
    from lib.retrieval.lambdamart import LambdaMART
    from lib.workbook.parameters.lambdamart_rrf import LambdaMARTRRF

TIMED_QUERIES = 200  # at most
ENOUGH_FOR_P95 = 50  # queries
WITHOUT_TEXT_SCORES = "lambdamart_rrf_without_text_scores"


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


def asked_to_time(parameters: LambdaMARTRRF, evaluation: int) -> AskedChains:
    """What notebook 05 asks the zero-shot writer for.

    Args:
        evaluation: evaluation queries that there are, or that are timed (`sample_to_time`).
    """
    queries = min(parameters.cost_queries, TIMED_QUERIES, evaluation)
    return AskedChains("evaluation", "cot", parameters.cot_context_types, queries)


def chain_writers(
    parameters: LambdaMARTRRF, texts: Sequence[str], adapter: Path | None, answers: Path, record: Path
) -> dict[str, ChainWriter]:
    """The writers of chains of thought about some queries, by method.

    Args:
        parameters: which models they are, and what they are asked.
        texts: the queries.
        adapter: of the distilled writer; None where there is none.
        answers: where answers of an endpoint are kept; a model on this machine is timed anew.
        record: where what was spent at an endpoint is written.
    """
    from lib.generation.load import load_language_model
    from lib.generation.local import LocalModel

    remote, asked = is_remote(parameters.writer), asked_to_time(parameters, len(texts))
    zero_shot = load_language_model(parameters.writer, answers if remote else None, record=record, **parameters.remote)
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
    """The cost of each method without a language model, and of the rankers that see a fine-tuned encoder, but for
    their few features more.

    Args:
        stages: from `time_queries`.
        tokens: that the encoder reads of one query.
    """
    features = ["encode", "cosine", "bm25t", "signals"]
    both = [*features, "encode", "cosine"]  # encoders
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
        WITH_FINETUNED: [*both, "predict", "sort"],
        CROSS_FITTED: [*both, "predict", "sort"],
        TWO_CROSS_FITTED: [*both, "predict", "second", "sort"],
        WITHOUT_TEXT_SCORES: ["signals", "predict_fused", "fuse"],
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


def reader_costs(
    methods: Collection[str],
    folder: Path,
    path: str,
    stages: pd.DataFrame,
    indexes: Mapping[str, PersonaIndex],
    queries: pd.DataFrame,
    tokens: float,
) -> dict[str, Cost]:
    """The costs of the cross-encoder and late interaction, where they are among the methods; one is loaded at a time.

    Args:
        folder: where notebook 04 left both.
        path: of the encoder that they were trained from.
        stages, indexes, queries, tokens: see `cross_encoder_cost`.
    """
    costs = {}
    if CROSS in methods:
        cross = CrossEncoder.of(path, kept_reader(folder / CROSS))
        costs[CROSS] = cross_encoder_cost(stages, cross, indexes, queries, tokens)
    if LATE in methods:
        late = LateInteraction.of(path, kept_reader(folder / LATE))
        costs[LATE] = late_interaction_cost(stages, late, indexes, queries)
    return costs


def cross_encoder_cost(
    stages: pd.DataFrame, model: CrossEncoder, indexes: Mapping[str, PersonaIndex], queries: pd.DataFrame, tokens: float
) -> Cost:
    """The cost of the cross-encoder: the search whose first results it reranks, and reading these.

    Args:
        stages: from `time_queries`, of the same queries.
        queries: columns persona, text.
        tokens: that the encoder reads of one query.
    """
    shortlists = [
        (text, indexes[persona].items["text"].head(DEPTH).tolist())
        for persona, text in zip(queries["persona"], queries["text"], strict=True)
    ]  # whichever they are: texts of the same persona, and as many
    model.scores([shortlists[0][0]], shortlists[0][1][:1])  # the first call of anything is slow
    took = [milliseconds(model.scores, [text] * len(texts), texts)[0] for text, texts in shortlists]
    read = sum(
        sum(map(len, tokenize_pairs(model.encoder, [text] * len(texts), texts)[0])) for text, texts in shortlists
    )
    search = stages[["encode", "cosine", "sort"]].sum(axis=1).to_numpy()
    return Cost(pd.Series(search + np.array(took)), tokens + read / len(shortlists), 0.0)


def late_interaction_cost(
    stages: pd.DataFrame, model: LateInteraction, indexes: Mapping[str, PersonaIndex], queries: pd.DataFrame
) -> Cost:
    """The cost of late interaction; its items are read before a query comes. See `cross_encoder_cost`."""
    texts = {name: model.tokens(index.items["text"].tolist()) for name, index in indexes.items()}
    stored = {name: (np.concatenate(vectors), beginnings(vectors)) for name, vectors in texts.items()}

    def search(persona: str, text: str) -> np.ndarray:
        return max_sim(model.tokens([text])[0], *stored[persona])

    asked = list(zip(queries["persona"], queries["text"], strict=True))
    search(*asked[0])  # the first call of anything is slow
    took = [milliseconds(search, persona, text)[0] for persona, text in asked]
    read = sum(map(len, tokenize(model.encoder, queries["text"])))
    return Cost(pd.Series(stages["sort"].to_numpy() + np.array(took)), read / len(asked), 0.0)


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


def pareto_table(costs: pd.DataFrame, recall: pd.DataFrame) -> pd.DataFrame:
    """What each method finds for its time, and which of them no other beats.

    Args:
        costs: columns method, p50_ms.
        recall: indexed by method: value, ci_low, ci_high, in percent on the same queries.

    Returns:
        columns method, recall, ci_low, ci_high, p50_ms, on_front (see `lib.evaluation.pareto.on_front`); the quickest
        first.
    """
    table = recall.loc[costs["method"], ["value", "ci_low", "ci_high"]].rename(columns={"value": "recall"})
    table = table.rename_axis("method").reset_index().assign(p50_ms=costs["p50_ms"].to_numpy())
    table["on_front"] = on_front(table["p50_ms"], table["recall"])
    return table.sort_values(["p50_ms", "recall"], ignore_index=True)


def stage_table(stages: pd.DataFrame) -> pd.DataFrame:
    """The stages of LambdaMART-RRF, and `together` those that it does not share with search by text.

    Returns:
        columns stage, p50_ms, p95_ms (NaN for fewer than `ENOUGH_FOR_P95` queries).
    """
    own = stages[["signals", "predict_fused", "fuse"]].sum(axis=1)
    table = stages.drop(columns=["predict", "fuse_text", "second"]).assign(together=own).quantile([0.5, 0.95]).T
    table = table.set_axis(["p50_ms", "p95_ms"], axis=1).rename_axis("stage").reset_index()
    return table if len(stages) >= ENOUGH_FOR_P95 else table.assign(p95_ms=np.nan)
