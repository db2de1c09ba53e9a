"""One request at a time through the whole chain, as a user of the assistant would see it: context, tools, plan.

What notebooks 01 to 07 left for it is read first (`read_saved`); models are loaded apart (`open_assistant`), since that
takes longer.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

import numpy as np
import pandas as pd

from lib.assistant.persona_index import PersonaIndex
from lib.assistant.planner import SETTINGS, Desk, planner_prompts, score_plans, shown, with_other_plans
from lib.assistant.tool_ranker import tool_pairs
from lib.assistant.tools import context_words, tool_texts, with_words
from lib.generation.models import load_or_say_how
from lib.retrieval.lambdamart import LambdaMART
from lib.retrieval.stores import best_first, cosine_of_pairs, rank_pairs
from lib.workbook.artifacts import ArtifactError, Workbook
from lib.workbook.machine import cores
from lib.workbook.parameters import Parameters

TYPED = "typed"  # the id of a request that is not among the queries
# The files that the assistant needs, by the notebook that writes them.
NEEDED = {
    "01_data_gen": (
        "personas.jsonl",
        "items.parquet",
        "opens.parquet",
        "people.parquet",
        "queries.parquet",
        "gold.parquet",
        "other_plans.parquet",
        "toolbox.parquet",
    ),
    "02_context_baselines": ("embeddings_pretrained.safetensors",),
    "05_lambdamart_rrf": ("lambdamart.txt", "context_rankings.parquet"),
    "06_tool_retrieval": ("tool_wording.parquet",),
    "07_planner": ("plans.parquet", "adapters/planner/training.json"),
}


@dataclass(frozen=True)
class Saved:
    """What earlier notebooks left for the assistant.

    Attributes:
        personas: name, age and profession of each persona of an evaluation query, by id.
        items, opens, people: as notebook 01 writes them.
        toolbox: the same, with the texts that notebook 06 searched.
        queries: evaluation queries: columns query, persona, text, time, weekday, place.
        gold: columns query, apis, relevant, plan, answers, also (see `lib.assistant.planner.with_other_plans`).
        wording, n_worded: how context enters the text that tools are searched with (see `lib.assistant.tools`).
        encoder: name of the encoder that embedded the items.
        bm25_b: BM25T's length normalisation, as the ranker learned from it.
        tuned: parameters that the planner was tuned with.
    """

    personas: dict[str, str]
    items: pd.DataFrame
    opens: pd.DataFrame
    people: pd.DataFrame
    toolbox: pd.DataFrame
    queries: pd.DataFrame
    gold: pd.DataFrame
    wording: str
    n_worded: int
    encoder: str
    bm25_b: float
    tuned: Parameters


def read_saved(book: Workbook) -> Saved:
    """What the assistant needs of the artifacts of a profile; no model is loaded.

    Raises:
        ArtifactError: files are missing (names them and the notebooks that write them), damaged, or of another version
            of the workbook.
    """
    book.require(NEEDED)
    queries = book.read("queries")
    queries = queries[queries["split"] == "evaluation"]
    asked, personas = set(queries["persona"]), {}
    for record in map(json.loads, book.read_lines("personas")):
        if record["id"] in asked:
            personas[record["id"]] = f"{record['name']}, {record['age']}, {record['profession']}"
    wording, toolbox = book.read("tool_wording").iloc[0], book.read("toolbox")
    searched = book.parameters_of("tool_wording.parquet").tool_wording
    return Saved(
        personas=personas,
        queries=queries,
        wording=wording["wording"],
        n_worded=int(wording["items"]),
        encoder=book.made_with("embeddings_pretrained.safetensors")["encoder"],
        bm25_b=book.parameters_of("context_rankings.parquet").bm25_b,
        tuned=book.parameters_of("plans.parquet"),
        toolbox=toolbox.assign(text=tool_texts(toolbox, searched)),
        gold=with_other_plans(book.read("gold"), book.read("other_plans")),
        **{name: book.read(name) for name in ("items", "opens", "people")},
    )


def open_assistant(book: Workbook, saved: Saved) -> Assistant:
    """The assistant with its encoder, ranker and planner loaded. Answers are kept nowhere.

    Raises:
        ModelError: a model is missing; says how to get it.
        ArtifactError: the ranker is damaged.
    """
    from lib.generation.local import LocalModel
    from lib.retrieval.dense import encode, load_encoder, query_encoder

    tuned, adapter = saved.tuned, book.data / "adapters" / "planner"

    def load_planner(path):
        model = LocalModel(path, adapter=adapter, threads=cores(), quantization=tuned.quantization)
        _ = model.model  # its weights are read when they are first asked for
        return model

    search = query_encoder(load_or_say_how(saved.encoder, load_encoder))
    planner = load_or_say_how(tuned.planner, load_planner)
    try:
        ranker = LambdaMART.load(book.data / "lambdamart.txt")
    except ValueError as error:
        raise ArtifactError(f"{error} (`make report PROFILE={book.parameters.profile}`)") from error
    return Assistant(
        Desk.from_tables(saved.items, saved.people, saved.toolbox),
        saved.items,
        saved.opens,
        book.read_arrays("embeddings_pretrained")["items"],
        saved.toolbox.rename(columns={"api": "item"}),
        lambda texts: encode(search, texts),
        ranker,
        saved.wording,
        saved.n_worded,
        lambda prompts: planner.generate(prompts, max_new_tokens=tuned.planner_max_tokens),
        tuned.shown_tools,
        tuned.shown_items,
        saved.bm25_b,
    )


class Assistant:
    """Retrieval and planner, ready for any request of a known persona.

    Args:
        desk: what prompts are written from.
        items, opens: of all personas, as notebook 01 writes them.
        vectors: unit-length embeddings of the items, (items, dimensions).
        tools: columns item (name of the API), text.
        encode: texts to unit-length embeddings.
        ranker: LambdaMART over usage signals and text scores.
        wording, n_worded: how context enters the text that tools are searched with (see `lib.assistant.tools`).
        generate: prompts to plans.
        n_tools, n_items: how many of them a prompt shows.
        bm25_b: BM25T's length normalisation, as the ranker learned from it.
    """

    def __init__(
        self,
        desk: Desk,
        items: pd.DataFrame,
        opens: pd.DataFrame,
        vectors: np.ndarray,
        tools: pd.DataFrame,
        encode: Callable[[list[str]], np.ndarray],
        ranker: LambdaMART,
        wording: str,
        n_worded: int,
        generate: Callable[[list[str]], list[str]],
        n_tools: int,
        n_items: int,
        bm25_b: float,
    ):
        self.desk, self.items, self.opens, self.vectors = desk, items, opens, vectors
        self.tools, self.encode, self.ranker = tools, encode, ranker
        self.wording, self.n_worded, self.generate = wording, n_worded, generate
        self.n_tools, self.n_items, self.bm25_b = n_tools, n_items, bm25_b

    @cached_property
    def tool_vectors(self) -> np.ndarray:
        return self.encode(self.tools["text"].tolist())

    def context(self, persona: str, request: pd.DataFrame) -> list[str]:
        """The persona's items, the likeliest first.

        Args:
            request: one row: text, time, weekday, place.
        """
        own = (self.items["persona"] == persona).to_numpy()
        items = self.items[own]
        opens = self.opens[self.opens["item"].isin(items["item"])]
        index = PersonaIndex(items, opens, self.vectors[own], self.bm25_b)
        text = request["text"].iloc[0]
        scores = {"bm25t": index.bm25t(text), "semantic": index.semantic(self.encode([text])[0])}
        return best_first(index.names, self.ranker.predict(index.signals(request, scores)))

    def answer(self, persona: str, text: str, time: datetime, place: str, labels: pd.DataFrame | None = None):
        """What each setting shows the planner, and what it plans.

        Args:
            labels: one row: columns apis, relevant, plan, answers. Without it the settings that are upper bounds are
                left out, and nothing is judged.

        Returns:
            one row a setting: columns setting, items (ids), context (lines), tools (names), plan; with labels also
            failure (the category of `lib.assistant.plans.ast_match`, empty where the plan is right) and why.
        """
        request = pd.DataFrame(
            {
                "query": [TYPED],
                "persona": persona,
                "text": text,
                "time": time,
                "weekday": time.weekday(),
                "place": place,
            }
        )
        order = self.context(persona, request)
        retrieved = pd.DataFrame({"query": TYPED, "item": order, "rank": np.arange(1, len(order) + 1)})
        words = context_words(retrieved.merge(self.items, on="item"), self.wording, self.n_worded)
        texts = {"query_only": [text], "query_plus_context": with_words(request, words)}
        pairs = tool_pairs(request, self.tools)
        runs = [
            rank_pairs(pairs, cosine_of_pairs(pairs, self.encode(texts[name]), self.tool_vectors)).assign(setting=name)
            for name in texts
        ]
        settings = [name for name, sources in SETTINGS.items() if labels is not None or "gold" not in sources]
        nothing = pd.DataFrame({"apis": [[]], "relevant": [[]]})
        gold = (nothing if labels is None else labels).assign(query=TYPED)
        inputs = pd.concat(
            [shown(request, name, pd.concat(runs), retrieved, gold, self.n_tools, self.n_items) for name in settings],
            ignore_index=True,
        )
        inputs["text"] = self.generate(planner_prompts(self.desk, inputs, request))
        answer = pd.DataFrame(
            {
                "setting": inputs["setting"],
                "items": [[] if items is None else list(items) for items in inputs["items"]],
                "context": [
                    [] if items is None else self.desk.context_lines(persona, text, items) for items in inputs["items"]
                ],
                "tools": [[] if tools is None else list(tools) for tools in inputs["tools"]],
                "plan": inputs["text"],
            }
        )
        return (
            answer
            if labels is None
            else answer.join(score_plans(inputs, gold, self.desk.functions)[["failure", "why"]])
        )
