"""One request at a time through the whole chain, as a user of the assistant would see it: context, tools, plan."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import cached_property

import numpy as np
import pandas as pd

from lib.assistant.persona_index import PersonaIndex
from lib.assistant.planner import SETTINGS, Desk, planner_prompts, shown
from lib.assistant.schemas import PLACES
from lib.assistant.tool_retrieval import context_words, tool_pairs, with_words
from lib.retrieval.lambdamart import LambdaMART
from lib.retrieval.stores import best_first, cosine_of_pairs, rank_pairs

TYPED = "typed"  # the id of a request that is not among the queries


class Assistant:
    """Retrieval and planner, ready for any request of a known persona.

    Args:
        desk: what prompts are written from.
        items, opens: of all personas, as notebook 01 writes them.
        vectors: unit-length embeddings of the items, (items, dimensions).
        tools: columns item (name of the API), text.
        encode: texts to unit-length embeddings.
        ranker: LambdaMART over usage signals and text scores.
        wording, n_worded: how context enters the text that tools are searched with (see `tool_retrieval`).
        generate: prompts to plans.
        n_tools, n_items: how many of them a prompt shows.
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
    ):
        self.desk, self.items, self.opens, self.vectors = desk, items, opens, vectors
        self.tools, self.encode, self.ranker = tools, encode, ranker
        self.wording, self.n_worded, self.generate = wording, n_worded, generate
        self.n_tools, self.n_items = n_tools, n_items

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
        index = PersonaIndex(items, self.opens[self.opens["item"].isin(items["item"])], self.vectors[own])
        text = request["text"].iloc[0]
        scores = {"bm25t": index.bm25t(text), "semantic": index.semantic(self.encode([text])[0])}
        return best_first(index.names, self.ranker.predict(index.signals(request, scores)))

    def answer(self, persona: str, text: str, time: datetime, place: str, labels: pd.DataFrame | None = None):
        """What each setting shows the planner, and what it plans.

        Args:
            labels: columns query (`TYPED`), apis, relevant, for the settings that are upper bounds; without it they
                are left out.

        Returns:
            a frame with columns setting, context (lines), tools (names), plan.
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
        gold = pd.DataFrame({"query": [TYPED], "apis": [[]], "relevant": [[]]}) if labels is None else labels
        inputs = pd.concat(
            [shown(request, name, pd.concat(runs), retrieved, gold, self.n_tools, self.n_items) for name in settings],
            ignore_index=True,
        )
        plans = self.generate(planner_prompts(self.desk, inputs, request))
        lines = [[] if items is None else self.desk.context_lines(persona, text, items) for items in inputs["items"]]
        return pd.DataFrame(
            {
                "setting": inputs["setting"],
                "context": lines,
                "tools": [[] if tools is None else list(tools) for tools in inputs["tools"]],
                "plan": plans,
            }
        )


def explorer(assistant: Assistant, queries: pd.DataFrame, gold: pd.DataFrame, show: Callable[[pd.DataFrame], None]):
    """Widgets to pick a persona and one of its queries, or to type a request, and to see every setting's plan.

    Args:
        queries: columns query, persona, text, time, place.
        gold: columns query, apis, relevant.
        show: shows the frame that `Assistant.answer` returns.
    """
    import ipywidgets as widgets

    persona = widgets.Dropdown(options=sorted(queries["persona"].unique()), description="persona")
    query = widgets.Dropdown(description="query", layout={"width": "70%"})
    typed = widgets.Text(description="or type", placeholder="a request of your own", layout={"width": "70%"})
    place = widgets.Dropdown(options=PLACES, description="place")
    moment = widgets.NaiveDatetimePicker(description="time")
    button, output = widgets.Button(description="Plan", button_style="primary"), widgets.Output()
    rows, labels = queries.set_index("query"), gold.set_index("query")

    def list_queries(_=None):
        own = queries[queries["persona"] == persona.value]
        query.options = list(zip(own["text"], own["query"], strict=True))
        query.value = own["query"].iloc[0]

    def take_moment(_):
        if query.value is None:  # while the list changes
            return
        place.value, moment.value = rows.loc[query.value, "place"], rows.loc[query.value, "time"].to_pydatetime()

    def plan(_=None):
        output.clear_output()
        own = None if typed.value else labels.loc[[query.value], ["apis", "relevant"]].assign(query=TYPED)
        text = typed.value or rows.loc[query.value, "text"]
        with output:
            show(assistant.answer(persona.value, text, moment.value, place.value, own))

    persona.observe(list_queries, "value")
    query.observe(take_moment, "value")
    query.observe(take_moment, "value")
    button.on_click(plan)
    list_queries()
    return widgets.VBox([persona, query, typed, widgets.HBox([moment, place]), button, output])
