"""The planner (Table 3): what it is shown in each of the paper's five settings, what it plans, and what that is worth.

Frames in, frames out. Gold labels enter prompts in the two settings that are upper bounds; nowhere else here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd

from lib.assistant.chains import equal_shares
from lib.assistant.plans import (
    CAUSES,
    MAY_BE_LEFT_OUT,
    PlanError,
    RightPlan,
    api_names,
    ast_match,
    best_match,
    exact_match,
    gold_calls,
    hallucinated,
    parse_plan,
    standard_text,
)
from lib.assistant.prompts import planner_prompt
from lib.assistant.queries import print_call
from lib.assistant.schemas import APP_NAMES
from lib.assistant.tool_ranker import api_classifier
from lib.assistant.toolbox import DEFAULT_API, argument_names, signature
from lib.assistant.tools import ALONE, CONTEXT, RETRIEVED
from lib.evaluation.comparison import summarise
from lib.evaluation.inference import Resampling, mean_interval
from lib.generation.answers import KeptModel, whole_units
from lib.workbook.inputs import InputError

KEPT_QUERIES = 936  # evaluation queries whose plans come with the project, in each world
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
BY_OUR_RANKER = {
    "rag/lambdamart": ("query_only/lambdamart", "none"),
    "context_tuned_rag/lambdamart": ("query_plus_context/lambdamart", "retrieved"),
}
SOURCES = SETTINGS | BY_OUR_RANKER
MEASURES = ("ast_accuracy", "exact_match", "hallucination", "right_api", "arguments", "answerable")
NOTHING_FOUND = "nothing found"


class Desk:
    """All that a planner's prompts are written from.

    Args:
        items: columns item, persona, app, title, text.
        people: columns persona, name, email, phone: address books.
        functions: OpenAI-style definitions of the toolbox.
        app_of: the app of each API, by name.
    """

    def __init__(self, items: pd.DataFrame, people: pd.DataFrame, functions: Sequence[dict], app_of: Mapping[str, str]):
        self.items = items.set_index("item")
        self.people = {persona: part.to_dict("records") for persona, part in people.groupby("persona")}
        self.items_of = dict(tuple(items.groupby("persona")))
        self.functions = list(functions)
        self.app_of = dict(app_of)
        self.signatures = {function["name"]: signature(function) for function in functions}
        self.signatures[DEFAULT_API] = f"{DEFAULT_API}()"
        self.arguments = {function["name"]: argument_names(function) for function in functions}

    @classmethod
    def from_tables(cls, items: pd.DataFrame, people: pd.DataFrame, toolbox: pd.DataFrame) -> Desk:
        """The same from the tables of notebook 01; `toolbox` has columns api, app, function (a definition as JSON)."""
        functions = [json.loads(text) for text in toolbox["function"]]
        return cls(items, people, functions, toolbox.set_index("api")["app"])

    def context_lines(self, persona: str, request: str, items: Sequence[str]) -> list[str]:
        """One line an item, `App: text`, then one for each contact that the request or an item names."""
        rows = [self.items.loc[item] for item in items]
        lines = [f"{APP_NAMES[row['app']]}: {row['text']}" for row in rows]
        return lines + self.contact_lines(persona, " ".join([request, *lines]))

    def contact_lines(self, persona: str, text: str) -> list[str]:
        """The persona's contacts whom a text names, by full, first or last name."""
        return [
            f"Contact: {person['name']}, {person['email']}, {person['phone']}"
            for person in self.people.get(persona, [])
            if names_person(text, person["name"])
        ]

    def prompt(
        self,
        query: Mapping,
        tools: Sequence[str] | None,
        items: Sequence[str] | None,
        thought: str = "",
        done: str = "",
    ) -> str:
        """The prompt for one query (persona, text, time, place) with these tools and context items; None shows none."""
        return planner_prompt(
            query["text"],
            f"{query['time']:%A %Y-%m-%d %H:%M}, {query['place']}",
            None if tools is None else [self.signatures[name] for name in tools],
            None if items is None else self.context_lines(query["persona"], query["text"], items),
            thought,
            done,
        )

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


