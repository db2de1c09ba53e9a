"""Tool retrieval: which of a toolbox's APIs does a query need, with or without context in words?

Frames in, frames out. In a run of this module `item` is an API's name, and a query's candidates are all tools.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from lib.assistant.cot import augment, other_rows
from lib.assistant.leaks import api_classifier
from lib.assistant.schemas import APP_NAMES
from lib.assistant.toolbox import DEFAULT_API, Toolbox
from lib.evaluation.comparison import per_query_scores
from lib.retrieval.stores import candidate_pairs, rank_pairs
from lib.workbook.inputs import InputError, did_you_mean

# What is said of a context item (columns app, title, text).
WORDINGS: dict[str, Callable[[pd.DataFrame], pd.Series]] = {
    "app": lambda items: items["app"].map(APP_NAMES),
    "title": lambda items: items["title"],
    "text": lambda items: items["text"],
    "app: title": lambda items: items["app"].map(APP_NAMES) + ": " + items["title"],
    "app: text": lambda items: items["app"].map(APP_NAMES) + ": " + items["text"],
}
ALL_ITEMS = 10**6
AS_GOOD = 0.5  # points of recall within which the simpler of two rankings of context is taken
SIMPLEST_FIRST = ("semantic", "lambdamart", "lambdamart_rrf")


@dataclass(frozen=True)
class ToolTask:
    """What tool retrieval is asked, wherever it comes from.

    Attributes:
        queries: columns query, text, split, persona, need, kind. Queries of a file have themselves as persona, and
            neither need nor kind.
        tools: columns item (name of the API), app, text; queries of a file have tools without apps.
        gold: columns query, item, one row for each API of a plan. A query that no tool fits has none.
        gold_apps: columns query, item, one row for each of a query's apps; empty without apps.
        contexts: for each setting columns query, rank, app, title, text, one row for each context item; empty for
            queries of a file.
        also: columns query, plan, item, one row for each API of a plan that serves a query as well as the gold one;
            `plan` numbers those of a query.
    """

    queries: pd.DataFrame
    tools: pd.DataFrame
    gold: pd.DataFrame
    gold_apps: pd.DataFrame
    contexts: dict[str, pd.DataFrame] = field(default_factory=dict)
    also: pd.DataFrame = field(
        default_factory=lambda: pd.DataFrame({"query": [], "plan": [], "item": []}).astype(
            {"query": str, "plan": int, "item": str}
        )
    )

    @property
    def evaluated(self) -> pd.DataFrame:
        """The queries on the evaluation side, numbered anew."""
        return self.queries[self.queries["split"] == "evaluation"].reset_index(drop=True)

    @property
    def training(self) -> pd.DataFrame:
        """The queries on the training side, numbered anew."""
        return self.queries[self.queries["split"] == "training"].reset_index(drop=True)

    @property
    def answerable(self) -> np.ndarray:
        """Whether some tool fits, a bool for each query of `evaluated`."""
        return self.evaluated["query"].isin(self.right["query"]).to_numpy()

    @property
    def right(self) -> pd.DataFrame:
        """Columns query, item: the distinct APIs of the plans that serve a query, the gold one's first."""
        return pd.concat([self.gold, self.also[["query", "item"]]]).drop_duplicates(ignore_index=True)

    @property
    def shortest(self) -> pd.DataFrame:
        """Columns query, item: the APIs of the plan with the fewest among those that serve a query."""
        plans = pd.concat([self.gold.assign(plan=-1), self.also])
        size = plans.groupby(["query", "plan"])["item"].transform("size")
        first = plans.assign(size=size).sort_values("size", kind="stable").drop_duplicates("query")
        return plans.merge(first[["query", "plan"]])[["query", "item"]]

    def plans_of(self, query: str) -> list[list[str]]:
        """The distinct APIs of each plan that serves a query, the gold one's first; plans without a tool left out."""
        gold = self.gold.loc[self.gold["query"] == query, "item"].tolist()
        others = self.also[self.also["query"] == query].groupby("plan")["item"].agg(list).tolist()
        return [plan for plan in (gold, *others) if plan]

    @property
    def units(self) -> np.ndarray:
        """What is resampled, a label for each of `evaluated`: topics, or the queries of a file."""
        return self.evaluated["need" if self.contexts else "query"].to_numpy()


