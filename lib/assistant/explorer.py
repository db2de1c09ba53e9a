"""One request at a time through the whole chain, as a user of the assistant would see it: context, tools, plan."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import partial

import numpy as np
import pandas as pd

from lib.assistant.planner import SETTINGS, Desk, Material, score_plans, with_other_plans
from lib.assistant.planners import PLAN_TOKENS
from lib.assistant.signals import signals
from lib.assistant.tools import WORDED, tool_texts, with_context
from lib.generation.models import locate
from lib.retrieval.lambdamart import LambdaMART
from lib.retrieval.stores import bm25t_scores, candidate_pairs, cosine_of_pairs, rank_pairs
from lib.workbook.artifacts import Workbook
from lib.workbook.inputs import InputError, did_you_mean
from lib.workbook.machine import cores

# The files that the assistant needs, by the notebook that writes them.
NEEDED = {
    "01_data_gen": tuple(f"{name}.parquet" for name in "items opens people queries gold other_plans toolbox".split()),
    "02_context_baselines": ("baseline_rankings.parquet",),
    "05_lambdamart_rrf": ("lambdamart.jsonl", "context_rankings.parquet"),
    "07_planner": ("plans.parquet", "adapters/planner/training.json"),
}


@dataclass
class Assistant:
    """Retrieval and planner, ready for any request of a known persona."""

    tables: dict[str, pd.DataFrame]  # as notebook 01 writes them; the toolbox's texts are what tools are searched by
    encode: Callable[[list[str]], np.ndarray]  # texts to unit-length embeddings
    ranker: LambdaMART  # over usage signals and text scores
    generate: Callable[[list[str]], list[str]]  # prompts to plans
    n_tools: int  # how many of them a prompt shows
    n_items: int
    bm25_b: float  # BM25T's length normalisation, as the ranker learned from it

    def question(self, seed: int, persona: str = "") -> pd.Series:
        """An evaluation query with its labels, drawn with the seed; of `persona`, or of anyone where it is empty.
        Raises InputError where nobody of this id has one."""
        queries = self.tables["queries"]
        some = queries[queries["persona"] == persona] if persona else queries
        if some.empty:
            close = did_you_mean(persona, queries["persona"].unique().tolist())
            raise InputError(f"persona: nobody who asks is called {persona!r}{close}")
        query = some.iloc[np.random.default_rng(seed).integers(len(some))]
        gold = self.tables["gold"].set_index("query").loc[query["query"]]
        return pd.concat([query, gold.drop(["split", "kind"], errors="ignore")])

    def answer(
        self, persona: str, text: str, time: datetime, place: str, labels: pd.Series | None = None
    ) -> pd.DataFrame:
        """What each setting shows the planner, and what it plans: a row a setting, columns setting, items (ids),
        context (lines), tools (names), plan.

        With `labels` (apis, relevant, plan, answers, also) there are also the settings that are upper bounds, failure
        (the category of `lib.assistant.plans.ast_match`, empty where the plan is right) and why.
        """
        asked = {"query": "typed", "persona": persona, "text": text, "time": time, "place": place}
        request = pd.DataFrame([asked])
        own = self.tables["items"].merge(request[["persona"]], on="persona")
        candidates = candidate_pairs(request, own, on="persona")
        cosine = cosine_of_pairs(candidates, self.encode([text]), self.encode(own["text"].tolist()))
        scores = {"bm25t": bm25t_scores(candidates, request, own, ["persona"], self.bm25_b), "semantic": cosine}
        features = signals(candidates, request, own, self.tables["opens"], scores)
        retrieved = rank_pairs(candidates, self.ranker.predict(features))
        found = retrieved.merge(self.tables["items"], on="item")
        texts = {"query_only": [text], "query_plus_context": with_context(request, found, WORDED["main"])}
        tools = self.tables["toolbox"].rename(columns={"api": "item"})
        pairs, vectors = candidate_pairs(request, tools), self.encode(tools["text"].tolist())
        runs = [
            rank_pairs(pairs, cosine_of_pairs(pairs, self.encode(asked), vectors)).assign(setting=name)
            for name, asked in texts.items()
        ]
        nothing = pd.Series({"apis": [], "relevant": []})
        gold = pd.DataFrame([nothing if labels is None else labels]).assign(query="typed")
        settings = [name for name, sources in SETTINGS.items() if labels is not None or "gold" not in sources]
        desk = Desk(self.tables["items"], self.tables["people"], self.tables["toolbox"])
        material = Material(desk, request, gold, pd.concat(runs), retrieved, self.n_tools, self.n_items)
        plans = material.prompted(material.shown(request, settings))
        plans["text"] = self.generate(plans["prompt"].tolist())
        answer = plans[["setting"]].assign(plan=plans["text"])
        for column in ("items", "tools"):
            answer[column] = [[] if names is None else list(names) for names in plans[column]]
        answer["context"] = [desk.context_lines(persona, text, items) if items else [] for items in answer["items"]]
        if labels is None:
            return answer
        return answer.join(score_plans(plans, material)[["failure", "why"]])


def open_assistant(book: Workbook) -> Assistant:
    """The assistant on a profile's artifacts; answers are kept nowhere. Raises ArtifactError where files are missing
    (it names them and the notebooks that write them) or damaged, ModelError where a model is (it says how to get it).
    """
    from lib.generation.local import LocalModel
    from lib.retrieval.dense import encode, load_encoder

    book.require(NEEDED)
    tables = {name: book.read(name) for name in ("items", "opens", "people", "toolbox", "queries")}
    tables["queries"] = tables["queries"][tables["queries"]["split"] == "evaluation"]
    tables["gold"] = with_other_plans(book.read("gold"), book.read("other_plans"))
    ranked = book.parameters_of("context_rankings.parquet")
    tables["toolbox"]["text"] = tool_texts(tables["toolbox"])
    tuned, adapter = book.parameters_of("plans.parquet"), book.data / "adapters" / "planner"

    load = partial(LocalModel, adapter=adapter, threads=cores(), quantization=tuned.quantization)
    encoder = book.parameters_of("baseline_rankings.parquet").encoder
    search, planner = load_encoder(locate(encoder)), load(tuned.planner)
    return Assistant(
        tables,
        lambda texts: encode(search, texts),
        LambdaMART.from_text(json.loads(book.read_lines("lambdamart")[0])),
        lambda prompts: planner.generate(prompts, max_new_tokens=PLAN_TOKENS),
        tuned.shown_tools,
        tuned.shown_items,
        ranked.bm25_b,
    )