def names_person(text: str, name: str) -> bool:
    """Whether a text names somebody, as a whole word: by first name in any case, or by last name as it is written.

    >>> names_person("ask cedric to go instead", "Cedric Suzuki")
    True
    """
    words = name.removeprefix("Dr. ").split()
    return bool(
        re.search(rf"(?<!\w){re.escape(words[0])}(?!\w)", text, re.IGNORECASE)
        or re.search(rf"(?<!\w){re.escape(words[-1])}(?!\w)", text)
    )


# ---------------------------------------------------------------- what is shown


def first_ranked(rankings: pd.DataFrame, n: int) -> dict[str, list[str]]:
    """The first n items of each query's ranking, best first."""
    first = rankings[rankings["rank"] <= n].sort_values(["query", "rank"])
    return first.groupby("query")["item"].agg(list).to_dict()


def planner_prompts(
    desk: Desk,
    inputs: pd.DataFrame,
    queries: pd.DataFrame,
    thoughts: Mapping[str, str] | None = None,
) -> list[str]:
    """The prompt of each row of `inputs` (see `Material.shown`).

    Args:
        queries: columns query, persona, text, time, place.
        thoughts: a chain of thought by query; a query without one gets none.
    """
    by_name = queries.set_index("query")
    return [
        desk.prompt(by_name.loc[row.query], row.tools, row.items, (thoughts or {}).get(row.query, ""))
        for row in inputs.itertuples()
    ]


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
    _written: dict[tuple, pd.DataFrame] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def evaluated(self) -> pd.DataFrame:
        """The evaluation queries."""
        return self.queries[self.queries["split"] == "evaluation"]

    def shown(self, rows: pd.DataFrame, setting: str) -> pd.DataFrame:
        """Which tools and items the prompts of some queries show in a setting.

        Retrieved tools come best first, with `default` (no tool fits) offered last. Gold tools and gold items come in
        the order of their names, which says nothing about the plan.

        Args:
            rows: column query.
            setting: one of `SOURCES`.

        Returns:
            columns query, setting, tools, items; lists of names, or None where the setting shows none.

        Raises:
            InputError: a query has no tool ranking.
        """
        tools_from, items_from = SOURCES[setting]
        names = rows["query"]
        labels = self.gold.set_index("query").loc[names]
        tools: list[list[str] | None] = [None] * len(names)
        items: list[list[str] | None] = [None] * len(names)
        if tools_from == "gold":
            tools = [sorted(set(apis)) for apis in labels["apis"]]
        elif tools_from != "none":
            ranked = first_ranked(self.tool_rankings[self.tool_rankings["setting"] == tools_from], self.n_tools)
            if missing := [name for name in names if name not in ranked]:
                raise InputError(
                    f"tool_rankings: no tools of setting {tools_from} for query {missing[0]}: run notebook 06 on the "
                    "same world"
                )
            tools = [[*ranked[name], DEFAULT_API] for name in names]
        if items_from == "gold":
            items = [sorted(relevant) for relevant in labels["relevant"]]
        elif items_from != "none":
            ranked = first_ranked(self.retrieved, self.n_items)
            items = [ranked.get(name, []) for name in names]
        return pd.DataFrame({"query": names.to_numpy(), "setting": setting, "tools": tools, "items": items})

    def prompted(
        self, rows: pd.DataFrame, settings: Iterable[str], thoughts: Mapping[str, str] | None = None
    ) -> pd.DataFrame:
        """What the prompts of some queries show in each setting, with the column `prompt`; written once, however many
        planners are asked."""
        frames = []
        for setting in settings:
            key = setting, tuple(rows["query"]), tuple(sorted((thoughts or {}).items()))
            if key not in self._written:
                inputs = self.shown(rows, setting)
                texts = planner_prompts(self.desk, inputs, self.queries, thoughts)
                self._written[key] = inputs.assign(prompt=texts)
            frames.append(self._written[key])
        return pd.concat(frames, ignore_index=True)