def task_of_world(
    queries: pd.DataFrame,
    gold: pd.DataFrame,
    items: pd.DataFrame,
    toolbox: pd.DataFrame,
    retrieved: Mapping[str, pd.DataFrame],
    seed: int,
    other_plans: pd.DataFrame | None = None,
) -> ToolTask:
    """The task of the simulated world, or of one's own in the same files.

    Args:
        queries, gold, items, toolbox: as notebook 01 writes them.
        retrieved: rankings of context (columns query, item, rank) by setting.
        seed: of the contexts that are drawn at random.
        other_plans: plans that do as well as the gold one, as notebook 01 writes them; None: there are none.

    Returns:
        The task with the contexts given and, for evaluation queries, `oracle_context`, `query_plus_random_context` and
        `query_plus_other_context` (what the first of `retrieved` found for another query).
    """
    labels = gold[["query", "need", "kind"]].astype({"kind": str})
    asked = queries[["query", "text", "split", "persona"]].merge(labels, on="query")
    evaluated = asked[asked["split"] == "evaluation"]
    first = next(iter(retrieved.values()))
    runs = dict(retrieved) | {
        "query_plus_random_context": random_context(evaluated, items, seed),
        "query_plus_other_context": others_context(first, evaluated["query"].tolist(), seed),
        "oracle_context": oracle_context(gold[gold["split"] == "evaluation"]),
    }
    shown = items[["item", "app", "title", "text"]]
    return ToolTask(
        queries=asked,
        tools=toolbox.rename(columns={"api": "item"})[["item", "app", "text"]],
        gold=gold_tools(gold["query"], gold["apis"]),
        gold_apps=gold[["query", "apps"]].explode("apps").rename(columns={"apps": "item"}).reset_index(drop=True),
        contexts={setting: run[["query", "item", "rank"]].merge(shown, on="item") for setting, run in runs.items()},
        **({} if other_plans is None else {"also": other_tools(other_plans)}),
    )


def task_of_functions(queries: pd.DataFrame, toolbox: Toolbox) -> ToolTask:
    """The task of a file of queries over function definitions: all are evaluated, and there is no context.

    Args:
        queries: columns query, text, apis, place (see `lib.assistant.function_queries.read_function_queries`).

    Raises:
        InputError: a query's gold API is not in the toolbox; names both, and the query's place.
    """
    for query, apis, place in zip(queries["query"], queries["apis"], queries["place"], strict=True):
        if unknown := [api for api in apis if api not in toolbox and api != DEFAULT_API]:
            close = did_you_mean(unknown[0], toolbox.apis)
            raise InputError(
                f"{place}, query {query}: its answer calls {unknown[0]}, which is not in the toolbox{close}"
            )
    return ToolTask(
        queries=queries[["query", "text"]].assign(split="evaluation", persona=queries["query"], need="", kind=""),
        tools=pd.DataFrame([(api.api, api.app, api.text) for api in toolbox], columns=["item", "app", "text"]),
        gold=gold_tools(queries["query"], queries["apis"]),
        gold_apps=pd.DataFrame(columns=["query", "item"], dtype=str),
    )


def tool_texts(toolbox: pd.DataFrame, wording: str) -> list[str]:
    """What search sees of each tool.

    Args:
        toolbox: as notebook 01 writes it: columns app, text, function (a definition as JSON).
        wording: `terse` takes `text`; `paper` the form of appendix A.3, which names the app. A tool without an app
            keeps its text.
    """
    if wording == "terse":
        return toolbox["text"].tolist()
    return [
        appendix_text(APP_NAMES[app], json.loads(function)) if app in APP_NAMES else text
        for app, text, function in zip(toolbox["app"], toolbox["text"], toolbox["function"], strict=True)
    ]


