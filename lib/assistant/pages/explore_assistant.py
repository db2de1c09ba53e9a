"""The widgets of notebook explore_assistant, and what they show of an answer.

Whatever comes from data, a model or a user stands in them as text: everything that enters HTML goes through `text`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import ipywidgets as widgets
import numpy as np
import pandas as pd

from lib.assistant.explorer import Assistant, Saved, open_assistant, read_saved
from lib.assistant.plans import CAUSES
from lib.assistant.schemas import APP_NAMES, PLACES
from lib.assistant.toolbox import DEFAULT_API
from lib.generation.models import ModelError
from lib.workbook.artifacts import ArtifactError, Workbook
from lib.workbook.inputs import did_you_mean
from lib.workbook.methods import label
from lib.workbook.parameters import ProfileError
from lib.workbook.widgets import Asker, Problem, mark, note, opened, page, text

SAVED, TYPED = "One of its evaluation queries", "A request of your own"
STYLE = """
.explore table.plans td { width: 29%; }
.explore table.plans td:first-child { width: 16%; }
"""


def moment_of(query: pd.Series) -> str:
    """`Monday 2024-03-04 08:50, home`: when and where a query was voiced."""
    return f"{query['time']:%A %Y-%m-%d %H:%M}, {query['place']}"


def items_html(items: pd.DataFrame) -> str:
    """What a persona keeps, app by app, folded.

    Args:
        items: columns app, text.
    """
    apps = "".join(
        f"<h4>{text(APP_NAMES.get(app, app))}</h4><ul>{''.join(f'<li>{text(line)}</li>' for line in part['text'])}</ul>"
        for app, part in items.groupby("app")
    )
    return page(f"<details><summary>What this persona keeps in its apps ({len(items)} items)</summary>{apps}</details>")


def answer_html(
    query: pd.Series, persona: str, answer: pd.DataFrame, items: pd.DataFrame, gold: pd.Series | None = None
) -> str:
    """A question with what was found and planned.

    Args:
        query: text, time, place.
        persona: who asked.
        answer: see `lib.assistant.explorer.Assistant.answer`.
        items: columns item, app, text.
        gold: apis, relevant, plan of a saved query.
    """
    relevant, right = (set(), set()) if gold is None else (set(gold["relevant"]), set(gold["apis"]))
    rows = answer.set_index("setting")
    parts = [
        f"<p>{text(persona)}, {text(moment_of(query))}: <b>“{text(query['text'])}”</b></p>",
        "<h4>Retrieved context</h4>",
        context_html(rows.loc["context_tuned_rag"], items.set_index("item"), relevant),
        "<h4>Tools found</h4>",
        tools_html(rows.loc["rag", "tools"], rows.loc["context_tuned_rag", "tools"], right),
        "<h4>Plans</h4>",
        plans_html(answer, None if gold is None else gold["plan"]),
    ]
    return page(*parts, style=STYLE)


def context_html(row: pd.Series, items: pd.DataFrame, relevant: set[str]) -> str:
    """The items shown to the planner, best first, then contacts they name, and relevant items that were not found.

    Args:
        row: items (ids) and context (lines, the items' first).
        items: columns app, text, by id.
        relevant: ids; empty where they are not known.
    """
    lines = zip(row["items"], row["context"], strict=False)
    listed = "".join(f"<li>{text(line)}{mark(item in relevant, 'relevant')}</li>" for item, line in lines)
    contacts = "".join(f"<p>{text(line)}</p>" for line in row["context"][len(row["items"]) :])
    missed = [items.loc[item] for item in sorted(relevant - set(row["items"]))]
    unfound = "".join(
        f"<p class='note'>Relevant, but not found: {text(APP_NAMES[item['app']])}: {text(item['text'])}</p>"
        for item in missed
    )
    return f"<ol>{listed}</ol>{contacts}{unfound}"


def tools_html(alone: Iterable[str], tuned: Iterable[str], right: set[str]) -> str:
    """The tools found without and with the context, best first."""
    cells = [
        "<td><ol>" + "".join(f"<li><code>{text(name)}</code>{mark(name in right, 'right')}</li>" for name in names)
        for names in ([name for name in tools if name != DEFAULT_API] for tools in (alone, tuned))
    ]
    offered = f"<p class='note'><code>{DEFAULT_API}()</code> (no tool fits) is offered as well"
    offered += f"{mark(DEFAULT_API in right, 'right')}.</p>"
    head = "<tr><th scope='col'>by the query alone</th><th scope='col'>by query and context</th></tr>"
    return f"<table>{head}<tr>{''.join(f'{cell}</ol></td>' for cell in cells)}</tr></table>{offered}"


def plans_html(answer: pd.DataFrame, gold_plan: str | None) -> str:
    """What the planner writes in each setting; for a saved query beside the gold plan, right or wrong, and why."""
    judged = gold_plan is not None
    head = ["shown to the planner", "plan", *(["verdict", "gold plan"] * judged)]
    gold = f"<td rowspan='{len(answer)}'><code>{text(gold_plan)}</code></td>" if judged else ""
    rows = []
    for number, row in enumerate(answer.itertuples()):
        cells = [text(label(row.setting)), f"<code>{text(row.plan.strip() or '(nothing)')}</code>"]
        if judged:
            cells.append(verdict_html(row.failure, row.why))
        rows.append("".join(f"<td>{cell}</td>" for cell in cells) + (gold if number == 0 else ""))
    columns = "".join(f"<th scope='col'>{name}</th>" for name in head)
    return f"<table class='plans'><tr>{columns}</tr>{''.join(f'<tr>{row}</tr>' for row in rows)}</table>"


def verdict_html(failure: str, why: str) -> str:
    """Right, or wrong with its cause and the sentence that explains it."""
    if not failure:
        return "<span class='right'>✓ right</span>"
    return f"<span class='wrong'>✗ {text(CAUSES.get(failure, failure))}</span><br>{text(why)}"


# ---------------------------------------------------------------- asking


def ask(assistant: Assistant, saved: Saved, query: pd.Series, labelled: bool) -> str:
    """The answer to a question, as HTML.

    Args:
        query: query (its id, where `labelled`), persona, text, time, place.
        labelled: whether it is a saved one, whose gold plan is known.
    """
    gold = saved.gold[saved.gold["query"] == query["query"]] if labelled else None
    answer = assistant.answer(query["persona"], query["text"], query["time"], query["place"], gold)
    persona = saved.personas.get(query["persona"], query["persona"])
    return answer_html(query, persona, answer, saved.items, None if gold is None else gold.iloc[0])


def first_query(saved: Saved, seed: int, persona: str = "") -> pd.Series:
    """A saved query drawn with the seed.

    Args:
        persona: whose; empty: anyone's.

    Raises:
        ArtifactError: there is none.
        ProfileError: nobody of this id has an evaluation query.
    """
    queries = saved.queries
    if queries.empty:
        raise ArtifactError("queries.parquet: no evaluation queries to ask")
    if persona:
        known = queries["persona"].unique().tolist()
        if persona not in known:
            raise ProfileError(
                f"notebook explore_assistant: persona: nobody with an evaluation query is called {persona!r}"
                f"{did_you_mean(persona, known) or f'; there are {len(known):,}, such as {known[0]}'}"
            )
        queries = queries[queries["persona"] == persona]
    return queries.iloc[np.random.default_rng(seed).integers(len(queries))]


def worked_example(book: Workbook, seed: int, query: str = "", persona: str = "") -> str:
    """One query with its answer as HTML, for a page that nobody can click on. Raises as `read_saved`, `first_query` and
    `open_assistant` do.

    Args:
        seed, persona: of the saved query, see `first_query`.
        query: words that are asked in its place, by the same persona, then and there; empty: the saved query.
    """
    saved = read_saved(book)
    asked = first_query(saved, seed, persona)
    if query.strip():
        asked = pd.Series({**asked, "query": "", "text": query.strip()})
    return ask(open_assistant(book, saved), saved, asked, labelled=not query.strip())


class Explorer(Asker):
    """Widgets to ask the assistant: a persona, one of its queries or a request of one's own, and the answer.

    Attributes:
        widget: what a notebook displays.
    """

    known = (ArtifactError, ModelError, ValueError)

    def __init__(self, saved: Saved, load: Callable[[], Assistant], seed: int, query: str = "", persona: str = ""):
        """
        Args:
            load: loads the assistant's models; called when the first question is asked.
            seed, persona: of the query that is chosen first, see `first_query`.
            query: a request of one's own that stands there already, in its place.
        """
        super().__init__()
        self.saved, self.load = saved, load
        self.assistant: Assistant | None = None
        first = first_query(saved, seed, persona)
        asked = {persona: saved.personas.get(persona, persona) for persona in saved.queries["persona"].unique()}
        options = sorted((f"{name} ({persona})", persona) for persona, name in asked.items())
        wide = {"layout": {"width": "100%", "max_width": "60em"}}
        self.persona = widgets.Dropdown(options=options, description="Persona", **wide)
        self.kind = widgets.ToggleButtons(options=[SAVED, TYPED], style={"button_width": "16em"})
        self.kind.value = TYPED if query.strip() else SAVED
        self.query = widgets.Dropdown(description="Query", **wide)
        self.voiced = widgets.HTML()
        hint = "what the persona might say to a phone, such as: Where am I going tonight?"
        self.typed = widgets.Text(query, description="Request", placeholder=hint, **wide)
        self.moment = widgets.NaiveDatetimePicker(description="Time")
        self.place = widgets.Dropdown(options=PLACES, description="Place")
        self.kept = widgets.HTML()
        self.of_query = widgets.VBox([self.query, self.voiced])
        self.of_typed = widgets.VBox([self.typed, widgets.HBox([self.moment, self.place])])
        asking = widgets.HBox([self.button, self.status])
        self.widget = widgets.VBox(
            [self.persona, self.kept, self.kind, self.of_query, self.of_typed, asking, self.answer]
        )
        self.persona.observe(self._persona_chosen, "value")
        self.query.observe(self._query_chosen, "value")
        self.kind.observe(self._kind_chosen, "value")
        self.persona.value = first["persona"]
        self._persona_chosen()
        self.query.value = first["query"]
        self._kind_chosen()

    def _persona_chosen(self, _=None) -> None:
        own = self.saved.queries[self.saved.queries["persona"] == self.persona.value]
        self.query.options = list(zip(own["text"], own["query"], strict=True))
        self.query.value = own["query"].iloc[0]
        self.kept.value = items_html(self.saved.items[self.saved.items["persona"] == self.persona.value])

    def _query_chosen(self, _=None) -> None:
        if self.query.value is None:  # while the list changes
            return
        query = self._saved_query()
        self.voiced.value = page(note(f"Voiced {text(moment_of(query))}"))
        self.moment.value, self.place.value = query["time"].to_pydatetime(), query["place"]

    def _kind_chosen(self, _=None) -> None:
        typed = self.kind.value == TYPED
        self.of_query.layout.display, self.of_typed.layout.display = ("none", "") if typed else ("", "none")

    def _saved_query(self) -> pd.Series:
        return self.saved.queries.set_index("query", drop=False).loc[self.query.value]

    def _question(self) -> pd.Series:
        """What is to be asked.

        Raises:
            Problem: something is missing.
        """
        if self.kind.value == SAVED:
            return self._saved_query()
        if not self.typed.value.strip():
            raise Problem("The request is empty: type one, or choose one of the persona's evaluation queries.")
        if self.moment.value is None:
            raise Problem("The request needs a time: what is near in time counts when context is searched.")
        values: dict[str, Any] = {"query": "", "persona": self.persona.value, "text": self.typed.value.strip()}
        return pd.Series(values | {"time": pd.Timestamp(self.moment.value), "place": self.place.value})

    def ask(self) -> str:
        question = self._question()
        if self.assistant is None:
            self.busy("Loading the encoder and the planner: only the first question waits for them …")
            self.assistant = self.load()
        self.busy("Searching context and tools, and planning …")
        return ask(self.assistant, self.saved, question, self.kind.value == SAVED)


def explore(book: Workbook, seed: int, query: str = "", persona: str = "") -> widgets.Widget:
    """The widgets on a profile's artifacts; where these are missing, what to do about it. Arguments as for
    `Explorer`."""

    def make() -> widgets.Widget:
        saved = read_saved(book)
        return Explorer(saved, lambda: open_assistant(book, saved), seed, query, persona).widget

    return opened(make)