def material_of(
    frames: Mapping[str, pd.DataFrame], rankings: pd.DataFrame, context: str, n_tools: int, n_items: int
) -> Material:
    """What prompts are written from in a named world.

    Args:
        frames: items, people, toolbox, queries, gold, other_plans (see `lib.assistant.world.frames`).
        rankings: the world's of `lib.assistant.tools.for_planner`.
        context: a key of `lib.assistant.tools.RETRIEVED`, what the prompts show.
        n_tools, n_items: see `Material`.
    """
    desk = Desk.from_tables(frames["items"], frames["people"], frames["toolbox"])
    gold = with_other_plans(frames["gold"], frames["other_plans"])
    alone = {name: name for name in (ALONE, f"{ALONE}/lambdamart")}
    called = {**alone, context: CONTEXT, f"{context}/lambdamart": f"{CONTEXT}/lambdamart"}
    ranked = rankings[rankings["setting"].isin(called)]
    ranked = ranked.assign(setting=ranked["setting"].map(called))
    retrieved = rankings[rankings["setting"] == RETRIEVED[context]]
    return Material(desk, frames["queries"], gold, ranked, retrieved, n_tools, n_items)


def shows_right_tools(inputs: pd.DataFrame, gold: pd.DataFrame) -> np.ndarray:
    """Whether all APIs of a right plan (see `right_plans`) are among the tools that a query's prompt shows, bools."""
    right = right_plans(gold)
    return np.array(
        [
            tools is not None and any(set(plan.apis) <= set(tools) for plan in right[query])
            for query, tools in zip(inputs["query"], inputs["tools"], strict=True)
        ],
        dtype=bool,
    )


# ---------------------------------------------------------------- what is right


def with_other_plans(gold: pd.DataFrame, others: pd.DataFrame) -> pd.DataFrame:
    """Labels with the column `also`: a list of the plans that serve a query as well as the gold one (`RightPlan`).

    Args:
        others: columns query, apis, plan, answers, one row such a plan (see `lib.assistant.world.frames`).
    """
    plans = others[list(RightPlan._fields)].itertuples(index=False)
    also: dict[str, list[RightPlan]] = {}
    for query, plan in zip(others["query"], plans, strict=True):
        also.setdefault(query, []).append(RightPlan(*plan))
    return gold.assign(also=[also.get(query, []) for query in gold["query"]])


def right_plans(gold: pd.DataFrame) -> dict[str, list[RightPlan]]:
    """The plans that serve each query: the gold one, then those of the column `also`, where there is one.

    Args:
        gold: columns query, apis, plan, answers (JSON text).
    """
    also = gold["also"] if "also" in gold else [[]] * len(gold)
    labels = gold[["query", *RightPlan._fields]].itertuples(index=False)
    return {query: [RightPlan(*plan), *others] for (query, *plan), others in zip(labels, also, strict=True)}


def second_steps(desk: Desk, inputs: pd.DataFrame, queries: pd.DataFrame, plans: Iterable[str]) -> pd.DataFrame:
    """Prompts for the second call of a plan of two, after the first was made: progressive planning (Figure 1).

    Args:
        inputs: see `Material.shown`.
        plans: one a row, of which the first call is made; where it has none, the call is `default()`.

    Returns:
        columns query, setting, first (the call made, as text), prompt.
    """
    by_name = queries.set_index("query")
    rows = []
    for row, plan in zip(inputs.itertuples(), plans, strict=True):
        call = first_call(plan)
        query = by_name.loc[row.query]
        first = print_call(*call)
        done = f"{first}\nResult: {desk.execute(query['persona'], call)}\nThen:"
        rows.append((row.query, row.setting, first, desk.prompt(query, row.tools, row.items, done=done)))
    return pd.DataFrame(rows, columns=["query", "setting", "first", "prompt"])


def first_call(plan: str) -> tuple[str, dict]:
    """The first call of a plan; `default()` where its first line does not parse."""
    try:
        return parse_plan(plan.strip().split("\n")[0])[0]
    except PlanError:
        return DEFAULT_API, {}


# ---------------------------------------------------------------- planning