def appendix_text(app: str, function: dict) -> str:
    """A tool in the words of appendix A.3, then its arguments; a description that has this form already stays.

    >>> appendix_text("Mail", {"name": "read_mail", "description": "Open a message."})
    "Mail App's read_mail API is used to open a message."
    """
    description = function["description"].strip()
    if "API is used to" not in description:
        verb = description[:1].lower() + description[1:]
        description = f"{app} App's {function['name']} API is used to {verb}"
    properties = function.get("parameters", {}).get("properties", {})
    arguments = "; ".join(f"{name}: {schema['description']}" for name, schema in properties.items())
    return f"{description} {arguments}".strip()


def gold_tools(queries: pd.Series, apis: pd.Series) -> pd.DataFrame:
    """Columns query, item: the distinct APIs of each plan. `default` says that no tool fits, so it is none."""
    pairs = pd.DataFrame({"query": queries, "item": apis}).explode("item").drop_duplicates()
    return pairs[pairs["item"] != DEFAULT_API].dropna().reset_index(drop=True)


def other_tools(others: pd.DataFrame) -> pd.DataFrame:
    """Columns query, plan, item: the distinct APIs of each other plan of a query, which number from 0.

    Args:
        others: columns query, apis, one row a plan.
    """
    plans = others[["query", "apis"]].assign(plan=others.groupby("query").cumcount())
    pairs = plans.explode("apis").rename(columns={"apis": "item"}).drop_duplicates()
    return pairs.loc[pairs["item"] != DEFAULT_API, ["query", "plan", "item"]].reset_index(drop=True)


# ---------------------------------------------------------------- contexts: columns query, item, rank


def recall_of_context(rankings: pd.DataFrame, gold: pd.DataFrame, cutoffs: Sequence[int]) -> pd.DataFrame:
    """Mean recall of relevant context in percent, one row a method, one column a cutoff.

    Args:
        rankings: columns method, query, item, rank.
        gold: columns query, relevant: the queries averaged over.
    """
    relevant = gold[["query", "relevant"]].explode("relevant").rename(columns={"relevant": "item"})
    runs = dict(list(rankings.groupby("method")))
    scores = per_query_scores(runs, relevant, gold["query"].tolist(), cutoffs)
    return scores.mean().unstack("metric")["recall"].unstack("k")


def mean_recall(found: pd.DataFrame) -> pd.Series:
    """Of each ranking of context, the mean of its recall over the cutoffs; `found` as for `best_context`."""
    return found[[name for name in found if isinstance(name, int)]].mean(axis=1)


def best_context(found: pd.DataFrame) -> str:
    """The ranking of context that tools are searched with: that of the highest recall, or a simpler one within
    `AS_GOOD` points of it, so that the choice does not turn with the last bits of a score.

    Args:
        found: of `recall_of_context`; other columns than cutoffs are left out.
    """
    recall = mean_recall(found)
    near = recall.index[recall >= recall.max() - AS_GOOD]
    simplest_first = [name for name in SIMPLEST_FIRST if name in near]
    return simplest_first[0] if simplest_first else str(recall.idxmax())


def random_context(queries: pd.DataFrame, items: pd.DataFrame, seed: int) -> pd.DataFrame:
    """All items of each query's persona in random order."""
    pairs = candidate_pairs(queries, items, on="persona")
    return rank_pairs(pairs, np.random.default_rng(seed).random(len(pairs)))


def others_context(run: pd.DataFrame, queries: Sequence[str], seed: int) -> pd.DataFrame:
    """For each query what `run` retrieved for another one of them, each query's context taken once."""
    owner = pd.Series(queries, index=np.asarray(queries)[other_rows(len(queries), seed)])
    run = run[run["query"].isin(owner.index)]
    return run.assign(query=run["query"].map(owner))


