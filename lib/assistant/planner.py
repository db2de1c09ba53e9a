"""The planner's task (Table 3): what is shown to it in each of the paper's five settings, and what a plan is worth.

Frames in, frames out. Gold labels enter prompts in the two settings that are upper bounds; nowhere else here.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from lib.assistant.plans import PlanError, RightPlan, api_names, ast_match, parse_plan, standard_text
from lib.assistant.queries import print_call
from lib.assistant.schemas import APP_NAMES
from lib.assistant.toolbox import DEFAULT_API, signature
from lib.assistant.tools import ALONE, CONTEXT
from lib.evaluation.comparison import summarise
from lib.evaluation.inference import Resampling
from lib.workbook.inputs import InputError

# Where a setting's tools and context items come from: a setting of tool retrieval, the labels, or nowhere.
SETTINGS: dict[str, tuple[str, str]] = {
    "lower_bound": ("none", "none"),
    "rag": ("query_only", "none"),
    "context_tuned_rag": ("query_plus_context", "retrieved"),
    "upper_bound": ("gold", "none"),
    "context_tuned_upper_bound": ("gold", "gold"),
}
LABELLED = ("none", "gold")  # sources of tools and items that are not retrieved
# Beside them two that are not the paper's: the tools are those of the learned ranker (`lib.assistant.tool_ranker`).
SOURCES = SETTINGS | {
    "rag/lambdamart": ("query_only/lambdamart", "none"),
    "context_tuned_rag/lambdamart": ("query_plus_context/lambdamart", "retrieved"),
}
MEASURES = ("ast_accuracy", "exact_match", "hallucination", "right_api", "arguments")
NOTHING_FOUND = "nothing found"


# ---------------------------------------------------------------- what is shown


class Desk:
    """All that a planner's prompts are written from.

    Args:
        items: columns item, persona, app, title, text.
        people: columns persona, name, email, phone: address books.
        toolbox: columns api, app, function (an OpenAI-style definition as JSON).
    """

    def __init__(self, items: pd.DataFrame, people: pd.DataFrame, toolbox: pd.DataFrame):
        self.items = items.set_index("item")
        self.people = {persona: part.to_dict("records") for persona, part in people.groupby("persona")}
        self.items_of = dict(tuple(items.groupby("persona")))
        self.functions = [json.loads(text) for text in toolbox["function"]]
        self.app_of = dict(zip(toolbox["api"], toolbox["app"], strict=True))
        self.signatures = {function["name"]: signature(function) for function in self.functions}
        self.signatures[DEFAULT_API] = f"{DEFAULT_API}()"

    def context_lines(self, persona: str, request: str, items: Sequence[str]) -> list[str]:
        """One line an item, `App: text`, then one for each of the persona's contacts whom the request or an item names,
        by full, first or last name."""
        rows = [self.items.loc[item] for item in items]
        lines = [f"{APP_NAMES[row['app']]}: {row['text']}" for row in rows]
        said = " ".join([request, *lines])
        named = [person for person in self.people.get(persona, []) if naming(person["name"]).search(said)]
        return lines + [f"Contact: {person['name']}, {person['email']}, {person['phone']}" for person in named]

    def prompt(
        self,
        query: Mapping,
        tools: Sequence[str] | None,
        items: Sequence[str] | None,
        thought: str = "",
        done: str = "",
    ) -> str:
        """What a planner completes with a call of an API (assistant paper, section 3.4 and appendix A.5, in our words):
        the prompt for one query (persona, text, time, place) with these tools and context items; None shows none.

        The request comes first, so that context and tools are read with it in mind (Liu et al., 2023, "Lost in the
        Middle", section 4.2). `done` is a call that was made, and what it returned.
        """
        parts = [f"Request ({query['time']:%A %Y-%m-%d %H:%M}, {query['place']}): {query['text']}"]
        parts += [f"Thought: {thought}"] if thought else []
        if items is not None:
            parts += ["Context:", *self.context_lines(query["persona"], query["text"], items)]
        if tools is not None:
            parts += ["Tools:", *(self.signatures[name] for name in tools)]
        return "\n".join([*parts, "Plan:", *([done] if done else [])]) + "\n"

    def execute(self, persona: str, call: tuple[str, dict]) -> str:
        """What a call returns in the simulated world: the item of the API's app that one of its arguments names by its
        title, with the contacts it names; otherwise `NOTHING_FOUND`."""
        api, arguments = call
        named = {standard_text(value) for value in arguments.values() if isinstance(value, str)}
        own = self.items_of.get(persona)
        if own is not None:
            found = own[(own["app"] == self.app_of.get(api)) & own["title"].map(standard_text).isin(named)]
            if len(found):
                return "; ".join(self.context_lines(persona, "", [found["item"].iloc[0]]))
        return NOTHING_FOUND


@functools.cache
def naming(name: str) -> re.Pattern:
    """What finds somebody in a text, as a whole word: by first name in any case, or by last name as it is written.

    >>> bool(naming("Cedric Suzuki").search("ask cedric to go instead"))
    True
    """
    words = [re.escape(word) for word in name.removeprefix("Dr. ").split()]
    return re.compile(rf"(?<!\w)(?:(?i:{words[0]})|{words[-1]})(?!\w)")


@dataclass(frozen=True)
class Material:
    """What prompts of saved queries are written from, and how much of it one shows.

    Attributes:
        queries: columns query, split, persona, text, time, place.
        gold: columns query, apis, relevant, plan, answers.
        tool_rankings: columns setting, query, item (API), rank.
        retrieved: columns query, item, rank: retrieved context.
        n_tools, n_items: how many retrieved tools and items a prompt shows.
    """

    desk: Desk
    queries: pd.DataFrame
    gold: pd.DataFrame
    tool_rankings: pd.DataFrame
    retrieved: pd.DataFrame
    n_tools: int
    n_items: int

    @classmethod
    def of_world(cls, frames: Mapping[str, pd.DataFrame], ranked: pd.DataFrame, context: str, *shown: int) -> Material:
        """That of a named world: of its frames (see `lib.assistant.world.frames`); of its rows of
        `tool_worlds_rankings` as notebook 06 writes it (setting, query, item, rank; the setting of a context's own
        items is `items of` that setting); with the context of one setting of tool retrieval; `shown`: n_tools, n_items.
        """
        settings = ranked["setting"].str.replace(context, CONTEXT, regex=False)
        return cls(
            Desk(frames["items"], frames["people"], frames["toolbox"]),
            frames["queries"],
            with_other_plans(frames["gold"], frames["other_plans"]),
            ranked.assign(setting=settings)[ranked["setting"].str.startswith((ALONE, context))],
            ranked[ranked["setting"] == f"items of {context}"],
            *shown,
        )

    def shown(self, rows: pd.DataFrame, settings: Iterable[str]) -> pd.DataFrame:
        """Which tools and items the prompts of some queries show in each setting.

        Retrieved tools come best first, with `default` (no tool fits) offered last. Gold tools and gold items come in
        the order of their names, which says nothing about the plan.

        Returns columns query, setting, tools, items; lists of names, or None where the setting shows none. Raises
        InputError for a query without tool ranking.
        """
        names, labels = rows["query"], self.gold.set_index("query").loc[rows["query"]]
        parts = []
        for setting in settings:
            tools_from, items_from = SOURCES[setting]
            of_tools = self.tool_rankings[self.tool_rankings["setting"] == tools_from]
            listed: list[list] = []
            for source, column, rankings, n in (
                (tools_from, "apis", of_tools, self.n_tools),
                (items_from, "relevant", self.retrieved, self.n_items),
            ):
                if source in LABELLED:
                    listed.append([None if source == "none" else sorted(set(values)) for values in labels[column]])
                else:
                    best = rankings[rankings["rank"] <= n].sort_values(["query", "rank"])
                    ranked = best.groupby("query")["item"].agg(list).to_dict()
                    listed.append([ranked.get(name, []) for name in names])
            tools, items = listed
            if tools_from not in LABELLED:
                if missing := [name for name, found in zip(names, tools, strict=True) if not found]:
                    raise InputError(
                        f"tool_rankings: no tools of setting {tools_from} for query {missing[0]}: run notebook 06 on "
                        "the same world"
                    )
                tools = [[*found, DEFAULT_API] for found in tools]
            parts.append(pd.DataFrame({"query": names.to_numpy(), "setting": setting, "tools": tools, "items": items}))
        return pd.concat(parts, ignore_index=True)

    def prompted(self, inputs: pd.DataFrame, thoughts: Mapping[str, str] | None = None) -> pd.DataFrame:
        """What prompts show (see `shown`) with the prompts, column `prompt`; `thoughts`: a chain of thought by query,
        of those that get one."""
        by_name, thoughts = self.queries.set_index("query"), thoughts or {}
        prompts = [
            self.desk.prompt(by_name.loc[row.query], row.tools, row.items, thoughts.get(row.query, ""))
            for row in inputs.itertuples()
        ]
        return inputs.assign(prompt=prompts)

    def second_steps(self, inputs: pd.DataFrame, plans: Iterable[str]) -> pd.DataFrame:
        """Prompts for the second call of a plan of two, after the first was made: progressive planning (Figure 1).

        Of each row's plan the first call is made; where its first line does not parse, it is `default()`. Returns
        columns query, setting, first (the call made, as text), prompt.
        """
        by_name, rows = self.queries.set_index("query"), []
        for row, plan in zip(inputs.itertuples(), plans, strict=True):
            try:
                call = parse_plan(plan.strip().split("\n")[0])[0]
            except PlanError:
                call = DEFAULT_API, {}
            query, first = by_name.loc[row.query], print_call(*call)
            done = f"{first}\nResult: {self.desk.execute(query['persona'], call)}\nThen:"
            rows.append((row.query, row.setting, first, self.desk.prompt(query, row.tools, row.items, done=done)))
        return pd.DataFrame(rows, columns=["query", "setting", "first", "prompt"])


# ---------------------------------------------------------------- what is right


def with_other_plans(gold: pd.DataFrame, others: pd.DataFrame) -> pd.DataFrame:
    """Labels with the column `also`: a list of the plans that serve a query as well as the gold one (`RightPlan`), from
    those of `others` (columns query, apis, plan, answers)."""
    fields = list(RightPlan._fields)
    also = {query: [RightPlan(*row) for row in part[fields].to_numpy()] for query, part in others.groupby("query")}
    return gold.assign(also=[also.get(query, []) for query in gold["query"]])


def score_plans(plans: pd.DataFrame, world: Material) -> pd.DataFrame:
    """Each plan (columns query, text) judged, by that of the right ones, gold or `also`, which comes nearest.

    Returns:
        `plans` with `MEASURES`, each 0 or 100 (exact_match: the same text, whatever the spaces, tabs and blank lines;
        hallucination: it calls an API that is not there, also where the text breaks off after an opening parenthesis;
        right_api: the APIs are right, whatever their arguments; arguments: ast_accuracy, NaN where the APIs are wrong,
        so that the means of both multiply to its mean); failure (the category of `lib.assistant.plans.ast_match`, empty
        where right) and why (its sentence): why a wrong plan is not the first of those that call the same APIs or,
        where none does, not the gold plan; and the query's need.
    """
    gold, functions = world.gold.set_index("query"), world.desk.functions
    names = {DEFAULT_API, *(function["name"] for function in functions)}
    also = gold.get("also", pd.Series([[]] * len(gold), gold.index))
    labels = gold[list(RightPlan._fields)].itertuples(index=False, name=None)
    right = {query: [RightPlan(*plan), *also[query]] for query, plan in zip(gold.index, labels, strict=True)}
    rows = []
    for query, text in plans[["query", "text"]].itertuples(index=False):
        called = sorted(api_names(text))
        nearest = sorted(right[query], key=lambda plan: sorted(plan.apis) != called)
        matches = [ast_match(text, plan.answers, functions) for plan in nearest]
        match = next(filter(None, matches), matches[0])
        words, *of_right = (
            [line.split() for line in one.split("\n") if line.strip()]
            for one in (text, *(plan.plan for plan in right[query]))
        )
        apis_right = called == sorted(nearest[0].apis)
        arguments = bool(match) if apis_right else np.nan
        judged = bool(match), words in of_right, not names.issuperset(called), apis_right, arguments
        rows.append([*(100.0 * value for value in judged), match.category or "", match.sentence])
    plans = plans.assign(need=plans["query"].map(gold["need"])).reset_index(drop=True)
    return plans.join(pd.DataFrame(rows, columns=[*MEASURES, "failure", "why"]))


# ---------------------------------------------------------------- values


def per_query(plans: pd.DataFrame, samples: int, seed: int) -> tuple[pd.DataFrame, Resampling]:
    """Scores as `lib.evaluation.comparison` takes them, k being 1, and what is resampled: topics. Of plans with columns
    query, need, setting and `MEASURES`, one row for each query and setting."""
    wide = plans.pivot(index="query", columns="setting", values=list(MEASURES)).swaplevel(axis=1)
    wide.columns = pd.MultiIndex.from_tuples([(*column, 1) for column in wide], names=["method", "metric", "k"])
    topics = plans.drop_duplicates("query").set_index("query")["need"].loc[wide.index].to_numpy()
    return wide, Resampling(topics, samples, seed)


def values_by_topics(scores: pd.DataFrame, over: Resampling, held_out: Iterable[str]) -> pd.DataFrame:
    """Each setting's value of each measure (of `per_query`), over all topics, those that the planner learned from
    (known), and those held out (new): columns setting, topics, metric, value, ci_low, ci_high, n_topics, n,
    over_queries."""
    new = np.isin(over.units, list(held_out))
    table = summarise(scores, {("all", ""): new | True, ("known", ""): ~new, ("new", ""): new}, over)
    return table.rename(columns={"method": "setting", "kind": "topics"}).drop(columns=["sample", "k"])