@dataclass
class Planner:
    """Who plans.

    Attributes:
        model: is asked, or has its plans kept.
        max_tokens: of a plan.
        asked: the text that the model is given for each prompt (columns setting, prompt).
        plan_of: the plan in the model's answer.
        asks: whether the model can be asked for plans that are not kept.
        progress: show a progress bar.
    """

    model: KeptModel
    max_tokens: int
    asked: Callable[[pd.DataFrame], list[str]] = lambda prompts: prompts["prompt"].tolist()
    plan_of: Callable[[str], str] = str
    asks: bool = True
    progress: bool = False

    def has(self, prompts: pd.DataFrame) -> list[bool]:
        """Whether the plan of each prompt is kept."""
        return self.model.has(self.asked(prompts), self.max_tokens)

    def write(self, prompts: pd.DataFrame) -> list[str]:
        """The plan of each prompt."""
        answers = self.model.generate(self.asked(prompts), self.max_tokens, progress=self.progress)
        return [self.plan_of(answer) for answer in answers]


def asked_queries(
    views: Sequence[tuple[Material, Iterable[str]]], planner: Planner, among: pd.DataFrame, wanted: int, seed: int
) -> pd.DataFrame:
    """The queries that a planner is asked, the same ones in every setting: of all queries whose plans are kept whole,
    where these are as many as wanted; else of so many, as even by kind as there are; none where it cannot be asked.

    Args:
        views: what prompts of a world are written from, with the settings that are asked.
        among: those that may be asked.
    """
    kinds = views[0][0].gold.set_index("query")["kind"].loc[among["query"]]
    found = equal_shares(among, kinds, max(KEPT_QUERIES, wanted), seed)
    prompts = pd.concat([material.prompted(found, settings) for material, settings in views], ignore_index=True)
    whole = whole_units(prompts["query"], planner.has(prompts))
    if len(whole) >= wanted or len(whole) == len(found):
        return found[found["query"].isin(whole)]
    return equal_shares(among, kinds, wanted, seed) if planner.asks else among.iloc[:0]


def plan(
    setting: str,
    world: Material,
    planner: Planner,
    queries: pd.DataFrame,
    thoughts: Mapping[str, str] | None = None,
) -> pd.DataFrame:
    """A planner's plans for some queries of a world in a setting, judged.

    Args:
        setting: one of `SOURCES`.
        thoughts: a chain of thought by query, which its prompt shows.

    Returns:
        columns of `Material.prompted` and of `score_plans`, answerable, and the query's need.
    """
    prompts = world.prompted(queries, [setting], thoughts)
    return judged(prompts.assign(text=planner.write(prompts)), world)


def plan_second_calls(at_once: pd.DataFrame, world: Material, planner: Planner) -> pd.DataFrame:
    """Plans of two calls step by step: the first calls of those made at once (`plan`) are made, then the second ones
    are planned, after what the first returned (Figure 1)."""
    steps = second_steps(world.desk, at_once, world.queries, at_once["text"])
    second = planner.write(steps)
    rows = at_once[["query", "setting", "tools", "items", "prompt"]]
    return judged(rows.assign(text=[f"{a}\n{b}" for a, b in zip(steps["first"], second, strict=True)]), world)


def judged(plans: pd.DataFrame, world: Material) -> pd.DataFrame:
    """`score_plans` with answerable and the query's need."""
    scored = score_plans(plans, world.gold, world.desk.functions)
    need = world.gold.set_index("query")["need"]
    spelled = answerable(scored["prompt"].tolist(), scored, world.gold)
    return scored.assign(answerable=spelled, need=scored["query"].map(need))


# ---------------------------------------------------------------- scores


def score_plans(plans: pd.DataFrame, gold: pd.DataFrame, functions: Sequence[dict]) -> pd.DataFrame:
    """Each plan judged, by that of the right ones which comes nearest.

    Args:
        plans: columns query, text.
        gold: see `right_plans`.
        functions: OpenAI-style definitions of the whole toolbox.

    Returns:
        `plans` with ast_accuracy, exact_match, hallucination, right_api (the APIs are right, whatever their arguments),
        each 0 or 100; failure (the category of `lib.assistant.plans.ast_match`, empty where right) and why (its
        sentence).
    """
    names, right = {function["name"] for function in functions}, right_plans(gold)
    rows = []
    for query, text in zip(plans["query"], plans["text"], strict=True):
        match, called = best_match(text, right[query], functions), api_names(text)
        rows.append(
            {
                "ast_accuracy": 100.0 * bool(match),
                "exact_match": 100.0 * any(exact_match(text, plan.plan) for plan in right[query]),
                "hallucination": 100.0 * hallucinated(text, names),
                "right_api": 100.0 * any(sorted(called) == sorted(plan.apis) for plan in right[query]),
                "failure": match.category or "",
                "why": match.sentence,
            }
        )
    columns = ["ast_accuracy", "exact_match", "hallucination", "right_api", "failure", "why"]
    return plans.reset_index(drop=True).join(pd.DataFrame(rows, columns=columns))