def oracle_context(gold: pd.DataFrame) -> pd.DataFrame:
    """All relevant items of each query, ordered by their ids: the order of the labels starts with the plan's item."""
    pairs = gold[["query", "relevant"]].explode("relevant").rename(columns={"relevant": "item"})
    pairs = pairs.sort_values(["query", "item"], ignore_index=True)
    return pairs.assign(rank=pairs.groupby("query").cumcount() + 1)


def context_words(context: pd.DataFrame, wording: str, n_items: int = ALL_ITEMS) -> pd.Series:
    """The first `n_items` context items of each query in words, best first, each wording once; indexed by query.

    Args:
        context: columns query, rank, and those that the wording needs of app, title and text.
        wording: one of `WORDINGS`.
    """
    first = context[context["rank"] <= n_items].sort_values(["query", "rank"])
    first = first.assign(words=WORDINGS[wording](first)).drop_duplicates(["query", "words"])
    return first.groupby("query")["words"].agg(", ".join)


def with_words(queries: pd.DataFrame, words: pd.Series) -> list[str]:
    """Each query's text followed by its words, if it has any."""
    return augment(queries["text"], words.reindex(queries["query"]).fillna(""))


def apps_of_tools(gold: pd.DataFrame, tools: pd.DataFrame) -> pd.DataFrame:
    """Columns query, rank, app: the apps of the gold APIs, in alphabetical order."""
    pairs = gold.merge(tools[["item", "app"]], on="item")[["query", "app"]].drop_duplicates()
    pairs = pairs.sort_values(["query", "app"], ignore_index=True)
    return pairs.assign(rank=pairs.groupby("query").cumcount() + 1)


def setting_texts(task: ToolTask, wording: str, n_items: int) -> dict[str, list[str]]:
    """What is searched with in each setting: a text for each evaluated query.

    Args:
        wording, n_items: of retrieved and of random context; of the oracle's, all items are worded.
    """
    texts = {"query_only": task.evaluated["text"].tolist()}
    for setting, context in task.contexts.items():
        words = context_words(context, wording, ALL_ITEMS if setting == "oracle_context" else n_items)
        texts[setting] = with_words(task.evaluated, words)
    return texts


def first_item_in_app(rankings: pd.DataFrame, items: pd.DataFrame, apps: pd.DataFrame) -> pd.Series:
    """Percent of queries whose first context item lies in one of their apps, by method.

    Args:
        rankings: columns method, query, item, rank.
        items: columns item, app.
        apps: columns query, app; only its queries count.
    """
    first = rankings[(rankings["rank"] == 1) & rankings["query"].isin(apps["query"])].merge(items[["item", "app"]])
    pairs = pd.MultiIndex.from_frame(first[["query", "app"]])
    named = pd.Series(pairs.isin(pd.MultiIndex.from_frame(apps[["query", "app"]])), index=first.index)
    return 100 * named.groupby(first["method"]).mean()


# ---------------------------------------------------------------- runs and scores


def tool_pairs(queries: pd.DataFrame, tools: pd.DataFrame) -> pd.DataFrame:
    """Every query with every tool (see `lib.retrieval.stores.candidate_pairs`)."""
    return candidate_pairs(queries[["query"]].assign(toolbox=0), tools[["item"]].assign(toolbox=0), on="toolbox")


def frequency_scores(pairs: pd.DataFrame, gold: pd.DataFrame) -> np.ndarray:
    """How many plans of `gold` call each pair's tool, whatever the query."""
    return pairs["item"].map(gold["item"].value_counts()).fillna(0).to_numpy(dtype=float)


