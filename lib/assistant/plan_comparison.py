"""Plans compared: the settings of Table 3 with each other and with floors that need no language model, and plans of two
calls by how they came about.

Plans are frames as `lib.assistant.planner.score_plans` returns them; their scores are 0 or 100 each.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from lib.assistant.leaks import api_classifier
from lib.assistant.planner import (
    ALONE_BY_RANKER,
    BY_RANKER,
    METRICS,
    SETTINGS,
    SOURCES,
    Desk,
    right_plans,
    score_plans,
    template_plan,
)
from lib.assistant.plans import CAUSES, api_names, ast_match, gold_calls
from lib.evaluation.comparison import compare, summarise
from lib.evaluation.inference import Resampling, mean_interval, settled

if TYPE_CHECKING:
    from lib.assistant.planner_training import PlannerLesson

WITH_CONTEXT = ("context_tuned_rag", "context_tuned_upper_bound")  # the settings that show tools and items
MEASURES = (*METRICS, "executed", "right_api", "arguments", "outside_shown", "answerable")
TESTED = (*METRICS, "right_api", "outside_shown")
CONTRASTS = (
    ("context_tuned_rag", "rag"),
    ("rag", "lower_bound"),
    ("upper_bound", "rag"),
    ("context_tuned_upper_bound", "context_tuned_rag"),
    ("context_tuned_upper_bound", "upper_bound"),
    ("upper_bound", "context_tuned_rag"),
)

# Tools by our ranker against those by search, and what context adds to each.
BY_RETRIEVER = (
    (ALONE_BY_RANKER, "rag"),
    (BY_RANKER, "context_tuned_rag"),
    (BY_RANKER, ALONE_BY_RANKER),
    ("context_tuned_rag", "rag"),
)


def needs_no_argument(gold: pd.DataFrame) -> pd.Series:
    """Whether the gold plan of each query has no argument, such as `default()`; bools, by query."""
    answers = gold.set_index("query")["answers"]
    return answers.map(lambda text: not any(arguments for _, arguments in gold_calls(text)))


# ---------------------------------------------------------------- settings


def per_query(
    plans: pd.DataFrame, queries: pd.DataFrame, gold: pd.DataFrame, samples: int, seed: int
) -> tuple[pd.DataFrame, Resampling]:
    """Scores as `lib.evaluation.comparison` takes them, k being 1, and what is resampled: topics.

    The measure `arguments` is worked out here: AST accuracy among the plans whose APIs are right, NaN for the others. A
    right plan has the right APIs, so the means of `right_api` and `arguments` multiply to that of `ast_accuracy`.

    Args:
        plans: columns query, setting and the other `MEASURES`; one row for each query and setting.
        samples, seed: of the resampling and the tests.

    Returns:
        one row a query, columns (setting, measure, 1); and the topics of these rows.
    """
    plans = plans.assign(arguments=plans["ast_accuracy"].where(plans["right_api"] > 0))
    wide = plans.pivot(index="query", columns="setting", values=list(MEASURES)).swaplevel(axis=1)
    wide.columns = pd.MultiIndex.from_tuples([(*column, 1) for column in wide], names=["method", "metric", "k"])
    topics = gold.set_index("query")["need"].loc[wide.index].to_numpy()
    return wide, Resampling(topics, samples, seed)


def summary(scores: pd.DataFrame, resampling: Resampling, published: pd.DataFrame) -> pd.DataFrame:
    """Each setting's value of each measure, in the order of Table 3.

    Args:
        scores: see `per_query`.
        published: columns setting, metric, value.

    Returns:
        columns setting, metric, value, ci_low, ci_high, n_topics, n, over_queries, published.
    """
    table = summarise(scores, {("all", "all"): np.ones(len(scores), dtype=bool)}, resampling)
    beside = published[["setting", "metric", "value"]].rename(columns={"value": "published"})
    table = table.rename(columns={"method": "setting"}).merge(beside, how="left")
    table["order"] = table["setting"].map(list(SOURCES).index)
    return table.sort_values(["order", "metric"], ignore_index=True).drop(columns=["kind", "sample", "k", "order"])


def contrasts(
    scores: pd.DataFrame,
    resampling: Resampling,
    between: Sequence[tuple[str, str]] = CONTRASTS,
    metrics: Sequence[str] = TESTED,
) -> pd.DataFrame:
    """Differences between settings in several measures.

    Args:
        scores: see `per_query`.
        between: pairs of settings.

    Returns:
        columns of `compare`, metric, settled (bool), and differing (number of queries that differ).
    """
    frames = []
    for metric in metrics:
        # without retrieval no tools are shown, so nothing can be outside them
        pairs = [pair for pair in between if metric != "outside_shown" or "lower_bound" not in pair]
        differing = [int((scores[a, metric, 1] != scores[b, metric, 1]).sum()) for a, b in pairs]
        compared = compare(scores, pairs, metric, 1, resampling)
        frames.append(compared.assign(metric=metric, differing=differing))
    found = pd.concat(frames, ignore_index=True)
    return found.assign(settled=settled(found))


def effect_of_thought(
    silent: pd.DataFrame, thinking: pd.DataFrame, queries: pd.DataFrame, gold: pd.DataFrame, samples: int, seed: int
) -> pd.DataFrame:
    """Plans of `context_tuned_rag` with a chain of thought in the prompt (`context_tuned_rag_cot`) against those
    without, on the same queries.

    Returns:
        columns of `compare`, metric, without and with (values), settled.
    """
    scores, resampling = per_query(pd.concat([silent, thinking]), queries, gold, samples, seed)
    pair = ("context_tuned_rag_cot", "context_tuned_rag")
    frames = [
        compare(scores, [pair], metric, 1, resampling).assign(
            metric=metric,
            **dict(zip(("with", "without"), _values(scores, pair, metric, resampling), strict=True)),
        )
        for metric in ("right_api", "ast_accuracy")
    ]
    compared = pd.concat(frames, ignore_index=True)
    return compared.assign(settled=settled(compared))


def claim_scores(plans: pd.DataFrame, queries: pd.DataFrame, gold: pd.DataFrame) -> pd.DataFrame:
    """Scores as `lib.evaluation.claims.evaluate` takes them: query, method, metric, value, k, persona, need."""
    scores = plans.melt(["query", "setting"], [*METRICS, "executed", "right_api"], var_name="metric")
    scores = scores.rename(columns={"setting": "method"}).assign(k=1)
    scores["persona"] = scores["query"].map(queries.set_index("query")["persona"])
    scores["need"] = scores["query"].map(gold.set_index("query")["need"])
    return scores


# ---------------------------------------------------------------- floors, choices, causes


def template_floor(desk: Desk, inputs: pd.DataFrame, gold: pd.DataFrame) -> pd.DataFrame:
    """`template_plan` of each row of `inputs`, which show tools and items, judged."""
    rows = zip(inputs["tools"], inputs["items"], strict=True)
    texts = [template_plan(desk, tools, items) for tools, items in rows]
    return score_plans(inputs.assign(text=texts), gold, desk.functions)


def guessed_apis(
    vectors: np.ndarray,
    queries: pd.DataFrame,
    gold: pd.DataFrame,
    learned: Sequence[str],
    asked: Sequence[str],
) -> pd.Series:
    """Which API a query's embedding alone says is right, by asked query.

    Args:
        vectors: embeddings of all queries, (queries, dimensions), in the order of `queries`.
        learned: queries that the classifier learns from.
        asked: queries to guess for.
    """
    place = pd.Series(np.arange(len(queries)), index=queries["query"])
    first = gold.set_index("query")["apis"].str[0][learned]
    classifier = api_classifier(vectors[place[learned]], first)
    return pd.Series(classifier.predict(vectors[place[asked]]), index=list(asked))


def classifier_floor(desk: Desk, inputs: pd.DataFrame, guesses: pd.Series, gold: pd.DataFrame) -> pd.DataFrame:
    """Plans of a guessed API, filled as `template_plan` fills it from the items shown, judged.

    Args:
        guesses: API by query.
    """
    return template_floor(desk, inputs.assign(tools=[[guesses[query]] for query in inputs["query"]]), gold)


def against_floors(
    plans: pd.DataFrame,
    floors: Mapping[str, pd.DataFrame],
    queries: pd.DataFrame,
    gold: pd.DataFrame,
    samples: int,
    seed: int,
) -> pd.DataFrame:
    """The planner's AST accuracy against each floor's in each setting that the floor has.

    Args:
        floors: judged plans by name of the floor.

    Returns:
        columns setting, floor, of_planner and of_floor (percent), difference, ci_low, ci_high, p_value, settled.
    """
    named = [part.assign(setting=f"{name}_" + part["setting"]) for name, part in floors.items()]
    scores, resampling = per_query(
        pd.concat([plans[plans["setting"].isin(WITH_CONTEXT)], *named]), queries, gold, samples, seed
    )
    rows = [(setting, name) for name, part in floors.items() for setting in part["setting"].unique()]
    pairs = [(setting, f"{name}_{setting}") for setting, name in rows]
    compared = compare(scores, pairs, "ast_accuracy", 1, resampling)
    return compared.assign(
        setting=[setting for setting, _ in rows],
        floor=[name for _, name in rows],
        of_planner=_values(scores, [a for a, _ in pairs], "ast_accuracy", resampling),
        of_floor=_values(scores, [b for _, b in pairs], "ast_accuracy", resampling),
        settled=settled(compared),
    )


def _values(scores: pd.DataFrame, settings: Sequence[str], metric: str, over: Resampling) -> np.ndarray:
    """Each setting's value over topics."""
    return mean_interval(scores[[(setting, metric, 1) for setting in settings]].to_numpy(float), over).value