def answerable(prompts: Sequence[str], inputs: pd.DataFrame, gold: pd.DataFrame) -> np.ndarray:
    """Whether a prompt spells out the answer, 0 or 100 each, NaN where it shows no tools: the APIs of a right plan (see
    `right_plans`) are among its tools, and an acceptable value of each of its required text arguments stands in its
    context or request.

    It bounds what a planner gets that calls only tools it is shown and copies its text arguments.
    """
    right, found = right_plans(gold), []
    for prompt, query, tools in zip(prompts, inputs["query"], inputs["tools"], strict=True):
        text = standard_text(prompt)
        spelled = [plan for plan in right[query] if _spelled_out(plan, text)]
        found.append(np.nan if tools is None else 100.0 * any(set(plan.apis) <= set(tools) for plan in spelled))
    return np.array(found)


def _spelled_out(plan: RightPlan, text: str) -> bool:
    """Whether a standardised text has all that a plan's arguments need."""
    return all(_stands_in(values, text) for _, arguments in gold_calls(plan.answers) for values in arguments.values())


def _stands_in(values: list, text: str) -> bool:
    """Whether one of the acceptable values of an argument stands in a standardised text, or none need to. One part of a
    list will do, and part of a word: the examples that an untuned model was shown are chosen by this rule."""
    texts = [part for value in values for part in (value if isinstance(value, list) else [value])]
    if MAY_BE_LEFT_OUT in texts or not all(isinstance(part, str) for part in texts):
        return True
    return any(standard_text(part) in text for part in texts)


# ---------------------------------------------------------------- values


def per_query(plans: pd.DataFrame, samples: int, seed: int) -> tuple[pd.DataFrame, Resampling]:
    """Scores as `lib.evaluation.comparison` takes them, k being 1, and what is resampled: topics.

    The measure `arguments` is worked out here: AST accuracy among the plans whose APIs are right, NaN for the others. A
    right plan has the right APIs, so the means of `right_api` and `arguments` multiply to that of `ast_accuracy`.

    Args:
        plans: of `plan`, one row for each query and setting.
        samples, seed: of the resampling and the tests.
    """
    plans = plans.assign(arguments=plans["ast_accuracy"].where(plans["right_api"] > 0))
    wide = plans.pivot(index="query", columns="setting", values=list(MEASURES)).swaplevel(axis=1)
    wide.columns = pd.MultiIndex.from_tuples([(*column, 1) for column in wide], names=["method", "metric", "k"])
    topics = plans.drop_duplicates("query").set_index("query")["need"].loc[wide.index].to_numpy()
    return wide, Resampling(topics, samples, seed)


def values_by_topics(scores: pd.DataFrame, over: Resampling, held_out: Iterable[str]) -> pd.DataFrame:
    """Each setting's value of each measure, over all topics, those that the planner learned from (known), and those
    held out (new).

    Args:
        scores, over: of `per_query`.

    Returns:
        columns setting, topics, metric, value, ci_low, ci_high, n_topics, n, over_queries.
    """
    new = np.isin(over.units, list(held_out))
    table = summarise(scores, {("all", ""): new | True, ("known", ""): ~new, ("new", ""): new}, over)
    return table.rename(columns={"method": "setting", "kind": "topics"}).drop(columns=["sample", "k"])