def classifier_scores(pairs: pd.DataFrame, vectors: np.ndarray, model) -> np.ndarray:
    """The probability that a classifier of queries gives each pair's tool; 0 for a tool it has not learned.

    Args:
        vectors: embeddings of the queries that `pairs` was made from.
        model: from `lib.assistant.leaks.api_classifier`.
    """
    chances = pd.DataFrame(model.predict_proba(vectors), columns=model.classes_)
    column = pairs["item"].map({name: place for place, name in enumerate(chances.columns)})
    found = chances.to_numpy()[pairs["query_row"], column.fillna(0).astype(int)]
    return np.where(column.isna(), 0.0, found)


def trained_scores(
    pairs: pd.DataFrame, vectors: np.ndarray, gold: pd.DataFrame, known: pd.Index, known_vectors: np.ndarray
) -> dict[str, np.ndarray]:
    """Scores of `pairs` by what knows training plans instead of the tools' texts.

    Args:
        vectors: embeddings of the queries that `pairs` was made from.
        gold: columns query, item; plans of queries that are not `known` are ignored.
        known: ids of the training queries, in the order of `known_vectors`.

    Returns:
        `frequency` (see `frequency_scores`) and `classifier`; with fewer than two APIs to learn there is nothing to
        tell apart, and the classifier's are the frequencies.
    """
    gold = gold[gold["query"].isin(known)]
    scores = {"frequency": frequency_scores(pairs, gold)}
    answers = pd.Series(known).map(gold.drop_duplicates("query").set_index("query")["item"])
    if answers.nunique() < 2:
        return scores | {"classifier": scores["frequency"]}
    model = api_classifier(known_vectors[answers.notna().to_numpy()], answers.dropna())
    return scores | {"classifier": classifier_scores(pairs, vectors, model)}


def fold_of_units(units: pd.Series, seed: int, folds: int = 5) -> dict[str, int]:
    """A fold, from 0, of each distinct unit (a need, say), drawn with the seed."""
    return {
        unit: place % folds for place, unit in enumerate(np.random.default_rng(seed).permutation(sorted(set(units))))
    }


def scores_on_unseen_needs(
    pairs: pd.DataFrame,
    vectors: np.ndarray,
    gold: pd.DataFrame,
    known: pd.Index,
    known_vectors: np.ndarray,
    needs: pd.Series,
    seed: int,
    folds: int = 5,
) -> dict[str, np.ndarray]:
    """`trained_scores` where no query's need was among those learned from: cross-fitted over folds of needs.

    Args:
        needs: the need of each query, known or asked, indexed by query.
        seed: of the folds.
    """
    fold_of_query = needs.map(fold_of_units(needs, seed, folds))
    asked_fold, known_fold = (names.map(fold_of_query).to_numpy() for names in (pairs["query"], pd.Series(known)))
    scores = {name: np.zeros(len(pairs)) for name in ("frequency", "classifier")}
    for fold in np.unique(asked_fold):
        inside, outside = asked_fold == fold, known_fold != fold
        part = trained_scores(pairs[inside], vectors, gold, known[outside], known_vectors[outside])
        for name, values in part.items():
            scores[name][inside] = values
    return scores


def random_app_recall(task: ToolTask, queries: Sequence[str], cutoffs: Sequence[int]) -> pd.DataFrame:
    """What a random order of the tools finds of each query's apps, in expectation: an app with m of N tools is missed
    by the first k with probability C(N − m, k) / C(N, k).

    Returns:
        percent, one row a query, columns ("random", "app_recall", k).
    """
    total, sizes = len(task.tools), task.tools["app"].value_counts()
    size = task.gold_apps["item"].map(sizes).fillna(0).astype(int)
    columns = {
        ("random", "app_recall", k): size.map(lambda m, k=k: 100 * (1 - math.comb(total - m, k) / math.comb(total, k)))
        for k in cutoffs
    }
    table = pd.DataFrame(columns).groupby(task.gold_apps["query"]).mean().reindex(queries, fill_value=0.0)
    table.columns = table.columns.set_names(["method", "metric", "k"])
    return table.rename_axis("query")