def means_over_topics(plans: pd.DataFrame, by: Sequence[str], metrics: Sequence[str]) -> pd.DataFrame:
    """Values over topics of groups of plans, with intervals.

    Args:
        plans: columns query, persona, need, `by` and `metrics`.

    Returns:
        columns `by`, n, and of each metric its mean, `_low` and `_high`.
    """
    rows = []
    for key, part in plans.groupby(list(by), sort=True):
        values = part[list(metrics)].to_numpy(dtype=float)
        row = dict(zip(by, key, strict=True)) | {"n": len(part)}
        found = mean_interval(values, Resampling(part["need"].to_numpy()))
        for name, *cells in zip(metrics, *found, strict=True):
            row |= dict(zip((name, f"{name}_low", f"{name}_high"), cells, strict=True))
        rows.append(row)
    return pd.DataFrame(rows)


def failure_rows(plans: pd.DataFrame) -> pd.DataFrame:
    """`failure_shares` with intervals over topics, one row for each setting and cause.

    Args:
        plans: columns query, persona, need, setting, failure.

    Returns:
        columns setting, failure (`right` included), percent, ci_low, ci_high, n.
    """
    causes = {"": "right"} | {cause: cause for cause in CAUSES}
    marked = plans.assign(**{name: 100.0 * (plans["failure"] == cause) for cause, name in causes.items()})
    means = means_over_topics(marked, ["setting"], list(causes.values())).set_index("setting").loc[list(SETTINGS)]
    frames = [
        means[[name, f"{name}_low", f"{name}_high", "n"]].set_axis(["percent", "ci_low", "ci_high", "n"], axis=1)
        for name in causes.values()
    ]
    return pd.concat(frames, keys=causes.values(), names=["failure"]).reset_index()[
        ["setting", "failure", "percent", "ci_low", "ci_high", "n"]
    ]