def published_values(path: Path) -> pd.DataFrame:
    """Table 3 as printed, with the two factors of AST accuracy in percent: right_api, P(tool right), and arguments,
    P(arguments right | tool right).

    The paper prints neither. Where the right tool is shown, P(tool right) is taken as 1, so that the accuracy there is
    that of the arguments; the other settings are given the same arguments as the one that shows the right tool and as
    much context, which assumes that arguments do not depend on whether the tool had to be found.

    Args:
        path: a CSV with columns setting, metric, value.

    Returns:
        columns setting, metric, published.
    """
    table = pd.read_csv(path)[["setting", "metric", "value"]]
    right = table[table["metric"] == "ast_accuracy"].set_index("setting")["value"]
    bound = right.index.map(lambda name: "context_tuned_upper_bound" if "context" in name else "upper_bound")
    factors = pd.DataFrame({"arguments": right[bound].to_numpy()}, right.index)
    factors["right_api"] = 100 * right / factors["arguments"]
    factors = factors.melt(ignore_index=False, var_name="metric").reset_index()
    return pd.concat([table, factors], ignore_index=True).rename(columns={"value": "published"})


def failure_rows(plans: pd.DataFrame, over: Resampling) -> pd.DataFrame:
    """How many of each setting's plans are right or fail by each of `CAUSES`.

    Args:
        plans: of `plan`, the same queries in each setting; `over` of `per_query`.

    Returns:
        columns setting, failure (`right` included), percent, ci_low, ci_high, n.
    """
    rows = []
    for setting, part in plans.groupby("setting", sort=False):
        part = part.sort_values("query")
        for cause, name in ({"": "right"} | {cause: cause for cause in CAUSES}).items():
            found = mean_interval(100.0 * (part["failure"] == cause).to_numpy(), over)
            rows.append((setting, name, *found, len(part)))
    return pd.DataFrame(rows, columns=["setting", "failure", "percent", "ci_low", "ci_high", "n"])


def called_twice(plans: pd.DataFrame) -> np.ndarray:
    """Whether each plan has two calls."""
    return np.array([len(api_names(text)) == 2 for text in plans["text"]], dtype=bool)


def first_call_right(plans: pd.DataFrame, world: Material) -> list[bool]:
    """Whether the first line of each plan is the first call of a right one."""
    right = right_plans(world.gold)
    return [
        any(ast_match(text.split("\n")[0], json.loads(plan.answers)[:1], world.desk.functions) for plan in right[query])
        for query, text in zip(plans["query"], plans["text"], strict=True)
    ]


def claim_scores(plans: pd.DataFrame) -> pd.DataFrame:
    """Scores as `lib.evaluation.claims.evaluate` takes them: query, need, method, metric, value, k."""
    measures = ["ast_accuracy", "exact_match", "hallucination", "right_api"]
    scores = plans.melt(["query", "need", "setting"], measures, "metric")
    return scores.rename(columns={"setting": "method"}).assign(k=1)


# ---------------------------------------------------------------- floors without a language model


def template_floor(world: Material, plans: pd.DataFrame, guesses: pd.Series | None = None) -> pd.DataFrame:
    """Plans made without a language model for the prompts of `plans`, which show tools and items, judged: the first
    tool of the app of the first item that has one, its first argument being that item's title; `default()` where no
    tool belongs to an item's app.

    Args:
        guesses: an API by query (`guessed_apis`), in place of the tools shown.
    """
    tools = plans["tools"] if guesses is None else [[guesses[query]] for query in plans["query"]]
    texts = [template_plan(world.desk, *shown) for shown in zip(tools, plans["items"], strict=True)]
    return judged(plans[["query", "setting", "tools", "items", "prompt"]].assign(text=texts), world)


def template_plan(desk: Desk, tools: Sequence[str], items: Sequence[str]) -> str:
    """One plan of `template_floor`."""
    for item in items:
        row = desk.items.loc[item]
        for name in tools:
            if desk.app_of.get(name) == row["app"]:
                return print_call(name, dict.fromkeys(desk.arguments[name][:1], row["title"]))
    return print_call(DEFAULT_API, {})


def guessed_apis(vectors: np.ndarray, world: Material, learned: Sequence[str], asked: Sequence[str]) -> pd.Series:
    """Which API a query's embedding alone says is right, by asked query.

    Args:
        vectors: embeddings of all queries of the world, in its order.
        learned: queries that the classifier learns from.
    """
    place = pd.Series(np.arange(len(world.queries)), index=world.queries["query"])
    first = world.gold.set_index("query")["apis"].str[0][learned]
    classifier = api_classifier(vectors[place[learned]], first)
    return pd.Series(classifier.predict(vectors[place[asked]]), index=list(asked))