def app_run(run: pd.DataFrame, tools: pd.DataFrame) -> pd.DataFrame:
    """The apps of a run's tools, each at the rank of its first tool, so that a cutoff still counts tools."""
    apps = run.assign(item=run["item"].map(tools.set_index("item")["app"]))
    return apps.sort_values(["query", "rank"]).drop_duplicates(["query", "item"])


def tool_scores(
    runs: Mapping[str, pd.DataFrame], task: ToolTask, queries: Sequence[str], cutoffs: Sequence[int]
) -> pd.DataFrame:
    """Recall in percent, one row a query, columns (method, metric, k): `recall` of the gold APIs and, where tools have
    apps, `app_recall`, the share of a query's apps among the apps of its first k tools.

    Where other plans do as well, `recall` is that of the plan of which most is found. A query that no tool fits has
    nothing to find and counts with a recall of 0.
    """
    recall = _recall(runs, task.gold, queries, cutoffs)
    for _, plan in task.also[task.also["query"].isin(queries)].groupby("plan"):
        served = plan["query"].unique().tolist()
        recall.loc[served] = np.maximum(recall.loc[served], _recall(runs, plan, served, cutoffs))
    if not len(task.gold_apps):
        return recall
    of_apps = _recall({name: app_run(run, task.tools) for name, run in runs.items()}, task.gold_apps, queries, cutoffs)
    return pd.concat([recall, of_apps.rename(columns={"recall": "app_recall"}, level="metric")], axis=1)


def _recall(
    runs: Mapping[str, pd.DataFrame], relevant: pd.DataFrame, queries: Sequence[str], cutoffs: Sequence[int]
) -> pd.DataFrame:
    scores = per_query_scores(runs, relevant, queries, cutoffs)
    return scores.xs("recall", axis=1, level="metric", drop_level=False)


def chance_of_any_plan(
    plans: Sequence[Sequence[int]], n_tools: int, cutoffs: Sequence[int], rng: np.random.Generator, draws: int = 1000
) -> list[float]:
    """What a random order of the tools finds of the best of several plans, in percent at each cutoff: the mean over
    `draws` orders.

    Args:
        plans: the tools of each plan by their numbers, from 0.
    """
    rank = rng.permuted(np.tile(np.arange(n_tools), (draws, 1)), axis=1)
    return [100 * float(np.max([(rank[:, plan] < k).mean(axis=1) for plan in plans], axis=0).mean()) for k in cutoffs]


def ceiling(gold: pd.DataFrame, queries: Sequence[str], cutoffs: Sequence[int]) -> list[float]:
    """The best possible mean recall at each cutoff, in percent: bounded by the cutoff and by queries without gold.

    Args:
        gold: columns query, item; of tools `ToolTask.shortest`.
    """
    size = gold.drop_duplicates()["query"].value_counts().reindex(queries, fill_value=0).to_numpy()
    return [100 * float(np.mean(np.minimum(size, k) / np.maximum(size, 1))) for k in cutoffs]


def share_found_whole(scores: pd.DataFrame, gold: pd.DataFrame, methods: Sequence[str], k: int) -> pd.DataFrame:
    """Whether all APIs of a right plan are among the first k, 0 or 100: one column a method, one row a query of `gold`
    (`ToolTask.right`)."""
    found = scores.loc[scores.index.isin(gold["query"]), [(method, "recall", k) for method in methods]]
    return found.droplevel(["metric", "k"], axis=1).ge(100 - 1e-9) * 100.0


def best_rank(run: pd.DataFrame, gold: pd.DataFrame) -> pd.Series:
    """The rank of the first API of `gold` (columns query, item) of each query that has one, indexed by query."""
    return run.merge(gold, on=["query", "item"]).groupby("query")["rank"].min()