def failure_shares(plans: pd.DataFrame) -> pd.DataFrame:
    """Percent of each setting's plans that are right (column "") or fail by each of `CAUSES`."""
    shares = 100 * pd.crosstab(plans["setting"], plans["failure"], normalize="index")
    return shares.reindex(index=list(SETTINGS), columns=["", *CAUSES], fill_value=0.0)


def by_needs(judged: Mapping[str, pd.DataFrame], lesson: PlannerLesson) -> pd.DataFrame:
    """Scores of each setting on the needs that a planner learns and on those kept from it, by model.

    Args:
        judged: plans from `lib.assistant.planner.score_plans`, by model.
        lesson: which needs are kept from training, and who asks about which.

    Returns:
        columns model, needs (learned, held out), setting, metric (ast_accuracy, right_api), value, ci_low, ci_high,
        n_topics, n.
    """
    need = lesson.material.gold.set_index("query")["need"]
    rows = []
    for model, plans in judged.items():
        about = plans["query"].map(need)
        where = about.isin(lesson.held_out).map({False: "learned", True: "held out"})
        for (needs, setting), part in plans.groupby([where, "setting"], sort=False):
            topics = about[part.index].to_numpy()
            for metric in ("ast_accuracy", "right_api"):
                found = mean_interval(part[metric].to_numpy(dtype=float), Resampling(topics))
                rows.append((model, needs, setting, metric, *found, len(set(topics)), len(part)))
    columns = ["model", "needs", "setting", "metric", "value", "ci_low", "ci_high", "n_topics", "n"]
    return pd.DataFrame(rows, columns=columns)


# ---------------------------------------------------------------- plans of two calls


def two_call_plans(plans: pd.DataFrame, gold: pd.DataFrame, functions: Sequence[dict]) -> pd.DataFrame:
    """Plans of queries that need two calls, with the columns pair (two calls were written, bool) and first_right (the
    first line is the first call of a right plan, bool)."""
    right = right_plans(gold)
    return plans.assign(
        pair=[len(api_names(text)) == 2 for text in plans["text"]],
        first_right=[
            any(ast_match(text.split("\n")[0], json.loads(plan.answers)[:1], functions) for plan in right[query])
            for query, text in zip(plans["query"], plans["text"], strict=True)
        ],
    )


def variants(others: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """All variants of the planner in one table: columns variant, n, and ast_accuracy and right_api with their `_low`
    and `_high`.

    Args:
        others: judged plans by an ending that tells their variant from the setting.
    """
    named = [plans.assign(variant=plans["setting"] + ending) for ending, plans in others.items() if len(plans)]
    rows = pd.DataFrame(columns=["variant", "n"])
    return pd.concat([rows, *(means_over_topics(part, ["variant"], ["ast_accuracy", "right_api"]) for part in named)])
